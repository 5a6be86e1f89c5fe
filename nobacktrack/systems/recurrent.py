"""Recurrent networks as cells: a pointwise function of one unit, fed by a fan-in that all units share.

u = [1, activity(h), x] is the fan-in, a_i = Theta_i u the pre-activations of unit i (one a gate), and own_i' =
pointwise(a_i, own_i) the cell. So df/dTheta is c_i (x) u: a few numbers per unit and one vector, never an n x P
Jacobian (`immediate.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..configuration import at_least, configuration, set_field, static
from ..protocol import Fixed, Params
from .graphs import Graph
from .readouts import Gaussian, Readout, Softmax, affine
from .spaces import Symbols, Vectors

ACTIVATIONS = {"sigmoid": jax.nn.sigmoid, "tanh": jnp.tanh}


@configuration
class Recurrent(ABC):
    """What all cells share: theta of shape (units, gates, 1 + fan-in) with rows [bias | recurrent | input], phi of
    shape (outputs, 1 + units).

    The state h is a flat vector: the components of all units, one component after the other.
    """

    units: int = static()
    symbols: int | None = static(default=None)
    inputs: int | None = static(default=None)
    outputs: int | None = static(default=None)
    activation: Literal["sigmoid", "tanh"] = static(default="sigmoid")
    graph: Any = static(default=None)

    gates: ClassVar[int] = 1
    components: ClassVar[int] = 1
    packed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        set_field(self, "units", at_least("units", self.units, 1))
        for name in ("symbols", "inputs", "outputs"):
            if getattr(self, name) is not None:
                set_field(self, name, at_least(name, getattr(self, name), 2 if name == "symbols" else 1))
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}, not {self.activation!r}")
        if self.graph is not None and not isinstance(self.graph, Graph):
            set_field(self, "graph", Graph(self.graph, self.units))
        if self.graph is not None and self.graph.units != self.units:
            raise ValueError(f"graph: it has {self.graph.units} units, the network {self.units}")
        _ = self.input_space, self.readout  # refuse a system without ends

    @property
    def input_space(self) -> Symbols | Vectors:
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
    def substeps(self) -> tuple[Any, ...]:
        return (self,)

    @property
    def degree(self) -> int:
        """How many units each unit hears."""
        return self.units if self.graph is None else self.graph.degree

    # --- the cell ---------------------------------------------------------------------------------------------------

    @abstractmethod
    def pointwise(self, a: Float[Array, "gates units"], own: Float[Array, "components units"], constants: Any) -> Array:
        """own' of all units from their pre-activations: entry i of the result depends on entry i of the arguments
        alone.
        """

    def activity(self, own: Float[Array, "components units"]) -> Float[Array, " units"]:
        """What the other units and the readout see of a unit."""
        return ACTIVATIONS[self.activation](own[-1])

    def constants(self, key: jax.Array, dtype: Any) -> Any:
        """Numbers of the cell that are not trained."""
        return ()

    def split(self, h: Float[Array, " n"]) -> Float[Array, "components units"]:
        return h.reshape(self.components, self.units)

    def fan_in(self, activity: Float[Array, " units"], x: Array) -> Float[Array, "*units fan"]:
        """u = [1, activity, x], of shape (1 + fan,), or (units, 1 + fan) on a graph."""
        dtype = activity.dtype
        x = jax.nn.one_hot(x, self.input_space.size, dtype=dtype) if self.inputs is None else x.astype(dtype)
        if self.graph is None:
            return jnp.concatenate([jnp.ones(1, dtype), activity, x])
        heard = self.graph.gather(activity)
        return jnp.concatenate(
            [jnp.ones((self.units, 1), dtype), heard, jnp.broadcast_to(x[None, :], (self.units, x.size))], axis=1
        )

    def preactivations(self, theta: Float[Array, "units gates fan"], u: Array) -> Float[Array, "gates units"]:
        """a_i = Theta_i u."""
        return jnp.einsum("igk,k->gi" if u.ndim == 1 else "igk,ik->gi", theta, u)

    def recurrence(
        self, theta: Float[Array, "units gates fan"], activity: Float[Array, " units"]
    ) -> Float[Array, "gates units"]:
        """The part of the pre-activations that comes from the other units."""
        heard = self.hear(activity)
        return jnp.einsum("igk,k->gi" if heard.ndim == 1 else "igk,ik->gi", theta[:, :, 1 : 1 + self.degree], heard)

    def hear(self, activity: Float[Array, " units"]) -> Float[Array, "*units degree"]:
        """What the units hear of each other: the same for all, or gathered for each on a graph."""
        return activity if self.graph is None else self.graph.gather(activity)

    def effective_weights(self, theta: Array, c: Float[Array, "gates components units"]) -> tuple[Array, Array]:
        """sum_g c_g W_g of each component and unit, and its entry from the unit to itself."""
        across = jnp.einsum("gcu,ugk->cuk", c, theta[:, :, 1 : 1 + self.degree])
        sources = np.arange(self.units)[None, :] if self.graph is None else self.graph.sources
        own = jnp.asarray(sources == np.arange(self.units)[:, None], theta.dtype)
        return across, jnp.einsum("cuk,uk->cu", across, own)

    # --- the system -------------------------------------------------------------------------------------------------

    def init(self, key: jax.Array, dtype: Any) -> tuple[Params, Float[Array, " n"]]:
        """W ~ 0.1 N(0,1)/sqrt(n), r ~ N(0,1), biases, phi and h zero."""
        recurrent, inputs, constants = jax.random.split(key, 3)
        gates = (self.units, self.gates)
        theta = jnp.concatenate(
            [
                jnp.zeros((*gates, 1), dtype),
                0.1 / self.units**0.5 * jax.random.normal(recurrent, (*gates, self.degree), dtype),
                jax.random.normal(inputs, (*gates, self.input_space.size), dtype),
            ],
            axis=2,
        )
        phi = jnp.zeros((self.target_space.size, 1 + self.units), dtype)
        h = jnp.zeros(self.components * self.units, dtype)
        return Params(theta, phi, Fixed(h, constants=self.constants(constants, dtype))), h

    def evolve(self, params: Params, h: Float[Array, " n"], x: Array) -> Float[Array, " n"]:
        """h' = f(theta, h, x)."""
        own = self.split(h)
        a = self.preactivations(params.theta, self.fan_in(self.activity(own), x))
        return self.pointwise(a, own, params.fixed.constants).ravel()

    def predict(self, params: Params, h: Float[Array, " n"]) -> Float[Array, " outputs"]:
        """y_hat = Y(phi, h)."""
        return affine(params.phi, self.activity(self.split(h)))

    def loss(self, y_hat: Float[Array, " outputs"], y: Array) -> Float[Array, ""]:
        return self.readout.loss(y_hat, y)

    def fisher_root(self, y_hat: Float[Array, " outputs"], y: Array) -> Float[Array, "roots outputs"]:
        return self.readout.fisher_root(y_hat)


@configuration
class RNN(Recurrent):
    """h_i' = b_i + sum_j W_ji sigma(h_j) + sum_l r_li x_l: the state is the pre-activations [NBT, section 1.3]."""

    def pointwise(self, a: Array, own: Array, constants: Any) -> Array:
        return a


@configuration
class LeakyRNN(Recurrent):
    """h_i' = alpha_i h_i + b_i + sum_j W_ji sigma(h_j) + sum_l r_li x_l, alpha_i uniform in [0, 1] and not trained
    [NBT, section 1.3].
    """

    def constants(self, key: jax.Array, dtype: Any) -> Float[Array, " units"]:
        return jax.random.uniform(key, (self.units,), dtype)

    def pointwise(self, a: Array, own: Array, constants: Float[Array, " units"]) -> Array:
        return a + constants[None, :] * own


def _given(size: int | None, name: str) -> int:
    if size is None:
        raise ValueError(f"a network needs {name}")
    return size
