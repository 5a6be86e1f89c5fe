"""A reader on a stream, to its end or until told to stop: with a live line, records, and checkpoints."""

from __future__ import annotations

import json
import signal
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from .keeping import Keeper, Stop
from .watching import Board, Lines, Watch


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

    source = Source(stream, reader.position + len(reader.rest))
    keeper = Keeper(checkpoint, reader, notes, every, seconds)
    began, begin = time.monotonic(), reader.tally.items
    watch = Watch(reader, reader.unit, source.size, as_json, logs, log_seconds)
    with alone(checkpoint) if checkpoint else nullcontext(), Stop() as stop:
        with watch:
            _follow(reader, source, keeper, watch, stop)
        keeper.save()
    summary = _summary(reader, time.monotonic() - began, begin, stop)
    _say(summary, watch, as_json)
    if stop.signal == signal.SIGINT:
        sys.exit(128 + stop.signal)


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
        "learner": repr(reader.learner) if reader.begun else None,
    }


def _say(summary: dict[str, Any], watch: Watch, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(summary) + "\n")
        return
    for name, value in summary.items():
        if value not in (None, 0):
            text = (
                f"{value:.4f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
            )
            watch.console.print(f"{name.replace('_', ' '):>26}  {text}", highlight=False, soft_wrap=True)
