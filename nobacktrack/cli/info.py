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
    for name, value in _lines(found):
        table.add_row(f"[bold]{name}[/bold]", value)
    Console().print(table, highlight=False)


def _lines(found: dict[str, Any]) -> list[tuple[str, str]]:
    """What people want to know, one line each."""
    notes = found["notes"]
    lines = [
        ("learner", found["learner"]),
        ("steps", f"{found['t']:,}"),
        ("numbers", f"{found['numbers']:,} in {found['arrays']} arrays"),
        ("written by", f"nobacktrack {found['version']}, format {found['format']}"),
        ("digest", found["digest"]),
    ]
    if "alphabet" in notes:
        alphabet = notes["alphabet"]
        characters = f" {alphabet['characters']!r}" if "characters" in alphabet else ""
        lines.append(("alphabet", f"{alphabet['kind']}{characters}"))
    if "columns" in notes:
        target, inputs, _, ahead, *_ = notes["columns"]
        when = " of the next row" if ahead else ""
        lines.append(
            ("predicts", f"{target!r}{when} from {', '.join(inputs or ['all other columns'])} ({notes['task']})")
        )
    if "position" in notes:
        lines.append(("reading", f"{notes.get('stream')}, at byte {notes['position']:,}"))
    if notes.get("tally"):
        tally = notes["tally"]
        mean = tally["loss"] / max(tally["targets"], 1)
        lines.append(
            ("loss", f"{mean:.4f} nats a target over {tally['targets']:,} ({mean / 0.6931471805599453:.4f} bits)")
        )
    return lines
