"""Proposition 1 and Appendix A, exactly: means and variances by enumeration against the formulas."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import nobacktrack as nbt
from nobacktrack import checks, reduction

TERMS, ROWS, COLUMNS = 6, 4, 5
KEYS = jax.random.split(jax.random.key(0), 4)
V = jax.random.normal(KEYS[0], (TERMS, ROWS), jnp.float64) * jnp.arange(1.0, TERMS + 1)[:, None]
W = jax.random.normal(KEYS[1], (TERMS, COLUMNS), jnp.float64)
U = jax.random.normal(KEYS[2], (TERMS, 3), jnp.float64)
X = jax.random.normal(KEYS[3], (TERMS, 2), jnp.float64)
A = V.T @ W


def mean(function, size=TERMS):
    return checks.mean_over_signs(function, jax.ShapeDtypeStruct((size,), jnp.int8))


@pytest.mark.parametrize("scaled", [True, False])
def test_mean_second_moment_and_variance_are_the_formulas(scaled):
    def moments(signs):
        v, w = reduction.reduce(V, W, signs, scaled=scaled)
        estimate = jnp.outer(v, w)
        return estimate, jnp.sum(estimate**2), jnp.sum((estimate - A) ** 2)

    estimate, second, variance = mean(moments)
    assert float(jnp.abs(estimate - A).max()) <= 1e-12 * float(jnp.abs(A).max())
    assert float(second) == pytest.approx(float(reduction.second_moment(V, W, scaled=scaled)), rel=1e-12)
    assert float(variance) == pytest.approx(float(reduction.variance(V, W, scaled=scaled)), rel=1e-12)


def test_variance_after_scaling_is_the_printed_sum():
    norms_v, norms_w = np.linalg.norm(V, axis=1), np.linalg.norm(W, axis=1)
    printed = sum(
        norms_v[i] * norms_v[j] * norms_w[i] * norms_w[j] + (V[i] @ V[j]) * (W[i] @ W[j])
        for i, j in itertools.permutations(range(TERMS), 2)
    )
    assert float(reduction.variance(V, W)) == pytest.approx(float(printed), rel=1e-12)


def test_no_other_scales_have_less_variance():
    least = float(reduction.variance(V, W))
    assert least < float(reduction.variance(V, W, scaled=False))
    rho = reduction.balance(jnp.linalg.norm(W, axis=1), jnp.linalg.norm(V, axis=1))[0]
    for seed in range(20):
        other = rho * jnp.exp(0.3 * jax.random.normal(jax.random.key(seed), (TERMS,), jnp.float64))
        assert float(reduction.variance(other[:, None] * V, W / other[:, None], scaled=False)) > least


def test_a_term_with_a_zero_side_is_dropped_on_both_sides():
    v = V.at[2].set(0.0)
    w = W.at[4].set(0.0)
    kept = jnp.array([0, 1, 3, 5])
    signs = jnp.array([1, -1, 1, 1, -1, -1], jnp.int8)
    found = reduction.reduce(v, w, signs)
    wanted = reduction.reduce(v[kept], w[kept], signs[kept])
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-14)
    assert all(jnp.all(jnp.isfinite(side)) for side in found)


def test_any_norm_mean_second_moment_and_variance():
    """The same identities in norms |v|^2 = v^T M v, in which the scales are then optimal."""
    roots = [jax.random.normal(jax.random.key(s), (n, n), jnp.float64) for s, n in ((7, ROWS), (8, COLUMNS))]
    metric_v, metric_w = (root @ root.T for root in roots)
    metrics: dict[str, Any] = {"metric_v": metric_v, "metric_w": metric_w}

    def moments(signs):
        estimate = jnp.outer(*reduction.reduce(V, W, signs, **metrics))
        error = estimate - A
        return estimate, *(jnp.trace(m.T @ metric_v @ m @ metric_w) for m in (estimate, error))

    estimate, second, variance = mean(moments)
    assert float(jnp.abs(estimate - A).max()) <= 1e-12 * float(jnp.abs(A).max())
    assert float(second) == pytest.approx(float(reduction.second_moment(V, W, **metrics)), rel=1e-12)
    assert float(variance) == pytest.approx(float(reduction.variance(V, W, **metrics)), rel=1e-12)
    assert float(variance) < float(reduction.variance(V, W, scaled=False, **metrics))


def test_signs_are_drawn_from_a_key():
    signs = reduction.draw_signs(jax.random.key(0), 1000)
    assert set(np.unique(signs)) == {-1, 1}
    assert abs(float(signs.astype(float).mean())) < 0.2


@pytest.mark.parametrize("size", [1e-15, 1.0, 1e15])
def test_scales_have_no_absolute_floor(size):
    """In float32 a balance at any size gives sides of equal norm and the product it had."""
    v, w = (V * size).astype(jnp.float32), W.astype(jnp.float32)
    rho, inverse = reduction.balance(jnp.linalg.norm(w, axis=1), jnp.linalg.norm(v, axis=1))
    np.testing.assert_allclose(rho * inverse, np.ones(TERMS), rtol=1e-6)
    np.testing.assert_allclose(rho * jnp.linalg.norm(v, axis=1), inverse * jnp.linalg.norm(w, axis=1), rtol=1e-6)


def test_gaussian_version_has_the_right_mean():
    """E xi xi^T = Sigma, so the estimate is linear in it: take xi over the columns of a square root of Sigma."""
    root = jax.random.normal(jax.random.key(9), (ROWS, ROWS), jnp.float64)
    sigma = root @ root.T
    parts = [jnp.outer(*reduction.reduce_gaussian(A, root[:, i], sigma)) for i in range(ROWS)]
    np.testing.assert_allclose(sum(parts), A, atol=1e-11)


def test_order_three_by_cube_roots_of_unity():
    terms = 5
    powers = np.array(list(itertools.product(range(3), repeat=terms)))
    roots = jnp.asarray(np.exp(2j * np.pi / 3 * powers))

    def estimate(zeta):
        u, v, w = reduction.reduce_order3(U[:terms], V[:terms], W[:terms], zeta)
        return jnp.einsum("a,b,c->abc", u, v, w).real

    found = jnp.mean(jax.vmap(estimate)(roots), axis=0)
    wanted = jnp.einsum("ia,ib,ic->abc", U[:terms], V[:terms], W[:terms])
    assert float(jnp.abs(found - wanted).max()) <= 1e-12 * float(jnp.abs(wanted).max())


def test_cube_roots_are_uniform():
    roots = reduction.cube_roots(jax.random.key(0), (3000,))
    np.testing.assert_allclose(roots**3, np.ones(3000), atol=1e-5)
    assert abs(complex(roots.mean())) < 0.05


def test_order_four_recursively():
    terms = 4
    u, v, w, x = (array[:terms] for array in (U, V, W, X))

    def estimate(signs):
        return jnp.einsum("a,b,c,d->abcd", *reduction.reduce_order4(u, v, w, x, *signs.reshape(3, terms)))

    found = mean(estimate, 3 * terms)
    wanted = jnp.einsum("ia,ib,ic,id->abcd", u, v, w, x)
    assert float(jnp.abs(found - wanted).max()) <= 1e-12 * float(jnp.abs(wanted).max())


# --- the paper's example of why the scales matter: h' = (1 - a) h + theta -------------------------------------------


@pytest.mark.parametrize(("n", "reductions"), [(2, 2), (2, 4), (3, 3), (4, 3), (2, 7)])
@pytest.mark.parametrize("scaled", [True, False])
def test_rescaling_example_has_its_closed_form(n, reductions, scaled):
    """Mean B Id, Var = n(n+1) B^2 - 2 n A with the scales, n^2 A T + n (B^2 - 2 A) without."""
    a = 0.3
    system = nbt.System(
        lambda theta, h, x: (1 - a) * h + theta, lambda phi, h: h[0] + phi, lambda y_hat, y: (y_hat - y) ** 2
    )
    norms = nbt.MetricNorms() if scaled else nbt.Unscaled()
    learner = nbt.Learner(system, nbt.NoBackTrack(norms=norms), nbt.SGD(0.0))
    theta = jnp.zeros(n, jnp.float64)
    state = learner.init(0, theta=theta, phi=jnp.zeros((), jnp.float64), h=theta, x=jnp.zeros(()))

    def moments(signs):
        """G~ after one more transition is (1 - a) v w^T + Id: take v w^T out of it."""
        draws = [(jnp.ones((1, n), jnp.int8),), *((signs[t],) for t in range(reductions))]
        final = checks.along(learner, state, [jnp.zeros(())] * (reductions + 1), [theta] * (reductions + 1), draws)
        estimate = (checks.estimated_influence(learner, final) - jnp.eye(n)) / (1 - a)
        return estimate, jnp.sum(estimate**2)

    found, second = checks.mean_over_signs(moments, jax.ShapeDtypeStruct((reductions, 1, n), jnp.int8))
    big_a = sum((1 - a) ** (2 * k) for k in range(reductions))
    big_b = sum((1 - a) ** k for k in range(reductions))
    wanted = (
        n * (n + 1) * big_b**2 - 2 * n * big_a if scaled else n**2 * big_a * reductions + n * (big_b**2 - 2 * big_a)
    )
    np.testing.assert_allclose(found, big_b * np.eye(n), atol=1e-12)
    assert float(second) - n * big_b**2 == pytest.approx(wanted, rel=1e-12)
