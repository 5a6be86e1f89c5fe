"""Microseconds a character of estimators in the compiled engine, with a Kalman step, beside truncated BPTT of PyTorch
with a plain one and with Adam: a run of each in turn, the median of some rounds.

`python benchmarks/estimators.py --units 20,64,128,256,512,1024 --cells LSTM --estimators artbp:16,bptt:15`. Ours on one
thread, and on all cores where a step is shared; see docs/engines.md and docs/blocks.md.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import nobacktrack as nbt
from nobacktrack import files
from nobacktrack.engines import begin
from nobacktrack.engines.threads import VARIABLE
from nobacktrack.experiments import peers
from nobacktrack.experiments.bench import fitting, seconds
from nobacktrack.readers.names import estimator_of
from nobacktrack.streams.items import Series

CELLS: dict[str, tuple[Any, str]] = {
    "LSTM": (nbt.LSTM, "LSTM"),
    "GRU": (nbt.GRU, "GRU"),
    "leaky": (nbt.LeakyRNN, "RNN"),
}
# of which several threads take a step together
SHARED = ("bptt", "artbp", "block", "sliding", "nobacktrack", "uoro", "diagonal")
UNBIASED = "block:15:15:1,block:15:15:2,block:60:15:1,block:60:15:2"
ESTIMATORS = f"bptt:15,artbp:16,{UNBIASED},nobacktrack,nobacktrack:10,diagonal:1:8,snap1"


def ours(system: Any, name: str, threads: int) -> peers.Contender:
    """The compiled loop."""
    os.environ[VARIABLE] = str(threads)
    learner = nbt.Learner(system, estimator_of(name), nbt.Kalman())
    session = begin(learner, learner.init(0), "fused", strict=True)
    return lambda stream: session.take(Series(stream))


def contests(given: argparse.Namespace, cell: str, units: int) -> Iterator[tuple[str, Callable[[], peers.Contender]]]:
    """All that is run at one size."""
    kind, name = CELLS[cell]
    system, threads = kind(units=units, symbols=given.symbols), os.cpu_count() or 1
    for estimator in given.estimators.split(","):
        for count in (1, threads) if estimator.split(":")[0] in SHARED else (1,):
            label = estimator if count == 1 else f"{estimator}, {count} threads"
            yield label, lambda estimator=estimator, count=count: ours(system, estimator, count)
    for optimiser in ("SGD", "Adam") if peers.installed("torch") else ():
        for count in (1, threads):
            options: dict[str, Any] = {"cell": name, "optimiser": optimiser, "threads": count}
            label = f"PyTorch, {optimiser}" if count == 1 else f"PyTorch, {optimiser}, {count} threads"
            yield label, lambda options=options: peers.torch_bptt(units, given.symbols, **options)


def measured(given: argparse.Namespace, cell: str, units: int) -> dict[str, list[float]]:
    """All rounds of each contender."""
    stream = np.random.default_rng(0).integers(0, given.symbols, 100_000).astype(np.int32)
    runs = {}
    for name, make in contests(given, cell, units):
        train = make()
        runs[name] = train, stream[: fitting(train, stream, given.seconds)]
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(given.rounds):
        for name, (train, block) in runs.items():
            times[name].append(seconds(train, block) / len(block) * 1e6)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--units", default="20,64,128,256,512,1024")
    parser.add_argument("--cells", default="LSTM,leaky")
    parser.add_argument("--estimators", default=ESTIMATORS)
    parser.add_argument("--symbols", type=int, default=80)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each run")
    parser.add_argument("--out", type=Path, default=Path("out/estimators.json"))
    given = parser.parse_args()
    units, results = [int(size) for size in given.units.split(",")], {}
    for cell in given.cells.split(","):
        found = {size: measured(given, cell, size) for size in units}
        results[cell] = found
        given.out.parent.mkdir(parents=True, exist_ok=True)
        files.write(given.out, json.dumps(results))
        table = Table("us a character", *map(str, units), title=f"{cell}, {given.symbols} symbols")
        for name in found[units[0]]:
            table.add_row(name, *(f"{np.median(found[size][name]):.3g}" for size in units))
        Console(width=140).print(table)


if __name__ == "__main__":
    main()
