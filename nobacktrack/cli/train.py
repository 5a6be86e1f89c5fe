"""`nobacktrack train`, `resume` and `evaluate`: learn from a stream as it comes, text or rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..readers.names import estimator_of, update_of
from ..readers.presets import BUDGET, PRESETS
from . import options
from .beginnings import Parts, columns_of, rows_reader, task_of, text_reader
from .options import Form, Letters, Task
from .run import Reporting, Saving, run


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
        reader = text_reader(stream, alphabet, parts, skip_bad)
    else:
        if alphabet != Letters.auto:
            raise ValueError(f"--alphabet is for text; {stream} is read as rows: --format text")
        between = _between(stream, delimiter) or ","
        columns = columns_of(stream, target, inputs, words, ahead, between, decimal, missing)
        task = task_of(stream, form, columns) if task == Task.auto else task
        reader = rows_reader(form, task, columns, parts, season, interval, skip_bad)
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
        Path(stream).suffix.lower(), Form.text
    )


def _between(stream: str, delimiter: str | None) -> str | None:
    """What is between the fields of CSV, None where nothing says it."""
    if delimiter is None:
        return "\t" if Path(stream).suffix.lower() == ".tsv" else None
    return delimiter.replace("\\t", "\t")


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
    notes = from_json(found, file)
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
