"""What a run has cost so far: on the whole, recently, and beside what knows nothing of order."""

from __future__ import annotations

import math
from typing import Any

import jax
import numpy as np
from scipy.special import gammaln

from ..means import Means
from ..protocol import NATS_PER_BIT

MOST_SKIPS = 5  # that are told of; the others are counted


class Tally:
    """The losses of a run and what it skipped, kept in its checkpoint: they go on where it goes on."""

    def __init__(self, losses: dict[str, Any] | None = None, skipped: int = 0, experts: dict[str, float] | None = None):
        self.losses = Means(**(losses or {}))  # nats
        self.skipped = skipped
        self.experts = experts or {}  # nats that each expert of a committee has cost, before this run
        self.skips: list[str] = []  # where the first ones were, and why; of this run alone

    @property
    def items(self) -> int:
        """Characters or rows that came."""
        return self.losses.items

    @property
    def targets(self) -> int:
        """Those of them that had a target."""
        return self.losses.targets

    def skip(self, why: str) -> None:
        """Something bad was left out."""
        self.skipped += 1
        if len(self.skips) < MOST_SKIPS:
            self.skips.append(why)

    def record(self) -> dict[str, Any]:
        """What makes the same tally again."""
        return {"losses": self.losses.record(), "skipped": self.skipped, "experts": self.experts}


def frequencies_nats(counts: np.ndarray) -> float:
    """Nats an item of the same items by their frequencies so far alone (Krichevsky and Trofimov 1981)."""
    counts = np.asarray(counts, float)
    total, kinds = counts.sum(), len(counts)
    if not total:
        return math.nan
    nats = gammaln(total + kinds / 2) - gammaln(kinds / 2) - float(np.sum(gammaln(counts + 0.5) - gammaln(0.5)))
    return float(nats / total)


def norm_of(tree: Any) -> float:
    """The length of a tree of arrays as one vector."""
    return math.sqrt(sum(float(np.sum(np.square(leaf, dtype=float))) for leaf in jax.tree.leaves(tree)))


def in_bits(nats: float) -> float | None:
    """Nats in bits, None where there is nothing to say."""
    return or_none(nats / NATS_PER_BIT)


def or_none(value: float) -> float | None:
    """A number, None in the place of one that is not finite."""
    return value if math.isfinite(value) else None
