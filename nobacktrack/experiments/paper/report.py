"""The report: for each figure a PNG, an SVG, its numbers as CSV and JSON, and one page that stands alone."""

from __future__ import annotations

import base64
import csv
import html
import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from nobacktrack import files
from nobacktrack.experiments.paper import drawing
from nobacktrack.experiments.paper.claims import FAILS, HOLDS, OPEN, PARTLY, Verdict, last, verdicts
from nobacktrack.experiments.paper.manifest import Manifest
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


def settings_of(panel: Panel) -> list[str]:
    """The learner of each method, as it is written in Python."""
    return [f"{method.name}: {method.learner}" for method in panel.figure.methods]


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
        f"{manifest.content['scale']} run: {len(panels)} figures, seeds 0 to {seeds - 1}, {minutes:.1f} minutes of "
        f"training on {machine['cores']} cores ({machine['processor']}); Python {machine['python']}, nobacktrack "
        f"{machine['nobacktrack']}, numba {machine['numba']}, numpy {machine['numpy']}, jax {machine['jax']}.{short}"
    )


def page(panels: list[Panel], found: list[Verdict], manifest: Manifest, seeds: int, out: Path) -> str:
    """One HTML page with all in it."""
    counts = ", ".join(
        f"{sum(each.verdict == verdict for each in found)} {verdict}" for verdict in (HOLDS, PARTLY, FAILS, OPEN)
    )
    body = [
        "<h1>Training recurrent networks online without backtracking: the experiments, run again</h1>",
        f"<p>{html.escape(summary(panels, manifest, seeds))}</p>",
        "<p>Bits per character: mean over seeds (standard error). Thick curves have the paper's settings, thin ones "
        "are ours; bands are one standard deviation. All methods run in the same compiled loops, one core each. "
        f"Of {len(found)} sentences of the paper: {counts}.</p>",
        _overview(found),
        *(_section(panel, [each for each in found if each.figure == panel.figure.name], out) for panel in panels),
    ]
    head = "<!doctype html>\n<html lang=en><meta charset=utf-8><title>NoBackTrack: the paper's experiments</title>"
    return f"{head}\n<style>{STYLE}</style>\n<body>\n{chr(10).join(body)}\n</body></html>\n"


def _overview(found: list[Verdict]) -> str:
    rows = (
        f"<tr><td><a href='#{each.figure}'>{each.figure}</a><td>{html.escape(each.claim)}<td>{_badge(each)}"
        for each in found
    )
    return "<table class=claims><tr><th>figure<th>the paper says<th>verdict" + "".join(rows) + "</table>"


def _badge(verdict: Verdict) -> str:
    kind = {HOLDS: "yes", PARTLY: "partly", FAILS: "no", OPEN: "open"}[verdict.verdict]
    return f"<span class={kind}>{verdict.verdict}</span>"


def _section(panel: Panel, found: list[Verdict], out: Path) -> str:
    figure = panel.figure
    image = base64.b64encode((out / f"{figure.name}.svg").read_bytes()).decode()
    title = html.escape(f"Figure {figure.name[3:]}. {figure.title}: {figure.source.title}")
    settings = "".join(f"<li><code>{html.escape(text)}</code>" for text in settings_of(panel))
    return (
        f"<h2 id={figure.name}>{title}</h2><img alt='{title}' src='data:image/svg+xml;base64,{image}'>"
        + _table(panel)
        + "".join(_judgement(each) for each in found)
        + f"<details><summary>settings</summary><ul>{settings}</ul></details>"
        f"<p class=files>{figure.name}.png, .svg, .csv, .json lie beside this page.</p>"
    )


def _judgement(verdict: Verdict) -> str:
    why = f"<br>{html.escape(verdict.why)}" if verdict.why and verdict.verdict != HOLDS else ""
    return (
        f"<div class=claim>{_badge(verdict)} <b>{html.escape(verdict.claim)}</b><br>{html.escape(verdict.found)}{why}"
        f"<br><small>Rule: {html.escape(verdict.rule)}</small></div>"
    )


def _table(panel: Panel) -> str:
    ours = {method.name for method in panel.figure.methods if method.ours}
    head = (
        "<tr><th rowspan=2>method<th rowspan=2>µs a<br>character<th colspan=3>the same time"
        "<th colspan=3>the same characters<th rowspan=2>not<br>finite"
        "<tr><th>characters<th>last tenth<th>all<th>characters<th>last tenth<th>all"
    )
    methods = "".join(
        f"<tr{' class=ours' if row[0] in ours else ''}><td>" + "<td>".join(map(html.escape, row))
        for row in rows_of(panel)
    )
    lines = "".join(
        f"<tr class=line><td>{html.escape(line.name)}<td colspan=4><td><td>{_or_dash(line.last)}<td>{line.mean:.3f}<td>"
        for line in panel.lines.values()
    )
    return f"<table>{head}{methods}{lines}</table>"


def _or_dash(number: float) -> str:
    return f"{number:.3f}" if np.isfinite(number) else "-"


STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1060px; margin: 2em auto; padding: 0 1em; color: #222 }
h1 { font-size: 1.5em } h2 { font-size: 1.2em; margin-top: 2.5em }
img { width: 100% }
table { border-collapse: collapse; font-size: 13px; margin: 1em 0 }
td, th { padding: 2px 10px; border-bottom: 1px solid #ddd; text-align: right; font-weight: normal }
th { color: #555; border-bottom: 1px solid #999 }
td:first-child, th:first-child, .claims td, .claims th { text-align: left }
.ours { color: #666; font-style: italic } .line { color: #666 }
.claim { margin: 1em 0; padding-left: 1em; border-left: 3px solid #ddd }
.yes, .partly, .no, .open { white-space: nowrap; padding: 0 6px; border-radius: 3px; font-size: 13px }
.yes { background: #d7ecd9 } .partly { background: #fbefc8 } .no { background: #f6d9d4 } .open { background: #e4e4e4 }
code { font-size: 12px } small, .files { color: #666 }
"""
