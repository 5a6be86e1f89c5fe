"""What is done with a window of past transitions, in blocks that threads share: the way back through it, and theta's
step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....compiled import ONE, ZERO, fill, inlined, kernel
from ..codes import Job
from ..memory.layout import PIECE
from ..memory.views import COUNTERS, Count, as_rows, block_of, blocks_of, matrix, row, scratch_of, vector
from ..memory.windows import WINDOW
from . import transition
from .cells import compute_activity, step_cells
from .crew import share
from .forms import damp, pair_of, products_in_block
from .products import add_outer_products, add_part, add_products
from .rows import move_block_along_array, theta_group, weight_in_information

# Counters: the slot of the next transition, how many are held, whether an episode begins with the next one, whether a
# gradient waits for a target; then the symbol of each slot, and whether an episode begins there.
HEAD, HELD, FRESH, READY, RING = range(COUNTERS, COUNTERS + 5)
UNITS = 32  # that a cotangent goes back to at a time


@kernel
def preactivate_block(s: Any, m: Any, i: Any, symbol: Any) -> None:
    """a = Theta u in a block of rows."""
    theta, u, hears, a = matrix(m, PIECE.theta), matrix(m, PIECE.u), matrix(m, PIECE.hears), vector(m, PIECE.a)
    kind, start, rows = block_of(s, i)
    transition.preactivate_part(theta, u, hears, s.units, kind, symbol, s.inputs == 0, a, start, rows)


@kernel
def backtrack(s: Any, m: Any, gain: Any, gradient: Any) -> None:
    """gradient += sum_j lambda_j df/dtheta(h_j, x_j), from the newest transition to the oldest, with lambda_{j-1} =
    gain lambda_j df/dh + dl_dh_{j-1}; lambda stays in `co_state`, and no loss in the window. `gradient` is a piece.
    """
    ring_dl_dh, co_state = matrix(m, WINDOW.ring_dl_dh), vector(m, WINDOW.co_state)
    pulled, held = matrix(m, WINDOW.pulled), m.ints[HELD]
    linearise(s, m)
    fill(co_state, ZERO)
    for age in range(held):
        slot = slot_of(s, m, age)
        for i in range(co_state.size):
            co_state[i] += ring_dl_dh[slot, i]
        transition.pull_rows(c_of(s, m, age), co_state, row(pulled, age))
        transition.retain(retention_of(s, m, age), co_state, s.units)
        share(work, s, m, Job.PULL, (s.units + UNITS - 1) // UNITS, age, 0)
        if begins(s, m, slot):
            fill(co_state, ZERO)
        for i in range(co_state.size):
            co_state[i] *= gain
        fill(row(ring_dl_dh, slot), ZERO)
    share(work, s, m, Job.GRADIENT, blocks_of(s), gradient, 0)


@kernel
def linearise(s: Any, m: Any) -> None:
    """f and its derivatives again, at all transitions of the window: theta is read once for several of them."""
    activities = matrix(m, WINDOW.activities)
    for age in range(m.ints[HELD]):
        own = as_rows(row(matrix(m, WINDOW.ring_h), slot_of(s, m, age)), s.components)
        compute_activity(s.activation, own, row(activities, age), row(matrix(m, WINDOW.slopes), age))
    share(work, s, m, Job.LINEARISE, blocks_of(s), 0, 0)
    share(work, s, m, Job.DERIVE, m.ints[HELD], 0, 0)


@kernel
def linearise_block(s: Any, m: Any, i: Any) -> None:
    """The pre-activations of a block of rows at all transitions of the window."""
    theta, hears, held = matrix(m, PIECE.theta), matrix(m, PIECE.hears), m.ints[HELD]
    activities, a = matrix(m, WINDOW.activities), matrix(m, WINDOW.preactivations)
    kind, start, rows = block_of(s, i)
    for age in range(held):
        begin_preactivations(s, m, age, theta, row(a, age), kind, np.uint64(start), np.uint64(rows))
    if hears[kind, 0] > ZERO:
        add_products(a, held, theta, 1, s.units, activities, start, rows)


@kernel
def begin_preactivations(s: Any, m: Any, age: Any, theta: Any, a: Any, kind: Any, start: Any, count: Any) -> None:
    """What biases and the input do to the pre-activations of a transition, in some rows."""
    slot, ring_x, heard = slot_of(s, m, age), matrix(m, WINDOW.ring_x), matrix(m, PIECE.hears)[kind, 1]
    symbol = m.ints[RING + slot]
    for r in range(count):
        a[start + r] = theta[0, start + r]
    if s.inputs:
        for j in range(s.inputs):
            x = heard * ring_x[slot, j]
            for r in range(count):
                a[start + r] += x * theta[1 + s.units + j, start + r]
    elif heard > ZERO:
        for r in range(count):
            a[start + r] += heard * theta[1 + s.units + symbol, start + r]


@kernel
def derive(s: Any, m: Any, age: Any) -> None:
    """c and retention of a transition of the window, from its pre-activations."""
    own = as_rows(row(matrix(m, WINDOW.ring_h), slot_of(s, m, age)), s.components)
    a, following = (
        row(matrix(m, WINDOW.preactivations), age),
        as_rows(row(matrix(m, WINDOW.following), age), s.components),
    )
    step_cells(s.cell, a, own, vector(m, PIECE.alpha), following, c_of(s, m, age), retention_of(s, m, age))


@kernel
def pull_block(s: Any, m: Any, i: Any, age: Any) -> None:
    """A cotangent on h' back to some units of h, through what is heard of them."""
    theta, hears, slope = matrix(m, PIECE.theta), matrix(m, PIECE.hears), row(matrix(m, WINDOW.slopes), age)
    q, co_state = row(matrix(m, WINDOW.pulled), age), vector(m, WINDOW.co_state)
    transition.pull_heard(theta, hears, slope, q, co_state, i * UNITS, min((i + 1) * UNITS, s.units))


