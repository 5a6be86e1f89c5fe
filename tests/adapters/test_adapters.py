"""The checks of river and of scikit-learn, and what they do not look at."""

import copy
import math
import pickle

import numpy as np
import pytest
from river import checks
from sklearn.utils.estimator_checks import check_estimator

from nobacktrack.adapters import river, sklearn

RIVER = (river.RecurrentRegressor(units=4), river.RecurrentClassifier(units=4))
IN_TIME = "rows are steps in time: what is predicted of one depends on those before it, and so on their order"
EXPECTED = {"check_methods_sample_order_invariance": IN_TIME, "check_methods_subset_invariance": IN_TIME}


@pytest.mark.parametrize("model", RIVER, ids=lambda model: type(model).__name__)
def test_river_checks_it(model):
    names = []
    for check in checks.yield_checks(model):
        check(model.clone())
        names.append(check.__name__)
    assert {"check_emerging_features", "check_disappearing_features", "check_pickling"} <= set(names)


@pytest.mark.parametrize("kind", [sklearn.RecurrentRegressor, sklearn.RecurrentClassifier])
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_checks_it(kind):
    found = check_estimator(kind(units=6), expected_failed_checks=EXPECTED, on_fail=None, on_skip=None)
    outcomes = {status: [r["check_name"] for r in found if r["status"] == status] for status in ("failed", "xfail")}
    assert outcomes["failed"] == []
    assert sorted(outcomes["xfail"]) == sorted(EXPECTED)
    assert sum(r["status"] == "passed" for r in found) >= 48


def test_a_river_model_remembers_the_rows_before():
    """The label is the feature of the row before: nothing in the row itself says it."""
    draws, model, right, last = np.random.default_rng(0), river.RecurrentClassifier(units=8), 0, 0
    for t in range(2500):
        x, y = int(draws.integers(2)), last
        if t >= 2000:
            right += model.predict_one({"x": x}) == y
        model.learn_one({"x": x}, y)
        last = x
    assert right / 500 > 0.95


def test_predicting_changes_nothing_and_copies_go_their_own_way():
    model = river.RecurrentRegressor(units=4)
    for t in range(20):
        model.learn_one({"x": t % 3, "w": "ab"[t % 2]}, t % 3)
    first = model.predict_one({"x": 1})
    assert model.predict_one({"x": 1}) == first
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert twin.predict_one({"x": 1}) == first
        twin.learn_one({"x": 2}, 5.0)
        assert model.predict_one({"x": 1}) == first
    assert model.predict_one({}) != first


def test_nothing_is_known_before_the_first_row():
    assert river.RecurrentRegressor().predict_one({"x": 1}) == 0.0
    assert river.RecurrentClassifier().predict_proba_one({"x": 1}) == {}
    assert river.RecurrentClassifier().predict_one({"x": 1}) is None


def test_partial_fit_in_pieces_is_one_stream():
    draws = np.random.default_rng(0)
    X = draws.normal(size=(60, 2))
    y = np.concatenate([[0.0], X[:-1, 0]])  # the feature of the row before
    whole, cut = sklearn.RecurrentRegressor(units=5), sklearn.RecurrentRegressor(units=5)
    whole.partial_fit(X, y)
    for begin in range(0, 60, 20):
        cut.partial_fit(X[begin : begin + 20], y[begin : begin + 20])
    np.testing.assert_array_equal(whole.predict(X), cut.predict(X))
    classes = sklearn.RecurrentClassifier(units=5).partial_fit(X, y > 0, classes=[False, True])
    np.testing.assert_allclose(classes.predict_proba(X).sum(axis=1), 1, rtol=1e-6)
    with pytest.raises(ValueError, match="not among the classes"):
        classes.partial_fit(X, np.full(60, 3))
    with pytest.raises(ValueError, match="classes must be passed"):
        sklearn.RecurrentClassifier().partial_fit(X, y > 0)
    assert math.isfinite(whole.score(X, y))
