"""Compiled loops on disk."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from nobacktrack import compiled, files


def test_a_cache_that_cannot_be_written_is_said_and_not_used(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    code = "import nobacktrack.engines.fused.loops.chunk as loop; print(type(loop.predict._cache).__name__)"
    environment = {**os.environ, "NOBACKTRACK_CACHE": str(blocked)}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert run.stdout.strip() == "NullCache", run.stderr
    assert "NOBACKTRACK_CACHE" in run.stderr


@pytest.mark.slow
def test_the_process_that_compiles_runs_the_same_code_as_all_others(tmp_path):
    """From an empty cache: kernels as they are compiled alone differ in last bits from their copies in the loop."""
    script = (
        "import hashlib, nobacktrack as nbt\n"
        "system = nbt.LeakyRNN(units=20, symbols=3)\n"
        "learner = nbt.Learner(system, nbt.NoBackTrack(norms=nbt.GramianNorms()), nbt.Kalman())\n"
        "state, info = learner.run(learner.init(0), nbt.streams.anbn(1, 32, length=2000, seed=0), engine='fused')\n"
        "print(hashlib.sha256(info.loss.tobytes()).hexdigest())"
    )
    found = [
        subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | {"NOBACKTRACK_CACHE": str(tmp_path)},
            check=True,
            capture_output=True,
            text=True,
        )
        for _ in range(2)
    ]
    assert "compiling run_nobacktrack" in found[0].stderr
    assert "compiling" not in found[1].stderr
    assert found[0].stdout == found[1].stdout


def test_loops_of_sources_that_nobody_has_used_for_a_month_are_removed(tmp_path):
    ages = {"fused-old": 2.0, "fused-new": 0.5, "hmm-old": 2.0}  # months
    for name, age in ages.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "loop.nbi").write_text("")
        then = time.time() - age * compiled.MONTH
        os.utime(tmp_path / name, (then, then))
    files.remove_unused(tmp_path, "fused-*", compiled.MONTH)
    assert sorted(found.name for found in tmp_path.iterdir()) == ["fused-new", "hmm-old"]
