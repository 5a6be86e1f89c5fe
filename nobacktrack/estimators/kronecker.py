"""The influence as random Kronecker products: one [Mujika, Meier, Steger 2018], or the sum of r with the least variance
[Benzing et al. 2019].
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int8

from .. import counter
from ..configuration import at_least, configuration, set_field, static
from ..influence.immediate import CellRows
from ..influence.norms import norm
from ..influence.reduction import balance
from ..protocol import Metric, Params, Point, Tree
from ..registry import register
from .blocks import Step, step_of


@register
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
        self, system: Any, influence: Kronecker, params: Params, dl_dh: Float[Array, " n"], metric: Metric
    ) -> tuple[Kronecker, Tree, bool]:
        """dl/dtheta = (H A) (x) u."""
        along = jnp.tensordot(dl_dh, influence.a, axes=1)
        return influence, along[:, :, None] * influence.u[None, None, :], True

    def draw(self, system: Any, h: Tree, key: Array, t: Array) -> tuple[Int8[Array, " 2"], ...]:
        """The signs s1 and s2."""
        return (counter.signs(key, t, (2,)),)

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


@register
class KroneckerTerms(NamedTuple):
    """G~ = sum_k u_k (x) A_k, of which the last is df/dtheta of the newest step."""

    a: Float[Array, "terms n units gates"]
    u: Float[Array, "terms fan"]


@configuration
class KroneckerSum:
    """The r + 1 terms (df/dh A_k) (x) u_k and D_t (x) u_t replaced by r, unbiased and with the least variance there is
    [Benzing et al. 2019, "OK"]. Time O(r n^3 + r^2 n^2), memory O(r (n^2 + fan-in)).

    G~ is read with all r + 1 terms, and reduced in the next step.
    """

    rank: int = static(default=4)

    def __post_init__(self) -> None:
        set_field(self, "rank", at_least("rank", self.rank, 1))

    def init(self, system: Any, at: Point) -> KroneckerTerms:
        rows, terms = _shared(system, at).rows, self.rank + 1
        fresh, u = _spread(rows), rows.u[0, 0]
        if self.rank >= u.size:
            raise ValueError(f"rank must be below the fan-in, {u.size}, not {self.rank}: that would be RTRL")
        return KroneckerTerms(jnp.zeros((terms, *fresh.shape), fresh.dtype), jnp.zeros((terms, u.size), u.dtype))

    def forget(self, influence: KroneckerTerms) -> KroneckerTerms:
        return jax.tree.map(jnp.zeros_like, influence)

    def observe(
        self, system: Any, influence: KroneckerTerms, params: Params, dl_dh: Float[Array, " n"], metric: Metric
    ) -> tuple[KroneckerTerms, Tree, bool]:
        """dl/dtheta = sum_k (H A_k) (x) u_k."""
        along = jnp.einsum("n,knug->kug", dl_dh, influence.a)
        return influence, jnp.einsum("kug,kf->ugf", along, influence.u), True

    def draw(self, system: Any, h: Tree, key: Array, t: Array) -> tuple[Int8[Array, " terms"], ...]:
        """A sign for each of the terms."""
        return (counter.signs(key, t, (self.rank + 1,)),)

    def advance(
        self, system: Any, influence: KroneckerTerms, at: Point, metric: Metric, signs: Any
    ) -> tuple[KroneckerTerms, Tree]:
        _, following, rows = _shared(system, at)
        a, u = least_noisy(influence.a.reshape(self.rank + 1, -1), influence.u, signs[0])
        columns = jnp.moveaxis(a.reshape(self.rank, len(influence.a[0]), -1), 1, 2)
        pushed = jnp.moveaxis(jax.vmap(jax.vmap(following.push))(columns), 2, 1)
        a = jnp.concatenate([pushed.reshape(self.rank, *influence.a.shape[1:]), _spread(rows)[None]])
        return KroneckerTerms(a, jnp.concatenate([u, rows.u[0]])), following.h


def least_noisy(
    a: Float[Array, "terms size"], u: Float[Array, "terms fan"], signs: Int8[Array, " terms"]
) -> tuple[Float[Array, "rank size"], Float[Array, "rank fan"]]:
    """sum_k a_k u_k^T with one term less, unbiased, with the least variance [Benzing et al. 2019, Theorem 1].

    On the singular values d_1 >= d_2 >= ...: the large ones stay as they are, the others, whose sum is s, become
    (s / k) Z Z^T with signs, where Z is an orthonormal basis of what is orthogonal to z_i = sqrt(1 - d_i k / s).
    """
    basis_a, factor_a = jnp.linalg.qr(a.T)
    basis_u, factor_u = jnp.linalg.qr(u.T)
    left, d, right = jnp.linalg.svd(factor_a @ factor_u.T)
    mixed, size, k = _tail(d)
    share = jnp.where(size > 0, d * k / jnp.where(size > 0, size, 1), k / (k + 1))
    z = jnp.where(mixed, jnp.sqrt(jnp.maximum(1 - share, 0)), 0)
    mirror = z.at[-1].add(1)  # reflects the last axis to -z
    basis = jnp.eye(len(d), dtype=d.dtype)[:, :-1] - (2 / (mirror @ mirror)) * mirror[:, None] * mirror[None, :-1]
    weights = jnp.sqrt(jnp.where(mixed[:-1], size / k, d[:-1]))
    turned = signs.astype(d.dtype)[:, None] * basis * weights[None, :]
    return (basis_a @ (left @ turned)).T, (basis_u @ (right.T @ turned)).T


def _tail(d: Float[Array, " terms"]) -> tuple[Bool[Array, " terms"], Array, Array]:
    """Which singular values are mixed, their sum s, and how many terms k they get: from the first on of which
    d_m k <= s.
    """
    sums = jnp.cumsum(d[::-1])[::-1]
    k = jnp.arange(len(d) - 1, -1, -1, dtype=d.dtype)
    first = jnp.argmax(d[:-1] * k[:-1] <= sums[:-1])  # at the last but one it holds always
    return jnp.arange(len(d)) >= first, sums[first], k[first]


def _shared(system: Any, at: Point) -> Step:
    """The transition of a cell whose rows all hear the same; others are refused."""
    step = step_of(system, at, "a Kronecker product")
    if step.rows.u.shape[:2] != (1, 1):
        raise ValueError(f"a Kronecker product needs rows that all hear the same fan-in, not {system!r}")
    return step


def _spread(rows: CellRows) -> Float[Array, "n units gates"]:
    """D_t: the numbers c_i of each row, at the components of its unit."""
    gates, components, units = rows.c.shape
    dense = jnp.einsum("gcu,uv->cuvg", rows.c, jnp.eye(units, dtype=rows.c.dtype))
    return dense.reshape(components * units, units, gates)
