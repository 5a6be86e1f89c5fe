"""What any learner can do: observe a target, advance on an input, run on a stream; checked at the door."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import jax
from jaxtyping import Array

from .errors import BadItem
from .guards import checked, expect_finite
from .protocol import Info, Moves, Params, State, Tree


class AbstractLearner(ABC):
    """What any learner can do: its verbs, checked at the door, and its `system`, which knows the values that a stream
    may hold.
    """

    system: Any

    @property
    def spaces(self) -> Any:
        """What says which values a stream may hold."""
        return self.system

    @abstractmethod
    def predict(self, state: State) -> Tree:
        """y_hat, the prediction of the next target."""

    @abstractmethod
    def observe(self, state: State, y: Tree, at: State | None = None) -> tuple[State, Info]:
        """Score the prediction of y, and learn from it."""

    @abstractmethod
    def advance(self, state: State, x: Tree, draws: Tree = None) -> State:
        """Move on an input."""

    @abstractmethod
    def begin_moves(self, params: Params, h: Tree, influence: Tree) -> Moves:
        """What the updates know before the first target."""

    @abstractmethod
    def reset(self, state: State, where: Any = None) -> State:
        """A new episode: h as it was at the start; what was learned stays. `where`: on which of several streams."""

    def work(self, state: State, engine: str) -> object | None:
        """A session of its own, for a learner that is made of learners; None where an engine runs it."""
        return None

    def probabilities(self, state: State) -> Array:
        """The probability of each symbol to be the next target: softmax(y_hat)."""
        return self.as_probabilities(self.predict(state))

    def as_probabilities(self, y_hat: Tree) -> Array:
        """A prediction as probabilities; a ValueError where numbers are predicted, or by a readout of your own."""
        probabilities = getattr(getattr(self.system, "readout", None), "probabilities", None)
        if probabilities is None:
            raise ValueError(f"{self.system} does not predict symbols: there are no probabilities")
        return probabilities(y_hat)

    def step(self, state: State, *item: Tree) -> tuple[State, Info]:
        """One item of a stream: `step(state, y)`, a value that is the target and then the next input, or `step(state,
        x, y)`, an input and then its target.
        """
        if len(item) == 1:
            state, info = self.observe(state, *item)
            return self.advance(state, *item), info
        x, y = item
        state = self.advance(state, x)
        return (state, Info(float("nan"))) if y is None else self.observe(state, y)

    def run(
        self,
        state: State,
        stream: Any,
        *more: Any,
        engine: str = "auto",
        chunk: int | None = None,
        callbacks: Sequence[Callable[[State, Any], Any]] = (),
    ) -> Any:
        """Train on a stream: returns `(state, info)` on arrays and lists, with one entry a step; on an iterator yields
        `(state, info)` chunk by chunk.

        `engine` is "auto" (the fastest that runs this learner), "fused" or "jax"; `chunk` how many items are taken at
        once (as many as take a moment, by default); a callback gets the state and the info after each chunk, and stops
        the run by returning something true.
        """
        from .engines import drive  # the one upward wire

        if more:
            raise ValueError("run takes one stream: inputs and their targets are one pair, run(state, (x, y))")
        return drive.run(self, state, stream, engine=engine, chunk=chunk, callbacks=callbacks)

    def training(self, state: State, stream: Any, **options: Any) -> Iterator[tuple[State, Any]]:
        """The same as `run`, chunk by chunk on arrays too."""
        from .engines import drive

        return drive.training(self, state, stream, **options)


class PureLearner(AbstractLearner):
    """A learner made of four pure functions of a state, which engines scan, differentiate and map over."""

    estimator: Any
    updates: Any

    @abstractmethod
    def predict_unchecked(self, state: State) -> Tree: ...

    @abstractmethod
    def observe_unchecked(self, state: State, y: Tree, at: State, late: bool = False) -> tuple[State, Info]: ...

    @abstractmethod
    def advance_unchecked(self, state: State, x: Tree, draws: Tree) -> State: ...

    @abstractmethod
    def draw(self, state: State, t: Array) -> Tree:
        """The random draws of the advance at time t."""

    def predict(self, state: State) -> Tree:
        return predict_jit(self, state)

    def observe(self, state: State, y: Tree, at: State | None = None) -> tuple[State, Info]:
        """Score the prediction of y, estimate the gradient, move the parameters.

        A late target gives `at`, the state from which it was predicted: loss and gradient are taken there, the
        parameters of `state` move.
        """
        if y is None:
            raise BadItem("y: there is no target to observe; advance alone", state=state)
        y = checked(self.spaces.target_space, y, "y", state)
        following, info = observe_jit(self, state, y, state if at is None else at, late=at is not None)
        expect_finite(self, state, following, info)
        return following, info

    def advance(self, state: State, x: Tree, draws: Tree = None) -> State:
        """Reduce the influence estimate, move the system and the estimate one step. `draws` replaces the random draws
        of the estimator.
        """
        x = checked(self.spaces.input_space, x, "x", state)
        following = advance_jit(self, state, x, draws)
        expect_finite(self, state, following)
        return following


def expect_one_stream(where: Any) -> None:
    """Refuse to begin an episode on some of several streams where there is one."""
    if where is not None:
        raise ValueError("where: there is one stream; nbt.Together(learner, streams=...) has several")


@jax.jit
def predict_jit(learner: PureLearner, state: State) -> Tree:
    return learner.predict_unchecked(state)


@jax.jit
def advance_jit(learner: PureLearner, state: State, x: Tree, draws: Tree) -> State:
    return learner.advance_unchecked(state, x, learner.draw(state, state.t) if draws is None else draws)


@partial(jax.jit, static_argnames="late")
def observe_jit(learner: PureLearner, state: State, y: Tree, at: State, late: bool) -> tuple[State, Info]:
    return learner.observe_unchecked(state, y, at, late)
