"""The heavy part, the same for all cells: one pass over the rows of theta, or of phi.

For each row [bias | weights]: gradient = q u + sum_k along_k w_k, the information grows, the row moves, and the norms
of u and of the w_k in the new metric are summed, for the scales of the reduction to come. What the reduction before
it owes to w is paid on the way: w_k <- inverse_k w_k + due_k (x) heard.

Kernels take whole arrays and indices, and loops are written out: at 20 units, a view, a record of arrays or a call
inside a loop costs more than the loop. Indices that do not begin at 0 are unsigned, or the compiler allows for
negative ones, which wrap around, and makes no vector instructions.
"""

# pyright: reportPossiblyUnboundVariable=false, reportOperatorIssue=false
# (w is None or an array when a kernel is compiled, and what the other case needs is left out)
from __future__ import annotations

from typing import Any

import numpy as np

from ...compiled import ONE, ZERO, kernel
from .layout import BLOCK, DIAGONAL, EUCLIDEAN, KEPT, QUASI_DIAGONAL

# What a pass keeps of each row of a block, in one vector with places that are known when it is compiled: the compiler
# can then see that they do not overlap, and need not look at run time, before each short loop.
_Q, _DUE, _G0, _INVERSE0, _BIAS, _LENGTH, _G, _M, _S, _W0, _SQUARE = (np.uint64(KEPT * i) for i in range(11))


@kernel
def reciprocal(x: Any) -> Any:
    """1/x, and 0 where x is 0."""
    return ONE / x if x > ZERO else ZERO


@kernel
def schur(m0i: Any, mii: Any, inverse0: Any, prior: Any) -> Any:
    """m_i = M_0i / M_00 and 1 / s_i, s_i = M_ii - M_0i^2 / M_00."""
    m = m0i * inverse0
    return m, reciprocal(prior + max(mii - m0i * m, ZERO))


@kernel
def weigh(metric: Any, prior: Any, m0i: Any, mii: Any, i: Any, kept: Any, start: Any, count: Any) -> None:
    """m_i and 1 / s_i of weight i in each row, by which |w|^2 gets (w_i - m_i w_0)^2 / s_i; 1 / M_00 for the bias."""
    for r in range(count):
        kept[_M + r], kept[_S + r] = ZERO, ONE
    if metric == QUASI_DIAGONAL and i == 0:
        for r in range(count):
            kept[_INVERSE0 + r] = reciprocal(m0i[0, start + r] + prior)
            kept[_S + r] = kept[_INVERSE0 + r]
    elif metric == QUASI_DIAGONAL:
        for r in range(count):
            m, s = schur(m0i[i, start + r], mii[i, start + r], kept[_INVERSE0 + r], prior)
            kept[_M + r], kept[_S + r] = m, s
    elif metric == DIAGONAL:
        for r in range(count):
            kept[_S + r] = reciprocal(mii[i, start + r] + prior)


