"""Trees beside each other: the same bits, or close."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from ..protocol import Tree
from ..streams.items import Chunk, as_chunk, checked


def same_bits(one: Tree, other: Tree) -> bool:
    """Whether two trees are built alike and hold the same numbers of the same types, bit for bit."""
    if jax.tree.structure(one) != jax.tree.structure(other):
        return False
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(a.dtype == b.dtype and a.tobytes() == b.tobytes() for a, b in (map(np.asarray, pair) for pair in pairs))


def expect_close(found: Tree, wanted: Tree, tolerance: float, what: str) -> float:
    """The largest difference, relative to the largest number wanted in the same array."""
    error = 0.0
    for (path, a), b in zip(jax.tree_util.tree_leaves_with_path(found), jax.tree.leaves(wanted), strict=True):
        one, other = np.asarray(a, float), np.asarray(b, float)
        where = jax.tree_util.keystr(path)
        assert np.array_equal(np.isnan(one), np.isnan(other)), f"{what}: {where} is NaN on one side"
        one, other = np.nan_to_num(one), np.nan_to_num(other)
        here = float(np.max(np.abs(one - other), initial=0.0) / max(float(np.max(np.abs(other), initial=0.0)), 1e-300))
        assert here <= tolerance, f"{what}: {where} differs by {here:.3g} (relative), more than {tolerance:.3g}"
        error = max(error, here)
    return error


def chunk_of(learner: Any, stream: Any) -> Chunk:
    """A stream of arrays as one chunk that the learner can read."""
    chunk = as_chunk(stream)
    if chunk is None:
        raise ValueError("stream: the checks need arrays")
    return checked(chunk, learner.system)
