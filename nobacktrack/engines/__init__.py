"""How a chunk is run, and how a stream is run chunk by chunk."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from ..configuration import at_least
from ..errors import BadItem
from ..learner import Verbs
from ..protocol import NATS_PER_BIT, State
from ..streams.items import Chunk, Cutter, checked, part, size, whole
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
    """The mean of all losses, and of those of the recent chunks, by running totals."""

    def __init__(self) -> None:
        self.whole = np.zeros(2)  # sum of the losses, how many
        self.recent = np.zeros(3)  # the same, and how many steps
        self.chunks: deque[np.ndarray] = deque()

    def add(self, loss: np.ndarray) -> None:
        seen = loss[~np.isnan(loss)].astype(float)
        chunk = np.array([seen.sum(), len(seen), len(loss)])
        self.whole += chunk[:2]
        self.recent += chunk
        self.chunks.append(chunk)
        while self.recent[2] - self.chunks[0][2] >= RECENT:
            self.recent -= self.chunks.popleft()

    def info(self, loss: np.ndarray, t: int) -> RunInfo:
        return RunInfo(loss, _ratio(*self.whole), _ratio(*self.recent[:2]), t)


def _ratio(total: float, count: float) -> float:
    return float(total / count) if count else float("nan")


def run(
    learner: Verbs, state: State, stream: Any, *, engine: str, chunk: int | None, callbacks: Sequence[Callback]
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
    learner: Verbs,
    state: State,
    stream: Any,
    *,
    engine: str = "auto",
    chunk: int | None = None,
    callbacks: Sequence[Callback] = (),
) -> Iterator[tuple[State, RunInfo]]:
    """Train chunk by chunk, yielding the state and the losses after each; memory does not grow with the stream.

    A callback is called with both after each chunk, and stops the run by returning something true. A bad item is met
    with the state of all the good ones before it.
    """
    if engine not in ENGINES:
        raise ValueError(f"engine must be one of {', '.join(ENGINES)}, not {engine!r}")
    if chunk is not None:
        at_least("chunk", chunk, 1)
    return _train(learner, state, _chunks(learner, state, stream, chunk or chunk_size(learner, state)), callbacks)


def chunk_size(learner: Verbs, state: State) -> int:
    """As many steps as keep the draws of a chunk small."""
    draws = jax.eval_shape(lambda state: learner.draw(state, state.t), state)
    each = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(draws))
    return int(min(LARGEST_CHUNK, max(16, 2 ** int(np.log2(DRAWS_BYTES / max(1, each))))))


def _chunks(learner: Verbs, state: State, stream: Any, count: int) -> Iterator[tuple[Chunk | None, BadItem | None]]:
    """Checked chunks; the good beginning of one with a bad item comes with the error."""
    arrays = whole(stream)
    if arrays is not None:
        try:
            arrays = checked(arrays, learner.system)
        except BadItem as error:
            error.state = state
            raise
        return ((part(arrays, i, min(i + count, size(arrays))), None) for i in range(0, size(arrays), count))
    return _live_chunks(stream, Cutter(count, learner.system))


def _live_chunks(stream: Any, cutter: Cutter) -> Iterator[tuple[Chunk | None, BadItem | None]]:
    """Chunks of an iterator; after the good items, the error of a bad one."""
    try:
        for chunk in cutter.chunks(stream):
            yield chunk, None
    except BadItem as error:
        for chunk in cutter.rest():
            yield chunk, None
        yield None, error


def _train(
    learner: Verbs, state: State, chunks: Iterator[tuple[Chunk | None, BadItem | None]], callbacks: Sequence[Callback]
) -> Iterator[tuple[State, RunInfo]]:
    means = Means()
    for chunk, error in chunks:
        if chunk is not None and size(chunk):
            following, info = reference.scan(learner, state, chunk)
            if not reference.sound(following, info, chunk):
                raise reference.divergence(learner, state, chunk)
            state, loss = following, np.asarray(info.loss)
            means.add(loss)
            report = means.info(loss, state.steps)
            asked_to_stop = [bool(callback(state, report)) for callback in callbacks]
            yield state, report
            if any(asked_to_stop):
                return
        if error is not None:
            error.state = state
            raise error
