"""Checkpoints of a run on the way and at its best, and stopping it without losing anything."""

from __future__ import annotations

import dataclasses
import math
import signal
import time
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from .progress import SETTLED

SETTLED_ROWS = 1_000  # targets of rows before their best counts: a full block of means, which one odd row cannot lower
PAUSE = 5.0  # seconds between two saves of the best


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
        self.records: dict[str, Any] = {}  # files of records that go along, by their names in the notes
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
        self.write(self.path)
        self._items, self._time = self.reader.tally.items, time.monotonic()
        self.saved_at = self._items

    def write(self, path: Path) -> None:
        """Write the reader as it is now to a file."""
        import nobacktrack as nbt

        from ..readers.notes import as_json

        written = {name: file.settle() for name, file in self.records.items()}
        notes = dataclasses.replace(self.reader.notes(), stream=self.stream, **written)
        nbt.save(path, self.reader.learner, self.reader.state, as_json(notes))


class Best(NamedTuple):
    """The lowest recent loss that is kept, in nats, and after how many items it stood there."""

    loss: float = math.inf
    items: int = 0


class BestKeeper:
    """Saves a reader whenever its recent loss is the lowest so far, once that has settled, and not too often."""

    def __init__(self, path: Path | None, checkpointer: Checkpointer, best: Best):
        self.path, self.best = path, best
        self._checkpointer, self._reader = checkpointer, checkpointer.reader
        self.settled = SETTLED_ROWS if self._reader.unit == "rows" else SETTLED
        self._time = -math.inf

    def look(self, last: bool = False) -> None:
        """Save, if this is the best and it is time to."""
        tally = self._reader.tally
        if self.path is None or tally.targets < self.settled or not tally.losses.recent < self.best.loss:
            return
        if last or time.monotonic() - self._time >= PAUSE:
            self._checkpointer.write(self.path)
            self.best, self._time = Best(tally.losses.recent, tally.items), time.monotonic()

    def record(self) -> dict[str, Any]:
        """What is kept, for programs."""
        if self.path is None:
            return {}
        kept = self.best.items > 0
        return {"best_recent_loss": self.best.loss if kept else None, "best_after": self.best.items if kept else None}

    def message(self) -> str:
        """What is kept, for people."""
        from ..protocol import NATS_PER_BIT

        if not self.best.items:
            return f"nothing is written to {self.path}: the best counts from {self.settled:,} targets on"
        loss, unit = self.best.loss, self._reader.unit
        recent = f"{loss:.4f} nats ({loss / NATS_PER_BIT:.4f} bits) per {unit.removesuffix('s')}"
        return f"the best is kept in {self.path}: after {self.best.items:,} {unit}, with a recent loss of {recent}"


def best_in(path: Path, unit: str) -> Best:
    """What an earlier run on the same kind of stream kept as its best; nothing where there is no file."""
    from ..checkpoint import inspect
    from ..readers.notes import RowsNotes, TextNotes, from_json
    from ..readers.tally import Tally

    if not path.exists():
        return Best()
    notes = from_json(inspect(path)["notes"], path)
    if not isinstance(notes, RowsNotes if unit == "rows" else TextNotes):
        raise ValueError(f"{path}: not of a run on {'rows' if unit == 'rows' else 'text'}: its loss is none to beat")
    table = notes.table if isinstance(notes, RowsNotes) else notes
    tally = Tally(**table.tally)
    return Best(tally.losses.recent, tally.items) if tally.targets else Best()
