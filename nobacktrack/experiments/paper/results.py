"""What the runs of a figure say: curves over seeds, in the same time and over the same characters."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from nobacktrack.experiments.paper import runs
from nobacktrack.experiments.paper.figures import Figure
from nobacktrack.experiments.paper.manifest import Budget, Manifest, marks_to
from nobacktrack.experiments.paper.runs import Job, Line, Result


class Curves(NamedTuple):
    """Bits per character over seeds, at marks: of all characters so far, and of the last tenth of them; NaN where a
    run has diverged.
    """

    marks: np.ndarray
    mean: np.ndarray
    recent: np.ndarray

    @property
    def last(self) -> np.ndarray:
        """Over the last tenth, for each seed that came to the end."""
        return self.recent[np.isfinite(self.recent[:, -1]), -1]


class Outcome(NamedTuple):
    """A method: its curves in the same time and over the same characters, its cost, how many seeds it had and how many
    of them diverged, and what its learners made.
    """

    time: Curves
    characters: Curves
    microseconds: float
    budget: Budget
    seeds: int
    diverged: int
    blocks: tuple[int, int] | None

    @property
    def longest(self) -> Curves:
        """The longer of its two curves."""
        return max(self.time, self.characters, key=lambda curves: curves.marks[-1])


class Panel(NamedTuple):
    """A figure with all that was found."""

    figure: Figure
    outcomes: dict[str, Outcome]
    lines: dict[str, Line]
    seconds: float


def panel(figure: Figure, seeds: int, manifest: Manifest, lines: list[Line], out: Path) -> Panel:
    """The results of a figure, from the files of its runs."""
    outcomes = {}
    for method in figure.methods:
        budget = manifest.budget(figure.source, method.learner)
        found = [runs.finished(Job(figure.source, method.learner, seed, budget), out) for seed in range(seeds)]
        outcomes[method.name] = outcome(
            [each for each in found if each is not None],
            budget,
            manifest.microseconds(figure.source, method.learner),
        )
    seconds = manifest.content["seconds"][figure.source.name]
    return Panel(figure, outcomes, {line.name: line for line in lines}, seconds)


def outcome(found: list[Result], budget: Budget, microseconds: float) -> Outcome:
    made = np.array([each.blocks for each in found if each.blocks is not None], int).reshape(-1, 2).sum(axis=0)
    return Outcome(
        curves(found, budget.time),
        curves(found, budget.characters),
        microseconds,
        budget,
        len(found),
        sum(each.diverged is not None for each in found),
        (int(made[0]), int(made[1])) if made[1] else None,
    )


def curves(found: list[Result], end: int) -> Curves:
    """Curves up to an end, from what the runs had paid at their marks."""
    marks = np.array(marks_to(end))
    paid = np.array(
        [[dict(zip(each.marks, each.bits, strict=True)).get(m, np.nan) for m in marks.tolist()] for each in found]
    )
    recent = np.diff(paid, axis=1, prepend=0) / np.diff(marks, prepend=0)
    return Curves(marks, paid / marks, recent)
