"""Streams without surprises: is what was learned ever lost? Bits at the end, the worst window, returns to the anchor.

    python -m experiments.alone --seeds 8 --length 5000000

The learner is the one that `nobacktrack train --budget 20` chooses; with --alone, its network without a committee.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import nobacktrack as nbt
from nobacktrack import files
from nobacktrack.engines import begin
from nobacktrack.readers.presets import choose_for_symbols
from nobacktrack.streams.items import Series

CHUNK, WINDOW = 1 << 16, 2000


Pieces = tuple[Iterator[np.ndarray], int]  # a stream chunk by chunk, and how many symbols there are


def repeated(text: str) -> Callable[[int, int], Pieces]:
    """A text again and again."""
    letters, symbols = np.unique(list(text), return_inverse=True)
    return lambda seed, length: (cycled(symbols, length), max(2, len(letters)))


def drawn(seed: int, length: int) -> Pieces:
    """500 characters drawn at random from 26, another text for each seed, again and again."""
    return cycled(np.random.default_rng(seed).integers(0, 26, 500), length), 26


def anbn(seed: int, length: int) -> Pieces:
    """a^n b^n[1;32], which does surprise: whether a committee costs anything there."""
    stream = nbt.streams.anbn(1, 32, length=length, seed=seed)
    return (stream[begin : begin + CHUNK] for begin in range(0, length, CHUNK)), 3


def cycled(period: np.ndarray, length: int) -> Iterator[np.ndarray]:
    """A period again and again, chunk by chunk."""
    for start in range(0, length, CHUNK):
        yield period[np.arange(start, min(start + CHUNK, length)) % period.size].astype(np.int32)


STREAMS: dict[str, Callable[[int, int], Pieces]] = {
    "abab...ab, a line end": repeated("ab" * 10 + "\n"),
    "abcabcabd": repeated("abcabcabd\n"),
    "500 characters": drawn,
    "a constant": repeated("a"),
    "anbn": anbn,
}


def one(name: str, seed: int, length: int, alone: bool) -> dict[str, Any]:
    """Bits over the last tenth, the worst window after the first fifth, and how often the network was set back."""
    pieces, symbols = STREAMS[name](seed, length)
    learner = choose_for_symbols(symbols, 20)[0].learner(symbols=symbols)
    learner = learner.learners[0] if alone else learner
    session, bits = begin(learner, learner.init(seed)), []
    try:
        for piece in pieces:
            bits.append((session.take(Series(piece)) / np.log(2)).astype(np.float32))
    except FloatingPointError:
        return {"last": float("nan"), "worst": float("nan"), "returns": 0}
    every = np.concatenate(bits)
    windows = every[length // 5 :][: (length - length // 5) // WINDOW * WINDOW].reshape(-1, WINDOW).mean(axis=1)
    returns = 0 if alone else int(session.state().influence.records[0].returns)
    return {"last": float(every[-length // 10 :].mean()), "worst": float(windows.max()), "returns": returns}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--length", type=int, default=5_000_000)
    parser.add_argument("--alone", action="store_true", help="the network without a committee")
    parser.add_argument("--out", type=Path, default=Path("out/alone.json"))
    parser.add_argument("--streams", nargs="*", default=list(STREAMS), choices=STREAMS, metavar="NAME")
    given = parser.parse_args()
    results: dict[str, list[dict[str, Any]]] = {}
    table = Table("stream", "bits, last tenth (worst seed)", "worst window", "returns")
    for name in given.streams:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            found = list(pool.map(lambda seed: one(name, seed, given.length, given.alone), range(given.seeds)))  # noqa: B023
        results[name] = found
        last, worst, returns = ([run[key] for run in found] for key in ("last", "worst", "returns"))
        table.add_row(name, f"{np.nanmean(last):.5f} ({max(last):.5f})", f"{max(worst):.4f}", f"{sum(returns)}")
        given.out.parent.mkdir(parents=True, exist_ok=True)
        files.write(given.out, json.dumps(results, indent=1))
    Console().print(table)


if __name__ == "__main__":
    main()
