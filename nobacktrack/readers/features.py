"""Named columns as a vector of numbers, and targets as what a network predicts: learned from the stream as it comes."""

from __future__ import annotations

import datetime
import logging
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..committee.spreads import COUNT, MEAN, SPREAD, SQUARES, add_number
from ..errors import BadItem

FARTHEST = 8.0  # standard deviations: what lies beyond counts as that far
LEAST_CAPACITY = 4
MANY_WORDS = 256
LOOK, MANY_NEW = 200, 0.5  # after so many labels one looks whether more than this share of them were new
LARGEST = 1e100
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

_log = logging.getLogger("nobacktrack")


class Scale:
    """The mean and deviation of the numbers of a column, whatever comes: `committee/spreads.py`."""

    __slots__ = ("spread",)

    def __init__(self, *record: float):
        self.spread = np.array(record or [0.0] * SPREAD)[:, None]

    def add(self, value: float) -> None:
        add_number(self.spread, value)

    @property
    def count(self) -> float:
        return float(self.spread[COUNT, 0])

    @property
    def mean(self) -> float:
        return float(self.spread[MEAN, 0])

    @property
    def deviation(self) -> float:
        """Root of the mean square off the mean; 1 as long as all values are alike."""
        squares, count = float(self.spread[SQUARES, 0]), self.count
        deviation = math.sqrt(squares / count) if squares > 0 else 0.0
        return deviation if deviation > 1e-12 * abs(self.mean) else 1.0

    def within(self, value: float) -> float:
        """A number in deviations off the mean."""
        return min(max((value - self.mean) / self.deviation, -FARTHEST), FARTHEST)

    def out(self, value: float) -> float:
        """The number that lies so many deviations off the mean."""
        return self.mean + value * self.deviation

    def record(self) -> list[float]:
        return self.spread[:, 0].tolist()


def calendar(name: Any, when: datetime.date) -> dict[str, Any]:
    """A date as the day of the week, the month and the hands of a clock that goes round in a year, once and twice; a
    time as the day of the week, the month, the hour and such a clock for the day.
    """
    found: dict[str, Any] = {f"{name}: weekday": WEEKDAYS[when.weekday()], f"{name}: month": MONTHS[when.month - 1]}
    if isinstance(when, datetime.datetime):
        found[f"{name}: hour"] = f"{when.hour:02}"
        round_of, turn = "day", (when.hour + when.minute / 60 + when.second / 3600) / 24
    else:
        round_of, turn = "year", (when.timetuple().tm_yday - 1) / 365.25
    for times in (1, 2):
        angle = 2 * math.pi * times * turn
        found[f"{name}: {round_of} / {times}, sine"] = math.sin(angle)
        found[f"{name}: {round_of} / {times}, cosine"] = math.cos(angle)
    return found


def words_with(name: Any, word: str) -> tuple[str, ...]:
    """A new word, and those that get their places along with it: the days of the week come together, and so before
    most hours, since experts take products of the first columns, and hours of a weekend are not those of other days.
    """
    return WEEKDAYS if str(name).endswith(": weekday") and word in WEEKDAYS else (word,)


