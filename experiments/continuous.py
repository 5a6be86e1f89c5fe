"""The limit dt -> 0 of the estimate in continuous time, with the scales rho and without: a table and a figure. See
docs/systems.md.

    python -m experiments.continuous

A continuous-time RNN with fixed parameters is driven by a smooth input. G~ = v w^T has a limit law as dt -> 0 either
way. With the scales, v and w have one each: their squared change over a unit of time does not depend on dt (each step
changes them by O(sqrt dt)), and the variance of G~ settles. Without, v and w have no limit, and the variance grows.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
from rich.console import Console
from rich.table import Table

import nobacktrack as nbt
from nobacktrack.protocol import State

STEPS = (1e-1, 1e-2, 1e-3, 1e-4)
DURATION, MARKS = 20.0, 20
SYSTEM = nbt.ContinuousRNN(units=5, inputs=1, outputs=1, activation="tanh", fastest=0.5, slowest=1.0)
NORMS = {"with the scales": nbt.MetricNorms(), "without": nbt.Unscaled()}


class Measured(NamedTuple):
    """Over a run: the squared changes of v and of w (relative to their mean squared size, a unit of time), and |v|^2,
    |w|^2, |v|^2 |w|^2 at some times.
    """

    change_v: jax.Array
    change_w: jax.Array
    v: jax.Array
    w: jax.Array
    product: jax.Array


def measured(learner: nbt.Learner, start: State, key: jax.Array, dt: float) -> Measured:
    """One run with signs of its own."""
    every = round(DURATION / dt / MARKS)
    state = start._replace(key=jnp.asarray(key))

    def step(carry: tuple[State, Any], _: None) -> tuple[tuple[State, Any], None]:
        state, changed = carry
        x = jnp.sin(state.t[1].astype(jnp.float32) * dt)[None]
        after = learner.advance_unchecked(state, (jnp.float32(dt), x), learner.draw(state, state.t))
        here = [_squares(after.influence.v - state.influence.v), _squares(after.influence.w - state.influence.w)]
        return (after, [a + b for a, b in zip(changed, here, strict=True)]), None

    def mark(carry: tuple[State, Any], _: None) -> tuple[tuple[State, Any], Any]:
        carry, _ = jax.lax.scan(step, carry, None, length=every)
        influence = carry[0].influence
        return carry, (_squares(influence.v), _squares(influence.w))

    (_, changed), (v, w) = jax.lax.scan(mark, (state, [jnp.zeros(())] * 2), None, length=MARKS)
    rates = [total / DURATION / size.mean() for total, size in zip(changed, (v, w), strict=True)]
    return Measured(rates[0], rates[1], v, w, v * w)


def _squares(array: jax.Array) -> jax.Array:
    return jnp.sum(array**2)


def over_copies(norms: Any, dt: float, copies: int) -> Measured:
    """The same over copies that differ in their signs alone."""
    learner = nbt.Learner(SYSTEM, nbt.NoBackTrack(norms=norms), nbt.SGD(0.0))
    start = learner.init(0)
    keys = jnp.stack([jnp.arange(copies, dtype=jnp.uint32), jnp.full(copies, 7, jnp.uint32)], axis=1)
    return jax.jit(jax.vmap(lambda key: measured(learner, start, key, dt)))(keys)


def table(results: dict[tuple[str, float], Measured]) -> Table:
    """Means over the copies."""
    columns = ("scales", "dt", "dv^2", "dw^2", "|v|^2", "|w|^2", "product", "at half time")
    result = Table(*columns)
    for (name, dt), run in results.items():
        numbers = [
            run.change_v,
            run.change_w,
            run.v[:, -1],
            run.w[:, -1],
            run.product[:, -1],
            run.product[:, MARKS // 2],
        ]
        result.add_row(name, f"{dt:g}", *(f"{float(np.mean(number)):.3g}" for number in numbers))
    return result


def figure(results: dict[tuple[str, float], Measured], path: Path) -> None:
    """|w|^2 at the end against dt, and |v|^2 |w|^2 in time."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    times = np.linspace(0, DURATION, MARKS + 1)[1:]
    for name, marker, color in zip(NORMS, "os", ("C0", "C3"), strict=True):
        sizes = [results[name, dt].w[:, -1] for dt in STEPS]
        error = [np.std(size) / len(size) ** 0.5 for size in sizes]
        left.errorbar(STEPS, [np.mean(size) for size in sizes], error, marker=marker, color=color, label=name)
        for dt, style in zip(STEPS, ("-", "--", "-.", ":"), strict=True):
            right.plot(
                times, np.mean(results[name, dt].product, axis=0), style, color=color, label=f"{name}, dt = {dt:g}"
            )
    left.set(xscale="log", yscale="log", xlabel="dt", ylabel=r"mean of $|w|^2$ at the end")
    right.set(xlabel="time", ylabel=r"mean of $|v|^2|w|^2$")
    left.invert_xaxis()
    left.legend(frameon=False)
    right.legend(frameon=False, fontsize=7)
    fig.savefig(path, dpi=130)
    plt.close(fig)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--copies", type=int, default=128)
    parser.add_argument("--out", type=Path, default=Path("out/continuous.png"))
    given = parser.parse_args()
    given.out.parent.mkdir(parents=True, exist_ok=True)
    results = {(name, dt): over_copies(norms, dt, given.copies) for name, norms in NORMS.items() for dt in STEPS}
    Console().print(table(results))
    figure(results, given.out)


if __name__ == "__main__":
    main()
