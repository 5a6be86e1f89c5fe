"""What is run: the three streams, and the methods of the six figures [NBT, section 3].

The paper's settings, which are: 20 units; rates c / sqrt t; Kalman with quasi-diagonal outer products and the decay
1 / sqrt t (the "learning rate 1" of its third figure is read so). What stands beside them, with settings of our own, is
marked.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import nobacktrack as nbt
from nobacktrack import streams

UNITS, DEPTH, RANGE = 20, 15, (1, 32)
RANKS = (1, 2, 10)
MUSIC_FILE = 100_000  # characters, gone through again and again
OUR_DECAY = 0.1


class FigureStream(NamedTuple):
    """A stream: `read(length, data)` gives its first characters and their alphabet; `once`, where the file ends."""

    name: str
    title: str
    symbols: int
    read: Callable[[int, Path | None], tuple[np.ndarray, str]]
    entropies: dict[str, float]
    contexts: tuple[int, ...]  # depths of context tree weighting
    once: int | None = None


class Method(NamedTuple):
    """A learner under a name; not `ours`: it is in the paper's figure."""

    name: str
    learner: nbt.Learner
    ours: bool = False


class Figure(NamedTuple):
    """A figure of the paper."""

    name: str
    title: str
    source: FigureStream
    methods: tuple[Method, ...]


def _music(length: int, _: Path | None) -> tuple[np.ndarray, str]:
    return streams.cycle(streams.music(length=MUSIC_FILE, seed=0), length), streams.MUSIC_ALPHABET


def _anbn(length: int, _: Path | None) -> tuple[np.ndarray, str]:
    return streams.anbn(*RANGE, length=length, seed=0), streams.ANBN_ALPHABET


_works = functools.cache(streams.shakespeare)


def _shakespeare(length: int, data: Path | None) -> tuple[np.ndarray, str]:
    symbols, alphabet = _works(data)
    return streams.cycle(symbols, length), alphabet


MUSIC = FigureStream(
    "music", "SynthMusic-1", 17, _music, {"entropy": streams.music_entropy()}, contexts=(8,), once=MUSIC_FILE
)
ANBN = FigureStream(
    "anbn",
    "a^n b^n, n in [1; 32]",
    3,
    _anbn,
    {
        "entropy": streams.anbn_entropy(*RANGE),
        "entropy of a^n b^p": streams.anbn_entropy(*RANGE, independent=True),
    },
    contexts=(6, 64),
)
SHAKESPEARE = FigureStream("shakespeare", "Shakespeare's works", 93, _shakespeare, {}, contexts=(6,), once=5_662_716)
SOURCES = {source.name: source for source in (MUSIC, ANBN, SHAKESPEARE)}


def _system(source: FigureStream, leaky: bool) -> Any:
    return (nbt.LeakyRNN if leaky else nbt.RNN)(units=UNITS, symbols=source.symbols)


def _euclidean(
    system: Any, rate: float, ranks: tuple[int, ...] = RANKS, suffix: str = "", *, ours: bool = False
) -> tuple[Method, ...]:
    update = nbt.SGD(nbt.inverse_sqrt(rate))
    estimators = {f"NoBackTrack, rank {k}": nbt.NoBackTrack(rank=k) for k in ranks} | {"RTRL": nbt.RTRL()}
    return tuple(
        Method(name + suffix, nbt.Learner(system, estimator, update), ours) for name, estimator in estimators.items()
    )


def _held(system: Any, rate: float) -> Method:
    """phi alone is trained: what the curves owe to theta."""
    update = nbt.Apart(theta=nbt.SGD(0.0), phi=nbt.SGD(nbt.inverse_sqrt(rate)))
    return Method("theta held", nbt.Learner(system, nbt.NoBackTrack(), update), ours=True)


def _kalman(system: Any, name: str, estimator: Any, decay: float = 1.0, *, ours: bool = False) -> Method:
    suffix = "" if decay == 1 else f", {decay:g}/√t"
    update = nbt.Kalman(decay=nbt.inverse_sqrt(decay), prior=float(system.units))  # the paper's, for all of them
    learner = nbt.Learner(system, estimator, update)
    return Method(f"{name}, Kalman{suffix}", learner, ours)


def _ranks(system: Any, ranks: tuple[int, ...] = RANKS, **settings: Any) -> tuple[Method, ...]:
    return tuple(_kalman(system, f"NoBackTrack, rank {k}", nbt.NoBackTrack(rank=k), **settings) for k in ranks)


def _bptt(system: Any) -> Method:
    learner = nbt.Learner(system, nbt.TruncatedBPTT(depth=DEPTH), nbt.SGD(nbt.inverse_sqrt(1.0)))
    return Method(f"BPTT({DEPTH})", learner)


_OURS: dict[str, Any] = {"decay": OUR_DECAY, "ours": True}


def _on_music() -> tuple[Figure, ...]:
    system = _system(MUSIC, leaky=False)
    exact = _kalman(system, "RTRL", nbt.RTRL())
    return (
        Figure(
            "fig1",
            "Euclidean NoBackTrack, rate 1/√t",
            MUSIC,
            (*_euclidean(system, 1.0), *_euclidean(system, 3.0, (1, 10), ", 3/√t", ours=True)),
        ),
        Figure("fig2", "Euclidean NoBackTrack, rate 0.03/√t", MUSIC, (*_euclidean(system, 0.03), _held(system, 0.03))),
        Figure("fig3", "Kalman NoBackTrack", MUSIC, (*_ranks(system), exact, *_ranks(system, (1, 10), **_OURS))),
        Figure(
            "fig4",
            "Kalman NoBackTrack and truncated BPTT",
            MUSIC,
            (*_ranks(system), *_euclidean(system, 1.0, ()), _bptt(system), *_ranks(system, (1, 10), **_OURS)),
        ),
    )


def _on_anbn() -> Figure:
    leaky, plain = _system(ANBN, leaky=True), _system(ANBN, leaky=False)
    unscaled = nbt.NoBackTrack(norms=nbt.Unscaled())
    methods = (
        *_ranks(leaky),
        *_euclidean(leaky, 1.0, ()),
        _bptt(leaky),
        _kalman(leaky, "RTRL", nbt.RTRL(), ours=True),
        *_ranks(leaky, (1, 10), **_OURS),
        _kalman(leaky, "RTRL", nbt.RTRL(), **_OURS),
        _kalman(leaky, "not rescaled, rank 1", unscaled, **_OURS),
        _kalman(plain, "not leaky, RTRL", nbt.RTRL(), **_OURS),
    )
    return Figure("fig5", "Kalman NoBackTrack and truncated BPTT, leaky RNN", ANBN, methods)


def _on_text() -> Figure:
    system = _system(SHAKESPEARE, leaky=False)
    methods = (*_ranks(system), *_euclidean(system, 1.0, ()), _bptt(system), *_ranks(system, (1,), **_OURS))
    return Figure("fig6", "Kalman NoBackTrack and truncated BPTT", SHAKESPEARE, methods)


FIGURES = {figure.name: figure for figure in (*_on_music(), _on_anbn(), _on_text())}


def learners_on(source: FigureStream) -> list[nbt.Learner]:
    """The learners of all figures on a stream, each once."""
    found = {
        repr(m.learner): m.learner for figure in FIGURES.values() if figure.source is source for m in figure.methods
    }
    return list(found.values())
