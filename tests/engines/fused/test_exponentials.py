"""exp and tanh of our own beside those of numpy with more digits."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest

from nobacktrack.compiled import OPTIONS
from nobacktrack.engines.fused.kernels import exponentials

TRUE = {
    "exp": np.exp,
    "expm1": np.expm1,
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}
njit: Any = numba.njit


def of_all(name: str) -> Any:
    """The function on arrays, compiled as in a loop."""
    function = getattr(exponentials, name)

    @njit(**{key: value for key, value in OPTIONS.items() if key != "_nrt"})
    def fill(x: Any, y: Any) -> None:
        for i in range(x.size):
            y[i] = function(x[i])

    def apply(x: np.ndarray) -> np.ndarray:
        y = np.zeros_like(x)
        fill(x, y)
        return y

    return apply


@pytest.mark.parametrize("name", TRUE)
def test_they_are_within_three_rounding_errors(name):
    function = of_all(name)
    for dtype, far in ((np.float32, 80.0), (np.float64, 700.0)):
        normal = np.random.default_rng(0).normal(size=20_000)
        x = np.clip(np.concatenate([normal * scale for scale in (1e-6, 1e-2, 1, 20, 200)]), -far, far).astype(dtype)
        true = TRUE[name](x.astype(np.longdouble))
        errors = np.abs(function(x) - true) / np.abs(true) / np.finfo(dtype).eps
        assert errors.max() < 3


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_no_number_stays_so_and_ends_are_kept(dtype):
    x = np.array([np.nan, np.inf, -np.inf, 0.0], dtype)
    np.testing.assert_array_equal(of_all("sigmoid")(x)[[0, 1, 3]], [np.nan, 1, 0.5])
    np.testing.assert_array_equal(of_all("tanh")(x), [np.nan, 1, -1, 0])
    np.testing.assert_array_equal(of_all("exp")(x), [np.nan, np.inf, 0, 1])
    np.testing.assert_array_equal(of_all("expm1")(np.array([-1e30, 1e30], dtype)), [-1, np.inf])
