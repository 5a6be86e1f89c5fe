"""Truncated BPTT in blocks: targets, episodes, and what lies between."""

import jax.numpy as jnp
import numpy as np
import pytest
from tables import STREAM, pairs, pairs_learner, same, symbols_learner

import nobacktrack as nbt
from nobacktrack import checks


def test_truncated_bptt_closes_a_block_at_the_next_target():
    """Blocks of 4, targets at every third step: theta moves at the first target at or after the end of a block."""
    learner, state = pairs_learner(nbt.TruncatedBPTT(depth=4))
    x, y = pairs(24)
    moved = []
    for i in range(24):
        before, state = state, learner.advance(state, x[i])
        if i % 3 == 0:
            state, _ = learner.observe(state, y[i])
        if not np.array_equal(before.params.theta, state.params.theta):
            moved.append(i)
    assert moved == [3, 9, 12, 15, 21]


def test_truncated_bptt_forgets_no_target():
    """With blocks that end between targets, each target still has its part in the gradient."""
    learner, state = pairs_learner(nbt.TruncatedBPTT(depth=4))
    state = state._replace(params=state.params._replace(phi=jnp.ones_like(state.params.phi)))
    x, y = pairs(8)
    seen = np.isin(np.arange(8), [0, 6])
    louder = y.copy()
    louder[0] *= 100
    one, other = (learner.run(state, nbt.Pairs(x, each, seen))[0] for each in (y, louder))
    assert not same(one.params.theta, other.params.theta)


def test_truncated_bptt_learns_on_episodes_shorter_than_its_blocks():
    learner, state = symbols_learner(nbt.TruncatedBPTT(depth=15))
    after, _ = learner.run(state, nbt.Series(STREAM, np.arange(300) % 10 == 0))
    assert not same(after.params.theta, state.params.theta)


def test_no_derivative_goes_back_beyond_the_beginning_of_an_episode():
    """The gradient of a block across two episodes is that of each, its start held fixed."""
    learner, state = symbols_learner(nbt.TruncatedBPTT(depth=6))
    state = state._replace(
        params=state.params._replace(phi=jnp.asarray(np.random.default_rng(0).normal(size=(3, 6)), jnp.float32))
    )
    frozen = nbt.Learner(learner.system, learner.estimator, nbt.Apart(theta=nbt.SGD(1.0), phi=nbt.Frozen()))
    reset = np.arange(8) == 4
    after, _ = frozen.run(state, nbt.Series(STREAM[:8], reset))
    # transitions 0-3 belong to the first episode, whose state after the fourth is dropped; 4 and 5 to the second
    parts = [checks.unrolled_gradient(learner, state, STREAM[a:b]).theta for a, b in ((0, 4), (4, 7))]
    wanted = state.params.theta - sum(parts)
    np.testing.assert_allclose(after.params.theta, wanted, rtol=1e-4, atol=1e-6)


def test_block_methods_refuse_late_targets():
    learner, state = symbols_learner(nbt.TruncatedBPTT(depth=4))
    with pytest.raises(ValueError, match="late"):
        learner.observe(learner.advance(state, 0), 1, at=state)
