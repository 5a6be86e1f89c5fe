"""UORO as written by hand: `nbt.UORO`, and NoBackTrack after its reduction, on a fully connected RNN, given the same
signs on an outside path of theta.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tables import outside_path

import nobacktrack as nbt

UNITS, SYMBOLS, STEPS = 6, 4, 25


def uoro_step(v, w, theta, h, x, signs):
    """Tallec & Ollivier 2017, Alg. 1, on the state map h -> W sigma(h) + R x + b, written out by hand.

    v <- rho0 df/dh v + rho1 nu,  w <- w / rho0 + (nu df/dtheta) / rho1.
    """
    activity = 1 / (1 + np.exp(-h))
    fan_in = np.concatenate([[1.0], activity, np.eye(SYMBOLS)[x]])
    jacobian = theta[:, 1 : 1 + UNITS] * (activity * (1 - activity))[None, :]
    pushed = jacobian @ v
    immediate = np.outer(signs, fan_in)
    rho0 = np.sqrt(np.linalg.norm(w) / np.linalg.norm(pushed)) if np.linalg.norm(pushed) > 0 else 0.0
    rho1 = np.sqrt(np.linalg.norm(immediate) / np.linalg.norm(signs))
    v = rho0 * pushed + rho1 * signs
    w = (w / rho0 if rho0 > 0 else 0.0) + immediate / rho1
    return v, w, theta @ fan_in


@pytest.mark.parametrize("seed", range(3))
def test_nobacktrack_after_its_reduction_is_uoro(seed):
    learner = nbt.Learner(nbt.RNN(units=UNITS, symbols=SYMBOLS), nbt.NoBackTrack(), nbt.SGD(0.1))
    state = learner.init(seed, dtype=jnp.float64)
    path = outside_path(state.params.theta, STEPS + 1, seed)
    xs = jax.random.randint(jax.random.key(seed), (STEPS + 1,), 0, SYMBOLS)
    v, w, h = np.zeros(UNITS), np.zeros((UNITS, 1 + UNITS + SYMBOLS)), np.zeros(UNITS)
    # UORO reduces right after a transition, NoBackTrack right before the next one: the signs are one advance apart.
    drawn = [learner.draw(state, jnp.array([0, t], jnp.uint32)) for t in range(STEPS + 1)]
    for t in range(STEPS):
        state = learner.advance_unchecked(state._replace(params=state.params._replace(theta=path[t])), xs[t], drawn[t])
        v, w, h = uoro_step(v, w, np.asarray(path[t])[:, 0], h, int(xs[t]), np.asarray(drawn[t + 1][0][0], float))
        reduced_v, reduced_w = nbt.NoBackTrack().reduce(
            learner.system.substeps[0], state.influence, drawn[t + 1][0], learner.update.metric_of(state.update.theta)
        )
        np.testing.assert_allclose(state.h, h, rtol=1e-12)
        np.testing.assert_allclose(reduced_v[0], v, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(reduced_w[0, :, 0], w, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("seed", range(2))
def test_uoro_is_as_written_by_hand(seed):
    learner = nbt.Learner(nbt.RNN(units=UNITS, symbols=SYMBOLS), nbt.UORO(), nbt.SGD(0.1))
    state = learner.init(seed, dtype=jnp.float64)
    path = outside_path(state.params.theta, STEPS, seed)
    xs = jax.random.randint(jax.random.key(seed), (STEPS,), 0, SYMBOLS)
    v, w, h = np.zeros(UNITS), np.zeros((UNITS, 1 + UNITS + SYMBOLS)), np.zeros(UNITS)
    for t in range(STEPS):
        drawn = learner.draw(state, jnp.array([0, t], jnp.uint32))
        state = learner.advance_unchecked(state._replace(params=state.params._replace(theta=path[t])), xs[t], drawn)
        v, w, h = uoro_step(v, w, np.asarray(path[t])[:, 0], h, int(xs[t]), np.asarray(drawn[0], float))
    np.testing.assert_allclose(state.influence.v, v, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(state.influence.w[:, 0], w, rtol=1e-9, atol=1e-12)
