"""The information filter against textbooks: extended Kalman filter, fading memory, recursive least squares, metrics."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from systems import outside_path, symbol_inputs

import nobacktrack as nbt
from nobacktrack import checks
from nobacktrack.configuration import configuration, static
from nobacktrack.protocol import RowBlock
from nobacktrack.updates.metrics import Arrow

STREAM = nbt.streams.anbn(1, 5, length=60, seed=0)


def start(learner, seed=0, scale=1.0):
    """A state with a readout that says something."""
    state = learner.init(seed, dtype=jnp.float64)
    phi = scale * jax.random.normal(jax.random.key(1), state.params.phi.shape, jnp.float64)
    return state._replace(params=state.params._replace(phi=phi))


# --- Kalman 1 and 2: the extended Kalman filter on theta ------------------------------------------------------------


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


# --- Kalman 3: recursive least squares ------------------------------------------------------------------------------


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


# --- the metrics ----------------------------------------------------------------------------------------------------


def information_of(kind, samples):
    j = kind.zeros(samples[0])
    for g in samples:
        j = kind.add(j, jnp.asarray(0.9), g[None])
    return j


def samples(count=12, shape=(3, 2, 5), seed=0):
    return jax.random.normal(jax.random.key(seed), (count, *shape), jnp.float64)


def dense(kind, j, shape):
    """The matrix that a reduced form stands for, one block a row (without the prior)."""
    if isinstance(kind, nbt.BlockDiagonal):
        return j
    if isinstance(kind, nbt.Diagonal):
        return jnp.eye(shape[-1]) * j[..., None]
    completion = j.m0i[..., :, None] * j.m0i[..., None, :] / j.m00[..., None]
    eye = jnp.eye(shape[-1] - 1)
    weights = completion * (1 - eye) + eye * j.mii[..., None]
    top = jnp.concatenate([j.m00, j.m0i], axis=-1)[..., None, :]
    return jnp.concatenate([top, jnp.concatenate([j.m0i[..., None], weights], axis=-1)], axis=-2)


@pytest.fixture
def relaxed():
    """Rank promotion, for formulas written out in a test."""
    jax.config.update("jax_numpy_rank_promotion", "allow")
    yield
    jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.mark.parametrize("kind", [nbt.QuasiDiagonal(), nbt.BlockDiagonal(), nbt.Diagonal()], ids=repr)
@pytest.mark.parametrize("prior", [0.0, 0.7])
def test_solve_and_norms_are_those_of_the_dense_matrix(kind, prior, relaxed):
    data = samples()
    (j,) = information_of(kind, data)
    prior = jnp.asarray(prior)
    if isinstance(kind, nbt.QuasiDiagonal):  # Lambda goes to M_00 and M_ii, and the completion follows
        whole = dense(kind, Arrow(j.m00 + prior, j.m0i, j.mii + prior), data.shape[1:])
    else:
        whole = dense(kind, j, data.shape[1:]) + prior * jnp.eye(data.shape[-1])
    g = samples(1, seed=5)[0]
    wanted = jnp.linalg.solve(whole, g[..., None])[..., 0]
    assert float(jnp.abs(kind.solve((j,), prior, g) - wanted).max()) <= 1e-9 * float(jnp.abs(wanted).max())
    assert float(kind.norm2((j,), prior, g)) == pytest.approx(float(jnp.sum(g * wanted)), rel=1e-9)
    u = g[0, 0]
    rows = jnp.einsum("k,igkl,l->ig", u, jnp.linalg.inv(whole), u)
    np.testing.assert_allclose(kind.row_norm2((j,), prior, u[None, None], RowBlock(0, 0, *rows.shape)), rows, rtol=1e-9)


def test_full_metric_is_the_dense_matrix():
    data = samples(shape=(3, 2, 4))
    kind, prior = nbt.Full(), jnp.asarray(0.5)
    j = information_of(kind, data)
    flat = data.reshape(len(data), -1)
    whole = sum(0.9 ** (len(flat) - 1 - i) * jnp.outer(g, g) for i, g in enumerate(flat)) + 0.5 * jnp.eye(24)
    g = flat[0]
    np.testing.assert_allclose(kind.solve(j, prior, g.reshape(3, 2, 4)).ravel(), jnp.linalg.solve(whole, g), rtol=1e-9)
    u = jnp.arange(1.0, 5.0)
    blocks = np.linalg.inv(whole).reshape(6, 4, 6, 4)
    wanted = [[u @ blocks[2 * i + g, :, 2 * i + g] @ u for g in range(2)] for i in range(3)]
    np.testing.assert_allclose(kind.row_norm2(j, prior, u[None, None], RowBlock(0, 0, 3, 2)), wanted, rtol=1e-9)
    per_unit = jnp.stack([u, 2 * u, 3 * u])
    scaled = np.asarray(wanted) * np.array([[1.0], [4.0], [9.0]])
    np.testing.assert_allclose(kind.row_norm2(j, prior, per_unit[:, None], RowBlock(0, 0, 3, 2)), scaled, rtol=1e-9)


def _step_under_affine_inputs(kind, alpha, beta):
    """The change of the pre-activation a step makes, when every input a_i becomes alpha_i a_i + beta_i (Lambda = 0)."""
    random = np.random.default_rng(0)
    inputs = random.normal(size=(20, 4))
    errors = random.normal(size=(20, 1))
    seen = np.concatenate([np.ones((20, 1)), alpha * inputs + beta], axis=1)
    gradients = jnp.asarray(errors * seen)[:, None, :]
    j = information_of(kind, gradients)
    step = kind.solve(j, jnp.asarray(0.0), gradients[-1])
    return seen @ np.asarray(step)[0]


def test_quasi_diagonal_step_is_affine_invariant_and_the_diagonal_one_is_not():
    alpha, beta = np.array([2.0, 0.5, -3.0, 1.5]), np.array([1.0, -2.0, 0.5, 3.0])
    for kind, invariant in ((nbt.QuasiDiagonal(), True), (nbt.BlockDiagonal(), True), (nbt.Diagonal(), False)):
        plain, moved = (_step_under_affine_inputs(kind, *map_) for map_ in ((np.ones(4), np.zeros(4)), (alpha, beta)))
        gap = np.abs(plain - moved).max() / np.abs(plain).max()
        assert gap <= 1e-9 if invariant else gap > 0.1


def test_schur_terms_do_not_go_negative_in_float32():
    """A bias and a weight that always move together cancel: M_ii - M_0i^2 / M_00 is rounding noise of either sign."""
    kind = nbt.QuasiDiagonal()
    signal = (1e3 * jax.random.normal(jax.random.key(0), (200, 1, 1), jnp.float32)).astype(jnp.float32)
    data = jnp.concatenate([signal, 0.3 * signal, 0.7 * signal], axis=-1)
    j = kind.zeros(data[0])
    for g in data:
        j = kind.add(j, jnp.asarray(1.0, jnp.float32), g[None])
    prior = jnp.asarray(1e-3, jnp.float32)
    assert float(kind.norm2(j, prior, data[0])) >= 0
    assert bool(jnp.all(jnp.isfinite(kind.solve(j, prior, data[0]))))
    naive = j[0].mii - j[0].m0i ** 2 / (j[0].m00 + prior)
    assert float(jnp.min(naive)) < 0.0  # what the floor is for


def test_a_direction_of_which_nothing_is_known_does_not_move():
    for kind in (nbt.QuasiDiagonal(), nbt.Diagonal()):
        j = kind.zeros(jnp.zeros((2, 3)))
        step = kind.solve(j, jnp.asarray(0.0), jnp.ones((2, 3)))
        assert bool(jnp.all(step == 0))


# --- the update -----------------------------------------------------------------------------------------------------


def test_prior_is_the_number_of_units_by_default():
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


# --- norms ----------------------------------------------------------------------------------------------------------

NORMS = (
    nbt.MetricNorms(),
    nbt.EuclideanNorms(),
    nbt.InvariantNorms(),
    nbt.ForesightNorms(),
    nbt.GramianNorms(pace=0.5),
    nbt.Unscaled(),
)


def information_path(learner, state, steps):
    """Parameters and information moved from outside."""
    filters = []
    for seed in range(steps):
        g = samples(4, state.params.theta.shape, seed=seed)
        filters.append(
            state.update.theta._replace(
                information=learner.updates.theta.metric.add(state.update.theta.information, jnp.asarray(0.9), g)
            )
        )
    return filters


CASES = [
    *((norms, nbt.QuasiDiagonal(), 1) for norms in NORMS),
    (nbt.MetricNorms(), nbt.QuasiDiagonal(), 2),
    (nbt.InvariantNorms(), nbt.Diagonal(), 2),
    (nbt.InvariantNorms(), nbt.Full(), 1),
]


@pytest.mark.parametrize(("norms", "kind", "rank"), CASES, ids=repr)
def test_unbiased_with_every_norm_on_an_outside_path_of_theta_and_j(norms, kind, rank):
    learner = nbt.Learner(
        nbt.LeakyRNN(units=2, symbols=3), nbt.NoBackTrack(rank=rank, norms=norms), nbt.Kalman(metric=kind)
    )
    state = learner.init(0, dtype=jnp.float64)
    inputs, thetas, filters = symbol_inputs(4), outside_path(state.params.theta, 4), information_path(learner, state, 4)

    def along(learner, state, draws):
        for x, theta, filter_, draw in zip(inputs, thetas, filters, draws, strict=True):
            moved = state._replace(
                params=state.params._replace(theta=theta), update=state.update._replace(theta=filter_)
            )
            state = learner.advance_unchecked(moved, x, draw)
            dl_dh = jnp.array([0.7, -0.4])  # a loss from outside: some norms learn from it
            influence, _, _ = learner.estimator.observe(learner.system, state.influence, state.params, dl_dh)
            state = state._replace(influence=influence)
        return state

    def final(signs):
        draws = [(jnp.ones((rank, 2), jnp.int8),), *((signs[t],) for t in range(3))]
        return checks.estimated_influence(learner, along(learner, state, draws))

    mean = checks.mean_over_signs(final, jax.ShapeDtypeStruct((3, rank, 2), jnp.int8))
    wanted = checks.exact_influence(learner, state, inputs, thetas)
    assert checks.expect_close(mean, wanted, 1e-12, "unbiased") <= 1e-12


def test_the_gramian_is_the_worth_of_directions_to_the_losses_to_come():
    """For h' = A h + ..., Q = sum_k horizon^k (A^T)^k E[H^T H] A^k, whatever the pace."""
    a = jnp.array([[0.8, 0.3, 0.0], [0.0, 0.5, 0.2], [0.1, 0.0, 0.3]])
    system = nbt.System(lambda theta, h, x: a @ h + theta * x, lambda phi, h: h[0] - h[2], lambda y_hat, y: y_hat * y)
    learner = nbt.Learner(system, nbt.NoBackTrack(norms=nbt.GramianNorms(horizon=0.9, pace=0.1)), nbt.SGD(0.0))
    state = learner.init(0, theta=jnp.ones(3), phi=jnp.zeros(()), h=jnp.zeros(3), x=jnp.zeros(()))
    state, _ = learner.run(state, (np.ones(600), np.full(600, 2.0)))
    h_row = 2.0 * jnp.array([1.0, 0.0, -1.0])
    wanted = sum(
        0.9**k * jnp.linalg.matrix_power(a, k).T @ jnp.outer(h_row, h_row) @ jnp.linalg.matrix_power(a, k)
        for k in range(200)
    )
    np.testing.assert_allclose(state.influence.memory.worth, wanted, rtol=1e-9, atol=1e-9)


