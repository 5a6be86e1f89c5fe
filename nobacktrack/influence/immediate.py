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

from ..protocol import Metric, Params, Point, Tree, flat
from ..registry import register
from ..systems.substeps import Substep
from .norms import Norms, Ruler, norm

Flat = Float[Array, " n"]


@register
class CellRows(NamedTuple):
    """w_i = c_i (x) u: a number per gate, component and unit written, and the fan-in as the rows of theta hear it."""

    c: Float[Array, "gates components units"]
    u: Float[Array, "units_or_1 gates_or_1 fan"]

    def pull(self, substep: Substep, q: Flat) -> Tree:
        """sum_i q_i w_i."""
        return substep.place(self._pull(substep.pick(q)))

    def _pull(self, q: Float[Array, "components units"]) -> Float[Array, "units gates fan"]:
        return jnp.einsum("gcu,cu->ug", self.c, q)[:, :, None] * self.u

    def norms(self, substep: Substep, metric: Metric) -> Float[Array, "components units"]:
        """|w_i| in a metric, of the components that were written."""
        lengths = jnp.sqrt(metric.row_norm2(self.u, substep.rows)).T  # a fan-in holds a 1: its square cannot underflow
        return norm(jnp.moveaxis(self.c * lengths[:, None, :], 0, -1))

    def products(self, substep: Substep, x: Tree) -> Flat:
        """w_i^T x."""
        heard = jnp.sum(jax.tree.leaves(x)[substep.rows.leaf] * self.u, axis=-1)
        own = jnp.einsum("gcu,ug->cu", self.c, heard)
        return substep.spread(own)

    def squares(self, substep: Substep, metric: Metric) -> Flat:
        """|w_i|^2, zero for the components that were not written."""
        return substep.spread(self.norms(substep, metric) ** 2)

    def reduce(self, substep: Substep, signs: Flat, norms: Norms, ruler: Ruler) -> tuple[Flat, Tree]:
        """(sum_i eps_i rho_i e_i, sum_i eps_i w_i / rho_i) [NBT, Alg. 1, reduction step], each row with a scale of
        its own.
        """
        eps = signs.reshape(-1, substep.cell.units)
        lengths = self.norms(substep, ruler.metric)
        rho, inverse = norms.scales(lengths, jnp.sqrt(substep.pick(ruler.q)))
        v = substep.spread(jnp.where(lengths > 0, eps * rho, 0))
        return v, substep.place(self._pull(eps * inverse))

    def blocks(self) -> Float[Array, "components units gates fan"]:
        """The rows as arrays like theta, one a component: what each unit's parameters do to its own components."""
        return jnp.moveaxis(self.c, 0, 2)[..., None] * self.u[None]

    def add(self, substep: Substep, influence: Tree) -> Tree:
        """G + sum_i e_i w_i^T, touching only the entries where a row has some."""
        units = jnp.arange(substep.cell.units)
        leaves, structure = jax.tree.flatten(influence)
        mine = leaves[substep.rows.leaf]
        places = substep.pick(jnp.arange(len(mine)))
        leaves[substep.rows.leaf] = mine.at[places, units[None, :]].add(self.blocks())
        return jax.tree.unflatten(structure, leaves)

    def restrict(self, substep: Substep, masks: Tree) -> CellRows:
        """The rows of some units alone."""
        return self._replace(c=self.c * jax.tree.leaves(masks)[substep.rows.leaf].reshape(1, 1, -1))

    def silent(self) -> CellRows:
        return jax.tree.map(jnp.zeros_like, self)


@register
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

    def squares(self, system: Any, metric: Metric) -> Flat:
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

    def restrict(self, system: Any, masks: Tree) -> PointRows:
        """The entries of the rows that concern some parameters alone."""
        return self._replace(mask=masks)

    def silent(self) -> PointRows:
        return self._replace(live=jnp.zeros_like(self.live))


Rows = CellRows | PointRows


class Loops(NamedTuple):
    """df/dh of a cell, unit by unit: through its own components alone (`retention`), through its own activity too
    (`own`), and what it does to other units: `across` their effective weights, `through` the activity of its
    components.
    """

    retention: Float[Array, "components components units"]
    own: Float[Array, "components components units"]
    across: Float[Array, "components units degree"]
    through: Float[Array, "components units"]


class Linearised(NamedTuple):
    """f at a point: h', v -> df/dh v on flat vectors, and df/dtheta as rows."""

    h: Tree
    push: Callable[[Flat], Flat]
    push_squared: Callable[[Flat], Flat]  # C -> (df/dh)^2 C, the squares being taken entry by entry
    rows: Rows
    loops: Callable[[], Loops]  # what units do to themselves, and to others

    def pull(self, q: Flat) -> Flat:
        """q^T df/dh."""
        return jax.linear_transpose(self.push, q)(q)[0]


