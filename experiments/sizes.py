"""Noise against the size of a network: bits per character on a text, for truncated, unbiased and believed gradients. A
table and a figure, see docs/blocks.md.

    python -m experiments.sizes tinyshakespeare.txt
"""

from __future__ import annotations

import argparse
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from rich.console import Console
from rich.table import Table

import nobacktrack as nbt
from nobacktrack import files
from nobacktrack.readers.names import NamedStream, estimator_of, stream_of

ESTIMATORS = {
    "NoBackTrack": "nobacktrack+gramian",
    "blocks of 15, unbiased": "block:15:15+unbiased",
    "truncated BPTT(15)": "bptt:15",
    "blocks of 15, with caution": "block:15:15",
    "windows of 60, with caution (the default)": "block",
}


def mean_bits(stream: NamedStream, units: int, estimator: Any, seed: int, length: int) -> float:
    """Bits per character over the first part of a text, NaN where the run diverged."""
    learner = nbt.Learner(nbt.LSTM(units=units, symbols=stream.symbols), estimator, nbt.Kalman())
    try:
        _, info = learner.run(learner.init(seed), stream.make(seed, length))
    except FloatingPointError:
        return float("nan")
    return float(info.bits.mean())


def figure(results: dict[str, dict[int, list[float]]], title: str, path: Path) -> None:
    """A line an estimator, a dot a seed."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    colours = ("#D55E00", "#E69F00", "#000000", "#56B4E9", "#0072B2")
    sizes = sorted(next(iter(results.values())))
    for (name, by_size), colour in zip(results.items(), colours, strict=False):
        axes.plot(sizes, [np.nanmean(by_size[n]) for n in sizes], color=colour, label=name)
        for n in sizes:
            axes.plot([n] * len(by_size[n]), by_size[n], "o", color=colour, markersize=3, alpha=0.6)
    axes.set(xscale="log", xlabel="units of the LSTM", ylabel="bits per character", title=title)
    axes.set_xticks(sizes, [str(n) for n in sizes])
    axes.minorticks_off()
    fig.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    axes.grid(alpha=0.25)
    path.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(path, dpi=130)
    plt.close(fig)


def _shown(bits: list[float]) -> str:
    finite = np.array(bits)[np.isfinite(bits)]
    lost = f" [{len(bits) - len(finite)} lost]" if len(finite) < len(bits) else ""
    return f"{finite.mean():.3f} ({finite.std(ddof=1) / len(finite) ** 0.5:.3f}){lost}" if len(finite) > 1 else "-"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("text")
    parser.add_argument("--sizes", default="16,32,64,128")
    parser.add_argument("--length", type=int, default=200_000)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--out", type=Path, default=Path("out/sizes.json"))
    given = parser.parse_args()
    stream, sizes = stream_of(given.text), [int(n) for n in given.sizes.split(",")]
    table, results = Table("estimator", *(f"{n} units" for n in sizes)), {}
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # compiled loops do not hold the interpreter's lock
        for name, spec in ESTIMATORS.items():
            runs = {
                n: [
                    pool.submit(mean_bits, stream, n, estimator_of(spec), seed, given.length)
                    for seed in range(given.seeds)
                ]
                for n in sizes
            }
            results[name] = {n: [run.result() for run in found] for n, found in runs.items()}
            table.add_row(name, *(_shown(results[name][n]) for n in sizes))
    Console().print(table)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    files.write(given.out, json.dumps(results, indent=1))
    figure(results, f"the first {given.length:,} characters of {Path(given.text).name}", given.out.with_suffix(".png"))


if __name__ == "__main__":
    main()
