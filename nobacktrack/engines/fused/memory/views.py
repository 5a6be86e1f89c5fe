"""Pieces of the flat array as arrays inside a kernel, made for nothing: no check, no copy, no count of references."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array
from numba.np.unsafe import ndarray as unsafe

from ....compiled import inlined
from .layout import Sizes


class Machine(NamedTuple):
    """What a loop works on: where the pieces lie, the numbers, the counters, and (key, key, t, t)."""

    places: Any
    work: Any
    ints: Any
    clock: Any


class Count(IntEnum):
    """The counters that all loops share; those of an estimator come after them."""

    OBSERVED = 0  # a target moved theta at this h
    THETA_AGE = 1  # gradients since J took one in
    PHI_AGE = 2


COUNTERS = len(Count)
SIZES = len(Sizes._fields)
_to_tuple: Any = unsafe.to_fixed_tuple


def _build_view(typing: Any, work: Any, begin: Any, shape: Any) -> Any:
    """An array of a shape that begins at number `begin` of another."""
    result = types.Array(work.dtype, len(shape), "C")

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        source = context.make_array(signature.args[0])(context, builder, args[0])
        array = context.make_array(result)(context, builder)
        stride = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(result.dtype)))
        itemsize, sizes, strides = stride, cgutils.unpack_tuple(builder, args[2]), []
        for size in reversed(sizes):
            strides.insert(0, stride)
            stride = builder.mul(stride, size)
        data = builder.gep(source.data, [args[1]])
        populate_array(array, data=data, shape=sizes, strides=strides, itemsize=itemsize, meminfo=None)
        return array._getvalue()

    return result(work, types.intp, types.UniTuple(types.intp, len(shape))), build


_view: Any = intrinsic(_build_view)


@inlined
def opened(machine: Any) -> Any:
    """Sizes by name, and the machine, from the tuple of arrays that Python passes."""
    sizes, places, work, ints, clock = machine
    return Sizes(*_to_tuple(sizes, SIZES)), Machine(places, work, ints, clock)


@inlined
def vector(m: Any, piece: Any) -> Any:
    """A piece with one axis."""
    return _view(m.work, m.places[piece, 0], (m.places[piece, 1],))


@inlined
def matrix(m: Any, piece: Any) -> Any:
    """A piece with two axes."""
    return _view(m.work, m.places[piece, 0], (m.places[piece, 1], m.places[piece, 2]))


@inlined
def slab(m: Any, piece: Any, k: Any) -> Any:
    """Matrix k of a piece with three axes."""
    rows, columns = m.places[piece, 2], m.places[piece, 3]
    return _view(m.work, m.places[piece, 0] + k * rows * columns, (rows, columns))


@inlined
def band(m: Any, piece: Any, first: Any, width: Any) -> Any:
    """A band of a piece with two axes: the rows from `first` on."""
    fan = m.places[piece, 1]
    return _view(m.work, m.places[piece, 0] + first * fan, (fan, width))


@inlined
def bands(m: Any, piece: Any, first: Any, width: Any) -> Any:
    """The same of a piece with three axes: the terms of a band lie together."""
    terms, fan = m.places[piece, 1], m.places[piece, 2]
    return _view(m.work, m.places[piece, 0] + first * fan * terms, (terms, fan, width))


@inlined
def vector_from(m: Any, piece: Any, first: Any) -> Any:
    """A piece with one axis, from number `first` on."""
    return _view(m.work, m.places[piece, 0] + first, (m.places[piece, 1] - first,))


@inlined
def matrix_from(m: Any, piece: Any, first: Any) -> Any:
    """A piece with two axes, each row from number `first` on. (The last row then ends beyond the piece: do not go
    there.)
    """
    return _view(m.work, m.places[piece, 0] + first, (m.places[piece, 1], m.places[piece, 2]))


@inlined
def shaped(m: Any, piece: Any, rows: Any) -> Any:
    """A piece as a matrix of so many rows."""
    size = m.places[piece, 1] * m.places[piece, 2] * m.places[piece, 3]
    return _view(m.work, m.places[piece, 0], (rows, size // rows))


@inlined
def flattened(m: Any, piece: Any) -> Any:
    """A piece as one vector."""
    return _view(m.work, m.places[piece, 0], (m.places[piece, 1] * m.places[piece, 2] * m.places[piece, 3],))


@inlined
def row(values: Any, i: Any) -> Any:
    """Row i of a matrix."""
    return _view(values, i * values.shape[1], (values.shape[1],))


@inlined
def as_rows(values: Any, rows: Any) -> Any:
    """A vector as a matrix of so many rows."""
    return _view(values, 0, (rows, values.size // rows))


@inlined
def beginning(values: Any, count: Any) -> Any:
    """The first numbers of a vector."""
    return _view(values, 0, (count,))
