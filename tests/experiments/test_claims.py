"""Verdicts on the paper's claims follow from the numbers."""

import numpy as np
import pytest

from nobacktrack.experiments.paper import claims, measures
from nobacktrack.experiments.paper.claims import judging
from nobacktrack.experiments.paper.figures import FIGURES
from nobacktrack.experiments.paper.manifest import Budget, marks_to
from nobacktrack.experiments.paper.results import Curves, Outcome, Panel
from nobacktrack.experiments.paper.runs import Line

LENGTH = 12_000


def panels(levels):
    """Figures whose methods stay at some level of bits per character, with three seeds a little apart; a level is for
    both budgets, or for the one that is named.
    """
    found = {}
    for figure in FIGURES.values():
        outcomes = {}
        for method in figure.methods:
            time, characters = (
                curves_at(
                    levels.get(f"{figure.name} {method.name} {budget}", levels.get(f"{figure.name} {method.name}", 1.0))
                )
                for budget in ("time", "characters")
            )
            cost = levels.get("RTRL costs", 20.0) if "RTRL" in method.name else 1.0
            blocks = levels.get("blocks", (9, 10))
            outcomes[method.name] = Outcome(time, characters, cost, Budget(LENGTH, LENGTH), 3, 0, blocks)
        lines = {"entropy": 1 / 7, "entropy of a^n b^p": 2 / 7, "gzip": 3.0, "CTW, depth 6": levels.get("CTW", 0.9)}
        found[figure.name] = Panel(figure, outcomes, {n: Line(n, LENGTH, bits, bits) for n, bits in lines.items()}, 1.0)
    return found


def curves_at(level):
    recent = np.full((3, 80), level) + np.array([[-0.001], [0.0], [0.001]])
    return Curves(np.array(marks_to(1_000_000)[-80:]), recent, recent)


def verdict_on(words, found):
    (verdict,) = [each for each in claims.verdicts(found) if words in each.claim]
    return verdict.verdict


BELOW = {f"fig5 {name}": 0.5 for name in judging.KALMAN}


OURS = "Kalman, 0.1/√t"


YES, PARTLY, NO, OPEN = "holds", "holds in part", "does not hold here", "not decided"


@pytest.mark.parametrize(
    ("words", "levels", "expected"),
    [
        ("20 times slower", {}, YES),
        ("20 times slower", {"RTRL costs": 9.0}, NO),
        ("rank two", {}, YES),
        ("rank two", {"fig2 NoBackTrack, rank 2 characters": 1.1}, NO),
        ("rank two", {"fig2 NoBackTrack, rank 2 time": 1.1}, YES),
        ("instabilities", {}, NO),
        ("fully fixes", {}, OPEN),
        ("on par with exact", {}, YES),
        ("on par with exact", {"fig3 RTRL, Kalman characters": 0.5}, PARTLY),
        ("on par with exact", {"fig3 RTRL, Kalman": 0.5}, NO),
        ("no obvious gain", {}, YES),
        ("no obvious gain", {"fig3 NoBackTrack, rank 10, Kalman characters": 0.5}, PARTLY),
        ("no obvious gain", {"fig3 NoBackTrack, rank 10, Kalman": 0.5}, NO),
        ("matches context tree", {}, YES),
        ("matches context tree", {"fig4 BPTT(15) characters": 0.5}, NO),
        ("matches context tree", {"fig4 BPTT(15) time": 0.5}, YES),
        ("broadly comparable", {"fig4 BPTT(15) time": 0.9}, YES),
        ("broadly comparable", {"fig4 BPTT(15)": 0.5}, PARTLY),
        ("broadly comparable", {"fig4 BPTT(15)": 1.5}, NO),
        ("broadly comparable", {"fig4 BPTT(15)": 1.0005}, PARTLY),
        ("slightly ahead", {"fig4 BPTT(15)": 0.98}, YES),
        ("slightly ahead", {"fig4 BPTT(15)": 1.2}, NO),
        ("slightly ahead", {"fig4 BPTT(15) characters": 1.2, "fig4 BPTT(15) time": 0.9}, PARTLY),
        ("clearly outperforms", BELOW, YES),
        ("clearly outperforms", {"fig5 BPTT(15) time": 0.5}, NO),
        ("clearly outperforms", {"fig5 BPTT(15) characters": 0.5}, OPEN),
        ("clearly outperforms", {"fig5 NoBackTrack, rank 1, Kalman": 0.5}, PARTLY),
        ("clearly outperforms", {"fig5 NoBackTrack, rank 1, Kalman": 1.5}, NO),
        ("clearly outperforms", {f"fig5 NoBackTrack, rank {k}, {OURS}": 0.5 for k in (1, 10)}, PARTLY),
        ("independent n and p", {}, YES),
        ("independent n and p", {"fig5 BPTT(15) time": 0.15}, NO),
        ("no longer decreases", {}, PARTLY),
        ("per character", {"fig5 RTRL": 0.5, "fig5 RTRL, Kalman": 0.5}, YES),
        ("per character", {"fig5 RTRL, Kalman characters": 0.5}, PARTLY),
        ("per character", {"fig5 RTRL, Kalman time": 0.5}, NO),
        ("high complexity", {"fig5 BPTT(15) time": 0.9}, YES),
        ("high complexity", {"fig5 BPTT(15) characters": 0.9}, NO),
        ("mostly learns", {}, YES),
        ("mostly learns", {"blocks": (1, 10)}, NO),
        ("mostly learns", {"blocks": None}, NO),
        ("without leaks", {}, YES),
        ("without leaks", {f"fig5 not leaky, RTRL, {OURS}": 0.2}, NO),
        ("Rescaling", {f"fig5 NoBackTrack, rank 1, {OURS} characters": 0.5}, YES),
        ("Rescaling", {f"fig5 not rescaled, rank 1, {OURS}": 0.5}, NO),
        ("Rescaling", {}, OPEN),
        ("similar performance", {}, YES),
        ("similar performance", {"fig6 RTRL characters": 2.0}, NO),
        ("similar performance", {"fig6 RTRL time": 2.0}, YES),
        ("significantly ahead", {"CTW": 0.5}, YES),
        ("significantly ahead", {}, NO),
    ],
)
def test_verdicts_follow_the_numbers(words, levels, expected):
    assert verdict_on(words, panels(levels)) == expected


