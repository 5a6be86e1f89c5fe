"""Diagnostics: beside a run, without disturbing it, and what they say of estimators that are known."""

import dataclasses
import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from tables import own_state, own_system

import nobacktrack as nbt
from nobacktrack import diagnostics
from nobacktrack.diagnostics import advice
from nobacktrack.protocol import Point
from nobacktrack.streams.items import Pairs

SYSTEM = nbt.LeakyRNN(units=5, symbols=3)
STREAM = nbt.streams.anbn(1, 8, length=600, seed=1)


def trained(estimator, steps=400):
    learner = nbt.Learner(SYSTEM, estimator, nbt.Kalman())
    state, _ = learner.run(learner.init(0), nbt.streams.anbn(1, 8, length=steps, seed=0), engine="jax")
    return learner, state


def held(estimator):
    """A learner whose parameters stay where Kalman NoBackTrack left them."""
    _, state = trained(nbt.NoBackTrack())
    learner = nbt.Learner(SYSTEM, estimator, nbt.SGD(0.0))
    fresh = learner.init(0)
    return learner, fresh._replace(params=state.params, h=state.h)


@pytest.fixture(scope="module")
def found():
    learner, state = trained(nbt.NoBackTrack())
    others = {
        "rank 8": nbt.NoBackTrack(rank=8),
        "diagonal": nbt.DiagonalPlusRankOne(lag=4),
        "rtrl": nbt.RTRL(),
        "snap": nbt.SnAp1(),
        "blocks": nbt.ARTBP(depth=4),
    }
    return learner, state, nbt.diagnose(learner, state, STREAM, others=others, copies=16)


def row(found, name):
    return next(row for row in found.rows if row.name == name)


def test_the_learner_goes_its_way_as_if_alone(found):
    learner, state, diagnosis = found
    alone, _ = learner.run(state, STREAM, engine="jax")
    for one, other in zip(jax.tree.leaves(diagnosis.state), jax.tree.leaves(alone), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-6)  # fused by XLA in another way
    assert diagnosis.state.steps == alone.steps


def test_exact_gradients_are_found_exact(found):
    exact = row(found[2], "rtrl")
    assert exact.cosine == pytest.approx(1, abs=1e-5)
    assert exact.error == pytest.approx(0, abs=1e-4)
    assert exact.noise == pytest.approx(0, abs=1e-8)


def test_bias_is_seen_where_it_is_and_only_there(found):
    assert row(found[2], "snap").bias > 0.05
    assert row(found[2], "snap").bias == pytest.approx(row(found[2], "snap").error, rel=1e-3)  # nothing random in it
    for name in ("its own", "rank 8", "diagonal"):
        found_row = row(found[2], name)
        assert found_row.bias <= 2 * found_row.bias_error + 0.02, name


def test_noise_falls_as_one_over_the_rank(found):
    ratio = row(found[2], "its own").noise / row(found[2], "rank 8").noise
    assert 4 < ratio < 16
    assert row(found[2], "diagonal").noise < row(found[2], "its own").noise / 4
    assert row(found[2], "diagonal").cosine > row(found[2], "its own").cosine


def test_noise_is_that_of_copies_drawn_apart(found):
    """|g~ - g|^2 over |g|^2 of one copy after another, by the learner itself with another key, theta being held."""
    learner, state = held(nbt.NoBackTrack())
    diagnosis = nbt.diagnose(learner, state, STREAM[:300], others={}, copies=64, burn_in=50)
    exact = gradients(nbt.Learner(SYSTEM, nbt.RTRL(), nbt.SGD(0.0)), state, 0)
    errors = np.sum((gradients(learner, state, np.arange(1, 65)) - exact) ** 2, axis=(1, 2, 3, 4))
    expected = np.mean(errors) / np.sum(exact**2)
    assert diagnosis.rows[0].noise == pytest.approx(expected, rel=0.25)
    assert diagnosis.rows[0].error == pytest.approx(math.sqrt(expected), rel=0.15)


