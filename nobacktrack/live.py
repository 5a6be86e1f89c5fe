"""One step at a time, from Python, in microseconds: a learner that is changed in place.

`Learner` passes states in and out, which costs some hundred microseconds a call; a `Live` one holds its numbers and
gives a State back when asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from . import checkpoint
from .engines import begin
from .engines.session import replay
from .errors import BadItem
from .guards import expect_state
from .protocol import Outlook, State
from .systems.spaces import Symbols
from .verbs import AbstractLearner

JOURNAL = 512  # verbs after which all numbers are looked at


class Live:
    """A learner at work on a live stream, changed in place: observe a target, advance on an input.

    `state` is where it begins, `learner.init(0)` by default; `engine` is "auto", "fused" or "jax". A loss that is not
    finite raises `Divergence` with the last good state. All other numbers are looked at every 512 verbs and whenever
    the state is asked for; the steps since are then taken again, to find the one that went wrong.
    """

    def __init__(
        self, learner: AbstractLearner, state: State | None = None, *, engine: str = "auto", strict: bool = False
    ):
        if not isinstance(learner, AbstractLearner):
            raise ValueError(f"learner must be a learner such as nbt.Learner(system, estimator, update), not {learner}")
        state = learner.init(0) if state is None else state  # pyright: ignore[reportAttributeAccessIssue]
        expect_state(state)
        self.learner = learner
        self._session = begin(learner, state, engine, strict=strict)
        self._x, self._y = learner.spaces.input_space, learner.spaces.target_space
        self._begin_journal()

    def __repr__(self) -> str:
        return f"Live({self.learner}, t={self.t}, engine={self.engine!r})"

    @property
    def t(self) -> int:
        """How many inputs have been seen."""
        return self._session.t

    @property
    def engine(self) -> str:
        """The engine that is at work."""
        return self._session.name

    @property
    def reason(self) -> str:
        """Why it is not the engine that was asked for, or a faster one."""
        return self._session.reason

    @property
    def expert_errors(self) -> dict[str, float]:
        """Of a committee on numbers: the root of the mean square error of each expert over some 1,000 targets; of
        several outputs, over the deviation of each.
        """
        return self._session.errors()

    @property
    def outlook(self) -> Outlook:
        """Of a committee on numbers: what is expected of the targets to come, the next one first, with the ends of the
        intervals (`nbt.Forecasts(ahead=, interval=)`).
        """
        return self._session.outlook()

    @property
    def coverage(self) -> float:
        """Of a committee with intervals: the share of targets that were inside."""
        return self._session.coverage()

    @property
    def returns(self) -> int:
        """How often networks of a committee were set back to their anchors."""
        return self._session.returns()

    @property
    def state(self) -> State:
        """All that the learner knows, for `nbt.save`, `run`, or another learner."""
        self._look()
        return self._session.state()

    def predict(self, *x: Any) -> np.ndarray:
        """y_hat, the prediction of the next target; `predict(x)`: of the target after the input x, which is not taken
        yet.
        """
        if not x:
            return self._session.predict()
        return self._session.predict_after(_checked(self._x, x[0], "x", self))

    def probabilities(self, *x: Any) -> np.ndarray:
        """The probability of each symbol to be the next target; `probabilities(x)`: after the input x."""
        return np.asarray(self.learner.as_probabilities(self.predict(*x)))

    def observe(self, y: Any, at: State | None = None) -> float:
        """Score the prediction of y, estimate the gradient, move the parameters: the loss, in nats.

        A late target gives `at`, the `state` from which it was predicted; that takes milliseconds.
        """
        y = _checked(self._y, y, "y", self)
        if at is None:
            return self._observe(y)
        state, info = self.learner.observe(self.state, y, at)
        self.become(state)
        return float(info.loss)

    def advance(self, x: Any) -> None:
        """Reduce the influence estimate, move the system and the estimate one step."""
        self._advance(_checked(self._x, x, "x", self))

    def learn(self, *item: Any) -> float:
        """One item of a stream: `learn(y)`, a target and then the next input, or `learn(x, y)`, an input and then its
        target, which may be None. The loss, in nats.
        """
        x, y = item[0], item[-1]  # both are looked at before anything moves
        y = None if y is None and len(item) == 2 else _checked(self._y, y, "y", self)
        x = _checked(self._x, x, "x", self)
        if len(item) == 1:
            loss = self._observe(y)
            self._advance(x)
            return loss
        self._advance(x)
        return math.nan if y is None else self._observe(y)

    def reset(self, where: Any = None) -> None:
        """A new episode: h as it was at the start; what was learned stays. `where`: on which of several streams."""
        self.become(self.learner.reset(self.state, where))

    def become(self, state: State) -> None:
        """Go on from another state of the same learner."""
        self._session.become(state)
        self._begin_journal()

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

    # --- verbs on checked values, and a journal of them ------------------------------------------------------------

    def _observe(self, y: Any) -> float:
        loss = self._session.observe(y)
        self._note(self._session.observe, y)
        if not (math.isfinite(loss) or self._session.guarded):  # NaN there: nothing was foreseen of it
            self._look(loss)
        return loss

    def _advance(self, x: Any) -> None:
        self._session.advance(x)
        self._note(self._session.advance, x)

    def _note(self, verb: Callable[[Any], Any], value: Any) -> None:
        if self._session.guarded:
            return
        self._journal.append((verb, value))
        if len(self._journal) >= JOURNAL:
            self._look()
            self._begin_journal()

    def _begin_journal(self) -> None:
        self._before: Any = self._session.snapshot()
        self._journal: list[tuple[Callable[[Any], Any], Any]] = []

    def _look(self, loss: float = 0.0) -> None:
        """Whether all numbers are finite: the error otherwise, with the last good state."""
        if math.isfinite(loss) and self._session.finite():
            return
        error = replay(self._session, self._before, [partial(verb, value) for verb, value in self._journal])
        self._begin_journal()
        raise error


def _checked(space: Any, value: Any, name: str, live: Live) -> Any:
    """A value of a space; BadItem, with the state as it was, otherwise."""
    if type(value) is int and type(space) is Symbols and 0 <= value < space.size:
        return value
    try:
        if value is None:
            raise BadItem(f"{name}: there is none")
        found = space.check(value, name, many=False)
        # a copy: the caller may write over its own
        return np.array(found) if isinstance(found, np.ndarray) else jax.tree.map(np.array, found)
    except BadItem as error:
        error.state = live.state
        raise
