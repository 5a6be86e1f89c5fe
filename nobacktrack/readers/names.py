"""Networks, estimators, updates and streams by name: `nobacktrack:10`, `diagonal:1:4+gramian`, `adam:0.01`,
`anbn:1-32`. Commands, their help, readers and models for other libraries take them from the tables here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


class Cell(StrEnum):
    """Recurrent networks by name."""

    rnn = "rnn"
    leaky = "leaky"
    learned_leaky = "learned-leaky"
    gru = "gru"
    lstm = "lstm"
    lru = "lru"


# Classes stand here by name, so that no command pays for jax to print its help.
_CELL_CLASSES = {
    Cell.rnn: "RNN",
    Cell.leaky: "LeakyRNN",
    Cell.learned_leaky: "LearnedLeakyRNN",
    Cell.gru: "GRU",
    Cell.lstm: "LSTM",
    Cell.lru: "LRU",
}


class Kind(NamedTuple):
    """An estimator: its class, the whole numbers that may follow its name, and whether norms and a belief may."""

    cls: str
    numbers: tuple[str, ...] = ()
    norms: bool = False
    belief: bool = False

    def usage(self, name: str) -> str:
        """`name[:number[:number]]`."""
        return name + "".join(f"[:{number}" for number in self.numbers) + "]" * len(self.numbers)


KINDS = {
    "block": Kind("BlockNoBackTrack", ("depth", "every", "rank"), belief=True),
    "nobacktrack": Kind("NoBackTrack", ("rank",), norms=True, belief=True),
    "split": Kind("SplitNoBackTrack", ("blocks",), norms=True),
    "diagonal": Kind("DiagonalPlusRankOne", ("rank", "lag"), norms=True, belief=True),
    "uoro": Kind("UORO"),
    "kfrtrl": Kind("KFRTRL"),
    "kronecker": Kind("KroneckerSum", ("rank",)),
    "snap1": Kind("SnAp1"),
    "rflo": Kind("RFLO"),
    "immediate": Kind("Immediate"),
    "rtrl": Kind("RTRL"),
    "bptt": Kind("TruncatedBPTT", ("depth",)),
    "sliding": Kind("SlidingBPTT", ("depth",)),
    "artbp": Kind("ARTBP", ("depth",)),
}
NORMS = {"gramian": "GramianNorms", "foresight": "ForesightNorms", "euclidean": "EuclideanNorms"}
BELIEFS = {"unbiased": "Unbiased", "caution": "Caution", "truncated": "Truncated"}
WITH_NORMS = [name for name, kind in KINDS.items() if kind.norms]
WITH_BELIEF = [name for name, kind in KINDS.items() if kind.belief]

ESTIMATORS = (
    f"{', '.join(kind.usage(name) for name, kind in KINDS.items())}; {', '.join(WITH_NORMS)} also with "
    f"{', '.join('+' + name for name in NORMS)} norms, {', '.join(WITH_BELIEF)} with "
    f"{', '.join('+' + name for name in BELIEFS)}"
)
UPDATES = (
    "kalman[:decay[:prior]], sgd[:rate] (decay and rate over sqrt t), adam[:rate]; for streams that change, "
    "kalman-steady[:decay[:prior]], sgd-steady[:rate] (as they are)"
)
STREAMS = "a text file, anbn[:k-l], brackets[:s-r-m], copy[:symbols-delay], music"


def cell_of(name: str, units: int, symbols: int | None = None, **ends: int) -> Any:
    """A network by name; `ends` are its inputs and outputs, where these are vectors."""
    import nobacktrack as nbt

    if name not in list(Cell):
        raise ValueError(f"cell must be one of {', '.join(Cell)}, not {name!r}")
    return getattr(nbt, _CELL_CLASSES[Cell(name)])(units=units, symbols=symbols, **ends)


def estimator_of(text: str) -> Any:
    """An estimator from `name[:number[:number]][+norms][+belief]`."""
    import nobacktrack as nbt

    spec, *options = text.split("+")
    name, *numbers = spec.split(":")
    if name not in KINDS:
        raise ValueError(f"estimator: {text!r} is none of {ESTIMATORS}")
    kind = KINDS[name]
    if len(numbers) > len(kind.numbers) or not all(number.isdecimal() for number in numbers):
        takes = f"is {kind.usage(name)}, with whole numbers" if kind.numbers else "takes no number"
        raise ValueError(f"estimator: {text!r}; {name} {takes}")
    given: dict[str, Any] = dict(zip(kind.numbers, map(int, numbers), strict=False))
    for option in options:
        given |= _option(text, name, kind, option)
    return getattr(nbt, kind.cls)(**given)


def _option(text: str, name: str, kind: Kind, option: str) -> dict[str, Any]:
    """Norms or a belief, by name."""
    import nobacktrack as nbt

    if option in NORMS and kind.norms:
        return {"norms": getattr(nbt, NORMS[option])()}
    if option in BELIEFS and kind.belief:
        return {"belief": getattr(nbt, BELIEFS[option])()}
    if option in NORMS:
        raise ValueError(f"estimator: {text!r}; norms are for {', '.join(WITH_NORMS)}, not for {name}")
    if option in BELIEFS:
        raise ValueError(f"estimator: {text!r}; beliefs are for {', '.join(WITH_BELIEF)}, not for {name}")
    raise ValueError(f"estimator: {text!r}; norms are {', '.join(NORMS)}, beliefs {', '.join(BELIEFS)}")


def update_of(text: str) -> Any:
    """An update from `name[:number[:number]]`."""
    import optax

    import nobacktrack as nbt

    name, *given = text.split(":")
    try:
        numbers = [float(number) for number in given]
    except ValueError:
        raise ValueError(f"update: {text!r}; {':'.join(given)!r} is not a number") from None
    if not all(0 <= number < math.inf for number in numbers):
        raise ValueError(f"update: {text!r}; its numbers must be finite and >= 0")
    over_sqrt = nbt.inverse_sqrt
    most, make = {
        "kalman": (2, lambda decay=None, prior=None: nbt.Kalman(decay=decay and over_sqrt(decay), prior=prior)),
        "kalman-steady": (2, lambda decay=1e-4, prior=None: nbt.Kalman(decay=decay, prior=prior)),
        "sgd": (1, lambda rate=0.1: nbt.SGD(over_sqrt(rate))),
        "sgd-steady": (1, lambda rate=0.01: nbt.SGD(rate)),
        "adam": (1, lambda rate=1e-3: nbt.Optax(optax.adam(rate))),
    }.get(name, (0, None))
    if make is None or len(numbers) > most:
        raise ValueError(f"update: {text!r} is none of {UPDATES}")
    return make(*numbers)


class NamedStream(NamedTuple):
    """A stream by name: `make(seed, length)` its symbols, and its entropy rate where that is known."""

    symbols: int
    make: Callable[[int, int], np.ndarray]
    entropy: float | None
    length: int | None  # of a file


def stream_of(text: str) -> NamedStream:
    """A stream made by a rule, or the text of a file."""
    from .. import streams

    name, _, numbers = text.partition(":")
    rules = {
        "anbn": ((1, 32), streams.anbn, streams.anbn_entropy, lambda k, l: 3),  # noqa: E741
        "brackets": ((1, 5, 10), streams.brackets, streams.brackets_entropy, lambda s, r, m: m + 3),
        "copy": ((8, 40), streams.copy, streams.copy_entropy, lambda symbols, delay: symbols + 2),
    }
    if name in rules and not Path(text).exists():
        default, make, entropy, symbols = rules[name]
        given = tuple(map(int, re.findall(r"\d+", numbers))) if numbers else default
        if len(given) != len(default):
            usage = f"{name}:{'-'.join(map(str, default))}"
            raise ValueError(f"stream: {text!r}; {name} takes {len(default)} numbers, as {usage}")
        return NamedStream(
            symbols(*given), lambda seed, length: make(*given, length=length, seed=seed), entropy(*given), None
        )
    if text == "music" and not Path(text).exists():
        music = lambda seed, length: streams.music(length=length, seed=seed)  # noqa: E731
        return NamedStream(len(streams.MUSIC_ALPHABET), music, streams.music_entropy(), None)
    found, alphabet = streams.characters(Path(text))
    return NamedStream(len(alphabet), lambda seed, length: found[:length], None, len(found))
