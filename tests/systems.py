"""Systems that several tests train, one of them written by a user."""

import jax
import jax.numpy as jnp

import nobacktrack as nbt
from nobacktrack.protocol import State, Tree


def own_system() -> nbt.System:
    """A user's system over pytrees: two coupled states of unlike shapes, a readout of both, a squared loss."""

    def transition(theta, h, x):
        fast = jnp.tanh(theta["a"] * h["slow"][0] + theta["w"] @ h["fast"] + x)
        return {"fast": fast, "slow": 0.9 * h["slow"] + theta["b"] * jnp.sum(h["fast"])[None]}

    def readout(phi, h):
        return phi @ h["fast"] + h["slow"][0]

    return nbt.System(transition=transition, readout=readout, loss=lambda y_hat, y: (y_hat - y.sum()) ** 2)


def own_state(learner: nbt.Learner, fast: int = 1, seed: int = 0) -> State:
    """A state of `own_system` with `fast` + 1 numbers."""
    keys = jax.random.split(jax.random.key(seed), 3)
    theta = {
        "a": jax.random.normal(keys[0], (), jnp.float64),
        "b": jnp.array(0.3, jnp.float64),
        "w": jax.random.normal(keys[1], (fast, fast), jnp.float64),
    }
    h = {"fast": jnp.zeros(fast, jnp.float64), "slow": jnp.full(1, 0.1, jnp.float64)}
    return learner.init(7, theta=theta, phi=jax.random.normal(keys[2], (fast,), jnp.float64), h=h, x=h["fast"])


def outside_path(theta: Tree, steps: int, seed: int = 1) -> list[Tree]:
    """Parameters moved by an outside sequence, which no sign of the estimator touches."""
    keys = jax.random.split(jax.random.key(seed), steps)
    return [
        jax.tree.map(lambda leaf, k=k: leaf + 0.4 * jax.random.normal(k, leaf.shape, leaf.dtype), theta) for k in keys
    ]


def symbol_inputs(steps: int) -> list[jax.Array]:
    return [jnp.int32(i) for i in (0, 2, 1, 0, 1, 2, 2)[:steps]]


def vector_inputs(steps: int, n: int = 1) -> list[jax.Array]:
    return list(jax.random.normal(jax.random.key(5), (steps, n), jnp.float64))
