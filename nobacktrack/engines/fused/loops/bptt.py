"""Truncated BPTT: the window of past transitions, and the way back through it."""

from __future__ import annotations

from typing import Any

from ....compiled import ZERO, entry, fill, inlined, kernel
from ....estimators.bptt import InBlocks
from .. import SOURCES
from ..kernels import transition
from ..kernels.cells import compute_activity, step_cells
from ..kernels.forms import damp
from ..kernels.readout import score
from ..kernels.rows import move_phi, move_theta_along
from ..kernels.signs import tick
from ..memory import packing
from ..memory.layout import PIECE
from ..memory.packing import Store
from ..memory.views import COUNTERS, as_rows, flattened, matrix, row, vector
from ..memory.windows import WINDOW, WindowPieces
from .chunk import Loop, run_chunk

# Counters: the slot of the next transition, how many are held, whether an episode begins with the next one, whether a
# gradient waits for a target; then the symbol of each slot, and whether an episode begins there.
HEAD, HELD, FRESH, READY, RING = range(COUNTERS, COUNTERS + 5)


@inlined
def observe(s: Any, m: Any, symbol: Any, values: Any, pace: Any, phi_pace: Any) -> Any:
    return observe_in_blocks(close, s, m, symbol, values, pace, phi_pace)


@inlined
def observe_in_blocks(close: Any, s: Any, m: Any, symbol: Any, values: Any, pace: Any, phi_pace: Any) -> Any:
    """Score, move phi; where `close` has found that a block is over theta moves too."""
    loss = score(s, m, symbol, values)
    move_phi(s, m, phi_pace)
    add_loss(s, m)
    close(s, m)
    if m.ints[READY]:
        damp(s, m, matrix(m, WINDOW.gradient))
        move_theta_along(s, m, matrix(m, WINDOW.gradient), pace)
        m.ints[READY] = 0
        fill(flattened(m, WINDOW.gradient), ZERO)
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
        backtrack(s, m, matrix(m, WINDOW.gradient))
        m.ints[HELD] = 0
        m.ints[READY] = 1


@kernel
def backtrack(s: Any, m: Any, gradient: Any) -> None:
    """gradient += sum_j lambda_j df/dtheta(h_j, x_j), from the newest transition to the oldest; lambda stays in
    `co_state`, and no loss in the window.
    """
    ring_dl_dh, co_state = matrix(m, WINDOW.ring_dl_dh), vector(m, WINDOW.co_state)
    fill(co_state, ZERO)
    for age in range(m.ints[HELD]):
        slot = (m.ints[HEAD] - 1 - age) % s.depth
        for i in range(co_state.size):
            co_state[i] += ring_dl_dh[slot, i]
        linearise(s, m, slot)
        pull(s, m, slot, co_state, gradient)
        fill(row(ring_dl_dh, slot), ZERO)


@kernel
def linearise(s: Any, m: Any, slot: Any) -> None:
    """f and its derivatives again, at a transition of the window."""
    remember_fan_in(s, m, slot)
    symbol, a, u = m.ints[RING + slot], vector(m, PIECE.a), matrix(m, PIECE.u)
    transition.preactivate(matrix(m, PIECE.theta), u, matrix(m, PIECE.hears), s.units, symbol, s.inputs == 0, a)
    derive(s, m, slot)


@kernel
def remember_fan_in(s: Any, m: Any, slot: Any) -> None:
    """The activities and the fan-in of a transition of the window."""
    activity, ring_x = vector(m, PIECE.activity), matrix(m, WINDOW.ring_x)
    own = as_rows(row(matrix(m, WINDOW.ring_h), slot), s.components)
    compute_activity(s.activation, own, activity, vector(m, PIECE.slope))
    hears, u = matrix(m, PIECE.hears), matrix(m, PIECE.u)
    transition.fan_in(activity, s.units, m.ints[RING + slot], row(ring_x, slot), hears, u)


@kernel
def derive(s: Any, m: Any, slot: Any) -> None:
    """c and retention of a transition of the window, from its pre-activations."""
    own = as_rows(row(matrix(m, WINDOW.ring_h), slot), s.components)
    c, retention = matrix(m, PIECE.c), matrix(m, PIECE.retention)
    step_cells(s.cell, vector(m, PIECE.a), own, vector(m, PIECE.alpha), matrix(m, WINDOW.following), c, retention)


@kernel
def pull(s: Any, m: Any, slot: Any, co_state: Any, gradient: Any) -> None:
    """A cotangent on h' back to h, and to theta, where it is added; none goes beyond the beginning of an episode."""
    u, q, hears = matrix(m, PIECE.u), vector(m, PIECE.q), matrix(m, PIECE.hears)
    slope, retention = vector(m, PIECE.slope), matrix(m, PIECE.retention)
    transition.pull_rows(matrix(m, PIECE.c), co_state, q)
    transition.add_rows(q, u, m.ints[RING + slot], s.inputs == 0, s.units, gradient)
    transition.pull_state(matrix(m, PIECE.theta), hears, slope, retention, q, co_state)
    if begins(s, m, slot):
        fill(co_state, ZERO)


@inlined
def begins(s: Any, m: Any, slot: Any) -> Any:
    """Whether an episode begins with a transition of the window."""
    return m.ints[RING + s.depth + slot] != 0


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
    h, a, u = matrix(m, PIECE.h), vector(m, PIECE.a), matrix(m, PIECE.u)
    transition.preactivate(matrix(m, PIECE.theta), u, matrix(m, PIECE.hears), s.units, symbol, s.inputs == 0, a)
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
def run_bptt(machine: Any, verb: Any, chunk: Any) -> None:
    """A chunk, by truncated BPTT."""
    run_chunk(observe, advance, restart, machine, verb, chunk)


def pack(block: Any, estimator: InBlocks, store: Store) -> None:
    own, ints, depth, window = store.own, store.ints, store.sizes.depth, block.window
    own.gradient[:] = packing.columns(block.gradient)
    own.ring_h[:], own.ring_dl_dh[:] = window.h, window.dl_dh
    if store.sizes.inputs:
        own.ring_x[:] = window.x
    else:
        ints[RING : RING + depth] = window.x
    ints[RING + depth : RING + 2 * depth] = window.begins
    ints[[HEAD, HELD, FRESH, READY]] = window.head, window.held, window.fresh, block.due


def unpack(like: Any, estimator: InBlocks, store: Store) -> Any:
    own, ints, depth = store.own, store.ints, store.sizes.depth
    window = like.window._replace(
        h=own.ring_h,
        x=own.ring_x if store.sizes.inputs else ints[RING : RING + depth],
        dl_dh=own.ring_dl_dh,
        begins=ints[RING + depth : RING + 2 * depth] != 0,
        fresh=ints[FRESH] != 0,
        head=ints[HEAD],
        held=ints[HELD],
    )
    gradient = packing.unpack_columns(own.gradient, like.gradient)
    return like._replace(window=window, gradient=gradient, due=ints[READY] != 0)


LOOP = Loop(
    run=run_bptt,
    pieces=WindowPieces,
    pack=pack,
    unpack=unpack,
    sizes=lambda estimator: {"depth": estimator.depth},
    counters=lambda sizes: RING - COUNTERS + 2 * sizes.depth,
)
