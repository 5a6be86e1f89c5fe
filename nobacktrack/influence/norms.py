"""Norms for the scales rho of a reduction: any choice leaves the estimate unbiased, a good one makes its variance
small.

w is a linear form on theta, measured in a metric on theta; v is a tangent vector at h, measured by weights q: |v|^2 =
sum_i q_i v_i^2.
"""

from __future__ import annotations

from numbers import Real
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int32

from ..configuration import as_number, as_share, configuration
from ..protocol import Metric, Tree
from ..registry import register
from ..updates.metrics import Euclidean
from .reduction import balance

CANCELLATION = 1e-3
LEAST_WORTH = 1e-4


class Ruler(NamedTuple):
    """How a reduction measures w (a metric on theta) and v (weights q on the components of h, or a matrix of which they
    are the diagonal).
    """

    metric: Metric
    q: Float[Array, " n"]
    matrix: Float[Array, "n n"] | None = None

    def state_norms(self, v: Float[Array, "terms n"]) -> Float[Array, " terms"]:
        """|v_k|."""
        if self.matrix is None:
            return norm(jnp.sqrt(self.q)[None, :] * v)
        unit = _unit(v)
        v = v / unit
        return unit[:, 0] * jnp.sqrt(jnp.maximum(jnp.sum((v @ self.matrix) * v, axis=1), 0))

    def form_norms(self, w: Tree) -> Float[Array, " terms"]:
        """|w_k|. Squares under- and overflow far from 1: there, and only there, in units of the largest entry."""
        squares = jax.vmap(self.metric.norm2)(w)
        safe = jnp.finfo(squares.dtype).tiny ** 0.8
        return jax.lax.cond(
            jnp.all((squares > safe) & (squares < 1 / safe)),
            lambda: jnp.sqrt(squares),
            lambda: jax.vmap(self._scaled_norm)(w),
        )

    def _scaled_norm(self, w: Tree) -> Float[Array, ""]:
        largest = jax.tree.reduce(jnp.maximum, jax.tree.map(lambda leaf: jnp.max(jnp.abs(leaf)), w))
        unit = jnp.where(largest > 0, largest, 1)
        return largest * jnp.sqrt(self.metric.norm2(jax.tree.map(lambda leaf: leaf / unit.astype(leaf.dtype), w)))


def norm(x: Float[Array, "... n"]) -> Float[Array, "..."]:
    """The Euclidean norm along the last axis, in units of the largest entry, so that no square under- or overflows."""
    unit = _unit(x)
    return unit[..., 0] * jnp.sqrt(jnp.sum((x / unit) ** 2, axis=-1))


def _unit(x: Float[Array, "... n"]) -> Float[Array, "... 1"]:
    """The largest entry along the last axis, or 1 where all are zero."""
    largest = jnp.max(jnp.abs(x), axis=-1, keepdims=True)
    return jnp.where(largest > 0, largest, 1)


class Norms(Protocol):
    """The rule that gives the scales of a reduction. Its memory is part of the influence."""

    def expect_system(self, system: Any) -> None:
        """Refuse a system that it cannot measure."""
        ...

    def init(self, h: Float[Array, " n"]) -> Tree:
        """What it remembers of a state that no parameter has touched."""
        ...

    def forget(self, memory: Any) -> Tree:
        """What it remembers when a new episode begins."""
        ...

    def observe(self, memory: Any, dl_dh: Float[Array, " n"]) -> Tree:
        """What it remembers after a target."""
        ...

    def ruler(self, memory: Any, influence: Any, substep: Any, metric: Metric) -> Ruler:
        """How to measure at this reduction."""
        ...

    def carry(self, memory: Any, substep: Any, following: Any, metric: Metric) -> Tree:
        """What it remembers after a sub-step, given f linearised there."""
        ...

    def scales(self, norm_w: Array, norm_v: Array) -> tuple[Array, Array]:
        """rho, which multiplies v, and 1/rho, which multiplies w."""
        ...


class Plain:
    """What the norms share that remember nothing, measure v as it is, and balance."""

    def expect_system(self, system: Any) -> None:
        """Any system will do."""

    def init(self, h: Float[Array, " n"]) -> Tree:
        return ()

    def forget(self, memory: Any) -> Tree:
        return memory

    def observe(self, memory: Any, dl_dh: Float[Array, " n"]) -> Tree:
        return memory

    def ruler(self, memory: Any, influence: Any, substep: Any, metric: Metric) -> Ruler:
        return Ruler(metric, jnp.ones_like(influence.v[0]))

    def carry(self, memory: Any, substep: Any, following: Any, metric: Metric) -> Tree:
        return memory

    def scales(self, norm_w: Array, norm_v: Array) -> tuple[Array, Array]:
        return balance(norm_w, norm_v)


@configuration
class MetricNorms(Plain):
    """w in the metric in which theta moves, v as it is: stable, and the default. With SGD, the metric is Euclidean."""


