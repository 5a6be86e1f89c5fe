"""What sentences about curves are judged by."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import ttest_ind_from_stats

from nobacktrack.experiments.paper.results import Curves, Outcome

ALIKE = 0.05  # bits: curves that differ by less are said to be alike
RELAPSE = 0.2  # bits: a loss that rises by more is said to be unstable
SETTLED = 10_000  # characters after which rises are counted: the last tenth is then long enough to mean something


class Mean(NamedTuple):
    """A mean over the seeds that came to the end, with its standard error; and how many did not."""

    value: float
    error: float
    seeds: int
    lost: int = 0

    def __str__(self) -> str:
        lost = f", {self.lost} not finite" if self.lost else ""
        return f"{self.value:.3f} ({self.error:.3f}{lost})" if self.seeds > 1 else f"{self.value:.3f}{lost}"

    def below(self, other: Mean) -> bool | None:
        """Whether it is less, by Welch's test at 5 %; None: it cannot be told. What diverges is above what does not."""
        if bool(self.lost) != bool(other.lost):
            return bool(other.lost)
        if self.lost or min(self.seeds, other.seeds) < 2:
            return None
        spreads = (mean.error * mean.seeds**0.5 for mean in (self, other))
        first, second = ((mean.value, spread, mean.seeds) for mean, spread in zip((self, other), spreads, strict=True))
        told = ttest_ind_from_stats(*first, *second, equal_var=False).pvalue < 0.05
        return self.value < other.value if told else None

    def near(self, other: Mean, tolerance: float = ALIKE) -> bool:
        return not self.lost and not other.lost and abs(self.value - other.value) <= tolerance

    @property
    def rank(self) -> float:
        """What it is ordered by: infinite where a seed diverged."""
        return self.value if self.seeds and not self.lost else float("inf")


def mean_of(values: np.ndarray) -> Mean:
    """Over seeds; NaN stands for one that diverged."""
    found = values[np.isfinite(values)]
    error = float(found.std(ddof=1) / len(found) ** 0.5) if len(found) > 1 else float("nan")
    return Mean(float(found.mean()) if len(found) else float("nan"), error, len(found), len(values) - len(found))


def last(curves: Curves) -> Mean:
    """Bits over the last tenth."""
    return mean_of(curves.recent[:, -1])


def relapse(outcome: Outcome) -> float:
    """The largest rise of the loss over the last tenth above an earlier level, of any seed; infinite if one is lost."""
    if outcome.diverged:
        return float("inf")
    recent = outcome.longest.recent[:, outcome.longest.marks >= SETTLED]
    return float((recent - np.minimum.accumulate(recent, axis=1)).max(initial=0.0))


def apart(one: Outcome, other: Outcome) -> float:
    """The largest difference of two mean curves over the last tenth, at the same characters."""
    inside = one.characters.marks >= SETTLED
    means = (outcome.characters.recent[:, inside].mean(axis=0) for outcome in (one, other))
    return float(np.max(np.abs(np.subtract(*means)), initial=0.0))
