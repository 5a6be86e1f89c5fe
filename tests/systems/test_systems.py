"""Every system: its equations, its exact gradient, its unbiased estimate, its cost; and what it refuses."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tables import SYSTEMS, inputs_of, outside_path, stack, start, stream_of, symbol_inputs

import nobacktrack as nbt
from nobacktrack import checks
from nobacktrack.influence.immediate import linearise
from nobacktrack.protocol import Point

UNKNOWN: Any = "rk4"
NAMES = [name for name in SYSTEMS if name not in ("rnn", "leaky", "graph", "leaky tanh", "vectors", "own")]
QUICK = ("gru", "lstm", "mixed layers", "heun")


def some(names, quick=QUICK):
    """Systems by name; those that are not quick are slow."""
    return [pytest.param(name, marks=() if name in quick else pytest.mark.slow) for name in names]


def started(system, estimator=None, update=None):
    """A learner and a state with a readout that says something."""
    learner = nbt.Learner(system, estimator or nbt.NoBackTrack(), update or nbt.SGD(0.1))
    return learner, start(learner, readout=True)


@pytest.mark.parametrize("name", some(NAMES))
def test_rtrl_is_the_unrolled_gradient(name):
    system = SYSTEMS[name].large
    learner, state = started(system)
    assert checks.check_rtrl(learner, state, stream_of(system)) <= 1e-10


@pytest.mark.parametrize("name", some(NAMES))
def test_mean_over_all_signs_is_the_exact_influence(name):
    system = SYSTEMS[name].small
    learner, state = started(system)
    path = outside_path(state.params.theta, 4)
    assert checks.check_unbiased(learner, state, inputs_of(system, 4), path, tolerance=1e-12) <= 1e-12


@pytest.mark.parametrize("name", some(NAMES))
def test_one_step_identity_from_a_state_along_a_run(name):
    learner, state = started(SYSTEMS[name].large, update=nbt.Kalman())
    state, _ = learner.run(state, stream_of(learner.system))
    assert checks.check_one_step(learner, state, inputs_of(learner.system, 1)[0]) <= 1e-12


@pytest.mark.parametrize("metric", [nbt.Full(), nbt.BlockDiagonal(), nbt.Diagonal()], ids=repr)
@pytest.mark.parametrize("name", ["gru", "mixed layers"])
def test_one_step_identity_in_other_metrics(name, metric):
    learner, state = started(SYSTEMS[name].small, update=nbt.Kalman(metric=metric))
    state, _ = learner.run(state, stream_of(learner.system)[:30])
    assert checks.check_one_step(learner, state, jnp.int32(1)) <= 1e-12


@pytest.mark.parametrize("norms", [nbt.ForesightNorms(), nbt.InvariantNorms()], ids=repr)
@pytest.mark.parametrize("name", ["lstm", "mixed layers", "heun"])
def test_one_step_identity_with_other_norms(name, norms):
    learner, state = started(SYSTEMS[name].large, nbt.NoBackTrack(norms=norms), nbt.Kalman())
    state, _ = learner.run(state, jax.tree.map(lambda leaf: leaf[:5], stream_of(learner.system)))
    assert checks.check_one_step(learner, state, inputs_of(learner.system, 1)[0]) <= 1e-12


@pytest.mark.parametrize("estimator", [nbt.SplitNoBackTrack(blocks=2), nbt.NoBackTrack(rank=2)], ids=repr)
def test_one_step_identity_of_a_stack_with_more_directions(estimator):
    learner, state = started(stack((nbt.RNN, 2), (nbt.LeakyRNN, 3)), estimator)
    state, _ = learner.run(state, stream_of(learner.system)[:30])
    assert checks.check_one_step(learner, state, jnp.int32(1)) <= 1e-12


@pytest.mark.parametrize("name", [*NAMES, "rnn", "graph"])
def test_variances_and_worths_go_by_the_squared_jacobian(name):
    system = SYSTEMS[name].large
    _, state = started(system)
    x, size = inputs_of(system, 1)[0], state.h.size
    h, variance = np.linspace(-1.0, 1.0, size), np.arange(1.0, size + 1)

    @jax.jit
    def pushed(params, h, variance):
        found = []
        for substep in system.substeps:
            following = linearise(substep, Point(params, h, x))
            jacobian = jax.jacobian(lambda h, substep=substep: substep.evolve(params, h, x))(h)
            (worth,) = jax.linear_transpose(following.push_squared, variance)(variance)
            found.append((following.push_squared(variance), worth, jacobian))
        return found

    for squared, worth, jacobian in jax.tree.map(np.asarray, pushed(state.params, h, variance)):
        np.testing.assert_allclose(squared, jacobian**2 @ variance, rtol=1e-12)
        np.testing.assert_allclose(worth, (jacobian**2).T @ variance, rtol=1e-12)


def test_a_stack_without_signs_of_its_own_for_each_layer_is_biased():
    """Reducing the layers with the same signs brings a correlation in: the check must see it."""

    class SameSigns(nbt.NoBackTrack):
        def advance(self, system, influence, at, metric, signs):
            return super().advance(system, influence, at, metric, (signs[0],) * len(signs))

    learner, state = started(stack((nbt.RNN, 2), (nbt.LeakyRNN, 2)))
    wrong = nbt.Learner(learner.system, SameSigns(), learner.update)
    with pytest.raises(AssertionError, match="E G~ = dh/dtheta"):
        checks.check_unbiased(wrong, state, symbol_inputs(4), outside_path(state.params.theta, 4))


@pytest.mark.parametrize("name", ["lstm", "mixed layers", "heun"])
def test_sliding_bptt_as_deep_as_the_stream_is_the_unrolled_gradient(name):
    learner, state = started(SYSTEMS[name].large, nbt.SlidingBPTT(depth=20))
    stream = jax.tree.map(lambda leaf: leaf[:20], stream_of(learner.system))
    found, wanted = (f(learner, state, stream) for f in (checks.summed_gradients, checks.unrolled_gradient))
    assert checks.expect_close(found, wanted, 1e-10, "sliding BPTT") <= 1e-10


# --- the equations --------------------------------------------------------------------------------------------------


def test_gru_is_equinox_gru():
    cell: Any = eqx.nn.GRUCell(3, 5, key=jax.random.key(0), dtype=jnp.float64)
    w_r, w_z, w_n = jnp.split(cell.weight_ih, 3)
    u_r, u_z, u_n = jnp.split(cell.weight_hh, 3)
    b_r, b_z, b_n = (part[:, None] for part in jnp.split(cell.bias, 3))
    off_h, off_x = jnp.zeros_like(u_n), jnp.zeros_like(w_n)
    rows = [[b_z, u_z, w_z], [b_r, u_r, w_r], [b_n, off_h, w_n], [cell.bias_n[:, None], u_n, off_x]]
    theta = jnp.stack([jnp.concatenate(row, axis=1) for row in rows], axis=1)
    assert_same_states(nbt.GRU(units=5, inputs=3, outputs=1), theta, lambda x, h: cell(x, h), jnp.zeros(5), lambda h: h)


def test_lstm_is_equinox_lstm():
    cell: Any = eqx.nn.LSTMCell(3, 5, key=jax.random.key(0), dtype=jnp.float64)
    parts = (jnp.split(part, 4) for part in (cell.bias[:, None], cell.weight_hh, cell.weight_ih))
    theta = jnp.stack([jnp.concatenate(gate, axis=1) for gate in zip(*parts, strict=True)], axis=1)
    other = (jnp.zeros(5), jnp.zeros(5))
    assert_same_states(
        nbt.LSTM(units=5, inputs=3, outputs=1), theta, lambda x, hc: cell(x, hc), other, lambda hc: hc[::-1]
    )


def assert_same_states(system, theta, other_step, other, flatten):
    learner = nbt.Learner(system, nbt.RTRL(), nbt.SGD(0.1))
    state = learner.init(0, theta=theta, dtype=jnp.float64)
    for x in jax.random.normal(jax.random.key(2), (20, 3), jnp.float64):
        state = learner.advance(state, x)
        other = other_step(x, other)
        np.testing.assert_allclose(state.h, jnp.concatenate(jax.tree.leaves(flatten(other))), rtol=1e-12, atol=1e-14)


def test_lru_is_a_complex_linear_recurrence():
    learner, state = started(nbt.LRU(units=4, inputs=2, outputs=1))
    nu, omega, real, imaginary = np.moveaxis(np.asarray(state.params.theta), 1, 0)
    eigen = np.exp(-np.exp(nu[:, 0]) + 1j * omega[:, 0])
    b = real + 1j * imaginary
    assert (abs(eigen) < 1).all()
    z: Any = np.zeros(4, complex)
    for x in np.random.default_rng(0).normal(size=(30, 2)):
        state = learner.advance(state, x)
        z = eigen * z + np.sqrt(1 - abs(eigen) ** 2) * (b @ np.append(1, x))
    np.testing.assert_allclose(state.h, np.concatenate([z.real, z.imag]), rtol=1e-10)


def test_a_stack_hears_the_layer_below_just_updated():
    """h1' = W1 [1, s(h1), x], then h2' = W2 [1, s(h2), x, s(h1')]; the readout is on h2."""
    system = stack((nbt.RNN, 2), (nbt.RNN, 3))
    learner, state = started(system)
    sigmoid, x = jax.nn.sigmoid, jax.nn.one_hot(1, 3)
    first, second = state.h[:2], state.h[2:]
    state = learner.advance(state, 1)
    w1, w2 = (leaf[:, 0] for leaf in state.params.theta)
    first = w1 @ jnp.concatenate([jnp.ones(1), sigmoid(first), x])
    second = w2 @ jnp.concatenate([jnp.ones(1), sigmoid(second), x, sigmoid(first)])
    np.testing.assert_allclose(state.h, jnp.concatenate([first, second]), rtol=1e-12)
    np.testing.assert_allclose(
        learner.predict(state), state.params.phi @ jnp.concatenate([jnp.ones(1), sigmoid(second)]), rtol=1e-12
    )


def test_learned_alpha_stays_within_zero_and_one_and_moves():
    learner = nbt.Learner(nbt.LearnedLeakyRNN(units=10, symbols=3), nbt.NoBackTrack(), nbt.Kalman())
    state = learner.init(0)
    before = state.params.theta[:, 1, 0]
    state, _ = learner.run(state, nbt.streams.anbn(1, 8, length=5000, seed=0))
    alpha = jax.nn.sigmoid(state.params.theta[:, 1, 0])
    assert bool(jnp.all((alpha > 0) & (alpha < 1)))
    assert float(jnp.abs(state.params.theta[:, 1, 0] - before).max()) > 1e-3
    assert not np.any(state.params.theta[:, 1, 1:])  # the gate hears nothing


@pytest.mark.parametrize("name", ["gru", "lru", "mixed layers"])
def test_weights_that_a_gate_does_not_hear_stay_zero(name):
    learner, state = started(SYSTEMS[name].large, update=nbt.Kalman())
    state, _ = learner.run(state, stream_of(learner.system))
    leaves = state.params.theta if isinstance(state.params.theta, tuple) else (state.params.theta,)
    cells = learner.system.layers if isinstance(learner.system, nbt.Stack) else (learner.system,)
    for cell, leaf in zip(cells, leaves, strict=True):
        np.testing.assert_array_equal(leaf, cell.listening(leaf))


# --- cost -----------------------------------------------------------------------------------------------------------


def flops_per_parameter(system):
    learner = nbt.Learner(system, nbt.NoBackTrack(), nbt.Kalman())
    state = jax.eval_shape(lambda: learner.init(0))
    return nbt.checks.step_flops(learner, state, jax.ShapeDtypeStruct((), jnp.int32))[0]


COSTED = {
    "RNN": lambda n: nbt.RNN(units=n, symbols=3),
    "leaky": lambda n: nbt.LeakyRNN(units=n, symbols=3),
    "GRU": lambda n: nbt.GRU(units=n, symbols=3),
    "LSTM": lambda n: nbt.LSTM(units=n, symbols=3),
    "three layers": lambda n: stack((nbt.RNN, n), (nbt.RNN, n), (nbt.RNN, n)),
    "sparse": lambda n: nbt.RNN(units=8 * n, symbols=3, graph=ring(8 * n, 10)),
}


def ring(units, edges):
    """Each unit hears the `edges` ones before it."""
    return [((i - k) % units, i) for i in range(units) for k in range(1, edges + 1)]


@pytest.mark.parametrize("name", COSTED)
def test_a_step_costs_a_constant_per_parameter(name):
    costs = [flops_per_parameter(COSTED[name](n)) for n in (32, 128, 512)]
    assert max(costs) / min(costs) <= 1.15


def test_ten_thousand_units_with_ten_edges_each_run():
    learner = nbt.Learner(nbt.RNN(units=10_000, symbols=3, graph=ring(10_000, 10)), nbt.NoBackTrack(), nbt.Kalman())
    state, info = learner.run(learner.init(0), nbt.streams.anbn(1, 4, length=20, seed=0))
    assert state.params.theta.shape == (10_000, 1, 14)
    assert np.isfinite(info.loss).all()


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nbt.Stack([]), "layers"),
        (lambda: nbt.Stack([nbt.RNN(units=2, symbols=3), nbt.RNN(units=2, symbols=5)]), "layer 1: symbols is 5"),
        (lambda: nbt.Stack([nbt.RNN(units=2, symbols=3), nbt.RNN(units=2, inputs=1, symbols=3)]), "layer 1: inputs"),
        (lambda: nbt.Stack([nbt.RNN(units=2, symbols=3), nbt.SGD(0.1)]), "layer 1: a layer is a cell"),
        (lambda: nbt.Stack([stack((nbt.RNN, 2))]), "layer 0: a layer is a cell"),
        (lambda: nbt.Stack([nbt.ContinuousRNN(units=2, symbols=3, method="heun")]), "layer 0: .* two sub-steps"),
        (
            lambda: nbt.Stack([cell(units=2, symbols=3) for cell in (nbt.RNN, nbt.ContinuousRNN)]),
            "layer 1: .* times dt",
        ),
        (lambda: nbt.GramianNorms(floor=0.0), "floor must be above 0"),
        (lambda: nbt.GramianNorms(pace=5.0), "pace must be above 0 and at most 1"),
        (lambda: nbt.ForesightNorms(horizon=2.0), "horizon must be at most 1"),
        (lambda: nbt.streams.elapsed(np.array(["2026-01-01"], "datetime64[D]")), "stamps must be numbers"),
        (lambda: nbt.ContinuousRNN(units=2, symbols=3, method=UNKNOWN), "method must be euler or heun"),
        (lambda: nbt.ContinuousRNN(units=2, symbols=3, fastest=2.0, slowest=1.0), "fastest <= slowest"),
        (lambda: nbt.LRU(units=2, symbols=3, graph=[(0, 1)]), "do not hear each other"),
        (lambda: nbt.streams.elapsed([0.0, 2.0, 1.5]), "stamps at index 2: time goes back, from 2.0 to 1.5"),
        (lambda: nbt.streams.elapsed([0.0, np.nan]), "stamps at index 1: nan"),
    ],
)
def test_bad_configurations_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("x", "message"),
    [((-0.1, 0), "dt = -0.1, but time passes"), ((0.1, 3), "outside the alphabet"), (0, "a pair")],
)
def test_bad_timed_inputs_are_refused(x, message):
    learner = nbt.Learner(nbt.ContinuousRNN(units=2, symbols=3), nbt.NoBackTrack(), nbt.Kalman())
    state = learner.init(0)
    with pytest.raises(nbt.BadItem, match=message):
        learner.advance(state, x)


def test_times_and_values_of_unlike_number_are_refused():
    learner = nbt.Learner(nbt.ContinuousRNN(units=2, inputs=1, outputs=1), nbt.NoBackTrack(), nbt.Kalman())
    with pytest.raises(nbt.BadItem, match="10 times dt for 11 values"):
        learner.run(learner.init(0), ((np.ones(10), np.ones((11, 1))), np.ones((10, 1))))


def test_a_clock_gives_elapsed_times_and_refuses_to_go_back():
    clock = nbt.streams.Clock()
    assert [clock(stamp) for stamp in (1.7e9, 1.7e9 + 0.25, 1.7e9 + 1)] == [0.0, 0.25, 0.75]
    with pytest.raises(ValueError, match="time goes back"):
        clock(1.7e9)
    assert clock(1.7e9 + 2) == 1.0
