"""Rows of numbers, one step ahead: the last value, the mean, the season, least squares on the last rows; compiled.

All is done on differences to the last value, in units of their own deviation. Experts are mixed for each output by
fixed share, after a last expert has been added: least squares on what the others say. The density is a mixture of
Student densities, by their log-loss; the forecast is a mean, by squares of errors.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..compiled import EXACT, entry, exact
from .nodes import SOURCES
from .voting import (
    INPUTS,
    RING,
    SEASON,
    TARGETS,
    bounded,
    clipped,
    deviation,
    mixture,
    scale_of,
    share_out,
    vote,
)

NEAR, FAR = 3, 48  # rows that least squares look back, on all outputs and on each by itself
CROSS = 24  # rows on all outputs, where that is not too much
FORGET_NEAR, FORGET_FAR, FORGET_CROSS, FORGET_STACK = 0.999, 0.9998, 0.9997, 0.9995
MOST_COVARIANCE, STACK_COVARIANCE = 1e4, 0.1


class Numbers(NamedTuple):
    """What is known. Counts of targets and inputs, where the rings are, whether there is a last value; the last value,
    and means and sums of squares; differences and values of late; inverse covariances P and weights of least squares;
    log-weights and variances of the experts as densities, and log-weights and mean squares of errors as forecasts.
    """

    counts: np.ndarray
    last: np.ndarray
    mean: np.ndarray
    squares: np.ndarray
    steps: np.ndarray
    x: np.ndarray
    x_mean: np.ndarray
    x_squares: np.ndarray
    differences: np.ndarray
    season: np.ndarray
    near_p: np.ndarray
    near_w: np.ndarray
    far_p: np.ndarray
    far_w: np.ndarray
    cross_p: np.ndarray
    cross_w: np.ndarray
    stack_p: np.ndarray
    stack_w: np.ndarray
    shares: np.ndarray
    variances: np.ndarray
    votes: np.ndarray
    errors: np.ndarray


class Scratch(NamedTuple):
    """Features of each least squares, what each expert expects, what it makes of a target, and P z."""

    near: np.ndarray
    far: np.ndarray
    cross: np.ndarray
    stack: np.ndarray
    expected: np.ndarray
    cost: np.ndarray
    pz: np.ndarray


@exact
def take_input(m: Any, x: Any) -> None:
    """Count an input, and hold it, in deviations off its mean."""
    m.counts[INPUTS] += 1
    for i in range(m.x.size):
        off = bounded(x[i] - m.x_mean[i], m.x_squares[i], m.counts[INPUTS])
        m.x_mean[i] += off / m.counts[INPUTS]
        m.x_squares[i] += off * off * (1 - 1 / m.counts[INPUTS])
        m.x[i] = clipped((x[i] - m.x_mean[i]) / deviation(m.x_squares[i], m.counts[INPUTS]))


@exact
def difference(m: Any, j: int, y: Any) -> Any:
    """The difference of a target to the last one, in its usual size; the first has none, and the size of the second is
    not known.
    """
    if m.counts[TARGETS] < 2:
        return 0.0 if m.counts[TARGETS] == 0 or y == m.last[j] else 1.0 if y > m.last[j] else -1.0
    return clipped((y - m.last[j]) / scale_of(m, j))


@exact
def take_target(m: Any, y: Any, learning: bool) -> None:
    """The last target from now on is this one; it counts, if anything is to be learned."""
    if m.counts[TARGETS] > 0:
        at = int(m.counts[RING]) % m.differences.shape[0]
        for j in range(y.size):
            m.differences[at, j] = difference(m, j, y[j])
        m.counts[RING] = (at + 1) % m.differences.shape[0]
    if m.season.shape[0]:
        at = int(m.counts[SEASON])
        for j in range(y.size):
            m.season[at, j] = y[j]
        m.counts[SEASON] = (at + 1) % m.season.shape[0]
    if learning:
        count_target(m, y)
    for j in range(y.size):
        m.last[j] = y[j]


@exact
def count_target(m: Any, y: Any) -> None:
    """Means and sums of squares of targets and of their differences."""
    m.counts[TARGETS] += 1
    for j in range(y.size):
        if m.counts[TARGETS] > 1:
            m.steps[j] += bounded(y[j] - m.last[j], m.steps[j], m.counts[TARGETS] - 1) ** 2
        off = bounded(y[j] - m.mean[j], m.squares[j], m.counts[TARGETS])
        m.mean[j] += off / m.counts[TARGETS]
        m.squares[j] += off * off * (1 - 1 / m.counts[TARGETS])


@exact
def level(m: Any, j: int) -> Any:
    """The last value, in deviations off the mean."""
    return clipped((m.last[j] - m.mean[j]) / deviation(m.squares[j], m.counts[TARGETS]))


@exact
def late(m: Any, back: int, j: int) -> Any:
    """The difference so many rows ago."""
    return m.differences[(int(m.counts[RING]) - back) % m.differences.shape[0], j]


@exact
def set_features(m: Any, z: Any, rows: int) -> None:
    """1, the level and the differences of all outputs over some rows, and the input."""
    outputs = m.last.size
    z[0] = 1.0
    for j in range(outputs):
        z[1 + j] = level(m, j)
        for back in range(rows):
            z[1 + outputs * (1 + back) + j] = late(m, back + 1, j)
    for i in range(m.x.size):
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
def product(w: Any, z: Any) -> Any:
    total = 0.0
    for i in range(z.size):
        total += w[i] * z[i]
    return total


@exact
def gain(p: Any, z: Any, pz: Any, forget: Any) -> Any:
    """P z in `pz`, and P <- (P - P z z^T P / (forget + z^T P z)) / forget: what P z is to be divided by. P does not
    grow beyond bounds in directions that do not come.
    """
    whole, largest, count = forget, 0.0, z.size
    for i in range(count):
        total = 0.0
        for k in range(count):
            total += p[i, k] * z[k]
        pz[i] = total
        whole += total * z[i]
        largest = max(largest, p[i, i])
    kept = 1 / forget if largest < MOST_COVARIANCE else 1.0
    for i in range(count):
        for k in range(count):
            p[i, k] = (p[i, k] - pz[i] * pz[k] / whole) * kept
    return whole


@exact
def learn(w: Any, pz: Any, whole: Any, error: Any) -> None:
    for i in range(w.size):
        w[i] += pz[i] * error / whole


@exact
def expect(m: Any, s: Any, y_hats: Any) -> None:
    """What each expert expects. `y_hats` of the networks: differences, in their usual size."""
    outputs, networks = m.last.size, y_hats.shape[0]
    set_features(m, s.near, NEAR)
    if s.cross.size:
        set_features(m, s.cross, CROSS)
    for j in range(outputs):
        set_far_features(m, s.far[j], j)
        size, last = scale_of(m, j), m.last[j]
        s.expected[0, j], s.expected[1, j] = last, m.mean[j]
        s.expected[2, j] = last + size * product(m.near_w[j], s.near)
        s.expected[3, j] = last + size * product(m.far_w[j], s.far[j])
        at = 4
        if s.cross.size:
            s.expected[at, j] = last + size * product(m.cross_w[j], s.cross)
            at += 1
        if m.season.shape[0]:
            here = m.counts[TARGETS] >= m.season.shape[0]
            s.expected[at, j] = m.season[int(m.counts[SEASON]), j] if here else last
            at += 1
        for k in range(networks):
            good = np.isfinite(y_hats[k, j])
            s.expected[at + k, j] = last + size * clipped(np.float64(y_hats[k, j])) if good else last
        add_stack(m, s, j, size)


@exact
def add_stack(m: Any, s: Any, j: int, size: Any) -> None:
    """The last expert: the mixture of the others, and least squares on how they differ from it."""
    others = s.expected.shape[0] - 1
    peak, whole, mean = -np.inf, 0.0, 0.0
    for i in range(others):
        peak = max(peak, m.votes[i, j])
    for i in range(others):
        weight = math.exp(m.votes[i, j] - peak)
        whole += weight
        mean += weight * s.expected[i, j]
    mean /= whole
    for i in range(others):
        s.stack[j, i] = clipped((s.expected[i, j] - mean) / size)
    s.expected[others, j] = mean + size * clipped(product(m.stack_w[j], s.stack[j]))


@exact
def score_and_learn(m: Any, s: Any, y: Any, learning: bool) -> Any:
    """The loss of a target, -log of the density of the mixture; then weights, variances and least squares learn."""
    loss = 0.0
    for i in range(s.expected.shape[0]):
        s.cost[i] = 0.0
    for j in range(y.size):
        loss += share_out(m, s, j, y[j], learning)
        if learning and m.counts[TARGETS] > 0:
            vote(m, s, j, y[j])
    if learning:
        learn_squares(m, s, y)
    take_target(m, y, learning)
    return loss


@exact
def learn_squares(m: Any, s: Any, y: Any) -> None:
    """All least squares take in a target."""
    if m.counts[TARGETS] < 2:
        return
    cross, near = s.cross.size > 0, gain(m.near_p, s.near, s.pz, FORGET_NEAR)
    for j in range(y.size):
        learn(m.near_w[j], s.pz, near, difference(m, j, y[j]) - product(m.near_w[j], s.near))
    if cross:
        whole = gain(m.cross_p, s.cross, s.pz, FORGET_CROSS)
        for j in range(y.size):
            learn(m.cross_w[j], s.pz, whole, difference(m, j, y[j]) - product(m.cross_w[j], s.cross))
    others = s.expected.shape[0] - 1
    for j in range(y.size):
        aim, size = difference(m, j, y[j]), scale_of(m, j)
        whole = gain(m.far_p[j], s.far[j], s.pz, FORGET_FAR)
        learn(m.far_w[j], s.pz, whole, aim - product(m.far_w[j], s.far[j]))
        mean = (s.expected[others, j] - m.last[j]) / size
        whole = gain(m.stack_p[j], s.stack[j], s.pz, FORGET_STACK)
        learn(m.stack_w[j], s.pz, whole, clipped(aim - mean))


@entry(SOURCES, EXACT)
def prepare_rows(m: Any, x: Any, y: Any, seen: Any, inputs: Any, targets: Any) -> None:
    """What networks get: inputs in deviations off their means, targets as differences in their usual size."""
    for t in range(x.shape[0]):
        take_input(m, x[t])
        for i in range(inputs.shape[1]):
            inputs[t, i] = m.x[i]
        if seen[t]:
            for j in range(targets.shape[1]):
                targets[t, j] = difference(m, j, y[t, j])
            take_target(m, y[t], True)


@entry(SOURCES, EXACT)
def mix_rows(m: Any, s: Any, reading: Any, y_hats: Any, found: Any) -> None:
    """Inputs and the targets after them: losses, what each expert made of each target, and what was expected of it."""
    x, y, seen, advancing, learning = reading
    losses, costs, expected = found
    for t in range(seen.size):
        if advancing:
            take_input(m, x[t])
        if not seen[t]:
            losses[t] = np.nan
            costs[t, 0] = np.nan
            continue
        expect(m, s, y_hats[:, t])
        mixture(m, s, expected[t])
        losses[t] = score_and_learn(m, s, y[t], learning)
        for i in range(costs.shape[1]):
            costs[t, i] = s.cost[i]


@entry(SOURCES, EXACT)
def look_ahead(m: Any, s: Any, y_hats: Any, y_hat: Any) -> None:
    """What is expected of the next target."""
    expect(m, s, y_hats)
    mixture(m, s, y_hat)
