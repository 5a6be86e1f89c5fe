"""A network that gets more symbols or inputs while it learns: what it knows stays where it is, bit for bit."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .committee import Committee
from .learner import Learner
from .protocol import State, Tree
from .systems.recurrent import Recurrent

UNUSED = -30.0  # the bias of a symbol that has not come yet: its probability, exp(-30), cannot be seen in a loss


def enlarge(
    learner: Learner | Committee, state: State, *, symbols: int | None = None, inputs: int | None = None
) -> Any:
    """`(learner, state)` with room for more symbols or input numbers.

    Inputs are the last columns of theta and symbols the rows of phi, so that all that was learned (parameters,
    influence, filter) stays in front, as it was; what is new is as at the start.
    """
    if isinstance(learner, Committee):
        return _enlarge_committee(learner, state, symbols=symbols, inputs=inputs)
    if not isinstance(learner.system, Recurrent):
        raise ValueError(f"{type(learner.system).__name__} cannot grow: only single layers of cells can")
    wanted = {name: size for name, size in (("symbols", symbols), ("inputs", inputs)) if size is not None}
    for name, size in wanted.items():
        if getattr(learner.system, name) is None or size < getattr(learner.system, name):
            raise ValueError(f"{name}: {learner.system} cannot grow to {size}")
    larger = dataclasses.replace(learner, system=dataclasses.replace(learner.system, **wanted))
    dtype = jax.tree.leaves(state.h)[0].dtype
    shapes = jax.eval_shape(lambda: larger.init(jax.random.key(0), dtype=dtype))
    sizes = set(zip(_sizes(learner.system), _sizes(larger.system), strict=True))
    grown = jax.tree_util.tree_map_with_path(lambda path, new, old: _put(path, new, old, sizes), shapes, state)
    theta = _with_new_inputs(larger.system, grown.params.theta, state)
    return larger, grown._replace(params=grown.params._replace(theta=theta))


def with_symbol(state: State, symbol: int, like: int | None) -> State:
    """A symbol that comes for the first time is predicted as another one is, or, with none, as all zeros are."""

    def add(phi: Tree) -> jax.Array:
        return phi.at[symbol].set(0 if like is None else phi[like])

    return state._replace(params=state.params._replace(phi=jax.tree.map(add, state.params.phi)))


def without_symbols(state: State, used: int) -> State:
    """The symbols from `used` on are not predicted."""

    def leave_out(phi: Tree) -> jax.Array:
        return phi.at[used:].set(0).at[used:, 0].set(UNUSED)

    return state._replace(params=state.params._replace(phi=jax.tree.map(leave_out, state.params.phi)))


def _enlarge_committee(committee: Committee, state: State, **sizes: int | None) -> tuple[Committee, State]:
    """The same of all members, and of the panel."""
    each = zip(committee.learners, committee.unpack(state), strict=True)
    grown = [[enlarge(learner, own, **sizes) for own in copies] for learner, copies in each]
    larger = dataclasses.replace(committee, learners=tuple(copies[0][0] for copies in grown))
    memory = state.influence._replace(panel=larger.grow(state.influence.panel))
    return larger, larger.pack([tuple(own for _, own in copies) for copies in grown], memory, state.key)


def _sizes(system: Recurrent) -> tuple[int, ...]:
    """The lengths of an axis that grow."""
    fan = 1 + system.degree + system.signals
    return fan, fan - 1, system.signals, system.target_space.size


def _put(path: Any, new: Tree, old: Tree, sizes: set[tuple[int, int]]) -> Tree:
    """The old numbers, followed by zeros."""
    if new.shape == old.shape:
        return old
    changed = {(a, b) for a, b in zip(old.shape, new.shape, strict=False) if a != b}
    if old.ndim != new.ndim or not changed <= sizes:
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        raise ValueError(
            f"{name}, of shape {old.shape}, cannot grow to {new.shape}: it mixes inputs with other numbers"
        )
    grown = np.zeros(new.shape, new.dtype)
    grown[tuple(slice(size) for size in old.shape)] = old
    return jnp.asarray(grown)


def _with_new_inputs(system: Recurrent, theta: Tree, state: State) -> Tree:
    """r ~ N(0,1) for the new inputs, as at the start; the same whenever this size is reached."""
    grown, begin = np.array(theta), state.params.theta.shape[-1]
    draws = np.random.default_rng([*np.asarray(state.key).tolist(), system.signals])
    grown[..., begin:] = draws.standard_normal(grown[..., begin:].shape)
    mask = system.mask(grown.shape[-1])
    return jnp.asarray(grown if mask is None else np.where(mask[None], grown, 0))
