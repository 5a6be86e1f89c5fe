"""What tests run on: one table of systems, estimators and updates, with streams for them, and what several tests need.

A system stands in two sizes: small, for the enumeration of all signs, and large, for what one step does.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

import nobacktrack as nbt
from nobacktrack.checks import expect_close
from nobacktrack.configuration import configuration
from nobacktrack.protocol import State, Tree

# --- systems --------------------------------------------------------------------------------------------------------


class Sizes(NamedTuple):
    """A system in two sizes."""

    small: Any
    large: Any


def cells(cell: Any, small: int = 2, large: int = 6, **options: Any) -> Sizes:
    return Sizes(*(cell(units=units, symbols=3, **options) for units in (small, large)))


def stack(*layers: tuple[Any, int]) -> nbt.Stack:
    return nbt.Stack([cell(units=units, symbols=3) for cell, units in layers])


def on_graph(cell: Any, small: list[tuple[int, int]], large: list[tuple[int, int]], **options: Any) -> Sizes:
    return Sizes(
        cell(units=2, symbols=3, graph=small, **options),
        cell(units=1 + max(max(edge) for edge in large), symbols=3, graph=large, **options),
    )


def own_system() -> nbt.System:
    """A user's system over pytrees: two coupled states of unlike shapes, a readout of both, a squared loss."""

    def transition(theta, h, x):
        fast = jnp.tanh(theta["a"] * h["slow"][0] + theta["w"] @ h["fast"] + x)
        return {"fast": fast, "slow": 0.9 * h["slow"] + theta["b"] * jnp.sum(h["fast"])[None]}

    def readout(phi, h):
        return phi @ h["fast"] + h["slow"][0]

    return nbt.System(transition=transition, readout=readout, loss=lambda y_hat, y: (y_hat - y.sum()) ** 2)


OWN = own_system()  # one, so that what is compiled for it is found again
RING = [(0, 1), (1, 0), (1, 1)]

CELLS = {
    "rnn": cells(nbt.RNN, large=8),
    "leaky": cells(nbt.LeakyRNN, large=9),
    "graph": on_graph(nbt.RNN, RING, [(i, (3 * i + k) % 8) for i in range(8) for k in range(3)], activation="tanh"),
    "learned leaky": cells(nbt.LearnedLeakyRNN, large=10),
    "gru": cells(nbt.GRU),
    "lstm": cells(nbt.LSTM, large=5),
}
SYSTEMS = CELLS | {
    "leaky tanh": cells(nbt.LeakyRNN, large=4, activation="tanh"),
    "gru on a graph": on_graph(nbt.GRU, [(0, 1), (1, 1)], [(i, (i * i + 1) % 6) for i in range(6)]),
    "lru": cells(nbt.LRU, large=5),
    "two layers": Sizes(stack((nbt.RNN, 2), (nbt.LeakyRNN, 2)), stack((nbt.LeakyRNN, 5), (nbt.RNN, 6))),
    "mixed layers": Sizes(stack((nbt.LRU, 1), (nbt.GRU, 2)), stack((nbt.LSTM, 2), (nbt.LRU, 2), (nbt.GRU, 3))),
    "euler": cells(nbt.ContinuousRNN, large=10),
    "heun": cells(nbt.ContinuousRNN, large=5, method="heun"),
    "vectors": Sizes(*(nbt.LeakyRNN(units=units, inputs=2, outputs=2) for units in (2, 3))),
    "own": Sizes(OWN, OWN),
}

# --- estimators and updates -----------------------------------------------------------------------------------------

KRONECKER = {
    "kfrtrl": nbt.KFRTRL(),
    "kronecker": nbt.KroneckerSum(rank=1),
    "kronecker 2": nbt.KroneckerSum(rank=2),
}
OF_CELLS = {  # unbiased, for recurrent cells alone
    "diagonal": nbt.DiagonalPlusRankOne(),
    "diagonal unscaled": nbt.DiagonalPlusRankOne(norms=nbt.Unscaled()),
    "diagonal lag 2 gramian": nbt.DiagonalPlusRankOne(lag=2, norms=nbt.GramianNorms()),
    **KRONECKER,
}
UNBIASED = {
    "rank 1": nbt.NoBackTrack(),
    "rank 3": nbt.NoBackTrack(rank=3),
    "split": nbt.SplitNoBackTrack(blocks=2),
    "uoro": nbt.UORO(),
    **OF_CELLS,
}
BIASED = {"snap1": nbt.SnAp1(), "rflo": nbt.RFLO(), "immediate": nbt.Immediate()}
IN_BLOCKS = {
    "bptt": nbt.TruncatedBPTT(depth=5),
    "artbp": nbt.ARTBP(depth=2),
    "block": nbt.BlockNoBackTrack(depth=5),
    "windows": nbt.BlockNoBackTrack(depth=7, every=3, belief=nbt.Unbiased()),
}
ESTIMATORS = {
    **UNBIASED,
    **BIASED,
    **IN_BLOCKS,
    "rtrl": nbt.RTRL(),
    "sliding": nbt.SlidingBPTT(depth=5),
}
UPDATES = {
    "sgd": nbt.SGD(nbt.inverse_sqrt(0.01)),
    "adam": nbt.Optax(optax.adam(1e-3)),
    "kalman": nbt.Kalman(),
    "apart": nbt.Apart(theta=nbt.Kalman(metric=nbt.Diagonal()), phi=nbt.Frozen()),
}

