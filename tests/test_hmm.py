"""Online EM against forward-backward; its reduced statistic by enumeration of all signs; what it refuses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import nobacktrack as nbt
from nobacktrack import checks, hmm

ROWS = np.random.default_rng(0)
Q, G = ROWS.dirichlet(np.ones(3), 3), ROWS.dirichlet(np.ones(4), 3)
CHAIN = hmm.Chain(Q, hmm.Categorical(G))
GAUSSIAN = hmm.Chain(Q, hmm.Normal(np.array([[0.0, 1.0], [2.0, -1.0], [4.0, 0.5]]), np.full((3, 2), 0.5)))
SYMBOLS = np.random.default_rng(1).integers(4, size=60)
VECTORS = np.random.default_rng(2).normal(size=(60, 2)) + 1
NEVER = 10**9


def one_over_t(t):
    return 1 / t


def learner_and_state(chain=CHAIN, rank=None, **options):
    model = nbt.HMM(states=3, symbols=4) if chain is CHAIN else nbt.HMM(states=3, outputs=2)
    learner = nbt.OnlineEM(model, rank=rank, **options)
    return learner, learner.init(0, theta=chain, dtype=jnp.float64)


def densities(chain, items):
    if chain is CHAIN:
        return G[:, items].T
    mean, variance, _ = chain.emission
    squares = ((items[:, None, :] - mean[None]) ** 2 / variance[None] + np.log(2 * np.pi * variance)[None]).sum(axis=2)
    return np.exp(-squares / 2)


def forward_backward(g):
    """Smoothed probabilities of states and of pairs of states, and the likelihood of each item given those before."""
    count, k = g.shape
    forward, backward, scale = np.zeros((count, k)), np.ones((count, k)), np.zeros(count)
    for t in range(count):
        ahead = (np.full(k, 1 / k) if t == 0 else forward[t - 1] @ Q) * g[t]
        scale[t] = ahead.sum()
        forward[t] = ahead / scale[t]
    for t in range(count - 2, -1, -1):
        backward[t] = Q @ (g[t + 1] * backward[t + 1]) / scale[t + 1]
    pairs = [forward[t][:, None] * Q * (g[t + 1] * backward[t + 1]) / scale[t + 1] for t in range(count - 1)]
    return forward * backward, np.array(pairs), scale


@pytest.mark.parametrize(("chain", "items"), [(CHAIN, SYMBOLS), (GAUSSIAN, VECTORS)], ids=["symbols", "Gaussian"])
def test_exact_statistics_are_those_of_forward_backward(chain, items):
    learner, state = learner_and_state(chain, rate=one_over_t, burn_in=NEVER)
    state, info = learner.run(state, items)
    smoothed, pairs, scale = forward_backward(densities(chain, items))
    moments = np.eye(4)[items] if chain is CHAIN else around(items, chain.emission.mean.mean(axis=0))
    np.testing.assert_allclose(state.influence.sums.q, pairs.sum(axis=0) / len(items), atol=1e-12)
    np.testing.assert_allclose(state.influence.sums.g, smoothed.T @ moments / len(items), atol=1e-12)
    np.testing.assert_allclose(info.loss, -np.log(scale), atol=1e-12)


def around(items, centre):
    return np.concatenate([np.ones((len(items), 1)), items - centre, (items - centre) ** 2], axis=1)


@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize(("chain", "items"), [(CHAIN, SYMBOLS), (GAUSSIAN, VECTORS)], ids=["symbols", "Gaussian"])
def test_the_mean_of_the_reduced_statistics_over_all_signs_is_the_exact_one(chain, items, rank):
    """S after 5 items: the first reduction has nothing to reduce, the last one that counts is before the fifth item."""
    items, counted = items[: 6 - rank], 4 - rank
    exact, state = learner_and_state(chain, rate=one_over_t, burn_in=NEVER)
    wanted = looped(exact, state, items, [()] * len(items)).influence.sums
    learner, state = learner_and_state(chain, rank, rate=one_over_t, burn_in=NEVER)
    template = learner.draw(state, state.t)
    ones = jax.tree.map(jnp.ones_like, template)

    def final(signs):
        drawn = [ones, *[(signs[i],) for i in range(counted)], ones]
        return looped(learner, state, items, drawn).influence.sums

    mean = checks.mean_over_signs(final, jax.ShapeDtypeStruct((counted, *template[0].shape), jnp.int8))
    assert checks.expect_close(mean, wanted, 1e-12, "E S~ = S") <= 1e-12
    some = looped(learner, state, items, [ones] * len(items)).influence.sums
    with pytest.raises(AssertionError, match="one pattern"):
        checks.expect_close(some, wanted, 1e-6, "one pattern of signs")


def looped(learner, state, items, draws):
    for item, drawn in zip(items, draws, strict=True):
        state = learner.advance_unchecked(state, jnp.asarray(item), drawn)
    return state


def test_deviations_have_no_mean():
    """sum_x phi_x (rho_x - S) = 0 for every product that is carried: what is reduced is a deviation."""
    learner, state = learner_and_state(rank=3)
    state, _ = learner.run(state, SYMBOLS)
    np.testing.assert_allclose(state.influence.v @ state.h.phi, 0, atol=1e-12)
    assert float(jnp.abs(state.influence.v).max()) > 1e-3


def sampled(q, count, seed):
    random = np.random.default_rng(seed)
    states, x = np.zeros(count, int), 0
    for t, uniform in enumerate(random.random(count)):
        x = states[t] = min(int(np.searchsorted(np.cumsum(q[x]), uniform)), len(q) - 1)
    return states, random


@pytest.mark.parametrize("rank", [None, 1])
def test_transitions_are_learned(rank):
    q = np.array([[0.8, 0.15, 0.05], [0.1, 0.7, 0.2], [0.3, 0.1, 0.6]])
    states, random = sampled(q, 20_000, seed=0)
    emission = hmm.Normal(np.arange(3.0)[:, None], np.full((3, 1), 0.09))
    items = (states + 0.3 * random.normal(size=len(states)))[:, None]
    learner = nbt.OnlineEM(nbt.HMM(states=3, outputs=1), rank=rank, emissions=False)
    state, info = learner.run(learner.init(0, theta=hmm.Chain(np.full((3, 3), 1 / 3), emission)), items)
    assert np.abs(np.asarray(state.params.theta.q) - q).mean() < 0.03
    assert info.loss[-2000:].mean() < info.loss[:200].mean()


@pytest.mark.parametrize("rank", [None, 2])
def test_emissions_are_learned(rank):
    q = np.array([[0.9, 0.1], [0.2, 0.8]])
    states, random = sampled(q, 20_000, seed=1)
    items = np.where(random.random(len(states)) < 0.9, states, 1 - states)  # symbol = state, nine times in ten
    learner = nbt.OnlineEM(nbt.HMM(states=2, symbols=2), rank=rank)
    state, _ = learner.run(learner.init(3), items)
    g = np.asarray(state.params.theta.emission.g)
    assert np.abs(np.sort(g[:, 0]) - [0.1, 0.9]).max() < 0.1


@pytest.mark.parametrize(("scale", "shift"), [(1.0, 0.0), (1e-4, 0.0), (1.0, 1e4)])
def test_gaussian_emissions_are_learned_whatever_their_unit(scale, shift):
    """A state that is not visited for long keeps its variance, and none collapses on its first item."""
    q = np.array([[0.98, 0.02], [0.02, 0.98]])
    states, random = sampled(q, 10_000, seed=0)
    items = scale * (8 * states + random.normal(size=len(states)))[:, None] + shift
    near = hmm.Normal(scale * np.array([[1.0], [7.0]]) + shift, np.full((2, 1), scale**2))
    learner = nbt.OnlineEM(nbt.HMM(states=2, outputs=1))
    state, _ = learner.run(learner.init(0, theta=hmm.Chain(np.full((2, 2), 0.5), near)), items)
    mean, variance, _ = state.params.theta.emission
    np.testing.assert_allclose((np.asarray(mean) - shift) / scale, [[0], [8]], atol=0.2)
    np.testing.assert_allclose(np.asarray(variance) / scale**2, 1, atol=0.25)


@pytest.mark.parametrize("rank", [None, 2])
def test_it_passes_the_checks_of_any_learner(rank):
    learner, state = learner_and_state(rank=rank, burn_in=5)
    checks.check_learner(learner, state, SYMBOLS[:24])


@pytest.mark.parametrize("rank", [None, 2])
def test_an_episode_begins_with_the_initial_distribution(rank):
    learner, state = learner_and_state(rank=rank, rate=one_over_t, burn_in=NEVER)
    middle, _ = learner.run(state, SYMBOLS[:20])
    fresh = learner.reset(middle)
    np.testing.assert_allclose(fresh.h.phi, 1 / 3)
    assert float(learner.observe(fresh, 1)[1].loss) == pytest.approx(float(learner.observe(state, 1)[1].loss))
    after = learner.advance(fresh, 1)
    kept = 20 / 21 * middle.influence.sums.q  # no transition was seen, so that none is added
    np.testing.assert_allclose(after.influence.sums.q, kept, atol=1e-12)


@pytest.mark.parametrize("rank", [None, 2])
def test_saved_and_continued_it_is_the_same_to_the_bit(rank, tmp_path):
    learner, state = learner_and_state(GAUSSIAN, rank)
    middle, _ = learner.run(state, VECTORS[:30])
    nbt.save(tmp_path / "hmm", learner, middle)
    again = nbt.load(tmp_path / "hmm")
    assert again.learner == learner
    for one, other in zip(
        jax.tree.leaves(learner.run(middle, VECTORS[30:])),
        jax.tree.leaves(again.learner.run(again.state, VECTORS[30:])),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)


def test_predictions_are_distributions_and_means():
    learner, state = learner_and_state()
    assert float(learner.predict(state).sum()) == pytest.approx(1)
    learner, state = learner_and_state(GAUSSIAN)
    np.testing.assert_allclose(learner.predict(state), GAUSSIAN.emission.mean.mean(axis=0))


def bad(q=Q, emission=CHAIN.emission, model=None):
    learner = nbt.OnlineEM(model or nbt.HMM(states=3, symbols=4))
    return lambda: learner.init(0, theta=hmm.Chain(q, emission))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (bad(q=Q * np.array([[1], [1.1], [1]])), r"theta\.q: row 1 sums to 1\.1, not to one"),
        (bad(q=Q[:2]), r"theta\.q must be finite numbers of shape \(3, 3\)"),
        (bad(q=Q - 0.5), "negative probability"),
        (bad(emission=hmm.Categorical(2 * G)), r"theta\.emission\.g: row 0 sums to 2"),
        (bad(emission=GAUSSIAN.emission), r"Categorical"),
        (bad(emission=hmm.Normal(np.zeros((3, 1)), np.zeros((3, 1))), model=nbt.HMM(states=3, outputs=1)), "variance"),
        (lambda: nbt.OnlineEM(nbt.HMM(states=3, symbols=4)).init(0, h=[0.5, 0.5, 0.5]), "h sums to 1.5"),
        (lambda: nbt.HMM(states=3), "symbols= or outputs="),
        (lambda: nbt.HMM(states=1, symbols=2), "states must be an integer >= 2"),
        (lambda: nbt.OnlineEM(nbt.HMM(states=3, symbols=4), rank=0), "rank must be an integer >= 1"),
    ],
)
def test_bad_models_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_an_emission_outside_the_alphabet_is_refused_and_the_state_stays():
    learner, state = learner_and_state()
    with pytest.raises(nbt.BadItem, match=r"index 2: symbol 4 is outside the alphabet 0\.\.3") as error:
        learner.run(state, np.array([0, 1, 4, 2]))
    assert error.value.state is state
