"""UORO: one random outer product, read after its reduction [Tallec and Ollivier 2017]."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int8

from .. import counter
from ..configuration import configuration
from ..influence.immediate import linearise, row_count
from ..influence.norms import Ruler, norm
from ..influence.reduction import balance
from ..protocol import Metric, Params, Point, Tree, flat
from ..registry import register
from ..systems.substeps import Substep
from ..updates.metrics import Euclidean


@register
class Product(NamedTuple):
    """G~ = v w^T."""

    v: Float[Array, " n"]
    w: Tree


@configuration
class UORO:
    """v <- rho0 df/dh v + rho1 nu,  w <- w / rho0 + (nu df/dtheta) / rho1, nu random signs, rho0 and rho1 the ratios of
    Euclidean norms [Tallec and Ollivier 2017, Alg. 1]. Unbiased; time and memory O(dim theta).

    On an outside path of theta it is NoBackTrack's recursion; when learning they part, since UORO reads G~ after the
    reduction, where the newest rows are random too.
    """

    def init(self, system: Any, at: Point) -> Product:
        return Product(jnp.zeros_like(flat(at.h)), jax.tree.map(jnp.zeros_like, at.params.theta))

    def forget(self, influence: Product) -> Product:
        return jax.tree.map(jnp.zeros_like, influence)

    def observe(
        self, system: Any, influence: Product, params: Params, dl_dh: Float[Array, " n"], metric: Metric
    ) -> tuple[Product, Tree, bool]:
        """dl/dtheta = (H v) w."""
        along = influence.v @ dl_dh
        return influence, jax.tree.map(lambda w: along.astype(w.dtype) * w, influence.w), True

    def draw(self, system: Any, h: Tree, key: Array, t: Array) -> tuple[Int8[Array, " rows"], ...]:
        """The signs nu, one for each row of each sub-step."""
        return tuple(counter.signs(key, t, (row_count(step, h),), tag) for tag, step in enumerate(system.substeps))

    def advance(self, system: Any, influence: Product, at: Point, metric: Metric, signs: Any) -> tuple[Product, Tree]:
        for substep, nu in zip(system.substeps, signs, strict=True):
            following = linearise(substep, at)
            v, nu = following.push(influence.v), _spread(substep, nu.astype(influence.v.dtype))
            immediate = following.rows.pull(substep, nu)
            ruler = Ruler(Euclidean(), jnp.ones_like(v))
            rho0, inverse0 = balance(_length(ruler, influence.w, v), norm(v))
            rho1, inverse1 = balance(_length(ruler, immediate, v), norm(nu))
            w = jax.tree.map(
                lambda w, row, a=inverse0, b=inverse1: a.astype(w.dtype) * w + b.astype(w.dtype) * row,
                influence.w,
                immediate,
            )
            influence, at = Product(rho0 * v + rho1 * nu, w), at._replace(h=following.h)
        return influence, at.h


def _spread(substep: Any, nu: Array) -> Float[Array, " n"]:
    """Signs on the components that the sub-step writes, zero elsewhere."""
    return substep.spread(nu.reshape(-1, substep.cell.units)) if isinstance(substep, Substep) else nu


def _length(ruler: Ruler, w: Tree, like: Array) -> Float[Array, ""]:
    return ruler.form_norms(jax.tree.map(lambda leaf: leaf[None], w))[0].astype(like.dtype)
