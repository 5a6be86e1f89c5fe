"""How surprising each row, line or character was: its loss in bits, and how far it stands above what is usual."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..means import sum_in_order
from ..protocol import NATS_PER_BIT

RECENT = 100  # losses: what is usual is forgotten at this pace
KNOWN = 20  # losses before anything is called unusual
LEAST_DEVIATION = 0.01  # bits: differences below it surprise nobody, even where all losses were alike
DIGITS = 6  # behind the point, of what is written
NEWLINE = ord("\n")
BY_LINE, BY_BYTE = "line", "byte"

Write = Callable[[dict[str, Any]], None]


class Usual:
    """The recent running mean and deviation of losses in bits: the n-th moves them by 1 / min(n, RECENT) of its gap."""

    def __init__(self, count: int = 0, mean: float = 0.0, variance: float = 0.0):
        self.count, self.mean, self.variance = count, mean, variance

    def unusual(self, bits: float) -> float:
        """(bits - mean) / max(deviation, LEAST_DEVIATION), of the losses that came before; 0 where fewer than KNOWN
        did.
        """
        if self.count < KNOWN:
            return 0.0
        return (bits - self.mean) / max(math.sqrt(self.variance), LEAST_DEVIATION)

    def add(self, bits: float) -> None:
        """Take in a loss."""
        self.count += 1
        rate, gap = 1 / min(self.count, RECENT), bits - self.mean
        self.mean += rate * gap
        self.variance = (1 - rate) * (self.variance + rate * gap * gap)

    def loosen(self) -> None:
        """Weigh as little as can be known: a learner that is frozen soon has a usual loss of its own."""
        self.count = min(self.count, KNOWN)

    def record(self) -> list[Any]:
        """What makes the same again: `Usual(*record)`."""
        return [self.count, self.mean, self.variance]


class RowScores:
    """Scores each row: `row`, its number; `bits`, the loss of its target, None where it has none; and `unusual`."""

    by = BY_LINE

    def __init__(self, usual: Sequence[Any] = ()):
        self.usual = Usual(*usual)
        self.write: Write | None = None  # is given each record

    def take(self, row: int, loss: float) -> None:
        """Score a row by its loss in nats, NaN where it has no target."""
        if self.write is None:
            return
        if math.isnan(loss):
            self.write({"row": row, "bits": None, "unusual": None})
            return
        bits = float(loss) / NATS_PER_BIT
        self.write({"row": row, "bits": round(bits, DIGITS), "unusual": round(self.usual.unusual(bits), DIGITS)})
        self.usual.add(bits)

    def finish(self) -> None:
        """Every row is scored when it comes: nothing waits."""

    def record(self) -> dict[str, Any]:
        """What makes the same again: `RowScores(**record)`."""
        return {"usual": self.usual.record()}


class OpenLine(NamedTuple):
    """What has come of a line that has not ended: where it begins, how many characters, what they and the costliest of
    them cost, and the place of that one in the line.
    """

    byte: int = 0
    characters: int = 0
    bits: float = 0.0
    peak: float = 0.0
    peak_at: int = 0

    def extended(self, bits: np.ndarray) -> OpenLine:
        """With the bits of some more characters; the same however the line was cut."""
        at = int(np.argmax(bits))
        higher = not self.characters or bits[at] > self.peak
        peak = (float(bits[at]), self.characters + at + 1) if higher else (self.peak, self.peak_at)
        return OpenLine(self.byte, self.characters + len(bits), sum_in_order(self.bits, bits), *peak)


class TextScores:
    """Scores a text line by line, or character by character.

    Of a line: `line`, its number from 1; `byte`, where it begins; `characters`, its end included; `bits`, their sum,
    and `per_character`; `peak`, the bits of the costliest character, and `peak_at`, its place from 1; and `unusual`, of
    `per_character`. Of a character: `byte`, `character` (a byte's number), and `bits`. Lines are counted all the time;
    where scoring begins inside a line, the first record is of what came from there.
    """

    def __init__(
        self,
        by: str = BY_LINE,
        line: int = 1,
        open_line: Sequence[Any] = (),
        usual: Sequence[Any] = (),
        text: bool = True,
    ):
        self.by, self.line, self.open_line, self.usual = by, line, OpenLine(*open_line), Usual(*usual)
        self.text = text  # whether the units are characters, not bytes
        self.write: Write | None = None  # is given each record

    def take(self, losses: np.ndarray, units: np.ndarray, places: np.ndarray) -> None:
        """Score some units by their losses in nats; each begins at its place, and the last place is where they end."""
        bits = np.asarray(losses, float) / NATS_PER_BIT
        if self.write is None or self.by == BY_BYTE:
            self._write_units(bits, units, places)
            self.line += int(np.count_nonzero(units == NEWLINE))
            self.open_line = OpenLine(int(places[-1]))
            return
        ends = np.flatnonzero(units == NEWLINE) + 1
        for begin, end in itertools.pairwise([0, *ends.tolist(), len(units)]):
            if begin < end:
                self.open_line = self.open_line.extended(bits[begin:end])
            if begin < end and units[end - 1] == NEWLINE:
                self.end_line(int(places[end]))

    def end_line(self, place: int) -> None:
        """The line has ended, and the next one begins at a place."""
        line = self.open_line
        if self.by == BY_LINE and self.write is not None and line.characters:
            self.write(self._scored(line))
            self.usual.add(line.bits / line.characters)
        self.line, self.open_line = self.line + 1, OpenLine(place)

    def finish(self) -> None:
        """Write down the last line of a stream, which has no end; it goes on all the same if the stream does."""
        if self.by == BY_LINE and self.write is not None and self.open_line.characters:
            self.write(self._scored(self.open_line))

    def rewind(self) -> None:
        """Another stream begins; what is usual stays known."""
        self.line, self.open_line = 1, OpenLine()

    def record(self) -> dict[str, Any]:
        """What makes the same again: `TextScores(**record)`."""
        return {
            "by": self.by,
            "line": self.line,
            "open_line": list(self.open_line),
            "usual": self.usual.record(),
        }

    def _scored(self, line: OpenLine) -> dict[str, Any]:
        per_character = line.bits / line.characters
        return {
            "line": self.line,
            "byte": line.byte,
            "characters": line.characters,
            "bits": round(line.bits, DIGITS),
            "per_character": round(per_character, DIGITS),
            "peak": round(line.peak, DIGITS),
            "peak_at": line.peak_at,
            "unusual": round(self.usual.unusual(per_character), DIGITS),
        }

    def _write_units(self, bits: np.ndarray, units: np.ndarray, places: np.ndarray) -> None:
        if self.write is None:
            return
        for place, unit, cost in zip(places[:-1].tolist(), units.tolist(), bits.tolist(), strict=True):
            character = chr(unit) if self.text else unit
            self.write({"byte": place, "character": character, "bits": round(cost, DIGITS)})
