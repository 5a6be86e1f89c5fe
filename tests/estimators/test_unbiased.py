"""Unbiasedness, by enumeration of all sign patterns: no Monte Carlo, and wrong estimators fail."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tables import SYSTEMS, outside_path, own_state, own_system, symbol_inputs, vector_inputs

import nobacktrack as nbt
from nobacktrack import checks
from nobacktrack.configuration import configuration, static
from nobacktrack.estimators.nobacktrack import Influence
from nobacktrack.influence.norms import Plain

ESTIMATORS = {
    "rank 1": nbt.NoBackTrack(),
    "rank 2": nbt.NoBackTrack(rank=2),
    "split": nbt.SplitNoBackTrack(blocks=2),
    "unscaled": nbt.NoBackTrack(norms=nbt.Unscaled()),
}


def learner_and_state(system, estimator):
    learner = nbt.Learner(system, estimator, nbt.SGD(0.1))
    return (
        (learner, own_state(learner))
        if isinstance(system, nbt.System)
        else (learner, learner.init(0, dtype=jnp.float64))
    )


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("system", ["rnn", "leaky", "graph", "own"])
def test_mean_over_all_signs_is_the_exact_influence(system, estimator):
    learner, state = learner_and_state(SYSTEMS[system].small, ESTIMATORS[estimator])
    inputs = vector_inputs(4) if system == "own" else symbol_inputs(4)
    error = checks.check_unbiased(learner, state, inputs, outside_path(state.params.theta, 4), tolerance=1e-12)
    assert error <= 1e-12


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_estimates_are_random(estimator):
    learner, state = learner_and_state(SYSTEMS["rnn"].small, ESTIMATORS[estimator])
    path, inputs = outside_path(state.params.theta, 4), symbol_inputs(4)

    @jax.jit
    def estimate(seed):
        keyed = state._replace(key=jnp.stack([seed, jnp.uint32(1)]))
        drawn = [learner.draw(keyed, jnp.array([0, t], jnp.uint32)) for t in range(4)]
        return checks.estimated_influence(learner, checks.along(learner, state, inputs, path, drawn))

    estimates = np.stack([estimate(np.uint32(seed)) for seed in range(8)])
    assert float(estimates.std(axis=0).max()) > 1e-3


LARGER = (
    (nbt.LeakyRNN(units=12, symbols=5), nbt.NoBackTrack()),
    (nbt.RNN(units=7, symbols=5), nbt.NoBackTrack(rank=2)),
    (nbt.RNN(units=8, symbols=4, graph=[(i, (3 * i + k) % 8) for i in range(8) for k in range(3)]), nbt.NoBackTrack()),
    (nbt.RNN(units=5, symbols=5, activation="tanh"), nbt.SplitNoBackTrack(blocks=3)),
)


@pytest.mark.parametrize(("system", "estimator"), LARGER, ids=repr)
def test_one_step_identity_from_a_state_along_a_run(system, estimator):
    learner = nbt.Learner(system, estimator, nbt.SGD(0.1))
    stream = jax.random.randint(jax.random.key(2), (50,), 0, 4)
    state, _ = learner.run(learner.init(0, dtype=jnp.float64), stream)
    assert checks.check_one_step(learner, state, jnp.int32(1)) <= 1e-12


def test_one_step_identity_of_a_system_of_ones_own():
    learner = nbt.Learner(own_system(), nbt.NoBackTrack(), nbt.SGD(1e-5))
    state, _ = learner.run(own_state(learner, fast=9), jax.random.normal(jax.random.key(2), (30, 9), jnp.float64))
    assert checks.check_one_step(learner, state, jnp.ones(9)) <= 1e-12


@pytest.mark.parametrize("size", [1e-25, 1e-19, 1.0, 1e15])
def test_influence_of_any_size_is_carried_in_float32(size):
    """No absolute floor: a system whose influence is tiny, or huge, is trained as its rescaled version is."""

    def gradient(scale):
        system = nbt.System(
            lambda theta, h, x: 0.9 * h + scale * theta * x,
            lambda phi, h: h.sum() / scale + phi,
            lambda y_hat, y: y_hat - y,
        )
        learner = nbt.Learner(system, nbt.NoBackTrack(), nbt.SGD(0.0))
        one = jnp.ones(3, jnp.float32)
        state = learner.init(0, theta=one, phi=jnp.float32(0), h=0 * one, x=one)
        for _ in range(5):
            state = learner.advance(state, one)
        return learner.gradient(state, jnp.float32(1)).theta

    np.testing.assert_allclose(gradient(size), gradient(1.0), rtol=1e-4)


def test_flipping_all_signs_of_a_run_leaves_the_estimate_bit_identical():
    learner, state = learner_and_state(nbt.LeakyRNN(units=5, symbols=3), nbt.NoBackTrack(rank=2))
    path, inputs = outside_path(state.params.theta, 6), symbol_inputs(6)
    drawn = [learner.draw(state, jnp.array([0, t], jnp.uint32)) for t in range(6)]
    flipped = jax.tree.map(jnp.negative, drawn)
    one, other = (
        checks.estimated_influence(learner, checks.along(learner, state, inputs, path, signs))
        for signs in (drawn, flipped)
    )
    assert one.tobytes() == other.tobytes()


# --- deliberately wrong ones: each must fail the check --------------------------------------------------------------


@configuration
class OneSided(Plain):
    """Norms whose scale multiplies v but does not divide w."""

    def scales(self, norm_w, norm_v):
        rho, inverse = nbt.MetricNorms().scales(norm_w, norm_v)
        return rho, jnp.where(inverse > 0, jnp.ones_like(inverse), 0)


@configuration
class Wrong:
    """NoBackTrack with a mistake in it."""

    mistake: str = static()

    def __getattr__(self, name):
        return getattr(nbt.NoBackTrack(), name)

    def advance(self, system, influence, at, metric, signs):
        if self.mistake == "scales that look at the signs":
            odd = jnp.where(signs[0][0] > 0, 2.0, 1.0)[None, None, :]
            rows = influence.rows._replace(c=influence.rows.c * odd)
            v, w = nbt.NoBackTrack().reduce(system.substeps[0], influence._replace(rows=rows), signs[0], metric)
            influence = Influence(v, w, influence.rows.silent())
            signs = (jnp.ones_like(signs[0]),)
        if self.mistake == "one sign for all rows":
            signs = (jnp.broadcast_to(signs[0][:, :1], signs[0].shape),)
        if self.mistake == "forgets the immediate part":
            influence = influence._replace(rows=influence.rows.silent())
        return nbt.NoBackTrack().advance(system, influence, at, metric, signs)


WRONG = (
    nbt.NoBackTrack(norms=OneSided()),
    Wrong("scales that look at the signs"),
    Wrong("one sign for all rows"),
    Wrong("forgets the immediate part"),
)


@pytest.mark.parametrize("estimator", WRONG, ids=repr)
def test_a_biased_estimator_fails_the_check(estimator):
    learner, state = learner_and_state(nbt.RNN(units=2, symbols=3), estimator)
    with pytest.raises(AssertionError, match="E G~ = dh/dtheta"):
        checks.check_unbiased(learner, state, symbol_inputs(4), outside_path(state.params.theta, 4))


def test_bias_when_theta_is_driven_by_the_estimate_vanishes_with_the_rate():
    """Unbiasedness is exact on outside paths; driven by G~ itself, theta brings a bias in that goes to zero with the
    rate.
    """
    biases = [_bias_when_learning(rate) for rate in (0.0, 0.01, 0.1, 0.5)]
    assert biases[0] <= 1e-12
    assert 0 < biases[1] < biases[2] < biases[3]


def _bias_when_learning(rate):
    learner, state = learner_and_state(nbt.RNN(units=2, symbols=3), nbt.NoBackTrack())
    state = state._replace(params=state.params._replace(phi=jnp.arange(9.0).reshape(3, 3) / 9))
    exact = nbt.Learner(learner.system, nbt.RTRL(), learner.update)
    symbols = symbol_inputs(4)
    update = nbt.SGD(rate)

    def gap(signs):
        """G~ - G along the path that G~ itself made."""
        one = state
        other = exact.init(0, dtype=jnp.float64)._replace(params=state.params)
        for t, y in enumerate(symbols):
            one, _ = nbt.Learner(learner.system, learner.estimator, update).observe_unchecked(one, y, one)
            draws = (jnp.ones((1, 2), jnp.int8),) if t == 0 else (signs[t - 1],)
            one = learner.advance_unchecked(one, y, draws)
            other = exact.advance_unchecked(other._replace(params=one.params), y, ())
        return checks.estimated_influence(learner, one) - other.influence

    mean = checks.mean_over_signs(gap, jax.ShapeDtypeStruct((3, 1, 2), jnp.int8))
    return float(jnp.abs(mean).max())
