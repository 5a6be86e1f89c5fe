"""An engine beside the reference."""

from __future__ import annotations

from typing import Any

from ..engines import begin
from ..engines.reference import scan
from ..learner import Learner
from ..protocol import State
from ..streams.items import part, size
from .comparison import chunk_of, expect_close


def check_engines(
    learner: Learner, state: State, stream: Any, window: int = 64, tolerance: float = 1e-10, engine: str = "fused"
) -> float:
    """An engine does what the reference does: window by window, each begun from the state of the reference."""
    chunk, error = chunk_of(learner, stream), 0.0
    for start in range(0, size(chunk), window):
        items = part(chunk, start, min(start + window, size(chunk)))
        session = begin(learner, state, engine, strict=True)
        losses = session.take(items)
        state, info = scan(learner, state, items)
        wanted = state, info.loss
        error = max(error, expect_close((session.state(), losses), wanted, tolerance, f"{engine} = reference"))
    return error
