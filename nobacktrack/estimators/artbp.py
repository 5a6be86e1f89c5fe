"""ARTBP: backpropagation through blocks of random length, unbiased [Tallec and Ollivier 2017]."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int8

from .. import draws
from ..configuration import at_least, configuration, set_field, static
from ..protocol import Metric, Params, Point, Tree
from .bptt import Block, backtrack, empty

LONGEST = 16


class RandomBlock(NamedTuple):
    """The block being read, and whether the newest transition is its last."""

    block: Block
    ends: Bool[Array, ""]


@configuration
class ARTBP:
    """Blocks that end after each step with probability c = 1/depth, and lambda_{j-1} = lambda_j df/dh / (1 - c) +
    dl_dh_{j-1} within a block, which makes up for those that were cut [Tallec and Ollivier 2017]. Unbiased; time
    O(dim theta) a step on average, memory O(n times the longest block).

    `depth` is the mean length, a power of two: the coins are made of fair signs. A block of 16 times that length, which
    is one in nine millions, is cut where it stands. theta is fixed within a block, and moves as in `TruncatedBPTT`.
    """

    depth: int = static(default=16)

    def __post_init__(self) -> None:
        set_field(self, "depth", at_least("depth", self.depth, 2))
        if self.depth & (self.depth - 1):
            raise ValueError(f"depth must be a power of two, not {self.depth}: coins are made of fair signs")

    def init(self, system: Any, at: Point) -> RandomBlock:
        gradient, no = jax.tree.map(jnp.zeros_like, at.params.theta), jnp.zeros((), bool)
        return RandomBlock(Block(empty(LONGEST * self.depth, at), gradient, no), no)

    def forget(self, influence: RandomBlock) -> RandomBlock:
        block = influence.block
        return influence._replace(block=block._replace(window=block.window._replace(fresh=jnp.ones((), bool))))

    def observe(
        self, system: Any, influence: RandomBlock, params: Params, dl_dh: Float[Array, " n"]
    ) -> tuple[RandomBlock, Tree, Array]:
        """Keep dl/dh; at the end of a block, dl/dtheta summed over it."""
        block = influence.block
        seen = influence._replace(block=block._replace(window=block.window.observed(dl_dh)))
        block, ends = self._closed(system, seen, params)
        paid = Block(block.window, jax.tree.map(jnp.zeros_like, block.gradient), jnp.zeros((), bool))
        return RandomBlock(paid, ends), block.gradient, block.due

    def draw(self, system: Any, h: Tree, key: Array, t: Array) -> tuple[Int8[Array, " bits"], ...]:
        """Fair signs: all of them negative with probability 1/depth."""
        return (draws.signs(key, t, (self.depth.bit_length() - 1,)),)

    def advance(
        self, system: Any, influence: RandomBlock, at: Point, metric: Metric, signs: Any
    ) -> tuple[RandomBlock, Tree]:
        block, _ = self._closed(system, influence, at.params)
        window = block.window.extended(at)
        ends = jnp.all(signs[0] < 0) | (window.held == LONGEST * self.depth)
        return RandomBlock(block._replace(window=window), ends), system.evolve(at.params, at.h, at.x)

    def _closed(self, system: Any, influence: RandomBlock, params: Params) -> RandomBlock:
        """The gradient of a block that has ended, added to what is due."""
        block = influence.block
        gain = self.depth / (self.depth - 1)

        def close() -> RandomBlock:
            gradient = jax.tree.map(jnp.add, block.gradient, backtrack(system, block.window, params, gain))
            return RandomBlock(Block(block.window.emptied(), gradient, jnp.ones((), bool)), jnp.zeros((), bool))

        return jax.lax.cond(influence.ends, close, lambda: influence)
