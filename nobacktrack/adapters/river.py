"""Recurrent models for river: a classifier and a regressor that remember the rows before, trained online.

Install river beside this library: `pip install river`.
"""

from __future__ import annotations

from typing import Any

from river import base

from ..readers.table import COMMITTEE, Parts, TableReader

Row = dict[base.typing.FeatureName, Any]


class _Recurrent(base.Estimator):
    """What both models share: a TableReader, made when it is needed."""

    _task = ""

    def __init__(
        self,
        units: int = COMMITTEE.units,
        cell: str = COMMITTEE.cell,
        estimator: str = COMMITTEE.estimator,
        update: str = COMMITTEE.update,
        seed: int = COMMITTEE.seed,
        committee: bool = COMMITTEE.committee,
        season: int = COMMITTEE.season,
    ):
        self.units, self.cell, self.estimator, self.update, self.seed = units, cell, estimator, update, seed
        self.committee, self.season = committee, season
        self._reader = TableReader(self._task, Parts(cell, units, estimator, update, seed, committee, season))

    def __str__(self) -> str:
        return repr(self)

    def learn_one(self, x: Row, y: Any) -> None:
        """Predict, then learn; the network has seen the row from now on."""
        self._reader.learn(x, y)


class RecurrentRegressor(_Recurrent, base.Regressor):
    """Predicts a number from the features of this row and of all rows before it.

    Features may come and go, and be numbers or words: numbers are scaled by their running mean and deviation, a word
    has a place of its own; the network grows with them. The gradient is carried forward in time: memory and time a
    row do not grow with the stream.

    Parameters
    ----------
    units
        Units of the network.
    cell
        `rnn`, `leaky`, `learned-leaky`, `gru` or `lstm`.
    estimator
        How the gradient is carried: `nobacktrack[:rank]`, `diagonal[:rank[:lag]]`, `uoro`, `rtrl`, `bptt[:depth]`, ...
    update
        How the parameters move: `kalman[:decay[:prior]]`, `sgd[:rate]`, `adam[:rate]`.
    seed
        Seed of the initial weights and of the signs.
    committee
        Whether the network is one of a committee, beside its anchor and simple experts, or stands alone.
    season
        For numbers: after how many rows a season comes again, if there is one.

    Examples
    --------
    >>> from nobacktrack.adapters.river import RecurrentRegressor
    >>> model = RecurrentRegressor(units=4)
    >>> for t in range(100):
    ...     model.learn_one({"x": t % 2}, 10.0 + t % 2)
    >>> abs(model.predict_one({"x": 1}) - 11) < 0.2
    True

    """

    _task = "regression"

    def predict_one(self, x: Row) -> float:
        """The number that is expected with a row."""
        return self._reader.predict(x)


class RecurrentClassifier(_Recurrent, base.Classifier):
    """Predicts a label from the features of this row and of all rows before it.

    Features may come and go, and be numbers or words; labels may come at any time. The gradient is carried forward in
    time: memory and time a row do not grow with the stream.

    Parameters
    ----------
    units
        Units of the network.
    cell
        `rnn`, `leaky`, `learned-leaky`, `gru` or `lstm`.
    estimator
        How the gradient is carried: `nobacktrack[:rank]`, `diagonal[:rank[:lag]]`, `uoro`, `rtrl`, `bptt[:depth]`, ...
    update
        How the parameters move: `kalman[:decay[:prior]]`, `sgd[:rate]`, `adam[:rate]`.
    seed
        Seed of the initial weights and of the signs.
    committee
        Whether the network is one of a committee, beside its anchor and simple experts, or stands alone.
    season
        For numbers: after how many rows a season comes again, if there is one.

    Examples
    --------
    >>> from nobacktrack.adapters.river import RecurrentClassifier
    >>> model = RecurrentClassifier(units=4)
    >>> for t in range(200):
    ...     model.learn_one({"nothing": 0.0}, "tick" if t % 2 else "tock")  # the answer is in the order alone
    >>> model.predict_one({"nothing": 0.0})
    'tock'

    """

    _task = "classification"

    @property
    def _multiclass(self) -> bool:
        return True

    def predict_proba_one(self, x: Row, **options: Any) -> dict[base.typing.ClfTarget, float]:
        """The probability of each label that has come."""
        return self._reader.predict(x)