def gradients(learner, state, keys, skip=50, count=300):
    """Those of a run of the learner with one key, or with each of several."""
    influence = learner.estimator.init(SYSTEM, Point(state.params, state.h, jnp.int32(0)))

    def step(state, y):
        _, evidence, influence, _ = learner.differentiate(state, y)
        moved = learner.advance_unchecked(state._replace(influence=influence), y, learner.draw(state, state.t))
        return moved, evidence.theta.gradient

    @jax.jit
    @jax.vmap
    def run(key):
        start = state._replace(influence=influence, key=key)
        return jax.lax.scan(step, start, jnp.asarray(STREAM[:count]))[1][skip:]

    found = np.asarray(run(jnp.array([[77, key] for key in np.atleast_1d(keys)], jnp.uint32)))
    return found if np.ndim(keys) else found[0]


def test_block_methods_are_measured_over_windows_alone(found):
    blocks = row(found[2], "blocks")
    assert blocks.cosine is None
    assert blocks.noise is None
    assert np.isfinite(blocks.noise_in_windows[-1])


def test_parts_add_up_to_the_noise(found):
    own = row(found[2], "its own")
    shares = np.array(own.by_part)
    assert found[2].parts == [f"unit {i}" for i in range(5)]
    learner, state = held(nbt.NoBackTrack())
    diagnosis = nbt.diagnose(learner, state, STREAM, others={}, copies=4, burn_in=0)
    sizes = gradients(nbt.Learner(SYSTEM, nbt.RTRL(), nbt.SGD(0.0)), state, 0, skip=0, count=600)
    own = diagnosis.rows[0]
    assert sum(own.by_part) == pytest.approx(own.noise * np.mean(np.sum(sizes**2, axis=(1, 2, 3))), rel=1e-3)
    assert np.all(shares > 0)


def test_without_the_exact_influence_the_spread_of_the_copies_speaks(found):
    learner, state, known = found
    blind = nbt.diagnose(learner, state, STREAM, others={}, copies=16, exact=False).rows[0]
    assert blind.cosine is None
    assert blind.noise == pytest.approx(row(known, "its own").noise, rel=0.4)
    np.testing.assert_allclose(blind.by_part, row(known, "its own").by_part, rtol=0.4)


def test_results_are_json_a_table_and_a_figure(found, tmp_path):
    diagnosis = found[2]
    assert json.loads(json.dumps(diagnosis.json()))["rows"][0]["name"] == "its own"
    assert diagnosis.table().row_count == len(diagnosis.rows)
    diagnosis.figure(tmp_path / "deep" / "it.png")
    assert (tmp_path / "deep" / "it.png").stat().st_size > 10_000


def test_pairs_missing_targets_and_episodes():
    learner = nbt.Learner(nbt.RNN(units=3, inputs=2, outputs=1), nbt.NoBackTrack(), nbt.SGD(0.01))
    random = np.random.default_rng(0)
    x, y = random.normal(size=(200, 2)).astype(np.float32), random.normal(size=(200, 1)).astype(np.float32)
    stream = Pairs(x, y, seen=random.random(200) < 0.7, reset=random.random(200) < 0.05)
    state = learner.init(0)
    diagnosis = nbt.diagnose(learner, state, stream, others={"rtrl": nbt.RTRL()}, copies=4)
    alone, _ = learner.run(state, stream, engine="jax")
    np.testing.assert_allclose(diagnosis.state.params.theta, alone.params.theta, rtol=1e-4, atol=1e-6)
    assert diagnosis.rows[1].cosine == pytest.approx(1, abs=1e-4)


def test_a_system_of_ones_own_has_parts_by_name():
    learner = nbt.Learner(own_system(), nbt.NoBackTrack(), nbt.SGD(0.001))
    stream = np.random.default_rng(0).normal(size=(60, 1))
    diagnosis = nbt.diagnose(learner, own_state(learner), (stream, stream), others={}, copies=4)
    assert diagnosis.parts == ["['a']", "['b']", "['w']"]


