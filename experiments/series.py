"""Chaotic time series one step ahead, predict then learn: Henon, Mackey-Glass, Lorenz. See docs/estimators.md.

    python -m experiments.series

The error is the squared one over the variance of the series, over the last tenth of the steps. Results are kept in a
file, and what is there is not run again.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import optax
from rich.console import Console
from rich.table import Table

import nobacktrack as nbt
from nobacktrack import files

SERIES = {"Henon": nbt.streams.henon, "Mackey-Glass": nbt.streams.mackey_glass, "Lorenz": nbt.streams.lorenz}
UNITS = 64
ESTIMATORS = {
    "RTRL": nbt.RTRL(),
    "DiagonalPlusRankOne(lag=4)": nbt.DiagonalPlusRankOne(lag=4),
    "NoBackTrack rank 10": nbt.NoBackTrack(rank=10),
    "NoBackTrack": nbt.NoBackTrack(),
    "UORO": nbt.UORO(),
    "KFRTRL": nbt.KFRTRL(),
    "SnAp1": nbt.SnAp1(),
    "truncated BPTT(15)": nbt.TruncatedBPTT(depth=15),
}
UPDATES = {"Adam": nbt.Optax(optax.adam(1e-3)), "Kalman": nbt.Kalman(decay=nbt.inverse_sqrt(0.1), prior=float(UNITS))}


def error(learner: nbt.Learner, series: np.ndarray, seed: int) -> float:
    """The loss of a Gaussian readout is (y - y_hat)^2 / 2 + log(2 pi) / 2, and the series has variance 1. NaN where it
    diverged.
    """
    try:
        _, info = learner.run(learner.init(seed), series)
    except FloatingPointError:
        return float("nan")
    return float(2 * info.loss[-len(series) // 10 :].astype(float).mean() - math.log(2 * math.pi))


def run(given: argparse.Namespace, say: Any) -> dict[str, list[float]]:
    """All methods on all series, seed by seed; seed i makes the weights, the signs and the start of the series."""
    results = json.loads(given.out.read_text()) if given.out.exists() else {}
    for name, estimator in ESTIMATORS.items():
        for update_name, update in UPDATES.items():
            learner = nbt.Learner(nbt.RNN(units=given.units, inputs=1, outputs=1, activation="tanh"), estimator, update)
            for series_name, make in SERIES.items():
                key = f"{name} | {update_name} | {series_name} | {given.units} units | {given.steps} steps"
                known = results.get(key, [])
                with ThreadPoolExecutor(os.cpu_count()) as pool:
                    todo = range(len(known), given.seeds)
                    series = [make(length=given.steps, seed=seed) for seed in todo]
                    found = pool.map(lambda x, learner=learner: error(learner, *x), zip(series, todo, strict=True))
                    results[key] = [*known, *found]
                given.out.parent.mkdir(parents=True, exist_ok=True)
                files.write(given.out, json.dumps(results, indent=0))
                say(f"{key}: {np.round(results[key], 4).tolist()}")
    return results


def table(results: dict[str, list[float]], given: argparse.Namespace) -> Table:
    """Mean (standard error) over seeds, and how many did not stay finite."""
    found = Table("estimator", "update", *SERIES)
    for name in ESTIMATORS:
        for update in UPDATES:
            keys = [f"{name} | {update} | {series} | {given.units} units | {given.steps} steps" for series in SERIES]
            found.add_row(name, update, *(_shown(results[key][: given.seeds]) for key in keys))
    return found


def _shown(errors: list[float]) -> str:
    finite = np.array(errors)[np.isfinite(errors)]
    if finite.size < 2:
        return f"{len(errors) - finite.size} lost"
    lost = f", {len(errors) - finite.size} lost" if finite.size < len(errors) else ""
    return f"{finite.mean():.4f} ({finite.std(ddof=1) / finite.size**0.5:.4f}){lost}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=15_000)
    parser.add_argument("--units", type=int, default=UNITS)
    parser.add_argument("--out", type=Path, default=Path("out/series.json"))
    given = parser.parse_args()
    console = Console()
    results = run(given, lambda text: console.print(text, highlight=False, soft_wrap=True))
    console.print(table(results, given))


if __name__ == "__main__":
    main()