@configuration
class EuclideanNorms(Plain):
    """w and v as they are, whatever the metric [NBT, Alg. 1]."""

    def ruler(self, memory: Any, influence: Any, substep: Any, metric: Metric) -> Ruler:
        return Ruler(Euclidean(), jnp.ones_like(influence.v[0]))


@configuration
class Unscaled(Plain):
    """No scales, rho = 1: unbiased too, but the variance grows without bound in time [NBT, section 1.3]."""

    def scales(self, norm_w: Array, norm_v: Array) -> tuple[Array, Array]:
        return jnp.ones_like(norm_w), jnp.ones_like(norm_w)


@configuration
class DemandNorms(Plain):
    """w in the metric in which theta moves, v by what was asked of it: |v|^2 = sum_i q_i v_i^2 with q the running mean
    of (dl/dh)^2, at a `pace`. No sign touches q. For blocks, whose dl/dh holds all the losses of a block.
    """

    pace: float = 0.02

    def __post_init__(self) -> None:
        as_share(self.pace, "pace")

    def init(self, h: Float[Array, " n"]) -> Float[Array, " n"]:
        return jnp.zeros_like(h)

    def observe(self, memory: Float[Array, " n"], dl_dh: Float[Array, " n"]) -> Float[Array, " n"]:
        squares = dl_dh**2
        return jnp.where(jnp.all(jnp.isfinite(squares)), memory + self.pace * (squares - memory), memory)

    def ruler(self, memory: Float[Array, " n"], influence: Tree, substep: Tree, metric: Metric) -> Ruler:
        """q over its mean, since its scale is of no account, and it may be too small for a float."""
        mean = jnp.mean(memory)
        some = mean > jnp.finfo(mean.dtype).tiny
        return Ruler(metric, jnp.where(some, memory / jnp.where(some, mean, 1) + LEAST_WORTH, 1))


@configuration
class InvariantNorms(Plain):
    """|w|^2 = w^T J^-1 w and |v|^2 = sum_i v_i^2 / C_i with C = diag(G~ J^-1 G~^T), J being J + Lambda [NBT, Appendix
    B].

    Invariant under reparameterisation, but its scales feed on their own noise (docs/kalman.md): prefer
    `ForesightNorms`.
    """

    def ruler(self, memory: Any, influence: Any, substep: Any, metric: Metric) -> Ruler:
        """C_i = |G~_i|^2 for G~_i = (1/K) sum_k v_ki w_k + w_i. Where the parts cancel, a floor relative to them
        keeps C_i positive.
        """
        rank = len(influence.v)
        raised = jax.vmap(metric.raised)(influence.w)
        gram = _inner(influence.w, raised).astype(influence.v.dtype) / rank**2
        own = influence.rows.squares(substep, metric)
        carried = jnp.einsum("ki,kl,li->i", influence.v, gram, influence.v)
        mixed = jnp.einsum("ki,ki->i", influence.v, jax.vmap(lambda x: influence.rows.products(substep, x))(raised))
        c = jnp.maximum(carried + 2 / rank * mixed + own, CANCELLATION * (carried + own))
        return Ruler(metric, _reciprocal(c))


@register
class Outlook(NamedTuple):
    """What `ForesightNorms` remembers of each component of h: its variance C, its worth q, and the mean of
    (dl/dh)^2.
    """

    variance: Float[Array, " n"]
    worth: Float[Array, " n"]
    urgency: Float[Array, " n"]


@configuration
class ForesightNorms(Plain):
    """v is measured by what it will do to the losses to come: |v|^2 = sum_i q_i v_i^2 with q = E[(dl/dh)^2 + horizon
    (df/dh)^2T q].

    q is the diagonal of a discounted observability Gramian, followed at a `pace`; w is measured in the metric of
    theta. No sign touches q. Invariant like Appendix B: q and 1/C go by the same rule when h is rescaled, C' =
    horizon (df/dh)^2 C + |w_i|^2 being the variance that h owes to theta. For cells only; two more passes over theta
    a step. Where a step has several sub-steps, each of them counts as one.
    """

    horizon: float = 0.99
    pace: float = 0.01

    def __post_init__(self) -> None:
        _expect_within(self)

    def init(self, h: Float[Array, " n"]) -> Outlook:
        return Outlook(*(jnp.zeros_like(h) for _ in Outlook._fields))

    def forget(self, memory: Outlook) -> Outlook:
        return memory._replace(variance=jnp.zeros_like(memory.variance))

    def observe(self, memory: Outlook, dl_dh: Float[Array, " n"]) -> Outlook:
        return memory._replace(urgency=memory.urgency + self.pace * (dl_dh**2 - memory.urgency))

    def ruler(self, memory: Outlook, influence: Any, substep: Any, metric: Metric) -> Ruler:
        """A component of no known worth is not free: it costs a small part of the mean worth of a standard
        deviation.
        """
        mean = jnp.mean(memory.worth * memory.variance)
        least = LEAST_WORTH * jnp.where(mean > 0, mean, 1) * _reciprocal(memory.variance)
        return Ruler(metric, memory.worth + least)

    def carry(self, memory: Outlook, substep: Any, following: Any, metric: Metric) -> Outlook:
        variance = self.horizon * following.push_squared(memory.variance) + following.rows.squares(substep, metric)
        (later,) = jax.linear_transpose(following.push_squared, memory.worth)(memory.worth)
        worth = memory.worth + self.pace * (memory.urgency + self.horizon * later - memory.worth)
        return Outlook(variance, worth, memory.urgency)