def without_times(row: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """A row with a calendar in the place of each time."""
    times = [name for name, value in row.items() if isinstance(value, datetime.date)]
    if not times:
        return row
    found = {name: value for name, value in row.items() if name not in times}
    for name in times:
        found |= calendar(name, row[name])
    return found


class Features:
    """Columns that come and go, each with a place in a vector: a number has one, scaled; a word has one for each of
    its values, 1 where it is that one; a time has those of its calendar.

    New columns and words get the next places, those of one row in the order of their names; `capacity` doubles.
    """

    def __init__(self) -> None:
        self.capacity = LEAST_CAPACITY
        self.numbers: dict[str, tuple[int, Scale]] = {}
        self.words: dict[str, dict[str, int]] = {}
        self.used = 0

    def learn(self, row: Mapping[Any, Any]) -> bool:
        """Take in the columns, words and scales of a row: whether `capacity` has grown. What is bad is refused before
        anything has changed.
        """
        row = without_times(row)
        numbers = [(name, _finite(name, value)) for name, value in row.items() if _is_number(value)]
        self._add([name for name, _ in numbers if name not in self.numbers], row)
        self._add([name for name, value in row.items() if type(value) is str and not self.knows(name, value)], row)
        for name, value in numbers:
            self.numbers[name][1].add(value)
        before = self.capacity
        if self.used > self.capacity:
            self.capacity = 1 << (self.used - 1).bit_length()
        return self.capacity > before

    def raw_vector(self, row: Mapping[Any, Any]) -> np.ndarray:
        """A row as numbers as they are; of what is missing the mean, and 0 for what has no place."""
        row = without_times(row)
        vector = self.vector(row)
        for name, (place, scale) in self.numbers.items():
            value = row.get(name)
            vector[place] = scale.mean if value is None or type(value) is str else float(value)
        return vector

    def vector(self, row: Mapping[Any, Any]) -> np.ndarray:
        """A row as numbers; what has no place, or is missing, is 0."""
        vector = [0.0] * self.capacity
        for name, value in without_times(row).items():
            if type(value) is str:
                place = self.words.get(name, {}).get(value)
                if place is not None:
                    vector[place] = 1.0
            elif value is not None and name in self.numbers:
                place, scale = self.numbers[name]
                vector[place] = scale.within(_finite(name, value))
        return np.array(vector)

    def knows(self, name: Any, word: str) -> bool:
        """Whether a word has a place."""
        return word in self.words.get(name, ())

    def _add(self, names: list[Any], row: Mapping[Any, Any]) -> None:
        """Places for new columns and words, in the order of their names."""
        for name in sorted(names, key=str):
            if type(row[name]) is str:
                for word in words_with(name, row[name]):
                    self._add_word(name, word)
            else:
                self.numbers[name] = self.used, Scale()
                if len(self.numbers) == MANY_WORDS:
                    _log.warning("%d columns of numbers so far, %r the last; are their names data?", MANY_WORDS, name)
                self.used += 1

    def _add_word(self, name: Any, word: str) -> None:
        """A place for a new word."""
        words = self.words.setdefault(name, {})
        words[word] = self.used
        self.used += 1
        if len(words) == MANY_WORDS:
            _log.warning("column %r: %d different words so far; leave names and times out", name, MANY_WORDS)

    def record(self) -> dict[str, Any]:
        return {
            "capacity": self.capacity,
            "used": self.used,
            "numbers": [[name, place, scale.record()] for name, (place, scale) in self.numbers.items()],
            "words": [[name, list(places.items())] for name, places in self.words.items()],
        }

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Features:
        """Features from their record."""
        features = cls()
        features.capacity, features.used = record["capacity"], record["used"]
        features.numbers = {name: (place, Scale(*scale)) for name, place, scale in record["numbers"]}
        features.words = {name: dict(map(tuple, places)) for name, places in record["words"]}
        return features


class Classes:
    """Labels in the order in which they came; `capacity` doubles."""

    def __init__(self, labels: Iterable[Any] = (), capacity: int = 2):
        self.places = {label: place for place, label in enumerate(labels)}
        self.capacity = capacity

    def place(self, label: Any) -> tuple[int, bool]:
        """The symbol of a label, and whether it is new."""
        place = self.places.get(label)
        if place is not None:
            return place, False
        place = self.places[label] = len(self.places)
        while place >= self.capacity:
            self.capacity *= 2
        return place, True

    def look(self, name: str, rows: int) -> None:
        """Say, after some rows that had one, where labels are hardly ever the same."""
        if rows == LOOK and len(self.places) > MANY_NEW * rows:
            message = "column %r: %d different labels in %d rows; are they names, or numbers?"
            _log.warning(message, name, len(self.places), rows)

    def record(self) -> dict[str, Any]:
        return {"labels": list(self.places), "capacity": self.capacity}


def _is_number(value: Any) -> bool:
    """Whether a value is a number: a word or nothing otherwise."""
    return type(value) is not str and value is not None


def _finite(name: Any, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise BadItem(f"column {name!r}: {value!r} is neither a number nor a word") from None
    except OverflowError:
        number = math.inf
    return expect_usable(number, f"column {name!r}")


def expect_usable(number: float, which: str) -> float:
    """A number whose square is one too; others are refused."""
    if not math.isfinite(number):
        raise BadItem(f"{which}: {number} is not finite")
    if abs(number) > LARGEST:
        raise BadItem(f"{which}: {number} is larger than {LARGEST:g}; is it a mark for what is missing?")
    return number
