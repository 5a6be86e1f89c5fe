"""Norms for the scales of a reduction: unbiased, stable, invariant."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tables import outside_path, symbol_inputs

import nobacktrack as nbt
from nobacktrack import checks
from nobacktrack.configuration import configuration, static
from nobacktrack.updates.metrics import Arrow

STREAM = nbt.streams.anbn(1, 5, length=60, seed=0)


def start(learner, seed=0, scale=1.0):
    """A state with a readout that says something."""
    state = learner.init(seed, dtype=jnp.float64)
    phi = scale * jax.random.normal(jax.random.key(1), state.params.phi.shape, jnp.float64)
    return state._replace(params=state.params._replace(phi=phi))


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
        g = jax.random.normal(jax.random.key(seed), (4, *state.params.theta.shape), jnp.float64)
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
            influence, _, _ = learner.estimator.observe(
                learner.system, state.influence, state.params, dl_dh, learner.metric(state)
            )
            state = state._replace(influence=influence)
        return state

    def final(signs):
        draws = [(jnp.ones((rank, 2), jnp.int8),), *((signs[t],) for t in range(3))]
        return checks.estimated_influence(learner, along(learner, state, draws))

    mean = checks.mean_over_signs(final, jax.ShapeDtypeStruct((3, rank, 2), jnp.int8))
    wanted = checks.exact_influence(learner, state, inputs, thetas)
    assert checks.expect_close(mean, wanted, 1e-12, "unbiased") <= 1e-12


@pytest.mark.slow
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
