"""A trained learner's own stream: what it predicts, drawn, and given back to it as the next input."""

from __future__ import annotations

from typing import Any

import numpy as np

from .configuration import at_least
from .live import Live
from .protocol import State
from .systems.readouts import Softmax
from .verbs import AbstractLearner


def generate(
    learner: AbstractLearner, state: State, length: int, *, seed: int = 0, temperature: float = 1.0, prime: Any = ()
) -> np.ndarray:
    """So many symbols drawn from softmax(y_hat / temperature), each being the next input; nothing is learned.

    The system goes on from where the state is, after it has read `prime`.
    """
    if not isinstance(getattr(learner.system, "readout", None), Softmax):
        raise ValueError(f"{learner.system} does not predict symbols: there is nothing to draw")
    at_least("length", length, 1)
    if not 0 < temperature < float("inf"):
        raise ValueError(f"temperature must be a finite number > 0, not {temperature!r}")
    live, uniforms = Live(learner, state), np.random.default_rng(seed).random(length)
    for symbol in np.asarray(prime, int).tolist():
        live.advance(symbol)
    drawn = np.zeros(length, np.int32)
    for t, uniform in enumerate(uniforms):
        drawn[t] = _drawn(np.asarray(live.predict(), float) / temperature, uniform)
        live.advance(int(drawn[t]))
    return drawn


def _drawn(logits: np.ndarray, uniform: float) -> int:
    """A symbol by its probability, from a number uniform in [0, 1)."""
    sums = np.cumsum(np.exp(logits - logits.max()))
    return int(np.searchsorted(sums, uniform * sums[-1], side="right"))