def test_the_gramian_is_what_v_is_measured_by():
    """|v|^2 = v^T Q v + floor tr(Q)/n |v|^2, and q is the diagonal of that matrix."""
    norms = nbt.GramianNorms(floor=0.5)
    half = jax.random.normal(jax.random.key(0), (4, 4), jnp.float64)
    q, v = half @ half.T, jax.random.normal(jax.random.key(1), (3, 4), jnp.float64)
    memory = norms.init(v[0])._replace(worth=q)
    ruler = norms.ruler(memory, None, None, nbt.SGD(0.1).metric_of(()))
    whole = q + 0.5 * jnp.trace(q) / 4 * jnp.eye(4)
    np.testing.assert_allclose(ruler.state_norms(v), jnp.sqrt(jnp.einsum("ki,ij,kj->k", v, whole, v)), rtol=1e-12)
    np.testing.assert_allclose(ruler.q, jnp.diagonal(whole), rtol=1e-12)


def test_the_gramian_of_an_unstable_system_stays_finite():
    system = nbt.System(lambda theta, h, x: 1.01 * h + theta * x, lambda phi, h: h.sum(), lambda y_hat, y: y_hat * y)
    learner = nbt.Learner(system, nbt.NoBackTrack(norms=nbt.GramianNorms()), nbt.SGD(0.0))
    state = learner.init(0, theta=jnp.ones(2), phi=jnp.zeros(()), h=jnp.zeros(2), x=jnp.zeros(()))
    state, _ = learner.run(state, (np.zeros(5000), np.ones(5000)))
    assert float(jnp.abs(state.influence.memory.worth).max()) < 200


