"""Hyper-parameters: frozen dataclasses that are pytrees too."""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Callable
from typing import Any, TypeVar, dataclass_transform

import jax

from .registry import register

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
    return register(_as_pytree(dataclasses.dataclass(frozen=True, repr=False)(cls)))


def _as_pytree(cls: Class) -> Class:
    """Numbers as leaves, static fields as structure.

    `jax.tree_util.register_dataclass` would do, but with it the structures of two classes that have the same fields
    compare equal (jax 0.10.2), and `jit` may run what it compiled for the one when it is given the other.
    """
    fields = dataclasses.fields(cls)
    leaves = tuple(field.name for field in fields if not field.metadata.get("static"))
    fixed = tuple(field.name for field in fields if field.metadata.get("static"))
    keys = tuple(jax.tree_util.GetAttrKey(name) for name in leaves)

    def flatten(self: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        return tuple(getattr(self, name) for name in leaves), tuple(getattr(self, name) for name in fixed)

    def flatten_with_keys(self: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        children, structure = flatten(self)
        return tuple(zip(keys, children, strict=True)), structure

    def unflatten(structure: tuple[Any, ...], children: Any) -> Any:
        return cls(**dict(zip(leaves, children, strict=True)), **dict(zip(fixed, structure, strict=True)))

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)
    return cls


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
    """The schedule c / sqrt(t), where t is one more than the number of inputs seen."""
    return InverseSqrt(as_number(c, "c"))


Rate = float | Schedule | InverseSqrt


def as_rate(rate: Any, name: str) -> Any:
    """A number or a function of t, as a pytree; a ValueError that names the argument otherwise."""
    if callable(rate):
        is_leaf = jax.tree_util.all_leaves([rate])
        return Schedule(rate) if is_leaf else rate
    return as_number(rate, name)


def as_share(value: Any, name: str) -> Any:
    """A number above 0 and at most 1."""
    if isinstance(as_number(value, name), numbers.Real) and not 0 < value <= 1:
        raise ValueError(f"{name} must be above 0 and at most 1, not {value}")
    return value


def as_number(value: Any, name: str) -> Any:
    """A finite number >= 0, refused by name otherwise; what jax puts in the place of a number passes."""
    if value is None or isinstance(value, (bool, str, list, tuple, dict)):
        raise ValueError(f"{name} must be a number, not {value!r}")
    if isinstance(value, numbers.Real) and not 0 <= float(value) < float("inf"):
        raise ValueError(f"{name} must be a finite number >= 0, not {value!r}")
    return value


def rate_at(rate: Any, t: jax.Array) -> jax.Array:
    """The value at t of a rate that is a number or a function of t."""
    return jax.numpy.asarray(rate(t) if callable(rate) else rate, t.dtype)


def set_field(instance: Any, name: str, value: Any) -> None:
    """Normalise a field of a frozen dataclass in `__post_init__`."""
    object.__setattr__(instance, name, value)


def at_least(name: str, value: Any, least: int) -> int:
    """An integer argument, refused by name where it is too small, or no integer at all."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise ValueError(f"{name} must be an integer >= {least}, not {value!r}")
    return int(value)


def expect_part(part: Any, name: str, verb: str, hint: str) -> None:
    """Refuse what is not a part of its kind (it lacks a method), or is a class in the place of an instance."""
    if isinstance(part, type) or not hasattr(part, verb):
        raise ValueError(f"{name} must be {hint}, not {part!r}")
