"""What a person sees of a run, and what is written down of it."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

GLANCE = 0.5  # seconds between two looks at the live line
PLAIN_GLANCE = 10.0  # seconds between two lines, where standard error is no terminal
WIDE = 110  # columns, for the norms too
FIRST_GRADIENT = 2.0  # seconds before the gradient is looked at, since that compiles it
SETTLED = 20_000  # targets before the best recent loss counts
WORSE, AND_MORE = 1.5, 0.1  # times the best, and on top of it: what is lost then is worth a line


class Monitor:
    """A live line on standard error, plain lines where it is no terminal; records in CSV, JSON lines or TensorBoard."""

    def __init__(self, reader: Any, unit: str, size: int | None, quiet: bool, logs: list[Any], every: float):
        self.reader, self.unit, self.logs, self.every = reader, unit, logs, every
        self.begin = reader.tally.items
        self.start = self.seen = self.logged = time.monotonic()
        self.console = Console(stderr=True, quiet=quiet)
        self.size = size
        columns = (SpinnerColumn(), *((BarColumn(20),) if size else ()), TextColumn("{task.fields[line]}"))
        self.progress = Progress(*columns, console=self.console, transient=True)
        self.task = self.progress.add_task("", total=size, line="starting: what has not run before is compiled first")
        self._skips = 0
        self._alarm = Alarm()

    def __enter__(self) -> Monitor:
        if self.console.is_terminal:
            self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.console.is_terminal:
            self.progress.stop()
        for log in self.logs:
            log.close()

    def look(self, last: bool = False) -> None:
        """Say where the run is, if it is time to; and what was skipped."""
        for message in self.reader.tally.skips[self._skips :]:
            self.console.print(f"skipped: {message}", highlight=False, soft_wrap=True)
        self._skips = len(self.reader.tally.skips)
        message = self._alarm.look(self.reader.tally.losses.recent, self.reader.tally.targets)
        if message:
            self.console.print(f"after {self.reader.tally.items:,} {self.unit}: {message}", highlight=False)
        now, glance = time.monotonic(), GLANCE if self.console.is_terminal else PLAIN_GLANCE
        shows, writes = now - self.seen >= glance, bool(self.logs) and (last or now - self.logged >= self.every)
        if not (shows or writes) or not self.reader.begun:
            return
        record = self.record()
        if shows:
            self.seen = now
            self._show(_line(record, self.unit, self.console.width >= WIDE))
        if writes:
            self.logged = now
            for log in self.logs:
                log.write(record)
        self.reader.measuring = now - self.start >= FIRST_GRADIENT

    def _show(self, line: str) -> None:
        if self.console.is_terminal:
            self.progress.update(self.task, completed=self.reader.position, line=line)
            return
        done = f"{100 * self.reader.position // self.size:3d} %  " if self.size else ""
        self.console.print(f"{done}{line}", highlight=False, soft_wrap=True)

    def record(self) -> dict[str, Any]:
        """All there is to say of the run."""
        from ..readers.tally import norm_of

        seconds = time.monotonic() - self.start
        gradient = self.reader.gradient_norm
        params = self.reader.params
        return {
            "t": self.reader.tally.items,
            "seconds": round(seconds, 3),
            "per_second": round((self.reader.tally.items - self.begin) / max(seconds, 1e-9)),
            **self.reader.score(),
            "parameter_norm": norm_of((params.theta, params.phi)),
            "gradient_norm": None if math.isnan(gradient) else gradient,
            "skipped": self.reader.tally.skipped,
        }


def _line(record: dict[str, Any], unit: str, wide: bool) -> str:
    """A record in one line, for people."""
    parts = [f"{record['t']:,} {unit}", f"{record['per_second']:,}/s", _score(record)]
    if wide:
        parts.append(f"|params| {record['parameter_norm']:.1f}")
        parts += [] if record["gradient_norm"] is None else [f"|gradient| {record['gradient_norm']:.2g}"]
    parts += [f"{record['skipped']} skipped"] if record["skipped"] else []
    return "  ".join(parts)


def _score(record: dict[str, Any]) -> str:
    """Of late, on the whole, and what knows nothing of order."""
    if record.get("bits") is not None:
        return f"{record['recent_bits']:.3f} bits (all {record['bits']:.3f}, frequencies {record['baseline_bits']:.3f})"
    if record.get("rmse") is not None:
        return f"rmse {record['recent_rmse']:.4g} (all {record['rmse']:.4g}, last value {record['last_rmse']:.4g})"
    if record.get("relative_rmse") is not None:
        recent, every, last = (record[name] for name in ("recent_relative_rmse", "relative_rmse", "last_relative_rmse"))
        return f"rmse/deviation {recent:.4f} (all {every:.4f}, last value {last:.4f})"
    if record.get("accuracy") is not None:
        recent, every, most = (record[name] for name in ("recent_accuracy", "accuracy", "baseline_accuracy"))
        return f"right {recent:.1%} (all {every:.1%}, most frequent {most:.1%})"
    return "no target yet"


class Alarm:
    """Says once when the recent loss stands well above the best so far, and once when it is back."""

    def __init__(self) -> None:
        self.best, self._raised = math.inf, False

    def look(self, recent: float, targets: int) -> str | None:
        """A message, if there is one; the loss is in nats."""
        if targets < SETTLED or math.isnan(recent):
            return None
        self.best = min(self.best, recent)
        high = recent > max(WORSE * self.best, self.best) + AND_MORE
        if high == self._raised:
            return None
        self._raised = high
        what = "stands well above the best so far" if high else "is back near the best so far"
        recent, best = recent / math.log(2), self.best / math.log(2)
        return f"the recent loss, {recent:.3f} bits, {what}, {best:.3f}"


class RecordFile:
    """Records as JSON lines or CSV, by the name of the file. They go on where it ends, or after so many bytes of it:
    what a run wrote after its last checkpoint is written again by the one that goes on from there.
    """

    def __init__(self, path: Path, keep: int | None = None):
        if path.suffix.lower() not in (".csv", ".jsonl", ".json"):
            raise ValueError(f"{path}: records are written to a file that ends in .csv or .jsonl")
        self.is_csv = path.suffix.lower() == ".csv"
        if keep is not None and path.exists() and path.stat().st_size > keep:
            os.truncate(path, keep)
        header, ended = _ends_of(path)
        self.path, self.fields = path, header.split(",") if header and self.is_csv else None
        self.file = open(path, "a", encoding="utf-8", newline="")  # noqa: SIM115 - open as long as the run is
        if not ended:
            self.file.write("\n")  # the run before was stopped in the middle of a line

    def write(self, record: dict[str, Any]) -> None:
        if not self.is_csv:
            self.file.write(json.dumps(record) + "\n")
        else:
            if self.fields is None:
                self.fields = [name for name, value in record.items() if not isinstance(value, dict)]
                self.file.write(",".join(self.fields) + "\n")
            row = io.StringIO()  # a field with a part of the line's end in it is quoted: both may be in a character
            csv.DictWriter(row, self.fields, extrasaction="ignore", lineterminator="\r\n").writerow(record)
            self.file.write(row.getvalue().removesuffix("\r\n") + "\n")
        self.file.flush()

    def settle(self) -> list[Any]:
        """Have all that was written on the disk: the file, and how many bytes."""
        self.file.flush()
        os.fsync(self.file.fileno())
        return [str(self.path.resolve()), os.fstat(self.file.fileno()).st_size]

    def close(self) -> None:
        self.file.close()


def _ends_of(path: Path) -> tuple[str, bool]:
    """The first line of a file, and whether its last one has an end."""
    if not path.exists() or path.stat().st_size == 0:
        return "", True
    with open(path, "rb") as file:
        first = file.readline().decode().rstrip("\n")
        file.seek(-1, os.SEEK_END)
        return first, file.read() == b"\n"


class TensorBoard:
    """Records for TensorBoard."""

    def __init__(self, folder: Path):
        try:
            from tensorboardX import SummaryWriter
        except ImportError:
            raise ValueError("--tensorboard needs tensorboardX: pip install 'nobacktrack[tensorboard]'") from None
        self.writer = SummaryWriter(str(folder))

    def write(self, record: dict[str, Any]) -> None:
        for name, value in record.items():
            if name != "t" and value is not None:
                self.writer.add_scalar(name, value, record["t"])
        self.writer.flush()

    def close(self) -> None:
        self.writer.close()
