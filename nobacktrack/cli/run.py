"""A reader on a stream, to its end or until told to stop: with a live line, records, and checkpoints."""

from __future__ import annotations

import json
import math
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from rich.console import Console

from .checkpoints import Best, BestKeeper, Checkpointer, Stop, best_in
from .progress import Monitor, RecordFile, TensorBoard

WIDTH = 34  # of what stands before a number
LEAST_PLAIN, MOST_PLAIN = 0.01, 1e6  # figures that four decimals say well
LABELS = {
    "bits": "bits per item",
    "recent_bits": "recent bits per item",
    "baseline_bits": "by frequencies alone",
    "order2_bits": "by the last two characters",
    "tree_bits": "by a context tree",
    "set_back": "set back to its anchor",
    "rmse": "rmse, in the target's unit",
    "recent_rmse": "recent rmse",
    "last_rmse": "rmse of the last value",
    "baseline_rmse": "rmse of the mean so far",
    "relative_rmse": "rmse, over the deviation of each",
    "recent_relative_rmse": "recent rmse",
    "last_relative_rmse": "rmse of the last value",
    "baseline_relative_rmse": "rmse of the mean so far",
    "coverage": "share inside the intervals",
    "accuracy": "share of right labels",
    "recent_accuracy": "recent share",
    "baseline_accuracy": "share of the most frequent",
    "loss": "loss, nats per item",
    "recent_loss": "recent loss",
    "baseline_loss": "loss by frequencies alone",
}


class Saving(NamedTuple):
    """Where the learner is saved, how often, and where it is kept at its best; `goes_on` where the best of an earlier
    run is the one to beat.
    """

    checkpoint: Path | None = None
    every: int | None = None
    seconds: float | None = None
    best: Path | None = None
    goes_on: bool = False

    def kept(self, unit: str) -> Best:
        """The best so far."""
        return best_in(self.best, unit) if self.best is not None and self.goes_on else Best()


class Reporting(NamedTuple):
    """What is written down of a run, and how it is told. `written` holds the files of records that the checkpoint knew,
    by name, and their sizes then; without `scores_by`, scores go on as they were.
    """

    log: list[Path] | None = None
    tensorboard: Path | None = None
    seconds: float = 1.0
    predictions: Path | None = None
    json: bool = False
    scores: Path | None = None
    scores_by: str | None = None
    written: Mapping[str, Sequence[Any] | None] = MappingProxyType({})

    def logs(self) -> list[Any]:
        board = [] if self.tensorboard is None else [TensorBoard(self.tensorboard)]
        return [*map(RecordFile, self.log or []), *board]

    def kept(self, name: str, path: Path) -> int | None:
        """The bytes of a file of records that the checkpoint knew; None where it knew another file, or none."""
        known, size = self.written.get(name) or ("", None)
        return size if known == str(path.resolve()) else None


def run(reader: Any, stream: str, saving: Saving, reporting: Reporting, follows: str | None = None) -> None:
    """Read a stream to its end, or until told to stop; `follows` is the stream that was read before, if another."""
    from ..files import alone
    from ..readers.sources import ByteSource

    for checkpoint in (saving.checkpoint, saving.best):
        _expect_place(checkpoint)
    _expect_apart(stream, saving, reporting)
    source = ByteSource(stream, reader.position + len(reader.rest), follows)
    checkpointer = Checkpointer(saving.checkpoint, reader, stream, saving.every, saving.seconds)
    keeper = BestKeeper(saving.best, checkpointer, saving.kept(reader.unit))
    began, begin, place = time.monotonic(), reader.tally.items, reader.position
    monitor = Monitor(reader, reader.unit, source.size, reporting.json, reporting.logs(), reporting.seconds)
    if source.terminal:
        monitor.console.print("reading what is typed here; Ctrl-D ends it", highlight=False)
    with (
        alone(saving.checkpoint) if saving.checkpoint else nullcontext(),
        alone(saving.best) if saving.best else nullcontext(),
        _records(reader, reporting, checkpointer),
        Stop() as stop,
    ):
        with monitor:
            _follow(reader, source, checkpointer, keeper, monitor, stop)
        checkpointer.save()
        keeper.look(last=True)
        if not stop():  # after the checkpoint, which does not know of it
            reader.tell_rest()
    summary = _summary(reader, time.monotonic() - began, begin, stop)
    if reporting.json:
        sys.stdout.write(json.dumps(summary | keeper.record()) + "\n")
    else:
        _say(summary, monitor, reader.learning)
        _say_what_next(monitor, reader, source, saving.checkpoint, place)
        if saving.best:
            monitor.console.print(keeper.message(), highlight=False, soft_wrap=True)
    if stop.signal == signal.SIGINT:
        sys.exit(128 + stop.signal)


