"""Forecasts several targets ahead: nothing is learned before it has come, nothing that came is left out; intervals;
targets of which a part is missing.
"""

import math

import jax
import numpy as np
import pytest

import nobacktrack as nbt
from nobacktrack import checks
from nobacktrack.committee.intervals import student_below
from nobacktrack.growth import enlarge


def committee(inputs=1, outputs=1, **forecasts):
    learner = nbt.Learner(nbt.GRU(units=4, inputs=inputs, outputs=outputs), nbt.TruncatedBPTT(depth=5), nbt.Kalman())
    return nbt.Committee((learner,), nbt.Forecasts(**forecasts))


def stream(count, outputs=1, seed=0):
    random = np.random.default_rng(seed)
    y = 300 + np.cumsum(random.normal(size=(count, outputs)), axis=0)
    return random.normal(size=(count, 1)), y


def forecasts(learner, x, y, seed=0):
    """What is issued after each input, for the target `ahead` - 1 rows later."""
    live = nbt.Live(learner, learner.init(seed))
    found = []
    for one, target in zip(x, y, strict=True):
        live.advance(one)
        found.append(live.predict())
        live.observe(target)
    return np.array(found)


@pytest.mark.parametrize("ahead", [1, 2, 5])
def test_a_forecast_knows_no_target_that_has_not_come(ahead):
    learner, (x, y) = committee(ahead=ahead), stream(120)
    other = y.copy()
    other[80:] += 50
    mine, theirs = forecasts(learner, x, y), forecasts(learner, x, other)
    np.testing.assert_array_equal(mine[:81], theirs[:81])  # that of row 80 was made before its target came
    assert np.abs(mine[81] - theirs[81]).min() > 1


@pytest.mark.parametrize("ahead", [2, 6])
def test_what_is_told_so_many_rows_ahead_is_found(ahead):
    """The input says the step to the target that is predicted; one row off, it says nothing."""
    random = np.random.default_rng(0)
    x = random.normal(size=(800, 1))
    y = np.concatenate([np.zeros((ahead - 1, 1)), x[: len(x) - ahead + 1]]) + 0.1 * random.normal(size=x.shape)
    made = forecasts(committee(ahead=ahead), x, y)[: len(y) - ahead + 1]
    errors = (made - y[ahead - 1 :])[300:]
    assert math.sqrt((errors**2).mean()) < 0.15
    assert math.sqrt(((made[300:-1] - y[ahead:][300:]) ** 2).mean()) > 1


@pytest.mark.parametrize("cut", [1, 7, 50])
def test_the_cut_of_a_stream_changes_nothing(cut, monkeypatch, tmp_path):
    monkeypatch.setattr("nobacktrack.committee.anchors.PERIOD", 20)
    learner, (x, y) = committee(outputs=2, ahead=3, season=4, interval=0.8), stream(100, 2)
    y[np.random.default_rng(1).random(y.shape) < 0.1] = np.nan
    seen = np.random.default_rng(2).random(100) < 0.9
    whole, info = learner.run(learner.init(1), (x, y, seen))
    state, losses = learner.init(1), []
    for begin in range(0, 100, cut):
        part = slice(begin, begin + cut)
        state, found = learner.run(state, (x[part], y[part], seen[part]))
        losses.append(found.loss)
        if begin < 50 <= begin + cut:
            nbt.save(tmp_path / "c.nbt", learner, state)
            state = nbt.load(tmp_path / "c.nbt").state
    np.testing.assert_array_equal(np.concatenate(losses), info.loss)
    assert np.isnan(info.loss[0])  # nothing was foreseen
    assert checks.same_bits(state.influence.panel, whole.influence.panel)
    assert checks.same_bits(state.params, whole.params)


def test_one_step_at_a_time_is_the_same():
    learner, (x, y) = committee(ahead=3, interval=0.9), stream(70)
    live = nbt.Live(learner)
    losses = [live.learn(*row) for row in zip(x, y, strict=True)]
    np.testing.assert_allclose(losses, learner.run(learner.init(0), (x, y))[1].loss, rtol=1e-5)
    before, after = live.state, live.predict(x[0])
    assert checks.same_bits(live.state, before)
    live.advance(x[0])
    np.testing.assert_array_equal(live.predict(), after)


def test_the_outlook_is_what_was_issued():
    learner, (x, y) = committee(ahead=4), stream(50)
    live = nbt.Live(learner)
    assert np.isnan(live.outlook.expected[:3]).all()
    made = []
    for one, target in zip(x, y, strict=True):
        live.advance(one)
        made.append(live.predict())
        known = made[1:][-4:]  # what was issued before anything had come says nothing
        if known:
            np.testing.assert_array_equal(live.outlook.expected[-len(known) :], known)
        live.observe(target)
    live.reset()
    assert np.isnan(live.outlook.expected[:3]).all()
    with pytest.raises(ValueError, match="no outlook"):
        _ = nbt.Live(learner.learners[0]).outlook


