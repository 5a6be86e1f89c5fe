"""Hidden Markov models by online EM, exactly or with its largest statistic carried by the rank-one trick [NBT, section
1.4, "Algorithms similar to RTRL"; Cappe 2011, *Online EM algorithm for hidden Markov models*].

Online EM carries, for each state x that the chain may be in now, the expected statistics of the past given that it is
there: rho_x, with k^2 entries for the transitions, so k^3 in all. They obey an affine recursion, like dh/dtheta does,
whose new term is a sum of k rank-one pieces. Reducing rho itself does not converge: it is its mean S that matters, and
the noise is of the order of S. So S is carried as it is, and the trick is applied to the deviations rho_x - S alone.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int8

from . import counter
from .configuration import as_rate, at_least, configuration, rate_at, set_field, static
from .influence.reduction import balance
from .learner import AbstractLearner, Apart, expect_one_stream
from .protocol import Fixed, Info, Moves, Params, Point, State, Tree
from .registry import register
from .systems.spaces import Symbols, Vectors
from .updates.gradient import Frozen

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

    def maximised(self, s: Float[Array, "k symbols"], gamma: Array) -> Categorical:
        return Categorical(_rows(s, self.g))


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

    def maximised(self, s: Float[Array, "k moments"], gamma: Array) -> Normal:
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
        q = _drawn(transitions, (k, k), dtype)
        if self.symbols is not None:
            emission = Categorical(_drawn(emissions, (k, self.symbols), dtype))
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


class Transit(NamedTuple):
    """One move of the chain: r[l, x] = P(X_t = l | X_{t+1} = x, y_1 .. y_t), the belief after it, gamma, and the new
    statistics given x: gamma r[:, x] e_x for the transitions, gamma e_x s for the emissions.
    """

    r: Float[Array, "k k"]
    phi: Float[Array, " k"]
    gamma: Float[Array, ""]
    pairs: Float[Array, "k k"]  # gamma r, or 0 at the start of an episode, where there was no transition
    s: Float[Array, " moments"]  # gamma s(y)


@register
class Sums(NamedTuple):
    """Statistics: of the transitions (i, j), and of the emissions of state i."""

    q: Float[Array, "... k k"]
    g: Float[Array, "... k moments"]


def _moved(chain: Chain, h: Belief, y: Array, gamma: Array) -> Transit:
    joint = h.phi[:, None] * chain.q
    total = jnp.sum(joint, axis=0, keepdims=True)
    k = len(h.phi)
    r = jnp.where(total > 0, joint / jnp.where(total > 0, total, 1), 1 / k)  # columns sum to one, whatever happens
    log_phi = jnp.log(predicted_state(chain, h)) + chain.emission.log_density(y)
    phi = jax.nn.softmax(log_phi)
    return Transit(r, phi, gamma, jnp.where(h.fresh, 0, gamma * r), gamma * chain.emission.statistic(y))


@register
class Exact(NamedTuple):
    """rho, whole: k^3 + k^2 m numbers for m moments, k^4 operations a step."""

    rho: Sums  # the last axis is x
    sums: Sums


@register
class Reduced(NamedTuple):
    """S, and rho_x - S = (1/K) sum_k v_k[x] w_k + sum_l (e_l - phi_l 1)[x] w_l: numbers and operations O(K k (k + m)).

    The pieces w_l of the last move are kept as they are until the next one, as the rows of NoBackTrack are.
    """

    sums: Sums
    v: Float[Array, "rank k"]
    w: Sums
    pairs: Float[Array, "k k"]
    s: Float[Array, " moments"]
    phi: Float[Array, " k"]


@configuration
class Statistics:
    """How the statistics of online EM are carried: exactly for rank None, else by `rank` reductions, averaged."""

    rank: int | None = static(default=None)

    def init(self, hmm: HMM, at: Point) -> Exact | Reduced:
        k, dtype = hmm.states, at.h.phi.dtype
        moments = at.params.theta.emission.statistic(at.x).size
        sums = Sums(jnp.zeros((k, k), dtype), jnp.zeros((k, moments), dtype))
        if self.rank is None:
            return Exact(jax.tree.map(lambda leaf: jnp.zeros((*leaf.shape, k), dtype), sums), sums)
        w = jax.tree.map(lambda leaf: jnp.zeros((self.rank, *leaf.shape), dtype), sums)
        return Reduced(sums, jnp.zeros((self.rank, k), dtype), w, sums.q, jnp.zeros(moments, dtype), at.h.phi)

    def forget(self, influence: Exact | Reduced) -> Exact | Reduced:
        """A new episode: the past says nothing of the state, so that all rho_x are S."""
        if isinstance(influence, Exact):
            rho = jax.tree.map(lambda s, r: jnp.broadcast_to(s[..., None], r.shape), influence.sums, influence.rho)
            return influence._replace(rho=rho)
        return jax.tree.map(jnp.zeros_like, influence)._replace(sums=influence.sums, phi=influence.phi)

    def draw(self, hmm: HMM, h: Belief, key: Array, t: Array) -> tuple[Int8[Array, "rank k"], ...]:
        return () if self.rank is None else (counter.signs(key, t, (self.rank, hmm.states), 0),)

    def advance(self, influence: Exact | Reduced, move: Transit, draws: Any) -> Exact | Reduced:
        if isinstance(influence, Exact):
            return _carry_exactly(influence, move)
        (signs,) = draws
        return _carry(influence, move, signs.astype(influence.v.dtype))


def _carry_exactly(influence: Exact, move: Transit) -> Exact:
    """rho'_ijx = gamma 1{j=x} r_{i|x} + (1 - gamma) sum_l rho_ijl r_{l|x}, and the same for the emissions."""
    k = len(move.phi)
    eye = jnp.eye(k, dtype=move.phi.dtype)
    kept = jax.tree.map(lambda rho: (1 - move.gamma) * (rho @ move.r), influence.rho)
    rho = Sums(
        kept.q + move.pairs[:, None, :] * eye[None, :, :],
        kept.g + eye[:, None, :] * move.s[None, :, None],
    )
    return Exact(rho, jax.tree.map(lambda rho: rho @ move.phi, rho))


