"""NoBackTrack, the whole online step: observe a target, advance on an input."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....compiled import ZERO, entry, fill, inlined, kernel
from ....estimators import NoBackTrack
from ....influence.belief import Unbiased
from .. import SOURCES
from ..kernels import norms, passes, terms, transition
from ..kernels.crew import help_out
from ..kernels.readout import score
from ..kernels.reduction import reduce
from ..kernels.rows import move_phi
from ..kernels.signs import tick
from ..memory import packing
from ..memory.layout import PIECE, joined
from ..memory.norms import NORMS
from ..memory.packing import Store
from ..memory.terms import TERM, TINY, TermPieces
from ..memory.units import UnitPieces
from ..memory.views import COUNTERS, Count, flattened, matrix, opened, vector
from .chunk import Loop, run_chunk

AGE = COUNTERS  # steps since the norms refreshed what they remember


@inlined
def observe(s: Any, m: Any, symbol: Any, values: Any, pace: Any, phi_pace: Any) -> Any:
    """The observation and update steps [NBT, Alg. 1 and 2]: score, estimate the gradient, move phi and theta."""
    loss = score(s, m, symbol, values)
    move_phi(s, m, phi_pace)
    dl_dh = vector(m, PIECE.dl_dh)
    transition.pull_rows(matrix(m, PIECE.c), dl_dh, vector(m, PIECE.q))
    share_out(matrix(m, TERM.v), dl_dh, vector(m, TERM.share))
    norms.remember(s, m)
    passes.move_theta(s, m, pace)
    return loss


@kernel
def share_out(v: Any, dl_dh: Any, share: Any) -> None:
    """(H v_k) / K: the share of w_k in the gradient."""
    for k in range(share.size):
        total = ZERO * share[k]
        for i in range(dl_dh.size):
            total += v[k, i] * dl_dh[i]
        share[k] = total / share.dtype.type(share.size)


@inlined
def advance(s: Any, m: Any, symbol: Any, values: Any) -> None:
    """The reduction and transition steps [NBT, Alg. 1 and 2]: theta has moved already."""
    reduce(s, m)
    passes.step(passes.work, s, m, symbol, values)
    norms.carry(s, m, AGE)
    m.ints[Count.OBSERVED] = 0
    tick(m.clock)


@kernel
def restart(s: Any, m: Any) -> None:
    """No influence; what was learned stays."""
    for piece in (TERM.w, TERM.v, PIECE.c, PIECE.u, TERM.pending_fan_in, TERM.variance):
        fill(flattened(m, piece), ZERO)
    terms.nothing_pending(m)
    m.ints[Count.OBSERVED] = 0


@entry(SOURCES)
def help_nobacktrack(machine: Any, place: Any) -> None:
    """What a helper does."""
    s, m = opened(machine)
    help_out(passes.work, s, m, place)


@entry(SOURCES)
def run_nobacktrack(machine: Any, verb: Any, chunk: Any) -> None:
    """A chunk, by NoBackTrack."""
    run_chunk(observe, advance, restart, machine, verb, chunk)


@entry(SOURCES)
def flush_nobacktrack(machine: Any) -> None:
    """Do what is pending of w, so that the pieces are those of a State."""
    s, m = opened(machine)
    if m.ints[Count.OBSERVED] == 0:
        terms.flush(s, m)


def pack(influence: Any, estimator: NoBackTrack, store: Store) -> None:
    own, common = store.own, store.common
    own.v[:] = influence.v
    packing.pack_bands(store.sizes, own.w, packing.forms(influence.w))
    common.c[:] = np.asarray(influence.rows.c).reshape(common.c.shape)
    common.u[:] = np.asarray(influence.rows.u)[0]
    own.pending_scale[:], own.pending_rows[:] = 1, 0
    own.settings[TINY] = np.finfo(own.settings.dtype).tiny ** 0.8
    store.ints[AGE] = NORMS[type(estimator.norms)].pack(influence.memory, estimator.norms, own)


def unpack(like: Any, estimator: NoBackTrack, store: Store) -> Any:
    own, common = store.own, store.common
    rows = like.rows._replace(c=common.c.reshape(like.rows.c.shape), u=common.u[None])
    memory = NORMS[type(estimator.norms)].unpack(like.memory, own, store.ints[AGE])
    w = packing.unpack_forms(packing.unpack_bands(store.sizes, own.w), like.w)
    return like._replace(v=own.v, w=w, rows=rows, memory=memory)


def refusal(estimator: Any) -> str | None:
    parts, known = (estimator.norms, estimator.belief), (*NORMS, Unbiased)
    unknown = [type(part).__name__ for part in parts if type(part) not in known]
    return f"it has no loop for {unknown[0]}" if unknown else None


LOOP = Loop(
    run=run_nobacktrack,
    pieces=joined(UnitPieces, TermPieces),  # of the first it has none
    pack=pack,
    unpack=unpack,
    sizes=lambda estimator: {"terms": estimator.rank, "norms": NORMS[type(estimator.norms)].code},
    counters=lambda sizes: 1,
    refusal=refusal,
    flush=flush_nobacktrack,
    bands=True,
    help=help_nobacktrack,
)
