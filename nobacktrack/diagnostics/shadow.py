"""What goes beside a learner: N copies of an estimator and the exact influence, on the learner's own path."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from .. import counter
from ..estimators import RTRL
from ..influence.belief import Experience
from ..learner import Learner
from ..protocol import Metric, Point, State, Tree, flat
from ..streams.items import Chunk, Series

COPY_TAG = 0x6E6274  # keys of copies are not those of learners


class Step(NamedTuple):
    """What is measured at one target, over the copies: squares are summed over theta. NaN without the exact gradient,
    where that is needed.
    """

    cosine: Array  # of a copy with the exact gradient, mean
    error: Array  # |g~ - g|^2, mean
    spread: Array  # variance of g~
    off: Array  # |mean g~ - g|^2
    size: Array  # |g|^2
    noise: Array  # |g~ - g|^2 in the metric in which theta moves
    strength: Array  # |g|^2 in that metric
    by_part: Float[Array, " parts"]  # the noise of each unit, or of each array of theta
    window_noise: Float[Array, " windows"]  # of gradients summed over windows, at the end of each; NaN elsewhere
    window_strength: Float[Array, " windows"]
    belief: Float[Array, " numbers"]  # as in BELIEF, mean over the copies; NaN for an estimator that has none


BELIEF = ("exact_power", "random_power", "signal_power", "agreement", "share")  # of `Experience`


class Shadow(NamedTuple):
    """What goes beside a learner: the copies, the exact influence or (), and gradients summed over windows."""

    copies: Tree
    exact: Tree
    sums: Float[Array, "windows copies size"]
    exact_sums: Float[Array, "windows size"]
    age: Array


def begin(shadow: Learner, state: State, copies: int, exact: bool, windows: int) -> Shadow:
    """No influence yet, of the copies and of RTRL alike."""
    at = Point(state.params, state.h, state.params.fixed.x)
    one = shadow.estimator.init(shadow.system, at)
    theta = flat(state.params.theta)
    zeros = jnp.zeros((windows, copies, theta.size), theta.dtype)
    return Shadow(
        jax.tree.map(lambda leaf: jnp.stack([leaf] * copies), one),
        RTRL().init(shadow.system, at) if exact else (),
        zeros,
        zeros[:, 0],
        jnp.zeros((), jnp.int32),
    )


@jax.jit
def follow(
    learner: Learner, shadow: Learner, state: State, begun: Shadow, chunk: Chunk, windows: Array, burn_in: Array
) -> tuple[State, Step]:
    """The learner after a chunk, and what was measured at each step."""

    def item(carry: tuple[State, Shadow], value: Chunk) -> tuple[tuple[State, Shadow], Step]:
        state, beside = carry
        if value.reset is not None:
            state, beside = jax.lax.cond(
                value.reset, lambda: (learner.reset(state), _forgotten(shadow, beside)), lambda: (state, beside)
            )
        if isinstance(value, Series):
            beside, found = _measured(learner, shadow, state, beside, value.values, windows, burn_in)
            state, _ = learner.observe_unchecked(state, value.values, state)
            return _advanced(learner, shadow, state, beside, value.values), found
        state, beside = _advanced(learner, shadow, state, beside, value.x)
        if value.y is None:
            raise ValueError("stream: without targets there are no gradients to measure")

        def seen() -> tuple[tuple[State, Shadow], Step]:
            after, found = _measured(learner, shadow, state, beside, value.y, windows, burn_in)
            return (learner.observe_unchecked(state, value.y, state)[0], after), found

        if value.seen is None:
            return seen()
        none = jax.tree.map(lambda leaf: jnp.full(leaf.shape, jnp.nan, leaf.dtype), jax.eval_shape(seen)[1])
        return jax.lax.cond(value.seen, seen, lambda: ((state, beside), none))

    (state, _), found = jax.lax.scan(item, (state, begun), chunk)
    return state, found


def _forgotten(shadow: Learner, beside: Shadow) -> Shadow:
    exact = RTRL().forget(beside.exact) if _has(beside.exact) else ()
    return beside._replace(copies=jax.vmap(shadow.estimator.forget)(beside.copies), exact=exact)


def _has(tree: Tree) -> bool:
    return bool(jax.tree.leaves(tree))


def _advanced(learner: Learner, shadow: Learner, state: State, beside: Shadow, x: Tree) -> tuple[State, Shadow]:
    """The learner, the copies and RTRL one input on, all from the same state."""
    copies = len(jax.tree.leaves(beside.copies)[0])

    def copy(influence: Tree, number: Array) -> Tree:
        key = jnp.stack(counter.threefry((state.key[0], state.key[1]), (number, jnp.uint32(COPY_TAG))))
        draws = shadow.estimator.draw(shadow.system, state.h, key, state.t)
        return shadow.advance_unchecked(state._replace(influence=influence), x, draws).influence

    moved = jax.vmap(copy)(beside.copies, jnp.arange(copies, dtype=jnp.uint32))
    exact = ()
    if _has(beside.exact):
        rtrl = Learner(learner.system, RTRL(), learner.update)
        exact = rtrl.advance_unchecked(state._replace(influence=beside.exact), x, ()).influence
    after = learner.advance_unchecked(state, x, learner.draw(state, state.t))
    return after, beside._replace(copies=moved, exact=exact)


def _measured(
    learner: Learner, shadow: Learner, state: State, beside: Shadow, y: Tree, windows: Array, burn_in: Array
) -> tuple[Shadow, Step]:
    """The gradients of all copies on one target, against the exact one."""

    def read(estimating: Learner, influence: Tree) -> tuple[Array, Tree]:
        _, evidence, influence, _ = estimating.differentiate(state._replace(influence=influence), y)
        return flat(evidence.theta.gradient), influence

    found, copies = jax.vmap(lambda influence: read(shadow, influence))(beside.copies)
    known = _has(beside.exact)
    rtrl = Learner(learner.system, RTRL(), learner.update)
    exact = read(rtrl, beside.exact)[0] if known else jnp.mean(found, axis=0)  # the mean stands for it, where it must
    counts = beside.age >= burn_in
    age = beside.age + 1
    sums = beside.sums + jnp.where(counts, found, 0)[None]
    exact_sums = beside.exact_sums + jnp.where(counts, exact, 0)[None]
    ends = counts & ((age - burn_in) % windows == 0)
    metric = learner.updates.theta.metric_of(state.update.theta)
    unravel = ravel_pytree(state.params.theta)[1]

    def squares(vectors: Float[Array, "copies size"]) -> Float[Array, " copies"]:
        return jax.vmap(lambda v: metric.norm2(unravel(v)))(vectors)

    in_windows = [_noise_and_strength(squares, s, e, known) for s, e in zip(sums, exact_sums, strict=True)]
    noise, strength = _noise_and_strength(squares, found, exact, known)
    step = Step(
        *_plain(found, exact, known),
        noise,
        strength,
        jnp.mean(jax.vmap(lambda v: _by_part(learner.system, metric, unravel(v)))(found - exact[None]), axis=0),
        *(jnp.where(ends, jnp.stack(values), jnp.nan) for values in zip(*in_windows, strict=True)),
        belief=_belief(copies, found.dtype),
    )
    step = jax.tree.map(lambda leaf: jnp.where(counts, leaf, jnp.nan), step)
    fresh = jnp.where(ends[:, None], 0, exact_sums)
    return Shadow(copies, beside.exact, jnp.where(ends[:, None, None], 0, sums), fresh, age), step


def _belief(copies: Tree, dtype: Any) -> Float[Array, " numbers"]:
    """What the copies of a cautious estimator have seen of its parts."""
    seen = getattr(copies, "belief", None)
    if not isinstance(seen, Experience):
        return jnp.full(len(BELIEF), jnp.nan, dtype)
    return jnp.stack([jnp.mean(getattr(seen, name)) for name in BELIEF])


def _plain(
    found: Float[Array, "copies size"], exact: Float[Array, " size"], known: bool
) -> tuple[Array, Array, Array, Array, Array]:
    """Cosine, error, spread, distance of the mean, and size, as they are."""
    mean = jnp.mean(found, axis=0)
    spread = jnp.sum((found - mean[None]) ** 2) / (len(found) - 1)
    nan = jnp.full((), jnp.nan, found.dtype)
    if not known:
        return nan, nan, spread, nan, jnp.sum(mean**2) - spread / len(found)
    size2 = jnp.sum(exact**2)
    lengths = jnp.sqrt(jnp.sum(found**2, axis=1) * size2)
    cosines = jnp.where(lengths > 0, found @ exact / jnp.where(lengths > 0, lengths, 1), jnp.nan)
    error = jnp.mean(jnp.sum((found - exact[None]) ** 2, axis=1))
    return jnp.mean(cosines), error, spread, jnp.sum((mean - exact) ** 2), size2


def _noise_and_strength(squares: Any, found: Array, exact: Array, known: bool) -> tuple[Array, Array]:
    """E|g~ - g|^2 and |g|^2 in a metric; without the exact g, from the spread of the copies."""
    if known:
        return jnp.mean(squares(found - exact[None])), squares(exact[None])[0]
    mean = jnp.mean(found, axis=0)
    spread = jnp.sum(squares(found - mean[None])) / (len(found) - 1)
    return spread, squares(mean[None])[0] - spread / len(found)


def _by_part(system: Any, metric: Metric, w: Tree) -> Float[Array, " parts"]:
    """|w|^2 of the rows of each unit, in the metric; of each array, as it is, where there are no rows."""
    leaves = jax.tree.leaves(w)
    if not system.packed:
        return jnp.stack([jnp.sum(leaf**2) for leaf in leaves])
    blocks = {substep.rows.leaf: substep.rows for substep in system.substeps}
    return jnp.concatenate([jnp.sum(metric.row_norm2(leaves[i], blocks[i]), axis=-1) for i in sorted(blocks)])
