"""Truncated backpropagation through time: a window of past states and inputs, biased beyond it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int32

from ..configuration import at_least, configuration, set_field, static
from ..influence.immediate import linearise
from ..protocol import AnySystem, Metric, Params, Point, Tree, flat
from ..registry import register


@register
class Window(NamedTuple):
    """The last transitions, in a ring: step j went from h[j] on x[j] to a state where the loss had the derivative
    dl_dh[j].
    """

    h: Tree
    x: Tree
    dl_dh: Float[Array, "depth n"]
    begins: Bool[Array, " depth"]  # an episode begins with this transition: nothing before it matters
    fresh: Bool[Array, ""]  # an episode begins with the next transition
    head: Int32[Array, ""]  # the slot of the next transition
    held: Int32[Array, ""]  # how many of the slots are in use

    def with_loss(self, dl_dh: Float[Array, " n"]) -> Window:
        """The window with the derivative of a loss on the newest state (which no transition made, if it is fresh)."""
        made = (self.held > 0) & ~self.fresh
        return self._replace(dl_dh=self.dl_dh.at[self.head - 1].add(jnp.where(made, dl_dh, 0)))

    def settle(self, leaving: Int32[Array, ""]) -> Window:
        """The window after a step of theta: all losses are counted, and the oldest transitions leave."""
        return self._replace(dl_dh=jnp.zeros_like(self.dl_dh), held=self.held - leaving)

    def at(self, age: Array) -> tuple[Tree, Tree, Array, Array]:
        """h, x, dl_dh and whether an episode begins, of the transition so many steps before the newest."""
        slot = (self.head - 1 - age) % len(self.dl_dh)
        return jax.tree.map(lambda ring: ring[slot], (self.h, self.x, self.dl_dh, self.begins))

    def push(self, at: Point) -> Window:
        """The window with one more transition, over the oldest one where it is full."""
        depth = len(self.dl_dh)

        def put(ring: Array, value: Array) -> Array:
            return ring.at[self.head].set(value)

        return Window(
            jax.tree.map(put, self.h, at.h),
            jax.tree.map(put, self.x, at.x),
            put(self.dl_dh, jnp.zeros_like(self.dl_dh[0])),
            put(self.begins, self.fresh),
            jnp.zeros_like(self.fresh),
            (self.head + 1) % depth,
            jnp.minimum(self.held + 1, depth),
        )


def empty(depth: int, at: Point) -> Window:
    def ring(leaf: Array) -> Array:
        return jnp.zeros((depth, *leaf.shape), leaf.dtype)

    none = jnp.zeros((), jnp.int32)
    rings = jax.tree.map(ring, at.h), jax.tree.map(ring, at.x), ring(flat(at.h))
    return Window(*rings, jnp.zeros(depth, bool), jnp.ones((), bool), none, none)


def backtrack(system: AnySystem, window: Window, params: Params, gain: float = 1.0) -> tuple[Array, Tree]:
    """dl/dh at the beginning of the window, and sum_j lambda_j df/dtheta(h_j, x_j), from the newest transition to the
    oldest, with lambda_{j-1} = gain lambda_j df/dh + dl_dh_{j-1}, and no lambda beyond the beginning of an episode.
    """
    none = jnp.zeros_like(window.dl_dh[0])
    return pull_back(system, window, params, none, (jnp.zeros_like(window.held), window.held), gain)


def pull_back(
    system: AnySystem, window: Window, params: Params, co_state: Array, ages: tuple[Array, Array], gain: float = 1.0
) -> tuple[Array, Tree]:
    """A cotangent on the state after the transition of the first age, and the losses on the way, back through those
    of all ages before the second: what it is on the state there, and on theta.
    """

    def back(age: Array, carry: tuple[Array, Tree]) -> tuple[Array, Tree]:
        co_state, gradient = carry
        h, x, dl_dh, begins = window.at(age)
        before, here = _pull(system, Point(params, h, x), co_state + dl_dh)
        return jnp.where(begins, 0, gain * before), jax.tree.map(jnp.add, gradient, here)

    return jax.lax.fori_loop(*ages, back, (co_state, jax.tree.map(jnp.zeros_like, params.theta)))


def push_through(
    system: AnySystem, window: Window, params: Params, v: Float[Array, "rank n"], leaving: Array
) -> Float[Array, "rank n"]:
    """Tangents at the beginning of the window through its oldest transitions; none goes on into a new episode."""

    def on(step: Array, v: Array) -> Array:
        h, x, _, begins = window.at(window.held - 1 - step)
        return _push(system, Point(params, h, x), jnp.where(begins, 0, v))

    return jax.lax.fori_loop(0, leaving, on, v)


def _push(system: AnySystem, at: Point, v: Float[Array, "rank n"]) -> Float[Array, "rank n"]:
    """Tangents on h on to h', through all sub-steps."""
    for substep in system.substeps:
        following = linearise(substep, at)
        v, at = jax.vmap(following.push)(v), at._replace(h=following.h)
    return v


