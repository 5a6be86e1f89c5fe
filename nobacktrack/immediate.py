"""df/dtheta of any transition: by rows for cells, at the cost of the cell itself; by autodiff for any other function.

The only file that knows both. Rows stand for the w_i = df_i/dtheta of one transition, and outlive it: the next
observation pulls dl/dh through them, the next reduction sums them with signs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float

from .norms import Norms, Ruler, norm
from .protocol import Metric, Params, Point, Tree, flat
from .systems.recurrent import Recurrent

Flat = Float[Array, " n"]


class CellRows(NamedTuple):
    """w_i = c_i (x) u: a number per gate, component and unit, and the fan-in."""

    c: Float[Array, "gates components units"]
    u: Float[Array, "*units fan"]

    def pull(self, system: Recurrent, q: Flat) -> Float[Array, "units gates fan"]:
        """sum_i q_i w_i."""
        along = jnp.einsum("gcu,cu->ug", self.c, system.split(q))
        return jnp.einsum("ug,k->ugk" if self.u.ndim == 1 else "ug,uk->ugk", along, self.u)

    def norms(self, metric: Metric) -> Flat:
        """|w_i| in a metric."""
        lengths = jnp.sqrt(metric.row_norm2(self.u)).T  # a fan-in holds a 1: its square is far from underflow
        return norm(jnp.moveaxis(self.c * lengths[:, None, :], 0, -1)).ravel()

    def products(self, system: Recurrent, x: Float[Array, "units gates fan"]) -> Flat:
        """w_i^T x."""
        heard = jnp.einsum("ugk,k->gu" if self.u.ndim == 1 else "ugk,uk->gu", x, self.u)
        return jnp.einsum("gcu,gu->cu", self.c, heard).ravel()

    def reduce(self, system: Recurrent, signs: Flat, norms: Norms, ruler: Ruler) -> tuple[Flat, Tree]:
        """(sum_i eps_i rho_i e_i, sum_i eps_i w_i / rho_i) [NBT, Alg. 1, reduction step], each row with a scale of
        its own.
        """
        lengths = self.norms(ruler.metric)
        rho, inverse = norms.scales(lengths, jnp.sqrt(ruler.q))
        return jnp.where(lengths > 0, signs * rho, 0), self.pull(system, signs * inverse)

    def add(self, system: Recurrent, influence: Float[Array, "n units gates fan"]) -> Array:
        """G + sum_i e_i w_i^T, touching only the entries where a row has some."""
        units = jnp.arange(system.units)
        by_component = influence.reshape(system.components, system.units, *influence.shape[1:])
        u = jnp.broadcast_to(self.u, (system.units, self.u.shape[-1]))
        own = jnp.einsum("gcu,uk->cugk", self.c, u)
        return by_component.at[:, units, units].add(own).reshape(influence.shape)

    def restrict(self, mask: Float[Array, "units 1 1"]) -> CellRows:
        """The rows of some units alone."""
        return self._replace(c=self.c * mask.reshape(1, 1, -1))

    def silent(self) -> CellRows:
        return jax.tree.map(jnp.zeros_like, self)


class PointRows(NamedTuple):
    """The rows of any function, kept as the point where it is differentiated; `live` is False before the first
    transition.
    """

    point: Point
    live: Bool[Array, ""]
    mask: Tree = None

    def pull(self, system: Any, q: Flat) -> Tree:
        """sum_i q_i w_i, one vjp."""
        _, pull = jax.vjp(lambda theta: _evolve_flat(system, theta, self.point), self.point.params.theta)
        w = jax.tree.map(lambda leaf: jnp.where(self.live, leaf, 0), pull(q)[0])
        return w if self.mask is None else jax.tree.map(jnp.multiply, w, self.mask)

    def norms(self, metric: Metric) -> Flat:
        raise ValueError(
            "norms that measure each row need a recurrent cell: a plain function has one scale for all its rows"
        )

    def reduce(self, system: Any, signs: Flat, norms: Norms, ruler: Ruler) -> tuple[Flat, Tree]:
        """(rho eps, sum_i eps_i w_i / rho): one scale shared by all rows, an even function of the signs, so that no
        bias comes in.
        """
        w = self.pull(system, signs)
        length = ruler.form_norms(jax.tree.map(lambda leaf: leaf[None], w))[0].astype(signs.dtype)
        rho, inverse = norms.scales(length, ruler.state_norms(signs[None])[0])
        return jnp.where(length > 0, signs * rho, 0), jax.tree.map(lambda leaf: leaf * inverse.astype(leaf.dtype), w)

    def add(self, system: Any, influence: Tree) -> Tree:
        """G + df/dtheta."""
        n = flat(self.point.h).size
        immediate = jax.vmap(lambda e: self.pull(system, e))(jnp.eye(n, dtype=flat(self.point.h).dtype))
        return jax.tree.map(jnp.add, influence, immediate)

    def restrict(self, mask: Tree) -> PointRows:
        """The entries of the rows that concern some parameters alone."""
        return self._replace(mask=mask)

    def silent(self) -> PointRows:
        return self._replace(live=jnp.zeros_like(self.live))


Rows = CellRows | PointRows


class Linearised(NamedTuple):
    """f at a point: h', v -> df/dh v on flat vectors, and df/dtheta as rows."""

    h: Tree
    push: Callable[[Flat], Flat]
    push_squared: Callable[[Flat], Flat]  # C -> (df/dh)^2 C, the squares being taken entry by entry
    rows: Rows

    def pull(self, q: Flat) -> Flat:
        """q^T df/dh."""
        return jax.linear_transpose(self.push, q)(q)[0]


