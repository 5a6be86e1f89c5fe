"""Models of labels: linear ones equal their filter written out, naive Bayes, and how far each is trusted."""

import math

import numpy as np
import pytest
from scipy.special import log_softmax
from scipy.stats import norm

import nobacktrack as nbt
from nobacktrack import checks
from nobacktrack.committee import frozen, labels
from nobacktrack.growth import enlarge, without_symbols

LINEAR, PAIRS, BAYES = range(3)


def committee(inputs=3, symbols=2):
    system = nbt.RNN(units=4, inputs=inputs, symbols=symbols)
    return nbt.Committee((nbt.Learner(system, nbt.RTRL(), nbt.Kalman()),), nbt.Contexts(depth=2, memory=1 << 20))


def stream(count=400, inputs=3, symbols=2, noise=0.0, seed=0):
    """Rows in no order, whose label is that of the largest of some weighed sums, or any, with probability `noise`."""
    random = np.random.default_rng(seed)
    x, weights = random.normal(size=(count, inputs)), random.normal(size=(inputs, symbols))
    y = np.argmax(x @ weights, axis=1)
    return x, np.where(random.random(count) < noise, random.integers(0, symbols, count), y).astype(np.int32)


def read(x, y, symbols=2, state=None):
    """What each model expects of each label, and what they know at the end."""
    models = labels.LabelModels(state or labels.begin_labels(x.shape[1], symbols), learning=True)
    return models.read(x, y, np.ones(len(y), bool), np.dtype(float)), models


def standardised(x):
    """Each row in deviations off the mean of all so far."""
    found = np.zeros_like(x)
    for t in range(len(x)):
        deviation = x[: t + 1].std(axis=0)
        found[t] = (x[t] - x[: t + 1].mean(axis=0)) / np.where(deviation > 0, deviation, 1)
    return np.clip(found, -labels.FARTHEST, labels.FARTHEST)


def of_rows(row):
    return np.array([1, *row])


def of_products(row):
    return np.array([1, *(each for i, x in enumerate(row) for each in (x, *(x * row[: i + 1])))])


@pytest.mark.parametrize(("name", "features"), [("w", of_rows), ("pairs_w", of_products)])
def test_a_linear_model_is_its_filter_written_out(name, features):
    x, y = stream(60, symbols=3)
    y[:3] = [0, 1, 2]
    _, models = read(x, y, symbols=3)
    count = features(x[0]).size
    inverse, w, come = np.eye(count) / labels.COVARIANCE, np.zeros((3, count)), np.zeros(3, bool)
    for row, label in zip(standardised(x), y, strict=True):
        z = features(row)
        come[label] = True
        p = np.where(come, np.exp(w @ z - (w @ z).max()), 0)
        p /= p.sum()
        inverse = labels.FORGET * inverse + max(labels.LEAST_CURVATURE, (p * (1 - p)).max()) * np.outer(z, z)
        w += np.outer(np.where(come, (np.arange(3) == label) - p, 0), np.linalg.solve(inverse, z))
    np.testing.assert_allclose(getattr(models._rows, name), w, rtol=1e-9, atol=1e-12)


def test_naive_bayes_is_the_density_of_each_label():
    x, y = stream(80)
    _, models = read(x, y)
    m, row = models._rows, np.array([0.3, -1.0, 2.0])
    z = standardised(x)
    models.advance(row)
    found = models.predict(np.dtype(float))[BAYES]
    now = m.z[1:]
    pooled = sum(z[y == a].var(axis=0) * (y == a).sum() for a in range(2)) / len(y)
    evidence = []
    for a in range(2):
        mine, count = z[y == a], (y == a).sum()
        variance = (mine.var(axis=0) * count + labels.POOLED * pooled) / (count + labels.POOLED)
        evidence.append(norm.logpdf(now, mine.mean(axis=0), np.sqrt(variance)).sum())
    counts = np.log(np.bincount(y) + 0.5)
    q = np.exp(log_softmax(counts + m.power[BAYES] * np.array(evidence)))
    np.testing.assert_allclose(np.exp(found), (1 - m.lapse[BAYES]) * q + m.lapse[BAYES] / 2, rtol=1e-9)


def test_labels_that_follow_from_the_row_are_learned_at_once():
    x, y = stream(300, inputs=8)
    y_hats, _ = read(x, y)
    right = y_hats.argmax(axis=2) == y
    assert right[LINEAR, 100:].mean() > 0.93
    assert (right[:, 100:].mean(axis=1) > 0.85).all()


def test_labels_of_products_are_learned_at_once():
    x, _ = stream(400, inputs=4)
    y = (x[:, 0] * x[:, 1] > 0).astype(np.int32)
    y_hats, _ = read(x, y)
    right = (y_hats.argmax(axis=2) == y)[:, 200:].mean(axis=1)
    assert right[PAIRS] > 0.85
    assert right[LINEAR] < 0.6


