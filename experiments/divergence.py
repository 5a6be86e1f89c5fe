"""What grows before NoBackTrack diverges: the influence, a tangent vector, J and theta, in the last steps. See
docs/blocks.md.

    python -m experiments.divergence --seed 5 --until 403565
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

import nobacktrack as nbt


class Row(NamedTuple):
    """At time t: bits of the last character, |v||w|, the log of how much a tangent vector has grown since the start,
    the largest of J and of theta.
    """

    t: int
    bits: float
    influence: float
    growth: float
    information: float
    theta: float


def follow(learner: nbt.Learner, seed: int, until: int, steps: int) -> list[Row]:
    """The last steps before `until`, one by one, or up to where the run diverges."""
    stream = nbt.streams.anbn(1, 32, length=until + 1, seed=seed)
    state, _ = learner.run(learner.init(seed), stream[: until - steps])
    jacobian = jax.jit(lambda state, x: jax.jacobian(lambda h: learner.system.evolve(state.params, h, x))(state.h))
    tangent, growth, rows = np.ones(np.size(state.h)), 0.0, []
    try:
        for following, info in learner.training(state, stream[until - steps :], chunk=1):
            tangent = np.asarray(jacobian(state, stream[following.steps - 1]), float) @ tangent
            length = float(np.linalg.norm(tangent))
            tangent, growth, state = tangent / length, growth + float(np.log(length)), following
            sizes = [np.linalg.norm(np.asarray(part, float)) for part in (state.influence.v[0], state.influence.w[0])]
            information = max(float(np.abs(leaf).max()) for leaf in jax.tree.leaves(state.update.theta.information))
            theta = float(np.abs(state.params.theta).max())
            rows.append(
                Row(state.steps, float(info.bits[-1]), float(np.prod(sizes)), growth, information, theta),
            )
    except FloatingPointError:
        pass  # this is what is looked at
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--units", type=int, default=40)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--until", type=int, default=403_565)
    parser.add_argument("--steps", type=int, default=600)
    given = parser.parse_args()
    learner = nbt.Learner(nbt.LSTM(units=given.units, symbols=3), nbt.NoBackTrack(), nbt.Kalman())
    table = Table("t", "bits", "|v||w|", "log of a tangent", "max J", "max theta")
    for row in follow(learner, given.seed, given.until, given.steps)[:: max(given.steps // 20, 1)]:
        table.add_row(f"{row.t:,}", *(f"{number:.3g}" for number in row[1:]))
    Console().print(table)


if __name__ == "__main__":
    main()
