"""How much of the random part is followed: each rule by hand, and in the estimators that take one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tables import symbols

import nobacktrack as nbt
from nobacktrack import checks
from nobacktrack.influence.belief import Parts
from nobacktrack.updates.metrics import Diagonal, Euclidean, Mahalanobis

EXACT, W = jnp.array([1.0, 2.0]), jnp.array([[1.0, 0.0], [0.0, 3.0]])
PARTS = Parts(EXACT, jnp.array([2.0, -1.0]), W)  # r = (2, 0), (0, -3), their mean (1, -1.5)
LIKELY = Parts(EXACT / 10, jnp.array([0.2, -0.1]), jnp.array([[1.0, 0.0], [-2.0, 3.0]]))  # r = (.2, 0), (.2, -.3)
DOUBTFUL = Mahalanobis(Diagonal(), (jnp.array([3.0, 0.0]),), jnp.array(1.0))  # C = diag(1/4, 1)


def followed(belief, parts, metric, times=1):
    """What the last of several equal estimates is made into, and what the belief remembers of them."""
    memory, gradient = belief.init(parts.exact, len(parts.along)), parts.exact
    for _ in range(times):
        memory, gradient = belief.weigh(memory, parts, metric)
    return memory, np.asarray(gradient)


def test_shares_of_the_random_part():
    np.testing.assert_allclose(nbt.Unbiased().weigh((), PARTS, Euclidean())[1], [2, 0.5])
    np.testing.assert_allclose(nbt.Share(0.5).weigh((), PARTS, Euclidean())[1], [1.5, 1.25])
    with_own = PARTS._replace(own=jnp.array([10.0, 0.0]))
    np.testing.assert_allclose(nbt.Unbiased().weigh((), with_own, Euclidean())[1], [12, 0.5])
    np.testing.assert_allclose(nbt.Share(0.5).weigh((), with_own, Euclidean())[1], [6.5, 1.25])
    for nothing in (nbt.Share(0.0), nbt.Truncated()):
        np.testing.assert_allclose(nothing.weigh((), with_own, Euclidean())[1], EXACT)


@pytest.mark.parametrize("metric", [Euclidean(), DOUBTFUL])
def test_caution_allows_a_power_of_its_own_to_the_random_part(metric):
    """E = |g|^2, P = |(r_1 + r_2) / 2|^2, z the cosine of r_1 and r_2."""
    c = np.array([1.0, 1.0]) if isinstance(metric, Euclidean) else np.array([0.25, 1.0])

    def dot(a, b):
        return np.sum(c * np.array(a) * np.array(b))

    exact, power, signal = dot([0.1, 0.2], [0.1, 0.2]), dot([0.2, -0.15], [0.2, -0.15]), dot([0.2, 0], [0.2, -0.3])
    agreement = signal / np.sqrt(dot([0.2, 0], [0.2, 0]) * dot([0.2, -0.3], [0.2, -0.3]))
    ceiling = exact / 10 if isinstance(metric, Euclidean) else 0.25
    budget = 0.01  # little enough for s to stay below 1
    doubt = np.sqrt(exact / (exact + power))
    allowed = budget * doubt * np.exp(12 * agreement) * exact * ceiling / (exact + ceiling)
    share = np.sqrt(allowed / power)
    assert 0 < share < 1
    belief = nbt.Caution(budget=budget)
    memory, found = followed(belief, LIKELY, metric)
    np.testing.assert_allclose(memory.agreement, agreement, rtol=1e-12)
    np.testing.assert_allclose(belief.factor(memory), share, rtol=1e-12)
    np.testing.assert_allclose(memory.signal_power, signal, rtol=1e-12)
    np.testing.assert_allclose(belief.noise(memory), share**2 * (power - signal) / exact, rtol=1e-12)
    np.testing.assert_allclose(found, [0.1 + share * 0.2, 0.2 - share * 0.15], rtol=1e-12)


def test_one_copy_agrees_with_nobody():
    alone = Parts(EXACT, jnp.array([50.0]), EXACT[None])
    memory, _ = followed(nbt.Caution(), alone, Euclidean(), 50)
    assert float(memory.agreement) == float(memory.signal_power) == 0
    np.testing.assert_allclose(nbt.Caution().factor(memory), np.sqrt(1 / 11 / np.sqrt(1 + 50**2)) / 50, rtol=1e-12)


def test_copies_that_agree_are_believed_against_the_exact_part():
    """As in influence balancing: what is older says the opposite, and more of it."""
    against = Parts(EXACT, jnp.array([-10.0, -30.0]), jnp.stack([EXACT, EXACT]))
    memory, gradient = followed(nbt.Caution(), against, Euclidean(), 5)
    assert float(nbt.Caution().factor(memory)) == 1
    np.testing.assert_allclose(gradient, -19 * EXACT, rtol=1e-12)


@pytest.mark.parametrize("sign", [1, -1])
def test_what_copies_agree_on_is_believed_and_what_they_do_not_is_not(sign):
    """Both copies say five times g; or one of them says the opposite of the other."""
    along = jnp.array([5.0, 5.0 * sign])
    parts = Parts(EXACT, along + jnp.array([0.0, 1.0]), jnp.stack([EXACT, EXACT]))
    memory, _ = followed(nbt.Caution(), parts, Euclidean(), 50)
    share = nbt.Caution().factor(memory)
    assert float(share) == 1 if sign > 0 else float(share) < 0.7
    np.testing.assert_allclose(memory.signal_power, 5 * (5 * sign + 1) * 5.0, rtol=1e-12)  # |g|^2 = 5


def test_an_explosion_counts_for_ten_times_what_is_usual_and_one_beyond_floats_for_nothing():
    belief, parts = nbt.Caution(), Parts(EXACT / 100, jnp.array([2e-2, 1e-2]), W)
    memory, _ = followed(belief, parts, DOUBTFUL, 300)
    usual, noise = float(memory.exact_power), float(memory.random_power)
    np.testing.assert_allclose(usual, float(DOUBTFUL.norm2(EXACT / 100)), rtol=1e-12)
    seen, _ = belief.weigh(memory, Parts(1e9 * EXACT, jnp.array([1e9, 1e9]), W), DOUBTFUL)
    np.testing.assert_allclose(seen.exact_power, usual + (1 + 9 * usual) / 301, rtol=1e-9)
    np.testing.assert_allclose(seen.random_power, noise + (1 + 9 * noise) / 301, rtol=1e-9)
    counted = np.sqrt((1 + 10 * noise) / float(DOUBTFUL.norm2(1e9 * jnp.array([0.5, 1.5]))))
    np.testing.assert_allclose(seen.random, memory.random + (1e9 * counted * W - memory.random) / 301, rtol=1e-9)
    assert float(belief.factor(seen)) > 0.1
    for beyond in (1e200, jnp.inf, jnp.nan):
        seen, _ = belief.weigh(memory, parts._replace(exact=beyond * EXACT), DOUBTFUL)
        assert checks.same_bits(seen, memory)
    seen, gradient = belief.weigh(memory, parts._replace(along=jnp.full(2, 1e200)), DOUBTFUL)
    assert checks.same_bits(seen, memory)
    np.testing.assert_array_equal(gradient, parts.exact)


def test_blocks_without_targets_say_nothing():
    belief, memory, gradient = nbt.Caution(), nbt.Caution().init(EXACT, 2), EXACT
    nothing = Parts(jnp.zeros(2), jnp.zeros(2), W)
    for t in range(400):
        memory, gradient = belief.weigh(memory, PARTS if t % 20 == 19 else nothing, DOUBTFUL)
        assert t % 20 == 19 or not np.any(gradient)
    alone, wanted = followed(belief, PARTS, DOUBTFUL, 20)
    assert checks.same_bits(memory, alone)
    np.testing.assert_array_equal(gradient, wanted)


def test_rounding_errors_do_not_agree():
    parts = Parts(EXACT, jnp.full(2, 1e-6), jnp.stack([EXACT, EXACT]))
    assert float(followed(nbt.Caution(), parts, Euclidean(), 5)[0].agreement) == 0


def test_no_belief_in_nobacktrack_is_the_newest_step_alone():
    ends = []
    for estimator in (nbt.NoBackTrack(rank=2, belief=nbt.Share(0.0)), nbt.Immediate()):
        learner = nbt.Learner(nbt.LeakyRNN(units=4, symbols=3), estimator, nbt.SGD(0.1))
        ends.append(learner.run(learner.init(0, dtype=jnp.float64), symbols(60))[0].params)
    assert checks.expect_close(ends[0], ends[1], 1e-12, "immediate") <= 1e-12


@pytest.mark.parametrize("estimator", [nbt.NoBackTrack, nbt.DiagonalPlusRankOne, nbt.BlockNoBackTrack])
def test_belief_outlives_an_episode(estimator):
    learner = nbt.Learner(nbt.LSTM(units=4, symbols=3), estimator(rank=2, belief=nbt.Caution()), nbt.Kalman())
    state, _ = learner.run(learner.init(0, dtype=jnp.float64), symbols(200))
    seen = state.influence.belief
    assert float(seen.estimates) > 10
    assert checks.same_bits(learner.reset(state).influence.belief, seen)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state.params))
