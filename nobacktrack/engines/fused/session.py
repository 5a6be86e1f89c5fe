"""A learner at work in the compiled loop: its numbers lie in one flat array, changed in place.

Same State in, same State out, same signs, same results to rounding as the reference engine.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...learner import Learner
from ...protocol import State
from ...streams.items import Chunk, Pairs, has_target, size
from ...verbs import AbstractLearner
from ..session import Session
from . import support, threads
from .codes import Readout, Verb
from .loops.chunk import Items, predict
from .memory import packing
from .memory.layout import Layout, aligned
from .memory.packing import Store
from .memory.views import COUNTERS

LARGEST_CHUNK = 1 << 16  # nothing is drawn beforehand, so that a chunk costs no memory
LARGEST_LIVE_CHUNK = 4096  # of a stream that is waited for
CHUNK_NUMBERS = 1 << 31  # numbers of a state times steps: a chunk takes less than a second, what surrounds it far less
PACES_AHEAD = 1024

OBSERVE, ADVANCE = int(Verb.OBSERVE), int(Verb.ADVANCE)
NONE = np.zeros(0, bool)  # flags that say nothing


class Item(NamedTuple):
    """A chunk of one item, whose arrays are written over at each call; the paces of the targets from `begin` on."""

    items: Items
    arguments: tuple[np.ndarray, ...]  # the same, as a plain tuple: Numba takes it apart sooner
    x: np.ndarray
    y: np.ndarray
    theta_paces: np.ndarray
    phi_paces: np.ndarray
    begin: int


class Fused(Session):
    """The whole online step in one compiled loop on the CPU, for the learners that most people use."""

    name = "fused"
    learner: Learner

    @classmethod
    def refusal(cls, learner: AbstractLearner, state: State) -> str | None:
        return support.refusal(learner, state)

    def become(self, state: State) -> None:
        learner, sizes = self.learner, support.sizes_of(self.learner)
        self._loop, self._like, self._dtype = support.LOOPS[type(learner.estimator)], state, np.dtype(state.h.dtype)
        sizes = sizes._replace(threads=threads.threads_for(sizes, self._loop.help))
        self._measured = learner.noise(state.influence) is not None
        layout = Layout(sizes, self._loop.pieces, self._dtype.itemsize)
        self._flat = aligned(layout.size, self._dtype)
        self._ints = np.zeros(COUNTERS + self._loop.counters(sizes), np.int64)
        self._clock = np.concatenate([np.asarray(state.key), np.asarray(state.t)]).astype(np.uint32)
        self._store = Store(sizes, *layout.views(self._flat), self._ints)
        self._in_state = layout.state_views(self._flat)
        self._machine = np.array(sizes, np.int64), layout.table, self._flat, self._ints, self._clock, threads.new_crew()
        packing.pack(state, learner, self._store)
        self._loop.pack(state.influence, learner.estimator, self._store)
        self._one = self._new_item()

    @property
    def t(self) -> int:
        return int(self._clock[2]) << 32 | int(self._clock[3])

    def chunk_size(self, at_hand: bool) -> int:
        """As many steps as take a moment."""
        largest = LARGEST_CHUNK if at_hand else LARGEST_LIVE_CHUNK
        return int(min(largest, max(16, CHUNK_NUMBERS // self._flat.size)))

    def state(self) -> State:
        self._flush()
        influence = self._loop.unpack(self._like.influence, self.learner.estimator, self._store)
        return packing.unpack(self._like, influence, self._clock, self._store)

    def _flush(self) -> None:
        if self._loop.flush is not None:
            self._loop.flush(self._machine)

    def snapshot(self) -> tuple[np.ndarray, ...]:
        return self._flat.copy(), self._ints.copy(), self._clock.copy()

    def restore(self, snapshot: tuple[np.ndarray, ...]) -> None:
        self._flat[:], self._ints[:], self._clock[:] = snapshot

    def finite(self) -> bool:
        self._flush()  # what is pending counts too
        with np.errstate(invalid="ignore", over="ignore"):
            # a finite sum says it all, and is quicker
            return all(np.isfinite(view.sum()) or np.isfinite(view).all() for view in self._in_state)

    # --- one verb at a time -----------------------------------------------------------------------------------------

    def predict(self) -> np.ndarray:
        predict(self._machine)
        return packing.prediction(self._store)

    def observe(self, y: Any) -> float:
        item, i = self._one, self.t - self._one.begin
        if not 0 <= i < PACES_AHEAD:
            item, i = self._new_item(), 0
            self._one = item
        item.y[0] = y
        item.items.theta_paces[0], item.items.phi_paces[0] = item.theta_paces[i], item.phi_paces[i]
        self._loop.run(self._machine, OBSERVE, item.arguments)
        return float(item.items.losses[0])

    def advance(self, x: Any) -> None:
        self._one.x[0] = x
        self._loop.run(self._machine, ADVANCE, self._one.arguments)

    def _new_item(self) -> Item:
        """A chunk of one item, to be used again and again, and the paces of the targets to come."""
        sizes, begin, number = self._store.sizes, self.t, self._dtype
        x = np.zeros((1, sizes.inputs), number) if sizes.inputs else np.zeros(1, np.int32)
        y = np.zeros(1, np.int32) if sizes.readout == Readout.SOFTMAX else np.zeros((1, sizes.outputs), number)
        paces = self._paces(begin, PACES_AHEAD)
        one, two, three = np.zeros((3, 1), number)
        ends = *self._split(x), *self._split(y)
        items = Items(*ends, NONE, NONE, one, two, three, np.zeros((0, 0), number))
        return Item(items, tuple(items), x, y, *paces, begin)

    # --- a chunk ----------------------------------------------------------------------------------------------------

    def process(self, chunk: Chunk, y_hats: np.ndarray | None = None) -> np.ndarray:
        count, pairs = size(chunk), isinstance(chunk, Pairs)
        x, y = (chunk.x, chunk.y) if isinstance(chunk, Pairs) else (chunk.values, chunk.values)
        seen = NONE if not isinstance(chunk, Pairs) or (y is not None and chunk.seen is None) else has_target(chunk)
        reset = NONE if chunk.reset is None else _plain(chunk.reset, bool)
        losses = np.full(count, np.nan, self._dtype)
        verb = int(Verb.ADVANCE_OBSERVE if pairs else Verb.OBSERVE_ADVANCE)
        paces, asked = self._paces(self.t + pairs, count), np.zeros((0, 0), self._dtype) if y_hats is None else y_hats
        items = *self._split(x), *self._split(y), _plain(seen, bool), reset, *paces, losses, asked
        with threads.helpers(self._loop.help, self._machine, self._store.sizes.threads if count > 1 else 1):
            self._loop.run(self._machine, verb, items)
        return losses

    def _paces(self, start: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        updates = self.learner.updates
        known = self._measured, start, count, self._dtype
        theta, phi = (support.paces(update, *known) for update in (updates.theta, updates.phi))
        return theta, phi

    def _split(self, values: Any) -> tuple[np.ndarray, np.ndarray]:
        """Values as symbols and as vectors, one of them empty."""
        none = np.zeros(0, np.int32), np.zeros((0, 0), self._dtype)
        if values is None:
            return none
        if np.ndim(values) == 1:
            return _plain(values, np.int32), none[1]
        return none[0], _plain(values, self._dtype)


def _plain(values: Any, dtype: Any) -> np.ndarray:
    """A writable array: kernels are compiled for one kind of arrays only."""
    return np.require(np.asarray(values), dtype, ["C", "W"])
