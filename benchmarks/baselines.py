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
from nobacktrack.streams import gutenberg, synthmusic


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


def phrase_bits(phrase: str) -> float:
    """-log2 of the probability of a phrase, read from its text: chords, durations of the odd bars, pitches."""
    total, chord = 0.0, ""
    for number, bar in enumerate(phrase.split("|")):
        total -= math.log2(synthmusic.HARMONY[number][chord][bar[0]])
        chord, place, before = bar[0], 0, ""
        for pitch, duration in zip(bar[1::2], map(int, bar[2::2]), strict=True):
            if number % 2 == 0:
                total -= math.log2(synthmusic._durations(place)[duration])
            total -= math.log2(1 / 3 if place in synthmusic.BEATS else _step(before, pitch))
            place, before = place + duration, pitch
    return total


def _step(before: str, pitch: str) -> float:
    step = (synthmusic.SCALE.index(pitch) - synthmusic.SCALE.index(before) + 1) % 7 - 1
    return synthmusic.STEPS[step]


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
