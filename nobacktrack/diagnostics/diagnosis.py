"""How good a gradient estimate is on a live stream: its bias, its variance, its cosine with the exact gradient.

A learner goes its way, and beside it N copies of an estimator, with signs of their own, carry the influence along the
same path of states and parameters, and so does RTRL where that is affordable. Nothing of it reaches the learner. To a
copy the path comes from outside, so that an unbiased estimator is unbiased here too.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.table import Table

from ..configuration import at_least
from ..engines import begin as begin_session
from ..estimators import BlockNoBackTrack, DiagonalPlusRankOne, NoBackTrack, SlidingBPTT, TruncatedBPTT
from ..estimators.bptt import InBlocks
from ..influence.belief import Truncated, Unbiased
from ..influence.norms import GramianNorms, MetricNorms
from ..learner import Learner
from ..protocol import Point, State, flat
from ..streams.items import Chunk, as_chunk, checked, part, size
from . import advice, drawing
from .shadow import BELIEF, begin, follow

WINDOWS = (1, 10, 100, 1000)
MOST_NUMBERS = 1 << 24  # of the exact influence
MOST_PRODUCTS = 1 << 28  # of one step of it
TIMED = 2000  # steps
BATCHES = 20  # of steps, for standard errors
SHOWN = 50  # factors in time


@dataclasses.dataclass(frozen=True)
class Row:
    """One estimator on the stream. `error` is sqrt(E|g~ - g|^2 / E|g|^2), `bias` the same of the mean of g~, `noise` is
    E|g~ - g|^2 / E|g|^2 in the metric in which theta moves; `noise_in_windows` is that of gradients averaged over 1,
    10, 100, ... steps. None: there is no exact gradient to compare with, or, for block methods, none for each step.
    `random` and `signal` are the power of the random part of the gradient and of what is no noise in it, over that of
    the exact part, and `shares` the factor s on it in time, for estimators with `belief=Caution()`.
    """

    name: str
    estimator: str
    cosine: float | None
    cosine_error: float | None
    error: float | None
    bias: float | None
    bias_error: float | None
    noise: float | None
    noise_in_windows: list[float]
    by_part: list[float]
    microseconds: float
    truncated: bool  # whether it looks back a fixed number of steps
    random: float | None = None
    signal: float | None = None
    shares: list[float] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """What `diagnose` found: a row an estimator, the learner's own first, and what to do about it."""

    learner: str
    steps: int
    copies: int
    windows: list[int]
    parts: list[str]
    rows: list[Row]
    advice: list[str]
    state: State = dataclasses.field(repr=False)

    def json(self) -> dict[str, Any]:
        """All of it but the state, for a JSON file."""
        fields = {name: value for name, value in vars(self).items() if name not in ("rows", "state")}
        return fields | {"rows": [dataclasses.asdict(row) for row in self.rows]}

    def table(self) -> Table:
        """A row an estimator."""
        return drawing.table(self)

    def figure(self, path: Path) -> None:
        """Cosines, noise against the rate, and which units the noise is in."""
        drawing.figure(self, path)


