"""The report as one HTML page that stands alone."""

from __future__ import annotations

import base64
import html
from pathlib import Path

from nobacktrack.experiments.paper.claims.judging import FAILS, HOLDS, OPEN, PARTLY, Verdict
from nobacktrack.experiments.paper.manifest import Manifest
from nobacktrack.experiments.paper.results import Panel
from nobacktrack.experiments.paper.tables import READINGS, counts_of, levels_of, name_of, rows_of, settings_of, summary


def page(panels: list[Panel], found: list[Verdict], manifest: Manifest, seeds: int, out: Path) -> str:
    """One HTML page with all in it."""
    body = [
        "<h1>Training recurrent networks online without backtracking: the experiments, run again</h1>",
        f"<p>{html.escape(summary(panels, manifest, seeds))}</p>",
        "<p>Bits per character over the last tenth of what was read, or over all: mean over seeds (standard error). "
        "Thick curves have the settings of the paper, thin ones and rows in italics are ours; bands are one standard "
        "deviation.</p>",
        "<ul>" + "".join(f"<li>{html.escape(text)}" for text in READINGS) + "</ul>",
        f"<p>Of {len(found)} sentences of the paper {counts_of(found)}.</p>",
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
    note = f"<br>{html.escape(verdict.note)}" if verdict.note else ""
    return (
        f"<div class=claim>{_badge(verdict)} "
        f"<b>{html.escape(verdict.claim)}</b><br>{html.escape(verdict.found)}{note}<br><small>Rule: "
        f"{html.escape(verdict.rule)}</small></div>"
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
        f"<tr class=line><td>{html.escape(name_of(line))}<td colspan=5><td>{'<td>'.join(levels_of(line))}<td>"
        for line in panel.lines.values()
    )
    return f"<table>{head}{methods}{lines}</table>"


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