def test_a_curve_that_turns_is_told_from_one_that_falls():
    for slope, expected in ((0.02, YES), (-0.02, NO)):
        found = panels({})
        found["fig5"].outcomes["BPTT(15)"].time.recent[:, -4:] += slope
        assert verdict_on("no longer decreases", found) == expected


def test_one_seed_decides_nothing_and_one_that_diverges_is_the_worst():
    one, other = (measures.mean_of(np.array([value])) for value in (1.0, 2.0))
    assert one.below(other) is None
    assert str(one) == "1.000"
    two, lost = measures.mean_of(np.array([2.0, 2.1, 2.2])), measures.mean_of(np.array([1.0, 1.1, np.nan]))
    assert two.below(lost) is True
    assert lost.below(two) is False
    assert "1 not finite" in str(lost)
    assert measures.mean_of(np.array([1.0, 1.1, 1.2])).below(two) is True
    assert measures.mean_of(np.array([1.0, 3.0, 2.0])).below(two) is None


def test_a_loss_that_jumps_is_unstable():
    found = panels({})
    for name in judging.EUCLIDEAN:
        found["fig1"].outcomes[name].longest.recent[0, -3] += 0.5
    assert verdict_on("instabilities", found) == YES
    assert verdict_on("fully fixes", found) == YES
    ended = found["fig3"].outcomes["RTRL, Kalman"]._replace(diverged=1)
    found["fig3"].outcomes["RTRL, Kalman"] = ended
    assert verdict_on("fully fixes", found) == NO


def test_instability_at_a_larger_rate_is_a_part_of_it():
    found = panels({})
    for name in judging.FASTER[:-1]:
        found["fig1"].outcomes[name].longest.recent[0, -3] += 0.5
    assert verdict_on("instabilities", found) == PARTLY
    assert verdict_on("fully fixes", found) == YES
    found["fig1"].outcomes["RTRL, 3/√t"].longest.recent[0, -3] += 0.5  # then it is not the noise
    assert verdict_on("instabilities", found) == NO


def test_verdicts_are_given_where_their_figures_are():
    found = panels({})
    assert {each.figure for each in claims.verdicts({"fig5": found["fig5"]})} == {"fig5"}
    assert len(claims.verdicts(found)) == len(claims.JUDGES) == 19