@contextmanager
def _records(reader: Any, reporting: Reporting, checkpointer: Checkpointer) -> Iterator[None]:
    """Files that get what is expected of each row, and scores. A run that goes on adds to them, after what the
    checkpoint knew.
    """
    _expect_records(reader, reporting)
    with ExitStack() as files:

        def opened(name: str, path: Path) -> Callable[[dict[str, Any]], None]:
            keep = 0 if reader.position == 0 else reporting.kept(name, path)
            checkpointer.records[name] = files.enter_context(closing(RecordFile(path, keep)))
            return checkpointer.records[name].write

        if reporting.predictions is not None:
            reader.on_prediction = opened("predictions", reporting.predictions)
        if reporting.scores is not None:
            reader.scores.by = reporting.scores_by or reader.scores.by
            reader.scores.write = opened("scores", reporting.scores)
        yield


def _expect_records(reader: Any, reporting: Reporting) -> None:
    """Refuse records that this reader does not have, or that are not those of the file."""
    scores, by = reporting.scores, reporting.scores_by
    if reporting.predictions is not None and reader.unit != "rows":
        raise ValueError("--predictions: they are those of rows; this is text")
    if by is not None and scores is None:
        raise ValueError(f"--scores-by {by}: there is no --scores FILE that they would go to")
    if by == "byte" and reader.unit == "rows":
        raise ValueError("--scores-by byte: it is for text; of rows, each has one score")
    if (
        scores is not None
        and by not in (None, reader.scores.by)
        and reader.position
        and reporting.kept("scores", scores)
    ):
        raise ValueError(f"--scores-by {by}: {scores} holds scores by {reader.scores.by}; choose another file")


def _expect_place(checkpoint: Path | None) -> None:
    """Refuse a checkpoint that could not be written, before anything is read."""
    if checkpoint is not None and checkpoint.is_dir():
        raise ValueError(f"{checkpoint}: a folder; a checkpoint is a file")
    if checkpoint is not None and not checkpoint.parent.is_dir():
        raise ValueError(f"{checkpoint}: there is no folder {checkpoint.parent}")


def _expect_apart(stream: str, saving: Saving, reporting: Reporting) -> None:
    """Refuse to write two things to one file, or over the stream."""
    saved = [saving.checkpoint, saving.best]
    written = [*saved, reporting.predictions, reporting.scores, *(reporting.log or [])]
    paths = [Path(stream) if stream != "-" else None, *written]
    places = [path.resolve() for path in paths if path is not None]
    twice = [place for place in places if places.count(place) > 1]
    if twice:
        options = "--checkpoint, --keep-best, --predictions, --scores and --log"
        raise ValueError(f"{twice[0]}: stream, {options} must be files of their own")


def _follow(
    reader: Any, source: Any, checkpointer: Checkpointer, keeper: BestKeeper, monitor: Monitor, stop: Stop
) -> None:
    """Piece by piece: learn, look, save. What was good before something bad is saved."""
    from ..errors import BadItem, Divergence

    try:
        for raw in source.pieces(stop):
            reader.take(raw)
            monitor.look()
            checkpointer.save_if_due()
            keeper.look()
        if not stop():
            reader.finish()
        monitor.look(last=True)
    except BadItem as error:
        checkpointer.save()
        keeper.look(last=True)
        path = checkpointer.path
        saved = f" (all before it is saved in {path}; `nobacktrack resume {path} --skip-bad` goes on)" if path else ""
        raise ValueError(f"{source.name}: {error}{saved}") from None
    except Divergence as error:
        raise ValueError(f"{source.name}: {error.what}. {_after_divergence(reader, checkpointer)}") from None