@kernel
def move_rows(
    metric: Any,
    pace: Any,
    times: Any,
    prior: Any,
    first: Any,
    rows: Any,
    params: Any,
    m0i: Any,
    mii: Any,
    q: Any,
    u: Any,
    w: Any,
    inverse: Any,
    due: Any,
    heard: Any,
    along: Any,
    kept: Any,
    w0: Any,
    lengths: Any,
    squares: Any,
) -> None:
    """params <- params - (J + Lambda)^-1 gradient, J <- keep J + times gradient^2, and the norms [NBT, Alg. 2].

    `pace` is what is kept of J, or, with no J, the rate; where `times` is 0, J stays. All arrays are those of a band of
    rows, from row `first` on; `rows` is how many rows hear the same. `w` is None for phi, which has no influence.
    `kept` is for what the pass keeps of a block; the norms, squared, go to `lengths` (rows) and `squares` (terms,
    rows).
    """
    kinds, fan = u.shape
    width = params.shape[1]
    last = np.uint64(0 if w is None else w.shape[0] - 1)
    gain = params.dtype.type(times)
    keep = pace if times else params.dtype.type(1)
    for kind in range(kinds):
        until = min(width, (kind + 1) * rows - first)
        for begin in range(max(0, kind * rows - first), until, BLOCK):
            start, count = np.uint64(begin), np.uint64(min(BLOCK, until - begin))
            u0 = u[kind, 0]

            # The biases: g_0, 1 / M_00 and the first terms of the sums.
            for r in range(count):
                kept[_Q + r] = q[start + r]
                kept[_G0 + r] = q[start + r] * u0
                kept[_BIAS + r] = ZERO
                kept[_G + r] = ZERO
                kept[_INVERSE0 + r] = ONE
            if w is not None:
                for k in range(np.uint64(w.shape[0])):
                    factor, share, h = inverse[k], along[k], heard[kind, 0]
                    for r in range(count):
                        x = factor * w[k, 0, start + r] + due[k, start + r] * h
                        w[k, 0, start + r] = x
                        w0[k, start + r] = x
                        kept[_W0 + r] = x
                        kept[_DUE + r] = due[k, start + r]
                        kept[_G0 + r] += share * x
            if metric == QUASI_DIAGONAL:
                for r in range(count):
                    x = keep * m0i[0, start + r] + gain * kept[_G0 + r] * kept[_G0 + r]
                    m0i[0, start + r] = x
                    kept[_INVERSE0 + r] = reciprocal(x + prior)
            elif metric == DIAGONAL:
                for r in range(count):
                    x = keep * mii[0, start + r] + gain * kept[_G0 + r] * kept[_G0 + r]
                    mii[0, start + r] = x
                    kept[_INVERSE0 + r] = reciprocal(x + prior)
            if w is not None:
                for r in range(count):
                    kept[_LENGTH + r] = u0 * u0 * kept[_INVERSE0 + r]
                    kept[_SQUARE + r] = kept[_W0 + r] * kept[_W0 + r] * kept[_INVERSE0 + r]
                for k in range(last):
                    for r in range(count):
                        x = w0[k, start + r]
                        squares[k, start + r] = x * x * kept[_INVERSE0 + r]

            for i in range(np.uint64(1), np.uint64(fan)):
                ui = u[kind, i]
                if w is not None:  # all terms but the last, which is part of the main loop
                    h = heard[kind, i]
                    factor, share = inverse[last], along[last]
                    if last > 0:
                        for r in range(count):
                            kept[_G + r] = ZERO
                    for k in range(last):
                        for r in range(count):
                            x = inverse[k] * w[k, i, start + r] + due[k, start + r] * h
                            w[k, i, start + r] = x
                            kept[_G + r] += along[k] * x
                if metric == QUASI_DIAGONAL and times:
                    for r in range(count):
                        g, g0 = kept[_Q + r] * ui + kept[_G + r], kept[_G0 + r]
                        if w is not None:
                            x = factor * w[last, i, start + r] + kept[_DUE + r] * h
                            w[last, i, start + r] = x
                            g += share * x
                        across = keep * m0i[i, start + r] + g0 * (gain * g)
                        own = keep * mii[i, start + r] + g * (gain * g)
                        m0i[i, start + r] = across
                        mii[i, start + r] = own
                        m, s = schur(across, own, kept[_INVERSE0 + r], prior)
                        step = (g - g0 * m) * s
                        params[i, start + r] -= step
                        kept[_BIAS + r] += m * step
                        if w is not None:
                            apart = ui - m * u0
                            kept[_LENGTH + r] += apart * apart * s
                            apart = x - m * kept[_W0 + r]
                            kept[_SQUARE + r] += apart * apart * s
                elif metric == QUASI_DIAGONAL:  # apart: a store under a condition would cost more than all the rest
                    for r in range(count):
                        g, g0 = kept[_Q + r] * ui + kept[_G + r], kept[_G0 + r]
                        if w is not None:
                            x = factor * w[last, i, start + r] + kept[_DUE + r] * h
                            w[last, i, start + r] = x
                            g += share * x
                        across, own = m0i[i, start + r], mii[i, start + r]
                        m, s = schur(across, own, kept[_INVERSE0 + r], prior)
                        step = (g - g0 * m) * s
                        params[i, start + r] -= step
                        kept[_BIAS + r] += m * step
                        if w is not None:
                            apart = ui - m * u0
                            kept[_LENGTH + r] += apart * apart * s
                            apart = x - m * kept[_W0 + r]
                            kept[_SQUARE + r] += apart * apart * s
                elif metric == DIAGONAL:
                    for r in range(count):
                        g = kept[_Q + r] * ui + kept[_G + r]
                        if w is not None:
                            x = factor * w[last, i, start + r] + kept[_DUE + r] * h
                            w[last, i, start + r] = x
                            g += share * x
                        own = keep * mii[i, start + r] + g * (gain * g)
                        mii[i, start + r] = own
                        s = reciprocal(own + prior)
                        params[i, start + r] -= g * s
                        if w is not None:
                            kept[_LENGTH + r] += ui * ui * s
                            kept[_SQUARE + r] += x * x * s
                else:
                    for r in range(count):
                        g = kept[_Q + r] * ui + kept[_G + r]
                        if w is not None:
                            x = factor * w[last, i, start + r] + kept[_DUE + r] * h
                            w[last, i, start + r] = x
                            g += share * x
                            kept[_LENGTH + r] += ui * ui
                            kept[_SQUARE + r] += x * x
                        params[i, start + r] -= pace * g
                if w is not None and last > 0:
                    weigh(metric, prior, m0i, mii, i, kept, start, count)
                    for k in range(last):
                        for r in range(count):
                            apart = w[k, i, start + r] - kept[_M + r] * w0[k, start + r]
                            squares[k, start + r] += apart * apart * kept[_S + r]

            for r in range(count):
                step = kept[_G0 + r] * kept[_INVERSE0 + r] - kept[_BIAS + r]
                params[0, start + r] -= pace * step if metric == EUCLIDEAN else step
            if w is not None:
                for r in range(count):
                    lengths[start + r] = kept[_LENGTH + r]
                    squares[last, start + r] = kept[_SQUARE + r]


