"""Ten million characters: does a network that learns online from a text, read again and again, go on learning? Bits
per character in windows, a table and a figure, see docs/blocks.md.

    python -m experiments.long_text shakespeare.txt

The text is Shakespeare's works (`nbt.streams.shakespeare`) or, with --plain, any file.
"""

from __future__ import annotations

import argparse
import json
import time
from itertools import pairwise
from pathlib import Path

import matplotlib
import numpy as np
from rich.console import Console
from rich.table import Table

import nobacktrack as nbt
from nobacktrack import files

CHUNK, WINDOWS = 100_000, 10


def learned(symbols: np.ndarray, alphabet: int, units: int, length: int, seed: int) -> list[float]:
    """Bits per character of each chunk of a text that is repeated up to a length."""
    learner = nbt.Learner(nbt.LSTM(units=units, symbols=alphabet), nbt.BlockNoBackTrack(), nbt.Kalman())
    state, bits = learner.init(seed), []
    for begin in range(0, length, CHUNK):
        piece = symbols[np.arange(begin, min(begin + CHUNK, length)) % symbols.size]
        state, info = learner.run(state, piece)
        bits.append(float(info.bits.mean()))
    return bits


def figure(bits: list[float], period: int, title: str, path: Path) -> None:
    """A curve each time that the text is read, one above the other."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(figsize=(8, 3.6), layout="constrained")
    ends = CHUNK * np.arange(1, len(bits) + 1)
    for reading in range(-(-len(bits) * CHUNK // period)):
        now = (ends - CHUNK // 2) // period == reading
        axes.plot(
            (ends[now] - reading * period) / 1e6, np.array(bits)[now], linewidth=1.2, label=f"reading {reading + 1}"
        )
    axes.set(xlabel="place in the text, million characters", ylabel=f"bits per character, of each {CHUNK:,}")
    axes.set_title(title)
    axes.legend(frameon=False)
    axes.grid(alpha=0.25)
    path.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(path, dpi=130)
    plt.close(fig)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("--plain", action="store_true", help="any text, as it is")
    parser.add_argument("--units", type=int, default=128)
    parser.add_argument("--length", type=int, default=10_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("out/long_text.json"))
    given = parser.parse_args()
    if given.plain:
        letters, symbols = np.unique(list(given.text.read_text()), return_inverse=True)
    else:
        symbols, letters = nbt.streams.shakespeare(given.text)
    began = time.perf_counter()
    bits = learned(symbols.astype(np.int32), len(letters), given.units, given.length, given.seed)
    seconds = time.perf_counter() - began
    given.out.parent.mkdir(parents=True, exist_ok=True)
    files.write(given.out, json.dumps(bits))
    edges = np.linspace(0, len(bits), min(WINDOWS, len(bits)) + 1).astype(int)
    table = Table("characters", "bits per character", "worst chunk")
    for begin, end in pairwise(edges):
        window = bits[begin:end]
        table.add_row(f"{begin * CHUNK:,} to {end * CHUNK:,}", f"{np.mean(window):.3f}", f"{max(window):.3f}")
    Console().print(table)
    Console().print(f"{given.length / seconds:,.0f} characters a second, {seconds:.0f} s", highlight=False)
    figure(bits, len(symbols), f"An LSTM of {given.units} units on {given.text.name}", given.out.with_suffix(".png"))


if __name__ == "__main__":
    main()
