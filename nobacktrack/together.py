"""Several streams at once with one set of parameters: each has a state and an influence of its own, gradients are
averaged.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from . import counter
from .configuration import at_least, configuration, expect_part, set_field, static
from .errors import BadItem
from .learner import Learner
from .protocol import Evidence, Info, Moves, Params, State, Tree
from .verbs import PureLearner


@configuration
class Beside:
    """A space of values, one for each stream, along a first axis."""

    space: Any
    streams: int = static()

    @property
    def rank(self) -> int:
        return self.space.rank + 1

    def check(self, values: Any, name: str, *, many: bool) -> Any:
        """Values of shape (streams, ...), or (time, streams, ...)."""
        array = np.asarray(values)
        if array.ndim < 1 + many or array.shape[many] != self.streams:
            wanted = "(time, streams, ...)" if many else "(streams, ...)"
            raise BadItem(f"{name}: expected shape {wanted} with {self.streams} streams, got {array.shape}")
        if not many:
            return self.space.check(array, name, many=True)
        try:
            flat = self.space.check(array.reshape(-1, *array.shape[2:]), name, many=True)
        except BadItem as error:
            if error.index is None:
                raise
            index, stream = divmod(error.index, self.streams)
            text = str(error).replace(f"at index {error.index}", f"at index {index}, stream {stream}")
            raise BadItem(text, index) from None
        return flat.reshape(array.shape)

    def example(self, dtype: Any) -> Any:
        one = self.space.example(dtype)
        return np.broadcast_to(one, (self.streams, *np.shape(one)))


@configuration
class _System:
    """What engines ask of the system of several streams."""

    one: Any
    streams: int = static()

    @property
    def input_space(self) -> Beside:
        return Beside(self.one.input_space, self.streams)

    @property
    def target_space(self) -> Beside:
        return Beside(self.one.target_space, self.streams)

    @property
    def packed(self) -> bool:
        return self.one.packed


@configuration
class Together(PureLearner):
    """A learner on several streams: `y` and `x` have one value a stream, the loss is the mean over the streams.

    dl/dtheta is the mean of the gradients of the streams, and a filter takes in the mean of their outer products. An
    episode may begin on any of the streams: `reset(state, where)`, or a flag for each stream in `run`.
    """

    learner: Learner
    streams: int = static()

    def __post_init__(self) -> None:
        expect_part(self.learner, "learner", "differentiate", "a Learner")
        set_field(self, "streams", at_least("streams", self.streams, 1))

    @property
    def system(self) -> _System:
        return _System(self.learner.system, self.streams)

    @property
    def estimator(self) -> Any:
        return self.learner.estimator

    @property
    def updates(self) -> Any:
        return self.learner.updates

    def init(self, key: jax.Array | int, **options: Any) -> State:
        """The state before the first targets: all streams begin alike."""
        state = self.learner.init(key, **options)
        return state._replace(h=self._spread(state.h), influence=self._spread(state.influence))

    def reset(self, state: State, where: Any = None) -> State:
        """A new episode, on all streams or on those where `where` is true."""
        fresh = self._each(lambda one: self.learner.reset(one), state)
        if where is None:
            return fresh
        where = jnp.asarray(where)

        def chosen(new: Array, old: Array) -> Array:
            return jnp.where(where.reshape(-1, *(1,) * (old.ndim - 1)), new, old)

        h, influence = jax.tree.map(chosen, (fresh.h, fresh.influence), (state.h, state.influence))
        return state._replace(h=h, influence=influence)

    # --- the algorithm, for engines: pure, no checks ----------------------------------------------------------------

    def as_probabilities(self, y_hat: Tree) -> Array:
        """Predictions as probabilities, of each stream."""
        return self.learner.as_probabilities(y_hat)

    def predict_unchecked(self, state: State) -> Tree:
        return jax.vmap(lambda h: self.learner.predict_unchecked(state._replace(h=h)))(state.h)

    def observe_unchecked(self, state: State, y: Tree, at: State, late: bool = False) -> tuple[State, Info]:
        """(phi, theta) make one joint step along the mean of the gradients."""
        loss, gradients, influence, ready = jax.vmap(lambda h, influence, y: self._differentiate(at, h, influence, y))(
            at.h, at.influence, y
        )
        t = counter.ordinal(state.t, jnp.result_type(loss))
        noise = {"phi": self._noise(at.influence), "theta": self._noise(influence)}
        heard = jax.vmap(self.learner.system.shown)(at.h)

        def move(group: str) -> tuple[Tree, Tree]:
            inputs = self.learner.inputs if group == "theta" else 0
            evidence = _mean(getattr(gradients, group), self.streams)
            evidence = evidence._replace(noise=noise[group], heard=heard, inputs=inputs)
            update = getattr(self.updates, group)
            return update.apply(getattr(state.update, group), getattr(state.params, group), evidence, t)

        phi_move, phi = move("phi")
        stay = state.update.theta, state.params.theta
        theta_move, theta = jax.lax.cond(jnp.any(ready), lambda: move("theta"), lambda: stay)
        following = state._replace(
            params=state.params._replace(theta=theta, phi=phi),
            influence=state.influence if late else influence,
            update=Moves(theta_move, phi_move),
        )
        return following, Info(jnp.mean(loss))

    def advance_unchecked(self, state: State, x: Tree, draws: Tree) -> State:
        following = self._each(lambda one, x, draws: self.learner.advance_unchecked(one, x, draws), state, x, draws)
        return following._replace(t=counter.later(state.t))

    def draw(self, state: State, t: Array) -> Tree:
        """The draws of each stream, from a key of its own; the first one has those that it would have alone."""
        numbers = jnp.arange(self.streams, dtype=jnp.uint32)
        keys = jax.vmap(lambda i: jnp.stack([state.key[0], state.key[1] ^ i]))(numbers)
        return jax.vmap(lambda h, key: self.estimator.draw(self.learner.system, h, key, t))(state.h, keys)

    def _differentiate(self, state: State, h: Tree, influence: Tree, y: Tree) -> tuple[Array, Params, Tree, Array]:
        loss, evidence, influence, ready = self.learner.differentiate(state._replace(h=h, influence=influence), y)
        theta = jax.tree.map(lambda leaf: jnp.where(ready, leaf, 0), evidence.theta.gradient)
        return loss, Params(theta, evidence.phi.gradient), influence, jnp.asarray(ready)

    def begin_moves(self, params: Params, h: Tree, influence: Tree) -> Moves:
        return self.learner.begin_moves(params, h, influence)

    def _noise(self, influence: Tree) -> Any:
        """The mean over the streams, where it is known."""
        if self.learner.noise(influence) is None:
            return None
        return jnp.mean(jax.vmap(lambda one: jnp.asarray(self.learner.noise(one)))(influence))

    def _each(self, verb: Any, state: State, *values: Any) -> State:
        """A verb on every stream: what is shared stays as it is."""

        def one(h: Tree, influence: Tree, *values: Any) -> tuple[Tree, Tree]:
            following = verb(state._replace(h=h, influence=influence), *values)
            return following.h, following.influence

        h, influence = jax.vmap(one)(state.h, state.influence, *values)
        return state._replace(h=h, influence=influence)

    def _spread(self, tree: Tree) -> Tree:
        return jax.tree.map(lambda leaf: jnp.repeat(jnp.asarray(leaf)[None], self.streams, axis=0), tree)


def _mean(gradients: Tree, streams: int) -> Evidence:
    """The evidence of several streams on a group of parameters."""

    def refuse(*_: Any) -> Any:
        raise ValueError("several streams have no one dy/dtheta: use fisher=nbt.OuterProduct()")

    mean = jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0), gradients)
    single = jax.tree.map(lambda leaf: leaf * streams**-0.5, gradients)
    return Evidence(mean, refuse, refuse, single)
