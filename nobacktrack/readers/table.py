"""A learner that reads rows of named columns, and predicts a number or a label of each: its memory goes from row to
row.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..committee import Committee, Forecasts
from ..errors import BadItem
from ..growth import enlarge, with_symbol, without_symbols
from ..learner import Learner
from ..live import Live
from ..means import Means
from ..protocol import State
from .features import Classes, Features
from .notes import TableNotes
from .presets import PRESETS, Preset
from .tally import Tally, frequencies_nats, norm_of, or_none
from .targets import NumberTargets

TASKS = ("regression", "classification")


class Parts(NamedTuple):
    """What the network is made of, by name; whether it is one of a committee; of its company, for numbers: the season,
    in rows, how many rows ahead is predicted, and the share of targets that intervals are to hold.
    """

    cell: str = "rnn"
    units: int = 20
    estimator: str = "nobacktrack"
    update: str = "kalman:0.1:5"
    seed: int = 0
    committee: bool = False
    season: int = 0
    ahead: int = 1
    interval: float = 0.0

    @classmethod
    def of(cls, preset: Preset) -> Parts:
        """Those of a preset."""
        return cls(preset.cell, preset.units, preset.estimator, preset.update, committee=preset.committee)


DEFAULT = Parts()
COMMITTEE = Parts.of(PRESETS["rows"])
BEFORE = "the target before"  # a column that a committee adds


class Expectation(NamedTuple):
    """What is expected of a target: a number, several by name, or the probability of each label; and the ends of the
    interval of each number.
    """

    value: Any
    low: Any = None
    high: Any = None


class TableReader:
    """A network that grows with the columns, words and labels that it meets.

    Numbers are scaled by the mean and deviation of what has come; a column that is missing is 0, its mean. `learn`
    predicts, then learns; `predict` changes nothing. Several `targets` are numbers by name.
    """

    def __init__(
        self, task: str, parts: Parts = DEFAULT, *, targets: tuple[str, ...] = ("target",), engine: str = "auto"
    ):
        if task not in TASKS:
            raise ValueError(f"task must be one of {', '.join(TASKS)}, not {task!r}")
        self.task, self.parts, self._engine = task, parts, engine
        self._expect_sound(targets)
        self.features, self.targets, self.classes = Features(), NumberTargets(targets), Classes()
        self.live: Live | None = None
        self.count_anew()
        self.measuring, self.gradient_norm = False, math.nan  # whether to look at the gradient of the next target
        self.on_prediction: Callable[[Expectation, Any], None] | None = (
            None  # is given what was expected, and the target
        )

    def _expect_sound(self, targets: tuple[str, ...]) -> None:
        """Refuse what only a committee on numbers can do."""
        if self.task == "classification" and len(targets) > 1:
            raise ValueError(f"targets: {', '.join(targets)}; several must be numbers, not labels")
        parts = self.parts
        asked = ("ahead", parts.ahead > 1), ("interval", parts.interval), ("season", parts.season)
        wanted = [name for name, some in asked if some]
        if wanted and not (parts.committee and self.task == "regression"):
            raise ValueError(f"{wanted[0]}: of numbers, by a committee; not by one network alone, nor of labels")

    def count_anew(self) -> None:
        """Forget how well it has predicted."""
        self.tally, self.counts = Tally(), {}
        self.errors = Means()  # 1 for a wrong label
        self.targets.count_anew()

    def predict(self, row: Mapping[Any, Any]) -> Any:
        """The number that is expected with a row, or the probability of each label."""
        if self.live is None:
            return {} if self.task == "classification" else self.targets.named(self.targets.means)
        y_hat = self.live.predict(self._vector(self._with_before(row, None)))
        return self._meaning(y_hat, len(self.classes.places)).value

    def learn(self, row: Mapping[Any, Any], y: Any = None, *, ahead: bool = False) -> float:
        """Take in a row and its target, if it has one: the loss, in nats. `ahead`: the target comes before the row,
        and was expected some rows ago.
        """
        y = label = self._check_target(y)
        row = self._with_before(row, y if ahead else None)
        grown = self.features.learn(row)
        x = self._vector(row)
        used = len(self.classes.places)  # a label that is new could not be expected
        if y is not None and self.task == "classification":
            y = self._symbol(y)
        self._fit(grown)
        live = self._running()
        if not ahead:
            live.advance(x)
        self._report(label, used)
        loss = math.nan if y is None else self._observe(y, used)
        if y is not None:
            self.classes.look(self.targets.names[0], self.errors.targets)
        if ahead:
            live.advance(x)
        self.tally.losses.add_one(loss)
        return loss

    def evaluate(self, row: Mapping[Any, Any], y: Any = None, *, ahead: bool = False) -> float:
        """The same without learning: the state of the network goes on, nothing else."""
        live, y, used = self._running(), self._check_target(y), len(self.classes.places)
        label = y
        if y is not None and self.task == "classification":
            if y not in self.classes.places:
                raise BadItem(f"target: {y!r} was never seen in training")
            y = self.classes.places[y]
        x = self._vector(self._with_before(row, label if ahead else None))
        if not ahead:
            live.advance(x)
        self._report(label, used)
        loss = math.nan if y is None else self._score(y, used)
        if y is not None and self.parts.committee:
            loss = live.observe(y)  # a frozen one, which goes on all the same
        if ahead:
            live.advance(x)
        self.tally.losses.add_one(loss)
        return loss

    def expected(self, used: int | None = None) -> list[Expectation]:
        """What is expected of the targets that come next, after all rows: one, or as many as it looks ahead. Of labels,
        the first `used`, all by default.
        """
        live, used = self._running(), len(self.classes.places) if used is None else used
        if not self._raw:
            return [self._meaning(live.predict(), used)]
        bounds = live.outlook.bounds if self.parts.interval else [None] * self.parts.ahead
        return [self._meaning(y_hat, used, ends) for y_hat, ends in zip(live.outlook.expected, bounds, strict=True)]

    def _with_before(self, row: Mapping[Any, Any], now: np.ndarray | None) -> Mapping[Any, Any]:
        """A row as a committee on numbers gets it: with the last target, `now` if it has come."""
        if not self._raw:
            return row
        added = {}
        for j, name in enumerate(self.targets.names):
            last = self.targets.last[j] if now is None or now[j] != now[j] else float(now[j])
            column = name if name in row else BEFORE if self.targets.single else f"{name} before"
            if last is not None and row.get(column) is None:
                added[column] = last
        return {**row, **added}

    def _vector(self, row: Mapping[Any, Any]) -> np.ndarray:
        """A row as the learner gets it."""
        return self.features.raw_vector(row) if self._raw else self.features.vector(row)

    @property
    def _raw(self) -> bool:
        """Whether numbers are given as they are: a committee scales them itself."""
        return self.parts.committee and self.task == "regression"

    def _report(self, y: Any, used: int) -> None:
        if self.on_prediction is not None:
            nothing = self.task == "regression" and not any(scale.count for scale in self.targets.scales)
            value = self.targets.named(y) if isinstance(y, np.ndarray) else y
            self.on_prediction(Expectation(None) if nothing else self.expected(used)[0], value)

    def _score(self, y: Any, used: int) -> float:
        """Count a prediction, `used` labels being known: its loss."""
        live = self._running()
        if self.task == "classification":
            y_hat = live.predict()
            right = bool(used) and int(np.argmax(y_hat[:used])) == y
            self.errors.add_one(float(not right))
            self.counts[y] = self.counts.get(y, 0) + 1
            peak = float(np.max(y_hat))
            return peak + math.log(float(np.sum(np.exp(np.asarray(y_hat, float) - peak)))) - float(y_hat[y])
        if self._raw:
            outlook = live.outlook
            bounds = outlook.bounds[0] if self.parts.interval else None
            self.targets.count(outlook.expected[0], bounds, outlook.last[0], y)
            return math.nan  # the committee says
        y_hat = np.asarray(live.predict(), float)
        self.targets.count(self.targets.out(y_hat), None, None, y)
        return float(np.sum((self.targets.within(y) - y_hat) ** 2 / 2 + math.log(2 * math.pi) / 2))

    def _observe(self, y: Any, used: int) -> float:
        """Score, count, learn."""
        live = self._running()
        self._score(y, used)
        if self.task == "regression":
            self.targets.add(y)
            if not self._raw:
                y = self.targets.within(y)
        if self.measuring and isinstance(self.learner, Learner):
            self.measuring, self.gradient_norm = False, norm_of(self.learner.gradient(live.state, y))
        return live.observe(y)

    def _check_target(self, y: Any) -> Any:
        """A target, None where there is none."""
        if self.task == "regression":
            found = self.targets.check(y)
            if found is not None and not self._raw and np.isnan(found).any():
                return None  # one network learns from whole targets
            return found
        if y is None or (isinstance(y, float) and math.isnan(y)):
            return None
        return y.item() if isinstance(y, np.generic) else y

    def _symbol(self, label: Any) -> int:
        symbol, new = self.classes.place(label)
        if new and self.live is not None:
            learner, state = self.learner, self.live.state
            if self.classes.capacity > learner.system.symbols:
                learner, state = enlarge(learner, state, symbols=self.classes.capacity)
                state = without_symbols(state, symbol)
            self.live = self._start(learner, with_symbol(state, symbol, like=None))
        return symbol

    def _fit(self, grown: bool) -> None:
        """Room for all columns."""
        if self.live is None:
            self.live = self._first()
        elif grown:
            self.live = self._start(*enlarge(self.learner, self.live.state, inputs=self.features.capacity))

    def _first(self) -> Live:
        ends = (
            {"symbols": self.classes.capacity}
            if self.task == "classification"
            else {"outputs": len(self.targets.names)}
        )
        parts = self.parts
        preset = Preset(parts.cell, parts.units, parts.estimator, parts.update, parts.committee)
        numbers = Forecasts(season=parts.season, ahead=parts.ahead, interval=parts.interval)
        company = numbers if self.task == "regression" else None
        learner = preset.learner(company, inputs=self.features.capacity, **ends)
        state = learner.init(self.parts.seed)
        if self.task == "classification":
            state = without_symbols(state, max(1, len(self.classes.places)))
        return self._start(learner, state)

    def _start(self, learner: Learner | Committee, state: State) -> Live:
        return Live(learner, state, engine=self._engine, strict=True)

    def _meaning(self, y_hat: np.ndarray, used: int, bounds: np.ndarray | None = None) -> Expectation:
        """Numbers, or the probabilities of the first `used` labels."""
        if self.task == "regression":
            numbers = np.asarray(y_hat, float) if self._raw else self.targets.out(np.asarray(y_hat, float))
            return Expectation(*map(self.targets.named, (numbers, *([] if bounds is None else bounds))))
        logits = np.asarray(y_hat[:used], float)
        shares = np.exp(logits - logits.max(initial=-np.inf))
        labels = itertools.islice(self.classes.places, used)
        return Expectation(dict(zip(labels, (shares / shares.sum()).tolist(), strict=True)))

    # --- checkpoints ------------------------------------------------------------------------------------------------

    @property
    def learner(self) -> Learner:
        return self._running().learner  # type: ignore[return-value]

    @property
    def state(self) -> State:
        """All that the learner knows."""
        return self._running().state

    def _running(self) -> Live:
        if self.live is None:
            raise ValueError("no row has come yet: there is nothing to save")
        return self.live

    def notes(self) -> TableNotes:
        """What a checkpoint keeps beside the state, for another reader to go on."""
        return TableNotes(
            self.task,
            self.parts._asdict(),
            self.features.record(),
            self.targets.record(),
            self.classes.record(),
            [list(pair) for pair in self.counts.items()],
            self.errors.record(),
            self.tally.record(),
        )

    @classmethod
    def resume(cls, learner: Learner, state: State, notes: TableNotes, *, engine: str = "auto") -> TableReader:
        """A reader that goes on from a checkpoint."""
        targets = NumberTargets.of(notes.targets)
        reader = cls(notes.task, Parts(**notes.parts), targets=targets.names, engine=engine)
        reader.features, reader.targets = Features.of(notes.features), targets
        reader.classes = Classes(**notes.classes)
        reader.counts = dict(map(tuple, notes.counts))
        reader.tally, reader.errors = Tally(**notes.tally), Means(**notes.errors)
        reader.live = reader._start(learner, state)
        return reader

    def score(self) -> dict[str, float | None]:
        """How well it predicts so far and of late, in the target's unit, beside the last value and the mean so far; or
        as the share of right labels, beside their frequencies; then the loss, in nats.
        """
        losses = {"loss": or_none(self.tally.losses.mean), "recent_loss": or_none(self.tally.losses.recent)}
        if self.task == "regression":
            return self.targets.score() | losses
        counts, targets = np.array([0, *self.counts.values()]), max(self.tally.targets, 1)
        return {
            "accuracy": or_none(1 - self.errors.mean),
            "recent_accuracy": or_none(1 - self.errors.recent),
            "baseline_accuracy": float(counts.max() / targets),
            **losses,
            "baseline_loss": or_none(frequencies_nats(counts[1:])),
        }

    def company(self) -> dict[str, Any]:
        """Of several targets, the errors of each. Of a committee: the recent error of each expert, in the target's
        unit, or over the deviations of several, if there was any, and how often its network was set back to its anchor.
        """
        each = {} if self.targets.single else {"targets": self.targets.each()}
        if self.live is None or not self.parts.committee:
            return each
        errors = self.live.expert_errors
        return each | {"experts": errors if any(errors.values()) else {}, "set_back": self.live.returns}
