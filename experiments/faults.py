"""Kill a training run again and again, go on each time, and see whether it ends where one ends that was left alone.

python -m experiments.faults --kills 50
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nobacktrack import checkpoint, streams
from nobacktrack.checks import same_bits


class Result(NamedTuple):
    """What came of it: how often it was killed, where, and whether anything was lost."""

    signal: str
    kills: int
    broken: int  # checkpoints that could not be read after a kill
    before_first: int  # kills before there was a checkpoint
    identical: bool
    resumed_at: list[int]


def run(length: int, kills: int, how: int, longest: float, options: list[str], seed: int = 0) -> Result:
    """A run on a file, killed at random moments, against one that was not."""
    draws = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        text, kept, whole = (Path(folder) / name for name in ("text", "kept.nbt", "whole.nbt"))
        text.write_text("".join(np.array(list(streams.ANBN_ALPHABET))[streams.anbn(1, 32, length=length, seed=0)]))
        begin = ["train", str(text), *options, "--checkpoint"]
        _wait(_start([*begin, str(whole)]))
        broken = before = done = 0
        resumed = []
        process = _start([*begin, str(kept)])
        while done < kills:
            if _over(process, draws.uniform(0, longest)):
                break
            process.send_signal(how)
            process.wait()
            done += 1
            if not kept.exists():
                before += 1
                process = _start([*begin, str(kept)])
                continue
            try:
                resumed.append(checkpoint.inspect(kept)["t"])
            except ValueError:
                broken += 1
                break
            process = _start(["resume", str(kept), *options[-2:]])
        _wait(process)
        return Result(signal.Signals(how).name, done, broken, before, _same(kept, whole), resumed)


def _start(arguments: list[str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "nobacktrack", *arguments, "--json"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def _over(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Whether a process has ended by itself before so many seconds."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            return True
        time.sleep(0.001)
    return False


def _wait(process: subprocess.Popen[bytes]) -> None:
    if process.wait():
        raise RuntimeError(f"{' '.join(map(str, process.args))}: exit code {process.returncode}")  # type: ignore[arg-type]


def _same(one: Path, other: Path) -> bool:
    """Whether two checkpoints hold the same state, bit for bit."""
    return same_bits(checkpoint.load(one).state, checkpoint.load(other).state)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--length", type=int, default=9_000_000)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--longest", type=float, default=6.0, help="seconds until a kill, at most")
    parser.add_argument("--signal", choices=["SIGKILL", "SIGTERM"], nargs="+", default=["SIGKILL", "SIGTERM"])
    chosen = parser.parse_args()
    options = ["--units", "100", "--checkpoint-every", "20000"]
    for name in chosen.signal:
        found = run(chosen.length, chosen.kills, signal.Signals[name], chosen.longest, options)
        sys.stdout.write(json.dumps(found._asdict()) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
