"""Flops of one online step per parameter, by the compiler's own count: `python benchmarks/flops.py`.

RTRL is lowered only, never run at the larger sizes.
"""

import jax
import jax.numpy as jnp

import nobacktrack as nbt

UNITS = (32, 64, 128, 256, 512)


def row(estimator, update, units: int) -> tuple[float, float]:
    """Flops of a step per parameter, and as a multiple of running the network alone."""
    learner = nbt.Learner(nbt.RNN(units=units, symbols=3), estimator, update)
    state = jax.eval_shape(lambda: learner.init(0))
    return nbt.checks.step_flops(learner, state, jax.ShapeDtypeStruct((), jnp.int32))


def main() -> None:
    """Print a table in Markdown."""
    learners = [
        ("NoBackTrack, rank 1", nbt.NoBackTrack(), nbt.SGD(0.1)),
        ("NoBackTrack, rank 10", nbt.NoBackTrack(rank=10), nbt.SGD(0.1)),
        ("split in 10 blocks", nbt.SplitNoBackTrack(blocks=10), nbt.SGD(0.1)),
        ("NoBackTrack, rank 1, Kalman", nbt.NoBackTrack(), nbt.Kalman()),
        ("NoBackTrack, rank 10, Kalman", nbt.NoBackTrack(rank=10), nbt.Kalman()),
        ("NoBackTrack, rank 1, Kalman, foresight norms", nbt.NoBackTrack(norms=nbt.ForesightNorms()), nbt.Kalman()),
        ("RTRL", nbt.RTRL(), nbt.SGD(0.1)),
    ]
    print("| flops per parameter (times the network alone) | " + " | ".join(f"n = {n}" for n in UNITS) + " |")
    print("|---|" + "---:|" * len(UNITS))
    for name, estimator, update in learners:
        cells = [row(estimator, update, units) for units in UNITS]
        print(f"| {name} | " + " | ".join(f"{each:,.1f} ({times:,.1f})" for each, times in cells) + " |")


if __name__ == "__main__":
    main()
