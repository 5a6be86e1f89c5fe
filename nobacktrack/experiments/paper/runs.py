"""The runs behind the figures: as long as the manifest says, on all cores, each kept when it ends; one that was stopped
goes on from where it was.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import nobacktrack as nbt
from nobacktrack import baselines, files, streams
from nobacktrack.experiments.paper.figures import ANBN, Figure, FigureStream
from nobacktrack.experiments.paper.manifest import Budget, Manifest

SAVE_SECONDS = 20.0
GENERATED = 30_000  # characters that a trained learner is asked for, on a^n b^n

Report = Callable[["Job", int], Any]  # which run, and how many characters of it are done


class Job(NamedTuple):
    """One run: a learner on a stream, from a seed."""

    source: FigureStream
    learner: nbt.Learner
    seed: int
    budget: Budget

    @property
    def name(self) -> str:
        """A file name of its own."""
        digest = hashlib.sha256(f"{self.learner} {self.budget}".encode()).hexdigest()[:12]
        return f"{self.source.name}-{digest}-seed{self.seed}"


class Result(NamedTuple):
    """What a run paid in all, in bits, when it had read so many characters; where it diverged, if it did; and, on a^n
    b^n, how many of the blocks that it then generated have as many b as a, of how many.
    """

    learner: str
    marks: list[int]
    bits: list[float]
    diverged: int | None
    blocks: tuple[int, int] | None


class Stopped(Exception):
    """The run was asked to stop, and has kept where it was."""


def jobs_of(figures: Iterable[Figure], seeds: int, manifest: Manifest) -> list[Job]:
    """The runs behind some figures, each once, the longest first."""
    found: dict[str, Job] = {}
    for figure in figures:
        for method in figure.methods:
            budget = manifest.budget(figure.source, method.learner)
            for seed in range(seeds):
                job = Job(figure.source, method.learner, seed, budget)
                found[job.name] = job
    return sorted(found.values(), key=lambda job: -cost(job, manifest))


def cost(job: Job, manifest: Manifest) -> float:
    """Seconds that a run takes."""
    return job.budget.longest * manifest.microseconds(job.source, job.learner) / 1e6


def run_all(jobs: list[Job], texts: dict[str, np.ndarray], out: Path, workers: int, report: Report) -> None:
    """Run what has not been run, on so many threads: compiled loops do not hold the interpreter's lock."""
    stop = threading.Event()
    pool = ThreadPoolExecutor(workers)
    futures = [pool.submit(run, job, texts[job.source.name], out, stop, report) for job in jobs]
    try:
        done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        for future in done:
            future.result()
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)


def run(job: Job, text: np.ndarray, out: Path, stop: threading.Event, report: Report) -> None:
    """One run, from where it was left; its result is kept in a file."""
    if finished(job, out) is not None:
        report(job, job.budget.longest)
        return
    partial = out / "runs" / f"{job.name}.partial"
    state, ledger = _left(job, partial)
    report(job, state.steps)
    diverged = None
    try:
        state = _trained(job, text[: job.budget.longest], state, ledger, partial, stop, report)
    except nbt.Divergence as error:
        diverged = error.t
        report(job, job.budget.longest - ledger.read)
    blocks = _blocks(job, state, out) if job.source is ANBN and diverged is None else None
    result = Result(repr(job.learner), ledger.reached, ledger.bits, diverged, blocks)
    files.write(_path(job, out), json.dumps(result._asdict()))
    partial.unlink(missing_ok=True)


def _trained(
    job: Job,
    stream: np.ndarray,
    state: nbt.State,
    ledger: Ledger,
    partial: Path,
    stop: threading.Event,
    report: Report,
) -> nbt.State:
    """The state at the end of the stream; saved now and then, and where the run is asked to stop."""
    saved = time.monotonic()
    for following, info in job.learner.training(state, stream[state.steps :]):
        state = following
        ledger.add(info.bits)
        report(job, len(info.loss))
        if stop.is_set() or time.monotonic() - saved > SAVE_SECONDS:
            nbt.save(partial, job.learner, state, ledger.notes())
            saved = time.monotonic()
        if stop.is_set():
            raise Stopped
    return state


class Ledger:
    """The bits paid so far, noted at marks."""

    def __init__(self, marks: list[int], notes: dict[str, Any] | None = None):
        notes = notes or {"reached": [], "bits": [], "read": 0, "total": 0.0}
        self.marks = marks
        self.reached, self.bits = list(notes["reached"]), list(notes["bits"])
        self.read, self.total = notes["read"], notes["total"]

    def add(self, bits: np.ndarray) -> None:
        """Take in the bits of the next characters."""
        sums = self.total + np.cumsum(bits, dtype=float)
        for mark in self.marks[len(self.reached) :]:
            if mark > self.read + len(bits):
                break
            self.reached.append(mark)
            self.bits.append(float(sums[mark - self.read - 1]))
        self.read, self.total = self.read + len(bits), float(sums[-1])

    def notes(self) -> dict[str, Any]:
        return {"reached": self.reached, "bits": self.bits, "read": self.read, "total": self.total}


def _left(job: Job, partial: Path) -> tuple[nbt.State, Ledger]:
    """Where a run was left, or its beginning."""
    if not partial.exists():
        return job.learner.init(job.seed), Ledger(job.budget.marks())
    _, state, notes = nbt.load(partial, job.learner)
    return state, Ledger(job.budget.marks(), notes)


def _blocks(job: Job, state: nbt.State, out: Path) -> tuple[int, int]:
    """What a trained learner generates on a^n b^n; the first one is kept, for `nobacktrack generate`."""
    if job.seed == 0:
        nbt.save(out / "runs" / f"{job.name}.nbt", job.learner, state, {"alphabet": streams.ANBN_ALPHABET})
    return streams.anbn_blocks(nbt.generate(job.learner, state, GENERATED, seed=job.seed))


def _path(job: Job, out: Path) -> Path:
    return out / "runs" / f"{job.name}.json"


def finished(job: Job, out: Path) -> Result | None:
    """The result of a run that has ended."""
    path = _path(job, out)
    return Result(**_read(path)) if path.exists() else None


class Line(NamedTuple):
    """What another method pays on the first characters of a stream: how many, over all of them, and over their last
    tenth (NaN where there is no such thing).
    """

    name: str
    characters: int
    mean: float
    last: float


def lines_of(source: FigureStream, text: np.ndarray, alphabet: str, out: Path) -> list[Line]:
    """Entropies, compressors and context tree weighting on what is read once of a stream; kept in a file."""
    path = out / "runs" / f"{source.name}-lines.json"
    if path.exists():
        return [Line(**line) if line["last"] is not None else Line(**line | {"last": np.nan}) for line in _read(path)]
    symbols = text[: source.once]
    count, characters = len(symbols), "".join(alphabet[symbol] for symbol in symbols)
    lines = [Line(name, count, float(rate), float(rate)) for name, rate in source.entropies.items()]
    for name in ("gzip", "bz2", "xz"):
        lines.append(Line(name, count, getattr(baselines, name)(characters), float("nan")))
    for depth in source.contexts:
        bits = baselines.CTW(source.symbols, depth).take(symbols)
        lines.append(Line(f"CTW, depth {depth}", count, float(bits.mean()), float(bits[-(count // 10) :].mean())))
    records = [line._asdict() | {"last": line.last if np.isfinite(line.last) else None} for line in lines]
    files.write(path, json.dumps(records))
    return lines


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except ValueError:
        raise ValueError(f"{path}: damaged: remove it, and it is made again") from None
