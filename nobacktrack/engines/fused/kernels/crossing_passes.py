"""The two passes of `DiagonalPlusRankOne` over theta, band by band, which threads share: theta moves on what unit
blocks, the last steps and the random terms say, and all of them are carried one step on.

At 20 units what surrounds a short loop costs as much as the loop: what is done with a weight is done in as few as can
be.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....compiled import ZERO, inlined, kernel
from ..codes import Job, Metric
from ..memory.crossings import CROSSING
from ..memory.layout import BLOCK, PIECE
from ..memory.terms import TERM
from ..memory.views import Count, bands, matrix, matrix_from, scratch_of, slab, vector, vector_from
from . import rows, units
from .crew import share
from .passes import bands_of, preactivate
from .rows import BIAS, G0, INVERSE0, PENDING, SQUARE_U, SQUARE_W, W0, G, M, S
from .terms import group_in_band, move_and_inform_arrow, move_and_inform_diagonal, move_by_arrow, move_plainly

Y0, SQUARE_Y = PENDING, SQUARE_U  # in `scratch`: there is no u here, and nothing pending


@kernel
def move_theta(s: Any, m: Any, oldest: Any, pace: Any) -> None:
    """theta moves on sum_c H_c Z_c + sum over the last steps of (H J .. J M) Y + (1/K) sum_k (H v_k) w_k; the squares
    of the w_k and of the oldest Y in the new metric are left for the reduction to come.
    """
    times = rows.weight_in_information(m.ints, Count.THETA_AGE, s.theta_every)
    vector(m, PIECE.errand)[0] = pace
    share(work, s, m, Job.MOVE, bands_of(s), times, oldest)
    m.ints[Count.OBSERVED] = 1


@kernel
def work(s: Any, m: Any, job: Any, i: Any, a: Any, b: Any, place: Any) -> None:
    """Band i of what threads do together."""
    if job == Job.STEP:
        preactivate(s, m, i, a)
    elif job == Job.MOVE:
        move_band(s, m, i * s.band, a, b, place)
    else:
        carry_band(s, m, i * s.band, a)


@kernel
def move_band(s: Any, m: Any, first: Any, times: Any, oldest: Any, place: Any) -> None:
    """The same in a band of rows."""
    width, scratch = min(s.band, s.gates * s.units - first), scratch_of(m, place)
    group = group_in_band(s, m, first, width, vector(m, PIECE.errand)[0], times)
    blocks, share = units.blocks_in_band(m, first, width), vector(m, TERM.share)
    w, y = bands(m, TERM.w, first, width), bands(m, CROSSING.ring_blocks, first, width)
    across, squares_y = matrix_from(m, CROSSING.row_across, first), vector_from(m, CROSSING.squares, first)
    squares_w, last = matrix_from(m, TERM.squares_w, first), np.uint64(w.shape[0] - 1)
    for begin in range(0, width, BLOCK):
        start, count = np.uint64(begin), np.uint64(min(BLOCK, width - begin))
        gather(blocks, y, across, w, share, scratch, np.uint64(0), start, count)
        for r in range(count):
            scratch[G0 + r] = scratch[G + r] + share[last] * w[last, 0, start + r]
            scratch[BIAS + r] = ZERO
        rows.inform_biases(group, scratch, start, count)
        begin_squares(w, y, oldest, scratch, start, count, squares_w)
        for i in range(np.uint64(1), np.uint64(s.fan)):
            gather(blocks, y, across, w, share, scratch, i, start, count)
            move_weights(group, w, y, oldest, share, scratch, i, start, count)
            square_all_but_last(w, scratch, i, start, count, squares_w)
        rows.move_biases(group, scratch, start, count)
        for r in range(count):
            squares_y[start + r] = scratch[SQUARE_Y + r]
            squares_w[last, start + r] = scratch[SQUARE_W + r]


@inlined
def begin_squares(w: Any, y: Any, oldest: Any, scratch: Any, start: Any, count: Any, squares_w: Any) -> None:
    """The first terms of |w_k|^2 and of |Y|^2, those of the biases."""
    last = np.uint64(w.shape[0] - 1)
    for r in range(count):
        x, z, inverse0 = w[last, 0, start + r], y[oldest, 0, start + r], scratch[INVERSE0 + r]
        scratch[W0 + r], scratch[Y0 + r] = x, z
        scratch[SQUARE_W + r], scratch[SQUARE_Y + r] = x * x * inverse0, z * z * inverse0
    for k in range(last):
        for r in range(count):
            squares_w[k, start + r] = w[k, 0, start + r] * w[k, 0, start + r] * scratch[INVERSE0 + r]


@inlined
def move_weights(
    group: Any, w: Any, y: Any, oldest: Any, share: Any, scratch: Any, i: Any, start: Any, count: Any
) -> None:
    """Weight i of each row of a block, of whose gradient the part of the last w_k is not in `scratch` yet."""
    if group.metric == Metric.QUASI_DIAGONAL and group.informs:
        move_each(move_and_inform_arrow, group, w, y, oldest, share, scratch, i, start, count)
    elif group.metric == Metric.QUASI_DIAGONAL:  # apart: a store under a condition would cost more than all the rest
        move_each(move_by_arrow, group, w, y, oldest, share, scratch, i, start, count)
    elif group.metric == Metric.DIAGONAL:
        move_each(move_and_inform_diagonal, group, w, y, oldest, share, scratch, i, start, count)
    else:
        move_each(move_plainly, group, w, y, oldest, share, scratch, i, start, count)


@inlined
def move_each(
    move: Any, group: Any, w: Any, y: Any, oldest: Any, share: Any, scratch: Any, i: Any, start: Any, count: Any
) -> None:
    """The same, by one of the ways to move; (w_i - m_i w_0)^2 / s_i of the last term, and the same of Y."""
    last, slot = np.uint64(w.shape[0] - 1), np.uint64(oldest)
    believed = share[last]
    for r in range(count):
        x, z, g0, inverse0 = w[last, i, start + r], y[slot, i, start + r], scratch[G0 + r], scratch[INVERSE0 + r]
        mi, si = move(group, i, start + r, scratch[G + r] + believed * x, g0, inverse0, scratch, r)
        scratch[M + r], scratch[S + r] = mi, si
        apart, other = x - mi * scratch[W0 + r], z - mi * scratch[Y0 + r]
        scratch[SQUARE_W + r] += apart * apart * si
        scratch[SQUARE_Y + r] += other * other * si


@inlined
def square_all_but_last(w: Any, scratch: Any, i: Any, start: Any, count: Any, squares_w: Any) -> None:
    """(w_i - m_i w_0)^2 / s_i of all terms but the last."""
    for k in range(np.uint64(w.shape[0] - 1)):
        for r in range(count):
            apart = w[k, i, start + r] - scratch[M + r] * w[k, 0, start + r]
            squares_w[k, start + r] += apart * apart * scratch[S + r]


@inlined
def gather(blocks: Any, y: Any, across: Any, w: Any, share: Any, scratch: Any, i: Any, start: Any, count: Any) -> None:
    """dl/dtheta of weight i in some rows, all but the part of the last w_k: four of the last steps at a time, so that
    the sum is read and written less often.
    """
    units.pull_weight(blocks, scratch, i, start, count)
    fours = y.shape[0] - y.shape[0] % 4
    for slot in range(0, fours, 4):
        j, k, o, p = np.uint64(slot), np.uint64(slot + 1), np.uint64(slot + 2), np.uint64(slot + 3)
        for r in range(count):
            at = start + r
            here = across[j, at] * y[j, i, at] + across[k, at] * y[k, i, at]
            scratch[G + r] += here + (across[o, at] * y[o, i, at] + across[p, at] * y[p, i, at])
    for slot in range(fours, y.shape[0]):
        for r in range(count):
            scratch[G + r] += across[slot, start + r] * y[slot, i, start + r]
    for k in range(np.uint64(share.size - 1)):
        for r in range(count):
            scratch[G + r] += share[k] * w[k, i, start + r]


# --- one more step ----------------------------------------------------------------------------------------------------


@kernel
def carry(s: Any, m: Any, slot: Any) -> None:
    """w_k <- w_k / rho + merged_k Y of the oldest step, in whose place Y <- sum_c A_c Z_c, and Z <- D Z + c (x) u."""
    units.lay_out(s, m, True)
    lay_out_through(s, m, slot)
    share(work, s, m, Job.CARRY, bands_of(s), slot, 0)


@kernel
def carry_band(s: Any, m: Any, first: Any, slot: Any) -> None:
    """The same in a band of rows."""
    u, alike = matrix(m, PIECE.u), s.gates * s.units // s.groups
    width, scale = min(s.band, s.gates * s.units - first), vector(m, TERM.pending_scale)
    blocks, w = units.blocks_in_band(m, first, width), bands(m, TERM.w, first, width)
    y, through = bands(m, CROSSING.ring_blocks, first, width), matrix_from(m, CROSSING.row_through, first)
    merged = matrix_from(m, CROSSING.row_merged, first)
    for kind in range(s.groups):
        until = min(width, (kind + 1) * alike - first)
        for begin in range(max(0, kind * alike - first), until, BLOCK):
            start, count = np.uint64(begin), np.uint64(min(BLOCK, until - begin))
            for i in range(np.uint64(s.fan)):
                merge_weight(y, slot, w, scale, merged, i, start, count)
                pass_weight(blocks, y, slot, through, w, scale, merged, u[kind, i], i, start, count)


@kernel
def lay_out_through(s: Any, m: Any, slot: Any) -> None:
    """A for each row of theta."""
    through, row_through = slab(m, CROSSING.ring_through, slot), matrix(m, CROSSING.row_through)
    for component in range(s.components):
        for gate in range(s.gates):
            at = np.uint64(gate * s.units)
            for j in range(np.uint64(s.units)):
                row_through[component, at + j] = through[component, j]


@inlined
def merge_weight(y: Any, slot: Any, w: Any, scale: Any, merged: Any, i: Any, start: Any, count: Any) -> None:
    """Weight i of some rows: the oldest Y into all w_k but the last."""
    for k in range(np.uint64(scale.size - 1)):
        for r in range(count):
            w[k, i, start + r] = scale[k] * w[k, i, start + r] + merged[k, start + r] * y[slot, i, start + r]


@inlined
def pass_weight(
    blocks: Any,
    y: Any,
    oldest: Any,
    through: Any,
    w: Any,
    scale: Any,
    merged: Any,
    heard: Any,
    i: Any,
    start: Any,
    count: Any,
) -> None:
    """The same into the last, a new Y in its place, and Z one step on."""
    last, slot, z, kept, c = np.uint64(scale.size - 1), np.uint64(oldest), blocks.z, blocks.kept, blocks.c
    shrunk = scale[last]
    if z.shape[0] == 1:
        for r in range(count):
            at = start + r
            before, x, old = y[slot, i, at], z[0, i, at], w[last, i, at]
            w[last, i, at] = shrunk * old + merged[last, at] * before
            y[slot, i, at] = through[0, at] * x
            z[0, i, at] = kept[0, at] * x + c[0, at] * heard
    else:
        for r in range(count):
            at = start + r
            before, x, x1, old = y[slot, i, at], z[0, i, at], z[1, i, at], w[last, i, at]
            w[last, i, at] = shrunk * old + merged[last, at] * before
            y[slot, i, at] = through[0, at] * x + through[1, at] * x1
            z[0, i, at] = (kept[0, at] * x + kept[1, at] * x1) + c[0, at] * heard
            z[1, i, at] = (kept[2, at] * x + kept[3, at] * x1) + c[1, at] * heard
