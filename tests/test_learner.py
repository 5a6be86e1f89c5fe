"""The verbs of a learner, and what it refuses."""

import re
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from tables import STREAM, own_state, own_system, pairs, pairs_learner, same, symbols_learner

import nobacktrack as nbt
from nobacktrack.guards import remedies


def test_late_targets_are_learned_where_they_were_predicted():
    learner, state = symbols_learner()
    state, _ = learner.run(state, STREAM[:50])
    later = learner.advance(learner.advance(state, 0), 2)
    gradient = learner.gradient(state, 1)
    after, info = learner.observe(later, 1, at=state)
    np.testing.assert_allclose(after.params.theta, later.params.theta - 0.1 * gradient.theta, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(after.params.phi, later.params.phi - 0.1 * gradient.phi, rtol=1e-5, atol=1e-7)
    assert same(after.influence, later.influence)
    assert same(after.h, later.h)
    assert float(info.loss) == pytest.approx(float(learner.observe(state, 1)[1].loss))


def test_late_targets_tell_of_the_noise_too():
    learner = nbt.Learner(nbt.RNN(units=4, symbols=3), nbt.NoBackTrack(rank=2, belief=nbt.Caution()), nbt.Kalman())
    state = learner.init(0)
    for y in (0, 2, 1):
        state, _ = learner.observe(state, y)
        state = learner.advance(state, y)
    later = learner.advance(learner.advance(state, 0), 2)
    on_time, _ = learner.observe(state, 1)
    after, _ = learner.observe(later, 1, at=state)
    assert same(after.influence.belief, on_time.influence.belief)
    assert not same(after.influence.belief, later.influence.belief)
    assert same(after.influence._replace(belief=()), later.influence._replace(belief=()))


def test_frozen_parameters_stay():
    learner, state = symbols_learner(update=nbt.Apart(theta=nbt.SGD(0.1), phi=nbt.Frozen()))
    after, _ = learner.run(state, STREAM)
    assert same(after.params.phi, state.params.phi)
    mask = jnp.zeros(state.params.theta.shape, bool).at[:, :, 0].set(True)
    learner, state = symbols_learner(update=nbt.Apart(theta=nbt.Frozen(nbt.SGD(0.1), where=mask), phi=nbt.SGD(0.1)))
    after, _ = learner.run(state, STREAM)
    assert same(after.params.theta[:, :, 0], state.params.theta[:, :, 0])
    assert not same(after.params.theta[:, :, 1:], state.params.theta[:, :, 1:])


def test_gradient_moves_nothing_and_is_what_observe_follows():
    learner, state = symbols_learner()
    state, _ = learner.run(state, STREAM[:30])
    gradient = learner.gradient(state, 2)
    after, _ = learner.observe(state, 2)
    np.testing.assert_allclose(after.params.theta, state.params.theta - 0.1 * gradient.theta, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("rate", [0.1, nbt.inverse_sqrt(0.1), lambda t: 0.1 / t])
def test_rates_are_numbers_or_functions_of_t_from_one(rate):
    learner, state = symbols_learner(update=nbt.SGD(rate))
    gradient = learner.gradient(state, 0)
    after, _ = learner.observe(state, 0)
    np.testing.assert_allclose(after.params.phi, -0.1 * gradient.phi, rtol=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nbt.NoBackTrack(rank=0), "rank"),
        (lambda: nbt.NoBackTrack(rank=1.5), "rank"),  # type: ignore[arg-type]
        (lambda: nbt.SplitNoBackTrack(blocks=0), "blocks"),
        (lambda: nbt.TruncatedBPTT(depth=0), "depth"),
        (lambda: nbt.SGD(-1.0), "rate"),
        (lambda: nbt.SGD(float("nan")), "rate"),
        (lambda: nbt.SGD("fast"), "rate"),
        (lambda: nbt.RNN(units=0, symbols=3), "units"),
        (lambda: nbt.RNN(units=3, symbols=1), "symbols"),
        (lambda: nbt.RNN(units=3), "symbols or inputs"),
        (lambda: nbt.RNN(units=3, inputs=2), "symbols or outputs"),
        (lambda: nbt.RNN(units=3, symbols=2, activation="relu"), "activation"),  # type: ignore[arg-type]
        (lambda: nbt.RNN(units=3, symbols=2, graph=[(0, 1), (1, 3)]), r"edge 1 is \(1, 3\)"),
        (lambda: nbt.RNN(units=3, symbols=2, graph=np.ones((2, 2), bool)), "graph"),
        (lambda: nbt.streams.anbn(3, 2, length=10, seed=0), "l must be"),
        (lambda: symbols_learner()[0].run(symbols_learner()[1], STREAM, engine="gpu"), "engine"),
        (lambda: symbols_learner()[0].run(symbols_learner()[1], STREAM, chunk=0), "chunk"),
        (lambda: symbols_learner()[0].run(symbols_learner()[1], "text"), "stream"),
        (lambda: nbt.SGD(None), "rate"),
        (lambda: nbt.SGD(np.float32("nan")), "rate"),
        (lambda: nbt.inverse_sqrt(-1), "c must be"),
        (lambda: nbt.Optax(None), "tx"),  # type: ignore[arg-type]
        (lambda: nbt.NoBackTrack(norms="metric"), "norms"),  # type: ignore[arg-type]
        (lambda: nbt.Frozen(where=np.ones(3, bool)), "where"),
        (lambda: nbt.RNN(units=3, symbols=2, graph=nbt.Graph([(0, 4)], 5)), "graph: it has 5 units"),
        (lambda: nbt.Learner(nbt.RNN, nbt.RTRL(), nbt.SGD(0.1)), "system"),
        (lambda: nbt.Learner(nbt.RNN(units=3, symbols=2), nbt.NoBackTrack, nbt.SGD(0.1)), "estimator"),
        (lambda: nbt.Learner(nbt.RNN(units=3, symbols=2), nbt.RTRL(), optax.adam(0.1)), "nbt.Optax"),
        (lambda: symbols_learner()[0].init(0.5), "key"),  # type: ignore[arg-type]
        (lambda: symbols_learner()[0].run(symbols_learner()[1], {"x": STREAM}), "stream"),
        (lambda: symbols_learner()[0].init(0, theta=jnp.zeros((5, 1, 3))), "theta"),
        (lambda: symbols_learner()[0].init(0, constants=jnp.zeros(4)), "constants"),
        (lambda: nbt.Learner(own_system(), nbt.RTRL(), nbt.SGD(0.1)).init(0), "theta, phi, h"),
    ],
)
def test_bad_arguments_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_an_input_unlike_the_example_is_named():
    learner = nbt.Learner(own_system(), nbt.NoBackTrack(), nbt.SGD(0.1))
    state = own_state(learner, fast=2)
    with pytest.raises(ValueError, match=r"x has shape \(3,\), but the example at init had \(2,\)"):
        learner.advance(state, np.zeros(3))
    assert learner.advance(state, np.array([1, 2])).steps == 1  # integers become what the example was


