"""The cells, unit by unit, with their derivatives: own' from the pre-activations a and own, c = d own'/da and
retention = d own'/d own.
"""

from __future__ import annotations

import math
from typing import Any

from ....compiled import ONE, ZERO, inlined, kernel
from ..codes import Activation, Cell


@kernel
def sigmoid(x: Any) -> Any:
    return ONE / (ONE + math.exp(-x))


@kernel
def compute_activity(activation: Any, h: Any, activity: Any, slope: Any) -> None:
    """[1, what the others see of each unit], and its derivative in the last component of each."""
    last, n = h.shape[0] - 1, h.shape[1]
    activity[0] = ONE
    for i in range(n):
        if activation == Activation.SIGMOID:
            seen = sigmoid(h[last, i])
            derivative = seen * (ONE - seen)
        elif activation == Activation.TANH:
            seen = math.tanh(h[last, i])
            derivative = ONE - seen * seen
        else:
            seen, derivative = h[last, i], ONE * h.dtype.type(1)
        activity[1 + i] = seen
        slope[i] = derivative


@kernel
def step_cells(cell: Any, a: Any, own: Any, alpha: Any, following: Any, c: Any, retention: Any) -> None:
    """own' of all units; c is (gates x components, units), retention (components x components, units)."""
    if cell == Cell.RNN:
        for i in range(own.shape[1]):
            following[0, i], c[0, i], retention[0, i] = a[i], ONE, ZERO
    elif cell == Cell.LEAKY:
        for i in range(own.shape[1]):
            following[0, i] = a[i] + alpha[i] * own[0, i]
            c[0, i], retention[0, i] = ONE, alpha[i]
    elif cell == Cell.LEARNED_LEAKY:
        step_learned_leaky(a, own, following, c, retention)
    elif cell == Cell.GRU:
        step_gru(a, own, following, c, retention)
    elif cell == Cell.LSTM:
        step_lstm(a, own, following, c, retention)


@inlined
def step_learned_leaky(a: Any, own: Any, following: Any, c: Any, retention: Any) -> None:
    """h' = a + sigmoid(b) h."""
    n = own.shape[1]
    for i in range(n):
        keep, h = sigmoid(a[n + i]), own[0, i]
        following[0, i] = a[i] + keep * h
        c[0, i], c[1, i], retention[0, i] = ONE, keep * (ONE - keep) * h, keep


@inlined
def step_gru(a: Any, own: Any, following: Any, c: Any, retention: Any) -> None:
    """h' = (1 - z) n + z h, n = tanh(a_n + r a_m)."""
    n = own.shape[1]
    for i in range(n):
        z, r, h = sigmoid(a[i]), sigmoid(a[n + i]), own[0, i]
        new = math.tanh(a[2 * n + i] + r * a[3 * n + i])
        slope = (ONE - z) * (ONE - new * new)
        following[0, i] = (ONE - z) * new + z * h
        c[0, i] = (h - new) * z * (ONE - z)
        c[1, i] = slope * a[3 * n + i] * r * (ONE - r)
        c[2, i], c[3, i], retention[0, i] = slope, slope * r, z


@inlined
def step_lstm(a: Any, own: Any, following: Any, c: Any, retention: Any) -> None:
    """c' = f c + i g, h' = o tanh(c'); the components are (c, h)."""
    n = own.shape[1]
    for i in range(n):
        take, keep, new = sigmoid(a[i]), sigmoid(a[n + i]), math.tanh(a[2 * n + i])
        out, before = sigmoid(a[3 * n + i]), own[0, i]
        inside = keep * before + take * new
        seen = math.tanh(inside)
        slope = out * (ONE - seen * seen)
        following[0, i], following[1, i] = inside, out * seen
        c[0, i] = new * take * (ONE - take)
        c[2, i] = before * keep * (ONE - keep)
        c[4, i] = take * (ONE - new * new)
        c[6, i] = ZERO
        c[1, i], c[3, i], c[5, i] = slope * c[0, i], slope * c[2, i], slope * c[4, i]
        c[7, i] = seen * out * (ONE - out)
        retention[0, i], retention[1, i], retention[2, i], retention[3, i] = keep, ZERO, slope * keep, ZERO
