"""The numbers of a State to the pieces of the flat array and back."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ....learner import Learner
from ....protocol import State
from ....updates.kalman import LEAST_PRIOR, LENGTHS, SHOCK, Filter, Hearing, Lengths
from ....updates.metrics import Arrow
from .layout import Pieces, Sizes
from .views import Count


class Store(NamedTuple):
    """The memory of a loop, for Python: the pieces that all loops share, those of this one, and its counters."""

    sizes: Sizes
    common: Pieces
    own: Any
    ints: np.ndarray


def pack(state: State, learner: Learner, store: Store) -> None:
    """Write parameters, filters and h into the pieces."""
    sizes, z, ints = store.sizes, store.common, store.ints
    params, moves = state.params, state.update
    pack_bands(sizes, z.theta, columns(params.theta))
    _real(sizes, z.phi)[:] = columns(params.phi)
    m0i, mii = np.zeros_like(z.theta_m0i), np.zeros_like(z.theta_mii)
    ints[Count.THETA_AGE] = _pack_filter(moves.theta, m0i, mii, z.priors[:1])
    pack_bands(sizes, z.theta_m0i, m0i)
    pack_bands(sizes, z.theta_mii, mii)
    phi = _real(sizes, z.phi_m0i), _real(sizes, z.phi_mii)
    ints[Count.PHI_AGE] = _pack_filter(moves.phi, *phi, z.priors[1:])
    z.heard_beside[:] = learner.inputs, 0
    for group, filter in enumerate((moves.theta, moves.phi)):
        if isinstance(filter, Filter) and isinstance(filter.hearing, Hearing):
            samples, z.heard_mean[group], variance = filter.hearing
            z.heard[group], z.least_priors[group] = (samples, variance), LEAST_PRIOR
    if isinstance(getattr(moves.theta, "lengths", ()), Lengths):
        z.lengths[:], z.shock[:] = moves.theta.lengths, (SHOCK, LENGTHS)
    z.h[:] = np.asarray(state.h).reshape(z.h.shape)
    z.h0[:] = np.asarray(params.fixed.h0).reshape(z.h.shape)
    if not isinstance(params.fixed.constants, tuple):  # () where a cell has none
        z.alpha[:] = params.fixed.constants
    mask = learner.system.mask(sizes.fan)
    z.hears[:] = 1 if mask is None else mask[:, [1, -1]]


def _pack_filter(filter: Any, m0i: np.ndarray, mii: np.ndarray, prior: np.ndarray) -> int:
    """Write the information and the prior of a filter, if there is one: its age."""
    if not filter:
        return 0
    (j,), prior[:] = filter.information, filter.prior
    if isinstance(j, Arrow):
        m0i[:1], m0i[1:], mii[1:] = columns(j.m00), columns(j.m0i), columns(j.mii)
    else:
        mii[:] = columns(j)
    return 0 if isinstance(filter.age, tuple) else int(filter.age)


def unpack(like: State, influence: Any, clock: np.ndarray, store: Store) -> State:
    """A State of the pieces, like the one they came from."""
    sizes, z, ints = store.sizes, store.common, store.ints
    theta = unpack_bands(sizes, z.theta_m0i), unpack_bands(sizes, z.theta_mii)
    phi = _real(sizes, z.phi_m0i), _real(sizes, z.phi_mii)
    following = like._replace(
        params=like.params._replace(
            theta=unpack_columns(unpack_bands(sizes, z.theta), like.params.theta),
            phi=unpack_columns(_real(sizes, z.phi), like.params.phi),
        ),
        h=z.h.reshape(-1),
        influence=influence,
        update=like.update._replace(
            theta=_unpack_filter(like.update.theta, z, 0, ints[Count.THETA_AGE], *theta),
            phi=_unpack_filter(like.update.phi, z, 1, ints[Count.PHI_AGE], *phi),
        ),
        t=clock[2:],
    )
    return jax.tree.map(lambda new, old: old if new is old else jnp.array(new, old.dtype), following, like)


def _unpack_filter(like: Any, z: Pieces, group: int, age: Any, m0i: np.ndarray, mii: np.ndarray) -> Any:
    if not like:
        return like
    if isinstance(like.lengths, Lengths):
        like = like._replace(lengths=Lengths(*z.lengths))
    if isinstance(like.hearing, Hearing):
        samples, variance = z.heard[group]
        like = like._replace(hearing=Hearing(samples, z.heard_mean[group], variance))
    (j,), like = like.information, like._replace(prior=z.priors[group])
    if not isinstance(like.age, tuple):
        like = like._replace(age=age)
    if not isinstance(j, Arrow):
        return like._replace(information=(unpack_columns(mii, j),))
    arrow = m0i[:1], m0i[1:], mii[1:]
    return like._replace(information=(Arrow(*(unpack_columns(new, old) for new, old in zip(arrow, j, strict=True))),))


def prediction(store: Store) -> np.ndarray:
    """A copy of y_hat."""
    return _real(store.sizes, store.common.y_hat).copy()


def _real(sizes: Sizes, values: np.ndarray) -> np.ndarray:
    """The outputs that are not padding, along the last axis."""
    return values[..., : sizes.outputs]


def pack_bands(sizes: Sizes, piece: np.ndarray, columns: np.ndarray) -> None:
    """(..., fan, rows) in bands of rows that lie together."""
    starts = range(0, columns.shape[-1], sizes.band)
    parts = [columns[..., first : first + sizes.band].ravel() for first in starts]
    piece.reshape(-1)[:] = np.concatenate(parts) if parts else 0


def unpack_bands(sizes: Sizes, piece: np.ndarray) -> np.ndarray:
    """The same, back."""
    columns, flat, begin = np.empty_like(piece), piece.reshape(-1), 0
    for first in range(0, piece.shape[-1], sizes.band):
        part = columns[..., first : first + sizes.band]
        part[:] = flat[begin : begin + part.size].reshape(part.shape)
        begin += part.size
    return columns


def columns(leaf: Any) -> np.ndarray:
    """(units, gates, fan) or (outputs, fan) as (fan, gates x units) or (fan, outputs)."""
    leaf = np.asarray(leaf)
    return leaf.T.reshape(leaf.shape[-1], -1)


def unpack_columns(columns: np.ndarray, like: Any) -> Any:
    """The same, back."""
    return columns.reshape(like.shape[::-1]).T


def forms(leaf: Any) -> np.ndarray:
    """Forms on theta, one after the other, as columns."""
    leaf = np.asarray(leaf)
    return leaf.transpose(0, 3, 2, 1).reshape(len(leaf), leaf.shape[-1], -1)


def unpack_forms(forms: np.ndarray, like: Any) -> np.ndarray:
    """The same, back."""
    count, units, gates, fan = like.shape
    return forms.reshape(count, fan, gates, units).transpose(0, 3, 2, 1)
