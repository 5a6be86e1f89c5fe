"""The panel of a committee on numbers: simple forecasts beside the networks, mixed by fixed share."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..configuration import at_least, configuration, set_field, static
from ..registry import register
from ..streams.items import Chunk, Pairs, has_target, size
from .forecasting import CROSS, FAR, NEAR, STACK_COVARIANCE, Numbers, Scratch, look_ahead, mix_rows, prepare_rows

PAST = Numbers._fields.index("near_p")  # how many arrays of `Numbers` come before what is learned
LARGEST = 1e100  # of a number: squares of differences must be numbers too
MOST_FEATURES = 224  # of least squares on all outputs over a day of rows: they cost their square


@configuration
class Forecasts:
    """The last value, the mean so far, least squares on the last rows, and the value one `season` ago, if that is given
    (in rows), for numbers.
    """

    season: int = static(default=0)

    def __post_init__(self) -> None:
        set_field(self, "season", at_least("season", self.season, 0))


@register
class NumberPanelState(NamedTuple):
    """All numbers of a panel, in the order of `Numbers`, each of 64 bits as two words of 32; how many inputs, outputs
    and networks there are, and the season.
    """

    words: np.ndarray
    sizes: np.ndarray


class Sizes(NamedTuple):
    inputs: int
    outputs: int
    networks: int
    season: int

    @property
    def near(self) -> int:
        return 1 + self.outputs * (1 + NEAR) + self.inputs

    @property
    def far(self) -> int:
        return 2 + FAR + (self.inputs if self.outputs == 1 else 0)

    @property
    def cross(self) -> int:
        features = 1 + self.outputs * (1 + CROSS) + self.inputs
        return features if self.outputs > 1 and features <= MOST_FEATURES else 0

    @property
    def experts(self) -> int:
        return len(self.names([""] * self.networks))

    def names(self, networks: list[str]) -> list[str]:
        """The experts."""
        cross = ["least squares, all outputs over a day of rows"] if self.cross else []
        season = ["the season before"] if self.season else []
        simple = ["last value", "mean so far", "least squares, last rows", "least squares, each output over many rows"]
        return [*simple, *cross, *season, *networks, "least squares on the others"]

    def shapes(self) -> Any:
        """Of all that a panel knows."""
        d, i, n, others = self.outputs, self.inputs, self.experts, self.experts - 1
        of: Any = Numbers
        return of(
            counts=(4,),
            last=(d,),
            mean=(d,),
            squares=(d,),
            steps=(d,),
            x=(i,),
            x_mean=(i,),
            x_squares=(i,),
            differences=(FAR, d),
            season=(self.season, d),
            near_p=(self.near, self.near),
            near_w=(d, self.near),
            far_p=(d, self.far, self.far),
            far_w=(d, self.far),
            cross_p=(self.cross, self.cross),
            cross_w=(d, self.cross),
            stack_p=(d, others, others),
            stack_w=(d, others),
            shares=(n, d),
            variances=(n, d),
            votes=(n, d),
            errors=(n, d),
        )

    def begin(self) -> Numbers:
        """Before the first row."""
        m: Numbers = Numbers(*map(np.zeros, self.shapes()))
        for p, start in ((m.near_p, 1.0), (m.cross_p, 1.0), (m.far_p, 1.0), (m.stack_p, STACK_COVARIANCE)):
            p[...] = start * np.eye(p.shape[-1])
        m.shares[:], m.votes[:], m.variances[:] = -np.log(self.experts), -np.log(self.experts), 1
        return m

    def scratch(self) -> Scratch:
        n, d = self.experts, self.outputs
        most = max(self.near, self.far, self.cross, n)
        sizes = self.near, (d, self.far), self.cross, (d, n - 1), (n, d), n, most
        return Scratch(*map(np.zeros, sizes))


def begin_numbers(sizes: Sizes) -> NumberPanelState:
    """Before the first row."""
    return pack(sizes, sizes.begin())


def pack(sizes: Sizes, numbers: Numbers) -> NumberPanelState:
    words = np.concatenate([array.ravel() for array in numbers]).view(np.uint32)
    return NumberPanelState(words, np.array(sizes, np.uint32))


def unpack(state: NumberPanelState) -> tuple[Sizes, Numbers]:
    sizes, at, arrays = Sizes(*map(int, state.sizes)), 0, []
    flat = np.array(state.words).view(np.float64)
    for shape in sizes.shapes():
        count = int(np.prod(shape))
        arrays.append(flat[at : at + count].reshape(shape).copy())
        at += count
    return sizes, Numbers(*arrays)


def with_inputs(state: NumberPanelState, inputs: int) -> NumberPanelState:
    """The same for more inputs, which come last among the features."""
    sizes, known = unpack(state)
    larger = sizes._replace(inputs=inputs)
    fresh = larger.begin()
    for name, new, old in zip(Numbers._fields, fresh, known, strict=True):
        if name.startswith("cross") and larger.cross == 0:
            continue
        new[tuple(slice(length) for length in old.shape)] = old
    return pack(larger, fresh)


class NumberPanel:
    """Forecasts and mixer at work."""

    def __init__(self, state: NumberPanelState, learning: bool):
        self._learning = learning
        self.become(state)

    def become(self, state: NumberPanelState) -> None:
        self._sizes, self._numbers = unpack(state)
        self._scratch = self._sizes.scratch()

    def state(self) -> NumberPanelState:
        return pack(self._sizes, self._numbers)

    @property
    def shares(self) -> np.ndarray:
        """The weight of each expert, the mean over outputs."""
        return np.exp(self._numbers.shares).mean(axis=1)

    @property
    def expected(self) -> np.ndarray:
        """What each expert expected where it was asked last, (experts, outputs)."""
        return self._scratch.expected

    @property
    def errors(self) -> np.ndarray:
        """The root of the recent mean square error of each expert, over all outputs."""
        return np.sqrt(self._numbers.errors.mean(axis=1))

    @property
    def first_network(self) -> int:
        """The place of the first network among the experts."""
        return self._sizes.experts - 1 - self._sizes.networks

    def takes(self, piece: Chunk) -> bool:
        """Whether it takes a piece as a whole: a value that is the target and then the input is not known before."""
        return isinstance(piece, Pairs)

    def inside(self, piece: Chunk) -> Pairs:
        """A piece as the networks get it: inputs scaled, targets as differences to the last one."""
        assert isinstance(piece, Pairs)
        x, y, seen = self._arrays(piece)
        inputs, targets = np.zeros_like(x), np.zeros_like(y)
        before = self._past()
        prepare_rows(self._numbers, x, y, seen, inputs, targets)
        self._restore(before)
        return Pairs(inputs, None if piece.y is None else targets, piece.seen)

    def _past(self) -> list[np.ndarray]:
        """What `_restore` needs to take back rows from which nothing was learned."""
        return [array.copy() for array in self._numbers[:PAST]]

    def _restore(self, past: list[np.ndarray]) -> None:
        for array, before in zip(self._numbers[:PAST], past, strict=True):
            array[...] = before

    def take(self, piece: Chunk, y_hats: np.ndarray, advancing: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """Learn from a piece: the loss of each item, and what each expert made of it, in nats."""
        x, y, seen = self._arrays(piece)
        count = len(seen)
        found = np.zeros(count), np.zeros((count, self._sizes.experts)), np.zeros((count, self._sizes.outputs))
        reading = x, y, seen, advancing, self._learning
        mix_rows(self._numbers, self._scratch, reading, np.asarray(y_hats, np.float64), found)
        return found[0], found[1]

    def observe(self, y: Any, y_hats: np.ndarray) -> tuple[float, np.ndarray]:
        """Learn from a target."""
        one = Pairs(np.zeros((1, self._sizes.inputs)), np.asarray(y, float)[None])
        losses, costs = self.take(one, y_hats[:, None], advancing=False)
        return float(losses[0]), costs[0]

    def advance(self, x: Any) -> None:
        """An input has come."""
        self.take(Pairs(np.asarray(x, float)[None]), np.zeros((self._sizes.networks, 1, self._sizes.outputs)))

    def input(self, x: Any) -> np.ndarray:
        """What networks get of an input that has not come yet."""
        return self.inside(Pairs(np.asarray(x, float)[None])).x[0]

    def target(self, y: Any) -> np.ndarray:
        """What networks get of a target that has not come yet."""
        inside = self.inside(Pairs(np.zeros((1, self._sizes.inputs)), np.asarray(y, float)[None]))
        return inside.y[0]  # pyright: ignore[reportOptionalSubscript]

    def predict(self, y_hats: np.ndarray) -> np.ndarray:
        """The mean of the mixture; `y_hats` of the networks, (networks, outputs)."""
        y_hat = np.zeros(self._sizes.outputs)
        look_ahead(self._numbers, self._scratch, np.asarray(y_hats, np.float64), y_hat)
        return y_hat

    def predict_after(self, x: Any, y_hats: np.ndarray) -> np.ndarray:
        """The same, of the target after an input that is not taken yet."""
        before = self._past()
        self.advance(x)
        y_hat = self.predict(y_hats)
        self._restore(before)
        return y_hat

    def reset(self) -> None:
        """A new episode: the rows before are forgotten."""
        self._numbers.differences[:] = 0

    def _arrays(self, piece: Chunk) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        assert isinstance(piece, Pairs)
        count = size(piece)
        y = np.zeros((count, self._sizes.outputs)) if piece.y is None else np.asarray(piece.y, float)
        x = np.clip(np.asarray(piece.x, float), -LARGEST, LARGEST)
        return np.ascontiguousarray(x), np.clip(y, -LARGEST, LARGEST), np.ascontiguousarray(has_target(piece))
