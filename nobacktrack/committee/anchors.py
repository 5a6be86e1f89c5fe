"""A network and its anchor: a frozen copy of it at a good moment, which runs along and tells when something is lost."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..counter import later
from ..engines import begin
from ..engines.session import Session
from ..errors import Divergence
from ..estimators import Forward
from ..learner import Learner
from ..protocol import NATS_PER_BIT, State
from ..registry import register
from ..streams.items import Chunk, part, size
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
    diverged, and how often it became the anchor; whether it rests until the next look, since it diverged.
    """

    lead: Any
    patience: Any
    recent_returns: Any
    returns: Any
    divergences: Any
    anchors: Any
    rests: Any

    @classmethod
    def first(cls) -> AnchorRecord:
        return cls(np.float32(0), np.float32(LOST), *(np.uint32(0) for _ in range(5)))


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
    One that diverged goes back at once, and learns nothing until the next look. One that has won 20 bits becomes the
    anchor, every 8,000 inputs at most.

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

    @property
    def _rests(self) -> bool:
        return bool(self.record.rests)

    def take(self, now: Chunk, late: Chunk, y_hats: np.ndarray) -> None:
        """Predict from a chunk of inputs, and learn from one of inputs and targets: what the learner and its anchor
        expected goes to the two parts of `y_hats`.
        """
        mine, its = y_hats
        _run(self.anchor, now, its)
        if self.ahead is not None:
            _run(self.ahead, now, mine)
        if not self._rests:
            try:
                self.session.take(late, mine if self.ahead is None else None)
            except Divergence as error:
                if self.ahead is None:
                    mine[len(error.losses) + 1 :] = np.nan
                self._return(diverged=True)
        elif self.ahead is None:
            mine[:] = its
        if self._rests:
            self.session.become(self._set_back())
        _fill(mine, its)

    def predict(self) -> np.ndarray:
        return _fill(*np.stack([self._foreseeing.predict(), self.anchor.predict()]))

    def predict_after(self, x: Any) -> np.ndarray:
        return _fill(*np.stack([self._foreseeing.predict_after(x), self.anchor.predict_after(x)]))

    def observe(self, y: Any) -> None:
        if not self._rests and not np.isfinite(self.session.observe(y)):
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
        if self.ahead is not None and self.session.finite():
            params = jax.tree.map(np.array, self.session.params)
            self.ahead.become(self.ahead.state()._replace(params=params))

    def judge(self, lost: float) -> None:
        """Look at what was lost against the anchor since the last look, in nats."""
        for copy in (self.anchor, self.ahead):
            if copy is not None and not copy.finite():
                copy.become(copy.learner.reset(copy.state()))
        if self._rests:
            self.session.become(self._set_back())
            self._note(rests=0)
        if not self.session.finite():
            self._return(diverged=True, rests=False)
            self.refresh()
            return
        lead = float(self.record.lead) - lost
        if lead > WON and self.session.t // PERIOD % PERIODS == 0:
            self._good = self.session.state()
            h = self._foreseeing.state().h
            self.anchor.become(still_state(self.learner, self._good)._replace(h=h))
            self._note(lead=0, patience=LOST, recent_returns=0, anchors=int(self.record.anchors) + 1)
        elif lead < -float(self.record.patience):
            self._return(diverged=False, rests=False)
            self.refresh()
        else:
            self._note(lead=lead)

    def _return(self, *, diverged: bool, rests: bool = True) -> None:
        """Go on from the anchor, with smaller steps."""
        record = self.record
        self._note(
            lead=0,
            patience=min(2 * float(record.patience), MOST_PATIENCE),
            recent_returns=min(int(record.recent_returns) + 1, MOST_BRAKING),
            returns=int(record.returns) + 1,
            divergences=int(record.divergences) + diverged,
            rests=rests,
        )
        self.session.become(self._set_back())

    def _set_back(self) -> State:
        """The anchor, as a learner that goes on from here. One that learns late must not know what the anchor has seen
        since: an episode begins.
        """
        now, good = self.anchor.state(), self._good
        braked = _braked(2.0 ** int(self.record.recent_returns))
        following = good._replace(
            h=now.h,
            t=now.t,
            influence=self.learner.estimator.forget(good.influence),
            update=jax.tree_util.tree_map_with_path(braked, good.update),
        )
        return following if self.ahead is None else self.learner.reset(following)

    def _note(self, **changes: float) -> None:
        typed = {name: getattr(self.record, name).dtype.type(value) for name, value in changes.items()}
        self.record = self.record._replace(**typed)


def _run(copy: Session, chunk: Chunk, y_hats: np.ndarray) -> None:
    """Have a frozen copy predict; after an input that makes its state infinite, an episode begins."""
    begin, count = 0, size(chunk)
    while begin < count:
        try:
            copy.take(part(chunk, begin, count), y_hats[begin:])
            return
        except Divergence as error:
            good = copy.learner.reset(copy.state())
            copy.become(good._replace(t=np.asarray(later(jnp.asarray(good.t)))))
            begin += len(error.losses) + 1


def _fill(mine: np.ndarray, its: np.ndarray) -> np.ndarray:
    """What a learner and its anchor expect, where the learner is lost both as the anchor does."""
    lost = ~np.isfinite(mine).all(axis=-1)
    mine[lost] = its[lost]
    return np.stack([mine, its])


def _braked(factor: float) -> Any:
    """What multiplies J of a filter, and nothing else of an update."""

    def brake(path: Any, leaf: Any) -> Any:
        is_information = any(getattr(key, "name", "") == "information" for key in path)
        return leaf * np.asarray(factor, leaf.dtype) if is_information else leaf

    return brake
