"""Estimators against exact gradients: by enumeration of all signs, by one step, by the unrolled computation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..estimators import RTRL
from ..learner import Learner
from ..protocol import Params, Point, State, Tree, flat
from ..streams.items import Chunk, Series
from .comparison import chunk_of, expect_close, same_bits

MOST_PATTERNS = 1 << 16


def estimated_influence(learner: Learner, state: State) -> Tree:
    """G~ as the estimator reads it: row i is what `observe` gives for dl/dh = e_i."""
    h, metric = flat(state.h), learner.metric(state)

    def row(dl_dh: jax.Array) -> Tree:
        return learner.estimator.observe(learner.system, state.influence, state.params, dl_dh, metric)[1]

    return jax.vmap(row)(jnp.eye(h.size, dtype=h.dtype))


def exact_influence(learner: Learner, state: State, inputs: Sequence[Tree], path: Sequence[Tree]) -> Tree:
    """dh/dtheta along a path of parameters, by RTRL, from a state that no parameter has touched."""
    exact = Learner(learner.system, RTRL(), learner.update)
    influence = RTRL().init(learner.system, _point(state, inputs[0]))
    final = jax.jit(lambda state: along(exact, state, inputs, path, [()] * len(inputs)).influence)
    return final(state._replace(influence=influence))


def check_unbiased(
    learner: Learner, state: State, inputs: Sequence[Tree], path: Sequence[Tree], tolerance: float = 1e-12
) -> float:
    """The mean of G~ over all sign patterns is dh/dtheta, theta being moved by an outside sequence: the largest
    relative error.

    The signs of the first sub-step are left out where they do not count, since it has nothing to reduce.
    """
    template = jax.eval_shape(lambda s: learner.draw(s, s.t), state)
    counted, idle = len(inputs) - 1, 1 if _begins_idle(learner, state, inputs[0], path[0], template) else 0

    def final(signs: tuple[Tree, Tree]) -> Tree:
        within, later = signs
        first = (*(jnp.ones(leaf.shape, leaf.dtype) for leaf in template[:idle]), *within)
        draws = [first, *(jax.tree.map(lambda leaf, i=i: leaf[i], later) for i in range(counted))]
        return estimated_influence(learner, along(learner, state, inputs, path, draws))

    later = jax.tree.map(lambda s: jax.ShapeDtypeStruct((counted, *s.shape), s.dtype), template)
    mean = mean_over_signs(final, (template[idle:], later))
    return expect_close(mean, exact_influence(learner, state, inputs, path), tolerance, "E G~ = dh/dtheta")


def _begins_idle(learner: Learner, state: State, x: Tree, theta: Tree, template: Tree) -> bool:
    """Whether the signs of the first sub-step change nothing, from a state that no parameter has touched."""
    plain = jax.tree.map(lambda leaf: jnp.ones(leaf.shape, leaf.dtype), template)
    turned = (*(leaf.at[(0,) * leaf.ndim].set(-1) for leaf in plain[:1]), *plain[1:])
    read = jax.jit(lambda draw: estimated_influence(learner, along(learner, state, [x], [theta], [draw])))
    return same_bits(read(plain), read(turned))


def check_one_step(learner: Learner, state: State, x: Tree, tolerance: float = 1e-12) -> float:
    """E G~' = df/dh G~ + df/dtheta over the signs of one advance from any state: the largest relative error."""
    template = jax.eval_shape(lambda s: learner.draw(s, s.t), state)
    mean = mean_over_signs(
        lambda signs: estimated_influence(learner, learner.advance_unchecked(state, x, signs)), template
    )
    exact = Learner(learner.system, RTRL(), learner.update)

    @jax.jit
    def following(state: State) -> Tree:
        return exact.advance_unchecked(state._replace(influence=estimated_influence(learner, state)), x, ()).influence

    return expect_close(mean, following(state), tolerance, "E G~' = df/dh G~ + df/dtheta")


def check_rtrl(learner: Learner, state: State, stream: Any, tolerance: float = 1e-10) -> float:
    """RTRL's gradients, summed through observe and advance at fixed parameters, are the gradient of the unrolled
    computation.
    """
    exact = Learner(learner.system, RTRL(), learner.update)
    influence = RTRL().init(learner.system, _point(state, state.params.fixed.x))
    online = summed_gradients(exact, state._replace(influence=influence), stream)
    return expect_close(online, unrolled_gradient(learner, state, stream), tolerance, "RTRL = unrolled gradient")


def summed_gradients(learner: Learner, state: State, stream: Any) -> Params:
    """sum_t dl_t/d(theta, phi) as the estimator gives it online, the parameters being fixed."""
    return _summed(learner, state, chunk_of(learner, stream))


