"""How a chunk is run, and how a stream is run chunk by chunk."""

from __future__ import annotations

import os
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np

from ..configuration import at_least
from ..errors import BadItem
from ..learner import AbstractLearner
from ..protocol import NATS_PER_BIT, State
from ..streams.items import Chunk, Cutter, as_chunk, checked, part, size
from .reference import Reference

ENGINES = ("auto", "jax", "fused")
RECENT = 10_000
LARGEST_CHUNK = 4096
LARGEST_FUSED_CHUNK = 1 << 16  # nothing is drawn beforehand, so that a chunk costs no memory
CHUNK_NUMBERS = 1 << 31  # numbers of a state times steps: a chunk takes less than a second, what surrounds it far less
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
        """Take in the losses of a chunk, some at a time, so that the recent ones do not depend on its size."""
        for start in range(0, len(loss), LARGEST_CHUNK):
            self._add(loss[start : start + LARGEST_CHUNK])

    def _add(self, loss: np.ndarray) -> None:
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


class Engine(Protocol):
    """A learner at work."""

    name: str

    def __init__(self, learner: Any, state: State) -> None: ...

    def take(self, chunk: Chunk) -> np.ndarray:
        """Learn from a chunk: the loss of each item."""
        ...

    def state(self) -> State:
        """All that the learner knows."""
        ...


def choose(learner: AbstractLearner, state: State, engine: str = "auto") -> tuple[type[Engine], str]:
    """The engine to run a learner with, and why it is not the fused one, where it is not."""
    if engine not in ENGINES:
        raise ValueError(f"engine must be one of {', '.join(ENGINES)}, not {engine!r}")
    if engine == "jax":
        return Reference, "engine='jax' was asked for"
    if jax.default_backend() != "cpu":
        return Reference, f"the fused engine is for CPUs, and jax runs on {jax.default_backend()}"
    from . import fused

    reason = fused.refusal(learner, state)
    return (fused.Fused, "") if reason is None else (Reference, f"the fused engine does not run it: {reason}")


def run(
    learner: AbstractLearner,
    state: State,
    stream: Any,
    *,
    engine: str,
    chunk: int | None,
    callbacks: Sequence[Callback],
) -> tuple[State, RunInfo] | Iterator[tuple[State, RunInfo]]:
    """`(state, info)` on arrays, an iterator of them on an iterator."""
    steps = training(learner, state, stream, engine=engine, chunk=chunk, callbacks=callbacks)
    if as_chunk(stream) is None:
        return steps
    losses, info = [], RunInfo(np.zeros(0), float("nan"), float("nan"), state.steps)
    for following, info in steps:
        state = following
        losses.append(info.loss)
    return state, info._replace(loss=np.concatenate(losses) if losses else info.loss)


def run_many(
    learners: AbstractLearner | Sequence[AbstractLearner],
    states: Sequence[State],
    streams: Any,
    *,
    engine: str = "auto",
    workers: int | None = None,
) -> list[tuple[State, RunInfo]]:
    """Independent learners, or seeds of one, each on a stream of arrays of its own, on as many cores as there are.

    Compiled loops do not hold the interpreter's lock, so that plain threads do, whatever the sizes of the learners.
    """
    count = len(states)
    learners = [learners] * count if isinstance(learners, AbstractLearner) else list(learners)
    if not len(learners) == count == len(streams):
        raise ValueError(f"{len(learners)} learners, {count} states and {len(streams)} streams: one of each is needed")
    with ThreadPoolExecutor(workers or os.cpu_count()) as pool:
        futures = [
            pool.submit(run, learner, state, stream, engine=engine, chunk=None, callbacks=())
            for learner, state, stream in zip(learners, states, streams, strict=True)
        ]
        return [_whole(future.result()) for future in futures]


def _whole(result: Any) -> tuple[State, RunInfo]:
    if not isinstance(result, tuple):
        raise ValueError("streams: run_many needs arrays, not iterators")
    return result


def training(
    learner: AbstractLearner,
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
    chosen, reason = choose(learner, state, engine)
    if engine == "fused" and reason:
        warnings.warn(f"{reason}; engine='jax' runs in its place", stacklevel=3)
    if chunk is not None:
        at_least("chunk", chunk, 1)
    count = chunk or chunk_size(learner, state, chosen, stream)
    return _train(chosen(learner, state), _chunks(learner, state, stream, count), callbacks)


def chunk_size(learner: AbstractLearner, state: State, engine: type[Engine] = Reference, stream: Any = ()) -> int:
    """As many steps as keep the draws of a chunk small, or, with nothing to draw and the stream at hand, as many as
    take a moment.
    """
    if engine.name == "fused":
        largest = LARGEST_CHUNK if as_chunk(stream) is None else LARGEST_FUSED_CHUNK
        numbers = sum(leaf.size for leaf in jax.tree.leaves(state))
        return int(min(largest, max(16, CHUNK_NUMBERS // numbers)))
    draws = jax.eval_shape(lambda state: learner.draw(state, state.t), state)
    each = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(draws))
    return int(min(LARGEST_CHUNK, max(16, 2 ** int(np.log2(DRAWS_BYTES / max(1, each))))))


def _chunks(
    learner: AbstractLearner, state: State, stream: Any, count: int
) -> Iterator[tuple[Chunk | None, BadItem | None]]:
    """Checked chunks; the good beginning of one with a bad item comes with the error."""
    arrays = as_chunk(stream)
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
    engine: Engine, chunks: Iterator[tuple[Chunk | None, BadItem | None]], callbacks: Sequence[Callback]
) -> Iterator[tuple[State, RunInfo]]:
    means = Means()
    for chunk, error in chunks:
        if chunk is not None and size(chunk):
            loss = engine.take(chunk)
            means.add(loss)
            state = engine.state()
            report = means.info(loss, state.steps)
            asked_to_stop = [bool(callback(state, report)) for callback in callbacks]
            yield state, report
            if any(asked_to_stop):
                return
        if error is not None:
            error.state = engine.state()
            raise error
