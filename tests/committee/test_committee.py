"""Committees: what they predict is what they are scored by, nothing is lost, and they go on bit for bit."""

import math
from typing import Any

import jax
import numpy as np
import pytest
from tables import symbols

import nobacktrack as nbt
from nobacktrack import checks
from nobacktrack.committee import anchors, frozen
from nobacktrack.growth import enlarge, without_symbols
from nobacktrack.readers.alphabets import Growing
from nobacktrack.readers.text import TextReader

SYSTEM = nbt.GRU(units=6, symbols=3)
SMALL = nbt.Contexts(depth=3, reach=256, memory=1 << 20)


def committee(*updates, estimator=None, system: Any = SYSTEM):
    learners = [
        nbt.Learner(system, estimator or nbt.TruncatedBPTT(depth=5), each) for each in updates or [nbt.Kalman()]
    ]
    return nbt.Committee(tuple(learners), SMALL)


@pytest.fixture
def short_periods(monkeypatch):
    """Members are looked at every 20 inputs, and may become the anchor every 40."""
    for module in ("session", "anchors"):
        monkeypatch.setattr(f"nobacktrack.committee.{module}.PERIOD", 20)
    monkeypatch.setattr("nobacktrack.committee.anchors.PERIODS", 2)


@pytest.mark.parametrize("engine", ["fused", "jax"])
def test_the_loss_is_that_of_the_prediction(engine):
    learner, stream = committee(nbt.Kalman(), nbt.SGD(0.1)), symbols(300)
    live = nbt.Live(learner, learner.init(0), engine=engine)
    for y in stream.tolist():
        p = live.probabilities()
        assert p.sum() == pytest.approx(1, abs=1e-6)
        assert live.learn(y) == pytest.approx(-math.log(p[y]), abs=2e-6)


@pytest.mark.parametrize("cut", [1, 7, 20, 33])
def test_the_cut_of_a_stream_changes_nothing(cut, short_periods):
    learner, stream = committee(nbt.Kalman(), nbt.SGD(0.5)), symbols(150)
    whole, info = learner.run(learner.init(1), stream)
    state, losses = learner.init(1), []
    for begin in range(0, len(stream), cut):
        state, part = learner.run(state, stream[begin : begin + cut])
        losses.append(part.loss)
    np.testing.assert_array_equal(np.concatenate(losses), info.loss)
    assert checks.same_bits(state, whole)


def test_pairs_missing_targets_and_episodes(short_periods):
    random = np.random.default_rng(0)
    x, y, seen = symbols(120), random.integers(0, 3, 120), random.random(120) < 0.7
    reset = random.random(120) < 0.05
    learner = committee()
    state, info = learner.run(learner.init(0), nbt.Pairs(x, y, seen, reset))
    assert np.isnan(info.loss[~seen]).all()
    assert np.isfinite(info.loss[seen]).all()
    live, losses = nbt.Live(learner, learner.init(0)), []
    for i in range(120):
        if reset[i]:
            live.reset()
        losses.append(live.learn(int(x[i]), int(y[i]) if seen[i] else None))
    np.testing.assert_allclose(losses, info.loss, atol=1e-5)
    assert checks.same_bits(live.state.influence.panel, state.influence.panel)


def test_labels_of_vectors_are_predicted_from_the_labels_before():
    learner = nbt.Committee((nbt.Learner(nbt.RNN(units=5, inputs=2, symbols=2), nbt.RTRL(), nbt.Kalman()),), SMALL)
    x, y = np.random.default_rng(0).normal(size=(400, 2)), np.arange(400) // 2 % 2
    _, info = learner.run(learner.init(0), (x, y))
    assert info.bits[-100:].mean() < 0.1


def test_predict_after_an_input_changes_nothing():
    learner = nbt.Committee((nbt.Learner(nbt.RNN(units=5, symbols=3), nbt.NoBackTrack(), nbt.Kalman()),), SMALL)
    live = nbt.Live(learner)
    for y in symbols(50).tolist():
        live.learn(y)
    before, expected = live.state, live.predict(1)
    assert checks.same_bits(live.state, before)
    live.advance(1)
    np.testing.assert_array_equal(live.predict(), expected)


