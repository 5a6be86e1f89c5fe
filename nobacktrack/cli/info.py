"""`nobacktrack info`: what is in a checkpoint."""

from __future__ import annotations

import json as jsons
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from . import options


def info(
    file: Annotated[Path, typer.Argument(help="A checkpoint.")],
    json: options.Json = False,
) -> None:
    """Say what is in a checkpoint, once it is found whole: the learner, how far it is, what it was reading."""
    from ..checkpoint import inspect

    found = inspect(file)
    if json:
        sys.stdout.write(jsons.dumps(found) + "\n")
        return
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column()
    table.add_column(overflow="fold")
    for name, value in _lines(found, file):
        table.add_row(f"[bold]{name}[/bold]", value)
    Console().print(table, highlight=False)


def _lines(found: dict[str, Any], file: Path) -> list[tuple[str, str]]:
    """What people want to know, one line each."""
    from ..readers.notes import RowsNotes, TableNotes, TextNotes, from_json
    from ..readers.targets import NumberTargets

    notes = from_json(found["notes"], file)
    lines = [
        ("learner", found["learner"]),
        ("steps", f"{found['t']:,}"),
        ("numbers", f"{found['numbers']:,} in {found['arrays']} arrays"),
        ("written by", f"nobacktrack {found['version']}, format {found['format']}"),
        ("digest", found["digest"]),
    ]
    if isinstance(notes, TextNotes):
        characters = f" {notes.alphabet['characters']!r}" if "characters" in notes.alphabet else ""
        lines.append(("alphabet", f"{notes.alphabet['kind']}{characters}"))
    table = notes.table if isinstance(notes, RowsNotes) else notes
    if isinstance(notes, RowsNotes):
        columns = notes.columns
        later = columns["ahead"]
        when = f" of {later} rows later" if later > 1 else " of the next row" if later else ""
        inputs = ", ".join(columns["inputs"] or ["all columns" if later else "all other columns"])
        names = ", ".join(map(repr, columns["targets"]))
        lines.append(("predicts", f"{names}{when} from {inputs} ({notes.table.task})"))
    if isinstance(notes, (TextNotes, RowsNotes)):
        lines.append(("reading", f"{notes.stream}, at byte {notes.position:,}"))
    if isinstance(table, TableNotes) and table.task == "regression":
        each = NumberTargets.of(table.targets).each().items()
        lines += [(f"rmse of {name}", _beside(error["rmse"], error["last_rmse"])) for name, error in each]
    if table is not None:
        lines.append(("loss", _loss(table.tally["losses"])))
    return lines


def _beside(ours: float | None, last: float | None) -> str:
    """An error, in the unit of its target."""
    return "nothing was predicted yet" if ours is None or last is None else f"{ours:.4g}, of the last value {last:.4g}"


def _loss(losses: dict[str, Any]) -> str:
    """The mean loss of a run, and that of late."""
    from ..means import Means
    from ..protocol import NATS_PER_BIT

    mean, recent = losses["total"] / max(losses["targets"], 1), Means(**losses).recent
    of_late = f"; {recent:.4f} of late ({recent / NATS_PER_BIT:.4f} bits)" if losses["targets"] else ""
    return f"{mean:.4f} nats a target over {losses['targets']:,} ({mean / NATS_PER_BIT:.4f} bits){of_late}"
