"""Text as symbols."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ..configuration import at_least

CHUNK = 4096


def characters(path: str | Path) -> tuple[np.ndarray, str]:
    """A UTF-8 text file as symbols, and its alphabet: symbol i is the character alphabet[i], in code point order."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}: not UTF-8 text (byte {error.start}); `--alphabet bytes`, or `nbt.streams.octets`, reads any file"
        ) from None
    return symbols_of(text, path)


def octets(path: str | Path) -> tuple[np.ndarray, bytes]:
    """Any file as symbols, one a byte, and its alphabet: symbol i is the byte alphabet[i], in order."""
    alphabet, symbols = _numbered(np.frombuffer(Path(path).read_bytes(), np.uint8), path, "bytes")
    return symbols, alphabet.tobytes()


def symbols_of(text: str, name: object = "text") -> tuple[np.ndarray, str]:
    """A text as symbols, and its alphabet."""
    points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    alphabet, symbols = _numbered(points, name, "characters")
    return symbols, "".join(map(chr, alphabet))


def cycle(symbols: np.ndarray, length: int) -> np.ndarray:
    """So many symbols of a stream that goes through the same file again and again."""
    return np.resize(_some(symbols), (at_least("length", length, 1), *np.shape(symbols)[1:]))


def endless(symbols: np.ndarray) -> Iterator[np.ndarray]:
    """The same without end, in chunks."""
    symbols = _some(symbols)
    begins = itertools.cycle(range(0, len(symbols), CHUNK))
    return (symbols[begin : begin + CHUNK] for begin in begins)


def _some(symbols: np.ndarray) -> np.ndarray:
    if not len(symbols):
        raise ValueError("symbols: there are none to go through")
    return np.asarray(symbols)


def _numbered(units: np.ndarray, name: object, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """The distinct units in order, and each unit as its place among them."""
    alphabet, symbols = np.unique(units, return_inverse=True)
    if len(alphabet) < 2:
        raise ValueError(f"{name}: {len(units)} {kind}, {len(alphabet)} distinct; at least two symbols are needed")
    return alphabet, symbols.astype(np.int32)
