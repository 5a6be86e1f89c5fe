"""The past, as a ring of symbols: hashes of the last ones, and where the same symbols came before."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..compiled import exact
from .logistic import stretch
from .nodes import SLOWEST_MAP, mixed

LONGEST_LOOK = 32  # symbols more than its least length that are compared where a match begins
LONGEST_MATCH = 1 << 16
LENGTHS = 64  # that are told apart
MOST_MISSES = 8  # of the last 32 symbols: a match that was wrong more often is given up
LATELY = 16  # a match that was wrong less than so many symbols ago has yet to prove itself

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class Place(NamedTuple):
    """Where in the ring the next symbol goes, how many symbols are there, and nodes in use."""

    next: int
    filled: int
    nodes: int


class Match(NamedTuple):
    """Where in the ring the symbol is that it expects, how many symbols it has been right for, at which of the last 32
    it was wrong, a bit each, and whether it is there at all.
    """

    expected: int
    length: int
    misses: int
    there: int


AT = Place(*range(len(Place._fields)))
OF = Match(*range(len(Match._fields)))


@exact
def back(history: Any, next: int, d: int) -> Any:
    """The symbol that came d before a place."""
    at = next - d
    return history[at if at >= 0 else at + history.size]


@exact
def set_contexts(history: Any, place: Any, lengths: Any, hashes: Any) -> None:
    """A hash of the last symbols, as many as each context has."""
    hashed, d, end = _GOLDEN, 0, np.int64(place[AT.next])
    for i in range(lengths.size):
        while d < lengths[i]:
            d += 1
            before = back(history, end, d) + 1 if d <= place[AT.filled] else 0
            hashed = mixed(hashed + np.uint64(before + 1) * _GOLDEN)
        hashes[i] = hashed


@exact
def expected_symbol(history: Any, match: Any) -> int:
    """What came after the match; -1 where there is none."""
    return history[match[OF.expected]] if match[OF.there] else -1


@exact
def standing_of(matches: Any) -> Any:
    """The length of the longest match: 0 where there is none, -1 where all were wrong lately."""
    standing = 0
    for k in range(matches.shape[0]):
        if matches[k, OF.there]:
            length = np.int64(matches[k, OF.length])
            own = -1 if matches[k, OF.misses] and length < LATELY else length
            standing = own if standing <= 0 else max(standing, own)
    return standing


@exact
def misses_of(match: Any) -> int:
    """How many of the last 32 symbols it got wrong."""
    bits, count = np.int64(match[OF.misses]), 0
    while bits:
        bits &= bits - 1
        count += 1
    return count


@exact
def kind_of(match: Any) -> Any:
    """Matches of one kind are as long, and were wrong as often of late."""
    return min(np.int64(match[OF.length]), LENGTHS - 1), misses_of(match)


@exact
def trust(rights: Any, match: Any, logits: Any) -> None:
    """The two logits of what a match expects."""
    length, misses = kind_of(match)
    logits[0] = stretch(rights[length, misses, 0])
    logits[1] = min(np.int64(match[OF.length]), 32) / 8.0


@exact
def take_match(rights: Any, match: Any, right: bool) -> None:
    """Learn how often such a match is right."""
    length, misses = kind_of(match)
    known = rights[length, misses]
    known[1] += 1
    known[0] += ((1.0 if right else 0.0) - known[0]) * max(1 / (known[1] + 1.5), SLOWEST_MAP)


@exact
def add_symbol(history: Any, heads: Any, place: Any, matches: Any, least: Any, symbol: int) -> None:
    """The past is one symbol longer; matches go on, or others begin, each of a `least` length."""
    for k in range(least.size):
        if matches[k, OF.there]:
            follow(history, matches[k], symbol)
    history[place[AT.next]] = symbol
    place[AT.next] = (place[AT.next] + 1) % history.size
    place[AT.filled] = min(place[AT.filled] + 1, history.size)
    hashed, d, end = _GOLDEN, 0, np.int64(place[AT.next])
    for k in range(least.size):
        if place[AT.filled] < least[k]:
            return
        while d < least[k]:
            d += 1
            hashed = mixed(hashed + np.uint64(back(history, end, d) + 1) * _GOLDEN)
        head = np.int64(hashed & np.uint64(heads.shape[1] - 1))
        if matches[k, OF.length] < least[k]:
            begin_match(history, place, np.int64(heads[k, head]), least[k], matches[k])
        heads[k, head] = end


@exact
def follow(history: Any, match: Any, symbol: int) -> None:
    """A match goes on after a symbol that it got right or wrong, until it was wrong too often."""
    right = history[match[OF.expected]] == symbol
    match[OF.expected] = (match[OF.expected] + 1) % history.size
    match[OF.misses] = ((np.int64(match[OF.misses]) << 1) & 0xFFFFFFFF) | (0 if right else 1)
    match[OF.length] = min(match[OF.length] + 1, LONGEST_MATCH) if right else 0
    if misses_of(match) > MOST_MISSES:
        match[OF.there] = 0


@exact
def begin_match(history: Any, place: Any, candidate: int, least: int, match: Any) -> None:
    """Go on from where the same symbols came before, if they did."""
    length, end = 0, np.int64(place[AT.next])
    most = min(np.int64(place[AT.filled]) - 1, least + LONGEST_LOOK)
    if (end - candidate) % history.size < place[AT.filled]:
        while length < most and back(history, candidate, length + 1) == back(history, end, length + 1):
            length += 1
    if length >= least and candidate != end:
        match[OF.expected], match[OF.length], match[OF.misses], match[OF.there] = candidate, length, 0, 1
