"""NoBackTrack over blocks: unbiased by enumeration of the signs of its merges, exact in a window that holds all."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tables import SYSTEMS, inputs_of, outside_path, start, stream_of, vector_inputs

import nobacktrack as nbt
from nobacktrack import checks
from nobacktrack.checks.estimators import stacked
from nobacktrack.estimators import windowed
from nobacktrack.estimators.blocks import STEADY, steady
from nobacktrack.influence.belief import Parts
from nobacktrack.protocol import Point, flat
from nobacktrack.updates.metrics import Euclidean

EXACT = 1e-12


def blocks(depth, every=None, rank=1, norms=None):
    return nbt.BlockNoBackTrack(
        depth=depth, every=every, rank=rank, norms=norms or nbt.DemandNorms(), belief=nbt.Unbiased()
    )


def started(system, estimator):
    learner = nbt.Learner(SYSTEMS[system].small, estimator, nbt.SGD(0.1))
    return learner, start(learner)


def inputs_for(learner, steps):
    own = isinstance(learner.system, nbt.System)
    return vector_inputs(steps, 2) if own else inputs_of(learner.system, steps)


def losses(state, steps):
    """dl/dh from outside, one a step."""
    return jax.random.normal(jax.random.key(3), (steps, flat(state.h).size), jnp.float64)


def gradients(learner, state, inputs, path, signs, reset_at=None):
    """The gradient of each block, theta being moved from outside where one ends; signs[b] are those of its merge."""
    steps, every = len(inputs), learner.estimator.block
    block = np.arange(steps) // every

    def step(state, at):
        x, theta, signs, dl_dh, begins = at
        state = jax.tree.map(lambda new, old: jnp.where(begins, new, old), learner.reset(state), state)
        state = learner.advance_unchecked(with_theta(state, theta), x, (signs,))
        influence, gradient, _ = learner.estimator.observe(
            learner.system, state.influence, state.params, dl_dh, learner.metric(state)
        )
        return state._replace(influence=influence), gradient

    thetas = jax.tree.map(lambda leaf: leaf[block], stacked(path))
    begins = np.arange(steps) == (-1 if reset_at is None else reset_at)
    stream = stacked(inputs), thetas, signs[block], losses(state, steps), begins
    found = jax.lax.scan(step, state, stream)[1]
    return [jax.tree.map(lambda leaf, t=t: leaf[t], found) for t in range(every - 1, steps, every)]


def with_theta(state, theta):
    return state._replace(params=state.params._replace(theta=theta))


def exact_gradients(learner, state, inputs, path, reset_at=None):
    """The same with dh/dtheta whole at the beginning of the window, and theta of now within it."""
    system, given, window, found = learner.system, losses(state, len(inputs)), [], []
    depth, every = learner.estimator.depth, learner.estimator.block
    influence = nothing = nbt.RTRL().init(system, Point(state.params, state.h, inputs[0]))
    for t, x in enumerate(inputs):
        theta = path[t // every]
        h = state.params.fixed.h0 if t == reset_at else state.h
        window.append((h, x, given[t], t == reset_at))
        state = state._replace(h=system.evolve(with_theta(state, theta).params, h, x))
        if (t + 1) % every:
            continue
        gradient, running, leaving = jax.tree.map(jnp.zeros_like, theta), influence, max(len(window) + every - depth, 0)
        for j, (h, x, dl_dh, begins) in enumerate(window):
            point = Point(with_theta(state, theta).params, h, x)
            running, _ = nbt.RTRL().advance(system, nothing if begins else running, point, learner.metric(state), ())
            if len(window) - j <= every:
                part = jax.tree.map(lambda g, dl_dh=dl_dh: jnp.tensordot(dl_dh, g, axes=1), running)
                gradient = jax.tree.map(jnp.add, gradient, part)
            influence = running if j + 1 == leaving else influence
        found, window = [*found, gradient], window[leaving:]
    return found


def bias(learner, state, steps, merges, path=None, reset_at=None):
    """How far the mean over all signs is from the exact gradient, block by block: the largest relative error."""
    inputs = inputs_for(learner, steps)
    count, rank, n = steps // learner.estimator.block, learner.estimator.rank, flat(state.h).size
    path = path or outside_path(state.params.theta, count)

    def mean(signs):
        rest = jnp.ones((count - merges, rank, n), jnp.int8)
        return gradients(learner, state, inputs, path, jnp.concatenate([signs, rest]), reset_at)

    found = checks.mean_over_signs(mean, jax.ShapeDtypeStruct((merges, rank, n), jnp.int8))
    wanted = jax.jit(lambda state: exact_gradients(learner, state, inputs, path, reset_at))(state)
    return checks.expect_close(found, wanted, np.inf, "unbiased")


@pytest.mark.parametrize(("system", "rank"), [("rnn", 1), ("rnn", 2), ("own", 1), ("two layers", 1)])
@pytest.mark.parametrize(("depth", "every"), [(1, 1), (2, 2), (2, 1), (3, 2)])
def test_mean_over_the_signs_of_two_merges_is_the_exact_gradient(system, depth, every, rank):
    """Three blocks, theta moved between them. In windows, where a step is taken at several thetas, the exact gradient
    is that of the same derivatives.
    """
    learner, state = started(system, blocks(depth, every, rank))
    assert bias(learner, state, 3 * every, 2) <= EXACT


@pytest.mark.parametrize(("depth", "every"), [(3, 3), (3, 1)])
@pytest.mark.parametrize(
    "system", ["lstm", *(pytest.param(name, marks=pytest.mark.slow) for name in ("heun", "mixed layers"))]
)
def test_mean_over_the_signs_of_one_merge_is_the_exact_gradient(system, depth, every):
    learner, state = started(system, blocks(depth, every))
    steps = (depth // every + 1) * every
    assert bias(learner, state, steps, depth // every) <= EXACT


@pytest.mark.parametrize("norms", [nbt.MetricNorms(), nbt.EuclideanNorms(), nbt.Unscaled()], ids=repr)
def test_all_norms_are_unbiased(norms):
    learner, state = started("leaky", blocks(2, norms=norms))
    assert bias(learner, state, 6, 2) <= EXACT


@pytest.mark.parametrize("reset_at", [2, 3, 4])
def test_an_episode_that_ends_in_a_block(reset_at):
    learner, state = started("leaky", blocks(3))
    assert bias(learner, state, 9, 2, reset_at=reset_at) <= EXACT


def test_fixed_parameters_give_the_gradient_of_rtrl_in_windows_too():
    """Windows of 3, theta the same throughout: the mean is what RTRL has."""
    learner, state = started("rnn", blocks(3, 1))
    inputs, path = inputs_for(learner, 5), [state.params.theta] * 5
    along = checks.exact_influence(learner, state, inputs, path)
    wanted = jnp.tensordot(losses(state, 5)[-1], along, axes=1)
    np.testing.assert_allclose(exact_gradients(learner, state, inputs, path)[-1], wanted, rtol=1e-12)
    assert bias(learner, state, 5, 4, path=path) <= EXACT


def test_the_bias_of_windows_is_of_the_order_of_the_rate():
    """T = 3, U = 1, theta moved by a rate a step: derivatives in the window are those at the theta of now."""
    learner, state = started("rnn", blocks(3, 1))
    inputs, (direction,) = inputs_for(learner, 5), outside_path(jnp.zeros_like(state.params.theta), 1)

    def bias_at(rate):
        path = [state.params.theta + rate * t * direction for t in range(5)]
        along = checks.exact_influence(learner, state, inputs, path)
        wanted = jnp.tensordot(losses(state, 5)[-1], along, axes=1)
        return float(jnp.linalg.norm(exact_gradients(learner, state, inputs, path)[-1] - wanted))

    large, small = bias_at(1e-2), bias_at(1e-4)
    assert small > 1e-7
    assert 90 < large / small < 110


def test_derivatives_at_different_thetas_are_biased(monkeypatch):
    def elsewhere(system, window, params, v, leaving):
        theta = jax.tree.map(lambda leaf: 1.5 * leaf, params.theta)
        return push(system, window, params._replace(theta=theta), v, leaving)

    push = windowed.push_through
    monkeypatch.setattr(windowed, "push_through", elsewhere)
    learner, state = started("rnn", blocks(2))
    assert bias(learner, state, 6, 2) > 1e-5


@pytest.mark.parametrize("reset_at", [None, 3])
def test_what_units_do_to_themselves_is_the_influence_of_snap1(reset_at):
    """Z at the beginning of the window, theta fixed: that of `SnAp1` at the same time."""
    found = []
    for estimator, steps in ((nbt.BlockNoBackTrack(depth=2, belief=nbt.Unbiased()), 6), (nbt.SnAp1(), 6)):
        learner, state = started("lstm", estimator)
        for t, x in enumerate(inputs_for(learner, steps)):
            state = learner.reset(state) if t == reset_at else state
            state = learner.advance_unchecked(state, x, learner.draw(state, state.t))
            influence = learner.estimator.observe(
                learner.system, state.influence, state.params, losses(state, steps)[t], learner.metric(state)
            )[0]
            state = state._replace(influence=influence)
        found.append(state.influence)
    assert checks.expect_close(found[0].own, found[1], EXACT, "Z") <= EXACT


def test_any_influence_of_units_on_themselves_will_do_as_long_as_what_it_leaves_out_is_merged(monkeypatch):
    learner, state = started("lstm", blocks(2))
    carry, pull = windowed._carry_own, windowed._pull_own
    monkeypatch.setattr(windowed, "_carry_own", lambda *arguments: 1.5 * carry(*arguments))
    assert bias(learner, state, 6, 2) <= EXACT
    monkeypatch.setattr(windowed, "_pull_own", lambda *arguments: 0.9 * pull(*arguments))
    assert bias(learner, state, 6, 2) <= EXACT
    monkeypatch.setattr(windowed, "Parts", lambda exact, along, w, own: Parts(exact, along, w))  # merged, and not read
    assert bias(learner, state, 6, 2) > 1e-5


@pytest.mark.parametrize("components", [1, 2, 3])
def test_a_unit_that_would_grow_by_itself_is_held_and_others_are_not(components):
    given = np.random.default_rng(0).normal(size=(components, components, 200)) / components
    held = np.asarray(steady(jnp.asarray(given)))
    before, after = (np.abs(np.linalg.eigvals(d.transpose(2, 0, 1))).max(axis=1) for d in (given, held))
    small = np.sqrt((given**2).sum(axis=(0, 1))) <= 1 if components > 2 else before <= 1
    assert after[~small].max() <= STEADY + 1e-12
    assert 0 < small.sum() < 200
    np.testing.assert_array_equal(held[..., small], given[..., small])
    np.testing.assert_allclose(held / given, (held / given)[:1, :1] * np.ones_like(given), rtol=1e-12)


@pytest.mark.parametrize("system", [nbt.RNN(2, 3, activation="tanh"), nbt.LSTM(2, 3)], ids=str)
def test_engines_hold_units_alike(system):
    """Units at rest that multiply each deviation; without a bound Z would grow without end."""
    learner = nbt.Learner(system, nbt.BlockNoBackTrack(depth=3, belief=nbt.Unbiased()), nbt.SGD(0.0))
    state, ends = learner.init(0, dtype=jnp.float64), []
    theta = jnp.zeros_like(state.params.theta).at[:, :, 1:3].set(8 * jnp.eye(2)[:, None])
    for engine in ("jax", "fused"):
        stream = np.arange(80) % 3
        ends.append(learner.run(with_theta(state, theta), stream, engine=engine)[0].influence.own)
    largest = float(jnp.abs(ends[0]).max())
    assert 10 < largest < 1e4
    assert checks.expect_close(ends[0], ends[1], 1e-11, "Z") <= 1e-11


def test_what_is_merged_and_kept_as_well_is_biased(monkeypatch):
    """Z' is not taken out of what is merged, so that it counts twice."""
    learner, state = started("lstm", blocks(2))
    pull, calls = windowed._pull_own, []

    def only_read(system, own, co_state):
        calls.append(own)
        return pull(system, own, co_state) if len(calls) % 3 != 0 else jnp.zeros_like(own[0])

    monkeypatch.setattr(windowed, "_pull_own", only_read)  # calls of a block: lambda Z, nu F_h Z, nu Z'
    assert bias(learner, state, 6, 2) > 1e-5


