"""One step at a time, from Python, in microseconds: a learner that is changed in place.

`Learner` passes states in and out, which costs some hundred microseconds a call; a `Live` one holds its numbers and
gives a State back when asked.
"""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from . import checkpoint
from .engines import choose
from .engines.fused import Fused
from .errors import BadItem, Divergence
from .guards import diverged
from .learner import AbstractLearner
from .protocol import Info, State
from .systems.spaces import Symbols

REMEMBERED = 512  # verbs after which all numbers are looked at, and copied


class Live:
    """A learner at work on a live stream, changed in place: observe a target, advance on an input.

    A loss that is not finite raises `Divergence` with the last good state. All other numbers are looked at every 512
    verbs and whenever the state is asked for; the steps since are then taken again, to find the one that went wrong.
    """

    def __init__(self, learner: AbstractLearner, state: State | None = None, *, engine: str = "auto"):
        state = learner.init(0) if state is None else state  # pyright: ignore[reportAttributeAccessIssue]
        chosen, self.reason = choose(learner, state, engine)
        if engine == "fused" and self.reason:
            warnings.warn(f"{self.reason}; engine='jax' runs in its place", stacklevel=2)
        self.learner = learner
        self._steps = _InPlace(learner, state) if chosen is Fused else _Passed(learner, state)
        self._x, self._y = learner.system.input_space, learner.system.target_space

    def __repr__(self) -> str:
        return f"Live({self.learner}, t={self.t}, engine={self.engine!r})"

    @property
    def t(self) -> int:
        """How many inputs have been seen."""
        return self._steps.t

    @property
    def engine(self) -> str:
        """The engine that is at work."""
        return self._steps.name

    @property
    def state(self) -> State:
        """All that the learner knows, for `nbt.save`, `run`, or another learner."""
        return self._steps.state()

    def predict(self, *x: Any) -> np.ndarray:
        """y_hat, the prediction of the next target; `predict(x)`: of the target after the input x, which is not taken
        yet.
        """
        if not x:
            return self._steps.predict()
        (value,) = x
        return self._steps.foresee(_checked(self._x, value, "x", self))

    def observe(self, y: Any, at: State | None = None) -> float:
        """Score the prediction of y, estimate the gradient, move the parameters: the loss, in nats.

        A late target gives `at`, the `state` from which it was predicted; that takes milliseconds.
        """
        y = _checked(self._y, y, "y", self)
        return self._steps.observe(y) if at is None else self._steps.observe_late(y, at)

    def advance(self, x: Any) -> None:
        """Reduce the influence estimate, move the system and the estimate one step."""
        self._steps.advance(_checked(self._x, x, "x", self))

    def learn(self, *item: Any) -> float:
        """One item of a stream: `learn(y)`, a target and then the next input, or `learn(x, y)`, an input and then its
        target, which may be None. The loss, in nats.
        """
        x, y = item[0], item[-1]  # both are looked at before anything moves
        y = None if y is None and len(item) == 2 else _checked(self._y, y, "y", self)
        x = _checked(self._x, x, "x", self)
        if len(item) == 1:
            loss = self._steps.observe(y)
            self._steps.advance(x)
            return loss
        self._steps.advance(x)
        return math.nan if y is None else self._steps.observe(y)

    def reset(self, where: Any = None) -> None:
        """A new episode: h as it was at the start; what was learned stays. `where`: on which of several streams."""
        self._steps.become(self.learner.reset(self.state, where))

    def save(self, path: str | Path, notes: dict[str, Any] | None = None) -> None:
        """Write a checkpoint, atomically (`nbt.save`)."""
        checkpoint.save(path, self.learner, self.state, notes)

    @classmethod
    def load(cls, path: str | Path, learner: AbstractLearner | None = None, *, engine: str = "auto") -> Live:
        """Go on from a checkpoint, bit for bit; a learner made of your own functions is passed in."""
        found = checkpoint.load(path, learner)
        return cls(found.learner, found.state, engine=engine)

    def __reduce__(self) -> Any:
        return type(self), (self.learner, self.state)


def _checked(space: Any, value: Any, name: str, live: Live) -> Any:
    """A value of a space; BadItem, with the state as it was, otherwise."""
    if type(value) is int and type(space) is Symbols and 0 <= value < space.size:
        return value
    try:
        if value is None:
            raise BadItem(f"{name}: there is none")
        return np.array(space.check(value, name, many=False))  # a copy: the caller may write over its own
    except BadItem as error:
        error.state = live.state
        raise


class _InPlace:
    """The fused loop, one verb at a time."""

    name = "fused"

    def __init__(self, learner: Any, state: State):
        self._fused = Fused(learner, state)
        self._remember()

    @property
    def t(self) -> int:
        return self._fused.t

    def state(self) -> State:
        if not self._fused.sound():
            raise self._divergence()
        return self._fused.state()

    def predict(self) -> np.ndarray:
        return self._fused.predict()

    def foresee(self, x: Any) -> np.ndarray:
        before = self._fused.kept()
        self._fused.advance(x)
        y_hat = self._fused.predict()
        self._fused.keep(before)
        return y_hat

    def observe_late(self, y: Any, at: State) -> float:
        state, info = self._fused.learner.observe(self.state(), y, at)
        self.become(state)
        return float(info.loss)

    def become(self, state: State) -> None:
        self._fused = Fused(self._fused.learner, state)
        self._remember()

    def observe(self, y: Any) -> float:
        loss = self._fused.observe(y)
        self._taken.append((True, y))
        if not math.isfinite(loss):
            raise self._divergence()
        self._look_now_and_then()
        return loss

    def advance(self, x: Any) -> None:
        self._fused.advance(x)
        self._taken.append((False, x))
        self._look_now_and_then()

    def _look_now_and_then(self) -> None:
        if len(self._taken) < REMEMBERED:
            return
        if not self._fused.sound():
            raise self._divergence()
        self._remember()

    def _remember(self) -> None:
        self._kept, self._taken = self._fused.kept(), []

    def _divergence(self) -> Divergence:
        """Take the last steps again, to the last good state."""
        taken = self._taken
        self._fused.keep(self._kept)
        for target, value in taken:
            good, loss = self._fused.kept(), 0.0
            if target:
                loss = self._fused.observe(value)
            else:
                self._fused.advance(value)
            if not (math.isfinite(loss) and self._fused.sound()):
                bad = self._fused.state()
                self._fused.keep(good)
                self._remember()
                return diverged(self._fused.state(), bad, Info(np.float64(loss)))
        raise AssertionError("steps that diverged do not when taken again")


class _Passed:
    """The learner's own verbs, for what the fused loop does not run."""

    name = "jax"

    def __init__(self, learner: AbstractLearner, state: State):
        self._learner, self._state = learner, state

    @property
    def t(self) -> int:
        return self._state.steps

    def state(self) -> State:
        return self._state

    def predict(self) -> Any:
        return self._learner.predict(self._state)

    def foresee(self, x: Any) -> Any:
        return self._learner.predict(self._learner.advance(self._state, x))

    def observe(self, y: Any) -> float:
        return self.observe_late(y, None)

    def observe_late(self, y: Any, at: State | None) -> float:
        self._state, info = self._learner.observe(self._state, y, at)
        return float(info.loss)

    def become(self, state: State) -> None:
        self._state = state

    def advance(self, x: Any) -> None:
        self._state = self._learner.advance(self._state, x)
