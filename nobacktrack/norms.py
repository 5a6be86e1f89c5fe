"""Norms for the scales rho of a reduction: any choice leaves the estimate unbiased, a good one makes its variance
small.
"""

from __future__ import annotations

from typing import Protocol

import jax.numpy as jnp
from jaxtyping import Array

from .configuration import configuration
from .reduction import balance


class Norms(Protocol):
    """How the scales of a term are found from the norms of its two sides."""

    def scales(self, norm_w: Array, norm_v: Array) -> tuple[Array, Array]:
        """rho, which multiplies v, and 1/rho, which multiplies w."""
        ...


@configuration
class MetricNorms:
    """w is measured in the metric in which theta moves, v as it is: rho = sqrt(|w|/|v|)."""

    def scales(self, norm_w: Array, norm_v: Array) -> tuple[Array, Array]:
        return balance(norm_w, norm_v)


@configuration
class Unscaled:
    """No scales, rho = 1: unbiased too, but the variance grows without bound in time [NBT, section 1.3]."""

    def scales(self, norm_w: Array, norm_v: Array) -> tuple[Array, Array]:
        return jnp.ones_like(norm_w), jnp.ones_like(norm_w)
