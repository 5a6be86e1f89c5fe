"""What a run has cost so far: on the whole, recently, and beside what knows nothing of order."""

from __future__ import annotations

import math
from typing import Any

import jax
import numpy as np
from scipy.special import gammaln

from ..protocol import NATS_PER_BIT

PACE = 1e-4  # recent: the last ten thousand items or so
MOST_SKIPS = 5  # that are told of; the others are counted


class Tally:
    """Sums of a run, kept in its checkpoint: they go on where it goes on."""

    def __init__(self, **kept: float):
        self.items = int(kept.get("items", 0))
        self.targets = int(kept.get("targets", 0))
        self.loss = float(kept.get("loss", 0.0))  # nats
        self.recent = float(kept.get("recent", 0.0))
        self.weight = float(kept.get("weight", 0.0))
        self.skipped = int(kept.get("skipped", 0))
        self.skips: list[str] = []  # where the first ones were, and why; of this run alone

    def add(self, losses: np.ndarray) -> None:
        """Take in the losses of some items, NaN where there was no target."""
        self.items += len(losses)
        losses = np.asarray(losses, float)[~np.isnan(losses)]
        if not len(losses):
            return
        self.targets += len(losses)
        self.loss += float(losses.sum())
        keep = (1 - PACE) ** np.arange(len(losses) - 1, -1, -1)
        faded = (1 - PACE) ** len(losses)
        self.recent = faded * self.recent + float(PACE * (keep @ losses))
        self.weight = faded * self.weight + float(PACE * keep.sum())

    def add_one(self, loss: float) -> None:
        """The same for one item, in a microsecond."""
        self.items += 1
        if loss == loss:
            self.targets += 1
            self.loss += loss
            self.recent += PACE * (loss - self.recent)
            self.weight += PACE * (1 - self.weight)

    def skip(self, why: str) -> None:
        """Something bad was left out."""
        self.skipped += 1
        if len(self.skips) < MOST_SKIPS:
            self.skips.append(why)

    @property
    def mean(self) -> float:
        """Nats a target, since the beginning."""
        return self.loss / self.targets if self.targets else math.nan

    @property
    def lately(self) -> float:
        """Nats a target, of the last ten thousand or so."""
        return self.recent / self.weight if self.weight else math.nan

    def described(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "skips"}


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
    return None if math.isnan(nats) else nats / NATS_PER_BIT
