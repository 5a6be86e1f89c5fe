"""The information filter against textbooks: extended Kalman filter, fading memory, recursive least squares."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import nobacktrack as nbt
from nobacktrack import checks
from nobacktrack.updates.kalman import Hearing

STREAM = nbt.streams.anbn(1, 5, length=60, seed=0)


def start(learner, seed=0, scale=1.0):
    """A state with a readout that says something."""
    state = learner.init(seed, dtype=jnp.float64)
    phi = scale * jax.random.normal(jax.random.key(1), state.params.phi.shape, jnp.float64)
    return state._replace(params=state.params._replace(phi=phi))


def ekf(system, params, h, symbols, covariance, fading):
    """Textbook EKF on theta, which observes the first A - 1 one-hot coordinates, with the exact G by RTRL.

    The innovation is z - p, its covariance S = H P H^T + R, with R = (diag p - p p^T) restricted and H = R
    dlogits/dtheta.
    """
    theta = np.asarray(params.theta).ravel()
    influence = np.zeros((h.size, theta.size))

    def evolve(theta, h, x):
        return system.evolve(params._replace(theta=theta.reshape(params.theta.shape)), h, x)

    for t, y in enumerate(symbols):
        covariance = covariance / (1 - fading(t + 1))
        logits, dlogits_dh = system.predict(params, h), jax.jacobian(lambda h: system.predict(params, h))(h)
        p = np.asarray(jax.nn.softmax(logits))
        observed = np.eye(p.size)[y][:-1] - p[:-1]
        r = (np.diag(p) - np.outer(p, p))[:-1, :-1]
        # dp/dlogits restricted to the first A - 1 rows is (diag p - p p^T)[:-1, :]
        big_h = (np.diag(p) - np.outer(p, p))[:-1] @ np.asarray(dlogits_dh) @ influence
        gain = covariance @ big_h.T @ np.linalg.inv(big_h @ covariance @ big_h.T + r)
        theta = theta + gain @ observed
        covariance = covariance - gain @ big_h @ covariance
        influence = np.asarray(jax.jacobian(evolve, 1)(theta, h, y)) @ influence + np.asarray(
            jax.jacobian(evolve)(theta, h, y)
        )
        h = evolve(theta, h, y)
    return theta


@pytest.mark.parametrize("fading", [0.0, 0.02], ids=["no decay", "fading memory"])
def test_full_filter_with_the_exact_fisher_matrix_is_the_extended_kalman_filter(fading):
    system = nbt.LeakyRNN(units=3, symbols=3, activation="tanh")
    size = 3 * (1 + 3 + 3)
    # Lambda is not decayed: with fading memory, P0^-1 is an initial J and Lambda is zero.
    prior, information = (4.0, None) if fading == 0 else (0.0, 4.0 * jnp.eye(size))
    theta = nbt.Kalman(decay=fading, prior=prior, metric=nbt.Full(), fisher=nbt.ExactFisher(), information=information)
    learner = nbt.Learner(system, nbt.RTRL(), nbt.Apart(theta=theta, phi=nbt.Frozen()))
    state = start(learner)
    symbols = STREAM[:40]
    after, _ = learner.run(state, symbols)
    wanted = ekf(system, state.params, state.h, symbols, np.eye(size) / 4.0, lambda t: fading)
    assert float(np.abs(np.asarray(after.params.theta).ravel() - wanted).max()) <= 1e-9
    assert float(np.abs(wanted - np.asarray(state.params.theta).ravel()).max()) > 0.1


def test_fading_memory_that_changes_in_time():
    system = nbt.RNN(units=2, symbols=3)
    size = 2 * (1 + 2 + 3)
    theta = nbt.Kalman(
        decay=nbt.inverse_sqrt(0.05),
        prior=0.0,
        metric=nbt.Full(),
        fisher=nbt.ExactFisher(),
        information=3.0 * jnp.eye(size),
    )
    learner = nbt.Learner(system, nbt.RTRL(), nbt.Apart(theta=theta, phi=nbt.Frozen()))
    state = start(learner)
    after, _ = learner.run(state, STREAM[:30])
    wanted = ekf(system, state.params, state.h, STREAM[:30], np.eye(size) / 3.0, lambda t: 0.05 / np.sqrt(t))
    assert float(np.abs(np.asarray(after.params.theta).ravel() - wanted).max()) <= 1e-9


def test_linear_gaussian_readout_is_recursive_least_squares():
    system = nbt.RNN(units=4, inputs=2, outputs=1)
    phi = nbt.Kalman(decay=0.0, prior=2.0, metric=nbt.Full(), fisher=nbt.ExactFisher())
    learner = nbt.Learner(system, nbt.RTRL(), nbt.Apart(theta=nbt.Frozen(), phi=phi))
    state = learner.init(0, dtype=jnp.float64)
    random = np.random.default_rng(0)
    x, y = random.normal(size=(80, 2)), random.normal(size=(80, 1))
    features = []
    by_hand = state
    for each in x:
        by_hand = learner.advance(by_hand, each)
        features.append(np.concatenate([[1.0], jax.nn.sigmoid(by_hand.h)]))
    after, _ = learner.run(state, (x, y))
    a = np.stack(features)
    ridge = np.linalg.solve(a.T @ a + 2.0 * np.eye(5), a.T @ y[:, 0])
    assert float(np.abs(np.asarray(after.params.phi)[0] - ridge).max()) <= 1e-9


def test_prior_and_decay_follow_from_the_noise_where_it_is_known():
    system = nbt.RNN(units=7, symbols=3)
    update = nbt.Kalman()
    assert (update.decay_of(True), update.decay_of(False)) == (nbt.inverse_sqrt(0.03), nbt.inverse_sqrt(0.1))
    assert nbt.Kalman(decay=0.5).decay_of(True) == 0.5
    learner = nbt.Learner(system, nbt.BlockNoBackTrack(depth=1), nbt.Kalman())
    for engine in ("jax", "fused"):
        start, stream = learner.init(0, dtype=jnp.float64), nbt.streams.anbn(1, 8, length=301, seed=0)
        state, _ = learner.run(start, stream, engine=engine)
        noise = float(learner.estimator.noise(state.influence))
        assert noise > 5e-3
        assert float(state.update.theta.prior) == pytest.approx(2 * (1 + noise), rel=1e-9)
        assert float(state.update.phi.prior) == pytest.approx(2 * (1 + noise), rel=1e-3)


@pytest.mark.parametrize("engine", ["jax", "fused"])
@pytest.mark.parametrize("estimator", [nbt.TruncatedBPTT(depth=5), nbt.BlockNoBackTrack(depth=10, every=5)])
def test_the_prior_follows_from_what_the_rows_hear(engine, estimator):
    """Units of variance about 1 each: V is that of what was shown at the targets at which the rows moved."""
    learner = nbt.Learner(nbt.GRU(units=30, inputs=2, outputs=1), estimator, nbt.Kalman())
    random = np.random.default_rng(0)
    stream = 9 * random.normal(size=(60, 2)), random.normal(size=(60, 1))
    state, shown, theta, noises = learner.init(0, dtype=jnp.float64), [], [], []
    after, _ = learner.run(state, stream, engine=engine)
    for x, y in zip(*stream, strict=True):
        state = learner.advance(state, x)
        noises.append(estimator.noise(state.influence))
        moved = state.params.theta
        shown.append(np.asarray(state.h))
        state, _ = learner.observe(state, y)
        if np.any(state.params.theta != moved):
            theta.append(shown[-1])
    groups = (theta, 2, estimator.noise(state.influence)), (shown, 0, noises[-1])
    for moves, (heard, inputs, noise) in zip(after.update, groups, strict=True):
        samples = len(heard)
        variance = (30 + samples * np.var(heard, axis=0).sum()) / (samples + 1)
        np.testing.assert_allclose(moves.hearing.mean, np.mean(heard, axis=0), rtol=1e-9)
        np.testing.assert_allclose(moves.hearing.variance, variance, rtol=1e-9)
        assert variance > 4
        np.testing.assert_allclose(moves.prior, (variance + inputs) / 2 * (1 + noise), rtol=1e-9)


def test_what_is_heard_is_forgotten_at_last_and_counts_from_several_streams():
    hearing = Hearing(jnp.asarray(1e6), jnp.array([1.0, 2.0]), jnp.asarray(3.0)).listen(jnp.array([[2.0, 2], [1, 5]]))
    np.testing.assert_allclose(hearing.mean, [1.0005, 2.0015])
    np.testing.assert_allclose(hearing.variance, 3 + (0.999 * 5 - 3) / 1000)
    together = nbt.Together(nbt.Learner(nbt.GRU(units=9, symbols=3), nbt.TruncatedBPTT(depth=2), nbt.Kalman()), 2)
    state, _ = together.run(together.init(0), np.array([[0, 1], [1, 2], [2, 0], [0, 0], [1, 1]]))
    assert float(state.update.phi.hearing.samples) == 5
    assert 0 < float(state.update.phi.hearing.variance) < 9


def test_a_system_without_rows_has_the_least_prior():
    system = nbt.System(lambda theta, h, x: theta * h + x, lambda phi, h: phi * h, lambda y_hat, y: (y_hat - y) ** 2)
    learner = nbt.Learner(system, nbt.TruncatedBPTT(depth=2), nbt.Kalman())
    state = learner.init(0, theta=0.5, phi=1.0, h=0.0, x=0.0)
    for _ in range(2):
        assert (float(state.update.theta.prior), state.update.theta.hearing) == (2, ())
        state, _ = learner.run(state, (np.ones(6), np.ones(6)))


@pytest.mark.parametrize("engine", ["jax", "fused"])
def test_a_state_of_another_prior_gets_the_one_that_follows(engine):
    learner = nbt.Learner(nbt.RNN(units=7, symbols=3), nbt.TruncatedBPTT(depth=5), nbt.Kalman())
    state = learner.init(0)
    other = state.update._replace(theta=state.update.theta._replace(prior=jnp.float32(50)))
    after, _ = learner.run(state._replace(update=other), nbt.streams.anbn(1, 8, length=50, seed=0), engine=engine)
    assert float(after.update.theta.prior) == 2


def evidence_of(gradient):
    return nbt.protocol.Evidence(gradient, lambda _: gradient, lambda: (), noise=0.0)


def test_a_shock_is_damped_and_what_is_usual_is_not():
    update, layout = nbt.Kalman(decay=0.5, metric=nbt.Diagonal()), nbt.protocol.Layout(False, 3, True)
    params, usual = jnp.zeros(3), jnp.array([0.1, 0.2, 0.3])
    state = before = update.init(params, layout)
    for t in range(50):
        before = state
        state, moved = update.apply(state, params, evidence_of(usual), jnp.asarray(float(t + 1)))
        np.testing.assert_allclose(moved, -update.metric_of(state).raised(usual), rtol=1e-12)
    lengths, metric = state.lengths, update.metric_of(state)
    assert 0 < float(lengths.usual) < 0.1
    np.testing.assert_allclose(lengths.gradients, 50)
    np.testing.assert_allclose(
        lengths.usual,
        before.lengths.usual + (update.metric_of(before).norm2(usual) - before.lengths.usual) / 50,
        rtol=1e-12,
    )
    shock, bound = 1e4 * usual, 1 + 10 * lengths.usual
    shortened = shock * jnp.sqrt(bound / metric.norm2(shock))
    following, moved = update.apply(state, params, evidence_of(shock), jnp.asarray(51.0))
    np.testing.assert_allclose(moved, -update.metric_of(following).raised(shortened), rtol=1e-12)
    np.testing.assert_allclose(following.information[0], 0.5 * state.information[0] + shortened**2, rtol=1e-12)
    np.testing.assert_allclose(following.lengths.usual, lengths.usual + (bound - lengths.usual) / 51, rtol=1e-12)
    nothing, _ = update.apply(state, params, evidence_of(jnp.zeros(3)), jnp.asarray(51.0))
    assert nothing.lengths == lengths
    for beyond in (1e200, jnp.inf, jnp.nan):
        following, moved = update.apply(state, params, evidence_of(beyond * usual), jnp.asarray(51.0))
        np.testing.assert_array_equal(moved, params)
        assert following.lengths == lengths


def test_shocks_are_damped_where_lambda_follows_from_the_noise_and_in_theta_alone():
    def lengths(estimator, update):
        moves = nbt.Learner(nbt.RNN(units=3, symbols=3), estimator, update).init(0).update
        return [len(moves.theta.lengths), len(moves.phi.lengths)]

    assert lengths(nbt.TruncatedBPTT(), nbt.Kalman()) == [2, 0]
    assert lengths(nbt.BlockNoBackTrack(), nbt.Kalman()) == [2, 0]
    assert lengths(nbt.TruncatedBPTT(), nbt.Kalman(prior=2)) == [0, 0]
    for estimator in (nbt.NoBackTrack(), nbt.RTRL(), nbt.SnAp1(), nbt.SlidingBPTT()):
        assert lengths(estimator, nbt.Kalman()) == [0, 0]


@pytest.mark.parametrize("estimator", [nbt.TruncatedBPTT(depth=5), nbt.BlockNoBackTrack(depth=10, every=5)])
def test_engines_damp_alike(estimator):
    learner = nbt.Learner(nbt.LSTM(units=4, symbols=3), estimator, nbt.Kalman())
    start, ends = learner.init(0, dtype=jnp.float64), []
    phi = 100 * jax.random.normal(jax.random.key(0), start.params.phi.shape, jnp.float64)
    wild = start._replace(params=start.params._replace(phi=phi))
    for engine in ("jax", "fused"):
        ends.append(learner.run(wild, nbt.streams.anbn(1, 8, length=200, seed=0), engine=engine)[0])
    theta = wild.update.theta._replace(lengths=())
    undamped = wild._replace(update=wild.update._replace(theta=theta))
    other, _ = learner.run(undamped, nbt.streams.anbn(1, 8, length=200, seed=0), engine="jax")
    assert float(jnp.abs(other.params.theta - ends[0].params.theta).max()) > 0.1, "nothing was damped"
    assert float(ends[0].update.theta.lengths.usual) > 0
    assert checks.expect_close(ends[0].update.theta, ends[1].update.theta, 1e-9, "the filter") <= 1e-9


@pytest.mark.parametrize("engine", ["jax", "fused"])
@pytest.mark.parametrize("estimator", [nbt.BlockNoBackTrack(depth=240), nbt.TruncatedBPTT(depth=240)])
def test_a_gradient_beyond_floats_is_left_out(engine, estimator):
    """Units at rest that double each deviation: after 200 steps without a target there are derivatives of 2^200."""
    learner = nbt.Learner(nbt.RNN(units=2, symbols=3, activation="tanh"), estimator, nbt.Kalman())
    state, x = learner.init(0), np.arange(300) % 3
    theta = jnp.zeros_like(state.params.theta).at[:, 0, 1:3].set(2 * jnp.eye(2, dtype=jnp.float32))
    phi = jnp.ones_like(state.params.phi).at[0].set(-1)
    state = state._replace(params=state.params._replace(theta=theta, phi=phi))
    after, _ = learner.run(state, nbt.Pairs(x, x, np.arange(300) >= 200), engine=engine)
    assert checks.same_bits(after.params.theta, theta)
    assert float(after.update.theta.lengths.gradients) == 0
    assert np.any(after.params.phi != phi)


def test_prior_is_the_number_of_units_where_it_is_not():
    for system, units in ((nbt.RNN(units=7, symbols=3), 7), (nbt.LeakyRNN(units=4, symbols=3), 4)):
        state = nbt.Learner(system, nbt.NoBackTrack(), nbt.Kalman()).init(0)
        assert float(state.update.theta.prior) == float(state.update.phi.prior) == units
    assert (
        float(nbt.Learner(nbt.RNN(units=7, symbols=3), nbt.RTRL(), nbt.Kalman(prior=3.0)).init(0).update.theta.prior)
        == 3
    )


def test_one_step_is_the_formula():
    learner = nbt.Learner(
        nbt.RNN(units=3, symbols=3), nbt.RTRL(), nbt.Kalman(decay=0.25, metric=nbt.Diagonal(), prior=2.0)
    )
    state, _ = learner.run(start(learner), STREAM[:10])
    gradient = learner.gradient(state, 1)
    after, _ = learner.observe(state, 1)
    j = 0.75 * state.update.theta.information[0] + gradient.theta**2
    np.testing.assert_allclose(after.update.theta.information[0], j, rtol=1e-12)
    np.testing.assert_allclose(after.params.theta, state.params.theta - gradient.theta / (j + 2.0), rtol=1e-12)


def test_information_grows_at_the_first_of_every_so_many_gradients():
    update = nbt.Kalman(decay=0.25, metric=nbt.Diagonal(), prior=2.0, every=3)
    learner = nbt.Learner(nbt.RNN(units=3, symbols=3), nbt.RTRL(), update)
    state, j = start(learner), 0.0
    for t, y in enumerate(STREAM[:7].tolist()):
        gradient = learner.gradient(state, y)
        if t % 3 == 0:
            j = 0.75**3 * j + 3 * gradient.theta**2
        after, _ = learner.observe(state, y)
        np.testing.assert_allclose(after.update.theta.information[0], j, rtol=1e-12)
        np.testing.assert_allclose(after.params.theta, state.params.theta - gradient.theta / (j + 2.0), rtol=1e-12)
        state = learner.advance(after, y)
    assert int(state.update.theta.age) == 1


def test_without_unit_rows_the_metric_falls_back_and_says_so():
    system = nbt.System(lambda theta, h, x: theta * h + x, lambda phi, h: phi * h, lambda y_hat, y: (y_hat - y) ** 2)
    for kind, name in ((nbt.QuasiDiagonal(), "quasi-diagonal"), (nbt.BlockDiagonal(), "block-diagonal")):
        learner = nbt.Learner(system, nbt.NoBackTrack(), nbt.Kalman(metric=kind))
        assert f"Diagonal(reason='no unit rows for a {name} one')" in repr(learner)
    state = learner.init(0, theta=0.5, phi=1.0, h=0.0, x=0.0)
    state, _ = learner.run(state, (np.ones(50), np.ones(50) * 2.0))
    assert abs(float(learner.predict(state)) - 2.0) < 0.2


@pytest.mark.parametrize(
    "estimator", [nbt.RTRL(), nbt.TruncatedBPTT(depth=5), nbt.SlidingBPTT(depth=5), nbt.SplitNoBackTrack()]
)
@pytest.mark.parametrize("kind", [nbt.QuasiDiagonal(), nbt.Full()], ids=repr)
def test_every_estimator_learns_with_every_metric(estimator, kind):
    learner = nbt.Learner(nbt.LeakyRNN(units=4, symbols=3), estimator, nbt.Kalman(metric=kind))
    _, info = learner.run(learner.init(0), np.tile(np.array([0, 0, 1, 2], np.int32), 200))
    assert info.bits[-100:].mean() < 0.5 < info.bits[:10].mean()


def test_block_methods_have_no_exact_fisher_matrix():
    learner = nbt.Learner(nbt.RNN(units=3, symbols=3), nbt.TruncatedBPTT(4), nbt.Kalman(fisher=nbt.ExactFisher()))
    with pytest.raises(ValueError, match="OuterProduct"):
        learner.observe(learner.init(0), 1)


def test_fisher_roots_are_roots():
    y_hat = jnp.array([0.3, -1.0, 2.0])
    softmax = nbt.RNN(units=2, symbols=3)
    root = softmax.fisher_root(y_hat, jnp.int32(0))
    np.testing.assert_allclose(root.T @ root, jax.hessian(lambda y: softmax.loss(y, jnp.int32(0)))(y_hat), atol=1e-12)
    own = nbt.System(lambda theta, h, x: h, lambda phi, h: h, lambda y_hat, y: jax.nn.logsumexp(y_hat) - y_hat[y])
    root = own.fisher_root(y_hat, 1)
    np.testing.assert_allclose(root.T @ root, jax.hessian(lambda y: own.loss(y, 1))(y_hat), atol=1e-7)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nbt.Kalman(decay=-0.1), "decay"),
        (lambda: nbt.Kalman(prior=-1.0), "prior"),
        (lambda: nbt.Kalman(every=0), "every"),
        (lambda: nbt.Kalman(prior=float("nan")), "prior"),
        (lambda: nbt.SplitNoBackTrack(norms=nbt.InvariantNorms()), "norms"),
        (
            lambda: nbt.Learner(nbt.RNN(units=3, symbols=3), nbt.RTRL(), nbt.Kalman(information=jnp.eye(3))).init(0),
            "information",
        ),
    ],
)
def test_bad_arguments_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