def test_labels_without_a_reason_are_told_from_a_soft_boundary():
    """A fifth of the labels is drawn anew: what is expected far from the boundary is 0.9, not more and not less."""
    x, y = stream(4000, inputs=4, noise=0.2)
    y_hats, models = read(x, y)
    assert models._rows.lapse[LINEAR] == pytest.approx(0.2, abs=0.06)
    best = -(0.9 * math.log(0.9) + 0.1 * math.log(0.1))
    loss = -y_hats[LINEAR, 2000:][np.arange(2000), y[2000:]].mean()
    assert best - 0.03 < loss < best + 0.05


def test_a_label_that_comes_for_the_first_time_has_a_share_of_its_own():
    x, y = stream(50, symbols=2)
    _, models = read(x, y, symbols=4)
    p = np.exp(models.predict(np.dtype(float)))
    np.testing.assert_allclose(p.sum(axis=1), 1)
    np.testing.assert_allclose(p[:, 2:], 0.5 / 52)
    models.observe(3)
    assert np.exp(models.predict(np.dtype(float)))[LINEAR, 3] > 0.5 / 52


def test_columns_of_any_size_are_all_the_same():
    x, y = stream(200)
    first, _ = read(x, y)
    second, _ = read(x * np.array([1e12, 1e-9, 1.0]) + np.array([1e13, 0, -5]), y)
    np.testing.assert_allclose(second[:, 20:], first[:, 20:], atol=1e-2)


def test_many_columns_stay_affordable():
    x, y = stream(50, inputs=labels.MOST_LINEAR + 50)
    y_hats, models = read(x, y)
    assert models._rows.p.shape == (labels.MOST_LINEAR + 1,) * 2
    assert np.isfinite(y_hats).all()


def test_more_columns_and_labels_change_nothing_that_is_known():
    x, y = stream(100)
    _, models = read(x, y)
    larger = labels.LabelModels(labels.more_labels(models.state(), 6, 4), learning=True)
    for each, row in ((models, x[0]), (larger, np.array([*x[0], 0, 0, 0]))):
        each.advance(row)
    before, after = (np.exp(each.predict(np.dtype(float))) for each in (models, larger))
    np.testing.assert_allclose(after[:, :2] / after[:, :2].sum(axis=1, keepdims=True), before, rtol=1e-6)


@pytest.mark.parametrize("cut", [1, 7, 64])
def test_row_by_row_is_as_all_at_once(cut):
    learner, (x, y) = committee(), stream(128)
    seen = np.random.default_rng(1).random(128) < 0.8
    whole, info = learner.run(learner.init(0), nbt.Pairs(x, y, seen))
    state, losses = learner.init(0), []
    for begin in range(0, 128, cut):
        end = begin + cut
        state, part = learner.run(state, nbt.Pairs(x[begin:end], y[begin:end], seen[begin:end]))
        losses.append(part.loss)
    np.testing.assert_array_equal(np.concatenate(losses), info.loss)
    assert checks.same_bits(state, whole)
    live = nbt.Live(learner)
    found = [live.learn(x[t], int(y[t]) if seen[t] else None) for t in range(128)]
    np.testing.assert_allclose(found, info.loss, atol=1e-5)
    assert checks.same_bits(live.state.influence.panel.labels, whole.influence.panel.labels)


def test_looking_ahead_changes_nothing():
    live, (x, y) = nbt.Live(committee()), stream(60)
    for row, label in zip(x, y.tolist(), strict=True):
        live.learn(row, label)
    before, expected = live.state, live.predict(x[0])
    assert checks.same_bits(live.state, before)
    live.advance(x[0])
    np.testing.assert_array_equal(live.predict(), expected)


def test_a_committee_has_them_grows_with_them_and_keeps_them(tmp_path):
    learner, (x, y) = committee(), stream(300)
    state, info = learner.run(learner.init(0), (x, y))
    assert learner.experts[3:6] == list(labels.NAMES)
    assert info.bits[200:].mean() < 0.5
    nbt.save(tmp_path / "c.nbt", learner, state)
    assert checks.same_bits(nbt.load(tmp_path / "c.nbt").state, state)
    larger, grown = enlarge(learner, state, symbols=4, inputs=5)
    live, wide = nbt.Live(learner, state), nbt.Live(larger, without_symbols(grown, 2))
    before, after = live.probabilities(x[0]), wide.probabilities(np.array([*x[0], 0, 0]))
    np.testing.assert_allclose(after[:2] / after[:2].sum(), before, atol=2e-2)


def test_a_frozen_one_learns_nothing_of_labels():
    learner, (x, y) = committee(), stream(100)
    state, _ = learner.run(learner.init(0), (x, y))
    still, fixed = frozen(learner, state)
    after, _ = still.run(fixed, (x, y))
    known, now = (labels.LabelModels(each.influence.panel.labels, True)._rows for each in (fixed, after))
    for name in ("p", "w", "pairs_p", "pairs_w", "seen", "centres", "spreads", "power", "lapse"):
        np.testing.assert_array_equal(getattr(now, name), getattr(known, name), err_msg=name)
