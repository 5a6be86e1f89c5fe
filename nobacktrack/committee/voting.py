"""Experts on numbers are mixed, for each output: as densities by their log-loss, as forecasts by squares of errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..compiled import exact

FARTHEST = 10.0  # deviations: what lies beyond counts as that far
SETTLED = 10  # how many it takes to know what is far
FREEDOM = 4.0  # of the Student densities
VOTE, MOST_LOSS = 0.3, 8.0  # how fast votes follow squares of errors, and how much one of these may count
MEMORY = 1000.0  # targets in a running variance
LEAST_VARIANCE, LEAST = 1e-3, 1e-200  # of the usual square of a difference, and at all
_CONSTANT = math.lgamma((FREEDOM + 1) / 2) - math.lgamma(FREEDOM / 2) - math.log(FREEDOM * math.pi) / 2
TARGETS, INPUTS, RING, SEASON = range(4)


@exact
def deviation(squares: Any, count: Any) -> Any:
    """Root of a mean square; 1 as long as nothing has varied."""
    return math.sqrt(squares / count) if squares > 0 and count > 0 else 1.0


@exact
def bounded(off: Any, squares: Any, count: Any) -> Any:
    """A distance as it counts in a mean: one that is far out counts as that far, once it is known what is far."""
    if count > SETTLED and squares > 0:
        most = FARTHEST * deviation(squares, count)
        return min(max(off, -most), most)
    return off


@exact
def clipped(x: Any) -> Any:
    return min(max(x, -FARTHEST), FARTHEST)


@exact
def scale_of(m: Any, j: int) -> Any:
    """The usual size of a difference of output j."""
    return deviation(m.steps[j], m.counts[TARGETS] - 1)


@exact
def mixture(m: Any, s: Any, y_hat: Any) -> None:
    """What the experts expect, weighed by their votes."""
    for j in range(y_hat.size):
        y_hat[j] = 0.0
        for i in range(m.votes.shape[0]):
            y_hat[j] += math.exp(m.votes[i, j]) * s.expected[i, j]


@exact
def share_out(m: Any, s: Any, j: int, y: Any, learning: bool) -> Any:
    """Fixed share over Student densities, for one output: its loss."""
    experts, peak = m.shares.shape[0], -np.inf
    usual = max(1 / (m.counts[TARGETS] + 1), 1 / MEMORY)
    handed, whole = 1 / (m.counts[TARGETS] + 2), 0.0
    for i in range(experts):
        off, variance, pace = y - s.expected[i, j], m.variances[i, j], usual
        ratio = off * off / variance
        s.pz[i] = math.log(variance) / 2 + (FREEDOM + 1) / 2 * math.log1p(ratio / FREEDOM) - _CONSTANT
        s.cost[i] += s.pz[i]
        peak = max(peak, m.shares[i, j] - s.pz[i])
        if learning and m.counts[TARGETS] > 0:
            heard, least = (FREEDOM + 1) * off * off / (FREEDOM + ratio), LEAST_VARIANCE * scale_of(m, j) ** 2 + LEAST
            if m.counts[TARGETS] == 1:  # the first that could be expected
                variance, pace, heard = off * off, 1.0, off * off + 1e-3 * (y - m.last[j]) ** 2
            m.variances[i, j] = max(variance + pace * (heard - variance), least)
    for i in range(experts):
        whole += math.exp(m.shares[i, j] - s.pz[i] - peak)
    if learning and m.counts[TARGETS] > 1:
        for i in range(experts):
            kept = math.exp(m.shares[i, j] - s.pz[i] - peak) / whole
            m.shares[i, j] = math.log((1 - handed) * kept + handed / experts)
    return -(peak + math.log(whole))


@exact
def vote(m: Any, s: Any, j: int, y: Any) -> None:
    """Fixed share over squares of errors, for one output, in units of the best running mean of them."""
    experts, usual, peak, whole = m.votes.shape[0], np.inf, -np.inf, 0.0
    handed = 1 / (m.counts[TARGETS] + 2)
    for i in range(experts):
        usual = min(usual, m.errors[i, j])
    usual = max(usual, LEAST_VARIANCE * scale_of(m, j) ** 2 + LEAST)
    for i in range(experts):
        square = bounded(y - s.expected[i, j], m.steps[j], m.counts[TARGETS] - 1) ** 2
        if m.counts[TARGETS] > 1:
            m.votes[i, j] -= VOTE * min(square / usual / 2, MOST_LOSS)
        peak = max(peak, m.votes[i, j])
        m.errors[i, j] += max(1 / m.counts[TARGETS], 1 / MEMORY) * (square - m.errors[i, j])
    for i in range(experts):
        whole += math.exp(m.votes[i, j] - peak)
    for i in range(experts):
        m.votes[i, j] = math.log((1 - handed) * math.exp(m.votes[i, j] - peak) / whole + handed / experts)
