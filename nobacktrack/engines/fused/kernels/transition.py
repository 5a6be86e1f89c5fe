"""The transition: fan-in, pre-activations, h', and v pushed along; the way back of a cotangent."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....compiled import ZERO, inlined, kernel
from ..memory.layout import PIECE
from ..memory.views import band, matrix, vector
from .cells import compute_activity


@kernel
def compute_fan_in(s: Any, m: Any, symbol: Any, values: Any, at_hand: Any) -> None:
    """u = [1, activity, x] at h, as each group of gates hears it; with no values, x is a symbol. `at_hand`: the
    activity has been computed already.
    """
    activity = vector(m, PIECE.activity)
    if not at_hand:
        compute_activity(s.activation, matrix(m, PIECE.h), activity, vector(m, PIECE.slope))
    hears, u, n = matrix(m, PIECE.hears), matrix(m, PIECE.u), s.units
    for kind in range(u.shape[0]):
        u[kind, 0] = activity[0]
        for i in range(n):
            u[kind, 1 + i] = activity[1 + i] * hears[kind, 0]
        for i in range(1 + n, u.shape[1]):
            u[kind, i] = ZERO
        if values.size:
            for i in range(values.size):
                u[kind, 1 + n + i] = values[i] * hears[kind, 1]
        else:
            u[kind, 1 + n + symbol] = hears[kind, 1]


@kernel
def preactivate(theta: Any, u: Any, hears: Any, units: Any, symbol: Any, by_symbol: Any, a: Any) -> None:
    """a = Theta u, theta in one band."""
    kinds = u.shape[0]
    rows = theta.shape[1] // kinds
    for kind in range(kinds):
        preactivate_part(theta, u, hears, units, kind, symbol, by_symbol, a, kind * rows, rows)


@inlined
def preactivate_part(
    theta: Any,
    u: Any,
    hears: Any,
    units: Any,
    kind: Any,
    symbol: Any,
    by_symbol: Any,
    a: Any,
    begin: Any,
    width: Any,
) -> None:
    """a = Theta u in some rows that hear the same, all of u but the symbols that are not there."""
    start, count = np.uint64(begin), np.uint64(width)
    for r in range(count):
        a[start + r] = theta[0, start + r]
    if hears[kind, 0] > ZERO:
        fours = units - units % 4
        for first in range(1, 1 + fours, 4):  # four at a time, so that a sum is read and written a quarter as often
            i = np.uint64(first)
            j, k, o = i + np.uint64(1), i + np.uint64(2), i + np.uint64(3)
            u0, u1, u2, u3 = u[kind, i], u[kind, j], u[kind, k], u[kind, o]
            for r in range(count):
                w0, w1, w2, w3 = theta[i, start + r], theta[j, start + r], theta[k, start + r], theta[o, start + r]
                a[start + r] += (w0 * u0 + w1 * u1) + (w2 * u2 + w3 * u3)
        for i in range(np.uint64(1 + fours), np.uint64(1) + np.uint64(units)):
            heard = u[kind, i]
            for r in range(count):
                a[start + r] += theta[i, start + r] * heard
    add_inputs(theta, u, kind, units, u.shape[1], symbol, by_symbol, a, start, count)


@inlined
def add_inputs(
    theta: Any,
    u: Any,
    kind: Any,
    units: Any,
    fan: Any,
    symbol: Any,
    by_symbol: Any,
    a: Any,
    start: Any,
    count: Any,
) -> None:
    """What the input does to the pre-activations of some rows."""
    one, end = np.uint64(1) + np.uint64(units), np.uint64(fan)
    if by_symbol:
        one += np.uint64(symbol)
        end = one + np.uint64(1)
    for i in range(one, end):
        heard = u[kind, i]
        for r in range(count):
            a[start + r] += theta[i, start + r] * heard


@kernel
def preactivate_rows(s: Any, m: Any, first: Any, symbol: Any, a: Any) -> None:
    """a = Theta u in a band of rows, all of u but the symbols that are not there."""
    u, hears = matrix(m, PIECE.u), matrix(m, PIECE.hears)
    theta = band(m, PIECE.theta, first, min(s.band, s.gates * s.units - first))
    rows = s.gates * s.units // s.groups
    for kind in range(s.groups):
        begin, until = max(0, kind * rows - first), min(theta.shape[1], (kind + 1) * rows - first)
        if begin < until:
            preactivate_part(theta, u, hears, s.units, kind, symbol, s.inputs == 0, a, begin, until - begin)


@kernel
def preactivate_band(s: Any, m: Any, first: Any, symbol: Any, v: Any, a: Any, tangent: Any) -> None:
    """The same in a band of rows, and what the v_k do to a through what the units hear of each other: theta is read
    once.
    """
    u, hears, slope = matrix(m, PIECE.u), matrix(m, PIECE.hears), vector(m, PIECE.slope)
    theta = band(m, PIECE.theta, first, min(s.band, s.gates * s.units - first))
    rows, units = s.gates * s.units // s.groups, np.uint64(s.units)
    last, seen = np.uint64(v.shape[0] - 1), np.uint64(v.shape[1]) - units
    for kind in range(s.groups):
        begin, until = max(0, kind * rows - first), min(theta.shape[1], (kind + 1) * rows - first)
        if begin >= until:
            continue
        start, count = np.uint64(begin), np.uint64(until - begin)
        for r in range(count):
            a[start + r] = theta[0, start + r]
        for k in range(v.shape[0]):
            for r in range(count):
                tangent[k, start + r] = ZERO
        if hears[kind, 0] > ZERO:
            for i in range(np.uint64(1), np.uint64(1) + units):
                heard, of, at = u[kind, i], i - np.uint64(1), seen + i - np.uint64(1)
                for k in range(last):
                    x = slope[of] * v[k, at]
                    for r in range(count):
                        tangent[k, start + r] += theta[i, start + r] * x
                x = slope[of] * v[last, at]
                for r in range(count):
                    weight = theta[i, start + r]
                    a[start + r] += weight * heard
                    tangent[last, start + r] += weight * x
        add_inputs(theta, u, kind, units, s.fan, symbol, s.inputs == 0, a, start, count)


@kernel
def push(c: Any, retention: Any, tangent: Any, v: Any) -> None:
    """v_k <- df/dh v_k: through the pre-activations, and from each unit to itself."""
    n = c.shape[1]
    components = v.shape[1] // n
    gates = c.shape[0] // components
    for k in range(v.shape[0]):
        if components == 1:
            for i in range(n):
                v[k, i] *= retention[0, i]
        else:
            for i in range(n):
                first, second = v[k, i], v[k, n + i]
                v[k, i] = retention[0, i] * first + retention[1, i] * second
                v[k, n + i] = retention[2, i] * first + retention[3, i] * second
        for gate in range(gates):
            for component in range(components):
                row, at, of = gate * components + component, np.uint64(component * n), np.uint64(gate * n)
                for i in range(np.uint64(n)):
                    v[k, at + i] += c[row, i] * tangent[k, of + i]


@kernel
def linearise(s: Any, m: Any, df_dh: Any) -> None:
    """df/dh whole, n x n: what goes from each unit to itself, and what goes through the pre-activations."""
    hears, slope, c = matrix(m, PIECE.hears), vector(m, PIECE.slope), matrix(m, PIECE.c)
    retention, n = matrix(m, PIECE.retention), s.units
    for i in range(df_dh.shape[0]):
        for j in range(df_dh.shape[1]):
            df_dh[i, j] = ZERO
    for component in range(s.components):
        for other in range(s.components):
            for i in range(n):
                df_dh[component * n + i, other * n + i] = retention[component * s.components + other, i]
    for first in range(0, s.gates * s.units, s.band):
        theta = band(m, PIECE.theta, first, min(s.band, s.gates * s.units - first))
        add_recurrence(first, theta, hears, slope, c, df_dh)


@kernel
def add_recurrence(first: Any, theta: Any, hears: Any, slope: Any, c: Any, df_dh: Any) -> None:
    """The part of df/dh that goes through a band of pre-activations."""
    n = slope.size
    components = df_dh.shape[0] // n
    gates = c.shape[0] // components
    seen = (components - 1) * n
    for r in range(theta.shape[1]):
        gate, i = (first + r) // n, (first + r) % n
        if hears[gate * hears.shape[0] // gates, 0] == ZERO:
            continue
        for component in range(components):
            factor = c[gate * components + component, i]
            for j in range(n):
                df_dh[component * n + i, seen + j] += factor * theta[1 + j, r] * slope[j]


@kernel
def pull_rows(c: Any, dl_dh: Any, q: Any) -> None:
    """q: what a cotangent on h' does to the pre-activations, through c."""
    n = c.shape[1]
    components = dl_dh.size // n
    gates = c.shape[0] // components
    for gate in range(gates):
        at = np.uint64(gate * n)
        for i in range(np.uint64(n)):
            q[at + i] = c[gate * components, i] * dl_dh[i]
        for component in range(1, components):
            of = np.uint64(component * n)
            for i in range(np.uint64(n)):
                q[at + i] += c[gate * components + component, i] * dl_dh[of + i]


