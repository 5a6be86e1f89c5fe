"""How many threads may work on one learner.

`NOBACKTRACK_THREADS` says how many; by default as many as there are cores, where an engine finds that it pays. Results
do not depend on it.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator

VARIABLE = "NOBACKTRACK_THREADS"

_here = threading.local()


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Learners that begin in this thread of Python work alone: other learners have the other cores."""
    before, _here.alone = getattr(_here, "alone", False), True
    try:
        yield
    finally:
        _here.alone = before


def most_threads() -> int:
    """As many as are asked for, or as there are cores that this process may use."""
    asked = os.environ.get(VARIABLE, "")
    if asked and not (asked.isdecimal() and int(asked) > 0):
        raise ValueError(f"{VARIABLE} must be a number of threads, such as 1, not {asked!r}")
    if getattr(_here, "alone", False):
        return 1
    if asked:
        return int(asked)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
