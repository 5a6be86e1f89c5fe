"""What to do about a noisy or biased estimate: which rank, which rate, and why."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import jax.numpy as jnp

from ..configuration import rate_at
from ..estimators import NoBackTrack
from ..learner import Learner
from ..protocol import State
from ..updates import Kalman

if TYPE_CHECKING:
    from .diagnosis import Row

LARGEST_RANK = 16
UNKNOWN_MEMORY = 100.0
NO_BIAS = 0.02  # of the gradient: below it, rounding and luck


def given(learner: Learner, state: State, rows: list[Row], windows: list[int]) -> list[str]:
    """A recommendation for the estimator, its rank and the rate, with its reason."""
    own = rows[0]
    said = _about_bias(own)
    if own.noise is not None and own.noise < 1e-6:
        return ["The gradient is exact here: nothing to gain from another estimator."]
    span = _memory(learner, state)
    ratio, window = min(zip(own.noise_in_windows, windows, strict=True), key=lambda at: abs(math.log(at[1] / span)))
    if not math.isfinite(ratio):
        return [*said, "There is no gradient here to speak of: train for a while first."]
    rank = getattr(learner.estimator, "rank", None)
    measured = f"averaged over {window} steps, the estimate adds {_times(ratio)} the gradient (squares, in its metric)"
    if ratio <= 1:
        said.append(f"Rank and rate are fine: {measured}. More rank would change little.")
    elif rank is not None and math.ceil(rank * ratio) <= LARGEST_RANK:
        said.append(f"Take rank={math.ceil(rank * ratio)}: {measured}, and that falls as 1 / rank.")
    elif not said:
        said.append(
            f"Noisy: {measured}. To be as steady as exact gradients, the rate or decay would be {_times(1 + ratio)} "
            "smaller; an unbiased estimate learns slower, not wrong."
        )
        if isinstance(learner.estimator, NoBackTrack):
            said.append(
                "DiagonalPlusRankOne(lag=4) carries what units do to themselves without noise: the best of these on "
                "a^n b^n with 20 units (docs/estimators.md)."
            )
    if ratio > 1:
        said += _about_truncation(own, rows[1:], window, windows)
    return said + _better(own, rows[1:])


def _about_truncation(own: Row, others: list[Row], window: int, windows: list[int]) -> list[str]:
    """Whether an estimate that looks back a few steps and has no noise is nearer to the gradient."""
    truncated = next((row for row in others if row.truncated), None)
    if truncated is None:
        return []
    if own.cosine is None:
        return [
            f"{truncated.estimator} has no noise, and loses what is older: the exact gradient, which would tell how "
            "much, is too costly here. On text it learned more than these (docs/blocks.md): `compare` them."
        ]
    at = windows.index(window)
    noise, lost = own.noise_in_windows[at], truncated.noise_in_windows[at]
    if lost >= noise:
        return []
    return [
        f"{truncated.estimator} is nearer to the gradient here: averaged over {window} steps it is off by "
        f"{_times(lost)} its square, by what it leaves out, where this estimate is off by {_times(noise)}, by noise."
    ]


def _about_bias(own: Row) -> list[str]:
    if not _biased(own):
        return []
    return [
        f"{own.estimator} is biased here: the mean of its gradients is off by {own.bias:.2f} of their size. "
        "DiagonalPlusRankOne(lag=4) is unbiased, at a cost that is linear too; `compare` tells which learns more."
    ]


def _biased(row: Row) -> bool:
    return row.bias is not None and row.bias > max(2 * (row.bias_error or 0), NO_BIAS)


def _better(own: Row, others: list[Row]) -> list[str]:
    """The least noisy of the others that are not biased, where it is worth a word."""
    unbiased = [(row.noise, row) for row in others if row.noise is not None and not _biased(row)]
    if own.noise is None or not unbiased:
        return []
    noise, best = min(unbiased, key=lambda pair: pair[0])
    if noise >= own.noise / 2:
        return []
    less = _times(own.noise / noise) if noise else "infinitely"
    return [f"{best.estimator}: {less} less noise, at {_times(best.microseconds / own.microseconds)} the time."]


def _times(ratio: float) -> str:
    return f"{ratio:,.0f} times" if ratio >= 10 else f"{ratio:.2g} times"


def _memory(learner: Learner, state: State) -> float:
    """Over how many steps the update averages: 1 / gamma_t for a filter, a hundred where it does not say."""
    update = learner.updates.theta
    if not isinstance(update, Kalman):
        return UNKNOWN_MEMORY
    gamma = float(
        rate_at(update.decay_of(learner.noise(state.influence) is not None), jnp.asarray(float(state.steps + 1)))
    )
    return max(1 / max(gamma, 1e-9), 1.0)
