"""Series one step ahead, each value predicted, then learned from: river's regressor of ours with its defaults, beside
the last value, the season before, and recursive least squares on the last ten values.

    python -m experiments.univariate --seeds 5
"""

from __future__ import annotations

import argparse
import datetime
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from statsmodels.datasets import co2, sunspots

from nobacktrack.adapters.river import RecurrentRegressor

FIRST = 50  # errors count from here on
SINES, HOURS = 5000, 20_000
MISSING = 0.02  # share of the hours without a target
LAGS, FORGETTING, RIDGE = 10, 0.999, 1e-6


class Series(NamedTuple):
    """Rows; their targets, None where one is missing; after how many rows a season comes again, 0 for no season;
    whether a seed made it.
    """

    rows: list[dict[str, Any]]
    targets: list[float | None]
    season: int = 0
    random: bool = False


# --- series ----------------------------------------------------------------------------------------------------------


def frame(dataset: Any) -> Any:
    """The data frame of a dataset that comes with statsmodels."""
    return dataset.load_pandas().data


def monthly_co2(seed: int) -> Series:
    """Carbon dioxide above Mauna Loa, monthly means of weekly values, some months without any."""
    months = frame(co2)["co2"].resample("MS").mean()
    return Series([{}] * len(months), [None if np.isnan(value) else value for value in months], season=12)


def yearly_sunspots(seed: int) -> Series:
    """Sunspots, 1700 to 2008."""
    counts = frame(sunspots)["SUNACTIVITY"].tolist()
    return Series([{}] * len(counts), counts)


def noisy_sines(seed: int) -> Series:
    """Two sines of periods that no season fits, and noise."""
    t, noise = np.arange(SINES), np.random.default_rng(seed).normal(scale=0.3, size=SINES)
    values = np.sin(2 * np.pi * t / 23.7) + 0.5 * np.sin(2 * np.pi * t / 7.3) + noise
    return Series([{}] * SINES, values.tolist(), random=True)


def hourly_power(seed: int) -> Series:
    """Hours of days and weeks, a trend, and noise that stays for a while; some hours are missing."""
    random = np.random.default_rng(seed)
    hours = [datetime.datetime(2020, 1, 1) + datetime.timedelta(hours=t) for t in range(HOURS)]
    daily = [-np.cos(2 * np.pi * (when.hour - 4) / 24) - 0.4 * np.cos(4 * np.pi * when.hour / 24) for when in hours]
    weekend = [when.weekday() >= 5 for when in hours]
    noise, last = np.zeros(HOURS), 0.0
    for t in range(HOURS):
        noise[t] = last = 0.9 * last + random.normal(scale=1.5)
    load = 100 + 20 * np.arange(HOURS) / HOURS + 15 * np.array(daily) * np.where(weekend, 0.6, 1) + noise
    load -= 12 * np.array(weekend)
    seen = random.random(HOURS) >= MISSING
    targets = [value if known else None for value, known in zip(load.tolist(), seen, strict=True)]
    return Series([calendar(when) for when in hours], targets, season=24, random=True)


def calendar(when: datetime.datetime) -> dict[str, Any]:
    """What a row says of its hour."""
    return {"time": when}


SERIES: dict[str, Callable[[int], Series]] = {
    "CO2, monthly": monthly_co2,
    "sunspots, yearly": yearly_sunspots,
    "noisy sines": noisy_sines,
    "power, hourly": hourly_power,
}


# --- what predicts them ----------------------------------------------------------------------------------------------


class Before:
    """The value so many rows ago, or what was expected of it, where it is missing."""

    def __init__(self, back: int):
        self.past: deque[float] = deque(maxlen=back)

    def predict_one(self, x: dict[str, Any]) -> float:
        full = len(self.past) == self.past.maxlen
        return self.past[0] if full else self.past[-1] if self.past else 0.0

    def learn_one(self, x: dict[str, Any], y: float | None) -> None:
        self.past.append(self.predict_one(x) if y is None else y)


class LeastSquares:
    """Least squares on the last values and a constant, exact at every step; before these are there, the last value."""

    def __init__(self) -> None:
        self.past: deque[float] = deque(maxlen=LAGS)
        self.weights, self.moments = np.zeros(LAGS + 1), np.zeros(LAGS + 1)
        self.information = RIDGE * np.eye(LAGS + 1)

    def predict_one(self, x: dict[str, Any]) -> float:
        if len(self.past) < LAGS:
            return self.past[-1] if self.past else 0.0
        return float(self.weights @ self._features())

    def learn_one(self, x: dict[str, Any], y: float | None) -> None:
        expected = self.predict_one(x)
        if y is not None and len(self.past) == LAGS:
            z = self._features()
            self.information = FORGETTING * self.information + np.outer(z, z)
            self.moments = FORGETTING * self.moments + y * z
            self.weights = np.linalg.solve(self.information, self.moments)
        self.past.append(expected if y is None else y)

    def _features(self) -> np.ndarray:
        return np.array([1.0, *self.past])


def models(series: Series, seed: int) -> Iterator[tuple[str, Any]]:
    """What is compared on a series."""
    yield "ours", RecurrentRegressor(seed=seed)
    yield "last value", Before(1)
    if series.season:
        yield "season before", Before(series.season)
    yield "least squares", LeastSquares()


# --- one after the other ---------------------------------------------------------------------------------------------


class Score(NamedTuple):
    """Root mean square errors, of all steps from the 50th on and of the second half; the median microseconds of
    `learn_one` in the second half.
    """

    error: float
    late_error: float
    time: float


def score(series: Series, model: Any) -> Score:
    """Each value predicted, then learned from."""
    squares, times = [], []
    for x, y in zip(series.rows, series.targets, strict=True):
        squares.append(np.nan if y is None else (model.predict_one(x) - y) ** 2)
        began = time.perf_counter()
        model.learn_one(x, y)
        times.append(time.perf_counter() - began)
    half = len(squares) // 2
    error, late_error = (float(np.sqrt(np.nanmean(part))) for part in (squares[FIRST:], squares[half:]))
    return Score(error, late_error, float(np.median(times[half:])) * 1e6)


def measured(make: Callable[[int], Series], seeds: int) -> dict[str, list[Score]]:
    """The scores of all that is compared on a series, for each seed."""
    found: dict[str, list[Score]] = {}
    for seed in range(seeds):
        series = make(seed)
        for name, model in models(series, seed):
            if seed == 0 or series.random or name == "ours":
                found.setdefault(name, []).append(score(series, model))
    return found


def shown(values: list[float]) -> str:
    """The mean, and its standard error if there are several values."""
    error = f" ({np.std(values, ddof=1) / len(values) ** 0.5:.2g})" if len(values) > 1 else ""
    return f"{np.mean(values):.4g}{error}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--series", default="", help="series whose name holds this")
    given = parser.parse_args()
    table = Table("series", "", "root mean square error", "of the second half", "us", title=f"{given.seeds} seeds")
    for name, make in SERIES.items():
        if given.series in name:
            for model, scores in measured(make, given.seeds).items():
                errors, late_errors, times = map(list, zip(*scores, strict=True))
                table.add_row(name, model, shown(errors), shown(late_errors), f"{np.median(times):.0f}")
            table.add_section()
    Console().print(table)


if __name__ == "__main__":
    main()
