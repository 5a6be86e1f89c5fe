"""Truncated backpropagation through time: a window of past states and inputs, biased beyond it."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int32

from ..configuration import at_least, configuration, static
from ..immediate import linearise
from ..protocol import Metric, Params, Point, Tree, flat


class Window(NamedTuple):
    """The last transitions, in a ring: step j went from h[j] on x[j] to a state on which the loss had the derivative
    dl_dh[j].
    """

    h: Tree
    x: Tree
    dl_dh: Float[Array, "depth n"]
    head: Int32[Array, ""]  # the slot of the next transition
    held: Int32[Array, ""]  # how many of the slots are of this block, or of this episode


def empty(depth: int, at: Point) -> Window:
    def ring(leaf: Array) -> Array:
        return jnp.zeros((depth, *jnp.shape(leaf)), jnp.asarray(leaf).dtype)

    nothing = jnp.zeros((), jnp.int32)
    return Window(jax.tree.map(ring, at.h), jax.tree.map(ring, at.x), ring(flat(at.h)), nothing, nothing)


def cleared(window: Window) -> Window:
    return window._replace(dl_dh=jnp.zeros_like(window.dl_dh), held=jnp.zeros_like(window.held))


def extended(window: Window, system: Any, at: Point) -> tuple[Window, Tree]:
    """The window with one more transition, over the oldest one where it is full; and h'."""
    depth = len(window.dl_dh)

    def put(ring: Array, value: Array) -> Array:
        return ring.at[window.head].set(jnp.asarray(value).astype(ring.dtype))

    following = Window(
        jax.tree.map(put, window.h, at.h),
        jax.tree.map(put, window.x, at.x),
        put(window.dl_dh, jnp.zeros_like(window.dl_dh[0])),
        (window.head + 1) % depth,
        jnp.minimum(window.held + 1, depth),
    )
    for substep in system.substeps:
        at = at._replace(h=substep.evolve(at.params, at.h, at.x))
    return following, at.h


def backtrack(system: Any, window: Window, params: Params) -> Tree:
    """sum_j lambda_j df/dtheta(h_j, x_j), with lambda_{j-1} = lambda_j df/dh + dl_dh_{j-1}, from the newest
    transition to the oldest.
    """
    depth = len(window.dl_dh)

    def back(carry: tuple[Array, Tree], age: Array) -> tuple[tuple[Array, Tree], None]:
        co_state, gradient = carry
        slot = (window.head - 1 - age) % depth
        h, x, dl_dh = jax.tree.map(lambda ring: ring[slot], (window.h, window.x, window.dl_dh))
        co_state = jnp.where(age < window.held, co_state + dl_dh, 0)
        co_state, here = _pull(system, Point(params, h, x), co_state)
        return (co_state, jax.tree.map(jnp.add, gradient, here)), None

    start = jnp.zeros_like(window.dl_dh[0]), jax.tree.map(jnp.zeros_like, params.theta)
    (_, gradient), _ = jax.lax.scan(back, start, jnp.arange(depth, dtype=jnp.int32))
    return gradient


def _pull(system: Any, at: Point, co_state: Array) -> tuple[Array, Tree]:
    """A cotangent on h' back to h and theta, through all sub-steps."""
    taken = []
    for substep in system.substeps:
        following = linearise(substep, at)
        taken.append((substep, following))
        at = at._replace(h=following.h)
    gradient = jax.tree.map(jnp.zeros_like, at.params.theta)
    for substep, following in reversed(taken):
        gradient = jax.tree.map(jnp.add, gradient, following.rows.pull(substep, co_state))
        co_state = following.pull(co_state)
    return co_state, gradient


@configuration
class TruncatedBPTT:
    """Blocks of `depth` steps without overlap, as in the paper [NBT, section 3]. Biased; time O(dim theta) a step,
    memory O(depth).

    theta is fixed within a block and moves once, at its end, with the gradient summed over the block; phi moves at
    every target. A block ends at the first target at or after its last step.
    """

    depth: int = static(default=15)

    def __post_init__(self) -> None:
        at_least("depth", self.depth, 1)

    def init(self, system: Any, at: Point) -> Window:
        return empty(self.depth, at)

    def forget(self, influence: Window) -> Window:
        return cleared(influence)

    def observe(
        self, system: Any, influence: Window, params: Params, dl_dh: Float[Array, " n"]
    ) -> tuple[Window, Tree, Array]:
        """Keep dl/dh; at the end of a block, dl/dtheta summed over it."""
        kept = jnp.where(influence.held > 0, dl_dh, 0)
        window = influence._replace(dl_dh=influence.dl_dh.at[influence.head - 1].add(kept))
        ready = window.held == self.depth
        nothing = jax.tree.map(jnp.zeros_like, params.theta)
        window, gradient = jax.lax.cond(
            ready, lambda: (cleared(window), backtrack(system, window, params)), lambda: (window, nothing)
        )
        return window, gradient, ready

    def draw(self, system: Any, h: Tree, key: Array, t: Array) -> tuple[()]:
        return ()

    def advance(self, system: Any, influence: Window, at: Point, metric: Metric, draws: Any) -> tuple[Window, Tree]:
        return extended(influence, system, at)


@configuration
class SlidingBPTT:
    """The last `depth` steps, at every step. Biased; time O(depth dim theta), memory O(depth). Past states are kept,
    the current theta is used.
    """

    depth: int = static(default=15)

    def __post_init__(self) -> None:
        at_least("depth", self.depth, 1)

    def init(self, system: Any, at: Point) -> Window:
        return empty(self.depth, at)

    def forget(self, influence: Window) -> Window:
        return cleared(influence)

    def observe(
        self, system: Any, influence: Window, params: Params, dl_dh: Float[Array, " n"]
    ) -> tuple[Window, Tree, bool]:
        """dl_t/dtheta through the last transitions."""
        newest = influence._replace(dl_dh=influence.dl_dh.at[influence.head - 1].set(dl_dh))
        return influence, backtrack(system, newest, params), True

    def draw(self, system: Any, h: Tree, key: Array, t: Array) -> tuple[()]:
        return ()

    def advance(self, system: Any, influence: Window, at: Point, metric: Metric, draws: Any) -> tuple[Window, Tree]:
        return extended(influence, system, at)
