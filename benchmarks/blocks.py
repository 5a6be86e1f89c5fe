"""Microseconds a character of NoBackTrack over blocks beside truncated BPTT, ours and PyTorch's, a run of each in turn.

`python benchmarks/blocks.py [units,units,...]`. See docs/blocks.md.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import nobacktrack as nbt
from nobacktrack.engines import begin
from nobacktrack.experiments import peers
from nobacktrack.experiments.bench import fitting, seconds
from nobacktrack.streams.items import Series

SYMBOLS, ROUNDS = 65, 5
UNITS = (20, 64, 128, 256, 512, 1024)
CELLS: dict[str, tuple[Any, str]] = {"LSTM": (nbt.LSTM, "LSTM"), "leaky RNN": (nbt.LeakyRNN, "RNN")}


def ours(system: Any, estimator: Any) -> peers.Contender:
    """The compiled loop, with a Kalman step at every block."""
    learner = nbt.Learner(system, estimator, nbt.Kalman())
    session = begin(learner, learner.init(0), "fused", strict=True)
    return lambda stream: session.take(Series(stream))


def contests(cell: str, units: int) -> Iterator[tuple[str, Callable[[], peers.Contender]]]:
    """All that is run at one size."""
    system, name = CELLS[cell][0](units=units, symbols=SYMBOLS), CELLS[cell][1]
    yield "bptt:15", lambda: ours(system, nbt.TruncatedBPTT(15))
    for depth in (15, 60):
        for rank in (1, 2):
            estimator = nbt.BlockNoBackTrack(depth=depth, rank=rank)
            yield f"block:{depth}:15:{rank}", lambda estimator=estimator: ours(system, estimator)
    if peers.installed("torch"):
        for threads in (1, 2):
            name_of = f"PyTorch, {threads} thread{'s' if threads > 1 else ''}"
            yield name_of, lambda threads=threads: peers.torch_bptt(units, SYMBOLS, cell=name, threads=threads)


def measured(cell: str, units: int) -> dict[str, float]:
    """The median over the rounds of each contender."""
    stream = np.random.default_rng(0).integers(0, SYMBOLS, 100_000).astype(np.int32)
    runs = {}
    for name, make in contests(cell, units):
        train = make()
        runs[name] = train, stream[: fitting(train, stream)]
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, (train, block) in runs.items():
            times[name].append(seconds(train, block) / len(block) * 1e6)
    return {name: float(np.median(found)) for name, found in times.items()}


def main(units: tuple[int, ...] = UNITS) -> None:
    console = Console(width=120)
    for cell in CELLS:
        found = {size: measured(cell, size) for size in units}
        table = Table("us a character", *map(str, units), title=f"{cell}, {SYMBOLS} symbols; x bptt:15")
        for name in found[units[0]]:
            cells = (f"{found[size][name]:.3g} ({found[size][name] / found[size]['bptt:15']:.2g})" for size in units)
            table.add_row(name, *cells)
        console.print(table)


if __name__ == "__main__":
    main(*(tuple(int(size) for size in sizes.split(",")) for sizes in sys.argv[1:2]))
