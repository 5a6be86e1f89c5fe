"""How much of the random part is followed: each rule by hand, and in the estimators that take one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tables import symbols

import nobacktrack as nbt
from nobacktrack import checks
from nobacktrack.influence.belief import Agreed, Parts
from nobacktrack.updates.metrics import Diagonal, Euclidean, Mahalanobis

EXACT, W = jnp.array([1.0, 2.0]), jnp.array([[1.0, 0.0], [0.0, 3.0]])
PARTS = Parts(EXACT, jnp.array([2.0, -1.0]), W)  # r = (2, 0), (0, -3)


def test_shares_of_the_random_part():
    np.testing.assert_allclose(nbt.Unbiased().weigh((), PARTS, Euclidean())[1], [2, 0.5])
    np.testing.assert_allclose(nbt.Share(0.5).weigh((), PARTS, Euclidean())[1], [1.5, 1.25])
    np.testing.assert_allclose(nbt.Share(0.0).weigh((), PARTS, Euclidean())[1], EXACT)


@pytest.mark.parametrize("metric", [Euclidean(), Mahalanobis(Diagonal(), (jnp.array([3.0, 0.0]),), jnp.array(1.0))])
def test_agreement_is_the_cosine_with_what_the_other_copies_see(metric):
    """Copy 1 is judged by g + r_2 = (1, -1), copy 2 by g + r_1 = (3, 2), in the metric."""
    before = jnp.array([[1.0, 1.0], [0.5, -2.0]])
    c = np.array([1.0, 1.0]) if isinstance(metric, Euclidean) else np.array([0.25, 1.0])

    def cosine(a, b):
        return np.sum(c * a * b) / np.sqrt(np.sum(c * a * a) * np.sum(c * b * b))

    judges = np.array([[1.0, -1.0], [3.0, 2.0]])
    wanted = np.log(0.1) + 0.2 * np.mean([cosine(*pair) for pair in zip(judges, np.asarray(before), strict=True)])
    memory, gradient = nbt.Agreement(pace=0.2).weigh(Agreed(jnp.log(0.1), before), PARTS, metric)
    np.testing.assert_allclose(memory.log_share, wanted, rtol=1e-12)
    np.testing.assert_allclose(memory.random, [[2, 0], [0, -3]])
    np.testing.assert_allclose(gradient, EXACT + 0.1 * jnp.array([1.0, -1.5]), rtol=1e-12)


@pytest.mark.parametrize("sign", [1, -1])
def test_what_agrees_is_believed_more_up_to_all_of_it(sign):
    belief = nbt.Agreement(pace=1.0, start=0.3)
    memory = belief.init(EXACT, 2)._replace(random=sign * jnp.stack([EXACT, EXACT]))
    parts = Parts(EXACT, jnp.ones(2), jnp.stack([EXACT, EXACT]))
    share = belief.factor(belief.weigh(memory, parts, Euclidean())[0])
    np.testing.assert_allclose(share, min(0.3 * np.exp(sign), 1), rtol=1e-12)
    above = memory._replace(log_share=jnp.array(-0.5))
    assert float(belief.factor(belief.weigh(above, parts, Euclidean())[0])) == pytest.approx(
        1 if sign > 0 else np.exp(-1.5)
    )


def test_no_belief_in_nobacktrack_is_the_newest_step_alone():
    ends = []
    for estimator in (nbt.NoBackTrack(rank=2, belief=nbt.Share(0.0)), nbt.Immediate()):
        learner = nbt.Learner(nbt.LeakyRNN(units=4, symbols=3), estimator, nbt.SGD(0.1))
        ends.append(learner.run(learner.init(0, dtype=jnp.float64), symbols(60))[0].params)
    assert checks.expect_close(ends[0], ends[1], 1e-12, "immediate") <= 1e-12


@pytest.mark.parametrize("estimator", [nbt.NoBackTrack, nbt.DiagonalPlusRankOne, nbt.BlockNoBackTrack])
def test_belief_outlives_an_episode(estimator):
    learner = nbt.Learner(nbt.LSTM(units=4, symbols=3), estimator(rank=2, belief=nbt.Agreement()), nbt.Kalman())
    state, _ = learner.run(learner.init(0, dtype=jnp.float64), symbols(200))
    share = state.influence.belief.log_share
    assert float(share) != pytest.approx(np.log(0.05), abs=1e-6)
    assert float(learner.reset(state).influence.belief.log_share) == float(share)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state.params))
