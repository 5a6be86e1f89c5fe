"""Intervals that hold a given share of the targets: quantiles of the mixture of densities, at a level learned online
[Gibbs and Candes 2021].
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..compiled import exact
from .past import KNOWN

PACE = 0.005  # how fast the level follows what is missed
LEAST_LEVEL = 1e-4
WIDEST = 40.0  # deviations of an expert: beyond the quantiles that are asked for
HALVINGS = 48
NO_SHARE = 1e-9  # a weight that moves no quantile


@exact
def student_below(t: Any) -> Any:
    """The distribution function of Student's t with 4 degrees of freedom: 1/2 + (3/8) u (1 - u^2 / 12), with
    u = t / sqrt(1 + t^2 / 4).
    """
    u = t / math.sqrt(1 + t * t / 4)
    return 0.5 + 0.375 * u * (1 - u * u / 12)


@exact
def below(m: Any, f: Any, j: int, y: Any) -> Any:
    """The probability that the mixture gives to values below y."""
    total = 0.0
    for i in range(m.shares.shape[0]):
        share = math.exp(m.shares[i, j])
        if share > NO_SHARE:
            total += share * student_below((y - f.expected[i, j]) / math.sqrt(m.variances[i, j]))
    return total


@exact
def quantile(m: Any, f: Any, j: int, p: Any) -> Any:
    """Where the mixture has p below, by halving."""
    low, high = np.inf, -np.inf
    for i in range(m.shares.shape[0]):
        reach = WIDEST * math.sqrt(m.variances[i, j])
        low, high = min(low, f.expected[i, j] - reach), max(high, f.expected[i, j] + reach)
    for _ in range(HALVINGS):
        middle = low + (high - low) / 2
        if below(m, f, j, middle) < p:
            low = middle
        else:
            high = middle
    return low + (high - low) / 2


@exact
def set_bounds(m: Any, f: Any, j: int, share: Any) -> None:
    """The interval for output j: half of what it leaves out on each side; all numbers as long as no unit is known."""
    f.bounds[0, j], f.bounds[1, j] = -np.inf, np.inf
    if share > 0 and f.known[j] == KNOWN:
        f.bounds[0, j] = quantile(m, f, j, m.left_out[j] / 2)
        f.bounds[1, j] = quantile(m, f, j, 1 - m.left_out[j] / 2)


@exact
def learn_level(m: Any, f: Any, j: int, y: Any, share: Any, learning: bool) -> None:
    """level <- level + pace ((1 - share) - 1{missed}): in the long run the share of targets inside is `share`."""
    if share > 0 and f.known[j] == KNOWN:
        missed = y < f.bounds[0, j] or y > f.bounds[1, j]
        m.coverage[0, j] += 1
        m.coverage[1, j] += 0 if missed else 1
        if learning:
            level = m.left_out[j] + PACE * ((1 - share) - (1.0 if missed else 0.0))
            m.left_out[j] = min(max(level, LEAST_LEVEL), 1 - LEAST_LEVEL)
