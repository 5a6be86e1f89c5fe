"""Scales whatever comes: what is far out, what came before that was known, and units that change."""

import numpy as np
import pytest

import nobacktrack as nbt
from nobacktrack.committee.spreads import COUNT, MEAN, RENEWED, SPREAD, add_number
from nobacktrack.engines import begin
from nobacktrack.readers.features import Scale
from nobacktrack.readers.table import COMMITTEE, TableReader

NOISE = np.random.default_rng(0).normal(size=3000)
WAVE = np.sin(np.arange(3000) / 6) + 0.05 * NOISE


def spread_of(values):
    spread = np.zeros((SPREAD, 1))
    for value in values:
        add_number(spread, value)
    return spread


def deviation_of(spread):
    return Scale(*spread[:, 0]).deviation


@pytest.mark.parametrize("values", [NOISE, np.cumsum(NOISE), 5 + 1e-3 * WAVE, np.arange(3000.0)], ids=range(4))
def test_the_mean_and_deviation_of_what_is_not_odd(values):
    spread = spread_of(values)
    assert spread[COUNT, 0] == len(values)
    assert spread[MEAN, 0] == pytest.approx(np.mean(values))
    assert deviation_of(spread) == pytest.approx(np.std(values))


@pytest.mark.parametrize(
    "odd", [[-9999.0], [0.0, 1e6, 0.0], [1e12, -1e12], 1e3 * NOISE[:300]], ids=["first", "one", "two", "unit"]
)
def test_what_was_odd_at_the_start_is_forgotten(odd):
    spread = spread_of([*odd, *NOISE])
    assert spread[MEAN, 0] == pytest.approx(0, abs=0.3)
    assert deviation_of(spread) == pytest.approx(1, rel=0.5)


def test_what_stands_still_is_no_small_unit():
    spread = spread_of([*NOISE[:500], *[NOISE[499]] * 5000])
    assert spread[COUNT, 0] == 5500
    assert 0.1 < deviation_of(spread) < 1


def test_a_unit_that_comes_back_is_found_again():
    spread = spread_of([*NOISE[:500], *1e-3 * NOISE, *NOISE[:600]])
    assert spread[COUNT, 0] < 500 + len(NOISE)
    assert spread[COUNT, 0] >= RENEWED
    assert 0.2 < deviation_of(spread) < 2


def forecasts(y):
    """The forecast of each value of a series, and its interval."""
    network = nbt.Learner(nbt.GRU(units=4, inputs=1, outputs=1), nbt.TruncatedBPTT(depth=5), nbt.Kalman())
    live, found = nbt.Live(nbt.Committee((network,), nbt.Forecasts(interval=0.9))), []
    for value in y:
        live.advance([0.0])
        found.append([live.predict()[0], *live.outlook.bounds[0, :, 0]])
        live.observe([value])
    return np.array(found)


def size(errors):
    """Their root mean square."""
    return np.sqrt(np.mean(np.square(errors)))


@pytest.fixture(scope="module")
def usual():
    """The root mean square error on the wave, at its end."""
    return size((forecasts(WAVE)[:, 0] - WAVE)[-500:])


@pytest.mark.parametrize(("place", "odd"), [(0, -9999), (3, 1e4), (9, 1e6), (12, 1e4), (slice(0, 300), 1e4)])
def test_one_odd_value_or_another_unit_spoils_no_forecast(usual, place, odd):
    y = WAVE.copy()
    y[place] = odd * (y[place] if isinstance(place, slice) else 1)
    assert size((forecasts(y)[:, 0] - y)[-500:]) < 1.15 * usual


@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1e6])
def test_intervals_do_not_depend_on_the_unit(scale):
    y = 3 + WAVE[:800]
    np.testing.assert_allclose(forecasts(scale * y)[50:] / scale, forecasts(y)[50:], rtol=1e-3)


@pytest.mark.parametrize("glitch", [1e3, 1e12])
def test_a_glitch_in_a_column_does_not_make_it_useless(glitch):
    x, errors = NOISE[:1500].copy(), []
    y = 2 * x + 0.1 * NOISE[1500:]
    x[300] = glitch
    reader = TableReader("regression", COMMITTEE._replace(cell="gru", units=4, estimator="bptt:5"))
    for one, target in zip(x.tolist(), y.tolist(), strict=True):
        errors.append((reader.predict({"x": one}) or 0.0) - target)
        reader.learn({"x": one}, target)
    assert size(errors[1000:]) < 0.13


@pytest.mark.parametrize("value", [1e200, -1e101, 10**400], ids=["1e200", "-1e101", "10^400"])
def test_a_number_whose_square_is_none_is_refused_and_changes_nothing(value):
    reader = TableReader("regression", COMMITTEE._replace(cell="gru", units=4, estimator="bptt:5"))
    reader.learn({"x": 1.0}, 2.0)
    before = reader.notes(), reader.state
    with pytest.raises(nbt.BadItem, match=r"target: .*(larger than 1e.100|not finite)"):
        reader.learn({"x": 1.0}, value)
    with pytest.raises(nbt.BadItem, match=r"column 'x': .*(larger than 1e.100|not finite)"):
        reader.learn({"x": value}, 2.0)
    assert reader.notes() == before[0]
    assert nbt.checks.same_bits(reader.state, before[1])


def test_a_scale_is_kept_by_its_record():
    scale = Scale()
    for value in [5.0, *NOISE[:200]]:
        scale.add(value)
    again = Scale(*scale.record())
    scale.add(3.0)
    again.add(3.0)
    assert again.record() == scale.record()


def forecasts_due(y, ahead=1):
    """What was expected of each value, so many rows before."""
    network = nbt.Learner(nbt.GRU(units=4, inputs=1, outputs=1), nbt.TruncatedBPTT(depth=5), nbt.Kalman())
    learner = nbt.Committee((network,), nbt.Forecasts(ahead=ahead))
    found = np.zeros((len(y), 1))
    begin(learner, learner.init(0)).take(nbt.Pairs(np.zeros((len(y), 1)), y[:, None]), found)
    return found[:, 0]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("factor", [1e3, 1e-3], ids=["up", "down"])
def test_another_unit_is_followed_soon(factor, seed):
    t, noise = np.arange(3000), np.random.default_rng(seed).normal(size=3000)
    y = (20 + 5 * np.sin(t / 10) + 0.3 * noise) * np.where(t < 2000, 1, factor)
    assert size((forecasts_due(y) - y)[2060:2500]) < 0.85 * size(np.diff(y)[2059:2499])


@pytest.mark.parametrize("ahead", [1, 6, 24])
def test_another_level_is_no_other_unit(ahead):
    y = NOISE + 90 * (np.arange(3000) >= 2000)
    after = slice(2001 + 2 * ahead, 2061 + 2 * ahead)
    assert size((forecasts_due(y, ahead) - y)[after]) < 30


def test_times_that_are_quiet_and_busy_in_turn_change_the_unit_no_more():
    busy = np.arange(3000) % 200 < 50
    y = np.cumsum(np.where(busy, NOISE, 0.01 * NOISE))
    assert size((forecasts_due(y) - y)[1500:][busy[1500:]]) < 1.1
