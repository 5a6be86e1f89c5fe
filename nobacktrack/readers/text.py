"""A learner that reads text or bytes as they come, and predicts each one before it has come."""

from __future__ import annotations

import codecs
import math
from typing import Any

import numpy as np

from ..committee import Committee, frozen
from ..engines import begin
from ..errors import BadItem, Divergence
from ..growth import enlarge, with_symbol, without_symbols
from ..learner import Learner
from ..protocol import NATS_PER_BIT, Params, State
from ..streams.items import Series
from .alphabets import NEVER_SEEN, Growing, Known, Octets, alphabet_of
from .company import ContextCompany
from .notes import TextNotes
from .scores import NEWLINE, TextScores, Usual
from .tally import Tally, frequencies_nats, in_bits, norm_of

BAD_BYTES = range(0xDC80, 0xDD00)  # as Python's "surrogateescape" has them
BYTE_ORDER_MARK = 0xFEFF


class TextReader:
    """A learner, its alphabet, and where it is in a stream of bytes.

    A character that has not come before costs what the learner gives to "never seen", and the bits that say which
    one it is; from then on it has a symbol of its own. With `learning=False` the text is only predicted.
    """

    begun = True  # there is a state to save

    def __init__(
        self,
        learner: Learner | Committee,
        state: State,
        alphabet: Octets | Known | Growing,
        *,
        engine: str = "auto",
        learning: bool = True,
        skip_bad: bool = False,
        company: ContextCompany | None = None,
    ):
        self.beside = company  # what is measured beside it, where it is
        self.alphabet, self.learning, self.skip_bad = alphabet, learning, skip_bad
        self.measuring, self.gradient_norm = False, math.nan  # whether to look at the gradient of the next target
        self.tally, self.position, self.rest = Tally(), 0, b""
        self.scores = TextScores(text=alphabet.text)
        self.counts = np.zeros(alphabet.capacity, np.int64)
        self.trained = learner  # as it was given
        self._engine = engine
        self.learner, state = (learner, state) if learning else frozen(learner, state)
        if isinstance(alphabet, Growing) and state.steps == 0:
            state = without_symbols(state, alphabet.used)
        self._start(state)

    @classmethod
    def resume(cls, learner: Learner, state: State, notes: TextNotes, **options: Any) -> TextReader:
        """A reader that goes on from a checkpoint; one that only predicts counts from the beginning of its stream."""
        reader = cls(learner, state, alphabet_of(notes.alphabet), **options)
        if reader.learning:
            reader.tally, reader.position = Tally(**notes.tally), notes.position
            reader.rest, reader.counts = bytes.fromhex(notes.rest), np.array(notes.counts, np.int64)
            reader.scores = TextScores(**notes.scoring, text=reader.alphabet.text)
        else:
            reader.scores.usual = Usual(*notes.scoring.get("usual", ()))
            reader.scores.usual.loosen()
        return reader

    def notes(self) -> TextNotes:
        """What a checkpoint keeps beside the state, for another reader to go on."""
        return TextNotes(
            self.alphabet.record(),
            self.position,
            self.rest.hex(),
            self.counts.tolist(),
            self.tally.record() | {"experts": self._experts()},
            scoring=self.scores.record(),
        )

    def _start(self, state: State) -> None:
        if hasattr(self, "session"):
            self.tally.experts = self._experts()  # another session begins to count
        self.session = begin(self.learner, state, self._engine, strict=True)

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

    def score(self) -> dict[str, float | None]:
        """Bits a character on the whole and of late, and of what knows frequencies alone, or a few contexts."""
        return {
            "bits": in_bits(self.tally.losses.mean),
            "recent_bits": in_bits(self.tally.losses.recent),
            "baseline_bits": in_bits(frequencies_nats(self.counts[self.counts > 0])),
            **({} if self.beside is None else self.beside.score()),
        }

    def company(self) -> dict[str, Any]:
        """Bits a character of each expert of a committee, and how often its network was set back."""
        targets = max(self.tally.targets, 1)
        experts = {name: in_bits(nats / targets) for name, nats in self._experts().items()}
        return {"experts": experts, "set_back": self.session.returns()} if experts else {}

    def _experts(self) -> dict[str, float]:
        """What each expert has cost, in nats: before this session, and in it."""
        now = self.session.experts()
        return {name: nats + self.tally.experts.get(name, 0.0) for name, nats in now.items()}

    @property
    def params(self) -> Params:
        """The parameters of now."""
        return self.session.params

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
                known = int(strange[0]) if len(strange) else self._whole_portions(len(units), last)
                losses.append(self._learn(symbols[:known], units[:known]))
                if len(strange):
                    losses.append(self._handle_strange(int(units[known])))
                units = units[known + 1 :] if len(strange) else units[:0]
        finally:
            self.rest = raw[self.position - start :]
        return np.concatenate(losses)

    def rewind(self) -> None:
        """Read another stream, from its beginning."""
        self.position, self.rest = 0, b""
        self.scores.rewind()

    def finish(self) -> np.ndarray:
        """The stream has ended: take what waits."""
        return self.take(b"", last=True)

    def tell_rest(self) -> None:
        """What is written down only once a stream has ended, and anew where it goes on: the score of a last line that
        has no end.
        """
        self.scores.finish()

    def _units(self, raw: bytes, last: bool) -> np.ndarray:
        """Bytes, or code points, a bad byte being one of BAD_BYTES; what may be the beginning of a character waits."""
        if not self.alphabet.text:
            return np.frombuffer(raw, np.uint8)
        text, _ = codecs.utf_8_decode(raw, "surrogateescape", last)
        return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)

    def _whole_portions(self, count: int, last: bool) -> int:
        """How many of the characters that came may be learned from now: an engine that compiles for some lengths takes
        whole portions, the same ones wherever the stream was cut, since a step alone is compiled in another way than
        one in a loop.
        """
        lengths = self.session.lengths
        return count if last or not lengths else count - count % lengths[-2]

    def _learn(self, symbols: np.ndarray, units: np.ndarray) -> np.ndarray:
        if not len(symbols):
            return np.zeros(0)
        if self.measuring and isinstance(self.learner, Learner):
            self.measuring, self.gradient_norm = False, norm_of(self.learner.gradient(self.state, symbols[0]))
        losses, at = [], 0
        for length in _cut(len(symbols), self.session.lengths):
            losses.append(self._take(symbols[at : at + length], units[at : at + length]))
            at += length
        return np.concatenate(losses)

    def _take(self, symbols: np.ndarray, units: np.ndarray) -> np.ndarray:
        """Learn from symbols; what was learned before a divergence counts."""
        try:
            losses = self.session.take(Series(symbols))
        except Divergence as error:
            good = len(error.losses)
            self._count(error.losses, symbols[:good], units[:good])
            raise
        self._count(losses, symbols, units)
        return losses

    def _handle_strange(self, unit: int) -> np.ndarray:
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
            if unit == NEWLINE:
                self.scores.end_line(self.position)
            return np.zeros(0)
        name = self.alphabet.name_bits() * NATS_PER_BIT
        losses, symbol = self._meet(unit) if self.learning else self._pass_by()
        self._count(losses + name, np.array([symbol]), np.array([unit]))
        return losses + name

    def _pass_by(self) -> tuple[np.ndarray, int]:
        """A character never seen, where nothing is learned."""
        return self.session.take(Series(np.array([NEVER_SEEN], np.int32))), NEVER_SEEN

    def _meet(self, unit: int) -> tuple[np.ndarray, int]:
        """A character never seen gets a symbol, and the network room for it."""
        assert isinstance(self.alphabet, Growing)
        loss = self.session.observe(NEVER_SEEN)
        state, symbol = self.state, self.alphabet.add(unit)
        if self.alphabet.capacity > len(self.counts):
            self.learner, state = enlarge(self.learner, state, symbols=self.alphabet.capacity)
            state = without_symbols(state, symbol)
            self.counts = np.pad(self.counts, (0, self.alphabet.capacity - len(self.counts)))
        self._start(with_symbol(state, symbol, like=NEVER_SEEN))
        self.session.advance(symbol)
        return np.array([loss]), symbol

    def _count(self, losses: np.ndarray, symbols: np.ndarray, units: np.ndarray) -> None:
        self.tally.losses.add(losses)
        if self.beside is not None:
            self.beside.take(symbols, len(self.counts))
        self.counts += np.bincount(symbols, minlength=len(self.counts))
        lengths = _utf8_lengths(units) if self.alphabet.text else np.ones(len(units), np.int64)
        places = np.cumsum(np.concatenate([[self.position], lengths]))
        self.scores.take(losses, units, places)
        self.position = int(places[-1])

    def _refuse(self, message: str, length: int) -> None:
        """Skip so many bytes, if that was allowed."""
        if not self.skip_bad:
            raise BadItem(f"byte {self.position}: {message}", self.position)
        self.tally.skip(f"byte {self.position}: {message}")
        self.position += length


def _utf8_lengths(points: np.ndarray) -> np.ndarray:
    """Bytes of each character in UTF-8."""
    return 1 + (points > 0x7F) + (points > 0x7FF) + (points > 0xFFFF)


def _cut(count: int, lengths: tuple[int, ...]) -> list[int]:
    """So many items in parts of some lengths, the longest first; in one part where any length will do."""
    if not lengths:
        return [count]
    parts = []
    for length in lengths:
        parts += [length] * (count // length)
        count %= length
    return parts
