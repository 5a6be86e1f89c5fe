"""Real-time recurrent learning: the influence whole, and exact."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..configuration import configuration
from ..influence.immediate import linearise
from ..protocol import Metric, Params, Point, Tree, flat


@configuration
class RTRL:
    """G' = df/dh G + df/dtheta [NBT, eq. 4]. Exact; time O(n^2 dim theta), memory O(n dim theta)."""

    def init(self, system: Any, at: Point) -> Tree:
        n = flat(at.h).size
        return jax.tree.map(lambda leaf: jnp.zeros((n, *leaf.shape), leaf.dtype), at.params.theta)

    def forget(self, influence: Tree) -> Tree:
        return jax.tree.map(jnp.zeros_like, influence)

    def observe(
        self, system: Any, influence: Tree, params: Params, dl_dh: Float[Array, " n"], metric: Metric
    ) -> tuple[Tree, Tree, bool]:
        """dl/dtheta = dl/dh G [NBT, eq. 6]."""
        return influence, jax.tree.map(lambda g: jnp.tensordot(dl_dh.astype(g.dtype), g, axes=1), influence), True

    def draw(self, system: Any, h: Tree, key: Array, t: Array) -> tuple[()]:
        return ()

    def advance(self, system: Any, influence: Tree, at: Point, metric: Metric, draws: Any) -> tuple[Tree, Tree]:
        for substep in system.substeps:
            following = linearise(substep, at)
            n, dtype = flat(at.h).size, flat(at.h).dtype
            df_dh = jax.vmap(following.push, out_axes=1)(jnp.eye(n, dtype=dtype))
            pushed = jax.tree.map(lambda g, df_dh=df_dh: jnp.tensordot(df_dh.astype(g.dtype), g, axes=1), influence)
            influence, at = following.rows.add(substep, pushed), at._replace(h=following.h)
        return influence, at.h