def test_a_target_of_none_is_no_target():
    learner, state = pairs_learner()
    after, info = learner.step(state, pairs()[0][0], None)
    assert after.steps == 1
    assert np.isnan(info.loss)
    with pytest.raises(ValueError, match="no target"):
        learner.observe(state, None)


def test_numpy_integers_and_seeds_are_integers():
    system = nbt.RNN(units=np.int64(3), symbols=STREAM.max() + 1)  # type: ignore[arg-type]
    assert system == nbt.RNN(units=3, symbols=3)
    learner = nbt.Learner(system, nbt.NoBackTrack(), nbt.SGD(0.1))
    assert same(learner.init(np.int64(5)), learner.init(5))  # type: ignore[arg-type]
    assert jax.vmap(learner.init)(jnp.arange(3)).h.shape == (3, 3)


def test_a_single_bad_value_carries_the_state():
    learner, state = symbols_learner()
    for act in (
        lambda: learner.observe(state, 3),
        lambda: learner.advance(state, -1),
        lambda: learner.gradient(state, 0.5),
    ):
        with pytest.raises(nbt.BadItem, match=r"^[xy]: ") as caught:
            act()
        assert caught.value.state is state


def test_a_transition_that_changes_the_state_is_refused():
    system = nbt.System(lambda theta, h, x: theta * h[:1], lambda phi, h: h[0] + phi, lambda y_hat, y: (y_hat - y) ** 2)
    learner = nbt.Learner(system, nbt.RTRL(), nbt.SGD(0.1))
    zero = jnp.zeros((), jnp.float64)
    with pytest.raises(ValueError, match="transition"):
        learner.advance(learner.init(0, theta=zero, phi=zero, h=jnp.ones(2, jnp.float64), x=zero), 0.0)


def test_a_loss_that_is_no_number_is_refused():
    system = nbt.System(lambda theta, h, x: theta * h, lambda phi, h: h + phi, lambda y_hat, y: y_hat - y)
    learner = nbt.Learner(system, nbt.RTRL(), nbt.SGD(0.1))
    zero = jnp.zeros((), jnp.float64)
    state = learner.init(0, theta=zero, phi=zero, h=jnp.ones(2, jnp.float64), x=zero)
    with pytest.raises(ValueError, match="loss"):
        learner.observe(state, jnp.ones(2, jnp.float64))


def test_integers_cannot_be_trained():
    learner = nbt.Learner(own_system(), nbt.RTRL(), nbt.SGD(0.1))
    good = own_state(learner)
    with pytest.raises(ValueError, match=r"theta\['a'\] is int"):
        learner.init(0, theta={**good.params.theta, "a": 1}, phi=good.params.phi, h=good.h, x=good.h["fast"])


def test_errors_are_the_usual_ones():
    assert issubclass(nbt.BadItem, ValueError)
    assert issubclass(nbt.Divergence, FloatingPointError)


