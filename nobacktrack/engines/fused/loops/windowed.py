"""NoBackTrack over blocks: the window of truncated BPTT, and K random terms for what is older."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....compiled import ONE, ZERO, entry, fill, inlined, kernel
from ....estimators import BlockNoBackTrack
from ....estimators.blocks import STEADY
from ....estimators.windowed import rounding
from ....influence.belief import NOTHING, SHOCK, SPIKE, TIMID, TRUST, Caution, Share, Truncated, Unbiased
from ....influence.norms import LEAST_WORTH, DemandNorms, EuclideanNorms, MetricNorms, Unscaled
from .. import SOURCES
from ..codes import Belief, Norms
from ..kernels import transition, window
from ..kernels.belief import believe, noise_of
from ..kernels.forms import add_multiple, add_units, copy_multiple, norms_of, square
from ..kernels.norms import balance, form_metric, state_norm
from ..kernels.products import add_products
from ..kernels.rows import is_finite
from ..kernels.signs import draw_signs
from ..kernels.window import HELD, READY, RING
from ..memory import packing
from ..memory.layout import PIECE
from ..memory.packing import Store
from ..memory.views import COUNTERS, flattened, matrix, row, slab, vector
from ..memory.windows import TAIL, Seen, Setting, TailPieces
from . import bptt
from .chunk import Loop, run_chunk

NORMS = {
    MetricNorms: Norms.METRIC,
    EuclideanNorms: Norms.EUCLIDEAN,
    Unscaled: Norms.UNSCALED,
    DemandNorms: Norms.DEMAND,
}
BELIEFS = {
    Unbiased: Belief.UNBIASED,
    Share: Belief.SHARE,
    Truncated: Belief.SHARE,  # of nothing
    Caution: Belief.CAUTION,
}


@inlined
def age_of(s: Any) -> Any:
    """The counter of the steps since theta moved, after the ring."""
    return RING + 2 * s.depth


@inlined
def observe(s: Any, m: Any, symbol: Any, values: Any, pace: Any, phi_pace: Any) -> Any:
    return bptt.observe_in_blocks(close, noise_of, s, m, symbol, values, pace, phi_pace)


@kernel
def close(s: Any, m: Any) -> None:
    """At the end of a block, its gradient added to what waits for a target, and the terms carried on."""
    if m.ints[age_of(s)] == s.block:
        exact = matrix(m, TAIL.exact)
        fill(flattened(m, TAIL.exact), ZERO)
        window.backtrack(s, m, ONE, TAIL.exact)
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
    v, co_state, share = matrix(m, TAIL.v), vector(m, TAIL.co_state), vector(m, TAIL.share)
    for k in range(share.size):
        total = ZERO * share[k]
        for i in range(co_state.size):
            total += v[k, i] * co_state[i]
        share[k] = total


@kernel
def demand(s: Any, m: Any) -> None:
    """The running mean of lambda^2, and q, that over its mean, by which the components of h are measured."""
    q, co_state, memory = vector(m, TAIL.q_state), vector(m, TAIL.co_state), vector(m, TAIL.demand)
    fill(q, ONE)
    if s.norms == Norms.DEMAND:
        pace, mean, finite = vector(m, TAIL.settings)[Setting.PACE], ZERO * q[0], True
        for i in range(q.size):
            finite = finite and is_finite(co_state[i] * co_state[i])
        for i in range(q.size):
            if finite:
                memory[i] += pace * (co_state[i] * co_state[i] - memory[i])
            mean += memory[i] / q.dtype.type(q.size)
        if mean > vector(m, TAIL.settings)[Setting.LEAST]:
            for i in range(q.size):
                q[i] = memory[i] / mean + vector(m, TAIL.settings)[Setting.LEAST_WORTH]


@kernel
def carry(s: Any, m: Any, leaving: Any) -> None:
    """v_k <- rho F_h v_k + rho' D nu_k,  w_k <- w_k / rho + nu_k^T D^-1 R / rho', with D = q^(-1/4)."""
    pull_signs(s, m, leaving)
    push_terms(s, m, leaving)
    v, q, signs = matrix(m, TAIL.v), vector(m, TAIL.q_state), vector(m, TAIL.signs)
    fresh, metric, tiny = matrix(m, TAIL.co_states), form_metric(s), vector(m, TAIL.settings)[Setting.TINY]
    for k in range(v.shape[0]):
        for i in range(q.size):
            fresh[k, i] = signs[k * q.size + i] / math.sqrt(math.sqrt(q[i]))
    for k in range(v.shape[0]):
        w, newer = slab(m, TAIL.w, k), slab(m, TAIL.newer, k)
        norm_w, norm_newer = norms_of(s, m, metric, w, newer, tiny)
        rho, over = balance(s.norms, norm_w, state_norm(Norms.METRIC, v, k, q, v, tiny, tiny))
        rho_newer, over_newer = balance(s.norms, norm_newer, state_norm(Norms.METRIC, fresh, k, q, v, tiny, tiny))
        for i in range(q.size):
            v[k, i] = rho * v[k, i] + rho_newer * fresh[k, i]
        add_multiple(w, over_newer, newer, over)


@kernel
def pull_signs(s: Any, m: Any, leaving: Any) -> None:
    """nu_k^T D^-1 R of the transitions that leave, R = F_theta + F_h Z - Z', from the newest of them to the oldest; Z
    goes on to Z'.
    """
    co_states, co_own, first = matrix(m, TAIL.co_states), matrix(m, TAIL.co_own), m.ints[HELD] - leaving
    begin_co_states(s, m)
    for j in range(leaving):
        c = window.c_of(s, m, first + j)
        for k in range(co_states.shape[0]):
            q = row(slab(m, TAIL.pulled_terms, k), j)
            transition.pull_rows(c, row(co_states, k), q)
            window.pull(s, m, first + j, q, row(co_states, k))
        for component in range(s.components):
            q = row(slab(m, TAIL.pulled_own, component), j)
            transition.pull_rows(c, row(co_own, component), q)
            pull_own(s, m, first + j, q, row(co_own, component))
    for k in range(co_states.shape[0]):
        window.add_to_gradient(s, m, first, leaving, slab(m, TAIL.pulled_terms, k), slab(m, TAIL.newer, k))
    for component in range(s.components):
        later = slab(m, TAIL.own_later, component)
        window.add_to_gradient(s, m, first, leaving, slab(m, TAIL.pulled_own, component), later)
    hold_units(s, m)
    for component in range(s.components):
        for before in range(s.components):
            later = slab(m, TAIL.own_later, component)
            add_units(s, ONE, row(co_own, component), before, slab(m, TAIL.own, before), later)
    for k in range(co_states.shape[0]):
        newer, co_signs = slab(m, TAIL.newer, k), row(matrix(m, TAIL.co_signs), k)
        for component in range(s.components):
            add_units(s, ONE, row(co_states, k), component, slab(m, TAIL.own, component), newer)
        whole = square(newer)
        for component in range(s.components):
            add_units(s, -ONE, co_signs, component, slab(m, TAIL.own_later, component), newer)
        if square(newer) <= vector(m, TAIL.settings)[Setting.ROUNDING] * whole:
            copy_multiple(newer, ZERO, newer)
    for component in range(s.components):
        copy_multiple(slab(m, TAIL.own, component), ONE, slab(m, TAIL.own_later, component))


@kernel
def hold_units(s: Any, m: Any) -> None:
    """D of each unit, in `co_own`, where it would grow by itself: `blocks.steady`, compiled."""
    co_own, n, most = matrix(m, TAIL.co_own), s.units, vector(m, TAIL.settings)[Setting.STEADY]
    for i in range(n):
        if s.components == 1:
            radius = abs(co_own[0, i])
        else:
            half = (co_own[0, i] + co_own[1, n + i]) / (ONE + ONE)
            determinant = co_own[0, i] * co_own[1, n + i] - co_own[0, n + i] * co_own[1, i]
            apart = half * half - determinant
            radius = abs(half) + math.sqrt(apart) if apart >= ZERO else math.sqrt(abs(determinant))
        if radius > ONE:
            for component in range(s.components):
                for before in range(s.components):
                    co_own[component, before * n + i] *= most / radius


@kernel
def begin_co_states(s: Any, m: Any) -> None:
    """nu_k^T D^-1, and a cotangent of one on each component of each unit."""
    co_states, co_signs, co_own = matrix(m, TAIL.co_states), matrix(m, TAIL.co_signs), matrix(m, TAIL.co_own)
    q, signs = vector(m, TAIL.q_state), vector(m, TAIL.signs)
    fill(flattened(m, TAIL.newer), ZERO)
    fill(flattened(m, TAIL.own_later), ZERO)
    fill(flattened(m, TAIL.co_own), ZERO)
    for k in range(co_states.shape[0]):
        for i in range(q.size):
            x = signs[k * q.size + i] * math.sqrt(math.sqrt(q[i]))
            co_states[k, i], co_signs[k, i] = x, x
    for component in range(s.components):
        for i in range(s.units):
            co_own[component, component * s.units + i] = ONE


@kernel
def pull_own(s: Any, m: Any, age: Any, q: Any, co_state: Any) -> None:
    """A cotangent on h', and q, what it does to the pre-activations, back to h, each unit by itself."""
    slope = row(matrix(m, TAIL.slopes), age)
    transition.pull_units(s, m, slope, window.retention_of(s, m, age), q, co_state)
    if window.begins(s, m, window.slot_of(s, m, age)):
        fill(co_state, ZERO)


