"""The norms that give the scales of a reduction: how v is measured, and what they remember for it.

All that depends on the rule is here, one branch a rule in each of `weigh_state`, `square_of`, `balance`, `remember` and
`carry`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....compiled import ONE, ZERO, kernel
from ..codes import Metric, Norms
from ..memory.layout import PIECE
from ..memory.terms import FLOOR, HORIZON, PACE, TERM, TINY
from ..memory.views import beginning, matrix, row, vector
from .rows import reciprocal
from .terms import measure
from .transition import linearise


@kernel
def form_metric(s: Any) -> Any:
    """The metric in which w is measured."""
    return Metric.EUCLIDEAN if s.norms == Norms.EUCLIDEAN else s.theta_metric


@kernel
def weigh_state(s: Any, m: Any, q: Any) -> Any:
    """q_i, by which the components of h are measured; returns what is added to the diagonal of a Gramian."""
    worth, floor = matrix(m, TERM.worth), vector(m, TERM.settings)[FLOOR]
    least = ZERO * floor
    if s.norms == Norms.GRAMIAN:
        for i in range(q.size):
            least += floor * worth[i, i] / q.dtype.type(q.size)
        least = least if least > ZERO else q.dtype.type(1)
        for i in range(q.size):
            q[i] = worth[i, i] + least
    elif s.norms == Norms.FORESIGHT:
        variance = matrix(m, TERM.variance)
        for i in range(q.size):
            least += floor * worth[0, i] * variance[0, i] / q.dtype.type(q.size)
        least = least if least > ZERO else floor
        for i in range(q.size):
            q[i] = worth[0, i] + least * reciprocal(variance[0, i])
    else:
        for i in range(q.size):
            q[i] = ONE
    return least


@kernel
def state_norm(norms: Any, v: Any, k: Any, q: Any, worth: Any, least: Any, tiny: Any) -> Any:
    """|v_k|; in units of the largest entry where squares under- or overflow."""
    total = square_of(norms, v, k, q, worth, least, ONE)
    if tiny < total < ONE / tiny:
        return math.sqrt(total)
    unit = ZERO * total
    for i in range(q.size):
        unit = max(unit, abs(v[k, i]))
    if unit == ZERO:
        return unit
    return unit * math.sqrt(max(square_of(norms, v, k, q, worth, least, unit), ZERO))


@kernel
def square_of(norms: Any, v: Any, k: Any, q: Any, worth: Any, least: Any, unit: Any) -> Any:
    """|v_k / unit|^2 = sum_i q_i v_i^2, or v^T (Q + least) v."""
    total = ZERO * least
    if norms != Norms.GRAMIAN:
        for i in range(q.size):
            x = v[k, i] / unit
            total += q[i] * x * x
        return total
    for i in range(q.size):
        across = ZERO * least
        for j in range(q.size):
            across += worth[i, j] * v[k, j]
        total += (across / unit + least * (v[k, i] / unit)) * (v[k, i] / unit)
    return total


@kernel
def balance(norms: Any, norm_w: Any, norm_v: Any) -> Any:
    """rho = sqrt(|w|/|v|) and 1/rho; both zero where either norm is."""
    alive = norm_w > ZERO and norm_v > ZERO
    rho = math.sqrt(norm_w if alive else ONE) / math.sqrt(norm_v if alive else ONE)
    over = ONE / rho
    if norms == Norms.UNSCALED:
        return ONE + ZERO * rho, ONE + ZERO * rho
    return (rho if alive else ZERO * rho), (over if alive else ZERO * rho)


@kernel
def row_norms(c: Any, squares_u: Any, norms: Any) -> None:
    """|w_i| of each component of each unit: the root of sum_g (c_g |u|_g)^2, in units of the largest c_g |u|_g."""
    n = np.uint64(c.shape[1])
    components = np.uint64(norms.size) // n
    gates = np.uint64(c.shape[0]) // components
    for component in range(components):
        at = component * n
        for i in range(n):
            norms[at + i] = abs(c[component, i]) * math.sqrt(squares_u[i])
        if gates == 1:
            continue
        for gate in range(np.uint64(1), gates):
            for i in range(n):
                x = abs(c[gate * components + component, i]) * math.sqrt(squares_u[gate * n + i])
                norms[at + i] = max(norms[at + i], x)
        for i in range(n):
            largest = norms[at + i] if norms[at + i] > ZERO else ONE
            total = ZERO * largest
            for gate in range(gates):
                x = c[gate * components + component, i] * math.sqrt(squares_u[gate * n + i]) / largest
                total += x * x
            norms[at + i] = largest * math.sqrt(total)


@kernel
def remember(s: Any, m: Any) -> None:
    """The mean of dl/dh dl/dh^T, or of its diagonal, after a target."""
    dl_dh, urgency, pace = vector(m, PIECE.dl_dh), matrix(m, TERM.urgency), vector(m, TERM.settings)[PACE]
    if s.norms == Norms.GRAMIAN:
        for i in range(dl_dh.size):
            for j in range(dl_dh.size):
                urgency[i, j] += pace * (dl_dh[i] * dl_dh[j] - urgency[i, j])
    elif s.norms == Norms.FORESIGHT:
        for i in range(dl_dh.size):
            urgency[0, i] += pace * (dl_dh[i] * dl_dh[i] - urgency[0, i])


@kernel
def carry(s: Any, m: Any, age: Any) -> None:
    """What the norms remember, one step on; `age` is the place of the counter of steps since Q was refreshed."""
    if s.norms == Norms.FORESIGHT:
        linearise(s, m, matrix(m, TERM.df_dh))
        measure(s, m, s.theta_metric)
        look_ahead(s, m)
    elif s.norms == Norms.GRAMIAN:
        m.ints[age] += 1
        if m.ints[age] == s.components * s.units:
            m.ints[age] = 0
            linearise(s, m, matrix(m, TERM.df_dh))
            refresh(m)


@kernel
def refresh(m: Any) -> None:
    """Q <- Q + n pace (U + horizon df/dh^T Q df/dh - Q), the horizon being shortened where df/dh would let Q grow."""
    settings, df_dh, product = vector(m, TERM.settings), matrix(m, TERM.df_dh), matrix(m, TERM.product)
    worth, urgency = matrix(m, TERM.worth), matrix(m, TERM.urgency)
    horizon, n = settings[HORIZON], df_dh.shape[0]
    sandwich(worth, df_dh, product)
    before, after = ZERO * horizon, ZERO * horizon
    for i in range(n):
        before += worth[i, i]
        after += product[n + i, i]
    if after > before:
        horizon = horizon * before / after
    step = min(settings[PACE] * worth.dtype.type(n), ONE)
    for i in range(n):
        for j in range(n):
            worth[i, j] += step * (urgency[i, j] + horizon * product[n + i, j] - worth[i, j])


@kernel
def sandwich(worth: Any, df_dh: Any, product: Any) -> None:
    """Q df/dh in the first half of `product`, df/dh^T Q df/dh in the second."""
    n = df_dh.shape[0]
    for i in range(2 * n):
        for j in range(n):
            product[i, j] = ZERO
    for i in range(n):
        for k in range(n):
            x = worth[i, k]
            for j in range(n):
                product[i, j] += x * df_dh[k, j]
    for k in range(n):
        for i in range(n):
            x = df_dh[k, i]
            for j in range(n):
                product[n + i, j] += x * product[k, j]


@kernel
def look_ahead(s: Any, m: Any) -> None:
    """C <- horizon (df/dh)^2 C + |w_i|^2,  q <- q + pace (E (dl/dh)^2 + horizon (df/dh)^2T q - q)."""
    settings, df_dh, product = vector(m, TERM.settings), matrix(m, TERM.df_dh), matrix(m, TERM.product)
    worth, urgency, variance = matrix(m, TERM.worth), matrix(m, TERM.urgency), matrix(m, TERM.variance)
    horizon, state = settings[HORIZON], df_dh.shape[0]
    later, following, norms_of = row(product, 0), row(product, 1), beginning(row(product, 2), state)
    row_norms(matrix(m, PIECE.c), vector(m, TERM.squares_u), norms_of)
    for i in range(state):
        later[i] = ZERO
    for i in range(state):
        total = ZERO * horizon
        for j in range(state):
            square = df_dh[i, j] * df_dh[i, j]
            total += square * variance[0, j]
            later[j] += square * worth[0, i]
        following[i] = horizon * total + norms_of[i] * norms_of[i]
    for i in range(state):
        variance[0, i] = following[i]
        worth[0, i] += settings[PACE] * (urgency[0, i] + horizon * later[i] - worth[0, i])


@kernel
def form_norms(m: Any) -> Any:
    """|w_k| from the squares of its rows, and whether they can be trusted: squares under- and overflow."""
    norm_w, squares_w, tiny = vector(m, TERM.norm_w), matrix(m, TERM.squares_w), vector(m, TERM.settings)[TINY]
    safe = True
    for k in range(norm_w.size):
        total = squares_w[k, 0]
        for r in range(1, squares_w.shape[1]):
            total += squares_w[k, r]
        safe = safe and tiny < total < ONE / tiny
        norm_w[k] = math.sqrt(total)
    return safe
