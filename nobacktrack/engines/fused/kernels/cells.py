"""The cells, unit by unit, with their derivatives: own' from the pre-activations a and own, c = d own'/da and
retention = d own'/d own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....compiled import ONE, ZERO, inlined, kernel
from ..codes import Activation, Cell
from .exponentials import sigmoid, tanh


@kernel
def compute_activity(activation: Any, h: Any, activity: Any, slope: Any) -> None:
    """[1, what the others see of each unit], and its derivative in the last component of each."""
    last, n, one = h.shape[0] - 1, np.uint64(h.shape[1]), np.uint64(1)
    activity[0] = ONE
    if activation == Activation.SIGMOID:
        for i in range(n):
            seen = sigmoid(h[last, i])
            activity[one + i], slope[i] = seen, seen * (ONE - seen)
    elif activation == Activation.TANH:
        for i in range(n):
            seen = tanh(h[last, i])
            activity[one + i], slope[i] = seen, ONE - seen * seen
    else:
        for i in range(n):
            activity[one + i], slope[i] = h[last, i], ONE


@kernel
def step_cells(cell: Any, a: Any, own: Any, alpha: Any, following: Any, c: Any, retention: Any) -> None:
    """own' of all units; c is (gates x components, units), retention (components x components, units). What was in `a`
    is lost.
    """
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
def to_sigmoids(a: Any, first: Any, last: Any) -> None:
    """a <- sigmoid(a), of some numbers: alone in a loop, or it would be no loop of vectors."""
    for i in range(np.uint64(first), np.uint64(last)):
        a[i] = sigmoid(a[i])


@inlined
def to_tanhs(a: Any, first: Any, last: Any) -> None:
    """The same of tanh."""
    for i in range(np.uint64(first), np.uint64(last)):
        a[i] = tanh(a[i])


@inlined
def step_learned_leaky(a: Any, own: Any, following: Any, c: Any, retention: Any) -> None:
    """h' = a + sigmoid(b) h."""
    n = np.uint64(own.shape[1])
    to_sigmoids(a, n, n + n)
    for i in range(n):
        keep, h = a[n + i], own[0, i]
        following[0, i] = a[i] + keep * h
        c[0, i], c[1, i], retention[0, i] = ONE, keep * (ONE - keep) * h, keep


@inlined
def step_gru(a: Any, own: Any, following: Any, c: Any, retention: Any) -> None:
    """h' = (1 - z) n + z h, n = tanh(a_n + r a_m)."""
    n = np.uint64(own.shape[1])
    two, three = n + n, n + n + n
    to_sigmoids(a, 0, two)
    for i in range(n):
        a[two + i] += a[n + i] * a[three + i]
    to_tanhs(a, two, three)
    for i in range(n):
        z, r, new, h = a[i], a[n + i], a[two + i], own[0, i]
        slope = (ONE - z) * (ONE - new * new)
        following[0, i] = (ONE - z) * new + z * h
        c[0, i] = (h - new) * z * (ONE - z)
        c[1, i] = slope * a[three + i] * r * (ONE - r)
        c[2, i], c[3, i], retention[0, i] = slope, slope * r, z


@inlined
def step_lstm(a: Any, own: Any, following: Any, c: Any, retention: Any) -> None:
    """c' = f c + i g, h' = o tanh(c'); the components are (c, h)."""
    n = np.uint64(own.shape[1])
    two, three = n + n, n + n + n
    to_sigmoids(a, 0, two)
    to_tanhs(a, two, three)
    to_sigmoids(a, three, three + n)
    for i in range(n):
        take, keep, new, before = a[i], a[n + i], a[two + i], own[0, i]
        c[0, i] = new * take * (ONE - take)
        c[2, i] = before * keep * (ONE - keep)
        c[4, i] = take * (ONE - new * new)
        following[0, i] = keep * before + take * new
    for i in range(n):
        following[1, i] = tanh(following[0, i])
    for i in range(n):
        keep, out, seen = a[n + i], a[three + i], following[1, i]
        slope = out * (ONE - seen * seen)
        following[1, i] = out * seen
        c[6, i] = ZERO
        c[1, i], c[3, i], c[5, i] = slope * c[0, i], slope * c[2, i], slope * c[4, i]
        c[7, i] = seen * out * (ONE - out)
        retention[0, i], retention[1, i], retention[2, i], retention[3, i] = keep, ZERO, slope * keep, ZERO