def test_a_scale_that_is_not_even_in_the_signs_is_biased(monkeypatch):
    def odd(self, ruler, v, w):
        rho = jnp.exp(0.3 * v[:, :1])
        return rho * v, jax.tree.map(lambda leaf: leaf / rho.reshape(-1, *(1,) * (leaf.ndim - 1)), w)

    monkeypatch.setattr(nbt.BlockNoBackTrack, "_balance", odd)
    learner, state = started("rnn", blocks(2))
    assert bias(learner, state, 6, 2) > 1e-5


@pytest.mark.parametrize("shared", [False, True])
def test_products_of_copies_are_unbiased_unless_they_share_their_signs(shared):
    """E <r_1, r_2> = |E r|^2, which tells signal from noise; the mean does not see shared signs."""
    learner, state = started("rnn", blocks(2, rank=2))
    inputs, path = inputs_for(learner, 4), outside_path(state.params.theta, 2)

    def parts(signs):
        signs = jnp.concatenate([signs, jnp.ones((1, *signs.shape[1:]), jnp.int8)])
        signs = signs.at[:, 1].set(signs[:, 0]) if shared else signs
        for_each = [gradients(with_only(learner, k), state, inputs, path, signs)[1] for k in (0, 1)]
        return for_each, jnp.sum(for_each[0] * for_each[1])

    mean, product = checks.mean_over_signs(parts, jax.ShapeDtypeStruct((1, 2, 2), jnp.int8))
    np.testing.assert_allclose(mean[0], mean[1], rtol=1e-12, atol=1e-12)
    exact = exact_gradients(learner, state, inputs, path)[1]
    np.testing.assert_allclose(mean[0], exact, rtol=1e-10, atol=1e-12)
    close = np.allclose(product, np.sum(np.square(exact)), rtol=1e-10)
    assert close != shared


