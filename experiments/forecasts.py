"""All columns of a table some rows ahead: a committee beside each of its experts, mean squared error, and intervals.

    python -m experiments.forecasts ETTh1.csv ETTh2.csv --seeds 3
    python -m experiments.forecasts ETTh1.csv ETTh2.csv --seeds 3 --ahead 6 12 24

The protocol of the FSNet code: columns standardised by the first 2,880 rows, errors over rows 3,600 to 14,400, each row
predicted, then learned from. The forecast of a row is made when the row so many before it has come, and is learned from
when the row itself has; the last row is the last that was known then, the last day that row known then, the newest,
which comes whole days of 24 rows before the one that is predicted.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

import nobacktrack as nbt
from nobacktrack.committee.numbers import NumberPanel
from nobacktrack.committee.session import CommitteeSession

SCALING, BEGIN, END = 2880, 3600, 14_400
DAY = 24


class Run(NamedTuple):
    """Mean squared errors by name; of the intervals the share of numbers that they held, and the mean width; and
    microseconds a row, by chunks.
    """

    errors: dict[str, float]
    coverage: float
    width: float
    each: float


def columns(path: Path) -> np.ndarray:
    """All columns but the date, standardised by the first rows."""
    raw = np.genfromtxt(path, delimiter=",", skip_header=1)[:END, 1:]
    return (raw - raw[:SCALING].mean(axis=0)) / raw[:SCALING].std(axis=0)


def committee_on(width: int, company: nbt.Forecasts) -> nbt.Committee:
    """What `nobacktrack train` takes for rows."""
    network = nbt.Learner(nbt.LSTM(units=32, inputs=width, outputs=width), nbt.BlockNoBackTrack(), nbt.Kalman())
    return nbt.Committee((network,), company)


def run(y: np.ndarray, seed: int, company: nbt.Forecasts) -> Run:
    """One pass over a table, row by row, and another by chunks, for the time."""
    count, width = y.shape
    committee = committee_on(width, company)
    session = CommitteeSession(committee, committee.init(seed), "auto")
    names = ["committee", "the last row", "the last day", *committee.experts]
    total, inside, wide, seen = np.zeros(len(names)), 0.0, 0.0, 0
    day = DAY * -(-company.ahead // DAY)
    for t in range(count):
        session.advance(y[t - 1] if t else np.zeros(width))
        if t >= BEGIN:
            panel: NumberPanel = session.panel
            outlook = session.outlook()
            guesses = np.vstack([outlook.expected[0], outlook.last[0], y[t - day], panel.expected])
            total += ((guesses - y[t]) ** 2).mean(axis=1)
            low, high = outlook.bounds[0]
            inside += ((low <= y[t]) & (y[t] <= high)).mean()
            wide += (high - low).mean()
            seen += 1
        session.observe(y[t])
    errors = dict(zip(names, (total / seen).tolist(), strict=True))
    return Run(errors, inside / seen, wide / seen, microseconds(committee, y, seed))


def microseconds(committee: nbt.Committee, y: np.ndarray, seed: int) -> float:
    """What a row takes by chunks, once all is compiled."""
    session = CommitteeSession(committee, committee.init(seed), "auto")
    x = np.vstack([np.zeros(y.shape[1]), y[:-1]])
    session.take(nbt.Pairs(x[:DAY], y[:DAY]))
    session.become(committee.init(seed))
    began = time.perf_counter()
    session.take(nbt.Pairs(x, y))
    return (time.perf_counter() - began) / len(y) * 1e6


def table(name: str, runs: list[Run], company: nbt.Forecasts) -> Table:
    """The errors, and below them what intervals held."""
    times = f"{np.median([found.each for found in runs]):.0f} us a row"
    shown = Table("", "mean", "worst seed", title=f"{name}, {company.ahead} ahead, {len(runs)} seeds: {times}")
    for key in runs[0].errors:
        found = [each.errors[key] for each in runs]
        shown.add_row(key, f"{np.mean(found):.4f}", f"{max(found):.4f}", end_section=key == "the last day")
    if company.interval:
        shown.add_section()
        held, wide = [each.coverage for each in runs], [each.width for each in runs]
        shown.add_row(f"in intervals for {company.interval:g}", f"{np.mean(held):.4f}", f"{min(held):.4f}")
        shown.add_row("their width", f"{np.mean(wide):.3f}", f"{max(wide):.3f}")
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="+", type=Path)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--season", type=int, default=0)
    parser.add_argument("--ahead", type=int, nargs="+", default=[1], help="how many rows")
    parser.add_argument("--interval", type=float, default=0.9, help="the share that intervals are to hold; 0 for none")
    given = parser.parse_args()
    for path in given.tables:
        y = columns(path)
        for ahead in given.ahead:
            company = nbt.Forecasts(season=given.season, ahead=ahead, interval=given.interval)
            runs = [run(y, seed, company) for seed in range(given.seeds)]
            Console().print(table(path.name, runs, company))


if __name__ == "__main__":
    main()
