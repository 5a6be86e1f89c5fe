"""NoBackTrack: the influence as one random outer product, unbiased at every step [NBT, Alg. 1]."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int8

from .. import counter
from ..configuration import at_least, configuration, expect_part, set_field, static
from ..influence.belief import Belief, Parts, Unbiased, each
from ..influence.immediate import Rows, linearise, no_rows, row_count
from ..influence.norms import MetricNorms, Norms
from ..protocol import Metric, Params, Point, Tree, flat
from ..registry import register


@register
class Influence(NamedTuple):
    """G~ = (1/K) sum_k v_k w_k^T + sum_i e_i w_i^T."""

    v: Float[Array, "rank n"]
    w: Tree
    rows: Rows
    memory: Tree = ()  # what the norms remember
    belief: Tree = ()


@configuration
class NoBackTrack:
    """K independent rank-one reductions, averaged [NBT, Alg. 1 and section 1.4]. Unbiased, unless another `belief` is
    given, which weighs the random part; time and memory O(K dim theta).
    """

    rank: int = static(default=1)
    norms: Norms = MetricNorms()
    belief: Belief = Unbiased()

    def __post_init__(self) -> None:
        set_field(self, "rank", at_least("rank", self.rank, 1))
        expect_part(self.norms, "norms", "scales", "a rule such as nbt.MetricNorms()")
        expect_part(self.belief, "belief", "weigh", "a rule such as nbt.Caution()")

    def init(self, system: Any, at: Point) -> Influence:
        self.norms.expect_system(system)
        v = jnp.zeros((self.rank, flat(at.h).size), flat(at.h).dtype)
        w = jax.tree.map(lambda leaf: jnp.zeros((self.rank, *leaf.shape), leaf.dtype), at.params.theta)
        memory, belief = self.norms.init(flat(at.h)), self.belief.init(at.params.theta, self.rank)
        return Influence(v, w, no_rows(system.substeps[-1], at), memory, belief)

    def forget(self, influence: Influence) -> Influence:
        return forget_influence(influence, self.norms)

    def observe(
        self, system: Any, influence: Influence, params: Params, dl_dh: Float[Array, " n"], metric: Metric
    ) -> tuple[Influence, Tree, bool]:
        """dl/dtheta = (1/K) sum_k (H v_k) w_k + sum_i H_i w_i, with H = dl/dh [NBT, Alg. 1, update step]."""
        parts = Parts(influence.rows.pull(system.substeps[-1], dl_dh), influence.v @ dl_dh, influence.w)
        belief, gradient = self.belief.weigh(influence.belief, parts, metric)
        memory = self.norms.observe(influence.memory, dl_dh)
        return influence._replace(memory=memory, belief=belief), gradient, True

    def noise(self, influence: Influence) -> Any:
        return self.belief.noise(influence.belief)

    def draw(self, system: Any, h: Tree, key: Array, t: Array) -> tuple[Int8[Array, "rank n"], ...]:
        """The signs eps, for each sub-step and each of the K terms."""
        return signs_of(system, self.rank, h, key, t)

    def advance(
        self, system: Any, influence: Influence, at: Point, metric: Metric, signs: Any
    ) -> tuple[Influence, Tree]:
        """Reduction, then transition: v <- df/dh v and new rows, at each sub-step [NBT, Alg. 1]."""
        return reduce_and_advance(self, system, influence, at, metric, signs)

    def reduce(
        self, substep: Any, influence: Influence, signs: Int8[Array, "rank n"], metric: Metric
    ) -> tuple[Array, Tree]:
        """v <- rho v + sum_i eps_i rho_i e_i,  w <- w / rho + sum_i eps_i w_i / rho_i [NBT, Alg. 1, reduction step]."""
        eps = signs.astype(influence.v.dtype)
        ruler = self.norms.ruler(influence.memory, influence, substep, metric)
        rows_v, rows_w = jax.vmap(lambda eps: influence.rows.reduce(substep, eps, self.norms, ruler))(eps)
        norm_w = ruler.form_norms(influence.w).astype(eps.dtype)
        rho, inverse = self.norms.scales(norm_w, ruler.state_norms(influence.v))
        w = jax.tree.map(lambda w, row: each(inverse, w) + row, influence.w, rows_w)
        return rho[:, None] * influence.v + rows_v, w


def signs_of(system: Any, terms: int, h: Tree, key: Array, t: Array) -> tuple[Int8[Array, "terms n"], ...]:
    """Independent signs for each sub-step and term, one for each row of the sub-step before it."""
    earlier = (system.substeps[-1], *system.substeps[:-1])
    return tuple(counter.signs(key, t, (terms, row_count(before, h)), tag) for tag, before in enumerate(earlier))


def reduce_and_advance(
    estimator: Any, system: Any, influence: Influence, at: Point, metric: Metric, signs: Any
) -> tuple[Influence, Tree]:
    """Reduction, then transition, at each sub-step: v <- df/dh v, new rows, and what the norms remember."""
    reduced = system.substeps[-1]
    for substep, eps in zip(system.substeps, signs, strict=True):
        v, w = estimator.reduce(reduced, influence, eps, metric)
        following = linearise(substep, at)
        memory = estimator.norms.carry(influence.memory, substep, following, metric)
        influence = influence._replace(v=jax.vmap(following.push)(v), w=w, rows=following.rows, memory=memory)
        at, reduced = at._replace(h=following.h), substep
    return influence, at.h


def forget_influence(influence: Influence, norms: Norms) -> Influence:
    """No influence: a new episode begins."""
    v, w = jax.tree.map(jnp.zeros_like, (influence.v, influence.w))
    return influence._replace(v=v, w=w, rows=influence.rows.silent(), memory=norms.forget(influence.memory))
