"""Kalman NoBackTrack on a^n b^n[1;32], over seeds: ranks, exact gradients, truncated BPTT, norms. See docs/kalman.md.

    python -m nobacktrack.experiments.kalman methods
    python -m nobacktrack.experiments.kalman norms
    python -m nobacktrack.experiments.kalman tanh --seeds 50 --length 200000

Results are kept in the output file as they come; what is there already is not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
from rich.console import Console
from rich.table import Table

import nobacktrack as nbt
from nobacktrack.engines import reference

RANGE = (1, 32)
DECAYS = (0.1, 0.2, 0.3)
RATES = (0.1, 0.3, 1.0, 3.0)
CHUNK = 5000
NORMS = {
    "metric": nbt.MetricNorms(),
    "Euclidean": nbt.EuclideanNorms(),
    "Gramian": nbt.GramianNorms(),
    "foresight": nbt.ForesightNorms(),
    "Appendix B": nbt.InvariantNorms(),
    "none (rho = 1)": nbt.Unscaled(),
}


def learners(which: str) -> Iterator[tuple[str, str, nbt.Learner]]:
    """The methods of an experiment: a name, the decay or rate, and the learner."""
    system = nbt.LeakyRNN(units=20, symbols=3)
    if which == "tanh":
        yield (
            "NoBackTrack rank 1, tanh",
            "default",
            _kalman(nbt.LeakyRNN(units=20, symbols=3, activation="tanh"), nbt.NoBackTrack()),
        )
        return
    if which == "norms":
        for name, norms in NORMS.items():
            yield f"norms: {name}", "0.1", _kalman(system, nbt.NoBackTrack(norms=norms), 0.1)
        return
    estimators = {
        "NoBackTrack rank 1": nbt.NoBackTrack(norms=nbt.GramianNorms()),
        "NoBackTrack rank 2": nbt.NoBackTrack(rank=2, norms=nbt.GramianNorms()),
        "truncated BPTT(15)": nbt.TruncatedBPTT(depth=15),
        "NoBackTrack rank 10": nbt.NoBackTrack(rank=10, norms=nbt.GramianNorms()),
        "RTRL": nbt.RTRL(),
    }
    for name, estimator in estimators.items():
        for decay in DECAYS:
            yield f"{name}, Kalman", f"{decay}", _kalman(system, estimator, decay)
    for rate in RATES:
        update = nbt.SGD(nbt.inverse_sqrt(rate))
        yield "truncated BPTT(15), rate c/sqrt t", f"{rate}", nbt.Learner(system, nbt.TruncatedBPTT(depth=15), update)


def _kalman(system: Any, estimator: Any, decay: float | None = None) -> nbt.Learner:
    return nbt.Learner(system, estimator, nbt.Kalman() if decay is None else nbt.Kalman(decay=nbt.inverse_sqrt(decay)))


def last_tenth(learner: nbt.Learner, seeds: int, length: int) -> list[float]:
    """Bits per character over the last tenth, for each seed; NaN for a run that diverged. Seed i reads its own
    stream, made by seed i.
    """
    streams = np.stack([nbt.streams.anbn(*RANGE, length=length, seed=seed) for seed in range(seeds)])
    if not _gains_from_vmap(learner.estimator):
        return [_one(learner, seed, stream) for seed, stream in enumerate(streams)]
    states = jax.vmap(learner.init)(jnp.arange(seeds))
    scan = jax.jit(jax.vmap(reference.scan, in_axes=(None, 0, 0)))
    losses = []
    for start in range(0, length, CHUNK):
        states, info = scan(learner, states, nbt.Series(streams[:, start : start + CHUNK]))
        losses.append(np.asarray(info.loss))
    bits = np.concatenate(losses, axis=1) / np.log(2)
    return [float(mean) for mean in bits[:, -length // 10 :].mean(axis=1)]


def _gains_from_vmap(estimator: Any) -> bool:
    """Small steps do; but under vmap both branches of a condition run at every step, the end of a BPTT block too."""
    return isinstance(estimator, nbt.RTRL) or (isinstance(estimator, nbt.NoBackTrack) and estimator.rank <= 2)


def _one(learner: nbt.Learner, seed: int, stream: np.ndarray) -> float:
    try:
        _, info = learner.run(learner.init(seed), stream)
    except FloatingPointError:
        return float("nan")
    return float(info.bits[-len(stream) // 10 :].mean())


def main() -> None:
    """Run what is not in the output file yet, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("which", choices=("methods", "norms", "tanh"))
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--length", type=int, default=1_000_000)
    parser.add_argument("--only", default="", help="methods whose name holds this")
    parser.add_argument("--out", type=Path, default=Path("out/kalman.json"))
    options = parser.parse_args()
    console = Console()
    results = json.loads(options.out.read_text()) if options.out.exists() else {}
    shown = []
    for name, setting, learner in learners(options.which):
        key = f"{name} | {setting} | {options.seeds} seeds | {options.length}"
        if options.only in name:
            if key not in results:
                began = time.perf_counter()
                bits = last_tenth(learner, options.seeds, options.length)
                results[key] = {"bits": bits, "seconds": round(time.perf_counter() - began)}
                _save(options.out, results)
                console.print(key, np.round(bits, 3).tolist(), highlight=False)
            shown.append((name, setting, results[key]["bits"]))
    console.print(table(shown))
    figure(shown, options.out.with_name(f"kalman_{options.which}.png"))


