"""Rows of numbers, `ahead` targets ahead: last value, mean, season, least squares on the last rows; compiled.

All is done on differences to the last value, in units of their own deviation. Experts are mixed for each output by
fixed share, after a last expert has been added: least squares on what the others say. The density is a mixture of
Student densities, by their log-loss; the forecast is a mean, by squares of errors (`voting.py`). A forecast is issued
after each input and scored when its target has come; least squares learn then, from the features that they had.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..compiled import EXACT, entry, exact
from .intervals import learn_level, set_bounds
from .nodes import SOURCES
from .past import (
    AGE,
    KNOWN,
    NO_BASE,
    forecast_at,
    forecast_due,
    hold_start,
    is_due,
    late,
    level,
    season_before,
    stride,
    take_input,
    take_target,
)
from .robust import clean, expect_level, is_odd, learn_levels, set_clean, set_lags, set_row
from .spreads import MEAN, clipped
from .squares import gain, learn, product, set_pairs
from .voting import begin_errors, mix, share_out, vote

NEAR, NEAR_ALONE, FAR = 3, 10, 48  # rows back: of all outputs, of an only one, of each
CROSS = 24  # rows on all outputs, where that is not too much
FORGET_NEAR, FORGET_FAR, FORGET_CROSS, FORGET_PAIRS, FORGET_STACK = 0.999, 0.9998, 0.9997, 0.9998, 0.9995
NEAR_COVARIANCE, FAR_COVARIANCE, PAIRS_COVARIANCE, STACK_COVARIANCE = 1.0, 0.02, 0.1, 0.1  # many features start small


class Scratch(NamedTuple):
    """What each expert makes of a target, and P z; the share of targets that an interval is to hold, or 0."""

    cost: np.ndarray
    pz: np.ndarray
    share: np.ndarray


@exact
def set_features(m: Any, z: Any, rows: int) -> None:
    """1, the level and the differences of all outputs over some rows, and the input, where there is room for it."""
    outputs = m.last.size
    z[0] = 1.0
    for j in range(outputs):
        z[1 + j] = level(m, j)
        for back in range(rows):
            z[1 + outputs * (1 + back) + j] = late(m, back + 1, j)
    for i in range(z.size - 1 - outputs * (1 + rows)):
        z[1 + outputs * (1 + rows) + i] = m.x[i]


@exact
def set_far_features(m: Any, z: Any, j: int) -> None:
    """The same of one output over many rows; with the input, if there is but one output."""
    z[0], z[1] = 1.0, level(m, j)
    for back in range(FAR):
        z[2 + back] = late(m, back + 1, j)
    for i in range(z.size - 2 - FAR):
        z[2 + FAR + i] = m.x[i]


@exact
def set_pair_features(m: Any, z: Any) -> None:
    """1, the level of all outputs, and the inputs with their products, those of the first inputs first."""
    outputs = m.last.size
    z[0] = 1.0
    for j in range(outputs):
        z[1 + j] = level(m, j)
    set_pairs(m.x, z[1 + outputs :])


@exact
def issue(m: Any, s: Any, y_hats: Any) -> None:
    """What each expert expects, and the mixture. `y_hats` of the networks: strides, in their usual size."""
    hold_start(m)
    f = forecast_at(m, 0)
    set_features(m, f.near, NEAR_ALONE if m.last.size == 1 else NEAR)
    set_pair_features(m, f.pairs)
    if f.cross.size:
        set_features(m, f.cross, CROSS)
    set_row(m, f.row)
    if f.lags.size:
        set_lags(m, f.lags, m.rows.shape[0], m.counts[AGE])
    for j in range(m.last.size):
        set_clean(m, j, f.clean[j])
        f.odd[j] = 1.0 if is_odd(m, j) else 0.0
        set_far_features(m, f.far[j], j)
        set_expected(m, f, j, y_hats)
        add_stack(m, f, j)
        mix(m, f, j)
        set_bounds(m, f, j, s.share[0])


@exact
def set_expected(m: Any, f: Any, j: int, y_hats: Any) -> None:
    """What all but the last expert expect of output j."""
    size, last, networks = f.size[j], m.last[j], y_hats.shape[0]
    f.expected[0, j], f.expected[1, j] = last, m.levels[MEAN, j]
    f.expected[2, j] = last + size * product(m.near_w[j], f.near)
    f.expected[3, j] = last + size * product(m.far_w[j], f.far[j])
    f.expected[4, j] = last + size * clipped(product(m.pairs_w[j], f.pairs))
    f.expected[5, j] = expect_level(m, j, m.row_w[j], f.row)
    f.expected[6, j] = expect_level(m, j, m.clean_w[j], f.clean[j])
    at = 7
    if m.last.size == 1:
        f.expected[at, j] = expect_level(m, j, m.lags_w[j], f.lags) if f.lags.size else f.expected[5, j]
        at += 1
    if f.cross.size:
        f.expected[at, j] = last + size * product(m.cross_w[j], f.cross)
        at += 1
    if m.season.shape[0]:
        f.expected[at, j] = season_before(m, j)
        at += 1
    for k in range(networks):
        good = np.isfinite(y_hats[k, j])
        f.expected[at + k, j] = last + size * clipped(np.float64(y_hats[k, j])) if good else last


@exact
def add_stack(m: Any, f: Any, j: int) -> None:
    """The last expert: the mixture of the others, and least squares on how they differ from it."""
    others = f.expected.shape[0] - 1
    odd, peak, whole, mean = int(f.odd[j]), -np.inf, 0.0, 0.0
    for i in range(others):
        peak = max(peak, m.votes[odd, i, j])
    for i in range(others):
        weight = math.exp(m.votes[odd, i, j] - peak)
        whole += weight
        mean += weight * f.expected[i, j]
    mean /= whole
    for i in range(others):
        f.stack[j, i] = clipped((f.expected[i, j] - mean) / f.size[j])
    f.expected[others, j] = mean + f.size[j] * clipped(product(m.stack_w[j], f.stack[j]))


@exact
def score(m: Any, s: Any, y: Any, cost: Any, learning: bool) -> Any:
    """The loss of a target, -log of the density that was issued for it, and that of each expert; then weights,
    variances and least squares learn. NaN where nothing of it was foreseen, or nothing of it is here.
    """
    f, loss, scored = forecast_due(m), 0.0, 0
    for i in range(s.cost.size):
        s.cost[i] = 0.0
    for j in range(y.size):
        if m.targets[j] == 0 and np.isfinite(y[j]):
            m.first_y[j] = y[j]
        if is_due(m) and np.isfinite(y[j]):
            loss += share_out(m, s, f, j, y[j], learning)
            learn_level(m, f, j, y[j], s.share[0], learning)
            if learning and f.known[j] != NO_BASE:
                vote(m, f, j, y[j])
                begin_errors(m, j)
            scored += 1
    for i in range(s.cost.size):
        cost[i] = s.cost[i] if scored else np.nan
    if learning and scored:
        learn_levels(m, f, s.pz, y)
        learn_squares(m, s, f, y)
    for j in range(y.size):
        if is_due(m) and f.known[j] != NO_BASE:
            clean(m, f, j, y[j])
    take_target(m, y, learning)
    return loss if scored else np.nan


@exact
def learn_squares(m: Any, s: Any, f: Any, y: Any) -> None:
    """All least squares take in a target."""
    known = 0
    for j in range(y.size):
        known += 1 if f.known[j] == KNOWN and np.isfinite(y[j]) else 0
    if known == 0:
        return
    learn_together(m.near_p, m.near_w, f.near, s.pz, f, y, FORGET_NEAR)
    learn_together(m.pairs_p, m.pairs_w, f.pairs, s.pz, f, y, FORGET_PAIRS)
    if f.cross.size:
        learn_together(m.cross_p, m.cross_w, f.cross, s.pz, f, y, FORGET_CROSS)
    others = f.expected.shape[0] - 1
    for j in range(y.size):
        if f.known[j] == KNOWN and np.isfinite(y[j]):
            aim = stride(f, j, y[j])
            whole = gain(m.far_p[j], f.far[j], s.pz, FORGET_FAR)
            learn(m.far_w[j], s.pz, whole, aim - product(m.far_w[j], f.far[j]))
            mean = (f.expected[others, j] - f.base[j]) / f.size[j]
            whole = gain(m.stack_p[j], f.stack[j], s.pz, FORGET_STACK)
            learn(m.stack_w[j], s.pz, whole, clipped(aim - mean))


@exact
def learn_together(p: Any, w: Any, z: Any, pz: Any, f: Any, y: Any, forget: Any) -> None:
    """Least squares of all outputs on the same features."""
    whole = gain(p, z, pz, forget)
    for j in range(y.size):
        if f.known[j] == KNOWN and np.isfinite(y[j]):
            learn(w[j], pz, whole, stride(f, j, y[j]) - product(w[j], z))


@entry(SOURCES, EXACT)
def prepare_rows(m: Any, rows: Any, inside: Any, learning: bool) -> None:
    """What networks get: inputs in deviations off their means; and, when a forecast is due, its input again and the
    stride to its target, where all of that is here.
    """
    x, y, seen = rows
    inputs, late_inputs, targets, whole = inside
    for t in range(x.shape[0]):
        take_input(m, x[t])
        hold_start(m)
        f, due = forecast_due(m), is_due(m)
        whole[t] = due and seen[t]
        for i in range(inputs.shape[1]):
            inputs[t, i] = m.x[i]
            late_inputs[t, i] = f.x[i] if due else 0.0
        if seen[t]:
            for j in range(targets.shape[1]):
                here = np.isfinite(y[t, j])
                whole[t] = whole[t] and here
                targets[t, j] = stride(f, j, y[t, j]) if here else 0.0
            take_target(m, y[t], learning)


@entry(SOURCES, EXACT)
def mix_rows(m: Any, s: Any, rows: Any, learning: bool, y_hats: Any, found: Any) -> None:
    """Inputs and the targets after them: losses, what each expert made of each target, and what was expected of it."""
    x, y, seen = rows
    losses, costs, expected = found
    for t in range(seen.size):
        take_input(m, x[t])
        issue(m, s, y_hats[:, t])
        f = forecast_due(m)
        for j in range(y.shape[1]):
            expected[t, j] = f.mixed[j] if is_due(m) else np.nan
        if seen[t]:
            losses[t] = score(m, s, y[t], costs[t], learning)
        else:
            losses[t] = np.nan
            costs[t, 0] = np.nan


@entry(SOURCES, EXACT)
def begin_row(m: Any, x: Any) -> None:
    """An input has come."""
    take_input(m, x)


@entry(SOURCES, EXACT)
def issue_forecast(m: Any, s: Any, y_hats: Any) -> None:
    """What is expected after it."""
    issue(m, s, y_hats)


@entry(SOURCES, EXACT)
def end_row(m: Any, s: Any, y: Any, learning: bool, aim: Any, cost: Any) -> float:
    """A target has come: its loss, what each expert made of it, and in `aim` what networks get of it."""
    f = forecast_due(m)
    for j in range(y.size):
        aim[j] = stride(f, j, y[j]) if is_due(m) and np.isfinite(y[j]) else np.nan
    return score(m, s, y, cost, learning)
