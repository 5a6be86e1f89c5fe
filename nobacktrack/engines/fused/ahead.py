"""Loops compiled ahead, in a process of their own, so that every process runs the same code: that kept on disk.

In the process that compiles a loop, Numba binds calls to the kernels as they were compiled on their own; in one that
loads it, to the copies in the loop. Both are right, but sums may differ in their last bit, and a run that was begun in
the one and went on in the other would not be the same, bit for bit.
"""

from __future__ import annotations

import functools
import logging
import os
import subprocess
import sys
from typing import Any

import filelock
import numpy as np

from ...compiled import cache_folder, can_cache
from . import SOURCES

CHILD = "NOBACKTRACK_COMPILES"
LONGEST = 900  # seconds

_log = logging.getLogger("nobacktrack")


@functools.cache
def ensure(estimator: str, dtype: Any) -> None:
    """Have the loop of an estimator on disk; where that cannot be, it is compiled where it is used."""
    if os.environ.get(CHILD) or not can_cache(SOURCES):
        return
    mark = cache_folder(SOURCES) / f"{estimator}-{np.dtype(dtype).name}.compiled"
    if mark.exists():
        return
    with filelock.FileLock(mark.with_suffix(".lock")):
        if mark.exists():
            return
        program = f"from {__name__} import main; main({estimator!r}, {np.dtype(dtype).name!r})"
        environment = os.environ | {CHILD: "1", "JAX_ENABLE_X64": str(int(np.dtype(dtype).itemsize == 8))}
        try:
            subprocess.run(
                [sys.executable, "-c", program], env=environment, check=True, timeout=LONGEST, stdout=subprocess.DEVNULL
            )
        except (OSError, subprocess.SubprocessError) as error:
            _log.warning("loops are not compiled ahead: %s", error)
            return
        mark.touch()


def main(estimator: str, dtype: str) -> None:
    """Use every entry of a loop once."""
    import nobacktrack as nbt

    from .session import Fused

    learner = nbt.Learner(nbt.RNN(units=2, symbols=2), getattr(nbt, estimator)(), nbt.SGD(0.1))
    session = Fused(learner, learner.init(0, dtype=np.dtype(dtype)))
    session.predict()
    session.observe(1)
    session.advance(1)
    session.state()
