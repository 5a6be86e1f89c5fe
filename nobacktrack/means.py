"""Running means of losses, on the whole and of late: the same bits wherever a stream was cut."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

BLOCK = 1000  # targets
RECENT = 10  # blocks: "of late" is the last ten thousand targets or so


class Means:
    """Sums of losses in the order in which they came, NaN standing for an item without a target.

    `total` is the sum of all losses, `blocks` those of the last full blocks of targets, `block` that of the block which
    is not full yet. They go into checkpoints, and go on where a run goes on.
    """

    def __init__(
        self, items: int = 0, targets: int = 0, total: float = 0.0, blocks: Iterable[float] = (), block: float = 0.0
    ):
        self.items, self.targets, self.total = items, targets, total
        self.blocks, self.block = list(blocks), block

    def add(self, losses: np.ndarray) -> None:
        """Take in the losses of some items."""
        self.items += len(losses)
        losses = np.asarray(losses, float)[~np.isnan(losses)]
        self.total = sum_in_order(self.total, losses)
        for piece in _split(losses, BLOCK - self.targets % BLOCK):
            self.block = sum_in_order(self.block, piece)
            self._count(len(piece))

    def add_one(self, loss: float) -> None:
        """The same for one item, in a microsecond."""
        self.items += 1
        if loss == loss:
            self.total += loss
            self.block += loss
            self._count(1)

    def _count(self, targets: int) -> None:
        self.targets += targets
        if targets and self.targets % BLOCK == 0:
            self.blocks = [*self.blocks[1 - RECENT :], self.block]
            self.block = 0.0

    @property
    def mean(self) -> float:
        """Of all targets; NaN before the first."""
        return self.total / self.targets if self.targets else math.nan

    @property
    def recent(self) -> float:
        """Of the last ten thousand targets or so."""
        count = len(self.blocks) * BLOCK + self.targets % BLOCK
        return (sum(self.blocks) + self.block) / count if count else math.nan

    def record(self) -> dict[str, Any]:
        """What makes the same means again: `Means(**record)`."""
        return {
            "items": self.items,
            "targets": self.targets,
            "total": self.total,
            "blocks": self.blocks,
            "block": self.block,
        }


def sum_in_order(start: float, values: np.ndarray) -> float:
    """start + values_0 + values_1 + ..., rounded after each: a plain `sum` pairs them up by how many there are."""
    return float(np.add.accumulate(np.concatenate([[start], values]))[-1])


def _split(values: np.ndarray, first: int) -> Sequence[np.ndarray]:
    """The first so many, then block by block."""
    edges = [0, *range(first, len(values), BLOCK), len(values)]
    return [values[a:b] for a, b in itertools.pairwise(edges)]
