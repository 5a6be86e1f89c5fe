"""Pieces of the flat array as arrays inside a kernel, made for nothing: no check, no copy, no count of references."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array
from numba.np.unsafe import ndarray as unsafe

from ....compiled import inlined
from .layout import BLOCK, PIECE, Sizes


class Machine(NamedTuple):
    """What a loop works on: where the pieces lie, the numbers, the counters, (key, key, t, t), and what threads say to
    each other.
    """

    places: Any
    work: Any
    ints: Any
    clock: Any
    crew: Any


class Count(IntEnum):
    """The counters that all loops share; those of an estimator come after them."""

    OBSERVED = 0  # a target moved theta at this h
    THETA_AGE = 1  # gradients since J took one in
    PHI_AGE = 2


COUNTERS = len(Count)
SIZES = len(Sizes._fields)
PLACE = 4  # numbers of a piece in the table: where it begins, and three axes
_to_tuple: Any = unsafe.to_fixed_tuple


@inlined
def opened(machine: Any) -> Any:
    """Sizes by name, and the machine, from the tuple of arrays that Python passes."""
    sizes, places, work, ints, clock, crew = machine
    return Sizes(*_to_tuple(sizes, SIZES)), Machine(places, work, ints, clock, crew)


class _Number:
    """An integer of the code that is being made."""

    def __init__(self, builder: Any, value: Any):
        self.builder, self.value = builder, value

    def __add__(self, other: _Number) -> _Number:
        return _Number(self.builder, self.builder.add(self.value, other.value))

    def __sub__(self, other: _Number) -> _Number:
        return _Number(self.builder, self.builder.sub(self.value, other.value))

    def __mul__(self, other: _Number) -> _Number:
        return _Number(self.builder, self.builder.mul(self.value, other.value))

    def __floordiv__(self, other: _Number) -> _Number:
        return _Number(self.builder, self.builder.sdiv(self.value, other.value))


Where = tuple[_Number, tuple[_Number, ...]]  # where a view begins, and its shape


def _array(context: Any, builder: Any, source: Any, result: Any, where: Where) -> Any:
    """An array that lies within another one."""
    begin, shape = where
    array = context.make_array(result)(context, builder)
    stride = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(result.dtype)))
    itemsize, sizes, strides = stride, [number.value for number in shape], []
    for size in reversed(sizes):
        strides.insert(0, stride)
        stride = builder.mul(stride, size)
    data = builder.gep(source.data, [begin.value])
    populate_array(array, data=data, shape=sizes, strides=strides, itemsize=itemsize, meminfo=None)
    return array._getvalue()


def _of_piece(axes: int) -> Callable[[Callable[..., Where]], Any]:
    """A view of a piece of a machine, `f(m, piece, ...)`, from a formula on its place in the table and further
    integers. Made by hand, since Numba would read and type a function of its own again wherever one is used.
    """

    def decorate(formula: Callable[..., Where]) -> Any:
        def define(typing: Any, m: Any, piece: Any, *others: Any) -> Any:
            result = types.Array(m[m.fields.index("work")].dtype, axes, "C")

            def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                def opened(name: str) -> Any:
                    at = m.fields.index(name)
                    return context.make_array(m[at])(context, builder, builder.extract_value(args[0], at))

                places, width = opened("places"), context.get_constant(types.intp, PLACE)
                first = builder.mul(args[1], width)
                offsets = (context.get_constant(types.intp, k) for k in range(PLACE))
                at = [builder.load(builder.gep(places.data, [builder.add(first, offset)])) for offset in offsets]
                numbers = [_Number(builder, value) for value in (*at, *args[2:])]
                return _array(context, builder, opened("work"), result, formula(numbers[:PLACE], *numbers[PLACE:]))

            return result(m, types.intp, *(types.intp for _ in others)), build

        return _intrinsic(define, formula, ["typing", "m", "piece", *list(inspect.signature(formula).parameters)[1:]])

    return decorate


def _of_array(axes: int) -> Callable[[Callable[..., Where]], Any]:
    """A view of an array, `f(values, ...)`, from a formula on its shape and further integers."""

    def decorate(formula: Callable[..., Where]) -> Any:
        def define(typing: Any, values: Any, number: Any) -> Any:
            result = types.Array(values.dtype, axes, "C")

            def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                source = context.make_array(values)(context, builder, args[0])
                shape = [_Number(builder, size) for size in cgutils.unpack_tuple(builder, source.shape)]
                zero = _Number(builder, context.get_constant(types.intp, 0))
                where = formula(zero, shape, _Number(builder, args[1]))
                return _array(context, builder, source, result, where)

            return result(values, types.intp), build

        return _intrinsic(define, formula, ["typing", "values", "number"])

    return decorate


def _intrinsic(define: Any, formula: Any, names: list[str]) -> Any:
    """An intrinsic under the name of its formula, with so many arguments: Numba asks for their names."""
    parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY) for name in names]
    define.__name__, define.__doc__ = formula.__name__, formula.__doc__
    define.__signature__ = inspect.Signature(parameters)
    return intrinsic(define)


@_of_piece(axes=1)
def vector(place: Any) -> Where:
    """A piece with one axis."""
    begin, size, _, _ = place
    return begin, (size,)


@_of_piece(axes=2)
def matrix(place: Any) -> Where:
    """A piece with two axes."""
    begin, rows, columns, _ = place
    return begin, (rows, columns)


@_of_piece(axes=2)
def slab(place: Any, k: _Number) -> Where:
    """Matrix k of a piece with three axes."""
    begin, _, rows, columns = place
    return begin + k * rows * columns, (rows, columns)


@_of_piece(axes=2)
def band(place: Any, first: _Number, width: _Number) -> Where:
    """A band of a piece with two axes: the rows from `first` on."""
    begin, fan, _, _ = place
    return begin + first * fan, (fan, width)


@_of_piece(axes=3)
def bands(place: Any, first: _Number, width: _Number) -> Where:
    """The same of a piece with three axes: the terms of a band lie together."""
    begin, terms, fan, _ = place
    return begin + first * fan * terms, (terms, fan, width)


@_of_piece(axes=1)
def vector_from(place: Any, first: _Number) -> Where:
    """A piece with one axis, from number `first` on."""
    begin, size, _, _ = place
    return begin + first, (size - first,)


@_of_piece(axes=2)
def matrix_from(place: Any, first: _Number) -> Where:
    """A piece with two axes, each row from number `first` on. (The last row then ends beyond the piece: do not go
    there.)
    """
    begin, rows, columns, _ = place
    return begin + first, (rows, columns)


@_of_piece(axes=2)
def shaped(place: Any, rows: _Number) -> Where:
    """A piece as a matrix of so many rows."""
    begin, *axes = place
    return begin, (rows, axes[0] * axes[1] * axes[2] // rows)


@_of_piece(axes=1)
def flattened(place: Any) -> Where:
    """A piece as one vector."""
    begin, *axes = place
    return begin, (axes[0] * axes[1] * axes[2],)


@_of_array(axes=1)
def row(zero: _Number, shape: Any, i: _Number) -> Where:
    """Row i of a matrix."""
    _, columns = shape
    return i * columns, (columns,)


@_of_array(axes=2)
def as_rows(zero: _Number, shape: Any, rows: _Number) -> Where:
    """A vector as a matrix of so many rows."""
    (size,) = shape
    return zero, (rows, size // rows)


@_of_array(axes=1)
def beginning(zero: _Number, shape: Any, count: _Number) -> Where:
    """The first numbers of a vector."""
    return zero, (count,)


@inlined
def scratch_of(m: Any, place: Any) -> Any:
    """What a thread needs of a block of rows."""
    return row(matrix(m, PIECE.scratch), place)


@inlined
def block_of(s: Any, i: Any) -> Any:
    """Block i of the rows of theta: which group of gates it belongs to, its first row, and how many there are."""
    rows = s.gates * s.units // s.groups
    each = (rows + BLOCK - 1) // BLOCK
    kind, begin = i // each, (i % each) * BLOCK
    return kind, kind * rows + begin, min(BLOCK, rows - begin)


@inlined
def blocks_of(s: Any) -> Any:
    """How many there are."""
    return s.groups * ((s.gates * s.units // s.groups + BLOCK - 1) // BLOCK)
