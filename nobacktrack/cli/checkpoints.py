"""Checkpoints of a run on the way, and stopping it without losing anything."""

from __future__ import annotations

import dataclasses
import signal
import time
from pathlib import Path
from types import FrameType
from typing import Any


class Stop:
    """Set by SIGTERM or SIGINT, to be asked between two pieces of a stream; a second SIGINT stops at once."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def __call__(self) -> bool:
        return self.signal is not None

    def __enter__(self) -> Stop:
        self._before = {number: signal.signal(number, self._asked) for number in (signal.SIGTERM, signal.SIGINT)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _asked(self, number: int, frame: FrameType | None) -> None:
        if self.signal == number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = number


class Checkpointer:
    """Saves a reader every so many items or seconds, and when it is told to."""

    def __init__(self, path: Path | None, reader: Any, stream: str, every: int | None, seconds: float | None):
        self.path, self.reader, self.stream = path, reader, stream
        self.every, self.seconds = every, seconds
        self.predictions: Any = None  # a file of records that goes along
        self.saved_at: int | None = None  # items, where this run has saved
        self._items, self._time = reader.tally.items, time.monotonic()

    def save_if_due(self) -> None:
        more = self.every is not None and self.reader.tally.items - self._items >= self.every
        later = self.seconds is not None and time.monotonic() - self._time >= self.seconds
        if (more or later) and self.reader.tally.items > self._items:
            self.save()

    def save(self) -> None:
        """Write the checkpoint, if there is to be one and there is something to keep."""
        if self.path is None or not self.reader.begun:
            return
        import nobacktrack as nbt

        from ..readers.notes import as_json

        written = None if self.predictions is None else self.predictions.settle()
        notes = dataclasses.replace(self.reader.notes(), stream=self.stream, predictions=written)
        nbt.save(self.path, self.reader.learner, self.reader.state, as_json(notes))
        self._items, self._time = self.reader.tally.items, time.monotonic()
        self.saved_at = self._items
