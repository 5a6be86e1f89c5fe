"""The pass of NoBackTrack over theta, band by band, with its K arrays w_k beside it.

For each row [bias | weights]: gradient = q u + sum_k share_k w_k, J takes it in, the row moves, and the norms of u and
of the w_k in the new metric are summed, for the scales of the reduction to come. What the reduction before it left
pending is done on the way, so that it makes no pass of its own: w_k <- scale_k w_k + rows_k (x) fan_in.
"""

# pyright: reportPossiblyUnboundVariable=false
from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ....compiled import ONE, ZERO, fill, inlined, kernel
from ..codes import Metric
from ..memory.layout import BLOCK, PIECE
from ..memory.terms import TERM
from ..memory.views import band, bands, flattened, matrix, matrix_from, scratch_of, vector, vector_from
from . import rows
from .rows import BIAS, G0, INVERSE0, PENDING, SQUARE_U, SQUARE_W, W0, G, M, Q, S


class Terms(NamedTuple):
    """The w_k of a band of rows, what is pending of them, and where their norms go."""

    w: Any
    scale: Any
    rows: Any
    fan_in: Any
    share: Any
    bias: Any
    squares_u: Any
    squares_w: Any


@inlined
def group_in_band(s: Any, m: Any, first: Any, width: Any, pace: Any, times: Any) -> Any:
    """The rows of theta from `first` on, and how they move."""
    theta = band(m, PIECE.theta, first, width)
    m0i, mii = band(m, PIECE.theta_m0i, first, width), band(m, PIECE.theta_mii, first, width)
    return rows.group_of(theta, m0i, mii, s.theta_metric, vector(m, PIECE.priors)[0], pace, times)


@inlined
def terms_in_band(m: Any, first: Any, width: Any) -> Any:
    """The same rows of the w_k."""
    return Terms(
        bands(m, TERM.w, first, width),
        vector(m, TERM.pending_scale),
        matrix_from(m, TERM.pending_rows, first),
        matrix(m, TERM.pending_fan_in),
        vector(m, TERM.share),
        matrix_from(m, TERM.bias_w, first),
        vector_from(m, TERM.squares_u, first),
        matrix_from(m, TERM.squares_w, first),
    )


@kernel
def move_band(s: Any, m: Any, first: Any, times: Any, place: Any) -> None:
    """A band of theta moves on dl/dtheta = q u + sum_k share_k w_k."""
    u, scratch, alike = matrix(m, PIECE.u), scratch_of(m, place), s.gates * s.units // s.groups
    width = min(s.band, s.gates * s.units - first)
    group = group_in_band(s, m, first, width, vector(m, PIECE.errand)[0], times)
    terms, q = terms_in_band(m, first, width), vector_from(m, PIECE.q, first)
    for kind in range(s.groups):
        until = min(width, (kind + 1) * alike - first)
        for begin in range(max(0, kind * alike - first), until, BLOCK):
            start, count = np.uint64(begin), np.uint64(min(BLOCK, until - begin))
            move_block(group, terms, q, u, kind, scratch, start, count)


@kernel
def move_block(group: Any, terms: Any, q: Any, u: Any, kind: Any, scratch: Any, start: Any, count: Any) -> None:
    """A block of rows that hear the same."""
    last, u0 = np.uint64(terms.w.shape[0] - 1), u[kind, 0]
    for r in range(count):
        scratch[Q + r] = q[start + r]
        scratch[G0 + r] = q[start + r] * u0
        scratch[BIAS + r] = ZERO
        scratch[G + r] = ZERO
    begin_terms(terms, kind, scratch, start, count)
    rows.inform_biases(group, scratch, start, count)
    begin_squares(terms, last, u0, scratch, start, count)
    if group.metric == Metric.QUASI_DIAGONAL and group.informs:
        move_all_weights(move_and_inform_arrow, square_apart, group, terms, u, kind, scratch, start, count)
    elif group.metric == Metric.QUASI_DIAGONAL:  # apart: a store under a condition would cost more than all the rest
        move_all_weights(move_by_arrow, square_apart, group, terms, u, kind, scratch, start, count)
    elif group.metric == Metric.DIAGONAL:
        move_all_weights(move_and_inform_diagonal, square_alone, group, terms, u, kind, scratch, start, count)
    else:
        move_all_weights(move_plainly, square_alone, group, terms, u, kind, scratch, start, count)
    rows.move_biases(group, scratch, start, count)
    for r in range(count):
        terms.squares_u[start + r] = scratch[SQUARE_U + r]
        terms.squares_w[last, start + r] = scratch[SQUARE_W + r]


