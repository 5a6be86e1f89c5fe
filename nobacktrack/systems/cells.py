"""The cells: what one unit does with its pre-activations."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..configuration import configuration, static
from .recurrent import ALL, Recurrent

ACTIVATIONS = {"sigmoid": jax.nn.sigmoid, "tanh": jnp.tanh}
LARGEST_ALPHA = 0.999


@configuration
class Additive(Recurrent):
    """Units whose state is a sum, seen through an activation."""

    activation: Literal["sigmoid", "tanh"] = static(default="sigmoid")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}, not {self.activation!r}")

    @abstractmethod
    def pointwise(self, a: Array, own: Array, setting: Any) -> Array: ...

    def activity(self, own: Float[Array, "components units"]) -> Float[Array, " units"]:
        return ACTIVATIONS[self.activation](own[-1])


@configuration
class RNN(Additive):
    """h_i' = b_i + sum_j W_ji sigma(h_j) + sum_l r_li x_l: the state is the pre-activations [NBT, section 1.3]."""

    def pointwise(self, a: Array, own: Array, setting: Any) -> Array:
        return a


@configuration
class LeakyRNN(Additive):
    """h_i' = alpha_i h_i + b_i + sum_j W_ji sigma(h_j) + sum_l r_li x_l, alpha_i uniform in [0, 1] and not trained
    [NBT, section 1.3].
    """

    def constants(self, key: jax.Array, dtype: Any) -> Float[Array, " units"]:
        return jax.random.uniform(key, (self.units,), dtype)

    def pointwise(self, a: Array, own: Array, setting: Float[Array, " units"]) -> Array:
        return a + setting[None, :] * own


@configuration
class LearnedLeakyRNN(Additive):
    """The leaky RNN with alpha_i = sigmoid(beta_i) trained as well: beta_i is the bias of a gate that hears nothing.

    dh_i'/dbeta_i = alpha_i (1 - alpha_i) h_i stays bounded as alpha_i -> 1, where h_i grows as 1/(1 - alpha_i): a step
    in beta changes long memories by one power of 1/(1 - alpha_i) less than one in alpha does, which the paper left out
    for its instabilities [NBT, section 3].
    """

    listens: ClassVar[tuple[tuple[str, ...], ...]] = (ALL, ())

    def biases(self, key: jax.Array, dtype: Any) -> Float[Array, "units gates"]:
        """alpha_i uniform in [0, 1], but not so near the ends that beta_i is stuck there."""
        alpha = jax.random.uniform(key, (self.units,), dtype, minval=1 - LARGEST_ALPHA, maxval=LARGEST_ALPHA)
        return jnp.stack([jnp.zeros_like(alpha), jnp.log(alpha) - jnp.log1p(-alpha)], axis=1)

    def pointwise(self, a: Array, own: Array, setting: Any) -> Array:
        return a[:1] + jax.nn.sigmoid(a[1:]) * own


class Shown:
    """Units that are seen as they are."""

    def activity(self, own: Float[Array, "components units"]) -> Float[Array, " units"]:
        return own[-1]


@configuration
class GRU(Shown, Recurrent):
    """h' = (1 - z) n + z h, n = tanh(a_n + r a_m), z = sigmoid(a_z), r = sigmoid(a_r): the reset gate after the
    product, so that all units share a fan-in.

    a_n hears the input alone, a_m the units alone; each has a bias.
    """

    listens: ClassVar[tuple[tuple[str, ...], ...]] = (ALL, ALL, ("input",), ("units",))

    def pointwise(self, a: Float[Array, "4 units"], own: Array, setting: Any) -> Array:
        z, r = jax.nn.sigmoid(a[0]), jax.nn.sigmoid(a[1])
        return ((1 - z) * jnp.tanh(a[2] + r * a[3]) + z * own[0])[None]


@configuration
class LSTM(Shown, Recurrent):
    """c' = f c + i g, h' = o tanh(c'), with i, f, o = sigmoid(a_i, a_f, a_o), g = tanh(a_g). A unit has two
    components, (c, h); the forget gate starts with a bias of 1.
    """

    components: ClassVar[int] = 2
    listens: ClassVar[tuple[tuple[str, ...], ...]] = (ALL, ALL, ALL, ALL)

    def biases(self, key: jax.Array, dtype: Any) -> Float[Array, "units gates"]:
        return jnp.zeros((self.units, self.gates), dtype).at[:, 1].set(1)

    def pointwise(self, a: Float[Array, "4 units"], own: Float[Array, "2 units"], setting: Any) -> Array:
        i, f, o = jax.nn.sigmoid(a[0]), jax.nn.sigmoid(a[1]), jax.nn.sigmoid(a[3])
        c = f * own[0] + i * jnp.tanh(a[2])
        return jnp.stack([c, o * jnp.tanh(c)])


@configuration
class LRU(Recurrent):
    """z_i' = lambda_i z_i + sqrt(1 - |lambda_i|^2) (B x)_i with lambda_i = exp(-exp(nu_i) + i omega_i), complex: the
    units do not hear each other, and |lambda_i| < 1 whatever nu_i.

    The readout and the layer above see the real and the imaginary part.
    """

    components: ClassVar[int] = 2
    listens: ClassVar[tuple[tuple[str, ...], ...]] = ((), (), ("input",), ("input",))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.graph is not None:
            raise ValueError("graph: the units of an LRU do not hear each other")

    @property
    def width(self) -> int:
        return 2 * self.units

    @property
    def degree(self) -> int:
        return 0

    def hear(self, activity: Float[Array, " width"]) -> Float[Array, " 0"]:
        return activity[:0]

    def activity(self, own: Float[Array, "2 units"]) -> Float[Array, " width"]:
        return own.ravel()

    def activity_variance(self, own: Array, variance: Float[Array, "2 units"]) -> Float[Array, " width"]:
        return variance.ravel()

    def biases(self, key: jax.Array, dtype: Any) -> Float[Array, "units gates"]:
        """|lambda|^2 uniform in [0.25, 0.98], omega in [0, pi/2]."""
        radius, angle = jax.random.split(key)
        squared = jax.random.uniform(radius, (self.units,), dtype, minval=0.25, maxval=0.98)
        omega = jax.random.uniform(angle, (self.units,), dtype, maxval=jnp.pi / 2)
        return jnp.stack([jnp.log(-jnp.log(squared) / 2), omega, *jnp.zeros((2, self.units), dtype)], axis=1)

    def pointwise(self, a: Float[Array, "4 units"], own: Float[Array, "2 units"], setting: Any) -> Array:
        size, gain = jnp.exp(-jnp.exp(a[0])), jnp.sqrt(-jnp.expm1(-2 * jnp.exp(a[0])))
        real, imaginary = size * jnp.cos(a[1]), size * jnp.sin(a[1])
        turned = jnp.stack([real * own[0] - imaginary * own[1], imaginary * own[0] + real * own[1]])
        return turned + gain[None, :] * a[2:]
