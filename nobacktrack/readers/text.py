"""A learner that reads text or bytes as they come, and predicts each one before it has come."""

from __future__ import annotations

import codecs
import math
from typing import Any

import numpy as np

from ..engines import begin
from ..errors import BadItem
from ..estimators import Immediate
from ..growth import enlarge, with_symbol, without_symbols
from ..learner import Learner
from ..protocol import NATS_PER_BIT, State
from ..streams.items import Series
from ..updates import Frozen
from .alphabets import NEVER_SEEN, Growing, Known, Octets
from .tally import Tally, frequencies_nats, in_bits, norm_of

BAD_BYTES = range(0xDC80, 0xDD00)  # as Python's "surrogateescape" has them
BYTE_ORDER_MARK = 0xFEFF


class TextReader:
    """A learner, its alphabet, and where it is in a stream of bytes.

    A character that has not come before costs what the learner gives to "never seen", and the bits that say which
    one it is; from then on it has a symbol of its own.
    """

    begun = True  # there is a state to save

    def __init__(
        self,
        learner: Learner,
        state: State,
        alphabet: Octets | Known | Growing,
        *,
        engine: str = "auto",
        learning: bool = True,
        skip_bad: bool = False,
        notes: dict[str, Any] | None = None,
    ):
        notes = (notes or {}) if learning else {}  # an evaluation counts from the beginning of its stream
        self.alphabet, self.learning, self.skip_bad = alphabet, learning, skip_bad
        self.measuring, self.gradient_norm = False, math.nan  # whether to look at the gradient of the next target
        self.tally = Tally(**notes.get("tally", {}))
        self.position = int(notes.get("position", 0))  # bytes that were learned from
        self.rest = bytes.fromhex(notes.get("rest", ""))  # the beginning of a character
        self.counts = np.array(notes.get("counts", [0] * alphabet.capacity), np.int64)
        self.learner, self._engine = (learner if learning else _fixed(learner)), engine
        self.trained = learner  # as it was given
        state = state if learning else _fixed_state(self.learner, state)
        if isinstance(alphabet, Growing) and state.steps == 0:
            state = without_symbols(state, alphabet.used)
        self._start(state)

    def _start(self, state: State) -> None:
        self.session = begin(self.learner, state, self._engine if self.learning else "jax", strict=True)

    @property
    def unit(self) -> str:
        """What the items are called."""
        return "characters" if self.alphabet.text else "bytes"

    @property
    def engine_name(self) -> str:
        """The engine that is at work, and why it is not the fused one."""
        reason = self.session.reason if self.learning and self._engine == "auto" else ""
        return f"{self.session.name} ({reason})" if reason else self.session.name

    @property
    def state(self) -> State:
        """All that the learner knows."""
        return self.session.state()

    def notes(self) -> dict[str, Any]:
        """What a checkpoint keeps beside the state, for another reader to go on."""
        return {
            "reads": "text",
            "alphabet": self.alphabet.described(),
            "tally": self.tally.described(),
            "position": self.position,
            "rest": self.rest.hex(),
            "counts": self.counts.tolist(),
        }

    def score(self) -> dict[str, float | None]:
        """Bits a character on the whole and of late, and of what knows frequencies alone."""
        return {
            "bits": in_bits(self.tally.mean),
            "recent_bits": in_bits(self.tally.lately),
            "baseline_bits": in_bits(frequencies_nats(self.counts[self.counts > 0])),
        }

    def take(self, raw: bytes, *, last: bool = False) -> np.ndarray:
        """Learn from what came: the loss of each character, in nats. What cannot be told yet waits in `rest`; what is
        bad, and all after it, stays there.
        """
        raw, start = self.rest + raw, self.position
        units, losses = self._units(raw, last), [np.zeros(0)]
        try:
            while len(units):
                symbols = self.alphabet.symbols(units)
                strange = np.flatnonzero(symbols < 0)
                known = int(strange[0]) if len(strange) else self._ready(len(units), last)
                losses.append(self._learned(symbols[:known], units[:known]))
                if len(strange):
                    losses.append(self._met(int(units[known])))
                units = units[known + 1 :] if len(strange) else units[:0]
        finally:
            self.rest = raw[self.position - start :]
        return np.concatenate(losses)

    def rewind(self) -> None:
        """Read another stream, from its beginning."""
        self.position, self.rest = 0, b""

    def finish(self) -> np.ndarray:
        """The stream has ended: take what waits."""
        return self.take(b"", last=True)

    def _units(self, raw: bytes, last: bool) -> np.ndarray:
        """Bytes, or code points, a bad byte being one of BAD_BYTES; what may be the beginning of a character waits."""
        if not self.alphabet.text:
            return np.frombuffer(raw, np.uint8)
        text, _ = codecs.utf_8_decode(raw, "surrogateescape", last)
        return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)

    def _ready(self, count: int, last: bool) -> int:
        """How many of the characters that came may be learned from now: the reference engine takes whole portions, the
        same ones wherever the stream was cut, since a step alone is compiled in another way than one in a loop.
        """
        lengths = self.session.lengths
        return count if last or not lengths else count - count % lengths[-2]

    def _learned(self, symbols: np.ndarray, units: np.ndarray) -> np.ndarray:
        if not len(symbols):
            return np.zeros(0)
        if self.measuring:
            self.measuring, self.gradient_norm = False, norm_of(self.learner.gradient(self.state, symbols[0]))
        parts = _cut(symbols, self.session.lengths) if self.session.lengths else [symbols]
        losses = np.concatenate([self.session.take(Series(part)) for part in parts])
        self._count(losses, symbols, units)
        return losses

    def _met(self, unit: int) -> np.ndarray:
        """A character that has no symbol, a bad byte, or the mark before some texts."""
        if unit == BYTE_ORDER_MARK and self.position == 0:
            self.position += len(chr(unit).encode())
            return np.zeros(0)
        if unit in BAD_BYTES:
            self._refuse("not UTF-8 text, or cut short; --alphabet bytes reads any file", 1)
            return np.zeros(0)
        if not isinstance(self.alphabet, Growing):
            kind = "alphabet of this text" if self.learning else "alphabet that was learned"
            self._refuse(f"{chr(unit)!r} is not in the {kind}", len(chr(unit).encode()))
            return np.zeros(0)
        name = self.alphabet.name_bits() * NATS_PER_BIT
        if not self.learning:
            losses = self.session.take(Series(np.array([NEVER_SEEN], np.int32))) + name
            self._count(losses, np.array([NEVER_SEEN]), np.array([unit]))
            return losses
        loss = self.session.observe(NEVER_SEEN)
        state, symbol = self.state, self.alphabet.add(unit)
        if self.alphabet.capacity > len(self.counts):
            self.learner, state = enlarge(self.learner, state, symbols=self.alphabet.capacity)
            state = without_symbols(state, symbol)
            self.counts = np.pad(self.counts, (0, self.alphabet.capacity - len(self.counts)))
        self._start(with_symbol(state, symbol, like=NEVER_SEEN))
        self.session.advance(symbol)
        losses = np.array([loss + name])
        self._count(losses, np.array([symbol]), np.array([unit]))
        return losses

    def _count(self, losses: np.ndarray, symbols: np.ndarray, units: np.ndarray) -> None:
        self.tally.add(losses)
        self.counts += np.bincount(symbols, minlength=len(self.counts))
        self.position += int(_lengths(units).sum()) if self.alphabet.text else len(units)

    def _refuse(self, message: str, length: int) -> None:
        """Skip so many bytes, if that was allowed."""
        if not self.skip_bad:
            raise BadItem(f"byte {self.position}: {message}", self.position)
        self.tally.skip(f"byte {self.position}: {message}")
        self.position += length


def _lengths(points: np.ndarray) -> np.ndarray:
    """Bytes of each character in UTF-8."""
    return 1 + (points > 0x7F) + (points > 0x7FF) + (points > 0xFFFF)


def _cut(symbols: np.ndarray, lengths: tuple[int, ...]) -> list[np.ndarray]:
    """A chunk in parts of some lengths, the longest first."""
    parts, start = [], 0
    for size in lengths:
        count = (len(symbols) - start) // size
        parts += [symbols[start + i * size : start + (i + 1) * size] for i in range(count)]
        start += count * size
    return parts


def _fixed(learner: Learner) -> Learner:
    """The same system, without learning: nothing is carried and nothing moves."""
    return Learner(learner.system, Immediate(), Frozen())


def _fixed_state(learner: Learner, state: State) -> State:
    fresh = learner.init(0, dtype=np.asarray(state.h).dtype)
    return fresh._replace(params=state.params, h=state.h, t=state.t, key=state.key)
