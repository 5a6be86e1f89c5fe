"""Why the scales rho matter: the variance of G~ with them and without, measured and exact, in a figure. See
docs/rescaling.md.

    python -m experiments.rescaling
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
from rich.console import Console
from rich.table import Table

import nobacktrack as nbt
from nobacktrack import checks
from nobacktrack.protocol import State

UNITS, LEAK = 5, 0.3
NORMS = {"with the scales": nbt.EuclideanNorms(), "without": nbt.Unscaled()}


def leaky() -> nbt.System:
    """h' = (1 - a) h + theta, with h and theta in R^n: the example of the paper [NBT, section 1.3]."""
    return nbt.System(
        transition=lambda theta, h, x: (1 - LEAK) * h + theta,
        readout=lambda phi, h: h[0] + phi,
        loss=lambda y_hat, y: (y_hat - y) ** 2 / 2,
    )


def exact(steps: np.ndarray, scaled: bool) -> np.ndarray:
    """Var G~ after so many reductions: n(n+1) B^2 - 2nA with the scales, n^2 A T + n (B^2 - 2A) without, where A and B
    are the sums over k < T of (1-a)^2k and (1-a)^k.
    """
    a, b = ((1 - (1 - LEAK) ** (power * steps)) / (1 - (1 - LEAK) ** power) for power in (2, 1))
    if scaled:
        return UNITS * (UNITS + 1) * b**2 - 2 * UNITS * a
    return UNITS**2 * a * steps + UNITS * (b**2 - 2 * a)


def measured(norms: Any, steps: int, copies: int) -> tuple[np.ndarray, np.ndarray]:
    """E |G~ - G|^2 after 1, 2, ... reductions, over copies with signs of their own, and its standard error."""
    learner = nbt.Learner(leaky(), nbt.NoBackTrack(norms=norms), nbt.SGD(0.0))
    zeros = jnp.zeros(UNITS)
    start = learner.init(0, theta=zeros, phi=jnp.zeros(()), h=zeros, x=jnp.zeros(()))
    keys = jnp.stack([jnp.arange(copies, dtype=jnp.uint32), jnp.full(copies, 3, jnp.uint32)], axis=1)

    def step(state: State, t: jax.Array) -> tuple[State, jax.Array]:
        state = learner.advance_unchecked(state, jnp.zeros(()), learner.draw(state, state.t))
        grown = (1 - (1 - LEAK) ** (t + 1)) / LEAK  # dh/dtheta = B Id, whose newest step is not random
        error = checks.estimated_influence(learner, state) - grown * jnp.eye(UNITS)
        return state, jnp.sum(error**2)

    def copy(key: jax.Array) -> jax.Array:
        return jax.lax.scan(step, start._replace(key=key), jnp.arange(steps + 1, dtype=jnp.float32))[1][1:]

    errors = np.asarray(jax.jit(jax.vmap(copy))(keys))
    return errors.mean(axis=0) / (1 - LEAK) ** 2, errors.std(axis=0) / copies**0.5 / (1 - LEAK) ** 2


def figure(results: dict[str, tuple[np.ndarray, np.ndarray]], path: Path) -> None:
    """Dots as measured, lines as computed."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(figsize=(6.4, 4), layout="constrained")
    for (name, (mean, _)), marker, colour, dash in zip(
        results.items(), "os", ("#0072B2", "#D55E00"), "-:", strict=True
    ):
        steps = np.arange(1, len(mean) + 1)
        axes.plot(steps, exact(steps, "without" not in name), dash, color=colour, label=f"{name}, exact")
        shown = slice(4, None, 12)
        axes.plot(steps[shown], mean[shown], marker, color=colour, markersize=5, label=f"{name}, measured")
    axes.set(xlabel="reductions", ylabel=r"variance of $\tilde G$", title=f"h' = {1 - LEAK:g} h + theta, n = {UNITS}")
    axes.legend(frameon=False)
    axes.grid(alpha=0.25)
    path.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(path, dpi=130)
    plt.close(fig)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--copies", type=int, default=4000)
    parser.add_argument("--out", type=Path, default=Path("out/rescaling.png"))
    given = parser.parse_args()
    results = {name: measured(norms, given.steps, given.copies) for name, norms in NORMS.items()}
    table = Table("reductions", *(f"{name}{kind}" for name in NORMS for kind in (": measured (s.e.)", ": exact")))
    for t in (1, 3, 10, 30, 100):
        if t <= given.steps:
            cells = []
            for name, (mean, error) in results.items():
                value = exact(np.array([t]), "without" not in name)[0]
                cells += [f"{mean[t - 1]:.1f} ({error[t - 1]:.1f})", f"{value:.1f}"]
            table.add_row(str(t), *cells)
    Console().print(table)
    figure(results, given.out)


if __name__ == "__main__":
    main()
