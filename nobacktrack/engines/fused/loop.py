"""The whole online step in one compiled loop: observe a target, advance on an input, over a chunk of a stream."""

# pyright: reportPossiblyUnboundVariable=false
from __future__ import annotations

from typing import Any

from ...compiled import ONE, ZERO, entry, fill, inlined, kernel
from .cells import show, work_units
from .exact import carry, gather
from .layout import (
    ADVANCE,
    ADVANCE_OBSERVE,
    AGE,
    DUE,
    EUCLIDEAN,
    EUCLIDEAN_NORMS,
    FORESIGHT,
    FRESH,
    GRAMIAN,
    HELD,
    NOBACKTRACK,
    OBSERVE_ADVANCE,
    OBSERVED,
    PIECE,
    Sizes,
)
from .memory import look_ahead, refresh, remember
from .passes import linearise, measure, measure_by_largest, move_phi, move_theta, pay
from .readout import predict, pull, score_symbol, score_vector
from .reduction import form_norms, reduce
from .signs import draw_signs, tick
from .transition import fan_in, push, sweep
from .views import band, flattened, matrix, matrix_from, row, shaped, vector, vector_from
from .window import backtrack, extend, pull_rows, witness


@kernel
def sized(sizes: Any) -> Sizes:
    """The integers by name."""
    return Sizes(
        sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5], sizes[6], sizes[7],
        sizes[8], sizes[9], sizes[10], sizes[11], sizes[12], sizes[13], sizes[14], sizes[15],
        sizes[16], sizes[17], sizes[18], sizes[19],
    )  # fmt: skip


@inlined
def observe(
    s: Any,
    rtrl: Any,
    bptt: Any,
    places: Any,
    work: Any,
    ints: Any,
    symbol: Any,
    values: Any,
    theta_pace: Any,
    phi_pace: Any,
) -> Any:
    """The observation and update steps [NBT, Alg. 1 and 2]: score, estimate the gradient, move phi and theta."""
    loss = read(s, places, work, symbol, values)
    move_phi(s, places, work, ints, phi_pace)
    dl_dh = vector(work, places, PIECE.dl_dh)
    if rtrl is not None:
        gather(dl_dh, shaped(work, places, PIECE.influence, dl_dh.size), flattened(work, places, PIECE.w))
    elif bptt is not None:
        witness(ints, s.depth, dl_dh, matrix(work, places, PIECE.ring_dl_dh))
        close(s, places, work, ints)
        if ints[DUE] == 0:
            return loss
    else:
        pull_rows(matrix(work, places, PIECE.c), dl_dh, vector(work, places, PIECE.q))
        share(matrix(work, places, PIECE.v), dl_dh, vector(work, places, PIECE.along))
        pace = vector(work, places, PIECE.settings)[1]
        remember(s.norms, pace, dl_dh, matrix(work, places, PIECE.urgency))
    move_theta(s, bptt, places, work, ints, theta_pace)
    return loss


@kernel
def read(s: Any, places: Any, work: Any, symbol: Any, values: Any) -> Any:
    """y_hat = Y(phi, h), the loss, dl/dy_hat and dl/dh."""
    activity, slope = vector(work, places, PIECE.activity), vector(work, places, PIECE.slope)
    y_hat, dl_dy = vector(work, places, PIECE.y_hat), vector(work, places, PIECE.dl_dy)
    phi = matrix(work, places, PIECE.phi)
    show(s.activation, matrix(work, places, PIECE.h), activity, slope)
    predict(phi, activity, y_hat)
    loss = score_symbol(y_hat, s.outputs, symbol, dl_dy) if s.softmax else score_vector(y_hat, s.outputs, values, dl_dy)
    pull(phi, dl_dy, slope, vector(work, places, PIECE.dl_dh))
    return loss


@kernel
def share(v: Any, dl_dh: Any, along: Any) -> None:
    """(H v_k) / K: the share of w_k in the gradient."""
    for k in range(along.size):
        total = ZERO * along[k]
        for i in range(dl_dh.size):
            total += v[k, i] * dl_dh[i]
        along[k] = total / along.dtype.type(along.size)


