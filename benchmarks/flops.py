"""Flops of one online step per parameter, by the compiler's own count: `python benchmarks/flops.py [systems]`.

Steps are lowered only, never run at these sizes.
"""

import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

import nobacktrack as nbt

UNITS = (32, 64, 128, 256, 512)
EDGES = 10

Row = tuple[str, Callable[[int], nbt.Learner]]


def estimators() -> list[Row]:
    """Estimators and updates on an RNN of n units and 3 symbols."""
    parts = [
        ("NoBackTrack, rank 1", nbt.NoBackTrack(), nbt.SGD(0.1)),
        ("NoBackTrack, rank 10", nbt.NoBackTrack(rank=10), nbt.SGD(0.1)),
        ("split in 10 blocks", nbt.SplitNoBackTrack(blocks=10), nbt.SGD(0.1)),
        ("NoBackTrack, rank 1, Kalman", nbt.NoBackTrack(), nbt.Kalman()),
        ("NoBackTrack, rank 10, Kalman", nbt.NoBackTrack(rank=10), nbt.Kalman()),
        ("NoBackTrack, rank 1, Kalman, foresight norms", nbt.NoBackTrack(norms=nbt.ForesightNorms()), nbt.Kalman()),
        ("RTRL", nbt.RTRL(), nbt.SGD(0.1)),
    ]
    return [
        (name, lambda n, estimator=estimator, update=update: nbt.Learner(cell(nbt.RNN, n), estimator, update))
        for name, estimator, update in parts
    ]


def systems() -> list[Row]:
    """Systems of n units under NoBackTrack of rank 1 and Kalman."""
    made: list[tuple[str, Callable[[int], Any]]] = [
        ("RNN", lambda n: cell(nbt.RNN, n)),
        ("leaky RNN", lambda n: cell(nbt.LeakyRNN, n)),
        ("leaky RNN, learned alpha", lambda n: cell(nbt.LearnedLeakyRNN, n)),
        ("GRU", lambda n: cell(nbt.GRU, n)),
        ("LSTM", lambda n: cell(nbt.LSTM, n)),
        ("three layers of n RNN units", lambda n: nbt.Stack([cell(nbt.RNN, n)] * 3)),
        (f"8 n RNN units, {EDGES} edges into each", lambda n: cell(nbt.RNN, 8 * n, graph=ring(8 * n))),
    ]
    return [(name, lambda n, make=make: nbt.Learner(make(n), nbt.NoBackTrack(), nbt.Kalman())) for name, make in made]


def cell(kind: Any, units: int, **options: Any) -> Any:
    return kind(units=units, symbols=3, **options)


def ring(units: int) -> list[tuple[int, int]]:
    return [((i - k) % units, i) for i in range(units) for k in range(1, EDGES + 1)]


def flops(learner: nbt.Learner) -> tuple[float, float]:
    """Flops of a step per parameter, and as a multiple of running the network alone."""
    state = jax.eval_shape(lambda: learner.init(0))
    return nbt.checks.step_flops(learner, state, jax.ShapeDtypeStruct((), jnp.int32))


def main() -> None:
    """Print a table in Markdown."""
    print("| flops per parameter (times the network alone) | " + " | ".join(f"n = {n}" for n in UNITS) + " |")
    print("|---|" + "---:|" * len(UNITS))
    for name, make in systems() if "systems" in sys.argv[1:] else estimators():
        cells = [flops(make(units)) for units in UNITS]
        print(f"| {name} | " + " | ".join(f"{each:,.1f} ({times:,.1f})" for each, times in cells) + " |")


if __name__ == "__main__":
    main()
