"""Recursive least squares: P, the inverse of what has come of features z, and weights w; compiled."""

from __future__ import annotations

from typing import Any

from ..compiled import exact

MOST_COVARIANCE = 1e4
MOST_PAIRED = 16  # columns of which all products are features, the first ones
FARTHEST = 10.0  # of a product


def pairs_of(columns: int) -> int:
    """How many features the first columns and their products are."""
    paired = min(columns, MOST_PAIRED)
    return paired + paired * (paired + 1) // 2


@exact
def set_pairs(x: Any, z: Any) -> None:
    """x_0, x_0 x_0, x_1, x_1 x_0, x_1 x_1, ...: columns that come later are features that come later."""
    at = 0
    for i in range(min(x.size, MOST_PAIRED)):
        z[at] = x[i]
        for k in range(i + 1):
            z[at + 1 + k] = min(max(x[i] * x[k], -FARTHEST), FARTHEST)
        at += i + 2


@exact
def product(w: Any, z: Any) -> Any:
    """w z."""
    total = 0.0
    for i in range(z.size):
        total += w[i] * z[i]
    return total


@exact
def gain(p: Any, z: Any, pz: Any, forget: Any) -> Any:
    """P z in `pz`, and P <- (P - P z z^T P / (forget + z^T P z)) / forget: what P z is to be divided by. P does not
    grow beyond bounds in directions that do not come.
    """
    count = z.size
    for i in range(count):
        pz[i] = 0.0
    for k in range(count):  # row by row, which fills the registers; P is symmetric
        if z[k] != 0:
            for i in range(count):
                pz[i] += p[k, i] * z[k]
    whole, largest = forget, 0.0
    for i in range(count):
        whole += pz[i] * z[i]
        largest = max(largest, p[i, i])
    kept, share = 1 / forget if largest < MOST_COVARIANCE else 1.0, 1 / whole
    for i in range(count):
        for k in range(count):
            p[i, k] = (p[i, k] - pz[i] * pz[k] * share) * kept
    return whole


@exact
def learn(w: Any, pz: Any, whole: Any, error: Any) -> None:
    """w <- w + P z error / whole."""
    for i in range(w.size):
        w[i] += pz[i] * error / whole
