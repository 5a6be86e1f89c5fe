"""`nobacktrack train`, `resume` and `evaluate`: learn from a stream as it comes, text or rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..choices import UPDATES, Cell, cell_of, estimator_of, update_of
from . import options
from .options import KEEP, LEARNER, ROWS, STREAM, Engine, Form, Letters, Task
from .running import Kept, Shown, run


def train(
    stream: Annotated[str, typer.Argument(help="A file, or - for standard input.")],
    format: options.Format = Form.auto,
    alphabet: Annotated[
        Letters,
        typer.Option(
            help="Symbols of a text: its bytes (default for a pipe); the known characters of a file, which is looked "
            "through first (default for a file); or growing, characters as they come.",
            rich_help_panel=STREAM,
        ),
    ] = Letters.auto,
    skip_bad: options.SkipBad = False,
    target: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column to predict.", rich_help_panel=ROWS)
    ] = None,
    inputs: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMNS", help="Those to predict from, a,b,c; by default all but the target.", rich_help_panel=ROWS
        ),
    ] = None,
    words: Annotated[
        str | None,
        typer.Option(metavar="COLUMNS", help="Those whose numbers are only names, a,b,c.", rich_help_panel=ROWS),
    ] = None,
    task: Annotated[Task, typer.Option(help="Predict a number or a label.", rich_help_panel=ROWS)] = Task.regression,
    ahead: Annotated[
        bool, typer.Option("--ahead", help="Predict the target of the next row.", rich_help_panel=ROWS)
    ] = False,
    delimiter: options.Delimiter = None,
    predictions: options.Predictions = None,
    cell: Annotated[
        Cell | None,
        typer.Option(
            metavar="NAME",
            help=f"The network: {', '.join(Cell)}. By default leaky for text, rnn for rows.",
            rich_help_panel=LEARNER,
        ),
    ] = None,
    units: options.Units = 20,
    estimator: options.Estimator = "nobacktrack",
    update: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"How the parameters move: {UPDATES}. By default kalman for text, kalman:0.1:5 for rows.",
            rich_help_panel=LEARNER,
        ),
    ] = None,
    seed: options.Seed = 0,
    engine: options.Runner = Engine.auto,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Save the learner here: on the way, at the end, when stopped.", rich_help_panel=KEEP
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Begin anew over a checkpoint that is there.", rich_help_panel=KEEP)
    ] = False,
    checkpoint_every: options.Every = None,
    checkpoint_seconds: options.Seconds = 60.0,
    log: options.Log = None,
    tensorboard: options.Board = None,
    log_seconds: options.LogSeconds = 1.0,
    json: options.Json = False,
    config: options.Config = None,
) -> None:
    """Learn from a stream in one pass, online: the next character of a text, or a column of rows.

    $ nobacktrack train book.txt

    $ tail -f log.txt | nobacktrack train - --checkpoint log.nbt

    $ nobacktrack train power.csv --target load --checkpoint power.nbt
    """
    if checkpoint is not None and checkpoint.is_file() and not overwrite:
        raise ValueError(f"{checkpoint}: it exists: `nobacktrack resume {checkpoint}` goes on, --overwrite begins anew")
    form = _form(stream, format)
    if form == Form.text:
        if target or inputs or words or delimiter or predictions:
            raise ValueError(f"{stream}: this is text; columns and predictions are of rows: --format csv or jsonl")
        reader = _text_reader(
            stream, alphabet, cell or Cell.leaky, units, estimator, update or "kalman", seed, engine, skip_bad
        )
    else:
        if target is None:
            raise ValueError(f"{stream}: rows need --target, the column to predict")
        if alphabet != Letters.auto:
            raise ValueError(f"--alphabet is for text; {stream} is read as rows: --format text")
        if target in (_names(inputs) or ()) and not ahead:
            raise ValueError(
                f"--inputs: {target!r} is the target too: it would be read before it is predicted; --ahead?"
            )
        from ..readers.rows import Columns, RowsReader
        from ..readers.table import DEFAULT, Parts, TableReader

        columns = Columns(target, _names(inputs), _names(words) or (), ahead, _between(stream, delimiter) or ",")
        parts = Parts(cell or DEFAULT.cell, units, estimator, update or DEFAULT.update, seed)
        _ = estimator_of(estimator), update_of(parts.update)  # refused before the first row, not after it
        reader = RowsReader(TableReader(task, parts), form, columns, skip_bad=skip_bad)
    kept = Kept(checkpoint, checkpoint_every, checkpoint_seconds)
    run(reader, stream, kept, Shown(log, tensorboard, log_seconds, predictions, json))


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
    engine: options.Runner = Engine.auto,
    checkpoint_every: options.Every = None,
    checkpoint_seconds: options.Seconds = 60.0,
    log: options.Log = None,
    tensorboard: options.Board = None,
    log_seconds: options.LogSeconds = 1.0,
    json: options.Json = False,
    config: options.Config = None,
) -> None:
    """Go on from a checkpoint, at the place in the stream where it was made, bit for bit as if it had never stopped."""
    reader, name = _reader_of(file, stream, format, delimiter, engine, skip_bad, learning=True)
    if name is None:
        raise ValueError(f"{file}: it does not say which stream it was reading: give one by --stream")
    if from_start:
        reader.rewind()
    kept = Kept(file, checkpoint_every, checkpoint_seconds)
    run(reader, name, kept, Shown(log, tensorboard, log_seconds, predictions, json))


def evaluate(
    file: Annotated[Path, typer.Argument(help="A checkpoint.")],
    stream: Annotated[str, typer.Argument(help="A file of the kind that it was trained on, or - for standard input.")],
    format: options.Format = Form.auto,
    skip_bad: options.SkipBad = False,
    delimiter: options.Delimiter = None,
    predictions: options.Predictions = None,
    json: options.Json = False,
) -> None:
    """How well a learner predicts a stream, read from its beginning, without learning from it.

    Rows may come without the target: with --predictions, what is expected of each is written down.
    """
    reader, _ = _reader_of(file, stream, format, delimiter, Engine.auto, skip_bad, learning=False)
    run(reader, stream, Kept(), Shown(predictions=predictions, json=json))


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


def _reader_of(
    file: Path,
    stream: str | None,
    form: Form,
    delimiter: str | None,
    engine: Engine,
    skip_bad: bool,
    learning: bool,
) -> tuple[Any, str | None]:
    """The reader that a checkpoint holds, where it was or, to evaluate, at a beginning; and the stream to read."""
    import nobacktrack as nbt

    learner, state, notes = nbt.load(file)
    reads, name = notes.get("reads"), stream or notes.get("stream")
    if reads not in ("text", "rows"):
        raise ValueError(f"{file}: saved by a program, not by `nobacktrack train`: it does not say what it was reading")
    if form != Form.auto and (form == Form.text) != (reads == "text"):
        raise ValueError(f"--format {form}: {file} was trained on {reads}")
    chosen: dict[str, Any] = {"learning": learning, "skip_bad": skip_bad}
    if reads == "rows":
        from ..readers.rows import RowsReader

        found = _form(name or "", form)
        chosen |= {"form": None if found == Form.text else found}
        chosen |= {"delimiter": _between(name or "", delimiter)}
        return RowsReader.resumed(learner, state, notes, **chosen), name
    from ..readers.alphabets import alphabet_of
    from ..readers.text import TextReader

    return TextReader(learner, state, alphabet_of(notes["alphabet"]), engine=engine, notes=notes, **chosen), name
