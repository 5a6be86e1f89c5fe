"""A learner that reads rows of named columns, and predicts a number or a label of each: its memory goes from row to
row.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..choices import Cell, cell_of, estimator_of, update_of
from ..errors import BadItem
from ..growth import enlarge, with_symbol, without_symbols
from ..learner import Learner
from ..live import Live
from ..protocol import State
from .features import Classes, Features, Scale
from .tally import Tally, frequencies_nats, norm_of

TASKS = ("regression", "classification")


class Parts(NamedTuple):
    """What the network is made of, by name."""

    cell: str = "rnn"
    units: int = 20
    estimator: str = "nobacktrack"
    update: str = "kalman:0.1:5"
    seed: int = 0


DEFAULT = Parts()


class TableReader:
    """A network that grows with the columns, words and labels that it meets.

    Numbers are scaled by the mean and deviation of what has come; a column that is missing is 0, its mean. `learn`
    predicts, then learns; `predict` changes nothing.
    """

    def __init__(self, task: str, parts: Parts = DEFAULT):
        if task not in TASKS:
            raise ValueError(f"task must be one of {', '.join(TASKS)}, not {task!r}")
        self.task, self.parts = task, parts
        self.features, self.scale, self.classes = Features(), Scale(), Classes()
        self.live: Live | None = None
        self.count_anew()
        self.measuring, self.gradient_norm = False, math.nan  # whether to look at the gradient of the next target
        self.tell: Callable[[Any, Any], None] | None = None  # told what was expected, before the target, and the target

    def count_anew(self) -> None:
        """Forget how well it has predicted."""
        self.tally, self.counts = Tally(), {}
        self.off, self.off_mean, self.right = 0.0, 0.0, 0  # squared errors, those of the mean, right labels
        self.scored = 0  # targets of which something was expected: all but the first number

    def predict(self, row: Mapping[Any, Any]) -> Any:
        """The number that is expected with a row, or the probability of each label."""
        if self.live is None:
            return {} if self.task == "classification" else self.scale.mean
        return self._meaning(self.live.predict(self.features.vector(row)), len(self.classes.places))

    def learn(self, row: Mapping[Any, Any], y: Any = None, *, ahead: bool = False) -> float:
        """Take in a row and its target, if it has one: the loss, in nats. `ahead`: the target comes before the row,
        as that of the row before.
        """
        y = label = self._checked(y)
        grown = self.features.learn(row)
        x = self.features.vector(row)
        used = len(self.classes.places)  # a label that is new could not be expected
        if y is not None and self.task == "classification":
            y = self._symbol(y)
        self._fit(grown)
        live = self._begun()
        if not ahead:
            live.advance(x)
        self._told(label, used)
        loss = math.nan if y is None else self._observed(y, used)
        if ahead:
            live.advance(x)
        self.tally.add_one(loss)
        return loss

    def evaluate(self, row: Mapping[Any, Any], y: Any = None, *, ahead: bool = False) -> float:
        """The same without learning: the state of the network goes on, nothing else."""
        live, y, used = self._begun(), self._checked(y), len(self.classes.places)
        label = y
        if y is not None and self.task == "classification":
            if y not in self.classes.places:
                raise BadItem(f"target: {y!r} was never seen in training")
            y = self.classes.places[y]
        x = self.features.vector(row)
        if not ahead:
            live.advance(x)
        self._told(label, used)
        loss = math.nan if y is None else self._scored(live.predict(), y, used)
        if ahead:
            live.advance(x)
        self.tally.add_one(loss)
        return loss

    def expected(self) -> Any:
        """What is expected of the target that comes next, all rows being taken in."""
        return self._meaning(self._begun().predict(), len(self.classes.places))

    def _told(self, y: Any, used: int) -> None:
        if self.tell is not None:
            nothing = self.task == "regression" and not self.scale.count
            self.tell(None if nothing else self._meaning(self._begun().predict(), used), y)

    def _scored(self, y_hat: np.ndarray, y: Any, used: int) -> float:
        """Count a prediction, `used` labels being known: its loss."""
        if self.task == "classification":
            self.right += bool(used) and int(np.argmax(y_hat[:used])) == y
            self.counts[y] = self.counts.get(y, 0) + 1
            peak = float(np.max(y_hat))
            return peak + math.log(float(np.sum(np.exp(np.asarray(y_hat, float) - peak)))) - float(y_hat[y])
        if self.scale.count:
            self.scored += 1
            self.off += (self.scale.out(float(y_hat[0])) - y) ** 2
            self.off_mean += (self.scale.mean - y) ** 2
        return (self.scale.within(y) - float(y_hat[0])) ** 2 / 2 + math.log(2 * math.pi) / 2

    def _observed(self, y: Any, used: int) -> float:
        """Score, count, learn."""
        live = self._begun()
        self._scored(live.predict(), y, used)
        if self.task == "regression":
            self.scale.add(y)
            y = np.array([self.scale.within(y)])
        if self.measuring:
            self.measuring, self.gradient_norm = False, norm_of(self.learner.gradient(live.state, y))
        return live.observe(y)

    def _checked(self, y: Any) -> Any:
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
            self.live = Live(learner, with_symbol(state, symbol, like=None))
        return symbol

    def _fit(self, grown: bool) -> None:
        """Room for all columns."""
        if self.live is None:
            self.live = self._first()
        elif grown:
            self.live = Live(*enlarge(self.learner, self.live.state, inputs=self.features.capacity))

    def _first(self) -> Live:
        ends = {"symbols": self.classes.capacity} if self.task == "classification" else {"outputs": 1}
        if self.parts.cell not in list(Cell):
            raise ValueError(f"cell must be one of {', '.join(Cell)}, not {self.parts.cell!r}")
        system = cell_of(Cell(self.parts.cell), self.parts.units, inputs=self.features.capacity, **ends)
        learner = Learner(system, estimator_of(self.parts.estimator), update_of(self.parts.update))
        state = learner.init(self.parts.seed)
        if self.task == "classification":
            state = without_symbols(state, max(1, len(self.classes.places)))
        return Live(learner, state)

    def _meaning(self, y_hat: np.ndarray, used: int) -> Any:
        """A number, or the probabilities of the first `used` labels."""
        if self.task == "regression":
            return self.scale.out(float(y_hat[0]))
        logits = np.asarray(y_hat[:used], float)
        shares = np.exp(logits - logits.max(initial=-np.inf))
        labels = itertools.islice(self.classes.places, used)
        return dict(zip(labels, (shares / shares.sum()).tolist(), strict=True))

    # --- checkpoints ------------------------------------------------------------------------------------------------

    @property
    def learner(self) -> Learner:
        return self._begun().learner  # type: ignore[return-value]

    @property
    def state(self) -> State:
        """All that the learner knows."""
        return self._begun().state

    def _begun(self) -> Live:
        if self.live is None:
            raise ValueError("no row has come yet: there is nothing to save")
        return self.live

    def notes(self) -> dict[str, Any]:
        """What a checkpoint keeps beside the state, for another reader to go on."""
        return {
            "reads": "table",
            "task": self.task,
            "parts": self.parts._asdict(),
            "features": self.features.described(),
            "scale": self.scale.described(),
            "classes": self.classes.described(),
            "counts": list(self.counts.items()),
            "score": [self.off, self.off_mean, self.right, self.scored],
            "tally": self.tally.described(),
        }

    @classmethod
    def made(cls, learner: Learner, state: State, notes: Mapping[str, Any]) -> TableReader:
        """A reader that goes on from a checkpoint."""
        reader = cls(notes["task"], Parts(**notes["parts"]))
        reader.features = Features.made(notes["features"])
        reader.scale, reader.classes = Scale(*notes["scale"]), Classes(**notes["classes"])
        reader.counts = dict(notes["counts"])
        reader.tally = Tally(**notes["tally"])
        reader.off, reader.off_mean, reader.right, *scored = notes["score"]
        reader.scored = scored[0] if scored else reader.tally.targets  # as files had it before
        reader.live = Live(learner, state)
        return reader

    def score(self) -> dict[str, float | None]:
        """How well it predicts so far, beside the mean so far, or the frequencies of labels."""
        found: dict[str, float | None] = {"loss": _said(self.tally.mean), "recent_loss": _said(self.tally.lately)}
        if self.task == "regression":
            scored = max(self.scored, 1)
            return found | {"rmse": math.sqrt(self.off / scored), "baseline_rmse": math.sqrt(self.off_mean / scored)}
        counts, targets = np.array([0, *self.counts.values()]), max(self.tally.targets, 1)
        most = float(counts.max() / targets)
        baseline = {"baseline_loss": _said(frequencies_nats(counts[1:])), "baseline_accuracy": most}
        return found | {"accuracy": self.right / targets} | baseline


def _said(value: float) -> float | None:
    return None if math.isnan(value) else value
