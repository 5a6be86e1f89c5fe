"""Which unit hears which: a graph j -> i as a table of sources, one row a unit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


class Graph:
    """Edges j -> i between `units` units; `sources[i]` lists the j of unit i, padded with `units` (a silent one)."""

    def __init__(self, edges: Any, units: int):
        pairs = _pairs(edges, units)
        counts = np.bincount(pairs[:, 1], minlength=units)
        self.units = units
        self.edges = len(pairs)
        self.degree = int(counts.max(initial=0))
        self.sources = np.full((units, self.degree), units, np.int32)
        slot = np.arange(len(pairs)) - np.repeat(np.cumsum(counts) - counts, counts)
        self.sources[pairs[:, 1], slot] = pairs[:, 0]
        self._key = (units, self.sources.tobytes())

    def gather(self, activity: Float[Array, " units"]) -> Float[Array, "units degree"]:
        """What each unit hears: 0 in the padded slots, so that they never learn."""
        return jnp.append(activity, jnp.zeros(1, activity.dtype))[self.sources]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Graph) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"Graph(units={self.units}, edges={self.edges})"

    def pairs(self) -> list[tuple[int, int]]:
        """The edges (j, i), by i then j."""
        return [(int(j), i) for i, row in enumerate(self.sources) for j in row if j < self.units]


def _pairs(edges: Iterable[tuple[int, int]] | np.ndarray, units: int) -> np.ndarray:
    """Sorted, distinct (j, i) from a list of edges or from a boolean matrix A[j, i]."""
    array = np.asarray(list(edges) if not isinstance(edges, np.ndarray) else edges)
    if array.dtype == bool:
        if array.shape != (units, units):
            raise ValueError(f"graph: an adjacency matrix must be {units} x {units}, not {array.shape}")
        array = np.argwhere(array)
    if array.size == 0:
        return np.zeros((0, 2), np.int64)
    if array.ndim != 2 or array.shape[1] != 2 or array.dtype.kind not in "iu":
        raise ValueError(
            f"graph: expected edges (j, i) of integers, got an array of shape {array.shape} and type {array.dtype}"
        )
    bad = ((array < 0) | (array >= units)).any(axis=1)
    if bad.any():
        index = int(np.argmax(bad))
        raise ValueError(f"graph: edge {index} is {tuple(array[index].tolist())}, but the units are 0..{units - 1}")
    return np.unique(array[:, ::-1], axis=0)[:, ::-1]
