"""`nobacktrack train`, `resume` and `evaluate`: learn from a stream as it comes, text or rows."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from ..choices import ESTIMATORS, UPDATES, Cell, cell_of, estimator_of, update_of
from . import settings
from .running import logs_of, run


class Engine(StrEnum):
    """Engines by name."""

    auto = "auto"
    jax = "jax"
    fused = "fused"


class Form(StrEnum):
    """What a stream is made of."""

    auto = "auto"
    text = "text"
    csv = "csv"
    jsonl = "jsonl"


class Letters(StrEnum):
    """What the symbols of a text are."""

    auto = "auto"
    bytes = "bytes"
    known = "known"
    growing = "growing"


class Task(StrEnum):
    """What is predicted of a row."""

    regression = "regression"
    classification = "classification"


Config = Annotated[
    Path | None,
    typer.Option(help="A TOML file with any of these options.", callback=settings.apply, is_eager=True),
]
Chosen = Annotated[Engine, typer.Option(help="How it is run: the fused loop where there is one, or jax.")]
Checkpoint = Annotated[
    Path | None,
    typer.Option(help="Save the learner to this file: on the way, at the end, on SIGTERM and SIGINT."),
]
Every = Annotated[int | None, typer.Option(min=1, help="Save after so many characters or rows.")]
Seconds = Annotated[float | None, typer.Option(min=0.0, help="Save after so many seconds.")]
Log = Annotated[list[Path] | None, typer.Option(help="Write records to this file, .csv or .jsonl; it is added to.")]
Board_ = Annotated[Path | None, typer.Option(help="Write records for TensorBoard to this folder.")]
LogSeconds = Annotated[float, typer.Option(min=0.0, help="Seconds between two records.")]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Skip and count what is bad, in place of stopping there.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output, no live line.")]


def train(
    stream: Annotated[str, typer.Argument(help="A file, or - for standard input.")],
    format: Annotated[
        Form, typer.Option(help="By default .csv and .jsonl are rows, all else is text.", rich_help_panel="The stream")
    ] = Form.auto,
    alphabet: Annotated[
        Letters,
        typer.Option(
            help="Symbols of a text: its bytes (default for a pipe), the known characters of a file, which is looked "
            "through first (default for a file), or characters as they come, growing.",
            rich_help_panel="The stream",
        ),
    ] = Letters.auto,
    target: Annotated[
        str | None, typer.Option(help="Rows: the column to predict.", rich_help_panel="The stream")
    ] = None,
    inputs: Annotated[
        str | None,
        typer.Option(help="Rows: the columns to predict from, with commas; all others.", rich_help_panel="The stream"),
    ] = None,
    words: Annotated[
        str | None,
        typer.Option(help="Rows: columns whose numbers are names, with commas.", rich_help_panel="The stream"),
    ] = None,
    task: Annotated[
        Task, typer.Option(help="Rows: predict a number or a label.", rich_help_panel="The stream")
    ] = Task.regression,
    ahead: Annotated[
        bool,
        typer.Option("--ahead", help="Rows: predict the target of the next row.", rich_help_panel="The stream"),
    ] = False,
    skip_bad: SkipBad = False,
    cell: Annotated[
        Cell | None, typer.Option(help="The network: leaky for text, rnn for rows.", rich_help_panel="The learner")
    ] = None,
    units: Annotated[int, typer.Option(min=1, help="Units of the network.", rich_help_panel="The learner")] = 20,
    estimator: Annotated[
        str, typer.Option(help=f"How the gradient is estimated: {ESTIMATORS}.", rich_help_panel="The learner")
    ] = "nobacktrack",
    update: Annotated[
        str | None,
        typer.Option(
            help=f"How the parameters move: {UPDATES}. kalman for text, kalman:0.1:5 for rows.",
            rich_help_panel="The learner",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Seed of the initial weights and of the signs.", rich_help_panel="The learner")
    ] = 0,
    engine: Chosen = Engine.auto,
    checkpoint: Checkpoint = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Begin anew over a checkpoint that is there.")] = False,
    checkpoint_every: Every = None,
    checkpoint_seconds: Seconds = 60.0,
    log: Log = None,
    tensorboard: Board_ = None,
    log_seconds: LogSeconds = 1.0,
    json: Json = False,
    config: Config = None,
) -> None:
    """Learn from a stream in one pass, online: the next character of a text, or a column of rows.

    Examples: `nobacktrack train book.txt`; `tail -f log.txt | nobacktrack train - --checkpoint log.nbt`;
    `nobacktrack train power.csv --target load --checkpoint power.nbt`.
    """
    if checkpoint is not None and checkpoint.is_file() and not overwrite:
        raise ValueError(f"{checkpoint}: it exists: `nobacktrack resume {checkpoint}` goes on, --overwrite begins anew")
    form = _form(stream, format)
    if form == Form.text:
        if target or inputs or words:
            raise ValueError(f"{stream}: columns are those of rows; add --format csv or jsonl")
        reader = _text_reader(
            stream, alphabet, cell or Cell.leaky, units, estimator, update or "kalman", seed, engine, skip_bad
        )
    else:
        if target is None:
            raise ValueError(f"{stream}: rows need --target, the column to predict")
        if target in (_names(inputs) or ()) and not ahead:
            raise ValueError(
                f"--inputs: {target!r} is the target too: it would be read before it is predicted; --ahead?"
            )
        from ..readers.rows import Columns, RowsReader
        from ..readers.table import DEFAULT, Parts, TableReader

        columns = Columns(target, _names(inputs), _names(words) or (), ahead)
        parts = Parts(cell or DEFAULT.cell, units, estimator, update or DEFAULT.update, seed)
        _ = estimator_of(estimator), update_of(parts.update)  # refused before the first row, not after it
        reader = RowsReader(TableReader(task, parts), form, columns, skip_bad=skip_bad)
    notes = {"stream": stream}
    logs = logs_of(log, tensorboard)
    run(reader, stream, notes, checkpoint, checkpoint_every, checkpoint_seconds, logs, log_seconds, json)


def resume(
    file: Annotated[Path, typer.Argument(help="A checkpoint that `train` saved.")],
    stream: Annotated[
        str | None, typer.Option(help="The stream, where it is no longer where it was; - for standard input.")
    ] = None,
    from_start: Annotated[bool, typer.Option("--from-start", help="Read a file from its beginning.")] = False,
    skip_bad: SkipBad = False,
    engine: Chosen = Engine.auto,
    checkpoint_every: Every = None,
    checkpoint_seconds: Seconds = 60.0,
    log: Log = None,
    tensorboard: Board_ = None,
    log_seconds: LogSeconds = 1.0,
    json: Json = False,
    config: Config = None,
) -> None:
    """Go on from a checkpoint, at the place in the stream where it was made, bit for bit as if it had never stopped."""
    reader, notes = _reader_of(file, engine, skip_bad, learning=True)
    name = stream or notes.get("stream")
    if name is None:
        raise ValueError(f"{file}: it does not say which stream it was reading: give one by --stream")
    if from_start:
        reader.rewind()
    logs = logs_of(log, tensorboard)
    run(reader, name, {"stream": name}, file, checkpoint_every, checkpoint_seconds, logs, log_seconds, json)


def evaluate(
    file: Annotated[Path, typer.Argument(help="A checkpoint.")],
    stream: Annotated[str, typer.Argument(help="A file of the kind that it was trained on, or - for standard input.")],
    skip_bad: SkipBad = False,
    json: Json = False,
) -> None:
    """How well a learner predicts a stream, read from its beginning, without learning from it."""
    reader, _ = _reader_of(file, Engine.auto, skip_bad, learning=False)
    run(reader, stream, {}, None, None, None, [], 1.0, json)


def _form(stream: str, form: Form) -> Form:
    if form != Form.auto:
        return form
    return {".csv": Form.csv, ".jsonl": Form.jsonl, ".ndjson": Form.jsonl}.get(Path(stream).suffix, Form.text)


def _names(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(name.strip() for name in text.split(",") if name.strip())


def _text_reader(
    stream: str,
    letters: Letters,
    cell: Cell,
    units: int,
    estimator: str,
    update: str,
    seed: int,
    engine: Engine,
    skip_bad: bool,
) -> Any:
    from ..readers.alphabets import Growing, Known, Octets

    pipe = stream == "-" or not Path(stream).is_file()
    if letters == Letters.auto:
        letters = Letters.bytes if pipe else Letters.known
    if letters == Letters.known:
        if stream == "-":
            raise ValueError("a pipe cannot be looked through first: --alphabet growing, or bytes")
        from ..streams import characters

        alphabet = Known(characters(stream)[1])
    else:
        alphabet = Octets() if letters == Letters.bytes else Growing()
    import nobacktrack as nbt

    from ..readers.text import TextReader

    learner = nbt.Learner(cell_of(cell, units, alphabet.capacity), estimator_of(estimator), update_of(update))
    return TextReader(learner, learner.init(seed), alphabet, engine=engine, skip_bad=skip_bad)


def _reader_of(file: Path, engine: Engine, skip_bad: bool, learning: bool) -> tuple[Any, dict[str, Any]]:
    """The reader that a checkpoint holds: where it was, or, to evaluate, at the beginning of a stream."""
    import nobacktrack as nbt

    learner, state, notes = nbt.load(file)
    if notes.get("reads") not in ("text", "rows"):
        raise ValueError(f"{file}: saved by a program, not by `nobacktrack train`: it does not say what it was reading")
    options = {"learning": learning, "skip_bad": skip_bad}
    if notes["reads"] == "rows":
        from ..readers.rows import RowsReader

        return RowsReader.resumed(learner, state, notes, **options), notes
    from ..readers.alphabets import alphabet_of
    from ..readers.text import TextReader

    return TextReader(learner, state, alphabet_of(notes["alphabet"]), engine=engine, notes=notes, **options), notes
