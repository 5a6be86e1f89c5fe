"""Diagonal plus rank one: each unit's influence on itself exactly, the rest as random outer products [NBT, section
1.4, in a comment of its source].
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int8

from .. import draws
from ..configuration import at_least, configuration, set_field, static
from ..immediate import Loops
from ..norms import EuclideanNorms, MetricNorms, Norms, Unscaled, norm
from ..protocol import Metric, Params, Point, Tree, flat
from ..systems.substeps import Whole
from .blocks import Blocks, carried, no_blocks, pulled, step_of
from .nobacktrack import each, mix


class BlocksPlus(NamedTuple):
    """G~ = sum_u E_u Z_u + (1/K) sum_k v_k w_k^T, E_u putting the components of unit u in their place."""

    blocks: Blocks
    v: Float[Array, "rank n"]
    w: Float[Array, "rank units gates fan"]


@configuration
class DiagonalPlusRankOne:
    """The blocks of SnAp-1, and what they drop merged into K random outer products. Unbiased; time and memory
    O(K dim theta).

    With D the blocks of J = df/dh that a unit has with itself, J G~ + df/dtheta is the sum of (D Z + df/dtheta), of the
    terms (J v_k) w_k^T, and of sum_i ((J - D) e_i) Z_i^T, a term for each component of the state: these are reduced
    into v and w with signs, right after the transition.
    """

    rank: int = static(default=1)
    norms: Norms = MetricNorms()

    def __post_init__(self) -> None:
        set_field(self, "rank", at_least("rank", self.rank, 1))
        if not isinstance(self.norms, (MetricNorms, EuclideanNorms, Unscaled)):
            raise ValueError(f"norms: metric, Euclidean or none, not {self.norms!r}")

    def init(self, system: Any, at: Point) -> BlocksPlus:
        v = jnp.zeros((self.rank, flat(at.h).size), flat(at.h).dtype)
        w = jnp.zeros((self.rank, *at.params.theta.shape), at.params.theta.dtype)
        return BlocksPlus(no_blocks(system, at, "DiagonalPlusRankOne"), v, w)

    def forget(self, influence: BlocksPlus) -> BlocksPlus:
        return jax.tree.map(jnp.zeros_like, influence)

    def observe(
        self, system: Any, influence: BlocksPlus, params: Params, dl_dh: Float[Array, " n"]
    ) -> tuple[BlocksPlus, Tree, bool]:
        """dl/dtheta = sum_u H_u Z_u + (1/K) sum_k (H v_k) w_k."""
        along = influence.v @ dl_dh / self.rank
        return influence, pulled(influence.blocks, system.substeps[0], dl_dh) + mix(along, influence.w), True

    def draw(self, system: Any, h: Tree, key: Array, t: Array) -> tuple[Int8[Array, "rank n"], ...]:
        """The signs eps, for each of the K terms and each component of the state."""
        return (draws.signs(key, t, (self.rank, flat(h).size)),)

    def advance(
        self, system: Any, influence: BlocksPlus, at: Point, metric: Metric, signs: Any
    ) -> tuple[BlocksPlus, Tree]:
        """v <- rho J v + (J - D) (eps rho_i),  w <- w / rho + sum_i eps_i Z_i / rho_i,  Z <- D Z + df/dtheta."""
        substep, following, rows = step_of(system, at, "DiagonalPlusRankOne")
        loops = following.loops()
        ruler = self.norms.ruler((), influence, substep, metric)
        lengths = _lengths(influence.blocks, substep, ruler.metric)
        rho_i, inverse_i = self.norms.scales(lengths, _columns(loops, substep))
        pushed = jax.vmap(following.push)(influence.v)
        rho, inverse = self.norms.scales(ruler.form_norms(influence.w).astype(pushed.dtype), norm(pushed))

        def reduced(eps: Array) -> tuple[Array, Array]:
            signed = eps.reshape(lengths.shape).astype(lengths.dtype)
            thrown = signed * rho_i
            stayed = jnp.einsum("cdu,du->cu", loops.own, thrown)
            merged = jnp.einsum("du,dugk->ugk", signed * inverse_i, influence.blocks)
            return following.push(substep.spread(thrown)) - substep.spread(stayed), merged

        off_v, off_w = jax.vmap(reduced)(signs[0])
        v, w = rho[:, None] * pushed + off_v, each(inverse, influence.w) + off_w
        return BlocksPlus(carried(influence.blocks, loops.own, rows), v, w), following.h


def _lengths(blocks: Blocks, substep: Whole, metric: Metric) -> Float[Array, "components units"]:
    """|Z_i| in the metric, for each component of each unit."""
    squares = jax.vmap(lambda one: jnp.sum(metric.row_norm2(one, substep.rows), axis=-1))(blocks)
    return jnp.sqrt(squares)


def _columns(loops: Loops, substep: Whole) -> Float[Array, "components units"]:
    """|(J - D) e_i|: the effective weights from a unit to the others, times its activity's derivative."""
    cell = substep.cell
    squares = jnp.sum(loops.across**2, axis=0)
    if not cell.degree:
        return jnp.zeros_like(loops.through)
    if cell.graph is None:
        others = jnp.sum(squares * (1 - jnp.eye(cell.units, dtype=squares.dtype)), axis=0)
    else:
        apart = jnp.asarray(cell.graph.sources != np.arange(cell.units)[:, None], squares.dtype)
        others = jax.linear_transpose(cell.hear, loops.through[0])(squares * apart)[0]
    return jnp.abs(loops.through) * jnp.sqrt(others)[None, :]
