"""`nobacktrack diagnose`: how noisy and how biased a gradient estimate is, on a stream or from a checkpoint."""

from __future__ import annotations

import json as jsons
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from ..readers.names import STREAMS, Cell, cell_of, estimator_of, stream_of, update_of
from . import options


def diagnose(
    source: Annotated[str, typer.Argument(help=f"{STREAMS}; or a checkpoint of `train`.")] = "anbn",
    others: Annotated[
        str, typer.Option(metavar="NAMES", help="Estimators to hold beside it, a,b,c; other ranks and norms if none.")
    ] = "",
    train: Annotated[
        int, typer.Option(min=0, metavar="N", help="Characters to learn before anything is measured.")
    ] = 100_000,
    steps: Annotated[int, typer.Option(min=20, metavar="N", help="Characters over which it is measured.")] = 4000,
    copies: Annotated[int, typer.Option(min=2, metavar="N", help="Independent copies of each estimator.")] = 16,
    cell: options.Network = Cell.leaky,
    units: options.Units = 20,
    estimator: options.Estimator = "nobacktrack",
    update: options.Update = "kalman",
    seed: options.Seed = 0,
    figure: options.Figure = Path("out/diagnose.png"),
    json: options.Json = False,
) -> None:
    """Measure bias, variance and cosine of a learner's gradient beside the exact one, and say what to do about them."""
    names = [name.strip() for name in others.split(",") if name.strip()]
    beside = {name: estimator_of(name) for name in names}
    with Console(stderr=True, quiet=json).status("training") as status:
        if Path(source).suffix == ".nbt":
            learner, state, stream = _from_checkpoint(Path(source), steps)
        else:
            learner, state, stream = _trained(source, estimator, update, cell, units, train, steps, seed)
        from ..diagnostics import diagnose as measure

        status.update("compiling, then measuring: a minute or so")
        found = measure(learner, state, stream, others=beside or None, copies=copies)
        found.figure(figure)
    if json:
        sys.stdout.write(jsons.dumps(found.json()) + "\n")
        return
    console = Console()
    console.width = max(console.width, 120)  # a wide table is better than a cut one
    console.print(repr(learner), highlight=False, soft_wrap=True)
    console.print(found.table())
    for line in found.advice:
        console.print(f"- {line}", highlight=False, soft_wrap=True)
    console.print(f"figure: {figure}", highlight=False, soft_wrap=True)


def _trained(
    source: str, estimator: str, update: str, cell: Cell, units: int, train: int, steps: int, seed: int
) -> tuple[Any, Any, Any]:
    """A learner after some characters of a stream, and those to come: of a file the next ones."""
    stream = stream_of(source)
    import nobacktrack as nbt

    learner = nbt.Learner(cell_of(cell, units, stream.symbols), estimator_of(estimator), update_of(update))
    whole = stream.make(seed, train + steps)
    if len(whole) < train + steps:
        raise ValueError(f"{source}: {len(whole)} characters; --train {train} and --steps {steps} need more")
    state = learner.init(seed)
    if train:
        state, _ = learner.run(state, whole[:train])
    return learner, state, whole[train:]


def _from_checkpoint(path: Path, steps: int) -> tuple[Any, Any, Any]:
    """The learner of a checkpoint, and the characters that it would read next."""
    import nobacktrack as nbt

    from ..readers.alphabets import alphabet_of, symbols_in
    from ..readers.notes import TextNotes, from_json

    learner, state, found = nbt.load(path)
    notes = from_json(found, path)
    if not isinstance(notes, TextNotes) or notes.stream in (None, "-"):
        raise ValueError(
            f"{path}: it does not say which text it was reading; in Python: nbt.diagnose(learner, state, ...)"
        )
    alphabet, stream = alphabet_of(notes.alphabet), Path(notes.stream or "")
    following = symbols_in(_bytes_at(stream, notes.position, 4 * steps), alphabet)
    symbols = following if len(following) >= steps else symbols_in(_bytes_at(stream, 0, 4 * steps), alphabet)
    return learner, state, symbols[:steps]


def _bytes_at(path: Path, position: int, count: int) -> bytes:
    with open(path, "rb") as file:
        file.seek(position)
        return file.read(count)
