"""The model: a chain of hidden states, and what they emit."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ..configuration import at_least, configuration, set_field, static
from ..protocol import Fixed, Params
from ..registry import register
from ..systems.spaces import Symbols, Vectors

SUM_TOLERANCE = 1e-5
LEAST_SHARE = 1e-6  # of a row of probabilities, after a reduced statistic came out negative
LEAST_VISITS = 1e-3  # over k: a state visited less keeps the parameters that it has
LEAST_ITEMS = 5  # so many items, of the weight of the last one, before a state gets a variance of its own
LEAST_VARIANCE = 1e-3  # over the variance of all items together


@register
class Belief(NamedTuple):
    """P(X_t = x | y_1 .. y_t); before the first item of an episode, the initial distribution."""

    phi: Float[Array, " k"]
    fresh: Bool[Array, ""]


@register
class Categorical(NamedTuple):
    """P(y | x) = g[x, y]."""

    g: Any  # (k, symbols)

    def log_density(self, y: Array) -> Float[Array, " k"]:
        return jnp.log(self.g[:, y])

    def statistic(self, y: Array) -> Float[Array, " symbols"]:
        """s(y): which symbol."""
        return jax.nn.one_hot(y, self.g.shape[1], dtype=self.g.dtype)

    def maximise(self, s: Float[Array, "k symbols"], gamma: Array) -> Categorical:
        return Categorical(normalise_rows(s, self.g))


@register
class Normal(NamedTuple):
    """y | x is Gaussian, with a mean and a variance for each coordinate. Moments are taken around `centre`, the mean of
    the first means, so that data far from zero lose no digits.
    """

    mean: Any  # (k, outputs)
    variance: Any  # (k, outputs)
    centre: Any = None  # (outputs,), filled in by init

    def log_density(self, y: Float[Array, " outputs"]) -> Float[Array, " k"]:
        squares = (y.astype(self.mean.dtype)[None, :] - self.mean) ** 2 / self.variance
        return -jnp.sum(squares + jnp.log(2 * jnp.pi * self.variance), axis=1) / 2

    def statistic(self, y: Float[Array, " outputs"]) -> Float[Array, " moments"]:
        """s(y) = [1, z, z^2] with z = y - centre."""
        z = y.astype(self.mean.dtype) - self.centre
        return jnp.concatenate([jnp.ones(1, z.dtype), z, z**2])

    def maximise(self, s: Float[Array, "k moments"], gamma: Array) -> Normal:
        """Means and variances; a state that was hardly visited keeps its own, and a variance needs some items, since
        that of one item is zero.
        """
        visits, size = s[:, :1], self.mean.shape[1]
        mean, square = _moments(s, visits, size)
        least = LEAST_VARIANCE * _pooled_variance(s, size)
        seen, often = visits > LEAST_VISITS / len(s), visits > LEAST_ITEMS * gamma
        variance = jnp.where(often, jnp.maximum(square - mean**2, least[None, :]), self.variance)
        return Normal(jnp.where(seen, mean + self.centre[None, :], self.mean), variance, self.centre)


def _moments(s: Float[Array, "k moments"], visits: Array, size: int) -> tuple[Array, Array]:
    """The mean and the mean square of each coordinate, around the centre."""
    safe = jnp.where(visits > 0, visits, 1)
    return s[:, 1 : 1 + size] / safe, s[:, 1 + size :] / safe


def _pooled_variance(s: Float[Array, "k moments"], size: int) -> Float[Array, " outputs"]:
    """Of all items together."""
    total = jnp.sum(s, axis=0, keepdims=True)
    mean, square = _moments(total, total[:, :1], size)
    return jnp.maximum(square - mean**2, 0)[0]


@register
class Chain(NamedTuple):
    """What is learned: q[i, j] = P(X_{t+1} = j | X_t = i), and the emissions."""

    q: Any  # (k, k)
    emission: Any


@configuration
class HMM:
    """A chain of `states` hidden states that emits symbols, or vectors of independent Gaussians where `outputs` is
    given.
    """

    states: int = static()
    symbols: int | None = static(default=None)
    outputs: int | None = static(default=None)

    packed: ClassVar[bool] = False

    def __post_init__(self) -> None:
        set_field(self, "states", at_least("states", self.states, 2))
        if (self.symbols is None) == (self.outputs is None):
            raise ValueError("an HMM emits symbols= or outputs=, one of them")
        _ = self.input_space

    @property
    def input_space(self) -> Any:
        return Symbols(self.symbols) if self.symbols is not None else Vectors(self.outputs or 0)

    @property
    def target_space(self) -> Any:
        return self.input_space

    def init(self, key: jax.Array, dtype: Any) -> tuple[Params, Belief]:
        """Rows of q and g drawn around the uniform one; Gaussian means from N(0, 1), variances 1; the initial
        distribution is uniform.
        """
        k = self.states
        transitions, emissions = jax.random.split(key)
        q = _draw_rows(transitions, (k, k), dtype)
        if self.symbols is not None:
            emission = Categorical(_draw_rows(emissions, (k, self.symbols), dtype))
        else:
            mean = jax.random.normal(emissions, (k, self.outputs or 0), dtype)
            emission = Normal(mean, jnp.ones_like(mean), jnp.mean(mean, axis=0))
        start = Belief(jnp.full(k, 1 / k, dtype), jnp.ones((), bool))
        return Params(Chain(q, emission), (), Fixed(start)), start

    def predict(self, params: Params, h: Belief) -> Any:
        """P(y) of the next symbol, or the mean of the next vector."""
        ahead = predicted_state(params.theta, h)
        emission = params.theta.emission
        return ahead @ (emission.g if isinstance(emission, Categorical) else emission.mean)


def predicted_state(chain: Chain, h: Belief) -> Float[Array, " k"]:
    """P(X_{t+1} = x | y_1 .. y_t)."""
    return jnp.where(h.fresh, h.phi, h.phi @ chain.q)


def normalise_rows(s: Float[Array, "k m"], old: Float[Array, "k m"]) -> Float[Array, "k m"]:
    """Rows of probabilities from statistics, some of which may be negative; a state that was hardly visited keeps its
    old row.
    """
    positive = jnp.maximum(s, 0)
    seen = jnp.sum(positive, axis=1, keepdims=True) > LEAST_VISITS / len(s)
    positive = positive + LEAST_SHARE * jnp.sum(positive, axis=1, keepdims=True)
    total = jnp.sum(positive, axis=1, keepdims=True)
    return jnp.where(seen, positive / jnp.where(seen, total, 1), old)


def _draw_rows(key: jax.Array, shape: tuple[int, int], dtype: Any) -> Float[Array, "k m"]:
    """Random rows of probabilities, around the uniform one."""
    weights = jax.random.uniform(key, shape, dtype, 0.5, 1.5)
    return weights / jnp.sum(weights, axis=1, keepdims=True)


def check_chain(chain: Any, like: Chain, dtype: Any) -> Chain:
    """The user's chain, refused by name where it is none."""
    if not isinstance(chain, Chain) or type(chain.emission) is not type(like.emission):
        raise ValueError(f"theta must be nbt.hmm.Chain(q, nbt.hmm.{type(like.emission).__name__}(...)), not {chain!r}")
    q = check_rows(chain.q, like.q, "theta.q", dtype)
    if isinstance(chain.emission, Categorical):
        return Chain(q, Categorical(check_rows(chain.emission.g, like.emission.g, "theta.emission.g", dtype)))
    mean, variance = (
        _check_shape(getattr(chain.emission, name), like.emission.mean, f"theta.emission.{name}", dtype)
        for name in ("mean", "variance")
    )
    if (variance <= 0).any():
        raise ValueError("theta.emission.variance must be positive")
    return Chain(q, Normal(jnp.asarray(mean), jnp.asarray(variance), jnp.asarray(mean.mean(axis=0))))


def _check_shape(values: Any, like: Array, name: str, dtype: Any) -> np.ndarray:
    array = np.asarray(values, dtype)
    if array.shape != like.shape or not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite numbers of shape {like.shape}, not of shape {array.shape}")
    return array


def check_rows(values: Any, like: Array, name: str, dtype: Any) -> Array:
    array = _check_shape(values, like, name, dtype)
    if (array < 0).any():
        raise ValueError(f"{name} holds a negative probability, {array[array < 0][0]}")
    sums = np.atleast_1d(array.sum(axis=-1))
    if (abs(sums - 1) > SUM_TOLERANCE).any():
        row = int(np.argmax(abs(sums - 1) > SUM_TOLERANCE))
        where = f"{name}: row {row}" if array.ndim > 1 else name
        raise ValueError(f"{where} sums to {sums[row]:.7g}, not to one")
    return jnp.asarray(array)
