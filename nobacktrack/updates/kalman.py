"""Kalman NoBackTrack: the extended Kalman filter on parameters, in information form [NBT, Alg. 2]."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..configuration import (
    InverseSqrt,
    as_number,
    as_rate,
    at_least,
    configuration,
    expect_part,
    rate_at,
    set_field,
    static,
)
from ..guards import replacement
from ..protocol import Evidence, Layout, Tree
from .metrics import Kind, Mahalanobis, QuasiDiagonal

MOST_DECAY = 1 - 1e-6
QUIET_DECAY = 0.03  # for gradients without noise
LEAST_PRIOR = 2.0
HEARD = 1000  # samples in the means of what the rows hear
NOISY_DECAY = 0.1
SHOCK = 10.0  # times the usual squared length of a gradient, and 1: longer ones are shortened
LENGTHS = 333  # gradients in the mean of squared lengths


class Lengths(NamedTuple):
    """How many gradients there were, and the running mean of their squared lengths, as they were followed."""

    gradients: Float[Array, ""]
    usual: Float[Array, ""]


class Hearing(NamedTuple):
    """How often the units were listened to, the mean of what they show to the rows, and its variance, added up over
    the units. That begins as their number, which counts as one sample.
    """

    samples: Float[Array, ""]
    mean: Float[Array, " width"]
    variance: Float[Array, ""]

    def listen(self, heard: Float[Array, "samples width"]) -> Hearing:
        """The running means, plain means at first, with one more sample, or several of one moment."""
        samples = self.samples + 1
        pace = jnp.maximum(1 / samples, 1 / HEARD)
        apart = heard - self.mean[None]
        now = (1 - pace) * jnp.mean(jnp.sum(apart**2, axis=1))
        variance = self.variance + jnp.maximum(1 / (samples + 1), 1 / HEARD) * (now - self.variance)
        return Hearing(samples, self.mean + pace * jnp.mean(apart, axis=0), variance)


class Filter(NamedTuple):
    """What a filter knows: the information J, reduced, and the prior Lambda (which is not decayed); where J does not
    take in every gradient, how many came since it took one in; where shocks are damped, what length is usual; where
    Lambda follows from it, what the rows hear.
    """

    information: Tree
    prior: Float[Array, ""]
    age: Tree = ()
    lengths: Tree = ()
    hearing: Tree = ()


@configuration
class OuterProduct:
    """I_t = (dl/dy_hat)^T dl/dy_hat, so that J gets the outer product of the gradient: the paper's choice."""

    def vectors(self, evidence: Evidence) -> Tree:
        """The g_k of which J gets the outer products."""
        if evidence.single is not None:
            return evidence.single
        return jax.tree.map(lambda leaf: leaf[None], evidence.gradient)


@configuration
class ExactFisher:
    """I_t = the Fisher matrix of y_hat: diag p - p p^T for softmax, R^-1 for a Gaussian, the Hessian for a loss of
    your own.
    """

    def vectors(self, evidence: Evidence) -> Tree:
        """dy_hat/dparams times a square root of I_t: as many gradients as the readout has outputs."""
        return jax.vmap(evidence.pull)(evidence.fisher_root())


