"""The panel of a committee on numbers: simple forecasts beside the networks, mixed by fixed share."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..configuration import as_number, at_least, configuration, set_field, static
from ..protocol import Outlook
from ..registry import register
from ..streams.items import Chunk, Pairs, has_target, size
from .forecasting import begin_row, end_row, issue_forecast, mix_rows, prepare_rows
from .past import AGE, KNOWN, NO_BASE, Numbers
from .shapes import Sizes
from .spreads import COUNT, SQUARES
from .words import from_words, put_in_front, to_words

STREAM = Numbers._fields.index("issued_known") + 1  # how many arrays of `Numbers` the stream alone decides
ISSUED = Numbers._fields.index("near_p")  # how many come before what is learned
LARGEST = 1e100  # of a number: squares of differences must be numbers too


@configuration
class Forecasts:
    """The last value, the mean so far, least squares on the last rows, and the value one `season` ago, if that is given
    (in rows), for numbers.

    `ahead`: how many targets ahead is predicted, 1 for the next one. `interval`: the share of targets that intervals
    are to hold, such as 0.9; 0 for none, which costs less.
    """

    season: int = static(default=0)
    ahead: int = static(default=1)
    interval: float = static(default=0.0)

    def __post_init__(self) -> None:
        set_field(self, "season", at_least("season", self.season, 0))
        set_field(self, "ahead", at_least("ahead", self.ahead, 1))
        as_number(self.interval, "interval")
        if not 0 <= self.interval < 1:
            raise ValueError(f"interval: a share of targets below 1, such as 0.9, not {self.interval}")


@register
class NumberPanelState(NamedTuple):
    """All numbers of a panel, in the order of `Numbers`, each of 64 bits as two words of 32, and the `Sizes`."""

    words: np.ndarray
    sizes: np.ndarray


def begin_numbers(sizes: Sizes, interval: float = 0.0) -> NumberPanelState:
    """Before the first row."""
    return pack(sizes, sizes.begin(interval))


def pack(sizes: Sizes, numbers: Numbers) -> NumberPanelState:
    return NumberPanelState(to_words(numbers), np.array(sizes, np.uint32))


def unpack(state: NumberPanelState) -> tuple[Sizes, Numbers]:
    sizes = Sizes(*map(int, state.sizes))
    return sizes, Numbers(*from_words(state.words, sizes.shapes()))


def with_inputs(state: NumberPanelState, inputs: int) -> NumberPanelState:
    """The same for more inputs, which come last among the features."""
    sizes, known = unpack(state)
    larger = sizes._replace(inputs=inputs)
    fresh = larger.begin(0.0)
    if larger.lag_rows != sizes.lag_rows:  # what was learned of rows of inputs is for other features
        none = {name: getattr(fresh, name) for name in Numbers._fields if "lags" in name or name == "rows"}
        known = known._replace(**none)
    put_in_front(fresh, known)
    return pack(larger, fresh)


class NumberPanel:
    """Forecasts and mixer at work."""

    foresees = True  # a forecast is issued after each input

    def __init__(self, company: Forecasts, state: NumberPanelState, learning: bool):
        self._learning, self._interval = learning, company.interval
        self.become(state)

    def become(self, state: NumberPanelState) -> None:
        self._sizes, self._numbers = unpack(state)
        self._scratch = self._sizes.scratch(self._interval)

    def state(self) -> NumberPanelState:
        return pack(self._sizes, self._numbers)

    @property
    def shares(self) -> np.ndarray:
        """The weight of each expert, the mean over outputs."""
        return np.exp(self._numbers.shares).mean(axis=1)

    @property
    def expected(self) -> np.ndarray:
        """What each expert expects of the next target, (experts, outputs)."""
        return self._numbers.issued_expected[self._slots()[0]].copy()

    @property
    def errors(self) -> np.ndarray:
        """The root of the recent mean square error of each expert: of several outputs, over the deviation of each."""
        errors, levels = self._numbers.errors, self._numbers.levels
        if self._sizes.outputs == 1:
            return np.sqrt(errors[:, 0])
        squares = np.where(levels[SQUARES] > 0, levels[SQUARES] / np.maximum(levels[COUNT], 1), 1)
        return np.sqrt((errors / squares).mean(axis=1))

    @property
    def coverage(self) -> float:
        """The share of targets that were inside their intervals, NaN where there was none."""
        asked, inside = self._numbers.coverage.sum(axis=1)
        return float(inside / asked) if asked else math.nan

    def outlook(self) -> Outlook:
        """What is expected of the next `ahead` targets."""
        numbers, slots = self._numbers, self._slots()
        too_late = np.arange(len(slots)) < len(slots) - 1 - numbers.counts[AGE]
        known = numbers.issued_known[slots]
        blind, vague = (known == NO_BASE) | too_late[:, None], (known != KNOWN) | too_late[:, None]
        expected, bounds, last = numbers.issued_mixed[slots], numbers.issued_bounds[slots], numbers.issued_base[slots]
        expected[blind], last[blind], bounds.swapaxes(1, 2)[vague] = np.nan, np.nan, np.nan
        return Outlook(expected, bounds, last)

    def _slots(self) -> np.ndarray:
        """Where the forecasts of the targets to come are, the next one first."""
        return (int(self._numbers.counts[0]) + 1 + np.arange(self._sizes.ahead)) % self._sizes.ahead

    @property
    def first_network(self) -> int:
        """The place of the first network among the experts."""
        return self._sizes.experts - 1 - self._sizes.networks

    def takes(self, piece: Chunk) -> bool:
        """Whether it takes a piece as a whole: a value that is the target and then the input is not known before."""
        return isinstance(piece, Pairs)

    def inside(self, piece: Chunk) -> tuple[Pairs, Pairs]:
        """A piece as the networks get it, inputs scaled: what they predict from, and what they learn from, the inputs
        of the forecasts that are due then, with strides to the targets.
        """
        rows = self._arrays(piece)
        x, y, _ = rows
        inputs, late_inputs, targets, whole = (
            np.zeros_like(x),
            np.zeros_like(x),
            np.zeros_like(y),
            np.zeros(len(y), bool),
        )
        before = self._copies(STREAM)
        prepare_rows(self._numbers, rows, (inputs, late_inputs, targets, whole), self._learning)
        self._restore(before)
        return Pairs(inputs), Pairs(late_inputs, targets, whole)

    def take(self, piece: Chunk, y_hats: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Learn from a piece: the loss of each item, what each expert made of it, in nats, and what was expected."""
        rows = self._arrays(piece)
        count = len(rows[2])
        found = np.zeros(count), np.zeros((count, self._sizes.experts)), np.zeros((count, self._sizes.outputs))
        mix_rows(self._numbers, self._scratch, rows, self._learning, np.asarray(y_hats, np.float64), found)
        return found

    def advance(self, x: Any) -> tuple[np.ndarray, np.ndarray]:
        """An input has come: it as networks get it, and the input of the forecast that is due now."""
        begin_row(self._numbers, np.clip(np.asarray(x, float), -LARGEST, LARGEST))
        numbers, (due, *_) = self._numbers, self._slots()
        now = numbers.x.copy()
        if self._sizes.ahead == 1:
            return now, now
        known = numbers.counts[AGE] >= self._sizes.ahead
        return now, numbers.issued_x[due] if known else np.zeros_like(now)

    def issue(self, y_hats: np.ndarray) -> None:
        """The forecast after an input."""
        issue_forecast(self._numbers, self._scratch, np.asarray(y_hats, np.float64))

    def observe(self, y: Any, y_hats: None = None) -> tuple[float, np.ndarray, np.ndarray | None]:
        """Learn from a target: the loss, what each expert made of it, and what networks get of it, if all is here."""
        aim, costs = np.zeros(self._sizes.outputs), np.zeros(self._sizes.experts)
        y = np.clip(np.asarray(y, float), -LARGEST, LARGEST)
        loss = end_row(self._numbers, self._scratch, y, self._learning, aim, costs)
        return loss, costs, aim if np.isfinite(aim).all() else None

    def input(self, x: Any) -> np.ndarray:
        """What networks get of an input that has not come yet."""
        before = self._copies(STREAM)
        now, _ = self.advance(x)
        self._restore(before)
        return now

    def predict(self, y_hats: None = None) -> np.ndarray:
        """The last forecast that was issued."""
        return self._numbers.issued_mixed[self._slots()[-1]].copy()

    def predict_after(self, x: Any, y_hats: np.ndarray) -> np.ndarray:
        """The same, after an input that is not taken yet; `y_hats` of the networks, (networks, outputs)."""
        before = self._copies(ISSUED)
        self.advance(x)
        self.issue(y_hats)
        y_hat = self.predict()
        self._restore(before)
        return y_hat

    def reset(self) -> None:
        """A new episode: the rows before are forgotten."""
        self._numbers.differences[:] = 0
        self._numbers.counts[AGE] = 0

    def _copies(self, count: int) -> list[np.ndarray]:
        """The first arrays, as they are."""
        return [array.copy() for array in self._numbers[:count]]

    def _restore(self, copies: list[np.ndarray]) -> None:
        for array, before in zip(self._numbers, copies, strict=False):
            array[...] = before

    def _arrays(self, piece: Chunk) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        assert isinstance(piece, Pairs)
        count = size(piece)
        y = np.zeros((count, self._sizes.outputs)) if piece.y is None else np.asarray(piece.y, float)
        x = np.clip(np.asarray(piece.x, float), -LARGEST, LARGEST)
        return np.ascontiguousarray(x), np.clip(y, -LARGEST, LARGEST), np.ascontiguousarray(has_target(piece))
