"""A transition as a sequence of sub-steps, each of them one cell at work on a part of the state.

A sub-step replaces some components of some units and leaves the rest of the state as it is. So its Jacobian is the
identity but for those rows, and only those rows depend on theta: a stack of layers, or a step of Heun's method, is
never differentiated as one dense function [NBT, section 1.3, "Multilayer recurrent neural networks"].
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..configuration import configuration
from ..protocol import Params, RowBlock, Tree

Flat = Float[Array, " n"]
Own = Float[Array, "components units"]


class Substep(ABC):
    """Which parameters a cell uses, what it reads of the state and what it writes."""

    @property
    @abstractmethod
    def cell(self) -> Any:
        """The recurrent cell at work."""

    @property
    @abstractmethod
    def rows(self) -> RowBlock:
        """Where the rows of the cell lie in theta."""

    @abstractmethod
    def theta(self, params: Params) -> Float[Array, "units gates fan"]:
        """The parameters of the cell."""

    @abstractmethod
    def constants(self, params: Params) -> Any:
        """The constants of the cell."""

    @abstractmethod
    def place(self, leaf: Float[Array, "units gates fan"]) -> Tree:
        """A linear form on the parameters of the cell as one on all of theta."""

    @abstractmethod
    def read(self, h: Flat) -> Own:
        """What the units of the cell know of themselves."""

    @abstractmethod
    def pick(self, q: Flat) -> Own:
        """The entries, of a vector like the state, that the sub-step writes."""

    @abstractmethod
    def put(self, h: Flat, own: Own) -> Flat:
        """The state with those entries replaced."""

    @property
    @abstractmethod
    def total(self) -> int:
        """How many numbers the whole state has."""

    @property
    def lower(self) -> Substep | None:
        """The sub-step of the layer below, where there is one."""
        return None

    def below(self, h: Flat) -> Float[Array, " width"] | None:
        """What the cell hears of the layer below."""
        return None if self.lower is None else self.lower.cell.activity(self.lower.read(h))

    def shown(self, h: Flat) -> Own:
        """What the units of the cell know of themselves, for the readout and the layer above."""
        return self.read(h)

    def pointwise(self, a: Float[Array, "gates units"], own: Own, setting: Any) -> Own:
        """What is written, from the pre-activations."""
        return self.cell.pointwise(a, own, setting)

    @property
    def count(self) -> int:
        """How many numbers of the state are written: as many rows w_i, and signs."""
        return self.cell.size

    def spread(self, own: Own) -> Flat:
        """The same entries in a vector that is zero elsewhere."""
        return self.put(jnp.zeros(self.total, own.dtype), own)

    def evolve(self, params: Params, h: Flat, x: Any) -> Flat:
        """The state after the sub-step."""
        cell, own = self.cell, self.read(h)
        a = cell.preactivations(cell.listening(self.theta(params)), cell.fan_in(cell.activity(own), x, self.below(h)))
        return self.put(h, self.pointwise(a, own, cell.setting(self.constants(params), x)))


@configuration
class SingleCell(Substep):
    """A cell that is the whole system: it reads and writes all of the state."""

    network: Any

    @property
    def cell(self) -> Any:
        return self.network

    @property
    def rows(self) -> RowBlock:
        return RowBlock(0, 0, self.network.units, self.network.gates)

    @property
    def total(self) -> int:
        return self.network.size

    def theta(self, params: Params) -> Float[Array, "units gates fan"]:
        return params.theta

    def constants(self, params: Params) -> Any:
        return params.fixed.constants

    def place(self, leaf: Float[Array, "units gates fan"]) -> Tree:
        return leaf

    def read(self, h: Flat) -> Own:
        return h.reshape(-1, self.cell.units)

    def pick(self, q: Flat) -> Own:
        return self.read(q)

    def put(self, h: Flat, own: Own) -> Flat:
        return own.ravel()
