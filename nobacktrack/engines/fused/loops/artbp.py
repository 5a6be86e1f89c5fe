"""ARTBP: the window of truncated BPTT, which ends at random."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ....compiled import ZERO, entry, inlined, kernel
from ....estimators import ARTBP
from ....estimators.artbp import LONGEST
from .. import SOURCES
from ..kernels.signs import draw_signs
from ..kernels.window import HELD, RING
from ..memory.layout import beside, indices, joined
from ..memory.packing import Store
from ..memory.views import COUNTERS, vector
from ..memory.windows import AFTER_WINDOW, WindowPieces
from . import bptt
from .chunk import Loop, run_chunk


class CoinPieces(NamedTuple):
    """See `layout.Pieces`."""

    gain: np.ndarray = beside(lambda s: (1,))  # 1 / (1 - c)
    signs: np.ndarray = beside(lambda s: (s.block.bit_length() - 1,))


COIN: CoinPieces = indices(CoinPieces, AFTER_WINDOW)


@inlined
def ends(s: Any) -> Any:
    """The counter, after the ring, that says whether the newest transition is the last of its block."""
    return RING + 2 * s.depth


@inlined
def observe(s: Any, m: Any, symbol: Any, values: Any, pace: Any, phi_pace: Any) -> Any:
    return bptt.observe_in_blocks(close, bptt.no_noise, s, m, symbol, values, pace, phi_pace)


@kernel
def close(s: Any, m: Any) -> None:
    """The gradient of a block that is over, added to what waits for a target."""
    if m.ints[ends(s)] and m.ints[HELD] > 0:
        bptt.settle(s, m, vector(m, COIN.gain)[0])


@inlined
def advance(s: Any, m: Any, symbol: Any, values: Any) -> None:
    """One more transition, the last of its block where all signs are negative."""
    close(s, m)
    signs, all_negative = vector(m, COIN.signs), True
    draw_signs(m.clock, signs)
    for sign in signs:
        all_negative = all_negative and sign < ZERO
    bptt.step(s, m, symbol, values)
    m.ints[ends(s)] = 1 if all_negative or m.ints[HELD] == s.depth else 0


@entry(SOURCES)
def run_artbp(machine: Any, verb: Any, chunk: Any) -> None:
    """A chunk, by ARTBP."""
    run_chunk(observe, advance, bptt.restart, machine, verb, chunk)


def pack(block: Any, estimator: ARTBP, store: Store) -> None:
    bptt.pack(block, estimator, store)
    store.own.gain[:] = estimator.gain
    store.ints[RING + 2 * store.sizes.depth] = block.ends


def unpack(like: Any, estimator: ARTBP, store: Store) -> Any:
    return bptt.unpack(like, estimator, store)._replace(ends=store.ints[RING + 2 * store.sizes.depth] != 0)


LOOP = Loop(
    run=run_artbp,
    pieces=joined(WindowPieces, CoinPieces),
    pack=pack,
    unpack=unpack,
    sizes=lambda estimator: {"depth": LONGEST * estimator.depth, "block": estimator.depth},
    counters=lambda sizes: RING - COUNTERS + 2 * sizes.depth + 1,
    help=bptt.help_blocks,
)
