"""Online EM with its k^3 statistic carried exactly, or by rank-one reductions: errors, time, memory. See docs/hmm.md.

python -m experiments.hidden_markov errors
python -m experiments.hidden_markov times
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

import nobacktrack as nbt
from nobacktrack import hmm

COUNT, SPREAD, BEYOND = 20_000, 0.3, 0.3  # items, deviation of the emissions, probability of leaving a state
RANKS = (None, 1, 10)
SIZES = (10, 50, 100)


def chain(k: int, random: np.random.Generator) -> np.ndarray:
    """Transitions that stay with probability 0.7 or more, and go anywhere else at random."""
    return (1 - BEYOND) * np.eye(k) + BEYOND * random.dirichlet(np.ones(k), k)


def items(q: np.ndarray, count: int, random: np.random.Generator) -> np.ndarray:
    """Gaussian emissions around the number of the state."""
    states, x, ladder = np.zeros(count), 0, np.cumsum(q, axis=1)
    for t, uniform in enumerate(random.random(count)):
        x = min(int(np.searchsorted(ladder[x], uniform)), len(q) - 1)
        states[t] = x
    return (states + SPREAD * random.normal(size=count)).astype(np.float32)[:, None]


def start(k: int, rank: int | None, seed: int) -> tuple[nbt.OnlineEM, Any]:
    """A learner that knows the emissions and starts from uniform transitions."""
    emission = hmm.Normal(np.arange(k, dtype=float)[:, None], np.full((k, 1), SPREAD**2))
    learner = nbt.OnlineEM(nbt.HMM(states=k, outputs=1), rank=rank, emissions=False)
    return learner, learner.init(seed, theta=hmm.Chain(np.full((k, k), 1 / k), emission))


def error(k: int, rank: int | None, seed: int) -> float:
    """The root mean square error of the transitions after the run."""
    random = np.random.default_rng(seed)
    q = chain(k, random)
    learner, state = start(k, rank, seed)
    state, _ = learner.run(state, items(q, COUNT, random))
    return float(np.sqrt(np.mean((np.asarray(state.params.theta.q) - q) ** 2)))


def errors(seeds: int) -> Table:
    result = Table("states", "statistic", "error of q (rms)", "s.e.", "smallest", "largest")
    for k in (3, 10, 50):
        for rank in RANKS:
            found = np.array([error(k, rank, seed) for seed in range(seeds)])
            spread = found.std(ddof=1) / len(found) ** 0.5
            numbers = [found.mean(), spread, found.min(), found.max()]
            result.add_row(f"{k}", _name(rank), *(f"{number:.4f}" for number in numbers))
    return result


def times(repeats: int) -> Table:
    """Microseconds a step, the median of some runs, and the numbers that the statistics hold."""
    result = Table("states", "statistic", "us a step", "times the exact one", "numbers carried")
    for k in SIZES:
        random = np.random.default_rng(0)
        stream = items(chain(k, random), 4096, random)
        exact = None
        for rank in RANKS:
            learner, state = start(k, rank, 0)
            data = stream[:256] if rank is None and k > 50 else stream
            micro = _microseconds(learner, state, data, repeats)
            exact = exact or micro
            carried = sum(leaf.size for leaf in jax.tree.leaves(state.influence))
            result.add_row(f"{k}", _name(rank), f"{micro:,.1f}", f"{micro / exact:.3f}", f"{carried:,}")
    return result


def _microseconds(learner: nbt.OnlineEM, state: Any, data: np.ndarray, repeats: int) -> float:
    """Of one step, by the median of some runs, compiled before."""
    learner.run(state, data)
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        learner.run(state, data)
        seconds.append((time.perf_counter() - began) / len(data))
    return 1e6 * float(np.median(seconds))


def _name(rank: int | None) -> str:
    return "exact" if rank is None else f"rank {rank}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("which", choices=("errors", "times"))
    parser.add_argument("--seeds", type=int, default=8)
    given = parser.parse_args()
    Console().print(errors(given.seeds) if given.which == "errors" else times(repeats=5))


if __name__ == "__main__":
    main()
