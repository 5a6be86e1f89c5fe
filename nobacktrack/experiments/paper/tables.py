"""What the pages of a report share: the rows of its tables, and what was run."""

from __future__ import annotations

import numpy as np

from nobacktrack.experiments.paper.claims.judging import FAILS, HOLDS, OPEN, PARTLY, Verdict
from nobacktrack.experiments.paper.manifest import Manifest
from nobacktrack.experiments.paper.measures import last
from nobacktrack.experiments.paper.results import Outcome, Panel
from nobacktrack.experiments.paper.runs import Line


def rows_of(panel: Panel) -> list[list[str]]:
    """A row for each method, as text."""
    return [[name, *_cells(outcome)] for name, outcome in panel.outcomes.items()]


def _cells(outcome: Outcome) -> list[str]:
    cells = [f"{outcome.microseconds:.2f}"]
    for budget in ("time", "characters"):
        curves = getattr(outcome, budget)
        whole = curves.mean[np.isfinite(curves.mean[:, -1]), -1]
        cells += [
            f"{getattr(outcome.budget, budget):,}",
            str(last(curves)),
            f"{whole.mean():.3f}" if len(whole) else "-",
        ]
    return [*cells, str(outcome.diverged)]


def levels_of(line: Line) -> tuple[str, str]:
    """What another method pays over the last tenth and over all, as text."""
    return (f"{line.last:.3f}" if np.isfinite(line.last) else "-"), f"{line.mean:.3f}"


def name_of(line: Line) -> str:
    """Another method, with what it has read; an entropy needs no reading."""
    return line.name if line.name.startswith("entropy") else f"{line.name} ({line.characters:,} characters)"


def settings_of(panel: Panel) -> list[str]:
    """The learner of each method, as it is written in Python."""
    return [f"{method.name}: {method.learner}" for method in panel.figure.methods]


READINGS = (
    "All methods run in the same compiled loops, one core each, and have the time that Kalman NoBackTrack of rank 1 "
    "takes for the characters of the other column.",
    "All seeds read the same stream, as in the paper; a seed makes the first weights and the signs, and is the same "
    "for all methods. Standard errors are over seeds.",
    "The learning rate 1 of the third figure is read as the decay 1/√t. The paper's loss is in bits, ours in nats: "
    "its rate 1/√t is 1.44/√t in our units, and the outer products of its Kalman version weigh 2.08 times as much.",
    "The music is SynthMusic-1, since the generator of the paper is not public.",
)


def counts_of(found: list[Verdict]) -> str:
    """How many sentences hold, and how many do not."""
    words = {HOLDS: "hold", PARTLY: "hold in part", FAILS: "do not hold here", OPEN: "are not decided"}
    counts = {word: sum(each.verdict == verdict for each in found) for verdict, word in words.items()}
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count)


def summary(panels: list[Panel], manifest: Manifest, seeds: int) -> str:
    """What was run, on what, and how long it took."""
    machine = manifest.content["machine"]
    minutes = manifest.content.get("spent", 0) / 60
    short = (
        " Such short runs cannot settle every sentence: that takes --full."
        if manifest.content["scale"] == "quick"
        else ""
    )
    return (
        f"{manifest.content['scale'].capitalize()} run: {len(panels)} figure{'s' * (len(panels) > 1)}, seeds 0 to "
        f"{seeds - 1}, {minutes:.1f} minutes of training on {machine['cores']} cores ({machine['processor']}); Python "
        f"{machine['python']}, nobacktrack {machine['nobacktrack']}, numba {machine['numba']}, numpy "
        f"{machine['numpy']}, jax {machine['jax']}.{short}"
    )