def _carry(influence: Reduced, move: Transit, signs: Float[Array, "rank k"]) -> Reduced:
    """S' = gamma new + (1 - gamma) (S + sum_x phi'_x sum_l (rho_l - S) r_{l|x}), the deviations being taken as they
    are; then they become K products, and move on.
    """
    keep, rank = 1 - move.gamma, len(signs)
    back = move.r @ move.phi  # P(X_t = l | y_1 .. y_{t+1})
    along, weights = influence.v @ back / rank, back - influence.phi
    sums = Sums(
        keep * (influence.sums.q + jnp.tensordot(along, influence.w.q, 1) + influence.pairs * weights[None, :]),
        keep * (influence.sums.g + jnp.tensordot(along, influence.w.g, 1) + weights[:, None] * influence.s[None, :]),
    )
    new = Sums(move.pairs * move.phi[None, :], move.phi[:, None] * move.s[None, :])
    v, w = _reduced(influence, signs)
    v = v @ move.r
    v = v - (v @ move.phi)[:, None]
    w = jax.tree.map(lambda leaf: keep * leaf, w)
    return Reduced(jax.tree.map(jnp.add, sums, new), v, w, move.pairs, move.s, move.phi)


def _reduced(influence: Reduced, signs: Float[Array, "rank k"]) -> tuple[Array, Sums]:
    """v <- rho v + sum_l eps_l rho_l (e_l - phi_l 1),  w <- w / rho + sum_l eps_l w_l / rho_l [NBT, Alg. 1]."""
    k = len(influence.phi)
    ones = jnp.eye(k, dtype=influence.phi.dtype) - influence.phi[:, None]
    norm_w = jnp.sqrt(jnp.sum(influence.pairs**2, axis=0) + jnp.sum(influence.s**2))
    rho, inverse = balance(norm_w, jnp.sqrt(jnp.sum(ones**2, axis=1)))
    size_w = jnp.sqrt(jnp.sum(influence.w.q**2, axis=(1, 2)) + jnp.sum(influence.w.g**2, axis=(1, 2)))
    kept, shrunk = balance(size_w, jnp.sqrt(jnp.sum(influence.v**2, axis=1)))
    v = kept[:, None] * influence.v + (signs * rho[None, :]) @ ones
    columns = signs * inverse[None, :]
    w = Sums(
        shrunk[:, None, None] * influence.w.q + influence.pairs[None] * columns[:, None, :],
        shrunk[:, None, None] * influence.w.g + columns[:, :, None] * influence.s[None, None, :],
    )
    return v, w


