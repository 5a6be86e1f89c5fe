"""What a checkpoint keeps of a reader beside the state, so that another one can go on: a record for each kind."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar


@dataclasses.dataclass(frozen=True)
class TextNotes:
    """Of a `TextReader`: its alphabet, where it is, and what it has cost."""

    reads: ClassVar[str] = "text"

    alphabet: dict[str, Any]
    position: int  # bytes that were learned from
    rest: str  # bytes that wait, in hexadecimal
    counts: list[int]  # of each symbol
    tally: dict[str, Any]
    stream: str | None = None  # its name
    predictions: list[Any] | None = None  # the file of predictions, and its size in bytes
    scores: list[Any] | None = None  # the same of scores
    scoring: dict[str, Any] = dataclasses.field(default_factory=dict)  # the line that is not whole, and what is usual

    def with_parts(self, **parts: Any) -> TextNotes:
        """The learner says what it is made of."""
        return self


@dataclasses.dataclass(frozen=True)
class TableNotes:
    """Of a `TableReader`: what it is made of, what it knows of the columns, and how well it predicts."""

    reads: ClassVar[str] = "table"

    task: str
    parts: dict[str, Any]
    features: dict[str, Any]
    targets: dict[str, Any]
    classes: dict[str, Any]
    counts: list[Any]  # of each label: pairs
    errors: dict[str, Any]
    tally: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class RowsNotes:
    """Of a `RowsReader`: its table, how rows are written, and where it is."""

    reads: ClassVar[str] = "rows"

    table: TableNotes
    form: str
    columns: dict[str, Any]
    header: list[str] | None
    kinds: dict[str, str]
    line: int
    position: int
    rest: str
    stream: str | None = None
    predictions: list[Any] | None = None
    scores: list[Any] | None = None
    scoring: dict[str, Any] = dataclasses.field(default_factory=dict)  # what is usual

    def with_parts(self, **parts: Any) -> RowsNotes:
        """With other parts of the network, where they are not None."""
        given = {name: value for name, value in parts.items() if value is not None}
        return dataclasses.replace(self, table=dataclasses.replace(self.table, parts=self.table.parts | given))


Notes = TextNotes | TableNotes | RowsNotes


def as_json(notes: Notes) -> dict[str, Any]:
    """A record as JSON, with its kind."""
    return {"reads": notes.reads, **dataclasses.asdict(notes)}


def from_json(found: Mapping[str, Any], path: str | Path = "notes") -> Notes | None:
    """The record that a checkpoint holds; None where a program saved it, with notes of its own."""
    try:
        return _record(found)
    except TypeError as error:
        raise ValueError(f"{path}: written by another version, with other notes ({error})") from None


def _record(found: Mapping[str, Any]) -> Notes | None:
    kinds: dict[str, Any] = {kind.reads: kind for kind in (TextNotes, TableNotes, RowsNotes)}
    if found.get("reads") not in kinds:
        return None
    fields = {name: value for name, value in found.items() if name != "reads"}
    if found["reads"] == RowsNotes.reads:
        fields["table"] = TableNotes(**fields["table"])
    return kinds[found["reads"]](**fields)
