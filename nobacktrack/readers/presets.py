"""What learns where nothing is said: one table, and the choice from what a stream is and what an item may cost."""

from __future__ import annotations

from typing import Any, NamedTuple

from .names import cell_of, estimator_of, update_of

BUDGET = 50.0  # microseconds an item
SMALL_ALPHABET = 16
CONTEXTS = 5.0, 0.05  # microseconds a character of contexts and mixing, and more for each symbol of the alphabet


class Preset(NamedTuple):
    """A network, how it learns, and whether a committee is made of it; the longest context of its company."""

    cell: str
    units: int
    estimator: str
    update: str = "kalman"
    committee: bool = True
    depth: int = 6

    def learner(self, symbols: int) -> Any:
        """The learner of an alphabet."""
        import nobacktrack as nbt

        system = cell_of(self.cell, self.units, symbols)
        alone = nbt.Learner(system, estimator_of(self.estimator), update_of(self.update))
        return nbt.Committee((alone,), nbt.Contexts(depth=self.depth)) if self.committee else alone

    def __str__(self) -> str:
        alone = f"{self.cell} of {self.units} units, {self.estimator}, {self.update}"
        return f"a committee of {alone}, and contexts of up to {self.depth} symbols" if self.committee else alone


PRESETS = {
    "tiny": Preset("leaky", 20, "bptt:15", depth=3),
    "text": Preset("lstm", 128, "bptt:15"),
    "large": Preset("lstm", 512, "bptt:15"),
    "symbols": Preset("lstm", 32, "block"),
    "paper": Preset("leaky", 20, "nobacktrack", committee=False),
}

# Microseconds a character with 65 symbols on one core, anchor and contexts with it: what a budget buys, and what each
# symbol more costs. From `python benchmarks/committee.py`.
LADDER = (
    (0.0, 0.0, PRESETS["tiny"]),
    (12.0, 0.03, Preset("lstm", 32, "bptt:15")),
    (21.0, 0.06, Preset("lstm", 64, "bptt:15")),
    (40.0, 0.12, PRESETS["text"]),
    (110.0, 0.25, Preset("lstm", 256, "bptt:15")),
    (320.0, 0.5, PRESETS["large"]),
)


def choose_for_symbols(symbols: int, budget: float) -> tuple[Preset, str]:
    """The preset for an alphabet and a budget in microseconds a character, and why."""
    if symbols <= SMALL_ALPHABET and budget >= 25:
        return PRESETS["symbols"], f"an alphabet of {symbols}, {budget:g} us a character"
    affordable = [preset for cost, more, preset in LADDER if cost + more * (symbols - 65) <= budget]
    return (affordable or [PRESETS["tiny"]])[-1], f"an alphabet of {symbols}, {budget:g} us a character"
