"""Least squares of targets as they are, on rows as they are: numbers may be of any size, and errors too; compiled.

Those of `forecasting.py` go from the last value, in deviations that are clipped. These do neither. A number counts as
it is unless it lies a hundred times farther out than any that fitted before, and a target weighs the less the farther
it is from what was expected, as if errors were Student's: one odd row moves little, however far out it is. P begins for
each feature in its own unit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compiled import exact
from .past import LEVELS
from .spreads import MEAN, RENEWALS, SETTLED, deviation_in
from .squares import product

FORGET = 0.9999
WIDE = 1e4  # P of a feature at the start, in its unit
FREEDOM = 4.0  # of the errors
MEMORY = 200.0  # targets in the mean square of the errors
FITS = 0.5  # the least weight of a row that fits
MOST_INPUT, MOST_OUTPUT = 100.0, 3.0  # times what was farthest out before
ODD = 8.0  # usual errors from what was expected: a value that is cleaned away
ROW, LAGS, CLEAN = range(3)  # places in `noise`
CLEAN_ROWS = 10
STEADFAST = 3  # odd values in a row are no longer odd


@exact
def as_far_as_known(m: Any, i: int, x: Any) -> Any:
    """Input i off its first value."""
    mean = m.inputs[MEAN, i]
    most = MOST_INPUT * max(1.0, m.farthest[i]) * deviation_in(m.inputs, i)
    return mean + min(max(x - mean, -most), most) - m.first_x[i]


@exact
def set_row(m: Any, z: Any) -> None:
    """1, and the row."""
    z[0], newest = 1.0, int(m.counts[0]) % m.rows.shape[0]
    for i in range(z.size - 1):
        z[1 + i] = as_far_as_known(m, i, m.rows[newest, i])


@exact
def set_lags(m: Any, z: Any, rows: int, age: Any) -> None:
    """1, and the last rows of each input; 0 for what was before the first row."""
    z[0] = 1.0
    for i in range((z.size - 1) // rows):
        for back in range(rows):
            slot = (int(m.counts[0]) - back) % m.rows.shape[0]
            z[1 + i * rows + back] = as_far_as_known(m, i, m.rows[slot, i]) if back < age else 0.0


@exact
def set_clean(m: Any, j: int, z: Any) -> None:
    """1, and the last values of output j, without those that were odd."""
    z[0] = 1.0
    for back in range(z.size - 1):
        slot = (int(m.cleaned[0, j]) - back) % CLEAN_ROWS
        z[1 + back] = m.cleaned[2 + slot, j] if back < m.cleaned[0, j] else 0.0


@exact
def expect_level(m: Any, j: int, w: Any, z: Any) -> Any:
    """What is expected of output j, at most three times as far out as any target was."""
    mean = m.levels[MEAN, j]
    off, most = m.first_y[j] + product(w, z) - mean, MOST_OUTPUT * m.extent[j]
    return mean + min(max(off, -most), most)


@exact
def learn_levels(m: Any, f: Any, pz: Any, y: Any) -> None:
    """All of these least squares take in a target."""
    begin_anew(m)
    weight = learn_shared(m, ROW, m.row_p, m.row_w, m.row_units, f.row, pz, y)
    if weight >= FITS:
        for i in range(f.row.size - 1):
            off = abs(f.row[1 + i] + m.first_x[i] - m.inputs[MEAN, i]) / deviation_in(m.inputs, i)
            m.farthest[i] = max(m.farthest[i], off)
    if f.lags.size:
        learn_shared(m, LAGS, m.lags_p, m.lags_w, m.lags_units, f.lags, pz, y)
    for j in range(y.size):
        if np.isfinite(y[j]):
            learn_own(m, j, f.clean[j], pz, y[j])


@exact
def begin_anew(m: Any) -> None:
    """Forget all where inputs or targets began anew: what was odd then has spoiled it."""
    renewals = 0.0
    for i in range(m.inputs.shape[1]):
        renewals += m.inputs[RENEWALS, i]
    for j in range(m.levels.shape[1]):
        renewals += m.levels[RENEWALS, j]
    if m.renewals[LEVELS, 0] == renewals:
        return
    m.renewals[LEVELS, 0] = renewals
    for values in (m.row_p, m.row_w, m.lags_p, m.lags_w, m.noise):
        values[:, :] = 0.0
    m.clean_p[:, :, :] = 0.0
    m.clean_w[:, :], m.clean_units[:, :] = 0.0, 0.0
    m.row_units[:], m.lags_units[:], m.farthest[:] = 0.0, 0.0, 0.0
    for j in range(m.extent.size):
        m.extent[j] = 3 * deviation_in(m.levels, j)


@exact
def learn_shared(m: Any, kind: int, p: Any, w: Any, units: Any, z: Any, pz: Any, y: Any) -> Any:
    """Least squares of all outputs on the same features: the weight of the row."""
    ratio, here = 0.0, 0
    for j in range(y.size):
        if np.isfinite(y[j]):
            error = y[j] - m.first_y[j] - product(w[j], z)
            ratio += measure(m, kind, j, error, z.size)
            here += 1
    if here == 0:
        return 0.0
    weight = weight_of(ratio / here)
    whole = robust_gain(p, units, z, pz, weight)
    for j in range(y.size):
        if np.isfinite(y[j]):
            error = y[j] - m.first_y[j] - product(w[j], z)
            for i in range(z.size):
                w[j, i] += pz[i] * error / whole
    return weight


@exact
def learn_own(m: Any, j: int, z: Any, pz: Any, y: Any) -> None:
    """Least squares of one output on features of its own."""
    error = y - m.first_y[j] - product(m.clean_w[j], z)
    weight = weight_of(measure(m, CLEAN, j, error, z.size))
    whole = robust_gain(m.clean_p[j], m.clean_units[j], z, pz, weight)
    for i in range(z.size):
        m.clean_w[j, i] += pz[i] * error / whole


@exact
def weight_of(ratio: Any) -> Any:
    return min(1.0, (FREEDOM + 1) / (FREEDOM + ratio))


@exact
def measure(m: Any, kind: int, j: int, error: Any, features: int) -> Any:
    """The square of an error over the usual one, which takes it in; 0 until there are more targets than features."""
    noise, count = m.noise[kind, j], m.strided[j] + 1
    ratio = error * error / noise if noise > 0 and count > features + SETTLED else 0.0
    m.noise[kind, j] += max(1 / count, 1 / MEMORY) * (weight_of(ratio) * error * error - noise)
    return ratio


@exact
def robust_gain(p: Any, units: Any, z: Any, pz: Any, weight: Any) -> Any:
    """P z in `pz`, and P <- (P - P z z^T P / (forget / weight + z^T P z)) / forget: what P z is to be divided by. P is
    no larger than at the start in directions that do not come.
    """
    count, grows = z.size, True
    for i in range(count):
        if units[i] == 0 and z[i] != 0:
            units[i] = abs(z[i])
            p[i, i] = WIDE / (units[i] * units[i])
        grows = grows and p[i, i] * units[i] * units[i] < WIDE
        pz[i] = 0.0
    for k in range(count):
        if z[k] != 0:
            for i in range(count):
                pz[i] += p[k, i] * z[k]
    whole = FORGET / weight
    for i in range(count):
        whole += pz[i] * z[i]
    kept, share = 1 / FORGET if grows else 1.0, 1 / whole
    for i in range(count):
        for k in range(count):
            p[i, k] = (p[i, k] - pz[i] * pz[k] * share) * kept
    return whole


@exact
def is_odd(m: Any, j: int) -> bool:
    """Whether the last value of output j is odd."""
    return 0 < m.cleaned[1, j] < STEADFAST


@exact
def clean(m: Any, f: Any, j: int, y: Any) -> None:
    """Hold the value of output j, or in its place what was expected, where it is odd, which the third in a row is not,
    or missing.
    """
    expected, here, usual = f.mixed[j], np.isfinite(y), np.inf
    for i in range(m.variances.shape[0]):
        usual = min(usual, m.variances[i, j])
    odd = here and m.strided[j] > SETTLED and (y - expected) ** 2 > ODD * ODD * usual
    m.cleaned[1, j] = m.cleaned[1, j] + 1 if odd else 0.0
    odd = odd and m.cleaned[1, j] < STEADFAST
    value = y if here and not odd else expected
    m.cleaned[0, j] += 1
    m.cleaned[2 + int(m.cleaned[0, j]) % CLEAN_ROWS, j] = value - m.first_y[j]
    if here:
        m.extent[j] = max(m.extent[j], abs(y - m.levels[MEAN, j]))
