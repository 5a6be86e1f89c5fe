"""Nothing carried: for learners that only predict."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..configuration import configuration
from ..protocol import AnySystem, Metric, Params, Point, Tree


@configuration
class Forward:
    """h' = f(theta, h, x), and no influence: dl/dtheta is taken to be 0. With `Frozen()`, a learner that only predicts;
    with another update, one whose readout alone learns (an echo state network). Biased; time O(dim theta), no memory.
    """

    def init(self, system: AnySystem, at: Point) -> tuple[()]:
        return ()

    def forget(self, influence: tuple[()]) -> tuple[()]:
        return ()

    def observe(
        self, system: AnySystem, influence: tuple[()], params: Params, dl_dh: Array, metric: Metric
    ) -> tuple[tuple[()], Tree, bool]:
        """dl/dtheta = 0."""
        return (), jax.tree.map(jnp.zeros_like, params.theta), True

    def draw(self, system: AnySystem, h: Tree, key: Array, t: Array) -> tuple[()]:
        return ()

    def advance(
        self, system: AnySystem, influence: tuple[()], at: Point, metric: Metric, draws: Any
    ) -> tuple[tuple[()], Tree]:
        return (), system.evolve(at.params, at.h, at.x)
