"""The records that a learner passes around, and what it asks of its three parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from . import counter
from .registry import register

Tree = Any

NATS_PER_BIT = float(np.log(2.0))


@register
class Fixed(NamedTuple):
    """What is not trained: the state an episode starts from, an input (for its shapes and types), constants of the
    system.
    """

    h0: Tree
    x: Tree = None
    constants: Tree = ()


@register
class Params(NamedTuple):
    """theta makes the state, phi reads it, fixed is not trained."""

    theta: Tree
    phi: Tree
    fixed: Tree = None


@register
class Moves(NamedTuple):
    """What an Update remembers, apart for theta and phi."""

    theta: Tree
    phi: Tree


@register
class State(NamedTuple):
    """All a learner knows: a checkpoint is these leaves and nothing else."""

    params: Params
    h: Tree
    influence: Tree
    update: Moves
    key: Array
    t: Array

    @property
    def steps(self) -> int:
        """t, the number of inputs seen, as a Python integer."""
        return counter.count(self.t)

    def __repr__(self) -> str:
        """In a line: a state holds more numbers than anyone wants to see."""
        shapes = [f"{name}: {jax.tree.map(jnp.shape, getattr(self.params, name))}" for name in ("theta", "phi")]
        numbers = sum(jnp.size(leaf) for leaf in jax.tree.leaves(self))
        known = not isinstance(self.t, Tracer) and np.shape(self.t) == (2,)
        when = [f"t: {self.steps:,}"] if known else []
        return f"State({', '.join([*when, *shapes, f'{numbers:,} numbers'])})"


class Info(NamedTuple):
    """What a person may look at, and the next step does not need. The loss is in nats, and NaN where there was no
    target.
    """

    loss: Any

    @property
    def bits(self) -> Any:
        """The loss in bits."""
        return self.loss / NATS_PER_BIT


class Outlook(NamedTuple):
    """What a committee on numbers expects of the targets to come, the next one first: (targets, outputs); the ends of
    the intervals, (targets, 2, outputs); and the last value that was known then. NaN where nothing was foreseen.
    """

    expected: np.ndarray
    bounds: np.ndarray
    last: np.ndarray


@register
class Point(NamedTuple):
    """Where a transition is taken: h' = f(params, h, x)."""

    params: Params
    h: Tree
    x: Tree


class Evidence(NamedTuple):
    """What one target says about a group of parameters: the gradient of the loss, and how to pull any other cotangent
    on y_hat back to them.
    """

    gradient: Tree
    pull: Callable[[Tree], Tree]
    fisher_root: Callable[[], Tree]  # cotangents r_k on y_hat, stacked, with sum_k r_k r_k^T the Fisher matrix of y_hat
    single: Tree = (
        None  # g_k whose outer products stand for that of the gradient, stacked, where it is a mean of several
    )
    noise: Array | float | None = None  # the power of what is random in it over that of the rest; None: not known
    heard: Float[Array, "samples width"] | None = None  # what the rows hear of the units now; None: they have no rows
    inputs: int = 0  # how many numbers of variance 1 they hear beside


class Layout(NamedTuple):
    """What an update may know of a system: whether parameters are arrays of rows [bias | weights], how many units
    there are, whether the estimator knows the noise in its gradients, whether none of these can be far longer than
    usual, as those of phi, and how many numbers the units show to the rows.
    """

    packed: bool
    units: int
    measured: bool = False
    bounded: bool = False
    width: int = 0


class RowBlock(NamedTuple):
    """Where the rows of a cell lie in theta: which array, how many numbers come before it, its units and gates."""

    leaf: int
    offset: int
    units: int
    gates: int


class Metric(Protocol):
    """A norm on linear forms over theta, |w|^2 = w^T C w: what the scales rho of a reduction ask of an Update."""

    @property
    def has_unit(self) -> bool:
        """Whether C is a covariance, so that a length of 1 means something: a standard deviation of what is known."""
        ...

    def norm2(self, w: Tree) -> Float[Array, ""]:
        """|w|^2 of a tree like theta."""
        ...

    def row_norm2(self, u: Array, rows: RowBlock) -> Float[Array, "units gates"]:
        """|u|^2 of a fan-in (units or 1, gates or 1, fan) put in each row of one of the packed arrays of theta."""
        ...

    def raised(self, w: Tree) -> Tree:
        """C w: the vector whose product with any linear form is its inner product with w."""
        ...


class AnySystem(Protocol):
    """What a Learner asks of a system; `System` makes one of three functions, `systems/` has the recurrent networks."""

    @property
    def packed(self) -> bool: ...  # theta and phi are arrays of rows [bias | weights]
    @property
    def input_space(self) -> Any: ...
    @property
    def target_space(self) -> Any: ...
    @property
    def substeps(self) -> tuple[Any, ...]: ...
    def init(self, key: Any, dtype: Any) -> tuple[Params, Tree]: ...
    def evolve(self, params: Params, h: Any, x: Any) -> Tree: ...
    def predict(self, params: Params, h: Any) -> Tree: ...
    def shown(self, h: Tree) -> Array | None: ...  # what the rows of phi hear of h, where there are rows
    def fisher_root(self, y_hat: Any, y: Any) -> Tree: ...
    @property
    def loss(self) -> Callable[[Any, Any], Array]: ...


class Estimator(Protocol):
    """How the influence G = dh/dtheta is carried. States and cotangents are flat vectors here.

    One that knows how noisy its gradients are has one more, `noise(influence)`: the power of what is random in them
    over that of the rest, or None.
    """

    def init(self, system: Any, at: Point) -> Tree:
        """The influence of a state that no parameter has touched."""
        ...

    def forget(self, influence: Any) -> Tree:
        """The same, from any influence: a new episode begins."""
        ...

    def observe(
        self, system: Any, influence: Any, params: Params, dl_dh: Array, metric: Metric
    ) -> tuple[Tree, Tree, Array | bool]:
        """The influence, dl/dtheta, and whether theta is to move now (True, always, but for block methods)."""
        ...

    def draw(self, system: Any, h: Any, key: Array, t: Array) -> Tree:
        """All the randomness of the advance at t."""
        ...

    def advance(self, system: Any, influence: Any, at: Point, metric: Metric, draws: Any) -> tuple[Tree, Tree]:
        """The influence one step on, and h'."""
        ...


class Update(Protocol):
    """How a group of parameters (theta, or phi) moves on the evidence of one target."""

    def init(self, params: Any, layout: Layout) -> Tree: ...

    def apply(self, state: Any, params: Any, evidence: Evidence, t: Array) -> tuple[Tree, Tree]:
        """The state and the parameters after the target number t = 1, 2, ..."""
        ...

    def metric_of(self, state: Any) -> Metric:
        """The metric in which the parameters move."""
        ...

    def adapt(self, packed: bool) -> Update:
        """The update itself, or what it becomes for parameters without unit rows."""
        ...


def flat(tree: Tree) -> Float[Array, " n"]:
    """A state, or a cotangent on it, as one vector."""
    return ravel_pytree(tree)[0]
