"""How much of the random part of a gradient to believe.

An estimate is an exact part g and the mean of K random parts r_k, independent of each other given the past, whose mean
is what the exact part leaves out. The gradient that moves theta is g + s (1/K) sum_k r_k: with s = 1 it is unbiased;
with an s that does not depend on the signs in r_k its mean is g plus s times the rest; an s that is found online
depends on these and on earlier signs, and adds a bias of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..configuration import as_number, at_least, configuration, static
from ..protocol import Metric, Tree
from ..registry import register

TRUST = 6.0  # what full agreement adds to log s
TIMID = 0.1  # of the power of the exact part, in a metric without a unit
NOTHING = 1e-10  # of the power of the exact part: below it copies agree on rounding errors
SPIKE = 3.0  # times the usual length of what is believed: no more at once
SHOCK = 10.0  # times the usual power, and 1: more is not counted


class Parts(NamedTuple):
    """An estimate in its parts: g, and r_k = along_k w_k. Of g, `own` is what stands, like r_k, for what is older."""

    exact: Tree
    along: Float[Array, " rank"]
    w: Tree
    own: Tree = None

    def whole(self, factor: Float[Array, ""] | float = 1) -> Parts:
        """The same with the exact parts in one, `own` times a factor."""
        if self.own is None:
            return self
        exact = jax.tree.map(lambda exact, own: exact + factor * own, self.exact, self.own)
        return self._replace(exact=exact, own=None)

    def total(self, factor: Float[Array, ""] | float = 1) -> Tree:
        """g + s (1/K) sum_k r_k."""
        along = factor * (self.along / len(self.along))
        return jax.tree.map(lambda w, exact: mix(along, w) + exact, self.w, self.exact)

    def mean(self) -> Tree:
        """(1/K) sum_k r_k."""
        return jax.tree.map(lambda w: mix(self.along / len(self.along), w), self.w)

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

    def noise(self, memory: Tree) -> Float[Array, ""] | float | None:
        """The power of the random part that is believed over that of the exact one; None where it is not measured."""
        ...


class Forgetful:
    """What the rules share that remember nothing, and so do not measure the noise."""

    def init(self, theta: Tree, rank: int) -> Tree:
        return ()

    def noise(self, memory: Tree) -> float | None:
        return None


@configuration
class Unbiased(Forgetful):
    """s = 1."""

    def weigh(self, memory: Tree, parts: Parts, metric: Metric) -> tuple[Tree, Tree]:
        return memory, parts.whole().total()

    def factor(self, memory: Tree) -> float:
        return 1.0


@configuration
class Share(Forgetful):
    """s held: the mean of the gradient is the exact part and a share s of the rest."""

    share: float

    def __post_init__(self) -> None:
        as_number(self.share, "share")

    def weigh(self, memory: Tree, parts: Parts, metric: Metric) -> tuple[Tree, Tree]:
        share = jnp.asarray(self.share, parts.along.dtype)
        return memory, parts.whole(share).total(share)

    def factor(self, memory: Tree) -> float:
        return self.share


@configuration
class Truncated(Forgetful):
    """s = 0, and no part for what is older than a window: truncation, which has no noise."""

    def weigh(self, memory: Tree, parts: Parts, metric: Metric) -> tuple[Tree, Tree]:
        return memory, parts.exact

    def factor(self, memory: Tree) -> float:
        return 0.0

    def noise(self, memory: Tree) -> float:
        return 0.0


@register
class Experience(NamedTuple):
    """What a cautious belief has seen: running means of the random parts and of squared lengths, in the metric."""

    estimates: Float[Array, ""]  # how many
    random: Tree  # r_k
    exact_power: Float[Array, ""]  # |g|^2
    random_power: Float[Array, ""]  # |(1/K) sum_k r_k|^2
    signal_power: Float[Array, ""]  # <r_1, r_2>, of copies that share no signs: |E r|^2 in the mean; 0 if K = 1
    agreement: Float[Array, ""]
    share: Float[Array, ""]  # s


@configuration
class Caution:
    """s = 1 as long as the noise can be borne; else as much as keeps it small beside the exact part.

    The random part may have the power A = budget exp(12 z+) sqrt(E / (E + P)) E c / (E + c), E being the mean of |g|^2,
    P the mean power of the random part, c the `ceiling`, and z the mean cosine of the running means of r_1 and r_2 (r_3
    and r_4, ...; 0 for K = 1): the copies share no signs, so that what they agree on is no noise. Then s^2 is A / P, at
    most 1, and one estimate brings at most three times the length that A allows. In the means a power counts for at
    most 1 + 10 times their own, so that one explosion does not rule them; an estimate that is zero, without targets, or
    too large for a float says nothing. Lengths are in the metric C = (J + Lambda)^-1 in which theta moves, where 1 is a
    standard deviation of what the filter knows; in a metric without such a unit (SGD, optax) c is E / 10, and powers
    count whole.

    `budget` is a ratio of powers: less follows the exact part more closely. `memory` is the number of estimates in
    the running means. None of these wants tuning.
    """

    budget: float = 1.0
    ceiling: float = 0.25
    memory: int = static(default=333)

    def __post_init__(self) -> None:
        for name in ("budget", "ceiling"):
            as_number(getattr(self, name), name)
        at_least("memory", self.memory, 1)

    def init(self, theta: Tree, rank: int) -> Experience:
        zero = jnp.zeros((), jax.tree.leaves(theta)[0].dtype)
        random = jax.tree.map(lambda leaf: jnp.zeros((rank, *leaf.shape), leaf.dtype), theta)
        return Experience(zero, random, zero, zero, zero, zero, jnp.ones_like(zero))

    def weigh(self, memory: Experience, parts: Parts, metric: Metric) -> tuple[Experience, Tree]:
        parts = parts.whole()
        exact, power = metric.norm2(parts.exact), metric.norm2(parts.mean())
        seen = self._seen(memory, parts, metric, exact, power)
        allowed = self._allowed(seen, metric)
        share = jnp.where(seen.random_power > 0, jnp.minimum(1, jnp.sqrt(allowed * over(seen.random_power))), 1)
        at_once = jnp.where(power > 0, SPIKE * jnp.sqrt(allowed * over(power)), 1)
        seen, some = seen._replace(share=share), (exact + power > 0) & jnp.isfinite(exact + power)
        seen = jax.tree.map(lambda new, old: jnp.where(some, new, old), seen, memory)
        return seen, parts.total(jnp.minimum(seen.share, at_once))

    def factor(self, memory: Experience) -> Float[Array, ""]:
        return memory.share

    def noise(self, memory: Experience) -> Float[Array, ""]:
        noise = jnp.maximum(memory.random_power - memory.signal_power, 0)
        return memory.share**2 * noise * over(memory.exact_power)

    def _seen(
        self, memory: Experience, parts: Parts, metric: Metric, exact: Float[Array, ""], power: Float[Array, ""]
    ) -> Experience:
        """The running means, plain means at first, with one more estimate."""
        estimates = memory.estimates + 1
        pace = jnp.maximum(1 / estimates, 1 / self.memory)

        def mean(before: Tree, now: Tree) -> Tree:
            return jax.tree.map(lambda before, now: before + pace.astype(now.dtype) * (now - before), before, now)

        exact, counted = _counted(exact, memory.exact_power, metric), _counted(power, memory.random_power, metric)
        smaller = jnp.where(power > counted, jnp.sqrt(counted * over(power)), 1)
        now = jax.tree.map(lambda r: smaller.astype(r.dtype) * r, parts.random())
        random = mean(memory.random, now)
        exact_power, random_power = mean(memory.exact_power, exact), mean(memory.random_power, counted)
        cosine = _over_pairs(lambda a, b: _cosine(metric, a, b), random)
        return Experience(
            estimates,
            random,
            exact_power,
            random_power,
            mean(memory.signal_power, _over_pairs(lambda a, b: inner(a, metric.raised(b)), now)),
            mean(memory.agreement, jnp.where(random_power > NOTHING * exact_power, cosine, 0)),
            memory.share,
        )

    def _allowed(self, seen: Experience, metric: Metric) -> Float[Array, ""]:
        """A, the power that the random part may have."""
        exact = seen.exact_power
        ceiling = jnp.asarray(self.ceiling, exact.dtype) if metric.has_unit else TIMID * exact
        trust = jnp.exp(2 * TRUST * jnp.maximum(seen.agreement, 0))
        doubt = jnp.sqrt(exact * over(exact + seen.random_power))
        return self.budget * trust * doubt * exact * ceiling * over(exact + ceiling)


def _counted(power: Float[Array, ""], mean: Float[Array, ""], metric: Metric) -> Float[Array, ""]:
    """As much of a power as goes into its mean."""
    return jnp.minimum(power, 1 + SHOCK * mean) if metric.has_unit else power


def _pairs(random: Tree) -> tuple[Tree, Tree]:
    """r_1, r_3, ... and r_2, r_4, ...: copies that share no signs."""
    even = len(jax.tree.leaves(random)[0]) // 2 * 2
    first, second = (jax.tree.map(lambda r, at=at: r[at:even:2], random) for at in (0, 1))
    return first, second


def _over_pairs(measure: Callable[[Tree, Tree], Array], random: Tree) -> Float[Array, ""]:
    """The mean of a measure over pairs of copies; 0 where there is one copy only."""
    leaf = jax.tree.leaves(random)[0]
    return jnp.mean(jax.vmap(measure)(*_pairs(random))) if len(leaf) > 1 else jnp.zeros((), leaf.dtype)


def _cosine(metric: Metric, a: Tree, b: Tree) -> Float[Array, ""]:
    """<a, C b> / sqrt(<a, C a> <b, C b>), and 0 where one of them is nothing."""
    product, lengths = inner(a, metric.raised(b)), jnp.sqrt(metric.norm2(a)) * jnp.sqrt(metric.norm2(b))
    return jnp.where(lengths > 0, product / jnp.where(lengths > 0, lengths, 1), 0)


def over(x: Float[Array, ""]) -> Float[Array, ""]:
    """1/x, and 0 where x is 0."""
    return jnp.where(x > 0, 1 / jnp.where(x > 0, x, 1), 0)


def inner(a: Tree, b: Tree) -> Float[Array, ""]:
    """The sum of the products of all entries."""
    return jax.tree.reduce(jnp.add, jax.tree.map(lambda a, b: jnp.sum(a * b), a, b))


def each(factors: Float[Array, " rank"], leaf: Float[Array, "rank ..."]) -> Array:
    """A factor for each of the K terms."""
    return factors.astype(leaf.dtype).reshape(-1, *(1,) * (leaf.ndim - 1)) * leaf


def mix(factors: Float[Array, " rank"], leaf: Float[Array, "rank ..."]) -> Array:
    """sum_k factor_k leaf_k."""
    return jnp.tensordot(factors.astype(leaf.dtype), leaf, axes=1)
