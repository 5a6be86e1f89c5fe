"""A diagnosis as a table and as a figure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib
import numpy as np
from rich.table import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .diagnosis import Diagnosis, Row

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


def table(diagnosis: Diagnosis) -> Table:
    """A row an estimator: cosine (s.e.), error, bias (s.e.), noise in the metric of theta, and time; and where one has
    a belief that measures, the powers of the random part and of its signal over that of the exact one, and s.
    """
    found = Table(title=f"{diagnosis.copies} copies, {diagnosis.steps:,} steps", title_justify="left")
    beliefs = any(row.shares for row in diagnosis.rows)
    for name in ("", "cosine", "error", "bias", "noise", "us / step", *(("random", "signal", "s") if beliefs else ())):
        found.add_column(name, justify="right" if name else "left", no_wrap=True)
    for row in diagnosis.rows:
        noise = row.noise if row.noise is not None else row.noise_in_windows[-1]
        found.add_row(
            row.name,
            _with_error(row.cosine, row.cosine_error),
            _number(row.error),
            _with_error(row.bias, row.bias_error),
            _number(noise),
            _number(row.microseconds),
            *((_number(row.random), _number(row.signal), _range(row.shares)) if beliefs else ()),
        )
    return found


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _range(shares: list[float]) -> str:
    """From where to where s went, and where it ended."""
    return f"{min(shares):.2g} to {max(shares):.2g}, last {shares[-1]:.2g}" if shares else "-"


def _with_error(value: float | None, error: float | None) -> str:
    return "-" if value is None else f"{value:.3f} ({error:.3f})"


def _draw_cosines(axes: Axes, rows: list[Row], colours: dict[str, str]) -> None:
    """A bar an estimator."""
    axes.barh(
        [row.name for row in rows],
        [row.cosine or 0.0 for row in rows],
        xerr=[row.cosine_error or 0.0 for row in rows],
        color=[colours[row.name] for row in rows],
    )
    axes.invert_yaxis()
    axes.set(xlabel="cosine of one estimate with the exact gradient", xlim=(min(0, axes.get_xlim()[0]), 1))


def _draw_shares(axes: Axes, diagnosis: Diagnosis, colours: dict[str, str]) -> None:
    """The factor on the random part in time, of the estimators that have a belief."""
    for row in diagnosis.rows:
        steps = np.linspace(0, diagnosis.steps, len(row.shares), endpoint=False)
        axes.plot(steps, row.shares, color=colours[row.name])
    axes.set(xlabel="step", ylabel="s: how much of the random part is followed", ylim=(0, 1.05))


def figure(diagnosis: Diagnosis, path: Path) -> None:
    """Cosines with the exact gradient (or the factor on the random part), noise against the rate, and which parts of
    theta the noise is in.
    """
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = diagnosis.rows
    fig, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 0.25 * len(rows) + 3.2), layout="constrained")
    known = [row for row in rows if row.cosine is not None]
    colours = {row.name: COLOURS[i % len(COLOURS)] for i, row in enumerate(rows)}
    if known:
        _draw_cosines(left, known, colours)
    else:  # block methods have no gradient for each step
        _draw_shares(left, diagnosis, colours)
    for row in rows:
        if any(ratio > 0 for ratio in row.noise_in_windows):
            rates = 1 / np.array(diagnosis.windows, float)
            snr = 1 / np.array(row.noise_in_windows)
            middle.plot(rates, snr, "o-", color=colours[row.name], label=row.name, markersize=4)
    middle.axhline(1, color="0.5", linewidth=1, linestyle=":")
    middle.set(xscale="log", yscale="log", xlabel="rate (1 / steps averaged)", ylabel="gradient / noise, squares")
    if len(known) < len(rows):  # the bars on the left name the colours of the others
        middle.legend(frameon=False, fontsize=8)
    shares = np.array(rows[0].by_part) / max(sum(rows[0].by_part), 1e-300)
    right.bar(range(len(shares)), shares, color="0.4")
    if len(shares) <= 8:
        right.set_xticks(range(len(shares)), diagnosis.parts, rotation=30, ha="right")
    right.set(xlabel="unit" if len(shares) > 8 else "", ylabel="share of the noise", title=f"where: {rows[0].name}")
    for axes in (left, middle, right):
        axes.grid(alpha=0.25)
    path.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(path, dpi=130)
    plt.close(fig)