def diagnose(
    learner: Learner,
    state: State,
    stream: Any,
    *,
    others: Mapping[str, Any] | None = None,
    copies: int = 16,
    burn_in: int | None = None,
    exact: bool | None = None,
) -> Diagnosis:
    """Let a learner go over a stream of arrays, and measure its estimator, and others, beside it.

    `others` are estimators by name (`variants` of its own by default), `burn_in` the steps before anything counts (a
    tenth of them by default), `exact` whether RTRL goes along (by default where it is affordable). `.state` of the
    result is the learner after the stream, as if it had gone alone.
    """
    chunk = as_chunk(stream)
    if chunk is None:
        raise ValueError("stream: diagnose needs arrays")
    chunk = checked(chunk, learner.system)
    copies, count = at_least("copies", copies, 2), size(chunk)
    burn_in = count // 10 if burn_in is None else at_least("burn_in", burn_in, 0)
    if count - burn_in < WINDOWS[1]:
        raise ValueError(f"stream: {count} steps with a burn-in of {burn_in} are too few, {WINDOWS[1]} must be left")
    exact = affordable(state) if exact is None else exact
    named = {"its own": learner.estimator} | dict(variants(learner.estimator) if others is None else others)
    windows = [w for w in WINDOWS if w <= (count - burn_in) // 4 or w == 1]
    rows, after = [], state
    for name, estimator in named.items():
        shadow = Learner(learner.system, estimator, learner.update)
        begun = begin(shadow, state, copies, exact, len(windows))
        after, found = follow(learner, shadow, state, begun, chunk, jnp.asarray(windows, jnp.int32), jnp.int32(burn_in))
        cost = microseconds(shadow, state, part(chunk, 0, min(count, TIMED)))
        rows.append(_row(name, estimator, jax.tree.map(lambda leaf: np.asarray(leaf, float), found), copies, cost))
    parts = _part_names(learner, state)
    return Diagnosis(
        repr(learner), count - burn_in, copies, windows, parts, rows, advice.given(learner, state, rows, windows), after
    )


def affordable(state: State) -> bool:
    """Whether RTRL may go along: n dim theta numbers, n^2 dim theta products a step."""
    n, parameters = flat(state.h).size, flat(state.params.theta).size
    return n * parameters <= MOST_NUMBERS and n * n * parameters <= MOST_PRODUCTS


def variants(estimator: Any) -> dict[str, Any]:
    """What to hold beside an estimator: other ranks and norms of itself, and truncation, which has no noise."""
    if isinstance(estimator, BlockNoBackTrack):
        return {
            "unbiased": dataclasses.replace(estimator, belief=Unbiased()),
            "truncated": dataclasses.replace(estimator, belief=Truncated()),
        }
    if not isinstance(estimator, (NoBackTrack, DiagonalPlusRankOne)):
        return {}
    other = MetricNorms() if isinstance(estimator.norms, GramianNorms) else GramianNorms()
    return {
        f"rank {4 * estimator.rank}": dataclasses.replace(estimator, rank=4 * estimator.rank),
        type(other).__name__: dataclasses.replace(estimator, norms=other),
        "truncated BPTT": TruncatedBPTT(),
    }


def _part_names(learner: Learner, state: State) -> list[str]:
    paths = jax.tree_util.tree_flatten_with_path(state.params.theta)[0]
    if not learner.system.packed:
        return [jax.tree_util.keystr(path) or "theta" for path, _ in paths]
    layer = (lambda i: f"layer {i + 1}, ") if len(paths) > 1 else (lambda i: "")
    return [f"{layer(i)}unit {u}" for i, (_, leaf) in enumerate(paths) for u in range(len(leaf))]


def microseconds(learner: Learner, state: State, chunk: Chunk) -> float:
    """Of one step of a learner alone, in the engine that would run it, once compiled."""
    at = Point(state.params, state.h, state.params.fixed.x)
    fresh = state._replace(influence=learner.estimator.init(learner.system, at))
    session = begin_session(learner, fresh)
    took = []
    for _ in range(3):
        began = time.perf_counter()
        session.take(chunk)
        took.append(time.perf_counter() - began)
    return min(took) / size(chunk) * 1e6


def _row(name: str, estimator: Any, found: Any, copies: int, cost: float) -> Row:
    size2, stepwise = np.nanmean(found.size), not isinstance(estimator, InBlocks)
    known = bool(np.isfinite(found.error).any())
    cosine, cosine_error = _batched(found.cosine)
    excess, excess_error = _batched(found.off - found.spread / copies)
    bias, bias_error = _root(excess / size2, excess_error / size2)
    shown = known and stepwise
    return Row(
        name,
        repr(estimator),
        cosine if shown else None,
        cosine_error if shown else None,
        math.sqrt(np.nanmean(found.error) / size2) if shown else None,
        bias if shown else None,
        bias_error if shown else None,
        _ratio(found.noise, found.strength) if stepwise else None,
        [
            _ratio(noise, strength)
            for noise, strength in zip(found.window_noise.T, found.window_strength.T, strict=True)
        ],
        [float(x) for x in np.nanmean(found.by_part, axis=0)],
        cost,
        isinstance(estimator, (TruncatedBPTT, SlidingBPTT)),
        **_belief(found.belief),
    )


def _belief(seen: np.ndarray) -> dict[str, Any]:
    """What a cautious estimator saw of its random part, in the end and in time."""
    counts = np.isfinite(seen).all(axis=1)
    if not counts.any():
        return {}
    last = dict(zip(BELIEF, seen[counts][-1].tolist(), strict=True))
    over = 1 / last["exact_power"] if last["exact_power"] > 0 else math.nan
    shares = [float(part.mean()) for part in np.array_split(seen[counts][:, BELIEF.index("share")], SHOWN) if part.size]
    return {"random": last["random_power"] * over, "signal": last["signal_power"] * over, "shares": shares}


def _root(square: float, error: float) -> tuple[float, float]:
    """The root of a square that may come out negative, and its error: that of the square, where it says no more."""
    root = math.sqrt(max(square, 0))
    return root, error / (2 * root) if square > error else math.sqrt(error)


def _ratio(noise: np.ndarray, strength: np.ndarray) -> float:
    below = float(np.nanmean(strength))
    return float(np.nanmean(noise)) / below if below > 0 else float("inf")


def _batched(values: np.ndarray) -> tuple[float, float]:
    """The mean over steps, and its standard error from batches of them, since neighbours are alike."""
    if not np.isfinite(values).any():
        return float("nan"), float("nan")
    means = np.array(
        [np.nanmean(batch) for batch in np.array_split(values[np.isfinite(values)], BATCHES) if batch.size]
    )
    return float(np.nanmean(values)), float(means.std(ddof=1) / math.sqrt(len(means))) if len(means) > 1 else math.nan
