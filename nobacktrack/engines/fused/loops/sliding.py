"""Sliding BPTT: the way back through the window of truncated BPTT, at every target."""

from __future__ import annotations

from typing import Any

from ....compiled import ONE, entry, inlined
from ....estimators import SlidingBPTT
from .. import SOURCES
from ..kernels import window
from ..kernels.readout import score
from ..kernels.rows import move_phi
from ..kernels.window import RING
from ..memory.packing import Store
from ..memory.views import COUNTERS
from ..memory.windows import WINDOW, WindowPieces
from . import bptt
from .chunk import Loop, run_chunk


@inlined
def observe(s: Any, m: Any, symbol: Any, values: Any, pace: Any, phi_pace: Any) -> Any:
    """Score, move phi, and theta on dl_t/dtheta through the last transitions."""
    loss = score(s, m, symbol, values)
    move_phi(s, m, phi_pace)
    bptt.add_loss(s, m)
    window.backtrack(s, m, ONE, WINDOW.gradient)
    window.move_theta(s, m, pace)
    return loss


@entry(SOURCES)
def run_sliding(machine: Any, verb: Any, chunk: Any) -> None:
    """A chunk, by sliding BPTT."""
    run_chunk(observe, bptt.step, bptt.restart, machine, verb, chunk)


def pack(window: Any, estimator: SlidingBPTT, store: Store) -> None:
    bptt.pack_window(window, store)


def unpack(like: Any, estimator: SlidingBPTT, store: Store) -> Any:
    return bptt.unpack_window(like, store)


LOOP = Loop(
    run=run_sliding,
    pieces=WindowPieces,
    pack=pack,
    unpack=unpack,
    sizes=lambda estimator: {"depth": estimator.depth},
    counters=lambda sizes: RING - COUNTERS + 2 * sizes.depth,
    help=bptt.help_blocks,
)
