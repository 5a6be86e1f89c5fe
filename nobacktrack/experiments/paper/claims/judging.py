"""What the paper says of its figures, and whether it holds here: each sentence with its rule and its numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from nobacktrack.experiments.paper.figures import OUR_DECAY, RANKS
from nobacktrack.experiments.paper.measures import RELAPSE, Mean, last, relapse
from nobacktrack.experiments.paper.results import Panel
from nobacktrack.experiments.paper.runs import Line

HOLDS, PARTLY, FAILS, OPEN = "holds", "holds in part", "does not hold here", "not decided"
COMPARABLE = 0.2  # bits: what "broadly comparable" and "similar" are taken to mean
BPTT, OURS = "BPTT(15)", f"Kalman, {OUR_DECAY:g}/√t"
EUCLIDEAN = [f"NoBackTrack, rank {k}" for k in RANKS]
FASTER = ["NoBackTrack, rank 1, 3/√t", "NoBackTrack, rank 10, 3/√t", "RTRL, 3/√t"]
KALMAN = [f"{name}, Kalman" for name in EUCLIDEAN]
OUR_KALMAN = [f"NoBackTrack, rank {k}, {OURS}" for k in (1, 10)]

Panels = dict[str, Panel]


class Verdict(NamedTuple):
    """A sentence of the paper, how it is judged, what was found, and what bears on it."""

    figure: str
    claim: str
    rule: str
    verdict: str
    found: str
    note: str = ""


Judge = Callable[[Panels], Verdict]
JUDGES: list[tuple[set[str], Judge]] = []


def verdicts(panels: Panels) -> list[Verdict]:
    """The verdicts on all sentences whose figures are there, figure by figure."""
    found = [judge(panels) for needed, judge in JUDGES if needed <= panels.keys()]
    return sorted(found, key=lambda verdict: verdict.figure)


def judges(*figures: str) -> Callable[[Judge], Judge]:
    """Register the judge of a sentence, with the figures that it needs."""

    def register(judge: Judge) -> Judge:
        JUDGES.append((set(figures), judge))
        return judge

    return register


def whether(cases: Sequence[bool | None]) -> str:
    """Of one thing that is said of several cases; None: of that one it cannot be told."""
    if all(cases):
        return HOLDS
    if any(cases):
        return PARTLY
    return FAILS if any(case is False for case in cases) else OPEN


def listed(names: Sequence[str], values: Sequence[object]) -> str:
    return "; ".join(
        f"{name.removeprefix('NoBackTrack, ')}: {value}" for name, value in zip(names, values, strict=True)
    )


def last_of(panel: Panel, name: str, budget: str) -> Mean:
    return last(getattr(panel.outcomes[name], budget))


def lasts(panel: Panel, names: Sequence[str], budget: str = "characters") -> str:
    return listed(names, [last_of(panel, name, budget) for name in names])


def rises(panel: Panel, names: Sequence[str]) -> str:
    return listed(names, [f"{relapse(panel.outcomes[name]):.3f}" for name in names])


def in_paper(panel: Panel) -> list[str]:
    return [method.name for method in panel.figure.methods if not method.ours]


def tree(panel: Panel) -> Line:
    return next(line for name, line in panel.lines.items() if name.startswith("CTW"))


def unstable(panel: Panel, names: Sequence[str]) -> list[bool]:
    return [relapse(panel.outcomes[name]) > RELAPSE for name in names]
