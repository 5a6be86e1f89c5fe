"""What holds for any learner on any stream."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ..checkpoint import load, save
from ..engines import reference
from ..guards import finite
from ..protocol import Info, State, Tree, flat
from ..streams.items import Chunk, has_target, size
from .comparison import chunk_of, expect_close, same_bits

CLOSE = 1e-9  # relative; float32 needs some 1e-4


def check_learner(learner: Any, state: State, stream: Any, tolerance: float = CLOSE) -> None:
    """All of `LEARNER_CHECKS`: an AssertionError that names those which fail."""
    failures = {}
    for check in LEARNER_CHECKS:
        try:
            check(learner, state, stream, tolerance)
        except (AssertionError, TypeError, ValueError) as error:
            failures[check.__name__] = error
    named = "; ".join(f"{name}: {error}" for name, error in failures.items())
    assert not failures, f"{len(failures)} of {len(LEARNER_CHECKS)} checks fail: {named}"


def keeps_its_structure(learner: Any, state: State, stream: Any, tolerance: float = CLOSE) -> None:
    """The state has the same tree, shapes and types after a chunk: memory is constant in t."""
    after, _ = reference.scan(learner, state, chunk_of(learner, stream))
    assert jax.tree.map(jax.typeof, after) == jax.tree.map(jax.typeof, state), "the state changed its structure"


def starts_finite(learner: Any, state: State, stream: Any, tolerance: float = CLOSE) -> None:
    """No NaN comes from the zero state."""
    chunk = chunk_of(learner, stream)
    after, info = reference.scan(learner, state, chunk)
    assert finite(after), "not finite from the start"
    assert np.isfinite(np.asarray(info.loss)[has_target(chunk)]).all(), "losses are not finite"


def scans_as_it_steps(learner: Any, state: State, stream: Any, tolerance: float = CLOSE) -> None:
    """A scan over a chunk is the loop of its steps."""
    chunk = chunk_of(learner, stream)
    wanted, losses, after = reference.scan(learner, state, chunk), [], state
    for i in range(size(chunk)):
        after, info = _step(learner, after, _item(chunk, i), _draw(learner, after))
        losses.append(np.asarray(info.loss))
    expect_close((after, Info(np.stack(losses))), wanted, tolerance, "scan = loop")


def steps_as_it_is_written(learner: Any, state: State, stream: Any, tolerance: float = CLOSE) -> None:
    """A step is the same compiled or not."""
    chunk = chunk_of(learner, stream)
    after, item = reference.scan(learner, state, chunk)[0], _item(chunk, 0)
    draws = _draw(learner, after)
    with jax.disable_jit():
        eager = reference.step(learner, after, item, draws)
    expect_close(eager, _step(learner, after, item, draws), tolerance, "jit = no jit")


def maps_over_seeds(learner: Any, state: State, stream: Any, tolerance: float = CLOSE) -> None:
    """vmap over states is the loop over them."""
    chunk, key = chunk_of(learner, stream), np.asarray(state.key)
    states = [jax.tree.map(np.asarray, state._replace(key=key + np.uint32(i))) for i in range(2)]
    both = jax.tree.map(lambda *leaves: np.stack(leaves), *states)
    mapped = jax.tree.map(np.asarray, _mapped(learner, both, chunk))
    for i, one in enumerate(states):
        expect_close(
            jax.tree.map(lambda leaf, i=i: leaf[i], mapped),
            reference.scan(learner, one, chunk),
            tolerance,
            "vmap = loop",
        )


def observes_linearly(learner: Any, state: State, stream: Any, tolerance: float = CLOSE) -> None:
    """dl/dtheta is linear in dl/dh (and affine where a block holds earlier targets); online EM has no gradient."""
    if not hasattr(learner.estimator, "observe"):
        return
    after, _ = reference.scan(learner, state, chunk_of(learner, stream))
    h, at_once = np.asarray(flat(after.h)), []  # whether a target gives a gradient, and not a block of them
    one, other = (wave(np.arange(h.size)).astype(h.dtype) for wave in (np.cos, np.sin))

    @jax.jit
    def gradient(dl_dh: jax.Array) -> Tree:
        metric = learner.metric(after)
        _, dl_dtheta, ready = learner.estimator.observe(learner.system, after.influence, after.params, dl_dh, metric)
        at_once.append(ready is True)
        return dl_dtheta

    mixed, first, second, none = (
        jax.tree.map(np.asarray, gradient(dl_dh)) for dl_dh in (2 * one - 3 * other, one, other, 0 * h)
    )
    if at_once[0]:
        assert not any(leaf.any() for leaf in jax.tree.leaves(none)), "dl/dtheta is not zero for dl/dh = 0"
    parts = jax.tree.map(lambda a, b, c: 2 * (a - c) - 3 * (b - c) + c, first, second, none)
    expect_close(parts, mixed, tolerance, "observe is linear in dl/dh")


def resumes_exactly(learner: Any, state: State, stream: Any, tolerance: float = CLOSE) -> None:
    """Saved, read again and continued: the same bits as without."""
    chunk = chunk_of(learner, stream)
    middle, _ = reference.scan(learner, state, chunk)
    with tempfile.TemporaryDirectory() as folder:
        save(Path(folder) / "middle", learner, middle)
        again = load(Path(folder) / "middle", learner).state
    assert same_bits(middle, again), "not the same bits read back"
    ends = (reference.scan(learner, one, chunk) for one in (middle, again))
    assert same_bits(*ends), "not the same bits after it"


def leaves_its_inputs_alone(learner: Any, state: State, stream: Any, tolerance: float = CLOSE) -> None:
    """Neither the state that was passed in nor the stream is changed."""
    chunk = chunk_of(learner, stream)
    before = jax.tree.map(np.array, (state, chunk))
    reference.scan(learner, state, chunk)
    assert same_bits(before, (state, chunk)), "an input was changed"


def compiles_once(learner: Any, state: State, stream: Any, tolerance: float = CLOSE) -> None:
    """Another state, other data of the same shape, or another rate need no new trace."""
    chunk = chunk_of(learner, stream)
    scan: Any = reference.scan
    after, _ = scan(learner, state, chunk)
    after, _ = scan(learner, after, chunk)  # a state that was computed has no weak types
    traced = scan._cache_size()
    slower = jax.tree.map(lambda number: number * 0.5 if isinstance(number, float) else number, learner)
    scan(slower, after, chunk)
    assert scan._cache_size() == traced, "traced again for the same shapes"


LEARNER_CHECKS = (
    keeps_its_structure,
    starts_finite,
    scans_as_it_steps,
    steps_as_it_is_written,
    maps_over_seeds,
    observes_linearly,
    resumes_exactly,
    leaves_its_inputs_alone,
    compiles_once,
)


def _item(chunk: Chunk, i: int) -> Chunk:
    return jax.tree.map(lambda leaf: np.asarray(leaf)[i], chunk)


_step = jax.jit(reference.step)


@jax.jit
def _mapped(learner: Any, states: State, chunk: Chunk) -> tuple[State, Info]:
    return jax.vmap(reference.scan, in_axes=(None, 0, None))(learner, states, chunk)


@jax.jit
def _draw(learner: Any, state: State) -> Tree:
    return learner.draw(state, state.t)
