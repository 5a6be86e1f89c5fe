"""The fused engine: the whole online step in one compiled loop on the CPU, for the learners that most people use.

Same State in, same State out, same signs, same results to rounding as the reference engine.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import Divergence
from ...guards import diverged
from ...learner import Learner
from ...protocol import Info, State
from ...streams.items import Chunk, Pairs, part, size
from . import layout, loop, packing

refusal = packing.refusal

_RUNS = (loop.run_nobacktrack, loop.run_rtrl, loop.run_bptt)


class Fused:
    """A learner at work in the compiled loop: its numbers lie in one flat array, changed in place."""

    name = "fused"

    def __init__(self, learner: Learner, state: State):
        reason = refusal(learner, state)
        if reason is not None:
            raise ValueError(f"engine='fused' cannot run {learner}: {reason}")
        self.learner = learner
        self.sizes = packing.sizes_of(learner)
        self._places = layout.table(self.sizes)
        self._like = state
        self.dtype = np.dtype(state.h.dtype)
        self._flat = layout.aligned(int(self._places[-1, 0]), self.dtype)
        self._ints = np.zeros(layout.COUNTERS + 2 * self.sizes.depth, np.int64)
        self._clock = np.concatenate([np.asarray(state.key), np.asarray(state.t)]).astype(np.uint32)
        self._pieces = layout.pieces(self.sizes, self._places, self._flat)
        self._machine = np.array(self.sizes, np.int64), self._places, self._flat, self._ints, self._clock
        packing.put(state, learner, self.sizes, self._pieces, self._ints)

    @property
    def t(self) -> int:
        """How many inputs have been seen."""
        return int(self._clock[2]) << 32 | int(self._clock[3])

    def state(self) -> State:
        """All that the learner knows, as a State of its own."""
        loop.settle(self._machine)
        return packing.taken(self._like, self.sizes, self._pieces, self._ints, self._clock)

    def take(self, chunk: Chunk) -> np.ndarray:
        """Learn from a chunk: the loss of each item. Where a number is no longer finite, Divergence with the state
        before it.
        """
        before = self._kept()
        losses = self._run(chunk)
        if not self._sound(losses, chunk):
            self._keep(before)
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
        _RUNS[self.sizes.estimator](self._machine, verbs, (*ends, seen, reset, *paces, losses))
        return losses

    def _ends(self, values: Any, symbols: bool) -> tuple[np.ndarray, np.ndarray]:
        """Values as symbols and as vectors, one of them empty."""
        if values is None or not symbols:
            vectors = np.zeros((0, 0), self.dtype) if values is None else _plain(values, self.dtype)
            return np.zeros(0, np.int32), vectors
        return _plain(values, np.int32), np.zeros((0, 0), self.dtype)

    def _sound(self, losses: np.ndarray, chunk: Chunk) -> bool:
        """Whether a chunk left all numbers finite: a loss may be missing where there was no target."""
        if isinstance(chunk, Pairs):
            losses = losses[:0] if chunk.y is None else losses if chunk.seen is None else losses[np.asarray(chunk.seen)]
        kept = self._flat[: self._places[layout.BESIDE, 0]]
        return bool(np.isfinite(losses).all() and np.isfinite(kept).all())

    def _kept(self) -> tuple[np.ndarray, ...]:
        return self._flat.copy(), self._ints.copy(), self._clock.copy()

    def _keep(self, kept: tuple[np.ndarray, ...]) -> None:
        self._flat[:], self._ints[:], self._clock[:] = kept

    def _divergence(self, chunk: Chunk) -> Divergence:
        """Replay a chunk that went wrong, one item at a time, to the last state that was good."""
        for i in range(size(chunk)):
            good, item = self._kept(), part(chunk, i, i + 1)
            losses = self._run(item)
            if not self._sound(losses, item):
                bad = self.state()
                self._keep(good)
                return diverged(self.state(), bad, Info(np.nan_to_num(losses, nan=0.0, posinf=np.inf)[0]))
        raise AssertionError("a chunk that diverged does not when replayed")


def _plain(values: Any, dtype: Any) -> np.ndarray:
    """A writable array: kernels are compiled for one kind of arrays only."""
    return np.require(np.asarray(values), dtype, ["C", "W"])
