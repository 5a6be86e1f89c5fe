"""The readers that `nobacktrack train` begins with: of text or rows, with what was asked for or suggested."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from ..readers.lines import MISSING, Columns, first_target, is_label, number_hint
from ..readers.names import Cell, estimator_of, update_of
from ..readers.presets import PRESETS, Preset, choose_for_rows, choose_for_symbols
from .options import Form, Letters, Task


class Parts(NamedTuple):
    """The learner as it was asked for: by its parts, None for the default of what is read, by the name of a preset, or
    by what an item may cost.
    """

    cell: Cell | None
    units: int | None
    estimator: str | None
    update: str | None
    seed: int
    engine: str
    preset: str | None
    budget: float

    @property
    def named(self) -> bool:
        """Whether any part of the network was asked for."""
        return any(part is not None for part in (self.cell, self.units, self.estimator, self.update))


def _names(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(name.strip() for name in text.split(",") if name.strip())


def columns_of(
    stream: str,
    target: str | None,
    inputs: str | None,
    words: str | None,
    ahead: int,
    delimiter: str,
    decimal: str,
    missing: str | None,
) -> Columns:
    targets = _names(target)
    if not targets:
        raise ValueError(f"{stream}: rows need --target, the column to predict")
    twice = [name for name in targets if targets.count(name) > 1]
    if twice:
        raise ValueError(f"--target: {twice[0]!r} is named twice")
    read = [name for name in targets if name in (_names(inputs) or ())]
    if read and not ahead:
        raise ValueError(f"--inputs: {read[0]!r} is a target too: it would be read before it is predicted; --ahead 1?")
    tokens = MISSING if missing is None else ("", *(token.lower() for token in _names(missing) or ()))
    return Columns(targets, _names(inputs), _names(words) or (), ahead, delimiter, decimal, tokens)


def rows_reader(
    form: Form, task: Task, columns: Columns, parts: Parts, season: int, interval: float, skip_bad: bool
) -> Any:
    from ..readers.rows import RowsReader
    from ..readers.table import DEFAULT, TableReader
    from ..readers.table import Parts as Network

    def table(task: Task) -> TableReader:
        default = DEFAULT if parts.named else Network.of(_rows_preset(parts, task))
        given = parts.cell, parts.units, parts.estimator, parts.update, parts.seed
        fields = zip(default._fields, given, strict=False)
        chosen = default._replace(**{name: value for name, value in fields if value is not None})
        chosen = chosen._replace(season=season, ahead=max(1, columns.ahead), interval=interval)
        _ = estimator_of(chosen.estimator), update_of(chosen.update)  # refused before the first row, not after it
        return TableReader(task, chosen, targets=columns.targets, engine=parts.engine)

    def labels(first: Any) -> TableReader:
        _tell_of_label(first, columns)
        return table(Task.classification)

    is_open = task == Task.auto and len(columns.targets) == 1
    first = table(Task.regression if task == Task.auto else task)
    return RowsReader(first, form, columns, skip_bad=skip_bad, labels=labels if is_open else None)


def task_of(stream: str, form: Form, columns: Columns) -> Task:
    """What the first target of a file is; open for a pipe."""
    if stream == "-" or not Path(stream).is_file():
        return Task.auto
    first = first_target(Path(stream), form, columns)
    if not is_label(first, form, columns):
        return Task.regression
    _tell_of_label(first, columns)
    return Task.classification


def _tell_of_label(first: Any, columns: Columns) -> None:
    """A line where the first label looks like a number."""
    hint = number_hint(first, columns)
    if hint:
        _tell(f"labels are predicted, since the first target is {first!r}; {hint}")


def _rows_preset(parts: Parts, task: Task) -> Preset:
    """The one that was asked for, or what the budget suggests, in a line."""
    if parts.preset is not None:
        return PRESETS[parts.preset]
    preset, why = choose_for_rows(parts.budget)
    of_labels = "a quick network, linear models, and contexts of the labels before"
    kind, company = ("numbers", "forecasts") if task == Task.regression else ("labels", of_labels)
    _tell(f"learner: a committee of {preset.network}, and {company} ({kind} of {why})")
    return preset


def _tell(line: str) -> None:
    Console(stderr=True).print(line, highlight=False, soft_wrap=True)


def text_reader(stream: str, letters: Letters, parts: Parts, skip_bad: bool) -> Any:
    from ..committee import Committee
    from ..readers.alphabets import Growing, Octets, known_alphabet
    from ..readers.company import ContextCompany
    from ..readers.text import TextReader

    pipe = stream == "-" or not Path(stream).is_file()
    if letters == Letters.auto:
        letters = Letters.bytes if pipe else Letters.known
    if letters == Letters.known and stream == "-":
        raise ValueError("a pipe cannot be looked through first: --alphabet growing, or bytes")
    alphabet = {Letters.bytes: Octets, Letters.growing: Growing}.get(letters, lambda: known_alphabet(stream))()
    learner = _text_learner(alphabet.capacity, parts)
    company = None if isinstance(learner, Committee) else ContextCompany()
    state = learner.init(parts.seed)
    return TextReader(learner, state, alphabet, engine=parts.engine, skip_bad=skip_bad, company=company)


def _text_learner(symbols: int, parts: Parts) -> Any:
    """What was asked for, or what the alphabet and the budget suggest, in a line."""
    if parts.named:
        given = parts.cell or Cell.lstm, parts.units or 64, parts.estimator or "block", parts.update or "kalman"
        return Preset(*given, committee=False).learner(symbols=symbols)
    if parts.preset is not None:
        return PRESETS[parts.preset].learner(symbols=symbols)
    preset, why = choose_for_symbols(symbols, parts.budget)
    _tell(f"learner: {preset} ({why})")
    return preset.learner(symbols=symbols)
