"""What a panel on numbers holds of a stream: means and scales, the last rows, and the forecasts that were issued.

A forecast is issued after each input, for the target `ahead` - 1 targets after the next one, and is due when that has
come: what it was made of is held until then, so that nothing is learned before its time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..compiled import exact
from .spreads import COUNT, MEAN, RENEWALS, add_around_mean, add_around_zero, clipped, deviation_in

INPUTS, RING, AGE, GAP = range(4)  # inputs; place in the ring; inputs since an episode began, and since a target came
STRIDES, LEVELS = range(2)  # places in `renewals`
NO_BASE, NO_SIZE, KNOWN = 0.0, 1.0, 2.0  # whether a forecast has a last value to start from, and a unit


class Numbers(NamedTuple):
    """What is known, in the order in which a checkpoint keeps it: of the stream, of forecasts that were issued, and
    what was learned. There are spreads of targets, of steps from one to the next, of strides from the last one at hand
    to the one that is predicted, and of inputs.
    """

    counts: np.ndarray
    targets: np.ndarray  # how many, of each output
    last: np.ndarray
    levels: np.ndarray
    steps: np.ndarray
    strides: np.ndarray
    strided: np.ndarray  # how many
    x: np.ndarray
    inputs: np.ndarray
    rows: np.ndarray  # the last inputs, as they came, in a ring
    first_x: np.ndarray  # values
    first_y: np.ndarray
    differences: np.ndarray
    gaps: np.ndarray  # rows since the last value of each output
    season: np.ndarray
    issued_x: np.ndarray
    issued_base: np.ndarray
    issued_size: np.ndarray
    issued_known: np.ndarray
    issued_odd: np.ndarray
    issued_near: np.ndarray
    issued_far: np.ndarray
    issued_pairs: np.ndarray
    issued_cross: np.ndarray
    issued_row: np.ndarray
    issued_lags: np.ndarray
    issued_clean: np.ndarray
    issued_stack: np.ndarray
    issued_expected: np.ndarray
    issued_pools: np.ndarray
    issued_mixed: np.ndarray
    issued_bounds: np.ndarray
    extent: np.ndarray  # of each output, how far off the mean it was
    cleaned: np.ndarray  # how many values, odd ones in a row, and the last ones without those that were odd
    near_p: np.ndarray  # inverse covariances and weights of least squares
    near_w: np.ndarray
    far_p: np.ndarray
    far_w: np.ndarray
    pairs_p: np.ndarray
    pairs_w: np.ndarray
    cross_p: np.ndarray
    cross_w: np.ndarray
    stack_p: np.ndarray
    stack_w: np.ndarray
    row_p: np.ndarray  # the same of `robust.py`, with the unit in which each feature began
    row_w: np.ndarray
    row_units: np.ndarray
    lags_p: np.ndarray
    lags_w: np.ndarray
    lags_units: np.ndarray
    clean_p: np.ndarray
    clean_w: np.ndarray
    clean_units: np.ndarray
    noise: np.ndarray  # mean squares of their errors
    renewals: np.ndarray  # how often strides and levels began anew, as far as what is learned knows
    farthest: np.ndarray  # deviations of each input in rows that fitted
    shares: np.ndarray  # log-weights and variances of the experts as densities
    variances: np.ndarray
    votes: np.ndarray  # log-weights as forecasts, and those after an odd value; mean squares of errors
    errors: np.ndarray
    pools: np.ndarray  # mean squares of errors of the two ways to weigh the experts
    settled: np.ndarray  # how many targets in means of errors
    left_out: np.ndarray  # the share of targets that intervals leave out on purpose
    coverage: np.ndarray  # how many targets had an interval, and how many were in it


class Forecast(NamedTuple):
    """A forecast that was issued: input, last value, unit, whether these are known, and odd; features of least squares;
    what each expert expects, and what both pools of them do; the mixture and its interval.
    """

    x: Any
    base: Any
    size: Any
    known: Any
    odd: Any
    near: Any
    far: Any
    pairs: Any
    cross: Any
    row: Any
    lags: Any
    clean: Any
    stack: Any
    expected: Any
    pools: Any
    mixed: Any
    bounds: Any


@exact
def forecast_at(m: Any, back: int) -> Any:
    """The forecast that was issued so many inputs ago."""
    slot = (int(m.counts[INPUTS]) - back) % m.issued_base.shape[0]
    return Forecast(
        m.issued_x[slot],
        m.issued_base[slot],
        m.issued_size[slot],
        m.issued_known[slot],
        m.issued_odd[slot],
        m.issued_near[slot],
        m.issued_far[slot],
        m.issued_pairs[slot],
        m.issued_cross[slot],
        m.issued_row[slot],
        m.issued_lags[slot],
        m.issued_clean[slot],
        m.issued_stack[slot],
        m.issued_expected[slot],
        m.issued_pools[slot],
        m.issued_mixed[slot],
        m.issued_bounds[slot],
    )


@exact
def forecast_due(m: Any) -> Any:
    """The forecast of the next target."""
    return forecast_at(m, m.issued_base.shape[0] - 1)


@exact
def is_due(m: Any) -> bool:
    """Whether the next target was foreseen."""
    return m.counts[AGE] >= m.issued_base.shape[0] - 1


@exact
def take_input(m: Any, x: Any) -> None:
    """Count an input, and hold it, in deviations off its mean. A row whose target never came has its place among the
    last ones, so that what lies a season back stays there.
    """
    if 0 < m.counts[GAP] <= m.differences.shape[0]:
        for j in range(m.last.size):
            hold_nothing(m, j)
        m.counts[RING] = (m.counts[RING] + 1) % m.differences.shape[0]
    for which in (INPUTS, AGE, GAP):
        m.counts[which] += 1
    newest = int(m.counts[INPUTS]) % m.rows.shape[0]
    for i in range(m.x.size):
        m.rows[newest, i] = x[i]
        if m.inputs[COUNT, i] == 0:
            m.first_x[i] = x[i]
        add_around_mean(m.inputs, i, x[i])
        m.x[i] = clipped((x[i] - m.inputs[MEAN, i]) / deviation_in(m.inputs, i))


@exact
def hold_start(m: Any) -> None:
    """Hold where a forecast starts from until it is due."""
    f = forecast_at(m, 0)
    for i in range(m.x.size):
        f.x[i] = m.x[i]
    for j in range(m.last.size):
        f.base[j], f.size[j] = m.last[j], deviation_in(m.strides, j)
        f.known[j] = NO_BASE if m.targets[j] == 0 else KNOWN if m.strided[j] > 0 else NO_SIZE


@exact
def stride(f: Any, j: int, y: Any) -> Any:
    """From the last value that a forecast knew to its target, in the usual size; without a last value there is none,
    and of the first only the sign is known.
    """
    if f.known[j] == KNOWN:
        return clipped((y - f.base[j]) / f.size[j])
    return 0.0 if f.known[j] == NO_BASE or y == f.base[j] else 1.0 if y > f.base[j] else -1.0


@exact
def step(m: Any, j: int, y: Any) -> Any:
    """The same from the target before."""
    if m.targets[j] < 2:
        return 0.0 if m.targets[j] == 0 or y == m.last[j] else 1.0 if y > m.last[j] else -1.0
    return clipped((y - m.last[j]) / deviation_in(m.steps, j))


@exact
def hold_step(m: Any, j: int, size: Any) -> None:
    """A step to a value that has come; after a gap it is the sum of equal ones, to each of the values that did not."""
    rows = m.differences.shape[0]
    gap = min(int(m.gaps[j]), rows - 1)
    for back in range(gap + 1):
        m.differences[(int(m.counts[RING]) - back) % rows, j] = size / (m.gaps[j] + 1)
    m.gaps[j] = 0


@exact
def hold_nothing(m: Any, j: int) -> None:
    """A value that did not come: none was left behind, as long as nothing else is known."""
    m.differences[int(m.counts[RING]), j] = 0.0
    m.gaps[j] += 1


@exact
def take_target(m: Any, y: Any, learning: bool) -> None:
    """The last target from now on is this one, and counts if anything is learned; NaN is what is missing."""
    for j in range(y.size):
        if not np.isfinite(y[j]):
            hold_nothing(m, j)
            continue
        size, renewals = step(m, j, y[j]), m.steps[RENEWALS, j]
        if m.season.shape[0]:
            m.season[int(m.counts[INPUTS]) % m.season.shape[0], j] = y[j]
        if learning:
            count_target(m, j, y[j])
        if m.steps[RENEWALS, j] != renewals:  # the steps that are held are of another unit
            size = step(m, j, y[j])
            for slot in range(m.differences.shape[0]):
                m.differences[slot, j] = 0.0
        hold_step(m, j, size)
        m.last[j] = y[j]
    m.counts[RING] = (m.counts[RING] + 1) % m.differences.shape[0]
    m.counts[GAP] = 0


@exact
def count_target(m: Any, j: int, y: Any) -> None:
    """Means and sums of squares of targets, of steps and of strides."""
    f = forecast_due(m)
    if is_due(m) and f.known[j] != NO_BASE:
        m.strided[j] += 1
        add_around_zero(m.strides, j, y - f.base[j], m.issued_base.shape[0])
    m.targets[j] += 1
    if m.targets[j] > 1:
        add_around_zero(m.steps, j, (y - m.last[j]) / (m.gaps[j] + 1), 1)
    add_around_mean(m.levels, j, y)


@exact
def level(m: Any, j: int) -> Any:
    """The last value, in deviations off the mean."""
    return clipped((m.last[j] - m.levels[MEAN, j]) / deviation_in(m.levels, j))


@exact
def late(m: Any, back: int, j: int) -> Any:
    """The step so many rows ago."""
    return m.differences[(int(m.counts[RING]) - back) % m.differences.shape[0], j]


@exact
def season_before(m: Any, j: int) -> Any:
    """The last value a whole number of seasons before the target of a forecast that is issued now; the last value at
    hand where there is none.
    """
    rows, ahead = m.season.shape[0], m.issued_base.shape[0]
    before = m.season[(int(m.counts[INPUTS]) + ahead - 1) % rows, j]
    return before if np.isfinite(before) else m.last[j]
