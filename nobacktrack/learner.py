"""A learner lives on a stream and does two things, over and over: observe a target, advance on an input.

It is made of three parts that do not know each other's names: a System (what is trained), an Estimator (how dh/dtheta
is carried) and an Update (how parameters move). Two half-steps give late and missing targets, evaluation and
generation for free.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from . import counter
from .configuration import configuration, expect_part, set_field, static
from .guards import checked, expect_like, floating, matching, replacement, scalar
from .protocol import Evidence, Fixed, Info, Layout, Metric, Moves, Params, Point, State, Tree, flat
from .verbs import PureLearner, expect_one_stream


@configuration
class Apart:
    """One update for theta, another for phi."""

    theta: Any
    phi: Any

    def adapt(self, packed: bool) -> Apart:
        return Apart(self.theta.adapt(packed), self.phi.adapt(packed))


@configuration
class System:
    """Any system, in three pure functions over any pytrees: h' = f(theta, h, x), y_hat = Y(phi, h), loss(y_hat, y) in
    nats.
    """

    transition: Callable[[Any, Any, Any], Any] = static()
    readout: Callable[[Any, Any], Any] = static()
    loss: Callable[[Any, Any], Array] = static()

    @property
    def packed(self) -> bool:
        return False

    @property
    def input_space(self) -> Any:
        from .systems.spaces import Anything

        return Anything()

    @property
    def target_space(self) -> Any:
        return self.input_space

    @property
    def substeps(self) -> tuple[Any, ...]:
        return (self,)

    def init(self, key: Any, dtype: Any) -> tuple[Params, Tree]:
        raise ValueError(
            "a system of your own starts from your values: init(key, theta=..., phi=..., h=..., x=an example input)"
        )

    def evolve(self, params: Params, h: Any, x: Any) -> Tree:
        """h' = f(theta, h, x), refused where it does not look like h."""
        following = self.transition(params.theta, h, x)
        expect_like(following, h, "transition(theta, h, x)", "h")
        return following

    def predict(self, params: Params, h: Any) -> Tree:
        """y_hat = Y(phi, h)."""
        return self.readout(params.phi, h)

    def shown(self, h: Tree) -> None:
        return None

    def fisher_root(self, y_hat: Any, y: Any) -> Tree:
        """A square root of the Hessian of the loss in y_hat, its negative directions left out."""
        vector, unravel = ravel_pytree(y_hat)
        values, vectors = jnp.linalg.eigh(jax.hessian(lambda v: self.loss(unravel(v), y))(vector))
        return jax.vmap(unravel)(jnp.sqrt(jnp.maximum(values, 0))[:, None] * vectors.T)


