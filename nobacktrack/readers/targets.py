"""The numbers that are predicted of each row: their scales, and how well they are predicted, beside the obvious."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import BadItem
from ..means import Means
from .features import Scale, expect_usable
from .tally import or_none

RIVALS = ("", "last_", "baseline_")  # ours, the last value, the mean so far


class NumberTargets:
    """One number, or several by name; NaN stands for one that is missing."""

    def __init__(self, names: tuple[str, ...] = ("target",)):
        self.names = names
        self.scales = [Scale() for _ in names]
        self.last: list[float | None] = [None] * len(names)
        self.count_anew()

    def count_anew(self) -> None:
        """Forget how well they were predicted."""
        self.squares = {rival: [Means() for _ in self.names] for rival in RIVALS}  # of errors
        self.inside = Means()  # whether a target was in its interval

    @property
    def single(self) -> bool:
        return len(self.names) == 1

    def check(self, y: Any) -> np.ndarray | None:
        """A target as a vector, None where nothing of it is here."""
        if y is None:
            return None
        if self.single and not isinstance(y, Mapping):
            y = {self.names[0]: y}
        if not isinstance(y, Mapping):
            raise BadItem(f"target: {', '.join(self.names)} by name, not {y!r}")
        found = np.array([self._number(name, y.get(name)) for name in self.names])
        return None if np.isnan(found).all() else found

    def _number(self, name: str, value: Any) -> float:
        which = "target" if self.single else f"target {name!r}"
        try:
            number = math.nan if value is None else float(value)
        except (TypeError, ValueError):
            raise BadItem(f"{which}: {value!r} is not a number; for labels: classification (--task)") from None
        except OverflowError:
            number = math.inf
        return number if math.isnan(number) else expect_usable(number, which)

    def within(self, y: np.ndarray) -> np.ndarray:
        """Deviations off the means."""
        return np.array([scale.within(value) for scale, value in zip(self.scales, y.tolist(), strict=True)])

    def out(self, y: np.ndarray) -> np.ndarray:
        """The numbers that lie so many deviations off the means."""
        return np.array([scale.out(value) for scale, value in zip(self.scales, y.tolist(), strict=True)])

    @property
    def means(self) -> np.ndarray:
        return np.array([scale.mean for scale in self.scales])

    def add(self, y: np.ndarray) -> None:
        """Take in a target."""
        for scale, value in zip(self.scales, y.tolist(), strict=True):
            if value == value:
                scale.add(value)

    def count(self, expected: np.ndarray, bounds: np.ndarray | None, known: np.ndarray | None, y: np.ndarray) -> None:
        """Count errors of what was expected, if anything was. `bounds` are the ends of intervals, `known` the last
        values that were known, if they are not those before y.
        """
        for j, (value, ours) in enumerate(zip(y.tolist(), expected.tolist(), strict=True)):
            if value != value:
                continue
            if self.scales[j].count and ours == ours:  # of the first number nothing is expected
                mean, last = self.scales[j].mean, self.last[j] if known is None else float(known[j])
                for rival, guess in zip(RIVALS, (ours, mean if last is None else last, mean), strict=True):
                    self.squares[rival][j].add_one((guess - value) ** 2)
                if bounds is not None and np.isfinite(bounds[:, j]).all():
                    self.inside.add_one(float(bounds[0, j] <= value <= bounds[1, j]))
            self.last[j] = value

    def named(self, values: np.ndarray) -> Any:
        """A number, or several by name; None for what is not expected."""
        found = {name: or_none(value) for name, value in zip(self.names, values.tolist(), strict=True)}
        return found[self.names[0]] if self.single else found

    def score(self) -> dict[str, float | None]:
        """Roots of mean squares of errors so far and of late: in the unit of the target, or, of several, over the
        deviation of each; and the share inside the intervals.
        """
        unit = "rmse" if self.single else "relative_rmse"
        found = {unit: self._root("", recent=False), f"recent_{unit}": self._root("", recent=True)}
        found |= {f"{rival}{unit}": self._root(rival, recent=False) for rival in RIVALS[1:]}
        return found | ({"coverage": self.inside.mean} if self.inside.targets else {})

    def _root(self, rival: str, *, recent: bool) -> float | None:
        squares = [mean.recent if recent else mean.mean for mean in self.squares[rival]]
        if not self.single:
            squares = [each / scale.deviation**2 for each, scale in zip(squares, self.scales, strict=True)]
        known = [each for each in squares if each == each]
        return math.sqrt(sum(known) / len(known)) if known else None

    def each(self) -> dict[str, dict[str, float | None]]:
        """Of several, the errors of each in its own unit."""
        return {
            name: {f"{rival}rmse": or_none(math.sqrt(self.squares[rival][j].mean)) for rival in RIVALS}
            for j, name in enumerate(self.names)
        }

    def record(self) -> dict[str, Any]:
        return {
            "names": self.names,
            "scales": [scale.record() for scale in self.scales],
            "last": self.last,
            "squares": {rival: [mean.record() for mean in means] for rival, means in self.squares.items()},
            "inside": self.inside.record(),
        }

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> NumberTargets:
        """Targets from their record."""
        targets = cls(tuple(record["names"]))
        targets.scales, targets.last = [Scale(*scale) for scale in record["scales"]], list(record["last"])
        targets.squares = {rival: [Means(**each) for each in means] for rival, means in record["squares"].items()}
        targets.inside = Means(**record["inside"])
        return targets
