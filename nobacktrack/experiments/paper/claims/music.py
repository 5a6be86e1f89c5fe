"""What the paper says of its first four figures, on synthetic music."""

from __future__ import annotations

from nobacktrack.experiments.paper.claims.judging import (
    BPTT,
    COMPARABLE,
    EUCLIDEAN,
    FAILS,
    FASTER,
    KALMAN,
    OUR_KALMAN,
    PARTLY,
    Panels,
    Verdict,
    in_paper,
    judges,
    last_of,
    lasts,
    listed,
    rises,
    tree,
    unstable,
    whether,
)
from nobacktrack.experiments.paper.figures import OUR_DECAY
from nobacktrack.experiments.paper.measures import ALIKE, RELAPSE, SETTLED, apart


@judges("fig1")
def _large_rate(panels: Panels) -> Verdict:
    panel = panels["fig1"]
    at_larger = all(unstable(panel, FASTER[:-1])) and not any(unstable(panel, FASTER[-1:]))
    verdict = whether(unstable(panel, EUCLIDEAN))
    return Verdict(
        "fig1",
        "Euclidean NoBackTrack with the large rate 1/√t shows instabilities, even at higher ranks.",
        f"Every rank is unstable: after {SETTLED:,} characters the loss over the last tenth of some seed rises by "
        f"more than {RELAPSE} bits above what it was, or is not finite; in part: ranks 1 and 10 are with the rate "
        "3/√t, and RTRL is not.",
        PARTLY if verdict == FAILS and at_larger else verdict,
        f"Largest rises: {rises(panel, [*EUCLIDEAN, 'RTRL'])}; with the rate 3/√t: {rises(panel, FASTER)}. Same "
        f"characters: {lasts(panel, [*EUCLIDEAN, 'RTRL', *FASTER])}.",
        "The loss is in bits in the paper and in nats here, so that its rate 1/√t is 1.44/√t here; its music and its "
        "first weights are not public.",
    )


@judges("fig1")
def _slow(panels: Panels) -> Verdict:
    names = [*EUCLIDEAN, "RTRL"]
    cost = [panels["fig1"].outcomes[name].microseconds for name in names]
    ratio = cost[-1] / cost[0]
    return Verdict(
        "fig1",
        "RTRL is roughly 20 times slower with 20 units.",
        "A character costs RTRL between 15 and 27 times what it costs NoBackTrack of rank 1: same loop, one core.",
        whether([15 <= ratio <= 27]),
        f"{ratio:.1f} times. Microseconds a character: {listed(names, [f'{each:.2f}' for each in cost])}.",
        "RTRL carries 20 times as many numbers, but in long loops that become vector instructions; those of "
        "NoBackTrack are short at 20 units, and their overhead counts.",
    )


@judges("fig2")
def _small_rate(panels: Panels) -> Verdict:
    outcomes = panels["fig2"].outcomes
    names = [*EUCLIDEAN, "theta held"]
    largest = [apart(outcomes[name], outcomes["RTRL"]) for name in names]
    return Verdict(
        "fig2",
        "With the small rate 0.03/√t, Euclidean NoBackTrack tracks RTRL closely, even with rank two.",
        f"At all marks after {SETTLED:,} characters the mean curve of rank 2 is within {ALIKE} bits of RTRL's.",
        whether([largest[1] <= ALIKE]),
        f"Largest difference from RTRL: {listed(names, [f'{value:.1e}' for value in largest])}. Same characters: "
        f"{lasts(panels['fig2'], [*EUCLIDEAN, 'RTRL', 'theta held'])}.",
        "With theta held at its first value, and phi trained alone, one sees how much of these curves is due to theta.",
    )


@judges("fig1", "fig3")
def _stable(panels: Panels) -> Verdict:
    names, plain = [*KALMAN, "RTRL, Kalman"], [*EUCLIDEAN, *FASTER[:-1]]
    fine = not any(unstable(panels["fig3"], names))
    needed = any(unstable(panels["fig1"], plain))
    return Verdict(
        "fig3",
        "The quasi-diagonal Kalman metric fully fixes the instability.",
        f"No Kalman method has a rise of more than {RELAPSE} bits; some rank has one with a plain rate of figure 1.",
        whether([fine if needed or not fine else None]),
        f"Largest rises with Kalman: {rises(panels['fig3'], names)}; with plain rates: {rises(panels['fig1'], plain)}.",
        "" if needed else "Nothing was unstable with plain rates, so that there was nothing to fix.",
    )


