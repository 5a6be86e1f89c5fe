"""How a stream is run, chunk by chunk, by any engine."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from ..configuration import at_least
from ..errors import BadItem, Divergence
from ..guards import expect_state
from ..means import Means
from ..protocol import NATS_PER_BIT, State
from ..streams.items import Chunk, Cutter, as_chunk, checked, part, size
from ..verbs import AbstractLearner
from . import begin
from .session import Session
from .threads import one_thread

Callback = Callable[[State, "RunInfo"], Any]


class RunInfo(NamedTuple):
    """The losses of a run, in nats: one a step (of the last chunk, on an iterator), with their mean so far and over
    the recent steps. `divergence` is the error of a run of `run_many` that ended in one.
    """

    loss: np.ndarray
    mean: float
    recent: float
    t: int
    divergence: Divergence | None = None

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
        """Bits per target over the last ten thousand targets or so."""
        return self.recent / NATS_PER_BIT


def run(
    learner: AbstractLearner,
    state: State,
    stream: Any,
    *,
    engine: str = "auto",
    chunk: int | None = None,
    callbacks: Sequence[Callback] = (),
) -> tuple[State, RunInfo] | Iterator[tuple[State, RunInfo]]:
    """`(state, info)` on arrays and lists, an iterator of them on an iterator."""
    steps = training(learner, state, stream, engine=engine, chunk=chunk, callbacks=callbacks)
    return _last(state, steps) if isinstance(stream, list) or as_chunk(stream) is not None else steps


def _last(state: State, steps: Iterator[tuple[State, RunInfo]]) -> tuple[State, RunInfo]:
    """The state after all steps, and the losses of all of them."""
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

    Compiled loops do not hold the interpreter's lock, so that plain threads do, whatever the sizes of the learners. A
    run that diverges ends with its last good state, the losses up to there and the error as `info.divergence`; a
    warning names such runs, and the others go on.
    """
    count = len(states)
    learners = [learners] * count if isinstance(learners, AbstractLearner) else list(learners)
    if not len(learners) == count == len(streams):
        raise ValueError(f"{len(learners)} learners, {count} states and {len(streams)} streams: one of each is needed")
    if any(as_chunk(stream) is None for stream in streams):
        raise ValueError("streams: run_many needs arrays, not iterators")
    with ThreadPoolExecutor(workers or os.cpu_count()) as pool:
        found = list(pool.map(_to_the_end, learners, states, streams, [engine] * count))
    lost = [f"{i} at t = {info.t}" for i, (_, info) in enumerate(found) if info.divergence is not None]
    if lost:
        warnings.warn(f"diverged: {len(lost)} of {count} runs ({', '.join(lost)})", stacklevel=2)
    return found


def _to_the_end(learner: AbstractLearner, state: State, stream: Any, engine: str) -> tuple[State, RunInfo]:
    """A run, or as much of it as there was before it diverged."""
    divergence: list[Divergence] = []

    def steps() -> Iterator[tuple[State, RunInfo]]:
        try:
            yield from training(learner, state, stream, engine=engine)
        except Divergence as error:
            divergence.append(error)

    with one_thread():
        after, info = _last(state, steps())
    if not divergence:
        return after, info
    (error,) = divergence
    loss = np.concatenate([info.loss, error.losses])
    return error.state, info._replace(loss=loss, t=error.t, divergence=error)


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
    expect_state(state)
    session = begin(learner, state, engine)
    if chunk is not None:
        at_least("chunk", chunk, 1)
    count = chunk or session.chunk_size(at_hand=as_chunk(stream) is not None)
    return _train(session, _chunks(learner, state, stream, count), callbacks)


def _chunks(
    learner: AbstractLearner, state: State, stream: Any, count: int
) -> Iterator[tuple[Chunk | None, BadItem | None]]:
    """Checked chunks; the good beginning of one with a bad item comes with the error."""
    arrays = as_chunk(stream)
    if arrays is not None:
        try:
            arrays = checked(arrays, learner.spaces)
        except BadItem as error:
            error.state = state
            raise
        return ((part(arrays, i, min(i + count, size(arrays))), None) for i in range(0, size(arrays), count))
    return _live_chunks(stream, Cutter(count, learner.spaces))


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
    session: Session, chunks: Iterator[tuple[Chunk | None, BadItem | None]], callbacks: Sequence[Callback]
) -> Iterator[tuple[State, RunInfo]]:
    means = Means()
    for chunk, error in chunks:
        if chunk is not None and size(chunk):
            loss = session.take(chunk)
            means.add(loss)
            state = session.state()
            info = RunInfo(loss, means.mean, means.recent, state.steps)
            asked_to_stop = [bool(callback(state, info)) for callback in callbacks]
            yield state, info
            if any(asked_to_stop):
                return
        if error is not None:
            error.state = session.state()
            raise error
