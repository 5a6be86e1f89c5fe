"""The norms of NoBackTrack in the compiled engine: their codes, and what they remember, in and out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ....influence.norms import LEAST_WORTH, EuclideanNorms, ForesightNorms, GramianNorms, MetricNorms, Unscaled
from ..codes import Norms
from .terms import FLOOR, HORIZON, PACE, TermPieces


class Rule(NamedTuple):
    """`pack(memory, norms, pieces)` writes what norms remember and returns its age; `unpack(like, pieces, age)` makes
    one like another of it.
    """

    code: Norms
    pack: Callable[[Any, Any, TermPieces], int] = lambda memory, norms, own: 0
    unpack: Callable[[Any, TermPieces, Any], Any] = lambda like, own, age: like


def _pack_gramian(memory: Any, norms: GramianNorms, own: TermPieces) -> int:
    own.settings[[HORIZON, PACE, FLOOR]] = norms.horizon, norms.pace, norms.floor
    own.worth[:], own.urgency[:] = memory.worth, memory.urgency
    return int(memory.age)


def _unpack_gramian(like: Any, own: TermPieces, age: Any) -> Any:
    return like._replace(worth=own.worth, urgency=own.urgency, age=age)


def _pack_foresight(memory: Any, norms: ForesightNorms, own: TermPieces) -> int:
    own.settings[[HORIZON, PACE, FLOOR]] = norms.horizon, norms.pace, LEAST_WORTH
    own.variance[0], own.worth[0], own.urgency[0] = memory
    return 0


def _unpack_foresight(like: Any, own: TermPieces, age: Any) -> Any:
    return like._replace(variance=own.variance[0], worth=own.worth[0], urgency=own.urgency[0])


NORMS: dict[Any, Rule] = {
    MetricNorms: Rule(Norms.METRIC),
    EuclideanNorms: Rule(Norms.EUCLIDEAN),
    Unscaled: Rule(Norms.UNSCALED),
    ForesightNorms: Rule(Norms.FORESIGHT, _pack_foresight, _unpack_foresight),
    GramianNorms: Rule(Norms.GRAMIAN, _pack_gramian, _unpack_gramian),
}
