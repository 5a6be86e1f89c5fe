"""Committees on numbers: near the best expert, least squares that are least, scales and gaps that break nothing."""

import math

import numpy as np
import pytest

import nobacktrack as nbt
from nobacktrack import checks
from nobacktrack.committee import frozen
from nobacktrack.committee.forecasting import FORGET_NEAR
from nobacktrack.committee.numbers import NumberPanel, begin_numbers
from nobacktrack.committee.past import Numbers
from nobacktrack.committee.shapes import Sizes
from nobacktrack.growth import enlarge


def committee(inputs=1, outputs=1, season=0, update=None, estimator=None):
    system = nbt.GRU(units=4, inputs=inputs, outputs=outputs)
    learner = nbt.Learner(system, estimator or nbt.TruncatedBPTT(depth=5), update or nbt.Kalman())
    return nbt.Committee((learner,), nbt.Forecasts(season=season))


def rows(count, inputs=1, outputs=1, seed=0):
    """A noisy oscillation on a level that wanders, and inputs that say nothing."""
    random, t = np.random.default_rng(seed), np.arange(count)[:, None]
    level = 300 + np.cumsum(0.1 * random.normal(size=(count, outputs)), axis=0)
    y = level + 5 * np.sin(2 * math.pi * t / 12 + np.arange(outputs)) + 0.5 * random.normal(size=(count, outputs))
    return random.normal(size=(count, inputs)), y


def expected(learner, x, y):
    """The forecast of each row, and those of all experts."""
    session = learner.work(learner.init(0), "auto")
    found = []
    for one, target in zip(x, y, strict=True):
        session.advance(one)
        found.append((session.predict(), session.panel.expected))
        session.observe(target)
    return np.array([each for each, _ in found]), np.array([each for _, each in found])


@pytest.mark.parametrize(("outputs", "season"), [(1, 0), (3, 12)])
def test_it_is_not_far_behind_its_best_expert(outputs, season):
    x, y = rows(1500, outputs=outputs)
    learner = committee(outputs=outputs, season=season)
    mixed, each = expected(learner, x, y)
    errors = np.sqrt(((each - y[:, None]) ** 2)[500:].mean(axis=(0, 2)))
    mine = math.sqrt(((mixed - y) ** 2)[500:].mean())
    assert len(errors) == len(learner.experts)
    assert mine <= 1.02 * errors.min()
    assert mine < 0.7 * errors[learner.experts.index("last value")]


