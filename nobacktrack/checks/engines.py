"""An engine beside the reference."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from ..engines import begin
from ..engines.reference import scan_with_predictions
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
        y_hats = np.zeros((size(items), learner.system.target_space.size), jax.tree.leaves(state.h)[0].dtype)
        losses = session.take(items, y_hats)
        state, (info, predictions) = scan_with_predictions(learner, state, items)
        found, wanted = (session.state(), losses, y_hats), (state, info.loss, predictions)
        error = max(error, expect_close(found, wanted, tolerance, f"{engine} = reference"))
    return error
