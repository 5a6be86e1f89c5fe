"""The pieces of unit blocks: what the parameters of each unit do to its own components."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..codes import Reach
from .layout import COMMON, Sizes, beside, indices, of_state


def _components(s: Sizes) -> int:
    """How many blocks there are: one for each component of a unit, or none."""
    return s.components if s.reach != Reach.NONE else 0


class UnitPieces(NamedTuple):
    """See `layout.Pieces`. Z is D Z + c (x) u, of what is pending, until the next pass over theta makes it so."""

    own: np.ndarray = of_state(lambda s: (_components(s), s.fan, s.rows))  # Z, in bands
    kept: np.ndarray = beside(lambda s: (_components(s) ** 2, s.units))  # D of the newest step
    # the same for each row of theta, as a pass needs it
    row_kept: np.ndarray = beside(lambda s: (_components(s) ** 2, s.rows))
    row_c: np.ndarray = beside(lambda s: (_components(s), s.rows))
    row_dl_dh: np.ndarray = beside(lambda s: (_components(s), s.rows))


UNIT: UnitPieces = indices(UnitPieces, COMMON)
AFTER_UNITS = COMMON + len(UnitPieces._fields)
