"""The report in Markdown: tables and verdicts, for a page of documentation."""

from __future__ import annotations

from nobacktrack.experiments.paper.claims import Verdict
from nobacktrack.experiments.paper.manifest import Manifest
from nobacktrack.experiments.paper.results import Panel
from nobacktrack.experiments.paper.tables import READINGS, counts_of, levels_of, name_of, rows_of, summary

HEAD = (
    "| method | µs | characters in the same time | last tenth | all | same characters: last tenth | all | not finite |",
    "|---|---:|---:|---:|---:|---:|---:|---:|",
)


def markdown(panels: list[Panel], found: list[Verdict], manifest: Manifest, seeds: int) -> str:
    """What was run, all sentences with their verdicts, and a section for each figure."""
    overview = [f"| {each.figure[3:]} | {each.claim} | {each.verdict} |" for each in found]
    parts = [
        summary(panels, manifest, seeds),
        "\n".join(f"- {text}" for text in READINGS),
        f"Of {len(found)} sentences of the paper {counts_of(found)}.",
        "\n".join(["| figure | the paper says | verdict |", "|---|---|---|", *overview]),
        *(_section(panel, [each for each in found if each.figure == panel.figure.name]) for panel in panels),
    ]
    return "\n\n".join(parts) + "\n"


def _section(panel: Panel, found: list[Verdict]) -> str:
    figure = panel.figure
    characters = next(iter(panel.outcomes.values())).budget.characters
    ours = {method.name for method in figure.methods if method.ours}
    rows = [_row(row, ours) for row in rows_of(panel)]
    lines = [f"| {name_of(line)} | | | | | {' | '.join(levels_of(line))} | |" for line in panel.lines.values()]
    title = f"## Figure {figure.name[3:]}. {figure.title}: {figure.source.title}"
    budgets = f"The same time: {panel.seconds:.3g} s a run. The same characters: {characters:,}."
    image = f"![{figure.title}]({figure.name}.svg)"
    return "\n\n".join([title, image, budgets, "\n".join([*HEAD, *rows, *lines]), *map(_judgement, found)])


def _row(row: list[str], ours: set[str]) -> str:
    name, cost, characters, last, whole, _, same_last, same_whole, ended = row
    shown = f"*{name}*" if name in ours else name
    return "| " + " | ".join((shown, cost, characters, last, whole, same_last, same_whole, ended)) + " |"


def _judgement(verdict: Verdict) -> str:
    note = f" {verdict.note}" if verdict.note else ""
    return f"**{verdict.claim}** *{verdict.verdict.capitalize()}.* {verdict.found}{note} (Rule: {verdict.rule})"