def _after_divergence(reader: Any, checkpointer: Checkpointer) -> str:
    """Save the last good state, unless there is an earlier one, whose numbers are smaller; which command goes on."""
    remedies = _remedies(reader.learner, reader.state)
    if checkpointer.path is None:
        return f"Nothing is saved: --checkpoint FILE keeps the last good state. Try {' or '.join(remedies)}."
    if checkpointer.saved_at is None:
        checkpointer.save()
    where = f"The state after {checkpointer.saved_at:,} {reader.unit} is saved in {checkpointer.path}"
    commands = [f"`nobacktrack resume {checkpointer.path} {remedy}`" for remedy in remedies]
    return f"{where}; as it is, it would diverge again: {' or '.join(commands)} goes on with steadier steps."


def _remedies(learner: Any, state: Any) -> list[str]:
    """Options that make for steadier steps."""
    prior = getattr(state.update.theta, "prior", None)
    update = "kalman" if prior is None else f"kalman:0.1:{max(10 * float(prior), 100):g}"
    steadier = [f"--update {update}"]
    return [*steadier, "--estimator bptt"] if hasattr(learner.estimator, "rank") else steadier


def _summary(reader: Any, seconds: float, begin: int, stop: Stop) -> dict[str, Any]:
    count = reader.tally.items - begin
    return {
        reader.unit: reader.tally.items,
        f"{reader.unit}_per_second": round(count / seconds) if seconds else None,
        **reader.score(),
        **reader.company(),
        "skipped": reader.tally.skipped,
        "first_skipped": reader.tally.skips,
        "stopped_by": None if stop.signal is None else signal.Signals(stop.signal).name,
        "engine": reader.engine_name if reader.begun else None,
        "learner": repr(getattr(reader, "trained", reader.learner)) if reader.begun else None,
    }


def _say(summary: dict[str, Any], monitor: Monitor, learning: bool) -> None:
    """The summary: on standard output where it is what was asked for, beside the live line otherwise."""
    console = monitor.console if learning else Console()
    for name, value in summary.items():
        if name == "experts":
            if value and monitor.unit == "rows":
                what = "rmse/deviation" if "targets" in summary else "rmse"
                console.print(f"recent {what} of each expert, outliers bounded", highlight=False)
            width = max(WIDTH, *(len(expert) + 4 for expert in value)) if value else 0
            for expert, bits in value.items():
                console.print(f"{f'  {expert}':<{width}}{_figure(bits)}", highlight=False, soft_wrap=True)
        elif name == "targets":
            for target, error in value.items():
                ours, last = (math.nan if error[key] is None else error[key] for key in ("rmse", "last_rmse"))
                beside = f"{_figure(ours)}, last value {_figure(last)}"
                console.print(f"{f'rmse of {target}':<{WIDTH}}{beside}", highlight=False, soft_wrap=True)
        elif name != "first_skipped" and _is_said(value):
            label = LABELS.get(name, name).replace("_", " ").replace("item", monitor.unit[:-1])
            console.print(f"{label:<{WIDTH}}{_figure(value)}", highlight=False, soft_wrap=True)


def _figure(value: Any) -> str:
    """Of a number four decimals, or four digits where these would say little."""
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) else str(value)
    return f"{value:.4f}" if value == 0 or LEAST_PLAIN <= abs(value) < MOST_PLAIN else f"{value:.4g}"


def _is_said(value: Any) -> bool:
    """Whether a value of the summary is worth a line: a count of nothing is not, a measure of zero is."""
    return value is not None and (value != 0 or isinstance(value, float))


def _say_what_next(monitor: Monitor, reader: Any, source: Any, checkpoint: Path | None, place: int) -> None:
    if not reader.learning:
        return
    if not reader.begun:
        monitor.console.print(f"{source.name}: there were no rows; nothing is saved", highlight=False, soft_wrap=True)
        return
    if reader.position == place:
        again = "; --from-start reads it again" if source.seekable else ""
        nothing = f"nothing new after byte {place:,}{again}" if place else "nothing in it"
        monitor.console.print(f"{source.name}: {nothing}", highlight=False)
    saved = f"saved in {checkpoint}; `nobacktrack resume {checkpoint}` goes on" if checkpoint else "not saved"
    monitor.console.print(f"{saved}{'' if checkpoint else '; --checkpoint FILE keeps it'}", highlight=False)
