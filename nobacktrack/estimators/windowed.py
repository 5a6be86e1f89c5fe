"""NoBackTrack over blocks: exact within a window, random only for what is older [UORO with memory T, in the
literature].
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int8, Int32

from .. import counter
from ..configuration import at_least, configuration, expect_part, set_field, static
from ..influence.belief import Belief, Caution, Parts, each, inner
from ..influence.norms import DemandNorms, EuclideanNorms, MetricNorms, Norms, Ruler, Unscaled
from ..protocol import AnySystem, Metric, Params, Point, Tree, flat
from ..registry import register
from .blocks import Blocks, Retention, carry_on, has_blocks, no_blocks, pull_blocks, steady, step_of, weigh_blocks
from .bptt import InBlocks, Window, backtrack, empty, pull_back, push_through

USUAL_BLOCK = 15


@register
class Tail(NamedTuple):
    """A window, and dh/dtheta = Z + (1/K) sum_k v_k w_k^T at its beginning; a block is the steps since theta moved."""

    window: Window
    gradient: Tree
    due: Bool[Array, ""]
    age: Int32[Array, ""]  # of the block
    v: Float[Array, "rank n"]
    w: Tree
    signs: Int8[Array, "rank n"]  # for the end of the block, which has no draws of its own
    demand: Tree  # what the norms remember
    belief: Tree
    own: Tree  # Z, what the parameters of each unit do to itself, where the system is a cell


@configuration
class BlockNoBackTrack(InBlocks):
    """The losses of the last `every` steps go back exactly through a window of `depth` steps, and meet what each unit
    did to itself before, Z, and K random outer products for the rest, at its beginning:
    dl/dtheta = (dl/dtheta, h_s held) + lambda Z + s (1/K) sum_k (lambda v_k) w_k, lambda = dl/dh_s.

    When theta moves, the oldest steps leave the window, h_{s'} = F(theta, h_s), and Z goes on unit by unit, to Z';
    what would grow without end there is held. What that leaves out, R = F_theta + F_h Z - Z', is merged with signs
    nu_k: v_k <- rho F_h v_k + rho' D nu_k, w_k <- w_k / rho + nu_k^T D^-1 R / rho', so that noise comes in once a
    block, for what is older than the window and went from unit to unit. Z is kept for recurrent cells, alone and of
    one layer; elsewhere it is zero.

    Unbiased with `belief=Unbiased()` where `every` = `depth` (all of a window has one theta); for less, derivatives of
    past steps are taken at the theta of now, a bias of the order of the rate, as in `SlidingBPTT`. Any other belief is
    biased, see there. Time O((depth/every + 2 K) dim theta) a step, memory O(K dim theta + depth n). Without `every`
    it is 15, or `depth` if that is less.
    """

    depth: int = static(default=60)
    every: int | None = static(default=None)
    rank: int = static(default=2)
    norms: Norms = DemandNorms()
    belief: Belief = Caution()

    def __post_init__(self) -> None:
        set_field(self, "depth", at_least("depth", self.depth, 1))
        set_field(self, "rank", at_least("rank", self.rank, 1))
        if self.every is not None:
            set_field(self, "every", at_least("every", self.every, 1))
        if self.block > self.depth:
            raise ValueError(f"every must be at most depth = {self.depth}, not {self.every}")
        expect_part(self.belief, "belief", "weigh", "a rule such as nbt.Caution()")
        if not isinstance(self.norms, DemandNorms | EuclideanNorms | MetricNorms | Unscaled):
            raise ValueError(f"norms: {self.norms} follows every step; nbt.DemandNorms() is for blocks")

    @property
    def block(self) -> int:
        """`every`; 15 where that is not given, or `depth` if it is less."""
        return self.every or min(USUAL_BLOCK, self.depth)

    def init(self, system: AnySystem, at: Point) -> Tail:
        theta, h = at.params.theta, flat(at.h)
        none, terms = jnp.zeros((), jnp.int32), (self.rank, h.size)
        return Tail(
            empty(self.depth, at),
            jax.tree.map(jnp.zeros_like, theta),
            jnp.zeros((), bool),
            none,
            jnp.zeros(terms, h.dtype),
            jax.tree.map(lambda leaf: jnp.zeros((self.rank, *leaf.shape), leaf.dtype), theta),
            jnp.ones(terms, jnp.int8),
            self.norms.init(h),
            self.belief.init(theta, self.rank),
            no_blocks(system, at, "BlockNoBackTrack") if has_blocks(system) else (),
        )

    def over(self, block: Tail) -> Bool[Array, ""]:
        return block.age == self.block

    def noise(self, influence: Tail) -> Any:
        return self.belief.noise(influence.belief)

    def draw(self, system: AnySystem, h: Tree, key: Array, t: Array) -> tuple[Int8[Array, "rank n"]]:
        """The signs nu."""
        return (counter.signs(key, t, (self.rank, flat(h).size)),)

    def advance(
        self, system: AnySystem, influence: Tail, at: Point, metric: Metric, signs: tuple[Int8[Array, "rank n"]]
    ) -> tuple[Tail, Tree]:
        tail = self.close(system, influence, at.params, metric)
        tail = tail._replace(window=tail.window.push(at), age=tail.age + 1, signs=signs[0])
        return tail, system.evolve(at.params, at.h, at.x)

    def end(self, system: AnySystem, block: Tail, params: Params, metric: Metric) -> tuple[Tail, Tree]:
        """The gradient of the block, and the tail at the beginning of the next window."""
        co_state, exact = backtrack(system, block.window, params)
        parts = Parts(exact, block.v @ co_state, block.w, _pull_own(system, block.own, co_state))
        belief, gradient = self.belief.weigh(block.belief, parts, metric)
        demand = self.norms.observe(block.demand, co_state)
        leaving = jnp.maximum(block.window.held + self.block - self.depth, 0)
        v, w, own = self._carry(system, block._replace(demand=demand), params, metric, leaving)
        return block._replace(
            window=block.window.settle(leaving),
            age=jnp.zeros_like(block.age),
            v=v,
            w=w,
            demand=demand,
            belief=belief,
            own=own,
        ), gradient

    def _carry(
        self, system: AnySystem, block: Tail, params: Params, metric: Metric, leaving: Array
    ) -> tuple[Float[Array, "rank n"], Tree, Tree]:
        """G~ through the transitions that leave: F_h G~ + F_theta, reduced."""
        window = block.window._replace(dl_dh=jnp.zeros_like(block.window.dl_dh))
        ruler = self.norms.ruler(block.demand, block, system.substeps[-1], metric)
        weights = ruler.q**-0.25
        nu = block.signs.astype(block.v.dtype)
        own = _carry_own(system, window, params, block.own, leaving)

        def left_out(co_state: Array) -> Tree:
            """co_state (F_theta + F_h Z - Z')."""
            before, here = pull_back(system, window, params, co_state, (window.held - leaving, window.held))
            if not has_blocks(system):
                return here
            whole = here + _pull_own(system, block.own, before)
            rest = whole - _pull_own(system, own, co_state)
            return jnp.where(inner(rest, rest) > rounding(rest.dtype) * inner(whole, whole), rest, 0)

        older = push_through(system, window, params, block.v, leaving), block.w
        newer = weights[None, :] * nu, jax.vmap(left_out)(nu / weights[None, :])
        scaled = [self._balance(ruler, *term) for term in (older, newer)]
        v, w = jax.tree.map(jnp.add, *scaled)
        some = leaving > 0
        return jnp.where(some, v, block.v), jax.tree.map(lambda new, old: jnp.where(some, new, old), w, block.w), own

    def _balance(self, ruler: Ruler, v: Float[Array, "rank n"], w: Tree) -> tuple[Array, Tree]:
        """(rho v_k, w_k / rho)."""
        rho, inverse = self.norms.scales(ruler.form_norms(w).astype(v.dtype), ruler.state_norms(v))
        return rho[:, None] * v, jax.tree.map(lambda leaf: each(inverse, leaf), w)


def rounding(dtype: Any) -> float:
    """The square of a difference, relative to what it is a difference of, that is no more than rounding errors: the
    scales would take its square root for something.
    """
    return float((64 * jnp.finfo(dtype).eps) ** 2)


def _pull_own(system: Any, own: Tree, co_state: Array) -> Any:
    """sum_i lambda_i Z_i, or nothing where Z is not kept."""
    return pull_blocks(own, system.substeps[0], co_state) if has_blocks(system) else None


def _carry_own(system: AnySystem, window: Window, params: Params, own: Tree, leaving: Array) -> Tree:
    """Z <- D Z + df/dtheta, unit by unit, through the oldest transitions, with a D that does not grow; none goes on
    into a new episode.
    """
    if not has_blocks(system):
        return own

    def on(step: Array, carried: tuple[Blocks, Retention]) -> tuple[Blocks, Retention]:
        h, x, _, begins = window.at(window.held - 1 - step)
        _, following, rows = step_of(system, Point(params, h, x), "BlockNoBackTrack")
        newer, kept = jax.tree.map(lambda leaf: jnp.where(begins, 0, leaf), carried)
        retention = following.loops().own.astype(kept.dtype)
        return carry_on(newer, retention, rows), jnp.einsum("ijn,jkn->ikn", retention, kept)

    components, units = own.shape[:2]
    itself = jnp.broadcast_to(jnp.eye(components, dtype=own.dtype)[:, :, None], (components, components, units))
    newer, kept = jax.lax.fori_loop(0, leaving, on, (jnp.zeros_like(own), itself))
    carried = jnp.stack([weigh_blocks(row, own) for row in steady(kept)]) + newer
    return jnp.where(leaving > 0, carried, own)
