"""What the paper says of its figures, and whether it holds here: each sentence with its rule and its numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from nobacktrack.experiments.paper.figures import OUR_DECAY, RANKS
from nobacktrack.experiments.paper.measures import ALIKE, RELAPSE, SETTLED, Mean, apart, last, mean_of, relapse
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
_JUDGES: list[tuple[set[str], Judge]] = []


def verdicts(panels: Panels) -> list[Verdict]:
    """The verdicts on all sentences whose figures are there."""
    return [judge(panels) for needed, judge in _JUDGES if needed <= panels.keys()]


def _on(*figures: str) -> Callable[[Judge], Judge]:
    """Register the judge of a sentence, with the figures that it needs."""

    def register(judge: Judge) -> Judge:
        _JUDGES.append((set(figures), judge))
        return judge

    return register


def _whether(cases: Sequence[bool | None]) -> str:
    """Of one thing that is said of several cases; None: of that one it cannot be told."""
    if all(cases):
        return HOLDS
    if any(cases):
        return PARTLY
    return FAILS if any(case is False for case in cases) else OPEN


def _listed(names: Sequence[str], values: Sequence[object]) -> str:
    return "; ".join(
        f"{name.removeprefix('NoBackTrack, ')}: {value}" for name, value in zip(names, values, strict=True)
    )


def _last(panel: Panel, name: str, budget: str) -> Mean:
    return last(getattr(panel.outcomes[name], budget))


def _lasts(panel: Panel, names: Sequence[str], budget: str = "characters") -> str:
    return _listed(names, [_last(panel, name, budget) for name in names])


def _rises(panel: Panel, names: Sequence[str]) -> str:
    return _listed(names, [f"{relapse(panel.outcomes[name]):.3f}" for name in names])


def _paper(panel: Panel) -> list[str]:
    return [method.name for method in panel.figure.methods if not method.ours]


def _tree(panel: Panel) -> Line:
    return next(line for name, line in panel.lines.items() if name.startswith("CTW"))


def _unstable(panel: Panel, names: Sequence[str]) -> list[bool]:
    return [relapse(panel.outcomes[name]) > RELAPSE for name in names]


@_on("fig1")
def _large_rate(panels: Panels) -> Verdict:
    panel = panels["fig1"]
    at_larger = all(_unstable(panel, FASTER[:-1])) and not any(_unstable(panel, FASTER[-1:]))
    verdict = _whether(_unstable(panel, EUCLIDEAN))
    return Verdict(
        "fig1",
        "Euclidean NoBackTrack with the large rate 1/√t shows instabilities, even at higher ranks.",
        f"Every rank is unstable: after {SETTLED:,} characters the loss over the last tenth of some seed rises by "
        f"more than {RELAPSE} bits above what it was, or is not finite; in part: ranks 1 and 10 are with the rate "
        "3/√t, and RTRL is not.",
        PARTLY if verdict == FAILS and at_larger else verdict,
        f"Largest rises: {_rises(panel, [*EUCLIDEAN, 'RTRL'])}; with the rate 3/√t: {_rises(panel, FASTER)}. Same "
        f"characters: {_lasts(panel, [*EUCLIDEAN, 'RTRL', *FASTER])}.",
        "The loss is in bits in the paper and in nats here, so that its rate 1/√t is 1.44/√t here; its music and its "
        "first weights are not public.",
    )


@_on("fig1")
def _slow(panels: Panels) -> Verdict:
    names = [*EUCLIDEAN, "RTRL"]
    cost = [panels["fig1"].outcomes[name].microseconds for name in names]
    ratio = cost[-1] / cost[0]
    return Verdict(
        "fig1",
        "RTRL is roughly 20 times slower with 20 units.",
        "A character costs RTRL between 15 and 27 times what it costs NoBackTrack of rank 1: same loop, one core.",
        _whether([15 <= ratio <= 27]),
        f"{ratio:.1f} times. Microseconds a character: {_listed(names, [f'{each:.2f}' for each in cost])}.",
        "RTRL carries 20 times as many numbers, but in long loops that become vector instructions; those of "
        "NoBackTrack are short at 20 units, and their overhead counts.",
    )


@_on("fig2")
def _small_rate(panels: Panels) -> Verdict:
    outcomes = panels["fig2"].outcomes
    names = [*EUCLIDEAN, "theta held"]
    largest = [apart(outcomes[name], outcomes["RTRL"]) for name in names]
    return Verdict(
        "fig2",
        "With the small rate 0.03/√t, Euclidean NoBackTrack tracks RTRL closely, even with rank two.",
        f"At all marks after {SETTLED:,} characters the mean curve of rank 2 is within {ALIKE} bits of RTRL's.",
        _whether([largest[1] <= ALIKE]),
        f"Largest difference from RTRL: {_listed(names, [f'{value:.1e}' for value in largest])}. Same characters: "
        f"{_lasts(panels['fig2'], [*EUCLIDEAN, 'RTRL', 'theta held'])}.",
        "With theta held at its first value, and phi trained alone, one sees how much of these curves is due to theta.",
    )


@_on("fig1", "fig3")
def _stable(panels: Panels) -> Verdict:
    names, plain = [*KALMAN, "RTRL, Kalman"], [*EUCLIDEAN, *FASTER[:-1]]
    fine = not any(_unstable(panels["fig3"], names))
    needed = any(_unstable(panels["fig1"], plain))
    return Verdict(
        "fig3",
        "The quasi-diagonal Kalman metric fully fixes the instability.",
        f"No Kalman method has a rise of more than {RELAPSE} bits; some rank has one with a plain rate of figure 1.",
        _whether([fine if needed or not fine else None]),
        f"Largest rises with Kalman: {_rises(panels['fig3'], names)}; with plain rates: "
        f"{_rises(panels['fig1'], plain)}.",
        "" if needed else "Nothing was unstable with plain rates, so that there was nothing to fix.",
    )


@_on("fig3")
def _on_par(panels: Panels) -> Verdict:
    panel, names = panels["fig3"], [*KALMAN, "RTRL, Kalman"]
    fits = [
        all(_last(panel, name, budget).rank <= _last(panel, "RTRL, Kalman", budget).rank + ALIKE for name in KALMAN)
        for budget in ("time", "characters")
    ]
    return Verdict(
        "fig3",
        "With Kalman, low ranks are roughly on par with exact gradients.",
        f"No rank ends more than {ALIKE} bits above RTRL: in the same time, as the paper shows it, and over the same "
        "characters.",
        _whether(fits),
        f"Same time: {_lasts(panel, names, 'time')}. Same characters: {_lasts(panel, names)}. With the decay "
        f"{OUR_DECAY:g}/√t, same characters: {_lasts(panel, OUR_KALMAN)}.",
        "Over the same characters the methods differ in the noise of the gradient and in nothing else: the distance "
        "is its price, and the decay sets how far it is averaged out.",
    )


@_on("fig3")
def _no_gain(panels: Panels) -> Verdict:
    panel = panels["fig3"]
    gains = {
        budget: _last(panel, KALMAN[0], budget).value - min(_last(panel, name, budget).rank for name in KALMAN[1:])
        for budget in ("time", "characters")
    }
    return Verdict(
        "fig3",
        "There is no obvious gain in higher ranks.",
        f"Neither rank 2 nor rank 10 ends more than {ALIKE} bits below rank 1: in the same time, and over the same "
        "characters.",
        _whether([gain <= ALIKE for gain in gains.values()]),
        f"The better of them is below rank 1 by {gains['time']:.3f} bits in the same time, and by "
        f"{gains['characters']:.3f} over the same characters.",
        "A higher rank has less noise per character, and takes more time for it.",
    )


@_on("fig3", "fig4")
def _behind_trees(panels: Panels) -> Verdict:
    both = [panels["fig3"], panels["fig4"]]
    found = {name: _last(panel, name, "characters") for panel in both for name in panel.outcomes}
    best = min((name for panel in both for name in _paper(panel)), key=lambda name: found[name].rank)
    overall = min(found, key=lambda name: found[name].rank)
    line = _tree(panels["fig4"])
    passes = panels["fig4"].outcomes[BPTT].budget.characters / line.characters
    return Verdict(
        "fig4",
        "On synthetic music no RNN algorithm matches context tree weighting.",
        "The best method of the paper, over the last tenth of the same characters, is above CTW over the last tenth "
        "of the file.",
        _whether([found[best].rank > line.last]),
        f"{best}: {found[best]}; {line.name}: {line.last:.3f} ({line.mean:.3f} over all of the file). The best of all "
        f"methods here is {overall}: {found[overall]}.",
        f"CTW goes through the file of {line.characters:,} characters once, the networks {passes:g} times, as in the "
        "paper.",
    )


@_on("fig4")
def _bptt_on_music(panels: Panels) -> Verdict:
    panel = panels["fig4"]
    bptt = _last(panel, BPTT, "time")
    others = [_last(panel, name, "time") for name in KALMAN]
    return Verdict(
        "fig4",
        "On synthetic music truncated BPTT performs better than Kalman NoBackTrack, though they are broadly "
        "comparable.",
        "BPTT is below every rank over the last tenth, in the same time (Welch's test, 5 %), by no more than "
        f"{COMPARABLE} bits.",
        _whether([*(bptt.below(other) for other in others), *(bptt.near(other, COMPARABLE) for other in others)]),
        f"Same time: {_lasts(panel, [BPTT, *KALMAN], 'time')}. Same characters: {_lasts(panel, [BPTT, *KALMAN])}. "
        f"With the decay {OUR_DECAY:g}/√t: {_lasts(panel, OUR_KALMAN, 'time')} in the same time, "
        f"{_lasts(panel, OUR_KALMAN)} over the same characters.",
        "BPTT has the plain rate 1/√t, NoBackTrack the Kalman step: the paper notes that they are not directly "
        "comparable.",
    )


@_on("fig4")
def _bptt_and_rtrl(panels: Panels) -> Verdict:
    panel, names = panels["fig4"], ["RTRL", BPTT]
    alike = _last(panel, "RTRL", "characters").near(_last(panel, BPTT, "characters"))
    return Verdict(
        "fig4",
        "RTRL and truncated BPTT are roughly on par on synthetic music, BPTT slightly ahead in the end.",
        f"Over the same characters within {ALIKE} bits of each other; in the same time BPTT is below (Welch's test, 5 "
        "%).",
        _whether([alike, _last(panel, BPTT, "time").below(_last(panel, "RTRL", "time"))]),
        f"Same characters: {_lasts(panel, names)}. Same time: {_lasts(panel, names, 'time')}.",
    )


@_on("fig5")
def _kalman_on_anbn(panels: Panels) -> Verdict:
    panel = panels["fig5"]
    bptt = _last(panel, BPTT, "time")
    verdict, ours = (
        _whether([_last(panel, name, "time").below(bptt) for name in names]) for names in (KALMAN, OUR_KALMAN)
    )
    return Verdict(
        "fig5",
        "On a^n b^n Kalman NoBackTrack clearly outperforms truncated BPTT.",
        "Every rank is below BPTT over the last tenth, in the same time (Welch's test, 5 %); in part: some are, or "
        f"those with the decay {OUR_DECAY:g}/√t.",
        PARTLY if ours == HOLDS and verdict != HOLDS else verdict,
        f"Same time: {_lasts(panel, [BPTT, *KALMAN], 'time')}. Same characters: {_lasts(panel, [BPTT, *KALMAN])}. "
        f"With the decay {OUR_DECAY:g}/√t, by the same rule, it {ours}: {_lasts(panel, OUR_KALMAN, 'time')} in the "
        f"same time, {_lasts(panel, OUR_KALMAN)} over the same characters.",
        "The paper gives the decay as O(1/√t) in its section 2 and as 1/√t here: the constant matters.",
    )


@_on("fig5")
def _bptt_near_independent(panels: Panels) -> Verdict:
    panel = panels["fig5"]
    bptt = _last(panel, BPTT, "time")
    true, independent = (panel.lines[name].mean for name in ("entropy", "entropy of a^n b^p"))
    return Verdict(
        "fig5",
        "Truncated BPTT ends up closer to the entropy of a^n b^p with independent n and p.",
        "Its loss over the last tenth, in the same time, is nearer to that entropy than to the true one.",
        _whether([abs(bptt.value - independent) < abs(bptt.value - true)]),
        f"{BPTT}: {bptt}; entropy {true:.4f}, of a^n b^p {independent:.4f}.",
    )


@_on("fig5")
def _bptt_rises(panels: Panels) -> Verdict:
    curves = panels["fig5"].outcomes[BPTT].time
    half = int(np.argmin(np.abs(curves.marks - curves.marks[-1] / 2)))
    change = mean_of(curves.recent[:, -3:].mean(axis=1) - curves.recent[:, half - 1 : half + 2].mean(axis=1))
    still = Mean(0.0, 0.0, change.seeds)
    up, down = still.below(change), change.below(still)
    return Verdict(
        "fig5",
        "At some point the curve of truncated BPTT no longer decreases, and even goes slightly up.",
        "From the middle of its run to its end (three marks each, over the last tenth) it goes up (Student's test, 5 "
        "%); in part: it does not go down.",
        HOLDS if up else FAILS if down else PARTLY,
        f"Change from {curves.marks[half]:,} to {curves.marks[-1]:,} characters: {change.value:+.4f} "
        f"({change.error:.4f}) bits.",
    )


EXACT = ["RTRL", "RTRL, Kalman"]  # the paper does not say which of them is in its fifth figure


def _leads(panel: Panel, budget: str) -> tuple[list[float], str]:
    """By how many bits each RTRL ends below the best other method of the paper, and where all of them end."""
    others = [name for name in _paper(panel) if name not in EXACT]
    best = min(_last(panel, name, budget).rank for name in others)
    return [best - _last(panel, name, budget).rank for name in EXACT], _lasts(panel, [*EXACT, *others], budget)


@_on("fig5")
def _rtrl_best(panels: Panels) -> Verdict:
    leads, ends = _leads(panels["fig5"], "characters")
    return Verdict(
        "fig5",
        "RTRL outperforms all the algorithms per character.",
        "RTRL is below every other method of the figure over the last tenth of the same characters. The paper does not "
        "say whether it is Euclidean, as in its figures 4 and 6, or with Kalman: both are run.",
        _whether([lead > 0 for lead in leads]),
        f"{ends}. With the decay {OUR_DECAY:g}/√t: {_lasts(panels['fig5'], [f'RTRL, {OURS}', *OUR_KALMAN])}.",
    )


@_on("fig5")
def _rtrl_slow(panels: Panels) -> Verdict:
    leads, ends = _leads(panels["fig5"], "time")
    return Verdict(
        "fig5",
        "RTRL is still penalised by its high complexity.",
        "In the same time some other method of the figure is below RTRL, Euclidean and with Kalman.",
        _whether([lead < 0 for lead in leads]),
        f"Same time: {ends}.",
    )


@_on("fig5")
def _learned(panels: Panels) -> Verdict:
    outcomes = panels["fig5"].outcomes
    shares = {name: each.blocks[0] / each.blocks[1] for name, each in outcomes.items() if each.blocks is not None}
    best = {names[0]: max((shares.get(name, 0.0) for name in names), default=0.0) for names in (KALMAN, OUR_KALMAN)}
    entropy = panels["fig5"].lines["entropy"].mean
    gap = min(_last(panels["fig5"], name, "characters").rank for name in (*KALMAN, *OUR_KALMAN)) - entropy
    return Verdict(
        "fig5",
        "Kalman NoBackTrack mostly learns the dependency, as the output of the learned model shows; a small gap "
        "remains.",
        "Of the blocks that the learners of the best rank generate after their training, at least half have as many "
        f"b as a (independent n and p: 3 %); in part: with the decay {OUR_DECAY:g}/√t alone.",
        HOLDS if best[KALMAN[0]] >= 0.5 else PARTLY if best[OUR_KALMAN[0]] >= 0.5 else FAILS,
        f"Blocks with n_a = n_b: {_listed(list(shares), [f'{share:.0%}' for share in shares.values()])}. The best "
        f"rank is {gap:.3f} bits above the entropy.",
        "A block counts only where n is met exactly.",
    )


@_on("fig5")
def _plain(panels: Panels) -> Verdict:
    panel, names = panels["fig5"], [f"not leaky, RTRL, {OURS}", f"RTRL, {OURS}"]
    independent = panel.lines["entropy of a^n b^p"].mean
    return Verdict(
        "fig5",
        "A standard RNN, without leaks, cannot deal with a^n b^n, whatever the algorithm.",
        "With exact gradients and our update it ends no more than 10 % below the entropy of a^n b^p.",
        _whether([_last(panel, names[0], "characters").rank > 0.9 * independent]),
        f"Same characters: {_lasts(panel, names)}; entropy {panel.lines['entropy'].mean:.4f}, of a^n b^p "
        f"{independent:.4f}.",
    )


@_on("fig5")
def _rescaling(panels: Panels) -> Verdict:
    panel, names = panels["fig5"], [f"NoBackTrack, rank 1, {OURS}", f"not rescaled, rank 1, {OURS}"]
    scaled, plain = (_last(panel, name, "characters") for name in names)
    return Verdict(
        "fig5",
        "Rescaling by rho matters: without it the noise grows (section 2).",
        "Rank 1 with its scales is below rank 1 with rho = 1 over the last tenth of the same characters (Welch's "
        "test, 5 %).",
        _whether([scaled.below(plain)]),
        f"Rescaled: {scaled}; not rescaled: {plain}; both with the decay {OUR_DECAY:g}/√t.",
    )


@_on("fig6")
def _alike(panels: Panels) -> Verdict:
    panel = panels["fig6"]
    names = _paper(panel)
    ends = [_last(panel, name, "characters").rank for name in names]
    passes = panel.outcomes[BPTT].budget.time / panel.lines["gzip"].characters
    return Verdict(
        "fig6",
        "On Shakespeare RTRL, truncated BPTT and Kalman NoBackTrack of all ranks have a similar performance.",
        f"They end within {COMPARABLE} bits of each other over the last tenth of the same characters.",
        _whether([max(ends) - min(ends) <= COMPARABLE]),
        f"From the best to the worst: {max(ends) - min(ends):.3f} bits. Same characters: {_lasts(panel, names)}. Same "
        f"time: {_lasts(panel, names, 'time')}.",
        "In the same time the methods end in different passages, some of which are harder: those numbers are not "
        f"judged by. {BPTT} reads the text {passes:.1f} times.",
    )


@_on("fig6")
def _trees_ahead(panels: Panels) -> Verdict:
    panel = panels["fig6"]
    found = {name: _last(panel, name, "characters") for name in panel.outcomes}
    best = min(found, key=lambda name: found[name].rank)
    line = _tree(panel)
    return Verdict(
        "fig6",
        "Context tree weighting is significantly ahead of all RNN algorithms on Shakespeare.",
        f"The best method is more than {COMPARABLE} bits above CTW, over the last tenth of the same characters.",
        _whether([found[best].rank > line.last + COMPARABLE]),
        f"{best}: {found[best]}; {line.name}: {line.last:.3f}.",
    )
