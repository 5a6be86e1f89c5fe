"""The pieces of block methods: the window of truncated BPTT, and the terms for what is older."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from ..codes import Belief, Norms
from .layout import COMMON, beside, indices, of_state


class WindowPieces(NamedTuple):
    """See `layout.Pieces`."""

    gradient: np.ndarray = of_state(lambda s: (s.fan, s.rows))
    ring_h: np.ndarray = of_state(lambda s: (s.depth, s.state))
    ring_x: np.ndarray = of_state(lambda s: (s.depth, s.inputs))
    ring_dl_dh: np.ndarray = of_state(lambda s: (s.depth, s.state))
    following: np.ndarray = beside(lambda s: (s.depth, s.state))  # h' on the way back
    squares: np.ndarray = beside(lambda s: (s.blocks,))  # of the gradient, block by block of rows
    co_state: np.ndarray = beside(lambda s: (s.state,))
    # of each transition of the window, the newest first, all at theta of now
    activities: np.ndarray = beside(lambda s: (s.depth, 1 + s.units))
    slopes: np.ndarray = beside(lambda s: (s.depth, s.units))
    preactivations: np.ndarray = beside(lambda s: (s.depth, s.rows))
    all_c: np.ndarray = beside(lambda s: (s.depth, s.rows * s.components))
    retentions: np.ndarray = beside(lambda s: (s.depth, s.components**2 * s.units))
    pulled: np.ndarray = beside(lambda s: (s.depth, s.rows))  # q


WINDOW: WindowPieces = indices(WindowPieces, COMMON)
AFTER_WINDOW = COMMON + len(WindowPieces._fields)
_OF_WINDOW: Any = WindowPieces._field_defaults


class Seen(IntEnum):
    """The numbers of `belief.Experience`."""

    ESTIMATES = 0
    EXACT_POWER = 1
    RANDOM_POWER = 2
    SIGNAL_POWER = 3
    AGREEMENT = 4
    SHARE = 5


class Setting(IntEnum):
    """Of the norms, of the belief; squares below TINY are not trusted."""

    PACE = 0
    SHARE = 1
    BUDGET = 2
    CEILING = 3
    MEMORY = 4
    SHOCK = 5
    TRUST = 6
    TIMID = 7
    SPIKE = 8
    NOTHING = 9
    LEAST_WORTH = 10
    ROUNDING = 11
    LEAST = 12  # the smallest number that is whole
    TINY = 13
    STEADY = 14


class TailPieces(NamedTuple):
    """See `layout.Pieces`: those of truncated BPTT come first, in its order, so that its kernels find them."""

    gradient: np.ndarray = _OF_WINDOW["gradient"]
    ring_h: np.ndarray = _OF_WINDOW["ring_h"]
    ring_x: np.ndarray = _OF_WINDOW["ring_x"]
    ring_dl_dh: np.ndarray = _OF_WINDOW["ring_dl_dh"]
    following: np.ndarray = _OF_WINDOW["following"]
    squares: np.ndarray = _OF_WINDOW["squares"]
    co_state: np.ndarray = _OF_WINDOW["co_state"]
    activities: np.ndarray = _OF_WINDOW["activities"]
    slopes: np.ndarray = _OF_WINDOW["slopes"]
    preactivations: np.ndarray = _OF_WINDOW["preactivations"]
    all_c: np.ndarray = _OF_WINDOW["all_c"]
    retentions: np.ndarray = _OF_WINDOW["retentions"]
    pulled: np.ndarray = _OF_WINDOW["pulled"]
    v: np.ndarray = of_state(lambda s: (s.terms, s.state))
    w: np.ndarray = of_state(lambda s: (s.terms, s.fan, s.rows))
    signs: np.ndarray = of_state(lambda s: (s.terms * s.state,))
    demand: np.ndarray = of_state(lambda s: (s.state if s.norms == Norms.DEMAND else 0,))
    own: np.ndarray = of_state(lambda s: (s.components, s.fan, s.rows))  # Z
    seen: np.ndarray = of_state(lambda s: (len(Seen),))  # what the belief has seen
    mean_random: np.ndarray = of_state(lambda s: (s.terms if s.belief == Belief.CAUTION else 0, s.fan, s.rows))
    exact: np.ndarray = beside(lambda s: (s.fan, s.rows))
    newer: np.ndarray = beside(lambda s: (s.terms, s.fan, s.rows))  # nu^T D^-1 R
    own_later: np.ndarray = beside(lambda s: (s.components, s.fan, s.rows))  # Z'
    co_states: np.ndarray = beside(lambda s: (s.terms, s.state))
    co_signs: np.ndarray = beside(lambda s: (s.terms, s.state))  # nu^T D^-1
    co_own: np.ndarray = beside(lambda s: (s.components, s.state))
    pulled_terms: np.ndarray = beside(lambda s: (s.terms, s.block, s.rows))  # q of the transitions that leave
    pulled_own: np.ndarray = beside(lambda s: (s.components, s.block, s.rows))
    tangent: np.ndarray = beside(lambda s: (s.terms, s.rows))
    seen_v: np.ndarray = beside(lambda s: (s.terms, 1 + s.units))  # v as the other units see it, behind a place for 1
    share: np.ndarray = beside(lambda s: (s.terms,))  # lambda v_k
    q_state: np.ndarray = beside(lambda s: (s.state,))  # what h is measured by
    settings: np.ndarray = beside(lambda s: (len(Setting),))


TAIL: TailPieces = indices(TailPieces, COMMON)
assert TailPieces._fields[: len(WindowPieces._fields)] == WindowPieces._fields
