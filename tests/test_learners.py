"""The public checks on every combination of system, estimator and update."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from systems import own_state, own_system

import nobacktrack as nbt
from nobacktrack import checks
from nobacktrack.configuration import configuration, static

SYSTEMS = {
    "rnn": nbt.RNN(units=4, symbols=3),
    "leaky": nbt.LeakyRNN(units=4, symbols=3, activation="tanh"),
    "graph": nbt.RNN(units=4, symbols=3, graph=[(0, 1), (1, 2), (2, 3), (3, 0), (0, 0)]),
    "vectors": nbt.LeakyRNN(units=3, inputs=2, outputs=2),
    "own": own_system(),
}
ESTIMATORS = {
    "rank 1": nbt.NoBackTrack(),
    "rank 3": nbt.NoBackTrack(rank=3),
    "split": nbt.SplitNoBackTrack(blocks=2),
    "rtrl": nbt.RTRL(),
    "bptt": nbt.TruncatedBPTT(depth=5),
    "sliding": nbt.SlidingBPTT(depth=5),
}
UPDATES = {
    "sgd": nbt.SGD(nbt.inverse_sqrt(0.01)),
    "adam": nbt.Optax(optax.adam(1e-3)),
    "kalman": nbt.Kalman(),
    "apart": nbt.Apart(theta=nbt.Kalman(metric=nbt.Diagonal()), phi=nbt.Frozen()),
}


def stream_for(name):
    if name in ("vectors", "own"):
        return np.asarray(jax.random.normal(jax.random.key(0), (24, 2), jnp.float64))
    return nbt.streams.anbn(1, 4, length=24, seed=0)


def start(learner):
    return own_state(learner, fast=2) if isinstance(learner.system, nbt.System) else learner.init(3, dtype=jnp.float64)


# Every estimator with one update, and every update with an estimator that moves theta at each step and one that waits.
COMBINATIONS = [
    names
    for names in itertools.product(SYSTEMS, ESTIMATORS, UPDATES)
    if names[2] == "sgd" or names[1] in ("rank 1", "bptt")
]


@pytest.mark.parametrize(("system", "estimator", "update"), COMBINATIONS)
def test_learner_passes_all_checks(system, estimator, update):
    learner = nbt.Learner(SYSTEMS[system], ESTIMATORS[estimator], UPDATES[update])
    checks.check_learner(learner, start(learner), stream_for(system))


def test_checks_pass_in_float32():
    learner = nbt.Learner(SYSTEMS["leaky"], nbt.NoBackTrack(rank=2), UPDATES["sgd"])
    checks.check_learner(learner, learner.init(0), stream_for("leaky"), tolerance=1e-4)


# --- learners with a fault: the checks must see it ------------------------------------------------------------------


@configuration
class Faulty:
    """SGD, but for one fault."""

    fault: str = static()

    def init(self, params, layout):
        return jnp.ones(())

    def apply(self, state, params, evidence, t):
        if self.fault == "grows":
            state = jnp.concatenate([jnp.ravel(state), jnp.ones(1)])
        if self.fault == "nan":
            state = state * jnp.nan
        return state, params

    def metric_of(self, state):
        return nbt.SGD(0.1).metric_of(())

    def adapt(self, packed):
        return self


@configuration
class Squared:
    """RTRL that squares dl/dh."""

    def __getattr__(self, name):
        return getattr(nbt.RTRL(), name)

    def observe(self, system, influence, params, dl_dh):
        return nbt.RTRL().observe(system, influence, params, dl_dh**2)


@pytest.mark.parametrize(
    ("estimator", "update", "error"),
    [
        (nbt.RTRL(), Faulty("grows"), (TypeError, AssertionError)),
        (nbt.RTRL(), Faulty("nan"), AssertionError),
        (Squared(), nbt.SGD(0.1), AssertionError),
    ],
)
def test_checks_fail_on_a_fault(estimator, update, error):
    learner = nbt.Learner(SYSTEMS["rnn"], estimator, update)
    with pytest.raises(error):
        checks.check_learner(learner, learner.init(0, dtype=jnp.float64), stream_for("rnn"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (nbt.MetricNorms(), nbt.EuclideanNorms()),
        (nbt.EuclideanNorms(), nbt.Unscaled()),
        (nbt.ForesightNorms(), configuration(type("Other", (nbt.ForesightNorms,), {}))()),
        (nbt.Kalman(metric=nbt.Full()), nbt.Kalman()),
        (nbt.Kalman(fisher=nbt.ExactFisher()), nbt.Kalman()),
    ],
    ids=repr,
)
def test_classes_with_the_same_fields_are_not_the_same_to_jit(one, other):
    """Else a program compiled for the one may run for the other."""
    assert jax.tree.structure(one) != jax.tree.structure(other)
    assert jax.tree.structure(one) == jax.tree.structure(dataclasses.replace(one))
