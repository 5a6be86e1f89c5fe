"""Metrics in which parameters move: MatrixReduce of the information matrix J, its inverse, and the norms it gives
[NBT, Alg. 2].

The information J of a group of parameters is kept in a reduced form that is cheap to invert. Each form knows how to
take a sum of outer products in, to solve (J + Lambda) x = g, and to measure a linear form, |w|^2 = w^T (J +
Lambda)^-1 w.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from ..configuration import configuration, static
from ..protocol import RowBlock, Tree

LARGE = 1 << 13
RESOLUTION = 2.0**-16  # of M_ii: a difference below it is no more than the rounding errors of a long sum in float32

Prior = Float[Array, ""]
Fans = Float[Array, "units_or_1 gates_or_1 fan"]


class Euclidean(NamedTuple):
    """|w|^2 = sum of squares."""

    @property
    def has_unit(self) -> bool:
        return False

    def norm2(self, w: Tree) -> Float[Array, ""]:
        return jax.tree.reduce(jnp.add, jax.tree.map(lambda leaf: jnp.sum(leaf**2), w))

    def row_norm2(self, u: Fans, rows: RowBlock) -> Float[Array, "units gates"]:
        return jnp.sum(u**2, axis=-1)

    def raised(self, w: Tree) -> Tree:
        return w


class Kind(Protocol):
    """A reduced form of information matrices."""

    def zeros(self, params: Any) -> Tree:
        """J = 0."""
        ...

    def add(self, information: Any, keep: Array, vectors: Any) -> Tree:
        """keep J + MatrixReduce(sum_k g_k g_k^T), the g_k being stacked along a first axis."""
        ...

    def solve(self, information: Any, prior: Prior, g: Any) -> Tree:
        """(J + Lambda)^-1 g."""
        ...

    def norm2(self, information: Any, prior: Prior, w: Any) -> Float[Array, ""]:
        """w^T (J + Lambda)^-1 w."""
        ...

    def row_norm2(self, information: Any, prior: Prior, u: Fans, rows: RowBlock) -> Float[Array, "units gates"]:
        """The same for a fan-in put in each row of one of the packed arrays."""
        ...

    def adapt(self, packed: bool) -> Kind:
        """The form to use for parameters that have unit rows, or have none."""
        ...


class Mahalanobis(NamedTuple):
    """|w|^2 = w^T (J + Lambda)^-1 w: the metric of a filter, as the scales of a reduction ask for it [NBT, Appendix
    B].
    """

    kind: Any
    information: Tree
    prior: Prior

    @property
    def has_unit(self) -> bool:
        return True

    def norm2(self, w: Tree) -> Float[Array, ""]:
        return self.kind.norm2(self.information, self.prior, w)

    def row_norm2(self, u: Fans, rows: RowBlock) -> Float[Array, "units gates"]:
        return self.kind.row_norm2(self.information, self.prior, u, rows)

    def raised(self, w: Tree) -> Tree:
        """(J + Lambda)^-1 w: what gives inner products with w."""
        return self.kind.solve(self.information, self.prior, w)


@configuration
class Full:
    """J whole, for small systems: time and memory O(dim^2), O(dim^3) to solve."""

    def zeros(self, params: Tree) -> Array:
        flat = ravel_pytree(params)[0]
        return jnp.zeros((flat.size, flat.size), flat.dtype)

    def add(self, information: Array, keep: Array, vectors: Tree) -> Array:
        flat = jax.vmap(lambda tree: ravel_pytree(tree)[0])(vectors)
        return keep * information + flat.T @ flat

    def solve(self, information: Array, prior: Prior, g: Tree) -> Tree:
        flat, unravel = ravel_pytree(g)
        return unravel(jnp.linalg.solve(self._with(information, prior), flat))

    def norm2(self, information: Array, prior: Prior, w: Tree) -> Float[Array, ""]:
        flat = ravel_pytree(w)[0]
        return flat @ jnp.linalg.solve(self._with(information, prior), flat)

    def row_norm2(self, information: Array, prior: Prior, u: Fans, rows: RowBlock) -> Float[Array, "units gates"]:
        fan, count = u.shape[-1], rows.units * rows.gates
        mine = slice(rows.offset, rows.offset + count * fan)
        covariance = jnp.linalg.inv(self._with(information, prior))[mine, mine].reshape(count, fan, count, fan)
        blocks = covariance[jnp.arange(count), :, jnp.arange(count)].reshape(rows.units, rows.gates, fan, fan)
        u = jnp.broadcast_to(u, (rows.units, rows.gates, fan))
        return jnp.einsum("ugkl,ugk,ugl->ug", blocks, u, u)

    def adapt(self, packed: bool) -> Full:
        return self

    def _with(self, information: Array, prior: Prior) -> Array:
        return information + prior * jnp.eye(len(information), dtype=information.dtype)


class PerLeaf:
    """What the forms share that treat each array of parameters apart."""

    @abstractmethod
    def zero(self, leaf: Array) -> Any: ...

    @abstractmethod
    def take(self, j: Any, keep: Array, vectors: Array) -> Any: ...

    @abstractmethod
    def divide(self, j: Any, prior: Prior, g: Array) -> Array: ...

    @abstractmethod
    def squares(self, j: Any, prior: Prior, w: Array) -> Array:
        """w^T (J + Lambda)^-1 w of each row, for rows along the last axis."""

    def zeros(self, params: Tree) -> tuple[Any, ...]:
        return tuple(self.zero(leaf) for leaf in jax.tree.leaves(params))

    def add(self, information: Any, keep: Array, vectors: Tree) -> tuple[Any, ...]:
        pairs = zip(information, jax.tree.leaves(vectors), strict=True)
        return tuple(self.take(j, keep.astype(leaf.dtype), leaf) for j, leaf in pairs)

    def solve(self, information: Any, prior: Prior, g: Tree) -> Tree:
        leaves, structure = jax.tree.flatten(g)
        pairs = zip(information, leaves, strict=True)
        return jax.tree.unflatten(structure, [self.divide(j, prior.astype(leaf.dtype), leaf) for j, leaf in pairs])

    def norm2(self, information: Any, prior: Prior, w: Tree) -> Float[Array, ""]:
        pairs = zip(information, jax.tree.leaves(w), strict=True)
        return sum((self.square(j, prior.astype(leaf.dtype), leaf) for j, leaf in pairs), jnp.zeros_like(prior))

    def square(self, j: Any, prior: Prior, w: Array) -> Float[Array, ""]:
        """w^T (J + Lambda)^-1 w of a whole array."""
        return jnp.sum(self.squares(j, prior, w))

    def row_norm2(self, information: Any, prior: Prior, u: Fans, rows: RowBlock) -> Float[Array, "units gates"]:
        return self.squares(information[rows.leaf], prior, u)


@configuration
class Diagonal(PerLeaf):
    """The diagonal of J: time and memory O(dim)."""

    reason: str = static(default="")

    def zero(self, leaf: Array) -> Array:
        return jnp.zeros_like(leaf)

    def take(self, j: Array, keep: Array, vectors: Array) -> Array:
        return keep * j + jnp.sum(vectors**2, axis=0)

    def divide(self, j: Array, prior: Prior, g: Array) -> Array:
        return g * reciprocal(j + prior)

    def squares(self, j: Array, prior: Prior, w: Array) -> Array:
        squares = w**2 * reciprocal(j + prior)
        return total(squares) if squares.ndim else squares

    def adapt(self, packed: bool) -> Diagonal:
        return self


@configuration
class BlockDiagonal(PerLeaf):
    """One block of J per row [bias | weights], a unit and gate: time and memory O(dim x fan-in)."""

    def zero(self, leaf: Array) -> Array:
        return jnp.zeros((*leaf.shape, leaf.shape[-1]), leaf.dtype)

    def take(self, j: Array, keep: Array, vectors: Array) -> Array:
        return keep * j + jnp.einsum("z...k,z...l->...kl", vectors, vectors)

    def divide(self, j: Array, prior: Prior, g: Array) -> Array:
        return jnp.linalg.solve(self._with(j, prior), g[..., None])[..., 0]

    def squares(self, j: Array, prior: Prior, w: Array) -> Array:
        w = jnp.broadcast_to(w, j.shape[:-1])
        return jnp.sum(w * self.divide(j, prior, w), axis=-1)

    def adapt(self, packed: bool) -> BlockDiagonal | Diagonal:
        return self if packed else _no_rows("block-diagonal")

    def _with(self, j: Array, prior: Prior) -> Array:
        identity = jnp.eye(j.shape[-1], dtype=j.dtype).reshape(*(1,) * (j.ndim - 2), *j.shape[-2:])
        return j + prior * identity


class Arrow(NamedTuple):
    """The entries of J that the quasi-diagonal form keeps, a row: M_00, M_0i, M_ii."""

    m00: Float[Array, "*rows 1"]
    m0i: Float[Array, "*rows weights"]
    mii: Float[Array, "*rows weights"]


@configuration
class QuasiDiagonal(PerLeaf):
    """M_00, M_0i and M_ii of each row [bias | weights], completed by Q_ij = M_0i M_0j / M_00: time and memory O(dim)
    [Ollivier 2015].

    Invariant, with Lambda = 0, under affine changes of the activities that feed a unit; the diagonal form is not.
    """

    def zero(self, leaf: Array) -> Arrow:
        return Arrow(jnp.zeros_like(leaf[..., :1]), jnp.zeros_like(leaf[..., 1:]), jnp.zeros_like(leaf[..., 1:]))

    def take(self, j: Arrow, keep: Array, vectors: Array) -> Arrow:
        bias, weights = vectors[..., :1], vectors[..., 1:]
        return Arrow(
            keep * j.m00 + jnp.sum(bias**2, axis=0),
            keep * j.m0i + jnp.sum(bias * weights, axis=0),
            keep * j.mii + jnp.sum(weights**2, axis=0),
        )

    def divide(self, j: Arrow, prior: Prior, g: Array) -> Array:
        """x_i = (g_i - g_0 m_i) / s_i,  x_0 = g_0 / M_00 - sum_i m_i x_i, with m_i = M_0i / M_00."""
        inverse, m, s = self._schur(j, prior)
        weights = (g[..., 1:] - g[..., :1] * m) * s
        bias = g[..., :1] * inverse - total(m * weights)[..., None]
        return jnp.concatenate([bias, weights], axis=-1)

    def squares(self, j: Arrow, prior: Prior, w: Array) -> Array:
        """w_0^2 / M_00 + sum_i (w_i - m_i w_0)^2 / s_i: terms that cannot be negative; do not expand them."""
        inverse, m, s = self._schur(j, prior)
        return w[..., 0] ** 2 * inverse[..., 0] + total((w[..., 1:] - m * w[..., :1]) ** 2 * s)

    def square(self, j: Arrow, prior: Prior, w: Array) -> Float[Array, ""]:
        """The same, as two dot products: over K arrays at once the weights are then computed once, and not K times."""
        inverse, m, s = self._schur(j, prior)
        apart = w[..., 1:] - m * w[..., :1]
        return (apart**2).ravel() @ s.ravel() + (w[..., 0] ** 2).ravel() @ inverse.ravel()

    def adapt(self, packed: bool) -> QuasiDiagonal | Diagonal:
        return self if packed else _no_rows("quasi-diagonal")

    def _schur(self, j: Arrow, prior: Prior) -> tuple[Array, Array, Array]:
        """1 / M_00, m_i and 1 / s_i. The Schur terms s_i = M_ii - M_0i^2 / M_00 cancel in float32: without a floor they
        go negative, and where J is large what is left of them is noise, which the prior does not hold.
        """
        inverse = reciprocal(j.m00 + prior)
        m = j.m0i * inverse
        return inverse, m, reciprocal(prior + jnp.maximum(j.mii - j.m0i * m, RESOLUTION * j.mii))


def reciprocal(x: Array) -> Array:
    """1/x, and 0 where x is 0: a direction of which nothing is known does not move."""
    alive = x > 0
    return jnp.where(alive, 1 / jnp.where(alive, x, 1), 0)


def total(x: Float[Array, "*rows fan"]) -> Float[Array, "*rows"]:
    """The sum along the last axis; as a product with ones where there is much of it, which is twice as fast on CPUs,
    and slower where there is not.
    """
    return x @ jnp.ones(x.shape[-1], x.dtype) if x.size > LARGE else jnp.sum(x, axis=-1)


def _no_rows(wanted: str) -> Diagonal:
    return Diagonal(reason=f"no unit rows for a {wanted} one")