@inlined
def move_all_weights(
    move: Any, square: Any, group: Any, terms: Any, u: Any, kind: Any, scratch: Any, start: Any, count: Any
) -> None:
    """All weights of a block: `move` moves one of a row, `square` adds its part to the norms."""
    last, u0 = np.uint64(terms.w.shape[0] - 1), u[kind, 0]
    scale, share = terms.scale[last], terms.share[last]
    for i in range(np.uint64(1), np.uint64(u.shape[1])):
        heard, ui = terms.fan_in[kind, i], u[kind, i]
        if last > 0:
            flush_all_but_last(terms, last, heard, i, scratch, start, count)
        for r in range(count):  # loads come first: one after a store to another page may have to wait for it
            g, g0, inverse0 = scratch[Q + r] * ui + scratch[G + r], scratch[G0 + r], scratch[INVERSE0 + r]
            x = scale * terms.w[last, i, start + r] + scratch[PENDING + r] * heard
            terms.w[last, i, start + r] = x
            mi, si = move(group, i, start + r, g + share * x, g0, inverse0, scratch, r)
            square(scratch, r, mi, si, u0, ui, x)
        if last > 0:
            square_all_but_last(group, terms, last, i, scratch, start, count)


@inlined
def begin_terms(terms: Any, kind: Any, scratch: Any, start: Any, count: Any) -> None:
    """The biases of the w_k, and their part of g_0."""
    for k in range(np.uint64(terms.w.shape[0])):
        scale, share, heard = terms.scale[k], terms.share[k], terms.fan_in[kind, 0]
        for r in range(count):
            x = scale * terms.w[k, 0, start + r] + terms.rows[k, start + r] * heard
            terms.w[k, 0, start + r] = x
            terms.bias[k, start + r] = x
            scratch[W0 + r] = x
            scratch[PENDING + r] = terms.rows[k, start + r]
            scratch[G0 + r] += share * x


@inlined
def begin_squares(terms: Any, last: Any, u0: Any, scratch: Any, start: Any, count: Any) -> None:
    """The first terms of |u|^2 and of |w_k|^2, those of the biases."""
    for r in range(count):
        scratch[SQUARE_U + r] = u0 * u0 * scratch[INVERSE0 + r]
        scratch[SQUARE_W + r] = scratch[W0 + r] * scratch[W0 + r] * scratch[INVERSE0 + r]
    for k in range(last):
        for r in range(count):
            x = terms.bias[k, start + r]
            terms.squares_w[k, start + r] = x * x * scratch[INVERSE0 + r]


@inlined
def flush_all_but_last(terms: Any, last: Any, heard: Any, i: Any, scratch: Any, start: Any, count: Any) -> None:
    """Weight i of all terms but the last, which is part of `move_weights`: what is pending, and their part of g_i."""
    for r in range(count):
        scratch[G + r] = ZERO
    for k in range(last):
        for r in range(count):
            x = terms.scale[k] * terms.w[k, i, start + r] + terms.rows[k, start + r] * heard
            terms.w[k, i, start + r] = x
            scratch[G + r] += terms.share[k] * x


@inlined
def move_and_inform_arrow(group: Any, i: Any, at: Any, g: Any, g0: Any, inverse0: Any, scratch: Any, r: Any) -> Any:
    """One weight of one row, quasi-diagonal: m_i and 1 / s_i."""
    mi, si = rows.inform_arrow(group, i, at, g, g0, inverse0)
    step = (g - g0 * mi) * si
    group.params[i, at] -= step
    scratch[BIAS + r] += mi * step
    return mi, si


