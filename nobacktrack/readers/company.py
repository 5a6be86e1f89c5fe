"""What simple models make of a text, beside a network that stands alone: an honest measure of what it is worth."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ..committee.contexts import COMPANY, ContextReader, Contexts, Reading
from .tally import in_bits


class ContextCompany:
    """The last two symbols, and context tree weighting, on the same symbols as the network; 64 MiB at most."""

    names: ClassVar = {"last two symbols": "order2_bits", "context tree": "tree_bits"}

    def __init__(self) -> None:
        contexts = Contexts()
        self._reader = ContextReader(contexts, contexts.init())
        self._nats, self._targets = np.zeros(len(COMPANY)), 0

    def take(self, symbols: np.ndarray, capacity: int) -> None:
        """Read some symbols, of so many that there may be."""
        targets, all_of_them = np.asarray(symbols, np.int32), np.ones(len(symbols), bool)
        self._nats += self._reader.read(Reading(targets, all_of_them, targets, False, capacity)).losses.sum(axis=0)
        self._targets += len(symbols)

    def score(self) -> dict[str, float | None]:
        """Bits a symbol."""
        means = self._nats / self._targets if self._targets else np.full(len(COMPANY), np.nan)
        return {key: in_bits(float(means[COMPANY.index(name)])) for name, key in self.names.items()}
