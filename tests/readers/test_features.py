"""Columns, scales, labels and tallies."""

import datetime
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

import nobacktrack as nbt
from nobacktrack.committee.squares import MOST_PAIRED
from nobacktrack.readers.features import WEEKDAYS, Classes, Features, Scale
from nobacktrack.readers.tally import frequencies_nats


@given(some.lists(some.floats(-1e6, 1e6), min_size=1, max_size=10))
def test_a_scale_is_the_mean_and_deviation(values):
    scale = Scale()
    for value in values:
        scale.add(value)
    assert scale.mean == pytest.approx(np.mean(values), abs=1e-6)
    if np.std(values) > 1e-3:
        assert scale.deviation == pytest.approx(np.std(values), rel=1e-6)
    assert Scale(*scale.record()).record() == scale.record()
    assert abs(scale.within(values[0])) <= 8


def test_columns_come_and_go():
    features = Features()
    assert not features.learn({"b": 1.0, "a": 2.0})
    assert features.numbers["a"][0] == 0  # in the order of names, whatever the order of the row
    assert features.learn({"c": "x", "d": 1, "e": True})
    assert features.capacity == 8
    assert features.vector({"c": "x"}).tolist() == [0, 0, 0, 0, 1, 0, 0, 0]  # words after numbers
    assert features.vector({"c": "unheard", "f": 9.0, "a": None}).tolist() == [0] * 8
    assert Features.of(features.record()).record() == features.record()
    before = features.record()
    with pytest.raises(nbt.BadItem, match="'g': inf is not finite"):
        features.learn({"new": 1.0, "g": math.inf})
    assert features.record() == before
    with pytest.raises(nbt.BadItem, match="neither a number nor a word"):
        features.learn({"g": [1]})


def test_times_have_an_hour_and_a_month_by_name_dates_a_month():
    """What a place on a clock cannot say: one hour that is not like its neighbours."""
    when = datetime.datetime(2024, 3, 1, 5, 30)
    features = Features()
    features.learn({"t": when, "d": when.date()})
    assert set(features.words) == {"t: weekday", "t: month", "t: hour", "d: weekday", "d: month"}
    assert features.knows("t: hour", "05")
    assert features.knows("d: month", "Mar")
    features.learn({"t": when.replace(hour=6)})
    five, six = (features.words["t: hour"][hour] for hour in ("05", "06"))
    assert features.vector({"t": when})[[five, six]].tolist() == [1, 0]
    assert features.vector({"t": when.replace(hour=6, month=4)})[[five, six]].tolist() == [0, 1]
    assert not features.knows("t: month", "Apr")


def test_all_days_of_the_week_have_places_before_most_hours():
    """Products are taken of the first columns: of days with the clock, once a time has come."""
    features = Features()
    for hour in range(24):
        features.learn({"t": datetime.datetime(2024, 3, 1, hour)})
    assert sorted(features.words["t: weekday"]) == sorted(WEEKDAYS)
    assert max(features.words["t: weekday"].values()) < MOST_PAIRED
    features.learn({"other: weekday": "Montag"})
    assert list(features.words["other: weekday"]) == ["Montag"]


def test_labels_of_any_kind_in_the_order_they_came():
    classes = Classes()
    assert [classes.place(label) for label in (True, "x", 3, "x")] == [(0, True), (1, True), (2, True), (1, False)]
    assert classes.capacity == 4
    assert Classes(**classes.record()).places == classes.places


def test_a_baseline_is_a_code():
    # (1/2)(1/4)(3/6) for the counts (1, 2): the product of the Krichevsky-Trofimov estimates
    assert frequencies_nats(np.array([1, 2])) * 3 == pytest.approx(-math.log(1 / 2 * 1 / 4 * 3 / 6))
