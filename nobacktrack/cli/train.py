"""`nobacktrack train` and `resume`: learn to predict the next character of a text file."""

from __future__ import annotations

import json
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ..choices import ESTIMATORS, UPDATES, Cell, cell_of, estimator_of, update_of

if TYPE_CHECKING:
    import numpy as np

    from ..learner import Learner
    from ..protocol import State


class Engine(StrEnum):
    """Engines by name."""

    auto = "auto"
    jax = "jax"
    fused = "fused"


Chosen = Annotated[Engine, typer.Option(help="How it is run: the fused loop where there is one, or jax.")]
Checkpoint = Annotated[Path | None, typer.Option(help="Save the learner to this file, at the end and on the way.")]
Every = Annotated[int, typer.Option(min=1, help="Characters between two saves.")]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON object in place of the progress bar and the summary.")
]


def train(
    stream: Annotated[Path, typer.Argument(help="A UTF-8 text file, or any file with --bytes.")],
    cell: Annotated[Cell, typer.Option(help="The network.")] = Cell.leaky,
    units: Annotated[int, typer.Option(min=1, help="Units of the network.")] = 20,
    estimator: Annotated[str, typer.Option(help=f"How the gradient is estimated: {ESTIMATORS}.")] = "nobacktrack",
    update: Annotated[str, typer.Option(help=f"How the parameters move: {UPDATES}.")] = "kalman",
    seed: Annotated[int, typer.Option(help="Seed of the initial weights and of the signs.")] = 0,
    octets: Annotated[bool, typer.Option("--bytes", help="Read bytes in place of characters.")] = False,
    engine: Chosen = Engine.auto,
    checkpoint: Checkpoint = None,
    checkpoint_every: Every = 1_000_000,
    json: Json = False,
) -> None:
    """Learn to predict the next character of a text file, in one pass, online."""
    symbols, alphabet = text_of(stream, octets)
    import nobacktrack as nbt

    system = cell_of(cell, units, len(alphabet))
    learner = nbt.Learner(system, estimator_of(estimator), update_of(update))
    notes = {"stream": str(stream), "alphabet": alphabet, "bytes": octets}
    _learn(learner, learner.init(seed), symbols, notes, engine, checkpoint, checkpoint_every, json)


def resume(
    file: Annotated[Path, typer.Argument(help="A checkpoint that `train` saved.")],
    stream: Annotated[Path | None, typer.Option(help="The text, where it is no longer where it was.")] = None,
    engine: Chosen = Engine.auto,
    checkpoint_every: Every = 1_000_000,
    json: Json = False,
) -> None:
    """Go on from a checkpoint, at the place in the text where it was made."""
    import nobacktrack as nbt

    learner, state, notes = nbt.load(file)
    if "alphabet" not in notes:
        raise ValueError(
            f"{file}: saved by a program, not by `nobacktrack train`: it does not say which text it was reading"
        )
    path = stream or (Path(notes["stream"]) if "stream" in notes else None)
    if path is None:
        raise ValueError(f"{file}: it does not say which text it was reading: give one by --stream")
    symbols, alphabet = text_of(path, notes.get("bytes", False))
    if alphabet != notes["alphabet"]:
        raise ValueError(f"{path}: another alphabet than the one of {file}")
    _learn(learner, state, symbols, notes, engine, file, checkpoint_every, json)


def text_of(path: Path, octets: bool) -> tuple[np.ndarray, str]:
    """Symbols and their alphabet; a byte stands as the character of its number."""
    from .. import streams

    if not octets:
        return streams.characters(path)
    symbols, alphabet = streams.octets(path)
    return symbols, alphabet.decode("latin-1")


def _learn(
    learner: Learner,
    state: State,
    symbols: np.ndarray,
    notes: dict[str, Any],
    engine: Engine,
    checkpoint: Path | None,
    every: int,
    as_json: bool,
) -> None:
    """Train on what is left of the text, with progress, saves and a summary."""
    import nobacktrack as nbt

    from ..engines import LARGEST_CHUNK, choose

    chosen, reason = choose(learner, state, engine)
    chunk = None if checkpoint is None else min(every, LARGEST_CHUNK)  # saves are made between chunks
    begin, began = state.steps, time.perf_counter()
    saved, report = begin, None
    console = Console(stderr=True, quiet=as_json)
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[bits]} bits/char"), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("train", total=len(symbols), completed=begin, bits="-")
        for following, report in learner.training(state, symbols[begin:], engine=engine, chunk=chunk):
            state = following
            progress.update(task, completed=report.t, bits=f"{report.recent_bits:.3f}")
            if checkpoint is not None and report.t - saved >= every:
                nbt.save(checkpoint, learner, state, notes)
                saved = report.t
    if checkpoint is not None:
        nbt.save(checkpoint, learner, state, notes)
    seconds = time.perf_counter() - began
    summary = {
        "characters": state.steps,
        "bits_per_character": None if report is None else report.mean_bits,
        "recent_bits_per_character": None if report is None else report.recent_bits,
        "characters_per_second": round((state.steps - begin) / seconds),
        "engine": f"{chosen.name} ({reason})" if reason and engine == Engine.auto else chosen.name,
        "learner": repr(learner),
    }
    if as_json:
        sys.stdout.write(json.dumps(summary) + "\n")
        return
    for name, value in summary.items():
        text = f"{value:.4f}" if isinstance(value, float) else str(value)
        console.print(f"{name.replace('_', ' '):>26}  {text}", highlight=False, soft_wrap=True)