# --- what a newcomer tries ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (
            lambda learner: learner.run(None, STREAM),
            "state must be a State, such as learner.init(0) gives, not NoneType",
        ),
        (lambda learner: learner.run(learner.init(0), STREAM, STREAM), r"one pair, run(state, (x, y))"),
        (lambda learner: nbt.Live(cast("Any", learner.system)), "learner must be a learner such as nbt.Learner("),
        (lambda learner: nbt.Live(learner, cast("Any", "state")), "state must be a State"),
    ],
)
def test_a_mistake_is_named_in_the_users_words(attempt, message):
    learner, _ = symbols_learner()
    with pytest.raises(ValueError, match=re.escape(message)):
        attempt(learner)


def test_a_list_is_a_stream_that_is_at_hand():
    """Pairs in a list are trained on, and not left in a generator that nobody asks."""
    learner, state = pairs_learner()
    x, y = pairs(30)
    items = [(a, b) for a, b in zip(x, y, strict=True)]
    after, info = learner.run(state, items)
    wanted, whole = learner.run(state, (x, y))
    assert info.loss.shape == (30,)
    np.testing.assert_allclose(after.params.theta, wanted.params.theta, rtol=1e-5, atol=1e-7)
    items[3] = (x[3], None)
    _, info = learner.run(state, [*items[:10], nbt.RESET, *items[10:]])
    assert np.isnan(info.loss).tolist() == [i == 3 for i in range(30)]
    assert whole.mean == pytest.approx(float(whole.loss.mean()))
    same_state, nothing = learner.run(state, [])
    assert same(same_state, state)
    assert nothing.loss.shape == (0,)
    assert np.isnan(nothing.mean)


def test_a_state_is_shown_in_a_line():
    learner, state = symbols_learner()
    assert repr(state) == "State(t: 0, theta: (5, 1, 9), phi: (3, 6), 147 numbers)"
    assert "theta: (2, 5, 1, 9)" in repr(jax.vmap(learner.init)(jax.random.split(jax.random.key(0), 2)))
    jax.jit(lambda state: [repr(state), state.t][1])(state)


def test_an_own_system_starts_inside_a_transformation():
    """theta is known, and the key is not."""
    system = nbt.System(lambda theta, h, x: theta * h + x, lambda phi, h: phi * h, lambda y_hat, y: (y_hat - y) ** 2)
    learner = nbt.Learner(system, nbt.NoBackTrack(), nbt.SGD(0.1))
    begin = lambda key: learner.init(key, theta=np.float64(0.5), phi=1.0, h=0.0, x=0.0).params.theta  # noqa: E731
    keys = jax.random.split(jax.random.key(0), 3)
    assert jax.jit(begin)(keys[0]) == 0.5
    np.testing.assert_array_equal(jax.vmap(begin)(keys), 0.5)
    with pytest.raises(ValueError, match="theta holds numbers that are not finite"):
        jax.jit(lambda key: learner.init(key, theta=np.inf, phi=1.0, h=0.0, x=0.0).h)(keys[0])


def test_predictions_as_probabilities():
    learner, state = symbols_learner()
    state, _ = learner.run(state, STREAM[:50])
    p = learner.probabilities(state)
    np.testing.assert_allclose(p, jax.nn.softmax(learner.predict(state)), rtol=1e-6)
    assert float(-np.log(p[1])) == pytest.approx(float(learner.observe(state, 1)[1].loss), rel=1e-5)
    np.testing.assert_allclose(nbt.Live(learner, state).probabilities(), p, rtol=1e-5)
    after = learner.probabilities(learner.advance(state, 2))
    np.testing.assert_allclose(nbt.Live(learner, state).probabilities(2), after, rtol=1e-5)
    together = nbt.Together(learner, streams=2)
    np.testing.assert_allclose(together.probabilities(together.init(0)), np.full((2, 3), 1 / 3), rtol=1e-6)
    with pytest.raises(ValueError, match="does not predict symbols: there are no probabilities"):
        pairs_learner()[0].probabilities(pairs_learner()[1])
    em = nbt.OnlineEM(nbt.HMM(states=2, symbols=3))
    assert float(em.probabilities(em.init(0)).sum()) == pytest.approx(1)


def test_what_to_try_after_a_divergence_depends_on_the_learner():
    """`nbt.Kalman()` is no advice to one that has it."""
    assert "nbt.Kalman()" in remedies(symbols_learner()[0])
    filtered = remedies(symbols_learner(update=nbt.Kalman())[0])
    assert "nbt.Kalman()" not in filtered
    assert filtered[0] == "a larger prior, as nbt.Kalman(prior=100)"


def test_a_state_can_be_adopted_by_another_learner():
    learner, state = symbols_learner(update=nbt.Kalman())
    state, _ = learner.run(state, STREAM)
    other = nbt.Learner(learner.system, nbt.TruncatedBPTT(), nbt.Kalman(prior=77.0))
    adopted = other.adopt(state, key=5)
    assert same(adopted.params, state.params)
    assert same(adopted.update.theta.information, state.update.theta.information)
    assert float(adopted.update.theta.prior) == 77
    assert adopted.steps == state.steps
    assert not same(adopted.key, state.key)
    other.run(adopted, STREAM)
    plain = nbt.Learner(learner.system, nbt.NoBackTrack(), nbt.SGD(0.1))
    assert plain.adopt(state).update.theta == ()
    assert float(np.abs(plain.adopt(state).influence.v).max()) == 0
