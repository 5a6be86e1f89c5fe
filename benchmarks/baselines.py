"""Compressors and context tree weighting: bits per character, speed, memory; and the entropy of SynthMusic-1, computed
and by Monte Carlo. `python benchmarks/baselines.py [FOLDER WITH shakespeare.txt AND tinyshakespeare.txt]`
"""

from __future__ import annotations

import itertools
import math
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

import nobacktrack as nbt
from nobacktrack.baselines import CTW, bz2, gzip, xz
from nobacktrack.streams import gutenberg


class Text(NamedTuple):
    """A text as bytes and as symbols, and the depths that are tried on it."""

    name: str
    content: bytes
    symbols: np.ndarray
    size: int
    depths: tuple[int, ...]


def texts(folder: Path | None) -> Iterator[Text]:
    """What is compressed."""
    music = nbt.streams.music(length=100_000, seed=0)
    yield Text("SynthMusic-1, 1e5", _text(music, nbt.streams.MUSIC_ALPHABET), music, 17, (6, 8, 10))
    blocks = nbt.streams.anbn(1, 32, length=1_000_000, seed=0)
    yield Text("a^n b^n[1;32], 1e6", _text(blocks, nbt.streams.ANBN_ALPHABET), blocks, 3, (6, 16, 64))
    if folder is not None:
        small = (folder / "tinyshakespeare.txt").read_bytes()
        works = gutenberg.works(gutenberg.found(folder)).encode()
        yield Text("tinyshakespeare", small, np.frombuffer(small, np.uint8), 256, (6,))
        yield Text("Shakespeare's works", works, np.frombuffer(works, np.uint8), 256, (4, 6))


def _text(symbols: np.ndarray, alphabet: str) -> bytes:
    return "".join(alphabet[symbol] for symbol in symbols).encode()


def entropy_by_phrases(length: int = 4_000_000) -> tuple[float, float]:
    """-log2 of the probability of generated phrases, per character, and its standard error."""
    text = _text(nbt.streams.music(length=length, seed=1), nbt.streams.MUSIC_ALPHABET).decode()
    phrases = text.split("\n")[:-1]
    bits = np.array([phrase_bits(phrase) for phrase in phrases])
    sizes = np.array([len(phrase) + 1 for phrase in phrases])
    rate = bits.sum() / sizes.sum()
    return rate, float(np.std(bits - rate * sizes) / math.sqrt(len(bits)) / sizes.mean())


# The harmony of SynthMusic-1, written out again: the bars after the first, chord by chord, in quarters.
FIRST = {"C": 3, "A": 1}
BARS = (
    {"C": "FGAD", "A": "DDFF"},
    {"F": "GGCD", "G": "AACC", "A": "FFDD", "D": "GGGF"},
    {"G": "CCCA", "C": "GGCC", "D": "GGGG", "A": "GGCC", "F": "CCGG"},
)
TRIADS = {"C": "ceg", "D": "dfa", "F": "fac", "G": "gbd", "A": "ace"}


def phrase_bits(phrase: str) -> float:
    """-log2 of the probability of a phrase, read from its text; no rule is taken from the generator."""
    bars, total, chord, rhythm = phrase.split("|"), 0.0, "", [0]
    assert len(bars) == 4
    for number, bar in enumerate(bars):
        ways = FIRST[bar[0]] if number == 0 else BARS[number - 1][chord].count(bar[0])
        total -= math.log2(ways / 4)
        chord, durations = bar[0], [int(each) for each in bar[2::2]]
        assert sum(durations) == 8
        assert number % 2 == 0 or durations == rhythm
        rhythm = durations
        total += _melody_bits(bar[1::2], durations, chord) + (_rhythm_bits(durations) if number % 2 == 0 else 0)
    return total


def _rhythm_bits(durations: list[int]) -> float:
    total, place = 0.0, 0
    for duration in durations:
        weights = {0: (1, 2, 1), 2: (1, 2)}.get(place % 4, (1,))
        total -= math.log2(weights[(1, 2, 4).index(duration)] / sum(weights))
        place += duration
    return total


def _melody_bits(pitches: str, durations: list[int], chord: str) -> float:
    total, place, before = 0.0, 0, ""
    for pitch, duration in zip(pitches, durations, strict=True):
        if place in (0, 4):
            assert pitch in TRIADS[chord]
            total += math.log2(3)
        else:
            step = ("cdefgab".index(pitch) - "cdefgab".index(before) + 1) % 7
            total -= math.log2((3 / 8, 1 / 4, 3 / 8)[step])
        place, before = place + duration, pitch
    return total


def main(folder: Path | None = None) -> None:
    rate, error = entropy_by_phrases()
    print(f"SynthMusic-1: entropy {nbt.streams.music_entropy():.8f}, by 4e6 characters {rate:.5f} ({error:.5f})")
    for text in texts(folder):
        rates = (f"{compress.__name__} {compress(text.content):.4f}" for compress in (gzip, bz2, xz))
        print(f"{text.name}: {', '.join(rates)} bits per byte")
        for depth, bound in itertools.product(text.depths, (math.inf, 1e4)):
            CTW(text.size, depth).take(text.symbols[:1000])  # compiled
            model, began = CTW(text.size, depth, bound=bound), time.perf_counter()
            bits = model.take(text.symbols)
            speed = len(bits) / (time.perf_counter() - began)
            print(
                f"    CTW, depth {depth}{'' if bound == math.inf else f', beta within {bound:g}'}: {bits.mean():.4f}, "
                f"last tenth {bits[-len(bits) // 10 :].mean():.4f}; {speed:,.0f} characters a second, "
                f"{model.nodes:,} nodes, {model.bytes >> 20} MB"
            )


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
