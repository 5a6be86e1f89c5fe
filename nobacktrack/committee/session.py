"""A committee at work: members chunk by chunk in compiled loops of their own, then one panel that mixes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..engines.session import Session
from ..protocol import Outlook, Params, State
from ..streams.items import Chunk, Pairs, has_target, part, size
from ..verbs import AbstractLearner
from .anchors import FRESH, PERIOD, Anchored
from .committee import Committee, CommitteeMemory

CHUNK = 1 << 14


class CommitteeSession(Session):
    """All members at work, and the panel. A member that diverges goes back to its anchor, so that the committee itself
    never does.
    """

    name = "committee"
    guarded = True
    learner: Committee

    def __init__(self, learner: Committee, state: State, engine: str):
        self._engine = engine
        super().__init__(learner, state)

    @classmethod
    def refusal(cls, learner: AbstractLearner, state: State) -> str | None:
        return None if isinstance(learner, Committee) else f"{type(learner).__name__} is not a committee"

    # --- where it is ------------------------------------------------------------------------------------------------

    def become(self, state: State) -> None:
        self._members = self.learner.members(state, self._engine)
        self._panel: Any = self.learner.panel(state)
        self._key, self._lost = state.key, np.array(state.influence.lost)
        self._costs = np.zeros(len(self._panel.shares))  # of each expert since the state that it became, in nats
        self._dtype = np.dtype(state.h[0].dtype)

    def state(self) -> State:
        return self.learner.pack([member.state() for member in self._members], self._memory(), self._key)

    def _memory(self) -> CommitteeMemory:
        records = tuple(member.record for member in self._members)
        return CommitteeMemory((), records, self._lost.copy(), self._panel.state())

    @property
    def t(self) -> int:
        return self._members[0].session.t

    @property
    def params(self) -> Params:
        return self._members[0].session.params

    def experts(self) -> dict[str, float]:
        return dict(zip(self.learner.experts, self._costs.tolist(), strict=True))

    def errors(self) -> dict[str, float]:
        return dict(zip(self.learner.experts, self._panel.errors.tolist(), strict=False))

    def returns(self) -> int:
        return sum(int(member.record.returns) for member in self._members)

    @property
    def members(self) -> list[Anchored]:
        """The networks, each with its anchor."""
        return self._members

    @property
    def panel(self) -> Any:
        """What mixes them."""
        return self._panel

    def snapshot(self) -> None:
        """Nothing: what could diverge is guarded."""

    def restore(self, snapshot: Any) -> None:
        raise NotImplementedError("a committee never goes back: its members do")

    def finite(self) -> bool:
        return True

    def chunk_size(self, at_hand: bool) -> int:
        return CHUNK if at_hand else min(CHUNK, self._members[0].session.chunk_size(at_hand))

    # --- the verbs --------------------------------------------------------------------------------------------------

    def take(self, chunk: Chunk, y_hats: np.ndarray | None = None) -> np.ndarray:
        return self.process(chunk, y_hats)

    def process(self, chunk: Chunk, y_hats: np.ndarray | None = None) -> np.ndarray:
        losses = np.full(size(chunk), np.nan)
        for begin, end in self._pieces(chunk):
            asked = None if y_hats is None else y_hats[begin:end]
            losses[begin:end] = self._process(part(chunk, begin, end), asked)
        return losses

    def _pieces(self, chunk: Chunk) -> Iterator[tuple[int, int]]:
        """Members are looked at, and episodes begin, at the first item of a piece."""
        begin, count = 0, size(chunk)
        episodes = np.append([] if chunk.reset is None else np.flatnonzero(chunk.reset), count)
        while begin < count:
            episode = int(episodes[np.searchsorted(episodes, begin, side="right")])
            end = min(begin + self._period - self.t % self._period, episode)
            yield begin, end
            begin = end

    def _process(self, piece: Chunk, y_hats: np.ndarray | None) -> np.ndarray:
        """A piece whose first advance may be one at which members are looked at."""
        if piece.reset is not None and bool(piece.reset[0]):
            self.reset()
        piece = piece._replace(reset=None)
        whole = self._panel.takes(piece)
        if (y_hats is not None and not self._panel.foresees) or not whole:
            return np.array([self._one(piece, i, None if y_hats is None else y_hats[i]) for i in range(size(piece))])
        if isinstance(piece, Pairs) or not self._due:
            self._judge()
            return self._take(piece, y_hats)
        value = piece.values[0]
        first = self.observe(value)
        self.advance(value)
        rest = part(piece, 1, size(piece))
        return np.concatenate([[first], self._take(rest) if size(rest) else []])

    def _take(self, piece: Chunk, y_hats: np.ndarray | None = None) -> np.ndarray:
        shape = 2 * len(self._members), size(piece), self.learner.system.target_space.size
        networks = np.zeros(shape, self._dtype)
        now, late = self._panel.inside(piece)
        for k, member in enumerate(self._members):
            member.take(now, late, networks[2 * k : 2 * k + 2])
        losses, costs, expected = self._panel.take(piece, networks)
        if y_hats is not None:
            y_hats[:] = expected
        self._count(costs)
        return losses

    def _one(self, piece: Chunk, i: int, y_hat: np.ndarray | None) -> float:
        """Item i, verb by verb; what was expected of it, if that is asked for."""
        item = part(piece, i, i + 1)
        pairs = isinstance(item, Pairs)
        x, y = (item.x, item.y) if isinstance(item, Pairs) else (item.values, item.values)
        if pairs:
            self.advance(x[0])
        if y_hat is not None:
            y_hat[:] = self.predict()
        loss = self.observe(y[0]) if y is not None and has_target(item)[0] else np.nan
        if not pairs:
            self.advance(x[0])
        return loss

    def reset(self) -> None:
        """A new episode."""
        for member in self._members:
            member.reset()
        self._panel.reset()
        if self._panel.foresees:
            self._panel.issue(self._expected())

    def predict(self) -> np.ndarray:
        return self._panel.predict(self._asked())

    def outlook(self) -> Outlook:
        return self._panel.outlook() if self._panel.foresees else super().outlook()

    def coverage(self) -> float:
        return self._panel.coverage if self._panel.foresees else super().coverage()

    def predict_after(self, x: Any) -> np.ndarray:
        inside = self._panel.input(x)
        return self._panel.predict_after(x, np.concatenate([member.predict_after(inside) for member in self._members]))

    def observe(self, y: Any) -> float:
        loss, costs, aim = self._panel.observe(y, self._asked())
        if aim is not None:
            for member in self._members:
                member.observe(aim)
        self._count(costs[None])
        return loss

    def advance(self, x: Any) -> None:
        self._judge()
        now, late = self._panel.advance(x)
        for member in self._members:
            member.advance(now, late)
        if self._panel.foresees:
            self._panel.issue(self._expected())

    # --- members are looked at --------------------------------------------------------------------------------------

    @property
    def _due(self) -> bool:
        return self.t > 0 and self.t % PERIOD == 0

    @property
    def _period(self) -> int:
        """Inputs between two moments at which members are seen to."""
        return FRESH if self.learner.copies > 2 else PERIOD

    def _judge(self) -> None:
        if not self.learner.learning:
            return
        if self.t and self.t % FRESH == 0:
            for member in self._members:
                member.refresh()
        if not self._due:
            return
        for lost, member in zip(self._lost, self._members, strict=True):
            member.judge(float(lost))
        self._lost[:] = 0

    def _count(self, costs: np.ndarray) -> None:
        """What experts made of targets; what learners lost against their anchors."""
        costs = costs[~np.isnan(costs[:, 0])]
        self._costs = _added_in_order(self._costs, costs)
        first, count = self._panel.first_network, 2 * len(self._members)
        mine = costs[:, first : first + count].reshape(len(costs), len(self._members), 2)
        self._lost = _added_in_order(self._lost, (mine[:, :, 0] - mine[:, :, 1]).astype(self._lost.dtype))

    def _asked(self) -> np.ndarray | None:
        """What the networks expect, where the panel has not asked them already."""
        return None if self._panel.foresees else self._expected()

    def _expected(self) -> np.ndarray:
        return np.concatenate([member.predict() for member in self._members])


def _added_in_order(start: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """start + row_0 + row_1 + ..., rounded after each: the same bits wherever a stream was cut."""
    return np.add.accumulate(np.concatenate([start[None], rows]), axis=0)[-1]
