"""Mutated checkpoints and streams: each is read as it was, or refused in one clear line; nothing else.

python -m experiments.fuzz --count 10000
"""

from __future__ import annotations

import argparse
import collections
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from nobacktrack import checkpoint
from nobacktrack.checks import same_bits
from nobacktrack.errors import BadItem
from nobacktrack.readers.lines import Columns
from nobacktrack.readers.notes import as_json
from nobacktrack.readers.rows import RowsReader
from nobacktrack.readers.table import Parts, TableReader

ROWS = [{"u": 0.5 * i % 1.3, "colour": "red" if i % 3 else "blue", "y": float(i % 4)} for i in range(40)]
STREAMS = {
    "csv": ("u,colour,y\n" + "".join(f"{row['u']},{row['colour']},{row['y']}\n" for row in ROWS)).encode(),
    "jsonl": "".join(json.dumps(row) + "\n" for row in ROWS).encode(),
}
KINDS = ("flip", "cut", "drop", "insert", "repeat")
SLOW = 5.0  # seconds: longer would be a hang

Mutation = tuple[int, str, bytes]


def mutated(raw: bytes, mutations: Iterable[Mutation]) -> bytes:
    """Bytes with some of them changed, cut off, left out, put in or said twice."""
    found = bytearray(raw)
    for place, kind, extra in mutations:
        place %= len(found) + 1
        if kind == "cut":
            del found[place:]
        elif kind == "drop":
            del found[place : place + 1 + len(extra)]
        elif kind == "insert":
            found[place:place] = extra
        elif kind == "repeat":
            found[place:place] = found[place : place + 64]
        elif place < len(found):
            found[place] ^= 1 << len(extra) % 8
    return bytes(found)


def reader_of(form: str) -> RowsReader:
    """A reader of the streams that are mutated."""
    return RowsReader(TableReader("regression", Parts(units=3)), form, Columns(("y",)))


def read(form: str, raw: bytes) -> str:
    """What comes of a stream: "read", or "refused" at a row; an AssertionError where it is neither."""
    reader, outcome = reader_of(form), "read"
    try:
        reader.take(raw)
        reader.finish()
    except BadItem as error:
        if f"row {reader.line + 1}: " not in str(error):
            raise AssertionError(f"{error!r} does not say where") from error
        outcome = "refused"
    if reader.begun and not all(np.isfinite(np.asarray(leaf)).all() for leaf in jax.tree.leaves(reader.state)):
        raise AssertionError("a number is not finite")
    return outcome


def same(one: Any, other: Any) -> bool:
    """Whether two checkpoints say the same, bit for bit."""
    return (one.learner, one.notes) == (other.learner, other.notes) and same_bits(one.state, other.state)


def loaded(path: Path, whole: Any) -> str:
    """What comes of a checkpoint: "refused" by its name, or "the same"; an AssertionError where it is neither."""
    try:
        found = checkpoint.load(path)
    except ValueError as error:
        if not str(error).startswith(f"{path}: "):
            raise AssertionError(f"{error!r} does not say which file") from error
        return "refused"
    if not same(found, whole):
        raise AssertionError("a checkpoint was accepted that is not what was saved")
    return "the same"


def some(draws: random.Random) -> list[Mutation]:
    """One to three mutations."""
    count = draws.randint(1, 3)
    return [(draws.randrange(1 << 30), draws.choice(KINDS), draws.randbytes(draws.randrange(5))) for _ in range(count)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    draws, outcomes, slowest = random.Random(chosen.seed), collections.Counter[str](), 0.0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.nbt"
        reader = reader_of("csv")
        reader.take(STREAMS["csv"])
        checkpoint.save(path, reader.learner, reader.state, as_json(reader.notes()))
        raw, whole = path.read_bytes(), checkpoint.load(path)
        for i in range(chosen.count):
            start = time.monotonic()
            path.write_bytes(mutated(raw, some(draws)))
            outcomes[f"checkpoint {loaded(path, whole)}"] += 1
            form = ("csv", "jsonl")[i % 2]
            outcomes[f"stream {read(form, mutated(STREAMS[form], some(draws)))}"] += 1
            slowest = max(slowest, time.monotonic() - start)
    if slowest > SLOW:
        raise AssertionError(f"one took {slowest:.1f} seconds")
    sys.stdout.write(json.dumps({**outcomes, "slowest_seconds": round(slowest, 3)}) + "\n")


if __name__ == "__main__":
    main()
