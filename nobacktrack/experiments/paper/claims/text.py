"""What the paper says of its sixth figure, on Shakespeare."""

from __future__ import annotations

from nobacktrack.experiments.paper.claims.judging import (
    BPTT,
    COMPARABLE,
    Panels,
    Verdict,
    in_paper,
    judges,
    last_of,
    lasts,
    tree,
    whether,
)


@judges("fig6")
def _alike(panels: Panels) -> Verdict:
    panel = panels["fig6"]
    names = in_paper(panel)
    ends = [last_of(panel, name, "characters").rank for name in names]
    passes = panel.outcomes[BPTT].budget.time / panel.lines["gzip"].characters
    return Verdict(
        "fig6",
        "On Shakespeare RTRL, truncated BPTT and Kalman NoBackTrack of all ranks have a similar performance.",
        f"They end within {COMPARABLE} bits of each other over the last tenth of the same characters.",
        whether([max(ends) - min(ends) <= COMPARABLE]),
        f"From the best to the worst: {max(ends) - min(ends):.3f} bits. Same characters: {lasts(panel, names)}. Same "
        f"time: {lasts(panel, names, 'time')}.",
        "In the same time the methods end in different passages, some of which are harder: those numbers are not "
        f"judged by. {BPTT} reads the text {passes:.1f} times.",
    )


@judges("fig6")
def _trees_ahead(panels: Panels) -> Verdict:
    panel = panels["fig6"]
    found = {name: last_of(panel, name, "characters") for name in panel.outcomes}
    best = min(found, key=lambda name: found[name].rank)
    line = tree(panel)
    return Verdict(
        "fig6",
        "Context tree weighting is significantly ahead of all RNN algorithms on Shakespeare.",
        f"The best method is more than {COMPARABLE} bits above CTW, over the last tenth of the same characters.",
        whether([found[best].rank > line.last + COMPARABLE]),
        f"{best}: {found[best]}; {line.name}: {line.last:.3f}.",
    )