class Only:
    """A belief in one of the copies."""

    def __init__(self, copy):
        self.copy = copy

    def init(self, theta, rank):
        return ()

    def weigh(self, memory, parts, metric):
        return memory, jax.tree.map(lambda exact, r: exact + r[self.copy], parts.whole().exact, parts.random())

    def factor(self, memory):
        return 1.0

    def noise(self, memory):
        return None


def with_only(learner, copy):
    estimator = nbt.BlockNoBackTrack(depth=2, rank=2, belief=Only(copy))
    return nbt.Learner(learner.system, estimator, learner.update)


@pytest.mark.parametrize("smallest", [0.0, 1e-45, 1e-30])
def test_demand_too_small_for_a_float_measures_h_still(smallest):
    """After 240 steps a derivative of 1e-22 is nothing unusual, and its square no whole number of single precision."""
    memory = jnp.full(3, smallest, jnp.float32)
    q = np.asarray(nbt.DemandNorms().ruler(memory, None, None, Euclidean()).q)
    assert np.isfinite(q**-0.25).all()
    assert (q >= 1).all()


@pytest.mark.parametrize("system", ["lstm", "own", "two layers", "euler"])
def test_a_window_that_holds_all_is_backpropagation(system):
    estimator = nbt.BlockNoBackTrack(depth=12, rank=2)
    learner = nbt.Learner(SYSTEMS[system].large, estimator, nbt.SGD(0.1))
    state = start(learner, readout=system != "own")
    stream = stream_of(learner.system, 13)
    stream = jax.tree.map(lambda leaf: leaf[:12], stream) if isinstance(stream, tuple) else stream
    found = checks.summed_gradients(learner, state, stream).theta
    assert checks.expect_close(found, checks.unrolled_gradient(learner, state, stream).theta, 1e-10, "BPTT") <= 1e-10


