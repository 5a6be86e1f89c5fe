"""The reference engine: any learner, as one `jax.lax.scan` over a chunk, with the draws of the whole chunk made
before it.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from .. import counter
from ..guards import finite
from ..protocol import Info, State, Tree
from ..streams.items import Chunk, Series, size
from ..verbs import AbstractLearner, PureLearner, advance_jit, observe_jit, predict_jit
from .session import Session

LARGEST_CHUNK = 4096
DRAWS_BYTES = 1 << 23


class Reference(Session):
    """Any learner at work, one scan a chunk: a state goes in, another comes out."""

    name = "jax"
    learner: PureLearner
    lengths = (LARGEST_CHUNK, 256, 16, 1)

    @classmethod
    def refusal(cls, learner: AbstractLearner, state: State) -> str | None:
        return None if isinstance(learner, PureLearner) else "it is not made of pure functions"

    @property
    def t(self) -> int:
        return self._state.steps

    def chunk_size(self, at_hand: bool) -> int:
        """As many steps as keep the draws of a chunk small."""
        draws = jax.eval_shape(lambda state: self.learner.draw(state, state.t), self._state)
        each = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(draws))
        return int(min(LARGEST_CHUNK, max(16, 2 ** int(np.log2(DRAWS_BYTES / max(1, each))))))

    def process(self, chunk: Chunk, y_hats: np.ndarray | None = None) -> np.ndarray:
        if y_hats is None:
            self._state, info = scan(self.learner, self._state, chunk)
        else:
            self._state, (info, y_hats[:]) = scan_with_predictions(self.learner, self._state, chunk)
        return np.asarray(info.loss)

    def predict(self) -> Tree:
        return predict_jit(self.learner, self._state)

    def observe(self, y: Tree) -> float:
        y = self.learner.system.target_space.check(y, "y", many=False)
        self._state, info = observe_jit(self.learner, self._state, y, self._state, late=False)
        return float(info.loss)

    def advance(self, x: Tree) -> None:
        x = self.learner.system.input_space.check(x, "x", many=False)
        self._state = advance_jit(self.learner, self._state, x, None)

    def state(self) -> State:
        return self._state

    def become(self, state: State) -> None:
        self._state = state

    def snapshot(self) -> State:
        return self._state

    def restore(self, snapshot: State) -> None:
        self._state = snapshot

    def finite(self) -> bool:
        return bool(finite(self._state))


@jax.jit
def scan(learner: PureLearner, state: State, chunk: Chunk) -> tuple[State, Info]:
    """The state after a chunk, and an Info entry for each item: pure, for jit and vmap."""
    return _scan(lambda state, item: step(learner, state, *item), learner, state, chunk)


@jax.jit
def scan_with_predictions(learner: PureLearner, state: State, chunk: Chunk) -> tuple[State, tuple[Info, Tree]]:
    """The same, and y_hat of each item."""

    def each(state: State, item: tuple[Chunk, Tree]) -> tuple[State, tuple[Info, Tree]]:
        state = _at_target(learner, state, *item)
        after, info = _after_target(learner, state, *item)
        return after, (info, learner.predict_unchecked(state))

    return _scan(each, learner, state, chunk)


def _scan(each: Callable[..., Tree], learner: PureLearner, state: State, chunk: Chunk) -> tuple[State, Tree]:
    """A step on each item of a chunk, with its draws."""
    count = size(chunk)
    ts = jax.vmap(lambda i: counter.later(state.t, i))(jnp.arange(count, dtype=jnp.uint32))
    draws = jax.vmap(lambda t: learner.draw(state, t))(ts)
    return jax.lax.scan(each, state, (chunk, draws))


def step(learner: PureLearner, state: State, item: Chunk, draws: Tree) -> tuple[State, Info]:
    """One item: a value is the target, then the input; a pair is the input, then its target."""
    return _after_target(learner, _at_target(learner, state, item, draws), item, draws)


def _at_target(learner: PureLearner, state: State, item: Chunk, draws: Tree) -> State:
    """The state that predicts the target of an item."""
    if item.reset is not None and jnp.ndim(item.reset):
        state = learner.reset(state, item.reset)  # of several streams, those that begin anew
    elif item.reset is not None:
        state = jax.lax.cond(item.reset, learner.reset, lambda state: state, state)
    return state if isinstance(item, Series) else learner.advance_unchecked(state, item.x, draws)


def _after_target(learner: PureLearner, state: State, item: Chunk, draws: Tree) -> tuple[State, Info]:
    """The state after the target, if there is one."""
    if isinstance(item, Series):
        state, info = learner.observe_unchecked(state, item.values, state)
        return learner.advance_unchecked(state, item.values, draws), info
    if item.y is None:
        return state, _no_target(state)
    if item.seen is None:
        return learner.observe_unchecked(state, item.y, state)
    return jax.lax.cond(
        item.seen,
        lambda state: learner.observe_unchecked(state, item.y, state),
        lambda state: (state, _no_target(state)),
        state,
    )


def _no_target(state: State) -> Info:
    return Info(jnp.full((), jnp.nan, jax.tree.leaves(state.h)[0].dtype))