def test_gramian_norms_refuse_a_system_of_several_sub_steps():
    stack = nbt.Stack([nbt.RNN(units=2, symbols=3)] * 2)
    with pytest.raises(ValueError, match="2 sub-steps"):
        nbt.Learner(stack, nbt.NoBackTrack(norms=nbt.GramianNorms()), nbt.Kalman()).init(0)


def test_foresight_norms_need_a_cell():
    system = nbt.System(lambda theta, h, x: theta * h + x, lambda phi, h: phi * h, lambda y_hat, y: (y_hat - y) ** 2)
    learner = nbt.Learner(system, nbt.NoBackTrack(norms=nbt.ForesightNorms()), nbt.Kalman())
    with pytest.raises(ValueError, match="recurrent cell"):
        learner.advance(learner.init(0, theta=0.5, phi=1.0, h=0.0, x=0.0), 1.0)


# --- invariance: the same run in other coordinates of theta and h ---------------------------------------------------


@configuration
class Seen(nbt.LeakyRNN):
    """The leaky RNN in other coordinates: h~ = d h + s, and theta~ = kappa theta, kappa being a number for each entry
    of the fan-in.
    """

    stretch: bool = static(default=True)  # whether theta is mapped too

    def coordinates(self):
        d = jnp.array([3.0, 0.5, 2.0, 7.0])[: self.units]
        s = jnp.array([1.0, -2.0, 0.3, 5.0])[: self.units]
        kappa = jnp.array([2.0, 0.3, 5.0, 1.5, 0.7, 4.0, 0.2, 3.0])[: 1 + self.units + 3]
        return d, s, kappa if self.stretch else jnp.ones_like(kappa)

    def activity(self, own):
        d, s, _ = self.coordinates()
        return super().activity((own - s[None, :]) / d[None, :])

    def fan_in(self, activity, x, below):
        others = self.coordinates()[2].at[1 : 1 + self.units].set(1)
        return super().fan_in(activity, x, below) / others

    def hear(self, activity):
        return activity / self.coordinates()[2][1 : 1 + self.units]

    def pointwise(self, a, own, setting):
        d, s, _ = self.coordinates()
        plain = super().pointwise(a, (own - s[None, :]) / d[None, :], setting)
        return d[None, :] * plain + s[None, :]


