"""The fused engine: the whole online step in one compiled loop on the CPU, for the learners that most people use.

Same State in, same State out, same signs, same results to rounding as the reference engine.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...errors import Divergence
from ...guards import diverged
from ...learner import Learner
from ...protocol import Info, State
from ...streams.items import Chunk, Pairs, part, size
from . import ahead, layout, loop, packing

refusal = packing.refusal

_LOOPS = (loop.run_nobacktrack, loop.run_rtrl, loop.run_bptt)
PACES_AHEAD = 1024


class Item(NamedTuple):
    """A chunk of one item: its arrays are written over at each call."""

    x: np.ndarray
    y: np.ndarray
    theta_pace: np.ndarray
    phi_pace: np.ndarray
    loss: np.ndarray
    theta_paces: np.ndarray
    phi_paces: np.ndarray
    begin: int
    chunk: tuple[np.ndarray, ...]


class Fused:
    """A learner at work in the compiled loop: its numbers lie in one flat array, changed in place."""

    name = "fused"

    def __init__(self, learner: Learner, state: State):
        reason = refusal(learner, state)
        if reason is not None:
            raise ValueError(f"engine='fused' cannot run {learner}: {reason}")
        self.learner = learner
        self.sizes = packing.sizes_of(learner)
        self._like = state
        self.dtype = np.dtype(state.h.dtype)
        ahead.ensure(type(learner.estimator).__name__, self.dtype)
        self._places = layout.table(self.sizes, self.dtype.itemsize)
        self._flat = layout.aligned(int(self._places[-1, 0]), self.dtype)
        self._ints = np.zeros(layout.COUNTERS + 2 * self.sizes.depth, np.int64)
        self._clock = np.concatenate([np.asarray(state.key), np.asarray(state.t)]).astype(np.uint32)
        self._pieces = layout.pieces(self.sizes, self._places, self._flat)
        self._machine = np.array(self.sizes, np.int64), self._places, self._flat, self._ints, self._clock
        packing.put(state, learner, self.sizes, self._pieces, self._ints)
        self._loop = _LOOPS[self.sizes.estimator]
        self._item = self._new_item()

    @property
    def t(self) -> int:
        """How many inputs have been seen."""
        return int(self._clock[2]) << 32 | int(self._clock[3])

    def state(self) -> State:
        """All that the learner knows, as a State of its own."""
        loop.settle(self._machine)
        return packing.taken(self._like, self.sizes, self._pieces, self._ints, self._clock)

    def predict(self) -> np.ndarray:
        """y_hat, the prediction of the next target."""
        loop.foresee(self._machine)
        return packing.real(self.sizes, self._pieces.y_hat).copy()

    def observe(self, y: Any) -> float:
        """One target: its loss. Nothing is checked."""
        item = self._item
        item.y[0] = y
        i = self.t - item.begin
        if not 0 <= i < len(item.theta_paces):
            item = self._item = self._new_item()
            item.y[0], i = y, 0
        item.theta_pace[0], item.phi_pace[0] = item.theta_paces[i], item.phi_paces[i]
        self._loop(self._machine, layout.OBSERVE, item.chunk)
        return float(item.loss[0])

    def advance(self, x: Any) -> None:
        """One input. Nothing is checked."""
        self._item.x[0] = x
        self._loop(self._machine, layout.ADVANCE, self._item.chunk)

    def _new_item(self) -> Item:
        """A chunk of one item, to be used again and again, and the paces of the targets to come."""
        updates, begin = self.learner.updates, self.t
        theta_paces = packing.paces(updates.theta, begin, PACES_AHEAD, self.dtype)
        phi_paces = packing.paces(updates.phi, begin, PACES_AHEAD, self.dtype)
        sizes = self.sizes
        x = np.zeros(1, np.int32) if sizes.inputs == 0 else np.zeros((1, sizes.inputs), self.dtype)
        y = np.zeros(1, np.int32) if sizes.softmax else np.zeros((1, sizes.outputs), self.dtype)
        theta_pace, phi_pace, loss = (np.zeros(1, self.dtype) for _ in range(3))
        ends = *self._ends(x, sizes.inputs == 0), *self._ends(y, bool(sizes.softmax))
        flags = np.zeros(0, bool), np.zeros(0, bool)
        chunk = *ends, *flags, theta_pace, phi_pace, loss
        return Item(x, y, theta_pace, phi_pace, loss, theta_paces, phi_paces, begin, chunk)

    def sound(self) -> bool:
        """Whether all numbers of the state are finite."""
        loop.settle(self._machine)  # what is owed to w counts too
        kept = self._flat[: self._places[layout.BESIDE, 0]]
        with np.errstate(invalid="ignore", over="ignore"):
            return bool(np.isfinite(kept.sum()) or np.isfinite(kept).all())  # a finite sum says it all, and is quicker

    def take(self, chunk: Chunk) -> np.ndarray:
        """Learn from a chunk: the loss of each item. Where a number is no longer finite, Divergence with the state
        before it.
        """
        before = self.kept()
        losses = self._run(chunk)
        if not self._sound(losses, chunk):
            self.keep(before)
            raise self._divergence(chunk)
        return losses

    def _run(self, chunk: Chunk) -> np.ndarray:
        count = size(chunk)
        pairs = isinstance(chunk, Pairs)
        x, y = (chunk.x, chunk.y) if pairs else (chunk.values, chunk.values)
        seen = np.zeros(0, bool)
        if pairs and y is None:
            seen = np.zeros(count, bool)
        elif pairs and chunk.seen is not None:
            seen = _plain(chunk.seen, bool)
        reset = np.zeros(0, bool) if chunk.reset is None else _plain(chunk.reset, bool)
        updates, start = self.learner.updates, self.t + pairs
        paces = [packing.paces(update, start, count, self.dtype) for update in (updates.theta, updates.phi)]
        losses = np.full(count, np.nan, self.dtype)
        verbs = layout.ADVANCE_OBSERVE if pairs else layout.OBSERVE_ADVANCE
        ends = *self._ends(x, self.sizes.inputs == 0), *self._ends(y, bool(self.sizes.softmax))
        self._loop(self._machine, verbs, (*ends, seen, reset, *paces, losses))
        return losses

    def _ends(self, values: Any, symbols: bool) -> tuple[np.ndarray, np.ndarray]:
        """Values as symbols and as vectors, one of them empty."""
        if values is None or not symbols:
            vectors = np.zeros((0, 0), self.dtype) if values is None else _plain(values, self.dtype)
            return np.zeros(0, np.int32), vectors
        return _plain(values, np.int32), np.zeros((0, 0), self.dtype)

    def _sound(self, losses: np.ndarray, chunk: Chunk) -> bool:
        """Whether a chunk left all numbers finite: a loss may be missing where there was no target."""
        losses = _seen(losses, chunk)
        return bool(np.isfinite(losses).all()) and self.sound()

    def kept(self) -> tuple[np.ndarray, ...]:
        """A copy of all numbers, for `keep`."""
        return self._flat.copy(), self._ints.copy(), self._clock.copy()

    def keep(self, kept: tuple[np.ndarray, ...]) -> None:
        """Go back to a copy."""
        self._flat[:], self._ints[:], self._clock[:] = kept

    def _divergence(self, chunk: Chunk) -> Divergence:
        """Replay a chunk that went wrong, one item at a time, to the last state that was good."""
        for i in range(size(chunk)):
            good, item = self.kept(), part(chunk, i, i + 1)
            losses = self._run(item)
            if not self._sound(losses, item):
                bad = self.state()
                self.keep(good)
                return diverged(self.state(), bad, Info(losses[0]) if _seen(losses, item).size else None)
        raise AssertionError("a chunk that diverged does not when replayed")


def _seen(losses: np.ndarray, chunk: Chunk) -> np.ndarray:
    """The losses of the items that had a target."""
    if not isinstance(chunk, Pairs) or (chunk.y is not None and chunk.seen is None):
        return losses
    return losses[:0] if chunk.y is None else losses[np.asarray(chunk.seen)]


def _plain(values: Any, dtype: Any) -> np.ndarray:
    """A writable array: kernels are compiled for one kind of arrays only."""
    return np.require(np.asarray(values), dtype, ["C", "W"])