def test_a_learner_of_late_targets_is_set_back(monkeypatch):
    monkeypatch.setattr("nobacktrack.committee.anchors.PERIOD", 20)
    monkeypatch.setattr("nobacktrack.committee.session.PERIOD", 20)
    system = nbt.GRU(units=4, inputs=1, outputs=1)
    wild = nbt.Committee((nbt.Learner(system, nbt.NoBackTrack(), nbt.SGD(1e30)),), nbt.Forecasts(ahead=3))
    x, y = stream(200)
    state, info = wild.run(wild.init(0), (x, y))
    assert state.influence.records[0].divergences > 0
    assert np.isfinite(info.loss[2:]).all()


def test_a_learner_of_late_targets_that_diverges_leaves_nothing_infinite():
    system = nbt.LSTM(units=4, inputs=1, outputs=1)
    learner = nbt.Committee((nbt.Learner(system, nbt.TruncatedBPTT(2), nbt.SGD(1e30)),), nbt.Forecasts(ahead=3))
    live, (x, y) = nbt.Live(learner), stream(100)
    for row in zip(x, y, strict=True):
        live.learn(*row)
    assert live.returns
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((live.state.params, live.state.h)))


def test_the_first_rows_have_no_interval():
    live = nbt.Live(committee(interval=0.9))
    for y in (1.0, 2.0, 1.5):
        live.advance([0.0])
        assert np.isnan(live.outlook.bounds).all()
        live.observe([y])
        if y == 2.0:
            break
    live.advance([0.0])
    assert np.isfinite(live.outlook.bounds).all()


def test_missing_numbers_of_a_target_change_nothing_else():
    """An output of which nothing comes neither helps nor harms the other."""
    x, y = stream(300, 2)
    empty = y.copy()
    empty[:, 1] = np.nan
    beside = forecasts(committee(outputs=2), x, empty)
    assert np.isfinite(beside).all()
    errors = (beside - y)[100:, 0]
    assert math.sqrt((errors**2).mean()) < 1.3
    assert np.isfinite(committee(outputs=2).run(committee(outputs=2).init(0), (x, empty))[1].loss).all()
    nothing = np.full_like(y, np.nan)
    assert np.isnan(committee(outputs=2).run(committee(outputs=2).init(0), (x, nothing))[1].loss).all()


def test_a_row_without_a_target_keeps_the_season_in_its_place():
    wave = np.tile(np.random.default_rng(0).normal(size=12), 60)[:, None]
    gaps = np.random.default_rng(1).random(len(wave)) < 0.1
    gaps[:12] = False
    y = np.where(gaps[:, None], np.nan, wave)
    made = forecasts(committee(season=12), np.zeros_like(y), y)
    assert np.abs(made - wave)[400:].max() < 0.05


@pytest.mark.parametrize("share", [0.5, 0.9])
@pytest.mark.parametrize("ahead", [1, 4])
def test_intervals_hold_their_share(share, ahead):
    x, y = stream(3000)
    y[1500:] += np.cumsum(3 * np.random.default_rng(1).normal(size=(1500, 1)), axis=0)  # four times as noisy from here
    learner = committee(ahead=ahead, interval=share)
    live, inside, widths = nbt.Live(learner), [], []
    for one, target in zip(x, y, strict=True):
        live.advance(one)
        low, high = live.outlook.bounds[0]
        inside.append(bool(low <= target[0] <= high))
        widths.append(high[0] - low[0])
        live.observe(target)
    assert abs(np.mean(inside[500:]) - share) < 0.04
    assert live.coverage == pytest.approx(np.mean(inside[ahead:]), abs=0.01)
    assert np.median(widths[2500:]) > 1.5 * np.median(widths[1000:1500])
    with pytest.raises(ValueError, match="interval"):
        nbt.Forecasts(interval=1.0)


@pytest.mark.parametrize(("t", "p"), [(0.0, 0.5), (2.7764451, 0.975), (-4.6040949, 0.005), (-1e9, 0.0)])
def test_students_distribution(t, p):
    assert student_below.py_func(t) == pytest.approx(p, abs=1e-7)


def test_many_outputs_grow_with_their_inputs():
    """Least squares on all outputs are as many before as after."""
    learner, (x, y) = committee(outputs=8), stream(60, 8)
    state, _ = learner.run(learner.init(0), (x, y))
    larger, grown = enlarge(learner, state, inputs=64)
    assert larger.experts == learner.experts
    live, wide = nbt.Live(learner, state), nbt.Live(larger, grown)
    np.testing.assert_allclose(wide.predict(np.eye(64)[0]), live.predict(np.ones(1)), rtol=1e-6)
