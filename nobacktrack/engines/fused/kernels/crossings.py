"""What units did to others in the last steps: a ring of Y, M and what makes the Jacobians since, and the reduction of
the oldest [`estimators/diagonal.py`, compiled]. The passes over theta are in `crossing_passes.py`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....compiled import ONE, ZERO, fill, inlined, kernel
from ..codes import Norms
from ..memory.crossings import CROSSING
from ..memory.layout import BLOCK, PIECE
from ..memory.terms import TERM, TINY
from ..memory.units import UNIT
from ..memory.views import (
    Count,
    band,
    bands,
    beginning,
    matrix,
    row,
    scratch_of,
    slab,
    vector,
    vector_from,
)
from .norms import balance, form_metric, form_norms, state_norm, weigh_state
from .rows import M, S
from .signs import draw_signs
from .terms import (
    measure,
    measure_by_largest,
    weigh,
)

LENGTHS, SCALES, OVERS, SUM = range(4)  # rows of `unit_scales`


@inlined
def slot_of(s: Any, head: Any, age: Any) -> Any:
    """Where in the ring a step lies, the newest of which has age 0; -1 is the oldest, and the place of the next."""
    return (head - age) % s.depth


# --- what a target tells theta ----------------------------------------------------------------------------------------


@kernel
def pull(s: Any, m: Any, head: Any) -> None:
    """H J .. J M for each of the last steps, laid out for the rows of theta."""
    passing, row_across = matrix(m, CROSSING.passing), matrix(m, CROSSING.row_across)
    cotangent, across, dl_dh = row(passing, 0), row(passing, 1), vector(m, PIECE.dl_dh)
    n = np.uint64(s.units)
    for i in range(dl_dh.size):
        cotangent[i] = dl_dh[i]
    for age in range(s.depth):
        slot = slot_of(s, head, age)
        off = slab(m, CROSSING.ring_off, slot)
        own, through = slab(m, CROSSING.ring_own, slot), slab(m, CROSSING.ring_through, slot)
        for j in range(s.units):
            total = ZERO * dl_dh[0]
            for i in range(cotangent.size):
                total += cotangent[i] * off[j, i]
            across[j] = total
        for gate in range(s.gates):
            at = np.uint64(gate * s.units)
            for j in range(n):
                row_across[slot, at + j] = across[j]
        if s.components == 1:
            for j in range(n):
                cotangent[j] = own[0, j] * cotangent[j] + through[0, j] * across[j]
        else:
            for j in range(n):
                first, second = cotangent[j], cotangent[n + j]
                cotangent[j] = own[0, j] * first + own[2, j] * second + through[0, j] * across[j]
                cotangent[n + j] = own[1, j] * first + own[3, j] * second + through[1, j] * across[j]


# --- the reduction ----------------------------------------------------------------------------------------------------


@kernel
def reduce(s: Any, m: Any, head: Any) -> None:
    """v <- rho v + r J .. J M (eps rho_j), and how much of the oldest Y goes into w: eps / (r rho_j), with w / rho."""
    oldest, metric = slot_of(s, head, -1), form_metric(s)
    if m.ints[Count.OBSERVED] == 0 or metric != s.theta_metric:  # theta did not move, or in another metric
        fill(vector(m, TERM.norm_w), ONE)
        measure(s, m, metric)
        measure_blocks(s, m, oldest, metric)
    if not form_norms(m):
        measure_by_largest(s, m, metric)
    add_gates(s, m)
    draw_signs(m.clock, beginning(vector(m, TERM.signs), s.terms * s.units))
    q, settings = vector(m, CROSSING.q_state), vector(m, TERM.settings)
    least = weigh_state(s, m, q)
    size = scale_units(s, m, oldest, q, settings[TINY])
    merge(s, m, head, q, least, size)


@kernel
def measure_blocks(s: Any, m: Any, slot: Any, metric: Any) -> None:
    """|Y|^2 in each row, where the pass over theta has not left them."""
    scratch, prior = scratch_of(m, 0), vector(m, PIECE.priors)[0]
    for first in range(0, s.gates * s.units, s.band):
        width = min(s.band, s.gates * s.units - first)
        m0i, mii = band(m, PIECE.theta_m0i, first, width), band(m, PIECE.theta_mii, first, width)
        y, squares = bands(m, CROSSING.ring_blocks, first, width), vector_from(m, CROSSING.squares, first)
        for begin in range(0, width, BLOCK):
            start, count = np.uint64(begin), np.uint64(min(BLOCK, width - begin))
            for r in range(count):
                squares[start + r] = ZERO
            for i in range(np.uint64(s.fan)):
                weigh(metric, prior, m0i, mii, i, scratch, start, count)
                for r in range(count):
                    bias = y[slot, 0, start + r]
                    apart = y[slot, i, start + r] - scratch[M + r] * bias
                    squares[start + r] += apart * apart * scratch[S + r]


@kernel
def add_gates(s: Any, m: Any) -> None:
    """|Y_j| of each unit, all its gates together."""
    lengths, whole = row(matrix(m, CROSSING.unit_scales), LENGTHS), vector(m, CROSSING.squares)
    for j in range(lengths.size):
        total = ZERO * whole[0]
        for gate in range(s.gates):
            total += whole[gate * s.units + j]
        lengths[j] = math.sqrt(total)


@kernel
def scale_units(s: Any, m: Any, slot: Any, q: Any, tiny: Any) -> Any:
    """rho_j and 1 / rho_j of each unit, rho_j^2 = |Y_j| / |M e_j|; returns the length of all Y_j / rho_j."""
    table, off, worth = matrix(m, CROSSING.unit_scales), slab(m, CROSSING.ring_off, slot), matrix(m, TERM.worth)
    largest = ZERO * tiny
    for j in range(s.units):
        column = state_norm(Norms.METRIC, off, j, q, worth, tiny, tiny)
        table[SCALES, j], table[OVERS, j] = balance(s.norms, table[LENGTHS, j], column)
        largest = max(largest, table[OVERS, j] * table[LENGTHS, j])
    if largest == ZERO:
        return largest
    total = ZERO * tiny
    for j in range(s.units):
        x = table[OVERS, j] * table[LENGTHS, j] / largest
        total += x * x
    return largest * math.sqrt(total)


@kernel
def merge(s: Any, m: Any, head: Any, q: Any, least: Any, size: Any) -> None:
    """The oldest step into each of the K terms."""
    v, new_v, worth, norm_w = (
        matrix(m, TERM.v),
        matrix(m, CROSSING.new_v),
        matrix(m, TERM.worth),
        vector(m, TERM.norm_w),
    )
    signs, table, merged = vector(m, TERM.signs), matrix(m, CROSSING.unit_scales), matrix(m, CROSSING.row_merged)
    scale, tiny, n = vector(m, TERM.pending_scale), vector(m, TERM.settings)[TINY], np.uint64(s.units)
    for k in range(s.terms):
        first = np.uint64(k * s.units)
        for j in range(n):
            table[SUM, j] = signs[first + j] * table[SCALES, j]
        pass_on(s, m, head, row(table, SUM), row(new_v, k))
        rho, scale[k] = balance(s.norms, norm_w[k], state_norm(s.norms, v, k, q, worth, least, tiny))
        r, over_r = balance(s.norms, size, state_norm(s.norms, new_v, k, q, worth, least, tiny))
        for i in range(v.shape[1]):
            v[k, i] = rho * v[k, i] + r * new_v[k, i]
        for gate in range(s.gates):
            at = np.uint64(gate * s.units)
            for j in range(n):
                merged[k, at + j] = over_r * (signs[first + j] * table[OVERS, j])


@kernel
def pass_on(s: Any, m: Any, head: Any, seen: Any, v: Any) -> None:
    """v = J .. J M seen, from the oldest step to the newest."""
    n, before = np.uint64(s.units), row(matrix(m, CROSSING.passing), 0)
    fill(v, ZERO)
    add_rows(slab(m, CROSSING.ring_off, slot_of(s, head, -1)), seen, v)
    for age in range(s.depth - 2, -1, -1):
        slot = slot_of(s, head, age)
        own, through = slab(m, CROSSING.ring_own, slot), slab(m, CROSSING.ring_through, slot)
        if s.components == 1:
            for j in range(n):
                seen[j], before[j] = through[0, j] * v[j], own[0, j] * v[j]
        else:
            for j in range(n):
                first, second = v[j], v[n + j]
                seen[j] = through[0, j] * first + through[1, j] * second
                before[j] = own[0, j] * first + own[1, j] * second
                before[n + j] = own[2, j] * first + own[3, j] * second
        for i in range(v.size):
            v[i] = before[i]
        add_rows(slab(m, CROSSING.ring_off, slot), seen, v)


@kernel
def add_rows(off: Any, seen: Any, v: Any) -> None:
    """v += M seen."""
    for j in range(off.shape[0]):
        x = seen[j]
        for i in range(v.size):
            v[i] += x * off[j, i]


# --- one more step ----------------------------------------------------------------------------------------------------


@kernel
def record(s: Any, m: Any, slot: Any) -> None:
    """M, D and A of the newest step, at the theta that made it."""
    off, c, hears = slab(m, CROSSING.ring_off, slot), matrix(m, PIECE.c), matrix(m, PIECE.hears)
    own, through = slab(m, CROSSING.ring_own, slot), slab(m, CROSSING.ring_through, slot)
    kept, slope, last = matrix(m, UNIT.kept), vector(m, PIECE.slope), s.components - 1
    for j in range(off.shape[0]):
        fill(row(off, j), ZERO)
    for first in range(0, s.gates * s.units, s.band):
        theta = band(m, PIECE.theta, first, min(s.band, s.gates * s.units - first))
        for gate in range(s.gates):
            begin, until = max(0, gate * s.units - first), min(theta.shape[1], (gate + 1) * s.units - first)
            if begin < until and hears[gate * s.groups // s.gates, 0] > ZERO:
                add_weights(s, gate, first, begin, until, theta, c, off)
    for j in range(s.units):
        for component in range(s.components):
            off[j, component * s.units + j] = ZERO
            through[component, j] = slope[j] if component == last else ZERO
        for d in range(own.shape[0]):
            own[d, j] = kept[d, j]


@kernel
def add_weights(s: Any, gate: Any, first: Any, begin: Any, until: Any, theta: Any, c: Any, off: Any) -> None:
    """What goes through the pre-activations of a gate, of the units in a band."""
    start, count, unit = np.uint64(begin), np.uint64(until - begin), np.uint64(first + begin - gate * s.units)
    for j in range(np.uint64(s.units)):
        for component in range(s.components):
            at = np.uint64(component * s.units) + unit
            for r in range(count):
                factor = c[gate * s.components + component, unit + r]
                off[j, at + r] += factor * theta[np.uint64(1) + j, start + r]
