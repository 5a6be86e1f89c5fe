"""Recurrent models for scikit-learn: rows are steps in time, in their order, and the model remembers those before.

Install scikit-learn beside this library: `pip install scikit-learn`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from ..live import Live
from ..readers.table import DEFAULT, Parts, TableReader


class _Recurrent(BaseEstimator):
    """`partial_fit` goes on with the stream, `fit` begins anew and makes `passes` passes, `predict` reads rows after
    the last one that was learned from, and learns nothing.
    """

    _task = ""

    def __init__(
        self,
        units: int = DEFAULT.units,
        cell: str = DEFAULT.cell,
        estimator: str = DEFAULT.estimator,
        update: str = DEFAULT.update,
        seed: int = DEFAULT.seed,
        passes: int = 10,
    ):
        self.units, self.cell, self.estimator, self.update, self.seed = units, cell, estimator, update, seed
        self.passes = passes

    def fit(self, X: Any, y: Any) -> Any:
        """Learn from rows in their order, from the start, several times."""
        X, y = self._checked(X, y, first=True)
        self._begin(y)
        for _ in range(self.passes):
            self._learn(X, y)
        return self

    def _begin(self, y: np.ndarray) -> None:
        self.reader_ = TableReader(self._task, Parts(self.cell, self.units, self.estimator, self.update, self.seed))

    def _learn(self, X: np.ndarray, y: np.ndarray) -> None:
        for row, target in zip(X.tolist(), y.tolist(), strict=True):
            self.reader_.learn(dict(enumerate(row)), target)

    def _checked(self, X: Any, y: Any, first: bool) -> tuple[np.ndarray, np.ndarray]:
        X, y = validate_data(self, X, y, dtype=float, y_numeric=self._task == "regression", reset=first)
        if self._task == "classification":
            check_classification_targets(y)
        return X, y

    def _predicted(self, X: Any) -> np.ndarray:
        """y_hat of rows that follow each other, from where the stream is."""
        check_is_fitted(self, "reader_")
        X = validate_data(self, X, dtype=float, reset=False)
        live = Live(self.reader_.learner, self.reader_.state)
        found = []
        for row in X.tolist():
            live.advance(self.reader_.features.vector(dict(enumerate(row))))
            found.append(live.predict())
        return np.array(found, float)


class RecurrentRegressor(RegressorMixin, _Recurrent):
    """Predicts a number of each row from it and from those before; `partial_fit` learns online."""

    _task = "regression"

    def partial_fit(self, X: Any, y: Any) -> RecurrentRegressor:
        """Go on with the stream: each row is a step."""
        first = not hasattr(self, "reader_")
        X, y = self._checked(X, y, first)
        if first:
            self._begin(y)
        self._learn(X, y)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The numbers that are expected with rows that follow those learned from."""
        y_hat = self._predicted(X)[:, 0]
        (scale,) = self.reader_.targets.scales
        return scale.mean + y_hat * scale.deviation


class RecurrentClassifier(ClassifierMixin, _Recurrent):
    """Predicts a label of each row from it and from those before; `partial_fit` learns online."""

    _task = "classification"

    def _begin(self, y: np.ndarray) -> None:
        super()._begin(y)
        self.classes_ = np.unique(y)
        for label in self.classes_.tolist():
            self.reader_.classes.place(label)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> RecurrentClassifier:
        """Go on with the stream: each row is a step. The first call names all `classes`."""
        first = not hasattr(self, "reader_")
        X, y = self._checked(X, y, first)
        if first:
            if classes is None:
                raise ValueError("classes must be passed on the first call to partial_fit.")
            self._begin(np.asarray(classes))
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(f"classes={classes!r} is not the same as on the first call, {self.classes_!r}")
        strange = np.setdiff1d(y, self.classes_)
        if strange.size:
            raise ValueError(f"y holds labels that are not among the classes: {strange.tolist()}")
        self._learn(X, y)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each of `classes_`, row by row."""
        logits = self._predicted(X)[:, : len(self.classes_)]
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        return shares / shares.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> np.ndarray:
        """The likeliest label, row by row."""
        shares = self.predict_proba(X)
        return self.classes_[np.argmax(shares, axis=1)]
