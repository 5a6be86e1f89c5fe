"""The cells, unit by unit, with their derivatives: own' from the pre-activations a and own, c = d own'/da and
kept = d own'/d own.
"""

from __future__ import annotations

import math
from typing import Any

from ...compiled import ONE, ZERO, kernel
from .layout import GRU, LEAKY, LEARNED_LEAKY, LSTM, RNN, SIGMOID, TANH


@kernel
def sigmoid(x: Any) -> Any:
    return ONE / (ONE + math.exp(-x))


@kernel
def show(activation: Any, h: Any, activity: Any, slope: Any) -> None:
    """[1, what the units show], and its derivative in the last component of each."""
    last, n = h.shape[0] - 1, h.shape[1]
    activity[0] = ONE
    for i in range(n):
        if activation == SIGMOID:
            shown = sigmoid(h[last, i])
            derivative = shown * (ONE - shown)
        elif activation == TANH:
            shown = math.tanh(h[last, i])
            derivative = ONE - shown * shown
        else:
            shown, derivative = h[last, i], ONE * h.dtype.type(1)
        activity[1 + i] = shown
        slope[i] = derivative


@kernel
def work_units(cell: Any, a: Any, own: Any, alpha: Any, following: Any, c: Any, kept: Any) -> None:
    """own' of all units; c is (gates x components, units), kept (components x components, units)."""
    n = own.shape[1]
    if cell == RNN:
        for i in range(n):
            following[0, i], c[0, i], kept[0, i] = a[i], ONE, ZERO
    elif cell == LEAKY:
        for i in range(n):
            following[0, i] = a[i] + alpha[i] * own[0, i]
            c[0, i], kept[0, i] = ONE, alpha[i]
    elif cell == LEARNED_LEAKY:
        for i in range(n):
            keep, h = sigmoid(a[n + i]), own[0, i]
            following[0, i] = a[i] + keep * h
            c[0, i], c[1, i], kept[0, i] = ONE, keep * (ONE - keep) * h, keep
    elif cell == GRU:
        for i in range(n):
            z, r, h = sigmoid(a[i]), sigmoid(a[n + i]), own[0, i]
            new = math.tanh(a[2 * n + i] + r * a[3 * n + i])
            slope = (ONE - z) * (ONE - new * new)
            following[0, i] = (ONE - z) * new + z * h
            c[0, i] = (h - new) * z * (ONE - z)
            c[1, i] = slope * a[3 * n + i] * r * (ONE - r)
            c[2, i], c[3, i], kept[0, i] = slope, slope * r, z
    elif cell == LSTM:
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
            kept[0, i], kept[1, i], kept[2, i], kept[3, i] = keep, ZERO, slope * keep, ZERO
