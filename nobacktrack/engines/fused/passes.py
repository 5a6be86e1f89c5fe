"""Passes over the parameters, band by band: they move, they are measured, w is paid, df/dh is put together."""

from __future__ import annotations

import math
from typing import Any

from ...compiled import ONE, ZERO, fill, kernel
from .layout import DUE, OBSERVED, PHI_AGE, PIECE, THETA_AGE
from .reduction import raise_to_largest, total_of
from .rows import measure_rows, move_rows, pay_rows
from .transition import add_jacobian, own_jacobian
from .views import band, bands, flattened, matrix, matrix_from, shaped, vector, vector_from


@kernel
def turn(ints: Any, age: Any, every: Any) -> Any:
    """The weight of a gradient in J: `every` for the first of so many, 0 for the others."""
    gain = every if ints[age] == 0 else 0
    ints[age] = 0 if ints[age] + 1 == every else ints[age] + 1
    return gain


@kernel
def move_phi(s: Any, places: Any, work: Any, ints: Any, pace: Any) -> None:
    """phi moves on dl/dphi = dl/dy_hat [1, activity]."""
    move_rows(
        s.phi_metric,
        pace,
        turn(ints, PHI_AGE, s.phi_every),
        vector(work, places, PIECE.priors)[1],
        0,
        places[PIECE.phi, 2],
        matrix(work, places, PIECE.phi),
        matrix(work, places, PIECE.phi_m0i),
        matrix(work, places, PIECE.phi_mii),
        vector(work, places, PIECE.dl_dy),
        shaped(work, places, PIECE.activity, 1),
        None,
        None,
        None,
        None,
        None,
        vector(work, places, PIECE.rows),
        None,
        None,
        None,
    )


@kernel
def move_theta(s: Any, bptt: Any, places: Any, work: Any, ints: Any, pace: Any) -> None:
    """theta moves on dl/dtheta = q u + sum_k along_k w_k."""
    inverse = vector(work, places, PIECE.inverse)
    if ints[OBSERVED]:  # paid at the target before this one
        fill(inverse, ONE)
        fill(flattened(work, places, PIECE.due), ZERO)
    times, rows = turn(ints, THETA_AGE, s.theta_every), s.gates * s.units
    for first in range(0, rows, s.band):
        width = min(s.band, rows - first)
        move_rows(
            s.theta_metric,
            pace,
            times,
            vector(work, places, PIECE.priors)[0],
            first,
            s.alike,
            band(work, places, PIECE.theta, first, width),
            band(work, places, PIECE.theta_m0i, first, width),
            band(work, places, PIECE.theta_mii, first, width),
            vector_from(work, places, PIECE.q, first),
            matrix(work, places, PIECE.u),
            bands(work, places, PIECE.w, first, width),
            inverse,
            matrix_from(work, places, PIECE.due, first),
            matrix(work, places, PIECE.heard),
            vector(work, places, PIECE.along),
            vector(work, places, PIECE.rows),
            matrix_from(work, places, PIECE.w0, first),
            vector_from(work, places, PIECE.lengths, first),
            matrix_from(work, places, PIECE.squares, first),
        )
    ints[OBSERVED] = 1
    if bptt is not None:
        ints[DUE] = 0
        fill(flattened(work, places, PIECE.w), ZERO)


@kernel
def linearise(s: Any, places: Any, work: Any) -> None:
    """df/dh whole, n x n."""
    df_dh = matrix(work, places, PIECE.jacobian)
    hears, slope = matrix(work, places, PIECE.hears), vector(work, places, PIECE.slope)
    own_jacobian(s.units, matrix(work, places, PIECE.kept), df_dh)
    for first in range(0, s.gates * s.units, s.band):
        theta = band(work, places, PIECE.theta, first, min(s.band, s.gates * s.units - first))
        add_jacobian(first, theta, hears, slope, matrix(work, places, PIECE.c), df_dh)


@kernel
def measure(s: Any, metric: Any, places: Any, work: Any) -> None:
    """The norms of u and of w_k / norm_w_k in each row."""
    rows = s.gates * s.units
    for first in range(0, rows, s.band):
        width = min(s.band, rows - first)
        measure_rows(
            metric,
            vector(work, places, PIECE.priors)[0],
            first,
            s.alike,
            band(work, places, PIECE.theta_m0i, first, width),
            band(work, places, PIECE.theta_mii, first, width),
            matrix(work, places, PIECE.u),
            bands(work, places, PIECE.w, first, width),
            vector(work, places, PIECE.norm_w),
            vector(work, places, PIECE.rows),
            vector_from(work, places, PIECE.lengths, first),
            matrix_from(work, places, PIECE.squares, first),
        )


@kernel
def measure_by_largest(s: Any, metric: Any, places: Any, work: Any) -> None:
    """|w_k| in units of its largest entry, or 0 where all are zero."""
    norm_w, squares, rows = vector(work, places, PIECE.norm_w), matrix(work, places, PIECE.squares), s.gates * s.units
    fill(norm_w, ZERO)
    for first in range(0, rows, s.band):
        raise_to_largest(bands(work, places, PIECE.w, first, min(s.band, rows - first)), norm_w)
    for k in range(norm_w.size):
        norm_w[k] = norm_w[k] if norm_w[k] > ZERO else ONE
    measure(s, metric, places, work)
    for k in range(norm_w.size):
        norm_w[k] *= math.sqrt(total_of(squares, k))


@kernel
def pay(s: Any, places: Any, work: Any) -> None:
    """What is owed to w, where no target came to have it paid on the way."""
    inverse, rows = vector(work, places, PIECE.inverse), s.gates * s.units
    for first in range(0, rows, s.band):
        w = bands(work, places, PIECE.w, first, min(s.band, rows - first))
        due = matrix_from(work, places, PIECE.due, first)
        pay_rows(first, s.alike, w, inverse, due, matrix(work, places, PIECE.heard))
    fill(inverse, ONE)
    fill(flattened(work, places, PIECE.due), ZERO)
