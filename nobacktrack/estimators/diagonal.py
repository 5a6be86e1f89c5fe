"""Diagonal plus rank one: each unit's influence on itself exactly, the rest as random outer products [NBT, section
1.4, in a comment of its source].
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int8, Int32

from .. import counter
from ..configuration import at_least, configuration, expect_part, set_field, static
from ..influence.belief import Belief, Parts, Unbiased, each
from ..influence.immediate import Loops
from ..influence.norms import InvariantNorms, MetricNorms, Norms, norm
from ..protocol import Metric, Params, Point, Tree, flat
from ..registry import register
from ..systems.substeps import SingleCell
from .blocks import Blocks, carry_on, no_blocks, pull_blocks, step_of, weigh_blocks


@register
class Crossings(NamedTuple):
    """What units did to others in the last steps: sum_j (J .. J M e_j) Y_j^T, with Y_j what the parameters of unit j
    did to its activity, M the weights from activities to other units, and J the Jacobians of the steps since. J is D +
    M A, D what units do to themselves and A what their components do to their activity.
    """

    blocks: Float[Array, "lag units gates fan"]
    off: Float[Array, "lag n units"]
    own: Float[Array, "lag components components units"]
    through: Float[Array, "lag components units"]
    head: Int32[Array, ""]  # the slot of the newest, in a ring

    def pushed_on(self, blocks: Array, off: Array, loops: Loops) -> Crossings:
        """With those of one more step, in the place of the oldest."""
        head = self._slot(-1)
        newest = blocks, off, loops.own, loops.through
        put = [ring.at[head].set(new) for ring, new in zip(self[:4], newest, strict=True)]
        return Crossings(put[0], put[1], put[2], put[3], head)

    def pull(self, dl_dh: Float[Array, " n"]) -> Float[Array, "units gates fan"]:
        """sum over the last steps of (H J .. J M) Y."""
        total = jnp.zeros_like(self.blocks[0])
        for age in range(len(self.off)):
            slot = self._slot(age)
            across = dl_dh @ self.off[slot]  # a product of its own: XLA would make a sum anew for each parameter
            total = total + across.astype(total.dtype)[:, None, None] * self.blocks[slot]
            kept = jnp.sum(self.own[slot] * dl_dh.reshape(-1, 1, len(across)), axis=0)
            dl_dh = (kept + self.through[slot] * across[None]).reshape(-1)
        return total

    def oldest(self, v: Float[Array, " units"]) -> Float[Array, " n"]:
        """J .. J M v, for the step that is merged next."""
        units, v = len(v), self.off[self._slot(-1)] @ v
        for age in range(len(self.off) - 2, -1, -1):
            slot, parts = self._slot(age), v.reshape(-1, units)
            kept = jnp.sum(self.own[slot] * parts[None], axis=1).reshape(-1)
            v = kept + self.off[slot] @ jnp.sum(self.through[slot] * parts, axis=0)
        return v

    def oldest_terms(self) -> tuple[Array, Array]:
        """Y and M of the step that is merged next."""
        return self.blocks[self._slot(-1)], self.off[self._slot(-1)]

    def _slot(self, age: int) -> Array:
        """Of the step so many steps before the newest; -1 is the oldest, and the place of the next."""
        return (self.head - age) % len(self.off)


@register
class BlocksPlus(NamedTuple):
    """G~ = sum_i e_i Z_i^T, what units do to themselves, + what they did to others in the last steps + (1/K) sum_k v_k
    w_k^T, the rest.
    """

    blocks: Blocks
    crossings: Crossings
    v: Float[Array, "rank n"]
    w: Float[Array, "rank units gates fan"]
    memory: Tree = ()  # what the norms remember
    belief: Tree = ()


@configuration
class DiagonalPlusRankOne:
    """The blocks of SnAp-1, and what they drop merged into K random outer products. Unbiased, unless another `belief`
    is given, which weighs these; time and memory O((K + lag) (dim theta + n^2)).

    With J = df/dh and D the blocks that units have with themselves, one more step of the influence is the sum of
    D Z + df/dtheta, of the terms (J v_k) w_k^T, and of what units do to others, one product a unit. The last ones are
    kept as they are for `lag` steps, in which gradients are read without noise of them, and then merged into v and w
    with signs.
    """

    rank: int = static(default=1)
    lag: int = static(default=1)
    norms: Norms = MetricNorms()
    belief: Belief = Unbiased()

    def __post_init__(self) -> None:
        expect_part(self.belief, "belief", "weigh", "a rule such as nbt.Caution()")
        set_field(self, "rank", at_least("rank", self.rank, 1))
        set_field(self, "lag", at_least("lag", self.lag, 1))
        if isinstance(self.norms, InvariantNorms):
            raise ValueError("norms: Appendix B needs the terms of the estimate whole; use ForesightNorms() here")

    def init(self, system: Any, at: Point) -> BlocksPlus:
        h, theta = flat(at.h), at.params.theta
        blocks = no_blocks(system, at, "DiagonalPlusRankOne")
        components, units = blocks.shape[:2]
        crossings = Crossings(
            jnp.zeros((self.lag, *blocks.shape[1:]), blocks.dtype),
            jnp.zeros((self.lag, h.size, units), h.dtype),
            jnp.zeros((self.lag, components, components, units), h.dtype),
            jnp.zeros((self.lag, components, units), h.dtype),
            jnp.zeros((), jnp.int32),
        )
        v, w = jnp.zeros((self.rank, h.size), h.dtype), jnp.zeros((self.rank, *theta.shape), theta.dtype)
        return BlocksPlus(blocks, crossings, v, w, self.norms.init(h), self.belief.init(theta, self.rank))

    def forget(self, influence: BlocksPlus) -> BlocksPlus:
        nothing = jax.tree.map(jnp.zeros_like, influence)
        return nothing._replace(memory=self.norms.forget(influence.memory), belief=influence.belief)

    def observe(
        self, system: Any, influence: BlocksPlus, params: Params, dl_dh: Float[Array, " n"], metric: Metric
    ) -> tuple[BlocksPlus, Tree, bool]:
        """dl/dtheta = sum_i H_i Z_i + what came from other units in the last steps + (1/K) sum_k (H v_k) w_k."""
        substep = system.substeps[0]
        own = pull_blocks(influence.blocks, substep, dl_dh) + influence.crossings.pull(dl_dh)
        parts = Parts(own, influence.v @ dl_dh, influence.w)
        belief, gradient = self.belief.weigh(influence.belief, parts, metric)
        memory = self.norms.observe(influence.memory, dl_dh)
        return influence._replace(memory=memory, belief=belief), gradient, True

    def noise(self, influence: BlocksPlus) -> Any:
        return self.belief.noise(influence.belief)

    def draw(self, system: Any, h: Tree, key: Array, t: Array) -> tuple[Int8[Array, "rank units"], ...]:
        """The signs eps, for each of the K terms and each unit."""
        return (counter.signs(key, t, (self.rank, system.units)),)

    def advance(
        self, system: Any, influence: BlocksPlus, at: Point, metric: Metric, signs: Any
    ) -> tuple[BlocksPlus, Tree]:
        """Reduction of what units did to others, then v <- J v, Z <- D Z + df/dtheta, and a new M."""
        substep, following, rows = step_of(system, at, "DiagonalPlusRankOne")
        v, w = self.reduce(substep, influence, signs[0], metric)
        loops = following.loops()
        off = _off(loops, substep)
        active = weigh_blocks(loops.through, influence.blocks)
        crossings = influence.crossings.pushed_on(active, off, loops)
        blocks = carry_on(influence.blocks, loops.own, rows)
        memory = self.norms.carry(influence.memory, substep, following, metric)
        v = jax.vmap(following.push)(v)
        return BlocksPlus(blocks, crossings, v, w, memory, influence.belief), following.h

    def reduce(
        self, substep: SingleCell, influence: BlocksPlus, signs: Int8[Array, "rank units"], metric: Metric
    ) -> tuple[Array, Array]:
        """v <- rho v + r J .. J M (eps rho_j),  w <- w / rho + sum_j eps_j Y_j / (r rho_j), rho_j^2 = |Y_j| / |M e_j|.

        r balances the two sums: it is the same for eps and -eps, so that no bias comes in.
        """
        ruler = self.norms.ruler(influence.memory, influence, substep, metric)
        blocks, off = influence.crossings.oldest_terms()
        lengths = jnp.sqrt(jnp.sum(ruler.metric.row_norm2(blocks, substep.rows), axis=-1))
        columns = ruler._replace(matrix=None).state_norms(off.T)  # by the diagonal alone: O(n^2)
        rho_j, inverse_j = self.norms.scales(lengths.astype(off.dtype), columns)
        eps = signs.astype(influence.v.dtype)
        new_v = jnp.stack([influence.crossings.oldest(one * rho_j) for one in eps])
        new_w = (eps * inverse_j[None]).astype(blocks.dtype)[:, :, None, None] * blocks[None]
        size = jnp.broadcast_to(norm(inverse_j * lengths), (self.rank,))  # units share no parameter, so squares add
        rho, inverse = self.norms.scales(
            ruler.form_norms(influence.w).astype(off.dtype), ruler.state_norms(influence.v)
        )
        r, over_r = self.norms.scales(size.astype(off.dtype), ruler.state_norms(new_v))
        v = rho[:, None] * influence.v + r[:, None] * new_v
        return v, each(inverse, influence.w) + each(over_r, new_w)


def _off(loops: Loops, substep: SingleCell) -> Float[Array, "n units"]:
    """M: the effective weights from the activity of a unit to the others."""
    cell = substep.cell
    components, units = loops.through.shape
    if not cell.degree:
        return jnp.zeros((components * units, units), loops.through.dtype)
    if cell.graph is None:
        across = loops.across
    else:
        places = np.arange(units)[:, None], cell.graph.sources
        across = jnp.zeros((components, units, units), loops.across.dtype).at[:, *places].add(loops.across)
    others = 1 - jnp.eye(units, dtype=across.dtype)
    return (across * others[None]).reshape(components * units, units)
