"""SynthMusic-1: phrases of music notation with harmony, rhythm and melody, and its exact entropy rate.

A phrase is four bars, `|` between them and a newline at the end. A bar is a chord letter and notes, each a pitch and
a duration; durations add up to 8. The second and the fourth bar repeat the rhythm of the bar before.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import TypeVar

import numpy as np

from ..configuration import at_least

MUSIC_ALPHABET = "CDFGAcdefgab124|\n"
BAR = 8
BEATS = (0, 4)  # where a note is of the chord
SCALE = "cdefgab"
TRIADS = {"C": "ceg", "D": "dfa", "F": "fac", "G": "gbd", "A": "ace"}
STEPS = {-1: 3 / 8, 0: 1 / 4, 1: 3 / 8}
DURATIONS = {1: 1, 2: 2, 4: 1}  # their weights, where they may begin

# The chord of a bar, given the one before ("" before the first).
HARMONY: tuple[Mapping[str, Mapping[str, float]], ...] = (
    {"": {"C": 3 / 4, "A": 1 / 4}},
    {"C": {"F": 1 / 4, "G": 1 / 4, "A": 1 / 4, "D": 1 / 4}, "A": {"D": 1 / 2, "F": 1 / 2}},
    {
        "F": {"G": 1 / 2, "C": 1 / 4, "D": 1 / 4},
        "G": {"A": 1 / 2, "C": 1 / 2},
        "A": {"F": 1 / 2, "D": 1 / 2},
        "D": {"G": 3 / 4, "F": 1 / 4},
    },
    {
        "G": {"C": 3 / 4, "A": 1 / 4},
        "C": {"G": 1 / 2, "C": 1 / 2},
        "D": {"G": 1.0},
        "A": {"G": 1 / 2, "C": 1 / 2},
        "F": {"C": 1 / 2, "G": 1 / 2},
    },
)

T = TypeVar("T")


def music(*, length: int, seed: int) -> np.ndarray:
    """SynthMusic-1: independent phrases; symbol i is the character MUSIC_ALPHABET[i]."""
    at_least("length", length, 1)
    uniforms = _uniforms(np.random.default_rng(seed))
    text, size = [], 0
    while size < length:
        text.append(_phrase(uniforms))
        size += len(text[-1])
    codes = np.zeros(128, np.int32)
    codes[[ord(letter) for letter in MUSIC_ALPHABET]] = np.arange(len(MUSIC_ALPHABET))
    return codes[np.frombuffer("".join(text).encode("ascii"), np.uint8)][:length]


def music_entropy() -> float:
    """Bits per character of SynthMusic-1: the entropy of a phrase over its mean length.

    A phrase shows all that was drawn to make it, so that its entropy is the sum over its draws.
    """
    reached, rhythm = np.zeros(2 * BAR), 0.0
    reached[0] = 1
    for place in range(BAR):
        rhythm += reached[place] * _entropy(_durations(place))
        for duration, p in _durations(place).items():
            reached[place + duration] += reached[place] * p
    begins = reached[:BAR]  # how likely a note begins at each place of a bar
    melody = sum(p * (math.log2(3) if place in BEATS else _entropy(STEPS)) for place, p in enumerate(begins))
    phrase = _harmony_entropy() + 2 * rhythm + 4 * melody
    return phrase / (4 * (1 + 2 * begins.sum()) + 4)


def _harmony_entropy() -> float:
    """Bits of the four chords of a phrase."""
    chords, bits = {"": 1.0}, 0.0
    for bar in HARMONY:
        bits += sum(p * _entropy(bar[chord]) for chord, p in chords.items())
        following: dict[str, float] = {}
        for chord, p in chords.items():
            for successor, q in bar[chord].items():
                following[successor] = following.get(successor, 0.0) + p * q
        chords = following
    return bits


def _entropy(weights: Mapping[T, float]) -> float:
    return -sum(p * math.log2(p) for p in weights.values())


def _durations(place: int) -> dict[int, float]:
    """How long a note that begins at a place of the bar may be."""
    weights = {duration: weight for duration, weight in DURATIONS.items() if place % duration == 0}
    return {duration: weight / sum(weights.values()) for duration, weight in weights.items()}


def _phrase(uniforms: Iterator[float]) -> str:
    bars, chord, rhythm = [], "", []
    for number, bar in enumerate(HARMONY):
        chord = _drawn(bar[chord], uniforms)
        rhythm = rhythm if number % 2 else _rhythm(uniforms)
        bars.append(chord + "".join(_notes(chord, rhythm, uniforms)))
    return "|".join(bars) + "\n"


def _rhythm(uniforms: Iterator[float]) -> list[int]:
    durations, place = [], 0
    while place < BAR:
        durations.append(_drawn(_WAYS[place], uniforms))
        place += durations[-1]
    return durations


def _notes(chord: str, rhythm: list[int], uniforms: Iterator[float]) -> Iterator[str]:
    place, pitch = 0, 0
    for duration in rhythm:
        if place in BEATS:
            pitch = SCALE.index(TRIADS[chord][int(3 * next(uniforms))])
        else:
            pitch = (pitch + _drawn(STEPS, uniforms)) % len(SCALE)
        yield f"{SCALE[pitch]}{duration}"
        place += duration


def _drawn(weights: Mapping[T, float], uniforms: Iterator[float]) -> T:
    """A value by its probability; the last one takes what rounding leaves."""
    u, chosen = next(uniforms), None
    for chosen, p in weights.items():  # noqa: B007 - the last one stays
        u -= p
        if u < 0:
            break
    return chosen  # pyright: ignore[reportReturnType]


def _uniforms(random: np.random.Generator) -> Iterator[float]:
    """Uniform numbers in [0, 1), drawn some at a time."""
    return itertools.chain.from_iterable(random.random(4096).tolist() for _ in itertools.count())


_WAYS = [_durations(place) for place in range(BAR)]
