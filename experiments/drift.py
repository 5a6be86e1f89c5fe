"""A stream that changes: a^n b^n whose range of n does, and what the decay of the filter makes of it.

python -m experiments.drift --seeds 8
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from rich.console import Console
from rich.table import Table

from nobacktrack import streams
from nobacktrack.configuration import inverse_sqrt
from nobacktrack.engines.drive import run_many
from nobacktrack.estimators import NoBackTrack
from nobacktrack.learner import Learner
from nobacktrack.systems import LeakyRNN
from nobacktrack.updates import SGD, Kalman

RANGES = ((1, 8), (1, 32), (1, 8), (16, 32), (1, 8))
UPDATES: dict[str, Any] = {
    "Kalman, 0.1 / sqrt(t)": Kalman(),
    "Kalman, 0.001": Kalman(decay=1e-3),
    "Kalman, 0.0001": Kalman(decay=1e-4),
    "SGD, 0.1 / sqrt(t)": SGD(inverse_sqrt(0.1)),
    "SGD, 0.01": SGD(0.01),
}
WINDOW = 5000


def run(length: int, seeds: int) -> dict[str, np.ndarray]:
    """Bits in windows of 5,000 characters, (seeds, windows), for each update."""
    found = {}
    for name, update in UPDATES.items():
        learner = Learner(LeakyRNN(units=20, symbols=3), NoBackTrack(), update)
        inputs = [stream(length, seed) for seed in range(seeds)]
        runs = run_many(learner, [learner.init(seed) for seed in range(seeds)], inputs)
        found[name] = np.stack([info.bits.reshape(-1, WINDOW).mean(axis=1) for _, info in runs])
    return found


def stream(length: int, seed: int) -> np.ndarray:
    """The ranges one after the other, `length` characters each."""
    parts = [streams.anbn(*span, length=length, seed=10 * seed + i) for i, span in enumerate(RANGES)]
    return np.concatenate(parts)


def table(found: dict[str, np.ndarray]) -> Table:
    """Bits over the last half of each part of the stream."""
    shown = Table(title="bits per character, last half of each part: mean (s.e.)", title_justify="left")
    shown.add_column("")
    for span in RANGES:
        shown.add_column(f"[{span[0]};{span[1]}]", justify="right")
    shown.add_row("entropy", *(f"{streams.anbn_entropy(*span):.3f}" for span in RANGES))
    for name, bits in found.items():
        halves = bits.reshape(len(bits), len(RANGES), 2, -1)[:, :, 1].mean(axis=2)
        errors = halves.std(axis=0, ddof=1) / len(halves) ** 0.5
        shown.add_row(name, *(f"{m:.3f} ({e:.3f})" for m, e in zip(halves.mean(axis=0), errors, strict=True)))
    return shown


def figure(found: dict[str, np.ndarray], path: Path) -> None:
    """Prequential bits in windows, beside the entropy of each part."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(figsize=(9, 4.2), layout="constrained")
    windows = next(iter(found.values())).shape[1]
    each = windows // len(RANGES)
    x = (np.arange(windows) + 0.5) * WINDOW
    for name, bits in found.items():
        axes.plot(x, bits.mean(axis=0), label=name, linewidth=1.4)
    for i, span in enumerate(RANGES):
        ends = np.array([i, i + 1]) * each * WINDOW
        label = "entropy" if i == 0 else None
        axes.plot(ends, [streams.anbn_entropy(*span)] * 2, color="black", linestyle="--", linewidth=1, label=label)
        axes.text(ends.mean(), 0.02, f"[{span[0]};{span[1]}]", ha="center", transform=axes.get_xaxis_transform())
    axes.set(xlabel="characters", ylabel="bits per character (windows of 5,000)", ylim=(0, 0.9), xlim=(0, x[-1]))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.legend(fontsize=8, ncols=6, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--length", type=int, default=200_000, help="characters of each part")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--out", type=Path, default=Path("out/drift.png"))
    chosen = parser.parse_args()
    found = run(chosen.length, chosen.seeds)
    figure(found, chosen.out)
    Console(width=120).print(table(found))
    sys.stderr.write(f"figure: {chosen.out}\n")


if __name__ == "__main__":
    main()
