"""The statistics of online EM: carried exactly, or with the largest of them by reductions."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int8

from .. import counter
from ..configuration import configuration, static
from ..influence.reduction import balance
from ..protocol import Point
from ..registry import register
from .model import HMM, Belief, Chain, predicted_state


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


def transit(chain: Chain, h: Belief, y: Array, gamma: Array) -> Transit:
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
