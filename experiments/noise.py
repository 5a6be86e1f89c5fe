"""How noisy the rank-one gradient is under each norm: `python -m experiments.noise`. The second table of
docs/kalman.md.

A leaky RNN is trained on a^n b^n for 300,000 characters with the default norms. Then its parameters and its filter
are held, and over 3,000 more characters the gradients of 24 copies of an estimator, with signs of their own, are
compared with the exact ones of RTRL: E|g~ - g|^2 / E|g|^2 in the metric (J + Lambda)^-1 in which theta moves, after
the first 500.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

import nobacktrack as nbt
from experiments.kalman import NORMS, RANGE
from nobacktrack.influence.norms import Norms
from nobacktrack.protocol import Point, State

SEEDS, COPIES, STEPS, BURN_IN = (0, 1, 2), 24, 3000, 500
SYSTEM = nbt.LeakyRNN(units=20, symbols=3)


def gradients(learner: nbt.Learner, state: State, symbols: np.ndarray) -> jax.Array:
    """dl/dtheta at each step, parameters and filter being held."""
    influence = learner.estimator.init(SYSTEM, Point(state.params, state.h, state.params.fixed.x))

    def step(state: State, y: jax.Array) -> tuple[State, jax.Array]:
        _, evidence, influence, _ = learner.differentiate(state, y)
        state = learner.advance_unchecked(state._replace(influence=influence), y, learner.draw(state, state.t))
        return state, evidence.theta.gradient

    return jax.lax.scan(step, state._replace(influence=influence), jnp.asarray(symbols))[1]


def noise(norms: Norms, state: State, symbols: np.ndarray, exact: jax.Array) -> float:
    """E|g~ - g|^2 / E|g|^2."""
    learner = nbt.Learner(SYSTEM, nbt.NoBackTrack(norms=norms), nbt.Kalman())
    norm2 = jax.vmap(nbt.Kalman().metric_of(state.update.theta).norm2)

    def copy(seed: jax.Array) -> jax.Array:
        key = jnp.stack([seed, jnp.zeros_like(seed)])
        return jnp.mean(norm2((gradients(learner, state._replace(key=key), symbols) - exact)[BURN_IN:]))

    errors = jax.jit(jax.vmap(copy))(jnp.arange(COPIES, dtype=jnp.uint32))
    return float(jnp.mean(errors) / jnp.mean(norm2(exact[BURN_IN:])))


def main() -> None:
    """Print the table, a column a seed."""
    results: dict[str, list[float]] = {name: [] for name in NORMS}
    for seed in SEEDS:
        learner = nbt.Learner(SYSTEM, nbt.NoBackTrack(), nbt.Kalman())
        state, _ = learner.run(learner.init(seed), nbt.streams.anbn(*RANGE, length=300_000, seed=seed))
        symbols = nbt.streams.anbn(*RANGE, length=STEPS, seed=1000 + seed)
        exact = jax.jit(gradients)(nbt.Learner(SYSTEM, nbt.RTRL(), nbt.Kalman()), state, symbols)
        for name, norms in NORMS.items():
            results[name].append(noise(norms, state, symbols, exact))
    table = Table("norms", *(f"seed {seed}" for seed in SEEDS), title="E|g~ - g|^2 / E|g|^2")
    for name, row in results.items():
        table.add_row(name, *(f"{each:,.0f}" for each in row))
    Console().print(table)


if __name__ == "__main__":
    main()
