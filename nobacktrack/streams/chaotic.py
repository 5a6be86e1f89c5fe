"""Chaotic time series, standardised: each item is a vector of one number, to be predicted one step ahead."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..configuration import at_least

BURN_IN = 1000
PER_STEP = 10  # of the integrators, within one step of a series

Field = Callable[[np.ndarray], np.ndarray]


def henon(*, length: int, seed: int, a: float = 1.4, b: float = 0.3) -> np.ndarray:
    """x' = 1 - a x^2 + y, y' = b x."""
    x, y = np.random.default_rng(seed).uniform(-0.1, 0.1, 2)
    found = np.empty(_count(length))
    for i in range(len(found)):
        x, y = 1 - a * x * x + y, b * x
        found[i] = x
    return _standardised(found)


def mackey_glass(*, length: int, seed: int, tau: int = 17) -> np.ndarray:
    """dx/dt = 0.2 x(t - tau) / (1 + x(t - tau)^10) - 0.1 x, seen at unit steps; ten steps of Heun's method in each."""
    at_least("tau", tau, 1)
    dt, delay = 1 / PER_STEP, tau * PER_STEP
    past = np.full(delay + 1, 1.2) + np.random.default_rng(seed).uniform(-0.1, 0.1, delay + 1)
    x = np.concatenate([past, np.empty(_count(length) * PER_STEP)])
    for i in range(delay, len(x) - 1):
        first, second = x[i - delay], x[i + 1 - delay]
        slope = 0.2 * first / (1 + first**10) - 0.1 * x[i]
        later = 0.2 * second / (1 + second**10) - 0.1 * (x[i] + dt * slope)
        x[i + 1] = x[i] + dt * (slope + later) / 2
    return _standardised(x[delay + 1 :: PER_STEP][: _count(length)])


def lorenz(*, length: int, seed: int, step: float = 0.02) -> np.ndarray:
    """The first coordinate of x' = 10 (y - x), y' = x (28 - z) - y, z' = x y - 8/3 z, every `step`, by Runge-Kutta of
    order four.
    """

    def field(p: np.ndarray) -> np.ndarray:
        x, y, z = p
        return np.array([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])

    point = np.random.default_rng(seed).uniform(0.9, 1.1, 3)
    found = np.empty(_count(length))
    for i in range(len(found)):
        point = _runge_kutta(field, point, step)
        found[i] = point[0]
    return _standardised(found)


def _runge_kutta(field: Field, point: np.ndarray, step: float) -> np.ndarray:
    first = field(point)
    second = field(point + step / 2 * first)
    third = field(point + step / 2 * second)
    fourth = field(point + step * third)
    return point + step / 6 * (first + 2 * second + 2 * third + fourth)


def _count(length: int) -> int:
    return at_least("length", length, 1) + BURN_IN


def _standardised(series: np.ndarray) -> np.ndarray:
    """Without its beginning, mean 0 and variance 1, as vectors of one number."""
    series = series[BURN_IN:]
    return ((series - series.mean()) / series.std())[:, None].astype(np.float32)
