"""Probabilities and their logits, the same bits on every machine: sums, products and quotients of floats alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..compiled import exact

LN2_HIGH, LN2_LOW, LOG2_E = 0.693147180369123816490, 1.90821492927058770002e-10, 1.44269504088896338700
MOST = 30.0  # of a logit
LEAST = 1e-6  # of a probability that is mixed
POWERS = 2.0 ** np.arange(-64, 65)  # exact
HALF_ROOT = math.sqrt(0.5)
E2, E3, E4, E5, E6, E7, E8 = (1 / math.factorial(n) for n in range(2, 9))


@exact
def log(x: Any) -> Any:
    """The natural logarithm of a number > 0, to some 1e-10."""
    m, e = math.frexp(x)
    if m < HALF_ROOT:
        m, e = 2 * m, e - 1
    t = (m - 1) / (m + 1)
    s = t * t
    series = 1 + s * (1 / 3 + s * (1 / 5 + s * (1 / 7 + s * (1 / 9 + s * (1 / 11)))))
    return e * LN2_LOW + 2 * t * series + e * LN2_HIGH


@exact
def exp(x: Any) -> Any:
    """e^x for |x| <= 30, to some 1e-9."""
    n = math.floor(x * LOG2_E + 0.5)
    r = (x - n * LN2_HIGH) - n * LN2_LOW
    series = 1 + r * (1 + r * (E2 + r * (E3 + r * (E4 + r * (E5 + r * (E6 + r * (E7 + r * E8)))))))
    return series * POWERS[int(n) + 64]


@exact
def stretch(p: Any) -> Any:
    """log(p / (1 - p)), of what is not nearer to 0 and 1 than a millionth."""
    p = min(max(p, LEAST), 1 - LEAST)
    return log(p / (1 - p))


@exact
def squash(x: Any) -> Any:
    """1 / (1 + e^-x)."""
    return 1 / (1 + exp(-min(max(x, -MOST), MOST)))
