"""What learns where nothing is said: one table, and the choice from what a stream is and what an item may cost."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .names import cell_of, estimator_of, update_of

BUDGET = 50.0  # microseconds an item
SMALL_ALPHABET = 16
CONTEXT_BITS, LONGEST_CONTEXT = 32, 24  # of a small alphabet: how much a context holds, and how many symbols at most
MATCH_BITS = 24  # that are the same where a match begins: few are by chance among a million


class Preset(NamedTuple):
    """A network, how it learns, and whether a committee is made of it; on symbols, the longest context in that, and
    with how many symbols a match begins.
    """

    cell: str
    units: int
    estimator: str
    update: str = "kalman"
    committee: bool = True
    depth: int = 6
    match: int = 5

    def on(self, symbols: int) -> Preset:
        """The same for an alphabet: where it is small, contexts and matches are as long as in bits they should be."""
        if symbols > SMALL_ALPHABET:
            return self
        bits = math.log2(max(symbols, 2))
        depth, match = min(round(CONTEXT_BITS / bits), LONGEST_CONTEXT), math.ceil(MATCH_BITS / bits)
        return self._replace(depth=max(self.depth, depth), match=max(self.match, match))

    def alone(self, **ends: int) -> Any:
        """The network by itself; `ends` are its `symbols`, or `inputs` and `outputs`, or `inputs` and `symbols`."""
        import nobacktrack as nbt

        return nbt.Learner(cell_of(self.cell, self.units, **ends), estimator_of(self.estimator), update_of(self.update))

    def learner(self, company: Any = None, **ends: int) -> Any:
        """The network, or the committee: on symbols with contexts, on numbers with forecasts, on labels with contexts
        and a quick network; or with another `company`.
        """
        import nobacktrack as nbt

        if not self.committee:
            return self.alone(**ends)
        if "outputs" in ends:
            return nbt.Committee((self.alone(**ends),), company)
        if "inputs" in ends:
            return nbt.Committee((self.alone(**ends), QUICK.alone(**ends)), company or nbt.Contexts())
        own = self.on(ends["symbols"])
        return nbt.Committee((self.alone(**ends),), company or nbt.Contexts(depth=own.depth, match=own.match))

    def __str__(self) -> str:
        alone = self.network
        return f"a committee of {alone}, and contexts of up to {self.depth} symbols" if self.committee else alone

    @property
    def network(self) -> str:
        """What it is made of."""
        return f"{self.cell} of {self.units} units, {self.estimator}, {self.update}"


PRESETS = {
    "tiny": Preset("leaky", 20, "bptt:15", depth=3),
    "text": Preset("lstm", 192, "bptt:15"),
    "large": Preset("lstm", 512, "bptt:15"),
    "symbols": Preset("lstm", 32, "block"),
    "rows": Preset("lstm", 32, "block"),
    "paper": Preset("leaky", 20, "nobacktrack", committee=False),
}

QUICK = Preset("rnn", 20, "nobacktrack", "kalman:0.1:5")  # the second on labels: it sooner learns what a row says

# Microseconds a character with 65 symbols on one core, anchor and contexts with it: what a budget buys, and what each
# symbol more costs. From `python benchmarks/committee.py`.
LADDER = (
    (0.0, 0.0, PRESETS["tiny"]),
    (10.5, 0.04, Preset("lstm", 32, "bptt:15")),
    (13.7, 0.05, Preset("lstm", 64, "bptt:15")),
    (24.2, 0.08, Preset("lstm", 128, "bptt:15")),
    (42.0, 0.15, PRESETS["text"]),
    (77.0, 0.23, Preset("lstm", 256, "bptt:15")),
    (320.0, 0.75, PRESETS["large"]),
)
LEAST_FOR_BLOCKS = 12.0  # microseconds, of a small alphabet


def choose_for_symbols(symbols: int, budget: float) -> tuple[Preset, str]:
    """The preset for an alphabet and a budget in microseconds a character, and why."""
    if symbols <= SMALL_ALPHABET and budget >= LEAST_FOR_BLOCKS:
        preset = PRESETS["symbols"]
    else:
        affordable = [preset for cost, more, preset in LADDER if cost + more * (symbols - 65) <= budget]
        preset = (affordable or [PRESETS["tiny"]])[-1]
    return preset.on(symbols), f"an alphabet of {symbols}, a budget of {budget:g} us a character"


def choose_for_rows(budget: float) -> tuple[Preset, str]:
    """The preset for rows and a budget in microseconds a row, of which reading it is the larger part."""
    return PRESETS["rows" if budget >= BUDGET else "tiny"], f"rows, a budget of {budget:g} us each"


def recommend(
    *,
    symbols: int | None = None,
    inputs: int | None = None,
    outputs: int | None = None,
    budget: float = BUDGET,
    company: Any = None,
) -> Any:
    """The learner that `nobacktrack train` takes where nothing else is said.

    `symbols` alone: a text of so many different ones. `inputs` and `outputs`: rows of numbers, and numbers to predict
    from them, with `company=nbt.Forecasts(season=, ahead=, interval=)`. `inputs` and `symbols`: rows, and labels.
    `budget` is what an item may cost, in microseconds on one core.
    """
    ends = {"symbols": symbols, "inputs": inputs, "outputs": outputs}
    ends = {name: size for name, size in ends.items() if size is not None}
    if set(ends) not in ({"symbols"}, {"inputs", "outputs"}, {"inputs", "symbols"}):
        raise ValueError(f"symbols, or inputs and outputs, or inputs and symbols; not {', '.join(ends) or 'nothing'}")
    _expect_sizes(ends, budget)
    preset, _ = choose_for_rows(budget) if "inputs" in ends else choose_for_symbols(ends["symbols"], budget)
    return preset.learner(company, **ends)


def _expect_sizes(ends: dict[str, Any], budget: Any) -> None:
    """Refuse what is no size of a learner, or no cost, by its name."""
    for name, size in ends.items():
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 1:
            raise ValueError(f"{name}: a whole number of 1 or more, not {size!r}")
    if not isinstance(budget, (int, float, np.number)) or not budget >= 0:
        raise ValueError(f"budget: microseconds an item, 0 or more, not {budget!r}")
