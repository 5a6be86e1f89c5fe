"""Errors that carry the last good state, so that nothing learned is lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


class BadItem(ValueError):
    """A value that does not belong where it was given: `.index` is its place in the stream, `.state` and `.t` the
    last good ones.
    """

    def __init__(self, message: str, index: int | None = None, state: Any = None):
        super().__init__(message)
        self.index = index
        self.state = state

    @property
    def t(self) -> int | None:
        """How many steps the last good state has made."""
        return None if self.state is None else self.state.steps


class Divergence(FloatingPointError):
    """A number stopped being finite: `.state` and `.t` are the last good ones, `.what` says what grew, `.remedies`
    what to try; `.losses` are those of the steps before it, of the same chunk.
    """

    def __init__(self, what: str, remedies: Sequence[str], state: Any):
        super().__init__(f"{what}. Try {', or '.join(remedies)}. The error's .state and .t are the last good ones.")
        self.what = what
        self.remedies = list(remedies)
        self.state = state
        self.losses = np.zeros(0)

    @property
    def t(self) -> int:
        """How many steps the last good state has made."""
        return self.state.steps
