"""River's own streams, predicted row by row and then learned from: our models beside a linear one, a Hoeffding
tree, an echo state network and the last value.

    python -m experiments.river_streams --seeds 5

With `--streams made`, scikit-learn's data, shuffled, and 3,000 rows of each of river's generators.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from reservoirpy.nodes import RLS, Reservoir
from rich.console import Console
from rich.table import Table
from river import base, compose, datasets, linear_model, multiclass, preprocessing, tree
from river.datasets import synth
from sklearn import datasets as tables

from nobacktrack.adapters.river import RecurrentClassifier, RecurrentRegressor
from nobacktrack.readers.features import Classes, Features, Scale

MOST_ROWS, MADE_ROWS = 10_000, 3000


def shuffled(load: Callable[[], Any]) -> Callable[[], Any]:
    """A table of scikit-learn's, its rows in a random order."""

    def make() -> Any:
        table: Any = load()
        order = np.random.default_rng(0).permutation(len(table.data))
        return zip((dict(enumerate(row)) for row in table.data[order].tolist()), table.target[order].tolist())  # noqa: B905

    return make


def generated(kind: Any, **options: Any) -> Callable[[], Any]:
    """Some rows of a generator."""
    return lambda: kind(**options).take(MADE_ROWS)


MADE: dict[str, tuple[Callable[[], Any], str]] = {
    "diabetes": (shuffled(tables.load_diabetes), "regression"),
    "Friedman": (generated(synth.Friedman, seed=1), "regression"),
    "FriedmanDrift": (generated(synth.FriedmanDrift, seed=1, position=(1000, 1500, 2000)), "regression"),
    "Planes2D": (generated(synth.Planes2D, seed=1), "regression"),
    "Mv": (generated(synth.Mv, seed=1), "regression"),
    "breast cancer": (shuffled(tables.load_breast_cancer), "classification"),
    "wine": (shuffled(tables.load_wine), "classification"),
    "iris": (shuffled(tables.load_iris), "classification"),
    "digits": (shuffled(tables.load_digits), "classification"),
    "Agrawal": (generated(synth.Agrawal, seed=1), "classification"),
    "SEA": (generated(synth.SEA, seed=1, noise=0.1), "classification"),
    "Hyperplane": (generated(synth.Hyperplane, seed=1, n_features=10, noise_percentage=0.05), "classification"),
    "LED": (generated(synth.LED, seed=1, noise_percentage=0.1), "classification"),
    "Waveform": (generated(synth.Waveform, seed=1), "classification"),
    "RandomRBF": (generated(synth.RandomRBF, seed_model=1, seed_sample=1), "classification"),
}
STREAMS: dict[str, tuple[Callable[[], Any], str]] = {
    "TrumpApproval": (datasets.TrumpApproval, "regression"),
    "WaterFlow": (datasets.WaterFlow, "regression"),
    "AirlinePassengers": (datasets.AirlinePassengers, "regression"),
    "ChickWeights": (datasets.ChickWeights, "regression"),
    "SP500Stocks": (datasets.SP500Stocks, "regression"),
    "Phishing": (datasets.Phishing, "classification"),
    "Bananas": (datasets.Bananas, "classification"),
    "ImageSegments": (datasets.ImageSegments, "classification"),
    "Shuttle": (datasets.Shuttle, "classification"),
}


class EchoState:
    """A reservoir that is not trained, and a readout by recursive least squares, online (reservoirpy)."""

    def __init__(self, task: str, seed: int, units: int = 100):
        self.task, self.seed, self.units = task, seed, units
        self.features, self.scale, self.classes = Features(), Scale(), Classes()
        self.readout = RLS(alpha=1e-3, input_dim=units, output_dim=16)
        self.reservoir: Reservoir | None = None
        self.last: np.ndarray | None = None
        self.readout.initialize(np.zeros((1, units)), np.zeros((1, 16)))

    def predict_one(self, x: Any) -> Any:
        self.features.learn(x)
        if self.reservoir is None:
            self.inputs = max(32, self.features.capacity)
            made = {"lr": 0.5, "sr": 0.9, "input_scaling": 0.5, "seed": self.seed, "input_dim": self.inputs}
            self.reservoir = Reservoir(self.units, **made)
        self.last = self.reservoir.step(np.pad(self.features.vector(x), (0, self.inputs - self.features.capacity)))
        out = self.readout.step(self.last)
        if self.task == "regression":
            return self.scale.out(float(out[0]))
        labels = list(self.classes.places)
        return labels[int(np.argmax(out[: len(labels)]))] if labels else None

    def learn_one(self, x: Any, y: Any) -> None:
        assert self.last is not None
        target = np.zeros((1, 16))
        if self.task == "regression":
            self.scale.add(y)
            target[0, 0] = self.scale.within(y)
        else:
            target[0, self.classes.place(y)[0]] = 1
        self.readout.partial_fit(self.last[None], target)


