"""Context tree weighting, online: all tree sources up to a depth, mixed [Willems, Shtarkov, Tjalkens 1995].

A symbol is a sequence of binary choices: which half of what is left of the alphabet it is in. Each choice has a binary
context tree of its own, whose contexts are the last 0, 1, ..., D symbols. A node knows how often each branch was taken
in its context, and beta = Pe / Pc, the ratio of what its own estimator and its children gave to all that it has seen.
Nodes lie in one hash table; where it may not grow any more, a path ends at the last node that it has. A node is known
by 63 bits of a hash of its choice and context: that two of ten million share them has a chance of some 1e-5.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from ..compiled import entry, kernel
from ..configuration import at_least
from .alphabet import checked, numbered

SOURCES = Path(__file__).parent
NODE = np.dtype([("key", np.uint64), ("counts", np.uint32, 2), ("beta", np.float64), ("exponent", np.int64)])
LEAST_SLOTS = 1 << 12
FULLNESS = 0.8

_M1, _M2, _GOLDEN = (np.uint64(x) for x in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0x9E3779B97F4A7C15))
_30, _27, _31 = (np.uint64(x) for x in (30, 27, 31))
_EMPTY, _ONE = np.uint64(0), np.uint64(1)
_MOST, _TWO = np.uint32(2**32 - 1), np.uint32(2)  # both counts of a node are halved where one has reached the most
# beta is a number within these bounds times LARGE^exponent: a node that has seen a long stream would overflow. The
# number is >= 1 where the exponent is positive, <= 1 where it is negative, so that beta is then as good as 1/0 or 0.
_LARGE, _SMALL = 2.0**256, 2.0**-256


class CTW:
    """A context tree weighting model of a stream over `symbols` symbols, in at most `memory` bytes.

    `pseudocount` is how often each branch of a choice is taken to have been seen before: 1/2 makes the estimator of
    Krichevsky and Trofimov; less suits large alphabets, where most choices are certain. With a `bound`, beta is kept
    within [1/bound, bound]: no longer the exact mixture, but one that changes its mind sooner, as texts do.
    """

    def __init__(
        self,
        symbols: int,
        depth: int = 6,
        *,
        pseudocount: float = 1 / 5,
        bound: float = math.inf,
        memory: int = 1 << 30,
    ):
        self.symbols = at_least("symbols", symbols, 2)
        self.depth = at_least("depth", depth, 0)
        self.memory = at_least("memory", memory, 2 * LEAST_SLOTS * NODE.itemsize)
        if not 0 < pseudocount < math.inf:
            raise ValueError(f"pseudocount must be a finite number > 0, not {pseudocount!r}")
        if not bound > 1:
            raise ValueError(f"bound must be a number > 1, not {bound!r}")
        self.pseudocount, self.bound = float(pseudocount), float(bound)
        self.nodes = 0
        self._table = np.zeros(LEAST_SLOTS, NODE)
        self._past = np.full(self.depth, symbols, np.int64)  # the latest first; before the stream, a symbol of its own
        self._path = np.zeros(self.depth + 1, np.int64), np.zeros(self.depth + 1, np.uint64)

    def __repr__(self) -> str:
        return f"CTW(symbols={self.symbols}, depth={self.depth}, pseudocount={self.pseudocount:g}, nodes={self.nodes})"

    @property
    def full(self) -> bool:
        """Whether no more nodes can be added: contexts that are new then end early."""
        return not self._growable() and self.nodes >= FULLNESS * len(self._table)

    @property
    def bytes(self) -> int:
        """The memory that the nodes take now."""
        return self._table.nbytes

    def take(self, symbols: Any) -> np.ndarray:
        """Predict each symbol in turn, then learn it: -log2 of the probability that it had."""
        symbols = checked(symbols, self.symbols).astype(np.int64)
        bits = np.zeros(len(symbols))
        begin = 0
        while begin < len(symbols):
            model = self._table, self._past, *self._path
            settings = self.symbols, self.pseudocount, self.bound
            begin, self.nodes = code_symbols(model, settings, symbols, bits, begin, self.nodes, self._growable())
            if begin < len(symbols):
                self._grow()
        return bits

    def condition(self, symbols: Any) -> None:
        """Take symbols as the past, without learning from them."""
        latest_first = checked(symbols, self.symbols)[::-1]
        self._past = np.concatenate([latest_first, self._past])[: self.depth].astype(np.int64)

    def _growable(self) -> bool:
        return 3 * self._table.nbytes <= self.memory  # while it grows, both tables are there

    def _grow(self) -> None:
        larger = np.zeros(2 * len(self._table), NODE)
        move_nodes(self._table, larger)
        self._table = larger


def ctw(data: Any, depth: int = 6, *, pseudocount: float = 1 / 5, memory: int = 1 << 30) -> float:
    """Bits per character of context tree weighting on a text, on bytes, or on symbols, each predicted from those
    before it.
    """
    symbols = numbered(data)
    size = max(2, int(symbols.max()) + 1)
    return float(CTW(size, depth, pseudocount=pseudocount, memory=memory).take(symbols).mean())


@kernel
def _mixed(x: Any) -> Any:
    """A hash of 64 bits: the last steps of SplitMix64."""
    x = (x ^ (x >> _30)) * _M1
    x = (x ^ (x >> _27)) * _M2
    return x ^ (x >> _31)


@kernel
def _slot(table: Any, key: Any) -> Any:
    """Where a key is, or the empty place where it would be."""
    mask = np.uint64(table.size - 1)
    i = (key >> _ONE) & mask  # the last bit of a key is always set
    while table[i]["key"] != key and table[i]["key"] != _EMPTY:
        i = (i + _ONE) & mask
    return i


@entry(SOURCES)
def move_nodes(table: Any, larger: Any) -> None:
    for i in range(table.size):
        if table[i]["key"] != _EMPTY:
            larger[_slot(larger, table[i]["key"])] = table[i]


@entry(SOURCES)
def code_symbols(
    model: Any, settings: Any, symbols: Any, bits: Any, begin: int, nodes: int, growable: bool
) -> tuple[int, int]:
    """Code symbols from `begin` on, until the table should grow: how far it came, and how many nodes there are."""
    table, past, slots, contexts = model
    size, pseudocount, bound = settings
    depth = past.size
    most = (depth + 1) * (np.log2(size) + 1)  # no symbol makes more nodes than this
    for t in range(begin, symbols.size):
        if growable and nodes + most > FULLNESS * table.size:
            return t, nodes
        contexts[0] = _GOLDEN
        for d in range(depth):
            contexts[d + 1] = _mixed(contexts[d] + np.uint64(past[d] + 1) * _GOLDEN)
        low, high = 0, size
        while high - low > 1:
            split = (low + high + 1) // 2
            branch = 1 if symbols[t] >= split else 0
            last, nodes = _find_path(table, contexts, slots, split, nodes)
            bits[t] -= np.log2(_code(table, slots, last, branch, pseudocount, bound))
            low, high = (split, high) if branch else (low, split)
        for d in range(depth - 1, 0, -1):
            past[d] = past[d - 1]
        if depth:
            past[0] = symbols[t]
    return symbols.size, nodes


@kernel
def _find_path(table: Any, contexts: Any, slots: Any, split: int, nodes: int) -> tuple[int, int]:
    """The nodes of a choice in contexts of 0, 1, ... symbols, made where new: the last, and the count of all."""
    for d in range(contexts.size):
        key = _mixed(contexts[d] ^ (np.uint64(split) * _M2)) | _ONE
        slots[d] = _slot(table, key)
        node = table[slots[d]]
        if node["key"] == _EMPTY:
            if nodes >= FULLNESS * table.size:
                return d - 1, nodes
            node["key"], node["beta"] = key, 1.0
            nodes += 1
    return contexts.size - 1, nodes


@kernel
def _code(table: Any, slots: Any, last: int, branch: int, pseudocount: float, bound: float) -> float:
    """The probability of a branch at the root, P = (beta Pe + Pc) / (beta + 1) from the leaf up; then it is learned."""
    p = 0.5
    for d in range(last, -1, -1):
        node = table[slots[d]]
        counts = node["counts"]
        own = (counts[branch] + pseudocount) / (np.float64(counts[0]) + np.float64(counts[1]) + 2 * pseudocount)
        if d == last:
            p = own
        else:
            below, beta = p, node["beta"]
            if node["exponent"] == 0:
                p = (beta * own + below) / (beta + 1)
            elif node["exponent"] > 0:
                p = own
            _scale(node, own / below, bound)
        if counts[branch] == _MOST:
            counts[0], counts[1] = counts[0] // _TWO, counts[1] // _TWO
        counts[branch] += np.uint32(1)
    return p


@kernel
def _scale(node: Any, ratio: float, bound: float) -> None:
    """beta <- beta ratio, within its bound, without overflow however long the stream."""
    beta, exponent = node["beta"] * ratio, node["exponent"]
    if exponent == 0:
        beta = min(max(beta, 1 / bound), bound)
    if beta > _LARGE or (exponent < 0 and beta > 1):
        beta *= _SMALL
        exponent += 1
    elif beta < _SMALL or (exponent > 0 and beta < 1):
        beta *= _LARGE
        exponent -= 1
    node["beta"], node["exponent"] = beta, exponent
