"""Unit blocks alone: SnAp-1, RFLO, and the newest step."""

from __future__ import annotations

from typing import Any

from ....compiled import ZERO, entry, fill, inlined, kernel
from ....estimators import RFLO, Immediate, SnAp1
from .. import SOURCES
from ..codes import Reach
from ..kernels import transition, units
from ..kernels.cells import step_cells
from ..kernels.readout import score
from ..kernels.rows import move_phi
from ..kernels.signs import tick
from ..memory import packing
from ..memory.layout import PIECE
from ..memory.packing import Store
from ..memory.units import UNIT, UnitPieces
from ..memory.views import COUNTERS, Count, flattened, matrix, opened, vector, vector_from
from .chunk import Loop, run_chunk

PENDING = COUNTERS  # whether the newest step is still to be done to Z
REACHES = {SnAp1: Reach.OWN, RFLO: Reach.RETENTION, Immediate: Reach.NOTHING}


@inlined
def observe(s: Any, m: Any, symbol: Any, values: Any, pace: Any, phi_pace: Any) -> Any:
    """Score, dl/dtheta = sum_u H_u Z_u, move phi and theta."""
    loss = score(s, m, symbol, values)
    move_phi(s, m, phi_pace)
    units.move_theta(s, m, m.ints[PENDING] != 0, pace)
    m.ints[PENDING] = 0
    m.ints[Count.OBSERVED] = 1
    return loss


@inlined
def advance(s: Any, m: Any, symbol: Any, values: Any) -> None:
    """h' = f(theta, h, x); Z' is left pending."""
    if m.ints[PENDING]:
        units.flush(s, m)
    transition.compute_fan_in(s, m, symbol, values, m.ints[Count.OBSERVED] == 1)
    h, a = matrix(m, PIECE.h), vector(m, PIECE.a)
    for first in range(0, s.gates * s.units, s.band):
        transition.preactivate_rows(s, m, first, symbol, vector_from(m, PIECE.a, first))
    step_cells(s.cell, a, h, vector(m, PIECE.alpha), h, matrix(m, PIECE.c), matrix(m, PIECE.retention))
    units.keep_of_units(s, m)
    m.ints[PENDING] = 1
    m.ints[Count.OBSERVED] = 0
    tick(m.clock)


@kernel
def restart(s: Any, m: Any) -> None:
    """No influence; what was learned stays."""
    fill(flattened(m, UNIT.own), ZERO)
    m.ints[PENDING] = 0
    m.ints[Count.OBSERVED] = 0


@entry(SOURCES)
def run_snap(machine: Any, verb: Any, chunk: Any) -> None:
    """A chunk, by unit blocks."""
    run_chunk(observe, advance, restart, machine, verb, chunk)


@entry(SOURCES)
def flush_snap(machine: Any) -> None:
    """Do what is pending of Z, so that the pieces are those of a State."""
    s, m = opened(machine)
    if m.ints[PENDING]:
        units.flush(s, m)
        m.ints[PENDING] = 0


def pack(influence: Any, estimator: Any, store: Store) -> None:
    packing.pack_bands(store.sizes, store.own.own, packing.forms(influence))
    store.ints[PENDING] = 0


def unpack(like: Any, estimator: Any, store: Store) -> Any:
    return packing.unpack_forms(packing.unpack_bands(store.sizes, store.own.own), like)


LOOP = Loop(
    run=run_snap,
    pieces=UnitPieces,
    pack=pack,
    unpack=unpack,
    sizes=lambda estimator: {"reach": REACHES[type(estimator)]},
    counters=lambda sizes: 1,
    flush=flush_snap,
    bands=True,
)
