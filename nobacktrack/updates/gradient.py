"""Updates that follow the gradient: plain descent, any optax optimiser, and a guard for parameters that are frozen."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from ..configuration import as_rate, configuration, expect_part, rate_at, set_field, static
from ..protocol import Evidence, Layout, Metric, Tree
from .metrics import Euclidean


@configuration
class SGD:
    """theta <- theta - eta_t dl/dtheta [NBT, eq. 5]; the rate is a number or a function of t = 1, 2, ..."""

    rate: Any

    def __post_init__(self) -> None:
        set_field(self, "rate", as_rate(self.rate, "rate"))

    def init(self, params: Tree, layout: Layout) -> tuple[()]:
        return ()

    def apply(self, state: tuple[()], params: Tree, evidence: Evidence, t: Float[Array, ""]) -> tuple[tuple[()], Tree]:
        eta = rate_at(self.rate, t)
        return (), jax.tree.map(lambda theta, g: theta - eta.astype(theta.dtype) * g, params, evidence.gradient)

    def metric_of(self, state: tuple[()]) -> Metric:
        return Euclidean()

    def adapt(self, packed: bool) -> SGD:
        return self


@configuration
class Optax:
    """Any optax optimiser, with a state of its own for theta and for phi (so norms that it clips are those of the
    group).
    """

    tx: optax.GradientTransformation = static()

    def __post_init__(self) -> None:
        expect_part(self.tx, "tx", "update", "an optax optimiser")

    def init(self, params: Tree, layout: Layout) -> Tree:
        return self.tx.init(params)

    def apply(self, state: Tree, params: Tree, evidence: Evidence, t: Float[Array, ""]) -> tuple[Tree, Tree]:
        with jax.numpy_dtype_promotion("standard"):  # optax counts on it
            updates, state = self.tx.update(evidence.gradient, state, params)
        return state, optax.apply_updates(params, updates)

    def metric_of(self, state: Tree) -> Metric:
        return Euclidean()

    def adapt(self, packed: bool) -> Optax:
        return self


@configuration
class Frozen:
    """Another update, for a group of which some parameters stay: `where` is True on those (a bool, or a tree of bools
    or of arrays of them).
    """

    update: Any = None
    where: Any = True

    def __post_init__(self) -> None:
        if self.update is None and isinstance(self.where, np.ndarray | jax.Array) and np.ndim(self.where) > 0:
            raise ValueError("where: a mask needs an update for the parameters that are free, Frozen(update, where)")

    def init(self, params: Tree, layout: Layout) -> Tree:
        return () if self.update is None else self.update.init(params, layout)

    def apply(self, state: Tree, params: Tree, evidence: Evidence, t: Float[Array, ""]) -> tuple[Tree, Tree]:
        if self.update is None:
            return state, params
        single = None if evidence.single is None else jax.vmap(self._free)(evidence.single)
        free = evidence._replace(
            gradient=self._free(evidence.gradient), pull=lambda c: self._free(evidence.pull(c)), single=single
        )
        state, moved = self.update.apply(state, params, free, t)
        return state, jax.tree.map(jnp.where, jax.tree.broadcast(self.where, params), params, moved)

    def metric_of(self, state: Tree) -> Metric:
        return Euclidean() if self.update is None else self.update.metric_of(state)

    def adapt(self, packed: bool) -> Frozen:
        return self if self.update is None else Frozen(self.update.adapt(packed), self.where)

    def _free(self, gradient: Tree) -> Tree:
        """The gradient, zero on what is frozen."""
        return jax.tree.map(lambda stays, g: jnp.where(stays, 0, g), jax.tree.broadcast(self.where, gradient), gradient)
