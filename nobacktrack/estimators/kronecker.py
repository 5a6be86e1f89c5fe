"""KF-RTRL: the influence as one random Kronecker product [Mujika, Meier, Steger 2018]."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int8

from .. import draws
from ..configuration import configuration
from ..immediate import CellRows
from ..norms import norm
from ..protocol import Metric, Params, Point, Tree
from ..reduction import balance
from .blocks import Step, step_of


class Kronecker(NamedTuple):
    """G~ = A (x) u: what row (unit, gate) of theta does to each component, times a fan-in."""

    a: Float[Array, "n units gates"]
    u: Float[Array, " fan"]


@configuration
class KFRTRL:
    """u <- s1 p1 u + s2 p2 u_t,  A <- s1 (df/dh A) / p1 + s2 D_t / p2, df/dtheta being D_t (x) u_t, with two random
    signs and the ratios of norms p [Mujika et al. 2018]. Unbiased; time O(n^3), memory O(n^2 + fan-in).
    """

    def init(self, system: Any, at: Point) -> Kronecker:
        rows = _shared(system, at).rows
        return jax.tree.map(jnp.zeros_like, Kronecker(_spread(rows), rows.u[0, 0]))

    def forget(self, influence: Kronecker) -> Kronecker:
        return jax.tree.map(jnp.zeros_like, influence)

    def observe(
        self, system: Any, influence: Kronecker, params: Params, dl_dh: Float[Array, " n"]
    ) -> tuple[Kronecker, Tree, bool]:
        """dl/dtheta = (H A) (x) u."""
        along = jnp.tensordot(dl_dh, influence.a, axes=1)
        return influence, along[:, :, None] * influence.u[None, None, :], True

    def draw(self, system: Any, h: Tree, key: Array, t: Array) -> tuple[Int8[Array, " 2"], ...]:
        """The signs s1 and s2."""
        return (draws.signs(key, t, (2,)),)

    def advance(
        self, system: Any, influence: Kronecker, at: Point, metric: Metric, signs: Any
    ) -> tuple[Kronecker, Tree]:
        _, following, rows = _shared(system, at)
        columns = influence.a.reshape(len(influence.a), -1)
        pushed = jax.vmap(following.push, in_axes=1, out_axes=1)(columns).reshape(influence.a.shape)
        fresh, u = _spread(rows), rows.u[0, 0]
        p1, inverse1 = balance(norm(pushed.ravel()), norm(influence.u))
        p2, inverse2 = balance(norm(fresh.ravel()), norm(u))
        s1, s2 = signs[0].astype(u.dtype)
        mixed = Kronecker(s1 * inverse1 * pushed + s2 * inverse2 * fresh, s1 * p1 * influence.u + s2 * p2 * u)
        return mixed, following.h


def _shared(system: Any, at: Point) -> Step:
    """The transition of a cell whose rows all hear the same; others are refused."""
    step = step_of(system, at, "KFRTRL")
    if step.rows.u.shape[:2] != (1, 1):
        raise ValueError(f"KFRTRL needs rows that all hear the same fan-in, not {system!r}")
    return step


def _spread(rows: CellRows) -> Float[Array, "n units gates"]:
    """D_t: the numbers c_i of each row, at the components of its unit."""
    gates, components, units = rows.c.shape
    dense = jnp.einsum("gcu,uv->cuvg", rows.c, jnp.eye(units, dtype=rows.c.dtype))
    return dense.reshape(components * units, units, gates)