@kernel
def pull_state(theta: Any, hears: Any, slope: Any, retention: Any, q: Any, co_state: Any) -> None:
    """lambda <- lambda df/dh, q being what lambda does to the pre-activations."""
    retain(retention, co_state, slope.size)
    pull_heard(theta, hears, slope, q, co_state, 0, slope.size)


@kernel
def pull_heard(theta: Any, hears: Any, slope: Any, q: Any, co_state: Any, first: Any, last: Any) -> None:
    """The part of that which comes through what is heard of some units, four at a time, so that q is read less."""
    kinds = hears.shape[0]
    rows, seen, fours = q.size // kinds, co_state.size - slope.size, last - (last - first) % 4
    for kind in range(kinds):
        if hears[kind, 0] == ZERO:
            continue
        start, stop = np.uint64(kind * rows), np.uint64((kind + 1) * rows)
        for i in range(first, fours, 4):
            t0, t1, t2, t3 = ZERO * slope[i], ZERO * slope[i], ZERO * slope[i], ZERO * slope[i]
            at = np.uint64(i)
            i0, i1, i2, i3 = at + np.uint64(1), at + np.uint64(2), at + np.uint64(3), at + np.uint64(4)
            for r in range(start, stop):
                x = q[r]
                t0 += theta[i0, r] * x
                t1 += theta[i1, r] * x
                t2 += theta[i2, r] * x
                t3 += theta[i3, r] * x
            co_state[seen + i] += t0 * slope[i]
            co_state[seen + i + 1] += t1 * slope[i + 1]
            co_state[seen + i + 2] += t2 * slope[i + 2]
            co_state[seen + i + 3] += t3 * slope[i + 3]
        for i in range(fours, last):
            total = ZERO * slope[i]
            for r in range(start, stop):
                total += theta[1 + i, r] * q[r]
            co_state[seen + i] += total * slope[i]


@kernel
def pull_units(s: Any, m: Any, slope: Any, retention: Any, q: Any, co_state: Any) -> None:
    """The same for each unit by itself: through its components and its weight on its own activity."""
    theta, hears = matrix(m, PIECE.theta), matrix(m, PIECE.hears)
    n, seen = s.units, co_state.size - s.units
    retain(retention, co_state, n)
    for gate in range(s.gates):
        if hears[gate * s.groups // s.gates, 0] > ZERO:
            for i in range(n):
                co_state[seen + i] += slope[i] * theta[1 + i, gate * n + i] * q[gate * n + i]


@inlined
def retain(retention: Any, co_state: Any, n: Any) -> None:
    """lambda through what each unit keeps of its own components."""
    if co_state.size == n:
        for i in range(n):
            co_state[i] *= retention[0, i]
    else:
        for i in range(n):
            first, second = co_state[i], co_state[n + i]
            co_state[i] = retention[0, i] * first + retention[2, i] * second
            co_state[n + i] = retention[1, i] * first + retention[3, i] * second
