"""Reduced forms of information matrices against the dense ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import nobacktrack as nbt
from nobacktrack.protocol import RowBlock
from nobacktrack.updates.metrics import Arrow


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


def test_no_step_comes_from_rounding_errors_of_a_large_information():
    """A weight whose input never varies: what is left of its Schur term in float32 is noise, and its step is none."""
    random, metric = np.random.default_rng(0), nbt.QuasiDiagonal()
    sizes = (1e6 * random.normal(size=(4000, 1))).astype(np.float32)
    rows = jnp.asarray(sizes * np.array([[1, 0.7, 0.3, 1.7]], np.float32))
    information = metric.zeros(rows[:1])

    def take(information, row):
        return metric.add(information, jnp.float32(1), row[None, None]), None

    information, _ = jax.lax.scan(take, information, rows)
    steps = jax.vmap(lambda row: metric.solve(information, jnp.float32(1), row[None]))(rows[:100])
    assert float(jnp.abs(steps).max()) < 1e-4
