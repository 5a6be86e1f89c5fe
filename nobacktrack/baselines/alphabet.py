"""Symbols as a baseline takes them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..streams.text import symbols_of


def checked(symbols: Any, size: int) -> np.ndarray:
    """A vector of integers 0 .. size - 1; a ValueError that says what is wrong and where otherwise."""
    symbols = np.asarray(symbols)
    if symbols.ndim != 1 or symbols.dtype.kind not in "iu":
        raise ValueError(f"symbols: expected a vector of integers, got shape {symbols.shape} and type {symbols.dtype}")
    if not len(symbols):
        raise ValueError("symbols: there are none")
    bad = (symbols < 0) | (symbols >= size)
    if bad.any():
        index = int(np.argmax(bad))
        raise ValueError(f"symbols at index {index}: {symbols[index]} is not in 0 .. {size - 1}")
    return symbols


def numbered(data: Any) -> np.ndarray:
    """A text or bytes as symbols, in the order of the alphabet; symbols as they are."""
    if isinstance(data, (str, bytes)):
        return symbols_of(data if isinstance(data, str) else data.decode("latin-1"))[0]
    return checked(data, 2**31)