def test_no_belief_in_the_tail_is_truncation():
    """s = 0 and blocks: what `TruncatedBPTT` does, theta and phi."""
    system, stream = nbt.LSTM(units=4, symbols=3), stream_of(nbt.LSTM(units=4, symbols=3), 60)
    ends, none = [], (nbt.Share(0.0), nbt.Truncated())
    for estimator in (nbt.TruncatedBPTT(depth=7), *(nbt.BlockNoBackTrack(depth=7, belief=belief) for belief in none)):
        learner = nbt.Learner(system, estimator, nbt.Kalman(nbt.inverse_sqrt(0.1), prior=3.0))
        ends.append(learner.run(learner.init(0, dtype=jnp.float64), stream)[0].params)
    for end in ends[1:]:
        assert checks.expect_close(end, ends[0], 1e-12, "truncated") <= 1e-12


def test_windows_that_overlap_have_every_loss_once():
    """T = 6, U = 2, a stream within the window: the gradients add up to that of BPTT."""
    learner = nbt.Learner(nbt.RNN(units=3, symbols=3), nbt.BlockNoBackTrack(depth=6, every=2), nbt.SGD(0.1))
    state = start(learner, readout=True)
    stream = stream_of(learner.system, 7)
    found = checks.summed_gradients(learner, state, stream).theta
    assert checks.expect_close(found, checks.unrolled_gradient(learner, state, stream).theta, 1e-10, "BPTT") <= 1e-10


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="every must be at most depth"):
        nbt.BlockNoBackTrack(depth=4, every=5)
    with pytest.raises(ValueError, match="follows every step"):
        nbt.BlockNoBackTrack(norms=nbt.GramianNorms())
    with pytest.raises(ValueError, match="belief"):
        nbt.BlockNoBackTrack(belief=0.3)  # pyright: ignore[reportArgumentType]
