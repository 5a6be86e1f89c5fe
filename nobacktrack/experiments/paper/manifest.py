"""How far each method goes: speeds are measured once, turned into numbers of characters, and kept, so that runs can be
repeated and continued exactly.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numba
import numpy as np

import nobacktrack as nbt
from nobacktrack import files
from nobacktrack.engines import begin
from nobacktrack.experiments import bench
from nobacktrack.experiments.paper.figures import FigureStream, learners_on
from nobacktrack.streams.items import Series

FORMAT = 1
ROUNDS, SECONDS = 5, 0.06
LEAST_MARK = 100
VERSIONS = ("nobacktrack", "numba", "numpy", "jax")


class Scale(NamedTuple):
    """How much is run: so many characters of each stream, and seeds."""

    name: str
    characters: dict[str, int]
    seeds: int


QUICK = Scale("quick", {"music": 200_000, "anbn": 300_000, "shakespeare": 200_000}, 3)
FULL = Scale("full", {"music": 1_000_000, "anbn": 1_000_000, "shakespeare": 5_662_716}, 6)


class Budget(NamedTuple):
    """How far a method goes: `time` characters in the time that all have, `characters` as all."""

    time: int
    characters: int

    @property
    def longest(self) -> int:
        return max(self)

    def marks(self) -> list[int]:
        """Where a run notes what it has paid: each 9/10 of the next, so that between two of them lies a tenth."""
        return sorted({*marks_to(self.time), *marks_to(self.characters)})


def marks_to(end: int) -> list[int]:
    """end, 0.9 end, 0.81 end, ... as integers, the least first."""
    count = int(np.log(end / LEAST_MARK) / np.log(10 / 9)) + 1
    return sorted({round(end * 0.9**k) for k in range(count)})


class Manifest:
    """What a folder of runs was made with: it is made once, then read; `budgets` is the manifest of another run, to go
    as far as that one.
    """

    def __init__(self, out: Path, scale: Scale, budgets: Path | None = None):
        self.path = out / "manifest.json"
        self.content: dict[str, Any] = {
            "format": FORMAT,
            "scale": scale.name,
            "characters": scale.characters,
            "machine": machine(),
            "calibrated_on": machine(),
            "seconds": {},
            "microseconds": {},
            "spent": 0.0,
        }
        if budgets is not None:
            other = _checked(budgets, scale)
            self.content |= {name: other[name] for name in ("calibrated_on", "seconds", "microseconds")}
        if self.path.exists():
            self._continue(_checked(self.path, scale), budgets is not None)

    def _continue(self, found: dict[str, Any], given: bool) -> None:
        """Go on with what is in the folder, if it was made by the same versions, and as far as is asked."""
        versions = {name: (found["machine"].get(name), self.content["machine"][name]) for name in VERSIONS}
        for name, (then, now) in versions.items():
            if then != now:
                raise ValueError(f"{self.path}: made with {name} {then}, this is {now}; choose another folder")
        if given and any(found[name] != self.content[name] for name in ("seconds", "microseconds")):
            raise ValueError(f"{self.path}: the runs of this folder go as far as another manifest says")
        self.content = found

    def write(self) -> None:
        files.write(self.path, json.dumps(self.content, indent=1))

    def spend(self, seconds: float) -> None:
        """Add to the time that the runs of this folder have taken."""
        self.content["spent"] = round(self.content["spent"] + seconds, 1)
        self.write()

    def calibrate(self, source: FigureStream, stream: np.ndarray, say: Callable[[str], Any]) -> None:
        """Measure the speeds of all methods on a stream, in turn, but for those that are known."""
        known = self.content["microseconds"].setdefault(source.name, {})
        kinds = {kind(learner): learner for learner in learners_on(source) if kind(learner) not in known}
        if not kinds:
            return
        known |= _speeds(kinds, stream, lambda name: say(f"{source.title}, {name}"))
        seconds = self.content["characters"][source.name] * known[kind(reference_on(source))] / 1e6
        self.content["seconds"].setdefault(source.name, seconds)
        self.write()

    def microseconds(self, source: FigureStream, learner: nbt.Learner) -> float:
        """What a character costs a method."""
        return self.content["microseconds"][source.name][kind(learner)]

    def budget(self, source: FigureStream, learner: nbt.Learner) -> Budget:
        """How far a method goes on a stream."""
        seconds = self.content["seconds"][source.name]
        return Budget(
            round(seconds / self.microseconds(source, learner) * 1e6), self.content["characters"][source.name]
        )


def _checked(path: Path, scale: Scale) -> dict[str, Any]:
    """The content of a manifest; a ValueError where it is not of a run of this kind."""
    try:
        found = json.loads(path.read_text())
        kind_of_run = found["format"], found["scale"], found["characters"]
        whole = all(isinstance(found[name], dict) for name in ("machine", "calibrated_on", "seconds", "microseconds"))
    except (ValueError, KeyError, TypeError):
        whole, kind_of_run, found = False, None, {}
    if not whole:
        raise ValueError(f"{path}: not a manifest, or damaged")
    if kind_of_run != (FORMAT, scale.name, scale.characters):
        raise ValueError(
            f"{path}: of a run of another kind ({found['scale']}, not {scale.name}), or of another version"
        )
    return found


def machine() -> dict[str, Any]:
    """What the speeds belong to."""
    modules = {"nobacktrack": nbt, "numpy": np, "numba": numba, "jax": jax}
    versions = {name: module.__version__ for name, module in modules.items()}
    return {"processor": _processor(), "cores": cores(), "python": platform.python_version(), **versions}


def _processor() -> str:
    """The model of the processor, where the system says it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def kind(learner: nbt.Learner) -> str:
    """What the speed of a learner depends on."""
    return f"{type(learner.system).__name__}, {learner.estimator}, {type(learner.update).__name__}"


def reference_on(source: FigureStream) -> nbt.Learner:
    """The method whose time all have: Kalman NoBackTrack of rank 1."""
    return next(
        learner
        for learner in learners_on(source)
        if isinstance(learner.update, nbt.Kalman) and learner.estimator == nbt.NoBackTrack()
    )


def _speeds(kinds: dict[str, nbt.Learner], stream: np.ndarray, say: Callable[[str], Any]) -> dict[str, float]:
    """Microseconds per character, by the median over rounds in which all have their turn."""
    runs, blocks = {}, {}
    for name, learner in kinds.items():
        say(name)
        session = begin(learner, learner.init(0), "fused", strict=True)
        runs[name] = lambda block, session=session: session.take(Series(block))
        blocks[name] = stream[: bench.fitting(runs[name], stream, SECONDS)]
    times: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(ROUNDS):
        for name, train in runs.items():
            times[name].append(bench.seconds(train, blocks[name]) / len(blocks[name]) * 1e6)
    return {name: round(float(np.median(found)), 3) for name, found in times.items()}