# What the fused engine has loops for.
FUSED_CELLS = {
    "rnn": nbt.RNN,
    "leaky": nbt.LeakyRNN,
    "learned leaky": nbt.LearnedLeakyRNN,
    "gru": nbt.GRU,
    "lstm": nbt.LSTM,
}
FUSED_ESTIMATORS = {
    "rank 1": nbt.NoBackTrack(),
    "rank 3": nbt.NoBackTrack(rank=3),
    "euclidean": nbt.NoBackTrack(norms=nbt.EuclideanNorms()),
    "unscaled": nbt.NoBackTrack(norms=nbt.Unscaled()),
    "gramian": nbt.NoBackTrack(norms=nbt.GramianNorms()),
    "rank 2 foresight": nbt.NoBackTrack(rank=2, norms=nbt.ForesightNorms()),
    "rtrl": nbt.RTRL(),
    "uoro": nbt.UORO(),
    "bptt": nbt.TruncatedBPTT(depth=15),
    "sliding": nbt.SlidingBPTT(depth=5),
    "artbp": nbt.ARTBP(depth=4),
    "block": nbt.BlockNoBackTrack(depth=6),
    "three": nbt.BlockNoBackTrack(depth=7, every=3, rank=3),
    "truncated": nbt.BlockNoBackTrack(depth=6, every=2, rank=1, belief=nbt.Truncated()),
    "windows": nbt.BlockNoBackTrack(depth=11, every=4, rank=1, norms=nbt.MetricNorms(), belief=nbt.Unbiased()),
    "share": nbt.BlockNoBackTrack(depth=5, rank=3, norms=nbt.Unscaled(), belief=nbt.Share(0.3)),
    "snap1": nbt.SnAp1(),
    "rflo": nbt.RFLO(),
    "immediate": nbt.Immediate(),
    "diagonal": nbt.DiagonalPlusRankOne(),
    "diagonal gramian": nbt.DiagonalPlusRankOne(rank=2, lag=3, norms=nbt.GramianNorms()),
}
FUSED_UPDATES = {
    "kalman": nbt.Kalman(),
    "every 3": nbt.Kalman(every=3),
    "diagonal, every 2": nbt.Kalman(metric=nbt.Diagonal(), every=2),
    "diagonal": nbt.Kalman(metric=nbt.Diagonal()),
    "sgd": nbt.SGD(nbt.inverse_sqrt(0.1)),
}


@configuration
class OwnLearner(nbt.Learner):
    """A learner that may do anything."""


def _refused(system: Any = None, estimator: Any = None, update: Any = None) -> nbt.Learner:
    small = nbt.RNN(units=3, symbols=3)
    return nbt.Learner(system or small, estimator or nbt.NoBackTrack(), update or nbt.Kalman())


# What it has none for, by a word of the reason.
REFUSED = {
    "OwnLearner": OwnLearner(nbt.RNN(units=3, symbols=3), nbt.NoBackTrack(), nbt.Kalman()),
    "LRU": _refused(nbt.LRU(units=3, symbols=3)),
    "graphs": _refused(nbt.RNN(units=3, symbols=3, graph=[(0, 1)])),
    "Stack": _refused(nbt.Stack([nbt.RNN(units=3, symbols=3)] * 2)),
    "KroneckerSum": _refused(estimator=nbt.KroneckerSum()),
    "InvariantNorms": _refused(estimator=nbt.NoBackTrack(norms=nbt.InvariantNorms()), update=nbt.SGD(1)),
    "BlockDiagonal": _refused(update=nbt.Kalman(metric=nbt.BlockDiagonal())),
    "ExactFisher": _refused(update=nbt.Kalman(fisher=nbt.ExactFisher())),
    "Frozen": _refused(update=nbt.Frozen(nbt.SGD(1.0))),
}


def fits(system: Any, estimator: Any) -> bool:
    """Whether an estimator can carry the influence of a system."""
    single = isinstance(system, nbt.Recurrent) and len(system.substeps) == 1 and not isinstance(system, nbt.Stack)
    if estimator in KRONECKER.values():
        return single and system.graph is None and not isinstance(system, (nbt.GRU, nbt.LearnedLeakyRNN, nbt.LRU))
    return single or estimator not in (*OF_CELLS.values(), *BIASED.values())


