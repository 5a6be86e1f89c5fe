"""What came before in this context: after the last 0, 1, ..., D symbols, and after long matches.

A symbol is a path of binary choices: whether it is in the upper half of what is left of the alphabet. Choice c splits
the alphabet into the symbols below c and those from c on: a choice is known by its number, and stays the same when the
alphabet grows. Each choice in each context is a node: how often each branch was taken, of late and on the whole. For
each choice on the way to a symbol the nodes give logits, which `mixing.py` adds up; the contexts of 0 .. D symbols are
also weighted as one tree [Willems, Shtarkov, Tjalkens 1995].
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..compiled import EXACT, entry, exact
from ..configuration import at_least, configuration, set_field, static
from ..registry import register
from .logistic import log
from .matches import (
    AT,
    LENGTHS,
    MOST_MISSES,
    OF,
    Match,
    Place,
    add_symbol,
    expected_symbol,
    set_contexts,
    standing_of,
    take_match,
    trust,
)
from .nodes import NODE, RECENT, SOURCES, WORDS, find, look_at, move_nodes, next_choice, take_branch, whole_range

MOST_CHOICES = 24  # on the way to a symbol
SPREAD = (0, 1, 2, 3, 4, 5, 6, 9, 12, 16, 20, 24)  # symbols of a context, and the longest
LEAST_NODES = 1 << 12
FULLNESS = 0.6
COMPANY = ("frequencies", "last two symbols", "context tree")  # models that stand for themselves


@configuration
class Contexts:
    """Contexts, matches and a weighted tree of contexts, for symbols, in `memory` bytes at most (64 MiB).

    `depth` is the longest context, in symbols; beyond 6 they are spread out. Two matches are followed, of `match`
    symbols at least and of twice as many; `reach` is how many symbols back they may begin. Small alphabets need both
    longer: a symbol says less. Where memory is full, the nodes that were seen least give way.
    """

    depth: int = static(default=6)
    match: int = static(default=5)
    reach: int = static(default=1 << 18)
    memory: int = static(default=1 << 26)

    def __post_init__(self) -> None:
        set_field(self, "depth", at_least("depth", self.depth, 2))
        set_field(self, "match", at_least("match", self.match, 2))
        set_field(self, "reach", at_least("reach", self.reach, 64))
        set_field(self, "memory", at_least("memory", self.memory, 3 * LEAST_NODES * NODE.itemsize))

    @property
    def inputs(self) -> int:
        """How many logits a choice gets: of the weighted tree, two a context, two a match."""
        return 1 + 2 * len(self.lengths) + 2 * len(self.matches)

    @property
    def lengths(self) -> tuple[int, ...]:
        """How many symbols each context has."""
        return (*(length for length in SPREAD if length < self.depth), self.depth)

    @property
    def matches(self) -> tuple[int, ...]:
        """With how many symbols each match begins."""
        return self.match, 2 * self.match

    def init(self) -> ContextsState:
        """Before the first symbol."""
        maps = np.zeros((len(self.lengths), RECENT, RECENT, 2), np.float32)
        lower, upper = np.arange(RECENT)[:, None], np.arange(RECENT)[None, :]
        maps[..., 0] = (upper + 0.4) / (lower + upper + 0.8)
        rights = np.zeros((len(self.matches), LENGTHS, 1 + MOST_MISSES, 2), np.float32)
        rights[..., 0] = 1 - 0.5 / (np.arange(LENGTHS)[:, None] + 2)
        return ContextsState(
            table=np.zeros(LEAST_NODES * WORDS, np.uint32),
            maps=maps,
            rights=rights,
            history=np.zeros(self.reach, np.int32),
            heads=np.zeros((len(self.matches), 1 << max(8, int(math.log2(self.reach)) - 2)), np.int32),
            place=np.zeros(len(Place._fields), np.uint32),
            matches=np.zeros((len(self.matches), len(Match._fields)), np.uint32),
        )


@register
class ContextsState(NamedTuple):
    """Nodes; what recent counts mean, in contexts of each length; how often matches are right; the last symbols, in a
    ring, and where some of them came last; where it is; the matches.
    """

    table: np.ndarray
    maps: np.ndarray
    rights: np.ndarray
    history: np.ndarray
    heads: np.ndarray
    place: np.ndarray
    matches: np.ndarray


class Reading(NamedTuple):
    """Items to read: the target of each, and whether it was seen; the symbol that is added to the past, -1 for none,
    before the target or after it; how many symbols there are; whether anything is learned but the past.
    """

    targets: np.ndarray
    seen: np.ndarray
    added: np.ndarray
    added_first: bool
    symbols: int
    learning: bool = True


class Found(NamedTuple):
    """What contexts say of each item: logits of the choices on the way to its target, what the models that stand for
    themselves made of it, in nats, and how its matches stood: the length of the longest, 0 for none, -1 if all were
    wrong lately.
    """

    logits: np.ndarray
    losses: np.ndarray
    standings: np.ndarray


def room_for(contexts: Contexts, items: int, symbols: int) -> Found:
    """Empty arrays for what is found."""
    choices = max(1, (symbols - 1).bit_length())
    return Found(
        np.zeros((items, choices, contexts.inputs), np.float32),
        np.zeros((items, len(COMPANY))),
        np.zeros(items, np.int32),
    )


class Model(NamedTuple):
    """What kernels get: the numbers of a state; the lengths of contexts, the least ones of matches; hashes of contexts;
    what matches expect, and its logits; the nodes of a choice in all contexts.
    """

    nodes: np.ndarray
    maps: np.ndarray
    rights: np.ndarray
    history: np.ndarray
    heads: np.ndarray
    place: np.ndarray
    matches: np.ndarray
    lengths: np.ndarray
    least: np.ndarray
    hashes: np.ndarray
    expected: np.ndarray
    trusts: np.ndarray
    at: np.ndarray


class ContextReader:
    """`Contexts` at work, its numbers changed in place."""

    def __init__(self, contexts: Contexts, state: ContextsState):
        self.contexts = contexts
        self._lengths = np.array(contexts.lengths, np.int64), np.array(contexts.matches, np.int64)
        count, matches = map(len, self._lengths)
        expected = np.zeros(matches, np.int64), np.zeros((matches, 2))
        self._scratch = np.zeros(count, np.uint64), *expected, np.zeros((MOST_CHOICES, count), np.int64)
        self.become(state)

    def become(self, state: ContextsState) -> None:
        self._state = ContextsState(*(np.array(array) for array in state))
        self._nodes = self._state.table.view(NODE)

    def state(self) -> ContextsState:
        return ContextsState(*(array.copy() for array in self._state))

    def reset(self) -> None:
        """Forget the past, not what was learned of it."""
        self._state.place[AT.filled] = 0
        self._state.matches[:] = 0

    def past(self) -> tuple[np.ndarray, ...]:
        """What `restore_past` needs to take back symbols that were added."""
        return tuple(array.copy() for array in self._past)

    def restore_past(self, past: tuple[np.ndarray, ...]) -> None:
        for now, before in zip(self._past, past, strict=True):
            now[:] = before

    @property
    def _past(self) -> tuple[np.ndarray, ...]:
        return self._state.history, self._state.heads, self._state.place, self._state.matches

    def read(self, reading: Reading) -> Found:
        """Learn from items: what was expected of each."""
        found = room_for(self.contexts, len(reading.targets), reading.symbols)
        begin, count = 0, len(reading.targets)
        while begin < count:
            growable = 3 * self._nodes.nbytes <= self.contexts.memory  # while it grows, both tables are there
            begin = read_items(self._model(), reading, begin, growable, found)
            if begin < count:
                self._grow()
        return found

    def look(self, symbols: int) -> tuple[np.ndarray, np.ndarray, int]:
        """Of the next symbol, nothing being learned: the logits of all choices 1 .. symbols - 1, the probabilities of
        the upper branch that the models give which stand for themselves, and how the matches stand.
        """
        logits = np.zeros((symbols, self.contexts.inputs), np.float32)
        company = np.zeros((symbols, len(COMPANY)))
        return logits, company, look_at_all(self._model(), symbols, logits, company)

    def _model(self) -> Model:
        return Model(self._nodes, *self._state[1:], *self._lengths, *self._scratch)

    def _grow(self) -> None:
        larger = np.zeros(2 * self._state.table.size, np.uint32)
        move_nodes(self._nodes, larger.view(NODE))
        self._state = self._state._replace(table=larger)
        self._nodes = larger.view(NODE)


@entry(SOURCES, EXACT)
def read_items(model: Any, reading: Any, begin: int, growable: bool, found: Any) -> int:
    """Read items from `begin` on, until the table should grow: how far it came."""
    history, heads, place = model.history, model.heads, model.place
    most = model.hashes.size * found.logits.shape[1]  # no symbol makes more nodes than this
    for t in range(begin, reading.targets.size):
        if growable and place[AT.nodes] + most > FULLNESS * model.nodes.size:
            return t
        if reading.added_first and reading.added[t] >= 0:
            add_symbol(history, heads, place, model.matches, model.least, reading.added[t])
        if reading.seen[t]:
            found.standings[t] = standing_of(model.matches)
            read_target(model, reading.targets[t], reading.symbols, reading.learning, found.logits[t], found.losses[t])
        if not reading.added_first and reading.added[t] >= 0:
            add_symbol(history, heads, place, model.matches, model.least, reading.added[t])
    return reading.targets.size


@exact
def read_target(model: Any, target: int, symbols: int, learning: bool, logits: Any, losses: Any) -> None:
    """All choices on the way to a target: looked at, then learned, so that all are foreseen with what was known."""
    place, at, losses0, losses1, losses2 = model.place, model.at, 0.0, 0.0, 0.0
    begin_symbol(model)
    low, (high, split), row = 0, next_choice(0, whole_range(symbols), symbols), 0
    while split > low:
        for d in range(at.shape[1]):
            at[row, d] = find(model.nodes, model.hashes[d], split, place[AT.nodes :], False)
        look_at(model.nodes, model.maps, at[row], logits[row], losses)  # for now, what they give to the upper branch
        look_at_matches(model, low, high, split, logits[row])
        upper = target >= split
        losses0 -= log(losses[0] if upper else 1 - losses[0])
        losses1 -= log(losses[1] if upper else 1 - losses[1])
        losses2 -= log(losses[2] if upper else 1 - losses[2])
        low, high = (split, high) if upper else (low, split)
        high, split = next_choice(low, high, symbols)
        row += 1
    losses[0], losses[1], losses[2] = losses0, losses1, losses2
    if learning:
        learn_target(model, target, symbols)
        for k in range(model.least.size):
            if model.matches[k, OF.there]:
                take_match(model.rights[k], model.matches[k], model.expected[k] == target)


@exact
def begin_symbol(model: Any) -> None:
    """Where the next symbol is, in all contexts, and what the matches expect of it."""
    set_contexts(model.history, model.place, model.lengths, model.hashes)
    for k in range(model.least.size):
        model.expected[k] = expected_symbol(model.history, model.matches[k])
        trust(model.rights[k], model.matches[k], model.trusts[k])


@exact
def look_at_matches(model: Any, low: int, high: int, split: int, logits: Any) -> None:
    """The logits of all matches, at the end of those of a choice, 0 where what one expects is no longer among low ..
    high - 1.
    """
    for k in range(model.least.size):
        expected, at = model.expected[k], logits.size - 2 * (model.least.size - k)
        sign = 0.0 if not low <= expected < high else (1.0 if expected >= split else -1.0)
        logits[at], logits[at + 1] = sign * model.trusts[k, 0], sign * model.trusts[k, 1]


@exact
def learn_target(model: Any, target: int, symbols: int) -> None:
    """Count the branches on the way to a target; nodes are made where they are new."""
    at, low, row = model.at, 0, 0
    high, split = next_choice(0, whole_range(symbols), symbols)
    while split > low:
        for d in range(at.shape[1]):
            if at[row, d] < 0:
                at[row, d] = find(model.nodes, model.hashes[d], split, model.place[AT.nodes :], True)
        take_branch(model.nodes, model.maps, at[row], target >= split)
        low, high = (split, high) if target >= split else (low, split)
        high, split = next_choice(low, high, symbols)
        row += 1


@entry(SOURCES, EXACT)
def look_at_all(model: Any, symbols: int, logits: Any, company: Any) -> Any:
    """The logits of all choices that the next symbol may make, nothing being learned: how the matches stand."""
    place, at = model.place, model.at[0]
    begin_symbol(model)
    for choice in range(1, symbols):
        step = choice & -choice  # the range that a choice splits reaches so far to both sides
        for d in range(at.size):
            at[d] = find(model.nodes, model.hashes[d], choice, place[AT.nodes :], False)
        look_at(model.nodes, model.maps, at, logits[choice], company[choice])
        look_at_matches(model, choice - step, choice + step, choice, logits[choice])
    return standing_of(model.matches)
