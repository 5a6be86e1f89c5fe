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
    """G~ = sum_i e_i Z_i^T + sum_i (M e_i) Y_i^T + (1/K) sum_k v_k w_k^T: what units do to themselves, what they did to
    others in the last step (Y is Z before it), and the rest.
    """

    blocks: Blocks
    before: Blocks
    off: Float[Array, "n n"]
    v: Float[Array, "rank n"]
    w: Float[Array, "rank units gates fan"]


@configuration
class DiagonalPlusRankOne:
    """The blocks of SnAp-1, and what they drop merged into K random outer products. Unbiased; time and memory
    O(K dim theta + n^2).

    With J = df/dh, D the blocks that units have with themselves and M = J - D, one more step of the influence is the
    sum of D Z + df/dtheta, of the terms (J v_k) w_k^T, and of sum_i (M e_i) Z_i^T. The last one is kept as it is until
    the next step, so that a gradient is read before it is reduced, and then merged into v and w with signs.
    """

    rank: int = static(default=1)
    norms: Norms = MetricNorms()

    def __post_init__(self) -> None:
        set_field(self, "rank", at_least("rank", self.rank, 1))
        if not isinstance(self.norms, (MetricNorms, EuclideanNorms, Unscaled)):
            raise ValueError(f"norms: metric, Euclidean or none, not {self.norms!r}")

    def init(self, system: Any, at: Point) -> BlocksPlus:
        n, dtype, theta = flat(at.h).size, flat(at.h).dtype, at.params.theta
        blocks = no_blocks(system, at, "DiagonalPlusRankOne")
        w = jnp.zeros((self.rank, *theta.shape), theta.dtype)
        return BlocksPlus(blocks, blocks, jnp.zeros((n, n), dtype), jnp.zeros((self.rank, n), dtype), w)

    def forget(self, influence: BlocksPlus) -> BlocksPlus:
        return jax.tree.map(jnp.zeros_like, influence)

    def observe(
        self, system: Any, influence: BlocksPlus, params: Params, dl_dh: Float[Array, " n"]
    ) -> tuple[BlocksPlus, Tree, bool]:
        """dl/dtheta = sum_i H_i Z_i + sum_i (H M)_i Y_i + (1/K) sum_k (H v_k) w_k."""
        substep = system.substeps[0]
        own = pulled(influence.blocks, substep, dl_dh) + pulled(influence.before, substep, dl_dh @ influence.off)
        return influence, own + mix(influence.v @ dl_dh / self.rank, influence.w), True

    def draw(self, system: Any, h: Tree, key: Array, t: Array) -> tuple[Int8[Array, "rank n"], ...]:
        """The signs eps, for each of the K terms and each component of the state."""
        return (draws.signs(key, t, (self.rank, flat(h).size)),)

    def advance(
        self, system: Any, influence: BlocksPlus, at: Point, metric: Metric, signs: Any
    ) -> tuple[BlocksPlus, Tree]:
        """Reduction of what units did to others, then v <- J v, Z <- D Z + df/dtheta, and a new M."""
        substep, following, rows = step_of(system, at, "DiagonalPlusRankOne")
        v, w = self.reduce(substep, influence, signs[0], metric)
        loops = following.loops()
        blocks = carried(influence.blocks, loops.own, rows)
        moved = BlocksPlus(blocks, influence.blocks, _off(loops, substep), jax.vmap(following.push)(v), w)
        return moved, following.h

    def reduce(
        self, substep: Whole, influence: BlocksPlus, signs: Int8[Array, "rank n"], metric: Metric
    ) -> tuple[Array, Array]:
        """v <- rho v + M (eps rho_i),  w <- w / rho + sum_i eps_i Y_i / rho_i, with rho_i^2 = |Y_i| / |M e_i|."""
        ruler = self.norms.ruler((), influence, substep, metric)
        lengths = _lengths(influence.before, substep, ruler.metric)
        columns = substep.pick(norm(influence.off.T))
        rho_i, inverse_i = self.norms.scales(lengths, columns)
        sizes = ruler.form_norms(influence.w).astype(influence.v.dtype)
        rho, inverse = self.norms.scales(sizes, norm(influence.v))
        eps = jax.vmap(substep.pick)(signs.astype(influence.v.dtype))
        off_v = jax.vmap(lambda one: influence.off @ substep.spread(one * rho_i))(eps)
        off_w = jnp.einsum("kdu,dugf->kugf", eps * inverse_i[None], influence.before)
        return rho[:, None] * influence.v + off_v, each(inverse, influence.w) + off_w


def _lengths(blocks: Blocks, substep: Whole, metric: Metric) -> Float[Array, "components units"]:
    """|Y_i| in the metric, for each component of each unit."""
    squares = jax.vmap(lambda one: jnp.sum(metric.row_norm2(one, substep.rows), axis=-1))(blocks)
    return jnp.sqrt(squares)


def _off(loops: Loops, substep: Whole) -> Float[Array, "n n"]:
    """M = J - D: the effective weights from a unit to the others, times the derivative of its activity."""
    cell = substep.cell
    components, units = loops.through.shape
    if not cell.degree:
        return jnp.zeros((components * units,) * 2, loops.through.dtype)
    sources = np.broadcast_to(np.arange(units), (units, units)) if cell.graph is None else cell.graph.sources
    hears = (sources[:, :, None] == np.arange(units)) & (np.arange(units)[:, None, None] != np.arange(units))
    across = jnp.einsum("cuk,ukj->cuj", loops.across, jnp.asarray(hears, loops.across.dtype))
    return jnp.einsum("cuj,dj->cudj", across, loops.through).reshape(components * units, -1)
