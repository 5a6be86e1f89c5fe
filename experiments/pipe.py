"""Fifty megabytes through a pipe: resident memory, rate and loss of `nobacktrack train -`, as in

yes "$(printf 'ab%.0s' {1..10})" | head -c 50M | nobacktrack train -

python -m experiments.pipe
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import matplotlib
import numpy as np
import psutil

LINE = b"ab" * 10 + b"\n"


def run(megabytes: int, options: list[str], log: Path) -> tuple[dict[str, object], np.ndarray]:
    """The summary of the run, and (seconds, megabytes resident) twice a second."""
    paper = ["--cell", "leaky", "--units", "20", "--estimator", "nobacktrack"]  # where the options name no other
    command = [sys.executable, "-m", "nobacktrack", "train", "-", "--json", "--log", str(log), *paper, *options]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    left, start, seen = megabytes << 20, time.monotonic(), []
    piece, watched = LINE * (65520 // len(LINE)), psutil.Process(process.pid)
    while left > 0:
        process.stdin.write(piece[:left])
        left -= len(piece)
        now = time.monotonic() - start
        if not seen or now - seen[-1][0] >= 0.5:
            seen.append((now, watched.memory_info().rss / 2**20))
    process.stdin.close()
    summary = json.loads(process.stdout.read())
    if process.wait():
        raise RuntimeError(f"exit code {process.returncode}")
    return summary, np.array(seen)


def figure(seen: np.ndarray, log: Path, path: Path) -> None:
    """Memory, and bits per character, against the characters that came."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    records = [json.loads(line) for line in log.read_text().splitlines()]
    fig, (above, below) = plt.subplots(2, 1, figsize=(8, 5), sharex=True, layout="constrained")
    above.plot(seen[:, 0], seen[:, 1], color="#0072B2")
    above.set(ylabel="resident memory, MiB", ylim=(0, 1.2 * seen[:, 1].max()))
    offset = seen[-1, 0] - records[-1]["seconds"]  # the log begins when the program has started
    times = [record["seconds"] + offset for record in records]
    below.plot(times, [record["recent_bits"] for record in records], color="#D55E00", label="recent")
    below.plot(times, [record["bits"] for record in records], color="#009E73", label="since the beginning")
    below.set(yscale="log", ylabel="bits per byte", xlabel="seconds")
    below.legend(frameon=False)
    for axes in (above, below):
        axes.grid(alpha=0.25)
    path.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(path, dpi=130)
    plt.close(fig)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=50)
    parser.add_argument("--out", type=Path, default=Path("out/pipe.png"))
    chosen, options = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.jsonl"
        summary, seen = run(chosen.megabytes, options, log)
        figure(seen, log, chosen.out)
    warm = seen[len(seen) // 5 :, 1]
    memory = {"resident_mib_after_a_fifth": round(warm[0], 1), "most": round(warm.max(), 1), "last": round(warm[-1], 1)}
    sys.stdout.write(json.dumps({**summary, **memory}) + "\n")


if __name__ == "__main__":
    main()
