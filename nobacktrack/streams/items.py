"""What a stream is made of, and how any stream is cut into chunks of arrays.

A stream is an array (each value is the target, then the next input), a pair of arrays (inputs, and a target after
each), or an iterator of single values, pairs, or chunks of either; `None` is a missing target, and `RESET` in an
iterator begins an episode.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from ..errors import BadItem
from ..systems.spaces import length

Tree = Any


class Series(NamedTuple):
    """Values that are the target, and then the next input. `reset[i]`: an episode begins at value i."""

    values: Tree
    reset: Any = None


class Pairs(NamedTuple):
    """Inputs and the target that comes after each. `seen[i]`: there is a target at i; `reset[i]`: an episode begins
    at input i.
    """

    x: Tree
    y: Tree = None
    seen: Any = None
    reset: Any = None


Chunk = Series | Pairs


class _Reset:
    def __repr__(self) -> str:
        return "RESET"


RESET = _Reset()


def whole(stream: Any) -> Chunk | None:
    """The stream as one chunk if it is made of arrays, None if it is an iterator."""
    if isinstance(stream, (Series, Pairs)):
        return stream
    if isinstance(stream, (np.ndarray, jax.Array)):
        return Series(stream)
    if isinstance(stream, tuple) and len(stream) == 2:
        return Pairs(*stream)
    if isinstance(stream, list):
        return Series(np.asarray(stream))
    if isinstance(stream, (str, bytes)) or not isinstance(stream, Iterable):
        raise ValueError(f"stream: expected an array, a pair of arrays or an iterator, not {type(stream).__name__}")
    return None


def size(chunk: Chunk) -> int:
    """How many items a chunk holds."""
    return length(chunk.values if isinstance(chunk, Series) else chunk.x)


def part(chunk: Chunk, start: int, stop: int) -> Chunk:
    """The items start .. stop - 1."""
    return jax.tree.map(lambda leaf: leaf[start:stop], chunk)


def checked(chunk: Chunk, system: Any, offset: int = 0) -> Chunk:
    """A chunk as arrays that belong to the system's spaces; BadItem names the argument and the index in the stream."""
    try:
        if isinstance(chunk, Series):
            values = system.input_space.check(chunk.values, "stream", many=True)
            system.target_space.check(chunk.values, "stream", many=True)
            return Series(values, _flags(chunk.reset, length(values), "reset"))
        return _checked_pairs(chunk, system)
    except BadItem as error:
        if error.index is None or offset == 0:
            raise
        message = str(error).replace(f"at index {error.index}", f"at index {error.index + offset}")
        raise BadItem(message, error.index + offset) from None


def _checked_pairs(chunk: Pairs, system: Any) -> Pairs:
    x = system.input_space.check(chunk.x, "x", many=True)
    count = length(x)
    reset, seen = _flags(chunk.reset, count, "reset"), _flags(chunk.seen, count, "seen")
    if chunk.y is None or (seen is not None and not seen.any()):
        return Pairs(x, None, None, reset)
    present = chunk.y if seen is None else jax.tree.map(lambda leaf: _filled(np.asarray(leaf), seen), chunk.y)
    y = system.target_space.check(present, "y", many=True)
    if length(y) != count:
        raise BadItem(f"y: {length(y)} targets for {count} inputs")
    return Pairs(x, y, seen, reset)


def _filled(values: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """The targets, with one that was seen in the place of those that were not (whatever stands there)."""
    if len(values) != len(seen):
        raise BadItem(f"y: {len(values)} targets, but `seen` has {len(seen)}")
    return np.where(seen.reshape(-1, *(1,) * (values.ndim - 1)), values, values[np.argmax(seen)][None])


def _flags(flags: Any, count: int, name: str) -> np.ndarray | None:
    if flags is None:
        return None
    flags = np.asarray(flags)
    if flags.dtype != bool or flags.shape != (count,):
        raise BadItem(f"{name}: expected {count} booleans, got shape {flags.shape} and type {flags.dtype}")
    return flags


def cut(stream: Iterable[Any], count: int, system: Any) -> Iterator[Chunk]:
    """An iterator of items or chunks as chunks of `count` items (the last one of a kind may be shorter)."""
    pieces: list[Chunk] = []
    for piece in _pieces(stream, count, system):
        if pieces and not _same_kind(pieces[-1], piece):
            yield _joined(pieces)
            pieces = []
        pieces.append(piece)
        if sum(map(size, pieces)) >= count:
            joined = _joined(pieces)
            stop = size(joined) // count * count
            yield from (part(joined, i, i + count) for i in range(0, stop, count))
            pieces = [part(joined, stop, size(joined))] if stop < size(joined) else []
    if pieces:
        yield _joined(pieces)


def _pieces(stream: Iterable[Any], count: int, system: Any) -> Iterator[Chunk]:
    """Chunks as they come, single items gathered up to `count`."""
    singles: list[Any] = []
    resets: list[bool] = []
    pending = False
    for item in stream:
        if item is RESET:
            pending = True
            continue
        chunk = _as_chunk(item, system)
        kind_changes = singles and isinstance(item, tuple) != isinstance(singles[-1], tuple)
        if singles and (chunk is not None or kind_changes):
            yield _stacked(singles, resets)
            singles, resets = [], []
        if chunk is None:
            singles.append(item)
            resets.append(pending)
        else:
            yield _begun(chunk) if pending else chunk
        pending = False
        if len(singles) == count:
            yield _stacked(singles, resets)
            singles, resets = [], []
    if singles:
        yield _stacked(singles, resets)


def _as_chunk(item: Any, system: Any) -> Chunk | None:
    """The item of an iterator as a chunk, or None if it is a single value or pair."""
    if isinstance(item, (Series, Pairs)):
        return item
    rank = getattr(system.input_space, "rank", None)
    if rank is not None and isinstance(item, (np.ndarray, jax.Array)) and item.ndim > rank:
        return Series(item)
    return None


def _stacked(items: list[Any], resets: list[bool]) -> Chunk:
    """Single values or pairs as one chunk."""
    reset = np.asarray(resets) if any(resets) else None
    if not isinstance(items[0], tuple):
        return Series(_stack(items), reset)
    xs, ys = zip(*items, strict=True)
    seen = np.asarray([y is not None for y in ys])
    if not seen.any():
        return Pairs(_stack(xs), None, None, reset)
    stand_in = ys[int(np.argmax(seen))]
    y = _stack([stand_in if y is None else y for y in ys])
    return Pairs(_stack(xs), y, None if seen.all() else seen, reset)


def _stack(values: Any) -> Tree:
    if isinstance(values[0], (int, float, np.number)):
        return np.asarray(values)
    return jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *values)


def _begun(chunk: Chunk) -> Chunk:
    """The chunk with an episode that begins at its first item."""
    reset = np.zeros(size(chunk), bool) if chunk.reset is None else np.array(chunk.reset)
    reset[0] = True
    return chunk._replace(reset=reset)


def _same_kind(one: Chunk, other: Chunk) -> bool:
    return type(one) is type(other) and jax.tree.structure(one) == jax.tree.structure(other)


def _joined(pieces: list[Chunk]) -> Chunk:
    return pieces[0] if len(pieces) == 1 else jax.tree.map(lambda *leaves: np.concatenate(leaves), *pieces)
