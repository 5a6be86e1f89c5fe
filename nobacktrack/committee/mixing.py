"""Predictions become one: geometric mixing of choices with weights learned online, and fixed share over experts."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..compiled import EXACT, entry, exact
from ..registry import register
from .contexts import COMPANY
from .logistic import exp, log, squash, stretch
from .nodes import SOURCES, next_choice, whole_range

LONG_MATCH = 16
STANDINGS = 5  # of matches that have weights of their own: none, wrong lately, up to 15, up to 31, longer
RATE, LEAST_RATE, SLOWING = 0.02, 0.002, 0.0005
FIRST_WEIGHTS, BIAS = (0.15, 0.15), 0.3
LEAST = 1e-9  # of a probability: what an expert calls impossible costs so much


@register
class MixerState(NamedTuple):
    """Weights of the inputs, by how the matches stand and by the choice; log-weights of the experts; how many targets
    there were.
    """

    by_standing: np.ndarray
    by_choice: np.ndarray
    shares: np.ndarray
    targets: np.ndarray


def mixer_state(symbols: int, inputs: int, networks: int, weights: tuple[float, float] = FIRST_WEIGHTS) -> MixerState:
    """Before the first target: `networks` add an input each to those of the contexts, and there is a bias. `weights`:
    the first ones, of contexts and of networks.
    """
    first = np.repeat(np.array([*weights, 0], np.float32), [inputs, networks, 1])
    shares = np.full(1 + networks + len(COMPANY), -np.log(1 + networks + len(COMPANY)), np.float32)
    return MixerState(np.tile(first, (STANDINGS, 1)), np.tile(first, (symbols, 1)), shares, np.zeros(2, np.uint32))


@exact
def bucket_of(standing: int) -> int:
    """Which weights there are where matches stand so."""
    return -standing if standing <= 0 else min(2 + standing // LONG_MATCH, STANDINGS - 1)


@exact
def add_up(weights: Any, inputs: Any) -> Any:
    total = 0.0
    for i in range(weights.size):
        total += weights[i] * inputs[i]
    return total


@exact
def learn_weights(weights: Any, inputs: Any, step: Any) -> None:
    for i in range(weights.size):
        weights[i] += step * inputs[i]


@exact
def exponentials(y_hat: Any, symbols: int, into: Any) -> bool:
    """exp(y_hat - max): whether y_hat is made of numbers."""
    peak = y_hat[0]
    for a in range(1, symbols):
        peak = max(peak, y_hat[a])
    good = True
    for a in range(symbols):
        good = good and np.isfinite(y_hat[a])
        into[a] = exp(max(np.float64(y_hat[a]) - np.float64(peak), -30.0)) if good else 0.0
    return good


@exact
def total(values: Any, begin: int, end: int) -> Any:
    result = 0.0
    for a in range(begin, end):
        result += values[a]
    return result


@entry(SOURCES, EXACT)
def mix_items(state: Any, reading: Any, found: Any, y_hats: Any, scratch: Any, costs: Any, losses: Any) -> None:
    """The loss of each target, in nats, and what each expert made of it in `costs`; then the weights learn. `y_hats` of
    the networks, (networks, items, symbols).
    """
    values, inputs = scratch
    by_standing, by_choice, shares, count = state
    networks = y_hats.shape[0]
    for t in range(reading.targets.size):
        if not reading.seen[t]:
            losses[t] = np.nan
            costs[t, 0] = np.nan
            continue
        for k in range(networks):
            if not exponentials(y_hats[k, t], reading.symbols, values[k]):
                values[k, : reading.symbols] = 1.0
        cost = costs[t]
        mix_choices(by_standing, by_choice, count, reading, found, values, inputs, t, cost)
        for i in range(found.losses.shape[1]):
            cost[1 + networks + i] = found.losses[t, i]
        if reading.learning:
            count[0] += 1
            if count[0] == 0:
                count[1] += 1
        losses[t] = share_out(shares, cost, steps_of(count), reading.learning)


@exact
def mix_choices(
    by_standing: Any, by_choice: Any, count: Any, reading: Any, found: Any, values: Any, inputs: Any, t: int, cost: Any
) -> None:
    """Walk down to a target and add up the logits of each choice. What the mixture and each network made of it goes to
    the front of `cost`. At the end the weights learn, so that all choices are foreseen with the same ones.
    """
    networks, symbols = values.shape[0], reading.symbols
    first = by_standing[bucket_of(found.standings[t])]
    target, low, row = reading.targets[t], 0, 0
    for k in range(networks + 1):
        cost[k] = 0.0
    high, split = next_choice(0, whole_range(symbols), symbols)
    while split > low:
        own, upper = inputs[row], target >= split
        set_inputs(own, found.logits[t, row], values, low, split, min(high, symbols))
        for k in range(networks):
            p = branch_of(values[k], low, split, min(high, symbols))
            cost[1 + k] -= log(max(p if upper else 1 - p, LEAST))
        p = squash((add_up(first, own) + add_up(by_choice[split], own)) / 2)
        cost[0] -= log(max(p if upper else 1 - p, LEAST))
        low, high = (split, high) if upper else (low, split)
        high, split = next_choice(low, high, symbols)
        row += 1
    if reading.learning:
        learn_choices(
            first, by_choice, inputs, target, symbols, max(LEAST_RATE, RATE / (1 + SLOWING * steps_of(count)))
        )


@exact
def set_inputs(inputs: Any, logits: Any, values: Any, low: int, split: int, end: int) -> None:
    """What is added up for a choice: logits of contexts and of networks, and a constant."""
    contexts, networks = logits.size, values.shape[0]
    for i in range(contexts):
        inputs[i] = logits[i]
    for k in range(networks):
        inputs[contexts + k] = stretch(branch_of(values[k], low, split, end))
    inputs[contexts + networks] = BIAS


@exact
def learn_choices(first: Any, by_choice: Any, inputs: Any, target: int, symbols: int, rate: Any) -> None:
    """Weights go down the slope of the loss, those of how the matches stand and those of the choice on their own."""
    low, row = 0, 0
    high, split = next_choice(0, whole_range(symbols), symbols)
    while split > low:
        second, own, hit = by_choice[split], inputs[row], 1.0 if target >= split else 0.0
        learn_weights(first, own, rate * (hit - squash(add_up(first, own))))
        learn_weights(second, own, rate * (hit - squash(add_up(second, own))))
        low, high = (split, high) if target >= split else (low, split)
        high, split = next_choice(low, high, symbols)
        row += 1


@exact
def steps_of(count: Any) -> Any:
    """How many targets there were."""
    return np.float64(count[0]) + 4294967296.0 * np.float64(count[1])


@exact
def share_out(shares: Any, cost: Any, t: float, learning: bool) -> Any:
    """Fixed share [Herbster, Warmuth 1998]: the loss -log sum_i w_i p_i; then w_i <- w_i p_i / sum, of which a share
    1 / (t + 1) is handed round. `shares` are the logarithms of w.
    """
    experts, peak = shares.size, -np.inf
    for i in range(experts):
        peak = max(peak, shares[i] - worst_of(cost[i]))
    whole = 0.0
    for i in range(experts):
        whole += exp_or_zero(shares[i] - worst_of(cost[i]) - peak)
    log_sum, handed = peak + log(whole), 1 / (t + 1)
    if learning:
        for i in range(experts):
            kept = exp_or_zero(shares[i] - worst_of(cost[i]) - log_sum)
            shares[i] = log((1 - handed) * kept + handed / experts)
    return -log_sum


@exact
def worst_of(cost: Any) -> Any:
    """A cost, or a large one where it is not a number."""
    return np.float64(cost) if np.isfinite(cost) else 1e3


@exact
def exp_or_zero(x: Any) -> Any:
    return exp(x) if x > -30 else 0.0


@entry(SOURCES, EXACT)
def expected_probabilities(state: Any, look: Any, y_hats: Any, scratch: Any, p: Any) -> None:
    """The probability of each symbol to come next. `look`: logits and company of all choices, how the matches stand."""
    by_standing, by_choice, shares, _ = state
    logits, company, standing = look
    values, inputs, above = scratch
    networks, symbols = y_hats.shape[0], p.size
    first, own = by_standing[bucket_of(standing)], inputs[0]
    for k in range(networks):
        if not exponentials(y_hats[k], symbols, values[k]):
            values[k, :] = 1.0
    for expert in range(shares.size):
        weight = exp_or_zero(shares[expert])
        above[:] = -1.0  # of each choice the probability of the upper branch, where it is known
        for a in range(symbols):
            low, chance = 0, 1.0
            high, split = next_choice(0, whole_range(symbols), symbols)
            while split > low:
                if above[split] >= 0:
                    pass
                elif 1 <= expert <= networks:
                    above[split] = branch_of(values[expert - 1], low, split, min(high, symbols))
                elif expert > networks:
                    above[split] = company[split, expert - networks - 1]
                else:
                    set_inputs(own, logits[split], values, low, split, min(high, symbols))
                    above[split] = squash((add_up(first, own) + add_up(by_choice[split], own)) / 2)
                chance *= max(above[split] if a >= split else 1 - above[split], LEAST)
                low, high = (split, high) if a >= split else (low, split)
                high, split = next_choice(low, high, symbols)
            p[a] += weight * chance


@exact
def branch_of(values: Any, low: int, split: int, end: int) -> Any:
    """The probability of the upper branch of a choice."""
    above = total(values, split, end)
    return above / max(above + total(values, low, split), 1e-300)
