"""Microseconds that a committee takes, and of what: its network alone, the anchor, and the rest, contexts or forecasts
and mixing; a run of each in turn.

`python benchmarks/committee.py [characters|large|rows]`: a character at each preset of `nobacktrack.readers.presets`,
up to 256 units; the same of 512 units; rows of numbers. By default the first and the last.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import nobacktrack as nbt
from nobacktrack.committee.anchors import still, still_state
from nobacktrack.engines import begin
from nobacktrack.engines.session import Session
from nobacktrack.readers.presets import LADDER, PRESETS, Preset
from nobacktrack.streams.items import Chunk, Series

SYMBOLS, OUTPUTS = (3, 65, 256), (1, 7)
ROUNDS, LEAST_ITEMS, LONGEST = 5, 2000, 0.3  # items of a run: so many, or as many as take so many seconds
WORDS = 2000
LARGE = 512

Runs = dict[str, Callable[[], float]]


def words(symbols: int, length: int) -> np.ndarray:
    """Words of two to eight symbols, some far more common than others."""
    random = np.random.default_rng(0)
    known = [random.integers(0, symbols, size) for size in random.integers(2, 9, WORDS)]
    drawn = (WORDS * random.random(length // 2) ** 3).astype(int)
    return np.concatenate([known[word] for word in drawn])[:length].astype(np.int32)


def rows(width: int, length: int) -> nbt.Pairs:
    """Each row of some random walks after the one before."""
    walks = np.cumsum(np.random.default_rng(0).normal(size=(length + 1, width)), axis=0)
    return nbt.Pairs(walks[:-1], walks[1:])


def parts_of(committee: nbt.Committee) -> dict[str, Session]:
    """A committee of one network, its network and its anchor, each at work by itself."""
    (network,) = committee.learners
    state = network.init(0)
    return {
        "committee": begin(committee, committee.init(0)),
        "network": begin(network, state, "fused", strict=True),
        "anchor": begin(still(network), still_state(network, state), "fused", strict=True),
    }


def by_chunks(session: Session, stream: Callable[[int], Chunk]) -> Callable[[], float]:
    """Seconds an item of a run by chunks, after a first run that shows how long it may be."""
    first = stream(LEAST_ITEMS)
    session.take(first)
    each = seconds(lambda: session.take(first)) / LEAST_ITEMS
    count = max(LEAST_ITEMS, int(LONGEST / each) // LEAST_ITEMS * LEAST_ITEMS)
    chunk = stream(count)
    return lambda: seconds(lambda: session.take(chunk)) / count


def by_steps(learner: Any, stream: nbt.Pairs) -> Callable[[], float]:
    """Seconds an item of a run of verbs, called one by one from Python."""
    live = nbt.Live(learner)

    def run() -> None:
        for x, y in zip(stream.x, stream.y, strict=True):  # pyright: ignore[reportArgumentType]
            live.advance(x)
            live.predict()
            live.observe(y)

    run()
    return lambda: seconds(run) / len(stream.x)


def seconds(run: Callable[[], Any]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def medians(runs: Runs) -> dict[str, float]:
    """Microseconds of each: the median over the rounds, and what is left of the committee for the rest."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, run in runs.items():
            times[name].append(run() * 1e6)
    found = {name: float(np.median(each)) for name, each in times.items()}
    return found | {"rest": found["committee"] - found["network"] - found["anchor"]}


def characters(preset: Preset, symbols: int) -> dict[str, float]:
    """A character of a preset."""
    sessions = parts_of(preset.learner(symbols=symbols))
    stream = lambda count: Series(words(symbols, count))  # noqa: E731
    return medians({name: by_chunks(session, stream) for name, session in sessions.items()})


def committee_on_rows(width: int) -> nbt.Committee:
    """What `nobacktrack train` takes for rows."""
    network = nbt.Learner(nbt.LSTM(units=32, inputs=width, outputs=width), nbt.BlockNoBackTrack(), nbt.Kalman())
    return nbt.Committee((network,))


def numbers(width: int) -> Iterator[tuple[str, dict[str, float]]]:
    """A row of numbers, by chunks and step by step."""
    committee = committee_on_rows(width)
    stream = lambda count: rows(width, count)  # noqa: E731
    yield "chunks", medians({name: by_chunks(own, stream) for name, own in parts_of(committee).items()})
    (network,) = committee.learners
    learners = {"committee": committee, "network": network, "anchor": still(network)}
    yield "steps", medians({name: by_steps(learner, stream(LEAST_ITEMS)) for name, learner in learners.items()})


def presets(large: bool) -> list[Preset]:
    """All presets that a budget chooses from."""
    every = [*(preset for _, _, preset in LADDER), PRESETS["symbols"]]
    return [preset for preset in every if (preset.units >= LARGE) == large]


def table_of_characters(large: bool) -> Table:
    """A row for each preset and alphabet."""
    table = Table("network", "symbols", *NAMES, title="us a character")
    for preset in presets(large):
        for symbols in SYMBOLS:
            found = characters(preset, symbols)
            name = f"{preset.cell} {preset.units}, {preset.estimator}"
            table.add_row(name, str(symbols), *(f"{found[name]:.3g}" for name in NAMES))
    return table


def table_of_rows() -> Table:
    """A row for each number of columns and each way to read them."""
    table = Table("columns", "by", *NAMES, title="us a row, an LSTM of 32 units, block")
    for width in OUTPUTS:
        for way, found in numbers(width):
            table.add_row(str(width), way, *(f"{found[name]:.3g}" for name in NAMES))
    return table


NAMES = "committee", "network", "anchor", "rest"
TABLES: dict[str, Callable[[], Table]] = {
    "characters": lambda: table_of_characters(large=False),
    "large": lambda: table_of_characters(large=True),
    "rows": table_of_rows,
}


def main(*asked: str) -> None:
    for name in asked or ("characters", "rows"):
        Console(width=120).print(TABLES[name]())


if __name__ == "__main__":
    main(*sys.argv[1:])