@configuration
class Learner(PureLearner):
    """A system, an estimator of its influence and an update: trains on a stream, one target and one input at a time."""

    system: Any
    estimator: Any
    update: Any

    def __post_init__(self) -> None:
        expect_part(self.system, "system", "evolve", "a system such as nbt.RNN(units=20, symbols=3)")
        expect_part(self.estimator, "estimator", "advance", "an estimator such as nbt.NoBackTrack()")
        expect_part(self.update, "update", "adapt", "an update such as nbt.SGD(0.1), or nbt.Optax(an optax optimiser)")
        set_field(self, "update", self.update.adapt(self.system.packed))

    def init(
        self,
        key: jax.Array | int,
        *,
        theta: Tree = None,
        phi: Tree = None,
        h: Tree = None,
        x: Tree = None,
        constants: Tree = None,
        dtype: Any = jnp.float32,
    ) -> State:
        """The state before the first target; what is not given is the system's own initialisation. `x` is an example
        input, for its shape.
        """
        key = counter.as_key(key)
        params, h = _start(self.system, key, theta, phi, h, constants, dtype)
        x = self.system.input_space.example(dtype) if x is None else x
        x = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.result_type(leaf)), x)
        params = params._replace(fixed=params.fixed._replace(x=x))
        influence = self.estimator.init(self.system, Point(params, h, x))
        moves = self.begin_moves(params, h, influence)
        return State(params, h, influence, moves, counter.words_of(key), counter.zero())

    def begin_moves(self, params: Params, h: Tree, influence: Tree) -> Moves:
        units, measured = getattr(self.system, "units", flat(h).size), self.noise(influence) is not None
        shown = self.system.shown(h)
        layout = Layout(self.system.packed, units, measured, width=0 if shown is None else shown.size)
        return Moves(
            self.updates.theta.init(params.theta, layout),
            self.updates.phi.init(params.phi, layout._replace(bounded=True)),
        )

    def adopt(self, state: State, key: jax.Array | int | None = None) -> State:
        """The state of another learner of the same system, for this one to go on from.

        Parameters, h and time stay; so does what an update knows that is of the same kind, with this one's prior. The
        influence begins anew; `key` gives other signs.
        """
        at = Point(state.params, state.h, state.params.fixed.x)
        influence = self.estimator.init(self.system, at)
        fresh = self.begin_moves(state.params, state.h, influence)
        moves = Moves(*(adopt_memory(*pair) for pair in zip(state.update, fresh, strict=True)))
        words = state.key if key is None else counter.words_of(counter.as_key(key))
        return state._replace(influence=influence, update=moves, key=words)

    def noise(self, influence: Tree) -> Array | float | None:
        """The power of what is random in the gradients over that of the rest; None where the estimator does not know
        it.
        """
        return self.estimator.noise(influence) if hasattr(self.estimator, "noise") else None

    @property
    def inputs(self) -> int:
        """How many numbers of variance 1 an input has, about: a symbol counts as one, a vector is taken to be
        standardised.
        """
        return getattr(self.system, "inputs", None) or 1

    @property
    def updates(self) -> Apart:
        """The update of each group of parameters."""
        return self.update if isinstance(self.update, Apart) else Apart(self.update, self.update)

    def metric(self, state: State) -> Metric:
        """The metric in which theta moves."""
        return self.updates.theta.metric_of(state.update.theta)

    def gradient(self, state: State, y: Tree) -> Params:
        """What observe would follow, moving nothing: Params(dl/dtheta, dl/dphi)."""
        return _gradient(self, state, checked(self.system.target_space, y, "y", state))

    def reset(self, state: State, where: Any = None) -> State:
        """A new episode: h as it was at the start, no influence; what was learned stays."""
        expect_one_stream(where)
        return state._replace(h=state.params.fixed.h0, influence=self.estimator.forget(state.influence))

    # --- the algorithm, for engines: pure, no checks ----------------------------------------------------------------

    def predict_unchecked(self, state: State) -> Tree:
        return self.system.predict(state.params, state.h)

    def observe_unchecked(self, state: State, y: Tree, at: State, late: bool = False) -> tuple[State, Info]:
        """The observation and update steps [NBT, Alg. 1 and 2]; (phi, theta) make one joint step, H being taken at
        the phi that predicted.
        """
        if late:
            at = at._replace(influence=_with_belief(at.influence, state.influence))
        loss, evidence, influence, ready = self.differentiate(at, y)
        if late and ready is not True:
            raise ValueError(f"{self.estimator} keeps its targets in a block, so it cannot take a late one")
        t = counter.ordinal(state.t, jnp.result_type(loss))

        def move(group: str) -> tuple[Tree, Tree]:
            update = getattr(self.updates, group)
            return update.apply(getattr(state.update, group), getattr(state.params, group), getattr(evidence, group), t)

        phi_move, phi = move("phi")
        stay = state.update.theta, state.params.theta
        theta_move, theta = move("theta") if ready is True else jax.lax.cond(ready, lambda: move("theta"), lambda: stay)
        following = state._replace(
            params=state.params._replace(theta=theta, phi=phi),
            influence=_with_belief(state.influence, influence) if late else influence,
            update=Moves(theta_move, phi_move),
        )
        return following, Info(loss)

    def differentiate(self, state: State, y: Tree) -> tuple[Array, Params, Tree, Any]:
        """The loss, the evidence on theta and phi, the influence after it, and whether theta may move."""
        system, params = self.system, state.params
        y_hat, pull_prediction = jax.vjp(
            lambda phi, h: system.predict(params._replace(phi=phi), h), params.phi, state.h
        )
        loss, pull_loss = jax.vjp(lambda y_hat: scalar(system.loss(y_hat, y)), y_hat)
        dl_dphi, dl_dh = pull_prediction(*pull_loss(jnp.ones_like(loss)))
        metric = self.metric(state)
        influence, dl_dtheta, ready = self.estimator.observe(system, state.influence, params, flat(dl_dh), metric)

        def pull_phi(cotangent: Tree) -> Tree:
            return pull_prediction(cotangent)[0]

        def pull_theta(cotangent: Tree) -> Tree:
            if ready is not True:
                raise ValueError(f"{self.estimator} has no dy/dtheta of a single target: use fisher=nbt.OuterProduct()")
            dy_dh = flat(pull_prediction(cotangent)[1])
            return self.estimator.observe(system, state.influence, params, dy_dh, metric)[1]

        def fisher_root() -> Tree:
            return system.fisher_root(y_hat, y)

        # phi moves at every target, and goes by the noise that was known before this one
        before, after = self.noise(state.influence), self.noise(influence)
        shown = system.shown(state.h)
        heard = None if shown is None else shown[None]
        evidence = Params(
            Evidence(dl_dtheta, pull_theta, fisher_root, None, after, heard, self.inputs),
            Evidence(dl_dphi, pull_phi, fisher_root, None, before, heard),
        )
        return loss, evidence, influence, ready

    def advance_unchecked(self, state: State, x: Tree, draws: Tree) -> State:
        """The reduction and transition steps [NBT, Alg. 1 and 2]: theta has moved already, so h', the Jacobian and
        the rows use the new one.
        """
        at = Point(state.params, state.h, matching(x, state.params.fixed.x, "x"))
        influence, h = self.estimator.advance(self.system, state.influence, at, self.metric(state), draws)
        return state._replace(h=h, influence=influence, t=counter.later(state.t))

    def draw(self, state: State, t: Array) -> Tree:
        """The random draws of the advance at time t."""
        return self.estimator.draw(self.system, state.h, state.key, t)


