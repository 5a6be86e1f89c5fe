"""The panel of a committee on symbols: contexts beside the networks, mixed choice by choice, then by fixed share."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..registry import register
from ..streams.items import Chunk, Pairs, has_target, size
from . import labels
from .contexts import COMPANY, ContextReader, Contexts, ContextsState, Reading
from .labels import LabelModels, LabelState, begin_labels, more_labels
from .mixing import MixerState, expected_probabilities, mix_items, mixer_state

LARGEST = 1e6  # of a number in a row, as networks get it
ROW_WEIGHTS = (
    0.05,
    0.3,
)  # at the start, of contexts and of all others: the label follows from the row, more often than not


@register
class SymbolPanelState(NamedTuple):
    """What contexts and the mixer know; and models of labels, where inputs are rows of numbers."""

    contexts: ContextsState
    mixer: MixerState
    labels: LabelState | tuple[()]


def begin_symbols(contexts: Contexts, symbols: int, networks: int, columns: int | None) -> SymbolPanelState:
    """Before the first symbol. `columns` of the inputs, where these are rows of numbers."""
    if columns is None:
        return SymbolPanelState(contexts.init(), mixer_state(symbols, contexts.inputs, networks), ())
    mixer = mixer_state(symbols, contexts.inputs, networks + len(labels.NAMES), ROW_WEIGHTS)
    return SymbolPanelState(contexts.init(), mixer, begin_labels(columns, symbols))


def grown(state: SymbolPanelState, symbols: int, columns: int | None) -> SymbolPanelState:
    """The same for more symbols or columns: a choice keeps its number."""
    weights = np.asarray(state.mixer.by_choice)
    more = np.tile(np.asarray(state.mixer.by_standing)[:1], (symbols - len(weights), 1))
    mixer = state.mixer._replace(by_choice=np.concatenate([weights, more]))
    larger = () if columns is None else more_labels(state.labels, columns, symbols)  # pyright: ignore[reportArgumentType]
    return SymbolPanelState(state.contexts, mixer, larger)


class SymbolPanel:
    """Contexts and mixer at work, and models of labels beside the networks, where inputs are rows of numbers. The past
    is that of the inputs, where these are symbols, else of the targets.
    """

    def __init__(self, contexts: Contexts, state: SymbolPanelState, symbols: int, inputs: bool, learning: bool):
        self.symbols, self._inputs, self._learning = symbols, inputs, learning
        self._reader = ContextReader(contexts, state.contexts)
        self.become(state)

    @staticmethod
    def names(networks: list[str], columns: int | None) -> list[str]:
        """The experts."""
        return ["weighed mixture", *networks, *(() if columns is None else labels.NAMES), *COMPANY]

    def become(self, state: SymbolPanelState) -> None:
        self._reader.become(state.contexts)
        self._mixer = MixerState(*(np.array(array) for array in state.mixer))
        self._labels = LabelModels(state.labels, self._learning) if isinstance(state.labels, LabelState) else None

    def state(self) -> SymbolPanelState:
        mixer = MixerState(*(array.copy() for array in self._mixer))
        return SymbolPanelState(self._reader.state(), mixer, () if self._labels is None else self._labels.state())

    @property
    def shares(self) -> np.ndarray:
        """The weight of each expert."""
        return np.exp(np.asarray(self._mixer.shares, float))

    foresees = False  # what is expected is worked out when it is asked for
    first_network = 1
    errors = np.zeros(0)  # none: symbols are right or wrong

    def takes(self, piece: Chunk) -> bool:
        """Whether it takes a piece as a whole."""
        return True

    def inside(self, piece: Chunk) -> tuple[Chunk, Chunk]:
        """A piece as the networks get it: what they predict from, and what they learn from."""
        if self._labels is not None and isinstance(piece, Pairs):
            piece = piece._replace(x=self.input(piece.x))
        return piece, piece

    def input(self, x: Any) -> Any:
        """An input as networks get it: of rows no number is so large that they could not bear it."""
        return x if self._labels is None else np.clip(x, -LARGEST, LARGEST)

    def take(self, chunk: Chunk, y_hats: np.ndarray) -> tuple[np.ndarray, np.ndarray, None]:
        """Learn from a chunk: the loss of each item, and what each expert made of it, in nats. `y_hats` of the
        networks, (networks, items, symbols).
        """
        pairs = isinstance(chunk, Pairs)
        x, y = (chunk.x, chunk.y) if isinstance(chunk, Pairs) else (chunk.values, chunk.values)
        seen, none = has_target(chunk), np.full(size(chunk), -1, np.int32)
        targets = np.where(seen, none if y is None else np.asarray(y), 0).astype(np.int32)
        added = np.asarray(x, np.int32) if self._inputs else np.where(seen, targets, none)
        reading = Reading(targets, seen, added, pairs and self._inputs, self.symbols, self._learning)
        if self._labels is not None:
            y_hats = np.concatenate([y_hats, self._labels.read(np.asarray(x), targets, seen, y_hats.dtype)])
        return *self._read(reading, y_hats), None

    def observe(self, y: int, y_hats: np.ndarray) -> tuple[float, np.ndarray, int]:
        """Learn from a target: the loss, what each expert made of it, and what networks get of it."""
        added = -1 if self._inputs else y
        one = np.array([y], np.int32), np.ones(1, bool), np.array([added], np.int32)
        y_hats = self._with_labels(y_hats)
        losses, costs = self._read(Reading(*one, False, self.symbols, self._learning), y_hats[:, None])
        if self._labels is not None:
            self._labels.observe(y)
        return float(losses[0]), costs[0], y

    def advance(self, x: Any) -> tuple[Any, Any]:
        """The past is one input longer: it as networks get it, to predict and to learn from."""
        if self._inputs:
            one = np.zeros(1, np.int32), np.zeros(1, bool), np.array([x], np.int32)
            self._reader.read(Reading(*one, True, self.symbols, self._learning))
        if self._labels is not None:
            self._labels.advance(x)
        return self.input(x), self.input(x)

    def reset(self) -> None:
        """Forget the past, not what was learned of it."""
        self._reader.reset()

    def predict_after(self, x: Any, y_hats: np.ndarray) -> np.ndarray:
        """The same, of the target after an input that is not taken yet."""
        parts = [self._reader] if self._labels is None else [self._reader, self._labels]
        before = [part.past() for part in parts]
        self.advance(x)
        p = self.predict(y_hats)
        for part, past in zip(parts, before, strict=True):
            part.restore_past(past)  # pyright: ignore[reportArgumentType]
        return p

    def predict(self, y_hats: np.ndarray) -> np.ndarray:
        """log p of each symbol; `y_hats` of the networks, (networks, symbols)."""
        y_hats = self._with_labels(y_hats)
        logits, company, standing = self._reader.look(self.symbols)
        p = np.zeros(self.symbols)
        scratch = *self._scratch(len(y_hats)), np.zeros(self.symbols)
        expected_probabilities(tuple(self._mixer), (logits, company, standing), y_hats, scratch, p)
        return np.log(p / p.sum())

    def _with_labels(self, y_hats: np.ndarray) -> np.ndarray:
        """With what the models of labels expect, after what the networks do."""
        return y_hats if self._labels is None else np.concatenate([y_hats, self._labels.predict(y_hats.dtype)])

    def _read(self, reading: Reading, y_hats: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = self._reader.read(reading)
        count = len(reading.targets)
        losses, costs = np.zeros(count), np.zeros((count, len(self._mixer.shares)))
        mix_items(tuple(self._mixer), reading, found, y_hats, self._scratch(len(y_hats)), costs, losses)
        return losses, costs

    def _scratch(self, networks: int) -> tuple[np.ndarray, np.ndarray]:
        choices = (self.symbols - 1).bit_length()
        return np.zeros((networks, self.symbols)), np.zeros((choices, self._mixer.by_standing.shape[1]))
