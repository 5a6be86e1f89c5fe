"""How much of the random part of a gradient is believed: `influence/belief.py`, compiled."""

from __future__ import annotations

import math
from typing import Any

from ....compiled import ONE, ZERO, kernel
from ..codes import Belief, Metric
from ..memory.views import matrix, slab, vector
from ..memory.windows import TAIL, Seen, Setting
from .forms import add_multiple, add_units, copy_multiple, products
from .rows import is_finite, reciprocal


@kernel
def believe(s: Any, m: Any, exact: Any) -> None:
    """gradient += g + s (1/K) sum_k r_k, and what the belief learns from them."""
    gradient, share, settings = matrix(m, TAIL.gradient), vector(m, TAIL.share), vector(m, TAIL.settings)
    factor = settings[Setting.SHARE] if s.belief == Belief.SHARE else ONE + ZERO * settings[Setting.SHARE]
    for component in range(s.components):
        add_units(s, factor, vector(m, TAIL.co_state), component, slab(m, TAIL.own, component), exact)
    if s.belief == Belief.CAUTION:
        factor = weigh(s, m, exact)
    for k in range(share.size):
        add_multiple(exact, factor * (share[k] / share.dtype.type(share.size)), slab(m, TAIL.w, k), ONE)
    add_multiple(gradient, ONE, exact, ONE)


@kernel
def weigh(s: Any, m: Any, exact: Any) -> Any:
    """s, which lets the random part have the power A = budget exp(12 z+) sqrt(E / (E + P)) E c / (E + c)."""
    seen, settings = vector(m, TAIL.seen), vector(m, TAIL.settings)
    random = remember(s, m, exact)
    power, one = seen[Seen.EXACT_POWER], ONE + ZERO * seen[Seen.ESTIMATES]
    ceiling = settings[Setting.CEILING] if s.theta_metric != Metric.EUCLIDEAN else settings[Setting.TIMID] * power
    trust = math.exp((ONE + ONE) * settings[Setting.TRUST] * max(seen[Seen.AGREEMENT], ZERO))
    doubt = math.sqrt(power * reciprocal(power + seen[Seen.RANDOM_POWER]))
    allowed = settings[Setting.BUDGET] * trust * doubt * power * ceiling * reciprocal(power + ceiling)
    if seen[Seen.RANDOM_POWER] > ZERO:
        seen[Seen.SHARE] = min(one, math.sqrt(allowed * reciprocal(seen[Seen.RANDOM_POWER])))
    if random > ZERO:
        return min(seen[Seen.SHARE], settings[Setting.SPIKE] * math.sqrt(allowed * reciprocal(random)))
    return one


@kernel
def remember(s: Any, m: Any, exact: Any) -> Any:
    """The running means of the random parts, of the powers and of the agreement of the copies; the power of the random
    part of this estimate.
    """
    share, seen, settings = vector(m, TAIL.share), vector(m, TAIL.seen), vector(m, TAIL.settings)
    terms, mean = share.dtype.type(share.size), slab(m, TAIL.newer, 0)
    copy_multiple(mean, share[0] / terms, slab(m, TAIL.w, 0))
    for k in range(1, share.size):
        add_multiple(mean, share[k] / terms, slab(m, TAIL.w, k), ONE)
    one = ONE + ZERO * share[0]
    powers = products(s, m, s.theta_metric, exact, mean, one, one)
    if powers[0] + powers[2] == ZERO or not is_finite(powers[0] + powers[2]):
        return powers[2]
    seen[Seen.ESTIMATES] += ONE
    pace = max(ONE / seen[Seen.ESTIMATES], ONE / settings[Setting.MEMORY])
    counted = count(s, m, powers[2], Seen.RANDOM_POWER)
    smaller = math.sqrt(counted / powers[2]) if powers[2] > counted else one
    for k in range(share.size):
        add_multiple(slab(m, TAIL.mean_random, k), pace * smaller * share[k], slab(m, TAIL.w, k), ONE - pace)
    seen[Seen.EXACT_POWER] += pace * (count(s, m, powers[0], Seen.EXACT_POWER) - seen[Seen.EXACT_POWER])
    seen[Seen.RANDOM_POWER] += pace * (counted - seen[Seen.RANDOM_POWER])
    seen[Seen.SIGNAL_POWER] += pace * (smaller * smaller * signal(s, m) - seen[Seen.SIGNAL_POWER])
    some = seen[Seen.RANDOM_POWER] > settings[Setting.NOTHING] * seen[Seen.EXACT_POWER]
    seen[Seen.AGREEMENT] += pace * ((agreement(s, m) if some else ZERO * one) - seen[Seen.AGREEMENT])
    return powers[2]


@kernel
def count(s: Any, m: Any, power: Any, mean: Any) -> Any:
    """As much of a power as goes into its mean."""
    if s.theta_metric == Metric.EUCLIDEAN:
        return power
    return min(power, ONE + vector(m, TAIL.settings)[Setting.SHOCK] * vector(m, TAIL.seen)[mean])


@kernel
def signal(s: Any, m: Any) -> Any:
    """The mean of <r_k, C r_{k+1}>, over k = 1, 3, ..."""
    share = vector(m, TAIL.share)
    total, one, pairs = ZERO * share[0], ONE + ZERO * share[0], share.size // 2
    for pair in range(pairs):
        first, second = slab(m, TAIL.w, 2 * pair), slab(m, TAIL.w, 2 * pair + 1)
        product = products(s, m, s.theta_metric, first, second, one, one)[1]
        total += share[2 * pair] * share[2 * pair + 1] * product
    return total / share.dtype.type(max(pairs, 1))


@kernel
def agreement(s: Any, m: Any) -> Any:
    """The mean cosine of the running means of r_k and r_{k+1}, over k = 1, 3, ..."""
    pairs = vector(m, TAIL.share).size // 2
    total = ZERO * vector(m, TAIL.share)[0]
    for pair in range(pairs):
        total += cosine(s, m, slab(m, TAIL.mean_random, 2 * pair), slab(m, TAIL.mean_random, 2 * pair + 1))
    return total / vector(m, TAIL.share).dtype.type(max(pairs, 1))


@kernel
def cosine(s: Any, m: Any, a: Any, b: Any) -> Any:
    """<a, C b> / sqrt(<a, C a> <b, C b>), and 0 where one of them is nothing."""
    one = ONE + ZERO * a[0, 0]
    aa, ab, bb = products(s, m, s.theta_metric, a, b, one, one)
    lengths = math.sqrt(aa) * math.sqrt(bb)
    return ab / lengths if lengths > ZERO else ZERO * one


@kernel
def noise_of(s: Any, m: Any) -> Any:
    """The power of the noise that is believed over that of the exact part."""
    seen = vector(m, TAIL.seen)
    if s.belief != Belief.CAUTION:
        return ZERO * seen[Seen.SHARE]
    noise = max(seen[Seen.RANDOM_POWER] - seen[Seen.SIGNAL_POWER], ZERO) * reciprocal(seen[Seen.EXACT_POWER])
    return seen[Seen.SHARE] * seen[Seen.SHARE] * noise
