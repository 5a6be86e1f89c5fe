"""Options that several commands share, by the same names and with the same words."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ..choices import ESTIMATORS, UPDATES, Cell
from . import settings


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


STREAM, ROWS, LEARNER, KEEP, WATCH = "The stream", "Rows", "The learner", "Keep it", "Watch it"

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
Runner = Annotated[
    Engine, typer.Option(help="The compiled (fused) loop where there is one, or jax.", rich_help_panel=LEARNER)
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
