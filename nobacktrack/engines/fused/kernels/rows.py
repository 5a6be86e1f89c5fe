"""The heavy part, the same for all cells: a pass over rows [bias | weights] of theta or phi, in which J takes in the
gradient and the rows move. `terms.py` has the pass of NoBackTrack, whose gradient is a sum of w_k.

At 20 units a call or a view inside a loop costs more than the loop, so that functions are read into their callers and
loops are written out. Indices that do not begin at 0 are unsigned, or the compiler allows for negative ones, which wrap
around, and makes no vector instructions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ....compiled import HALF, ONE, ZERO, inlined, kernel
from ....updates.kalman import HEARD
from ....updates.metrics import RESOLUTION
from ..codes import Metric
from ..memory.layout import BLOCK, PIECE, SCRATCH_ROWS
from ..memory.views import Count, matrix, scratch_of, vector

# What a pass needs of each row of a block, in one vector with places that are known when it is compiled: the compiler
# can then see that they do not overlap, and need not look at run time, before each short loop.
M, S, Q, G0, G, INVERSE0, PENDING, W0, BIAS, SQUARE_U, SQUARE_W = (np.uint64(BLOCK * i) for i in range(SCRATCH_ROWS))


SMALLEST = np.float32(RESOLUTION)


class Group(NamedTuple):
    """A band of rows, and how they move: J <- keep J + gain g g^T, params <- params - (J + Lambda)^-1 g or, with no J,
    params - rate g.
    """

    params: Any
    m0i: Any
    mii: Any
    metric: Any
    prior: Any
    rate: Any
    keep: Any
    gain: Any
    informs: Any  # whether J takes in this gradient


@inlined
def group_of(params: Any, m0i: Any, mii: Any, metric: Any, prior: Any, pace: Any, times: Any) -> Any:
    """`pace` is what is kept of J, or the rate; `times` the weight of this gradient in J, 0 where J stays."""
    keep = pace if times else params.dtype.type(1)
    return Group(params, m0i, mii, metric, prior, pace, keep, params.dtype.type(times), times > 0)


@kernel
def weight_in_information(ints: Any, age: Any, every: Any) -> Any:
    """The weight of a gradient in J: `every` for the first of so many, 0 for the others."""
    gain = every if ints[age] == 0 else 0
    ints[age] = 0 if ints[age] + 1 == every else ints[age] + 1
    return gain


@kernel
def reciprocal(x: Any) -> Any:
    """1/x, and 0 where x is 0."""
    return ONE / x if x > ZERO else ZERO


@kernel
def is_finite(x: Any) -> Any:
    """Neither NaN nor infinite. (`math.isfinite` takes x - x, which is 0 to a compiler that may reorder sums.)"""
    return abs(x) < np.inf


@kernel
def schur(m0i: Any, mii: Any, inverse0: Any, prior: Any) -> Any:
    """m_i = M_0i / M_00 and 1 / s_i, s_i = M_ii - M_0i^2 / M_00, which is not known better than to rounding errors."""
    m = m0i * inverse0
    return m, reciprocal(prior + max(mii - m0i * m, SMALLEST * mii))


@inlined
def inform_biases(group: Any, scratch: Any, start: Any, count: Any) -> None:
    """J takes in g_0 of each row: 1 / M_00."""
    if group.metric == Metric.QUASI_DIAGONAL:
        for r in range(count):
            x = group.keep * group.m0i[0, start + r] + group.gain * scratch[G0 + r] * scratch[G0 + r]
            group.m0i[0, start + r] = x
            scratch[INVERSE0 + r] = reciprocal(x + group.prior)
    elif group.metric == Metric.DIAGONAL:
        for r in range(count):
            x = group.keep * group.mii[0, start + r] + group.gain * scratch[G0 + r] * scratch[G0 + r]
            group.mii[0, start + r] = x
            scratch[INVERSE0 + r] = reciprocal(x + group.prior)
    else:
        for r in range(count):
            scratch[INVERSE0 + r] = ONE


@inlined
def inform_arrow(group: Any, i: Any, at: Any, g: Any, g0: Any, inverse0: Any) -> Any:
    """J takes in (g_0, g_i) of a row, quasi-diagonal: m_i and 1 / s_i."""
    across = group.keep * group.m0i[i, at] + g0 * (group.gain * g)
    own = group.keep * group.mii[i, at] + g * (group.gain * g)
    group.m0i[i, at] = across
    group.mii[i, at] = own
    return schur(across, own, inverse0, group.prior)


@inlined
def inform_diagonal(group: Any, i: Any, at: Any, g: Any) -> Any:
    """J takes in g_i of a row, diagonal: 1 / M_ii."""
    own = group.keep * group.mii[i, at] + g * (group.gain * g)
    group.mii[i, at] = own
    return reciprocal(own + group.prior)


@inlined
def move_biases(group: Any, scratch: Any, start: Any, count: Any) -> None:
    """x_0 = g_0 / M_00 - sum_i m_i x_i, the sum being in `scratch`."""
    for r in range(count):
        step = scratch[G0 + r] * scratch[INVERSE0 + r] - scratch[BIAS + r]
        group.params[0, start + r] -= group.rate * step if group.metric == Metric.EUCLIDEAN else step


@inlined
def from_product(values: Any, scratch: Any, factor: Any, i: Any, start: Any, r: Any) -> Any:
    """The gradient of weight i of a row, q (x) u."""
    return scratch[Q + r] * factor


@inlined
def from_array(values: Any, scratch: Any, factor: Any, i: Any, start: Any, r: Any) -> Any:
    """The gradient of weight i of a row, from an array like theta."""
    return values[i, start + r]


@inlined
def move_weights(
    source: Any, group: Any, values: Any, scratch: Any, factor: Any, i: Any, start: Any, count: Any
) -> None:
    """Weight i of each row of a block."""
    if group.metric == Metric.QUASI_DIAGONAL and group.informs:
        for r in range(count):
            g, g0 = source(values, scratch, factor, i, start, r), scratch[G0 + r]
            mi, si = inform_arrow(group, i, start + r, g, g0, scratch[INVERSE0 + r])
            step = (g - g0 * mi) * si
            group.params[i, start + r] -= step
            scratch[BIAS + r] += mi * step
    elif group.metric == Metric.QUASI_DIAGONAL:  # apart: a store under a condition would cost more than all the rest
        for r in range(count):
            g, g0 = source(values, scratch, factor, i, start, r), scratch[G0 + r]
            mi, si = schur(group.m0i[i, start + r], group.mii[i, start + r], scratch[INVERSE0 + r], group.prior)
            step = (g - g0 * mi) * si
            group.params[i, start + r] -= step
            scratch[BIAS + r] += mi * step
    elif group.metric == Metric.DIAGONAL:
        for r in range(count):
            g = source(values, scratch, factor, i, start, r)
            group.params[i, start + r] -= g * inform_diagonal(group, i, start + r, g)
    else:
        for r in range(count):
            group.params[i, start + r] -= group.rate * source(values, scratch, factor, i, start, r)


@kernel
def move_along_product(group: Any, q: Any, u: Any, scratch: Any) -> None:
    """Rows move on the gradient q (x) u."""
    fan, width = group.params.shape
    for begin in range(0, width, BLOCK):
        start, count = np.uint64(begin), np.uint64(min(BLOCK, width - begin))
        for r in range(count):
            scratch[Q + r] = q[start + r]
            scratch[G0 + r] = q[start + r] * u[0]
            scratch[BIAS + r] = ZERO
        inform_biases(group, scratch, start, count)
        for i in range(np.uint64(1), np.uint64(fan)):
            move_weights(from_product, group, q, scratch, u[i], i, start, count)
        move_biases(group, scratch, start, count)


@inlined
def move_block_along_array(group: Any, gradient: Any, scratch: Any, start: Any, count: Any) -> None:
    """A block of rows moves on a gradient that lies in an array like them."""
    for r in range(count):
        scratch[G0 + r] = gradient[0, start + r]
        scratch[BIAS + r] = ZERO
    inform_biases(group, scratch, start, count)
    for i in range(np.uint64(1), np.uint64(group.params.shape[0])):
        move_weights(from_array, group, gradient, scratch, group.prior, i, start, count)
    move_biases(group, scratch, start, count)


@kernel
def temper(m: Any, group: Any, noise: Any) -> None:
    """Lambda of theta (0) or phi (1), where it was not given, from what the rows hear and from the noise of the
    gradient: `Kalman`, compiled.
    """
    least = vector(m, PIECE.least_priors)[group]
    if least > ZERO:
        mean, activity, heard = matrix(m, PIECE.heard_mean), vector(m, PIECE.activity), matrix(m, PIECE.heard)
        heard[group, 0] += ONE
        samples, slowest = heard[group, 0], heard.dtype.type(1 / HEARD)
        pace, now = max(ONE / samples, slowest), ZERO * samples
        for i in range(mean.shape[1]):
            apart = activity[1 + i] - mean[group, i]
            now += apart * apart
            mean[group, i] += pace * apart
        heard[group, 1] += max(ONE / (samples + ONE), slowest) * ((ONE - pace) * now - heard[group, 1])
        prior = max(least, HALF * (heard[group, 1] + vector(m, PIECE.heard_beside)[group]))
        vector(m, PIECE.priors)[group] = prior * (ONE + noise)


@kernel
def move_phi(s: Any, m: Any, pace: Any) -> None:
    """phi moves on dl/dphi = dl/dy_hat [1, activity]."""
    if s.phi_metric == Metric.FROZEN:
        return
    times = weight_in_information(m.ints, Count.PHI_AGE, s.phi_every)
    phi, m0i, mii = matrix(m, PIECE.phi), matrix(m, PIECE.phi_m0i), matrix(m, PIECE.phi_mii)
    group = group_of(phi, m0i, mii, s.phi_metric, vector(m, PIECE.priors)[1], pace, times)
    move_along_product(group, vector(m, PIECE.dl_dy), vector(m, PIECE.activity), scratch_of(m, 0))


@inlined
def theta_group(s: Any, m: Any, pace: Any, times: Any) -> Any:
    """theta in one band, and how it moves."""
    theta, m0i, mii = matrix(m, PIECE.theta), matrix(m, PIECE.theta_m0i), matrix(m, PIECE.theta_mii)
    return group_of(theta, m0i, mii, s.theta_metric, vector(m, PIECE.priors)[0], pace, times)


@kernel
def move_theta_along(s: Any, m: Any, gradient: Any, pace: Any) -> None:
    """theta, in one band, moves on a gradient that lies in an array."""
    group = theta_group(s, m, pace, weight_in_information(m.ints, Count.THETA_AGE, s.theta_every))
    for begin in range(0, gradient.shape[1], BLOCK):
        start, count = np.uint64(begin), np.uint64(min(BLOCK, gradient.shape[1] - begin))
        move_block_along_array(group, gradient, scratch_of(m, 0), start, count)