@configuration
class OnlineEM(AbstractLearner):
    """Online EM for a hidden Markov model, a learner like any other: `observe` scores an item and takes the M-step,
    `advance` takes the item in (the E-step).

    rank None carries the k^3 statistic exactly; a rank carries it by that many reductions. `rate` is gamma_t, t^-0.6
    by default; parameters stay for the first `burn_in` items; `emissions=False` trains the transitions alone.
    """

    hmm: HMM
    rank: int | None = static(default=None)
    rate: Any = None
    burn_in: int = static(default=20)
    emissions: bool = static(default=True)

    def __post_init__(self) -> None:
        if not isinstance(self.hmm, HMM):
            raise ValueError(f"hmm must be a model such as nbt.HMM(states=3, symbols=4), not {self.hmm!r}")
        if self.rank is not None:
            set_field(self, "rank", at_least("rank", self.rank, 1))
        set_field(self, "burn_in", at_least("burn_in", self.burn_in, 0))
        if not isinstance(self.emissions, bool):
            raise ValueError(f"emissions must be True or False, not {self.emissions!r}")
        if self.rate is not None:
            set_field(self, "rate", as_rate(self.rate, "rate"))

    @property
    def system(self) -> HMM:
        return self.hmm

    @property
    def estimator(self) -> Statistics:
        return Statistics(self.rank)

    @property
    def updates(self) -> Apart:
        """The M-step needs no memory."""
        return Apart(Frozen(), Frozen())

    def init(
        self, key: jax.Array | int, *, theta: Chain | None = None, h: Any = None, dtype: Any = jnp.float32
    ) -> State:
        """The state before the first item; `theta` a chain to start from, `h` an initial distribution."""
        key = counter.as_key(key)
        params, start = self.hmm.init(key, dtype)
        if theta is not None:
            params = params._replace(theta=_checked_chain(theta, params.theta, dtype))
        if h is not None:
            start = start._replace(phi=_checked_rows(h, start.phi, "h", dtype))
        x = jnp.asarray(self.hmm.input_space.example(dtype))
        params = params._replace(fixed=Fixed(start, x))
        influence = self.estimator.init(self.hmm, Point(params, start, x))
        return State(params, start, influence, Moves((), ()), counter.words_of(key), counter.zero())

    def reset(self, state: State, where: Any = None) -> State:
        """A new episode: the belief as it was at the start, the statistics stay."""
        expect_one_stream(where)
        return state._replace(h=state.params.fixed.h0, influence=self.estimator.forget(state.influence))

    def predict_unchecked(self, state: State) -> Tree:
        return self.hmm.predict(state.params, state.h)

    def as_probabilities(self, y_hat: Tree) -> Array:
        """A prediction of symbols is their probabilities."""
        return y_hat if self.hmm.symbols is not None else super().as_probabilities(y_hat)

    def observe_unchecked(self, state: State, y: Tree, at: State, late: bool = False) -> tuple[State, Info]:
        """-log p(y), then the M-step on the statistics so far: the parameters that the next E-step uses."""
        if late:
            raise ValueError("online EM takes its items in order: it cannot take a late one")
        chain: Chain = state.params.theta
        loss = -jax.nn.logsumexp(jnp.log(predicted_state(chain, state.h)) + chain.emission.log_density(y))
        t = counter.ordinal(state.t, loss.dtype)
        learn = t > max(self.burn_in, 1)
        best = self._maximised(chain, state.influence.sums, self._gamma(jnp.maximum(t - 1, 1)))
        theta = jax.tree.map(lambda new, old: jnp.where(learn, new, old), best, chain)
        return state._replace(params=state.params._replace(theta=theta)), Info(loss)

    def _maximised(self, chain: Chain, sums: Sums, gamma: Array) -> Chain:
        """q_ij = S_ij / sum_j S_ij, and the emissions, from statistics that a reduction may have made negative."""
        emission = chain.emission.maximised(sums.g, gamma) if self.emissions else chain.emission
        return Chain(_rows(sums.q, chain.q), emission)

    def _gamma(self, t: Array) -> Array:
        return jnp.minimum(t**-0.6 if self.rate is None else rate_at(self.rate, t), 1)

    def advance_unchecked(self, state: State, x: Tree, draws: Tree) -> State:
        """The belief and the statistics after an item [Cappe 2011]."""
        t = counter.ordinal(state.t, state.h.phi.dtype)
        move = _moved(state.params.theta, state.h, x, self._gamma(t))
        influence = self.estimator.advance(state.influence, move, draws)
        h = Belief(move.phi, jnp.zeros_like(state.h.fresh))
        return state._replace(h=h, influence=influence, t=counter.later(state.t))

    def draw(self, state: State, t: Array) -> Tree:
        return self.estimator.draw(self.hmm, state.h, state.key, t)


