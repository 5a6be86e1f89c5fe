"""Experts on numbers are mixed, for each output: as densities by their log-loss, as forecasts by squares of errors.

As forecasts they are pooled twice. Votes follow the last errors, of which one counts for little, however large it is:
quick, and not led astray by what is far out. Merits are mean squares of errors over many targets, however they came: an
expert that alone knows of a rare peak is found out by them, and one that is exact. The forecast is that of the votes,
as far as that of the merits has not been clearly better.
"""

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
VOTES, MERITS = range(2)  # places in `pools`
SHARPNESS = 50.0  # of the powers of mean squares
BETTER = 0.9  # of the mean square of votes: above that, merits are not heard
EXACT_TO = 1e-12  # of the usual square of a difference: no mean square is told from a smaller one
_CONSTANT = math.lgamma((FREEDOM + 1) / 2) - math.lgamma(FREEDOM / 2) - math.log(FREEDOM * math.pi) / 2


@exact
def mix(m: Any, f: Any, j: int) -> None:
    """What the experts expect of output j: by their votes, by their merits, and the forecast made of both. After an odd
    value votes alone know whom to trust.
    """
    odd = int(f.odd[j])
    f.pools[VOTES, j] = 0.0
    for i in range(m.votes.shape[1]):
        f.pools[VOTES, j] += math.exp(m.votes[odd, i, j]) * f.expected[i, j]
    f.pools[MERITS, j] = by_merits(m, f, j)
    trusted = 0.0 if odd else trust_in_merits(m, f, j)
    f.mixed[j] = f.pools[VOTES, j]
    if trusted > 0:
        f.mixed[j] += trusted * (f.pools[MERITS, j] - f.pools[VOTES, j])


@exact
def by_merits(m: Any, f: Any, j: int) -> Any:
    """A mean of what is expected of output j, weighed by powers of mean squares, (least / square_i)^(sharpness / 2):
    there is not much to tell by them after few targets.
    """
    floor, least, whole, total = EXACT_TO * f.size[j] ** 2 + LEAST, np.inf, 0.0, 0.0
    sharpness = min(m.settled[j], SHARPNESS) / m.issued_base.shape[0] / 2
    for i in range(m.errors.shape[0]):
        least = min(least, m.errors[i, j] + floor)
    for i in range(m.errors.shape[0]):
        weight = math.exp(sharpness * math.log(least / (m.errors[i, j] + floor)))
        whole += weight
        total += weight * f.expected[i, j]
    return total / whole


@exact
def trust_in_merits(m: Any, f: Any, j: int) -> Any:
    """1 - (square / square of votes / 0.9)^(sharpness / 2): nothing unless merits have been a tenth better."""
    floor = EXACT_TO * f.size[j] ** 2 + LEAST
    ratio = (m.pools[MERITS, j] + floor) / (m.pools[VOTES, j] + floor) / BETTER
    sharpness = min(m.settled[j], SHARPNESS) / m.issued_base.shape[0] / 2
    return 1.0 - math.exp(sharpness * math.log(ratio)) if ratio < 1 else 0.0


@exact
def begin_errors(m: Any, j: int) -> None:
    """Where strides turned out to be of another size than was known, so are errors: those so far count for little, and
    none for more than a stride.
    """
    if m.renewals[STRIDES, j] != m.strides[RENEWALS, j]:
        m.renewals[STRIDES, j], square = m.strides[RENEWALS, j], deviation_in(m.strides, j) ** 2
        m.settled[j] = 0
        for i in range(m.errors.shape[0]):
            m.errors[i, j], m.variances[i, j] = min(m.errors[i, j], square), min(m.variances[i, j], square)
        for i in range(m.pools.shape[0]):
            m.pools[i, j] = min(m.pools[i, j], square)


@exact
def share_out(m: Any, s: Any, f: Any, j: int, y: Any, learning: bool) -> Any:
    """Fixed share over Student densities, for one output: its loss. As long as nothing has moved there is no unit, and
    nothing is learned.
    """
    experts, peak = m.shares.shape[0], -np.inf
    usual = max(1 / (m.settled[j] + 2), 1 / MEMORY)
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
    handed, pace = 1 / (m.strided[j] + 3), max(EARLY / (m.settled[j] + EARLY), 1 / MEMORY)
    m.settled[j] += 1
    for i in range(experts):
        usual = min(usual, m.errors[i, j])
    usual = max(usual, LEAST_VARIANCE * f.size[j] ** 2 + LEAST)
    for i in range(experts):
        square = bounded(m.strides, j, y - f.expected[i, j]) ** 2
        if f.known[j] == KNOWN:
            m.votes[odd, i, j] -= VOTE / m.issued_base.shape[0] * min(square / usual / 2, MOST_LOSS)
        peak = max(peak, m.votes[odd, i, j])
        m.errors[i, j] += pace * (square - m.errors[i, j])
    for i in range(m.pools.shape[0]):
        m.pools[i, j] += pace * (bounded(m.strides, j, y - f.pools[i, j]) ** 2 - m.pools[i, j])
    for i in range(experts):
        whole += math.exp(m.votes[odd, i, j] - peak)
    for i in range(experts):
        m.votes[odd, i, j] = math.log((1 - handed) * math.exp(m.votes[odd, i, j] - peak) / whole + handed / experts)
