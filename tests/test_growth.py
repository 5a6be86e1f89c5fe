"""A network that gets more symbols or inputs."""

import jax
import numpy as np
import pytest

import nobacktrack as nbt
from nobacktrack.growth import enlarge, without_symbols


def test_what_was_learned_stays_when_a_network_grows():
    for estimator in (nbt.NoBackTrack(rank=2), nbt.RTRL(), nbt.TruncatedBPTT(depth=4), nbt.KFRTRL(), nbt.UORO()):
        learner = nbt.Learner(nbt.LSTM(units=4, symbols=3), estimator, nbt.Kalman())
        state, _ = learner.run(learner.init(0), nbt.streams.anbn(1, 4, length=100, seed=0))
        larger, grown = enlarge(learner, state, symbols=6)
        for (path, old), new in zip(jax.tree_util.tree_leaves_with_path(state), jax.tree.leaves(grown), strict=True):
            kept = np.asarray(new)[tuple(slice(size) for size in np.shape(old))]
            assert kept.tobytes() == np.asarray(old).tobytes(), path
        np.testing.assert_allclose(larger.predict(grown)[:3], learner.predict(state), rtol=1e-6)
        assert larger.run(grown, np.array([5, 4, 0, 3]))[1].loss.shape == (4,)
    full = nbt.Learner(nbt.RNN(units=3, symbols=3), nbt.RTRL(), nbt.Kalman(metric=nbt.Full()))
    with pytest.raises(ValueError, match="it mixes inputs"):
        enlarge(full, full.init(0), symbols=4)
    with pytest.raises(ValueError, match="cannot grow to 2"):
        enlarge(learner, state, symbols=2)


def test_a_network_that_has_grown_has_the_gradient_of_one_that_was_as_large_all_along():
    """New inputs have no influence, and symbols that are not predicted take nothing from the others."""
    small = nbt.Learner(nbt.RNN(units=3, symbols=3), nbt.RTRL(), nbt.SGD(0.05))
    state, _ = small.run(small.init(0), nbt.streams.anbn(1, 3, length=30, seed=1))
    large, grown = enlarge(small, state, symbols=5)
    before, after = small.gradient(state, 1), large.gradient(without_symbols(grown, 3), 1)
    np.testing.assert_allclose(after.theta[..., :7], before.theta, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(after.phi[:3], before.phi, rtol=1e-4, atol=1e-7)
    assert not np.any(np.asarray(after.theta)[..., 7:])
    np.testing.assert_allclose(after.phi[3:], 0, atol=1e-10)
