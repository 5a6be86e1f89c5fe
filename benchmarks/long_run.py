"""A long run on a^n b^n in constant memory: `python benchmarks/long_run.py [characters]`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import numpy as np
import psutil

import nobacktrack as nbt

PIECE = 1_000_000


def pieces(characters: int) -> Iterator[np.ndarray]:
    """The stream, a million characters at a time."""
    for seed in range(-(-characters // PIECE)):
        yield np.asarray(nbt.streams.anbn(1, 32, length=PIECE, seed=seed), np.int32)


def main(characters: int = 100_000_000) -> None:
    learner = nbt.Learner(nbt.LeakyRNN(units=20, symbols=3), nbt.NoBackTrack(), nbt.Kalman())
    began, process, shown = time.perf_counter(), psutil.Process(), 0
    last: list[tuple[float, int]] = []  # the sum and the number of the losses of each chunk of the last tenth
    for _state, info in learner.run(learner.init(0), pieces(characters), chunk=1 << 16):
        if info.t > 0.9 * characters:
            last.append((float(np.sum(info.bits)), len(info.bits)))
        if info.t >= shown:
            seconds, size = time.perf_counter() - began, process.memory_info().rss / 1e6
            print(
                f"{info.t:>11,} characters  {seconds:7.1f} s  {size:6.1f} MB  {info.recent_bits:.4f} bits", flush=True
            )
            shown += characters // 10
    seconds, size = time.perf_counter() - began, process.memory_info().rss / 1e6
    print(f"{characters:,} characters in {seconds:.1f} s: {seconds / characters * 1e6:.2f} us each; {size:.1f} MB")
    print(f"{np.divide(*np.sum(last, axis=0)):.4f} bits per character over the last tenth; entropy 0.1429")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
