"""RTRL: G' = df/dh G + df/dtheta, the influence whole."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ....compiled import ZERO, entry, fill, inlined, kernel
from ....estimators import RTRL
from .. import SOURCES
from ..kernels import transition
from ..kernels.cells import step_cells
from ..kernels.readout import score
from ..kernels.rows import move_phi, move_theta_along
from ..kernels.signs import tick
from ..memory import packing
from ..memory.layout import COMMON, PIECE, beside, indices, of_state
from ..memory.packing import Store
from ..memory.views import Count, flattened, matrix, shaped, vector
from .chunk import Loop, run_chunk

COLUMNS = 128  # of the influence, at a time


class Own(NamedTuple):
    """See `layout.Pieces`."""

    influence: np.ndarray = of_state(lambda s: (s.state, s.fan, s.rows))
    gradient: np.ndarray = beside(lambda s: (s.fan, s.rows))
    df_dh: np.ndarray = beside(lambda s: (s.state, s.state))
    product: np.ndarray = beside(lambda s: (s.state, COLUMNS))


OWN: Own = indices(Own, COMMON)


@inlined
def observe(s: Any, m: Any, symbol: Any, values: Any, pace: Any, phi_pace: Any) -> Any:
    """Score, dl/dtheta = dl/dh G [NBT, eq. 6], move phi and theta."""
    loss = score(s, m, symbol, values)
    move_phi(s, m, phi_pace)
    dl_dh = vector(m, PIECE.dl_dh)
    pull(dl_dh, shaped(m, OWN.influence, dl_dh.size), flattened(m, OWN.gradient))
    move_theta_along(s, m, matrix(m, OWN.gradient), pace)
    m.ints[Count.OBSERVED] = 1
    return loss


@kernel
def pull(dl_dh: Any, influence: Any, gradient: Any) -> None:
    """dl/dh G; both are flat but for the state's axis."""
    for p in range(influence.shape[1]):
        gradient[p] = dl_dh[0] * influence[0, p]
    for i in range(1, dl_dh.size):
        x = dl_dh[i]
        for p in range(influence.shape[1]):
            gradient[p] += x * influence[i, p]


@inlined
def advance(s: Any, m: Any, symbol: Any, values: Any) -> None:
    """h' = f(theta, h, x) and G' = df/dh G + df/dtheta [NBT, eq. 4]."""
    transition.compute_fan_in(s, m, symbol, values, m.ints[Count.OBSERVED] == 1)
    h, a, u, c = matrix(m, PIECE.h), vector(m, PIECE.a), matrix(m, PIECE.u), matrix(m, PIECE.c)
    transition.preactivate(matrix(m, PIECE.theta), u, matrix(m, PIECE.hears), s.units, symbol, s.inputs == 0, a)
    step_cells(s.cell, a, h, vector(m, PIECE.alpha), h, c, matrix(m, PIECE.retention))
    df_dh = matrix(m, OWN.df_dh)
    transition.linearise(s, m, df_dh)
    influence = shaped(m, OWN.influence, df_dh.shape[0])
    multiply(df_dh, influence, matrix(m, OWN.product))
    add_rows(c, u, a.size, influence)
    m.ints[Count.OBSERVED] = 0
    tick(m.clock)


@kernel
def multiply(df_dh: Any, influence: Any, product: Any) -> None:
    """G <- df/dh G, some columns at a time."""
    state, width = df_dh.shape[0], product.shape[1]
    for begin in range(0, influence.shape[1], width):
        count, start = np.uint64(min(width, influence.shape[1] - begin)), np.uint64(begin)
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


@kernel
def add_rows(c: Any, u: Any, rows: Any, influence: Any) -> None:
    """G <- G + df/dtheta, whose rows are c (x) u."""
    n = c.shape[1]
    components = influence.shape[0] // n
    gates = c.shape[0] // components
    for component in range(components):
        for gate in range(gates):
            kind = gate * u.shape[0] // gates
            for i in range(n):
                x = c[gate * components + component, i]
                for k in range(u.shape[1]):
                    influence[component * n + i, k * rows + gate * n + i] += x * u[kind, k]


@kernel
def restart(s: Any, m: Any) -> None:
    """No influence; what was learned stays."""
    fill(flattened(m, OWN.influence), ZERO)
    m.ints[Count.OBSERVED] = 0


@entry(SOURCES)
def run_rtrl(machine: Any, verb: Any, chunk: Any) -> None:
    """A chunk, by RTRL."""
    run_chunk(observe, advance, restart, machine, verb, chunk)


def pack(influence: Any, estimator: RTRL, store: Store) -> None:
    store.own.influence[:] = packing.forms(influence)


def unpack(like: Any, estimator: RTRL, store: Store) -> Any:
    return packing.unpack_forms(store.own.influence, like)


LOOP = Loop(run=run_rtrl, pieces=Own, pack=pack, unpack=unpack, sizes=lambda estimator: {}, counters=lambda sizes: 0)
