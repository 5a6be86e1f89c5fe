"""What the compiled engine runs: one table, a row a class. What is not in it is refused by name."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...configuration import InverseSqrt, rate_at
from ...estimators import (
    ARTBP,
    RFLO,
    RTRL,
    UORO,
    BlockNoBackTrack,
    DiagonalPlusRankOne,
    Forward,
    Immediate,
    NoBackTrack,
    SlidingBPTT,
    SnAp1,
    TruncatedBPTT,
)
from ...learner import Learner
from ...protocol import State
from ...systems import GRU, LSTM, RNN, LeakyRNN, LearnedLeakyRNN
from ...systems.readouts import Gaussian, Softmax
from ...updates import SGD, Diagonal, Frozen, Kalman, OuterProduct, QuasiDiagonal
from ...updates.kalman import MOST_DECAY
from . import codes
from .loops import artbp, bptt, diagonal, forward, nobacktrack, rtrl, sliding, snap, uoro, windowed
from .loops.chunk import Loop
from .memory.layout import BLOCK, Sizes

CELLS = {
    RNN: codes.Cell.RNN,
    LeakyRNN: codes.Cell.LEAKY,
    LearnedLeakyRNN: codes.Cell.LEARNED_LEAKY,
    GRU: codes.Cell.GRU,
    LSTM: codes.Cell.LSTM,
}
ACTIVATIONS = {"sigmoid": codes.Activation.SIGMOID, "tanh": codes.Activation.TANH, None: codes.Activation.IDENTITY}
READOUTS = {Softmax: codes.Readout.SOFTMAX, Gaussian: codes.Readout.GAUSSIAN}
METRICS = {Diagonal: codes.Metric.DIAGONAL, QuasiDiagonal: codes.Metric.QUASI_DIAGONAL}
LOOPS: dict[Any, Loop] = {
    NoBackTrack: nobacktrack.LOOP,
    UORO: uoro.LOOP,
    RTRL: rtrl.LOOP,
    TruncatedBPTT: bptt.LOOP,
    SlidingBPTT: sliding.LOOP,
    ARTBP: artbp.LOOP,
    BlockNoBackTrack: windowed.LOOP,
    DiagonalPlusRankOne: diagonal.LOOP,
    SnAp1: snap.LOOP,
    RFLO: snap.LOOP,
    Immediate: snap.LOOP,
    Forward: forward.LOOP,
}

MOST_COMPONENTS = 2  # of a unit, in `kernels/transition.py`


def refusal(learner: Any, state: State) -> str | None:
    """Why a learner cannot run in the compiled loop, or None."""
    if jax.default_backend() != "cpu":
        return f"it is for CPUs, and jax runs on {jax.default_backend()}"
    if type(learner) is not Learner:
        return f"it has no loop for {type(learner).__name__}, only for Learner"
    reasons = (
        _refused_system(learner.system),
        _refused_estimator(learner.estimator),
        _refused_pair(learner.estimator, learner.updates.theta),
        _refused_update(learner.updates.theta),
        _refused_update(learner.updates.phi),
        _refused_state(state),
    )
    return next((reason for reason in reasons if reason), None)


def _refused_system(system: Any) -> str | None:
    if type(system) not in CELLS:
        return f"it has no loop for {type(system).__name__}, only for {_names(CELLS)}"
    if system.graph is not None:
        return "it has no loop for sparse graphs"
    if type(system.readout) not in READOUTS:
        return f"it has no loop for the readout {type(system.readout).__name__}, only for {_names(READOUTS)}"
    return None


def _refused_estimator(estimator: Any) -> str | None:
    if type(estimator) not in LOOPS:
        return f"it has no loop for {type(estimator).__name__}, only for {_names(LOOPS)}"
    return LOOPS[type(estimator)].refusal(estimator)


def _refused_pair(estimator: Any, theta: Any) -> str | None:
    """theta stays where no influence is carried, and there alone."""
    if isinstance(estimator, Forward) != isinstance(theta, Frozen):
        return f"it has no loop for {type(estimator).__name__} with {type(theta).__name__} for theta"
    return None


def _refused_update(update: Any) -> str | None:
    if type(update) not in (SGD, Kalman, Frozen):
        return f"it has no loop for {type(update).__name__}, only for SGD, Kalman and Frozen"
    if isinstance(update, Frozen):
        return None if update == Frozen() else "it has no loop for Frozen with another update"
    if isinstance(update, SGD):
        return None
    if type(update.metric) not in METRICS:
        return f"it has no loop for the metric {type(update.metric).__name__}, only for {_names(METRICS)}"
    if type(update.fisher) is not OuterProduct:
        return f"it has no loop for {type(update.fisher).__name__}"
    return None


def _refused_state(state: State) -> str | None:
    if np.ndim(state.h) != 1:
        return f"h has {np.ndim(state.h)} axes: a batch of states runs under jax.vmap"
    types = {str(leaf.dtype) for leaf in jax.tree.leaves(state) if jnp.issubdtype(leaf.dtype, jnp.floating)}
    if types not in ({"float32"}, {"float64"}):
        return f"it takes numbers that are all float32 or all float64, and these are {', '.join(sorted(types))}"
    return None


def _names(classes: Any) -> str:
    return ", ".join(cls.__name__ for cls in classes)


def sizes_of(learner: Learner) -> Sizes:
    """The integers that shape the loop of a learner."""
    system, loop, updates = learner.system, LOOPS[type(learner.estimator)], learner.updates
    assert system.components <= MOST_COMPONENTS, "kernels know units of one or two components"
    fan, rows = 1 + system.units + system.signals, system.gates * system.units
    return Sizes(
        cell=CELLS[type(system)],
        activation=ACTIVATIONS[getattr(system, "activation", None)],
        readout=READOUTS[type(system.readout)],
        units=system.units,
        gates=system.gates,
        components=system.components,
        groups=1 if system.mask(fan) is None else system.gates,
        fan=fan,
        inputs=system.inputs or 0,
        outputs=system.target_space.size,
        theta_metric=_metric(updates.theta),
        phi_metric=_metric(updates.phi),
        theta_every=getattr(updates.theta, "every", 1),
        phi_every=getattr(updates.phi, "every", 1),
        band=min(BLOCK, rows) if loop.bands else rows,
        **loop.sizes(learner.estimator),
    )


def _metric(update: Any) -> int:
    if isinstance(update, Frozen):
        return codes.Metric.FROZEN
    return codes.Metric.EUCLIDEAN if isinstance(update, SGD) else METRICS[type(update.metric)]


def paces(update: Any, measured: bool, start: int, count: int, dtype: Any) -> np.ndarray:
    """What `kernels/rows.py` is told at the targets t = start + 1, ...: the rate, or what is kept of J, (1 -
    gamma_t)^every.
    """
    if isinstance(update, Frozen):
        return np.zeros(count, dtype)
    rate = update.rate if isinstance(update, SGD) else update.decay_of(measured)
    t = np.arange(start + 1, start + 1 + count).astype(dtype)
    if isinstance(rate, InverseSqrt):
        values = dtype.type(rate.c) / np.sqrt(t)
    elif callable(rate):
        values = np.array(jax.vmap(lambda t: rate_at(rate, t))(jnp.asarray(t)))
    else:
        values = np.full(count, rate, dtype)
    return values if isinstance(update, SGD) else (1 - np.minimum(values, dtype.type(MOST_DECAY))) ** update.every
