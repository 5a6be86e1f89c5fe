"""Estimators and updates on one stream: bits at given numbers of characters and at given times, over seeds.

Results are kept in a file as they come; what is there already is not run again.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from rich.table import Table

from .. import files
from ..learner import Learner

EDGES = 48
CHUNK = 4096  # the time of a character is the median over chunks
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999933")
SHOWN = 3e-4  # of the range of characters and times, in the figure
DASHES = ("-", "--", "-.", ":")


class Entry(NamedTuple):
    """One method: its name, the name of its update, the learner, and how far it goes."""

    name: str
    update: str
    learner: Learner
    length: int

    def key(self, seed: int) -> str:
        parts = self.learner.system, self.learner.estimator  # an optimiser of optax has no name of its own
        return f"{self.update} | {' | '.join(map(repr, parts))} | {self.length} | seed {seed}"


class Curve(NamedTuple):
    """One run: the bits per character of each window between two edges, of the last tenth, microseconds a character,
    and the bits per character of the whole stream. Bits are NaN from where it diverged.
    """

    edges: list[int]
    bits: list[float]
    last: float
    microseconds: float
    whole: float = math.nan

    def at(self, characters: float) -> float:
        """Bits per character in the window that ends at so many, NaN where the run did not go so far."""
        if not self.edges[1] <= characters <= self.edges[-1] * 1.001:
            return math.nan
        return float(np.interp(math.log(characters), np.log(self.edges[1:]), self.bits))

    def at_time(self, seconds: float) -> float:
        """Bits per character after so many seconds."""
        return self.at(seconds * 1e6 / self.microseconds)


Results = dict[str, Curve]


def run(
    entries: list[Entry], make: Callable[[int, int], np.ndarray], seeds: int, out: Path, say: Callable[[str], Any]
) -> Results:
    """Run what is not in the file yet. Seed i makes the weights, the signs and the stream of run i."""
    done = _load(out)
    for entry in entries:
        missing = [seed for seed in range(seeds) if entry.key(seed) not in done]
        if missing:
            with ThreadPoolExecutor(os.cpu_count()) as pool:  # compiled loops do not hold the interpreter's lock
                runs = pool.map(lambda seed: one(entry, make(seed, entry.length), seed), missing)  # noqa: B023
                done |= {entry.key(seed): curve for seed, curve in zip(missing, runs, strict=True)}
            _save(out, done)
        last = [done[entry.key(seed)].last for seed in range(seeds)]
        say(f"{entry.name}, {entry.update}: {np.round(last, 4).tolist()}")
    return done


def one(entry: Entry, stream: np.ndarray, seed: int) -> Curve:
    """Train once; the first chunk compiles, which the median does not see."""
    losses, times, began = [], [], time.perf_counter()
    try:
        for _, info in entry.learner.training(entry.learner.init(seed), stream, chunk=CHUNK):
            losses.append(info.bits)
            times.append((time.perf_counter() - began) / len(info.bits))
            began = time.perf_counter()
    except FloatingPointError:
        losses.append(np.full(len(stream) - sum(map(len, losses)), np.nan))
    bits = np.concatenate(losses)
    edges = np.unique(np.geomspace(min(100, len(bits) // 2), len(bits), EDGES).astype(int)).tolist()
    means = [float(bits[a:b].mean()) for a, b in pairwise(edges)]
    last, pace = float(bits[-len(bits) // 10 :].mean()), float(np.median(times or [math.nan])) * 1e6
    return Curve(edges, means, last, pace, float(bits.mean()))


def _load(path: Path) -> Results:
    return {key: Curve(*value) for key, value in json.loads(path.read_text()).items()} if path.exists() else {}


def _save(path: Path, results: Results) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write(path, json.dumps({**_load(path), **results}, indent=0))


def table(
    entries: list[Entry], results: Results, seeds: int, marks: list[int], seconds: list[float], entropy: float | None
) -> Table:
    """Mean (standard error) over seeds of the bits in the last tenth, and at some numbers of characters and times."""
    title = f"bits per character, {f'mean (s.e.) of {seeds} seeds' if seeds > 1 else 'one seed'}"
    found = Table(title=title if entropy is None else f"{title}; entropy {entropy:.4f}", title_justify="left")
    for name in ("estimator", "update", "us", "length", "last tenth", "worst", "all of it", *map(_short, marks)):
        found.add_column(name, justify="left" if name in ("estimator", "update") else "right", no_wrap=True)
    for mark in seconds:
        found.add_column(f"{mark:g} s", justify="right", no_wrap=True)
    for entry in entries:
        curves = [results[entry.key(seed)] for seed in range(seeds)]
        last = [curve.last for curve in curves]
        found.add_row(
            entry.name,
            entry.update,
            f"{np.nanmedian([curve.microseconds for curve in curves]):.3g}",
            _short(entry.length),
            _mean(last),
            f"{max(last):.3f}" if np.isfinite(last).all() else "nan",
            _mean([curve.whole for curve in curves]),
            *(_if_all([curve.at(mark) for curve in curves]) for mark in marks),
            *(_if_all([curve.at_time(mark) for curve in curves]) for mark in seconds),
        )
    return found


def summary(entries: list[Entry], results: Results, seeds: int, entropy: float | None) -> dict[str, Any]:
    """The same for programs: bits in the last tenth of each run, null where it diverged."""
    methods = []
    for entry in entries:
        curves = [results[entry.key(seed)] for seed in range(seeds)]
        last = [curve.last if math.isfinite(curve.last) else None for curve in curves]
        pace = float(np.nanmedian([curve.microseconds for curve in curves]))
        methods.append(
            {
                "estimator": entry.name,
                "update": entry.update,
                "characters": entry.length,
                "microseconds": pace if math.isfinite(pace) else None,
                "bits": last,
                "whole": [curve.whole if math.isfinite(curve.whole) else None for curve in curves],
            }
        )
    return {"entropy": entropy, "methods": methods}


def _if_all(values: list[float]) -> str:
    """Mean and standard error where all runs went so far."""
    return _mean(values, 3) if np.isfinite(values).all() else "-"


def _mean(values: list[float], digits: int = 4) -> str:
    """Mean and standard error of those that are finite, and how many are not, if some are."""
    finite = np.array(values)[np.isfinite(values)]
    if not finite.size:
        return "-"
    error = f" ({finite.std(ddof=1) / math.sqrt(finite.size):.{digits}f})" if finite.size > 1 else ""
    lost = f" [{len(values) - finite.size} lost]" if finite.size < len(values) else ""
    return f"{finite.mean():.{digits}f}{error}{lost}"


def _short(count: int) -> str:
    mantissa, _, exponent = f"{count:.1e}".partition("e+")
    return f"{mantissa.removesuffix('.0')}e{int(exponent)}"


def figure(entries: list[Entry], results: Results, seeds: int, entropy: float | None, path: Path) -> None:
    """Bits against characters, and against time, a panel an update, mean over seeds."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    updates = list(dict.fromkeys(entry.update for entry in entries))
    names = list(dict.fromkeys(entry.name for entry in entries))
    fig, grid = plt.subplots(
        len(updates), 2, figsize=(12, 4 * len(updates) + 0.6), layout="constrained", squeeze=False, sharey=True
    )
    for panels, update in zip(grid, updates, strict=True):
        for entry in (entry for entry in entries if entry.update == update):
            curves = [results[entry.key(seed)] for seed in range(seeds)]
            mean = np.mean([curve.bits for curve in curves], axis=0)
            i = names.index(entry.name)
            style = {"color": COLOURS[i % len(COLOURS)], "linestyle": DASHES[i // len(COLOURS) % len(DASHES)]}
            edges = np.array(curves[0].edges[1:])
            pace = float(np.nanmedian([curve.microseconds for curve in curves]))
            for axes, x in zip(panels, (edges, edges * pace / 1e6), strict=True):
                axes.plot(x, mean, label=entry.name, linewidth=1.5, **style)
        for axes, label in zip(panels, ("characters read", "seconds, one core"), strict=True):
            if entropy is not None:
                axes.axhline(entropy, color="black", linewidth=1, label="entropy")
            axes.set(xscale="log", xlabel=label, title=update)
            axes.set_xlim(left=max(axes.get_xlim()[0], axes.get_xlim()[1] * SHOWN))
            axes.grid(alpha=0.25)
        panels[0].set_ylabel("bits per character")
    low = entropy if entropy is not None else min(min(results[e.key(s)].bits) for e in entries for s in range(seeds))
    lasts = [results[entry.key(seed)].last for entry in entries for seed in range(seeds)]
    grid[0, 0].set_ylim(0.9 * low, min(1.3 * float(np.nanmax(lasts)), 6 * low))
    handles = {line.get_label(): line for axes in grid.ravel() for line in axes.get_lines()}
    fig.legend(handles.values(), handles.keys(), loc="outside right upper", frameon=False, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(path, dpi=130)
    plt.close(fig)