@kernel
def close(s: Any, places: Any, work: Any, ints: Any) -> None:
    """The gradient of a block that is full, added to what is due."""
    if ints[HELD] < s.depth:
        return
    backtrack(
        s.cell,
        s.activation,
        ints,
        s.depth,
        matrix(work, places, PIECE.theta),
        vector(work, places, PIECE.alpha),
        matrix(work, places, PIECE.hears),
        matrix(work, places, PIECE.ring_h),
        matrix(work, places, PIECE.ring_x),
        matrix(work, places, PIECE.ring_dl_dh),
        vector(work, places, PIECE.activity),
        vector(work, places, PIECE.slope),
        matrix(work, places, PIECE.u),
        vector(work, places, PIECE.a),
        shaped(work, places, PIECE.scales, 2 * s.components),
        matrix(work, places, PIECE.c),
        matrix(work, places, PIECE.kept),
        vector(work, places, PIECE.dl_dh),
        vector(work, places, PIECE.q),
        shaped(work, places, PIECE.w, s.fan),
    )
    fill(vector(work, places, PIECE.q), ZERO)
    ints[DUE] = 1


@inlined
def advance(
    s: Any, rtrl: Any, bptt: Any, places: Any, work: Any, ints: Any, clock: Any, symbol: Any, values: Any
) -> None:
    """The reduction and transition steps [NBT, Alg. 1 and 2]: theta has moved already."""
    h, hears = matrix(work, places, PIECE.h), matrix(work, places, PIECE.hears)
    activity, slope = vector(work, places, PIECE.activity), vector(work, places, PIECE.slope)
    u, a = matrix(work, places, PIECE.u), vector(work, places, PIECE.a)
    c, kept = matrix(work, places, PIECE.c), matrix(work, places, PIECE.kept)
    shown = bptt is None and ints[OBSERVED] == 1  # a target was observed at this h
    if rtrl is None and bptt is None:
        lighten(s, places, work, ints, clock)
    if bptt is not None:
        close(s, places, work, ints)
        rings = matrix(work, places, PIECE.ring_h), matrix(work, places, PIECE.ring_x)
        extend(
            ints, s.depth, flattened(work, places, PIECE.h), symbol, values, *rings,
            matrix(work, places, PIECE.ring_dl_dh),
        )  # fmt: skip
    if not shown:
        show(s.activation, h, activity, slope)
    fan_in(activity, s.units, symbol, values, hears, u)
    rows = s.gates * s.units
    for first in range(0, rows, s.band):
        theta = band(work, places, PIECE.theta, first, min(s.band, rows - first))
        a_here, by_symbol = vector_from(work, places, PIECE.a, first), s.inputs == 0
        if rtrl is None and bptt is None:
            v, tangent = matrix(work, places, PIECE.v), matrix_from(work, places, PIECE.tangent, first)
            sweep(first, s.alike, theta, u, symbol, by_symbol, hears, slope, v, a_here, tangent)
        else:
            sweep(first, s.alike, theta, u, symbol, by_symbol, hears, slope, None, a_here, None)
    work_units(s.cell, a, h, vector(work, places, PIECE.alpha), h, c, kept)
    if rtrl is None and bptt is None:
        push(c, kept, matrix(work, places, PIECE.tangent), matrix(work, places, PIECE.v))
        carry_memory(s, places, work, ints)
    if rtrl is not None:
        linearise(s, places, work)
        df_dh = matrix(work, places, PIECE.jacobian)
        influence = shaped(work, places, PIECE.influence, df_dh.shape[0])
        carry(df_dh, influence, c, u, a.size, matrix(work, places, PIECE.product))
    ints[OBSERVED] = 0
    tick(clock)


@kernel
def lighten(s: Any, places: Any, work: Any, ints: Any, clock: Any) -> None:
    """The reduction: one term again for each k."""
    norm_w, signs, settings = (
        vector(work, places, PIECE.norm_w),
        vector(work, places, PIECE.signs),
        vector(work, places, PIECE.settings),
    )
    metric = EUCLIDEAN if s.norms == EUCLIDEAN_NORMS else s.theta_metric
    if ints[OBSERVED] == 0:
        pay(s, places, work)
    if ints[OBSERVED] == 0 or metric != s.theta_metric:  # theta did not move, or in another metric
        fill(norm_w, ONE)
        measure(s, metric, places, work)
    if not form_norms(matrix(work, places, PIECE.squares), settings[3], norm_w):
        measure_by_largest(s, metric, places, work)
    draw_signs(clock, signs)
    reduce(
        s.norms,
        settings[2],
        settings[3],
        matrix(work, places, PIECE.worth),
        matrix(work, places, PIECE.variance),
        signs,
        norm_w,
        vector(work, places, PIECE.lengths),
        matrix(work, places, PIECE.c),
        matrix(work, places, PIECE.u),
        matrix(work, places, PIECE.v),
        vector(work, places, PIECE.inverse),
        matrix(work, places, PIECE.due),
        matrix(work, places, PIECE.heard),
        matrix(work, places, PIECE.scales),
    )