def _save(path: Path, results: dict[str, Any]) -> None:
    """Write the results atomically, beside those of another process on the same file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = json.loads(path.read_text()) if path.exists() else {}
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
        json.dump({**kept, **results}, file, indent=1)
    os.replace(file.name, path)


def table(rows: list[tuple[str, str, list[float]]]) -> Table:
    """Mean and standard error over the seeds that stayed finite, their median, and how many did not; c is the decay
    or rate.
    """
    result = Table("method", "c", "bits/char", "s.e.", "median", "not finite")
    for column in result.columns[1:]:
        column.justify = "right"
    for name, setting, bits in rows:
        finite = np.array([each for each in bits if np.isfinite(each)])
        numbers = (
            (finite.mean(), finite.std(ddof=1) / len(finite) ** 0.5, np.median(finite))
            if len(finite) > 1
            else [np.nan] * 3
        )
        result.add_row(name, setting, *(f"{number:.4f}" for number in numbers), f"{len(bits) - len(finite)}")
    return result


def figure(rows: list[tuple[str, str, list[float]]], path: Path) -> None:
    """A dot for each seed, a bar for the mean of those that stayed finite."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(figsize=(8, 0.34 * len(rows) + 1.3), layout="constrained")
    for y, (_, _, bits) in enumerate(rows):
        finite = np.array([each for each in bits if np.isfinite(each)])
        axes.plot(finite, np.full(len(finite), y), "o", color="0.35", markersize=4, alpha=0.6)
        if len(finite):
            axes.plot([finite.mean()] * 2, [y - 0.35, y + 0.35], color="C3", linewidth=2)
        if len(finite) < len(bits):
            axes.text(
                0.99,
                y,
                f"{len(bits) - len(finite)} not finite",
                ha="right",
                va="center",
                transform=axes.get_yaxis_transform(),
            )
    axes.axvline(nbt.streams.anbn_entropy(*RANGE), color="black", linewidth=1, label="entropy")
    axes.axvline(
        nbt.streams.anbn_entropy(*RANGE, independent=True),
        color="black",
        linewidth=1,
        linestyle=":",
        label=r"entropy of $a^nb^p$",
    )
    axes.set_yticks(range(len(rows)), [f"{name}, {setting}" for name, setting, _ in rows])
    axes.invert_yaxis()
    axes.set(xlabel="bits per character, last tenth (a dot a seed, a bar their mean)", xlim=(0.13, None))
    axes.legend(frameon=False, loc="upper right")
    axes.grid(axis="x", alpha=0.25)
    fig.savefig(path, dpi=130)
    plt.close(fig)


if __name__ == "__main__":
    main()
