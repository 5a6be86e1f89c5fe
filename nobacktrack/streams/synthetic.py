"""Streams made by a rule, with their exact entropy rates [NBT, section 3]."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

import numpy as np

from ..configuration import at_least

ANBN_ALPHABET = "ab\n"


def anbn(k: int, l: int, *, length: int, seed: int) -> np.ndarray:  # noqa: E741 - the paper's letters
    """a^n b^n[k;l]: n uniform in [k, l], then n times `a`, a newline, n times `b`, a newline; symbols 0, 1, 2 are a,
    b, newline.
    """
    _check_range(k, l)
    at_least("length", length, 1)
    random = np.random.default_rng(seed)
    blocks = random.integers(k, l + 1, size=length // (2 * k + 2) + 1)
    runs = np.stack([blocks, np.ones_like(blocks), blocks, np.ones_like(blocks)], axis=1).ravel()
    return np.repeat(np.tile(np.array([0, 2, 1, 2], np.int32), len(blocks)), runs)[:length]


def anbn_entropy(k: int, l: int, *, independent: bool = False) -> float:  # noqa: E741
    """Bits per character of a^n b^n[k;l]: log2(l-k+1) / (l+k+2); twice that for a^n b^p with independent n and p."""
    _check_range(k, l)
    return (2 if independent else 1) * math.log2(l - k + 1) / (l + k + 2)


def anbn_blocks(symbols: Iterable[int]) -> tuple[int, int]:
    """How many blocks of a stream are a^n b^n with the same n, and how many there are: each line that begins with an
    `a`, with the line after it.
    """
    lines = "".join(ANBN_ALPHABET[symbol] for symbol in symbols).split("\n")[:-1]  # the last one is not at its end
    blocks = [(line, after) for line, after in itertools.pairwise(lines) if line.startswith("a")]
    equal = sum(line == "a" * len(line) and after == "b" * len(line) for line, after in blocks)
    return equal, len(blocks)


def brackets(s: int, r: int, m: int, *, length: int, seed: int) -> np.ndarray:
    """Distant brackets(s,r,m): lines `[` s letters `]` r letters `[` the same s letters `]` newline, letters uniform
    among m. Symbols 0 .. m - 1 are the letters, then `[`, `]`, newline.
    """
    _check_brackets(s, r, m)
    at_least("length", length, 1)
    lines = length // (2 * s + r + 5) + 1
    letters = np.random.default_rng(seed).integers(m, size=(lines, s + r))
    first, between = letters[:, :s], letters[:, s:]
    opening, closing, newline = (np.full((lines, 1), m + i) for i in range(3))
    parts = [opening, first, closing, between, opening, first, closing, newline]
    return np.concatenate(parts, axis=1).ravel()[:length].astype(np.int32)


def brackets_entropy(s: int, r: int, m: int) -> float:
    """Bits per character of brackets(s,r,m): (s + r) log2(m) / (2 s + r + 5)."""
    _check_brackets(s, r, m)
    return (s + r) * math.log2(m) / (2 * s + r + 5)


def copy(symbols: int, delay: int, *, length: int, seed: int) -> np.ndarray:
    """The copy task: a random symbol, `delay` blanks, a cue, and the same symbol again. Symbols 0 .. symbols - 1 are
    those to copy, then the blank, then the cue.
    """
    _check_copy(symbols, delay)
    at_least("length", length, 1)
    lines = length // (delay + 3) + 1
    first = np.random.default_rng(seed).integers(symbols, size=(lines, 1))
    blanks, cue = np.full((lines, delay), symbols), np.full((lines, 1), symbols + 1)
    return np.concatenate([first, blanks, cue, first], axis=1).ravel()[:length].astype(np.int32)


def copy_entropy(symbols: int, delay: int) -> float:
    """Bits per character of the copy task: log2(symbols) / (delay + 3)."""
    _check_copy(symbols, delay)
    return math.log2(symbols) / (delay + 3)


def _check_copy(symbols: int, delay: int) -> None:
    at_least("symbols", symbols, 2)
    at_least("delay", delay, 0)


def _check_brackets(s: int, r: int, m: int) -> None:
    at_least("s", s, 1)
    at_least("r", r, 0)
    at_least("m", m, 1)


def _check_range(k: int, l: int) -> None:  # noqa: E741
    at_least("k", k, 1)
    at_least("l", l, k)
