"""Both engines side by side: `python benchmarks/equality.py`, with a number of windows, or `bits`.

64-step windows from states along a run of the reference, then 10,000 steps with parameters that stay (rate 0, or a
prior so large that nothing moves), all in float64; the largest relative difference of any array. `bits`: learning
runs of both, in float32, which cannot agree step by step: their mean bits per character.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

import nobacktrack as nbt
from nobacktrack.checks import check_engines

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from tables import FUSED_CELLS, FUSED_ESTIMATORS, FUSED_UPDATES

jax.config.update("jax_enable_x64", True)

STILL = {"prior 1e12": nbt.Kalman(prior=1e12), "rate 0": nbt.SGD(0.0)}
WINDOW, LONG = 64, 10_000
TASKS = 30  # of a process: the programs of hundreds are more than one may map


class Case(NamedTuple):
    """A combination by its names, and the windows that it is compared on."""

    cell: str
    estimator: str
    update: str
    windows: int
    length: int

    def compare(self) -> float:
        """The largest relative difference of any array at the end of a window."""
        update: Any = (FUSED_UPDATES | STILL)[self.update]
        learner = nbt.Learner(FUSED_CELLS[self.cell](units=8, symbols=3), FUSED_ESTIMATORS[self.estimator], update)
        stream = np.asarray(nbt.streams.anbn(1, 8, length=self.windows * self.length, seed=0), np.int32)
        tolerance = 1e-10 if self.length == WINDOW else 1e-9
        return check_engines(learner, learner.init(0, dtype="float64"), stream, self.length, tolerance=tolerance)


def cases(windows: int) -> Iterator[Case]:
    for names in itertools.product(FUSED_CELLS, FUSED_ESTIMATORS, FUSED_UPDATES):
        yield Case(*names, windows, WINDOW)
    for names in itertools.product(FUSED_CELLS, FUSED_ESTIMATORS, STILL):
        yield Case(*names, 1, LONG)


def main(windows: int = 50) -> None:
    worst = {WINDOW: 0.0, LONG: 0.0}
    chosen = list(cases(windows))
    with multiprocessing.get_context("spawn").Pool(os.cpu_count(), maxtasksperchild=TASKS) as pool:
        for case, found in zip(chosen, pool.imap(Case.compare, chosen), strict=True):
            worst[case.length] = max(worst[case.length], found)
            names = f"{case.cell:14} {case.estimator:18} {case.update:18}"
            print(f"{names} {case.windows} x {case.length} steps: {found:.1e}", flush=True)
    print(f"largest: {worst[WINDOW]:.1e} over windows, {worst[LONG]:.1e} over {LONG} steps")


def bits(characters: int = 300_000, seeds: int = 8) -> None:
    """Bits per character over the last tenth of a^n b^n, of both engines."""
    learner = nbt.Learner(nbt.LeakyRNN(units=20, symbols=3), nbt.NoBackTrack(rank=10), nbt.Kalman())
    states = [learner.init(seed) for seed in range(seeds)]
    streams = [nbt.streams.anbn(1, 32, length=characters, seed=seed) for seed in range(seeds)]
    for engine in ("jax", "fused"):
        runs = nbt.run_many(learner, states, streams, engine=engine)
        found = np.array([info.bits[-characters // 10 :].mean() for _, info in runs])
        print(f"{engine:6} {found.mean():.4f} ({found.std(ddof=1) / seeds**0.5:.4f})", np.round(found, 4), flush=True)


if __name__ == "__main__":
    bits() if sys.argv[1:] == ["bits"] else main(*(int(argument) for argument in sys.argv[1:]))
