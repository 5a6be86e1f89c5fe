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


def as_chunk(stream: Any) -> Chunk | None:
    """The stream as one chunk if it is made of arrays, None if it is an iterator, or a list of pairs or of nothing."""
    if isinstance(stream, (Series, Pairs)):
        return stream
    if isinstance(stream, (np.ndarray, jax.Array)):
        return Series(stream)
    if isinstance(stream, tuple) and 2 <= len(stream) <= 4:
        return Pairs(*(np.asarray(part) if isinstance(part, list) else part for part in stream))
    if isinstance(stream, list) and stream and not any(isinstance(item, tuple) or item is RESET for item in stream):
        return Series(np.asarray(stream))
    if isinstance(stream, (str, bytes, dict)) or not isinstance(stream, Iterable):
        raise ValueError(f"stream: expected an array, a pair of arrays or an iterator, not {type(stream).__name__}")
    return None


def size(chunk: Chunk) -> int:
    """How many items a chunk holds."""
    return length(chunk)


def has_target(chunk: Chunk) -> np.ndarray:
    """Which items of a checked chunk have a target."""
    count = size(chunk)
    if isinstance(chunk, Series) or (chunk.y is not None and chunk.seen is None):
        return np.ones(count, bool)
    return np.zeros(count, bool) if chunk.y is None else np.asarray(chunk.seen)


def part(chunk: Chunk, start: int, stop: int) -> Chunk:
    """The items start .. stop - 1."""
    return jax.tree.map(lambda leaf: leaf[start:stop], chunk)


def checked(chunk: Chunk, system: Any) -> Chunk:
    """A chunk as arrays that belong to the system's spaces; BadItem names the argument and the index."""
    if isinstance(chunk, Pairs):
        return _checked_pairs(chunk, system)
    values = system.input_space.check(chunk.values, "stream", many=True)
    system.target_space.check(chunk.values, "stream", many=True)
    return Series(values, _resets(chunk.reset, length(values), system))


def _checked_pairs(chunk: Pairs, system: Any) -> Pairs:
    x = system.input_space.check(chunk.x, "x", many=True)
    count = length((x, chunk.y))
    reset, seen = _resets(chunk.reset, count, system), _flags(chunk.seen, count, "seen")
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


def _resets(flags: Any, count: int, system: Any) -> np.ndarray | None:
    """Where episodes begin: a flag an item, or, of several streams, one for each."""
    streams = getattr(system, "streams", None)
    if streams is None or flags is None or np.ndim(flags) == 1:
        return _flags(flags, count, "reset")
    flags = np.asarray(flags)
    if flags.dtype != bool or flags.shape != (count, streams):
        raise BadItem(f"reset: expected booleans of shape {(count, streams)}, got {flags.shape} and {flags.dtype}")
    return flags


def _flags(flags: Any, count: int, name: str) -> np.ndarray | None:
    if flags is None:
        return None
    flags = np.asarray(flags)
    if flags.dtype != bool or flags.shape != (count,):
        raise BadItem(f"{name}: expected {count} booleans, got shape {flags.shape} and type {flags.dtype}")
    return flags


