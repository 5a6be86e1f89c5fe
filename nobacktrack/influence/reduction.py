"""The rank-one trick: a sum of outer products becomes one, the same in expectation [NBT, Proposition 1, Appendix A].

A = sum_i v_i w_i^T,   A~ = (sum_i eps_i rho_i v_i) (sum_i eps_i w_i / rho_i)^T,   E A~ = A.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int8

Vectors = Float[Array, "terms size"]
Metric = Float[Array, "size size"] | None


def balance(norm_w: Array, norm_v: Array) -> tuple[Array, Array]:
    """rho = sqrt(|w|/|v|), which makes the variance least, and 1/rho; both zero where either norm is, so that the
    term is dropped on both sides.
    """
    alive = (norm_w > 0) & (norm_v > 0)
    rho = jnp.sqrt(jnp.where(alive, norm_w, 1)) / jnp.sqrt(jnp.where(alive, norm_v, 1))
    return jnp.where(alive, rho, 0), jnp.where(alive, 1 / rho, 0)


def draw_signs(key: jax.Array, terms: int) -> Int8[Array, " terms"]:
    """Independent uniform signs."""
    return jax.random.rademacher(key, (terms,), jnp.int8)


def reduce(
    v: Vectors, w: Vectors, signs: Array, *, scaled: bool = True, metric_v: Metric = None, metric_w: Metric = None
) -> tuple[Array, Array]:
    """One outer product for the sum of v_i w_i^T: `(sum eps_i rho_i v_i, sum eps_i w_i / rho_i)` [NBT, eq. 7].

    The norms of the scales are Euclidean, or |v|^2 = v^T M v for a metric M.
    """
    eps = signs.astype(v.dtype)
    ones = jnp.ones_like(eps)
    rho, inverse = balance(_norms(w, metric_w), _norms(v, metric_v)) if scaled else (ones, ones)
    return (eps * rho) @ v, (eps * inverse) @ w


def second_moment(
    v: Vectors, w: Vectors, *, scaled: bool = True, metric_v: Metric = None, metric_w: Metric = None
) -> Float[Array, ""]:
    """E |A~|^2 = (sum |v_i|^2)(sum |w_i|^2) + 2 sum_{i != j} <v_i,v_j><w_i,w_j> [NBT, Appendix A].

    With the scales the first term is (sum |v_i||w_i|)^2. |A|^2 = Tr(A^T M_v A M_w), Hilbert-Schmidt without metrics.
    """
    norms_v, norms_w = _norms(v, metric_v), _norms(w, metric_w)
    apart = jnp.sum(norms_v * norms_w) ** 2 if scaled else jnp.sum(norms_v**2) * jnp.sum(norms_w**2)
    products = _gram(v, metric_v) * _gram(w, metric_w)
    return apart + 2 * (jnp.sum(products) - jnp.trace(products))


def variance(
    v: Vectors, w: Vectors, *, scaled: bool = True, metric_v: Metric = None, metric_w: Metric = None
) -> Float[Array, ""]:
    """Var A~ = E |A~|^2 - |A|^2 [NBT, Appendix A].

    With the scales it is sum_{i != j} |v_i||v_j||w_i||w_j| + <v_i,v_j><w_i,w_j>.
    """
    second = second_moment(v, w, scaled=scaled, metric_v=metric_v, metric_w=metric_w)
    return second - jnp.sum(_gram(v, metric_v) * _gram(w, metric_w))


def reduce_gaussian(
    a: Float[Array, "rows columns"], xi: Float[Array, " rows"], sigma: Float[Array, "rows rows"]
) -> tuple[Array, Array]:
    """A~ = xi (xi^T Sigma^-1 A) for xi ~ N(0, Sigma): no decomposition is needed, but it is not exact on rank one
    [NBT, footnote 5].
    """
    return xi, jnp.linalg.solve(sigma, xi) @ a


def cube_roots(key: jax.Array, shape: tuple[int, ...]) -> Array:
    """Independent uniform cube roots of unity."""
    angles = 2 * jnp.pi / 3 * jax.random.randint(key, shape, 0, 3).astype(jnp.float32)
    return jax.lax.complex(jnp.cos(angles), jnp.sin(angles))


def reduce_order3(u: Vectors, v: Vectors, w: Vectors, roots: Array) -> tuple[Array, ...]:
    """One complex product for sum_i u_i (x) v_i (x) w_i, whose real part has that expectation [NBT, footnote 4].

    The scales make the three norms of a term equal, which keeps its product.
    """
    norms = jnp.stack([_norms(u), _norms(v), _norms(w)])
    alive = jnp.all(norms > 0, axis=0)[None, :]
    safe = jnp.where(alive, norms, 1)
    scales = jnp.where(alive, jnp.cbrt(jnp.prod(safe, axis=0))[None, :] / safe, 0)
    return tuple(
        (roots * scale.astype(roots.dtype)) @ side.astype(roots.dtype)
        for scale, side in zip(scales, (u, v, w), strict=True)
    )


def reduce_order4(
    u: Vectors, v: Vectors, w: Vectors, x: Vectors, pairing: Array, first: Array, second: Array
) -> tuple[Array, Array, Array, Array]:
    """One product for sum_i u_i (x) v_i (x) w_i (x) x_i, by the trick on pairs, then on each half with signs of its
    own [NBT, footnote 4].
    """
    eps = pairing.astype(u.dtype)
    rho, inverse = balance(_norms(w) * _norms(x), _norms(u) * _norms(v))
    u, v = reduce((eps * rho)[:, None] * u, v, first)
    w, x = reduce((eps * inverse)[:, None] * w, x, second)
    return u, v, w, x


def _gram(vectors: Vectors, metric: Metric = None) -> Float[Array, "terms terms"]:
    """<v_i, v_j>."""
    return vectors @ vectors.T if metric is None else vectors @ metric @ vectors.T


def _norms(vectors: Vectors, metric: Metric = None) -> Float[Array, " terms"]:
    squares = jnp.sum(vectors**2, axis=1) if metric is None else jnp.diagonal(_gram(vectors, metric))
    return jnp.sqrt(squares)
