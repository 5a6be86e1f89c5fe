"""The pieces of `DiagonalPlusRankOne` after those of unit blocks and of random terms."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .layout import beside, indices, joined, of_state
from .terms import TermPieces
from .units import AFTER_UNITS, UnitPieces


class CrossingPieces(NamedTuple):
    """See `layout.Pieces`: what units did to others in the last steps, `depth` of them, in a ring."""

    ring_blocks: np.ndarray = of_state(lambda s: (s.depth, s.fan, s.rows))  # Y, in bands
    ring_off: np.ndarray = of_state(lambda s: (s.depth, s.units, s.state))  # M, a row for each unit that acts
    ring_own: np.ndarray = of_state(lambda s: (s.depth, s.components**2, s.units))  # D
    ring_through: np.ndarray = of_state(lambda s: (s.depth, s.components, s.units))  # A
    row_across: np.ndarray = beside(lambda s: (s.depth, s.rows))  # H J .. J M, for each row of theta
    row_through: np.ndarray = beside(lambda s: (s.components, s.rows))  # A of the newest step
    row_merged: np.ndarray = beside(lambda s: (s.terms, s.rows))  # how much of the oldest Y goes into w_k
    squares: np.ndarray = beside(lambda s: (s.rows,))  # |Y|^2 in each row
    unit_scales: np.ndarray = beside(lambda s: (4, s.units))  # |Y_j|, rho_j, 1 / rho_j; what is summed
    new_v: np.ndarray = beside(lambda s: (s.terms, s.state))  # J .. J M (eps rho)
    passing: np.ndarray = beside(lambda s: (2, s.state))  # a vector on its way through the last steps
    q_state: np.ndarray = beside(lambda s: (s.state,))  # what h is measured by


CROSSING: CrossingPieces = indices(CrossingPieces, AFTER_UNITS + len(TermPieces._fields))
PIECES: Any = joined(UnitPieces, TermPieces, CrossingPieces)
