"""Truncated BPTT: the window of past transitions, and the way back through it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...compiled import ZERO, fill, kernel
from .cells import show, work_units
from .layout import COUNTERS, FRESH, HEAD, HELD
from .transition import fan_in, sweep
from .views import row, spread


@kernel
def extend(ints: Any, depth: Any, h: Any, symbol: Any, vector: Any, ring_h: Any, ring_x: Any, ring_dl_dh: Any) -> None:
    """One more transition, over the oldest one where the window is full."""
    slot = ints[HEAD]
    for i in range(h.size):
        ring_h[slot, i] = h[i]
        ring_dl_dh[slot, i] = ZERO
    ints[COUNTERS + slot] = symbol
    for i in range(vector.size):
        ring_x[slot, i] = vector[i]
    ints[COUNTERS + depth + slot] = ints[FRESH]
    ints[FRESH] = 0
    ints[HEAD] = (slot + 1) % depth
    ints[HELD] = min(ints[HELD] + 1, depth)


@kernel
def witness(ints: Any, depth: Any, dl_dh: Any, ring_dl_dh: Any) -> None:
    """The derivative of a loss on the newest state, unless no transition made it."""
    if ints[HELD] > 0 and ints[FRESH] == 0:
        slot = (ints[HEAD] - 1) % depth
        for i in range(dl_dh.size):
            ring_dl_dh[slot, i] += dl_dh[i]


@kernel
def backtrack(
    cell: Any,
    activation: Any,
    ints: Any,
    depth: Any,
    theta: Any,
    alpha: Any,
    hears: Any,
    ring_h: Any,
    ring_x: Any,
    ring_dl_dh: Any,
    activity: Any,
    slope: Any,
    u: Any,
    a: Any,
    following: Any,
    c: Any,
    kept: Any,
    co_state: Any,
    q: Any,
    gradient: Any,
) -> None:
    """gradient += sum_j lambda_j df/dtheta(h_j, x_j), from the newest transition to the oldest."""
    n = slope.size
    components = co_state.size // n
    fill(co_state, ZERO)
    for age in range(ints[HELD]):
        slot = (ints[HEAD] - 1 - age) % depth
        for i in range(components * n):
            co_state[i] += ring_dl_dh[slot, i]
        own = spread(row(ring_h, slot), components)
        symbol = ints[COUNTERS + slot]
        show(activation, own, activity, slope)
        fan_in(activity, n, symbol, row(ring_x, slot), hears, u)
        sweep(0, a.size // u.shape[0], theta, u, symbol, ring_x.shape[1] == 0, hears, slope, None, a, None)
        work_units(cell, a, own, alpha, following, c, kept)
        pull_rows(c, co_state, q)
        add_rows(q, u, symbol, ring_x.shape[1] == 0, n, gradient)
        pull_state(theta, hears, slope, kept, q, co_state)
        if ints[COUNTERS + depth + slot]:
            fill(co_state, ZERO)
        fill(row(ring_dl_dh, slot), ZERO)
    ints[HELD] = 0


@kernel
def pull_rows(c: Any, dl_dh: Any, q: Any) -> None:
    """q: what a cotangent on h does to the rows of theta, through c."""
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
def add_rows(q: Any, u: Any, symbol: Any, by_symbol: Any, units: Any, gradient: Any) -> None:
    """gradient += q (x) u, where u is not zero."""
    kinds, fan = u.shape
    rows = q.size // kinds
    dense = 1 + units if by_symbol else fan
    for kind in range(kinds):
        start, stop = np.uint64(kind * rows), np.uint64((kind + 1) * rows)
        for i in range(dense):
            ui = u[kind, i]
            for r in range(start, stop):
                gradient[i, r] += q[r] * ui
        if by_symbol:
            i = 1 + units + symbol
            ui = u[kind, i]
            for r in range(start, stop):
                gradient[i, r] += q[r] * ui


@kernel
def pull_state(theta: Any, hears: Any, slope: Any, kept: Any, q: Any, co_state: Any) -> None:
    """lambda <- lambda df/dh, q being what lambda does to the pre-activations."""
    n = slope.size
    components = co_state.size // n
    kinds = hears.shape[0]
    rows = q.size // kinds
    if components == 1:
        for i in range(n):
            co_state[i] *= kept[0, i]
    else:
        for i in range(n):
            first, second = co_state[i], co_state[n + i]
            co_state[i] = kept[0, i] * first + kept[2, i] * second
            co_state[n + i] = kept[1, i] * first + kept[3, i] * second
    shown = (components - 1) * n
    for kind in range(kinds):
        if hears[kind, 0] == ZERO:
            continue
        start, stop = np.uint64(kind * rows), np.uint64((kind + 1) * rows)
        for i in range(n):
            total = ZERO * slope[i]
            for r in range(start, stop):
                total += theta[1 + i, r] * q[r]
            co_state[shown + i] += total * slope[i]
