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
from ..norms import InvariantNorms, MetricNorms, Norms, Ruler
from ..protocol import Metric, Params, Point, Tree, flat
from ..systems.substeps import Whole
from .blocks import Blocks, carried, no_blocks, pulled, step_of
from .nobacktrack import each, mix


class Crossings(NamedTuple):
    """What units did to others in the last steps, newest first: sum_i (J .. J M e_i) Y_i^T, with Y the blocks before
    the step, M its Jacobian without what units do to themselves, and J those of the steps since.
    """

    blocks: Float[Array, "lag components units gates fan"]
    off: Float[Array, "lag n n"]
    jacobians: Float[Array, "lag n n"]

    def pushed_on(self, blocks: Blocks, off: Array, jacobian: Array) -> Crossings:
        """With those of one more step, the oldest being left out."""
        return Crossings(
            *(jnp.concatenate([new[None], old[:-1]]) for new, old in zip((blocks, off, jacobian), self, strict=True))
        )

    def pull(self, substep: Whole, dl_dh: Float[Array, " n"]) -> Array:
        """sum over the last steps of (H J .. J M) Y."""
        pulls = [dl_dh]
        for jacobian in self.jacobians[:-1]:
            pulls.append(pulls[-1] @ jacobian)
        through = jnp.einsum("ln,lnm->lm", jnp.stack(pulls), self.off)
        own = jax.vmap(substep.pick)(through).astype(self.blocks.dtype)
        return jnp.einsum("lcu,lcugk->ugk", own, self.blocks)

    def oldest(self, v: Float[Array, " n"]) -> Float[Array, " n"]:
        """J .. J M v, for the step that is merged next."""
        v = self.off[-1] @ v
        for jacobian in self.jacobians[:-1][::-1]:
            v = jacobian @ v
        return v


class BlocksPlus(NamedTuple):
    """G~ = sum_i e_i Z_i^T, what units do to themselves, + what they did to others in the last steps + (1/K) sum_k v_k
    w_k^T, the rest.
    """

    blocks: Blocks
    crossings: Crossings
    v: Float[Array, "rank n"]
    w: Float[Array, "rank units gates fan"]
    memory: Tree = ()  # what the norms remember


@configuration
class DiagonalPlusRankOne:
    """The blocks of SnAp-1, and what they drop merged into K random outer products. Unbiased; time and memory
    O((K + lag) (dim theta + n^2)).

    With J = df/dh, D the blocks that units have with themselves and M = J - D, one more step of the influence is the
    sum of D Z + df/dtheta, of the terms (J v_k) w_k^T, and of sum_i (M e_i) Z_i^T. The last one is kept as it is for
    `lag` steps, in which gradients are read without noise of it, and then merged into v and w with signs.
    """

    rank: int = static(default=1)
    lag: int = static(default=1)
    norms: Norms = MetricNorms()

    def __post_init__(self) -> None:
        set_field(self, "rank", at_least("rank", self.rank, 1))
        set_field(self, "lag", at_least("lag", self.lag, 1))
        if isinstance(self.norms, InvariantNorms):
            raise ValueError("norms: Appendix B needs the terms of the estimate whole; use ForesightNorms() here")

    def init(self, system: Any, at: Point) -> BlocksPlus:
        h, theta = flat(at.h), at.params.theta
        blocks = no_blocks(system, at, "DiagonalPlusRankOne")
        off = jnp.zeros((self.lag, h.size, h.size), h.dtype)
        crossings = Crossings(jnp.zeros((self.lag, *blocks.shape), blocks.dtype), off, off)
        v, w = jnp.zeros((self.rank, h.size), h.dtype), jnp.zeros((self.rank, *theta.shape), theta.dtype)
        return BlocksPlus(blocks, crossings, v, w, self.norms.init(h))

    def forget(self, influence: BlocksPlus) -> BlocksPlus:
        nothing = jax.tree.map(jnp.zeros_like, influence)
        return nothing._replace(memory=self.norms.forget(influence.memory))

    def observe(
        self, system: Any, influence: BlocksPlus, params: Params, dl_dh: Float[Array, " n"]
    ) -> tuple[BlocksPlus, Tree, bool]:
        """dl/dtheta = sum_i H_i Z_i + what came from other units in the last steps + (1/K) sum_k (H v_k) w_k."""
        substep = system.substeps[0]
        own = pulled(influence.blocks, substep, dl_dh) + influence.crossings.pull(substep, dl_dh)
        gradient = own + mix(influence.v @ dl_dh / self.rank, influence.w)
        return influence._replace(memory=self.norms.observe(influence.memory, dl_dh)), gradient, True

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
        off = _off(loops, substep)
        crossings = influence.crossings.pushed_on(influence.blocks, off, off + _own(loops))
        blocks = carried(influence.blocks, loops.own, rows)
        memory = self.norms.carry(influence.memory, substep, following, metric)
        return BlocksPlus(blocks, crossings, jax.vmap(following.push)(v), w, memory), following.h

    def reduce(
        self, substep: Whole, influence: BlocksPlus, signs: Int8[Array, "rank n"], metric: Metric
    ) -> tuple[Array, Array]:
        """v <- rho v + r J .. J M (eps rho_i),  w <- w / rho + sum_i eps_i Y_i / (r rho_i), rho_i^2 = |Y_i| / |M e_i|.

        r balances the two sums: it is the same for eps and -eps, so that no bias comes in.
        """
        ruler = self.norms.ruler(influence.memory, influence, substep, metric)
        blocks, off = influence.crossings.blocks[-1], influence.crossings.off[-1]
        columns = ruler._replace(matrix=None).state_norms(off.T)  # by the diagonal alone: O(n^2)
        rho_i, inverse_i = self.norms.scales(_lengths(blocks, substep, ruler.metric), substep.pick(columns))
        eps = jax.vmap(substep.pick)(signs.astype(influence.v.dtype))
        new_v = jax.vmap(lambda one: influence.crossings.oldest(substep.spread(one * rho_i)))(eps)
        new_w = jnp.einsum("kdu,dugf->kugf", eps * inverse_i[None], blocks)
        v, w = self._balanced(ruler, influence.v, influence.w)
        new_v, new_w = self._balanced(ruler, new_v, new_w)
        return v + new_v, w + new_w

    def _balanced(self, ruler: Ruler, v: Array, w: Array) -> tuple[Array, Array]:
        """rho v, w / rho."""
        rho, inverse = self.norms.scales(ruler.form_norms(w).astype(v.dtype), ruler.state_norms(v))
        return rho[:, None] * v, each(inverse, w)


def _own(loops: Loops) -> Float[Array, "n n"]:
    """D, as a matrix."""
    components, _, units = loops.own.shape
    dense = jnp.einsum("cdu,uj->cudj", loops.own, jnp.eye(units, dtype=loops.own.dtype))
    return dense.reshape(components * units, -1)


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
