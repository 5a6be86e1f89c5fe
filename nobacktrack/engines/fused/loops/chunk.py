"""The loop over a chunk of a stream, the same for all estimators, and what the engine must know of each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ....compiled import entry, inlined, kernel
from .. import SOURCES
from ..codes import Verb
from ..kernels import readout
from ..memory.layout import PIECE, Sizes
from ..memory.views import flattened, opened, row, vector


class Loop(NamedTuple):
    """An estimator in the compiled engine: a row of the table in `support.py`.

    `pack(influence, estimator, store)` writes the influence into the pieces, `unpack(like, estimator, store)` makes
    one like another of them.
    """

    run: Any  # the compiled loop over a chunk
    pieces: type  # those of its own, after the common ones
    pack: Callable[..., None]
    unpack: Callable[..., Any]
    sizes: Callable[[Any], dict[str, int]]  # what it adds to `Sizes`
    counters: Callable[[Sizes], int]  # integers of its own, after the common ones
    refusal: Callable[[Any], str | None] = lambda estimator: None
    flush: Any = None  # compiled: makes the pieces those of a State
    bands: bool = False  # whether theta lies in bands
    help: Any = None  # compiled: what a helper does while a chunk runs, where threads can share a step


class Items(NamedTuple):
    """A chunk: inputs as symbols and as vectors, targets in the same way, one of both being empty; which targets were
    seen and where episodes begin, empty where there is nothing to say; the paces of theta and phi; the losses; y_hat of
    each item, empty where nobody asks for it.
    """

    x_symbols: np.ndarray
    x_vectors: np.ndarray
    y_symbols: np.ndarray
    y_vectors: np.ndarray
    seen: np.ndarray
    reset: np.ndarray
    theta_paces: np.ndarray
    phi_paces: np.ndarray
    losses: np.ndarray
    y_hats: np.ndarray


@inlined
def run_chunk(observe: Any, advance: Any, restart: Any, machine: Any, verb: Any, chunk: Any) -> None:
    """A chunk, each item by the verb that is asked for, with the three functions of an estimator."""
    s, m = opened(machine)
    items = Items(*chunk)
    for t in range(items.losses.size):
        if items.reset.size and items.reset[t]:
            begin_episode(m)
            restart(s, m)
        x = 0 if items.x_symbols.size == 0 else items.x_symbols[t]
        y = 0 if items.y_symbols.size == 0 else items.y_symbols[t]
        if verb == Verb.ADVANCE_OBSERVE or verb == Verb.ADVANCE:
            advance(s, m, x, row(items.x_vectors, t))
        if verb != Verb.ADVANCE and (items.seen.size == 0 or items.seen[t]):
            pace, phi_pace = items.theta_paces[t], items.phi_paces[t]
            items.losses[t] = observe(s, m, y, row(items.y_vectors, t), pace, phi_pace)
            if items.y_hats.size:
                copy_prediction(m, row(items.y_hats, t))
        elif items.y_hats.size:
            readout.predict(s, m)
            copy_prediction(m, row(items.y_hats, t))
        if verb == Verb.OBSERVE_ADVANCE:
            advance(s, m, x, row(items.x_vectors, t))


@kernel
def copy_prediction(m: Any, y_hat: Any) -> None:
    """y_hat as it was computed last."""
    found = vector(m, PIECE.y_hat)
    for o in range(y_hat.size):
        y_hat[o] = found[o]


@kernel
def begin_episode(m: Any) -> None:
    """h as it was at the start."""
    h, h0 = flattened(m, PIECE.h), flattened(m, PIECE.h0)
    for i in range(h.size):
        h[i] = h0[i]


@entry(SOURCES)
def predict(machine: Any) -> None:
    """y_hat of the state as it is."""
    s, m = opened(machine)
    readout.predict(s, m)
