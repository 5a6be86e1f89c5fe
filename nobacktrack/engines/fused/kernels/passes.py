"""The two passes over theta of NoBackTrack and its kin, band by band, which threads share: theta moves, and the
transition reads it, with the v_k beside h.
"""

from __future__ import annotations

from typing import Any

from ....compiled import inlined, kernel
from ..codes import Job
from ..memory.layout import PIECE
from ..memory.terms import TERM
from ..memory.views import Count, matrix, matrix_from, vector, vector_from
from . import rows, terms, transition
from .cells import step_cells
from .crew import share


@inlined
def bands_of(s: Any) -> Any:
    """How many bands theta has."""
    return (s.gates * s.units + s.band - 1) // s.band


@kernel
def work(s: Any, m: Any, job: Any, i: Any, a: Any, b: Any, place: Any) -> None:
    """Band i of what threads do together."""
    if job == Job.STEP:
        preactivate(s, m, i, a)
    else:
        terms.move_band(s, m, i * s.band, a, place)


@kernel
def preactivate(s: Any, m: Any, i: Any, symbol: Any) -> None:
    """a = Theta u in a band, and what the v_k do to it."""
    first = i * s.band
    a, tangent = vector_from(m, PIECE.a, first), matrix_from(m, TERM.tangent, first)
    transition.preactivate_band(s, m, first, symbol, matrix(m, TERM.v), a, tangent)


@kernel
def move_theta(s: Any, m: Any, pace: Any) -> None:
    """theta moves on dl/dtheta = q u + sum_k share_k w_k."""
    if m.ints[Count.OBSERVED]:  # what was pending was done at the target before this one
        terms.nothing_pending(m)
    vector(m, PIECE.errand)[0] = pace
    times = rows.weight_in_information(m.ints, Count.THETA_AGE, s.theta_every)
    share(work, s, m, Job.MOVE, bands_of(s), times, 0)
    m.ints[Count.OBSERVED] = 1


@inlined
def step(work: Any, s: Any, m: Any, symbol: Any, values: Any) -> None:
    """h' = f(theta, h, x), v <- df/dh v."""
    transition.compute_fan_in(s, m, symbol, values, m.ints[Count.OBSERVED] == 1)
    share(work, s, m, Job.STEP, bands_of(s), symbol, 0)
    h, c, retention = matrix(m, PIECE.h), matrix(m, PIECE.c), matrix(m, PIECE.retention)
    step_cells(s.cell, vector(m, PIECE.a), h, vector(m, PIECE.alpha), h, c, retention)
    transition.push(c, retention, matrix(m, TERM.tangent), matrix(m, TERM.v))
