"""The past, as a ring of symbols: hashes of the last ones, and where the same symbols came before."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..compiled import exact
from .logistic import stretch
from .nodes import SLOWEST_MAP, mixed

FIRST_LENGTH = 5  # of a match
LONGEST_LOOK = 32  # symbols that are compared where a match begins
LONGEST_MATCH = 1 << 16

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class Place(NamedTuple):
    """Where in the ring the next symbol goes, how many symbols are there, nodes in use, where the match is and how long
    it is.
    """

    next: int
    filled: int
    nodes: int
    match: int
    length: int


AT = Place(*range(len(Place._fields)))


@exact
def back(history: Any, place: Any, d: int) -> Any:
    """The symbol that came d before the next one."""
    return history[(np.int64(place[AT.next]) - d) % history.size]


@exact
def set_contexts(history: Any, place: Any, hashes: Any) -> None:
    """A hash of the last 0, 1, ... symbols."""
    hashed = _GOLDEN
    hashes[0] = hashed
    for d in range(1, hashes.size):
        before = back(history, place, d) + 1 if d <= place[AT.filled] else 0
        hashed = mixed(hashed + np.uint64(before + 1) * _GOLDEN)
        hashes[d] = hashed


@exact
def expected_symbol(history: Any, place: Any) -> int:
    """What came after the match; -1 where there is none."""
    return history[place[AT.match]] if place[AT.length] else -1


@exact
def look_at_match(matches: Any, length: Any, expected: int, low: int, high: int, split: int, logits: Any) -> None:
    """The two logits of the match, 0 where what it expects is no longer among low .. high - 1."""
    logits[logits.size - 2], logits[logits.size - 1] = 0.0, 0.0
    if length and low <= expected < high:
        bucket = min(length, matches.shape[0] - 1)
        sign = 1.0 if expected >= split else -1.0
        logits[logits.size - 2] = sign * stretch(matches[bucket, 0])
        logits[logits.size - 1] = sign * min(length, 32) / 8.0


@exact
def take_match(matches: Any, place: Any, right: bool) -> None:
    """Learn how often a match of this length is right."""
    bucket = min(place[AT.length], matches.shape[0] - 1)
    matches[bucket, 1] += 1
    pace = max(1 / (matches[bucket, 1] + 1.5), SLOWEST_MAP)
    matches[bucket, 0] += ((1.0 if right else 0.0) - matches[bucket, 0]) * pace


@exact
def add_symbol(history: Any, heads: Any, place: Any, symbol: int) -> None:
    """The past is one symbol longer; so is the match, or another one begins."""
    size = history.size
    if place[AT.length] and history[place[AT.match]] == symbol:
        place[AT.length] = min(place[AT.length] + 1, LONGEST_MATCH)
        place[AT.match] = (place[AT.match] + 1) % size
    else:
        place[AT.length] = 0
    history[place[AT.next]] = symbol
    place[AT.next] = (place[AT.next] + 1) % size
    place[AT.filled] = min(place[AT.filled] + 1, size)
    if place[AT.filled] < FIRST_LENGTH:
        return
    hashed = _GOLDEN
    for d in range(1, FIRST_LENGTH + 1):
        hashed = mixed(hashed + np.uint64(back(history, place, d) + 1) * _GOLDEN)
    head = np.int64(hashed & np.uint64(heads.size - 1))
    if place[AT.length] == 0:
        begin_match(history, place, np.int64(heads[head]))
    heads[head] = place[AT.next]


@exact
def begin_match(history: Any, place: Any, candidate: int) -> None:
    """Go on from where the same symbols came before, if they did."""
    length = 0
    most = min(np.int64(place[AT.filled]) - 1, LONGEST_LOOK)
    if (np.int64(place[AT.next]) - candidate) % history.size < place[AT.filled]:
        while length < most and history[(candidate - 1 - length) % history.size] == back(history, place, length + 1):
            length += 1
    if length >= FIRST_LENGTH and candidate != place[AT.next]:
        place[AT.match], place[AT.length] = candidate, length
