"""Rows of CSV or JSON lines, one a line, as they come: each with its number, so that an error can say where it is."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import BadItem
from ..learner import Learner
from ..protocol import State
from .table import TableReader

FORMS = ("csv", "jsonl")
LONGEST_LINE = 1 << 20


class Columns(NamedTuple):
    """Which columns are read, and which of them hold words; `inputs` None: all but the target."""

    target: str
    inputs: tuple[str, ...] | None = None
    words: tuple[str, ...] = ()
    ahead: bool = False  # the target is that of the next row
    delimiter: str = ","  # between the fields of CSV


class RowsReader:
    """A TableReader on lines of CSV or JSON.

    What a column holds, numbers or words, is what its first value is, or words where `columns.words` says so; a value
    of the other kind later on is refused. An empty field, or null, is a value that is missing.
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
        notes: Mapping[str, Any] | None = None,
    ):
        if form not in FORMS:
            raise ValueError(f"format must be one of {', '.join(FORMS)}, not {form!r}")
        if len(columns.delimiter) != 1 or columns.delimiter in '\r\n"':
            raise ValueError(f"delimiter must be one character, not {columns.delimiter!r}")
        notes = notes or {}
        self.table, self.form, self.columns = table, form, columns
        self.learning, self.skip_bad = learning, skip_bad
        self.tell: Callable[[dict[str, Any]], None] | None = None  # told the prediction of each row
        self.kinds: dict[str, str] = dict(notes.get("kinds", {}))
        self.header: list[str] | None = notes.get("header")
        self.line, self.position = int(notes.get("line", 0)), int(notes.get("position", 0))
        self.rest = bytes.fromhex(notes.get("rest", ""))
        if not learning:
            self.columns = columns._replace(inputs=self._inputs_of(self.header or ()))  # all that it was trained on
            self.rewind()
            table.count_anew()

    @classmethod
    def resumed(
        cls,
        learner: Learner,
        state: State,
        notes: Mapping[str, Any],
        form: str | None = None,
        delimiter: str | None = None,
        **options: Any,
    ) -> RowsReader:
        """A reader that goes on from a checkpoint; `form` and `delimiter` where the rows are written otherwise now."""
        target, inputs, words, *rest = notes["columns"]
        columns = Columns(target, None if inputs is None else tuple(inputs), tuple(words), *rest)
        columns = columns._replace(delimiter=delimiter or columns.delimiter)
        return cls(TableReader.made(learner, state, notes), form or notes["form"], columns, notes=notes, **options)

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

    def notes(self) -> dict[str, Any]:
        """What a checkpoint keeps beside the state, for another reader to go on."""
        return self.table.notes() | {
            "reads": "rows",
            "form": self.form,
            "columns": list(self.columns),
            "header": self.header,
            "kinds": self.kinds,
            "line": self.line,
            "position": self.position,
            "rest": self.rest.hex(),
        }

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
        self.header, self.line, self.position, self.rest = None, 0, 0, b""

    def finish(self) -> np.ndarray:
        """The stream has ended: a last line without an end is one all the same."""
        ended = not self.rest or self.rest.endswith(b"\n")
        losses = self.take(b"" if ended else b"\n")
        if not ended:  # its end may come yet, if the stream goes on
            self.line, self.position = self.line - 1, self.position - 1
        if self.columns.ahead and self.tell is not None and self.begun:
            self._tell(self.table.expected(), None)  # of the row that has not come
        return losses

    def _row(self, line: bytes) -> float:
        self.table.tell = None if self.tell is None else self._tell
        try:
            values = self._values(line)
            if values is None:
                return math.nan
            inputs, target = values
            if not self.learning:
                return self._evaluated(inputs, target)
            return self.table.learn(inputs, target, ahead=self.columns.ahead)
        except BadItem as error:
            bad = self._bad(str(error))
            if not self.skip_bad:
                raise bad from None
            self.tally.skip(str(bad))
            return math.nan

    def _tell(self, expected: Any, target: Any) -> None:
        """A record of what was expected of a row, and of what came."""
        assert self.tell is not None
        record = {"row": self.line + 1, "target": target}
        if self.table.task == "regression":
            self.tell(record | {"prediction": expected})
        else:
            likeliest = max(expected, key=expected.get, default=None)  # none, before the first label
            self.tell(
                record | {"prediction": likeliest, "probability": expected.get(likeliest), "probabilities": expected}
            )

    def _evaluated(self, values: dict[str, Any], target: Any) -> float:
        for name, value in values.items():
            if isinstance(value, str) and not self.table.features.knows(name, value):
                raise BadItem(f"column {name!r}: {value!r} was never seen in training")
        return self.table.evaluate(values, target, ahead=self.columns.ahead)

    def _bad(self, message: str) -> BadItem:
        return BadItem(f"row {self.line + 1}: {message}", self.line)

    # --- a line as named values -------------------------------------------------------------------------------------

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
        named = self._of_csv(text) if self.form == "csv" else self._of_json(text)
        if named is None:
            return None
        header, kinds = self.header or list(named), dict(self.kinds)
        row = {name: self._valued(name, named[name], kinds) for name in self._inputs(named, header)}
        target = self._valued(self.columns.target, named.get(self.columns.target), kinds)
        self.header, self.kinds = header, kinds  # a bad row leaves them as they were
        return row, target

    def _of_csv(self, text: str) -> dict[str, Any] | None:
        try:
            (fields,) = csv.reader([text], strict=True, delimiter=self.columns.delimiter)
        except csv.Error as error:
            raise BadItem(f"not CSV, or cut short ({error})") from None
        if self.header is None:
            fields = [name.strip() for name in fields]
            twice = {name for name in fields if fields.count(name) > 1 or not name}
            if twice:
                raise BadItem(f"the header needs distinct names, and has {sorted(twice)}")
            self._expect_columns(fields)
            self.header = fields
            return None
        if len(fields) != len(self.header):
            raise BadItem(f"{len(fields)} fields, but the header has {len(self.header)}: cut short?")
        return dict(zip(self.header, fields, strict=True))

    def _of_json(self, text: str) -> dict[str, Any]:
        try:
            found = json.loads(text, parse_constant=_refuse_constant)
        except (json.JSONDecodeError, RecursionError) as error:
            raise BadItem(f"not JSON, or cut short ({error})") from None
        if not isinstance(found, dict):
            raise BadItem(f"expected an object with named columns, not {type(found).__name__}")
        if self.header is None:
            self._expect_columns(list(found))
        return found

    def _expect_columns(self, names: list[str]) -> None:
        for name in (*self._targets(), *(self.columns.inputs or ()), *self.columns.words):
            if name not in names:
                hint = "; --delimiter says what is between them" if len(names) == 1 and self.form == "csv" else ""
                raise BadItem(f"there is no column {name!r} among {', '.join(map(repr, names[:20]))}{hint}")

    def _inputs(self, named: Mapping[str, Any], header: list[str]) -> Sequence[str]:
        """The columns to predict from, once all that is needed is there."""
        inputs = self._inputs_of(header)
        missing = [name for name in (*inputs, *self._targets()) if name not in named]
        if missing:
            raise BadItem(f"column {missing[0]!r} is missing")
        strange = [name for name in named if name not in header]
        if strange and self.columns.inputs is None:
            raise BadItem(f"column {strange[0]!r} was not in the first row; choose columns by --inputs")
        return inputs

    def _inputs_of(self, header: Sequence[str]) -> tuple[str, ...]:
        target, inputs, _, ahead, _ = self.columns
        return inputs or tuple(name for name in header if name != target or ahead)

    def _valued(self, name: str, value: Any, kinds: dict[str, str]) -> Any:
        """A value as a number or a word, as those before it in its column; None where it is missing."""
        if value is None or (isinstance(value, str) and not value.strip()):
            return None
        if isinstance(value, bool):
            value = float(value) if name not in self._labels() else str(value).lower()
        if not isinstance(value, (int, float, str)):
            raise BadItem(f"column {name!r}: {type(value).__name__} is neither a number nor a word")
        if name in self.columns.words or name in self._labels():
            return str(value)
        number = _number(name, value) if self.form == "csv" or not isinstance(value, str) else None
        kind = "words" if number is None else "numbers"
        before = kinds.setdefault(name, kind)
        if kind != before:
            hint = f"; if they are all words: --words {name}" if before == "words" else ""
            raise BadItem(f"column {name!r}: {value!r} among {before}{hint}")
        return value if number is None else number

    def _targets(self) -> tuple[str, ...]:
        """The target, where it must be there: rows that are only evaluated may come without."""
        return (self.columns.target,) if self.learning or self.columns.ahead else ()

    def _labels(self) -> tuple[str, ...]:
        return (self.columns.target,) if self.table.task == "classification" else ()


def _number(name: str, value: Any) -> float | None:
    """A number, None for a word."""
    try:
        number = float(value)
    except (ValueError, OverflowError):
        if isinstance(value, str):
            return None
        raise BadItem(f"column {name!r}: {str(value)[:20]}... is too large") from None
    if not math.isfinite(number):
        raise BadItem(f"column {name!r}: {value} is not a finite number")
    return number


def _refuse_constant(name: str) -> float:
    raise BadItem(f"{name} is not a finite number")
