"""Speed, as ratios in one run: both engines and what others offer, a block of each in turn."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

import nobacktrack as nbt

from ..engines import begin
from ..streams.items import Series
from . import peers

SIZES = ((20, 3), (20, 80), (128, 3), (128, 80), (512, 3), (512, 80), (1024, 3), (1024, 80))
SECONDS = 0.3  # of each block
PASSES = 8  # over dim theta, a step: theta, w and the two arrays of J, read and written
SELDOM = 4  # J may also be written every so many steps only


class Row(NamedTuple):
    """One contender at one size: microseconds a character, the median of the rounds, and from where to where."""

    units: int
    symbols: int
    parameters: int
    contender: str
    median: float
    least: float
    most: float

    @property
    def per_parameter(self) -> float:
        """Nanoseconds a character and a parameter."""
        return 1e3 * self.median / self.parameters


def learner_of(units: int, symbols: int, rank: int, every: int = 1) -> nbt.Learner:
    """What is measured of ours: a leaky RNN, NoBackTrack, a Kalman step at every character."""
    update = nbt.Kalman(every=every)
    return nbt.Learner(nbt.LeakyRNN(units=units, symbols=symbols), nbt.NoBackTrack(rank=rank), update)


def ours(engine: str, units: int, symbols: int, rank: int, every: int = 1) -> peers.Contender:
    """An engine of ours, on blocks."""
    learner = learner_of(units, symbols, rank, every)
    session = begin(learner, learner.init(0), engine, strict=True)
    return lambda stream: session.take(Series(stream))


def ours_live(units: int, symbols: int) -> peers.Contender:
    """One `observe` and one `advance` a character, called from Python."""
    live = nbt.Live(learner_of(units, symbols, 1))

    def train(stream: np.ndarray) -> None:
        for y in stream.tolist():
            live.observe(y)
            live.advance(y)

    return train


def contests(units: int, symbols: int, ranks: tuple[int, ...]) -> Iterator[tuple[str, Callable[[], peers.Contender]]]:
    """All that is run at one size."""
    for rank in ranks:
        yield f"fused, rank {rank}", lambda rank=rank: ours("fused", units, symbols, rank)
        yield f"jax, rank {rank}", lambda rank=rank: ours("jax", units, symbols, rank)
    yield f"fused, rank 1, every={SELDOM}", lambda: ours("fused", units, symbols, 1, SELDOM)
    yield "fused, live", lambda: ours_live(units, symbols)
    if peers.installed("torch"):
        yield "PyTorch BPTT(15), SGD", lambda: peers.torch_bptt(units, symbols)
        yield "PyTorch LSTM BPTT(15), Adam", lambda: peers.torch_bptt(units, symbols, cell="LSTM", optimiser="Adam")
    if peers.installed("braintrace") and symbols == SIZES[0][1] and units <= 128:
        for algorithm in ("UORO", "D_RTRL"):
            for live in (True, False):
                name = f"braintrace {algorithm}, {'live' if live else 'blocks'}"
                yield name, lambda algorithm=algorithm, live=live: peers.braintrace(algorithm, units, symbols, live)


def measured(units: int, symbols: int, ranks: tuple[int, ...], rounds: int, say: Callable[[str], Any]) -> list[Row]:
    """All contenders at one size, a block of each in turn, `rounds` times."""
    stream = np.random.default_rng(0).integers(0, symbols, 200_000).astype(np.int32)
    runs: dict[str, tuple[peers.Contender, np.ndarray]] = {}
    for name, make in contests(units, symbols, ranks):
        say(f"{units} units, {symbols} symbols: {name}")
        train = make()
        runs[name] = train, stream[: fitting(train, stream)]
    times: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(rounds):
        say(f"{units} units, {symbols} symbols: round {turn + 1} of {rounds}")
        for name, (train, block) in runs.items():
            times[name].append(seconds(train, block) / len(block) * 1e6)
    parameters = units * (1 + units + symbols)
    return [
        Row(units, symbols, parameters, name, float(np.median(found)), min(found), max(found))
        for name, found in times.items()
    ]


def fitting(train: peers.Contender, stream: np.ndarray, wanted: float = SECONDS) -> int:
    """How many characters take about so many seconds, once all is compiled."""
    count = 64
    for _ in range(3):
        train(stream[:count])
    while (took := seconds(train, stream[:count])) < wanted / 2 and count < len(stream):
        count = min(len(stream), math.ceil(count * min(8, wanted / max(took, 1e-6))))
        train(stream[:count])  # a new length may compile
    return count


def seconds(train: peers.Contender, block: np.ndarray) -> float:
    began = time.perf_counter()
    train(block)
    return time.perf_counter() - began


def copy_bandwidth(numbers: int, rounds: int = 20) -> float:
    """Bytes read and written a second, by a copy of half of so many float32 numbers onto the other half."""
    source, target = np.ones(numbers // 2, np.float32), np.zeros(numbers // 2, np.float32)
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        np.copyto(target, source)
        times.append(time.perf_counter() - began)
    return 2 * source.nbytes / float(np.median(times))


def bandwidths(rows: list[Row]) -> list[dict[str, float]]:
    """What the fused engine moves a second, at least, against a copy of the same working set."""
    found = []
    for row in rows:
        if row.contender != "fused, rank 1":
            continue
        moved = PASSES * 4 * row.parameters / (row.median * 1e-6)
        copied = copy_bandwidth(4 * row.parameters)
        found.append(
            {"units": row.units, "symbols": row.symbols, "moved": moved, "copied": copied, "share": moved / copied}
        )
    return found


def bare_call(rounds: int = 20_000) -> float:
    """Microseconds of a call of a compiled function that does nothing, for comparison with a live step."""
    import numba

    function, array = numba.njit(lambda array: array[0]), np.zeros(1)
    function(array)
    began = time.perf_counter()
    for _ in range(rounds):
        function(array)
    return (time.perf_counter() - began) / rounds * 1e6


def report(rows: list[Row], moved: list[dict[str, float]], bare: float, console: Console) -> None:
    """The tables."""
    for units, symbols in dict.fromkeys((row.units, row.symbols) for row in rows):
        here = [row for row in rows if (row.units, row.symbols) == (units, symbols)]
        best = here[0].median
        table = Table(title=f"{units} units, {symbols} symbols, {here[0].parameters} parameters", title_justify="left")
        for name in ("", "us / character", "least", "most", "ns / character / parameter", "x the first"):
            table.add_column(name, justify="left" if not name else "right", no_wrap=True)
        for row in here:
            numbers = [f"{x:.4g}" for x in (row.median, row.least, row.most, row.per_parameter)]
            table.add_row(row.contender, *numbers, f"{row.median / best:.3g}")
        console.print(table)
    for found in moved:
        console.print(
            f"{found['units']} units, {found['symbols']} symbols: {found['moved'] / 1e9:.1f} GB/s moved by the fused "
            f"engine ({PASSES} passes), {found['copied'] / 1e9:.1f} GB/s by a copy of the same working set: "
            f"{100 * found['share']:.0f} %",
            highlight=False,
        )
    console.print(f"A call of a compiled function that does nothing: {bare:.2f} us", highlight=False)
    for name in ("torch", "braintrace"):
        if not peers.installed(name):
            console.print(f"{name} is not installed: left out", highlight=False)