def _pull(system: AnySystem, at: Point, co_state: Array) -> tuple[Array, Tree]:
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


@register
class Block(NamedTuple):
    """The block being read, and the gradient of one that ended where there was no target to move theta at."""

    window: Window
    gradient: Tree
    due: Bool[Array, ""]


class InBlocks(ABC):
    """What the estimators share that read in blocks: theta is fixed within a block and moves once, with the gradient
    summed over it, at the first target at or after its end; phi moves at every target. A block goes on across the
    beginning of an episode, but no derivative does.
    """

    gain = 1.0  # of each derivative from a step to the one before

    @abstractmethod
    def over(self, block: Any) -> Bool[Array, ""]:
        """Whether a block has come to its end."""

    def forget(self, influence: Any) -> Any:
        return influence._replace(window=influence.window._replace(fresh=jnp.ones((), bool)))

    def observe(
        self, system: AnySystem, influence: Any, params: Params, dl_dh: Float[Array, " n"], metric: Metric
    ) -> tuple[Any, Tree, Array]:
        """Keep dl/dh; at the end of a block, dl/dtheta summed over it."""
        block = self.close(system, influence._replace(window=influence.window.with_loss(dl_dh)), params, metric)
        nothing = jax.tree.map(jnp.zeros_like, block.gradient)
        return block._replace(gradient=nothing, due=jnp.zeros((), bool)), block.gradient, block.due

    def close(self, system: AnySystem, block: Any, params: Params, metric: Metric) -> Any:
        """The block, and where it is over what follows it, with its gradient added to what is due."""

        def close() -> Any:
            following, gradient = self.end(system, block, params, metric)
            summed = jax.tree.map(jnp.add, block.gradient, gradient)
            return following._replace(gradient=summed, due=jnp.ones((), bool))

        return jax.lax.cond(self.over(block), close, lambda: block)

    def end(self, system: AnySystem, block: Any, params: Params, metric: Metric) -> tuple[Any, Tree]:
        """An empty block, and the gradient of the one that is over."""
        gradient = backtrack(system, block.window, params, self.gain)[1]
        return block._replace(window=block.window.settle(block.window.held)), gradient


@configuration
class TruncatedBPTT(InBlocks):
    """Blocks of `depth` steps without overlap, as in the paper [NBT, section 3]. Biased; time O(dim theta) a step,
    memory O(depth).
    """

    depth: int = static(default=15)

    def __post_init__(self) -> None:
        set_field(self, "depth", at_least("depth", self.depth, 1))

    def init(self, system: AnySystem, at: Point) -> Block:
        return Block(empty(self.depth, at), jax.tree.map(jnp.zeros_like, at.params.theta), jnp.zeros((), bool))

    def over(self, block: Block) -> Bool[Array, ""]:
        return block.window.held == self.depth

    def noise(self, influence: Any) -> float:
        return 0.0

    def draw(self, system: AnySystem, h: Tree, key: Array, t: Array) -> tuple[()]:
        return ()

    def advance(self, system: AnySystem, influence: Block, at: Point, metric: Metric, draws: Any) -> tuple[Block, Tree]:
        block = self.close(system, influence, at.params, metric)
        return block._replace(window=block.window.push(at)), system.evolve(at.params, at.h, at.x)


@configuration
class SlidingBPTT:
    """The last `depth` steps, at every step. Biased; time O(depth dim theta), memory O(depth).

    The past states are those that were, the current theta is used in all of them.
    """

    depth: int = static(default=15)

    def __post_init__(self) -> None:
        set_field(self, "depth", at_least("depth", self.depth, 1))

    def init(self, system: AnySystem, at: Point) -> Window:
        return empty(self.depth, at)

    def forget(self, influence: Window) -> Window:
        return influence._replace(fresh=jnp.ones((), bool))

    def observe(
        self, system: AnySystem, influence: Window, params: Params, dl_dh: Float[Array, " n"], metric: Metric
    ) -> tuple[Window, Tree, bool]:
        """dl_t/dtheta through the last transitions."""
        return influence, backtrack(system, influence.with_loss(dl_dh), params)[1], True

    def draw(self, system: AnySystem, h: Tree, key: Array, t: Array) -> tuple[()]:
        return ()

    def advance(
        self, system: AnySystem, influence: Window, at: Point, metric: Metric, draws: Any
    ) -> tuple[Window, Tree]:
        return influence.push(at), system.evolve(at.params, at.h, at.x)
