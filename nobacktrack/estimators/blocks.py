"""Unit blocks: what the parameters of each unit do to its own components, and nothing else of the influence.

Z has the shape of theta, once for each component of a unit: (components, units, gates, 1 + fan-in).
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..influence.immediate import CellRows, Linearised, linearise
from ..protocol import Point
from ..systems.substeps import SingleCell

Blocks = Float[Array, "components units gates fan"]
Retention = Float[Array, "components components units"]

STEADY = 0.99  # of itself, a unit may keep that would grow


class Step(NamedTuple):
    """The transition of a cell: its one sub-step, f linearised there, and its rows."""

    substep: SingleCell
    following: Linearised
    rows: CellRows


def has_blocks(system: Any) -> bool:
    """Whether a system is a recurrent cell, alone and with one sub-step."""
    return len(system.substeps) == 1 and isinstance(system.substeps[0], SingleCell)


def step_of(system: Any, at: Point, name: str) -> Step:
    """The transition of a recurrent cell; other systems are refused by name."""
    if not has_blocks(system):
        raise ValueError(f"{name} needs a recurrent cell, alone and with one sub-step, not {system!r}")
    substep = system.substeps[0]
    following = linearise(substep, at)
    assert isinstance(following.rows, CellRows)
    return Step(substep, following, following.rows)


def no_blocks(system: Any, at: Point, name: str) -> Blocks:
    """Of a state that no parameter has touched."""
    return jnp.zeros_like(step_of(system, at, name).rows.blocks())


def pull_blocks(blocks: Blocks, substep: SingleCell, dl_dh: Float[Array, " n"]) -> Array:
    """sum_u H_u Z_u."""
    return weigh_blocks(substep.pick(dl_dh), blocks)


def carry_on(blocks: Blocks, retention: Retention, rows: CellRows) -> Blocks:
    """Z <- D Z + df/dtheta, unit by unit."""
    return jnp.stack([weigh_blocks(row, blocks) for row in retention]) + rows.blocks()


def steady(retention: Retention) -> Retention:
    """D, of each unit that would grow without end by itself as much as makes it forget slowly: a unit can be unstable
    where the network, whose other units hold it, is not.
    """
    radius = _radius(retention)
    return jnp.where(radius > 1, STEADY / jnp.maximum(radius, 1), 1)[None, None] * retention


def _radius(retention: Retention) -> Float[Array, " units"]:
    """The largest |eigenvalue| of each unit's D, or a bound of it where a unit has more than two components."""
    if len(retention) == 1:
        return jnp.abs(retention[0, 0])
    if len(retention) > 2:
        return jnp.sqrt(jnp.sum(retention**2, axis=(0, 1)))
    half = (retention[0, 0] + retention[1, 1]) / 2
    determinant = retention[0, 0] * retention[1, 1] - retention[0, 1] * retention[1, 0]
    apart = half**2 - determinant
    return jnp.where(apart >= 0, jnp.abs(half) + jnp.sqrt(jnp.maximum(apart, 0)), jnp.sqrt(jnp.abs(determinant)))


def weigh_blocks(weights: Float[Array, "terms units"], blocks: Float[Array, "terms units gates fan"]) -> Array:
    """sum_t weight_tu block_tu, term by term: XLA makes one loop of vector instructions of it, a loop of single ones of
    a sum over an axis, and a slow batch of dots of an einsum.
    """
    terms = zip(weights.astype(blocks.dtype), blocks, strict=True)
    return functools.reduce(jnp.add, (weight[:, None, None] * block for weight, block in terms))
