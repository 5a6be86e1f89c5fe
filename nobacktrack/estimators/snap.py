"""SnAp: the influence on one unit, of the parameters that reach it within some steps [Menick et al. 2020]."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..configuration import configuration
from ..protocol import Metric, Params, Point, Tree
from .blocks import Blocks, carry_on, no_blocks, pull_blocks, step_of


class UnitBlocks:
    """What the estimators share that carry unit blocks alone."""

    def init(self, system: Any, at: Point) -> Blocks:
        return no_blocks(system, at, type(self).__name__)

    def forget(self, influence: Blocks) -> Blocks:
        return jnp.zeros_like(influence)

    def observe(
        self, system: Any, influence: Blocks, params: Params, dl_dh: Float[Array, " n"], metric: Metric
    ) -> tuple[Blocks, Tree, bool]:
        """dl/dtheta = sum_u H_u Z_u."""
        return influence, pull_blocks(influence, system.substeps[0], dl_dh), True

    def draw(self, system: Any, h: Tree, key: Array, t: Array) -> tuple[()]:
        return ()


@configuration
class SnAp1(UnitBlocks):
    """Z_u <- (df_u/dh_u) Z_u + df_u/dtheta: the influence of a unit's parameters on itself, exact in time, and none on
    other units [Menick et al. 2020, n = 1]. Biased; time and memory O(dim theta).
    """

    def advance(self, system: Any, influence: Blocks, at: Point, metric: Metric, draws: Any) -> tuple[Blocks, Tree]:
        _, following, rows = step_of(system, at, "SnAp1")
        return carry_on(influence, following.loops().own, rows), following.h


@configuration
class Immediate(UnitBlocks):
    """G = df/dtheta of the last step, no influence of the past (SnAp-0). Biased; time and memory O(dim theta)."""

    def advance(self, system: Any, influence: Blocks, at: Point, metric: Metric, draws: Any) -> tuple[Blocks, Tree]:
        _, following, rows = step_of(system, at, "Immediate")
        return rows.blocks(), following.h


@configuration
class RFLO(UnitBlocks):
    """Z_u <- (df_u/dh_u at fixed activities) Z_u + df_u/dtheta: what a unit keeps of itself, its leak or its gates, and
    nothing that passes through a recurrent weight [Murray 2019, with exact feedback]. Biased; time and memory
    O(dim theta).
    """

    def advance(self, system: Any, influence: Blocks, at: Point, metric: Metric, draws: Any) -> tuple[Blocks, Tree]:
        _, following, rows = step_of(system, at, "RFLO")
        return carry_on(influence, following.loops().retention, rows), following.h
