"""Numbers of 64 bits in a state, whose leaves have 32: each as two words."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np


def to_words(arrays: Iterable[np.ndarray]) -> np.ndarray:
    """All numbers, one array after the other."""
    return np.concatenate([array.ravel() for array in arrays]).view(np.uint32)


def from_words(words: np.ndarray, shapes: Iterable[tuple[int, ...]]) -> list[np.ndarray]:
    """The arrays again."""
    flat, at, arrays = np.array(words).view(np.float64), 0, []
    for shape in shapes:
        count = int(np.prod(shape))
        arrays.append(flat[at : at + count].reshape(shape).copy())
        at += count
    return arrays


def put_in_front(larger: Iterable[np.ndarray], known: Iterable[np.ndarray]) -> None:
    """What is known comes first in arrays that have grown."""
    for new, old in zip(larger, known, strict=True):
        new[tuple(slice(length) for length in old.shape)] = old