def _with_belief(influence: Tree, of: Tree) -> Tree:
    """An influence with what another one knows of the noise in gradients, which is of no moment in time."""
    return influence._replace(belief=of.belief) if hasattr(influence, "belief") else influence


def adopt_memory(known: Tree, fresh: Tree) -> Tree:
    """What an update knew, if it is of the same kind as what another begins with, with the prior of the other, and
    what it has seen of lengths and of the units: nothing.
    """
    if hasattr(known, "lengths") and hasattr(fresh, "lengths"):
        known = known._replace(prior=fresh.prior, lengths=fresh.lengths, hearing=fresh.hearing)
    return known if jax.tree.map(jax.typeof, known) == jax.tree.map(jax.typeof, fresh) else fresh


@jax.jit
def _gradient(learner: Learner, state: State, y: Tree) -> Params:
    _, evidence, _, _ = learner.differentiate(state, y)
    return Params(evidence.theta.gradient, evidence.phi.gradient)


def _start(
    system: Any, key: jax.Array, theta: Tree, phi: Tree, h: Tree, constants: Tree, dtype: Any
) -> tuple[Params, Tree]:
    """Parameters and state from the system's initialisation and from what the user gave, checked."""
    given = {"theta": theta, "phi": phi, "h": h}
    if isinstance(system, System):
        missing = [name for name, value in given.items() if value is None]
        if missing:
            raise ValueError(
                f"{', '.join(missing)} not given: a system of your own starts from init(key, theta=, phi=, h=, x=)"
            )
        if constants is not None:
            raise ValueError("constants: a transition of your own does not take them; close over them")
        given = {name: floating(value, name) for name, value in given.items()}
        return Params(given["theta"], given["phi"], Fixed(given["h"])), given["h"]
    params, start = system.init(key, dtype)
    own = {"theta": params.theta, "phi": params.phi, "h": start}
    chosen = {name: replacement(given[name], own[name], name) for name in own}
    own_constants = replacement(constants, params.fixed.constants, "constants")
    return Params(chosen["theta"], chosen["phi"], Fixed(chosen["h"], constants=own_constants)), chosen["h"]
