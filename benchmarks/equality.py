"""Both engines side by side: `python benchmarks/equality.py`, with a number of windows, or `bits`.

64-step windows from states along a run of the reference, then 10,000 steps with parameters that stay (rate 0, or a
prior so large that nothing moves), all in float64; the largest relative difference of any array. `bits`: learning
runs of both, in float32, which cannot agree step by step: their mean bits per character.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import jax
import numpy as np

import nobacktrack as nbt
from nobacktrack.checks import check_engines

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from tables import FUSED_CELLS, FUSED_ESTIMATORS, FUSED_UPDATES

jax.config.update("jax_enable_x64", True)

STILL = (nbt.Kalman(prior=1e12), nbt.SGD(0.0))
WINDOW, LONG = 64, 10_000


def main(windows: int = 50) -> None:
    stream = np.asarray(nbt.streams.anbn(1, 8, length=max(LONG, windows * WINDOW), seed=0), np.int32)
    worst = {"windows": 0.0, "long": 0.0}
    parts = FUSED_CELLS, FUSED_ESTIMATORS, FUSED_UPDATES
    for cell, estimator, update in itertools.product(*(part.values() for part in parts)):
        learner = nbt.Learner(cell(units=8, symbols=3), estimator, update)
        found = check_engines(learner, learner.init(0, dtype="float64"), stream[: windows * WINDOW], WINDOW)
        worst["windows"] = max(worst["windows"], found)
        jax.clear_caches()  # hundreds of programs are more than a process may map
        print(
            f"{cell.__name__:16} {estimator!r:45} {update!r:30} {windows} windows of {WINDOW}: {found:.1e}", flush=True
        )
    for cell, estimator, update in itertools.product(FUSED_CELLS.values(), FUSED_ESTIMATORS.values(), STILL):
        learner = nbt.Learner(cell(units=8, symbols=3), estimator, update)
        found = check_engines(learner, learner.init(0, dtype="float64"), stream[:LONG], LONG, tolerance=1e-9)
        worst["long"] = max(worst["long"], found)
        jax.clear_caches()
        print(f"{cell.__name__:16} {estimator!r:45} {update!r:30} {LONG} steps: {found:.1e}", flush=True)
    print(f"largest: {worst['windows']:.1e} over windows, {worst['long']:.1e} over {LONG} steps")


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
