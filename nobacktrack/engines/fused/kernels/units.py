"""Unit blocks: Z <- D Z + c (x) u, and the pass over theta on dl/dtheta = sum_c dl/dh_c Z_c.

What a step does to Z is left pending, for the next pass over theta, which reads Z anyway.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ....compiled import ONE, ZERO, fill, inlined, kernel
from ..codes import Reach
from ..memory.layout import BLOCK, PIECE
from ..memory.units import UNIT
from ..memory.views import Count, band, bands, flattened, matrix, matrix_from, scratch_of, vector
from . import rows
from .rows import BIAS, G0, G
from .terms import group_in_band


class Blocks(NamedTuple):
    """Z of a band of rows, the step that is pending, and dl/dh, row by row."""

    z: Any
    kept: Any
    c: Any
    dl_dh: Any


@inlined
def blocks_in_band(m: Any, first: Any, width: Any) -> Any:
    """The rows from `first` on."""
    kept, c = matrix_from(m, UNIT.row_kept, first), matrix_from(m, UNIT.row_c, first)
    return Blocks(bands(m, UNIT.own, first, width), kept, c, matrix_from(m, UNIT.row_dl_dh, first))


@kernel
def keep_of_units(s: Any, m: Any) -> None:
    """D of the newest step, at the theta that made it: what each unit keeps of its components, and what comes back to
    it through its own activity.
    """
    kept, retention, c = matrix(m, UNIT.kept), matrix(m, PIECE.retention), matrix(m, PIECE.c)
    slope, hears, last = vector(m, PIECE.slope), matrix(m, PIECE.hears), s.components - 1
    if s.reach == Reach.NOTHING:
        fill(flattened(m, UNIT.kept), ZERO)
        return
    for d in range(kept.shape[0]):
        for i in range(s.units):
            kept[d, i] = retention[d, i]
    if s.reach == Reach.OWN:
        for gate in range(s.gates):
            if hears[gate * s.groups // s.gates, 0] > ZERO:
                for i in range(s.units):
                    through = slope[i] * weight_on_itself(s, m, gate, i)
                    for component in range(s.components):
                        kept[component * s.components + last, i] += c[gate * s.components + component, i] * through


@inlined
def weight_on_itself(s: Any, m: Any, gate: Any, i: Any) -> Any:
    """The weight of unit i on its own activity, in one of its gates."""
    row = gate * s.units + i
    first = row // s.band * s.band
    return band(m, PIECE.theta, first, min(s.band, s.gates * s.units - first))[1 + i, row - first]


@kernel
def lay_out(s: Any, m: Any, pending: Any) -> None:
    """D, c and dl/dh for each row of theta; where nothing is pending, Z stays as it is."""
    kept, c, dl_dh = matrix(m, UNIT.kept), matrix(m, PIECE.c), vector(m, PIECE.dl_dh)
    row_kept, row_c, row_dl_dh = matrix(m, UNIT.row_kept), matrix(m, UNIT.row_c), matrix(m, UNIT.row_dl_dh)
    n = np.uint64(s.units)
    for gate in range(s.gates):
        at = np.uint64(gate * s.units)
        for component in range(s.components):
            of = np.uint64(component * s.units)
            for i in range(n):
                row_dl_dh[component, at + i] = dl_dh[of + i]
                row_c[component, at + i] = c[gate * s.components + component, i] if pending else ZERO
            for before in range(s.components):
                d, same = component * s.components + before, ONE if component == before else ZERO
                for i in range(n):
                    row_kept[d, at + i] = kept[d, i] if pending else same


@kernel
def move_theta(s: Any, m: Any, pending: Any, pace: Any) -> None:
    """theta moves on dl/dtheta = sum_c dl/dh_c Z_c, Z being carried on before."""
    times = rows.weight_in_information(m.ints, Count.THETA_AGE, s.theta_every)
    u, scratch, alike = matrix(m, PIECE.u), scratch_of(m, 0), s.gates * s.units // s.groups
    lay_out(s, m, pending)
    for first in range(0, s.gates * s.units, s.band):
        width = min(s.band, s.gates * s.units - first)
        group, blocks = group_in_band(s, m, first, width, pace, times), blocks_in_band(m, first, width)
        for kind in range(s.groups):
            until = min(width, (kind + 1) * alike - first)
            for begin in range(max(0, kind * alike - first), until, BLOCK):
                start, count = np.uint64(begin), np.uint64(min(BLOCK, until - begin))
                move_block(s.components, group, blocks, u, kind, scratch, start, count)


@kernel
def move_block(
    components: Any, group: Any, blocks: Any, u: Any, kind: Any, scratch: Any, start: Any, count: Any
) -> None:
    """A block of rows that hear the same."""
    carry_weight(components, blocks, u[kind, 0], np.uint64(0), scratch, start, count)
    for r in range(count):
        scratch[G0 + r] = scratch[G + r]
        scratch[BIAS + r] = ZERO
    rows.inform_biases(group, scratch, start, count)
    for i in range(np.uint64(1), np.uint64(u.shape[1])):
        carry_weight(components, blocks, u[kind, i], i, scratch, start, count)
        rows.move_weights(from_scratch, group, u, scratch, u[kind, i], i, start, count)
    rows.move_biases(group, scratch, start, count)


@inlined
def from_scratch(values: Any, scratch: Any, factor: Any, i: Any, start: Any, r: Any) -> Any:
    """The gradient of weight i of a row, which has just been summed."""
    return scratch[G + r]


@inlined
def carry_weight(components: Any, blocks: Any, heard: Any, i: Any, scratch: Any, start: Any, count: Any) -> None:
    """Z <- D Z + c u of weight i in some rows, and its part of dl/dtheta."""
    if components == 1:
        for r in range(count):
            x = blocks.kept[0, start + r] * blocks.z[0, i, start + r] + blocks.c[0, start + r] * heard
            blocks.z[0, i, start + r] = x
            scratch[G + r] = blocks.dl_dh[0, start + r] * x
    else:
        for r in range(count):
            at = start + r
            first, second = blocks.z[0, i, at], blocks.z[1, i, at]
            x = (blocks.kept[0, at] * first + blocks.kept[1, at] * second) + blocks.c[0, at] * heard
            y = (blocks.kept[2, at] * first + blocks.kept[3, at] * second) + blocks.c[1, at] * heard
            blocks.z[0, i, at], blocks.z[1, i, at] = x, y
            scratch[G + r] = blocks.dl_dh[0, at] * x + blocks.dl_dh[1, at] * y


@inlined
def pull_weight(blocks: Any, scratch: Any, i: Any, start: Any, count: Any) -> None:
    """What Z as it is makes of dl/dtheta, weight i in some rows."""
    if blocks.z.shape[0] == 1:
        for r in range(count):
            scratch[G + r] = blocks.dl_dh[0, start + r] * blocks.z[0, i, start + r]
    else:
        for r in range(count):
            at = start + r
            scratch[G + r] = blocks.dl_dh[0, at] * blocks.z[0, i, at] + blocks.dl_dh[1, at] * blocks.z[1, i, at]


@kernel
def flush(s: Any, m: Any) -> None:
    """Carry Z on where no target came to have it done on the way."""
    u, scratch, alike = matrix(m, PIECE.u), scratch_of(m, 0), s.gates * s.units // s.groups
    lay_out(s, m, True)
    for first in range(0, s.gates * s.units, s.band):
        width = min(s.band, s.gates * s.units - first)
        blocks = blocks_in_band(m, first, width)
        for kind in range(s.groups):
            until = min(width, (kind + 1) * alike - first)
            for begin in range(max(0, kind * alike - first), until, BLOCK):
                start, count = np.uint64(begin), np.uint64(min(BLOCK, until - begin))
                for i in range(np.uint64(s.fan)):
                    carry_weight(s.components, blocks, u[kind, i], i, scratch, start, count)
