"""How many threads work on one step, and the helpers among them, which live as long as a chunk (`kernels/crew.py`)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ..threads import most_threads
from .kernels.crew import HELPERS, LINE, NUMBERS, STOP
from .memory.layout import Sizes, aligned

LEAST_PARAMETERS = 1 << 17  # of theta: below that a step is over before a helper has done much


def threads_for(sizes: Sizes, help: Any) -> int:
    """How many threads work on a step."""
    pays = help is not None and sizes.fan * sizes.rows >= LEAST_PARAMETERS
    return min(most_threads(), sizes.blocks) if pays else 1


def new_crew() -> np.ndarray:
    """What threads say to each other: nothing yet. It has its lines of the cache for itself: helpers look at them all
    the time, and a counter of the loop in one of them would cost it more than they save.
    """
    return aligned(NUMBERS + 2 * LINE, np.dtype(np.int64))[LINE:]


@contextlib.contextmanager
def helpers(help: Any, machine: tuple[np.ndarray, ...], threads: int) -> Iterator[None]:
    """Helpers at work, all but the thread that runs the loop."""
    crew = machine[-1]
    if threads == 1:
        yield
        return
    crew[STOP] = 1
    help(machine, 0)  # compiles it, and does nothing
    crew[STOP], crew[HELPERS] = 0, threads - 1
    with ThreadPoolExecutor(threads - 1, "nobacktrack-helper") as pool:
        try:
            found = [pool.submit(help, machine, place) for place in range(1, threads)]
            yield
        finally:
            crew[STOP], crew[HELPERS] = 1, 0
    for future in found:
        future.result()
