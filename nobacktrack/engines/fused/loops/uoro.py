"""UORO: one random outer product, by the pass of NoBackTrack over theta, with no part of the gradient that is exact."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....compiled import ONE, ZERO, entry, fill, inlined, kernel
from ....estimators import UORO
from .. import SOURCES
from ..codes import Metric, Norms
from ..kernels import passes, terms, transition
from ..kernels.norms import balance, form_norms, state_norm
from ..kernels.readout import score
from ..kernels.rows import move_phi
from ..kernels.signs import draw_signs, tick
from ..memory import packing
from ..memory.layout import PIECE, joined
from ..memory.packing import Store
from ..memory.terms import TERM, TINY, TermPieces
from ..memory.units import UnitPieces
from ..memory.views import Count, matrix, row, vector
from .chunk import Loop, run_chunk
from .nobacktrack import flush_nobacktrack, help_nobacktrack, restart, share_out


@inlined
def observe(s: Any, m: Any, symbol: Any, values: Any, pace: Any, phi_pace: Any) -> Any:
    """Score, move phi, and theta on (H v) w."""
    loss = score(s, m, symbol, values)
    move_phi(s, m, phi_pace)
    share_out(matrix(m, TERM.v), vector(m, PIECE.dl_dh), vector(m, TERM.share))
    fill(vector(m, PIECE.q), ZERO)
    passes.move_theta(s, m, pace)
    return loss


@inlined
def advance(s: Any, m: Any, symbol: Any, values: Any) -> None:
    """h' = f(theta, h, x), v <- df/dh v, and the newest rows become part of both."""
    if m.ints[Count.OBSERVED] == 0:
        terms.flush(s, m)
    passes.step(passes.work, s, m, symbol, values)
    merge(s, m)
    m.ints[Count.OBSERVED] = 0
    tick(m.clock)


@kernel
def merge(s: Any, m: Any) -> None:
    """v <- rho0 v + rho1 nu,  w <- w / rho0 + (nu df/dtheta) / rho1, which is left pending."""
    v, signs, q, u = matrix(m, TERM.v), vector(m, TERM.signs), vector(m, PIECE.q), matrix(m, PIECE.u)
    pending, fan_in = matrix(m, TERM.pending_rows), matrix(m, TERM.pending_fan_in)
    draw_signs(m.clock, signs)
    transition.pull_rows(matrix(m, PIECE.c), signs, q)
    rho, over = balance(s.norms, *lengths(s, m))
    rho_newer, over_newer = balance(s.norms, length_of_newest(m), math.sqrt(v.dtype.type(signs.size)))
    for i in range(signs.size):
        v[0, i] = rho * v[0, i] + rho_newer * signs[i]
    vector(m, TERM.pending_scale)[0] = over
    for r in range(q.size):
        pending[0, r] = over_newer * q[r]
    for kind in range(u.shape[0]):
        for i in range(u.shape[1]):
            fan_in[kind, i] = u[kind, i]


@kernel
def lengths(s: Any, m: Any) -> Any:
    """|w| and |v|; |u|^2 of each row is left in `squares_u`."""
    norm_w, weights = vector(m, TERM.norm_w), row(matrix(m, TERM.row_scales), 0)
    fill(norm_w, ONE)
    terms.measure(s, m, Metric.EUCLIDEAN)
    if not form_norms(m):
        terms.measure_by_largest(s, m, Metric.EUCLIDEAN)
    fill(weights, ONE)
    tiny = vector(m, TERM.settings)[TINY]
    return norm_w[0], state_norm(s.norms, matrix(m, TERM.v), 0, weights, matrix(m, TERM.worth), tiny, tiny)


@kernel
def length_of_newest(m: Any) -> Any:
    """|nu df/dtheta|, in units of its largest row."""
    q, squares_u, largest = vector(m, PIECE.q), vector(m, TERM.squares_u), ZERO * vector(m, PIECE.q)[0]
    for r in range(q.size):
        largest = max(largest, abs(q[r]) * math.sqrt(squares_u[r]))
    if largest == ZERO:
        return largest
    total = ZERO * largest
    for r in range(q.size):
        x = q[r] * math.sqrt(squares_u[r]) / largest
        total += x * x
    return largest * math.sqrt(total)


@entry(SOURCES)
def run_uoro(machine: Any, verb: Any, chunk: Any) -> None:
    """A chunk, by UORO."""
    run_chunk(observe, advance, restart, machine, verb, chunk)


def pack(influence: Any, estimator: UORO, store: Store) -> None:
    own = store.own
    own.v[0] = influence.v
    packing.pack_bands(store.sizes, own.w, packing.forms(np.asarray(influence.w)[None]))
    own.pending_scale[:], own.pending_rows[:] = 1, 0
    own.settings[TINY] = np.finfo(own.settings.dtype).tiny ** 0.8


def unpack(like: Any, estimator: UORO, store: Store) -> Any:
    w = packing.unpack_forms(packing.unpack_bands(store.sizes, store.own.w), like.w[None])
    return like._replace(v=store.own.v[0], w=w[0])


LOOP = Loop(
    run=run_uoro,
    pieces=joined(UnitPieces, TermPieces),  # of the first it has none
    pack=pack,
    unpack=unpack,
    sizes=lambda estimator: {"terms": 1, "norms": Norms.EUCLIDEAN},
    counters=lambda sizes: 0,
    flush=flush_nobacktrack,
    bands=True,
    help=help_nobacktrack,
)
