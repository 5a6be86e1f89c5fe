"""Recurrent networks as cells: a pointwise function of one unit, fed by a fan-in that all units share.

u = [1, activity(h), x, below] is the fan-in, a_i = Theta_i u the pre-activations of unit i (one a gate), and own_i' =
pointwise(a_i, own_i) the cell. So df/dTheta is c_i (x) u: a few numbers per unit and one vector, never an n x P
Jacobian (`immediate.py`). `cells.py` has the cells, `stack.py` puts them on top of each other.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..configuration import at_least, configuration, set_field, static
from ..protocol import Fixed, Params
from .graphs import Graph
from .readouts import Gaussian, Readout, Softmax, affine
from .spaces import Space, Symbols, Vectors
from .substeps import SingleCell, Substep

ALL = ("units", "input")  # what a gate may listen to, beside its bias


@configuration
class Recurrent(ABC):
    """What all cells share: theta of shape (units, gates, 1 + fan-in) with rows [bias | recurrent | input | layer
    below], phi of shape (outputs, 1 + width).

    The state h is a flat vector: the components of all units, one component after the other.
    """

    units: int = static()
    symbols: int | None = static(default=None)
    inputs: int | None = static(default=None)
    outputs: int | None = static(default=None)
    graph: Any = static(default=None)

    components: ClassVar[int] = 1
    listens: ClassVar[tuple[tuple[str, ...], ...]] = (ALL,)  # of each gate
    packed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        set_field(self, "units", at_least("units", self.units, 1))
        for name in ("symbols", "inputs", "outputs"):
            if getattr(self, name) is not None:
                set_field(self, name, at_least(name, getattr(self, name), 2 if name == "symbols" else 1))
        if self.graph is not None and not isinstance(self.graph, Graph):
            set_field(self, "graph", Graph(self.graph, self.units))
        if self.graph is not None and self.graph.units != self.units:
            raise ValueError(f"graph: it has {self.graph.units} units, the network {self.units}")
        _ = self.input_space, self.readout  # refuse a system without ends

    @property
    def input_space(self) -> Space:
        """Inputs are vectors where `inputs` is given, symbols otherwise."""
        return Vectors(self.inputs) if self.inputs is not None else Symbols(_given(self.symbols, "symbols or inputs"))

    @property
    def target_space(self) -> Symbols | Vectors:
        """Targets are vectors where `outputs` is given, symbols otherwise."""
        return self.readout.space

    @property
    def readout(self) -> Readout:
        """Linear-Gaussian where `outputs` is given, softmax otherwise."""
        if self.outputs is not None:
            return Gaussian(Vectors(self.outputs))
        return Softmax(Symbols(_given(self.symbols, "symbols or outputs")))

    @property
    def gates(self) -> int:
        return len(self.listens)

    @property
    def size(self) -> int:
        """How many numbers the state has."""
        return self.components * self.units

    @property
    def width(self) -> int:
        """How many numbers the readout, the other units and the layer above see."""
        return self.units

    @property
    def degree(self) -> int:
        """How many units each unit hears."""
        return self.width if self.graph is None else self.graph.degree

    @property
    def substeps(self) -> tuple[Substep, ...]:
        return (SingleCell(self),)

    # --- the cell ---------------------------------------------------------------------------------------------------

    @abstractmethod
    def pointwise(self, a: Float[Array, "gates units"], own: Float[Array, "components units"], setting: Any) -> Array:
        """own' of all units from their pre-activations: entry i of the result depends on entry i of the arguments
        alone.
        """

    @abstractmethod
    def activity(self, own: Float[Array, "components units"]) -> Float[Array, " width"]:
        """What the other units, the readout and the layer above see."""

    def constants(self, key: jax.Array, dtype: Any) -> Any:
        """Numbers of the cell that are not trained."""
        return ()

    def setting(self, constants: Any, x: Any) -> Any:
        """What `pointwise` is told beside a and own."""
        return constants

    def encoded(self, x: Any, dtype: Any) -> Float[Array, " inputs"]:
        """The input as a vector."""
        return jax.nn.one_hot(x, self.signals, dtype=dtype) if self.inputs is None else x.astype(dtype)

    @property
    def signals(self) -> int:
        """How many numbers an input has once it is a vector."""
        return self.inputs or _given(self.symbols, "symbols or inputs")

    def fan_in(self, activity: Float[Array, " width"], x: Any, below: Array | None) -> Float[Array, "*units fan"]:
        """u = [1, activity, x, below], of shape (1 + fan,), or (units, 1 + fan) on a graph."""
        dtype = activity.dtype
        common = [self.encoded(x, dtype), *([] if below is None else [below])]
        heard = self.hear(activity)
        if heard.ndim == 1:
            return jnp.concatenate([jnp.ones(1, dtype), heard, *common])
        spread = [jnp.broadcast_to(part[None, :], (self.units, part.size)) for part in common]
        return jnp.concatenate([jnp.ones((self.units, 1), dtype), heard, *spread], axis=1)

    def hear(self, activity: Float[Array, " width"]) -> Float[Array, "*units degree"]:
        """What the units hear of each other: the same for all, or gathered for each on a graph."""
        return activity if self.graph is None else self.graph.gather(activity)

    def preactivations(self, theta: Float[Array, "units gates fan"], u: Array) -> Float[Array, "gates units"]:
        """a_i = Theta_i u."""
        return jnp.einsum("igk,k->gi" if u.ndim == 1 else "igk,ik->gi", theta, u)

    def recurrence(
        self, theta: Float[Array, "units gates fan"], activity: Float[Array, " width"], below: Array | None = None
    ) -> Float[Array, "gates units"]:
        """The part of the pre-activations that comes from other units, of this layer and of the one below."""
        a = self.preactivations(theta[:, :, 1 : 1 + self.degree], self.hear(activity))
        return a if below is None else a + self.preactivations(theta[:, :, -below.size :], below)

    def effective_weights(self, theta: Array, c: Float[Array, "gates components units"]) -> tuple[Array, Array]:
        """sum_g c_g W_g of each component and unit, and its entry from the unit to itself."""
        weights = theta[:, :, 1 : 1 + self.degree]
        # gate by gate: an einsum would be a product of small matrices for each unit, which takes XLA long
        across = functools.reduce(jnp.add, (c[g][:, :, None] * weights[None, :, g] for g in range(self.gates)))
        sources = np.arange(self.units)[None, :] if self.graph is None else self.graph.sources
        own = jnp.asarray(sources == np.arange(self.units)[:, None], theta.dtype)
        return across, jnp.einsum("cuk,uk->cu", across, own)

    def activity_variance(self, own: Array, variance: Float[Array, "components units"]) -> Float[Array, " width"]:
        """The variance of what a unit shows, from those of its components: (d activity / d own)^2 variance."""
        return jnp.sum(jax.jacobian(lambda own: jnp.sum(self.activity(own)))(own) ** 2 * variance, axis=0)

    def heard_by_rows(self, u: Float[Array, "*units fan"]) -> Float[Array, "units_or_1 gates_or_1 fan"]:
        """The fan-in as each row of theta hears it."""
        return self.listening(u[None, None, :] if u.ndim == 1 else u[:, None, :])

    def listening(self, rows: Float[Array, "units_or_1 gates_or_1 fan"]) -> Float[Array, "units_or_1 gates_or_1 fan"]:
        """Rows of theta, or what they hear, with zeros where a gate does not listen."""
        mask = self.mask(rows.shape[-1])
        return rows if mask is None else rows * jnp.asarray(mask, rows.dtype)[None]

    def mask(self, fan: int) -> np.ndarray | None:
        """1 where a gate listens; None where all of them listen to all."""
        if all(gate == ALL for gate in self.listens):
            return None
        inputs = fan - 1 - self.degree
        parts = [[[True], ["units" in gate] * self.degree, ["input" in gate] * inputs] for gate in self.listens]
        return np.array([np.concatenate(gate) for gate in parts], bool)

    # --- the system -------------------------------------------------------------------------------------------------

    def init(self, key: jax.Array, dtype: Any) -> tuple[Params, Float[Array, " n"]]:
        """theta as `initial`, phi and h zero."""
        weights, constants = jax.random.split(key)
        phi = jnp.zeros((self.target_space.size, 1 + self.width), dtype)
        h = jnp.zeros(self.size, dtype)
        return Params(self.initial(weights, dtype), phi, Fixed(h, constants=self.constants(constants, dtype))), h

    def initial(self, key: jax.Array, dtype: Any, below: int = 0) -> Float[Array, "units gates fan"]:
        """W ~ 0.1 N(0,1)/sqrt(n), r ~ N(0,1), from the layer below N(0,1)/sqrt(its width)."""
        recurrent, inputs, lower, bias = jax.random.split(key, 4)
        rows = (self.units, self.gates)
        parts = [
            self.biases(bias, dtype)[:, :, None],
            0.1 / self.units**0.5 * jax.random.normal(recurrent, (*rows, self.degree), dtype),
            jax.random.normal(inputs, (*rows, self.signals), dtype),
            max(below, 1) ** -0.5 * jax.random.normal(lower, (*rows, below), dtype),
        ]
        return self.listening(jnp.concatenate(parts, axis=2))

    def biases(self, key: jax.Array, dtype: Any) -> Float[Array, "units gates"]:
        return jnp.zeros((self.units, self.gates), dtype)

    def evolve(self, params: Params, h: Float[Array, " n"], x: Any) -> Float[Array, " n"]:
        """h' = f(theta, h, x), through all sub-steps."""
        for substep in self.substeps:
            h = substep.evolve(params, h, x)
        return h

    def predict(self, params: Params, h: Float[Array, " n"]) -> Float[Array, " outputs"]:
        """y_hat = Y(phi, h)."""
        return affine(params.phi, self.shown(h))

    def shown(self, h: Float[Array, " n"]) -> Float[Array, " width"]:
        """What the readout hears."""
        return self.activity(self.substeps[-1].shown(h))

    def loss(self, y_hat: Float[Array, " outputs"], y: Array) -> Float[Array, ""]:
        return self.readout.loss(y_hat, y)

    def fisher_root(self, y_hat: Float[Array, " outputs"], y: Array) -> Float[Array, "roots outputs"]:
        return self.readout.fisher_root(y_hat)


def _given(size: int | None, name: str) -> int:
    if size is None:
        raise ValueError(f"a network needs {name}")
    return size
