"""The reduction: one term again for each k. What it does to w is left pending, for the next pass over theta."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....compiled import ONE, ZERO, fill, kernel
from ..memory.layout import PIECE
from ..memory.terms import TERM, TINY
from ..memory.views import Count, matrix, row, vector
from .norms import balance, form_metric, form_norms, row_norms, state_norm, weigh_state
from .signs import draw_signs
from .terms import flush, measure, measure_by_largest


@kernel
def reduce(s: Any, m: Any) -> None:
    """v <- rho v + sum_i eps_i rho_i e_i,  w <- w / rho + sum_i eps_i w_i / rho_i [NBT, Alg. 1, reduction step]."""
    measure_forms(s, m)
    draw_signs(m.clock, vector(m, TERM.signs))
    scales = matrix(m, TERM.row_scales)
    scale_terms(s, m, row(scales, 0))
    scale_rows(s, m, row(scales, 0), row(scales, 1))
    add_rows(m, vector(m, TERM.signs), row(scales, 0), row(scales, 1))


@kernel
def measure_forms(s: Any, m: Any) -> None:
    """|w_k| and the norms of u, unless the pass over theta has left them."""
    metric = form_metric(s)
    if m.ints[Count.OBSERVED] == 0:
        flush(s, m)
    if m.ints[Count.OBSERVED] == 0 or metric != s.theta_metric:  # theta did not move, or in another metric
        fill(vector(m, TERM.norm_w), ONE)
        measure(s, m, metric)
    if not form_norms(m):
        measure_by_largest(s, m, metric)


@kernel
def scale_terms(s: Any, m: Any, weights: Any) -> None:
    """v_k <- rho_k v_k, and 1 / rho_k for w_k; `weights` becomes what h is measured by."""
    v, worth, norm_w = matrix(m, TERM.v), matrix(m, TERM.worth), vector(m, TERM.norm_w)
    scale, tiny = vector(m, TERM.pending_scale), vector(m, TERM.settings)[TINY]
    least = weigh_state(s, m, weights)
    for k in range(v.shape[0]):
        rho, scale[k] = balance(s.norms, norm_w[k], state_norm(s.norms, v, k, weights, worth, least, tiny))
        for i in range(v.shape[1]):
            v[k, i] *= rho


@kernel
def scale_rows(s: Any, m: Any, rho_i: Any, over_i: Any) -> None:
    """rho_i and 1 / rho_i of each row; `rho_i` holds what h is measured by."""
    row_norms(matrix(m, PIECE.c), vector(m, TERM.squares_u), over_i)
    for i in range(rho_i.size):
        length = over_i[i]
        rho, over = balance(s.norms, length, math.sqrt(rho_i[i]))
        rho_i[i] = rho if length > ZERO else ZERO
        over_i[i] = over


@kernel
def add_rows(m: Any, signs: Any, rho_i: Any, over_i: Any) -> None:
    """sum_i eps_i rho_i e_i is added to v, sum_i eps_i w_i / rho_i is left pending for w."""
    v, c, u = matrix(m, TERM.v), matrix(m, PIECE.c), matrix(m, PIECE.u)
    pending, fan_in = matrix(m, TERM.pending_rows), matrix(m, TERM.pending_fan_in)
    n, state = np.uint64(c.shape[1]), np.uint64(v.shape[1])
    components = state // n
    gates = np.uint64(c.shape[0]) // components
    for k in range(v.shape[0]):
        first = np.uint64(k) * state
        for i in range(state):
            v[k, i] += signs[first + i] * rho_i[i]
        for gate in range(gates):
            for i in range(n):
                pending[k, gate * n + i] = c[gate * components, i] * signs[first + i] * over_i[i]
            for component in range(np.uint64(1), components):
                at = component * n
                for i in range(n):
                    x = c[gate * components + component, i] * signs[first + at + i] * over_i[at + i]
                    pending[k, gate * n + i] += x
    for kind in range(u.shape[0]):
        for i in range(u.shape[1]):
            fan_in[kind, i] = u[kind, i]
