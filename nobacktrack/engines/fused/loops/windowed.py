"""NoBackTrack over blocks: the window of truncated BPTT, and K random terms for what is older."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ....compiled import ONE, ZERO, entry, fill, inlined, kernel
from ....estimators import BlockNoBackTrack
from ....influence.belief import LEAST, Agreement, Share, Unbiased
from ....influence.norms import LEAST_WORTH, DemandNorms, EuclideanNorms, MetricNorms, Unscaled
from .. import SOURCES
from ..codes import Belief, Norms
from ..kernels import transition
from ..kernels.forms import add_multiple, copy_multiple, norms_of, products
from ..kernels.norms import balance, form_metric, state_norm
from ..kernels.signs import draw_signs
from ..memory import packing
from ..memory.layout import COMMON, PIECE, beside, indices, of_state
from ..memory.packing import Store
from ..memory.views import COUNTERS, flattened, matrix, row, slab, vector
from . import bptt
from .bptt import HEAD, HELD, READY, RING
from .chunk import Loop, run_chunk

NORMS = {
    MetricNorms: Norms.METRIC,
    EuclideanNorms: Norms.EUCLIDEAN,
    Unscaled: Norms.UNSCALED,
    DemandNorms: Norms.DEMAND,
}
BELIEFS = {Unbiased: Belief.UNBIASED, Share: Belief.SHARE, Agreement: Belief.AGREEMENT}
BPTT: Any = bptt.Own._field_defaults


class Own(NamedTuple):
    """See `layout.Pieces`: those of truncated BPTT come first, in its order, so that its kernels find them."""

    gradient: np.ndarray = BPTT["gradient"]
    ring_h: np.ndarray = BPTT["ring_h"]
    ring_x: np.ndarray = BPTT["ring_x"]
    ring_dl_dh: np.ndarray = BPTT["ring_dl_dh"]
    following: np.ndarray = BPTT["following"]
    co_state: np.ndarray = BPTT["co_state"]
    v: np.ndarray = of_state(lambda s: (s.terms, s.state))
    w: np.ndarray = of_state(lambda s: (s.terms, s.fan, s.rows))
    signs: np.ndarray = of_state(lambda s: (s.terms * s.state,))
    demand: np.ndarray = of_state(lambda s: (s.state if s.norms == Norms.DEMAND else 0,))
    log_share: np.ndarray = of_state(lambda s: (1,))
    random: np.ndarray = of_state(lambda s: (s.terms if s.belief == Belief.AGREEMENT else 0, s.fan, s.rows))
    exact: np.ndarray = beside(lambda s: (s.fan, s.rows))
    newer: np.ndarray = beside(lambda s: (s.terms, s.fan, s.rows))  # nu^T D^-1 F_theta
    co_states: np.ndarray = beside(lambda s: (s.terms, s.state))
    tangent: np.ndarray = beside(lambda s: (s.terms, s.rows))
    share: np.ndarray = beside(lambda s: (s.terms,))  # lambda v_k
    q_state: np.ndarray = beside(lambda s: (s.state,))  # what h is measured by
    settings: np.ndarray = beside(lambda s: (4,))


OWN: Own = indices(Own, COMMON)
assert Own._fields[: len(bptt.Own._fields)] == bptt.Own._fields

PACE, GAIN, SHARE, TINY = range(
    4
)  # in `settings`: of the norms, of the belief, its share; squares below are not trusted


@inlined
def age_of(s: Any) -> Any:
    """The counter of the steps since theta moved, after the ring."""
    return RING + 2 * s.depth


@inlined
def observe(s: Any, m: Any, symbol: Any, values: Any, pace: Any, phi_pace: Any) -> Any:
    return bptt.observe_in_blocks(close, s, m, symbol, values, pace, phi_pace)


@kernel
def close(s: Any, m: Any) -> None:
    """At the end of a block, its gradient added to what waits for a target, and the terms carried on."""
    if m.ints[age_of(s)] == s.block:
        exact = matrix(m, OWN.exact)
        fill(flattened(m, OWN.exact), ZERO)
        bptt.backtrack(s, m, exact)
        share_out(m)
        believe(s, m, exact)
        demand(s, m)
        leaving = max(m.ints[HELD] + s.block - s.depth, 0)
        if leaving > 0:
            carry(s, m, leaving)
        m.ints[HELD] -= leaving
        m.ints[age_of(s)] = 0
        m.ints[READY] = 1


@kernel
def share_out(m: Any) -> None:
    """lambda v_k, lambda being dl/dh at the beginning of the window."""
    v, co_state, share = matrix(m, OWN.v), vector(m, OWN.co_state), vector(m, OWN.share)
    for k in range(share.size):
        total = ZERO * share[k]
        for i in range(co_state.size):
            total += v[k, i] * co_state[i]
        share[k] = total


@kernel
def believe(s: Any, m: Any, exact: Any) -> None:
    """gradient += g + s (1/K) sum_k r_k, and what the belief learns from them."""
    gradient, share, settings = matrix(m, OWN.gradient), vector(m, OWN.share), vector(m, OWN.settings)
    log_share = vector(m, OWN.log_share)
    factor = ONE + ZERO * settings[SHARE]
    if s.belief == Belief.SHARE:
        factor = settings[SHARE]
    elif s.belief == Belief.AGREEMENT:
        factor = math.exp(log_share[0])
        judge_terms(s, m, exact)
    add_multiple(gradient, ONE, exact, ONE)
    for k in range(share.size):
        add_multiple(gradient, factor * (share[k] / share.dtype.type(share.size)), slab(m, OWN.w, k), ONE)


@kernel
def judge_terms(s: Any, m: Any, exact: Any) -> None:
    """log s += pace mean_k cos(g + mean_{l != k} r_l, r_k of before), and r_k is kept."""
    share, log_share, settings = vector(m, OWN.share), vector(m, OWN.log_share), vector(m, OWN.settings)
    judge, terms, total = slab(m, OWN.newer, 0), share.size, ZERO * share[0]
    others = share.dtype.type(max(terms - 1, 1))
    for k in range(terms):
        copy_multiple(judge, ONE, exact)
        for other in range(terms):
            if other != k:
                add_multiple(judge, share[other] / others, slab(m, OWN.w, other), ONE)
        total += cosine(s, m, judge, slab(m, OWN.random, k), settings[TINY])
    for k in range(terms):
        copy_multiple(slab(m, OWN.random, k), share[k], slab(m, OWN.w, k))
    following = log_share[0] + settings[GAIN] * (total / share.dtype.type(terms))
    log_share[0] = min(max(following, share.dtype.type(LEAST)), ZERO)


@kernel
def cosine(s: Any, m: Any, a: Any, b: Any, tiny: Any) -> Any:
    """<a, C b> / sqrt(<a, C a> <b, C b>), and 0 where either is."""
    one = ONE + ZERO * tiny
    aa, ab, bb = products(s, m, s.theta_metric, a, b, one, one)
    lengths = math.sqrt(aa) * math.sqrt(bb)
    return ab / lengths if lengths > ZERO else ZERO * one


@kernel
def demand(s: Any, m: Any) -> None:
    """The running mean of lambda^2, and q, by which the components of h are measured."""
    q, co_state, memory = vector(m, OWN.q_state), vector(m, OWN.co_state), vector(m, OWN.demand)
    fill(q, ONE)
    if s.norms == Norms.DEMAND:
        pace, mean = vector(m, OWN.settings)[PACE], ZERO * q[0]
        for i in range(q.size):
            memory[i] += pace * (co_state[i] * co_state[i] - memory[i])
            mean += memory[i] / q.dtype.type(q.size)
        if mean > ZERO:
            for i in range(q.size):
                q[i] = memory[i] + q.dtype.type(LEAST_WORTH) * mean


@kernel
def carry(s: Any, m: Any, leaving: Any) -> None:
    """v_k <- rho F_h v_k + rho' D nu_k,  w_k <- w_k / rho + nu_k^T D^-1 F_theta / rho', with D = q^(-1/4)."""
    pull_signs(s, m, leaving)
    push_terms(s, m, leaving)
    v, q, signs = matrix(m, OWN.v), vector(m, OWN.q_state), vector(m, OWN.signs)
    fresh, metric, tiny = matrix(m, OWN.co_states), form_metric(s), vector(m, OWN.settings)[TINY]
    for k in range(v.shape[0]):
        for i in range(q.size):
            fresh[k, i] = signs[k * q.size + i] / math.sqrt(math.sqrt(q[i]))
    for k in range(v.shape[0]):
        w, newer = slab(m, OWN.w, k), slab(m, OWN.newer, k)
        norm_w, norm_newer = norms_of(s, m, metric, w, newer, tiny)
        rho, over = balance(s.norms, norm_w, state_norm(Norms.METRIC, v, k, q, v, tiny, tiny))
        rho_newer, over_newer = balance(s.norms, norm_newer, state_norm(Norms.METRIC, fresh, k, q, v, tiny, tiny))
        for i in range(q.size):
            v[k, i] = rho * v[k, i] + rho_newer * fresh[k, i]
        add_multiple(w, over_newer, newer, over)


@kernel
def pull_signs(s: Any, m: Any, leaving: Any) -> None:
    """nu_k^T D^-1 F_theta of the transitions that leave, from the newest of them to the oldest."""
    co_states, q, signs = matrix(m, OWN.co_states), vector(m, OWN.q_state), vector(m, OWN.signs)
    fill(flattened(m, OWN.newer), ZERO)
    for k in range(co_states.shape[0]):
        for i in range(q.size):
            co_states[k, i] = signs[k * q.size + i] * math.sqrt(math.sqrt(q[i]))
    for age in range(m.ints[HELD] - leaving, m.ints[HELD]):
        slot = (m.ints[HEAD] - 1 - age) % s.depth
        bptt.linearise(s, m, slot)
        for k in range(co_states.shape[0]):
            bptt.pull(s, m, slot, row(co_states, k), slab(m, OWN.newer, k))


@kernel
def push_terms(s: Any, m: Any, leaving: Any) -> None:
    """v_k <- F_h v_k, through the transitions that leave, from the oldest of them to the newest."""
    v, tangent, a = matrix(m, OWN.v), matrix(m, OWN.tangent), vector(m, PIECE.a)
    for step in range(leaving):
        slot = (m.ints[HEAD] - m.ints[HELD] + step) % s.depth
        if bptt.begins(s, m, slot):
            fill(flattened(m, OWN.v), ZERO)
        bptt.remember_fan_in(s, m, slot)
        transition.preactivate_band(s, m, 0, m.ints[RING + slot], v, a, tangent)
        bptt.derive(s, m, slot)
        transition.push(matrix(m, PIECE.c), matrix(m, PIECE.retention), tangent, v)


@inlined
def advance(s: Any, m: Any, symbol: Any, values: Any) -> None:
    """One more transition in the window, and the signs for the end of the block; h' = f(theta, h, x)."""
    close(s, m)
    draw_signs(m.clock, vector(m, OWN.signs))
    bptt.step(s, m, symbol, values)
    m.ints[age_of(s)] += 1


