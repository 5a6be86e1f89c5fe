"""Killed, told to stop, on a full disk: nothing is lost, nothing is broken. In processes of their own."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

import nobacktrack as nbt
from experiments import faults
from nobacktrack import checkpoint

COMMAND = [sys.executable, "-m", "nobacktrack"]


@pytest.mark.parametrize("how", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_a_run_that_was_killed_ends_where_one_ends_that_was_not(how):
    options = ["--units", "8", "--estimator", "nobacktrack:4", "--checkpoint-every", "2000"]
    found = faults.run(1_000_000, 2, how, 4.0, options)
    assert found.identical
    assert found.broken == 0
    assert found.kills >= 1


def test_a_pipe_that_is_told_to_stop_loses_nothing(tmp_path):
    """All that was written before the signal is learned, and all after it by the next run: as if there were one."""
    raw = b"abba" * 3000
    arguments = ["train", "-", "--alphabet", "growing", "--units", "4", "--checkpoint", str(tmp_path / "a"), "--json"]
    process = subprocess.Popen([*COMMAND, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(raw[:7001])
    process.stdin.flush()
    deadline = time.monotonic() + 120
    while not (tmp_path / ".a.lock").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1)
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert json.loads(said)["stopped_by"] == "SIGTERM"
    assert json.loads(said)["characters"] == 7001
    more = subprocess.run([*COMMAND, "resume", str(tmp_path / "a"), "--json"], input=raw[7001:], capture_output=True)
    assert json.loads(more.stdout)["characters"] == len(raw)
    arguments[arguments.index(str(tmp_path / "a"))] = str(tmp_path / "b")
    subprocess.run([*COMMAND, *arguments], input=raw, check=True, capture_output=True)
    assert faults._same(tmp_path / "a", tmp_path / "b")


@pytest.mark.skipif(os.name != "posix", reason="a limit on the size of files")
def test_a_full_disk_leaves_the_last_checkpoint(text, tmp_path):
    saved = tmp_path / "a"
    learner = nbt.Learner(nbt.RNN(units=3, symbols=3), nbt.NoBackTrack(), nbt.Kalman())
    nbt.save(saved, learner, learner.init(0))
    before = saved.read_bytes()
    train = " ".join(
        [*COMMAND, "train", str(text), "--units", "40", "--checkpoint", str(saved), "--overwrite", "--json"]
    )
    run = subprocess.run(["bash", "-c", f"ulimit -f 16; {train}"], capture_output=True, text=True)
    assert run.returncode == 2, run.stderr
    assert len(run.stderr.strip().splitlines()) == 1
    assert "too large" in run.stderr
    assert saved.read_bytes() == before
    assert checkpoint.inspect(saved)["t"] == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [".a.lock", "a", "text.txt"]


def test_help_does_not_import_jax():
    script = "import sys; from nobacktrack.cli import app; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0
    help_ = subprocess.run([*COMMAND, "train", "--help"], capture_output=True, text=True, check=True)
    assert "nobacktrack[:rank]" in " ".join(help_.stdout.split())


def test_what_is_compiled_is_kept_and_gives_the_same_bits(text, tmp_path):
    env = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    found = []
    for name in ("fresh", "kept"):
        command = ["train", text, "--units", 4, "--engine", "jax", "--checkpoint", tmp_path / name, "--json"]
        subprocess.run([*COMMAND, *map(str, command)], check=True, env=env | {"NOBACKTRACK_CACHE": str(tmp_path)})
        found.append({path.name for path in tmp_path.glob("nobacktrack/jax/*/*-cache")})
    assert len(found[0]) > 10
    assert found[0] == found[1]
    assert nbt.checks.same_bits(nbt.load(tmp_path / "fresh").state, nbt.load(tmp_path / "kept").state)