def error_of(y, learner=None):
    """The root mean square error on the second half of a series."""
    mixed, _ = expected(learner or committee(), np.zeros((len(y), 1)), y[:, None])
    return math.sqrt(((mixed[:, 0] - y)[len(y) // 2 :] ** 2).mean())


@pytest.mark.parametrize("period", [30, 37, 44])
def test_rare_peaks_that_come_again_are_foreseen(period):
    noise = 0.3 * np.random.default_rng(period).normal(size=4000)
    y = 10 + 30 * (np.arange(4000) % period == 3) + noise
    assert error_of(y, committee(season=period)) < 0.7
    assert error_of(y) < 0.9


@pytest.mark.parametrize("noise", [0, 0.05])
def test_what_grows_steadily_is_foreseen(noise):
    y = np.cumsum(5 + noise * np.random.default_rng(0).normal(size=3000))
    assert error_of(y) <= 1.05 * noise + 1e-3


def test_the_season_is_known_where_it_is_named():
    y = np.tile(np.random.default_rng(0).normal(size=7), 60)[:, None]
    learner = committee(season=7)
    _, each = expected(learner, np.zeros((len(y), 1)), y)
    np.testing.assert_array_equal(each[7:, learner.experts.index("the season before")], y[7:])


def test_the_first_season_may_have_gaps():
    y = 300 + np.tile(np.random.default_rng(0).normal(size=7), 3)[:, None]
    y[3] = np.nan
    learner = committee(season=7)
    _, each = expected(learner, np.zeros((len(y), 1)), y)
    season = learner.experts.index("the season before")
    assert abs(each[10, season, 0] - y[9, 0]) < 1e-9  # the last value in its place
    np.testing.assert_array_equal(each[14:, season], y[7:14])


@pytest.mark.parametrize("scale", [1e-9, 1.0])
def test_a_series_that_stands_still_at_first_is_no_surprise(scale):
    y = np.concatenate([np.zeros(50), np.random.default_rng(0).normal(size=400)])[:, None]
    learner = committee()
    _, info = learner.run(learner.init(0), (np.zeros((450, 1)), scale * y))
    assert np.ptp(info.loss[:50]) < 1e-6
    assert info.loss[100:].mean() == pytest.approx(1.5 + math.log(scale), abs=0.3)


def test_many_inputs_stay_affordable():
    assert Sizes(inputs=5000, outputs=1, networks=2, season=0, ahead=1).near < 300
    assert Sizes(inputs=5000, outputs=1, networks=2, season=0, ahead=1).far < 320


def test_least_squares_are_least():
    """Weights are those of the weighted sum of squares, solved at once."""
    sizes = Sizes(inputs=1, outputs=1, networks=2, season=0, ahead=1)
    panel, (x, y) = NumberPanel(nbt.Forecasts(), begin_numbers(sizes), True), rows(80)
    features, aims = [], []
    for one, target in zip(x, y, strict=True):
        panel.advance(one)
        panel.issue(np.zeros((2, 1)))
        features.append(panel._numbers.issued_near[0].copy())
        _, _, aim = panel.observe(target)
        assert aim is not None
        aims.append(aim[0])
    z, aim = np.array(features[2:]), np.array(aims[2:])  # of the first two the usual difference is not known
    count = len(aim)
    weights = FORGET_NEAR ** np.arange(count)[::-1]
    information = (z.T * weights) @ z + FORGET_NEAR**count * np.eye(z.shape[1])
    np.testing.assert_allclose(panel._numbers.near_w[0], np.linalg.solve(information, (z.T * weights) @ aim), rtol=1e-6)


@pytest.mark.parametrize("cut", [1, 7, 33])
def test_the_cut_of_a_stream_changes_nothing(cut, monkeypatch, tmp_path):
    for module in ("session", "anchors"):
        monkeypatch.setattr(f"nobacktrack.committee.{module}.PERIOD", 20)
    learner, (x, y) = committee(2, 2), rows(100, 2, 2)
    seen = np.random.default_rng(1).random(100) < 0.8
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
    assert np.isnan(info.loss[~seen]).all()
    assert checks.same_bits(state.influence.panel, whole.influence.panel)
    assert checks.same_bits(state.params, whole.params)


def test_one_step_at_a_time_is_the_same():
    learner, (x, y) = committee(), rows(60)
    live = nbt.Live(learner)
    losses = [live.learn(*row) for row in zip(x, y, strict=True)]
    np.testing.assert_allclose(losses, learner.run(learner.init(0), (x, y))[1].loss, rtol=1e-5)
    before = live.state
    ahead = live.predict(x[0])
    assert checks.same_bits(live.state, before)
    live.advance(x[0])
    np.testing.assert_array_equal(live.predict(), ahead)


def test_a_series_of_vectors_is_its_own_input():
    learner, (_, y) = committee(2, 2), rows(200, outputs=2)
    _, info = learner.run(learner.init(0), y)
    assert info.loss[-50:].mean() < 2 * math.log(5)


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_the_unit_of_a_target_does_not_matter(scale):
    x, y = rows(400)
    learner = committee(estimator=nbt.NoBackTrack(), update=nbt.SGD(1e30))  # its network diverges at once
    mixed, _ = expected(learner, x, scale * y)
    base, _ = expected(learner, x, y)
    assert np.isfinite(mixed).all()
    np.testing.assert_allclose(mixed[50:] / scale, base[50:], rtol=1e-3)


def test_outliers_and_constants_break_nothing():
    wave, steady = np.sin(np.arange(300) / 3), np.full(100, 3.0)
    y = np.concatenate([steady, wave, [1e12, 3.0, -1e300], wave, steady])[:, None]
    mixed, _ = expected(committee(), np.zeros((len(y), 1)), y)
    assert np.isfinite(mixed).all()
    assert abs(mixed[99, 0] - 3) < 1e-6
    assert np.abs(mixed[650:703] - y[650:703]).max() < 0.5
    assert abs(mixed[-1, 0] - 3) < 0.1


def test_it_grows_with_its_inputs():
    learner, (x, y) = committee(2), rows(300, 2)
    state, _ = learner.run(learner.init(0), (x, y))
    larger, grown = enlarge(learner, state, inputs=4)
    live, wide = nbt.Live(learner, state), nbt.Live(larger, grown)
    more = np.array([0.3, -1, 0, 0])
    np.testing.assert_allclose(wide.predict(more), live.predict(more[:2]), rtol=1e-6)


def test_a_frozen_one_goes_on_and_learns_nothing():
    learner, (x, y) = committee(), rows(300)
    state, _ = learner.run(learner.init(0), (x, y))
    still, fixed = frozen(learner, state)
    after, info = still.run(fixed, (x[:50], y[:50]))
    learned = Numbers._fields.index("near_p")
    panels = [still.panel(each)._numbers for each in (fixed, after)]  # pyright: ignore[reportAttributeAccessIssue]
    for before, now in zip(panels[0][learned:], panels[1][learned:], strict=True):
        np.testing.assert_array_equal(now, before)
    np.testing.assert_array_equal(panels[1].last, y[49])
    assert np.isfinite(info.loss).all()


def test_it_says_what_it_does_not_take():
    learner = committee()
    with pytest.raises(ValueError, match=r"nbt.Forecasts\(\) is"):
        nbt.Committee(learner.learners, nbt.Contexts())
    with pytest.raises(ValueError, match="season"):
        nbt.Forecasts(season=-1)
    system = nbt.System(lambda theta, h, x: theta * h + x, lambda phi, h: phi * h, lambda y_hat, y: (y_hat - y) ** 2)
    with pytest.raises(ValueError, match="neither symbols nor vectors"):
        nbt.Committee((nbt.Learner(system, nbt.RTRL(), nbt.SGD(0.1)),))
