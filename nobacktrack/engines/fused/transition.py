"""The transition: fan-in, pre-activations, h', and v pushed along."""

# pyright: reportPossiblyUnboundVariable=false
# (v is None or an array when a kernel is compiled)
from __future__ import annotations

from typing import Any

import numpy as np

from ...compiled import ZERO, kernel


@kernel
def fan_in(activity: Any, n: Any, symbol: Any, vector: Any, hears: Any, u: Any) -> None:
    """u = [1, activity, x] as each group of gates hears it; with no vector, x is a symbol."""
    for kind in range(u.shape[0]):
        u[kind, 0] = activity[0]
        for i in range(n):
            u[kind, 1 + i] = activity[1 + i] * hears[kind, 0]
        for i in range(1 + n, u.shape[1]):
            u[kind, i] = ZERO
        if vector.size:
            for i in range(vector.size):
                u[kind, 1 + n + i] = vector[i] * hears[kind, 1]
        else:
            u[kind, 1 + n + symbol] = hears[kind, 1]


@kernel
def sweep(
    first: Any,
    rows: Any,
    theta: Any,
    u: Any,
    symbol: Any,
    by_symbol: Any,
    hears: Any,
    slope: Any,
    v: Any,
    a: Any,
    tangent: Any,
) -> None:
    """a = Theta u in a band of rows, all of u but the symbols that are not there; and, unless v is None, what the v_k
    do to a through what the units hear of each other. theta is read once.
    """
    kinds, fan = u.shape
    units = np.uint64(slope.size)
    for kind in range(kinds):
        begin, until = max(0, kind * rows - first), min(theta.shape[1], (kind + 1) * rows - first)
        if begin >= until:
            continue
        start, count = np.uint64(begin), np.uint64(until - begin)
        for r in range(count):
            a[start + r] = theta[0, start + r]
        if v is not None:
            last, shown = np.uint64(v.shape[0] - 1), np.uint64(v.shape[1]) - units
            for k in range(v.shape[0]):
                for r in range(count):
                    tangent[k, start + r] = ZERO
        if hears[kind, 0] > ZERO:
            for i in range(np.uint64(1), np.uint64(1) + units):
                heard = u[kind, i]
                if v is None:
                    for r in range(count):
                        a[start + r] += theta[i, start + r] * heard
                    continue
                for k in range(last):
                    x = slope[i - np.uint64(1)] * v[k, shown + i - np.uint64(1)]
                    for r in range(count):
                        tangent[k, start + r] += theta[i, start + r] * x
                x = slope[i - np.uint64(1)] * v[last, shown + i - np.uint64(1)]
                for r in range(count):
                    weight = theta[i, start + r]
                    a[start + r] += weight * heard
                    tangent[last, start + r] += weight * x
        one, end = np.uint64(1) + units, np.uint64(fan)
        if by_symbol:
            one += np.uint64(symbol)
            end = one + np.uint64(1)
        for i in range(one, end):
            heard = u[kind, i]
            for r in range(count):
                a[start + r] += theta[i, start + r] * heard


@kernel
def push(c: Any, kept: Any, tangent: Any, v: Any) -> None:
    """v_k <- df/dh v_k: through the pre-activations, and from each unit to itself."""
    n = c.shape[1]
    components = v.shape[1] // n
    gates = c.shape[0] // components
    for k in range(v.shape[0]):
        if components == 1:
            for i in range(n):
                v[k, i] *= kept[0, i]
        else:
            for i in range(n):
                first, second = v[k, i], v[k, n + i]
                v[k, i] = kept[0, i] * first + kept[1, i] * second
                v[k, n + i] = kept[2, i] * first + kept[3, i] * second
        for gate in range(gates):
            for component in range(components):
                row, at, of = gate * components + component, np.uint64(component * n), np.uint64(gate * n)
                for i in range(np.uint64(n)):
                    v[k, at + i] += c[row, i] * tangent[k, of + i]


@kernel
def own_jacobian(n: Any, kept: Any, df_dh: Any) -> None:
    """The part of df/dh that goes from each unit to itself, and not through the pre-activations."""
    components = df_dh.shape[0] // n
    for i in range(df_dh.shape[0]):
        for j in range(df_dh.shape[1]):
            df_dh[i, j] = ZERO
    for component in range(components):
        for other in range(components):
            for i in range(n):
                df_dh[component * n + i, other * n + i] = kept[component * components + other, i]


@kernel
def add_jacobian(first: Any, theta: Any, hears: Any, slope: Any, c: Any, df_dh: Any) -> None:
    """The part of df/dh that goes through a band of pre-activations."""
    n = slope.size
    components = df_dh.shape[0] // n
    gates = c.shape[0] // components
    shown = (components - 1) * n
    for r in range(theta.shape[1]):
        gate, i = (first + r) // n, (first + r) % n
        if hears[gate * hears.shape[0] // gates, 0] == ZERO:
            continue
        for component in range(components):
            factor = c[gate * components + component, i]
            for j in range(n):
                df_dh[component * n + i, shown + j] += factor * theta[1 + j, r] * slope[j]
