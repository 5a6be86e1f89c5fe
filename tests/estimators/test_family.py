"""The family of estimators: unbiased ones by enumeration of their signs, biased ones by what they drop, each exact
where its theory says so.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tables import (
    BIASED,
    CELLS,
    ESTIMATORS,
    OF_CELLS,
    RING,
    SYSTEMS,
    UNBIASED,
    fits,
    outside_path,
    own_state,
    own_system,
    symbol_inputs,
    symbols,
    vector_inputs,
)

import nobacktrack as nbt
from nobacktrack import checks
from nobacktrack.estimators.diagonal import _off
from nobacktrack.estimators.kronecker import least_noisy
from nobacktrack.influence.immediate import linearise
from nobacktrack.protocol import Point

SPECIAL = ("diagonal unscaled", "kronecker 2")  # on two cells: what is special has nothing to do with the cell


def pairs():
    """Cells and what carries their influence without bias; the quick ones have all of both."""
    for cell in CELLS:
        for name in ("uoro", *OF_CELLS):
            if fits(CELLS[cell].small, UNBIASED[name]) and (name not in SPECIAL or cell in ("rnn", "leaky")):
                quick = cell in ("leaky", "lstm") or name == "diagonal"
                yield pytest.param(cell, name, marks=() if quick else pytest.mark.slow)


def started(system, estimator, update=None):
    learner = nbt.Learner(system, estimator, update or nbt.SGD(0.1))
    return learner, learner.init(0, dtype=jnp.float64)


@pytest.mark.parametrize(("cell", "estimator"), list(pairs()))
def test_mean_over_all_signs_is_the_exact_influence(cell, estimator):
    steps = 3 if cell == "lstm" else 4
    learner, state = started(CELLS[cell].small, UNBIASED[estimator])
    path = outside_path(state.params.theta, steps)
    assert checks.check_unbiased(learner, state, symbol_inputs(steps), path) <= 1e-12


def test_higher_ranks_are_unbiased_too():
    learner, state = started(nbt.LeakyRNN(units=2, symbols=3), nbt.DiagonalPlusRankOne(rank=2))
    path = outside_path(state.params.theta, 4)
    assert checks.check_unbiased(learner, state, symbol_inputs(4), path) <= 1e-12


def test_uoro_of_a_system_of_ones_own():
    learner = nbt.Learner(own_system(), nbt.UORO(), nbt.SGD(0.1))
    state = own_state(learner)
    path = outside_path(state.params.theta, 4)
    assert checks.check_unbiased(learner, state, vector_inputs(4), path) <= 1e-12


LARGER = (
    ("leaky", nbt.DiagonalPlusRankOne()),
    ("lstm", nbt.DiagonalPlusRankOne()),
    ("graph", nbt.UORO()),
    ("graph", nbt.DiagonalPlusRankOne()),
    ("lstm", nbt.DiagonalPlusRankOne(lag=3, norms=nbt.GramianNorms())),
    ("lstm", nbt.KFRTRL()),
    ("lstm", nbt.KroneckerSum(rank=5)),
    ("two layers", nbt.UORO()),
)
QUICK = LARGER[0], LARGER[2], LARGER[5]


@pytest.mark.parametrize(
    ("system", "estimator"),
    [pytest.param(*case, marks=() if case in QUICK else pytest.mark.slow) for case in LARGER],
    ids=repr,
)
def test_one_step_identity_from_a_state_along_a_run(system, estimator):
    learner = nbt.Learner(SYSTEMS[system].large, estimator, nbt.Kalman())
    state, _ = learner.run(learner.init(0, dtype=jnp.float64), symbols(50))
    assert checks.check_one_step(learner, state, jnp.int32(1)) <= 1e-11


@pytest.mark.parametrize("cell", CELLS)
def test_loops_are_the_blocks_of_the_jacobian(cell):
    system = CELLS[cell].small
    learner, state = started(system, nbt.SnAp1())
    state, _ = learner.run(state, np.array([0, 1, 2, 0, 1]))
    substep, n = system.substeps[0], state.h.size
    following = linearise(substep, Point(state.params, state.h, jnp.int32(1)))
    dense = np.asarray(jax.vmap(following.push, out_axes=1)(jnp.eye(n)))
    units, components = system.units, system.components
    blocks = dense.reshape(components, units, components, units)
    loops = following.loops()
    own = np.stack([blocks[:, u, :, u] for u in range(units)], axis=-1)
    np.testing.assert_allclose(loops.own, own, atol=1e-14)
    off = _off(loops, substep)
    across = (off[:, None, :] * loops.through[None]).reshape(dense.shape)  # through activities
    same = jnp.eye(off.shape[1])[None, :, None, :] * jnp.moveaxis(loops.own, 1, 2)[:, :, :, None]
    np.testing.assert_allclose(across + same.reshape(dense.shape), dense, atol=1e-14)
    np.testing.assert_array_equal(np.einsum("cuu->cu", off.reshape(components, units, units)), 0)


def dropping(system, state, inputs, path, estimator):
    """dh/dtheta with a Jacobian from which something was dropped, by dense recursion."""
    influence = nbt.RTRL().init(system, Point(state.params, state.h, inputs[0]))
    for x, theta in zip(inputs, path, strict=True):
        at = Point(state.params._replace(theta=theta), state.h, x)
        following = linearise(system.substeps[0], at)
        n = state.h.size
        dense = jax.vmap(following.push, out_axes=1)(jnp.eye(n))
        same = jnp.tile(jnp.eye(system.units), (system.components, system.components))
        if isinstance(estimator, nbt.SnAp1):
            kept = dense * same
        elif isinstance(estimator, nbt.RFLO):
            frozen = at._replace(params=at.params._replace(theta=silenced(system, theta)))
            kept = jax.vmap(linearise(system.substeps[0], frozen).push, out_axes=1)(jnp.eye(n))
        else:
            kept = 0 * dense
        influence = following.rows.add(system.substeps[0], jnp.tensordot(kept, influence, axes=1))
        state = state._replace(h=following.h)
    return influence


def silenced(system, theta):
    return theta.at[:, :, 1 : 1 + system.degree].set(0)


@pytest.mark.parametrize("name", BIASED)
@pytest.mark.parametrize("cell", ["rnn", "leaky"])
def test_biased_ones_fail_by_what_they_drop(cell, name):
    system, estimator = CELLS[cell].small, BIASED[name]
    learner, state = started(system, estimator)
    inputs, path = symbol_inputs(4), outside_path(state.params.theta, 4)
    found = checks.estimated_influence(learner, checks.along(learner, state, inputs, path, [()] * 4))
    expected = dropping(system, state, inputs, path, estimator)
    np.testing.assert_allclose(found, expected, atol=1e-14)
    exact = checks.exact_influence(learner, state, inputs, path)
    assert float(jnp.max(jnp.abs(exact - expected))) > 1e-3
    with pytest.raises(AssertionError, match="dh/dtheta"):
        checks.check_unbiased(learner, state, inputs, path)


ALONE = [(i, i) for i in range(3)]  # each unit hears itself and no other


@pytest.mark.parametrize("estimator", [nbt.SnAp1(), nbt.DiagonalPlusRankOne()], ids=repr)
@pytest.mark.parametrize("system", [nbt.RNN(units=3, symbols=3, graph=ALONE), nbt.LRU(units=3, symbols=3)], ids=repr)
def test_exact_on_units_that_do_not_meet(system, estimator):
    exact_where_it_should_be(system, estimator)


@pytest.mark.parametrize("estimator", [nbt.RFLO(), nbt.SnAp1()], ids=repr)
def test_exact_without_recurrent_weights(estimator):
    """A leaky RNN whose units hear the input alone: all that is left is the leak."""
    exact_where_it_should_be(nbt.LeakyRNN(units=3, symbols=3), estimator, silent=True)


def exact_where_it_should_be(system, estimator, silent=False):
    learner, state = started(system, estimator)
    inputs, path = symbol_inputs(6), outside_path(state.params.theta, 6)
    path = [silenced(system, theta) for theta in path] if silent else path
    drawn = [learner.draw(state, jnp.array([0, t], jnp.uint32)) for t in range(6)]
    found = checks.estimated_influence(learner, checks.along(learner, state, inputs, path, drawn))
    exact = checks.exact_influence(learner, state, inputs, path)
    np.testing.assert_allclose(found, exact, atol=1e-13)


@pytest.mark.parametrize("name", ["uoro", *OF_CELLS, *BIASED])
def test_exact_after_one_step(name):
    estimator = ESTIMATORS[name]
    learner, state = started(nbt.LSTM(units=3, symbols=3), estimator)
    inputs, path = symbol_inputs(1), outside_path(state.params.theta, 1)
    drawn = [learner.draw(state, state.t)]
    found = checks.estimated_influence(learner, checks.along(learner, state, inputs, path, drawn))
    exact = checks.exact_influence(learner, state, inputs, path)
    if isinstance(estimator, nbt.UORO):  # its newest rows are random: exact in the mean alone
        assert float(jnp.max(jnp.abs(found - exact))) > 1e-3
    else:
        np.testing.assert_allclose(found, exact, atol=1e-13)


@pytest.mark.parametrize(
    ("system", "estimator", "message"),
    [
        (nbt.Stack([nbt.RNN(units=2, symbols=3)] * 2), nbt.SnAp1(), "SnAp1 needs a recurrent cell"),
        (nbt.GRU(units=2, symbols=3), nbt.KFRTRL(), "same fan-in"),
        (nbt.RNN(units=2, symbols=3, graph=RING), nbt.KFRTRL(), "same fan-in"),
        (nbt.RNN(units=2, symbols=3), nbt.KroneckerSum(rank=6), "rank must be below the fan-in, 6, not 6"),
    ],
)
def test_systems_they_cannot_carry_are_refused(system, estimator, message):
    with pytest.raises(ValueError, match=message):
        nbt.Learner(system, estimator, nbt.SGD(0.1)).init(0)


def test_settings_that_they_cannot_use_are_refused():
    with pytest.raises(ValueError, match="norms: Appendix B"):
        nbt.DiagonalPlusRankOne(norms=nbt.InvariantNorms())
    with pytest.raises(ValueError, match="power of two, not 15"):
        nbt.ARTBP(depth=15)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_kronecker_sums_are_exact_while_the_influence_has_their_form(rank):
    """After r + 1 steps there are r + 1 products, all of them kept; one step more and signs count."""
    learner, state = started(nbt.RNN(units=3, symbols=3), nbt.KroneckerSum(rank=rank))
    for steps, exact_there in ((rank + 1, True), (rank + 2, False)):
        inputs, path = symbol_inputs(steps), outside_path(state.params.theta, steps)
        drawn = [learner.draw(state, jnp.array([0, t], jnp.uint32)) for t in range(steps)]
        found = checks.estimated_influence(learner, checks.along(learner, state, inputs, path, drawn))
        exact = checks.exact_influence(learner, state, inputs, path)
        assert np.allclose(found, exact, atol=1e-12) == exact_there


@pytest.mark.parametrize("at_rest", [True, False])
def test_one_kronecker_product_is_exact_while_the_fan_in_stays_the_same(at_rest):
    """At rest, with the same input again and again, dh/dtheta is one Kronecker product. One reduction of what is a
    product to rounding adds noise of the root of that, sqrt(2 d_1 d_2).
    """
    learner, state = started(nbt.LeakyRNN(units=3, symbols=3), nbt.KroneckerSum(rank=1))
    theta = 0.2 * state.params.theta
    inputs = [jnp.int32(1)] * 3 if at_rest else symbol_inputs(3)
    rest = state._replace(params=state.params._replace(theta=theta))
    for _ in range(400):
        rest = rest._replace(h=learner.system.evolve(rest.params, rest.h, jnp.int32(1)))
    drawn = [learner.draw(state, jnp.array([0, t], jnp.uint32)) for t in range(3)]
    found = checks.estimated_influence(learner, checks.along(learner, rest, inputs, [theta] * 3, drawn))
    exact = checks.exact_influence(learner, rest, inputs, [theta] * 3)
    assert np.allclose(found, exact, atol=1e-6) == at_rest


def test_the_least_noisy_reduction_has_the_variance_of_its_theorem():
    """sum over the mixed values: s^2 / k - sum d^2, and what is kept adds none [Benzing et al. 2019]."""
    d = np.array([5.0, 1.0, 0.8, 0.7])
    rotate = [np.linalg.qr(np.random.default_rng(seed).normal(size=(6, 4)))[0] for seed in (0, 1)]
    a, u = jnp.asarray((rotate[0] * np.sqrt(d)).T), jnp.asarray((rotate[1] * np.sqrt(d)).T)

    def product(signs):
        less_a, less_u = least_noisy(a, u, signs)
        return jnp.einsum("kp,kq->pq", less_a, less_u)

    template = jax.ShapeDtypeStruct((4,), jnp.int8)
    mean = checks.mean_over_signs(product, template)
    np.testing.assert_allclose(mean, a.T @ u, atol=1e-13)
    spread = checks.mean_over_signs(lambda signs: jnp.sum((product(signs) - a.T @ u) ** 2), template)
    tail = d[1:]
    np.testing.assert_allclose(spread, tail.sum() ** 2 / 2 - (tail**2).sum(), rtol=1e-12)


def summed(learner, state, symbols, coins):
    """The gradients of all blocks along a stream, the last one being cut at its end; parameters are held."""
    total = jnp.zeros_like(state.params.theta)
    for y, coin in zip(symbols, coins, strict=True):
        _, evidence, influence, _ = learner.differentiate(state, y)
        total = total + evidence.theta.gradient
        state = learner.advance_unchecked(state._replace(influence=influence), y, (coin,))
    last = state._replace(influence=state.influence._replace(ends=jnp.ones((), bool)))
    return total + learner.differentiate(last, symbols[0])[1].theta.gradient


@pytest.mark.parametrize("depth", [2, 4])
@pytest.mark.parametrize("gain_is_right", [True, False])
def test_mean_over_all_coins_of_artbp_is_the_unrolled_gradient(depth, gain_is_right, monkeypatch):
    if not gain_is_right:
        monkeypatch.setattr(nbt.ARTBP, "gain", 1.0)
    learner, state = started(nbt.LSTM(units=2, symbols=3), nbt.ARTBP(depth=depth))
    phi = jax.random.normal(jax.random.key(3), state.params.phi.shape, jnp.float64)  # zero at the start
    state, symbols = state._replace(params=state.params._replace(phi=phi)), symbol_inputs(6)
    template = jax.ShapeDtypeStruct((6, depth.bit_length() - 1), jnp.int8)
    mean = checks.mean_over_signs(lambda coins: summed(learner, state, symbols, coins), template)
    stream = jnp.stack([*symbols, symbols[0]])  # the target that closes the last block counts
    exact = checks.unrolled_gradient(learner, state, stream).theta
    assert np.allclose(mean, exact, atol=1e-13) == gain_is_right


def test_blocks_of_artbp_end_at_random_with_the_mean_that_was_asked():
    learner, state = started(nbt.RNN(units=2, symbols=3), nbt.ARTBP(depth=8))
    at = jnp.stack([jnp.zeros(4000, jnp.uint32), jnp.arange(4000, dtype=jnp.uint32)], axis=1)
    coins = jax.vmap(lambda t: jnp.all(learner.draw(state, t)[0] < 0))(at)
    assert 400 < int(coins.sum()) < 600
