"""A reader on a stream, to its end or until told to stop: with a live line, records, and checkpoints."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from .keeping import Keeper, Stop
from .watching import Board, Lines, Watch

LABELS = {
    "bits": "bits per item",
    "recent_bits": "recent bits per item",
    "baseline_bits": "by frequencies alone",
    "loss": "loss, nats per item",
    "recent_loss": "recent loss",
    "baseline_rmse": "rmse of the mean",
    "baseline_accuracy": "share of the most frequent",
    "baseline_loss": "loss by frequencies alone",
}


class Kept(NamedTuple):
    """Where the learner is saved, and how often."""

    checkpoint: Path | None = None
    every: int | None = None
    seconds: float | None = None


class Shown(NamedTuple):
    """What is written down of a run, and how it is told."""

    log: list[Path] | None = None
    tensorboard: Path | None = None
    seconds: float = 1.0
    predictions: Path | None = None
    json: bool = False

    def logs(self) -> list[Any]:
        return [*map(Lines, self.log or []), *([] if self.tensorboard is None else [Board(self.tensorboard)])]


def run(reader: Any, stream: str, kept: Kept, shown: Shown) -> None:
    """Read a stream to its end, or until told to stop."""
    from ..files import alone
    from ..readers.sources import Source

    _expect_place(kept.checkpoint)
    _expect_apart(stream, kept.checkpoint, shown)
    source = Source(stream, reader.position + len(reader.rest))
    keeper = Keeper(kept.checkpoint, reader, {"stream": stream}, kept.every, kept.seconds)
    began, begin, place = time.monotonic(), reader.tally.items, reader.position
    watch = Watch(reader, reader.unit, source.size, shown.json, shown.logs(), shown.seconds)
    if source.terminal:
        watch.console.print("reading what is typed here; Ctrl-D ends it", highlight=False)
    with (
        alone(kept.checkpoint) if kept.checkpoint else nullcontext(),
        _predictions(reader, shown.predictions),
        Stop() as stop,
    ):
        with watch:
            _follow(reader, source, keeper, watch, stop)
        keeper.save()
    summary = _summary(reader, time.monotonic() - began, begin, stop)
    if shown.json:
        sys.stdout.write(json.dumps(summary) + "\n")
    else:
        _say(summary, watch, reader.learning)
        _say_what_next(watch, reader, source, kept.checkpoint, place)
    if stop.signal == signal.SIGINT:
        sys.exit(128 + stop.signal)


@contextmanager
def _predictions(reader: Any, path: Path | None) -> Iterator[None]:
    """A file that is told what is expected of each row; a run that goes on adds to it."""
    if path is None:
        yield
        return
    if reader.unit != "rows":
        raise ValueError("--predictions: they are those of rows; this is text")
    with closing(Lines(path, begin=reader.position == 0)) as lines:
        reader.tell = lines.write
        yield


def _expect_place(checkpoint: Path | None) -> None:
    """Refuse a checkpoint that could not be written, before anything is read."""
    if checkpoint is not None and checkpoint.is_dir():
        raise ValueError(f"{checkpoint}: a folder; a checkpoint is a file")
    if checkpoint is not None and not checkpoint.parent.is_dir():
        raise ValueError(f"{checkpoint}: there is no folder {checkpoint.parent}")


def _expect_apart(stream: str, checkpoint: Path | None, shown: Shown) -> None:
    """Refuse to write two things to one file, or over the stream."""
    written = [checkpoint, shown.predictions, *(shown.log or [])]
    paths = [Path(stream) if stream != "-" else None, *written]
    places = [path.resolve() for path in paths if path is not None]
    twice = [place for place in places if places.count(place) > 1]
    if twice:
        raise ValueError(f"{twice[0]}: stream, --checkpoint, --predictions and --log must be files of their own")


def _follow(reader: Any, source: Any, keeper: Keeper, watch: Watch, stop: Stop) -> None:
    """Piece by piece: learn, look, save. What was good before something bad is saved."""
    from ..errors import BadItem

    try:
        for raw in source.pieces(stop):
            reader.take(raw)
            watch.look()
            keeper.save_if_due()
        if not stop():
            reader.finish()
        watch.look(last=True)
    except BadItem as error:
        keeper.save()
        kept = f" (all before it is saved in {keeper.path}; resume --skip-bad goes on)" if keeper.path else ""
        raise ValueError(f"{source.name}: {error}{kept}") from None


def _summary(reader: Any, seconds: float, begin: int, stop: Stop) -> dict[str, Any]:
    count = reader.tally.items - begin
    return {
        reader.unit: reader.tally.items,
        f"{reader.unit}_per_second": round(count / seconds) if seconds else None,
        **reader.score(),
        "skipped": reader.tally.skipped,
        "first_skipped": reader.tally.skips,
        "stopped_by": None if stop.signal is None else signal.Signals(stop.signal).name,
        "engine": reader.engine_name if reader.begun else None,
        "learner": repr(getattr(reader, "trained", reader.learner)) if reader.begun else None,
    }


def _say(summary: dict[str, Any], watch: Watch, learning: bool) -> None:
    """The summary: on standard output where it is what was asked for, beside the live line otherwise."""
    console = watch.console if learning else Console()
    for name, value in summary.items():
        if value is not None and value != 0 and name != "first_skipped":
            text = (
                f"{value:.4f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
            )
            label = LABELS.get(name, name).replace("_", " ").replace("item", watch.unit[:-1])
            console.print(f"{label:<27}{text}", highlight=False, soft_wrap=True)


def _say_what_next(watch: Watch, reader: Any, source: Any, checkpoint: Path | None, place: int) -> None:
    if not reader.learning:
        return
    if reader.position == place:
        again = "; --from-start reads it again" if source.seekable else ""
        nothing = f"nothing new after byte {place:,}{again}" if place else "nothing in it"
        watch.console.print(f"{source.name}: {nothing}", highlight=False)
    kept = f"saved in {checkpoint}; `nobacktrack resume {checkpoint}` goes on" if checkpoint else "not saved"
    watch.console.print(f"{kept}{'' if checkpoint else '; --checkpoint FILE keeps it'}", highlight=False)
