"""What the paper says of its fifth figure, on a^n b^n."""

from __future__ import annotations

import numpy as np

from nobacktrack.experiments.paper.claims.judging import (
    BPTT,
    FAILS,
    HOLDS,
    KALMAN,
    OUR_KALMAN,
    OURS,
    PARTLY,
    Panels,
    Verdict,
    in_paper,
    judges,
    last_of,
    lasts,
    listed,
    whether,
)
from nobacktrack.experiments.paper.figures import OUR_DECAY
from nobacktrack.experiments.paper.measures import Mean, mean_of
from nobacktrack.experiments.paper.results import Panel


@judges("fig5")
def _kalman_on_anbn(panels: Panels) -> Verdict:
    panel = panels["fig5"]
    bptt = last_of(panel, BPTT, "time")
    verdict, ours = (
        whether([last_of(panel, name, "time").below(bptt) for name in names]) for names in (KALMAN, OUR_KALMAN)
    )
    return Verdict(
        "fig5",
        "On a^n b^n Kalman NoBackTrack clearly outperforms truncated BPTT.",
        "Every rank is below BPTT over the last tenth, in the same time (Welch's test, 5 %); in part: some are, or "
        f"those with the decay {OUR_DECAY:g}/√t.",
        PARTLY if ours == HOLDS and verdict != HOLDS else verdict,
        f"Same time: {lasts(panel, [BPTT, *KALMAN], 'time')}. Same characters: {lasts(panel, [BPTT, *KALMAN])}. "
        f"With the decay {OUR_DECAY:g}/√t, by the same rule, it {ours}: {lasts(panel, OUR_KALMAN, 'time')} in the "
        f"same time, {lasts(panel, OUR_KALMAN)} over the same characters.",
        "The paper gives the decay as O(1/√t) in its section 2 and as 1/√t here: the constant matters.",
    )


@judges("fig5")
def _bptt_near_independent(panels: Panels) -> Verdict:
    panel = panels["fig5"]
    bptt = last_of(panel, BPTT, "time")
    true, independent = (panel.lines[name].mean for name in ("entropy", "entropy of a^n b^p"))
    return Verdict(
        "fig5",
        "Truncated BPTT ends up closer to the entropy of a^n b^p with independent n and p.",
        "Its loss over the last tenth, in the same time, is nearer to that entropy than to the true one.",
        whether([abs(bptt.value - independent) < abs(bptt.value - true)]),
        f"{BPTT}: {bptt}; entropy {true:.4f}, of a^n b^p {independent:.4f}.",
    )


@judges("fig5")
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
    others = [name for name in in_paper(panel) if name not in EXACT]
    best = min(last_of(panel, name, budget).rank for name in others)
    return [best - last_of(panel, name, budget).rank for name in EXACT], lasts(panel, [*EXACT, *others], budget)


@judges("fig5")
def _rtrl_best(panels: Panels) -> Verdict:
    leads, ends = _leads(panels["fig5"], "characters")
    return Verdict(
        "fig5",
        "RTRL outperforms all the algorithms per character.",
        "RTRL is below every other method of the figure over the last tenth of the same characters. The paper does not "
        "say whether it is Euclidean, as in its figures 4 and 6, or with Kalman: both are run.",
        whether([lead > 0 for lead in leads]),
        f"{ends}. With the decay {OUR_DECAY:g}/√t: {lasts(panels['fig5'], [f'RTRL, {OURS}', *OUR_KALMAN])}.",
    )


@judges("fig5")
def _rtrl_slow(panels: Panels) -> Verdict:
    leads, ends = _leads(panels["fig5"], "time")
    return Verdict(
        "fig5",
        "RTRL is still penalised by its high complexity.",
        "In the same time some other method of the figure is below RTRL, Euclidean and with Kalman.",
        whether([lead < 0 for lead in leads]),
        f"Same time: {ends}.",
    )


@judges("fig5")
def _learned(panels: Panels) -> Verdict:
    outcomes = panels["fig5"].outcomes
    shares = {name: each.blocks[0] / each.blocks[1] for name, each in outcomes.items() if each.blocks is not None}
    best = {names[0]: max((shares.get(name, 0.0) for name in names), default=0.0) for names in (KALMAN, OUR_KALMAN)}
    entropy = panels["fig5"].lines["entropy"].mean
    gap = min(last_of(panels["fig5"], name, "characters").rank for name in (*KALMAN, *OUR_KALMAN)) - entropy
    return Verdict(
        "fig5",
        "Kalman NoBackTrack mostly learns the dependency, as the output of the learned model shows; a small gap "
        "remains.",
        "Of the blocks that the learners of the best rank generate after their training, at least half have as many "
        f"b as a (independent n and p: 3 %); in part: with the decay {OUR_DECAY:g}/√t alone.",
        HOLDS if best[KALMAN[0]] >= 0.5 else PARTLY if best[OUR_KALMAN[0]] >= 0.5 else FAILS,
        f"Blocks with n_a = n_b: {listed(list(shares), [f'{share:.0%}' for share in shares.values()])}. The best "
        f"rank is {gap:.3f} bits above the entropy.",
        "A block counts only where n is met exactly.",
    )


@judges("fig5")
def _plain(panels: Panels) -> Verdict:
    panel, names = panels["fig5"], [f"not leaky, RTRL, {OURS}", f"RTRL, {OURS}"]
    independent = panel.lines["entropy of a^n b^p"].mean
    return Verdict(
        "fig5",
        "A standard RNN, without leaks, cannot deal with a^n b^n, whatever the algorithm.",
        "With exact gradients and our update it ends no more than 10 % below the entropy of a^n b^p.",
        whether([last_of(panel, names[0], "characters").rank > 0.9 * independent]),
        f"Same characters: {lasts(panel, names)}; entropy {panel.lines['entropy'].mean:.4f}, of a^n b^p "
        f"{independent:.4f}.",
    )


@judges("fig5")
def _rescaling(panels: Panels) -> Verdict:
    panel, names = panels["fig5"], [f"NoBackTrack, rank 1, {OURS}", f"not rescaled, rank 1, {OURS}"]
    scaled, plain = (last_of(panel, name, "characters") for name in names)
    return Verdict(
        "fig5",
        "Rescaling by rho matters: without it the noise grows (section 2).",
        "Rank 1 with its scales is below rank 1 with rho = 1 over the last tenth of the same characters (Welch's "
        "test, 5 %).",
        whether([scaled.below(plain)]),
        f"Rescaled: {scaled}; not rescaled: {plain}; both with the decay {OUR_DECAY:g}/√t.",
    )