def linearise(system: Any, at: Point) -> Linearised:
    """f and its derivatives at a point."""
    return _linearise_cell(system, at) if isinstance(system, Recurrent) else _linearise_function(system, at)


def no_rows(system: Any, at: Point) -> Rows:
    """The rows of a state that no parameter has touched, shaped like those to come."""
    return linearise(system, at).rows.silent()


def _linearise_cell(cell: Recurrent, at: Point) -> Linearised:
    theta, own = at.params.theta, cell.split(at.h)
    activity, push_activity = jax.linearize(cell.activity, own)
    u = cell.fan_in(activity, at.x)
    a = cell.preactivations(theta, u)
    own_next, push_pointwise = jax.linearize(lambda a, own: cell.pointwise(a, own, at.params.fixed.constants), a, own)

    def push(v: Flat) -> Flat:
        tangent = cell.split(v)
        return push_pointwise(cell.recurrence(theta, push_activity(tangent)), tangent).ravel()

    c = jax.vmap(lambda gate: push_pointwise(gate, jnp.zeros_like(own)))(_basis(cell.gates, a))

    def push_squared(variance: Flat) -> Flat:
        before = cell.split(variance)
        through = jax.vmap(push_activity)(_basis(cell.components, own))  # d activity / d own
        kept = jax.vmap(lambda e: push_pointwise(jnp.zeros_like(a), e), out_axes=1)(_basis(cell.components, own))
        across, self_loop = cell.effective_weights(theta, c)
        heard = cell.hear(jnp.einsum("du,du->u", through**2, before))
        others = jnp.einsum("cuk,k->cu" if heard.ndim == 1 else "cuk,uk->cu", across**2, heard)
        mixed = 2 * self_loop * jnp.einsum("du,cdu,du->cu", through, kept, before)
        return (others + mixed + jnp.einsum("cdu,du->cu", kept**2, before)).ravel()

    return Linearised(own_next.ravel(), push, push_squared, CellRows(c, u))


def _basis(count: int, like: Array) -> Float[Array, "count count units"]:
    """e_k for every unit at once."""
    return jnp.broadcast_to(jnp.eye(count, dtype=like.dtype)[:, :, None], (count, *like.shape))


def _linearise_function(system: Any, at: Point) -> Linearised:
    _, unravel = ravel_pytree(at.h)
    h, push = jax.linearize(lambda h: _evolve_flat(system, at.params.theta, at._replace(h=unravel(h))), flat(at.h))
    rows = PointRows(at._replace(params=at.params._replace(phi=None)), jnp.ones((), bool))

    def push_squared(variance: Flat) -> Flat:
        raise ValueError("norms that carry a variance need a recurrent cell")

    return Linearised(unravel(h), push, push_squared, rows)


def _evolve_flat(system: Any, theta: Tree, at: Point) -> Flat:
    params: Params = at.params
    return flat(system.evolve(params._replace(theta=theta), at.h, at.x))
