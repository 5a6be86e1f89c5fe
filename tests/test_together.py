"""Several streams at once: the mean of what each says, one set of parameters."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import nobacktrack as nbt
from nobacktrack.checks import same_bits

SYSTEM = nbt.LeakyRNN(units=4, symbols=3)
ESTIMATORS = (nbt.NoBackTrack(rank=2), nbt.RTRL(), nbt.TruncatedBPTT(depth=3), nbt.ARTBP(depth=4))
STREAMS = np.stack([nbt.streams.anbn(1, 4, length=60, seed=seed) for seed in range(3)], axis=1)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
@pytest.mark.parametrize("update", [nbt.Kalman(), nbt.SGD(0.1)], ids=repr)
def test_one_stream_together_is_one_stream(estimator, update):
    learner = nbt.Learner(SYSTEM, estimator, update)
    alone, info = learner.run(learner.init(0, dtype=jnp.float64), STREAMS[:, 0], engine="jax")
    both = nbt.Together(learner, streams=1)
    state, infos = both.run(both.init(0, dtype=jnp.float64), STREAMS[:, :1])
    np.testing.assert_allclose(state.params.theta, alone.params.theta, rtol=1e-9)
    np.testing.assert_allclose(infos.loss, info.loss, rtol=1e-9)


def test_gradients_are_averaged_and_information_too():
    """A step of three streams by hand: the gradient of each, its mean, and the mean of the outer products."""
    learner = nbt.Learner(SYSTEM, nbt.RTRL(), nbt.SGD(0.1))
    three = nbt.Together(learner, streams=3)
    state, _ = three.run(three.init(0, dtype=jnp.float64), STREAMS[:10])
    y = STREAMS[10]
    ones = [
        state._replace(h=state.h[i], influence=jax.tree.map(lambda leaf, i=i: leaf[i], state.influence))
        for i in range(3)
    ]
    gradients = [learner.gradient(one, int(target)) for one, target in zip(ones, y, strict=True)]
    following, info = three.observe(state, y)
    mean = sum(gradient.theta for gradient in gradients) / 3
    np.testing.assert_allclose(following.params.theta, state.params.theta - 0.1 * mean, rtol=1e-12)
    losses = [learner.observe(one, int(target))[1].loss for one, target in zip(ones, y, strict=True)]
    assert float(info.loss) == pytest.approx(np.mean(losses), rel=1e-12)
    kalman = nbt.Together(nbt.Learner(SYSTEM, nbt.RTRL(), nbt.Kalman(decay=0.0, metric=nbt.Diagonal())), streams=3)
    blank = kalman.init(0, dtype=jnp.float64)
    filtered, _ = kalman.observe(blank._replace(params=state.params, h=state.h, influence=state.influence), y)
    squares = sum(gradient.theta**2 for gradient in gradients) / 3
    np.testing.assert_allclose(filtered.update.theta.information[0], squares, rtol=1e-12)


def test_streams_have_signs_of_their_own():
    three = nbt.Together(nbt.Learner(nbt.RNN(units=40, symbols=3), nbt.NoBackTrack(), nbt.SGD(0.1)), streams=3)
    state = three.init(0)
    (signs,) = jax.tree.leaves(three.draw(state, state.t))
    assert len({np.asarray(row).tobytes() for row in signs}) == 3
    alone = three.learner.draw(three.learner.init(0), state.t)
    assert np.asarray(signs[0]).tobytes() == np.asarray(jax.tree.leaves(alone)[0]).tobytes()


def test_an_episode_begins_on_one_of_the_streams():
    three = nbt.Together(nbt.Learner(SYSTEM, nbt.RTRL(), nbt.SGD(0.1)), streams=3)
    begun, _ = three.run(three.init(0), STREAMS[:20])
    after = three.reset(begun, np.array([False, True, False]))
    assert not np.any(np.asarray(after.h[1]))
    assert same_bits(after.h[::2], begun.h[::2])
    assert not np.any(np.asarray(after.influence[1]))
    flags = np.zeros((40, 3), bool)
    flags[20, 1] = True
    whole, _ = three.run(three.init(0), nbt.Series(STREAMS[:40], flags))
    cut, _ = three.run(after, STREAMS[20:40])
    np.testing.assert_allclose(whole.params.theta, cut.params.theta, rtol=1e-5)
    live = nbt.Live(three, begun)
    live.reset(np.array([False, True, False]))
    assert same_bits(live.state, after)
    with pytest.raises(ValueError, match="there is one stream"):
        nbt.Live(three.learner).reset(np.array([True]))


def test_live_checkpoints_and_bad_items(tmp_path):
    three = nbt.Together(nbt.Learner(SYSTEM, nbt.NoBackTrack(), nbt.Kalman()), streams=3)
    live = nbt.Live(three)
    assert np.isfinite([live.learn(y) for y in STREAMS[:15]]).all()
    assert live.predict().shape == (3, 3)
    live.save(tmp_path / "a")
    assert same_bits(nbt.Live.load(tmp_path / "a").state, live.state)
    with pytest.raises(nbt.BadItem, match=r"y at index 1: symbol 7 is outside"):
        live.observe([0, 7, 1])
    with pytest.raises(nbt.BadItem, match="3 streams"):
        live.observe([0, 1])
    bad = STREAMS.copy()
    bad[5, 2] = 9
    with pytest.raises(nbt.BadItem, match="at index 5, stream 2"):
        three.run(live.state, bad)
    with pytest.raises(ValueError, match="another learner"):
        nbt.load(tmp_path / "a", nbt.Together(three.learner, streams=2))


def test_more_streams_learn_more_a_step():
    """With the same number of steps, the mean over streams has less noise."""
    streams = np.stack([nbt.streams.anbn(1, 8, length=4000, seed=seed) for seed in range(8)], axis=1)
    learner = nbt.Learner(nbt.LeakyRNN(units=8, symbols=3), nbt.NoBackTrack(), nbt.Optax(optax.adam(3e-3)))
    ends = []
    for count in (1, 8):
        group = nbt.Together(learner, streams=count)
        _, info = group.run(group.init(0), streams[:, :count])
        ends.append(info.bits[-1000:].mean())
    assert ends[1] < ends[0]


def test_several_streams_have_no_exact_fisher():
    group = nbt.Together(nbt.Learner(SYSTEM, nbt.RTRL(), nbt.Kalman(fisher=nbt.ExactFisher())), streams=2)
    with pytest.raises(ValueError, match="several streams have no one dy/dtheta"):
        group.observe(group.init(0), [0, 1])
