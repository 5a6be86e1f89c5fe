"""A State to the flat array of the compiled loop and back, and whether a learner fits it at all."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...configuration import InverseSqrt, rate_at
from ...estimators import RTRL, NoBackTrack, TruncatedBPTT
from ...learner import Learner
from ...norms import LEAST_WORTH, EuclideanNorms, ForesightNorms, GramianNorms, MetricNorms, Unscaled
from ...protocol import State
from ...systems import GRU, LSTM, RNN, LeakyRNN, LearnedLeakyRNN
from ...systems.readouts import Softmax
from ...updates import SGD, Diagonal, Kalman, OuterProduct, QuasiDiagonal
from ...updates.kalman import MOST_DECAY
from ...updates.metrics import Arrow
from . import layout

_CELLS = {
    RNN: layout.RNN,
    LeakyRNN: layout.LEAKY,
    LearnedLeakyRNN: layout.LEARNED_LEAKY,
    GRU: layout.GRU,
    LSTM: layout.LSTM,
}
_ACTIVATIONS = {"sigmoid": layout.SIGMOID, "tanh": layout.TANH}
_NORMS = {
    MetricNorms: layout.METRIC_NORMS,
    EuclideanNorms: layout.EUCLIDEAN_NORMS,
    Unscaled: layout.UNSCALED,
    ForesightNorms: layout.FORESIGHT,
    GramianNorms: layout.GRAMIAN,
}
_ESTIMATORS = {NoBackTrack: layout.NOBACKTRACK, RTRL: layout.RTRL, TruncatedBPTT: layout.BPTT}
_METRICS = {Diagonal: layout.DIAGONAL, QuasiDiagonal: layout.QUASI_DIAGONAL}


def refusal(learner: Any, state: State) -> str | None:
    """Why a learner cannot run in the compiled loop, or None."""
    return _refused_learner(learner) or _refused_state(state)


def _refused_state(state: State) -> str | None:
    if np.ndim(state.h) != 1:
        return f"h has {np.ndim(state.h)} axes: a batch of states runs under jax.vmap"
    types = {str(leaf.dtype) for leaf in jax.tree.leaves(state) if jnp.issubdtype(leaf.dtype, jnp.floating)}
    if types not in ({"float32"}, {"float64"}):
        return f"it takes numbers that are all float32 or all float64, and these are {', '.join(sorted(types))}"
    return None


def _refused_learner(learner: Any) -> str | None:
    if type(learner) is not Learner:
        return f"it has no loop for {type(learner).__name__}, only for Learner"
    if type(learner.system) not in _CELLS:
        return f"it has no loop for {type(learner.system).__name__}, only for {_named(_CELLS)}"
    if learner.system.graph is not None:
        return "it has no loop for sparse graphs"
    if type(learner.estimator) not in _ESTIMATORS:
        return f"it has no loop for {type(learner.estimator).__name__}, only for {_named(_ESTIMATORS)}"
    if isinstance(learner.estimator, NoBackTrack) and type(learner.estimator.norms) not in _NORMS:
        return f"it has no loop for {type(learner.estimator.norms).__name__}"
    reasons = [_refused_update(update) for update in (learner.updates.theta, learner.updates.phi)]
    return next((reason for reason in reasons if reason), None)


def _refused_update(update: Any) -> str | None:
    if type(update) not in (SGD, Kalman):
        return f"it has no loop for {type(update).__name__}, only for SGD and Kalman"
    if isinstance(update, SGD):
        return None
    if type(update.metric) not in _METRICS:
        return f"it has no loop for the metric {type(update.metric).__name__}, only for {_named(_METRICS)}"
    if type(update.fisher) is not OuterProduct:
        return f"it has no loop for {type(update.fisher).__name__}"
    return None


def _named(classes: Any) -> str:
    return ", ".join(cls.__name__ for cls in classes)


def sizes_of(learner: Learner) -> layout.Sizes:
    """The integers that shape the loop of a learner."""
    system, estimator = learner.system, learner.estimator
    fan = 1 + system.units + system.signals
    online = isinstance(estimator, NoBackTrack)
    groups, rows = 1 if system.mask(fan) is None else system.gates, system.gates * system.units
    return layout.Sizes(
        cell=_CELLS[type(system)],
        activation=_ACTIVATIONS.get(getattr(system, "activation", ""), layout.SHOWN),
        units=system.units,
        gates=system.gates,
        components=system.components,
        groups=groups,
        fan=fan,
        inputs=system.inputs or 0,
        outputs=system.target_space.size,
        softmax=isinstance(system.readout, Softmax),
        estimator=_ESTIMATORS[type(estimator)],
        terms=estimator.rank if online else 1,
        depth=getattr(estimator, "depth", 0),
        norms=_NORMS[type(estimator.norms)] if online else layout.METRIC_NORMS,
        theta_metric=_metric(learner.updates.theta),
        phi_metric=_metric(learner.updates.phi),
        theta_every=getattr(learner.updates.theta, "every", 1),
        phi_every=getattr(learner.updates.phi, "every", 1),
        band=min(layout.BLOCK, rows) if online else rows,
        alike=rows // groups,
    )


def _metric(update: Any) -> int:
    return layout.EUCLIDEAN if isinstance(update, SGD) else _METRICS[type(update.metric)]


def paces(update: Any, start: int, count: int, dtype: Any) -> np.ndarray:
    """What `move_rows` is told at the targets t = start + 1, ...: the rate, or what is kept of J, (1 -
    gamma_t)^every.
    """
    rate = update.rate if isinstance(update, SGD) else update.decay
    t = np.arange(start + 1, start + 1 + count).astype(dtype)
    if isinstance(rate, InverseSqrt):
        values = dtype.type(rate.c) / np.sqrt(t)
    elif callable(rate):
        values = np.array(jax.vmap(lambda t: rate_at(rate, t))(jnp.asarray(t)))
    else:
        values = np.full(count, rate, dtype)
    return values if isinstance(update, SGD) else (1 - np.minimum(values, dtype.type(MOST_DECAY))) ** update.every


def put(state: State, learner: Learner, sizes: layout.Sizes, z: layout.Pieces, ints: np.ndarray) -> None:
    """Write a State into the pieces."""
    params, moves = state.params, state.update
    _put_bands(sizes, z.theta, _columns(params.theta))
    real(sizes, z.phi)[:] = _columns(params.phi)
    theta = np.zeros_like(z.theta_m0i), np.zeros_like(z.theta_mii)
    _put_filter(moves.theta, *theta, z.priors[:1], ints[layout.THETA_AGE : layout.PHI_AGE])
    _put_bands(sizes, z.theta_m0i, theta[0])
    _put_bands(sizes, z.theta_mii, theta[1])
    phi = real(sizes, z.phi_m0i), real(sizes, z.phi_mii)
    _put_filter(moves.phi, *phi, z.priors[1:], ints[layout.PHI_AGE : layout.COUNTERS])
    z.h[:] = np.asarray(state.h).reshape(z.h.shape)
    z.h0[:] = np.asarray(params.fixed.h0).reshape(z.h.shape)
    if sizes.cell == layout.LEAKY:
        z.alpha[:] = params.fixed.constants
    mask = learner.system.mask(sizes.fan)
    z.hears[:] = 1 if mask is None else mask[:, [1, -1]]
    z.inverse[:], z.along[:] = 1, 1
    z.settings[3] = np.finfo(z.h.dtype).tiny ** 0.8
    if sizes.estimator == layout.NOBACKTRACK:
        _put_influence(state.influence, learner.estimator.norms, sizes, z, ints)
    elif sizes.estimator == layout.RTRL:
        z.influence[:] = _forms(state.influence)
    else:
        _put_block(state.influence, sizes.depth, z, ints)


def _put_filter(moves: Any, m0i: np.ndarray, mii: np.ndarray, prior: np.ndarray, age: np.ndarray) -> None:
    if not moves:
        return
    (j,), prior[:], age[:] = moves.information, moves.prior, 0 if isinstance(moves.age, tuple) else moves.age
    if isinstance(j, Arrow):
        m0i[:1], m0i[1:], mii[1:] = _columns(j.m00), _columns(j.m0i), _columns(j.mii)
    else:
        mii[:] = _columns(j)


def _put_influence(influence: Any, norms: Any, sizes: layout.Sizes, z: layout.Pieces, ints: np.ndarray) -> None:
    z.v[:] = influence.v
    _put_bands(sizes, z.w, _forms(influence.w))
    z.c[:] = np.asarray(influence.rows.c).reshape(z.c.shape)
    z.u[:] = np.asarray(influence.rows.u)[0]
    if isinstance(norms, GramianNorms):
        z.settings[:3] = norms.horizon, norms.pace, norms.floor
        z.worth[:], z.urgency[:], ints[layout.AGE] = influence.memory
    elif isinstance(norms, ForesightNorms):
        z.settings[:3] = norms.horizon, norms.pace, LEAST_WORTH
        z.variance[0], z.worth[0], z.urgency[0] = influence.memory


def _put_block(block: Any, depth: int, z: layout.Pieces, ints: np.ndarray) -> None:
    window = block.window
    z.w[0] = _columns(block.gradient)
    z.ring_h[:], z.ring_dl_dh[:] = window.h, window.dl_dh
    if z.ring_x.size:
        z.ring_x[:] = window.x
    else:
        ints[layout.COUNTERS : layout.COUNTERS + depth] = window.x
    ints[layout.COUNTERS + depth :] = window.begins
    ints[layout.HEAD], ints[layout.HELD] = window.head, window.held
    ints[layout.FRESH], ints[layout.DUE] = window.fresh, block.due


def taken(like: Any, sizes: layout.Sizes, z: layout.Pieces, ints: np.ndarray, clock: np.ndarray) -> State:
    """A State of the pieces, like the one they came from."""
    theta = _rows(_bands(sizes, z.theta), like.params.theta)
    phi = real(sizes, z.phi_m0i), real(sizes, z.phi_mii)
    following = like._replace(
        params=like.params._replace(theta=theta, phi=_rows(real(sizes, z.phi), like.params.phi)),
        h=z.h.reshape(-1),
        influence=_taken_influence(like.influence, sizes, z, ints),
        update=like.update._replace(
            theta=_taken_filter(
                like.update.theta, _bands(sizes, z.theta_m0i), _bands(sizes, z.theta_mii), ints[layout.THETA_AGE]
            ),
            phi=_taken_filter(like.update.phi, *phi, ints[layout.PHI_AGE]),
        ),
        t=clock[2:],
    )
    return jax.tree.map(lambda new, old: old if new is old else jnp.array(new, old.dtype), following, like)


def _taken_filter(like: Any, m0i: np.ndarray, mii: np.ndarray, age: Any) -> Any:
    if not like:
        return like
    (j,) = like.information
    if not isinstance(like.age, tuple):
        like = like._replace(age=age)
    if not isinstance(j, Arrow):
        return like._replace(information=(_rows(mii, j),))
    arrow = m0i[:1], m0i[1:], mii[1:]
    return like._replace(information=(Arrow(*(_rows(new, old) for new, old in zip(arrow, j, strict=True))),))


def _taken_influence(like: Any, sizes: layout.Sizes, z: layout.Pieces, ints: np.ndarray) -> Any:
    if sizes.estimator == layout.RTRL:
        return _unformed(z.influence, like)
    if sizes.estimator == layout.BPTT:
        return _taken_block(like, sizes.depth, z, ints)
    memory = like.memory
    if sizes.norms == layout.GRAMIAN:
        memory = memory._replace(worth=z.worth, urgency=z.urgency, age=ints[layout.AGE])
    elif sizes.norms == layout.FORESIGHT:
        memory = memory._replace(variance=z.variance[0], worth=z.worth[0], urgency=z.urgency[0])
    rows = like.rows._replace(c=z.c.reshape(like.rows.c.shape), u=z.u[None])
    return like._replace(v=z.v, w=_unformed(_bands(sizes, z.w), like.w), rows=rows, memory=memory)


def _taken_block(like: Any, depth: int, z: layout.Pieces, ints: np.ndarray) -> Any:
    window = like.window._replace(
        h=z.ring_h,
        x=z.ring_x if z.ring_x.size else ints[layout.COUNTERS : layout.COUNTERS + depth],
        dl_dh=z.ring_dl_dh,
        begins=ints[layout.COUNTERS + depth :] != 0,
        fresh=ints[layout.FRESH] != 0,
        head=ints[layout.HEAD],
        held=ints[layout.HELD],
    )
    return like._replace(window=window, gradient=_rows(z.w[0], like.gradient), due=ints[layout.DUE] != 0)


def real(sizes: layout.Sizes, values: np.ndarray) -> np.ndarray:
    """The outputs that are not padding, along the last axis."""
    return values[..., : sizes.outputs]


def _put_bands(sizes: layout.Sizes, piece: np.ndarray, columns: np.ndarray) -> None:
    """(..., fan, rows) in bands of rows that lie together."""
    starts = range(0, columns.shape[-1], sizes.band)
    parts = [columns[..., first : first + sizes.band].ravel() for first in starts]
    piece.reshape(-1)[:] = np.concatenate(parts) if parts else 0


def _bands(sizes: layout.Sizes, piece: np.ndarray) -> np.ndarray:
    """The same, back."""
    columns, flat, begin = np.empty_like(piece), piece.reshape(-1), 0
    for first in range(0, piece.shape[-1], sizes.band):
        part = columns[..., first : first + sizes.band]
        part[:] = flat[begin : begin + part.size].reshape(part.shape)
        begin += part.size
    return columns


def _columns(leaf: Any) -> np.ndarray:
    """(units, gates, fan) or (outputs, fan) as (fan, gates x units) or (fan, outputs)."""
    leaf = np.asarray(leaf)
    return leaf.T.reshape(leaf.shape[-1], -1)


def _rows(columns: np.ndarray, like: Any) -> Any:
    return columns.reshape(like.shape[::-1]).T


def _forms(leaf: Any) -> np.ndarray:
    """Forms on theta, one after the other."""
    leaf = np.asarray(leaf)
    return leaf.transpose(0, 3, 2, 1).reshape(len(leaf), leaf.shape[-1], -1)


def _unformed(forms: np.ndarray, like: Any) -> np.ndarray:
    count, units, gates, fan = like.shape
    return forms.reshape(count, fan, gates, units).transpose(0, 3, 2, 1)
