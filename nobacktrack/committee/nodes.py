"""What is remembered of each choice in each context, in one table: how often each branch was taken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..compiled import EXACT, entry, exact
from .logistic import stretch

SOURCES = Path(__file__).parent
NODE = np.dtype(
    [
        ("key", np.uint32),  # 0: not in use
        ("more", np.uint16),  # of the key
        ("lower", np.uint8),  # how often each branch was taken, the other one being forgotten soon
        ("upper", np.uint8),
        ("mean", np.float32),  # a running mean of the upper branch
        ("below", np.float32),  # how often each branch was taken, on the whole
        ("above", np.float32),
        ("beta", np.float32),  # of what its own counts gave to all that it has seen, over what longer contexts gave
    ]
)
WORDS = NODE.itemsize // 4
BUCKET = 4  # nodes: one of them gives way where all are in use
RECENT = 48  # counts of `lower` and `upper` stay below it
PSEUDOCOUNT, MOST_COUNT, MOST_BETA = 0.2, 4e6, 1e18
SLOWEST, SLOWEST_MAP = 1 / 128, 1 / 512  # paces of running means

_M1, _M2 = (np.uint64(x) for x in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
_27, _30, _31, _32 = (np.uint64(x) for x in (27, 30, 31, 32))


@exact
def mixed(x: Any) -> Any:
    """A hash of 64 bits: the last steps of SplitMix64."""
    x = (x ^ (x >> _30)) * _M1
    x = (x ^ (x >> _27)) * _M2
    return x ^ (x >> _31)


@exact
def next_choice(low: int, high: int, symbols: int) -> Any:
    """The next choice between the symbols low .. high - 1 of which some are there: the end of what is left, and its
    number, which is `low` where one symbol is left.
    """
    split = (low + high) // 2
    while split >= symbols and split > low:
        high = split
        split = (low + high) // 2
    return high, split


@exact
def whole_range(symbols: int) -> int:
    """A power of two that is not below the number of symbols."""
    high = 1
    while high < symbols:
        high *= 2
    return high


@exact
def first_of(nodes: Any, key: Any, more: Any) -> Any:
    """Where the bucket of a key begins."""
    spread = mixed((np.uint64(more) << _32) | np.uint64(key))
    return np.int64(spread & np.uint64(nodes.size // BUCKET - 1)) * BUCKET


@exact
def find(nodes: Any, context: Any, choice: int, used: Any, adding: bool) -> int:
    """The node of a choice in a context, made where it is new, in the place of the one that was seen least if need be;
    -1 where it is not there and not to be made. `used` counts the nodes in use.
    """
    hashed = mixed(context ^ (np.uint64(choice) * _M2))
    key, more = np.uint32(hashed) | np.uint32(1), np.uint16(hashed >> _32)
    begin = first_of(nodes, key, more)
    least, found = begin, np.inf
    for i in range(begin, begin + BUCKET):
        if nodes[i]["key"] == key and nodes[i]["more"] == more:
            return i
        worth = nodes[i]["below"] + nodes[i]["above"] if nodes[i]["key"] else -1.0
        if worth < found:
            least, found = i, worth
    if not adding:
        return -1
    node = nodes[least]
    if node["key"] == 0:
        used[0] += 1
    node["key"], node["more"], node["mean"], node["beta"] = key, more, 0.5, 1.0
    node["lower"], node["upper"], node["below"], node["above"] = 0, 0, 0, 0
    return least


@entry(SOURCES, EXACT)
def move_nodes(nodes: Any, larger: Any) -> None:
    for i in range(nodes.size):
        if nodes[i]["key"]:
            at = first_of(larger, nodes[i]["key"], nodes[i]["more"])
            while larger[at]["key"]:
                at += 1  # a bucket gets no more than the one that it came from had
            larger[at] = nodes[i]


@exact
def estimate(node: Any) -> Any:
    """The probability of the upper branch by all counts [Krichevsky, Trofimov 1981]."""
    return (node["above"] + PSEUDOCOUNT) / (node["below"] + node["above"] + 2 * PSEUDOCOUNT)


@exact
def look_at(nodes: Any, maps: Any, at: Any, logits: Any, company: Any) -> None:
    """The logits of a choice from the nodes `at` of its contexts, and what the models that stand for themselves give to
    the upper branch.
    """
    tree = 0.5
    for d in range(at.size - 1, -1, -1):
        recent, mean, own = 0.0, 0.0, 0.5
        if at[d] >= 0:
            node = nodes[at[d]]
            own = estimate(node)
            tree = own if d == at.size - 1 else (node["beta"] * own + tree) / (node["beta"] + 1)
            if node["lower"] + node["upper"] > 0:
                recent, mean = stretch(maps[d, node["lower"], node["upper"], 0]), stretch(node["mean"])
        logits[1 + 2 * d], logits[2 + 2 * d] = recent, mean
        if d == 2:
            company[1] = own
        if d == 0:
            company[0] = own
    logits[0], company[2] = stretch(tree), tree


@exact
def take_branch(nodes: Any, maps: Any, at: Any, upper: bool) -> None:
    """Count a branch, in all contexts, from the longest to the shortest."""
    tree = 0.5
    for d in range(at.size - 1, -1, -1):
        node = nodes[at[d]]
        own = estimate(node)
        if d == at.size - 1:
            tree = own
        else:
            beta, longer = node["beta"], tree
            tree = (beta * own + longer) / (beta + 1)
            ratio = own / longer if upper else (1 - own) / (1 - longer)
            node["beta"] = min(max(beta * ratio, 1 / MOST_BETA), MOST_BETA)
        count_branch(node, maps[d], upper)


@exact
def count_branch(node: Any, known: Any, upper: bool) -> None:
    """Count a branch in one context; `known`: what recent counts mean there."""
    lower, above = node["lower"], node["upper"]
    hit = 1.0 if upper else 0.0
    known[lower, above, 1] += 1
    known[lower, above, 0] += (hit - known[lower, above, 0]) * max(1 / (known[lower, above, 1] + 1.5), SLOWEST_MAP)
    total = node["below"] + node["above"]
    node["mean"] += (hit - node["mean"]) * max(1 / (total + 1.5), SLOWEST)
    if upper:
        node["upper"], node["lower"] = min(above + 1, RECENT - 1), lower if lower < 3 else (lower + 3) // 2
        node["above"] += 1
    else:
        node["lower"], node["upper"] = min(lower + 1, RECENT - 1), above if above < 3 else (above + 3) // 2
        node["below"] += 1
    if total > MOST_COUNT:
        node["below"] /= 2
        node["above"] /= 2
