"""RTRL and backpropagation through time against the unrolled computation."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tables import own_state, own_system

import nobacktrack as nbt
from nobacktrack import checks

STREAM = nbt.streams.anbn(1, 8, length=200, seed=0)
CELLS = (
    nbt.RNN(units=6, symbols=3),
    nbt.LeakyRNN(units=6, symbols=3),
    nbt.RNN(units=6, symbols=3, activation="tanh", graph=[(0, 1), (1, 2), (2, 0), (3, 3), (4, 0), (5, 5), (0, 5)]),
    nbt.LeakyRNN(units=4, inputs=2, outputs=2),
)


def start(system, estimator):
    learner = nbt.Learner(system, estimator, nbt.SGD(0.1))
    state = learner.init(0, dtype=jnp.float64)
    phi = jax.random.normal(jax.random.key(1), state.params.phi.shape, jnp.float64)
    return learner, state._replace(params=state.params._replace(phi=phi))


@jax.jit
def watch(learner, state, value):
    """dl/dtheta and whether theta would move, and the state one step on, its parameters unmoved."""
    _, evidence, influence, ready = learner.differentiate(state, value)
    return evidence.theta.gradient, ready, learner.advance_unchecked(state._replace(influence=influence), value, ())


def stream_of(system):
    return STREAM if system.inputs is None else jax.random.normal(jax.random.key(4), (200, 2), jnp.float64)


@pytest.mark.parametrize("system", CELLS, ids=repr)
def test_rtrl_is_the_unrolled_gradient(system):
    learner, state = start(system, nbt.RTRL())
    assert checks.check_rtrl(learner, state, stream_of(system)) <= 1e-10


def test_rtrl_is_the_unrolled_gradient_of_a_system_of_ones_own():
    learner = nbt.Learner(own_system(), nbt.RTRL(), nbt.SGD(0.1))
    stream = jax.random.normal(jax.random.key(4), (200, 3), jnp.float64)
    assert checks.check_rtrl(learner, own_state(learner, fast=3), stream) <= 1e-10


def test_rtrl_is_the_unrolled_gradient_on_pairs():
    learner, state = start(nbt.LeakyRNN(units=4, inputs=2, outputs=1), nbt.RTRL())
    x = np.random.default_rng(0).normal(size=(100, 2))
    assert checks.check_rtrl(learner, state, (x, x[:, :1])) <= 1e-10


@pytest.mark.parametrize("system", CELLS, ids=repr)
def test_sliding_bptt_as_deep_as_the_stream_is_rtrl(system):
    stream = stream_of(system)[:40]
    learner, state = start(system, nbt.SlidingBPTT(depth=40))
    found = checks.summed_gradients(learner, state, stream)
    assert checks.expect_close(found, checks.unrolled_gradient(learner, state, stream), 1e-10, "sliding BPTT") <= 1e-10


@pytest.mark.parametrize("system", CELLS, ids=repr)
def test_truncated_bptt_as_deep_as_the_stream_sums_the_gradients_of_rtrl(system):
    """After 40 transitions and 41 targets, a block of depth 40 closes with the sum of what RTRL gave at each target."""
    stream = stream_of(system)[:41]
    exact, exact_state = start(system, nbt.RTRL())
    wanted = checks.summed_gradients(exact, exact_state, stream)
    learner, state = start(system, nbt.TruncatedBPTT(depth=40))
    total = jax.tree.map(jnp.zeros_like, state.params.theta)
    for t in range(41):
        gradient, ready, state = watch(learner, state, stream[t])
        assert bool(ready) == (t == 40)
        total = total + gradient
    assert checks.expect_close(total, wanted.theta, 1e-10, "truncated BPTT") <= 1e-10


def test_truncated_bptt_is_the_gradient_of_each_block():
    """Blocks do not overlap: the gradient is that of the losses in a block, its first state held fixed."""
    learner, state = start(nbt.LeakyRNN(units=5, symbols=3), nbt.TruncatedBPTT(depth=7))
    frozen, block_start = state.params, state.h
    for t in range(36):
        h = state.h
        gradient, ready, state = watch(learner, state, STREAM[t])
        if t and t % 7 == 0:
            assert ready
            wanted = block_gradient(learner, frozen.theta, frozen, block_start, STREAM[t - 7 : t + 1])
            assert checks.expect_close(gradient, wanted, 1e-10, "block") <= 1e-10
        else:
            assert not ready
        if t % 7 == 0:
            block_start = h


@jax.jit
def block_gradient(learner, theta, *rest):
    return jax.grad(lambda theta: _block_loss(learner, theta, *rest))(theta)


def _block_loss(learner, theta, params, h, symbols):
    """The losses of the states h_1 .. h_T that the block makes; h_0 belongs to the block before."""
    total = jnp.zeros(())
    for x, y in pairwise(symbols):
        h = learner.system.evolve(params._replace(theta=theta), h, x)
        total = total + learner.system.loss(learner.system.predict(params, h), y)
    return total


def test_theta_waits_for_the_end_of_a_block_and_phi_does_not():
    learner, state = start(nbt.RNN(units=4, symbols=3), nbt.TruncatedBPTT(depth=5))
    for t in range(12):
        following, _ = learner.step(state, STREAM[t])
        moved = bool(jnp.any(following.params.theta != state.params.theta))
        assert moved == (t > 0 and t % 5 == 0)
        assert bool(jnp.any(following.params.phi != state.params.phi))
        state = following
