"""Ways to move less memory in a Kalman step, and what each costs: `python benchmarks/moving_less.py [characters]`.

A step at rank one reads and writes theta, w and the two arrays of the quasi-diagonal J. Bits per character on a^n b^n
(20 units, the last 10 %, 8 seeds) of: J as it is; its diagonal alone; both arrays kept in half precision (bfloat16);
J that takes in every 4th or 16th gradient only, with that weight; no J at all. Microseconds of those that the fused
engine runs, at 512 and 1,024 units and 80 symbols.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import nobacktrack as nbt
from nobacktrack.configuration import configuration
from nobacktrack.engines import begin
from nobacktrack.streams.items import Series
from nobacktrack.updates.metrics import Arrow

SEEDS = 8


@configuration
class Half(nbt.QuasiDiagonal):
    """The quasi-diagonal form with M_0i and M_ii in bfloat16."""

    def zero(self, leaf: jax.Array) -> Arrow:
        return self._kept(super().zero(leaf))

    def take(self, j: Arrow, keep: jax.Array, vectors: jax.Array) -> Arrow:
        return self._kept(super().take(self._whole(j), keep, vectors))

    def _schur(self, j: Arrow, prior: jax.Array) -> Any:
        return super()._schur(self._whole(j), prior)

    def _kept(self, j: Arrow) -> Arrow:
        return j._replace(m0i=j.m0i.astype(jnp.bfloat16), mii=j.mii.astype(jnp.bfloat16))

    def _whole(self, j: Arrow) -> Arrow:
        return Arrow(*(part.astype(jnp.float32) for part in j))


UPDATES = {
    "quasi-diagonal": nbt.Kalman(),
    "diagonal": nbt.Kalman(metric=nbt.Diagonal()),
    "quasi-diagonal in half precision": nbt.Kalman(metric=Half()),
    "quasi-diagonal, every 4th gradient": nbt.Kalman(every=4),
    "quasi-diagonal, every 16th gradient": nbt.Kalman(every=16),
    "none: SGD, rate 1/sqrt t": nbt.SGD(nbt.inverse_sqrt(1.0)),
}


def bits(update: Any, characters: int) -> np.ndarray:
    """Bits per character over the last tenth, of each seed."""
    learner = nbt.Learner(nbt.LeakyRNN(units=20, symbols=3), nbt.NoBackTrack(), update)
    states = [learner.init(seed) for seed in range(SEEDS)]
    streams = [nbt.streams.anbn(1, 32, length=characters, seed=seed) for seed in range(SEEDS)]
    return np.array([info.bits[-characters // 10 :].mean() for _, info in nbt.run_many(learner, states, streams)])


def microseconds(update: Any, units: int, rounds: int = 7) -> float:
    """The median time of a step in the fused engine; NaN where it does not run."""
    learner = nbt.Learner(nbt.LeakyRNN(units=units, symbols=80), nbt.NoBackTrack(), update)
    stream = Series(np.random.default_rng(0).integers(0, 80, 20_000_000 // units**2).astype(np.int32))
    try:
        session = begin(learner, learner.init(0), "fused", strict=True)
    except ValueError:
        return float("nan")
    session.take(stream)
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        session.take(stream)
        times.append((time.perf_counter() - began) / len(stream.values))
    return float(np.median(times) * 1e6)


def main(characters: int = 1_000_000) -> None:
    print(f"{'':36} {'bits':>7} {'error':>7} {'512 units, us':>14} {'1024 units, us':>15}")
    for name, update in UPDATES.items():
        found = bits(update, characters)
        times = microseconds(update, 512), microseconds(update, 1024)
        error = found.std(ddof=1) / len(found) ** 0.5
        print(f"{name:36} {found.mean():7.4f} {error:7.4f} {times[0]:14.0f} {times[1]:15.0f}", flush=True)


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
