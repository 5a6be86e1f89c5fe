"""Influence balancing: short truncations go the wrong way, unbiased estimators do not. A table and a figure, see
docs/balancing.md.

    python -m experiments.balancing
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

UNITS, POSITIVE = 23, 10
OPTIMUM = -1 / 6
ESTIMATORS: dict[str, Any] = {
    "RTRL": nbt.RTRL(),
    "NoBackTrack, rank 1": nbt.NoBackTrack(),
    "NoBackTrack, rank 10": nbt.NoBackTrack(rank=10),
    "blocks, T = 60, U = 15": nbt.BlockNoBackTrack(),
    "blocks, T = 30, U = 15": nbt.BlockNoBackTrack(depth=30),
    "blocks, T = 30, no tail": nbt.BlockNoBackTrack(depth=30, belief=nbt.Truncated()),
    "blocks, T = 15, U = 5": nbt.BlockNoBackTrack(depth=15, every=5),
    "blocks, T = 15, U = 15": nbt.BlockNoBackTrack(depth=15),
    "UORO": nbt.UORO(),
    "ARTBP(16)": nbt.ARTBP(depth=16),
    "BPTT(10)": nbt.SlidingBPTT(depth=10),
    "BPTT(100)": nbt.SlidingBPTT(depth=100),
}


def chain() -> nbt.System:
    """s_i' = (s_i + s_{i+1}) / 2 + theta p_i, p = +1 for the first ten and -1 for the rest, loss (s_1 - 1)^2 / 2.

    theta pulls s_1 up through the near units at once, and down through the far ones later and by more: ds_1/dtheta
    goes to -6.
    """
    signs = jnp.where(jnp.arange(UNITS) < POSITIVE, 1.0, -1.0)

    def transition(theta: jax.Array, h: jax.Array, x: Any) -> jax.Array:
        above = jnp.concatenate([h[1:], jnp.zeros(1, h.dtype)])
        return (h + above) / 2 + theta * signs.astype(h.dtype)

    return nbt.System(
        transition=transition, readout=lambda phi, h: h[0] + 0 * phi, loss=lambda y_hat, y: (y_hat - y) ** 2 / 2
    )


def learned(estimator: Any, steps: int, seed: int, rate: float) -> np.ndarray:
    """theta at each step, with the rate c / sqrt t."""
    learner = nbt.Learner(chain(), estimator, nbt.SGD(nbt.inverse_sqrt(rate)))
    start = learner.init(seed, theta=jnp.zeros(()), phi=jnp.zeros(()), h=jnp.zeros(UNITS), x=jnp.zeros(()))

    def step(state: Any, _: None) -> tuple[Any, jax.Array]:
        following = learner.step(state, jnp.zeros(()), jnp.ones(()))[0]
        return following, following.params.theta

    return np.asarray(jax.jit(lambda state: jax.lax.scan(step, state, None, length=steps)[1])(start))


def figure(results: dict[str, np.ndarray], path: Path) -> None:
    """theta in time, the mean over seeds and all of them, and where it should go."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(figsize=(8.5, 4.2), layout="constrained")
    looks = zip(
        (*matplotlib.color_sequences["tab10"], "black", "darkblue"),
        ("-", "--", "-.", ":") * 3,
        strict=False,
    )
    for (name, paths), (colour, dash) in zip(results.items(), looks, strict=True):
        steps = np.unique(np.geomspace(1, paths.shape[1], 300).astype(int))
        shown = np.clip(paths[:, steps - 1], -1, 1)
        axes.plot(steps, shown.mean(axis=0), linestyle=dash, color=colour, label=name)
        axes.fill_between(steps, shown.min(axis=0), shown.max(axis=0), color=colour, alpha=0.06, linewidth=0)
    axes.axhline(OPTIMUM, color="0.3", linewidth=1)
    axes.annotate("optimum, -1/6", (1.2, OPTIMUM), xytext=(0, 3), textcoords="offset points", fontsize=8)
    axes.set(xscale="log", xlabel="steps", ylabel="theta", ylim=(-0.45, 0.45), title="Influence balancing, 23 units")
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    axes.grid(alpha=0.25)
    path.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(path, dpi=130)
    plt.close(fig)


def _shown(theta: np.ndarray) -> str:
    """The mean over seeds and their standard deviation."""
    if not np.isfinite(theta).all() or np.abs(theta).max() > 1e3:
        return "diverged"
    return f"{theta.mean():.4f} ({theta.std():.4f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=300_000)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--rate", type=float, default=0.0003)
    parser.add_argument("--out", type=Path, default=Path("out/balancing.png"))
    given = parser.parse_args()
    marks = [mark for mark in (100, 1000, 10_000, 100_000, given.steps) if mark <= given.steps]
    table = Table("estimator", *(f"after {mark:,}" for mark in dict.fromkeys(marks)), caption=f"optimum {OPTIMUM:.4f}")
    results = {}
    for name, estimator in ESTIMATORS.items():
        results[name] = np.stack([learned(estimator, given.steps, seed, given.rate) for seed in range(given.seeds)])
        table.add_row(name, *(_shown(results[name][:, mark - 1]) for mark in dict.fromkeys(marks)))
    Console(width=max(Console().width, 100)).print(table)
    figure(results, given.out)


if __name__ == "__main__":
    main()
