"""Networks, estimators, updates and streams by name, for all commands: `nobacktrack:10`, `diagonal:1:4+gramian`,
`adam:0.01`, `anbn:1-32`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ESTIMATORS = (
    "nobacktrack[:rank], split[:blocks], diagonal[:rank[:lag]], uoro, kfrtrl, kronecker[:rank], snap1, rflo, "
    "immediate, rtrl, bptt[:depth], sliding[:depth], artbp[:depth]; the first three with +gramian, +foresight or "
    "+euclidean norms"
)
UPDATES = (
    "kalman[:decay[:prior]], sgd[:rate] (decay and rate over sqrt t), adam[:rate]; for streams that change, "
    "kalman-steady[:decay[:prior]], sgd-steady[:rate] (as they are)"
)
STREAMS = "a text file, anbn[:k-l], brackets[:s-r-m], copy[:symbols-delay], music"


class Cell(StrEnum):
    """Recurrent networks by name."""

    rnn = "rnn"
    leaky = "leaky"
    learned_leaky = "learned-leaky"
    gru = "gru"
    lstm = "lstm"
    lru = "lru"


def cell_of(name: Cell, units: int, symbols: int | None = None, **ends: int) -> Any:
    """A network by name; `ends` are its inputs and outputs, where these are vectors."""
    import nobacktrack as nbt

    return {
        Cell.rnn: nbt.RNN,
        Cell.leaky: nbt.LeakyRNN,
        Cell.learned_leaky: nbt.LearnedLeakyRNN,
        Cell.gru: nbt.GRU,
        Cell.lstm: nbt.LSTM,
        Cell.lru: nbt.LRU,
    }[name](units=units, symbols=symbols, **ends)


def estimator_of(text: str) -> Any:
    """`name[:number[:number]][+norms]`."""
    import nobacktrack as nbt

    kinds: dict[str, tuple[Any, tuple[str, ...]]] = {
        "nobacktrack": (nbt.NoBackTrack, ("rank",)),
        "split": (nbt.SplitNoBackTrack, ("blocks",)),
        "diagonal": (nbt.DiagonalPlusRankOne, ("rank", "lag")),
        "uoro": (nbt.UORO, ()),
        "kfrtrl": (nbt.KFRTRL, ()),
        "kronecker": (nbt.KroneckerSum, ("rank",)),
        "snap1": (nbt.SnAp1, ()),
        "rflo": (nbt.RFLO, ()),
        "immediate": (nbt.Immediate, ()),
        "rtrl": (nbt.RTRL, ()),
        "bptt": (nbt.TruncatedBPTT, ("depth",)),
        "sliding": (nbt.SlidingBPTT, ("depth",)),
        "artbp": (nbt.ARTBP, ("depth",)),
    }
    norms = {"gramian": nbt.GramianNorms, "foresight": nbt.ForesightNorms, "euclidean": nbt.EuclideanNorms}
    spec, _, rule = text.partition("+")
    name, *numbers = spec.split(":")
    if name not in kinds:
        raise ValueError(f"estimator: {text!r} is none of {ESTIMATORS}")
    kind, fields = kinds[name]
    if len(numbers) > len(fields) or not all(number.isdecimal() for number in numbers):
        raise ValueError(f"estimator: {text!r}; {name} takes {' and '.join(fields) or 'no number'}, whole numbers")
    if rule and (rule not in norms or name not in ("nobacktrack", "split", "diagonal")):
        raise ValueError(f"estimator: {text!r}; norms are {', '.join(norms)}, of nobacktrack, split and diagonal")
    given = dict(zip(fields, map(int, numbers), strict=False))
    return kind(**given, norms=norms[rule]()) if rule else kind(**given)


def update_of(text: str) -> Any:
    """`name[:number[:number]]`."""
    import optax

    import nobacktrack as nbt

    name, *given = text.split(":")
    try:
        numbers = [float(number) for number in given]
    except ValueError:
        raise ValueError(f"update: {text!r}; {':'.join(given)!r} is not a number") from None
    if not all(0 <= number < math.inf for number in numbers):
        raise ValueError(f"update: {text!r}; its numbers must be finite and >= 0")
    kind, _, steady = name.partition("-")
    if kind not in ("kalman", "sgd", "adam") or len(numbers) > (2 if kind == "kalman" else 1):
        raise ValueError(f"update: {text!r} is none of {UPDATES}")
    if steady and (steady != "steady" or kind == "adam"):
        raise ValueError(f"update: {text!r} is none of {UPDATES}")
    if kind == "adam":
        return nbt.Optax(optax.adam(numbers[0] if numbers else 1e-3))
    first = numbers[0] if numbers else {"kalman": 1e-4, "sgd": 0.01}[kind] if steady else 0.1
    pace = first if steady else nbt.inverse_sqrt(first)
    return nbt.SGD(pace) if kind == "sgd" else nbt.Kalman(decay=pace, prior=numbers[1] if len(numbers) > 1 else None)


class Source(NamedTuple):
    """A stream by name: `make(seed, length)` its symbols, and its entropy rate where that is known."""

    symbols: int
    make: Callable[[int, int], np.ndarray]
    entropy: float | None
    length: int | None  # of a file


def stream_of(text: str) -> Source:
    """A stream made by a rule, or the text of a file."""
    from . import streams

    name, _, rest = text.partition(":")
    made = {
        "anbn": (2, (1, 32), streams.anbn, streams.anbn_entropy, lambda k, l: 3),  # noqa: E741
        "brackets": (3, (1, 5, 10), streams.brackets, streams.brackets_entropy, lambda s, r, m: m + 3),
        "copy": (2, (8, 40), streams.copy, streams.copy_entropy, lambda symbols, delay: symbols + 2),
    }
    if name in made and not Path(text).exists():
        count, default, make, entropy, symbols = made[name]
        given = tuple(map(int, re.findall(r"\d+", rest))) if rest else default
        if len(given) != count:
            raise ValueError(f"stream: {text!r}; {name} takes {count} numbers, as {name}:{'-'.join(map(str, default))}")
        source = lambda seed, length: make(*given, length=length, seed=seed)  # noqa: E731
        return Source(symbols(*given), source, entropy(*given), None)
    if text == "music" and not Path(text).exists():
        music = lambda seed, length: streams.music(length=length, seed=seed)  # noqa: E731
        return Source(len(streams.MUSIC_ALPHABET), music, streams.music_entropy(), None)
    symbols, alphabet = streams.characters(Path(text))
    return Source(len(alphabet), lambda seed, length: symbols[:length], None, len(symbols))