@kernel
def pull(s: Any, m: Any, age: Any, q: Any, co_state: Any) -> None:
    """A cotangent on h', and q, what it does to the pre-activations, back to h; not beyond the beginning of an
    episode.
    """
    theta, hears, slope = matrix(m, PIECE.theta), matrix(m, PIECE.hears), row(matrix(m, WINDOW.slopes), age)
    transition.pull_state(theta, hears, slope, retention_of(s, m, age), q, co_state)
    if begins(s, m, slot_of(s, m, age)):
        fill(co_state, ZERO)


@kernel
def add_to_gradient(s: Any, m: Any, first: Any, count: Any, pulled: Any, gradient: Any) -> None:
    """gradient += sum_j q_j (x) u_j, over the transitions from age `first` on."""
    for i in range(blocks_of(s)):
        gradient_block(s, m, i, first, count, pulled, gradient)


@kernel
def gradient_block(s: Any, m: Any, i: Any, first: Any, count: Any, pulled: Any, gradient: Any) -> None:
    """The same in a block of rows."""
    hears, activities, ring_x = matrix(m, PIECE.hears), matrix(m, WINDOW.activities), matrix(m, WINDOW.ring_x)
    kind, begin, rows = block_of(s, i)
    start, width, heard = np.uint64(begin), np.uint64(rows), hears[kind, 1]
    fan = 1 + s.units if hears[kind, 0] > ZERO else 1
    add_outer_products(gradient, fan, pulled, count, activities, first, start, width)
    for j in range(count):
        slot = slot_of(s, m, first + j)
        if s.inputs:
            for k in range(s.inputs):
                add_part(gradient, 1 + s.units + k, heard * ring_x[slot, k], pulled, j, start, width)
        elif heard > ZERO:
            add_part(gradient, 1 + s.units + m.ints[RING + slot], heard, pulled, j, start, width)


@kernel
def square_block(s: Any, m: Any, i: Any, place: Any) -> None:
    """The squared length of the gradient in a block of rows."""
    gradient, (_, start, count) = matrix(m, WINDOW.gradient), block_of(s, i)
    one = ONE + ZERO * gradient[0, 0]
    pair = pair_of(m, s.theta_metric, gradient, gradient, one, one)
    vector(m, WINDOW.squares)[i] = products_in_block(pair, scratch_of(m, place), start, count)[0]


@kernel
def move_block(s: Any, m: Any, i: Any, times: Any, place: Any) -> None:
    """A block of rows of theta moves on the gradient, which is zero after that."""
    gradient, (_, begin, width) = matrix(m, WINDOW.gradient), block_of(s, i)
    start, count = np.uint64(begin), np.uint64(width)
    group = theta_group(s, m, vector(m, PIECE.errand)[0], times)
    move_block_along_array(group, gradient, scratch_of(m, place), start, count)
    for k in range(gradient.shape[0]):
        for r in range(count):
            gradient[k, start + r] = ZERO


@inlined
def slot_of(s: Any, m: Any, age: Any) -> Any:
    """Where in the ring a transition of the window lies, the newest of which has age 0."""
    return (m.ints[HEAD] - 1 - age) % s.depth


@inlined
def c_of(s: Any, m: Any, age: Any) -> Any:
    """c of a transition of the window."""
    return as_rows(row(matrix(m, WINDOW.all_c), age), s.gates * s.components)


@inlined
def retention_of(s: Any, m: Any, age: Any) -> Any:
    """The retention of a transition of the window."""
    return as_rows(row(matrix(m, WINDOW.retentions), age), s.components * s.components)


@inlined
def begins(s: Any, m: Any, slot: Any) -> Any:
    """Whether an episode begins with a transition of the window."""
    return m.ints[RING + s.depth + slot] != 0


@kernel
def move_theta(s: Any, m: Any, pace: Any) -> None:
    """theta moves on the gradient, which is zero after that."""
    squares = vector(m, WINDOW.squares)
    if vector(m, PIECE.shock)[0] > ZERO:
        share(work, s, m, Job.SQUARE, squares.size, 0, 0)
        length = ZERO * pace
        for i in range(squares.size):
            length += squares[i]
        damp(m, matrix(m, WINDOW.gradient), length)
    vector(m, PIECE.errand)[0] = pace
    times = weight_in_information(m.ints, Count.THETA_AGE, s.theta_every)
    share(work, s, m, Job.MOVE, squares.size, times, 0)


@kernel
def work(s: Any, m: Any, job: Any, i: Any, a: Any, b: Any, place: Any) -> None:
    """Block i of what threads do together."""
    if job == Job.STEP:
        preactivate_block(s, m, i, a)
    elif job == Job.LINEARISE:
        linearise_block(s, m, i)
    elif job == Job.DERIVE:
        derive(s, m, i)
    elif job == Job.PULL:
        pull_block(s, m, i, a)
    elif job == Job.GRADIENT:
        gradient_block(s, m, i, 0, m.ints[HELD], matrix(m, WINDOW.pulled), matrix(m, a))
    elif job == Job.SQUARE:
        square_block(s, m, i, place)
    else:
        move_block(s, m, i, a, place)