def _rows(s: Float[Array, "k m"], old: Float[Array, "k m"]) -> Float[Array, "k m"]:
    """Rows of probabilities from statistics, some of which may be negative; a state that was hardly visited keeps its
    old row.
    """
    positive = jnp.maximum(s, 0)
    seen = jnp.sum(positive, axis=1, keepdims=True) > LEAST_VISITS / len(s)
    positive = positive + LEAST_SHARE * jnp.sum(positive, axis=1, keepdims=True)
    total = jnp.sum(positive, axis=1, keepdims=True)
    return jnp.where(seen, positive / jnp.where(seen, total, 1), old)


def _drawn(key: jax.Array, shape: tuple[int, int], dtype: Any) -> Float[Array, "k m"]:
    """Random rows of probabilities, around the uniform one."""
    weights = jax.random.uniform(key, shape, dtype, 0.5, 1.5)
    return weights / jnp.sum(weights, axis=1, keepdims=True)


def _checked_chain(chain: Any, like: Chain, dtype: Any) -> Chain:
    """The user's chain, refused by name where it is none."""
    if not isinstance(chain, Chain) or type(chain.emission) is not type(like.emission):
        raise ValueError(f"theta must be nbt.hmm.Chain(q, nbt.hmm.{type(like.emission).__name__}(...)), not {chain!r}")
    q = _checked_rows(chain.q, like.q, "theta.q", dtype)
    if isinstance(chain.emission, Categorical):
        return Chain(q, Categorical(_checked_rows(chain.emission.g, like.emission.g, "theta.emission.g", dtype)))
    mean, variance = (
        _checked_shape(getattr(chain.emission, name), like.emission.mean, f"theta.emission.{name}", dtype)
        for name in ("mean", "variance")
    )
    if (variance <= 0).any():
        raise ValueError("theta.emission.variance must be positive")
    return Chain(q, Normal(jnp.asarray(mean), jnp.asarray(variance), jnp.asarray(mean.mean(axis=0))))


def _checked_shape(values: Any, like: Array, name: str, dtype: Any) -> np.ndarray:
    array = np.asarray(values, dtype)
    if array.shape != like.shape or not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite numbers of shape {like.shape}, not of shape {array.shape}")
    return array


def _checked_rows(values: Any, like: Array, name: str, dtype: Any) -> Array:
    array = _checked_shape(values, like, name, dtype)
    if (array < 0).any():
        raise ValueError(f"{name} holds a negative probability, {array[array < 0][0]}")
    sums = np.atleast_1d(array.sum(axis=-1))
    if (abs(sums - 1) > SUM_TOLERANCE).any():
        row = int(np.argmax(abs(sums - 1) > SUM_TOLERANCE))
        where = f"{name}: row {row}" if array.ndim > 1 else name
        raise ValueError(f"{where} sums to {sums[row]:.7g}, not to one")
    return jnp.asarray(array)