def spoiled(state, members=(0,)):
    """A state whose learners have lost all that they knew."""
    theta, phi = list(state.params.theta), list(state.params.phi)
    for member in members:
        theta[member], phi[member] = -3 * theta[member], 20 + 5 * np.asarray(phi[member])[::-1]
    return state._replace(params=state.params._replace(theta=tuple(theta), phi=tuple(phi)))


def test_what_was_learned_is_not_lost(short_periods):
    stream = np.tile([0, 0, 1, 2], 1000).astype(np.int32)
    learner = committee()
    state, _ = learner.run(learner.init(0), stream[:2000])
    (record,) = state.influence.records
    assert record.anchors > 0
    assert record.returns == 0
    after, info = learner.run(spoiled(state), stream[2000:2400])
    (record,) = after.influence.records
    assert (record.returns, record.divergences) == (1, 0)
    assert record.patience == pytest.approx(2 * anchors.LOST)
    assert info.bits[30:].max() < 0.1
    alone = learner.learners[0]
    bits = alone.run(learner.unpack(after)[0][0], stream[2400:2600])[1].bits
    assert bits.mean() < 0.1


def test_a_poor_anchor_does_not_hold_a_learner(short_periods):
    """The stream changes for good: the learner, which loses at first, becomes the anchor."""
    before, after = np.tile([0, 1, 2], 400).astype(np.int32), np.tile([0, 0, 2, 1, 1], 1200).astype(np.int32)
    learner = committee()
    state, _ = learner.run(learner.init(0), before)
    known = int(state.influence.records[0].anchors)
    state, info = learner.run(state, after)
    assert state.influence.records[0].anchors > known
    ((network, anchor),) = learner.unpack(state)
    for own in (network, anchor._replace(influence=network.influence)):
        assert learner.learners[0].run(own, after[:200])[1].bits[50:].mean() < 0.5
    assert info.bits[-1000:].mean() < 0.05


@pytest.mark.parametrize("engine", ["fused", "jax"])
def test_a_member_that_diverges_is_set_back_and_the_run_goes_on(engine):
    learner = committee(nbt.SGD(1e30), estimator=nbt.NoBackTrack())
    state, info = learner.run(learner.init(0), symbols(200), engine=engine)
    assert np.isfinite(info.loss).all()
    assert state.influence.records[0].divergences > 0
    assert all(np.isfinite(np.asarray(leaf)).all() for leaf in jax.tree.leaves(state.params))


@pytest.mark.parametrize("cut", [1, 17, 170])
def test_where_a_member_diverges_the_cut_of_a_stream_changes_nothing(cut, short_periods):
    learner, stream = committee(nbt.SGD(1e30)), symbols(300)
    whole, info = learner.run(learner.init(0), stream)
    state, losses = learner.init(0), []
    for begin in range(0, len(stream), cut):
        state, found = learner.run(state, stream[begin : begin + cut])
        losses.append(found.loss)
    assert whole.influence.records[0].divergences > 1
    np.testing.assert_array_equal(np.concatenate(losses), info.loss)
    assert checks.same_bits(state.params, whole.params)
    assert checks.same_bits(state.influence.records, whole.influence.records)


def test_one_that_diverged_rests_until_the_next_look():
    learner, stream = committee(nbt.SGD(1e30)), symbols(100)
    live = nbt.Live(learner)
    for symbol in stream:
        live.learn(symbol)
    state, _ = learner.run(learner.init(0), stream)
    for found in (live.state, state):
        assert found.influence.records[0].returns == 1
        assert found.influence.records[0].rests
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((found.params, found.h)))


def test_rows_beyond_small_floats_reach_no_network():
    system = nbt.RNN(units=5, inputs=2, symbols=2)
    learner, random = committee(system=system), np.random.default_rng(0)
    x = random.normal(size=(400, 2))
    y = (x[:, 0] > 0).astype(np.int32)
    x[100], x[150] = [1e39, 1e39], [-1e300, 1e300]
    state, info = learner.run(learner.init(0), (x, y))
    assert np.isfinite(info.loss).all()
    assert info.bits[-100:].mean() < 0.5
    live = nbt.Live(learner)
    losses = [live.learn(*item) for item in zip(x, y, strict=True)]
    assert np.isfinite(losses).all()
    assert all(np.isfinite(leaf).all() for found in (state, live.state) for leaf in jax.tree.leaves(found.h))


