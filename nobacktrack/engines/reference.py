"""The reference engine: any learner, as one `jax.lax.scan` over a chunk, with the draws of the whole chunk made
before it.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from .. import counter
from ..errors import Divergence
from ..guards import diverged, finite
from ..learner import AbstractLearner
from ..protocol import Info, State, Tree
from ..streams.items import Chunk, Series, size


class Reference:
    """Any learner at work, one scan a chunk."""

    name = "jax"

    def __init__(self, learner: AbstractLearner, state: State):
        self.learner, self._state = learner, state

    def state(self) -> State:
        """All that the learner knows."""
        return self._state

    def take(self, chunk: Chunk) -> np.ndarray:
        """Learn from a chunk: the loss of each item. Where a number is no longer finite, Divergence with the state
        before it.
        """
        following, info = scan(self.learner, self._state, chunk)
        if not sound(following, info, chunk):
            raise divergence(self.learner, self._state, chunk)
        self._state = following
        return np.asarray(info.loss)


@jax.jit
def scan(learner: AbstractLearner, state: State, chunk: Chunk) -> tuple[State, Info]:
    """The state after a chunk, and an Info entry for each item: pure, for jit and vmap."""
    count = size(chunk)
    ts = jax.vmap(lambda i: counter.later(state.t, i))(jnp.arange(count, dtype=jnp.uint32))
    draws = jax.vmap(lambda t: learner.draw(state, t))(ts)
    return jax.lax.scan(lambda state, item: step(learner, state, *item), state, (chunk, draws))


def step(learner: AbstractLearner, state: State, item: Chunk, draws: Tree) -> tuple[State, Info]:
    """One item: a value is the target, then the input; a pair is the input, then its target."""
    if item.reset is not None and jnp.ndim(item.reset):
        state = learner.reset(state, item.reset)  # of several streams, those that begin anew
    elif item.reset is not None:
        state = jax.lax.cond(item.reset, learner.reset, lambda state: state, state)
    if isinstance(item, Series):
        state, info = learner.observe_unchecked(state, item.values, state)
        return learner.advance_unchecked(state, item.values, draws), info
    state = learner.advance_unchecked(state, item.x, draws)
    if item.y is None:
        return state, _no_target(state)
    if item.seen is None:
        return learner.observe_unchecked(state, item.y, state)
    return jax.lax.cond(
        item.seen, lambda s: learner.observe_unchecked(s, item.y, s), lambda s: (s, _no_target(s)), state
    )


def _no_target(state: State) -> Info:
    return Info(jnp.full((), jnp.nan, jax.tree.leaves(state.h)[0].dtype))


@jax.jit
def sound(state: State, info: Info, chunk: Chunk) -> Bool[Array, ""]:
    """Whether a chunk left all numbers finite."""
    return finite(state) & jnp.all(_as_expected(info.loss, chunk))


def _as_expected(loss: Array, chunk: Chunk) -> Array:
    """A loss is finite where there was a target."""
    if isinstance(chunk, Series) or (chunk.y is not None and chunk.seen is None):
        return jnp.isfinite(loss)
    return jnp.isfinite(loss) | (jnp.logical_not(chunk.seen) if chunk.seen is not None else True)


def divergence(learner: AbstractLearner, state: State, chunk: Chunk) -> Divergence:
    """Replay a chunk that went wrong, one step at a time, to the last state that was good."""
    _, good, bad, info = _replay(learner, state, chunk)
    return diverged(good, bad, info)


@jax.jit
def _replay(learner: AbstractLearner, state: State, chunk: Chunk) -> tuple[Any, ...]:
    def take(i: Array, state: State) -> tuple[State, Info]:
        item = jax.tree.map(lambda leaf: leaf[i], chunk)
        following, info = step(learner, state, item, learner.draw(state, state.t))
        expected = _as_expected(info.loss, item)
        return following, Info(jnp.where(expected & ~jnp.isfinite(info.loss), 0, info.loss))

    def goes_on(carry: tuple[Any, ...]) -> Array:
        i, _, following, info = carry
        return (i < size(chunk) - 1) & finite((following, info))

    def go_on(carry: tuple[Any, ...]) -> tuple[Any, ...]:
        i, _, following, _ = carry
        return i + 1, following, *take(i + 1, following)

    start = jnp.zeros((), jnp.int32)
    return jax.lax.while_loop(goes_on, go_on, (start, state, *take(start, state)))