class Last:
    """The last value, or the last label."""

    last: Any = 0.0

    def predict_one(self, x: Any) -> Any:
        return self.last

    def learn_one(self, x: Any, y: Any) -> None:
        self.last = y


def models(task: str) -> dict[str, Callable[[int], Any]]:
    """What is compared, by seed."""
    words = compose.SelectType(str) | preprocessing.OneHotEncoder()
    scaled = lambda model: (compose.SelectType(float, int) | preprocessing.StandardScaler()) + words | model  # noqa: E731
    if task == "regression":
        return {
            "recurrent (ours)": lambda seed: RecurrentRegressor(seed=seed),
            "linear": lambda seed: scaled(linear_model.LinearRegression()),
            "Hoeffding tree": lambda seed: scaled(tree.HoeffdingTreeRegressor()),
            "echo state": lambda seed: EchoState(task, seed),
            "last value": lambda seed: Last(),
        }
    logistic = multiclass.OneVsRestClassifier(linear_model.LogisticRegression())
    return {
        "recurrent (ours)": lambda seed: RecurrentClassifier(seed=seed),
        "linear": lambda seed: scaled(logistic.clone()),
        "Hoeffding tree": lambda seed: scaled(tree.HoeffdingTreeClassifier()),
        "echo state": lambda seed: EchoState(task, seed),
        "last value": lambda seed: Last(),
    }


def rows(name: str) -> Iterator[tuple[base.typing.FeatureName, Any]]:
    """Rows of a stream for all models alike: dates left out, and the target of the row before as a feature, where
    there is time in it.
    """
    last: Any = None
    for x, y in itertools.islice((STREAMS | MADE)[name][0](), MOST_ROWS):
        row = {key: value for key, value in x.items() if not isinstance(value, datetime.datetime)}
        if name in ("WaterFlow", "AirlinePassengers"):
            row["last"] = 0.0 if last is None else last
        last = y
        yield row, y  # type: ignore[misc]


def score(name: str, make: Callable[[int], Any], seed: int) -> tuple[float, float]:
    """Mean absolute error, or share of right labels, of predictions before learning; microseconds of `learn_one` once
    it is warm.
    """
    task, model = (STREAMS | MADE)[name][1], make(seed)
    total, count, spent, timed = 0.0, 0, 0.0, 0
    data = list(rows(name))
    for i, (x, y) in enumerate(data):
        guess = model.predict_one(x)
        total += abs(guess - y) if task == "regression" else guess == y
        count += 1
        start = time.perf_counter()
        model.learn_one(x, y)
        if i >= len(data) // 2:
            spent, timed = spent + time.perf_counter() - start, timed + 1
    return total / count, spent / timed * 1e6


def table(seeds: int, only: list[str]) -> Table:
    """All models on all streams."""
    names = ["recurrent (ours)", "linear", "Hoeffding tree", "echo state", "last value"]
    shown = Table("stream", "rows", "measure", *names, title=f"{seeds} seeds, mean (s.e.); us of learn_one below")
    for name in only:
        task = (STREAMS | MADE)[name][1]
        cells, times = [], []
        for make in models(task).values():
            found = np.array([score(name, make, seed) for seed in range(seeds)])
            error = found[:, 0].std(ddof=1) / seeds**0.5 if seeds > 1 else 0.0
            cells.append(f"{found[:, 0].mean():.3f} ({error:.3f})" if error else f"{found[:, 0].mean():.3f}")
            times.append(f"{np.median(found[:, 1]):.0f}")
        measure = "mean absolute error" if task == "regression" else "share right"
        shown.add_row(name, f"{sum(1 for _ in rows(name)):,}", measure, *cells)
        shown.add_row("", "", "us", *times)
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--streams", default=",".join(STREAMS))
    chosen = parser.parse_args()
    names = list(MADE) if chosen.streams == "made" else chosen.streams.split(",")
    Console(width=140).print(table(chosen.seeds, names))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
