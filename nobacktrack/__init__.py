"""NoBackTrack: train recurrent models on a live stream, with no backpropagation through time."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from . import baselines, checks, files, hmm, reduction, streams
    from .checkpoint import load, save
    from .configuration import inverse_sqrt
    from .diagnostics import diagnose
    from .engines.drive import RunInfo, run_many
    from .errors import BadItem, Divergence
    from .estimators import (
        ARTBP,
        KFRTRL,
        RFLO,
        RTRL,
        UORO,
        DiagonalPlusRankOne,
        Immediate,
        KroneckerSum,
        NoBackTrack,
        SlidingBPTT,
        SnAp1,
        SplitNoBackTrack,
        TruncatedBPTT,
    )
    from .generation import generate
    from .hmm import HMM, OnlineEM
    from .learner import Apart, Learner, System
    from .live import Live
    from .norms import EuclideanNorms, ForesightNorms, GramianNorms, InvariantNorms, MetricNorms, Unscaled
    from .protocol import Info, Params, State
    from .streams.items import RESET, Pairs, Series
    from .systems import (
        GRU,
        LRU,
        LSTM,
        RNN,
        ContinuousRNN,
        Graph,
        LeakyRNN,
        LearnedLeakyRNN,
        Recurrent,
        Stack,
        euler,
        heun,
    )
    from .together import Together
    from .updates import (
        SGD,
        BlockDiagonal,
        Diagonal,
        ExactFisher,
        Frozen,
        Full,
        Kalman,
        Optax,
        OuterProduct,
        QuasiDiagonal,
    )

# Names come from their modules at first use: the command line must not pay for jax where it does not need it.
_MODULES = {
    "checkpoint": ("load", "save"),
    "configuration": ("inverse_sqrt",),
    "diagnostics": ("diagnose",),
    "engines.drive": ("RunInfo", "run_many"),
    "errors": ("BadItem", "Divergence"),
    "estimators": (
        "ARTBP",
        "KFRTRL",
        "RFLO",
        "RTRL",
        "UORO",
        "DiagonalPlusRankOne",
        "Immediate",
        "KroneckerSum",
        "NoBackTrack",
        "SlidingBPTT",
        "SnAp1",
        "SplitNoBackTrack",
        "TruncatedBPTT",
    ),
    "generation": ("generate",),
    "hmm": ("HMM", "OnlineEM"),
    "learner": ("Apart", "Learner", "System"),
    "live": ("Live",),
    "norms": ("EuclideanNorms", "ForesightNorms", "GramianNorms", "InvariantNorms", "MetricNorms", "Unscaled"),
    "protocol": ("Info", "Params", "State"),
    "streams.items": ("RESET", "Pairs", "Series"),
    "systems": (
        "GRU",
        "LRU",
        "LSTM",
        "RNN",
        "ContinuousRNN",
        "Graph",
        "LeakyRNN",
        "LearnedLeakyRNN",
        "Recurrent",
        "Stack",
        "euler",
        "heun",
    ),
    "together": ("Together",),
    "updates": (
        "SGD",
        "BlockDiagonal",
        "Diagonal",
        "ExactFisher",
        "Frozen",
        "Full",
        "Kalman",
        "Optax",
        "OuterProduct",
        "QuasiDiagonal",
    ),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}
_SUBMODULES = ("baselines", "checks", "files", "hmm", "reduction", "streams")

__all__ = [
    "ARTBP",
    "GRU",
    "HMM",
    "KFRTRL",
    "LRU",
    "LSTM",
    "RESET",
    "RFLO",
    "RNN",
    "RTRL",
    "SGD",
    "UORO",
    "Apart",
    "BadItem",
    "BlockDiagonal",
    "ContinuousRNN",
    "Diagonal",
    "DiagonalPlusRankOne",
    "Divergence",
    "EuclideanNorms",
    "ExactFisher",
    "ForesightNorms",
    "Frozen",
    "Full",
    "GramianNorms",
    "Graph",
    "Immediate",
    "Info",
    "InvariantNorms",
    "Kalman",
    "KroneckerSum",
    "LeakyRNN",
    "LearnedLeakyRNN",
    "Learner",
    "Live",
    "MetricNorms",
    "NoBackTrack",
    "OnlineEM",
    "Optax",
    "OuterProduct",
    "Pairs",
    "Params",
    "QuasiDiagonal",
    "Recurrent",
    "RunInfo",
    "Series",
    "SlidingBPTT",
    "SnAp1",
    "SplitNoBackTrack",
    "Stack",
    "State",
    "System",
    "Together",
    "TruncatedBPTT",
    "Unscaled",
    "baselines",
    "checks",
    "diagnose",
    "euler",
    "files",
    "generate",
    "heun",
    "hmm",
    "inverse_sqrt",
    "load",
    "reduction",
    "run_many",
    "save",
    "streams",
]


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f".{name}", __name__)
    if name in _HOME:
        return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
