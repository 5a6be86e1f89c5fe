"""A pendulum whose length is learned online from noisy angles: a physical simulator as a system. See
docs/your-system.md.

    python -m experiments.pendulum
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

import nobacktrack as nbt

GRAVITY, FRICTION, DT, NOISE = 9.81, 1.0, 0.05, 0.1
LENGTH, GUESS, OFFSET = 1.3, 0.8, 0.2  # the true length, the first guess, what the sensor adds to the angle


def field(theta: Any, h: Any, torque: jax.Array) -> Any:
    """d/dt (angle, speed) of a damped pendulum that is pushed; theta is the logarithm of its length."""
    angle, speed = h
    return speed, torque - FRICTION * speed - GRAVITY / jnp.exp(theta) * jnp.sin(angle)


def loss(y_hat: jax.Array, y: jax.Array) -> jax.Array:
    return ((y - y_hat) / NOISE) ** 2 / 2


SYSTEM = nbt.System(nbt.heun(field), readout=lambda offset, h: h[0] + offset, loss=loss)


def measured(steps: int, seed: int) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    """Irregular time steps and pushes, and the angles that a noisy sensor of unknown offset reports."""
    random = np.random.default_rng(seed)
    dt = random.uniform(0.5 * DT, 1.5 * DT, steps).astype(np.float32)
    torque = np.sin(2.1 * np.cumsum(dt)) + np.sin(0.7 * np.cumsum(dt)) + random.normal(size=steps) * 0.5
    torque = torque.astype(np.float32)

    def step(h: Any, x: Any) -> tuple[Any, jax.Array]:
        h = SYSTEM.transition(jnp.log(LENGTH), h, x)
        return h, h[0]

    _, angles = jax.lax.scan(step, (jnp.float32(0), jnp.float32(0)), (dt, torque))
    noise = random.normal(size=steps).astype(np.float32)
    return (dt, torque), np.asarray(angles) + np.float32(OFFSET) + np.float32(NOISE) * noise


def learned(steps: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The length and the offset that are believed, every ten steps."""
    x, y = measured(steps, seed)
    learner = nbt.Learner(SYSTEM, nbt.NoBackTrack(), nbt.Kalman(decay=nbt.inverse_sqrt(1.0), prior=1e3))
    zero = jnp.float32(0)
    start = learner.init(seed, theta=jnp.float32(np.log(GUESS)), phi=zero, h=(zero, zero), x=(zero, zero))
    lengths, offsets = [], []
    for state, _ in learner.training(start, (x, y), chunk=10):
        lengths.append(float(jnp.exp(state.params.theta)))
        offsets.append(float(state.params.phi))
    return np.array(lengths), np.array(offsets)


def figure(lengths: list[np.ndarray], path: Path) -> None:
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(figsize=(7, 3.4), layout="constrained")
    for number, length in enumerate(lengths):
        seconds = 10 * DT * np.arange(1, len(length) + 1)
        axes.plot(
            seconds, length, color="C0", alpha=0.5, linewidth=1, label="believed, a line a seed" if not number else None
        )
    axes.axhline(LENGTH, color="black", linewidth=1, label="true")
    axes.set(xlabel="seconds", ylabel="length of the pendulum (m)", xscale="log")
    axes.legend(frameon=False, loc="lower right")
    axes.grid(alpha=0.25)
    fig.savefig(path, dpi=130)
    plt.close(fig)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--out", type=Path, default=Path("out/pendulum.png"))
    given = parser.parse_args()
    given.out.parent.mkdir(parents=True, exist_ok=True)
    runs = [learned(given.steps, seed) for seed in range(given.seeds)]
    lengths, offsets = (np.array([run[i][-1] for run in runs]) for i in range(2))
    Console().print(
        f"length {lengths.mean():.4f} (largest error {abs(lengths - LENGTH).max():.4f}), true {LENGTH}; "
        f"offset {offsets.mean():.4f} (largest error {abs(offsets - OFFSET).max():.4f}), true {OFFSET}; "
        f"{given.seeds} seeds, {given.steps} measurements"
    )
    figure([run[0] for run in runs], given.out)


if __name__ == "__main__":
    main()