@kernel
def push_terms(s: Any, m: Any, leaving: Any) -> None:
    """v_k <- F_h v_k, through the transitions that leave, from the oldest of them to the newest."""
    v, seen_v, tangent = matrix(m, TAIL.v), matrix(m, TAIL.seen_v), matrix(m, TAIL.tangent)
    theta, hears, rows = matrix(m, PIECE.theta), matrix(m, PIECE.hears), s.gates * s.units // s.groups
    seen = v.shape[1] - s.units
    for step in range(leaving):
        age = m.ints[HELD] - 1 - step
        slope = row(matrix(m, TAIL.slopes), age)
        if window.begins(s, m, window.slot_of(s, m, age)):
            fill(flattened(m, TAIL.v), ZERO)
        fill(flattened(m, TAIL.tangent), ZERO)
        for k in range(v.shape[0]):
            for i in range(s.units):
                seen_v[k, 1 + i] = slope[i] * v[k, seen + i]
        for kind in range(s.groups):
            if hears[kind, 0] > ZERO:
                add_products(tangent, v.shape[0], theta, 1, s.units, seen_v, kind * rows, rows)
        transition.push(window.c_of(s, m, age), window.retention_of(s, m, age), tangent, v)


@inlined
def advance(s: Any, m: Any, symbol: Any, values: Any) -> None:
    """One more transition in the window, and the signs for the end of the block; h' = f(theta, h, x)."""
    close(s, m)
    draw_signs(m.clock, vector(m, TAIL.signs))
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
    own.own[:] = packing.forms(tail.own)
    own.settings[Setting.SHOCK : Setting.ROUNDING] = SHOCK, TRUST, TIMID, SPIKE, NOTHING, LEAST_WORTH
    own.settings[Setting.ROUNDING] = rounding(own.settings.dtype)
    tiny = np.finfo(own.settings.dtype).tiny
    own.settings[[Setting.LEAST, Setting.TINY, Setting.STEADY]] = tiny, tiny**0.8, STEADY
    if isinstance(norms, DemandNorms):
        own.settings[Setting.PACE], own.demand[:] = norms.pace, tail.demand
    if isinstance(belief, Share):
        own.settings[Setting.SHARE] = belief.share
    if isinstance(belief, Caution):
        own.settings[Setting.BUDGET : Setting.SHOCK] = belief.budget, belief.ceiling, belief.memory
        own.seen[:] = [getattr(tail.belief, number.name.lower()) for number in Seen]
        own.mean_random[:] = packing.forms(tail.belief.random)
    store.ints[RING + 2 * store.sizes.depth] = tail.age


def unpack(like: Any, estimator: BlockNoBackTrack, store: Store) -> Any:
    tail, own, belief = bptt.unpack(like, estimator, store), store.own, like.belief
    if isinstance(estimator.belief, Caution):
        numbers = {number.name.lower(): own.seen[number] for number in Seen}
        random = packing.unpack_forms(own.mean_random, belief.random)
        belief = belief._replace(random=random, **numbers)
    return tail._replace(
        v=own.v,
        w=packing.unpack_forms(own.w, like.w),
        signs=own.signs.reshape(like.signs.shape),
        demand=own.demand if isinstance(estimator.norms, DemandNorms) else like.demand,
        belief=belief,
        own=packing.unpack_forms(own.own, like.own),
        age=store.ints[RING + 2 * store.sizes.depth],
    )


def refusal(estimator: BlockNoBackTrack) -> str | None:
    if type(estimator.belief) not in BELIEFS:
        return f"it has no loop for {type(estimator.belief).__name__}"
    return None


LOOP = Loop(
    run=run_windowed,
    pieces=TailPieces,
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
    help=bptt.help_blocks,
)