def unrolled_gradient(learner: Learner, state: State, stream: Any) -> Params:
    """d(sum_t l_t)/d(theta, phi) by backpropagation through the whole stream."""
    return _unrolled(learner, state, chunk_of(learner, stream))


@jax.jit
def _summed(learner: Learner, state: State, chunk: Chunk) -> Params:
    def look(state: State, total: Params, y: Tree) -> tuple[State, Params]:
        _, evidence, influence, _ = learner.differentiate(state, y)
        gradient = Params(evidence.theta.gradient, evidence.phi.gradient)
        return state._replace(influence=influence), jax.tree.map(jnp.add, total, gradient)

    def go_on(state: State, x: Tree) -> State:
        return learner.advance_unchecked(state, x, learner.draw(state, state.t))

    def item(carry: tuple[State, Params], value: Chunk) -> tuple[tuple[State, Params], None]:
        state, total = carry
        if isinstance(value, Series):
            state, total = look(state, total, value.values)
            return (go_on(state, value.values), total), None
        return look(go_on(state, value.x), total, value.y), None

    start = jax.tree.map(jnp.zeros_like, Params(state.params.theta, state.params.phi))
    return jax.lax.scan(item, (state, start), chunk)[0][1]


@jax.jit
def _unrolled(learner: Learner, state: State, chunk: Chunk) -> Params:
    system = learner.system

    def total(theta: Tree, phi: Tree) -> jax.Array:
        params = state.params._replace(theta=theta, phi=phi)

        def item(h: Tree, value: Chunk) -> tuple[Tree, jax.Array]:
            if isinstance(value, Series):
                return system.evolve(params, h, value.values), system.loss(system.predict(params, h), value.values)
            h = system.evolve(params, h, value.x)
            return h, system.loss(system.predict(params, h), value.y)

        return jnp.sum(jax.lax.scan(item, state.h, chunk)[1])

    return Params(*jax.grad(total, argnums=(0, 1))(state.params.theta, state.params.phi))


def step_flops(learner: Learner, state: State, y: Any) -> tuple[float, float]:
    """Flops of one online step over the number of parameters, and over the flops of running the system alone.

    `state` and `y` may be shapes alone: nothing is run.
    """

    def alone(state: State, y: Tree) -> tuple[Tree, Tree]:
        system = learner.system
        return system.loss(system.predict(state.params, state.h), y), system.evolve(state.params, state.h, y)

    parameters = sum(leaf.size for leaf in jax.tree.leaves((state.params.theta, state.params.phi)))
    step = _flops(learner.step, state, y)
    return step / parameters, step / _flops(alone, state, y)


def _flops(function: Any, *arguments: Any) -> float:
    cost = jax.jit(function).lower(*arguments).cost_analysis()
    if cost is None:
        raise ValueError("this backend does not count flops")
    return cost["flops"]


def _point(state: State, x: Tree) -> Point:
    return Point(state.params, state.h, x)


def along(learner: Learner, state: State, inputs: Sequence[Tree], path: Sequence[Tree], draws: Sequence[Tree]) -> State:
    """The state after some inputs, theta being set from outside before each."""

    def step(state: State, at: tuple[Tree, Tree, Tree]) -> tuple[State, None]:
        x, theta, draw = at
        return learner.advance_unchecked(state._replace(params=state.params._replace(theta=theta)), x, draw), None

    return jax.lax.scan(step, state, (stacked(inputs), stacked(path), stacked(draws)))[0]


def stacked(trees: Sequence[Tree]) -> Tree:
    """Trees of the same shapes as one, along a first axis."""
    return jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves]), *trees)


def mean_over_signs(function: Any, template: Tree) -> Tree:
    """The mean of a function of signs over all of them."""
    leaves, structure = jax.tree.flatten(template)
    bits = sum(leaf.size for leaf in leaves)
    if 1 << bits > MOST_PATTERNS:
        raise ValueError(f"2^{bits} sign patterns are too many to enumerate")
    patterns = (1 - 2 * (np.arange(1 << bits)[:, None] >> np.arange(bits)[None, :] & 1)).astype(np.int8)

    def total(pattern: jax.Array) -> Tree:
        ends = np.cumsum([0, *(leaf.size for leaf in leaves)])
        parts = [pattern[a:b].reshape(leaf.shape) for a, b, leaf in zip(ends, ends[1:], leaves, strict=False)]
        return function(jax.tree.unflatten(structure, parts))

    totals = jax.jit(jax.vmap(total))
    sums = [totals(block) for block in np.array_split(patterns, max(1, len(patterns) // 4096))]
    return jax.tree.map(lambda *blocks: sum(jnp.sum(block, axis=0) for block in blocks) / len(patterns), *sums)
