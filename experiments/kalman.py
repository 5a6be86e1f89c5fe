"""Kalman NoBackTrack on a^n b^n[1;32], over seeds: ranks, exact gradients, truncated BPTT, norms. See docs/kalman.md.

python -m experiments.kalman methods
python -m experiments.kalman norms
python -m experiments.kalman tanh --seeds 50 --length 200000
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import nobacktrack as nbt
from experiments import trials
from experiments.trials import Trial

RANGE = (1, 32)
DECAYS = (0.1, 0.2, 0.3)
RATES = (0.1, 0.3, 1.0, 3.0)
NORMS = {
    "metric": nbt.MetricNorms(),
    "Euclidean": nbt.EuclideanNorms(),
    "Gramian": nbt.GramianNorms(),
    "foresight": nbt.ForesightNorms(),
    "Appendix B": nbt.InvariantNorms(),
    "none (rho = 1)": nbt.Unscaled(),
}
LINES = {
    "entropy": (nbt.streams.anbn_entropy(*RANGE), "-"),
    r"entropy of $a^nb^p$": (nbt.streams.anbn_entropy(*RANGE, independent=True), ":"),
}


def stream(seed: int, length: int) -> np.ndarray:
    return nbt.streams.anbn(*RANGE, length=length, seed=seed)


def methods(which: str) -> Iterator[Trial]:
    """The methods of an experiment."""
    system = nbt.LeakyRNN(units=20, symbols=3)
    if which == "tanh":
        tanh = nbt.LeakyRNN(units=20, symbols=3, activation="tanh")
        yield Trial("NoBackTrack rank 1, tanh", "default", nbt.Learner(tanh, nbt.NoBackTrack(), nbt.Kalman()), stream)
    if which == "norms":
        for name, norms in NORMS.items():
            yield _kalman(f"norms: {name}", system, nbt.NoBackTrack(norms=norms), 0.1)
    if which == "methods":
        yield from _methods(system)


def _methods(system: Any) -> Iterator[Trial]:
    norms = nbt.GramianNorms()
    estimators = {
        "NoBackTrack rank 1": nbt.NoBackTrack(norms=norms),
        "NoBackTrack rank 2": nbt.NoBackTrack(rank=2, norms=norms),
        "truncated BPTT(15)": nbt.TruncatedBPTT(depth=15),
        "NoBackTrack rank 10": nbt.NoBackTrack(rank=10, norms=norms),
        "RTRL": nbt.RTRL(),
    }
    for name, estimator in estimators.items():
        for decay in DECAYS:
            yield _kalman(f"{name}, Kalman", system, estimator, decay)
    for rate in RATES:
        learner = nbt.Learner(system, nbt.TruncatedBPTT(depth=15), nbt.SGD(nbt.inverse_sqrt(rate)))
        yield Trial("truncated BPTT(15), rate c/sqrt t", f"{rate}", learner, stream)


def _kalman(name: str, system: Any, estimator: Any, decay: float) -> Trial:
    learner = nbt.Learner(system, estimator, nbt.Kalman(decay=nbt.inverse_sqrt(decay), prior=float(system.units)))
    return Trial(name, f"{decay}", learner, stream)


def main() -> None:
    given = trials.options(__doc__, ("methods", "norms", "tanh"), "out/kalman.json").parse_args()
    trials.run(methods(given.which), given, LINES)


if __name__ == "__main__":
    main()
