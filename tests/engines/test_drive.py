"""Streams of every kind, chunk by chunk: the same states, missing targets, episodes, bad items, divergence."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tables import STREAM, pairs, pairs_learner, same, stepped, symbols_learner

import nobacktrack as nbt
from nobacktrack.means import BLOCK, RECENT


def test_array_gives_an_entry_a_step_in_nats_and_bits():
    learner, state = symbols_learner()
    after, info = learner.run(state, STREAM)
    assert info.loss.shape == (300,)
    np.testing.assert_allclose(info.bits * np.log(2), info.loss, rtol=1e-6)
    assert info.bits[0] == pytest.approx(np.log2(3), rel=1e-5)  # phi = 0 is the uniform distribution
    assert info.mean_bits == pytest.approx(info.bits.mean(), rel=1e-5)
    assert after.steps == info.t == 300


@pytest.mark.parametrize("chunk", [1, 7, 64, 1000])
def test_any_chunk_size_gives_the_same_states(chunk):
    learner, state = symbols_learner()
    after, info = learner.run(state, STREAM, chunk=chunk)
    wanted, wanted_info = learner.run(state, STREAM)
    np.testing.assert_allclose(after.params.theta, wanted.params.theta, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(info.loss, wanted_info.loss, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    "stream",
    [
        lambda: iter(STREAM.tolist()),
        lambda: iter(np.array_split(STREAM, 7)),
        lambda: (nbt.Series(part) for part in np.array_split(STREAM, 3)),
        lambda: itertools.chain(STREAM[:50].tolist(), [STREAM[50:290]], STREAM[290:].tolist()),
    ],
)
def test_iterators_of_symbols_and_of_chunks_are_the_array(stream):
    learner, state = symbols_learner()
    reports = list(learner.run(state, stream(), chunk=64))
    assert [len(info.loss) for _, info in reports] == [64, 64, 64, 64, 44]
    wanted, wanted_info = learner.run(state, STREAM, chunk=64)
    assert same(reports[-1][0], wanted)
    assert reports[-1][1].mean == pytest.approx(wanted_info.mean)


def test_steps_are_the_run():
    learner, state = symbols_learner()
    after, _ = learner.run(state, STREAM[:40])
    np.testing.assert_allclose(
        stepped(learner, state, [(y,) for y in STREAM[:40]]).params.theta, after.params.theta, rtol=1e-5, atol=1e-7
    )
    learner, state = pairs_learner()
    x, y = pairs(30)
    after, _ = learner.run(state, (x, y))
    np.testing.assert_allclose(
        stepped(learner, state, zip(x, y, strict=True)).params.theta, after.params.theta, rtol=1e-5, atol=1e-7
    )


def test_callbacks_see_each_chunk_and_may_stop():
    learner, state = symbols_learner()
    seen = []
    after, info = learner.run(
        state, STREAM, chunk=50, callbacks=[lambda s, i: seen.append(i.t), lambda s, i: i.t >= 150]
    )
    assert seen == [50, 100, 150]
    assert after.steps == 150
    assert len(info.loss) == 150


def test_recent_mean_forgets_and_mean_does_not():
    learner, state = symbols_learner()
    infos = [info for _, info in learner.run(state, itertools.repeat(STREAM, 100), chunk=1000)]
    losses = np.concatenate([info.loss for info in infos]).astype(float)
    assert len(losses) == 3 * BLOCK * RECENT
    assert infos[-1].mean == pytest.approx(losses.mean())
    assert infos[-1].recent == pytest.approx(losses[-BLOCK * RECENT :].mean())


@pytest.mark.parametrize(
    "estimator", [nbt.NoBackTrack(), nbt.RTRL(), nbt.TruncatedBPTT(depth=4), nbt.SlidingBPTT(depth=4)]
)
def test_missing_targets_move_nothing(estimator):
    learner, state = pairs_learner(estimator)
    x, y = pairs(40)
    seen = np.arange(40) % 3 == 0
    after, info = learner.run(state, nbt.Pairs(x, y, seen))
    assert np.array_equal(np.isnan(info.loss), ~seen)
    assert info.mean == pytest.approx(np.nanmean(info.loss), rel=1e-5)
    by_hand = state
    for i in range(40):
        by_hand = learner.advance(by_hand, x[i])
        if seen[i]:
            by_hand, _ = learner.observe(by_hand, y[i])
    np.testing.assert_allclose(by_hand.params.theta, after.params.theta, rtol=1e-4, atol=1e-6)
    items = [(x[i], y[i] if seen[i] else None) for i in range(40)]
    *_, (streamed, _) = learner.run(state, iter(items), chunk=40)
    assert same(streamed, after)


def test_what_stands_in_the_place_of_a_missing_target_does_not_matter():
    learner, state = pairs_learner()
    x, y = pairs(20)
    seen = np.arange(20) % 2 == 1
    y_nan = np.where(seen[:, None], y, np.nan)
    assert same(learner.run(state, nbt.Pairs(x, y, seen))[0], learner.run(state, nbt.Pairs(x, y_nan, seen))[0])


def test_a_stream_without_targets_only_advances():
    learner, state = pairs_learner()
    after, info = learner.run(state, nbt.Pairs(pairs(12)[0]))
    assert np.isnan(info.loss).all()
    assert np.isnan(info.mean)
    assert same(after.params, state.params)
    assert not same(after.h, state.h)


@pytest.mark.parametrize("estimator", [nbt.NoBackTrack(), nbt.SplitNoBackTrack(), nbt.RTRL(), nbt.TruncatedBPTT(3)])
def test_episodes_start_anew_and_keep_what_was_learned(estimator):
    learner, state = symbols_learner(estimator)
    reset = np.zeros(60, bool)
    reset[[20, 45]] = True
    after, _ = learner.run(state, nbt.Series(STREAM[:60], reset))
    by_hand = state
    for a, b in ((0, 20), (20, 45), (45, 60)):
        by_hand, _ = learner.run(learner.reset(by_hand) if a else by_hand, STREAM[a:b])
    np.testing.assert_allclose(by_hand.params.theta, after.params.theta, rtol=1e-4, atol=1e-6)
    again = learner.reset(after)
    assert same(again.h, state.h)
    assert same(again.params, after.params)
    if not isinstance(estimator, nbt.TruncatedBPTT):  # whose block goes on across the reset
        assert float(jnp.abs(learner.gradient(again, 1).theta).max()) == 0
    items = [*STREAM[:20], nbt.RESET, *STREAM[20:45], nbt.RESET, STREAM[45:60]]
    *_, (streamed, _) = learner.run(state, iter(items), chunk=60)
    np.testing.assert_allclose(streamed.params.theta, after.params.theta, rtol=1e-4, atol=1e-6)


def test_works_under_jit_scan_and_vmap_over_seeds():
    learner, _ = symbols_learner()
    states = jax.vmap(learner.init)(jax.random.split(jax.random.key(0), 3))

    @jax.jit
    def all_seeds(states, symbols):
        return jax.vmap(lambda s: jax.lax.scan(learner.step, s, symbols))(states)

    after, info = all_seeds(states, STREAM[:50])
    assert info.bits.shape == (3, 50)
    one = jax.tree.map(lambda leaf: leaf[1], states)
    np.testing.assert_allclose(info.loss[1], learner.run(one, STREAM[:50])[1].loss, rtol=1e-3, atol=1e-5)
    assert len({float(x) for x in after.params.theta.sum(axis=(1, 2, 3))}) == 3


@pytest.mark.parametrize(
    ("stream", "index", "message"),
    [
        (np.array([0, 1, 3, 2]), 2, "symbol 3 is outside the alphabet 0..2"),
        (np.array([0, -1]), 1, "symbol -1"),
        (np.array([0.0, 1.0]), None, "integers"),
        (np.zeros((3, 2), int), None, "shape"),
    ],
)
def test_bad_symbols_are_named_with_their_index(stream, index, message):
    learner, state = symbols_learner()
    with pytest.raises(nbt.BadItem, match=message) as caught:
        learner.run(state, stream)
    assert caught.value.index == index
    assert caught.value.state is state
    assert caught.value.t == 0


@pytest.mark.parametrize(
    ("x", "y", "index", "message"),
    [
        (np.array([[0.0, 1], [np.nan, 0]]), np.zeros((2, 1)), 1, "x at index 1: nan"),
        (np.zeros((2, 2)), np.array([[np.inf], [0.0]]), 0, "y at index 0: inf"),
        (np.zeros((2, 3)), np.zeros((2, 1)), None, "shape"),
        (np.zeros((2, 2)), np.zeros((3, 1)), None, "3 targets for 2 inputs"),
        (np.array([["a", "b"]]), np.zeros((1, 1)), None, "real numbers"),
    ],
)
def test_bad_pairs_are_named_with_their_index(x, y, index, message):
    learner, state = pairs_learner()
    with pytest.raises(nbt.BadItem, match=message) as caught:
        learner.run(state, (x, y))
    assert caught.value.index == index
    assert caught.value.state is state


def test_a_bad_item_in_an_iterator_leaves_what_came_before_it_learned():
    learner, state = symbols_learner()
    items = [*STREAM[:130].tolist(), 9, *STREAM[:10].tolist()]
    with pytest.raises(nbt.BadItem, match="stream at index 130: symbol 9") as caught:
        list(learner.run(state, iter(items), chunk=50))
    assert caught.value.index == 130
    assert caught.value.t == 130
    np.testing.assert_allclose(
        caught.value.state.params.theta, learner.run(state, STREAM[:130])[0].params.theta, rtol=1e-5, atol=1e-7
    )


@pytest.mark.parametrize("bad", ["a", 0.5, None, np.zeros((2, 2)), (0, 1, 2)])
def test_an_item_of_another_kind_is_met_with_what_came_before_it(bad):
    learner, state = symbols_learner()
    with pytest.raises(nbt.BadItem, match="at index 23") as caught:
        list(learner.run(state, iter([*STREAM[:23].tolist(), bad, 0, 1]), chunk=10))
    assert caught.value.index == caught.value.t == 23


def test_the_first_bad_item_is_the_one_that_is_named():
    learner, state = pairs_learner()
    x, y = pairs(40)
    x[31, 0], y[30] = np.nan, np.nan
    for stream in (zip(x, y, strict=True), [nbt.Pairs(x[:15], y[:15]), nbt.Pairs(x[15:], y[15:])]):
        with pytest.raises(nbt.BadItem, match="y at index 30: nan") as caught:
            list(learner.run(state, iter(stream), chunk=10))
        assert caught.value.index == caught.value.t == 30


def test_vectors_of_another_length_are_named():
    learner, state = pairs_learner()
    items = [(np.zeros(2), np.zeros(1))] * 5 + [(np.zeros(3), np.zeros(1))]
    with pytest.raises(nbt.BadItem, match="x at index 5: expected shape"):
        list(learner.run(state, iter(items)))


def test_empty_chunks_and_no_inputs_at_all_pass():
    learner, state = symbols_learner()
    *_, (after, _) = learner.run(state, iter([nbt.RESET, STREAM[:0], STREAM[:10]]), chunk=5)
    assert after.steps == 10
    system = nbt.System(lambda theta, h, x: theta * h, lambda phi, h: h + phi, lambda y_hat, y: (y_hat - y) ** 2)
    alone = nbt.Learner(system, nbt.RTRL(), nbt.SGD(0.1))
    state = alone.init(0, theta=0.5, phi=0.0, h=1.0, x=())
    after, _ = alone.run(state, nbt.Pairs((), 0.8 ** np.arange(1, 20)))
    assert float(after.params.theta) > 0.6


def test_callbacks_stop_on_anything_true_and_see_the_last_chunk():
    learner, state = symbols_learner()
    after, _ = learner.run(state, STREAM, chunk=50, callbacks=[lambda s, i: np.bool_(i.t >= 100)])
    assert after.steps == 100
    seen = []
    for _, info in learner.run(state, iter(STREAM.tolist()), chunk=10, callbacks=[lambda s, i: seen.append(i.t)]):
        if info.t == 20:
            break
    assert seen == [10, 20]


@pytest.mark.parametrize("stream", [lambda x: x, lambda x: iter(x.tolist())])
def test_a_run_that_diverges_stops_with_the_last_good_state(stream):
    learner = nbt.Learner(nbt.LeakyRNN(units=5, symbols=3, activation="tanh"), nbt.NoBackTrack(), nbt.SGD(1e35))
    with pytest.raises(nbt.Divergence, match=r"diverged at t = .* no longer finite; the largest .* Try") as caught:
        list(learner.training(learner.init(0), stream(STREAM), chunk=64))
    state, t = caught.value.state, caught.value.t
    assert state.steps == t < 300
    assert all(
        bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves(state) if jnp.issubdtype(leaf.dtype, jnp.floating)
    )
    with pytest.raises(FloatingPointError):
        learner.step(state, int(STREAM[t]))


def test_a_missing_target_is_no_divergence():
    learner, state = pairs_learner()
    x, y = pairs(10)
    learner.run(state, nbt.Pairs(x, y, np.arange(10) > 4))