@register
class Gramian(NamedTuple):
    """What `GramianNorms` remembers: the worth Q of directions of h, the mean of dl/dh dl/dh^T, and the steps since Q
    was refreshed.
    """

    worth: Float[Array, "n n"]
    urgency: Float[Array, "n n"]
    age: Int32[Array, ""]


@configuration
class GramianNorms(Plain):
    """|v|^2 = v^T Q v, with Q = E[dl/dh^T dl/dh + horizon df/dh^T Q df/dh]: what v will do to the losses to come, whole
    where `ForesightNorms` keeps a diagonal.

    Q is the discounted observability Gramian of the system, followed at a `pace` and refreshed every n steps, so that
    it costs O(n^2) a step and no more memory than a dense network's theta. `floor` is what a direction of no known
    worth costs, relative to the mean. The discount never lets Q grow by itself, so that a system that is unstable for a
    while does not carry it away. No sign touches Q. For systems of one sub-step.
    """

    horizon: float = 0.99
    pace: float = 0.01
    floor: float = 0.1

    def __post_init__(self) -> None:
        _expect_within(self)
        if isinstance(as_number(self.floor, "floor"), Real) and self.floor <= 0:
            raise ValueError(f"floor must be above 0, not {self.floor}: a direction of norm zero would be dropped")

    def expect_system(self, system: Any) -> None:
        if len(system.substeps) > 1:
            raise ValueError(
                f"norms: {self} follows one Jacobian a step, and there are {len(system.substeps)} sub-steps"
            )

    def init(self, h: Float[Array, " n"]) -> Gramian:
        none = jnp.zeros((h.size, h.size), h.dtype)
        return Gramian(none, none, jnp.zeros((), jnp.int32))

    def observe(self, memory: Gramian, dl_dh: Float[Array, " n"]) -> Gramian:
        seen = dl_dh[:, None] * dl_dh[None, :]
        return memory._replace(urgency=memory.urgency + self.pace * (seen - memory.urgency))

    def ruler(self, memory: Gramian, influence: Any, substep: Any, metric: Metric) -> Ruler:
        mean = jnp.trace(memory.worth) / len(memory.worth)
        least = jnp.where(mean > 0, self.floor * mean, 1)
        matrix = memory.worth + least * jnp.eye(len(memory.worth), dtype=memory.worth.dtype)
        return Ruler(metric, jnp.diagonal(matrix), matrix)

    def carry(self, memory: Gramian, substep: Any, following: Any, metric: Metric) -> Gramian:
        n = len(memory.worth)
        age = memory.age + 1
        worth = jax.lax.cond(age == n, lambda: self._refreshed(memory, following), lambda: memory.worth)
        return memory._replace(worth=worth, age=age % n)

    def _refreshed(self, memory: Gramian, following: Any) -> Float[Array, "n n"]:
        """Q + n pace (U + horizon df/dh^T Q df/dh - Q), the horizon being shortened where df/dh would let Q grow."""
        n = len(memory.worth)
        df_dh = jax.vmap(following.push, out_axes=1)(jnp.eye(n, dtype=memory.worth.dtype))
        later = df_dh.T @ memory.worth @ df_dh
        before, after = jnp.trace(memory.worth), jnp.trace(later)
        horizon = self.horizon * jnp.where(after > before, before / jnp.where(after > 0, after, 1), 1)
        return memory.worth + jnp.minimum(self.pace * n, 1) * (memory.urgency + horizon * later - memory.worth)


def _expect_within(norms: ForesightNorms | GramianNorms) -> None:
    """Refuse a horizon or a pace by which nothing settles."""
    if isinstance(as_number(norms.horizon, "horizon"), Real) and norms.horizon > 1:
        raise ValueError(f"horizon must be at most 1, not {norms.horizon}")
    as_share(norms.pace, "pace")


def _inner(w: Tree, raised: Tree) -> Float[Array, "rank rank"]:
    """<w_k, x_l> over whole trees."""

    def products(a: Array, b: Array) -> Array:
        return jnp.einsum("kp,lp->kl", a.reshape(len(a), -1), b.reshape(len(b), -1))

    return jax.tree.reduce(jnp.add, jax.tree.map(products, w, raised))


def _reciprocal(c: Array) -> Array:
    """1/C, and 0 for a component that nothing has touched: its terms are zero, and are dropped."""
    return jnp.where(c > 0, 1 / jnp.where(c > 0, c, 1), 0)
