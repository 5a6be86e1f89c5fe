"""How the numbers of a State lie for the compiled loop: one flat array, cut into named pieces.

Parameters lie with the unit as the last axis, (fan-in, gates x units): a row of theta is then a column, and the loop
over units, which has no sum in it, is the one that the compiler turns into vector instructions. For NoBackTrack they
lie in bands of some rows, (bands, fan-in, rows of a band), so that a pass over a band goes through memory in one line.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np

from ..codes import Metric

BLOCK = 128  # rows at a time, or in a band: what a pass needs of them stays in the first cache
SCRATCH_ROWS = 11  # what a pass needs of each row of a block: `kernels/rows.py`
LANES = 4  # numbers in the shortest vector
LINE = 64  # bytes of a line of the cache
ALIGNED = 16  # numbers: a piece begins at a multiple of 64 bytes, or of 128
PAGE = 4096  # bytes: a processor takes a load for one of what was stored just before at the same place in another page,
# and waits, so that pieces which a pass goes through side by side begin at places far apart in their pages, and scratch
# lies half a block off from them
SPACED = ("theta", "theta_m0i", "theta_mii", "w"), ("phi", "phi_m0i", "phi_mii")


class Sizes(NamedTuple):
    """The integers that shape a loop. Kernels get them as one array of 64-bit integers, in this order."""

    cell: int
    activation: int
    readout: int
    units: int
    gates: int
    components: int
    groups: int  # how many different fan-ins the gates hear
    fan: int  # 1 + units + inputs
    inputs: int  # 0: the input is a symbol
    outputs: int
    theta_metric: int
    phi_metric: int
    theta_every: int  # J takes in the first of so many gradients
    phi_every: int
    band: int  # how many rows of theta lie together
    terms: int = 0  # of an estimator: how many w_k there are
    depth: int = 0  # how many steps it looks back
    norms: int = 0  # the rule of its reductions
    block: int = 0  # after how many steps theta moves
    belief: int = 0  # the rule for its random part
    reach: int = 0  # what of itself a unit block keeps
    threads: int = 1  # how many may work on one step

    @property
    def rows(self) -> int:
        """How many rows theta has."""
        return self.gates * self.units

    @property
    def blocks(self) -> int:
        """How many blocks of rows that hear the same theta has."""
        return self.groups * -(-self.rows // (self.groups * BLOCK))

    @property
    def state(self) -> int:
        """How many numbers h has."""
        return self.components * self.units

    @property
    def answers(self) -> int:
        """So many outputs that a vector instruction takes them; those beyond the real ones stay zero."""
        return -(-self.outputs // LANES) * LANES


Shape = tuple[int, ...]


class Piece(NamedTuple):
    """The shape of a piece, and whether it holds a part of the State, or what a step needs beside it."""

    shape: Callable[[Sizes], Shape]
    in_state: bool


def of_state(shape: Callable[[Sizes], Shape]) -> Any:
    """A piece of the State."""
    return Piece(shape, True)


def beside(shape: Callable[[Sizes], Shape]) -> Any:
    """A piece that a step needs beside the State."""
    return Piece(shape, False)


def _arrow(metric: int, fan: int, rows: int) -> Shape:
    """M_0i, row 0 being M_00."""
    return (fan, rows) if metric == Metric.QUASI_DIAGONAL else (0, 0)


def _diagonal(metric: int, fan: int, rows: int) -> Shape:
    """M_ii."""
    return (fan, rows) if metric in (Metric.DIAGONAL, Metric.QUASI_DIAGONAL) else (0, 0)


class Pieces(NamedTuple):
    """The pieces that all loops share, each with its shape; those of an estimator come after them (`loops/`)."""

    theta: np.ndarray = of_state(lambda s: (s.fan, s.rows))  # in bands, like theta_m0i and theta_mii
    theta_m0i: np.ndarray = of_state(lambda s: _arrow(s.theta_metric, s.fan, s.rows))
    theta_mii: np.ndarray = of_state(lambda s: _diagonal(s.theta_metric, s.fan, s.rows))
    phi: np.ndarray = of_state(lambda s: (1 + s.units, s.answers))
    phi_m0i: np.ndarray = of_state(lambda s: _arrow(s.phi_metric, 1 + s.units, s.answers))
    phi_mii: np.ndarray = of_state(lambda s: _diagonal(s.phi_metric, 1 + s.units, s.answers))
    priors: np.ndarray = of_state(lambda s: (2,))  # of theta, of phi
    least_priors: np.ndarray = beside(lambda s: (2,))  # what they are at least, or 0 where they were given
    heard_mean: np.ndarray = of_state(lambda s: (2, s.units))  # what the rows of theta and of phi hear of the units
    heard: np.ndarray = of_state(lambda s: (2, 2))  # how often, and its variance
    heard_beside: np.ndarray = beside(lambda s: (2,))  # the variance of the inputs that they hear
    lengths: np.ndarray = of_state(lambda s: (2,))  # how many gradients of theta there were, their usual square
    shock: np.ndarray = beside(lambda s: (2,))  # how much longer one may be, or 0; how many are in the mean
    h: np.ndarray = of_state(lambda s: (s.components, s.units))
    h0: np.ndarray = of_state(lambda s: (s.components, s.units))
    alpha: np.ndarray = of_state(lambda s: (s.units,))
    # df/dtheta of the newest step is c (x) u: a part of the State for estimators that keep it
    u: np.ndarray = of_state(lambda s: (s.groups, s.fan))  # the fan-in, as each group of gates hears it
    c: np.ndarray = of_state(lambda s: (s.gates * s.components, s.units))  # d own' / da
    hears: np.ndarray = beside(lambda s: (s.groups, 2))  # whether a group of gates hears the units, and the input
    activity: np.ndarray = beside(lambda s: (1 + s.units,))  # led by a 1
    slope: np.ndarray = beside(lambda s: (s.units,))  # d activity / dh
    y_hat: np.ndarray = beside(lambda s: (s.answers,))
    dl_dy: np.ndarray = beside(lambda s: (s.answers,))
    dl_dh: np.ndarray = beside(lambda s: (s.state,))
    a: np.ndarray = beside(lambda s: (s.rows,))  # the pre-activations
    retention: np.ndarray = beside(lambda s: (s.components**2, s.units))  # d own' / d own
    q: np.ndarray = beside(lambda s: (s.rows,))  # what a cotangent on h' does to the pre-activations
    scratch: np.ndarray = beside(lambda s: (s.threads, SCRATCH_ROWS * BLOCK))  # of a block of rows: `kernels/rows.py`
    errand: np.ndarray = beside(lambda s: (1,))  # a number that all threads need: the pace


def joined(*kinds: type) -> Any:
    """The pieces of several kinds as one, in their order."""
    pieces = {name: shape for kind in kinds for name, shape in cast(Any, kind)._field_defaults.items()}
    return namedtuple("_".join(kind.__name__ for kind in kinds), pieces, defaults=pieces.values())


def indices(pieces: type, after: int = 0) -> Any:
    """The place of each piece in the table of `Layout`, as kernels need it: a constant."""
    return pieces(*range(after, after + len(pieces._fields)))


PIECE: Pieces = indices(Pieces)
COMMON = len(Pieces._fields)


class Layout:
    """Where the pieces lie: those of all loops, and those of one."""

    def __init__(self, sizes: Sizes, own: type, itemsize: int):
        self._kinds = (Pieces, own)
        self.specs: dict[str, Piece] = {**Pieces._field_defaults, **own._field_defaults}
        assert len(self.specs) == COMMON + len(own._fields), "every piece has a name of its own, and a shape"
        self.shapes = [spec.shape(sizes) for spec in self.specs.values()]
        self.table, self.size = _places(dict(zip(self.specs, self.shapes, strict=True)), itemsize)

    def views(self, work: np.ndarray) -> tuple[Pieces, Any]:
        """The pieces of a flat array: those of all loops, and those of one."""
        begins = zip(self.table[:, 0], self.shapes, strict=True)
        views = [work[begin : begin + int(np.prod(shape))].reshape(shape) for begin, shape in begins]
        return Pieces(*views[:COMMON]), self._kinds[1](*views[COMMON:])

    def state_views(self, work: np.ndarray) -> list[np.ndarray]:
        """The pieces that hold the State."""
        views = [view for views in self.views(work) for view in views]
        return [view for view, spec in zip(views, self.specs.values(), strict=True) if spec.in_state and view.size]


def _places(shapes: dict[str, Shape], itemsize: int) -> tuple[np.ndarray, int]:
    """A row for each piece, where it begins and its shape, padded with ones to three axes; and where they all end."""
    rows, begin, page = [], 0, PAGE // itemsize
    for name, shape in shapes.items():
        for group in SPACED:
            if name in group:
                begin += (group.index(name) * page // 4 - begin) % page
        if name == "scratch":
            begin += (BLOCK // 2 - begin) % BLOCK
        rows.append([begin, *shape, *[1] * (3 - len(shape))])
        begin += -(-int(np.prod(shape)) // ALIGNED) * ALIGNED
    return np.array(rows, np.int64), begin


def aligned(count: int, dtype: np.dtype) -> np.ndarray:
    """Zeros that begin where a line of the cache does: vector instructions that straddle two lines take twice as
    long.
    """
    spare = np.zeros(count * dtype.itemsize + LINE, np.uint8)
    begin = -spare.ctypes.data % LINE
    return spare[begin : begin + count * dtype.itemsize].view(dtype)
