"""Experts on numbers are mixed, for each output: as densities by their log-loss, as forecasts by squares of errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..compiled import exact
from .past import KNOWN, NO_BASE, STRIDES
from .spreads import RENEWALS, SQUARES, bounded, deviation_in

FREEDOM = 4.0  # of the Student densities
VOTE, MOST_LOSS = 0.3, 8.0  # how fast votes follow squares of errors, and how much one of these may count
MEMORY = 1000.0  # targets in a running variance
EARLY = 4.0  # the first mean squares of errors weigh error i of n by (i/n)^3: all experts begin badly
LEAST_VARIANCE, LEAST = 1e-3, 1e-200  # of the usual square of a difference, and at all
_CONSTANT = math.lgamma((FREEDOM + 1) / 2) - math.lgamma(FREEDOM / 2) - math.log(FREEDOM * math.pi) / 2


@exact
def mixture(m: Any, f: Any, j: int) -> Any:
    """What the experts expect of output j, weighed by their votes."""
    total, odd = 0.0, int(f.odd[j])
    for i in range(m.votes.shape[1]):
        total += math.exp(m.votes[odd, i, j]) * f.expected[i, j]
    return total


@exact
def expect_less(m: Any, j: int) -> None:
    """Where strides turned out to be smaller than was known, so do errors: none counts for more than a stride."""
    if m.renewals[STRIDES, j] != m.strides[RENEWALS, j]:
        m.renewals[STRIDES, j], square = m.strides[RENEWALS, j], deviation_in(m.strides, j) ** 2
        for i in range(m.errors.shape[0]):
            m.errors[i, j], m.variances[i, j] = min(m.errors[i, j], square), min(m.variances[i, j], square)


@exact
def share_out(m: Any, s: Any, f: Any, j: int, y: Any, learning: bool) -> Any:
    """Fixed share over Student densities, for one output: its loss. As long as nothing has moved there is no unit, and
    nothing is learned.
    """
    experts, peak = m.shares.shape[0], -np.inf
    usual = max(1 / (m.strided[j] + 2), 1 / MEMORY)
    handed, whole, first = 1 / (m.strided[j] + 3), 0.0, m.strides[SQUARES, j] == 0
    moves = f.known[j] != NO_BASE and (not first or y != f.base[j])
    for i in range(experts):
        off, variance, pace = y - f.expected[i, j], m.variances[i, j], usual
        ratio = off * off / variance
        s.pz[i] = math.log(variance) / 2 + (FREEDOM + 1) / 2 * math.log1p(ratio / FREEDOM) - _CONSTANT
        s.cost[i] += s.pz[i]
        peak = max(peak, m.shares[i, j] - s.pz[i])
        if learning and moves:
            heard, least = (FREEDOM + 1) * off * off / (FREEDOM + ratio), LEAST_VARIANCE * f.size[j] ** 2 + LEAST
            if first:  # there is no unit yet
                variance, pace, heard, least = off * off, 1.0, off * off + 1e-3 * (y - f.base[j]) ** 2, LEAST
            m.variances[i, j] = max(variance + pace * (heard - variance), least)
    for i in range(experts):
        whole += math.exp(m.shares[i, j] - s.pz[i] - peak)
    if learning and not first:
        for i in range(experts):
            kept = math.exp(m.shares[i, j] - s.pz[i] - peak) / whole
            m.shares[i, j] = math.log((1 - handed) * kept + handed / experts)
    return -(peak + math.log(whole))


@exact
def vote(m: Any, f: Any, j: int, y: Any) -> None:
    """Fixed share over squares of errors, for one output, in units of the best running mean of them. Errors of
    forecasts of `ahead` targets are of `ahead` rows each, and say the less. Whom to trust after an odd value is learned
    apart: whether it lasts or not.
    """
    experts, odd, usual, peak, whole = m.votes.shape[1], int(f.odd[j]), np.inf, -np.inf, 0.0
    handed = 1 / (m.strided[j] + 3)
    for i in range(experts):
        usual = min(usual, m.errors[i, j])
    usual = max(usual, LEAST_VARIANCE * f.size[j] ** 2 + LEAST)
    for i in range(experts):
        square = bounded(m.strides, j, y - f.expected[i, j]) ** 2
        if f.known[j] == KNOWN:
            m.votes[odd, i, j] -= VOTE / m.issued_base.shape[0] * min(square / usual / 2, MOST_LOSS)
        peak = max(peak, m.votes[odd, i, j])
        m.errors[i, j] += max(EARLY / (m.strided[j] + EARLY), 1 / MEMORY) * (square - m.errors[i, j])
    for i in range(experts):
        whole += math.exp(m.votes[odd, i, j] - peak)
    for i in range(experts):
        m.votes[odd, i, j] = math.log((1 - handed) * math.exp(m.votes[odd, i, j] - peak) / whole + handed / experts)