@kernel
def carry_memory(s: Any, places: Any, work: Any, ints: Any) -> None:
    """What the norms remember, one step on."""
    if s.norms != GRAMIAN and s.norms != FORESIGHT:
        return
    ints[AGE] += 1
    due = ints[AGE] == s.components * s.units
    if s.norms == GRAMIAN and not due:
        return
    ints[AGE] = 0
    c, df_dh = matrix(work, places, PIECE.c), matrix(work, places, PIECE.jacobian)
    worth, urgency = matrix(work, places, PIECE.worth), matrix(work, places, PIECE.urgency)
    settings, product = vector(work, places, PIECE.settings), matrix(work, places, PIECE.product)
    linearise(s, places, work)
    if s.norms == GRAMIAN:
        refresh(settings[0], settings[1], worth, urgency, df_dh, product)
        return
    measure(s, s.theta_metric, places, work)
    variance, lengths = matrix(work, places, PIECE.variance), vector(work, places, PIECE.lengths)
    look_ahead(settings[0], settings[1], worth, urgency, variance, df_dh, c, lengths, product)


@kernel
def restart(s: Any, bptt: Any, places: Any, work: Any, ints: Any) -> None:
    """A new episode: h as it was at the start, no influence; what was learned stays."""
    h, h0 = flattened(work, places, PIECE.h), flattened(work, places, PIECE.h0)
    for i in range(h.size):
        h[i] = h0[i]
    if bptt is not None:
        ints[FRESH] = 1
        return
    for piece in (PIECE.influence, PIECE.w, PIECE.v, PIECE.c, PIECE.u, PIECE.heard, PIECE.due, PIECE.variance):
        fill(flattened(work, places, piece), ZERO)
    fill(vector(work, places, PIECE.inverse), ONE)
    ints[OBSERVED] = 0


@entry
def settle(machine: Any) -> None:
    """Pay what is owed to w, so that the pieces are those of a State."""
    sizes, places, work, ints, _ = machine
    s = sized(sizes)
    if s.estimator == NOBACKTRACK and ints[OBSERVED] == 0:
        pay(s, places, work)


@entry
def foresee(machine: Any) -> None:
    """y_hat of the state as it is."""
    sizes, places, work, _, _ = machine
    s = sized(sizes)
    activity = vector(work, places, PIECE.activity)
    show(s.activation, matrix(work, places, PIECE.h), activity, vector(work, places, PIECE.slope))
    predict(matrix(work, places, PIECE.phi), activity, vector(work, places, PIECE.y_hat))


@inlined
def run(rtrl: Any, bptt: Any, machine: Any, verbs: Any, chunk: Any) -> None:
    """A chunk, each item by the verbs that it asks for.

    `machine` is (sizes, places, work, ints, clock); `chunk` is the inputs as symbols and as vectors, the targets in the
    same way, one of both being empty, `seen` and `reset`, empty where there is nothing to say, the paces of theta and
    of phi, and a place for the losses. What an estimator does not need is left out when its loop is compiled: `rtrl`
    and `bptt` are None or True.
    """
    sizes, places, work, ints, clock = machine
    x_symbols, x_vectors, y_symbols, y_vectors, seen, reset, theta_paces, phi_paces, losses = chunk
    s = sized(sizes)
    for t in range(losses.size):
        if reset.size and reset[t]:
            restart(s, bptt, places, work, ints)
        x = 0 if x_symbols.size == 0 else x_symbols[t]
        y = 0 if y_symbols.size == 0 else y_symbols[t]
        if verbs == ADVANCE_OBSERVE or verbs == ADVANCE:  # noqa: SIM109 - a tuple is slower here
            advance(s, rtrl, bptt, places, work, ints, clock, x, row(x_vectors, t))
        if verbs != ADVANCE and (seen.size == 0 or seen[t]):
            losses[t] = observe(s, rtrl, bptt, places, work, ints, y, row(y_vectors, t), theta_paces[t], phi_paces[t])
        if verbs == OBSERVE_ADVANCE:
            advance(s, rtrl, bptt, places, work, ints, clock, x, row(x_vectors, t))


@entry
def run_nobacktrack(machine: Any, verbs: Any, chunk: Any) -> None:
    """`run` for NoBackTrack."""
    run(None, None, machine, verbs, chunk)


@entry
def run_rtrl(machine: Any, verbs: Any, chunk: Any) -> None:
    """`run` for RTRL."""
    run(True, None, machine, verbs, chunk)


@entry
def run_bptt(machine: Any, verbs: Any, chunk: Any) -> None:
    """`run` for truncated BPTT."""
    run(None, True, machine, verbs, chunk)