@entry(SOURCES)
def run_windowed(machine: Any, verb: Any, chunk: Any) -> None:
    """A chunk, by NoBackTrack over blocks."""
    run_chunk(observe, advance, bptt.restart, machine, verb, chunk)


def pack(tail: Any, estimator: BlockNoBackTrack, store: Store) -> None:
    bptt.pack(tail, estimator, store)
    own, norms, belief = store.own, estimator.norms, estimator.belief
    own.v[:], own.signs[:] = tail.v, np.asarray(tail.signs).ravel()
    own.w[:] = packing.forms(tail.w)
    own.settings[TINY] = np.finfo(own.settings.dtype).tiny ** 0.8
    if isinstance(norms, DemandNorms):
        own.settings[PACE], own.demand[:] = norms.pace, tail.demand
    if isinstance(belief, Share):
        own.settings[SHARE] = belief.share
    if isinstance(belief, Agreement):
        own.settings[GAIN], own.log_share[0] = belief.pace, tail.belief.log_share
        own.random[:] = packing.forms(tail.belief.random)
    store.ints[RING + 2 * store.sizes.depth] = tail.age


def unpack(like: Any, estimator: BlockNoBackTrack, store: Store) -> Any:
    tail, own, belief = bptt.unpack(like, estimator, store), store.own, like.belief
    if isinstance(estimator.belief, Agreement):
        belief = belief._replace(log_share=own.log_share[0], random=packing.unpack_forms(own.random, belief.random))
    return tail._replace(
        v=own.v,
        w=packing.unpack_forms(own.w, like.w),
        signs=own.signs.reshape(like.signs.shape),
        demand=own.demand if isinstance(estimator.norms, DemandNorms) else like.demand,
        belief=belief,
        age=store.ints[RING + 2 * store.sizes.depth],
    )


def refusal(estimator: BlockNoBackTrack) -> str | None:
    if type(estimator.belief) not in BELIEFS:
        return f"it has no loop for {type(estimator.belief).__name__}"
    return None


LOOP = Loop(
    run=run_windowed,
    pieces=Own,
    pack=pack,
    unpack=unpack,
    sizes=lambda estimator: {
        "depth": estimator.depth,
        "block": estimator.block,
        "terms": estimator.rank,
        "norms": NORMS[type(estimator.norms)],
        "belief": BELIEFS[type(estimator.belief)],
    },
    counters=lambda sizes: RING - COUNTERS + 2 * sizes.depth + 1,
    refusal=refusal,
)