def linearise(substep: Any, at: Point) -> Linearised:
    """f and its derivatives at a point."""
    return _linearise_cell(substep, at) if isinstance(substep, Substep) else _linearise_function(substep, at)


def no_rows(substep: Any, at: Point) -> Rows:
    """The rows of a state that no parameter has touched, shaped like those to come."""
    return linearise(substep, at).rows.silent()


def row_count(substep: Any, h: Tree) -> int:
    """How many rows, and signs, the sub-step has."""
    return substep.count if isinstance(substep, Substep) else flat(h).size


def _linearise_cell(substep: Substep, at: Point) -> Linearised:
    cell, own = substep.cell, substep.read(at.h)
    theta = cell.listening(substep.theta(at.params))
    activity, push_activity = jax.linearize(cell.activity, own)
    lower = substep.lower
    below, push_below = (None, lambda v: None) if lower is None else jax.linearize(substep.below, at.h)
    u = cell.fan_in(activity, at.x, below)
    a = cell.preactivations(theta, u)
    setting = cell.setting(substep.constants(at.params), at.x)
    following, push_pointwise = jax.linearize(lambda a, own: substep.pointwise(a, own, setting), a, own)

    def push(v: Flat) -> Flat:
        tangent = substep.read(v)
        heard = cell.recurrence(theta, push_activity(tangent), push_below(v))
        return substep.put(v, push_pointwise(heard, tangent))

    c = jax.vmap(lambda gate: push_pointwise(gate, jnp.zeros_like(own)))(_basis(cell.gates, a))

    def loops() -> Loops:
        retention = jax.vmap(lambda e: push_pointwise(jnp.zeros_like(a), e), out_axes=1)(_basis(len(own), own))
        if not cell.degree:
            return Loops(retention, retention, jnp.zeros((*own.shape, 0), own.dtype), jnp.zeros_like(own))
        across, self_loop = cell.effective_weights(theta, c)
        through = jax.vmap(push_activity)(_basis(len(own), own))  # d activity / d own
        return Loops(retention, retention + self_loop[:, None, :] * through[None, :, :], across, through)

    def push_squared(variance: Flat) -> Flat:
        total = _push_squared(cell, own, loops(), substep.read(variance))
        if lower is not None and below is not None:
            upward = jnp.einsum("gcu,ugk->cuk", c, theta[:, :, -below.size :])
            total = total + _weighted(upward**2, lower.cell.activity_variance(lower.read(at.h), lower.read(variance)))
        return substep.put(variance, total)

    return Linearised(substep.put(at.h, following), push, push_squared, CellRows(c, cell.heard_by_rows(u)), loops)


def _push_squared(cell: Any, own: Array, loops: Loops, variance: Array) -> Float[Array, "components units"]:
    """sum_j (df_i/dh_j)^2 variance_j within a layer: what a unit does to itself, by itself and through its own
    activity, and what the other units do to it.
    """
    total = jnp.einsum("cdu,du->cu", loops.retention**2, variance)
    if not cell.degree:
        return total
    others = _weighted(loops.across**2, cell.hear(cell.activity_variance(own, variance)))
    # the two ways of a unit to itself add up before they are squared
    twice = 2 * (loops.own - loops.retention) * loops.retention
    return total + others + jnp.einsum("cdu,du->cu", twice, variance)


def _weighted(weights: Float[Array, "components units fan"], heard: Array) -> Float[Array, "components units"]:
    return jnp.einsum("cuk,k->cu" if heard.ndim == 1 else "cuk,uk->cu", weights, heard)


def _basis(count: int, like: Array) -> Float[Array, "count count units"]:
    """e_k for every unit at once."""
    return jnp.broadcast_to(jnp.eye(count, dtype=like.dtype)[:, :, None], (count, *like.shape))


def _linearise_function(system: Any, at: Point) -> Linearised:
    _, unravel = ravel_pytree(at.h)
    h, push = jax.linearize(lambda h: _evolve_flat(system, at.params.theta, at._replace(h=unravel(h))), flat(at.h))
    rows = PointRows(at._replace(params=at.params._replace(phi=None)), jnp.ones((), bool))

    def push_squared(variance: Flat) -> Flat:
        raise ValueError("norms that carry a variance need a recurrent cell")

    def loops() -> Loops:
        raise ValueError("a plain function has no units: this needs a recurrent cell")

    return Linearised(unravel(h), push, push_squared, rows, loops)


def _evolve_flat(system: Any, theta: Tree, at: Point) -> Flat:
    params: Params = at.params
    return flat(system.evolve(params._replace(theta=theta), at.h, at.x))
