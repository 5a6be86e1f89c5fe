"""Metrics in which parameters move, and in which the scales of a reduction measure w."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..protocol import Tree


class Euclidean(NamedTuple):
    """|w|^2 = sum of squares."""

    def norm2(self, w: Tree) -> Float[Array, ""]:
        return jax.tree.reduce(jnp.add, jax.tree.map(lambda leaf: jnp.sum(leaf**2), w))

    def row_norm2(self, u: Float[Array, "*units fan"]) -> Float[Array, "units gates"]:
        return jnp.sum(u**2, axis=-1).reshape(-1, 1)