@inlined
def move_by_arrow(group: Any, i: Any, at: Any, g: Any, g0: Any, inverse0: Any, scratch: Any, r: Any) -> Any:
    """The same where J stays."""
    mi, si = rows.schur(group.m0i[i, at], group.mii[i, at], inverse0, group.prior)
    step = (g - g0 * mi) * si
    group.params[i, at] -= step
    scratch[BIAS + r] += mi * step
    return mi, si


@inlined
def move_and_inform_diagonal(group: Any, i: Any, at: Any, g: Any, g0: Any, inverse0: Any, scratch: Any, r: Any) -> Any:
    """The same, diagonal."""
    si = rows.inform_diagonal(group, i, at, g)
    group.params[i, at] -= g * si
    return ZERO, si


@inlined
def move_plainly(group: Any, i: Any, at: Any, g: Any, g0: Any, inverse0: Any, scratch: Any, r: Any) -> Any:
    """The same with no J."""
    group.params[i, at] -= group.rate * g
    return ZERO, ONE


@inlined
def square_apart(scratch: Any, r: Any, mi: Any, si: Any, u0: Any, ui: Any, x: Any) -> None:
    """(u_i - m_i u_0)^2 / s_i, and the same of w."""
    apart = ui - mi * u0
    scratch[SQUARE_U + r] += apart * apart * si
    apart = x - mi * scratch[W0 + r]
    scratch[SQUARE_W + r] += apart * apart * si


@inlined
def square_alone(scratch: Any, r: Any, mi: Any, si: Any, u0: Any, ui: Any, x: Any) -> None:
    """The same where m_i is 0."""
    scratch[SQUARE_U + r] += ui * ui * si
    scratch[SQUARE_W + r] += x * x * si


@inlined
def square_all_but_last(group: Any, terms: Any, last: Any, i: Any, scratch: Any, start: Any, count: Any) -> None:
    """(w_i - m_i w_0)^2 / s_i of all terms but the last."""
    weigh(group.metric, group.prior, group.m0i, group.mii, i, scratch, start, count)
    for k in range(last):
        for r in range(count):
            apart = terms.w[k, i, start + r] - scratch[M + r] * terms.bias[k, start + r]
            terms.squares_w[k, start + r] += apart * apart * scratch[S + r]


@kernel
def weigh(metric: Any, prior: Any, m0i: Any, mii: Any, i: Any, scratch: Any, start: Any, count: Any) -> None:
    """m_i and 1 / s_i of weight i in each row, by which |w|^2 gets (w_i - m_i w_0)^2 / s_i; 1 / M_00 for the bias."""
    for r in range(count):
        scratch[M + r], scratch[S + r] = ZERO, ONE
    if metric == Metric.QUASI_DIAGONAL and i == 0:
        for r in range(count):
            scratch[INVERSE0 + r] = rows.reciprocal(m0i[0, start + r] + prior)
            scratch[S + r] = scratch[INVERSE0 + r]
    elif metric == Metric.QUASI_DIAGONAL:
        for r in range(count):
            mi, si = rows.schur(m0i[i, start + r], mii[i, start + r], scratch[INVERSE0 + r], prior)
            scratch[M + r], scratch[S + r] = mi, si
    elif metric == Metric.DIAGONAL:
        for r in range(count):
            scratch[S + r] = rows.reciprocal(mii[i, start + r] + prior)


# --- where no target moved theta ------------------------------------------------------------------------------------


