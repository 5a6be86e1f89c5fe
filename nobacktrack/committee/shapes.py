"""How many numbers a panel on numbers holds, and in what shapes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .forecasting import (
    CROSS,
    FAR,
    FAR_COVARIANCE,
    NEAR,
    NEAR_ALONE,
    NEAR_COVARIANCE,
    PAIRS_COVARIANCE,
    STACK_COVARIANCE,
    Scratch,
    issue_forecast,
)
from .past import Numbers
from .robust import CLEAN_ROWS
from .spreads import SPREAD
from .squares import pairs_of

LAG_ROWS, MOST_LAGS = 10, 96  # of the inputs, for least squares on rows of them; features at most
CLEAN = 1 + CLEAN_ROWS
POOLS = 2  # of the experts: by their votes, and by their merits
MOST_INPUTS = 256  # of least squares, the first ones
MOST_FEATURES = 224  # of least squares on all outputs over a day of rows: they cost their square

Shapes = dict[str, tuple[int, ...]]


class Sizes(NamedTuple):
    """Of inputs, outputs and networks, how many; of the season and of the horizon, how many rows."""

    inputs: int
    outputs: int
    networks: int
    season: int
    ahead: int

    @property
    def near(self) -> int:
        return 1 + self.outputs * (1 + self.near_rows) + min(self.inputs, MOST_INPUTS)

    @property
    def near_rows(self) -> int:
        """How many rows back the first least squares look."""
        return NEAR_ALONE if self.outputs == 1 else NEAR

    @property
    def far(self) -> int:
        return 2 + FAR + (min(self.inputs, MOST_INPUTS) if self.outputs == 1 else 0)

    @property
    def pairs(self) -> int:
        return 1 + self.outputs + pairs_of(self.inputs)

    @property
    def cross(self) -> int:
        features = 1 + self.outputs * (1 + CROSS)
        return features if self.outputs > 1 and features <= MOST_FEATURES else 0

    @property
    def row(self) -> int:
        return 1 + min(self.inputs, MOST_INPUTS)

    @property
    def lag_rows(self) -> int:
        """How many rows of all inputs least squares look back: two at least, or none, which are held all the same."""
        rows = min(LAG_ROWS, MOST_LAGS // self.inputs)
        return rows if self.outputs == 1 and rows > 1 else 1

    @property
    def lags(self) -> int:
        return 1 + self.inputs * self.lag_rows if self.lag_rows > 1 else 0

    @property
    def experts(self) -> int:
        return len(self.names([""] * self.networks))

    def names(self, networks: list[str]) -> list[str]:
        """The experts."""
        cross = ["least squares, all outputs over a day of rows"] if self.cross else []
        lags = ["least squares, rows of inputs"] if self.outputs == 1 else []
        season = ["the season before"] if self.season else []
        squares = ["last rows", "each output over many rows", "products of inputs", "the row", "cleaned values"]
        simple = ["last value", "mean so far", *(f"least squares, {of}" for of in squares), *lags]
        return [*simple, *cross, *season, *networks, "least squares on the others"]

    def shapes(self) -> list[tuple[int, ...]]:
        """Of all that a panel knows, in the order of `Numbers`."""
        named = self._of_the_stream() | self._of_forecasts() | self._of_what_is_learned()
        return [named[name] for name in Numbers._fields]

    def _of_the_stream(self) -> Shapes:
        d, i = (self.outputs,), (self.inputs,)
        each = dict.fromkeys(("targets", "last", "strided", "gaps"), d)
        spreads = {**dict.fromkeys(("levels", "steps", "strides"), (SPREAD, *d)), "inputs": (SPREAD, *i)}
        rows = {"rows": (self.lag_rows, *i), "first_x": i, "first_y": d}
        return {
            **each,
            **spreads,
            **rows,
            "x": i,
            "counts": (4,),
            "differences": (FAR, *d),
            "season": (self.season, *d),
        }

    def _of_forecasts(self) -> Shapes:
        d, n = self.outputs, self.experts
        issued = {
            **dict.fromkeys(("base", "size", "known", "odd", "mixed"), (d,)),
            "x": (self.inputs,),
            "near": (self.near,),
            "far": (d, self.far),
            "pairs": (self.pairs,),
            "cross": (self.cross,),
            "row": (self.row,),
            "lags": (self.lags,),
            "clean": (d, CLEAN),
            "stack": (d, n - 1),
            "expected": (n, d),
            "pools": (POOLS, d),
            "bounds": (2, d),
        }
        return {f"issued_{name}": (self.ahead, *shape) for name, shape in issued.items()}

    def _of_what_is_learned(self) -> Shapes:
        d, n = self.outputs, self.experts
        squares = {"near": self.near, "pairs": self.pairs, "cross": self.cross, "row": self.row, "lags": self.lags}
        each = {"far": self.far, "stack": n - 1, "clean": CLEAN}
        return {
            **{f"{name}_p": (size, size) for name, size in squares.items()},
            **{f"{name}_p": (d, size, size) for name, size in each.items()},
            **{f"{name}_w": (d, size) for name, size in (squares | each).items()},
            **dict.fromkeys(("shares", "variances", "errors"), (n, d)),
            "votes": (2, n, d),
            "pools": (POOLS, d),
            "row_units": (self.row,),
            "lags_units": (self.lags,),
            "clean_units": (d, CLEAN),
            "noise": (3, d),
            "renewals": (2, d),
            "farthest": (self.inputs,),
            "extent": (d,),
            "cleaned": (2 + CLEAN_ROWS, d),
            "left_out": (d,),
            "settled": (d,),
            "coverage": (2, d),
        }

    def begin(self, interval: float) -> Numbers:
        """Before the first row; nothing is expected yet, which is a forecast too."""
        m = Numbers(*map(np.zeros, self.shapes()))
        starts = NEAR_COVARIANCE, FAR_COVARIANCE, PAIRS_COVARIANCE, FAR_COVARIANCE, STACK_COVARIANCE
        for p, start in zip((m.near_p, m.far_p, m.pairs_p, m.cross_p, m.stack_p), starts, strict=True):
            p[...] = start * np.eye(p.shape[-1])
        m.variances[:] = 1
        for weights in (m.shares, m.votes):
            weights[:] = -np.log(self.experts)
        m.left_out[:], m.season[:] = 1 - interval, np.nan
        issue_forecast(m, self.scratch(interval), np.zeros((self.networks, self.outputs)))
        return m

    def scratch(self, interval: float) -> Scratch:
        most = max(self.near, self.far, self.pairs, self.cross, self.row, self.lags, CLEAN, self.experts)
        return Scratch(np.zeros(self.experts), np.zeros(most), np.array([interval]))
