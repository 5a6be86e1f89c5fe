"""Truncated BPTT: the window of past transitions, and the way back through it."""

from __future__ import annotations

from typing import Any

from ....compiled import ONE, ZERO, entry, inlined, kernel
from ....estimators.bptt import InBlocks
from .. import SOURCES
from ..codes import Job
from ..kernels import transition
from ..kernels.cells import step_cells
from ..kernels.crew import help_out, share
from ..kernels.readout import score
from ..kernels.rows import move_phi, temper
from ..kernels.signs import tick
from ..kernels.window import FRESH, HEAD, HELD, READY, RING, backtrack, move_theta, work
from ..memory import packing
from ..memory.layout import PIECE
from ..memory.packing import Store
from ..memory.views import COUNTERS, blocks_of, flattened, matrix, opened, vector
from ..memory.windows import WINDOW, WindowPieces
from .chunk import Loop, run_chunk


@inlined
def observe(s: Any, m: Any, symbol: Any, values: Any, pace: Any, phi_pace: Any) -> Any:
    return observe_in_blocks(close, no_noise, s, m, symbol, values, pace, phi_pace)


@inlined
def no_noise(s: Any, m: Any) -> Any:
    return ZERO * vector(m, PIECE.priors)[0]


@inlined
def observe_in_blocks(
    close: Any, noise_of: Any, s: Any, m: Any, symbol: Any, values: Any, pace: Any, phi_pace: Any
) -> Any:
    """Score, move phi; where `close` has found that a block is over theta moves too."""
    loss = score(s, m, symbol, values)
    temper(m, 1, noise_of(s, m))
    move_phi(s, m, phi_pace)
    add_loss(s, m)
    close(s, m)
    if m.ints[READY]:
        temper(m, 0, noise_of(s, m))
        move_theta(s, m, pace)
        m.ints[READY] = 0
    return loss


@kernel
def add_loss(s: Any, m: Any) -> None:
    """The derivative of a loss on the newest state, unless no transition made it."""
    if m.ints[HELD] > 0 and m.ints[FRESH] == 0:
        dl_dh, ring = vector(m, PIECE.dl_dh), matrix(m, WINDOW.ring_dl_dh)
        slot = (m.ints[HEAD] - 1) % s.depth
        for i in range(dl_dh.size):
            ring[slot, i] += dl_dh[i]


@kernel
def close(s: Any, m: Any) -> None:
    """The gradient of a block that is full, added to what waits for a target."""
    if m.ints[HELD] == s.depth:
        settle(s, m, ONE)


@kernel
def settle(s: Any, m: Any, gain: Any) -> None:
    """A block is over: its gradient waits for a target, and the next one begins."""
    backtrack(s, m, gain, WINDOW.gradient)
    m.ints[HELD] = 0
    m.ints[READY] = 1


@inlined
def advance(s: Any, m: Any, symbol: Any, values: Any) -> None:
    """The end of a block that had no target there; one more transition."""
    close(s, m)
    step(s, m, symbol, values)


@kernel
def step(s: Any, m: Any, symbol: Any, values: Any) -> None:
    """One more transition in the window, over the oldest one where it is full; h' = f(theta, h, x)."""
    extend(s, m, symbol, values)
    transition.compute_fan_in(s, m, symbol, values, False)
    share(work, s, m, Job.STEP, blocks_of(s), symbol, 0)
    h, a = matrix(m, PIECE.h), vector(m, PIECE.a)
    step_cells(s.cell, a, h, vector(m, PIECE.alpha), h, matrix(m, PIECE.c), matrix(m, PIECE.retention))
    tick(m.clock)


@kernel
def extend(s: Any, m: Any, symbol: Any, values: Any) -> None:
    """Keep h and x of a transition."""
    h, ring_h = flattened(m, PIECE.h), matrix(m, WINDOW.ring_h)
    ring_x, ring_dl_dh = matrix(m, WINDOW.ring_x), matrix(m, WINDOW.ring_dl_dh)
    slot = m.ints[HEAD]
    for i in range(h.size):
        ring_h[slot, i] = h[i]
        ring_dl_dh[slot, i] = ZERO
    for i in range(values.size):
        ring_x[slot, i] = values[i]
    m.ints[RING + slot] = symbol
    m.ints[RING + s.depth + slot] = m.ints[FRESH]
    m.ints[FRESH] = 0
    m.ints[HEAD] = (slot + 1) % s.depth
    m.ints[HELD] = min(m.ints[HELD] + 1, s.depth)


@kernel
def restart(s: Any, m: Any) -> None:
    """No derivative goes back beyond this."""
    m.ints[FRESH] = 1


@entry(SOURCES)
def help_blocks(machine: Any, place: Any) -> None:
    """What a helper does, of all block methods."""
    s, m = opened(machine)
    help_out(work, s, m, place)


@entry(SOURCES)
def run_bptt(machine: Any, verb: Any, chunk: Any) -> None:
    """A chunk, by truncated BPTT."""
    run_chunk(observe, advance, restart, machine, verb, chunk)


def pack(block: Any, estimator: InBlocks, store: Store) -> None:
    store.own.gradient[:] = packing.columns(block.gradient)
    pack_window(block.window, store)
    store.ints[READY] = block.due


def pack_window(window: Any, store: Store) -> None:
    """Write a window into the pieces."""
    own, ints, depth = store.own, store.ints, store.sizes.depth
    own.ring_h[:], own.ring_dl_dh[:] = window.h, window.dl_dh
    if store.sizes.inputs:
        own.ring_x[:] = window.x
    else:
        ints[RING : RING + depth] = window.x
    ints[RING + depth : RING + 2 * depth] = window.begins
    ints[[HEAD, HELD, FRESH]] = window.head, window.held, window.fresh


def unpack(like: Any, estimator: InBlocks, store: Store) -> Any:
    window, gradient = unpack_window(like.window, store), packing.unpack_columns(store.own.gradient, like.gradient)
    return like._replace(window=window, gradient=gradient, due=store.ints[READY] != 0)


def unpack_window(like: Any, store: Store) -> Any:
    """A window of the pieces."""
    own, ints, depth = store.own, store.ints, store.sizes.depth
    return like._replace(
        h=own.ring_h,
        x=own.ring_x if store.sizes.inputs else ints[RING : RING + depth],
        dl_dh=own.ring_dl_dh,
        begins=ints[RING + depth : RING + 2 * depth] != 0,
        fresh=ints[FRESH] != 0,
        head=ints[HEAD],
        held=ints[HELD],
    )


LOOP = Loop(
    run=run_bptt,
    pieces=WindowPieces,
    pack=pack,
    unpack=unpack,
    sizes=lambda estimator: {"depth": estimator.depth},
    counters=lambda sizes: RING - COUNTERS + 2 * sizes.depth,
    help=help_blocks,
)
