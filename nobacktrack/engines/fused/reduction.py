"""The reduction: norms, scales, signs. What it owes to w is left for the next pass over theta to pay."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...compiled import ONE, ZERO, kernel
from .layout import FORESIGHT, GRAMIAN, UNSCALED
from .rows import reciprocal
from .views import row


@kernel
def form_norms(squares: Any, tiny: Any, norms: Any) -> Any:
    """|w_k| from the squares of its rows, and whether they can be trusted: squares under- and overflow."""
    safe = True
    for k in range(norms.size):
        total = total_of(squares, k)
        safe = safe and tiny < total < ONE / tiny
        norms[k] = math.sqrt(total)
    return safe


@kernel
def total_of(squares: Any, k: Any) -> Any:
    """The sum of row k."""
    total = squares[k, 0]
    for r in range(1, squares.shape[1]):
        total += squares[k, r]
    return total


@kernel
def raise_to_largest(w: Any, norms: Any) -> None:
    """norms_k: the largest entry of w_k in a band, or what it is already."""
    for k in range(w.shape[0]):
        for i in range(w.shape[1]):
            for r in range(w.shape[2]):
                norms[k] = max(norms[k], abs(w[k, i, r]))


@kernel
def state_weights(norms: Any, worth: Any, variance: Any, floor: Any, q: Any) -> Any:
    """q_i, by which the components of h are measured; returns what is added to the diagonal of a Gramian."""
    least = ZERO * floor
    if norms == GRAMIAN:
        for i in range(q.size):
            least += floor * worth[i, i] / q.dtype.type(q.size)
        least = least if least > ZERO else q.dtype.type(1)
        for i in range(q.size):
            q[i] = worth[i, i] + least
    elif norms == FORESIGHT:
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
    total = state_square(norms, v, k, q, worth, least, ONE)
    if tiny < total < ONE / tiny:
        return math.sqrt(total)
    unit = ZERO * total
    for i in range(q.size):
        unit = max(unit, abs(v[k, i]))
    if unit == ZERO:
        return unit
    return unit * math.sqrt(max(state_square(norms, v, k, q, worth, least, unit), ZERO))


@kernel
def state_square(norms: Any, v: Any, k: Any, q: Any, worth: Any, least: Any, unit: Any) -> Any:
    """|v_k / unit|^2 = sum_i q_i v_i^2, or v^T (Q + least) v."""
    total = ZERO * least
    if norms != GRAMIAN:
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
    if norms == UNSCALED:
        return ONE + ZERO * rho, ONE + ZERO * rho
    return (rho if alive else ZERO * rho), (over if alive else ZERO * rho)


@kernel
def row_norms(c: Any, lengths: Any, norms: Any) -> None:
    """|w_i| of each component of each unit: the root of sum_g (c_g |u|_g)^2, in units of the largest c_g |u|_g."""
    n = np.uint64(c.shape[1])
    components = np.uint64(norms.size) // n
    gates = np.uint64(c.shape[0]) // components
    for component in range(components):
        at = component * n
        for i in range(n):
            norms[at + i] = abs(c[component, i]) * math.sqrt(lengths[i])
        if gates == 1:
            continue
        for gate in range(np.uint64(1), gates):
            for i in range(n):
                x = abs(c[gate * components + component, i]) * math.sqrt(lengths[gate * n + i])
                norms[at + i] = max(norms[at + i], x)
        for i in range(n):
            largest = norms[at + i] if norms[at + i] > ZERO else ONE
            total = ZERO * largest
            for gate in range(gates):
                x = c[gate * components + component, i] * math.sqrt(lengths[gate * n + i]) / largest
                total += x * x
            norms[at + i] = largest * math.sqrt(total)


@kernel
def reduce(
    norms: Any,
    floor: Any,
    tiny: Any,
    worth: Any,
    variance: Any,
    signs: Any,
    norm_w: Any,
    lengths: Any,
    c: Any,
    u: Any,
    v: Any,
    inverse: Any,
    due: Any,
    heard: Any,
    scales: Any,
) -> None:
    """v <- rho v + sum_i eps_i rho_i e_i,  w <- w / rho + sum_i eps_i w_i / rho_i [NBT, Alg. 1, reduction step]."""
    n, state = np.uint64(c.shape[1]), np.uint64(v.shape[1])
    components = state // n
    gates = np.uint64(c.shape[0]) // components
    weights, lengths_of = row(scales, 0), row(scales, 1)
    least = state_weights(norms, worth, variance, floor, weights)
    for k in range(v.shape[0]):
        rho, inverse[k] = balance(norms, norm_w[k], state_norm(norms, v, k, weights, worth, least, tiny))
        for i in range(state):
            v[k, i] *= rho
    row_norms(c, lengths, lengths_of)
    for i in range(state):
        length = lengths_of[i]
        rho, over = balance(norms, length, math.sqrt(weights[i]))
        weights[i] = rho if length > ZERO else ZERO
        lengths_of[i] = over
    for k in range(v.shape[0]):
        first = np.uint64(k) * state
        for i in range(state):
            v[k, i] += signs[first + i] * weights[i]
        for gate in range(gates):
            for i in range(n):
                due[k, gate * n + i] = c[gate * components, i] * signs[first + i] * lengths_of[i]
            if components == 2:
                for i in range(n):
                    x = c[gate * components + 1, i] * signs[first + n + i] * lengths_of[n + i]
                    due[k, gate * n + i] += x
    for kind in range(u.shape[0]):
        for i in range(u.shape[1]):
            heard[kind, i] = u[kind, i]
