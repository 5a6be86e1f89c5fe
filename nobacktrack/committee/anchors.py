"""A network and its anchor: a frozen copy of it at a good moment, which runs along and tells when something is lost."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from ..engines import begin
from ..engines.session import Session
from ..errors import Divergence
from ..estimators import Forward
from ..learner import Learner
from ..protocol import NATS_PER_BIT, State
from ..registry import register
from ..streams.items import Chunk
from ..updates import Frozen

PERIOD = 1000  # inputs between two looks
FRESH = 16  # inputs between two copies of the parameters, where targets come late
PERIODS = 8  # looks before a learner may become the anchor: copies cost time
LOST, WON = 40 * NATS_PER_BIT, 20 * NATS_PER_BIT  # nats
MOST_PATIENCE = 2.0**16 * LOST
MOST_BRAKING = 6


@register
class AnchorRecord(NamedTuple):
    """How far the learner is ahead of its anchor since the last look that changed anything, in nats; how much it may
    lose before it is set back; how often it was set back, of late and on the whole, how often of these because it
    diverged, and how often it became the anchor.
    """

    lead: Any
    patience: Any
    recent_returns: Any
    returns: Any
    divergences: Any
    anchors: Any

    @classmethod
    def first(cls) -> AnchorRecord:
        return cls(np.float32(0), np.float32(LOST), *(np.uint32(0) for _ in range(4)))


def still(learner: Learner) -> Learner:
    """The same system, without learning: nothing is carried and nothing moves."""
    return Learner(learner.system, Forward(), Frozen())


def still_state(learner: Learner, state: State) -> State:
    """The state of a frozen learner that predicts as another one does."""
    moves = still(learner).begin_moves(state.params, state.h, ())
    return state._replace(influence=(), update=moves)


class Anchored:
    """A learner at work beside its anchor.

    Every 1,000 inputs it is looked at. A learner that has lost 40 bits goes back to its anchor, with a larger J, so
    that its steps are smaller; it may lose twice as much the next time, so that a poor anchor cannot hold it for long.
    One that diverged goes back at once. One that has won 20 bits becomes the anchor, every 8,000 inputs at most.

    Where targets come rows after their forecast the learner is as late as they are, and a third copy, `ahead`, with the
    parameters that it had 16 inputs ago at most, predicts from the last inputs.
    """

    def __init__(self, learner: Learner, states: tuple[State, ...], record: AnchorRecord, engine: str):
        now, self._good, *ahead = states
        self.learner, self.record = learner, record
        self.session: Session = begin(learner, now, engine)
        self.anchor: Session = begin(still(learner), still_state(learner, self._good), engine)
        self.ahead = begin(still(learner), still_state(learner, ahead[0]), engine) if ahead else None

    def state(self) -> tuple[State, ...]:
        """Of the learner, of its anchor, whose h runs along, and of the one ahead, if there is one."""
        now, running = self.session.state(), self.anchor.state()
        good = self._good._replace(h=running.h, t=running.t)
        if self.ahead is None:
            return now, good
        ahead = self.ahead.state()
        return now, good, now._replace(params=ahead.params, h=ahead.h, t=ahead.t)

    @property
    def _foreseeing(self) -> Session:
        """What predicts."""
        return self.session if self.ahead is None else self.ahead

    def take(self, now: Chunk, late: Chunk, y_hats: np.ndarray) -> None:
        """Predict from a chunk of inputs, and learn from one of inputs and targets: what the learner and its anchor
        expected goes to the two parts of `y_hats`.
        """
        self.anchor.take(now, y_hats[1])
        if self.ahead is not None:
            self.ahead.take(now, y_hats[0])
        try:
            self.session.take(late, y_hats[0] if self.ahead is None else None)
        except Divergence:
            if self.ahead is None:
                y_hats[0] = y_hats[1]
            self._return(diverged=True)

    def predict(self) -> np.ndarray:
        return np.stack([self._foreseeing.predict(), self.anchor.predict()])

    def predict_after(self, x: Any) -> np.ndarray:
        return np.stack([self._foreseeing.predict_after(x), self.anchor.predict_after(x)])

    def observe(self, y: Any) -> None:
        if not np.isfinite(self.session.observe(y)):
            self._return(diverged=True)

    def advance(self, now: Any, late: Any) -> None:
        self.session.advance(late)
        self.anchor.advance(now)
        if self.ahead is not None:
            self.ahead.advance(now)

    def reset(self) -> None:
        """A new episode, for all copies."""
        self.session.become(self.learner.reset(self.session.state()))
        for copy in (self.anchor, self.ahead):
            if copy is not None:
                copy.become(still(self.learner).reset(copy.state()))

    def refresh(self) -> None:
        """The one ahead gets the parameters of now."""
        if self.ahead is not None:
            params = jax.tree.map(np.array, self.session.params)
            self.ahead.become(self.ahead.state()._replace(params=params))

    def judge(self, lost: float) -> None:
        """Look at what was lost against the anchor since the last look, in nats."""
        if not self.session.finite():
            self._return(diverged=True)
            return
        lead = float(self.record.lead) - lost
        if lead > WON and self.session.t // PERIOD % PERIODS == 0:
            self._good = self.session.state()
            h = self._foreseeing.state().h
            self.anchor.become(still_state(self.learner, self._good)._replace(h=h))
            self._note(lead=0, patience=LOST, recent_returns=0, anchors=int(self.record.anchors) + 1)
        elif lead < -float(self.record.patience):
            self._return(diverged=False)
        else:
            self._note(lead=lead)

    def _return(self, *, diverged: bool) -> None:
        """Go on from the anchor, with smaller steps."""
        now, record = self.anchor.state(), self.record
        recent = min(int(record.recent_returns) + 1, MOST_BRAKING)
        self.session.become(
            self._good._replace(
                h=now.h,
                t=now.t,
                influence=self.learner.estimator.forget(self._good.influence),
                update=jax.tree_util.tree_map_with_path(_braked(2.0**recent), self._good.update),
            )
        )
        self.refresh()
        self._note(
            lead=0,
            patience=min(2 * float(record.patience), MOST_PATIENCE),
            recent_returns=recent,
            returns=int(record.returns) + 1,
            divergences=int(record.divergences) + diverged,
        )

    def _note(self, **changes: float) -> None:
        typed = {name: getattr(self.record, name).dtype.type(value) for name, value in changes.items()}
        self.record = self.record._replace(**typed)


def _braked(factor: float) -> Any:
    """What multiplies J of a filter, and nothing else of an update."""

    def brake(path: Any, leaf: Any) -> Any:
        is_information = any(getattr(key, "name", "") == "information" for key in path)
        return leaf * np.asarray(factor, leaf.dtype) if is_information else leaf

    return brake
