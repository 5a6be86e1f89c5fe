"""The readout: y_hat = phi [1, activity], the loss in nats, and its derivatives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....compiled import HALF, ONE, ZERO, inlined, kernel
from ..codes import Readout
from ..memory.layout import PIECE
from ..memory.views import matrix, vector
from .cells import compute_activity
from .exponentials import exp

HALF_LOG_2PI = np.float64(0.5 * math.log(2 * math.pi))


@kernel
def score(s: Any, m: Any, symbol: Any, values: Any) -> Any:
    """y_hat = Y(phi, h), the loss of a target, dl/dy_hat and dl/dh."""
    slope, y_hat, dl_dy = vector(m, PIECE.slope), vector(m, PIECE.y_hat), vector(m, PIECE.dl_dy)
    predict(s, m)
    if s.readout == Readout.SOFTMAX:
        loss = score_symbol(y_hat, s.outputs, symbol, dl_dy)
    else:
        loss = score_vector(y_hat, s.outputs, values, dl_dy)
    pull(matrix(m, PIECE.phi), dl_dy, slope, vector(m, PIECE.dl_dh))
    return loss


@inlined
def predict(s: Any, m: Any) -> None:
    """The activity, and y_hat."""
    activity = vector(m, PIECE.activity)
    compute_activity(s.activation, matrix(m, PIECE.h), activity, vector(m, PIECE.slope))
    multiply(matrix(m, PIECE.phi), activity, vector(m, PIECE.y_hat))


@kernel
def multiply(phi: Any, activity: Any, y_hat: Any) -> None:
    """y_hat = phi [1, activity]."""
    for o in range(y_hat.size):
        y_hat[o] = phi[0, o]
    units = activity.size - 1
    fours = units - units % 4
    for i in range(1, 1 + fours, 4):  # four at a time, so that a sum is read and written a quarter as often
        a0, a1, a2, a3 = activity[i], activity[i + 1], activity[i + 2], activity[i + 3]
        for o in range(y_hat.size):
            y_hat[o] += (phi[i, o] * a0 + phi[i + 1, o] * a1) + (phi[i + 2, o] * a2 + phi[i + 3, o] * a3)
    for i in range(1 + fours, 1 + units):
        for o in range(y_hat.size):
            y_hat[o] += phi[i, o] * activity[i]


@kernel
def score_symbol(y_hat: Any, count: Any, y: Any, dl_dy: Any) -> Any:
    """-log softmax(y_hat)_y, and softmax(y_hat) - e_y, over the real outputs, of which there are `count`."""
    largest = y_hat[0]
    for o in range(1, count):
        largest = max(largest, y_hat[o])
    total = ZERO * largest
    for o in range(np.uint64(count)):
        x = exp(y_hat[o] - largest)
        dl_dy[o] = x
        total += x
    scale = ONE / total
    for o in range(count):
        dl_dy[o] *= scale
    dl_dy[y] -= ONE
    return math.log(total) + largest - y_hat[y]


@kernel
def score_vector(y_hat: Any, count: Any, y: Any, dl_dy: Any) -> Any:
    """|y - y_hat|^2 / 2 + (d/2) log 2 pi, and y_hat - y."""
    total = ZERO * y_hat[0]
    for o in range(count):
        dl_dy[o] = y_hat[o] - y[o]
        total += dl_dy[o] * dl_dy[o]
    return HALF * total + y_hat.dtype.type(count * HALF_LOG_2PI)


@kernel
def pull(phi: Any, dl_dy: Any, slope: Any, dl_dh: Any) -> None:
    """dl/dh, zero in the components that are not shown."""
    n = slope.size
    hidden = dl_dh.size - n
    for i in range(hidden):
        dl_dh[i] = ZERO
    for i in range(n):
        total = ZERO * slope[i]
        for o in range(dl_dy.size):
            total += phi[1 + i, o] * dl_dy[o]
        dl_dh[hidden + i] = total * slope[i]
