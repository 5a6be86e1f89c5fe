"""Trials over seeds: methods on a stream, their bits per character over the last tenth, a table and a figure.

Results are kept in the output file as they come; what is there already is not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from rich.console import Console
from rich.table import Table

import nobacktrack as nbt
from nobacktrack import files

Rows = list[tuple[str, str, list[float]]]


class Trial(NamedTuple):
    """A method: its name, the setting that it was given, the learner, and the stream made by a seed at a length."""

    name: str
    setting: str
    learner: nbt.Learner
    stream: Callable[[int, int], np.ndarray]


def options(description: str | None, choices: Iterable[str], out: str) -> argparse.ArgumentParser:
    """The command line that all trials share."""
    parser = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    parser.add_argument("which", choices=tuple(choices))
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--length", type=int, default=1_000_000)
    parser.add_argument("--only", default="", help="methods whose name holds this")
    parser.add_argument("--out", type=Path, default=Path(out))
    return parser


def run(trials: Iterable[Trial], given: argparse.Namespace, lines: dict[str, tuple[float, str]]) -> None:
    """Run what is not in the output file yet, then print the table and draw the figure beside the file."""
    console = Console()
    results = json.loads(given.out.read_text()) if given.out.exists() else {}
    shown: Rows = []
    for trial in trials:
        key = f"{trial.name} | {trial.setting} | {given.seeds} seeds | {given.length}"
        if given.only in trial.name:
            if results.get(key, {}).get("learner") != repr(trial.learner):
                began = time.perf_counter()
                bits = last_tenth(trial, given.seeds, given.length)
                seconds = round(time.perf_counter() - began)
                results[key] = {"learner": repr(trial.learner), "bits": bits, "seconds": seconds}
                _save(given.out, results)
                console.print(key, np.round(bits, 3).tolist(), highlight=False)
            shown.append((trial.name, trial.setting, results[key]["bits"]))
    console.print(table(shown))
    figure(shown, given.out.with_name(f"{given.out.stem}_{given.which}.png"), lines)


def last_tenth(trial: Trial, seeds: int, length: int) -> list[float]:
    """Bits per character over the last tenth, for each seed; NaN for a run that diverged. Seed i makes the weights, the
    signs and the stream of run i.
    """
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # compiled loops do not hold the interpreter's lock
        return list(pool.map(lambda seed: _one(trial, seed, length), range(seeds)))


def _one(trial: Trial, seed: int, length: int) -> float:
    try:
        _, info = trial.learner.run(trial.learner.init(seed), trial.stream(seed, length))
    except FloatingPointError:
        return float("nan")
    return float(info.bits[-length // 10 :].mean())


def _save(path: Path, results: dict[str, Any]) -> None:
    """Write the results atomically, beside those of another process on the same file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = json.loads(path.read_text()) if path.exists() else {}
    files.write(path, json.dumps({**kept, **results}, indent=1))


def table(rows: Rows) -> Table:
    """Mean and standard error over the seeds that stayed finite, their median, and how many did not; c is the decay
    or rate.
    """
    result = Table("method", "c", "bits/char", "s.e.", "median", "not finite")
    for column in result.columns[1:]:
        column.justify = "right"
    for name, setting, bits in rows:
        finite = np.array([each for each in bits if np.isfinite(each)])
        numbers = (
            (finite.mean(), finite.std(ddof=1) / len(finite) ** 0.5, np.median(finite))
            if len(finite) > 1
            else [np.nan] * 3
        )
        result.add_row(name, setting, *(f"{number:.4f}" for number in numbers), f"{len(bits) - len(finite)}")
    return result


def figure(rows: Rows, path: Path, lines: dict[str, tuple[float, str]]) -> None:
    """A dot for each seed, a bar for the mean of those that stayed finite; lines at some levels, in a style each."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(figsize=(8, 0.34 * len(rows) + 1.3), layout="constrained")
    for y, (_, _, bits) in enumerate(rows):
        finite = np.array([each for each in bits if np.isfinite(each)])
        axes.plot(finite, np.full(len(finite), y), "o", color="0.35", markersize=4, alpha=0.6)
        if len(finite):
            axes.plot([finite.mean()] * 2, [y - 0.35, y + 0.35], color="C3", linewidth=2)
        if len(finite) < len(bits):
            axes.text(
                0.99,
                y - 0.3,
                f"{len(bits) - len(finite)} not finite",
                ha="right",
                va="center",
                transform=axes.get_yaxis_transform(),
            )
    for name, (level, style) in lines.items():
        axes.axvline(level, color="black", linewidth=1, linestyle=style, label=name)
    axes.set_yticks(range(len(rows)), [f"{name}, {setting}" for name, setting, _ in rows])
    axes.invert_yaxis()
    axes.set(
        xlabel="bits per character, last tenth (a dot a seed, a bar their mean)",
        xlim=(0.9 * min(level for level, _ in lines.values()), None),
    )
    axes.legend(frameon=False, loc="upper right")
    axes.grid(axis="x", alpha=0.25)
    fig.savefig(path, dpi=130)
    plt.close(fig)
