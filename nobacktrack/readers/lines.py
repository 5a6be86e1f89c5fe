"""A line of CSV or JSON as named values: numbers, words, or nothing where a value is missing."""

from __future__ import annotations

import csv
import datetime
import itertools
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import BadItem

FORMS = ("csv", "jsonl")
MOST_LOOKED_AT = 1000  # lines, for the first target
_DATE = re.compile(r"\s*\d{4}[-/]\d\d[-/]\d\d")
_OTHER_DATE = re.compile(  # 31.1.2024, 01/02/24 14:00, 2024.1.31
    r"\s*(\d\d?([./-])\d\d?\2\d{4}|\d\d([./-])\d\d\3\d\d|\d{4}([./-])\d\d?\4\d\d?)(?![\w./-])"
)
_SIGNS = re.compile(r"[\s%'$€£¥₹]|(?<=\d)[,.](?=\d{3}\b)")
MISSING = ("", "nan", "na", "n/a", "#n/a", "<na>", "null", "none", "-", "?")  # in lower case


class Columns(NamedTuple):
    """Which columns are read, and how they are written.

    `targets` are predicted, from `inputs`, by default from all other columns that have a name; `words` are columns
    whose numbers, or times, are only names; the targets are those of `ahead` rows later, 0 for the row itself. CSV has
    `delimiter` between fields and `decimal` in numbers. What is among `missing`, in any case of its letters, is no
    value.
    """

    targets: tuple[str, ...]
    inputs: tuple[str, ...] | None = None
    words: tuple[str, ...] = ()
    ahead: int = 0
    delimiter: str = ","
    decimal: str = "."
    missing: tuple[str, ...] = MISSING

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Columns:
        """Columns from `_asdict`, which JSON has made lists of."""
        fields: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in record.items()}
        return cls(**fields)

    def expect_sound(self) -> None:
        """Refuse what cannot be meant."""
        for name in ("delimiter", "decimal"):
            value = getattr(self, name)
            if len(value) != 1 or value in '\r\n"':
                raise ValueError(f"{name} must be one character, not {value!r}")
        if self.delimiter == self.decimal:
            raise ValueError(f"delimiter and decimal are both {self.decimal!r}: --delimiter ';' goes with --decimal ,")

    def inputs_of(self, header: list[str]) -> tuple[str, ...]:
        """The columns to predict from: an index without a name says nothing that can be learned from."""
        if self.inputs is not None:
            return self.inputs
        return tuple(name for name in header if (name not in self.targets or self.ahead) and not is_unnamed(name))


def unnamed(place: int) -> str:
    """What a column without a name is called."""
    return f"unnamed {place}"


def is_unnamed(name: str) -> bool:
    return name.startswith("unnamed ")


def parse_header(text: str, delimiter: str) -> list[str]:
    """The names of columns; one without, such as the index that pandas writes, gets one by its place."""
    names = [name.strip() or unnamed(place) for place, name in enumerate(_fields(text, delimiter), 1)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise BadItem(f"the header needs distinct names, and has {', '.join(map(repr, twice))} more than once")
    return names


def parse_csv(text: str, header: list[str], delimiter: str) -> dict[str, Any]:
    """The fields of a row by name."""
    fields = _fields(text, delimiter)
    if len(fields) != len(header):
        raise BadItem(f"{len(fields)} fields, but the header has {len(header)}: cut short?")
    return dict(zip(header, fields, strict=True))


def _fields(text: str, delimiter: str) -> list[str]:
    try:
        (fields,) = csv.reader([text], strict=True, delimiter=delimiter)
    except csv.Error as error:
        raise BadItem(f"not CSV, or cut short ({error})") from None
    return fields


def parse_json(text: str) -> dict[str, Any]:
    """The values of a row by name."""
    try:
        found = json.loads(text, parse_constant=_constant)
    except (json.JSONDecodeError, RecursionError) as error:
        raise BadItem(f"not JSON, or cut short ({error})") from None
    if not isinstance(found, dict):
        raise BadItem(f"expected an object with named columns, not {type(found).__name__}")
    return found


def _constant(name: str) -> float | None:
    if name == "NaN":
        return None
    raise BadItem(f"{name} is not a finite number")


def time_of(value: Any) -> datetime.date | None:
    """A date, or a date and a time, as ISO 8601 has them, None for anything else; slashes in the place of dashes will
    do.
    """
    if not isinstance(value, str) or not _DATE.match(value):
        return None
    text = value.strip().replace("/", "-")
    try:
        return datetime.date.fromisoformat(text) if len(text) == 10 else datetime.datetime.fromisoformat(text)
    except ValueError:
        return None


def is_other_date(value: Any) -> bool:
    """Whether a value that is no time for `time_of` looks like a date all the same."""
    return isinstance(value, str) and _OTHER_DATE.match(value) is not None


def is_missing(value: Any, columns: Columns) -> bool:
    """Whether there is no value."""
    return value is None or (isinstance(value, str) and value.strip().lower() in columns.missing)


def first_target(file: Path, form: str, columns: Columns) -> Any:
    """The first value of the target in a file of rows, None where it has none, or several targets are asked for. What
    cannot be read is left to the reader, which says where it is.
    """
    header, (target, *others) = None, columns.targets
    if others:
        return None
    with file.open(encoding="utf-8-sig", errors="replace") as rows:
        for text in filter(str.strip, itertools.islice(rows, MOST_LOOKED_AT)):
            try:
                if form == "csv" and header is None:
                    header = parse_header(text.strip("\r\n"), columns.delimiter)
                    continue
                row = parse_csv(text.strip("\r\n"), header, columns.delimiter) if header else parse_json(text)
            except BadItem:
                return None
            if not is_missing(row.get(target), columns):
                return row[target]
    return None


def is_label(value: Any, form: str, columns: Columns) -> bool:
    """Whether a target is a word: labels are to be predicted."""
    if not isinstance(value, (int, float, str)):
        return False
    if form == "jsonl" and isinstance(value, (str, bool)):
        return True
    try:
        return number_of("", value, columns) is None
    except BadItem:  # too large, or not finite
        return False


def number_hint(value: Any, columns: Columns) -> str:
    """How a word that looks like a number could be read as one; nothing of other words."""
    if not isinstance(value, str):
        return ""
    if columns.decimal == "." and value.count(",") == 1 and _is_finite(value.replace(",", ".")):
        return "--decimal , reads it as a number"
    bare = _SIGNS.sub("", value)
    signed = bare != value and any(_is_finite(bare.replace(a, "").replace(b, ".")) for a, b in (",.", ".,"))
    return "without signs of currency, per cent and thousands it would be a number" if signed else ""


def _is_finite(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def number_of(name: str, value: Any, columns: Columns) -> float | None:
    """A number, None for a word."""
    text = value.replace(columns.decimal, ".") if isinstance(value, str) and columns.decimal != "." else value
    try:
        number = float(text)
    except (ValueError, OverflowError):
        if isinstance(value, str):
            return None
        raise BadItem(f"column {name!r}: {str(value)[:20]}... is too large") from None
    if not math.isfinite(number):
        raise BadItem(f"column {name!r}: {value} is not a finite number")
    return number


def kind_hint(name: str, value: Any, kind: str, columns: Columns) -> str:
    """What may be meant by a value that does not go with those before it in its column, which are of a kind."""
    hint = f"if they are all words: --words {name}" if kind == "words" else number_hint(value, columns)
    return hint and f"; {hint}"
