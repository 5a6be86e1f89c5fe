"""Engines: what runs a learner. The only list of them is here."""

from __future__ import annotations

import pkgutil
import sys
import warnings

from ..protocol import State
from ..verbs import AbstractLearner
from .session import Session

# By name, from the fastest to the one that runs everything, each imported when it is asked for.
ENGINES = {
    "fused": "nobacktrack.engines.fused.session:Fused",
    "jax": "nobacktrack.engines.reference:Reference",
}


def choose(learner: AbstractLearner, state: State, engine: str = "auto") -> tuple[type[Session], str]:
    """The engine to run a learner with: the one that is named or, by itself, the fastest that can; and why it is not
    the one that was asked for, or a faster one.
    """
    names = list(ENGINES)
    if engine != "auto" and engine not in names:
        raise ValueError(f"engine must be one of {', '.join(['auto', *sorted(names)])}, not {engine!r}")
    reasons = []
    for name in names if engine == "auto" else names[names.index(engine) :]:
        found: type[Session] = pkgutil.resolve_name(ENGINES[name])
        reason = found.refusal(learner, state)
        if reason is None:
            return found, "; ".join(reasons)
        reasons.append(f"the {name} engine does not run it: {reason}")
    raise ValueError(f"no engine runs {learner}: {'; '.join(reasons)}")


def begin(learner: AbstractLearner, state: State, engine: str = "auto", *, strict: bool = False) -> Session:
    """A learner at work. Where the engine that was asked for cannot run it, another one does, with a warning; a
    ValueError if `strict`. A learner made of learners has a session of its own; the engine is that of its members.
    """
    own = learner.work(state, engine)
    if isinstance(own, Session):
        return own
    chosen, reason = choose(learner, state, engine)
    if engine not in ("auto", chosen.name):
        if strict:
            raise ValueError(f"engine {engine}: {reason}")
        warnings.warn(f"{reason}; engine={chosen.name!r} runs in its place", stacklevel=_frames_of_ours())
    session = chosen(learner, state)
    session.reason = reason
    return session


def _frames_of_ours() -> int:
    """How many frames lie between a warning and the first that is not of this library."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals["__name__"].partition(".")[0] == __name__.partition(".")[0]:
        level, frame = level + 1, frame.f_back
    return level
