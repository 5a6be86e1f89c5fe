"""The public checks on every combination of system, estimator and update; and on some with a fault."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest
from tables import ESTIMATORS, SYSTEMS, UPDATES, fits, start, stream_of

import nobacktrack as nbt
from nobacktrack import checks
from nobacktrack.checks.learners import steps_as_it_is_written
from nobacktrack.configuration import configuration, static


def combinations():
    """Every system and every estimator with one update, and every update with an estimator that moves theta at each
    step and with one that waits.
    """
    for system, sizes in SYSTEMS.items():
        for estimator, made in ESTIMATORS.items():
            for update in UPDATES:
                of_systems = estimator in ("rank 1", "bptt", "rtrl") and update == "kalman"
                of_estimators = system == "leaky" and update == "kalman"
                of_updates = system in ("rnn", "own") and estimator in ("rank 1", "bptt")
                if fits(sizes.small, made) and (of_systems or of_estimators or of_updates):
                    yield system, estimator, update


# Those that are not marked slow still have every system, estimator and update.
QUICK = {
    *((system, "rank 1", "kalman") for system in ("graph", "lstm", "mixed layers", "heun", "vectors", "lru")),
    *(("leaky", estimator, "kalman") for estimator in ESTIMATORS if estimator != "windows"),
    *(("rnn", "rank 1", update) for update in UPDATES),
    *(("own", "bptt", update) for update in ("sgd", "apart")),
    ("gru", "rtrl", "kalman"),
}


def cases():
    for names in combinations():
        for check in checks.LEARNER_CHECKS:
            written = check is steps_as_it_is_written  # each operation is compiled on its own: it takes seconds
            quick = names in QUICK and (not written or names[:2] in (("leaky", "rank 1"), ("leaky", "bptt")))
            marks = () if quick else pytest.mark.slow
            yield pytest.param(check, *names, marks=marks, id=f"{'-'.join(names)}-{check.__name__}")


@pytest.mark.parametrize(("check", "system", "estimator", "update"), list(cases()))
def test_learners(check, system, estimator, update):
    learner = nbt.Learner(SYSTEMS[system].small, ESTIMATORS[estimator], UPDATES[update])
    check(learner, start(learner, 3), stream_of(learner.system, 24))


@pytest.mark.slow
def test_checks_pass_in_float32():
    learner = nbt.Learner(nbt.LeakyRNN(units=4, symbols=3, activation="tanh"), ESTIMATORS["rank 3"], UPDATES["sgd"])
    checks.check_learner(learner, learner.init(0), stream_of(learner.system, 24), tolerance=1e-4)


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

    def observe(self, system, influence, params, dl_dh, metric):
        return nbt.RTRL().observe(system, influence, params, dl_dh**2, metric)


@pytest.mark.parametrize(
    ("estimator", "update", "failure"),
    [
        (nbt.RTRL(), Faulty("grows"), "keeps_its_structure"),
        (nbt.RTRL(), Faulty("nan"), "starts_finite"),
        (Squared(), nbt.SGD(0.1), "observes_linearly"),
    ],
)
def test_checks_fail_on_a_fault_and_name_it(estimator, update, failure):
    learner = nbt.Learner(SYSTEMS["rnn"].small, estimator, update)
    with pytest.raises(AssertionError, match=rf"of {len(checks.LEARNER_CHECKS)} checks fail: .*{failure}: "):
        checks.check_learner(learner, learner.init(0, dtype=jnp.float64), stream_of(learner.system, 24))


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
