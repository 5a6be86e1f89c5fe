"""Diagonal plus rank one: unit blocks, what units did to others in the last steps, and K random terms for the rest."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....compiled import ZERO, entry, fill, inlined, kernel
from ....estimators import DiagonalPlusRankOne
from .. import SOURCES
from ..codes import Reach
from ..kernels import crossing_passes, crossings, norms, passes, units
from ..kernels.crew import help_out
from ..kernels.readout import score
from ..kernels.rows import move_phi
from ..kernels.signs import tick
from ..memory import packing
from ..memory.crossings import CROSSING, PIECES
from ..memory.layout import PIECE
from ..memory.norms import NORMS
from ..memory.packing import Store
from ..memory.terms import TERM, TINY
from ..memory.units import UNIT
from ..memory.views import COUNTERS, Count, flattened, matrix, opened, vector
from .chunk import Loop, run_chunk
from .nobacktrack import refusal, share_out

AGE, HEAD = COUNTERS, COUNTERS + 1  # steps since the norms refreshed what they remember; the slot of the newest step


@inlined
def observe(s: Any, m: Any, symbol: Any, values: Any, pace: Any, phi_pace: Any) -> Any:
    """Score, estimate the gradient, move phi and theta."""
    loss = score(s, m, symbol, values)
    move_phi(s, m, phi_pace)
    share_out(matrix(m, TERM.v), vector(m, PIECE.dl_dh), vector(m, TERM.share))
    norms.remember(s, m)
    units.lay_out(s, m, False)
    crossings.pull(s, m, m.ints[HEAD])
    crossing_passes.move_theta(s, m, crossings.slot_of(s, m.ints[HEAD], -1), pace)
    return loss


@inlined
def advance(s: Any, m: Any, symbol: Any, values: Any) -> None:
    """Reduction of what units did to others, v <- J v, Z <- D Z + df/dtheta, and a new M."""
    crossings.reduce(s, m, m.ints[HEAD])
    passes.step(crossing_passes.work, s, m, symbol, values)
    m.ints[HEAD] = (m.ints[HEAD] + 1) % s.depth
    units.keep_of_units(s, m)
    crossings.record(s, m, m.ints[HEAD])
    crossing_passes.carry(s, m, m.ints[HEAD])
    norms.carry(s, m, AGE)
    m.ints[Count.OBSERVED] = 0
    tick(m.clock)


@kernel
def restart(s: Any, m: Any) -> None:
    """No influence; what was learned stays."""
    for piece in (TERM.w, TERM.v, UNIT.own, TERM.variance):
        fill(flattened(m, piece), ZERO)
    for piece in (CROSSING.ring_blocks, CROSSING.ring_off, CROSSING.ring_own, CROSSING.ring_through):
        fill(flattened(m, piece), ZERO)
    m.ints[HEAD] = 0
    m.ints[Count.OBSERVED] = 0


@entry(SOURCES)
def help_diagonal(machine: Any, place: Any) -> None:
    """What a helper does."""
    s, m = opened(machine)
    help_out(crossing_passes.work, s, m, place)


@entry(SOURCES)
def run_diagonal(machine: Any, verb: Any, chunk: Any) -> None:
    """A chunk, by diagonal plus rank one."""
    run_chunk(observe, advance, restart, machine, verb, chunk)


def pack(influence: Any, estimator: DiagonalPlusRankOne, store: Store) -> None:
    own, sizes, ring = store.own, store.sizes, influence.crossings
    own.v[:] = influence.v
    packing.pack_bands(sizes, own.w, packing.forms(influence.w))
    packing.pack_bands(sizes, own.own, packing.forms(influence.blocks))
    packing.pack_bands(sizes, own.ring_blocks, packing.forms(ring.blocks))
    own.ring_off[:] = np.asarray(ring.off).transpose(0, 2, 1)
    own.ring_own[:] = np.asarray(ring.own).reshape(own.ring_own.shape)
    own.ring_through[:] = ring.through
    own.settings[TINY] = np.finfo(own.settings.dtype).tiny ** 0.8
    store.ints[AGE] = NORMS[type(estimator.norms)].pack(influence.memory, estimator.norms, own)
    store.ints[HEAD] = ring.head


def unpack(like: Any, estimator: DiagonalPlusRankOne, store: Store) -> Any:
    own, sizes, ring = store.own, store.sizes, like.crossings
    ring = ring._replace(
        blocks=packing.unpack_forms(packing.unpack_bands(sizes, own.ring_blocks), ring.blocks),
        off=own.ring_off.transpose(0, 2, 1),
        own=own.ring_own.reshape(ring.own.shape),
        through=own.ring_through,
        head=store.ints[HEAD],
    )
    return like._replace(
        blocks=packing.unpack_forms(packing.unpack_bands(sizes, own.own), like.blocks),
        crossings=ring,
        v=own.v,
        w=packing.unpack_forms(packing.unpack_bands(sizes, own.w), like.w),
        memory=NORMS[type(estimator.norms)].unpack(like.memory, own, store.ints[AGE]),
    )


LOOP = Loop(
    run=run_diagonal,
    pieces=PIECES,
    pack=pack,
    unpack=unpack,
    sizes=lambda estimator: {
        "terms": estimator.rank,
        "depth": estimator.lag,
        "norms": NORMS[type(estimator.norms)].code,
        "reach": Reach.OWN,
    },
    counters=lambda sizes: 2,
    refusal=refusal,
    bands=True,
    help=help_diagonal,
)
