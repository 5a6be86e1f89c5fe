"""Systems in continuous time, dh/dt = F(h, x, theta), on streams whose time stamps may be irregular [NBT, section 1.4].

An input is a pair (dt, x): the time that passed, and the value that held during it. Heun's step is two sub-steps, since
as one function it is not sparse: a predictor p = h + dt F(h), and a corrector h' = (h + p + dt F(p)) / 2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..configuration import as_number, configuration, set_field, static
from ..errors import BadItem
from ..guards import expect_like
from ..protocol import Tree
from .cells import Additive
from .recurrent import ALL
from .spaces import Space, length
from .substeps import Flat, Own, SingleCell, Substep

Field = Callable[[Any, Any, Any], Any]


def euler(field: Field) -> Field:
    """The transition h' = h + dt F(theta, h, x) of a system of your own, `nbt.System(nbt.euler(F), readout, loss)`; its
    inputs are pairs (dt, x).
    """

    def transition(theta: Tree, h: Tree, timed: tuple[Array, Tree]) -> Tree:
        dt, x = timed
        return _moved(h, dt, field(theta, h, x))

    return transition


def heun(field: Field) -> Field:
    """The transition h' = h + dt (F(theta, h, x) + F(theta, p, x)) / 2 with p the Euler step. A plain function is
    differentiated as a whole, so that it needs no sub-steps.
    """

    def transition(theta: Tree, h: Tree, timed: tuple[Array, Tree]) -> Tree:
        dt, x = timed
        slope = field(theta, h, x)
        later = field(theta, _moved(h, dt, slope), x)
        return _moved(h, dt, jax.tree.map(lambda a, b: (a + b) / 2, slope, later))

    return transition


def _moved(h: Tree, dt: Array, slope: Tree) -> Tree:
    expect_like(slope, h, "field(theta, h, x)", "h")
    return jax.tree.map(lambda leaf, rate: leaf + jnp.asarray(dt, leaf.dtype) * rate, h, slope)


@configuration
class Timed:
    """A pair (dt, value): the time that passed, not negative, and a value of another space."""

    value: Any

    def check(self, values: Any, name: str, *, many: bool) -> tuple[np.ndarray, Any]:
        if not isinstance(values, tuple) or len(values) != 2:
            raise BadItem(f"{name}: expected a pair (dt, value), got {type(values).__name__}")
        dt = np.asarray(values[0])
        if dt.dtype.kind not in "iuf" or dt.ndim != int(many):
            raise BadItem(f"{name}: dt must be a real number{' each' * many}, not {dt.dtype} of shape {dt.shape}")
        bad = ~(np.isfinite(dt) & (dt >= 0))
        if bad.any():
            index = int(np.argmax(bad)) if many else None
            where = "" if index is None else f" at index {index}"
            value = dt[bad][0] if many else dt
            raise BadItem(f"{name}{where}: dt = {value}, but time passes, and does not go back", index)
        value = self.value.check(values[1], name, many=many)
        if many and length(value) != len(dt):
            raise BadItem(f"{name}: {len(dt)} times dt for {length(value)} values")
        return dt.astype(float), value

    def example(self, dtype: Any) -> tuple[np.ndarray, Any]:
        return np.zeros((), dtype), self.value.example(dtype)


@configuration
class ContinuousRNN(Additive):
    """tau_i dh_i/dt = -h_i + b_i + sum_j W_ji sigma(h_j) + sum_l r_li x_l, on inputs (dt, x), by Euler's or Heun's
    method. tau_i is trained: log tau_i is the bias of a gate that hears nothing.

    tau_i starts log-uniform between `fastest` and `slowest`, in the unit of dt; dt well below tau_i is what keeps an
    explicit step stable.
    """

    method: Literal["euler", "heun"] = static(default="euler")
    fastest: float = static(default=1.0)
    slowest: float = static(default=10.0)

    listens: ClassVar[tuple[tuple[str, ...], ...]] = (ALL, ())

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.method not in ("euler", "heun"):
            raise ValueError(f"method must be euler or heun, not {self.method!r}")
        for name in ("fastest", "slowest"):
            set_field(self, name, float(as_number(getattr(self, name), name)))
        if not 0 < self.fastest <= self.slowest:
            raise ValueError(f"0 < fastest <= slowest is needed, not {self.fastest} and {self.slowest}")

    @property
    def input_space(self) -> Space:
        return Timed(super().input_space)

    @property
    def size(self) -> int:
        return self.units if self.method == "euler" else 2 * self.units

    @property
    def substeps(self) -> tuple[Substep, ...]:
        return super().substeps if self.method == "euler" else (Predictor(self), Corrector(self))

    def biases(self, key: jax.Array, dtype: Any) -> Float[Array, "units gates"]:
        ends = float(np.log(self.fastest)), float(np.log(self.slowest))
        log_tau = jax.random.uniform(key, (self.units,), dtype, *ends)
        return jnp.stack([jnp.zeros_like(log_tau), log_tau], axis=1)

    def encoded(self, x: tuple[Array, Any], dtype: Any) -> Float[Array, " inputs"]:
        return super().encoded(x[1], dtype)

    def setting(self, constants: Any, x: tuple[Array, Any]) -> Array:
        """dt."""
        return x[0]

    def pointwise(self, a: Float[Array, "2 units"], own: Own, setting: Array) -> Own:
        """own + dt (a - own) / tau."""
        return own[-1:] + setting.astype(own.dtype) * jnp.exp(-a[1:]) * (a[:1] - own[-1:])


class Half(SingleCell):
    """What the two sub-steps of Heun's method share: the state is [h, p], one of which is written."""

    written: ClassVar[int]

    @property
    def count(self) -> int:
        return self.cell.units

    def pick(self, q: Flat) -> Own:
        return q.reshape(2, -1)[self.written : self.written + 1]

    def put(self, h: Flat, own: Own) -> Flat:
        rest = h.reshape(2, -1)[1 - self.written]
        return jnp.concatenate([own[0], rest] if self.written == 0 else [rest, own[0]])

    def shown(self, h: Flat) -> Own:
        return h.reshape(2, -1)[:1]


@configuration
class Predictor(Half):
    """p <- h + dt F(h)."""

    written: ClassVar[int] = 1

    def read(self, h: Flat) -> Own:
        return h.reshape(2, -1)[:1]


@configuration
class Corrector(Half):
    """h <- (h + p + dt F(p)) / 2."""

    written: ClassVar[int] = 0

    def pointwise(self, a: Float[Array, "2 units"], own: Own, setting: Array) -> Own:
        return (own[:1] + self.cell.pointwise(a, own, setting)) / 2
