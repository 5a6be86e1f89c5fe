"""Rows of CSV or JSON lines, one a line, as they come: each with its number, so that an error can say where it is."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..committee import Committee, frozen
from ..errors import BadItem
from ..learner import Learner
from ..protocol import Params, State
from . import lines
from .lines import FORMS, Columns
from .notes import RowsNotes
from .scores import RowScores
from .table import Expectation, TableReader

LONGEST_LINE = 1 << 20

_log = logging.getLogger("nobacktrack")


class BadHeader(BadItem):
    """The first line of CSV cannot be a header: it is never skipped, since all rows depend on it."""


class RowsReader:
    """A TableReader on lines of CSV or JSON.

    What a column holds, numbers or words, is what its first value is, or words where `columns.words` says so; a value
    of the other kind later on is refused. Columns of JSON lines come and go: one that a row lacks is missing. With
    `learning=False` rows are only predicted, and may come without targets.
    Where `labels` is given, it makes the table that takes the place of the first one if the first target is a label.
    """

    unit = "rows"

    def __init__(
        self,
        table: TableReader,
        form: str,
        columns: Columns,
        *,
        learning: bool = True,
        skip_bad: bool = False,
        labels: Callable[[Any], TableReader] | None = None,
    ):
        if form not in FORMS:
            raise ValueError(f"format must be one of {', '.join(FORMS)}, not {form!r}")
        columns.expect_sound()
        self.table, self.form, self.columns = table, form, columns
        self.learning, self.skip_bad, self._labels_table = learning, skip_bad, labels
        self.on_prediction: Callable[[dict[str, Any]], None] | None = None  # is given the prediction of each row
        self.scores = RowScores()
        self.kinds: dict[str, str] = {}
        self.rewind()

    @classmethod
    def resume(
        cls,
        learner: Learner,
        state: State,
        notes: RowsNotes,
        *,
        form: str | None = None,
        delimiter: str | None = None,
        engine: str = "auto",
        **options: Any,
    ) -> RowsReader:
        """A reader that goes on from a checkpoint; `form` and `delimiter` where the rows are written otherwise now."""
        columns = Columns.of(notes.columns)
        columns = columns._replace(delimiter=delimiter or columns.delimiter)
        if not options.get("learning", True) and isinstance(learner, Committee):
            learner, state = frozen(learner, state)
        table = TableReader.resume(learner, state, notes.table, engine=engine)
        reader = cls(table, form or notes.form, columns, **options)
        reader.kinds, reader.scores = dict(notes.kinds), RowScores(**notes.scoring)
        if reader.learning:
            reader.header, reader.line, reader.position = notes.header, notes.line, notes.position
            reader.rest = bytes.fromhex(notes.rest)
        else:
            reader.columns = columns._replace(inputs=columns.inputs_of(notes.header or []))  # all it was trained on
            table.count_anew()
            reader.scores.usual.loosen()
        return reader

    def notes(self) -> RowsNotes:
        """What a checkpoint keeps beside the state, for another reader to go on."""
        return RowsNotes(
            self.table.notes(),
            self.form,
            self.columns._asdict(),
            self.header,
            self.kinds,
            self.line,
            self.position,
            self.rest.hex(),
            scoring=self.scores.record(),
        )

    @property
    def begun(self) -> bool:
        """Whether there is a state to save."""
        return self.table.live is not None

    @property
    def engine_name(self) -> str:
        return "" if self.table.live is None else self.table.live.engine

    @property
    def gradient_norm(self) -> float:
        return self.table.gradient_norm

    @property
    def measuring(self) -> bool:
        """Whether to look at the gradient of the next target."""
        return self.table.measuring

    @measuring.setter
    def measuring(self, value: bool) -> None:
        self.table.measuring = value

    def score(self) -> dict[str, float | None]:
        return self.table.score()

    @property
    def tally(self) -> Any:
        return self.table.tally

    @property
    def learner(self) -> Learner:
        return self.table.learner

    @property
    def state(self) -> State:
        return self.table.state

    @property
    def params(self) -> Params:
        """The parameters of now."""
        return self.state.params

    def company(self) -> dict[str, Any]:
        return self.table.company()

    def take(self, raw: bytes) -> np.ndarray:
        """Learn from all whole rows in what came: the loss of each, in nats. A bad row does not count as read."""
        self.rest += raw
        begin, losses = 0, []
        try:
            while (end := self.rest.find(b"\n", begin)) >= 0:
                losses.append(self._row(self.rest[begin : end + 1]))
                self.line, self.position, begin = self.line + 1, self.position + end + 1 - begin, end + 1
        finally:
            self.rest = self.rest[begin:]
        if len(self.rest) > LONGEST_LINE:
            raise self._bad(f"no end of line in {LONGEST_LINE} bytes: is it text?")
        return np.array(losses)

    def rewind(self) -> None:
        """Read another stream, from its beginning."""
        self.header: list[str] | None = None
        self.line, self.position, self.rest = 0, 0, b""

    def finish(self) -> np.ndarray:
        """The stream has ended: a last line without an end is one all the same."""
        ended = not self.rest or self.rest.endswith(b"\n")
        losses = self.take(b"" if ended else b"\n")
        absent = [name for name in self.columns.inputs or () if self.header is not None and name not in self.header]
        if absent:
            _log.warning("%s: in no row so far", ", ".join(f"column {name!r}" for name in absent))
        if not ended:  # its end may come yet, if the stream goes on
            self.line, self.position = self.line - 1, self.position - 1
        return losses

    def tell_rest(self) -> None:
        """What is written down only once a stream has ended, and anew where it goes on: what is expected of the rows
        that have not come.
        """
        self.scores.finish()
        if self.columns.ahead and self.on_prediction is not None and self.begun:
            for later, expected in enumerate(self.table.expected()):
                self._report(expected, None, later)

    def _row(self, line: bytes) -> float:
        self.table.on_prediction = None if self.on_prediction is None else self._report
        try:
            values = self._values(line)
            if values is None:
                return math.nan
            inputs, target = values
            if self.learning:
                loss = self.table.learn(inputs, target, ahead=self.columns.ahead > 0)
            else:
                loss = self._evaluate(inputs, target)
            self.scores.take(self.line + 1, loss)
            return loss
        except BadItem as error:
            bad = self._bad(str(error))
            if not self.skip_bad or isinstance(error, BadHeader):
                raise bad from None
            self.tally.skip(str(bad))
            return math.nan

    def _report(self, expected: Expectation, target: Any, later: int = 0) -> None:
        """A record of what was expected of a row, or of one that comes later, and of what came."""
        assert self.on_prediction is not None
        record: dict[str, Any] = {"row": self.line + 1 + later}
        if self.table.task == "classification":
            shares: dict[Any, float] = expected.value or {}
            likeliest = max(shares, key=shares.__getitem__, default=None)  # none, before the first label
            record |= {"target": target, "prediction": likeliest}
            record |= {"probability": shares.get(likeliest), "probabilities": shares}
        elif self.table.targets.single:
            record |= {"target": target, "prediction": expected.value}
            record |= {"low": expected.low, "high": expected.high} if self.table.parts.interval else {}
        else:
            parts = {"": target, " predicted": expected.value}
            parts |= {" low": expected.low, " high": expected.high} if self.table.parts.interval else {}
            for name in self.table.targets.names:
                record |= {f"{name}{what}": None if of is None else of[name] for what, of in parts.items()}
        self.on_prediction(record)

    def _evaluate(self, values: dict[str, Any], target: Any) -> float:
        for name, value in values.items():
            if isinstance(value, str) and not self.table.features.knows(name, value):
                raise BadItem(f"column {name!r}: {value!r} was never seen in training")
        return self.table.evaluate(values, target, ahead=self.columns.ahead > 0)

    def _bad(self, message: str) -> BadItem:
        return BadItem(f"row {self.line + 1}: {message}", self.line)

    # --- a line as inputs and a target ------------------------------------------------------------------------------

    def _values(self, line: bytes) -> tuple[dict[str, Any], Any] | None:
        """Inputs by name and the target, None for a header or an empty line."""
        try:
            text = line.decode("utf-8-sig" if self.line == 0 else "utf-8").strip("\r\n")
        except UnicodeDecodeError as error:
            raise BadItem(f"byte {error.start} of the line is not UTF-8 text") from None
        if "\0" in text:
            raise BadItem("a zero byte: it is not text")
        if not text.strip():
            return None
        if self.form == "csv" and self.header is None:
            self.header = self._read_header(text)
            return None
        return self._named_values(text)

    def _read_header(self, text: str) -> list[str]:
        try:
            header = lines.parse_header(text, self.columns.delimiter)
            self._expect_among((*self._targets(), *(self.columns.inputs or ()), *self.columns.words), header)
        except BadItem as error:
            raise BadHeader(str(error)) from None
        nameless = [name for name in header if lines.is_unnamed(name)]
        if nameless and self.columns.inputs is None:
            _log.warning("%s: left out; --inputs can name it", ", ".join(f"column {name!r}" for name in nameless))
        return header

    def _named_values(self, text: str) -> tuple[dict[str, Any], Any]:
        if self.form == "csv":
            assert self.header is not None
            named, header = lines.parse_csv(text, self.header, self.columns.delimiter), self.header
        else:
            named = lines.parse_json(text)
            header = self._columns_so_far(named)
        self._settle_task(named.get(self.columns.targets[0]))
        kinds = dict(self.kinds)
        row = {name: self._value(name, named.get(name), kinds) for name in self.columns.inputs_of(header)}
        found = {name: self._value(name, named.get(name), kinds) for name in self.columns.targets}
        target = found if len(found) > 1 else next(iter(found.values()))
        for name in (name for name in kinds if name not in self.kinds and kinds[name] == "words"):
            _warn_of_date(name, named[name])
        self.header, self.kinds = header, kinds  # a bad row leaves them as they were
        return row, target

    def _columns_so_far(self, named: Mapping[str, Any]) -> list[str]:
        """The columns of JSON lines so far, with those of a row: they come and go, but the first row has the target, so
        that one which is misspelled is found.
        """
        if self.header is None:
            self._expect_among(self._targets(), list(named))
        before = self.header or []
        return before + [name for name in named if name not in before]

    def _settle_task(self, target: Any) -> None:
        """Predict labels if the first target is one, where that was left open."""
        if self._labels_table is None or lines.is_missing(target, self.columns):
            return
        before = self.table
        if lines.is_label(target, self.form, self.columns):
            self.table = self._labels_table(target)
            self.table.features, self.table.tally = before.features, before.tally
            self.table.on_prediction = before.on_prediction
        self._labels_table = None

    def _expect_among(self, wanted: Sequence[str], names: list[str]) -> None:
        for name in wanted:
            if name not in names:
                hint = "; --delimiter says what is between them" if len(names) == 1 and self.form == "csv" else ""
                raise BadItem(f"there is no column {name!r} among {', '.join(map(repr, names[:20]))}{hint}")

    def _value(self, name: str, value: Any, kinds: dict[str, str]) -> Any:
        """A value as a number or a word, as those before it in its column; None where it is missing."""
        if name in self._labels():
            return self._label(name, value)
        if lines.is_missing(value, self.columns):
            return None
        if not isinstance(value, (int, float, str)):
            hint = "" if self.columns.inputs else "; --inputs names the columns to read"
            raise BadItem(f"column {name!r}: {type(value).__name__} is neither a number nor a word{hint}")
        if name in self.columns.words:
            return str(value)
        is_word = self.form == "jsonl" and isinstance(value, str)
        number = None if is_word else lines.number_of(name, value, self.columns)
        time = lines.time_of(value) if number is None else None
        kind = "numbers" if number is not None else "words" if time is None else "times"
        before = kinds.setdefault(name, kind)
        if kind != before:
            hint = lines.kind_hint(name, value, before, self.columns)
            raise BadItem(f"column {name!r}: {value!r} among {before}{hint}")
        return number if number is not None else value if time is None else time

    def _label(self, name: str, value: Any) -> str | None:
        """A label as a word; only nothing at all is missing, since any word may be one."""
        if value is None or (isinstance(value, str) and not value.strip()):
            return None
        if not isinstance(value, (int, float, str)):
            raise BadItem(f"column {name!r}: {type(value).__name__} is neither a number nor a word")
        return str(value).lower() if isinstance(value, bool) else str(value)

    def _targets(self) -> tuple[str, ...]:
        """The targets, where they must be there: rows that are only evaluated may come without."""
        return self.columns.targets if self.learning or self.columns.ahead else ()

    def _labels(self) -> tuple[str, ...]:
        return self.columns.targets if self.table.task == "classification" else ()


def _warn_of_date(name: str, value: str) -> None:
    """Say it where a word looks like a date."""
    if lines.is_other_date(value):
        message = "column %r: %r is read as a word; of dates and times only ISO 8601 is understood: 2024-01-31, %s"
        _log.warning(message, name, value, "2024-01-31 14:00")
