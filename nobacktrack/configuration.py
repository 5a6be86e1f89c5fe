"""Hyper-parameters: frozen dataclasses that are pytrees too."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar, dataclass_transform

import jax

Class = TypeVar("Class", bound=type)


def static(default: Any = dataclasses.MISSING, **options: Any) -> Any:
    """A field that shapes the computation (rank, units): another value compiles anew."""
    return dataclasses.field(default=default, metadata={"static": True}, **options)


@dataclass_transform(frozen_default=True, field_specifiers=(static, dataclasses.field))
def configuration(cls: Class) -> Class:
    """Make a frozen dataclass whose numbers are leaves (no recompilation, sweeps by vmap) and whose structure is
    static.
    """
    if "__repr__" not in vars(cls):
        setattr(cls, "__repr__", _brief)  # noqa: B010
    return jax.tree_util.register_dataclass(dataclasses.dataclass(frozen=True, repr=False)(cls))


def _brief(self: Any) -> str:
    """The class and what differs from its defaults."""
    fields = [(field, getattr(self, field.name)) for field in dataclasses.fields(self)]
    shown = [f"{field.name}={value!r}" for field, value in fields if not _is_default(field, value)]
    return f"{type(self).__name__}({', '.join(shown)})"


def _is_default(field: dataclasses.Field[Any], value: Any) -> bool:
    default = field.default
    return default is not dataclasses.MISSING and type(value) is type(default) and bool(value == default)


@configuration
class Schedule:
    """A number as a function of t = 1, 2, ..., written by the user."""

    function: Callable[..., Any] = static()

    def __call__(self, t: jax.Array) -> Any:
        return self.function(t)

    def __repr__(self) -> str:
        return getattr(self.function, "__name__", repr(self.function))


@configuration
class InverseSqrt:
    """c / sqrt(t): the rates and decays of the paper."""

    c: float

    def __call__(self, t: jax.Array) -> jax.Array:
        return self.c / jax.numpy.sqrt(t)


def inverse_sqrt(c: float) -> InverseSqrt:
    """The schedule c / sqrt(t), with t = 1 at the first target."""
    return InverseSqrt(c)


Rate = float | Schedule | InverseSqrt


def as_rate(rate: Any, name: str) -> Any:
    """A number or a function of t, as a pytree; a ValueError that names the argument otherwise."""
    if callable(rate):
        is_leaf = jax.tree_util.all_leaves([rate])
        return Schedule(rate) if is_leaf else rate
    if isinstance(rate, (int, float)) and not (0 <= rate < float("inf")):
        raise ValueError(f"{name} must be a finite number >= 0 or a function of t, not {rate!r}")
    if isinstance(rate, str):
        raise ValueError(f"{name} must be a number or a function of t, not {rate!r}")
    return rate


def rate_at(rate: Any, t: jax.Array) -> jax.Array:
    """The value at t of a rate that is a number or a function of t."""
    return jax.numpy.asarray(rate(t) if callable(rate) else rate, t.dtype)


def set_field(instance: Any, name: str, value: Any) -> None:
    """Normalise a field of a frozen dataclass in `__post_init__`."""
    object.__setattr__(instance, name, value)


def at_least(name: str, value: Any, least: int) -> None:
    """Refuse an integer argument that is too small, or no integer at all."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} must be an integer >= {least}, not {value!r}")