def test_bad_arguments_are_refused_by_name():
    learner, state = trained(nbt.NoBackTrack())
    with pytest.raises(ValueError, match="copies must be an integer >= 2"):
        nbt.diagnose(learner, state, STREAM, copies=1)
    with pytest.raises(ValueError, match="too few, 10 must be left"):
        nbt.diagnose(learner, state, STREAM[:10])
    with pytest.raises(ValueError, match="needs arrays"):
        nbt.diagnose(learner, state, iter(STREAM))


def test_affordable_is_a_matter_of_size():
    small = nbt.Learner(SYSTEM, nbt.NoBackTrack(), nbt.SGD(0.1)).init(0)
    assert diagnostics.affordable(small)
    large = nbt.Learner(nbt.RNN(units=300, symbols=3), nbt.NoBackTrack(), nbt.SGD(0.1)).init(0)
    assert not diagnostics.affordable(large)


def a_row(**given):
    blank = diagnostics.Row("own", "", None, None, None, None, None, None, [9.0], [1.0], 1.0, False)
    return dataclasses.replace(blank, **given)


@pytest.mark.parametrize(
    ("given", "estimator", "words"),
    [
        ({"noise": 0.5, "noise_in_windows": [0.5]}, nbt.NoBackTrack(), "Rank and rate are fine"),
        ({"noise": 5.0, "noise_in_windows": [5.0]}, nbt.NoBackTrack(rank=2), "Take rank=10"),
        ({"noise": 99.0, "noise_in_windows": [99.0]}, nbt.NoBackTrack(), "times smaller"),
        ({"noise": 0.3, "bias": 0.4, "bias_error": 0.1, "noise_in_windows": [0.3]}, nbt.SnAp1(), "biased here"),
        ({"noise": 0.0, "noise_in_windows": [0.0]}, nbt.RTRL(), "exact here"),
        ({"noise": math.inf, "noise_in_windows": [math.inf]}, nbt.NoBackTrack(), "no gradient here"),
    ],
)
def test_advice_has_a_reason(given, estimator, words):
    learner = nbt.Learner(SYSTEM, estimator, nbt.Optax(optax.adam(1e-3)))
    said = advice.given(learner, learner.init(0), [a_row(estimator=repr(estimator), **given)], [1])
    assert words in said[0]


def test_the_better_one_is_named_but_not_if_it_is_biased():
    learner = nbt.Learner(SYSTEM, nbt.NoBackTrack(), nbt.Kalman())
    own = a_row(noise=9.0, noise_in_windows=[9.0])
    quiet = a_row(estimator="Quiet()", noise=3.0, microseconds=2.0)
    biased = a_row(estimator="Biased()", noise=0.1, bias=0.5, bias_error=0.01)
    said = advice.given(learner, learner.init(0), [own, quiet, biased], [1])
    assert said[-1] == "Quiet(): 3 times less noise, at 2 times the time."


def test_a_cautious_estimator_shows_its_powers_and_its_factor_in_time(tmp_path):
    learner = nbt.Learner(nbt.LeakyRNN(units=3, symbols=3), nbt.BlockNoBackTrack(depth=3), nbt.Kalman())
    stream = nbt.streams.anbn(1, 8, length=400, seed=0)
    found = nbt.diagnose(learner, learner.init(0), stream, copies=2)
    own, unbiased, truncated = found.rows
    assert own.random is not None
    assert own.signal is not None
    assert abs(own.signal) < own.random
    assert len(own.shares) == 50
    assert all(0 < share <= 1 for share in own.shares)
    assert (unbiased.random, truncated.signal, unbiased.shares) == (None, None, [])
    assert [str(column.header) for column in found.table().columns][-3:] == ["random", "signal", "s"]
    found.figure(tmp_path / "d.png")
    assert (tmp_path / "d.png").stat().st_size > 1000
