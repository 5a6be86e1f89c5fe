"""Forms on theta in one band: their products in the metric in which theta moves."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ....compiled import ONE, ZERO, inlined, kernel
from ..codes import Metric
from ..memory.layout import BLOCK, PIECE
from ..memory.views import matrix, scratch_of, vector
from .rows import is_finite, reciprocal, schur

AA, AB, BB, A0, B0, INVERSE0 = (np.uint64(BLOCK * i) for i in range(6))  # in `scratch`, of each row of a block


class Pair(NamedTuple):
    """Two forms, with the units that they are measured in, and J, by which."""

    metric: Any
    m0i: Any
    mii: Any
    prior: Any
    a: Any
    b: Any
    over_a: Any
    over_b: Any


@kernel
def products(s: Any, m: Any, metric: Any, a: Any, b: Any, unit_a: Any, unit_b: Any) -> Any:
    """<a, C a>, <a, C b> and <b, C b> of two forms, each over a unit of its own, in one pass."""
    pair, width = pair_of(m, metric, a, b, ONE / unit_a, ONE / unit_b), a.shape[1]
    aa, ab, bb = ZERO * pair.over_a, ZERO * pair.over_a, ZERO * pair.over_a
    for begin in range(0, width, BLOCK):
        of_block = products_in_block(pair, scratch_of(m, 0), begin, min(BLOCK, width - begin))
        aa, ab, bb = aa + of_block[0], ab + of_block[1], bb + of_block[2]
    return aa, ab, bb


@inlined
def pair_of(m: Any, metric: Any, a: Any, b: Any, over_a: Any, over_b: Any) -> Any:
    """Two forms and J."""
    m0i, mii, prior = matrix(m, PIECE.theta_m0i), matrix(m, PIECE.theta_mii), vector(m, PIECE.priors)[0]
    return Pair(metric, m0i, mii, prior, a, b, over_a, over_b)


@kernel
def products_in_block(pair: Any, scratch: Any, begin: Any, width: Any) -> Any:
    """The same in a block of rows."""
    start, count = np.uint64(begin), np.uint64(width)
    aa, ab, bb = ZERO * pair.over_a, ZERO * pair.over_a, ZERO * pair.over_a
    begin_rows(pair, scratch, start, count)
    for i in range(np.uint64(1), np.uint64(pair.a.shape[0])):
        add_weights(pair, scratch, i, start, count)
    for r in range(count):
        aa += scratch[AA + r]
        ab += scratch[AB + r]
        bb += scratch[BB + r]
    return aa, ab, bb


@inlined
def begin_rows(pair: Any, scratch: Any, start: Any, count: Any) -> None:
    """The biases of a block of rows."""
    for r in range(count):
        scratch[INVERSE0 + r] = ONE
        if pair.metric == Metric.QUASI_DIAGONAL:
            scratch[INVERSE0 + r] = reciprocal(pair.m0i[0, start + r] + pair.prior)
        elif pair.metric == Metric.DIAGONAL:
            scratch[INVERSE0 + r] = reciprocal(pair.mii[0, start + r] + pair.prior)
        x, y = pair.a[0, start + r] * pair.over_a, pair.b[0, start + r] * pair.over_b
        scratch[A0 + r], scratch[B0 + r] = x, y
        scratch[AA + r] = x * x * scratch[INVERSE0 + r]
        scratch[AB + r] = x * y * scratch[INVERSE0 + r]
        scratch[BB + r] = y * y * scratch[INVERSE0 + r]


@inlined
def add_weights(pair: Any, scratch: Any, i: Any, start: Any, count: Any) -> None:
    """Weight i of a block of rows."""
    if pair.metric == Metric.QUASI_DIAGONAL:
        for r in range(count):
            mi, si = schur(pair.m0i[i, start + r], pair.mii[i, start + r], scratch[INVERSE0 + r], pair.prior)
            x = pair.a[i, start + r] * pair.over_a - mi * scratch[A0 + r]
            y = pair.b[i, start + r] * pair.over_b - mi * scratch[B0 + r]
            scratch[AA + r] += x * x * si
            scratch[AB + r] += x * y * si
            scratch[BB + r] += y * y * si
    else:
        for r in range(count):
            si = reciprocal(pair.mii[i, start + r] + pair.prior) if pair.metric == Metric.DIAGONAL else ONE
            x, y = pair.a[i, start + r] * pair.over_a, pair.b[i, start + r] * pair.over_b
            scratch[AA + r] += x * x * si
            scratch[AB + r] += x * y * si
            scratch[BB + r] += y * y * si


@kernel
def norms_of(s: Any, m: Any, metric: Any, a: Any, b: Any, tiny: Any) -> Any:
    """|a| and |b|; in units of their largest entries where squares under- or overflow."""
    one = ONE + ZERO * tiny
    aa, _, bb = products(s, m, metric, a, b, one, one)
    if tiny < aa < ONE / tiny and tiny < bb < ONE / tiny:
        return math.sqrt(aa), math.sqrt(bb)
    largest_a, largest_b = largest(a), largest(b)
    unit_a, unit_b = largest_a if largest_a > ZERO else one, largest_b if largest_b > ZERO else one
    aa, _, bb = products(s, m, metric, a, b, unit_a, unit_b)
    return largest_a * math.sqrt(aa), largest_b * math.sqrt(bb)


@kernel
def damp(m: Any, gradient: Any, length: Any) -> None:
    """A gradient of theta, of some squared length, that is not much longer than usual: `Kalman`, compiled."""
    shock, lengths = vector(m, PIECE.shock), vector(m, PIECE.lengths)
    bound = ONE + shock[0] * lengths[1]
    if length == ZERO:
        return
    if not is_finite(length):
        clear(gradient)
        return
    lengths[0] += ONE
    lengths[1] += max(ONE / lengths[0], ONE / shock[1]) * (min(length, bound) - lengths[1])
    if length > bound:
        copy_multiple(gradient, math.sqrt(bound / length), gradient)


@kernel
def largest(a: Any) -> Any:
    """The largest entry of a form."""
    found = ZERO * a[0, 0]
    for i in range(a.shape[0]):
        for r in range(a.shape[1]):
            found = max(found, abs(a[i, r]))
    return found


@kernel
def square(a: Any) -> Any:
    """The sum of squares of a form."""
    total = ZERO * a[0, 0]
    for i in range(a.shape[0]):
        for r in range(a.shape[1]):
            total += a[i, r] * a[i, r]
    return total


@kernel
def add_multiple(total: Any, factor: Any, a: Any, keep: Any) -> None:
    """total <- keep total + factor a."""
    for i in range(a.shape[0]):
        for r in range(a.shape[1]):
            total[i, r] = keep * total[i, r] + factor * a[i, r]


@kernel
def clear(a: Any) -> None:
    """a <- 0, also where it is no number."""
    for i in range(a.shape[0]):
        for r in range(a.shape[1]):
            a[i, r] = ZERO


@kernel
def copy_multiple(target: Any, factor: Any, a: Any) -> None:
    """target <- factor a."""
    for i in range(a.shape[0]):
        for r in range(a.shape[1]):
            target[i, r] = factor * a[i, r]


@kernel
def add_units(s: Any, factor: Any, co_state: Any, component: Any, form: Any, total: Any) -> None:
    """total += factor sum_i lambda_i form_i, unit by unit, lambda of one component."""
    n = np.uint64(s.units)
    at = np.uint64(component) * n
    for i in range(total.shape[0]):
        for gate in range(s.gates):
            start = np.uint64(gate) * n
            for unit in range(n):
                total[i, start + unit] += factor * co_state[at + unit] * form[i, start + unit]