class Cutter:
    """Cuts a stream of items and chunks into chunks of `count` items (the last one of a kind may be shorter).

    Every item is checked as it comes. A bad one raises BadItem with its index in the stream; what came before it is
    in `rest`.
    """

    def __init__(self, count: int, system: Any):
        self.count, self.system = count, system
        self.place = 0
        self.pieces: list[Chunk] = []
        self.items: list[Any] = []
        self.resets: list[bool] = []
        self.held = 0
        self.begins = False

    def chunks(self, stream: Iterable[Any]) -> Iterator[Chunk]:
        for item in stream:
            if item is RESET:
                self.begins = True
                continue
            yield from self._take(item)
        yield from self.rest()

    def rest(self) -> Iterator[Chunk]:
        """What has been taken and not given yet."""
        self._settle()
        if self.pieces:
            yield _joined(self.pieces)
        self.pieces, self.held = [], 0

    def _take(self, item: Any) -> Iterator[Chunk]:
        chunk, error = self._chunk(item)
        if chunk is None:
            if self.items and isinstance(item, tuple) != isinstance(self.items[-1], tuple):
                yield from self.rest()
            self.items.append(self._single(item))
            self.resets.append(self.begins)
            self.place, self.held, self.begins = self.place + 1, self.held + 1, False
        elif size(chunk):
            chunk = _begun(chunk) if self.begins else chunk
            self._settle()
            if self.pieces and not _same_kind(self.pieces[-1], chunk):
                yield from self.rest()
            self.pieces.append(chunk)
            self.place, self.held, self.begins = self.place + size(chunk), self.held + size(chunk), False
        if self.held >= self.count:
            yield from self._full()
        if error is not None:
            raise error

    def _full(self) -> Iterator[Chunk]:
        self._settle()
        joined = _joined(self.pieces)
        stop = self.held // self.count * self.count
        self.pieces = [part(joined, stop, self.held)] if stop < self.held else []
        self.held -= stop
        yield from (part(joined, i, i + self.count) for i in range(0, stop, self.count))

    def _settle(self) -> None:
        """Single items become a piece."""
        if self.items:
            piece = _stacked(self.items, self.resets, self.place - len(self.items))
            self.items, self.resets = [], []
            if self.pieces and not _same_kind(self.pieces[-1], piece):
                piece = _alike(piece, self.pieces[-1])
            self.pieces.append(piece)

    def _chunk(self, item: Any) -> tuple[Chunk | None, BadItem | None]:
        """The item as a checked chunk (None if it is a single one), cut before a bad item, with its error."""
        if not isinstance(item, (Series, Pairs)):
            rank = getattr(self.system.input_space, "rank", None)
            if rank is None or not isinstance(item, (np.ndarray, jax.Array)) or item.ndim <= rank:
                return None, None
            item = Series(item)
        raw, error = jax.tree.map(np.asarray, item), None
        while True:
            try:
                return checked(raw, self.system), error
            except BadItem as found:
                error = _placed(found, self.place)
                if not found.index:
                    return part(jax.tree.map(np.asarray, raw), 0, 0), error
                raw = part(raw, 0, found.index)

    def _single(self, item: Any) -> Any:
        """A value or a pair, checked."""
        try:
            if not isinstance(item, tuple):
                return self._known(item, "stream", self.system.target_space)
            if len(item) != 2:
                raise BadItem(f"stream: an item is a value or a pair (x, y), not a tuple of {len(item)}")
            x, y = item
            x = self._known(x, "x", self.system.input_space)
            return x, None if y is None else self._known(y, "y", self.system.target_space)
        except BadItem as error:
            raise _placed(error, self.place) from None

    def _known(self, value: Any, name: str, space: Any) -> Any:
        quick = type(value) is int and 0 <= value < getattr(space, "size", 0) and space.rank == 0
        return value if quick else space.check(value, name, many=False)


def _placed(error: BadItem, offset: int) -> BadItem:
    """The error with the index in the stream."""
    index = offset + (error.index or 0)
    name, colon, rest = str(error).partition(":")
    return BadItem(f"{name.split(' at index ')[0]} at index {index}{colon}{rest}", index)


def _alike(piece: Chunk, other: Chunk) -> Chunk:
    """A piece with the flags that another one has, so that both can be joined."""
    if type(piece) is type(other) and piece.reset is None and other.reset is not None:
        piece = piece._replace(reset=np.zeros(size(piece), bool))
    return piece


def _stacked(items: list[Any], resets: list[bool], place: int) -> Chunk:
    """Single values or pairs as one chunk."""
    reset = np.asarray(resets) if any(resets) else None
    if not isinstance(items[0], tuple):
        return Series(_stack(items, "stream", place), reset)
    xs, ys = zip(*items, strict=True)
    seen = np.asarray([y is not None for y in ys])
    x = _stack(xs, "x", place)
    if not seen.any():
        return Pairs(x, None, None, reset)
    stand_in = ys[int(np.argmax(seen))]
    y = _stack([stand_in if y is None else y for y in ys], "y", place)
    return Pairs(x, y, None if seen.all() else seen, reset)


def _stack(values: Any, name: str, place: int) -> Tree:
    if isinstance(values[0], (int, float, np.number)):
        return np.asarray(values)
    shapes = [jax.tree.map(np.shape, value) for value in values]
    for i, shape in enumerate(shapes):
        if shape != shapes[0]:
            raise BadItem(
                f"{name} at index {place + i}: shapes {shape}, but those before it had {shapes[0]}", place + i
            )
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
