"""No influence: h' = f(theta, h, x); theta stays, and phi moves unless it is frozen."""

from __future__ import annotations

from typing import Any, NamedTuple

from ....compiled import entry, inlined
from ....estimators import Forward
from .. import SOURCES
from ..kernels import transition
from ..kernels.cells import step_cells
from ..kernels.readout import score
from ..kernels.rows import move_phi
from ..kernels.signs import tick
from ..memory.layout import PIECE
from ..memory.packing import Store
from ..memory.views import matrix, vector
from .chunk import Loop, run_chunk


class Own(NamedTuple):
    """See `layout.Pieces`: none."""


@inlined
def observe(s: Any, m: Any, symbol: Any, values: Any, pace: Any, phi_pace: Any) -> Any:
    loss = score(s, m, symbol, values)
    move_phi(s, m, phi_pace)
    return loss


@inlined
def advance(s: Any, m: Any, symbol: Any, values: Any) -> None:
    transition.compute_fan_in(s, m, symbol, values, False)
    h, a, u = matrix(m, PIECE.h), vector(m, PIECE.a), matrix(m, PIECE.u)
    transition.preactivate(matrix(m, PIECE.theta), u, matrix(m, PIECE.hears), s.units, symbol, s.inputs == 0, a)
    step_cells(s.cell, a, h, vector(m, PIECE.alpha), h, matrix(m, PIECE.c), matrix(m, PIECE.retention))
    tick(m.clock)


@inlined
def restart(s: Any, m: Any) -> None:
    """There is nothing to forget."""


@entry(SOURCES)
def run_forward(machine: Any, verb: Any, chunk: Any) -> None:
    """A chunk, without influence."""
    run_chunk(observe, advance, restart, machine, verb, chunk)


def pack(influence: tuple[()], estimator: Forward, store: Store) -> None:
    """There is nothing to pack."""


def unpack(like: tuple[()], estimator: Forward, store: Store) -> tuple[()]:
    return like


LOOP = Loop(run=run_forward, pieces=Own, pack=pack, unpack=unpack, sizes=lambda estimator: {}, counters=lambda sizes: 0)
