"""RTRL: G' = df/dh G + df/dtheta, the influence whole."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...compiled import ZERO, kernel


@kernel
def gather(dl_dh: Any, influence: Any, gradient: Any) -> None:
    """dl/dtheta = dl/dh G [NBT, eq. 6]; both are flat but for the state's axis."""
    for p in range(influence.shape[1]):
        gradient[p] = dl_dh[0] * influence[0, p]
    for i in range(1, dl_dh.size):
        x = dl_dh[i]
        for p in range(influence.shape[1]):
            gradient[p] += x * influence[i, p]


@kernel
def carry(df_dh: Any, influence: Any, c: Any, u: Any, rows: Any, product: Any) -> None:
    """G <- df/dh G, some columns at a time, then the rows c (x) u are added."""
    state, n = df_dh.shape[0], c.shape[1]
    width = product.shape[1]
    for begin in range(0, influence.shape[1], width):
        count = np.uint64(min(width, influence.shape[1] - begin))
        start = np.uint64(begin)
        for i in range(state):
            for p in range(count):
                product[i, p] = ZERO
            for j in range(0, state - state % 4, 4):  # four at a time, so that a sum is written a quarter as often
                x0, x1, x2, x3 = df_dh[i, j], df_dh[i, j + 1], df_dh[i, j + 2], df_dh[i, j + 3]
                for p in range(count):
                    product[i, p] += (x0 * influence[j, start + p] + x1 * influence[j + 1, start + p]) + (
                        x2 * influence[j + 2, start + p] + x3 * influence[j + 3, start + p]
                    )
            for j in range(state - state % 4, state):
                x = df_dh[i, j]
                for p in range(count):
                    product[i, p] += x * influence[j, start + p]
        for i in range(state):
            for p in range(count):
                influence[i, start + p] = product[i, p]
    components = state // n
    gates = c.shape[0] // components
    for component in range(components):
        for gate in range(gates):
            kind = gate * u.shape[0] // gates
            for i in range(n):
                x = c[gate * components + component, i]
                for k in range(u.shape[1]):
                    influence[component * n + i, k * rows + gate * n + i] += x * u[kind, k]
