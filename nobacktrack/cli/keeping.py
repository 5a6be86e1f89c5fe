"""Checkpoints of a run on the way, and stopping it without losing anything."""

from __future__ import annotations

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


class Keeper:
    """Saves a reader every so many items or seconds, and when it is told to."""

    def __init__(self, path: Path | None, reader: Any, notes: dict[str, Any], every: int | None, seconds: float | None):
        self.path, self.reader, self.notes = path, reader, notes
        self.every, self.seconds = every, seconds
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

        nbt.save(self.path, self.reader.learner, self.reader.state, self.notes | self.reader.notes())
        self._items, self._time = self.reader.tally.items, time.monotonic()