@kernel
def measure_rows(
    metric: Any,
    prior: Any,
    first: Any,
    rows: Any,
    m0i: Any,
    mii: Any,
    u: Any,
    w: Any,
    units: Any,
    kept: Any,
    lengths: Any,
    squares: Any,
) -> None:
    """The norms alone, of u and of w_k / unit_k: where no target moved the rows, or squares under- or overflow."""
    kinds, fan = u.shape
    width = w.shape[2]
    for kind in range(kinds):
        until = min(width, (kind + 1) * rows - first)
        for begin in range(max(0, kind * rows - first), until, BLOCK):
            start, count = np.uint64(begin), np.uint64(min(BLOCK, until - begin))
            for i in range(np.uint64(fan)):
                weigh(metric, prior, m0i, mii, i, kept, start, count)
                for r in range(count):
                    apart = u[kind, i] - kept[_M + r] * u[kind, 0]
                    lengths[start + r] = (ZERO if i == 0 else lengths[start + r]) + apart * apart * kept[_S + r]
                for k in range(w.shape[0]):
                    for r in range(count):
                        apart = (w[k, i, start + r] - kept[_M + r] * w[k, 0, start + r]) / units[k]
                        before = ZERO if i == 0 else squares[k, start + r]
                        squares[k, start + r] = before + apart * apart * kept[_S + r]


@kernel
def pay_rows(first: Any, rows: Any, w: Any, inverse: Any, due: Any, heard: Any) -> None:
    """w_k <- inverse_k w_k + due_k (x) heard, where no target came to have it paid on the way."""
    kinds, fan = heard.shape
    width = w.shape[2]
    for k in range(w.shape[0]):
        for i in range(fan):
            for kind in range(kinds):
                begin, until = max(0, kind * rows - first), min(width, (kind + 1) * rows - first)
                start = np.uint64(begin)
                for r in range(np.uint64(max(until - begin, 0))):
                    w[k, i, start + r] = inverse[k] * w[k, i, start + r] + due[k, start + r] * heard[kind, i]
