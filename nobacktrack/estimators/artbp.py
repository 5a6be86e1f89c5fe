"""ARTBP: backpropagation through blocks of random length, unbiased [Tallec and Ollivier 2017]."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int8

from .. import counter
from ..configuration import at_least, configuration, set_field, static
from ..protocol import AnySystem, Metric, Point, Tree
from ..registry import register
from .bptt import InBlocks, Window, empty

LONGEST = 16


@register
class RandomBlock(NamedTuple):
    """A `Block`, and whether the newest transition is its last."""

    window: Window
    gradient: Tree
    due: Bool[Array, ""]
    ends: Bool[Array, ""]


@configuration
class ARTBP(InBlocks):
    """Blocks that end after each step with probability c = 1/depth, and lambda_{j-1} = lambda_j df/dh / (1 - c) +
    dl_dh_{j-1} within a block, which makes up for those that were cut [Tallec and Ollivier 2017]. Unbiased; time
    O(dim theta) a step on average, memory O(n times the longest block).

    `depth` is the mean length, a power of two: the coins are made of fair signs. A block of 16 times that length, which
    is one in nine millions, is cut where it stands.
    """

    depth: int = static(default=16)

    def __post_init__(self) -> None:
        set_field(self, "depth", at_least("depth", self.depth, 2))
        if self.depth & (self.depth - 1):
            raise ValueError(f"depth must be a power of two, not {self.depth}: coins are made of fair signs")

    @property
    def gain(self) -> float:
        """1 / (1 - c)."""
        return self.depth / (self.depth - 1)

    def init(self, system: AnySystem, at: Point) -> RandomBlock:
        gradient, no = jax.tree.map(jnp.zeros_like, at.params.theta), jnp.zeros((), bool)
        return RandomBlock(empty(LONGEST * self.depth, at), gradient, no, no)

    def over(self, block: RandomBlock) -> Bool[Array, ""]:
        return block.ends & (block.window.held > 0)

    def draw(self, system: AnySystem, h: Tree, key: Array, t: Array) -> tuple[Int8[Array, " bits"], ...]:
        """Fair signs: all of them negative with probability 1/depth."""
        return (counter.signs(key, t, (self.depth.bit_length() - 1,)),)

    def advance(
        self, system: AnySystem, influence: RandomBlock, at: Point, metric: Metric, signs: Any
    ) -> tuple[RandomBlock, Tree]:
        block = self.close(system, influence, at.params, metric)
        window = block.window.push(at)
        ends = jnp.all(signs[0] < 0) | (window.held == LONGEST * self.depth)
        return block._replace(window=window, ends=ends), system.evolve(at.params, at.h, at.x)
