"""`nobacktrack bench`: microseconds per character, ours and others', in one run."""

from __future__ import annotations

import json as encoding
import os
import sys
from typing import Annotated

import typer
from rich.console import Console

from . import options


def bench(
    sizes: Annotated[
        str, typer.Option(help="Which networks, UNITSxSYMBOLS with commas between; all eight by default.")
    ] = "",
    ranks: Annotated[str, typer.Option(help="Ranks of NoBackTrack, with commas between.")] = "1,10",
    rounds: Annotated[int, typer.Option(min=1, help="How often each contender has its turn.")] = 7,
    json: options.Json = False,
) -> None:
    """Measure speed: fused and reference engine, PyTorch's truncated BPTT and braintrace, where they are installed."""
    if hasattr(os, "sched_setaffinity"):  # one thread, whatever a library would like
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
    from ..experiments import bench as experiment

    wanted = _sizes(sizes) if sizes else experiment.SIZES
    terms = tuple(_numbers(ranks, "ranks"))
    progress = Console(stderr=True, quiet=json)
    rows = []
    with progress.status("starting") as status:
        for units, symbols in wanted:
            rows += experiment.measured(units, symbols, terms, rounds, lambda text: status.update(text))
        moved, bare = experiment.bandwidths(rows), experiment.bare_call()
    if json:
        found = {"rows": [row._asdict() for row in rows], "bandwidth": moved, "bare_call_us": bare, "rounds": rounds}
        sys.stdout.write(encoding.dumps(found) + "\n")
        return
    experiment.report(rows, moved, bare, Console(width=None if sys.stdout.isatty() else 120))


def _sizes(text: str) -> list[tuple[int, int]]:
    pairs = [part.split("x") for part in text.split(",")]
    if any(len(pair) != 2 or not all(number.isdigit() for number in pair) for pair in pairs):
        raise ValueError(f"sizes: expected UNITSxSYMBOLS with commas between, such as 20x3,128x80, not {text!r}")
    return [(int(units), int(symbols)) for units, symbols in pairs]


def _numbers(text: str, name: str) -> list[int]:
    if not all(part.isdigit() and int(part) > 0 for part in text.split(",")):
        raise ValueError(f"{name}: expected numbers with commas between, such as 1,10, not {text!r}")
    return [int(part) for part in text.split(",")]
