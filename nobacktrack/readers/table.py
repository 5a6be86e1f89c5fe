"""A learner that reads rows of named columns, and predicts a number or a label of each: its memory goes from row to
row.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..committee import Committee, Contexts, Forecasts
from ..errors import BadItem
from ..growth import enlarge, with_symbol, without_symbols
from ..learner import Learner
from ..live import Live
from ..means import Means
from ..protocol import State
from .features import Classes, Features, Scale
from .names import cell_of, estimator_of, update_of
from .notes import TableNotes
from .tally import Tally, frequencies_nats, norm_of, or_none

TASKS = ("regression", "classification")


class Parts(NamedTuple):
    """What the network is made of, by name; whether it is one of a committee; the season of its company, in rows."""

    cell: str = "rnn"
    units: int = 20
    estimator: str = "nobacktrack"
    update: str = "kalman:0.1:5"
    seed: int = 0
    committee: bool = False
    season: int = 0


DEFAULT = Parts()
COMMITTEE = Parts("lstm", 32, "block", "kalman", committee=True)
QUICK = Parts()  # the second network of a committee on labels: it sooner learns what a row says by itself
BEFORE = "the target before"  # a column that a committee adds


class TableReader:
    """A network that grows with the columns, words and labels that it meets.

    Numbers are scaled by the mean and deviation of what has come; a column that is missing is 0, its mean. `learn`
    predicts, then learns; `predict` changes nothing.
    """

    def __init__(self, task: str, parts: Parts = DEFAULT, *, engine: str = "auto"):
        if task not in TASKS:
            raise ValueError(f"task must be one of {', '.join(TASKS)}, not {task!r}")
        self.task, self.parts, self._engine = task, parts, engine
        self.features, self.scale, self.classes = Features(), Scale(), Classes()
        self.live: Live | None = None
        self.last: float | None = None  # the target before, of numbers
        self.count_anew()
        self.measuring, self.gradient_norm = False, math.nan  # whether to look at the gradient of the next target
        self.on_prediction: Callable[[Any, Any], None] | None = None  # is given what was expected, and the target

    def count_anew(self) -> None:
        """Forget how well it has predicted."""
        self.tally, self.counts = Tally(), {}
        self.errors = Means()  # squares of errors in the target's unit, or 1 for a wrong label
        self.baseline_errors = Means()  # the same of the mean so far
        self.last_errors = Means()  # the same of the last value

    def predict(self, row: Mapping[Any, Any]) -> Any:
        """The number that is expected with a row, or the probability of each label."""
        if self.live is None:
            return {} if self.task == "classification" else self.scale.mean
        row = self._with_before(row, self.last)
        return self._meaning(self.live.predict(self.features.vector(row)), len(self.classes.places))

    def learn(self, row: Mapping[Any, Any], y: Any = None, *, ahead: bool = False) -> float:
        """Take in a row and its target, if it has one: the loss, in nats. `ahead`: the target comes before the row,
        as that of the row before.
        """
        y = label = self._check_target(y)
        row = self._with_before(row, y if ahead and y is not None else self.last)
        grown = self.features.learn(row)
        x = self.features.vector(row)
        used = len(self.classes.places)  # a label that is new could not be expected
        if y is not None and self.task == "classification":
            y = self._symbol(y)
        self._fit(grown)
        live = self._running()
        if not ahead:
            live.advance(x)
        self._report(label, used)
        loss = math.nan if y is None else self._observe(y, used)
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
        x = self.features.vector(self._with_before(row, label if ahead and label is not None else self.last))
        if not ahead:
            live.advance(x)
        self._report(label, used)
        loss = math.nan if y is None else self._score(live.predict(), y, used)
        if y is not None and self.parts.committee:
            loss = live.observe(self._as_target(y))  # a frozen one, which goes on all the same
        if ahead:
            live.advance(x)
        self.tally.losses.add_one(loss)
        return loss

    def expected(self) -> Any:
        """What is expected of the target that comes next, all rows being taken in."""
        return self._meaning(self._running().predict(), len(self.classes.places))

    def _with_before(self, row: Mapping[Any, Any], before: Any) -> Mapping[Any, Any]:
        """A row as a committee on numbers gets it."""
        return {**row, BEFORE: before} if self._raw and before is not None else row

    @property
    def _raw(self) -> bool:
        """Whether targets are given as they are: a committee scales them itself."""
        return self.parts.committee and self.task == "regression"

    def _as_target(self, y: Any) -> Any:
        """A target as the learner gets it."""
        if self.task == "classification":
            return y
        return np.array([y if self._raw else self.scale.within(y)])

    def _report(self, y: Any, used: int) -> None:
        if self.on_prediction is not None:
            nothing = self.task == "regression" and not self.scale.count
            self.on_prediction(None if nothing else self._meaning(self._running().predict(), used), y)

    def _score(self, y_hat: np.ndarray, y: Any, used: int) -> float:
        """Count a prediction, `used` labels being known: its loss."""
        if self.task == "classification":
            right = bool(used) and int(np.argmax(y_hat[:used])) == y
            self.errors.add_one(float(not right))
            self.counts[y] = self.counts.get(y, 0) + 1
            peak = float(np.max(y_hat))
            return peak + math.log(float(np.sum(np.exp(np.asarray(y_hat, float) - peak)))) - float(y_hat[y])
        if self.scale.count:  # of the first number nothing is expected
            self.errors.add_one((self._meaning(y_hat, used) - y) ** 2)
            self.baseline_errors.add_one((self.scale.mean - y) ** 2)
            self.last_errors.add_one(((self.scale.mean if self.last is None else self.last) - y) ** 2)
        self.last = y
        return (self.scale.within(y) - float(y_hat[0])) ** 2 / 2 + math.log(2 * math.pi) / 2

    def _observe(self, y: Any, used: int) -> float:
        """Score, count, learn."""
        live = self._running()
        self._score(live.predict(), y, used)
        if self.task == "regression":
            self.scale.add(y)
        y = self._as_target(y)
        if self.measuring and isinstance(self.learner, Learner):
            self.measuring, self.gradient_norm = False, norm_of(self.learner.gradient(live.state, y))
        return live.observe(y)

    def _check_target(self, y: Any) -> Any:
        """A target, None where there is none."""
        if y is None:
            return None
        if self.task == "classification":
            if isinstance(y, float) and math.isnan(y):
                return None
            return y.item() if isinstance(y, np.generic) else y
        try:
            y = float(y)
        except (TypeError, ValueError):
            raise BadItem(f"target: {y!r} is not a number; labels are predicted by classification") from None
        if math.isinf(y):
            raise BadItem(f"target: {y} is not finite")
        return None if math.isnan(y) else y

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
        ends = {"symbols": self.classes.capacity} if self.task == "classification" else {"outputs": 1}
        learner = self._network(self.parts, ends)
        if self.parts.committee and self.task == "regression":
            learner = Committee((learner,), Forecasts(season=self.parts.season))
        elif self.parts.committee:
            learner = Committee((learner, self._network(QUICK, ends)), Contexts())
        state = learner.init(self.parts.seed)
        if self.task == "classification":
            state = without_symbols(state, max(1, len(self.classes.places)))
        return self._start(learner, state)

    def _network(self, parts: Parts, ends: dict[str, int]) -> Learner:
        system = cell_of(parts.cell, parts.units, inputs=self.features.capacity, **ends)
        return Learner(system, estimator_of(parts.estimator), update_of(parts.update))

    def _start(self, learner: Learner | Committee, state: State) -> Live:
        return Live(learner, state, engine=self._engine, strict=True)

    def _meaning(self, y_hat: np.ndarray, used: int) -> Any:
        """A number, or the probabilities of the first `used` labels."""
        if self.task == "regression":
            return float(y_hat[0]) if self._raw else self.scale.out(float(y_hat[0]))
        logits = np.asarray(y_hat[:used], float)
        shares = np.exp(logits - logits.max(initial=-np.inf))
        labels = itertools.islice(self.classes.places, used)
        return dict(zip(labels, (shares / shares.sum()).tolist(), strict=True))

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
            self.scale.record(),
            self.classes.record(),
            [list(pair) for pair in self.counts.items()],
            self.errors.record(),
            self.baseline_errors.record(),
            self.tally.record(),
            self.last,
            self.last_errors.record(),
        )

    @classmethod
    def resume(cls, learner: Learner, state: State, notes: TableNotes, *, engine: str = "auto") -> TableReader:
        """A reader that goes on from a checkpoint."""
        reader = cls(notes.task, Parts(**notes.parts), engine=engine)
        reader.features = Features.of(notes.features)
        reader.scale, reader.classes = Scale(*notes.scale), Classes(**notes.classes)
        reader.counts = dict(map(tuple, notes.counts))
        reader.tally = Tally(**notes.tally)
        reader.errors, reader.baseline_errors = Means(**notes.errors), Means(**notes.baseline_errors)
        reader.last, reader.last_errors = notes.last, Means(**notes.last_errors)
        reader.live = reader._start(learner, state)
        return reader

    def score(self) -> dict[str, float | None]:
        """How well it predicts so far and of late, in the target's unit, beside the last value and the mean so far; or
        as the share of right labels, beside their frequencies; then the loss, in nats.
        """
        losses = {"loss": or_none(self.tally.losses.mean), "recent_loss": or_none(self.tally.losses.recent)}
        if self.task == "regression":
            means = self.errors.mean, self.errors.recent, self.last_errors.mean, self.baseline_errors.mean
            roots = [or_none(math.sqrt(mean)) for mean in means]
            return dict(zip(("rmse", "recent_rmse", "last_rmse", "baseline_rmse"), roots, strict=True)) | losses
        counts, targets = np.array([0, *self.counts.values()]), max(self.tally.targets, 1)
        return {
            "accuracy": or_none(1 - self.errors.mean),
            "recent_accuracy": or_none(1 - self.errors.recent),
            "baseline_accuracy": float(counts.max() / targets),
            **losses,
            "baseline_loss": or_none(frequencies_nats(counts[1:])),
        }

    def company(self) -> dict[str, Any]:
        """Of a committee: the recent error of each expert, in the target's unit, and how often its network was set back
        to its anchor.
        """
        if self.live is None or not self.parts.committee:
            return {}
        return {"experts": self.live.expert_errors, "set_back": self.live.returns}