@judges("fig3")
def _on_par(panels: Panels) -> Verdict:
    panel, names = panels["fig3"], [*KALMAN, "RTRL, Kalman"]
    fits = [
        all(last_of(panel, name, budget).rank <= last_of(panel, "RTRL, Kalman", budget).rank + ALIKE for name in KALMAN)
        for budget in ("time", "characters")
    ]
    return Verdict(
        "fig3",
        "With Kalman, low ranks are roughly on par with exact gradients.",
        f"No rank ends more than {ALIKE} bits above RTRL: in the same time, as the paper shows it, and over the same "
        "characters.",
        whether(fits),
        f"Same time: {lasts(panel, names, 'time')}. Same characters: {lasts(panel, names)}. With the decay "
        f"{OUR_DECAY:g}/√t, same characters: {lasts(panel, OUR_KALMAN)}.",
        "Over the same characters the methods differ in the noise of the gradient and in nothing else: the distance "
        "is its price, and the decay sets how far it is averaged out.",
    )


@judges("fig3")
def _no_gain(panels: Panels) -> Verdict:
    panel = panels["fig3"]
    gains = {
        budget: last_of(panel, KALMAN[0], budget).value - min(last_of(panel, name, budget).rank for name in KALMAN[1:])
        for budget in ("time", "characters")
    }
    return Verdict(
        "fig3",
        "There is no obvious gain in higher ranks.",
        f"Neither rank 2 nor rank 10 ends more than {ALIKE} bits below rank 1: in the same time, and over the same "
        "characters.",
        whether([gain <= ALIKE for gain in gains.values()]),
        f"The better of them is below rank 1 by {gains['time']:.3f} bits in the same time, and by "
        f"{gains['characters']:.3f} over the same characters.",
        "A higher rank has less noise per character, and takes more time for it.",
    )


@judges("fig3", "fig4")
def _behind_trees(panels: Panels) -> Verdict:
    both = [panels["fig3"], panels["fig4"]]
    found = {name: last_of(panel, name, "characters") for panel in both for name in panel.outcomes}
    best = min((name for panel in both for name in in_paper(panel)), key=lambda name: found[name].rank)
    overall = min(found, key=lambda name: found[name].rank)
    line = tree(panels["fig4"])
    passes = panels["fig4"].outcomes[BPTT].budget.characters / line.characters
    return Verdict(
        "fig4",
        "On synthetic music no RNN algorithm matches context tree weighting.",
        "The best method of the paper, over the last tenth of the same characters, is above CTW over the last tenth "
        "of the file.",
        whether([found[best].rank > line.last]),
        f"{best}: {found[best]}; {line.name}: {line.last:.3f} ({line.mean:.3f} over all of the file). The best of all "
        f"methods here is {overall}: {found[overall]}.",
        f"CTW goes through the file of {line.characters:,} characters once, the networks {passes:g} times, as in the "
        "paper.",
    )


@judges("fig4")
def _bptt_on_music(panels: Panels) -> Verdict:
    panel = panels["fig4"]
    bptt = last_of(panel, BPTT, "time")
    others = [last_of(panel, name, "time") for name in KALMAN]
    return Verdict(
        "fig4",
        "On synthetic music truncated BPTT performs better than Kalman NoBackTrack, though they are broadly "
        "comparable.",
        "BPTT is below every rank over the last tenth, in the same time (Welch's test, 5 %), by no more than "
        f"{COMPARABLE} bits.",
        whether([*(bptt.below(other) for other in others), *(bptt.near(other, COMPARABLE) for other in others)]),
        f"Same time: {lasts(panel, [BPTT, *KALMAN], 'time')}. Same characters: {lasts(panel, [BPTT, *KALMAN])}. "
        f"With the decay {OUR_DECAY:g}/√t: {lasts(panel, OUR_KALMAN, 'time')} in the same time, "
        f"{lasts(panel, OUR_KALMAN)} over the same characters.",
        "BPTT has the plain rate 1/√t, NoBackTrack the Kalman step: the paper notes that they are not directly "
        "comparable.",
    )


@judges("fig4")
def _bptt_and_rtrl(panels: Panels) -> Verdict:
    panel, names = panels["fig4"], ["RTRL", BPTT]
    alike = last_of(panel, "RTRL", "characters").near(last_of(panel, BPTT, "characters"))
    return Verdict(
        "fig4",
        "RTRL and truncated BPTT are roughly on par on synthetic music, BPTT slightly ahead in the end.",
        f"Over the same characters within {ALIKE} bits of each other; in the same time BPTT is below (Welch's test, 5 "
        "%).",
        whether([alike, last_of(panel, BPTT, "time").below(last_of(panel, "RTRL", "time"))]),
        f"Same characters: {lasts(panel, names)}. Same time: {lasts(panel, names, 'time')}.",
    )
