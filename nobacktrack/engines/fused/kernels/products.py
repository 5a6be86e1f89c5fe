"""Products of matrices over the steps of a window, in tiles: what is loaded serves several steps.

A step at a time, a pass over theta or over its gradient is bound by memory. Here two sums take in four parts at once,
and the parts of a block of rows stay in the first caches.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....compiled import inlined, kernel
from ..memory.layout import BLOCK


@inlined
def by_sum(weights: Any, p: Any, i: Any) -> Any:
    """The weight of part i in sum p, where sums are rows of the weights."""
    return weights[p, i]


@inlined
def by_part(weights: Any, p: Any, i: Any) -> Any:
    """The same where parts are rows."""
    return weights[i, p]


@kernel
def add_products(
    total: Any, count: Any, parts: Any, first: Any, terms: Any, weights: Any, start: Any, rows: Any
) -> None:
    """total_p += sum_i weights_pi parts_i for p < count, i = first, ..., in some rows."""
    for begin in range(start, start + rows, BLOCK):
        width = np.uint64(min(BLOCK, start + rows - begin))
        add_tiles(by_sum, total, count, parts, first, terms, weights, 0, np.uint64(begin), width)


@kernel
def add_outer_products(
    total: Any, count: Any, parts: Any, terms: Any, weights: Any, shift: Any, at: Any, width: Any
) -> None:
    """total_p += sum_i weights_{shift + i, p} parts_i for p < count, i < terms, in a block of rows."""
    add_tiles(by_part, total, count, parts, 0, terms, weights, shift, at, width)


@inlined
def add_tiles(
    weight: Any,
    total: Any,
    count: Any,
    parts: Any,
    first: Any,
    terms: Any,
    weights: Any,
    shift: Any,
    at: Any,
    width: Any,
) -> None:
    """Two sums and four parts at a time, then what is left of both."""
    fours = first + terms - terms % 4
    for pair in range(0, count - 1, 2):
        p, o = np.uint64(pair), np.uint64(pair + 1)
        for part in range(first, fours, 4):
            i, w = np.uint64(part), part + shift
            p0, p1 = weight(weights, pair, w), weight(weights, pair, w + 1)
            p2, p3 = weight(weights, pair, w + 2), weight(weights, pair, w + 3)
            o0, o1 = weight(weights, pair + 1, w), weight(weights, pair + 1, w + 1)
            o2, o3 = weight(weights, pair + 1, w + 2), weight(weights, pair + 1, w + 3)
            j, k, m = i + np.uint64(1), i + np.uint64(2), i + np.uint64(3)
            for r in range(width):
                a, b, c, d = parts[i, at + r], parts[j, at + r], parts[k, at + r], parts[m, at + r]
                total[p, at + r] += (p0 * a + p1 * b) + (p2 * c + p3 * d)
                total[o, at + r] += (o0 * a + o1 * b) + (o2 * c + o3 * d)
        for part in range(fours, first + terms):
            add_part(total, pair, weight(weights, pair, part + shift), parts, part, at, width)
            add_part(total, pair + 1, weight(weights, pair + 1, part + shift), parts, part, at, width)
    if count % 2:
        add_to_one(weight, total, count - 1, parts, first, terms, weights, shift, at, width)


@inlined
def add_to_one(
    weight: Any,
    total: Any,
    last: Any,
    parts: Any,
    first: Any,
    terms: Any,
    weights: Any,
    shift: Any,
    at: Any,
    width: Any,
) -> None:
    """The same of one sum, four parts at a time."""
    fours, p = first + terms - terms % 4, np.uint64(last)
    for part in range(first, fours, 4):
        i, w = np.uint64(part), part + shift
        p0, p1 = weight(weights, last, w), weight(weights, last, w + 1)
        p2, p3 = weight(weights, last, w + 2), weight(weights, last, w + 3)
        j, k, m = i + np.uint64(1), i + np.uint64(2), i + np.uint64(3)
        for r in range(width):
            a, b, c, d = parts[i, at + r], parts[j, at + r], parts[k, at + r], parts[m, at + r]
            total[p, at + r] += (p0 * a + p1 * b) + (p2 * c + p3 * d)
    for part in range(fours, first + terms):
        add_part(total, last, weight(weights, last, part + shift), parts, part, at, width)


@inlined
def add_part(total: Any, p: Any, weight: Any, parts: Any, part: Any, at: Any, width: Any) -> None:
    """total_p += weight parts_i."""
    of, i = np.uint64(p), np.uint64(part)
    for r in range(width):
        total[of, at + r] += weight * parts[i, at + r]