@kernel
def flush(s: Any, m: Any) -> None:
    """Do what is pending of w, where no target came to have it done on the way."""
    scale, fan_in = vector(m, TERM.pending_scale), matrix(m, TERM.pending_fan_in)
    alike = s.gates * s.units // s.groups
    for first in range(0, s.gates * s.units, s.band):
        w = bands(m, TERM.w, first, min(s.band, s.gates * s.units - first))
        pending = matrix_from(m, TERM.pending_rows, first)
        for k in range(w.shape[0]):
            for i in range(w.shape[1]):
                for kind in range(s.groups):
                    begin, until = max(0, kind * alike - first), min(w.shape[2], (kind + 1) * alike - first)
                    start = np.uint64(begin)
                    for r in range(np.uint64(max(until - begin, 0))):
                        w[k, i, start + r] = scale[k] * w[k, i, start + r] + pending[k, start + r] * fan_in[kind, i]
    nothing_pending(m)


@kernel
def nothing_pending(m: Any) -> None:
    """w is as it stands."""
    fill(vector(m, TERM.pending_scale), ONE)
    fill(flattened(m, TERM.pending_rows), ZERO)


@kernel
def measure(s: Any, m: Any, metric: Any) -> None:
    """|u|^2 and |w_k / norm_w_k|^2 in each row, in a metric: where no target moved the rows, or squares under- or
    overflow.
    """
    units, u, scratch = vector(m, TERM.norm_w), matrix(m, PIECE.u), scratch_of(m, 0)
    prior, alike = vector(m, PIECE.priors)[0], s.gates * s.units // s.groups
    for first in range(0, s.gates * s.units, s.band):
        width = min(s.band, s.gates * s.units - first)
        m0i, mii = band(m, PIECE.theta_m0i, first, width), band(m, PIECE.theta_mii, first, width)
        w, squares_w = bands(m, TERM.w, first, width), matrix_from(m, TERM.squares_w, first)
        squares_u = vector_from(m, TERM.squares_u, first)
        for kind in range(s.groups):
            until = min(width, (kind + 1) * alike - first)
            for begin in range(max(0, kind * alike - first), until, BLOCK):
                start, count = np.uint64(begin), np.uint64(min(BLOCK, until - begin))
                for i in range(np.uint64(s.fan)):
                    weigh(metric, prior, m0i, mii, i, scratch, start, count)
                    square_weights(u, w, units, kind, i, scratch, start, count, squares_u, squares_w)


@inlined
def square_weights(
    u: Any,
    w: Any,
    units: Any,
    kind: Any,
    i: Any,
    scratch: Any,
    start: Any,
    count: Any,
    squares_u: Any,
    squares_w: Any,
) -> None:
    """What weight i of each row of a block adds to the squares."""
    for r in range(count):
        apart = u[kind, i] - scratch[M + r] * u[kind, 0]
        squares_u[start + r] = (ZERO if i == 0 else squares_u[start + r]) + apart * apart * scratch[S + r]
    for k in range(w.shape[0]):
        for r in range(count):
            apart = (w[k, i, start + r] - scratch[M + r] * w[k, 0, start + r]) / units[k]
            before = ZERO if i == 0 else squares_w[k, start + r]
            squares_w[k, start + r] = before + apart * apart * scratch[S + r]


@kernel
def measure_by_largest(s: Any, m: Any, metric: Any) -> None:
    """|w_k| in units of its largest entry, or 0 where all are zero."""
    norm_w, squares_w = vector(m, TERM.norm_w), matrix(m, TERM.squares_w)
    fill(norm_w, ZERO)
    for first in range(0, s.gates * s.units, s.band):
        w = bands(m, TERM.w, first, min(s.band, s.gates * s.units - first))
        for k in range(w.shape[0]):
            for i in range(w.shape[1]):
                for r in range(w.shape[2]):
                    norm_w[k] = max(norm_w[k], abs(w[k, i, r]))
    for k in range(norm_w.size):
        norm_w[k] = norm_w[k] if norm_w[k] > ZERO else ONE
    measure(s, m, metric)
    for k in range(norm_w.size):
        norm_w[k] *= math.sqrt(total_of(squares_w, k))


@kernel
def total_of(squares: Any, k: Any) -> Any:
    """The sum of row k."""
    total = squares[k, 0]
    for r in range(1, squares.shape[1]):
        total += squares[k, r]
    return total
