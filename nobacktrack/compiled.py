"""How kernels are compiled: cached on disk, without the interpreter's lock, sums in any order."""

from __future__ import annotations

import functools
import gc
import hashlib
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.core import config
from numba.core import event as events

from . import files
from .parts import PartCompiler

# Sums may be reordered and products contracted, but NaN and infinity keep their meaning.
OPTIONS: Any = {
    "nogil": True,
    "_nrt": False,  # no array is made in a kernel, so none is counted
    "error_model": "numpy",
    "fastmath": {"reassoc", "contract", "arcp", "nsz", "afn"},
}

# The same with sums in the order in which they are written: what is computed twice must be the same, bit for bit.
EXACT = {name: value for name, value in OPTIONS.items() if name != "fastmath"}

MONTH = 30 * 24 * 3600.0  # seconds

# Constants that take the type of what they meet: float32 stays float32, float64 stays float64.
ZERO, HALF, ONE = (np.float32(x) for x in (0, 0.5, 1))


@functools.cache
def cache_folder(sources: Path) -> Path:
    """Where the compiled kernels of a folder of sources are kept, apart for each version of them.

    Numba looks at the file of a kernel only, and would go on using it after a change in one that it calls.
    """
    digest = hashlib.sha256()
    for file in (Path(__file__), *sorted(sources.rglob("*.py"))):
        digest.update(file.read_bytes())
    return files.cache() / f"{sources.name}-{digest.hexdigest()[:16]}"


@functools.cache
def can_cache(sources: Path) -> bool:
    """Whether compiled kernels can be kept on disk, which is said once where they cannot. Kernels of versions that
    nobody has used for a month are removed.
    """
    folder = cache_folder(sources)
    try:
        files.expect_writable(folder)
        os.utime(folder)
        files.remove_unused(folder.parent, f"{sources.name}-*", MONTH)
    except (OSError, RuntimeError) as error:
        _log.warning("compiled loops are not kept, set NOBACKTRACK_CACHE to a folder that can be written: %s", error)
        return False
    return True


_njit: Any = numba.njit
_config: Any = config
_PART: Any = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": PartCompiler}
_entries: list[Any] = []
_log = logging.getLogger("nobacktrack")


def kernel(function: Callable[..., Any]) -> Any:
    """A part of the loop, compiled into what calls it."""
    return _njit(**OPTIONS, **_PART)(function)


def exact(function: Callable[..., Any]) -> Any:
    """A part of a loop whose results do not depend on how it was compiled."""
    return _njit(**EXACT, **_PART)(function)


def inlined(function: Callable[..., Any]) -> Any:
    """A part of the loop that is read into what calls it before compilation: fewer layers to optimise again."""
    return _njit(inline="always")(function)


def entry(sources: Path, options: dict[str, Any] = OPTIONS) -> Callable[[Callable[..., Any]], Any]:
    """What Python calls: compiled at the first call with each type of numbers, and kept on disk as long as no file of
    `sources` changes.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        keep, before = can_cache(sources), _config.CACHE_DIR
        if keep:
            _config.CACHE_DIR = str(cache_folder(sources))
        try:
            compiled = _njit(**options, cache=keep)(function)
        finally:
            _config.CACHE_DIR = before
        _entries.append(compiled)
        return compiled

    return decorate


class _Announcer(events.Listener):
    """Says that a loop is being compiled, since it takes a while, and how long it took. Python's collector of garbage
    rests meanwhile: it would take a fifth of the time, and find little.
    """

    def on_start(self, event: events.Event) -> None:
        if _of(event)["dispatcher"] in _entries:
            self.began, self.collects = time.perf_counter(), gc.isenabled()
            gc.disable()
            _log.warning("compiling %s: once, then it is kept on disk", _subject(event))

    def on_end(self, event: events.Event) -> None:
        if _of(event)["dispatcher"] in _entries:
            if self.collects:
                gc.enable()
            _log.warning("compiled %s in %.1f s", _subject(event), time.perf_counter() - self.began)


def _of(event: events.Event) -> dict:
    """What is compiled, and for which arguments."""
    assert event.data is not None
    return event.data


def _subject(event: events.Event) -> str:
    """Which loop, and for which numbers."""
    kind = "float32" if "float32" in str(_of(event)["args"]) else "float64"
    return f"{_of(event)['dispatcher'].py_func.__name__} ({kind})"


events.register("numba:compile", _Announcer())


@kernel
def fill(values: Any, x: Any) -> None:
    """Set all of a vector: a plain loop compiles in a tenth of the time of a slice."""
    for i in range(values.size):
        values[i] = x
