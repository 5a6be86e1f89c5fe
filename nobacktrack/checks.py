"""What every system, estimator, update and learner must satisfy: run them on your own.

Each check returns what it measured, and raises AssertionError where it fails. Use float64
(`jax.config.update("jax_enable_x64", True)`) for the exact ones. Estimators are compared online, through `advance`:
differentiating a whole sequence would return the gradient of backpropagation for any of them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .checkpoint import load, save
from .engines import begin, reference
from .estimators import RTRL
from .guards import finite
from .learner import Learner
from .protocol import Info, Params, Point, State, Tree, flat
from .streams.items import Chunk, Series, as_chunk, checked, has_target, part, size

MOST_PATTERNS = 1 << 16


def estimated_influence(learner: Learner, state: State) -> Tree:
    """G~ as the estimator reads it: row i is what `observe` gives for dl/dh = e_i."""
    h = flat(state.h)

    def row(dl_dh: jax.Array) -> Tree:
        return learner.estimator.observe(learner.system, state.influence, state.params, dl_dh)[1]

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
    return _summed(learner, state, _chunk(learner, stream))


def unrolled_gradient(learner: Learner, state: State, stream: Any) -> Params:
    """d(sum_t l_t)/d(theta, phi) by backpropagation through the whole stream."""
    return _unrolled(learner, state, _chunk(learner, stream))


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


def check_engines(
    learner: Learner, state: State, stream: Any, window: int = 64, tolerance: float = 1e-10, engine: str = "fused"
) -> float:
    """An engine does what the reference does: window by window, each begun from the state of the reference."""
    chunk, error = _chunk(learner, stream), 0.0
    for start in range(0, size(chunk), window):
        items = part(chunk, start, min(start + window, size(chunk)))
        session = begin(learner, state, engine, strict=True)
        losses = session.take(items)
        state, info = reference.scan(learner, state, items)
        wanted = state, info.loss
        error = max(error, expect_close((session.state(), losses), wanted, tolerance, f"{engine} = reference"))
    return error


def check_learner(learner: Any, state: State, stream: Any, tolerance: float = 1e-9) -> None:
    """All that holds for any learner on any stream: see the functions `learner_...` below."""
    chunk = _chunk(learner, stream)
    for check in LEARNER_CHECKS:
        check(learner, state, chunk, tolerance)


def learner_keeps_its_structure(learner: Learner, state: State, chunk: Chunk, tolerance: float) -> None:
    """The state has the same tree, shapes and types after a chunk: memory is constant in t."""
    after, _ = reference.scan(learner, state, chunk)
    assert jax.tree.map(jax.typeof, after) == jax.tree.map(jax.typeof, state), "the state changed its structure"


def learner_starts_finite(learner: Learner, state: State, chunk: Chunk, tolerance: float) -> None:
    """No NaN comes from the zero state."""
    after, info = reference.scan(learner, state, chunk)
    losses = np.asarray(info.loss)[has_target(chunk)]
    assert finite(after), "not finite from the start"
    assert np.isfinite(losses).all(), "losses are not finite"


def learner_scans_as_it_steps(learner: Learner, state: State, chunk: Chunk, tolerance: float) -> None:
    """A scan over a chunk is the loop of its steps, and a step is the same compiled or not."""
    scanned = reference.scan(learner, state, chunk)
    step = jax.jit(reference.step)
    expect_close(_looped(learner, state, chunk, step), scanned, tolerance, "scan = loop")
    after, item = scanned[0], jax.tree.map(lambda leaf: leaf[0], chunk)
    draws = _draw(learner, after)
    with jax.disable_jit():
        eager = reference.step(learner, after, item, draws)
    expect_close(eager, step(learner, after, item, draws), tolerance, "jit = no jit")


def learner_maps_over_seeds(learner: Learner, state: State, chunk: Chunk, tolerance: float) -> None:
    """vmap over states is the loop over them."""
    keys = jnp.stack([state.key, state.key + np.uint32(1)])
    states = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), state)._replace(key=keys)
    mapped = jax.vmap(reference.scan, in_axes=(None, 0, None))(learner, states, chunk)
    for i in range(2):
        one = reference.scan(learner, state._replace(key=keys[i]), chunk)
        expect_close(jax.tree.map(lambda leaf, i=i: leaf[i], mapped), one, tolerance, "vmap = loop")


def learner_observes_linearly(learner: Learner, state: State, chunk: Chunk, tolerance: float) -> None:
    """dl/dtheta is linear in dl/dh (and affine where a block holds earlier targets); online EM has no gradient."""
    if not hasattr(learner.estimator, "observe"):
        return
    after, _ = reference.scan(learner, state, chunk)
    h = flat(after.h)
    one, other = jnp.cos(jnp.arange(h.size, dtype=h.dtype)), jnp.sin(jnp.arange(h.size, dtype=h.dtype))

    at_once = []  # whether a target gives a gradient, and not a block of them

    @jax.jit
    def gradient(dl_dh: jax.Array) -> Tree:
        _, dl_dtheta, ready = learner.estimator.observe(learner.system, after.influence, after.params, dl_dh)
        at_once.append(ready is True)
        return dl_dtheta

    whole_, first, second, none = map(gradient, (2 * one - 3 * other, one, other, 0 * h))
    if at_once[0]:
        assert all(bool(jnp.all(leaf == 0)) for leaf in jax.tree.leaves(none)), "dl/dtheta is not zero for dl/dh = 0"
    parts = jax.tree.map(lambda a, b, c: 2 * (a - c) - 3 * (b - c) + c, first, second, none)
    expect_close(parts, whole_, tolerance, "observe is linear in dl/dh")


def learner_resumes_exactly(learner: Learner, state: State, chunk: Chunk, tolerance: float) -> None:
    """Saved, read again and continued: the same bits as without."""
    half = size(chunk) // 2
    middle, _ = reference.scan(learner, state, part(chunk, 0, half))
    rest = part(chunk, half, size(chunk))
    with tempfile.TemporaryDirectory() as folder:
        save(Path(folder) / "middle", learner, middle)
        again = load(Path(folder) / "middle", learner)
    for name, one in (("read back", middle), ("after it", reference.scan(learner, middle, rest))):
        other = again.state if name == "read back" else reference.scan(learner, again.state, rest)
        assert same_bits(one, other), f"not the same bits {name}"


def learner_leaves_its_inputs_alone(learner: Learner, state: State, chunk: Chunk, tolerance: float) -> None:
    """Neither the state that was passed in nor the stream is changed."""
    before = jax.tree.map(np.array, (state, chunk))
    reference.scan(learner, state, chunk)
    assert same_bits(before, (state, chunk)), "an input was changed"


def learner_compiles_once(learner: Learner, state: State, chunk: Chunk, tolerance: float) -> None:
    """Another state, other data of the same shape, or another rate need no new trace."""
    traces = []

    @jax.jit
    def scan(learner: Learner, state: State, chunk: Chunk) -> tuple[State, Info]:
        traces.append(None)
        return reference.scan(learner, state, chunk)

    after, _ = scan(learner, state, chunk)
    scan(jax.tree.map(lambda number: number * 0.5 if isinstance(number, float) else number, learner), after, chunk)
    assert len(traces) == 1, "traced again for the same shapes"


LEARNER_CHECKS = (
    learner_keeps_its_structure,
    learner_starts_finite,
    learner_scans_as_it_steps,
    learner_maps_over_seeds,
    learner_observes_linearly,
    learner_resumes_exactly,
    learner_leaves_its_inputs_alone,
    learner_compiles_once,
)


def _chunk(learner: Learner, stream: Any) -> Chunk:
    chunk = as_chunk(stream)
    if chunk is None:
        raise ValueError("stream: the checks need arrays")
    return checked(chunk, learner.system)


def _point(state: State, x: Tree) -> Point:
    return Point(state.params, state.h, x)


def along(learner: Learner, state: State, inputs: Sequence[Tree], path: Sequence[Tree], draws: Sequence[Tree]) -> State:
    """The state after some inputs, theta being set from outside before each."""
    for x, theta, draw in zip(inputs, path, draws, strict=True):
        state = learner.advance_unchecked(state._replace(params=state.params._replace(theta=theta)), x, draw)
    return state


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


def _looped(learner: Learner, state: State, chunk: Chunk, step: Any) -> tuple[State, Info]:
    losses = []
    for i in range(size(chunk)):
        item = jax.tree.map(lambda leaf, i=i: leaf[i], chunk)
        state, info = step(learner, state, item, _draw(learner, state))
        losses.append(info.loss)
    return state, Info(jnp.stack(losses))


@jax.jit
def _draw(learner: Learner, state: State) -> Tree:
    return learner.draw(state, state.t)


def same_bits(one: Tree, other: Tree) -> bool:
    """Whether two trees are built alike and hold the same numbers of the same types, bit for bit."""
    if jax.tree.structure(one) != jax.tree.structure(other):
        return False
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(a.dtype == b.dtype and a.tobytes() == b.tobytes() for a, b in (map(np.asarray, pair) for pair in pairs))


def expect_close(found: Tree, wanted: Tree, tolerance: float, what: str) -> float:
    """The largest difference, relative to the largest number wanted in the same array."""
    error = 0.0
    for (path, a), b in zip(jax.tree_util.tree_leaves_with_path(found), jax.tree.leaves(wanted), strict=True):
        one, other = np.asarray(a, float), np.asarray(b, float)
        assert np.array_equal(np.isnan(one), np.isnan(other)), (
            f"{what}: {jax.tree_util.keystr(path)} is NaN on one side"
        )
        one, other = np.nan_to_num(one), np.nan_to_num(other)
        here = float(np.max(np.abs(one - other), initial=0.0) / max(float(np.max(np.abs(other), initial=0.0)), 1e-300))
        assert here <= tolerance, (
            f"{what}: {jax.tree_util.keystr(path)} differs by {here:.3g} (relative), more than {tolerance:.3g}"
        )
        error = max(error, here)
    return error
