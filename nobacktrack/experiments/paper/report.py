"""The report: for each figure a PNG, an SVG and its numbers as CSV and JSON; one page that stands alone."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from nobacktrack import files
from nobacktrack.experiments.paper import drawing
from nobacktrack.experiments.paper.claims import Verdict, verdicts
from nobacktrack.experiments.paper.manifest import Manifest
from nobacktrack.experiments.paper.markdown import markdown
from nobacktrack.experiments.paper.page import page
from nobacktrack.experiments.paper.results import Outcome, Panel

PAGE = "index.html"


def write(panels: list[Panel], manifest: Manifest, seeds: int, out: Path) -> Path:
    """Write everything, the page last: its path."""
    found = verdicts({panel.figure.name: panel for panel in panels})
    for panel in panels:
        drawing.draw(panel, out)
        mine = [verdict for verdict in found if verdict.figure == panel.figure.name]
        files.write(out / f"{panel.figure.name}.csv", table_of_curves(panel))
        files.write(out / f"{panel.figure.name}.json", json.dumps(as_json(panel, mine, seeds), indent=1))
    files.write(out / "report.md", markdown(panels, found, manifest, seeds))
    files.write(out / PAGE, page(panels, found, manifest, seeds, out))
    return out / PAGE


def table_of_curves(panel: Panel) -> str:
    """All curves: a line for each method, budget, seed and mark."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["method", "budget", "seed", "characters", "bits_all", "bits_last_tenth"])
    for name, outcome in panel.outcomes.items():
        for budget in ("time", "characters"):
            curves = getattr(outcome, budget)
            for seed, (mean, recent) in enumerate(zip(curves.mean, curves.recent, strict=True)):
                for mark, *bits in zip(curves.marks, mean, recent, strict=True):
                    rows.writerow([name, budget, seed, mark, *(f"{each:.6f}" for each in bits)])
    return text.getvalue()


def as_json(panel: Panel, found: list[Verdict], seeds: int) -> dict[str, Any]:
    """Settings, what each method came to, what others pay, and the verdicts."""
    learners = {method.name: repr(method.learner) for method in panel.figure.methods}
    return {
        "figure": panel.figure.name,
        "title": panel.figure.title,
        "stream": panel.figure.source.title,
        "seeds": list(range(seeds)),
        "seconds": panel.seconds,
        "methods": {name: {"learner": learners[name], **_numbers(each)} for name, each in panel.outcomes.items()},
        "lines": {line.name: {"all": line.mean, "last_tenth": _plain(line.last)} for line in panel.lines.values()},
        "verdicts": [verdict._asdict() for verdict in found],
    }


def _numbers(outcome: Outcome) -> dict[str, Any]:
    budgets = {
        budget: {
            "characters": getattr(outcome.budget, budget),
            "last_tenth": [_plain(bits) for bits in getattr(outcome, budget).recent[:, -1]],
            "all": [_plain(bits) for bits in getattr(outcome, budget).mean[:, -1]],
        }
        for budget in ("time", "characters")
    }
    rest = {"microseconds": outcome.microseconds, "not_finite": outcome.diverged, "blocks": outcome.blocks}
    return {f"same_{name}": value for name, value in budgets.items()} | rest


def _plain(number: float) -> float | None:
    """JSON has no NaN."""
    return float(number) if np.isfinite(number) else None
