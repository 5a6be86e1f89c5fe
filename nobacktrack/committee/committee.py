"""A learner made of learners: each beside a frozen good self, all mixed with simple experts that cost little."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .. import counter
from ..configuration import configuration, set_field, static
from ..errors import BadItem
from ..guards import checked
from ..learner import Learner
from ..protocol import Info, Moves, Params, State, Tree
from ..registry import register
from ..systems.spaces import Symbols, Vectors
from ..verbs import AbstractLearner, expect_one_stream
from .anchors import Anchored, AnchorRecord, still, still_state
from .contexts import Contexts
from .numbers import Forecasts, NumberPanel, begin_numbers, with_inputs
from .shapes import Sizes
from .symbols import SymbolPanel, begin_symbols, grown


class Spaces(NamedTuple):
    """The values that a stream may hold."""

    input_space: Any
    target_space: Any


@register
class CommitteeMemory(NamedTuple):
    """The influences of the members, what is known of their anchors, what they lost against these since the last look,
    in nats, and what the panel knows.
    """

    influences: Tree
    records: Tree
    lost: np.ndarray
    panel: Tree


@configuration
class Committee(AbstractLearner):
    """Learners on one stream, each beside its anchor, mixed with experts that are cheap.

    The anchor of a learner is a copy of it at a good moment that learns no more. A learner that has lost 40 bits
    against its anchor goes back to it; one that has won 20 becomes the anchor. `company` are the cheap experts, on
    symbols `nbt.Contexts()`, on numbers `nbt.Forecasts()`; there the learners predict differences to the last target,
    and inputs and targets are scaled for them. The prediction is a mixture of all of them; its log-loss is near that of
    the best sequence of experts, whatever comes (docs/committee.md).
    """

    learners: tuple[Any, ...]
    company: Any = None
    learning: bool = static(default=True)

    def __post_init__(self) -> None:
        learners = (self.learners,) if isinstance(self.learners, Learner) else tuple(self.learners)
        set_field(self, "learners", learners)
        if not learners or not all(isinstance(learner, Learner) for learner in learners):
            raise ValueError("learners: one nbt.Learner or several")
        spaces = {(learner.system.input_space, learner.system.target_space) for learner in learners}
        if len(spaces) > 1:
            raise ValueError("learners: all must take the same inputs and targets")
        kind = {Symbols: Contexts, Vectors: Forecasts}.get(type(self.system.target_space))
        if kind is None or (kind is Forecasts and not isinstance(self.system.input_space, Vectors)):
            raise ValueError(f"learners: {self.system} predicts neither symbols nor vectors from vectors")
        if self.company is None:
            set_field(self, "company", kind())
        if not isinstance(self.company, kind):
            raise ValueError(f"company: {self.company} is not for {self.system}; nbt.{kind.__name__}() is")

    @property
    def system(self) -> Any:
        """That of the first learner: the values that a stream may hold."""
        return self.learners[0].system

    @property
    def spaces(self) -> Any:
        """Those of its learners; of a vector that is a target, numbers may be missing."""
        if not self.numeric:
            return self.system
        return Spaces(self.system.input_space, Vectors(self.system.target_space.size, gaps=True))

    @property
    def experts(self) -> list[str]:
        """The names of all that is mixed."""
        networks = [str(type(learner.system).__name__) for learner in self.learners]
        numbered = [name if networks.count(name) == 1 else f"{name} {i + 1}" for i, name in enumerate(networks)]
        members = [each for name in numbered for each in (name, f"anchor of {name}")]
        return self._sizes.names(members) if self.numeric else SymbolPanel.names(members, self._columns)

    @property
    def numeric(self) -> bool:
        """Whether numbers are predicted."""
        return isinstance(self.company, Forecasts)

    @property
    def _sizes(self) -> Sizes:
        inputs, outputs, company = self.system.input_space.size, self.system.target_space.size, self.company
        return Sizes(inputs, outputs, 2 * len(self.learners), company.season, company.ahead)

    @property
    def _columns(self) -> int | None:
        """Of inputs that are rows of numbers, how many each has."""
        space = self.system.input_space
        return space.size if isinstance(space, Vectors) else None

    @property
    def copies(self) -> int:
        """How many of each learner there are: it, its anchor, and, if it learns from targets that come late, one that
        predicts from the last inputs.
        """
        return 3 if self.numeric and self.company.ahead > 1 else 2

    def init(self, key: jax.Array | int, *, dtype: Any = jnp.float32) -> State:
        """The state before the first target."""
        key = counter.as_key(key)
        keys = [key, *(jax.random.fold_in(key, i) for i in range(1, len(self.learners)))]
        words = counter.words_of(key)
        each = zip(self.learners, keys, strict=True)
        states = [learner.init(own, dtype=dtype)._replace(key=words) for learner, own in each]
        lost = np.zeros(len(states), np.float32)
        panel = (
            begin_numbers(self._sizes, self.company.interval)
            if self.numeric
            else begin_symbols(self.company, self.system.target_space.size, 2 * len(states), self._columns)
        )
        records = tuple(AnchorRecord.first() for _ in states)
        memory = CommitteeMemory((), records, lost, panel)
        return self.pack([(state,) * self.copies for state in states], memory, words)

    # --- a state is that of all members -----------------------------------------------------------------------------

    def pack(self, states: list[tuple[State, ...]], memory: CommitteeMemory, key: Any) -> State:
        """The states of learners and of their copies, and what else a committee knows, as one state."""
        flat = [state for copies in states for state in copies]
        params = Params(*zip(*(state.params for state in flat), strict=True))
        moves = Moves(*zip(*(state.update for state in flat), strict=True))
        memory = memory._replace(influences=tuple(state.influence for state in flat))
        return State(params, tuple(state.h for state in flat), memory, moves, key, flat[0].t)

    def unpack(self, state: State) -> list[tuple[State, ...]]:
        """The states of each learner and of its copies."""
        fields = state.params.theta, state.params.phi, state.params.fixed, state.h, state.influence.influences
        members = zip(*fields, state.update.theta, state.update.phi, strict=True)
        flat = [
            State(Params(*params), h, influence, Moves(*moves), state.key, state.t)
            for *params, h, influence, theta_moves, phi_moves in members
            for moves in [(theta_moves, phi_moves)]
        ]
        return [tuple(flat[i : i + self.copies]) for i in range(0, len(flat), self.copies)]

    def members(self, state: State, engine: str) -> list[Anchored]:
        """The networks at work, each with its anchor."""
        each = zip(self.learners, self.unpack(state), state.influence.records, strict=True)
        return [Anchored(learner, states, record, engine) for learner, states, record in each]

    def panel(self, state: State) -> SymbolPanel | NumberPanel:
        """What mixes the experts, at work."""
        if self.numeric:
            return NumberPanel(self.company, state.influence.panel, self.learning)
        inputs = isinstance(self.system.input_space, Symbols)
        return SymbolPanel(
            self.company, state.influence.panel, self.system.target_space.size, inputs, learning=self.learning
        )

    def grow(self, panel: Any) -> Any:
        """What a panel for fewer symbols or inputs knows, for all of now."""
        if self.numeric:
            return with_inputs(panel, self.system.input_space.size)
        return grown(panel, self.system.target_space.size, self._columns)

    # --- the verbs --------------------------------------------------------------------------------------------------

    def work(self, state: State, engine: str) -> Any:
        from .session import CommitteeSession

        return CommitteeSession(self, state, engine)

    def predict(self, state: State) -> Tree:
        return self.work(state, "auto").predict()

    def observe(self, state: State, y: Tree, at: State | None = None) -> tuple[State, Info]:
        if at is not None:
            raise ValueError("at: a committee takes no late targets")
        if y is None:
            raise BadItem("y: there is no target to observe; advance alone", state=state)
        session = self.work(state, "auto")
        loss = session.observe(checked(self.spaces.target_space, y, "y", state))
        return session.state(), Info(np.asarray(loss))

    def advance(self, state: State, x: Tree, draws: Tree = None) -> State:
        session = self.work(state, "auto")
        session.advance(checked(self.spaces.input_space, x, "x", state))
        return session.state()

    def reset(self, state: State, where: Any = None) -> State:
        """A new episode for all members; what was learned stays."""
        expect_one_stream(where)
        session = self.work(state, "auto")
        session.reset()
        return session.state()

    def expect_fit(self, expect: Callable[[Learner, State], Any], state: State) -> None:
        """Refuse a state whose members are not of these learners."""
        members = self.copies * len(self.learners)
        if not isinstance(state.influence, CommitteeMemory) or len(state.influence.influences) != members:
            raise ValueError(f"the state is not one of {self}")
        states = self.unpack(state._replace(update=Moves(((),) * members, ((),) * members)))
        for learner, copies in zip(self.learners, states, strict=True):
            for own in copies:
                expect(learner, own)

    def begin_moves(self, params: Params, h: Tree, influence: Tree) -> Moves:
        learners = [learner for learner in self.learners for _ in range(self.copies)]
        fields = zip(learners, params.theta, params.phi, params.fixed, h, influence.influences, strict=True)
        moves = [learner.begin_moves(Params(*own), state, past) for learner, *own, state, past in fields]
        return Moves(*zip(*moves, strict=True))


def frozen(learner: Any, state: State) -> tuple[Any, State]:
    """A learner or committee that predicts as another one does, and learns nothing."""
    if not isinstance(learner, Committee):
        return still(learner), still_state(learner, state)
    each = zip(learner.learners, learner.unpack(state), strict=True)
    states = [tuple(still_state(member, own) for own in copies) for member, copies in each]
    found = Committee(tuple(still(member) for member in learner.learners), learner.company, learning=False)
    return found, found.pack(states, state.influence, state.key)
