"""The mean of N independent estimates of a gradient goes to the exact one as 1/sqrt N, for unbiased estimators only.
See docs/estimators.md.

    python -m experiments.averaging
"""

from __future__ import annotations

import argparse
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

import nobacktrack as nbt
from nobacktrack import checks

ESTIMATORS = {
    "UORO": nbt.UORO(),
    "NoBackTrack": nbt.NoBackTrack(),
    "DiagonalPlusRankOne": nbt.DiagonalPlusRankOne(),
    "DiagonalPlusRankOne(lag=4)": nbt.DiagonalPlusRankOne(lag=4),
    "KFRTRL": nbt.KFRTRL(),
    "KroneckerSum(rank=4)": nbt.KroneckerSum(rank=4),
    "SnAp1": nbt.SnAp1(),
}
COUNTS = (1, 4, 16, 64, 256, 1024)
UNITS, SYMBOLS, STEPS = 4, 4, 8
BATCH = 64  # runs at a time


def errors(estimator: Any, runs: int, seed: int) -> np.ndarray:
    """|mean of N estimates - exact| / |exact| for each N, of the gradient summed over a sequence; averaged over the
    groups of N that `runs` runs give.
    """
    system = nbt.RNN(units=UNITS, symbols=SYMBOLS, activation="tanh")
    learner = nbt.Learner(system, estimator, nbt.SGD(0.0))
    state = learner.init(seed, dtype=jnp.float64)
    keys = jax.random.split(jax.random.key(seed + 1), 3)
    theta, phi = (
        jax.random.normal(key, leaf.shape, jnp.float64) / UNITS**0.5
        for key, leaf in zip(keys, (state.params.theta, state.params.phi), strict=False)
    )
    state = state._replace(params=state.params._replace(theta=theta, phi=phi))
    stream = jax.random.randint(keys[2], (STEPS,), 0, SYMBOLS)
    exact = np.asarray(checks.unrolled_gradient(learner, state, stream).theta).ravel()

    def one(number: jax.Array) -> jax.Array:
        key = jnp.stack([number, jnp.full_like(number, seed)])
        return checks.summed_gradients(learner, state._replace(key=key), stream).theta.ravel()

    several = jax.jit(lambda numbers: jax.lax.map(one, numbers, batch_size=BATCH))
    found = np.asarray(several(jnp.arange(runs, dtype=jnp.uint32)))
    return np.array([_error(found, exact, count) for count in COUNTS])


def _error(found: np.ndarray, exact: np.ndarray, count: int) -> float:
    means = found[: len(found) // count * count].reshape(-1, count, found.shape[1]).mean(axis=1)
    return float(np.mean(np.linalg.norm(means - exact[None], axis=1)) / np.linalg.norm(exact))


def main() -> None:
    """Print the table: mean and standard error over seeds, and the slope of log error against log N."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=4096)
    parser.add_argument("--seeds", type=int, default=8)
    given = parser.parse_args()
    table = Table("estimator", *(f"N = {count}" for count in COUNTS), "slope")
    with jax.enable_x64(True):
        for name, estimator in ESTIMATORS.items():
            found = np.array([errors(estimator, given.runs, seed) for seed in range(given.seeds)])
            mean, error = found.mean(axis=0), found.std(axis=0, ddof=1) / given.seeds**0.5
            slope = np.polyfit(np.log(COUNTS), np.log(mean), 1)[0]
            table.add_row(name, *(f"{m:.3f} ({e:.3f})" for m, e in zip(mean, error, strict=True)), f"{slope:.2f}")
    console = Console()
    console.width = max(console.width, 130)
    console.print(table)


if __name__ == "__main__":
    main()
