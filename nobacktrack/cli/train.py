"""`nobacktrack train`, `resume` and `evaluate`: learn from a stream as it comes, text or rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.console import Console

from ..readers.lines import MISSING, Columns, holds_labels
from ..readers.names import Cell, estimator_of, update_of
from ..readers.presets import BUDGET, PRESETS, Preset, choose_for_rows, choose_for_symbols
from . import options
from .options import Form, Letters, Task
from .run import Reporting, Saving, run


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


def train(
    stream: options.Stream,
    format: options.Format = Form.auto,
    alphabet: options.Alphabet = Letters.auto,
    skip_bad: options.SkipBad = False,
    target: options.Target = None,
    inputs: options.Inputs = None,
    words: options.Words = None,
    task: options.Predicted = Task.auto,
    ahead: options.Ahead = 0,
    season: options.Season = 0,
    interval: options.Interval = 0.0,
    delimiter: options.Delimiter = None,
    decimal: options.Decimal = ".",
    missing: options.Missing = None,
    predictions: options.Predictions = None,
    cell: options.ChosenCell = None,
    units: options.ChosenUnits = None,
    estimator: options.ChosenEstimator = None,
    update: options.ChosenUpdate = None,
    preset: options.Chosen = None,
    paper: options.Paper = False,
    budget: options.Budget = BUDGET,
    seed: options.Seed = 0,
    engine: options.Engine = "auto",
    checkpoint: options.Checkpoint = None,
    overwrite: options.Overwrite = False,
    checkpoint_every: options.Every = None,
    checkpoint_seconds: options.Seconds = 60.0,
    keep_best: options.KeepBest = None,
    log: options.Log = None,
    tensorboard: options.Board = None,
    log_seconds: options.LogSeconds = 1.0,
    scores: options.Scores = None,
    scores_by: options.ScoresBy = None,
    json: options.Json = False,
    config: options.Config = None,
) -> None:
    """Learn from a stream in one pass, online: the next character of a text, or a column of rows.

    $ nobacktrack train book.txt

    $ tail -f log.txt | nobacktrack train - --checkpoint log.nbt

    $ nobacktrack train power.csv --target load --checkpoint power.nbt
    """
    for saved in (checkpoint, keep_best):
        if saved is not None and saved.is_file() and not overwrite:
            raise ValueError(f"{saved}: it exists: `nobacktrack resume {saved}` goes on, --overwrite begins anew")
    name = _preset_name(preset, paper)
    form, parts = _form(stream, format), Parts(cell, units, estimator, update, seed, engine, name, budget)
    if parts.named and name is not None:
        raise ValueError("--preset says all of the learner: without it --cell, --units, --estimator and --update can")
    if form == Form.text:
        of_rows = target, inputs, words, delimiter, predictions, missing, ahead, season, interval, decimal != "."
        if any(of_rows):
            raise ValueError(f"{stream}: this is text; columns and predictions are of rows: --format csv or jsonl")
        reader = _text_reader(stream, alphabet, parts, skip_bad)
    else:
        if alphabet != Letters.auto:
            raise ValueError(f"--alphabet is for text; {stream} is read as rows: --format text")
        between = _between(stream, delimiter) or ","
        columns = _columns(stream, target, inputs, words, ahead, between, decimal, missing)
        task = _task(stream, form, columns) if task == Task.auto else task
        reader = _rows_reader(form, task, columns, parts, season, interval, skip_bad)
    saving = Saving(checkpoint, checkpoint_every, checkpoint_seconds, keep_best)
    reporting = Reporting(log, tensorboard, log_seconds, predictions, json, scores, scores_by)
    run(reader, stream, saving, reporting)


def resume(
    file: Annotated[Path, typer.Argument(help="A checkpoint that `train` saved.")],
    stream: Annotated[
        str | None, typer.Option(help="The stream, if it is no longer where it was; - for standard input.")
    ] = None,
    from_start: Annotated[bool, typer.Option("--from-start", help="Read a file from its beginning.")] = False,
    format: options.Format = Form.auto,
    skip_bad: options.SkipBad = False,
    delimiter: options.Delimiter = None,
    predictions: options.Predictions = None,
    estimator: options.OtherEstimator = None,
    update: options.OtherUpdate = None,
    seed: options.OtherSeed = None,
    engine: options.Engine = "auto",
    checkpoint_every: options.Every = None,
    checkpoint_seconds: options.Seconds = 60.0,
    keep_best: options.KeepBest = None,
    log: options.Log = None,
    tensorboard: options.Board = None,
    log_seconds: options.LogSeconds = 1.0,
    scores: options.Scores = None,
    scores_by: options.ScoresBy = None,
    json: options.Json = False,
    config: options.Config = None,
) -> None:
    """Go on from a checkpoint, at the place in the stream where it was made, bit for bit as if it had never stopped.

    With another --estimator, --update or --seed it goes on with what it has learned, from no influence.
    """
    learner, state, notes = _load(file)
    if (estimator, update, seed) != (None, None, None):
        learner, state = _with_other_parts(learner, state, estimator, update, seed)
        notes = notes.with_parts(estimator=estimator, update=update, seed=seed)
    name = stream or notes.stream
    if name is None:
        raise ValueError(f"{file}: it does not say which stream it was reading: give one by --stream")
    reader = _reader(learner, state, notes, name, format, delimiter, engine=engine, skip_bad=skip_bad, learning=True)
    if from_start:
        reader.rewind()
    saving = Saving(file, checkpoint_every, checkpoint_seconds, keep_best, goes_on=True)
    written = {"predictions": notes.predictions, "scores": notes.scores}
    reporting = Reporting(log, tensorboard, log_seconds, predictions, json, scores, scores_by, written)
    run(reader, name, saving, reporting, follows=notes.stream if name != notes.stream else None)


def evaluate(
    file: Annotated[Path, typer.Argument(help="A checkpoint.")],
    stream: Annotated[str, typer.Argument(help="A file of the kind that it was trained on, or - for standard input.")],
    format: options.Format = Form.auto,
    skip_bad: options.SkipBad = False,
    delimiter: options.Delimiter = None,
    predictions: options.Predictions = None,
    scores: options.Scores = None,
    scores_by: options.ScoresBy = None,
    json: options.Json = False,
) -> None:
    """How well a learner predicts a stream, read from its beginning, without learning from it.

    Rows may come without the target: with --predictions, what is expected of each is written down. With --scores, it
    says which lines or rows are unusual.
    """
    learner, state, notes = _load(file)
    reader = _reader(learner, state, notes, stream, format, delimiter, skip_bad=skip_bad, learning=False)
    run(reader, stream, Saving(), Reporting(predictions=predictions, json=json, scores=scores, scores_by=scores_by))


def _form(stream: str, form: Form) -> Form:
    if form != Form.auto:
        return form
    return {".csv": Form.csv, ".tsv": Form.csv, ".jsonl": Form.jsonl, ".ndjson": Form.jsonl}.get(
        Path(stream).suffix, Form.text
    )


def _between(stream: str, delimiter: str | None) -> str | None:
    """What is between the fields of CSV, None where nothing says it."""
    if delimiter is None:
        return "\t" if Path(stream).suffix == ".tsv" else None
    return delimiter.replace("\\t", "\t")


def _names(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(name.strip() for name in text.split(",") if name.strip())


def _columns(
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
    read = [name for name in targets if name in (_names(inputs) or ())]
    if read and not ahead:
        raise ValueError(f"--inputs: {read[0]!r} is a target too: it would be read before it is predicted; --ahead 1?")
    tokens = MISSING if missing is None else ("", *(token.lower() for token in _names(missing) or ()))
    return Columns(targets, _names(inputs), _names(words) or (), ahead, delimiter, decimal, tokens)


def _rows_reader(
    form: Form, task: Task, columns: Columns, parts: Parts, season: int, interval: float, skip_bad: bool
) -> Any:
    from ..readers.rows import RowsReader
    from ..readers.table import DEFAULT, TableReader
    from ..readers.table import Parts as Network

    default = DEFAULT if parts.named else Network.of(_rows_preset(parts, task))
    given = parts.cell, parts.units, parts.estimator, parts.update, parts.seed
    fields = zip(default._fields, given, strict=False)
    chosen = default._replace(**{name: value for name, value in fields if value is not None})
    chosen = chosen._replace(season=season, ahead=max(1, columns.ahead), interval=interval)
    _ = estimator_of(chosen.estimator), update_of(chosen.update)  # refused before the first row, not after it
    table = TableReader(task, chosen, targets=columns.targets, engine=parts.engine)
    return RowsReader(table, form, columns, skip_bad=skip_bad)


def _task(stream: str, form: Form, columns: Columns) -> Task:
    """What the first target is."""
    is_file = stream != "-" and Path(stream).is_file()
    return Task.classification if is_file and holds_labels(Path(stream), form, columns) else Task.regression


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


def _text_reader(stream: str, letters: Letters, parts: Parts, skip_bad: bool) -> Any:
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


def _preset_name(preset: str | None, paper: bool) -> str | None:
    """The preset that was asked for."""
    if paper and preset not in (None, "paper"):
        raise ValueError(f"--paper is --preset paper, not --preset {preset}")
    if preset is not None and preset not in PRESETS:
        raise ValueError(f"--preset: {preset!r} is none of {', '.join(PRESETS)}")
    return "paper" if paper else preset


def _load(file: Path) -> tuple[Any, Any, Any]:
    """The learner of a checkpoint that `train` saved, its state, and what it was reading."""
    import nobacktrack as nbt

    from ..readers.notes import RowsNotes, TextNotes, from_json

    learner, state, found = nbt.load(file)
    notes = from_json(found)
    if not isinstance(notes, (TextNotes, RowsNotes)):
        raise ValueError(f"{file}: saved by a program, not by `nobacktrack train`: it does not say what it was reading")
    return learner, state, notes


def _with_other_parts(
    learner: Any, state: Any, estimator: str | None, update: str | None, seed: int | None
) -> tuple[Any, Any]:
    """The same network with another estimator, update or seed: what it has learned stays."""
    import nobacktrack as nbt

    if isinstance(learner, nbt.Committee):
        raise ValueError("--estimator, --update, --seed: this learner is a committee, which goes on as it is")

    other = nbt.Learner(
        learner.system,
        learner.estimator if estimator is None else estimator_of(estimator),
        learner.update if update is None else update_of(update),
    )
    return other, other.adopt(state, seed)


def _reader(learner: Any, state: Any, notes: Any, stream: str, form: Form, delimiter: str | None, **chosen: Any) -> Any:
    """The reader that a checkpoint holds, where it was or, to evaluate, at a beginning."""
    from ..readers.notes import TextNotes
    from ..readers.rows import RowsReader
    from ..readers.text import TextReader

    if form != Form.auto and (form == Form.text) != isinstance(notes, TextNotes):
        raise ValueError(f"--format {form}: the checkpoint was trained on {notes.reads}")
    if isinstance(notes, TextNotes):
        return TextReader.resume(learner, state, notes, **chosen)
    found = _form(stream, form)
    chosen |= {"form": None if found == Form.text else found, "delimiter": _between(stream, delimiter)}
    return RowsReader.resume(learner, state, notes, **chosen)
