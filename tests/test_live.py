"""One step at a time, changed in place."""

from __future__ import annotations

import collections

import numpy as np
import pytest
from tables import FUSED_ESTIMATORS, REFUSED, distance, symbols

import nobacktrack as nbt


@pytest.mark.parametrize("estimator", FUSED_ESTIMATORS)
def test_live_steps_are_those_of_a_run(estimator):
    learner = nbt.Learner(nbt.LSTM(units=4, symbols=3), FUSED_ESTIMATORS[estimator], nbt.Kalman())
    start, stream = learner.init(0), symbols(300)
    live = nbt.Live(learner, start)
    losses = [live.learn(int(y)) for y in stream]
    state, info = learner.run(start, stream, engine="fused")
    np.testing.assert_array_equal(np.asarray(losses, np.float32), info.loss)
    assert distance(state, live.state) == 0
    assert live.t == 300
    np.testing.assert_allclose(live.predict(), learner.predict(state), rtol=1e-5)


def test_live_goes_on_after_the_state_was_taken():
    learner = nbt.Learner(nbt.LSTM(units=4, symbols=3), nbt.NoBackTrack(rank=2), nbt.Kalman())
    live, other = (nbt.Live(learner, learner.init(0, dtype="float64")) for _ in range(2))
    for y in symbols(40).tolist():
        live.observe(y)
        assert live.state.steps == live.t  # between the two verbs: nothing is owed to w
        live.advance(y)
        assert live.state.steps == live.t
        other.learn(y)
    assert distance(other.state, live.state) < 1e-10


def test_live_pairs_and_repeated_targets():
    learner = nbt.Learner(nbt.RNN(units=3, inputs=2, outputs=1), nbt.NoBackTrack(), nbt.SGD(0.1))
    state = learner.init(0, dtype="float64")
    live = nbt.Live(learner, state)
    for x, y in (([0.1, 0.2], None), ([0.3, 0.1], [0.5]), ([1.0, -1.0], [0.2])):
        loss = live.learn(np.array(x), None if y is None else np.array(y))
        state, info = learner.step(state, np.array(x), None if y is None else np.array(y))
        np.testing.assert_allclose(loss, info.loss)
    live.observe(np.array([0.4]))  # a second target for the same state
    state, _ = learner.observe(state, np.array([0.4]))
    live.advance(np.array([0.0, 1.0]))
    assert distance(learner.advance(state, np.array([0.0, 1.0])), live.state) < 1e-10


def test_live_refuses_bad_values_and_keeps_its_state():
    live = nbt.Live(nbt.Learner(nbt.RNN(units=3, symbols=3), nbt.NoBackTrack(), nbt.Kalman()))
    live.learn(1)
    before = live.state
    for value in (3, -1, 1.5, None, "a"):
        with pytest.raises(nbt.BadItem, match="y"):
            live.observe(value)
        with pytest.raises(nbt.BadItem):
            live.learn(1, 3 if value is None else value)
    assert distance(before, live.state) == 0


def test_live_copies_what_it_is_given_and_looks_ahead_again():
    """A buffer that is written over, more targets than paces are computed at once, and a schedule of one's own."""
    learner = nbt.Learner(nbt.RNN(units=2, inputs=1, outputs=1), nbt.NoBackTrack(), nbt.SGD(lambda t: 0.1 / t**0.6))
    start = learner.init(0, dtype="float64")
    stream = np.random.default_rng(0).normal(size=(1500, 1))
    live, buffer = nbt.Live(learner, start), np.zeros(1)
    for y in stream:
        buffer[:] = y
        live.learn(buffer)
    assert distance(learner.run(start, stream, engine="fused")[0], live.state) < 1e-12


def test_live_divergence_has_the_last_good_state():
    learner = nbt.Learner(nbt.RNN(units=3, inputs=1, outputs=1), nbt.NoBackTrack(), nbt.SGD(3.0))
    start = learner.init(0, dtype="float64")
    stream = 5 * np.random.default_rng(0).normal(size=(3000, 1))
    live = nbt.Live(learner, start)
    with pytest.raises(nbt.Divergence) as caught:
        collections.deque((live.learn(y) for y in stream), maxlen=0)
    with pytest.raises(nbt.Divergence) as expected:
        learner.run(start, stream, engine="fused")
    assert caught.value.t == expected.value.t == live.t
    assert distance(caught.value.state, live.state) == 0


def test_live_with_the_reference_where_the_loop_does_not_apply():
    learner = REFUSED["LRU"]
    live, state = nbt.Live(learner, learner.init(0)), learner.init(0)
    for y in (0, 2, 1):
        loss = live.learn(y)
        state, info = learner.step(state, y)
        np.testing.assert_allclose(loss, info.loss)
    assert distance(state, live.state) == 0
    assert "LRU" in live.reason