def test_kill_and_resume_in_the_middle_of_a_return(short_periods, tmp_path):
    stream, learner = np.tile([0, 0, 1, 2], 1000).astype(np.int32), committee(nbt.Kalman(), nbt.SGD(0.1))
    state, _ = learner.run(learner.init(0), stream[:2000])
    state, _ = learner.run(spoiled(state), stream[2000:2010])
    nbt.save(tmp_path / "c.nbt", learner, state)
    found = nbt.load(tmp_path / "c.nbt")
    assert found.learner == learner
    mine, theirs = (each.run(own, stream[2010:2100]) for each, own in ((learner, state), found[:2]))
    np.testing.assert_array_equal(mine[1].loss, theirs[1].loss)
    assert checks.same_bits(mine[0], theirs[0])
    assert mine[0].influence.records[0].returns > 0


def test_a_state_of_another_learner_is_refused(tmp_path):
    learner = committee()
    nbt.save(tmp_path / "c.nbt", learner, learner.init(0))
    with pytest.raises(ValueError, match="the state is not one of"):
        nbt.load(tmp_path / "c.nbt", committee(nbt.Kalman(), nbt.Kalman()))
    with pytest.raises(ValueError, match="made by another learner"):
        nbt.load(tmp_path / "c.nbt", committee(system=nbt.GRU(units=7, symbols=3)))


def test_a_frozen_committee_learns_nothing(short_periods):
    learner = committee()
    state, _ = learner.run(learner.init(0), symbols(500))
    still, fixed = frozen(learner, state)
    after, first = still.run(fixed, np.tile([0, 0, 1, 2], 200).astype(np.int32))
    assert checks.same_bits(after.params, fixed.params)
    assert checks.same_bits(after.influence.records, fixed.influence.records)
    for known, now in (
        (fixed.influence.panel.mixer, after.influence.panel.mixer),
        (fixed.influence.panel.contexts.table, after.influence.panel.contexts.table),
    ):
        assert checks.same_bits(known, now)
    assert np.isfinite(first.loss).all()


def test_it_reads_characters_as_they_come():
    text = ("the cat sat on the mat. " * 60 + "\u00e9t\u00e9 " * 20).encode()
    alphabet = Growing(capacity=8)
    learner = committee(system=nbt.GRU(units=8, symbols=8))
    reader = TextReader(learner, learner.init(0), alphabet)
    losses = np.concatenate([reader.take(text), reader.finish()])
    assert np.isfinite(losses).all()
    assert reader.learner.system.symbols == alphabet.capacity == 16
    assert losses[-20:].mean() < 0.5
    company = reader.company()
    assert isinstance(reader.learner, nbt.Committee)
    assert set(company["experts"]) == set(reader.learner.experts)
    assert company["set_back"] == 0


def test_growth_keeps_what_is_known():
    learner = committee()
    state, _ = learner.run(learner.init(0), symbols(400))
    larger, grown = enlarge(learner, state, symbols=5)
    before = learner.probabilities(state)
    after = larger.probabilities(without_symbols(grown, 3))
    np.testing.assert_allclose(after[:3] / after[:3].sum(), before, atol=5e-2)
    assert after[3:].sum() < 0.4  # contexts do not know yet that they do not come


def test_it_says_what_it_does_not_take():
    learner = committee()
    state = learner.init(0)
    with pytest.raises(ValueError, match="no late targets"):
        learner.observe(state, 0, at=state)
    with pytest.raises(nbt.BadItem, match="outside the alphabet"):
        learner.observe(state, 3)
    with pytest.raises(ValueError, match="neither symbols nor vectors"):
        nbt.Committee((nbt.Learner(nbt.RNN(units=3, symbols=2, outputs=1), nbt.RTRL(), nbt.SGD(0.1)),))
    with pytest.raises(ValueError, match="all must take the same"):
        nbt.Committee((learner.learners[0], committee(system=nbt.RNN(units=3, symbols=4)).learners[0]))
    with pytest.raises(ValueError, match="one nbt"):
        nbt.Committee(())
