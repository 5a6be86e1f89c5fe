"""What a person sees of a run, and what is written down of it."""

from __future__ import annotations

import csv
import io
import json
import math
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

GLANCE = 0.5  # seconds between two looks at the live line
WIDE = 110  # columns, for the norms too
FIRST_GRADIENT = 2.0  # seconds before the gradient is looked at, since that compiles it


class Watch:
    """A live line on standard error, records in CSV, JSON lines or TensorBoard."""

    def __init__(self, reader: Any, unit: str, size: int | None, quiet: bool, logs: list[Any], every: float):
        self.reader, self.unit, self.logs, self.every = reader, unit, logs, every
        self.begin = reader.tally.items
        self.start = self.seen = self.logged = time.monotonic()
        self.console = Console(stderr=True, quiet=quiet)
        columns = (SpinnerColumn(), *((BarColumn(20),) if size else ()), TextColumn("{task.fields[line]}"))
        self.progress = Progress(*columns, console=self.console, transient=True)
        self.task = self.progress.add_task("", total=size, line="starting: what has not run before is compiled first")
        self._skips = 0

    def __enter__(self) -> Watch:
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()
        for log in self.logs:
            log.close()

    def look(self, last: bool = False) -> None:
        """Say where the run is, if it is time to; and what was skipped."""
        for message in self.reader.tally.skips[self._skips :]:
            self.console.print(f"skipped: {message}", highlight=False, soft_wrap=True)
        self._skips = len(self.reader.tally.skips)
        now = time.monotonic()
        shows, writes = now - self.seen >= GLANCE, bool(self.logs) and (last or now - self.logged >= self.every)
        if not (shows or writes) or not self.reader.begun:
            return
        record = self.record()
        self.seen = now
        self.progress.update(
            self.task, completed=self.reader.position, line=_line(record, self.unit, self.console.width >= WIDE)
        )
        if writes:
            self.logged = now
            for log in self.logs:
                log.write(record)
        self.reader.measuring = now - self.start >= FIRST_GRADIENT

    def record(self) -> dict[str, Any]:
        """All there is to say of the run."""
        from ..readers.tally import norm_of

        seconds = time.monotonic() - self.start
        gradient = self.reader.gradient_norm
        params = self.reader.state.params
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
    said = [f"{record['t']:,} {unit}", f"{record['per_second']:,}/s", _scored(record)]
    if wide:
        said.append(f"|params| {record['parameter_norm']:.1f}")
        said += [] if record["gradient_norm"] is None else [f"|gradient| {record['gradient_norm']:.2g}"]
    said += [f"{record['skipped']} skipped"] if record["skipped"] else []
    return "  ".join(said)


def _scored(record: dict[str, Any]) -> str:
    """Of late, on the whole, and what knows nothing of order."""
    if record.get("bits") is not None:
        return f"{record['recent_bits']:.3f} bits (all {record['bits']:.3f}, frequencies {record['baseline_bits']:.3f})"
    if "rmse" in record:
        return f"rmse {record['rmse']:.4g} (of the mean {record['baseline_rmse']:.4g})"
    return f"right {record.get('accuracy', 0):.1%} (most frequent {record.get('baseline_accuracy', 0):.1%})"


class Lines:
    """Records as JSON lines or CSV, by the name of the file; they go on where it ends, unless it is begun anew."""

    def __init__(self, path: Path, begin: bool = False):
        if path.suffix not in (".csv", ".jsonl", ".json"):
            raise ValueError(f"{path}: records are written to a file that ends in .csv or .jsonl")
        self.is_csv = path.suffix == ".csv"
        before = path.read_text() if path.exists() and not begin else ""
        self.fields = before.split("\n", 1)[0].split(",") if before and self.is_csv else None
        self.file = open(path, "w" if begin else "a")  # noqa: SIM115 - open as long as the run is
        if before and not before.endswith("\n"):
            self.file.write("\n")  # the run before was stopped in the middle of a line

    def write(self, record: dict[str, Any]) -> None:
        if not self.is_csv:
            self.file.write(json.dumps(record) + "\n")
        else:
            if self.fields is None:
                self.fields = [name for name, value in record.items() if not isinstance(value, dict)]
                self.file.write(",".join(self.fields) + "\n")
            row = io.StringIO()
            csv.DictWriter(row, self.fields, extrasaction="ignore", lineterminator="\n").writerow(record)
            self.file.write(row.getvalue())
        self.file.flush()

    def close(self) -> None:
        self.file.close()


class Board:
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