# --- streams and states for them ------------------------------------------------------------------------------------

STREAM = nbt.streams.anbn(1, 6, length=300, seed=1)


def stream_of(system: Any, length: int = 100) -> Any:
    """A stream that a system can read."""
    symbols = nbt.streams.anbn(1, 8, length=length, seed=0)
    if isinstance(system, nbt.ContinuousRNN):
        return (np.linspace(0.1, 0.7, length), symbols), symbols
    if isinstance(system, nbt.System) or getattr(system, "inputs", None) is not None:
        return np.random.default_rng(0).normal(size=(length, 2))
    return symbols


def inputs_of(system: Any, steps: int) -> list[Any]:
    """Inputs that a system can read, one after the other."""
    symbols = symbol_inputs(steps)
    if isinstance(system, nbt.ContinuousRNN):
        return [(jnp.float64(0.3 + 0.1 * t), x) for t, x in enumerate(symbols)]
    return symbols


def start(learner: nbt.Learner, seed: int = 0, *, readout: bool = False) -> State:
    """A first state in float64; with a readout that says something, since it is zero otherwise."""
    if isinstance(learner.system, nbt.System):
        return own_state(learner, fast=2)
    state = learner.init(seed, dtype=jnp.float64)
    if not readout:
        return state
    phi = jax.random.normal(jax.random.key(1), state.params.phi.shape, jnp.float64)
    return state._replace(params=state.params._replace(phi=phi))


def own_state(learner: nbt.Learner, fast: int = 1, seed: int = 0) -> State:
    """A state of `own_system` with `fast` + 1 numbers."""
    keys = jax.random.split(jax.random.key(seed), 3)
    theta = {
        "a": jax.random.normal(keys[0], (), jnp.float64),
        "b": jnp.array(0.3, jnp.float64),
        "w": jax.random.normal(keys[1], (fast, fast), jnp.float64),
    }
    h = {"fast": jnp.zeros(fast, jnp.float64), "slow": jnp.full(1, 0.1, jnp.float64)}
    return learner.init(7, theta=theta, phi=jax.random.normal(keys[2], (fast,), jnp.float64), h=h, x=h["fast"])


def outside_path(theta: Tree, steps: int, seed: int = 1) -> list[Tree]:
    """Parameters moved by an outside sequence, which no sign of the estimator touches."""
    keys = jax.random.split(jax.random.key(seed), steps)
    return [
        jax.tree.map(lambda leaf, k=k: leaf + 0.4 * jax.random.normal(k, leaf.shape, leaf.dtype), theta) for k in keys
    ]


def symbol_inputs(steps: int) -> list[jax.Array]:
    return [jnp.int32(i) for i in (0, 2, 1, 0, 1, 2, 2)[:steps]]


def vector_inputs(steps: int, n: int = 1) -> list[jax.Array]:
    return list(jax.random.normal(jax.random.key(5), (steps, n), jnp.float64))


# --- what several tests need ----------------------------------------------------------------------------------------


def symbols(count: int, seed: int = 0) -> np.ndarray:
    """Symbols 0, 1 and 2 at random."""
    return np.random.default_rng(seed).integers(0, 3, count).astype(np.int32)


def symbols_learner(estimator: Any = None, update: Any = None) -> tuple[nbt.Learner, State]:
    learner = nbt.Learner(nbt.LeakyRNN(units=5, symbols=3), estimator or nbt.NoBackTrack(), update or nbt.SGD(0.1))
    return learner, learner.init(0)


def pairs_learner(estimator: Any = None) -> tuple[nbt.Learner, State]:
    learner = nbt.Learner(nbt.LeakyRNN(units=4, inputs=2, outputs=1), estimator or nbt.NoBackTrack(), nbt.SGD(0.01))
    return learner, learner.init(0)


def pairs(count: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Inputs, and their sums as targets."""
    x = np.random.default_rng(0).normal(size=(count, 2)).astype(np.float32)
    return x, x.sum(axis=1, keepdims=True)


def same(one: Tree, other: Tree) -> bool:
    """Whether two trees hold the same numbers."""
    return all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True))


def stepped(learner: nbt.Learner, state: State, items: Any) -> State:
    """The state after some items, one step at a time."""
    for item in items:
        state, _ = learner.step(state, *item)
    return state


def distance(one: Tree, other: Tree) -> float:
    """The largest relative difference between two trees of the same types."""
    types = [jax.tree.map(lambda leaf: np.asarray(leaf).dtype, tree) for tree in (one, other)]
    assert types[0] == types[1]
    return expect_close(one, other, np.inf, "same")