@configuration
class Kalman:
    """J <- (1 - gamma_t) J + MatrixReduce(dy^T I dy),  params <- params - (J + Lambda)^-1 dl/dparams [NBT, Alg. 2].

    `decay` is gamma_t, a number or a function of t, and `prior` is Lambda. What is not given is the paper's, the number
    of units and 0.1 / sqrt t, unless the estimator knows its noise, the power of what is random in its gradient over
    that of the rest, as truncated BPTT (0) and `Caution` do. Then they are max(2, V / 2) (1 + noise) and 0.03 / sqrt t.
    V is the variance of what a row hears, added up over the units and inputs that it hears, so that what the prior
    expects of a pre-activation has a variance of 2 at most. Where Lambda is so small, a gradient of theta with g^T (J +
    Lambda)^-1 g above 1 + 10 times its running mean is shortened to that, and one too long for a float is left out:
    gradients through many steps explode.

    `information` is a first J, as the metric keeps it, on the scale of one group of parameters. The size of the steps
    comes from J: there is no rate. With `every` = m, J takes in the first of each m gradients, with weight m, and the m
    steps share it: J <- (1 - gamma_t)^m J + m MatrixReduce(dy^T I dy). That moves less memory (docs/engines.md).
    """

    decay: Any = None
    prior: float | None = None
    metric: Kind = QuasiDiagonal()
    fisher: OuterProduct | ExactFisher = OuterProduct()
    information: Any = None
    every: int = static(default=1)

    def __post_init__(self) -> None:
        if self.decay is not None:
            set_field(self, "decay", as_rate(self.decay, "decay"))
        if self.prior is not None:
            as_number(self.prior, "prior")
        expect_part(self.metric, "metric", "solve", "a reduction such as nbt.QuasiDiagonal()")
        expect_part(self.fisher, "fisher", "vectors", "nbt.OuterProduct() or nbt.ExactFisher()")
        set_field(self, "every", at_least("every", self.every, 1))

    def init(self, params: Tree, layout: Layout) -> Filter:
        dtype = jax.tree.leaves(params)[0].dtype
        information = self.metric.zeros(params)
        if self.information is not None:
            information = replacement(self.information, information, "information")
        zero, follows = jnp.zeros((), dtype), self.prior is None and layout.measured
        hearing = Hearing(zero, jnp.zeros(layout.width, dtype), jnp.asarray(layout.width, dtype))
        usual = LEAST_PRIOR if follows and not layout.width else layout.units
        return Filter(
            information,
            jnp.asarray(usual if self.prior is None else self.prior, dtype),
            jnp.zeros((), jnp.int32) if self.every > 1 else (),
            Lengths(zero, zero) if follows and not layout.bounded else (),
            hearing if follows and layout.width else (),
        )

    def apply(self, state: Filter, params: Tree, evidence: Evidence, t: Float[Array, ""]) -> tuple[Filter, Tree]:
        state, evidence = self._damped(self._tempered(state, evidence), evidence)
        state = self._informed(state, evidence, t)
        step = self.metric.solve(state.information, state.prior, evidence.gradient)
        return state, jax.tree.map(jnp.subtract, params, step)

    def _tempered(self, state: Filter, evidence: Evidence) -> Filter:
        """Lambda = max(2, V / 2) (1 + noise), where it was not given. A step of -g / Lambda changes the loss by -|m|^2
        / Lambda + const (|m|^2 + |r|^2) / Lambda^2, m being the mean of g and r its noise: least for Lambda ~ 1 + |r|^2
        / |m|^2.
        """
        if self.prior is not None or evidence.noise is None:
            return state
        prior = jnp.asarray(LEAST_PRIOR, state.prior.dtype)
        if isinstance(state.hearing, Hearing):
            assert evidence.heard is not None, "a filter whose rows hear units is told what they hear"
            state = state._replace(hearing=state.hearing.listen(evidence.heard))
            prior = jnp.maximum(prior, (state.hearing.variance + evidence.inputs) / 2)
        return state._replace(prior=prior * (1 + jnp.asarray(evidence.noise, prior.dtype)))

    def _damped(self, state: Filter, evidence: Evidence) -> tuple[Filter, Evidence]:
        """A gradient that is not much longer than usual."""
        if not isinstance(state.lengths, Lengths):
            return state, evidence
        gradients, usual = state.lengths
        length = self.metric_of(state).norm2(evidence.gradient).astype(usual.dtype)
        finite, bound = jnp.isfinite(length), 1 + SHOCK * usual
        some = finite & (length > 0)
        factor = jnp.where(length > bound, jnp.sqrt(bound / jnp.where(some, length, 1)), 1)
        following = usual + jnp.maximum(1 / (gradients + 1), 1 / LENGTHS) * (jnp.minimum(length, bound) - usual)
        lengths = Lengths(gradients + 1, following)
        lengths = jax.tree.map(lambda new, old: jnp.where(some, new, old), lengths, state.lengths)

        def shorten(tree: Tree) -> Tree:
            return jax.tree.map(lambda leaf: jnp.where(finite, factor.astype(leaf.dtype) * leaf, 0), tree)

        shortened = evidence._replace(
            gradient=shorten(evidence.gradient),
            pull=lambda cotangent: shorten(evidence.pull(cotangent)),
            single=None if evidence.single is None else shorten(evidence.single),
        )
        return state._replace(lengths=lengths), shortened

    def _informed(self, state: Filter, evidence: Evidence, t: Float[Array, ""]) -> Filter:
        """J with the gradient taken in, where its turn has come."""
        decay = self.decay_of(evidence.noise is not None)
        keep = (1 - jnp.minimum(rate_at(decay, t), MOST_DECAY)) ** self.every

        def grown() -> Tree:
            vectors = jax.tree.map(lambda leaf: self.every**0.5 * leaf, self.fisher.vectors(evidence))
            return self.metric.add(state.information, keep, vectors)

        if self.every == 1:
            return state._replace(information=grown())
        information = jax.lax.cond(state.age == 0, grown, lambda: state.information)
        return state._replace(information=information, age=(state.age + 1) % self.every)

    def metric_of(self, state: Filter) -> Mahalanobis:
        return Mahalanobis(self.metric, state.information, state.prior)

    def adapt(self, packed: bool) -> Kalman:
        return dataclasses.replace(self, metric=self.metric.adapt(packed))

    def decay_of(self, measured: bool) -> Callable[[Array], Array] | float:
        """gamma_t as it was given, or as it follows from whether the noise is known."""
        return InverseSqrt(QUIET_DECAY if measured else NOISY_DECAY) if self.decay is None else self.decay
