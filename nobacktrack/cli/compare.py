"""`nobacktrack compare`: estimators and updates on one stream, over seeds."""

from __future__ import annotations

import json as jsons
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from ..readers.names import ESTIMATORS, STREAMS, UPDATES, Cell, NamedStream, cell_of, estimator_of, stream_of, update_of
from . import options

DEFAULT = "nobacktrack,nobacktrack:10,diagonal,diagonal:1:4+gramian,uoro,snap1,bptt,rtrl"


def compare(
    stream: Annotated[str, typer.Argument(help=f"{STREAMS}.")] = "anbn",
    estimators: Annotated[
        str, typer.Option(metavar="NAMES", help=f"a,b,c of {ESTIMATORS}. NAME@3e5 goes so far only.")
    ] = DEFAULT,
    updates: Annotated[str, typer.Option(metavar="NAMES", help=f"a,b,c of {UPDATES}.")] = "kalman",
    cell: options.Network = Cell.leaky,
    units: options.Units = 20,
    length: Annotated[str, typer.Option(metavar="N", help="Characters of a run.")] = "1e5",
    seeds: Annotated[int, typer.Option(min=1, metavar="N", help="Runs of each method.")] = 4,
    marks: Annotated[str, typer.Option(metavar="N,N", help="Characters at which to look.")] = "1e4,1e5",
    seconds: Annotated[str, typer.Option(metavar="S,S", help="Times at which to look.")] = "1",
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="Results, all of them; the figure is drawn beside it.")
    ] = Path("out/compare.json"),
    json: options.Json = False,
) -> None:
    """Train all estimators with all updates on one stream: a table, a figure, and results that are kept: the same
    command goes on where it was stopped.
    """
    source = stream_of(stream)
    counts, times = (
        [_count(mark, "marks") for mark in marks.split(",")],
        [_number(s, "seconds") for s in _list(seconds)],
    )
    longest = _count(length, "length")
    from ..experiments import compare as comparison

    system = cell_of(cell, units, source.symbols)
    entries = [_entry(name, update, system, source, longest) for update in _list(updates) for name in _list(estimators)]
    console = Console(stderr=True, quiet=json)
    results = comparison.run(entries, source.make, seeds, out, lambda text: console.print(text, highlight=False))
    figure = out.with_suffix(".png")
    comparison.figure(entries, results, seeds, source.entropy, figure)
    if json:
        summary = comparison.summary(entries, results, seeds, source.entropy)
        sys.stdout.write(jsons.dumps(summary) + "\n")
        return
    screen = Console()
    screen.width = max(screen.width, 100 + 18 * (len(counts) + len(times)))  # a wide table is better than a cut one
    screen.print(comparison.table(entries, results, seeds, counts, times, source.entropy))
    console.print(f"results: {out}   figure: {figure}", soft_wrap=True, highlight=False)


def _entry(spec: str, update: str, system: Any, source: NamedStream, longest: int) -> Any:
    import nobacktrack as nbt

    from ..experiments.compare import Entry

    name, _, limit = spec.partition("@")
    length = min(longest, _count(limit, "estimators") if limit else longest, source.length or longest)
    return Entry(name, update, nbt.Learner(system, estimator_of(name), update_of(update)), length)


def _list(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _number(text: str, option: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{option}: expected numbers with commas between them, not {text!r}") from None


def _count(text: str, option: str) -> int:
    count = int(_number(text, option))
    if count < 200:
        raise ValueError(f"{option}: at least 200 characters, not {text!r}")
    return count
