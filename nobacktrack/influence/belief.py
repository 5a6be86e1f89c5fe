"""How much of the random part of a gradient to believe.

An estimate is an exact part g and the mean of K random parts r_k, independent of each other given the past, whose mean
is what the exact part leaves out. The gradient that moves theta is g + s (1/K) sum_k r_k: with s = 1 it is unbiased;
with an s that does not depend on the signs in r_k its mean is g plus s times the rest; an s that is found online
depends on earlier signs, through theta, and adds a bias of its own.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..configuration import as_number, as_share, configuration
from ..protocol import Metric, Tree
from ..registry import register

LEAST = -12.0


class Parts(NamedTuple):
    """An estimate in its parts: g, and r_k = along_k w_k."""

    exact: Tree
    along: Float[Array, " rank"]
    w: Tree

    def total(self, factor: Float[Array, ""] | float = 1) -> Tree:
        """g + s (1/K) sum_k r_k."""
        along = factor * (self.along / len(self.along))
        return jax.tree.map(lambda w, exact: mix(along, w) + exact, self.w, self.exact)

    def random(self) -> Tree:
        """r_k, stacked."""
        return jax.tree.map(lambda w: each(self.along, w), self.w)


class Belief(Protocol):
    """The rule that gives s. Its memory is part of the influence."""

    def init(self, theta: Tree, rank: int) -> Tree:
        """What it remembers before the first gradient."""
        ...

    def weigh(self, memory: Tree, parts: Parts, metric: Metric) -> tuple[Tree, Tree]:
        """What it remembers after an estimate, and the gradient to follow."""
        ...

    def factor(self, memory: Tree) -> Float[Array, ""] | float:
        """s."""
        ...


@configuration
class Unbiased:
    """s = 1."""

    def init(self, theta: Tree, rank: int) -> Tree:
        return ()

    def weigh(self, memory: Tree, parts: Parts, metric: Metric) -> tuple[Tree, Tree]:
        return memory, parts.total()

    def factor(self, memory: Tree) -> float:
        return 1.0


@configuration
class Share:
    """s held: the mean of the gradient is the exact part and a share s of the rest; s = 0 is truncation."""

    share: float

    def __post_init__(self) -> None:
        as_number(self.share, "share")

    def init(self, theta: Tree, rank: int) -> Tree:
        return ()

    def weigh(self, memory: Tree, parts: Parts, metric: Metric) -> tuple[Tree, Tree]:
        return memory, parts.total(jnp.asarray(self.share, parts.along.dtype))

    def factor(self, memory: Tree) -> float:
        return self.share


@register
class Agreed(NamedTuple):
    """log s, and the random parts of the estimate before."""

    log_share: Float[Array, ""]
    random: Tree


@configuration
class Agreement:
    """log s <- log s + pace mean_k cos(g + mean_{l != k} r_l, r_k of the estimate before), in the metric C in which
    theta moves, and s at most 1.

    theta has moved by -C s r_k since, so the derivative in log s of the next loss is -s <its gradient, C r_k>: s goes
    up where the random part pointed down, and down where its noise carried theta too far. The copies share no signs, so
    that for K >= 2 the judge is not truncated. With K = 1 there is no other copy, and the judge is g alone.
    """

    pace: float = 0.05
    start: float = 0.05

    def __post_init__(self) -> None:
        as_number(self.pace, "pace")
        as_share(self.start, "start")

    def init(self, theta: Tree, rank: int) -> Agreed:
        dtype = jax.tree.leaves(theta)[0].dtype
        random = jax.tree.map(lambda leaf: jnp.zeros((rank, *leaf.shape), leaf.dtype), theta)
        return Agreed(jnp.log(jnp.asarray(self.start, dtype)), random)

    def weigh(self, memory: Agreed, parts: Parts, metric: Metric) -> tuple[Agreed, Tree]:
        random = parts.random()
        cosines = jax.vmap(lambda judge, r: cosine(metric, judge, r))(_judges(parts.exact, random), memory.random)
        log_share = jnp.clip(memory.log_share + self.pace * jnp.mean(cosines), LEAST, 0)
        return Agreed(log_share, random), parts.total(jnp.exp(memory.log_share))

    def factor(self, memory: Agreed) -> Float[Array, ""]:
        return jnp.exp(memory.log_share)


def _judges(exact: Tree, random: Tree) -> Tree:
    """g + mean_{l != k} r_l, for each k."""

    def others(exact: Array, random: Array) -> Array:
        rank = len(random)
        mean = (jnp.sum(random, axis=0, keepdims=True) - random) / max(rank - 1, 1)
        return exact[None] + mean

    return jax.tree.map(others, exact, random)


def cosine(metric: Metric, a: Tree, b: Tree) -> Float[Array, ""]:
    """<a, C b> / sqrt(<a, C a> <b, C b>), and 0 where either is."""
    product = inner(a, metric.raised(b))
    lengths = jnp.sqrt(metric.norm2(a)) * jnp.sqrt(metric.norm2(b))
    return jnp.where(lengths > 0, product / jnp.where(lengths > 0, lengths, 1), 0)


def inner(a: Tree, b: Tree) -> Float[Array, ""]:
    """The sum of the products of all entries."""
    return jax.tree.reduce(jnp.add, jax.tree.map(lambda a, b: jnp.sum(a * b), a, b))


def each(factors: Float[Array, " rank"], leaf: Float[Array, "rank ..."]) -> Array:
    """A factor for each of the K terms."""
    return factors.astype(leaf.dtype).reshape(-1, *(1,) * (leaf.ndim - 1)) * leaf


def mix(factors: Float[Array, " rank"], leaf: Float[Array, "rank ..."]) -> Array:
    """sum_k factor_k leaf_k."""
    return jnp.tensordot(factors.astype(leaf.dtype), leaf, axes=1)