def trajectory(system, norms, rank, scale):
    """theta and h over 50 steps of learning; Lambda is an initial J, which the map transforms along."""
    first = Arrow(*(4.0 * jnp.ones((4, 1, k)) for k in (1, 7, 7)))
    first = first._replace(m0i=0 * first.m0i)
    squares = scale**2
    seen = Arrow(first.m00 / squares[:1], first.m0i, first.mii / squares[1:])
    update = nbt.Apart(theta=nbt.Kalman(prior=0.0, information=(seen,)), phi=nbt.Kalman())
    learner = nbt.Learner(system, nbt.NoBackTrack(rank=rank, norms=norms), update)
    plain = nbt.Learner(nbt.LeakyRNN(units=4, symbols=3), nbt.RTRL(), nbt.SGD(0.1)).init(0, dtype=jnp.float64)
    h = plain.h
    if isinstance(system, Seen):
        d, s, _ = system.coordinates()
        h = d * h + s
    state = learner.init(
        0, theta=plain.params.theta * scale, h=h, constants=plain.params.fixed.constants, dtype=jnp.float64
    )
    path = []
    for y in STREAM[:50]:
        state, _ = learner.step(state, y)
        path.append((state.params.theta / scale, state.h))
    return path


@pytest.mark.parametrize("rank", [2])
@pytest.mark.parametrize(
    ("norms", "stretch", "invariant"),
    [
        (nbt.InvariantNorms(), True, True),
        (nbt.ForesightNorms(), False, True),
        (nbt.MetricNorms(), True, False),
        (nbt.MetricNorms(), False, False),
    ],
    ids=repr,
)
def test_invariant_norms_give_the_same_run_in_other_coordinates(norms, stretch, invariant, rank, relaxed):
    """Coordinates of h and theta for Appendix B, of h for foresight, whose cell below hears theta's map only once."""
    system = Seen(units=4, symbols=3, stretch=stretch)
    d, s, kappa = system.coordinates()
    one = trajectory(nbt.LeakyRNN(units=4, symbols=3), norms, rank, jnp.ones(8))
    other = trajectory(system, norms, rank, kappa)
    theta_gap = max(float(jnp.abs(a - b).max()) for (a, _), (b, _) in zip(one, other, strict=True))
    h_gap = max(float(jnp.abs(a - (b - s) / d).max()) for (_, a), (_, b) in zip(one, other, strict=True))
    moved = float(jnp.abs(one[-1][0] - one[0][0]).max())
    assert moved > 0.05
    assert max(theta_gap, h_gap) <= 1e-9 if invariant else max(theta_gap, h_gap) > 1e-4
