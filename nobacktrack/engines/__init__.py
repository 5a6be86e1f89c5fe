"""How a chunk is run, and how a stream is run chunk by chunk."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from ..configuration import at_least
from ..errors import BadItem
from ..learner import Learner
from ..protocol import NATS_PER_BIT, State
from ..streams.items import Chunk, checked, cut, part, size, whole
from . import reference

ENGINES = ("auto", "jax")
RECENT = 10_000
LARGEST_CHUNK = 4096
DRAWS_BYTES = 1 << 23

Callback = Callable[[State, "RunInfo"], Any]


class RunInfo(NamedTuple):
    """The losses of a run, in nats: one a step (of the last chunk, on an iterator), with their mean so far and over
    the recent steps.
    """

    loss: np.ndarray
    mean: float
    recent: float
    t: int

    @property
    def bits(self) -> np.ndarray:
        """The losses in bits."""
        return self.loss / NATS_PER_BIT

    @property
    def mean_bits(self) -> float:
        """Bits per target since the run began."""
        return self.mean / NATS_PER_BIT

    @property
    def recent_bits(self) -> float:
        """Bits per target over the last ten thousand steps or so."""
        return self.recent / NATS_PER_BIT


class Means:
    """The mean of all losses, and of those of the recent chunks."""

    def __init__(self) -> None:
        self.total, self.count = 0.0, 0
        self.recent: deque[tuple[float, int, int]] = deque()

    def add(self, loss: np.ndarray) -> None:
        seen = loss[~np.isnan(loss)].astype(float)
        self.total, self.count = self.total + float(seen.sum()), self.count + len(seen)
        self.recent.append((float(seen.sum()), len(seen), len(loss)))
        while sum(steps for _, _, steps in list(self.recent)[1:]) >= RECENT:
            self.recent.popleft()

    def info(self, loss: np.ndarray, t: int) -> RunInfo:
        total, count = (sum(column) for column in list(zip(*self.recent, strict=True))[:2])
        return RunInfo(loss, _ratio(self.total, self.count), _ratio(total, count), t)


def _ratio(total: float, count: int) -> float:
    return total / count if count else float("nan")


def run(
    learner: Learner, state: State, stream: Any, *, engine: str, chunk: int | None, callbacks: Sequence[Callback]
) -> tuple[State, RunInfo] | Iterator[tuple[State, RunInfo]]:
    """`(state, info)` on arrays, an iterator of them on an iterator."""
    steps = training(learner, state, stream, engine=engine, chunk=chunk, callbacks=callbacks)
    if whole(stream) is None:
        return steps
    losses, info = [], RunInfo(np.zeros(0), float("nan"), float("nan"), state.steps)
    for following, info in steps:
        state = following
        losses.append(info.loss)
    return state, info._replace(loss=np.concatenate(losses) if losses else info.loss)


def training(
    learner: Learner,
    state: State,
    stream: Any,
    *,
    engine: str = "auto",
    chunk: int | None = None,
    callbacks: Sequence[Callback] = (),
) -> Iterator[tuple[State, RunInfo]]:
    """Train chunk by chunk, yielding the state and the losses after each; memory does not grow with the stream.

    A callback is called with both after each chunk, and stops the run by returning True. A bad item is met with the
    state of all the good ones before it.
    """
    if engine not in ENGINES:
        raise ValueError(f"engine must be one of {', '.join(ENGINES)}, not {engine!r}")
    if chunk is not None:
        at_least("chunk", chunk, 1)
    return _train(learner, state, _chunks(learner, state, stream, chunk or chunk_size(learner, state)), callbacks)


def chunk_size(learner: Learner, state: State) -> int:
    """As many steps as keep the draws of a chunk small."""
    draws = jax.eval_shape(lambda state: learner.draw(state, state.t), state)
    each = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(draws))
    return int(min(LARGEST_CHUNK, max(16, 2 ** int(np.log2(DRAWS_BYTES / max(1, each))))))


def _chunks(learner: Learner, state: State, stream: Any, count: int) -> Iterator[tuple[Chunk, BadItem | None]]:
    """Checked chunks; the good beginning of one with a bad item comes with the error."""
    arrays = whole(stream)
    if arrays is not None:
        try:
            arrays = checked(arrays, learner.system)
        except BadItem as error:
            error.state = state
            raise
        return ((part(arrays, i, min(i + count, size(arrays))), None) for i in range(0, size(arrays), count))
    return _checked_chunks(cut(stream, count, learner.system), learner.system)


def _checked_chunks(chunks: Iterator[Chunk], system: Any) -> Iterator[tuple[Chunk, BadItem | None]]:
    offset = 0
    for raw in chunks:
        try:
            yield checked(raw, system, offset), None
        except BadItem as error:
            good = 0 if error.index is None else error.index - offset
            yield checked(part(raw, 0, good), system), error
            return
        offset += size(raw)


def _train(
    learner: Learner, state: State, chunks: Iterator[tuple[Chunk, BadItem | None]], callbacks: Sequence[Callback]
) -> Iterator[tuple[State, RunInfo]]:
    means = Means()
    for chunk, error in chunks:
        if size(chunk):
            following, info = reference.scan(learner, state, chunk)
            if not reference.sound(following, info, chunk):
                raise reference.divergence(learner, state, chunk)
            state, loss = following, np.asarray(info.loss)
            means.add(loss)
            report = means.info(loss, state.steps)
            yield state, report
            asked_to_stop = [callback(state, report) is True for callback in callbacks]
            if any(asked_to_stop):
                return
        if error is not None:
            error.state = state
            raise error
