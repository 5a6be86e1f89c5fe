"""Layers of cells on top of each other, updated in turn: the rolling multilayer network [NBT, section 1.3].

Layer i sees the input, its own past and the layer below, just updated. The reduction is applied at each layer in turn,
so that the estimate is unbiased across the whole stack.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..configuration import configuration, set_field, static
from ..protocol import Fixed, Params, RowBlock, Tree
from .readouts import Readout, affine
from .recurrent import Recurrent
from .spaces import Space
from .substeps import Flat, Own, Substep

ENDS = ("symbols", "inputs", "outputs")


@configuration
class Stack:
    """`Stack([LSTM(units=20, symbols=3), RNN(units=10, symbols=3)])`: theta is a tuple with an array for each layer,
    the readout sits on the top layer.
    """

    layers: Any = static()

    packed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        set_field(self, "layers", _fitting(self.layers))

    @property
    def top(self) -> Recurrent:
        return self.layers[-1]

    @property
    def units(self) -> int:
        return sum(layer.units for layer in self.layers)

    @property
    def inputs(self) -> int | None:
        return self.top.inputs

    @property
    def size(self) -> int:
        return sum(layer.size for layer in self.layers)

    @property
    def input_space(self) -> Space:
        return self.top.input_space

    @property
    def target_space(self) -> Any:
        return self.top.target_space

    @property
    def readout(self) -> Readout:
        return self.top.readout

    @property
    def substeps(self) -> tuple[Substep, ...]:
        return tuple(Layer(self, index) for index in range(len(self.layers)))

    @property
    def shapes(self) -> tuple[tuple[int, int, int], ...]:
        """The shape of each array of theta."""
        below = [0, *(layer.width for layer in self.layers)]
        fans = [1 + layer.degree + layer.signals + width for layer, width in zip(self.layers, below, strict=False)]
        return tuple((layer.units, layer.gates, fan) for layer, fan in zip(self.layers, fans, strict=True))

    def init(self, key: jax.Array, dtype: Any) -> tuple[Params, Flat]:
        """Each layer as it would start alone; phi and h zero."""
        below = [0, *(layer.width for layer in self.layers)]
        theta, constants = [], []
        for layer, width, one in zip(self.layers, below, jax.random.split(key, len(self.layers)), strict=False):
            weights, fixed = jax.random.split(one)
            theta.append(layer.initial(weights, dtype, width))
            constants.append(layer.constants(fixed, dtype))
        h = jnp.zeros(self.size, dtype)
        phi = jnp.zeros((self.target_space.size, 1 + self.top.width), dtype)
        return Params(tuple(theta), phi, Fixed(h, constants=tuple(constants))), h

    def evolve(self, params: Params, h: Flat, x: Any) -> Flat:
        """h' = f(theta, h, x), layer by layer."""
        for layer in self.substeps:
            h = layer.evolve(params, h, x)
        return h

    def predict(self, params: Params, h: Flat) -> Float[Array, " outputs"]:
        """y_hat = Y(phi, h), from the top layer."""
        return affine(params.phi, self.shown(h))

    def shown(self, h: Flat) -> Float[Array, " width"]:
        """What the readout hears."""
        return self.top.activity(self.substeps[-1].read(h))

    def loss(self, y_hat: Float[Array, " outputs"], y: Array) -> Float[Array, ""]:
        return self.readout.loss(y_hat, y)

    def fisher_root(self, y_hat: Float[Array, " outputs"], y: Array) -> Float[Array, "roots outputs"]:
        return self.readout.fisher_root(y_hat)


@configuration
class Layer(Substep):
    """The sub-step of one layer of a stack."""

    stack: Stack
    index: int = static()

    @property
    def cell(self) -> Recurrent:
        return self.stack.layers[self.index]

    @property
    def rows(self) -> RowBlock:
        offset = sum(int(np.prod(shape)) for shape in self.stack.shapes[: self.index])
        return RowBlock(self.index, offset, self.cell.units, self.cell.gates)

    @property
    def total(self) -> int:
        return self.stack.size

    @property
    def mine(self) -> slice:
        """Where the state of the layer lies in that of the stack."""
        start = sum(layer.size for layer in self.stack.layers[: self.index])
        return slice(start, start + self.cell.size)

    def theta(self, params: Params) -> Float[Array, "units gates fan"]:
        return params.theta[self.index]

    def constants(self, params: Params) -> Any:
        return params.fixed.constants[self.index]

    def place(self, leaf: Float[Array, "units gates fan"]) -> Tree:
        return tuple(
            leaf if index == self.index else jnp.zeros(shape, leaf.dtype)
            for index, shape in enumerate(self.stack.shapes)
        )

    def read(self, h: Flat) -> Own:
        return h[self.mine].reshape(self.cell.components, self.cell.units)

    def pick(self, q: Flat) -> Own:
        return self.read(q)

    def put(self, h: Flat, own: Own) -> Flat:
        # not h.at[...].set: updated in place within a scan, it spoils the state that others still read (XLA on CPU)
        return jnp.concatenate([h[: self.mine.start], own.ravel(), h[self.mine.stop :]])

    @property
    def lower(self) -> Layer | None:
        return Layer(self.stack, self.index - 1) if self.index else None


def _fitting(layers: Sequence[Any]) -> tuple[Recurrent, ...]:
    """The layers, refused where they do not fit on top of each other."""
    if not isinstance(layers, Sequence) or not layers:
        raise ValueError("layers: a stack is made of one or more cells, Stack([nbt.LSTM(...), nbt.RNN(...)])")
    for index, layer in enumerate(layers):
        if not isinstance(layer, Recurrent):
            raise ValueError(f"layer {index}: a layer is a cell such as nbt.LSTM(units=20, symbols=3), not {layer!r}")
        if len(layer.substeps) > 1:
            raise ValueError(f"layer {index}: {layer!r} takes two sub-steps itself; in a stack, use method='euler'")
        for end in ENDS:
            first, here = getattr(layers[0], end), getattr(layer, end)
            if here != first:
                raise ValueError(
                    f"layer {index}: {end} is {here}, but {first} in layer 0; all layers see the same input, and the "
                    "readout sits on the top one"
                )
        if layer.input_space != layers[0].input_space:
            raise ValueError(f"layer {index}: its inputs have times dt, or have none, unlike those of layer 0")
    return tuple(layers)
