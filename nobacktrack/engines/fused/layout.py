"""How the numbers of a State lie for the compiled loop: one flat array, cut into named pieces.

Parameters lie with the unit as the last axis, (fan-in, gates x units): a row of theta is then a column, and the loop
over units, which has no sum in it, is the one that the compiler turns into vector instructions. For NoBackTrack they
lie in bands of some rows, (bands, fan-in, rows of a band), so that a pass over a band goes through memory in one line.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

BLOCK = 128  # rows at a time, or in a band: what a pass keeps of them stays in the first cache
KEPT = BLOCK + 32  # numbers from one of these to the next: not a power of two, or they would share a place in the cache
COLUMNS = 128  # of the influence of RTRL, at a time
LANES = 4  # numbers in the shortest vector
LINE = 64  # bytes of a line of the cache
ALIGNED = 16  # numbers: a piece begins at a multiple of 64 bytes, or of 128
PAGE = 4096  # bytes: a processor takes a load for one of what was stored just before at the same place in another page,
# and waits, so that pieces which a pass goes through side by side begin at places far apart in their pages
SPACED = ("theta", "theta_m0i", "theta_mii", "w"), ("phi", "phi_m0i", "phi_mii")


class Sizes(NamedTuple):
    """The integers that shape a loop. Kernels take them as one array of 64-bit integers, in this order."""

    cell: int
    activation: int
    units: int
    gates: int
    components: int
    groups: int  # how many different fan-ins the gates hear
    fan: int  # 1 + units + inputs
    inputs: int  # 0: the input is a symbol
    outputs: int
    softmax: int  # the target is a symbol
    estimator: int
    terms: int  # how many w_k there are: K, or 1, a gradient, for RTRL and BPTT
    depth: int
    norms: int
    theta_metric: int
    phi_metric: int
    theta_every: int  # J takes in the first of so many gradients
    phi_every: int
    band: int  # how many rows of theta lie together
    alike: int  # how many rows hear the same


# Codes.
RNN, LEAKY, LEARNED_LEAKY, GRU, LSTM = range(5)
SIGMOID, TANH, SHOWN = range(3)
NOBACKTRACK, RTRL, BPTT = range(3)
EUCLIDEAN, DIAGONAL, QUASI_DIAGONAL = range(3)
OBSERVE_ADVANCE, ADVANCE_OBSERVE, OBSERVE, ADVANCE = range(4)
METRIC_NORMS, EUCLIDEAN_NORMS, UNSCALED, FORESIGHT, GRAMIAN = range(5)

# What a loop keeps in integers: the first ones, then the window's symbols and the beginnings of its episodes. OBSERVED:
# a target moved theta at this h, so that w is paid, norms are measured, and the activity is computed.
AGE, HEAD, HELD, FRESH, DUE, OBSERVED, THETA_AGE, PHI_AGE, COUNTERS = range(9)


class Pieces(NamedTuple):
    """The pieces of the flat array: first what a State has, then what the loop needs beside it; some are empty. For
    RTRL and truncated BPTT, w is the gradient.
    """

    theta: np.ndarray  # (fan, gates x units), in bands, like theta_m0i, theta_mii and w
    theta_m0i: np.ndarray  # row 0 is M_00
    theta_mii: np.ndarray
    phi: np.ndarray  # (1 + units, outputs, padded)
    phi_m0i: np.ndarray
    phi_mii: np.ndarray
    priors: np.ndarray  # of theta, of phi
    h: np.ndarray  # (components, units)
    h0: np.ndarray
    alpha: np.ndarray  # (units,)
    v: np.ndarray  # (terms, components x units)
    w: np.ndarray  # (terms, fan, gates x units)
    influence: np.ndarray  # (components x units, fan, gates x units), for RTRL
    c: np.ndarray  # (gates x components, units)
    u: np.ndarray  # (groups, fan)
    worth: np.ndarray  # the norms' memory: Q, or q in one row
    urgency: np.ndarray
    variance: np.ndarray
    ring_h: np.ndarray  # (depth, components x units)
    ring_x: np.ndarray  # (depth, inputs)
    ring_dl_dh: np.ndarray
    settings: np.ndarray  # horizon, pace, floor of the norms; squares below the fourth are not trusted
    # --- beside the State
    hears: np.ndarray  # (groups, 2): whether the gates hear the units, and the input
    inverse: np.ndarray  # w_k is inverse_k w_k + due_k (x) heard until the next pass over theta makes it so
    due: np.ndarray  # (terms, gates x units)
    heard: np.ndarray  # (groups, fan)
    activity: np.ndarray  # (1 + units,), led by a 1
    slope: np.ndarray  # d activity / dh
    y_hat: np.ndarray
    dl_dy: np.ndarray
    dl_dh: np.ndarray
    along: np.ndarray  # (terms,)
    q: np.ndarray  # (gates x units,)
    norm_w: np.ndarray  # |w_k|
    signs: np.ndarray
    scales: np.ndarray  # (2, components x units): rho and 1/rho of the rows; h' on the way back, for truncated BPTT
    a: np.ndarray  # (gates x units,)
    tangent: np.ndarray  # (terms, gates x units)
    kept: np.ndarray  # (components x components, units)
    rows: np.ndarray  # what a pass keeps of a block of rows: see `rows.py`
    w0: np.ndarray  # (terms, gates x units)
    lengths: np.ndarray  # |u|^2 in each row
    squares: np.ndarray  # |w_k|^2 in each row
    jacobian: np.ndarray
    product: np.ndarray


PIECE = Pieces(*range(len(Pieces._fields)))  # pyright: ignore[reportArgumentType] - the place of each piece


def padded(outputs: int) -> int:
    """So many outputs that a vector instruction takes them; those beyond the real ones stay zero."""
    return -(-outputs // LANES) * LANES


def shapes(s: Sizes) -> dict[str, tuple[int, ...]]:
    """The shape of each piece."""
    n, rows, fan, state = s.units, s.gates * s.units, s.fan, s.components * s.units
    reads, answers = 1 + n, padded(s.outputs)
    online = s.estimator == NOBACKTRACK
    window = s.depth if s.estimator == BPTT else 0
    memory = {FORESIGHT: (1, state), GRAMIAN: (state, state)}.get(s.norms, (0, 0)) if online else (0, 0)
    dense = s.estimator == RTRL or (online and s.norms in (FORESIGHT, GRAMIAN))

    def information(metric: int, shape: tuple[int, int]) -> tuple[tuple[int, int], tuple[int, int]]:
        return shape if metric == QUASI_DIAGONAL else (0, 0), shape if metric != EUCLIDEAN else (0, 0)

    theta_m0i, theta_mii = information(s.theta_metric, (fan, rows))
    phi_m0i, phi_mii = information(s.phi_metric, (reads, answers))
    return dict(  # noqa: C408 - the names are those of Pieces
        theta=(fan, rows), theta_m0i=theta_m0i, theta_mii=theta_mii,
        phi=(reads, answers), phi_m0i=phi_m0i, phi_mii=phi_mii, priors=(2,),
        h=(s.components, n), h0=(s.components, n), alpha=(n,),
        v=(s.terms if online else 0, state), w=(s.terms, fan, rows),
        influence=(state if s.estimator == RTRL else 0, fan, rows), c=(s.gates * s.components, n), u=(s.groups, fan),
        worth=memory, urgency=memory, variance=memory if s.norms == FORESIGHT else (0, 0),
        ring_h=(window, state), ring_x=(window, s.inputs), ring_dl_dh=(window, state), settings=(4,),
        hears=(s.groups, 2), inverse=(s.terms,), due=(s.terms, rows), heard=(s.groups, fan),
        activity=(reads,), slope=(n,), y_hat=(answers,), dl_dy=(answers,), dl_dh=(state,),
        along=(s.terms,), q=(rows,), norm_w=(s.terms,), signs=(s.terms * state if online else 0,),
        scales=(2, state), a=(rows,), tangent=(s.terms, rows), kept=(s.components**2, n), rows=(11 * KEPT,),
        w0=(s.terms, rows), lengths=(rows,), squares=(s.terms, rows), jacobian=(state, state) if dense else (0, 0),
        product=(max(2 * state, 3), max(state, COLUMNS)) if dense else (0, 0),
    )  # fmt: skip


BESIDE = Pieces._fields.index("hears")  # the first piece that is not part of a State


def table(s: Sizes, itemsize: int) -> np.ndarray:
    """A row for each piece: where it begins, and its shape, padded with ones to three axes."""
    rows, begin, page = [], 0, PAGE // itemsize
    for name, shape in shapes(s).items():
        for group in SPACED:
            if name in group:
                begin += (group.index(name) * page // 4 - begin) % page
        rows.append([begin, *shape, *[1] * (3 - len(shape))])
        begin += -(-int(np.prod(shape)) // ALIGNED) * ALIGNED
    rows.append([begin, 0, 0, 0])
    return np.array(rows, np.int64)


def pieces(s: Sizes, places: np.ndarray, work: np.ndarray) -> Pieces:
    """Views of a flat array."""
    begins = zip(places[:, 0], shapes(s).values(), strict=False)
    return Pieces(*(work[begin : begin + int(np.prod(shape))].reshape(shape) for begin, shape in begins))


def aligned(count: int, dtype: np.dtype) -> np.ndarray:
    """Zeros that begin where a line of the cache does: vector instructions that straddle two lines take twice as
    long.
    """
    spare = np.zeros(count * dtype.itemsize + LINE, np.uint8)
    begin = -spare.ctypes.data % LINE
    return spare[begin : begin + count * dtype.itemsize].view(dtype)
