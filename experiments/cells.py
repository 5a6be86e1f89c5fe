"""Gated cells and a learned alpha under NoBackTrack, RTRL and truncated BPTT, with the same filter, over seeds.
See docs/systems.md.

    python -m experiments.cells anbn
    python -m experiments.cells brackets --seeds 4
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import nobacktrack as nbt
from experiments import trials
from experiments.trials import Trial

RANGE = (1, 32)
BRACKETS = (1, 5, 10)
ESTIMATORS = {
    "NoBackTrack rank 1": nbt.NoBackTrack(norms=nbt.GramianNorms()),
    "truncated BPTT(15)": nbt.TruncatedBPTT(depth=15),
    "RTRL": nbt.RTRL(),
}


def cells(symbols: int) -> dict[str, Any]:
    return {
        "LSTM": nbt.LSTM(units=20, symbols=symbols),
        "GRU": nbt.GRU(units=20, symbols=symbols),
        "leaky RNN, learned alpha": nbt.LearnedLeakyRNN(units=20, symbols=symbols),
    }


def anbn(seed: int, length: int) -> np.ndarray:
    return nbt.streams.anbn(*RANGE, length=length, seed=seed)


def brackets(seed: int, length: int) -> np.ndarray:
    return nbt.streams.brackets(*BRACKETS, length=length, seed=seed)


def methods(which: str, prior: float) -> Iterator[Trial]:
    """Each cell with each estimator."""
    stream, symbols = (anbn, 3) if which == "anbn" else (brackets, BRACKETS[2] + 3)
    for name, estimator in ESTIMATORS.items():
        for cell, system in cells(symbols).items():
            learner = nbt.Learner(system, estimator, nbt.Kalman(prior=prior))
            yield Trial(f"{which}: {cell}, {name}", "0.1", learner, stream)


def main() -> None:
    parser = trials.options(__doc__, ("anbn", "brackets"), "out/cells.json")
    parser.add_argument("--prior", type=float, default=100.0, help="Lambda, for theta and phi")
    given = parser.parse_args()
    entropy = nbt.streams.anbn_entropy(*RANGE) if given.which == "anbn" else nbt.streams.brackets_entropy(*BRACKETS)
    trials.run(methods(given.which, given.prior), given, {"entropy": (entropy, "-")})


if __name__ == "__main__":
    main()
