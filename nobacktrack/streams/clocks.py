"""Time stamps as elapsed times: what systems in continuous time are fed."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import BadItem


def elapsed(stamps: Any, since: float | None = None) -> np.ndarray:
    """dt before each stamp, taken in float64; the first is 0, or counted from `since`."""
    if np.asarray(stamps).dtype.kind not in "iuf" or not np.isfinite(0.0 if since is None else since):
        raise BadItem(f"stamps must be numbers, in the unit of the time constants, not {np.asarray(stamps).dtype}")
    stamps = np.asarray(stamps, np.float64)
    if stamps.ndim != 1:
        raise BadItem(f"stamps: expected one time stamp for each item, got shape {stamps.shape}")
    bad = ~np.isfinite(stamps)
    if bad.any():
        raise BadItem(f"stamps at index {np.argmax(bad)}: {stamps[bad][0]}", int(np.argmax(bad)))
    start = stamps[:1] if since is None else np.array([since], np.float64)
    dt = np.diff(stamps, prepend=start)
    if (dt < 0).any():
        index = int(np.argmax(dt < 0))
        before = stamps[index - 1] if index else start[0]
        raise BadItem(f"stamps at index {index}: time goes back, from {before} to {stamps[index]}", index)
    return dt


class Clock:
    """The same for a live stream, one stamp at a time: `clock(stamp)` gives dt, 0 at first. A stamp that goes back is
    refused, and forgotten.
    """

    def __init__(self, since: float | None = None) -> None:
        self.last = since

    def __call__(self, stamp: float) -> float:
        dt = float(elapsed([stamp], self.last)[0])
        self.last = stamp
        return dt
