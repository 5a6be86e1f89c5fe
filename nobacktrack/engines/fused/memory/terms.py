"""The pieces of NoBackTrack: K random terms v_k w_k, and what its norms remember."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..codes import Norms
from .layout import Shape, Sizes, beside, indices, of_state
from .units import AFTER_UNITS

COLUMNS = 128  # of a product of matrices, at a time


def _memory(s: Sizes) -> Shape:
    """Q, or q in one row."""
    return {Norms.FORESIGHT: (1, s.state), Norms.GRAMIAN: (s.state, s.state)}.get(Norms(s.norms), (0, 0))


def _dense(s: Sizes) -> bool:
    """Whether the norms follow df/dh, whole."""
    return s.norms in (Norms.FORESIGHT, Norms.GRAMIAN)


class TermPieces(NamedTuple):
    """See `layout.Pieces`. w_k is scale_k w_k + rows_k (x) fan_in, of what is pending, until the next pass over theta
    makes it so.
    """

    v: np.ndarray = of_state(lambda s: (s.terms, s.state))
    w: np.ndarray = of_state(lambda s: (s.terms, s.fan, s.rows))  # in bands
    worth: np.ndarray = of_state(_memory)
    urgency: np.ndarray = of_state(_memory)
    variance: np.ndarray = of_state(lambda s: _memory(s) if s.norms == Norms.FORESIGHT else (0, 0))
    settings: np.ndarray = beside(lambda s: (4,))  # of the norms: see `Setting`
    pending_scale: np.ndarray = beside(lambda s: (s.terms,))
    pending_rows: np.ndarray = beside(lambda s: (s.terms, s.rows))
    pending_fan_in: np.ndarray = beside(lambda s: (s.groups, s.fan))
    share: np.ndarray = beside(lambda s: (s.terms,))  # of w_k in the gradient: (H v_k) / K
    norm_w: np.ndarray = beside(lambda s: (s.terms,))  # |w_k|
    signs: np.ndarray = beside(lambda s: (s.terms * s.state,))
    row_scales: np.ndarray = beside(lambda s: (2, s.state))  # rho and 1/rho of the rows
    tangent: np.ndarray = beside(lambda s: (s.terms, s.rows))  # what v_k does to the pre-activations
    bias_w: np.ndarray = beside(lambda s: (s.terms, s.rows))  # w_k of the biases
    squares_u: np.ndarray = beside(lambda s: (s.rows,))  # |u|^2 in each row
    squares_w: np.ndarray = beside(lambda s: (s.terms, s.rows))  # |w_k|^2 in each row
    df_dh: np.ndarray = beside(lambda s: (s.state, s.state) if _dense(s) else (0, 0))
    product: np.ndarray = beside(lambda s: (max(2 * s.state, 3), max(s.state, COLUMNS)) if _dense(s) else (0, 0))


TERM: TermPieces = indices(TermPieces, AFTER_UNITS)
HORIZON, PACE, FLOOR, TINY = range(4)  # in `settings`; squares below TINY are not trusted
