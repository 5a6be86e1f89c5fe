"""Least squares of targets as they are: rows of any size, rows before, and values without odd ones."""

import numpy as np
import pytest

import nobacktrack as nbt
from nobacktrack.committee.numbers import NumberPanel, begin_numbers
from nobacktrack.committee.robust import FORGET
from nobacktrack.committee.shapes import Sizes
from nobacktrack.growth import enlarge


def committee(inputs=1):
    system = nbt.GRU(units=4, inputs=inputs, outputs=1)
    return nbt.Committee((nbt.Learner(system, nbt.TruncatedBPTT(depth=5), nbt.Kalman()),))


def forecasts(x, y):
    """The forecast of each target, and those of all experts."""
    learner = committee(x.shape[1])
    session = learner.work(learner.init(0), "auto")
    mixed, each = [], []
    for row, target in zip(x, y, strict=True):
        session.advance(row)
        mixed.append(session.predict()[0])
        each.append(session.panel.expected[:, 0])
        session.observe(np.array([target]))
    return np.array(mixed), dict(zip(learner.experts, np.array(each).T, strict=True))


def size(errors):
    return np.sqrt(np.mean(np.square(errors)))


def test_on_rows_without_odd_ones_they_are_least_squares():
    random = np.random.default_rng(0)
    x = 5 + random.normal(size=(60, 2))
    y = x @ [1.0, -2.0] + 0.1 * random.normal(size=60)
    _, each = forecasts(x, y)
    z, aim = np.column_stack([np.ones(60), x - x[0]]), y - y[0]
    weights = FORGET ** np.arange(59)[::-1]
    found = np.linalg.solve((z[:59].T * weights) @ z[:59] + 1e-9 * np.eye(3), (z[:59].T * weights) @ aim[:59])
    assert each["least squares, the row"][59] == pytest.approx(y[0] + z[59] @ found, abs=0.02)


@pytest.mark.parametrize("columns", [1, 10])
def test_skewed_columns_are_used_as_they_are(columns):
    random = np.random.default_rng(7)
    x = np.exp(1.5 * random.normal(size=(1000, columns)))
    y = x.sum(axis=1) + 0.5 * random.normal(size=1000)
    mixed, _ = forecasts(x, y)
    assert size((mixed - y)[500:]) < 0.56


def test_a_linear_target_is_learned_from_some_dozen_rows():
    random = np.random.default_rng(1)
    x = random.normal(size=(120, 5))
    y = x @ np.arange(1.0, 6.0) + 0.1 * random.normal(size=120)
    mixed, _ = forecasts(x, y)
    assert size((mixed - y)[60:]) < 0.15


@pytest.mark.parametrize("lag", [1, 5])
def test_rows_of_inputs_before_are_used(lag):
    random = np.random.default_rng(2)
    x, y = random.normal(size=(1200, 2)), 0.1 * random.normal(size=1200)
    y[lag:] += x[:-lag, 0]
    mixed, each = forecasts(x, y)
    assert size((mixed - y)[600:]) < 0.12
    assert size((each["least squares, the row"] - y)[600:]) > 0.8


def test_an_odd_value_is_not_echoed():
    random, t = np.random.default_rng(4), np.arange(3000)
    y = 3 * np.sin(t / 6) + 0.5 * random.normal(size=3000)
    odd = np.flatnonzero(random.random(3000) < 0.02)
    y[odd] += 100 * random.choice([-1, 1], len(odd))
    mixed, _ = forecasts(np.zeros((3000, 1)), y)
    after = np.setdiff1d(odd + 1, odd)
    after = after[(after > 1500) & (after < 3000)]
    assert size((mixed - y)[after]) < 3
    rest = np.setdiff1d(np.arange(1500, 3000), odd)
    assert size((mixed - y)[rest]) < 1.2


def test_a_step_is_followed():
    random = np.random.default_rng(5)
    y = np.repeat(20 * random.normal(size=30), 100) + 0.1 * random.normal(size=3000)
    mixed, _ = forecasts(np.zeros((3000, 1)), y)
    stays = np.arange(3000) % 100 > 5
    assert size((mixed - y)[stays & (np.arange(3000) > 1000)]) < 0.2


def test_one_odd_row_moves_little():
    random = np.random.default_rng(6)
    x = random.normal(size=(800, 1))
    y = 2 * x[:, 0] + 0.1 * random.normal(size=800)
    x[400] = 1e9
    _, each = forecasts(x, y)
    assert size((each["least squares, the row"] - y)[450:]) < 0.15


def test_what_is_learned_of_rows_of_inputs_begins_anew_where_fewer_are_held():
    learner = committee(16)
    x, y = np.random.default_rng(0).normal(size=(100, 16)), np.random.default_rng(1).normal(size=(100, 1))
    state, _ = learner.run(learner.init(0), (x, y))
    larger, grown = enlarge(learner, state, inputs=64)
    assert len(larger.experts) == len(learner.experts)
    more = np.pad(x, ((0, 0), (0, 48)))
    before, after = nbt.Live(learner, state), nbt.Live(larger, grown)
    assert after.predict(more[0])[0] == pytest.approx(before.predict(x[0])[0], abs=0.5)
    _, info = larger.run(grown, (more, y))
    assert np.isfinite(info.loss).all()


def test_no_feature_that_never_varied_moves_anything():
    sizes = Sizes(inputs=2, outputs=1, networks=2, season=0, ahead=1)
    panel, random = NumberPanel(nbt.Forecasts(), begin_numbers(sizes), True), np.random.default_rng(0)
    for x in random.normal(size=50):
        panel.advance([x, 7.0])
        panel.issue(np.zeros((2, 1)))
        panel.observe([3 * x])
    assert panel._numbers.row_units[2] == 0
    assert panel._numbers.row_w[0, 2] == 0
    assert panel._numbers.row_w[0, 1] == pytest.approx(3, rel=1e-3)
