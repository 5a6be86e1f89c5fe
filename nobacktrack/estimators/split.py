"""NoBackTrack with the parameters split in blocks, a direction for each [NBT, section 1.4]."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int8

from ..configuration import at_least, configuration, set_field, static
from ..influence.immediate import no_rows
from ..influence.norms import InvariantNorms, MetricNorms, Norms
from ..protocol import Metric, Params, Point, Tree, flat
from .nobacktrack import Influence, forget_influence, reduce_and_advance, signs_of


@configuration
class SplitNoBackTrack:
    """G~ = sum_k v_k w_k^T + sum_i e_i w_i^T, w_k in block k of the parameters. Unbiased; time O(K dim theta), memory
    O(dim theta + K n).

    The blocks share no parameter, so all w_k together take one copy of theta. Parameters go to the blocks by turns
    along the first axis of each array (the units, for a network).
    """

    blocks: int = static(default=2)
    norms: Norms = MetricNorms()

    def __post_init__(self) -> None:
        set_field(self, "blocks", at_least("blocks", self.blocks, 1))
        if isinstance(self.norms, InvariantNorms):
            raise ValueError(
                "norms: Appendix B needs the terms of the estimate whole; use ForesightNorms() with blocks"
            )

    def init(self, system: Any, at: Point) -> Influence:
        self.norms.expect_system(system)
        v = jnp.zeros((self.blocks, flat(at.h).size), flat(at.h).dtype)
        w = jax.tree.map(jnp.zeros_like, at.params.theta)
        return Influence(v, w, no_rows(system.substeps[-1], at), self.norms.init(flat(at.h)))

    def forget(self, influence: Influence) -> Influence:
        return forget_influence(influence, self.norms)

    def observe(
        self, system: Any, influence: Influence, params: Params, dl_dh: Float[Array, " n"], metric: Metric
    ) -> tuple[Influence, Tree, bool]:
        """dl/dtheta = sum_k (H v_k) w_k + sum_i H_i w_i."""
        along = influence.v @ dl_dh
        immediate = influence.rows.pull(system.substeps[-1], dl_dh)
        factors = jax.tree.map(lambda block: along[block], self._blocks(influence.w))
        gradient = jax.tree.map(lambda f, w, row: f.astype(w.dtype) * w + row, factors, influence.w, immediate)
        return influence._replace(memory=self.norms.observe(influence.memory, dl_dh)), gradient, True

    def draw(self, system: Any, h: Tree, key: Array, t: Array) -> tuple[Int8[Array, "blocks n"], ...]:
        """Signs of its own for each block."""
        return signs_of(system, self.blocks, h, key, t)

    def advance(
        self, system: Any, influence: Influence, at: Point, metric: Metric, signs: Any
    ) -> tuple[Influence, Tree]:
        """Reduction in each block, then transition, at each sub-step."""
        return reduce_and_advance(self, system, influence, at, metric, signs)

    def reduce(
        self, substep: Any, influence: Influence, signs: Int8[Array, "blocks n"], metric: Metric
    ) -> tuple[Array, Tree]:
        """The reduction step in each block, with the entries of w and of the rows that are its own."""
        ruler = self.norms.ruler(influence.memory, influence, substep, metric)

        def one(k: Array, v: Array, eps: Array) -> tuple[Array, Tree]:
            masks = self._masks(influence.w, k)
            rows_v, rows_w = influence.rows.restrict(substep, masks).reduce(substep, eps, self.norms, ruler)
            w = jax.tree.map(jnp.multiply, influence.w, masks)
            norm_w = ruler.form_norms(jax.tree.map(lambda leaf: leaf[None], w))[0].astype(v.dtype)
            rho, inverse = self.norms.scales(norm_w, ruler.state_norms(v[None])[0])
            return rho * v + rows_v, jax.tree.map(lambda w, row: inverse.astype(w.dtype) * w + row, w, rows_w)

        v, w = jax.vmap(one)(jnp.arange(self.blocks), influence.v, signs.astype(influence.v.dtype))
        return v, jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0), w)

    def _masks(self, tree: Tree, k: Array) -> Tree:
        """1 on the parameters of block k, 0 elsewhere, with axes of size 1 after the first."""
        return jax.tree.map(lambda leaf, block: (block == k).astype(leaf.dtype), tree, self._blocks(tree))

    def _blocks(self, tree: Tree) -> Tree:
        """The block of each parameter: by turns along the first axis, each array starting where the last one
        stopped.
        """
        leaves, structure = jax.tree.flatten(tree)
        lengths = [1 if leaf.ndim == 0 else len(leaf) for leaf in leaves]
        starts = np.cumsum([0, *lengths[:-1]])
        turns = [(np.arange(length) + start) % self.blocks for start, length in zip(starts, lengths, strict=True)]
        shapes = [() if leaf.ndim == 0 else (-1, *(1,) * (leaf.ndim - 1)) for leaf in leaves]
        return jax.tree.unflatten(structure, [turn.reshape(shape) for turn, shape in zip(turns, shapes, strict=True)])
