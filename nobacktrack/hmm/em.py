"""Online EM: a learner like any other."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from .. import counter
from ..configuration import as_rate, at_least, configuration, rate_at, set_field, static
from ..learner import Apart
from ..protocol import Fixed, Info, Moves, Params, Point, State, Tree
from ..updates.gradient import Frozen
from ..verbs import PureLearner, expect_one_stream
from .model import HMM, Belief, Chain, check_chain, check_rows, normalise_rows, predicted_state
from .statistics import Statistics, Sums, transit


@configuration
class OnlineEM(PureLearner):
    """Online EM for a hidden Markov model, a learner like any other: `observe` scores an item and takes the M-step,
    `advance` takes the item in (the E-step).

    rank None carries the k^3 statistic exactly; a rank carries it by that many reductions. `rate` is gamma_t, t^-0.6
    by default; parameters stay for the first `burn_in` items; `emissions=False` trains the transitions alone.
    """

    hmm: HMM
    rank: int | None = static(default=None)
    rate: Any = None
    burn_in: int = static(default=20)
    emissions: bool = static(default=True)

    def __post_init__(self) -> None:
        if not isinstance(self.hmm, HMM):
            raise ValueError(f"hmm must be a model such as nbt.HMM(states=3, symbols=4), not {self.hmm!r}")
        if self.rank is not None:
            set_field(self, "rank", at_least("rank", self.rank, 1))
        set_field(self, "burn_in", at_least("burn_in", self.burn_in, 0))
        if not isinstance(self.emissions, bool):
            raise ValueError(f"emissions must be True or False, not {self.emissions!r}")
        if self.rate is not None:
            set_field(self, "rate", as_rate(self.rate, "rate"))

    @property
    def system(self) -> HMM:
        return self.hmm

    @property
    def estimator(self) -> Statistics:
        return Statistics(self.rank)

    @property
    def updates(self) -> Apart:
        """The M-step needs no memory."""
        return Apart(Frozen(), Frozen())

    def init(
        self, key: jax.Array | int, *, theta: Chain | None = None, h: Any = None, dtype: Any = jnp.float32
    ) -> State:
        """The state before the first item; `theta` a chain to start from, `h` an initial distribution."""
        key = counter.as_key(key)
        params, start = self.hmm.init(key, dtype)
        if theta is not None:
            params = params._replace(theta=check_chain(theta, params.theta, dtype))
        if h is not None:
            start = start._replace(phi=check_rows(h, start.phi, "h", dtype))
        x = jnp.asarray(self.hmm.input_space.example(dtype))
        params = params._replace(fixed=Fixed(start, x))
        influence = self.estimator.init(self.hmm, Point(params, start, x))
        moves = self.begin_moves(params, start, influence)
        return State(params, start, influence, moves, counter.words_of(key), counter.zero())

    def begin_moves(self, params: Params, h: Tree, influence: Tree) -> Moves:
        return Moves((), ())  # nothing moves along a gradient

    def reset(self, state: State, where: Any = None) -> State:
        """A new episode: the belief as it was at the start, the statistics stay."""
        expect_one_stream(where)
        return state._replace(h=state.params.fixed.h0, influence=self.estimator.forget(state.influence))

    def predict_unchecked(self, state: State) -> Tree:
        return self.hmm.predict(state.params, state.h)

    def as_probabilities(self, y_hat: Tree) -> Array:
        """A prediction of symbols is their probabilities."""
        return y_hat if self.hmm.symbols is not None else super().as_probabilities(y_hat)

    def observe_unchecked(self, state: State, y: Tree, at: State, late: bool = False) -> tuple[State, Info]:
        """-log p(y), then the M-step on the statistics so far: the parameters that the next E-step uses."""
        if late:
            raise ValueError("online EM takes its items in order: it cannot take a late one")
        chain: Chain = state.params.theta
        loss = -jax.nn.logsumexp(jnp.log(predicted_state(chain, state.h)) + chain.emission.log_density(y))
        t = counter.ordinal(state.t, loss.dtype)
        learn = t > max(self.burn_in, 1)
        best = self._maximise(chain, state.influence.sums, self._gamma(jnp.maximum(t - 1, 1)))
        theta = jax.tree.map(lambda new, old: jnp.where(learn, new, old), best, chain)
        return state._replace(params=state.params._replace(theta=theta)), Info(loss)

    def _maximise(self, chain: Chain, sums: Sums, gamma: Array) -> Chain:
        """q_ij = S_ij / sum_j S_ij, and the emissions, from statistics that a reduction may have made negative."""
        emission = chain.emission.maximise(sums.g, gamma) if self.emissions else chain.emission
        return Chain(normalise_rows(sums.q, chain.q), emission)

    def _gamma(self, t: Array) -> Array:
        return jnp.minimum(t**-0.6 if self.rate is None else rate_at(self.rate, t), 1)

    def advance_unchecked(self, state: State, x: Tree, draws: Tree) -> State:
        """The belief and the statistics after an item [Cappe 2011]."""
        t = counter.ordinal(state.t, state.h.phi.dtype)
        move = transit(state.params.theta, state.h, x, self._gamma(t))
        influence = self.estimator.advance(state.influence, move, draws)
        h = Belief(move.phi, jnp.zeros_like(state.h.fresh))
        return state._replace(h=h, influence=influence, t=counter.later(state.t))

    def draw(self, state: State, t: Array) -> Tree:
        return self.estimator.draw(self.hmm, state.h, state.key, t)
