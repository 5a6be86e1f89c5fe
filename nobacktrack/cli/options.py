"""Options that several commands share, by the same names and with the same words."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ..readers.names import ESTIMATORS, UPDATES, Cell
from ..readers.presets import PRESETS
from . import settings


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


class By(StrEnum):
    """What of a text gets a score of its own."""

    line = "line"
    byte = "byte"


class Task(StrEnum):
    """What is predicted of a row."""

    auto = "auto"
    regression = "regression"
    classification = "classification"


STREAM, ROWS, LEARNER, KEEP, WATCH = "The stream", "Rows", "The learner", "Keep it", "Watch it"

Stream = Annotated[str, typer.Argument(help="A file, or - for standard input.")]
Alphabet = Annotated[
    Letters,
    typer.Option(
        help="Symbols of a text: its bytes (default for a pipe); the known characters of a file, which is looked "
        "through first (default for a file); or growing, characters as they come.",
        rich_help_panel=STREAM,
    ),
]
Target = Annotated[
    str | None,
    typer.Option(metavar="COLUMNS", help="What to predict; a,b,c for several numbers.", rich_help_panel=ROWS),
]
Inputs = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMNS", help="Those to predict from, a,b,c; by default all but the target.", rich_help_panel=ROWS
    ),
]
Words = Annotated[
    str | None,
    typer.Option(metavar="COLUMNS", help="Those whose numbers or times are only names, a,b,c.", rich_help_panel=ROWS),
]
Predicted = Annotated[
    Task,
    typer.Option(
        help="Predict a number or a label; by default what the first target is.",
        rich_help_panel=ROWS,
    ),
]
Ahead = Annotated[
    int,
    typer.Option(
        min=0,
        metavar="N",
        help="Predict the target of N rows later: 1 for the next row; 0 for the row itself, from its other columns.",
        rich_help_panel=ROWS,
    ),
]
Season = Annotated[
    int, typer.Option(min=0, metavar="N", help="Rows after which a season comes again.", rich_help_panel=ROWS)
]
Interval = Annotated[
    float,
    typer.Option(
        metavar="SHARE", help="Give intervals that hold this share of the targets, such as 0.9.", rich_help_panel=ROWS
    ),
]
Decimal = Annotated[
    str, typer.Option(metavar="C", help="In numbers of CSV; a comma goes with another delimiter.", rich_help_panel=ROWS)
]
Missing = Annotated[
    str | None,
    typer.Option(
        metavar="WORDS",
        help="What stands for a value that is missing, a,b,c; by default nothing, NaN, NA, N/A, null, none, - and ?.",
        rich_help_panel=ROWS,
    ),
]
ChosenCell = Annotated[
    Cell | None,
    typer.Option(
        metavar="NAME",
        help=f"The network: {', '.join(Cell)}. With this or an option below there is one network and no committee.",
        rich_help_panel=LEARNER,
    ),
]
ChosenUpdate = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help=f"How the parameters move: {UPDATES}.",
        rich_help_panel=LEARNER,
    ),
]
ChosenUnits = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Units of the network.", rich_help_panel=LEARNER)
]
ChosenEstimator = Annotated[
    str | None,
    typer.Option(metavar="NAME", help=f"How the gradient is carried: {ESTIMATORS}.", rich_help_panel=LEARNER),
]
Chosen = Annotated[
    str | None,
    typer.Option("--preset", metavar="NAME", help=f"A learner by name: {', '.join(PRESETS)}.", rich_help_panel=LEARNER),
]
Paper = Annotated[
    bool, typer.Option("--paper", help="The paper's own learner: --preset paper.", rich_help_panel=LEARNER)
]
Budget = Annotated[
    float,
    typer.Option(
        min=0.0,
        metavar="US",
        help="What a character or row may cost, in microseconds on one core: the largest network that it buys.",
        rich_help_panel=LEARNER,
    ),
]
OtherEstimator = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Another estimator from here on, from no influence.", rich_help_panel=LEARNER),
]
OtherUpdate = Annotated[
    str | None, typer.Option(metavar="NAME", help="Another update from here on.", rich_help_panel=LEARNER)
]
OtherSeed = Annotated[
    int | None, typer.Option(metavar="N", help="Another seed of the signs from here on.", rich_help_panel=LEARNER)
]
Checkpoint = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Save the learner here: on the way, at the end, when stopped.", rich_help_panel=KEEP
    ),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Begin anew over a checkpoint that is there.", rich_help_panel=KEEP)
]
KeepBest = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Save the learner here too, whenever its recent loss is the lowest so far.",
        rich_help_panel=KEEP,
    ),
]
Format = Annotated[
    Form,
    typer.Option(help="By default .csv, .tsv and .jsonl are rows, the rest text.", rich_help_panel=STREAM),
]
SkipBad = Annotated[
    bool, typer.Option("--skip-bad", help="Skip and count what is bad; else it stops there.", rich_help_panel=STREAM)
]
Predictions = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Write the prediction of each row here, .csv or .jsonl; resume adds to it.",
        rich_help_panel=ROWS,
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option(metavar="C", help="Between the fields of CSV; a comma, a tab in .tsv.", rich_help_panel=ROWS),
]
Units = Annotated[int, typer.Option(min=1, metavar="N", help="Units of the network.", rich_help_panel=LEARNER)]
Network = Annotated[
    Cell, typer.Option(metavar="NAME", help=f"The network: {', '.join(Cell)}.", rich_help_panel=LEARNER)
]
Estimator = Annotated[
    str, typer.Option(metavar="NAME", help=f"How the gradient is carried: {ESTIMATORS}.", rich_help_panel=LEARNER)
]
Update = Annotated[
    str, typer.Option(metavar="NAME", help=f"How the parameters move: {UPDATES}.", rich_help_panel=LEARNER)
]
Seed = Annotated[
    int, typer.Option(metavar="N", help="Seed of the initial weights and of the signs.", rich_help_panel=LEARNER)
]
Engine = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="fused, the compiled loop, or jax; auto takes the fastest that runs the learner.",
        rich_help_panel=LEARNER,
    ),
]
Every = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Save after N characters or rows.", rich_help_panel=KEEP)
]
Seconds = Annotated[
    float | None, typer.Option(min=0.0, metavar="S", help="Save after S seconds.", rich_help_panel=KEEP)
]
Log = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="Add records to this file, .csv or .jsonl.", rich_help_panel=WATCH),
]
Board = Annotated[
    Path | None,
    typer.Option("--tensorboard", metavar="FOLDER", help="Write records for TensorBoard.", rich_help_panel=WATCH),
]
Scores = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Write how surprising each row or line was here, .csv or .jsonl; resume adds to it.",
        rich_help_panel=WATCH,
    ),
]
ScoresBy = Annotated[
    By | None,
    typer.Option(
        help="Score each line of a text (default), or each of its characters or bytes.", rich_help_panel=WATCH
    ),
]
Figure = Annotated[Path, typer.Option(metavar="FILE", help="Where the figure goes.", rich_help_panel=WATCH)]
LogSeconds = Annotated[
    float, typer.Option(min=0.0, metavar="S", help="Seconds between two records.", rich_help_panel=WATCH)
]
Json = Annotated[
    bool, typer.Option("--json", help="One JSON object on standard output, nothing else.", rich_help_panel=WATCH)
]
Config = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="A TOML file with any of these options.", callback=settings.apply, is_eager=True),
]
