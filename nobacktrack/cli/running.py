"""A reader on a stream, to its end or until told to stop: with a live line, records, and checkpoints."""

from __future__ import annotations

import json
import signal
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

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


def logs_of(log: list[Path] | None, tensorboard: Path | None) -> list[Any]:
    return [*map(Lines, log or []), *([] if tensorboard is None else [Board(tensorboard)])]


def run(
    reader: Any,
    stream: str,
    notes: dict[str, Any],
    checkpoint: Path | None,
    every: int | None,
    seconds: float | None,
    logs: list[Any],
    log_seconds: float,
    as_json: bool,
) -> None:
    """Read a stream to its end, or until told to stop."""
    from ..files import alone
    from ..readers.sources import Source

    _expect_place(checkpoint)
    source = Source(stream, reader.position + len(reader.rest))
    keeper = Keeper(checkpoint, reader, notes, every, seconds)
    began, begin = time.monotonic(), reader.tally.items
    watch = Watch(reader, reader.unit, source.size, as_json, logs, log_seconds)
    with alone(checkpoint) if checkpoint else nullcontext(), Stop() as stop:
        with watch:
            _follow(reader, source, keeper, watch, stop)
        keeper.save()
    _say(_summary(reader, time.monotonic() - began, begin, stop), watch, as_json, reader.learning)
    if reader.learning and not as_json:
        kept = f"saved in {checkpoint}; `nobacktrack resume {checkpoint}` goes on" if checkpoint else "not saved"
        watch.console.print(f"{kept}{'' if checkpoint else '; --checkpoint FILE keeps it'}", highlight=False)
    if stop.signal == signal.SIGINT:
        sys.exit(128 + stop.signal)


def _expect_place(checkpoint: Path | None) -> None:
    """Refuse a checkpoint that could not be written, before anything is read."""
    if checkpoint is not None and checkpoint.is_dir():
        raise ValueError(f"{checkpoint}: a folder; a checkpoint is a file")
    if checkpoint is not None and not checkpoint.parent.is_dir():
        raise ValueError(f"{checkpoint}: there is no folder {checkpoint.parent}")


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
        "stopped_by": None if stop.signal is None else signal.Signals(stop.signal).name,
        "engine": reader.engine_name if reader.begun else None,
        "learner": repr(getattr(reader, "trained", reader.learner)) if reader.begun else None,
    }


def _say(summary: dict[str, Any], watch: Watch, as_json: bool, learning: bool) -> None:
    """The summary: on standard output where it is what was asked for, beside the live line otherwise."""
    if as_json:
        sys.stdout.write(json.dumps(summary) + "\n")
        return
    for name, value in summary.items():
        if value not in (None, 0):
            text = (
                f"{value:.4f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
            )
            console = watch.console if learning else Console()
            label = LABELS.get(name, name).replace("_", " ").replace("item", watch.unit[:-1])
            console.print(f"{label:<27}{text}", highlight=False, soft_wrap=True)
