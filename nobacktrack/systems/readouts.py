"""Readouts and their losses, in nats: y_hat = phi [1, a], a row of phi being [bias | weights]."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..configuration import configuration
from .spaces import Symbols, Vectors


def affine(phi: Float[Array, "outputs fan"], a: Float[Array, " units"]) -> Float[Array, " outputs"]:
    """y_hat_z = phi_z + sum_i phi_iz a_i [NBT, section 3]."""
    return phi @ jnp.concatenate([jnp.ones(1, a.dtype), a])


@configuration
class Softmax:
    """A distribution over symbols: loss = -log softmax(y_hat)_y."""

    space: Symbols

    def loss(self, y_hat: Float[Array, " symbols"], y: Int[Array, ""]) -> Float[Array, ""]:
        return jax.nn.logsumexp(y_hat) - y_hat[y]

    def probabilities(self, y_hat: Float[Array, "*streams symbols"]) -> Float[Array, "*streams symbols"]:
        return jax.nn.softmax(y_hat, axis=-1)

    def fisher_root(self, y_hat: Float[Array, " symbols"]) -> Float[Array, "symbols symbols"]:
        """diag p - p p^T = sum_k p_k (e_k - p)(e_k - p)^T."""
        p = jax.nn.softmax(y_hat)
        return jnp.sqrt(p)[:, None] * (jnp.eye(p.size, dtype=p.dtype) - p[None, :])


@configuration
class Gaussian:
    """A Gaussian of unit variance around y_hat: loss = |y - y_hat|^2 / 2 + (d/2) log 2 pi."""

    space: Vectors

    def loss(self, y_hat: Float[Array, " outputs"], y: Float[Array, " outputs"]) -> Float[Array, ""]:
        residual = y.astype(y_hat.dtype) - y_hat
        return jnp.sum(residual**2) / 2 + self.space.size * float(np.log(2 * np.pi)) / 2

    def fisher_root(self, y_hat: Float[Array, " outputs"]) -> Float[Array, "outputs outputs"]:
        """R^-1 = Id."""
        return jnp.eye(y_hat.size, dtype=y_hat.dtype)


Readout = Softmax | Gaussian
