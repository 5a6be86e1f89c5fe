"""A figure: bits per character against characters read, over all of them and over the last tenth, for all methods in
the same time and over the same characters.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.ticker import FuncFormatter

from nobacktrack import files
from nobacktrack.experiments.paper.figures import UNITS
from nobacktrack.experiments.paper.results import Curves, Panel

FIRST = 1000  # characters from which curves are shown
ROOM = 5000  # and from which the axis makes room for what they show over the last tenth
# Colours that stay apart in grey, each with a marker and a dash of its own (Okabe and Ito's).
STYLES = (
    ("#000000", "o", "-"),
    ("#0072B2", "s", (0, (6, 2))),
    ("#D55E00", "^", (0, (4, 1, 1, 1))),
    ("#56B4E9", "D", "-"),
    ("#009E73", "v", (0, (1, 1))),
)
OURS = (
    ("#999999", "o", "-"),
    ("#CC79A7", "^", (0, (4, 1, 1, 1))),
    ("#E69F00", "D", (0, (6, 2))),
    ("#7B5EA7", "P", (0, (1, 1))),
    ("#8C6D31", "X", (0, (2, 2))),
    ("#5B8DB8", "*", "-"),
)
LINES = {
    "entropy": "-",
    "entropy of a^n b^p": (0, (8, 3)),
    "gzip": (0, (1, 2)),
    "bz2": (0, (4, 2, 1, 2)),
    "CTW": (0, (3, 2)),
}


def draw(panel: Panel, out: Path) -> list[Path]:
    """Save a figure as PNG and SVG."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with plt.rc_context({"font.size": 9, "svg.fonttype": "none", "svg.hashsalt": panel.figure.name}):
        fig, axes = plt.subplots(2, 2, figsize=(10.5, 8), layout="constrained", sharex="col", sharey="row")
        for row, statistic in enumerate(("mean", "recent")):
            for column, budget in enumerate(("time", "characters")):
                _plot(axes[row, column], panel, budget, statistic)
        _label(fig, axes, panel)
        paths = [out / f"{panel.figure.name}.{kind}" for kind in ("png", "svg")]
        for path in paths:
            _save(fig, path)
        plt.close(fig)
    return paths


def _save(fig: Any, path: Path) -> None:
    image = io.BytesIO()
    fig.savefig(image, dpi=120, format=path.suffix[1:], metadata={"Date": None} if path.suffix == ".svg" else None)
    files.write(path, image.getvalue())


def styles(panel: Panel) -> dict[str, Any]:
    """Colour, marker and dash of each method."""
    paper = [method.name for method in panel.figure.methods if not method.ours]
    ours = [method.name for method in panel.figure.methods if method.ours]
    return dict(zip(paper, STYLES, strict=False)) | dict(zip(ours, OURS, strict=False))


def _plot(axes: Any, panel: Panel, budget: str, statistic: str) -> None:
    looks = styles(panel)
    for method in panel.figure.methods:
        found = getattr(panel.outcomes[method.name], budget)
        _curve(axes, found, getattr(found, statistic), looks[method.name], method.name, thin=method.ours)
    low, high = _limits(panel, statistic)
    axes.set(xscale="log", xlim=(FIRST, None), ylim=(low, high))
    axes.grid(alpha=0.2)
    shift, below = 0.0, -np.inf
    for name, level in sorted(_levels(panel, statistic).items(), key=lambda item: item[1]):
        shift = shift + 0.18 if level - below < 0.05 * (high - low) else 0.0  # names that would overlap stand apart
        below = level
        _level(axes, name, level, shift)


def _levels(panel: Panel, statistic: str) -> dict[str, float]:
    """What others pay, where it is drawn: xz is in the table only."""
    levels = {line.name: line.mean if statistic == "mean" else line.last for line in panel.lines.values()}
    return {name: level for name, level in levels.items() if np.isfinite(level) and name != "xz"}


def _curve(axes: Any, curves: Curves, values: np.ndarray, look: Any, name: str, *, thin: bool) -> None:
    """The mean over seeds, and a band of one standard deviation around it."""
    colour, marker, dash = look
    inside = curves.marks >= FIRST
    marks, values = curves.marks[inside], values[:, inside]
    alive = np.isfinite(values).all(axis=0)
    marks, values = marks[alive], values[:, alive]
    if not marks.size:
        return
    mean, spread = values.mean(axis=0), values.std(axis=0, ddof=1 if len(values) > 1 else 0)
    axes.fill_between(marks, mean - spread, mean + spread, color=colour, alpha=0.07 if thin else 0.13, linewidth=0)
    axes.plot(
        marks,
        mean,
        color=colour,
        linestyle=dash,
        linewidth=1.0 if thin else 1.7,
        marker=marker,
        markevery=[*range(6, len(marks) - 4, 14), len(marks) - 1],
        markersize=4 if thin else 5,
        markerfacecolor="white" if thin else colour,
        label=name,
    )


def _level(axes: Any, name: str, level: float, shift: float) -> None:
    dash = LINES["CTW" if name.startswith("CTW") else name]
    axes.axhline(level, color="0.25", linewidth=1, linestyle=dash, zorder=1)
    axes.annotate(
        name,
        (0.008 + shift, level),
        xycoords=("axes fraction", "data"),
        xytext=(0, 1.5),
        textcoords="offset points",
        fontsize=7.5,
        color="0.25",
        annotation_clip=True,
        bbox={"facecolor": "white", "alpha": 0.75, "edgecolor": "none", "pad": 0.6},
    )


def _limits(panel: Panel, statistic: str) -> tuple[float, float]:
    """From below the lowest curve or line to what the methods pay after some thousand characters."""
    begin = ROOM if statistic == "recent" else 2 * FIRST
    found = [getattr(outcome, budget) for outcome in panel.outcomes.values() for budget in ("time", "characters")]
    values = [getattr(curves, statistic)[:, curves.marks >= begin] for curves in found]
    means = np.concatenate([each.mean(axis=0) for each in values])
    means = means[np.isfinite(means)]
    low, high = min(means.min(), *_levels(panel, statistic).values()), means.max()
    return low - 0.06 * (high - low), high + 0.04 * (high - low)


def _label(fig: Any, axes: Any, panel: Panel) -> None:
    fig.suptitle(f"{panel.figure.title}: {panel.figure.source.title}, {UNITS} units", fontsize=11)
    axes[0, 0].set(title=f"the same time: {panel.seconds:.3g} s a run", ylabel="bits per character, all so far")
    characters = next(iter(panel.outcomes.values())).budget.characters
    axes[0, 1].set(title=f"the same characters: {characters:,}")
    axes[1, 0].set(ylabel="bits per character, last tenth")
    for bottom in axes[1]:
        bottom.set(xlabel="characters read")
        bottom.xaxis.set_major_formatter(FuncFormatter(_short))
    handles, labels = axes[0, 0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=8.5, handlelength=4)


def _short(number: float, _: Any) -> str:
    """1000 as 1k, 10^6 as 1M."""
    if number >= 1e6:
        return f"{number / 1e6:g}M"
    return f"{number / 1e3:g}k" if number >= 1e3 else f"{number:g}"
