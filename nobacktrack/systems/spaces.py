"""What an input or a target may be, checked on the host before it reaches compiled code."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import jax
import numpy as np

from ..configuration import at_least, configuration, set_field, static
from ..errors import BadItem


class Space(Protocol):
    """A set of values; `check` returns them as arrays, or raises BadItem that names the argument and the index."""

    def check(self, values: Any, name: str, *, many: bool) -> Any: ...

    def example(self, dtype: Any) -> Any: ...


@configuration
class Symbols:
    """Integers 0 .. size - 1."""

    rank: ClassVar[int] = 0

    size: int = static()

    def __post_init__(self) -> None:
        set_field(self, "size", at_least("symbols", self.size, 2))

    def check(self, values: Any, name: str, *, many: bool) -> np.ndarray:
        array = np.asarray(values)
        if array.dtype.kind not in "iu":
            raise BadItem(f"{name}: symbols must be integers, not {array.dtype}")
        _expect_shape(array, (), name, many)
        bad = (array < 0) | (array >= self.size)
        if bad.any():
            index = int(np.argmax(bad)) if many else None
            value = array[index] if many else array
            raise BadItem(f"{name}{_place(index)}: symbol {value} is outside the alphabet 0..{self.size - 1}", index)
        return array.astype(np.int32)

    def example(self, dtype: Any) -> np.ndarray:
        return np.zeros((), np.int32)


@configuration
class Vectors:
    """Finite vectors of a given size; with `gaps`, a NaN stands for a number that is missing."""

    rank: ClassVar[int] = 1

    size: int = static()
    gaps: bool = static(default=False)

    def __post_init__(self) -> None:
        set_field(self, "size", at_least("inputs and outputs", self.size, 1))

    def check(self, values: Any, name: str, *, many: bool) -> np.ndarray:
        array = np.asarray(values)
        if array.dtype.kind not in "iuf":
            raise BadItem(f"{name}: vectors must be real numbers, not {array.dtype}")
        _expect_shape(array, (self.size,), name, many)
        _expect_finite(np.where(np.isnan(array), 0, array) if self.gaps else array, name, many)
        return array.astype(float) if array.dtype.kind in "iu" else array

    def example(self, dtype: Any) -> np.ndarray:
        return np.zeros(self.size, dtype)


@configuration
class Anything:
    """Any pytree of arrays; its floating-point numbers must be finite."""

    def check(self, values: Any, name: str, *, many: bool) -> Any:
        arrays = jax.tree.map(np.asarray, values)
        leaves = jax.tree_util.tree_leaves_with_path(arrays)
        for path, leaf in leaves:
            where = name + jax.tree_util.keystr(path)
            if leaf.dtype.kind not in "iufb":
                raise BadItem(f"{where}: numbers are needed, not {leaf.dtype}")
            if many and (leaf.ndim == 0 or len(leaf) != len(leaves[0][1])):
                raise BadItem(
                    f"{where}: a stream needs a leading time axis, the same for all its arrays; shape {leaf.shape}"
                )
            _expect_finite(leaf, where, many)
        return arrays

    def example(self, dtype: Any) -> Any:
        raise ValueError("x not given: an example input is needed for its shape, init(key, theta=, phi=, h=, x=)")


def length(values: Any) -> int:
    """How many items a checked tree of arrays with a leading time axis holds."""
    leaves = jax.tree.leaves(values)
    if not leaves:
        raise BadItem("stream: neither inputs nor targets")
    return len(leaves[0])


def _place(index: int | None) -> str:
    return "" if index is None else f" at index {index}"


def _expect_shape(array: np.ndarray, shape: tuple[int, ...], name: str, many: bool) -> None:
    found = array.shape[1:] if many and array.ndim else array.shape
    if found != shape or (many and array.ndim == 0):
        wanted = ("time", *shape) if many else shape
        raise BadItem(f"{name}: expected shape {wanted}, got {array.shape}".replace("'", ""))


def _expect_finite(array: np.ndarray, name: str, many: bool) -> None:
    if array.dtype.kind != "f":
        return
    bad = ~np.isfinite(array)
    if bad.any():
        index = int(np.argmax(bad.reshape(len(array), -1).any(axis=1))) if many else None
        raise BadItem(f"{name}{_place(index)}: {array[bad][0]} in the stream", index)
