"""`nobacktrack reproduce`: run what has not been run, then write the report."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from nobacktrack import files
from nobacktrack.experiments.paper import report, runs
from nobacktrack.experiments.paper.figures import FIGURES, Figure, learners_on
from nobacktrack.experiments.paper.manifest import Manifest, Scale
from nobacktrack.experiments.paper.results import Panel, panel
from nobacktrack.experiments.paper.runs import Job, Line

Texts = dict[str, tuple[np.ndarray, str]]


class Report(NamedTuple):
    """The page, and the figures that are not in it, each with its reason."""

    page: Path
    missing: dict[str, str]


def chosen(names: list[str]) -> list[Figure]:
    """Figures by name, `all` for all of them, in the order of the paper."""
    unknown = [name for name in names if name not in (*FIGURES, "all")]
    if unknown:
        raise ValueError(f"figure {unknown[0]!r}: there are {', '.join(FIGURES)} and all")
    return [figure for figure in FIGURES.values() if figure.name in names or "all" in names or not names]


def reproduce(
    figures: list[Figure],
    scale: Scale,
    seeds: int,
    workers: int,
    out: Path,
    data: Path | None,
    budgets: Path | None,
    console: Console,
) -> Report:
    """Run the figures whose streams are at hand, and write their report."""
    beginnings, missing = _beginnings(figures, scale, data)
    figures = [figure for figure in figures if figure.source.name in beginnings]
    sources = {figure.source.name: figure.source for figure in figures}
    if budgets is not None and not budgets.is_file():
        raise FileNotFoundError(f"{budgets}: no such manifest")
    manifest = Manifest(out, scale, budgets)
    (out / "runs").mkdir(parents=True, exist_ok=True)
    files.write(out / "runs" / "README", "Results of single runs; what is here is not run again.\n")
    with console.status("measuring speeds") as status:
        for name, source in sources.items():
            manifest.calibrate(source, beginnings[name][0], lambda text: status.update(f"measuring speeds: {text}"))
    texts = {}
    for name, source in sources.items():
        longest = max(manifest.budget(source, learner).longest for learner in learners_on(source))
        texts[name] = source.read(longest, data)
    began = time.monotonic()
    try:
        _run(runs.jobs_of(figures, seeds, manifest), texts, out, workers, manifest, console)
        lines = _lines(figures, beginnings, out, console)
    finally:
        manifest.spend(time.monotonic() - began)
    with console.status("drawing"):
        panels = [_panel(figure, seeds, manifest, lines, out) for figure in figures]
        return Report(report.write(panels, manifest, seeds, out), missing)


def _beginnings(figures: list[Figure], scale: Scale, data: Path | None) -> tuple[Texts, dict[str, str]]:
    """The beginnings of the streams, and, of figures that cannot be run, why: a text may be neither here nor fetched.
    Where that is all that was asked for, or the text was named, it is an error.
    """
    texts: Texts = {}
    reasons: dict[str, OSError] = {}
    for source in {figure.source.name: figure.source for figure in figures}.values():
        try:
            texts[source.name] = source.read(scale.characters[source.name], data)
        except OSError as error:
            reasons[source.name] = error
    if reasons and (data is not None or not texts):
        raise next(iter(reasons.values()))
    missing = {figure.name: str(reasons[figure.source.name]) for figure in figures if figure.source.name in reasons}
    return texts, missing


def _run(jobs: list[Job], texts: Texts, out: Path, workers: int, manifest: Manifest, console: Console) -> None:
    """All runs, under a bar that counts their seconds."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[done]} of {task.fields[jobs]} runs"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    total = sum(runs.cost(job, manifest) for job in jobs)
    read: dict[str, int] = {}
    lock = threading.Lock()
    with Progress(*columns, console=console, speed_estimate_period=120) as progress:
        task = progress.add_task("training", total=total, done=0, jobs=len(jobs))

        def advance(job: Job, characters: int) -> None:
            with lock:
                read[job.name] = read.get(job.name, 0) + characters
                ended = sum(read.get(each.name, 0) >= each.budget.longest for each in jobs)
            seconds = characters * manifest.microseconds(job.source, job.learner) / 1e6
            progress.update(task, advance=seconds, done=ended)

        symbols = {name: text for name, (text, _) in texts.items()}
        runs.run_all(jobs, symbols, out, workers, advance)


def _lines(figures: list[Figure], texts: Texts, out: Path, console: Console) -> dict[str, list[Line]]:
    sources = {figure.source.name: figure.source for figure in figures}
    with console.status("compressing"):
        return {name: runs.lines_of(source, *texts[name], out) for name, source in sources.items()}


def _panel(figure: Figure, seeds: int, manifest: Manifest, lines: dict[str, list[Line]], out: Path) -> Panel:
    return panel(figure, seeds, manifest, lines[figure.source.name], out)
