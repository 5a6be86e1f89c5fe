"""A committee on a series whose best expert changes: the weights of all, and what fixed share costs over the best
sequence of experts, beside its bound and the best single one.

    python -m experiments.share
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np

import nobacktrack as nbt
from nobacktrack.committee.session import CommitteeSession

SEASON = 24
PARTS = "a chaotic map", "noise", "a random walk", "a season of 24"
SHOWN = {  # what is drawn together, by the names of experts
    "mean so far": ("mean so far",),
    "last value": ("last value", "anchor of LSTM"),
    "LSTM": ("LSTM",),
    "season before": ("the season before",),
    "least squares": ("least squares, last rows", "least squares, each output over many rows"),
    "least squares on the others": ("least squares on the others",),
}
COLOURS = "#4c9f70", "#e8a33d", "#c8553d", "#8e6bbf", "#a9b4c2", "#2f6690"


class Run(NamedTuple):
    """Of each row: the weights before it came, what each expert made of it, and the mixture, in nats."""

    experts: list[str]
    weights: np.ndarray
    costs: np.ndarray
    losses: np.ndarray


def series(each: int, seed: int) -> np.ndarray:
    """Four kinds of series, one after the other."""
    random, x, before, chaos = np.random.default_rng(seed), 0.1, 0.1, []
    for _ in range(each):
        x, before = 1 - 1.4 * x * x + 0.3 * before, x
        chaos.append(x)
    season = np.tile(random.normal(size=SEASON), each // SEASON + 1)[:each]
    parts = (
        np.array(chaos) + 0.02 * random.normal(size=each),
        random.normal(size=each),
        np.cumsum(random.normal(size=each)),
        season + 0.1 * random.normal(size=each),
    )
    return np.concatenate(parts)


def run(y: np.ndarray, seed: int) -> Run:
    """Each row predicted from those before it, then learned from."""
    network = nbt.Learner(nbt.LSTM(units=32, inputs=1, outputs=1), nbt.BlockNoBackTrack(), nbt.Kalman())
    committee = nbt.Committee((network,), nbt.Forecasts(season=SEASON))
    session: Any = CommitteeSession(committee, committee.init(seed), "auto")
    weights, costs, losses = [], [[0.0] * len(committee.experts)], []
    for t in range(len(y)):
        session.advance(y[max(t - 1, 0)][None])
        weights.append(session.panel.shares)
        losses.append(session.observe(y[t][None]))
        costs.append(list(session.experts().values()))
    return Run(committee.experts, np.array(weights), np.diff(costs, axis=0), np.array(losses))


def best_sequence(costs: np.ndarray, changes: int) -> np.ndarray:
    """The expert of each row, in the sequence that costs least with so many changes at most."""
    count, experts = costs.shape
    total, came = np.full((changes + 1, experts), np.inf), np.zeros((count, changes + 1, experts), int)
    total[0] = 0
    for t in range(count):
        came[t] = np.arange(experts)
        for k in range(changes, 0, -1):
            other = int(np.argmin(total[k - 1]))
            better = (total[k - 1, other] < total[k]) & (t > 0)
            came[t, k] = np.where(better, other, came[t, k])
            total[k] = np.where(better, total[k - 1, other], total[k])
        total += costs[t]
    k, expert = (int(i) for i in np.unravel_index(np.argmin(total), total.shape))
    found = np.zeros(count, int)
    for t in range(count - 1, -1, -1):
        found[t] = expert
        before = int(came[t, k, expert])
        k, expert = k - (before != expert), before
    return found


def bounds(sequence: np.ndarray, experts: int) -> np.ndarray:
    """What fixed share costs at most over a sequence of experts, after each row."""
    rows = np.arange(1, len(sequence) + 1)
    changes = np.concatenate([[0], np.cumsum(np.diff(sequence) != 0)])
    return math.log(experts) + changes * np.log(experts * (rows + 1)) + np.log(rows + 1)


def over_the_best(found: Run) -> dict[str, np.ndarray]:
    """What costs how many nats more than the best sequence of experts, after each row."""
    sequence = best_sequence(found.costs, len(PARTS) - 1)
    best = np.cumsum(found.costs[np.arange(len(sequence)), sequence])
    single = found.costs[:, np.argmin(found.costs.sum(axis=0))]
    return {
        "best single expert": np.cumsum(single) - best,
        "bound": bounds(sequence, len(found.experts)),
        "mixture": np.cumsum(found.losses) - best,
    }


def figure(found: Run, more: dict[str, np.ndarray], path: Path) -> None:
    """Weights above, costs below."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})
    fig, (above, below) = plt.subplots(2, 1, figsize=(9.6, 6), sharex=True, layout="constrained")
    count = len(found.losses)
    draw_weights(above, found)
    draw_costs(below, more)
    for axes in (above, below):
        axes.set_xlim(0, count)
        for part in range(1, len(PARTS)):
            axes.axvline(part * count / len(PARTS), color="black", linewidth=0.8, linestyle=":")
    for part, name in enumerate(PARTS):
        middle = (part + 0.5) / len(PARTS)
        above.text(middle, 1.03, name, ha="center", va="bottom", transform=above.transAxes)
    below.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    path.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(path, dpi=130)


def draw_weights(axes: Any, found: Run) -> None:
    """The weight of each expert as a band."""
    bands = [sum(found.weights[:, found.experts.index(name)] for name in names) for names in SHOWN.values()]
    axes.stackplot(np.arange(len(found.losses)), bands, labels=list(SHOWN), colors=COLOURS, linewidth=0)
    axes.set(ylabel="weight of each expert", ylim=(0, 1))
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, reverse=True)


def draw_costs(axes: Any, more: dict[str, np.ndarray]) -> None:
    """What costs more than the best sequence, each with its name at its end."""
    styles = {"color": COLOURS[-1]}, {"color": "black", "linestyle": "--"}, {"color": "black", "linewidth": 2.2}
    for (name, line), style, shift in zip(more.items(), styles, (0, 18, -14), strict=True):
        axes.plot(line, **style)
        text = f" {name}, {line[-1]:.0f}"
        axes.text(len(line), line[-1] + shift, text, va="center", color=style["color"])
    axes.set(xlabel="rows", ylabel="nats more than the\nbest sequence of experts")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1000, help="of each part")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("out/committee.png"))
    given = parser.parse_args()
    found = run(series(given.rows, given.seed), given.seed)
    more = over_the_best(found)
    figure(found, more, given.out)
    sys.stdout.write("".join(f"{name}: {line[-1]:.1f} nats\n" for name, line in more.items()))
    sys.stderr.write(f"figure: {given.out}\n")


if __name__ == "__main__":
    main()
