"""The cosine of estimated gradients with exact ones, on a^n b^n[1;16] and on a copy task, beside the cost of a step.
See docs/estimators.md.

    python -m experiments.cosines

A leaky RNN learns for a while with RTRL and Adam, so that all estimators are measured on the same path, on which they
have had no say.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import optax
from rich.console import Console
from rich.table import Table

import nobacktrack as nbt
from nobacktrack import files

STREAMS = {
    "a^n b^n[1;16]": (3, lambda seed, length: nbt.streams.anbn(1, 16, length=length, seed=seed)),
    "copy(8, 40)": (10, lambda seed, length: nbt.streams.copy(8, 40, length=length, seed=seed)),
}
UNITS = (20, 64)
UPDATE = nbt.Optax(optax.adam(1e-3))  # one object: another would be compiled anew
OTHERS = {
    "NoBackTrack": nbt.NoBackTrack(),
    "NoBackTrack, Gramian": nbt.NoBackTrack(norms=nbt.GramianNorms()),
    "NoBackTrack rank 10": nbt.NoBackTrack(rank=10),
    "UORO": nbt.UORO(),
    "DiagonalPlusRankOne": nbt.DiagonalPlusRankOne(),
    "DiagonalPlusRankOne(lag=4)": nbt.DiagonalPlusRankOne(lag=4),
    "the same, Gramian": nbt.DiagonalPlusRankOne(lag=4, norms=nbt.GramianNorms()),
    "DiagonalPlusRankOne(rank=10)": nbt.DiagonalPlusRankOne(rank=10),
    "KFRTRL": nbt.KFRTRL(),
    "KroneckerSum(rank=4)": nbt.KroneckerSum(rank=4),
    "SnAp1": nbt.SnAp1(),
    "RFLO": nbt.RFLO(),
    "Immediate": nbt.Immediate(),
    "SlidingBPTT(15)": nbt.SlidingBPTT(depth=15),
}


def measured(stream: str, units: int, train: int, steps: int, copies: int, seed: int) -> list[dict[str, Any]]:
    """The rows of a diagnosis, RTRL's first."""
    symbols, make = STREAMS[stream]
    learner = nbt.Learner(nbt.LeakyRNN(units=units, symbols=symbols), nbt.RTRL(), UPDATE)
    whole = make(seed, train + steps)
    state, _ = learner.run(learner.init(seed), whole[:train])
    found = nbt.diagnose(learner, state, whole[train:], others=OTHERS, copies=copies, exact=True)
    return found.json()["rows"]


def table(results: dict[str, list[list[dict[str, Any]]]], stream: str) -> Table:
    """Cosine, mean (standard error) over seeds, and microseconds a step, at each size."""
    found = Table("estimator", *(f"{what}, n = {n}" for n in UNITS for what in ("cosine", "us")), title=stream)
    for i, name in enumerate(["RTRL", *OTHERS]):
        cells = []
        for units in UNITS:
            rows = [run[i] for run in results[f"{stream} | {units}"]]
            values = np.array([row["cosine"] for row in rows])
            error = values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else np.nan
            cells += [f"{values.mean():.3f} ({error:.3f})", f"{np.median([row['microseconds'] for row in rows]):.3g}"]
        found.add_row(name, *cells)
    return found


def run(given: argparse.Namespace, console: Console) -> dict[str, list[list[dict[str, Any]]]]:
    """All streams, sizes and seeds, but for what is in the file. Larger networks learn for a quarter as long."""
    results = json.loads(given.out.read_text()) if given.out.exists() else {}
    for stream in STREAMS:
        for units in UNITS:
            known, train = results.setdefault(f"{stream} | {units}", []), given.train // (1 if units == UNITS[0] else 4)
            for seed in range(len(known), given.seeds):
                known.append(measured(stream, units, train, given.steps, given.copies, seed))
                console.print(f"{stream}, {units} units, seed {seed}: done", highlight=False)
                given.out.parent.mkdir(parents=True, exist_ok=True)
                files.write(given.out, json.dumps(results))
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--train", type=int, default=20_000)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--copies", type=int, default=4)
    parser.add_argument("--out", type=Path, default=Path("out/cosines.json"))
    given = parser.parse_args()
    console = Console()
    console.width = max(console.width, 100)
    results = run(given, console)
    for stream in STREAMS:
        console.print(table(results, stream))


if __name__ == "__main__":
    main()
