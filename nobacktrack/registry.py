"""The classes that a checkpoint may name: nothing else is ever made of one."""

from __future__ import annotations

from typing import TypeVar

Class = TypeVar("Class", bound=type)

_CLASSES: dict[str, type] = {}


def register(cls: Class) -> Class:
    """Let checkpoints hold a class: a decorator for the records (NamedTuples) of a state. Configurations are registered
    by `@configuration`.
    """
    _CLASSES[name_of(cls)] = cls
    return cls


def name_of(cls: type) -> str:
    """What a class is called in a file: its plain name in this library, `module:name` elsewhere."""
    ours = cls.__module__.partition(".")[0] == __name__.partition(".")[0]
    return cls.__name__ if ours else f"{cls.__module__}:{cls.__qualname__}"


def is_registered(cls: type) -> bool:
    return _CLASSES.get(name_of(cls)) is cls


def lookup(name: str) -> type:
    """The class of a name; a KeyError where there is none."""
    return _CLASSES[name]
