"""A learner at work: what every engine is, and how the step that diverged is found."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ..errors import Divergence
from ..guards import diverged
from ..protocol import Outlook, Params, State, Tree
from ..streams.items import Chunk, has_target, part, size
from ..verbs import AbstractLearner


class Session(ABC):
    """A learner at work on checked values, its numbers changed in place.

    An engine is a subclass: it says which learners it cannot run, and has the verbs below. `take` is the same for all:
    a chunk, and the last good state where a number is no longer finite.
    """

    name: ClassVar[str]
    lengths: ClassVar[tuple[int, ...]] = ()  # of chunks that need no compilation of their own; (): any
    guarded: ClassVar[bool] = False  # whether no number of it can stop being finite
    reason: str = ""  # why it is not the engine that was asked for, or a faster one

    def __init__(self, learner: AbstractLearner, state: State):
        self.learner = learner
        self.become(state)

    @classmethod
    @abstractmethod
    def refusal(cls, learner: AbstractLearner, state: State) -> str | None:
        """Why this engine cannot run a learner from a state, or None."""

    @property
    @abstractmethod
    def t(self) -> int:
        """How many inputs have been seen."""

    @abstractmethod
    def chunk_size(self, at_hand: bool) -> int:
        """How many items a chunk should have; `at_hand`: the stream need not be waited for."""

    @abstractmethod
    def process(self, chunk: Chunk, y_hats: np.ndarray | None = None) -> np.ndarray:
        """Learn from a chunk: the loss of each item, NaN where it had no target. `y_hats`, an array of the type of the
        state, gets the prediction of each.
        """

    @abstractmethod
    def predict(self) -> Any:
        """y_hat, the prediction of the next target."""

    @abstractmethod
    def observe(self, y: Any) -> float:
        """Learn from a target: its loss."""

    @abstractmethod
    def advance(self, x: Any) -> None:
        """Move on an input."""

    @abstractmethod
    def state(self) -> State:
        """All that the learner knows."""

    @abstractmethod
    def become(self, state: State) -> None:
        """Go on from another state of the same learner."""

    @abstractmethod
    def snapshot(self) -> Any:
        """What `restore` needs to come back to this moment."""

    @abstractmethod
    def restore(self, snapshot: Any) -> None:
        """Come back to the moment of a snapshot."""

    @abstractmethod
    def finite(self) -> bool:
        """Whether all numbers of the state are finite."""

    @property
    def params(self) -> Params:
        """The parameters of now, for a look at them."""
        return self.state().params

    def experts(self) -> dict[str, float]:
        """What each expert of a committee has cost since the session began, in nats."""
        return {}

    def errors(self) -> dict[str, float]:
        """The root of the recent mean square error of each expert of a committee on numbers."""
        return {}

    def outlook(self) -> Outlook:
        """What a committee on numbers expects of the targets to come."""
        raise ValueError(f"{self.learner} has no outlook: a committee on numbers has, nbt.Committee")

    def coverage(self) -> float:
        """The share of targets that were inside the intervals of a committee on numbers."""
        return math.nan

    def returns(self) -> int:
        """How often members of a committee were set back to an earlier self."""
        return 0

    def predict_after(self, x: Tree) -> Tree:
        """y_hat of the target after an input, which is not taken yet."""
        before = self.snapshot()
        self.advance(x)
        y_hat = self.predict()
        self.restore(before)
        return y_hat

    def take(self, chunk: Chunk, y_hats: np.ndarray | None = None) -> np.ndarray:
        """Learn from a chunk: the loss of each item, and its prediction in `y_hats`, if given. Where a number is no
        longer finite, Divergence, and the session is where it was before that item.
        """
        before = self.snapshot()
        losses = self.process(chunk, y_hats)
        if np.isfinite(losses[has_target(chunk)]).all() and self.finite():
            return losses
        raise replay(self, before, [partial(self._process_one, chunk, i) for i in range(size(chunk))])

    def _process_one(self, chunk: Chunk, i: int) -> float | None:
        """The loss of item i, None if it had no target."""
        item = part(chunk, i, i + 1)
        loss = self.process(item)
        return float(loss[0]) if has_target(item)[0] else None


def replay(session: Session, before: Any, steps: Sequence[Callable[[], float | None]]) -> Divergence:
    """Take steps again that led to a number which is not finite, from the snapshot before them, one at a time: the
    error, with the session at the last good state.

    A step taken alone may be rounded in another way than in its chunk; where none of them diverges now, the last good
    state is the one before them all.
    """
    ended, losses = session.state(), []
    session.restore(before)
    for step in steps:
        good, loss = session.snapshot(), step()
        known = loss is None or math.isfinite(loss)
        if not (known and session.finite()):
            bad = session.state()
            session.restore(good)
            break
        losses.append(math.nan if loss is None else loss)
    else:
        session.restore(before)
        bad, known, losses = ended, True, []
    error = diverged(session.learner, session.state(), bad, known)
    error.losses = np.array(losses)
    return error
