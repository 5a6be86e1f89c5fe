"""All columns of a table one row ahead: a committee beside each of its experts, mean squared error.

    python -m experiments.forecasts ETTh1.csv ETTh2.csv

The protocol of the FSNet code: columns standardised by the first 2,880 rows, errors over rows 3,600 to 14,400, each row
predicted, then learned from.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import nobacktrack as nbt
from nobacktrack.committee.numbers import NumberPanel
from nobacktrack.committee.session import CommitteeSession

SCALING, BEGIN, END = 2880, 3600, 14_400


def columns(path: Path) -> np.ndarray:
    """All columns but the date, standardised by the first rows."""
    raw = np.genfromtxt(path, delimiter=",", skip_header=1)[:END, 1:]
    return (raw - raw[:SCALING].mean(axis=0)) / raw[:SCALING].std(axis=0)


def errors(y: np.ndarray, seed: int, season: int) -> tuple[dict[str, float], float]:
    """Mean squared error of the committee and of each expert; microseconds a row."""
    count, width = y.shape
    network = nbt.Learner(nbt.LSTM(units=32, inputs=width, outputs=width), nbt.BlockNoBackTrack(), nbt.Kalman())
    committee = nbt.Committee((network,), nbt.Forecasts(season=season))
    session, before = CommitteeSession(committee, committee.init(seed), "auto"), np.zeros(width)
    total, seen = np.zeros(1 + len(committee.experts)), 0
    for t in range(count):
        session.advance(before)
        panel: NumberPanel = session.panel
        mixed = session.predict()
        if t >= BEGIN:
            total += ((np.vstack([mixed, panel.expected]) - y[t]) ** 2).mean(axis=1)
            seen += 1
        session.observe(y[t])
        before = y[t]
    x = np.vstack([np.zeros(width), y[:-1]])
    session.become(committee.init(seed))
    began = time.perf_counter()
    session.take(nbt.Pairs(x, y))
    each = (time.perf_counter() - began) / count * 1e6
    return dict(zip(["committee", *committee.experts], (total / seen).tolist(), strict=True)), each


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tables", nargs="+", type=Path)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--season", type=int, default=0)
    given = parser.parse_args()
    for path in given.tables:
        y = columns(path)
        runs = [errors(y, seed, given.season) for seed in range(given.seeds)]
        title = f"{path.name}: {np.median([each for _, each in runs]):.0f} us a row"
        table = Table("", "mean squared error", "worst seed", title=title)
        for name in runs[0][0]:
            found = [errors[name] for errors, _ in runs]
            table.add_row(name, f"{np.mean(found):.4f}", f"{max(found):.4f}")
        Console().print(table)


if __name__ == "__main__":
    main()
