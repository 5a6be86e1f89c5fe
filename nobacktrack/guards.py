"""What a learner refuses: values that do not fit, and numbers that are no longer finite."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array

from .errors import BadItem, Divergence
from .protocol import Info, State, Tree


def scalar(loss: Array) -> Array:
    if jnp.shape(loss) != () or not jnp.issubdtype(jnp.result_type(loss), jnp.floating):
        raise ValueError(f"loss(y_hat, y) must be one floating-point number, not {jax.typeof(loss)}")
    return loss


def floating(tree: Tree, name: str) -> Tree:
    """A tree of floating-point arrays; h must be of one type, since it is one vector in the algorithm."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        dtype = jnp.result_type(leaf)
        if not jnp.issubdtype(dtype, jnp.floating):
            raise ValueError(
                f"{name}{jax.tree_util.keystr(path)} is {dtype}: only floating-point numbers can be trained"
            )
        # on the host: inside a transformation, what jax computes of numbers that are known is not known
        if not isinstance(leaf, Tracer) and not np.isfinite(np.asarray(leaf, float)).all():
            raise ValueError(f"{name}{jax.tree_util.keystr(path)} holds numbers that are not finite")
    tree = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.result_type(leaf)), tree)
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    if name == "h" and len({leaf.dtype for _, leaf in leaves}) != 1:
        raise ValueError(
            f"h must hold arrays of one floating-point type, not {[str(leaf.dtype) for _, leaf in leaves]}"
        )
    return tree


def matching(value: Tree, like: Tree, name: str) -> Tree:
    """A value in the types of an example; a ValueError where its structure or shapes differ."""
    if jax.tree.structure(value) != jax.tree.structure(like):
        raise ValueError(
            f"{name} is {jax.tree.structure(value)}, but the example at init was {jax.tree.structure(like)}"
        )

    def match(path: Any, leaf: Any, wanted: Array) -> Array:
        if jnp.shape(leaf) != wanted.shape:
            where = name + jax.tree_util.keystr(path)
            raise ValueError(f"{where} has shape {jnp.shape(leaf)}, but the example at init had {wanted.shape}")
        return jnp.asarray(leaf).astype(wanted.dtype)

    return jax.tree_util.tree_map_with_path(match, value, like)


def replacement(given: Tree, own: Tree, name: str) -> Tree:
    """What the user gave in place of the system's own initial value, in its type."""
    if given is None:
        return own
    if jax.tree.structure(given) != jax.tree.structure(own):
        raise ValueError(f"{name} must be a tree like {jax.tree.structure(own)}, not {jax.tree.structure(given)}")
    given = jax.tree.map(lambda mine, theirs: jnp.asarray(theirs, mine.dtype), own, given)
    expect_like(given, own, name, "the system's")
    return given


def expect_like(found: Tree, wanted: Tree, name: str, of: str) -> None:
    """Refuse a tree whose structure, shapes or types differ from those wanted."""
    if jax.tree.structure(found) != jax.tree.structure(wanted):
        raise ValueError(f"{name} is {jax.tree.structure(found)}, but {of} is {jax.tree.structure(wanted)}")
    for (path, mine), theirs in zip(jax.tree_util.tree_leaves_with_path(found), jax.tree.leaves(wanted), strict=True):
        if jnp.shape(mine) != jnp.shape(theirs) or jnp.result_type(mine) != jnp.result_type(theirs):
            where = jax.tree_util.keystr(path)
            raise ValueError(f"{name}{where} is {jax.typeof(mine)}, but {of}{where} is {jax.typeof(theirs)}")


def checked(space: Any, value: Tree, name: str, state: State) -> Tree:
    """A value checked on the host; inside a transformation (jit, scan, vmap) there is nothing to look at."""
    if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves((value, state))):
        return value
    try:
        return space.check(value, name, many=False)
    except BadItem as error:
        error.state = state
        raise


def expect_state(state: Any) -> None:
    """Refuse what is not a state."""
    if not isinstance(state, State):
        raise ValueError(f"state must be a State, such as learner.init(0) gives, not {type(state).__name__}")


def expect_finite(learner: Any, before: State, after: State, info: Info | None = None) -> None:
    """Stop at the first number that is not finite, with the state before it."""
    if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(after)):
        return
    if not finite((after, info)):
        raise diverged(learner, before, after, info is None or bool(finite(info)))


@jax.jit
def finite(tree: Tree) -> Array:
    """Whether all floating-point numbers of a tree are finite."""
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(tree) if _is_floating(leaf)]))


def _is_floating(leaf: Any) -> bool:
    return jnp.issubdtype(jnp.result_type(leaf), jnp.floating)


def diverged(learner: Any, before: State, after: State, loss_is_finite: bool) -> Divergence:
    """The error of a run that diverged: at which t, what grew, what to try."""
    bad = [
        _name(path)
        for path, leaf in jax.tree_util.tree_leaves_with_path(after)
        if _is_floating(leaf) and not finite(leaf)
    ]
    bad = bad if loss_is_finite else ["the loss", *bad]
    sizes = {
        _name(path): float(jnp.max(jnp.abs(leaf), initial=0.0))
        for path, leaf in jax.tree_util.tree_leaves_with_path(before)
        if _is_floating(leaf)
    }
    largest = max(sizes, key=lambda name: sizes[name])
    what = (
        f"diverged at t = {before.steps}: {', '.join(bad[:4])}{', ...' * (len(bad) > 4)} no longer finite; "
        f"the largest before it was {largest}, at {sizes[largest]:.3g}"
    )
    return Divergence(what, remedies(learner), before)


def remedies(learner: Any) -> list[str]:
    """What to change in a learner that diverged, most promising first."""
    update, estimator, system = learner.updates.theta, learner.estimator, learner.system
    filters = hasattr(update, "prior")
    found = ["a larger prior, as nbt.Kalman(prior=100)"] if filters else ["nbt.Kalman()", "a smaller rate"]
    if hasattr(estimator, "rank"):
        found += ["a higher rank", "nbt.TruncatedBPTT(), which has no noise"]
    if getattr(system, "activation", "") == "tanh":
        found.append("sigmoid units")
    if getattr(system, "inputs", None) or getattr(system, "outputs", None):
        found.append("inputs and targets of order one")
    return found


def _name(path: tuple[Any, ...]) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".")
