"""The fused engine means what the reference engine means: same states, same signs, same losses, to rounding."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tables import FUSED_CELLS, FUSED_ESTIMATORS, FUSED_UPDATES, distance, symbols

import nobacktrack as nbt
from nobacktrack.checks import check_engines, same_bits
from nobacktrack.engines import reference
from nobacktrack.engines.fused.memory import layout
from nobacktrack.engines.fused.session import Fused
from nobacktrack.streams.items import Pairs, Series


def combinations():
    """Every pair of parts, but not every triple: `benchmarks/equality.py` runs those. Some of them are quick."""
    for i, cell in enumerate(FUSED_CELLS):
        for j, estimator in enumerate(FUSED_ESTIMATORS):
            for k, update in enumerate(FUSED_UPDATES):
                if k == 0 or cell == "lstm":
                    quick = (i + j) % 3 == 0 if k == 0 else (j + k) % 4 == 0
                    yield pytest.param(cell, estimator, update, marks=() if quick else pytest.mark.slow)


def agrees(learner: nbt.Learner, stream: object, dtype: str = "float64", tolerance: float = 1e-10) -> float:
    return check_engines(learner, learner.init(1, dtype=dtype), stream, tolerance=tolerance)


@pytest.mark.parametrize(("cell", "estimator", "update"), list(combinations()))
def test_the_fused_engine_equals_the_reference(cell, estimator, update):
    system = FUSED_CELLS[cell](units=4, symbols=3)
    agrees(nbt.Learner(system, FUSED_ESTIMATORS[estimator], FUSED_UPDATES[update]), symbols(192))


QUICK_PAIRS = ("lstm", "rank 3"), ("lstm", "bptt"), ("gru", "rank 1")


@pytest.mark.parametrize(
    ("cell", "estimator"),
    [
        pytest.param(*names, marks=() if names in QUICK_PAIRS else pytest.mark.slow)
        for names in [*(("lstm", estimator) for estimator in FUSED_ESTIMATORS), ("gru", "rank 1")]
    ],
)
def test_pairs_missing_targets_and_episodes(cell, estimator):
    random = np.random.default_rng(3)
    system = FUSED_CELLS[cell](units=3, inputs=2, outputs=2)
    learner = nbt.Learner(system, FUSED_ESTIMATORS[estimator], nbt.Kalman())
    x, y = random.normal(size=(192, 2)), random.normal(size=(192, 2))
    agrees(learner, Pairs(x, y, random.random(192) < 0.7, random.random(192) < 0.1))
    agrees(learner, Pairs(x, y))
    agrees(learner, Pairs(x))


@pytest.mark.parametrize("phi", [nbt.Frozen(), nbt.Kalman(), nbt.SGD(0.1)])
def test_no_influence_and_frozen_parameters(phi):
    random, update = np.random.default_rng(6), nbt.Apart(theta=nbt.Frozen(), phi=phi)
    for cell in FUSED_CELLS.values():
        agrees(nbt.Learner(cell(units=4, symbols=3), nbt.Forward(), update), symbols(64))
    learner = nbt.Learner(nbt.LSTM(units=4, inputs=2, outputs=2), nbt.Forward(), update)
    start, stream = (
        learner.init(0),
        Pairs(random.normal(size=(64, 2)), random.normal(size=(64, 2)), np.arange(64) % 3 > 0),
    )
    agrees(learner, stream)
    after, _ = learner.run(start, stream, engine="fused")
    assert same_bits(after.params.theta, start.params.theta)
    assert same_bits(after.params.phi, start.params.phi) == (phi == nbt.Frozen())


@pytest.mark.parametrize("update", FUSED_UPDATES)
def test_missing_targets_in_every_metric(update):
    seen = np.random.default_rng(4).random(192) < 0.5
    learner = nbt.Learner(nbt.GRU(units=3, symbols=3), nbt.NoBackTrack(rank=2), FUSED_UPDATES[update])
    agrees(learner, Pairs(symbols(192), symbols(192, 1), seen))


def test_series_of_vectors_and_episodes():
    random = np.random.default_rng(5)
    learner = nbt.Learner(nbt.RNN(units=4, inputs=2, outputs=2, activation="tanh"), nbt.NoBackTrack(), nbt.Kalman())
    agrees(learner, Series(random.normal(size=(192, 2)), random.random(192) < 0.1))


def test_more_rows_than_a_block_and_updates_apart():
    update = nbt.Apart(theta=nbt.Kalman(decay=lambda t: 0.1 / t**0.6), phi=nbt.SGD(0.05))
    learner = nbt.Learner(nbt.LeakyRNN(units=2 * layout.BLOCK + 3, symbols=3), nbt.NoBackTrack(), update)
    agrees(learner, symbols(16))


@pytest.mark.parametrize("cell", [nbt.LearnedLeakyRNN, nbt.GRU, nbt.LSTM])
@pytest.mark.parametrize(
    "estimator",
    [
        nbt.NoBackTrack(rank=3),
        nbt.NoBackTrack(norms=nbt.GramianNorms()),
        nbt.SnAp1(),
        nbt.DiagonalPlusRankOne(lag=2),
    ],
    ids=repr,
)
def test_gates_that_begin_within_a_band(cell, estimator):
    """Several bands, missing targets, and a Jacobian: every kernel that goes over bands."""
    units = layout.BLOCK * 2 // 3
    learner = nbt.Learner(cell(units=units, symbols=3), estimator, nbt.Kalman(every=2))
    agrees(learner, Pairs(symbols(192), symbols(192, 1), np.random.default_rng(7).random(192) < 0.7))


@pytest.mark.parametrize("cell", [nbt.LeakyRNN, nbt.GRU])
@pytest.mark.parametrize("estimator", [nbt.TruncatedBPTT(depth=5), nbt.BlockNoBackTrack(depth=6, every=3)], ids=repr)
def test_windows_of_more_rows_than_a_tile(cell, estimator):
    agrees(nbt.Learner(cell(units=layout.BLOCK + 3, symbols=3), estimator, nbt.Kalman()), symbols(32))
    vectors = np.random.default_rng(8).normal(size=(32, 2))
    agrees(nbt.Learner(cell(units=5, inputs=2, outputs=2), estimator, nbt.Kalman()), Series(vectors))


def test_one_unit_one_output_no_prior_and_blocks_of_one():
    stream = np.random.default_rng(6).normal(size=(192, 1))
    for estimator in (nbt.NoBackTrack(), nbt.RTRL(), nbt.TruncatedBPTT(depth=1)):
        update = nbt.Kalman(prior=0.0, metric=nbt.Diagonal())  # the other one divides by rounding errors at first
        learner = nbt.Learner(nbt.RNN(units=1, inputs=1, outputs=1), estimator, update)
        agrees(learner, stream)


def test_other_signs_are_noticed():
    """The comparison can fail: another key draws other signs."""
    learner = nbt.Learner(nbt.RNN(units=4, symbols=3), nbt.NoBackTrack(), nbt.Kalman())
    state = learner.init(1, dtype="float64")
    fused = Fused(learner, state._replace(key=state.key + jnp.asarray([0, 1], jnp.uint32)))
    fused.take(Series(symbols(64)))
    following, _ = reference.scan(learner, state, Series(symbols(64)))
    assert distance(following.params, fused.state().params) > 1e-3


def test_float32_stays_float32():
    learner = nbt.Learner(nbt.LSTM(units=4, symbols=3), nbt.NoBackTrack(rank=2), nbt.Kalman())
    agrees(learner, symbols(192), dtype="float32", tolerance=1e-2)


def test_time_and_signs_carry_over_32_bits():
    learner = nbt.Learner(nbt.RNN(units=4, symbols=3), nbt.NoBackTrack(), nbt.Kalman())
    state = learner.init(1, dtype="float64")._replace(t=jnp.asarray([3, 2**32 - 5], jnp.uint32))
    fused = Fused(learner, state)
    fused.take(Series(symbols(64)))
    following, _ = reference.scan(learner, state, Series(symbols(64)))
    assert fused.t == (4 << 32) + 59 == following.steps
    assert distance(following, fused.state()) < 1e-10


def test_a_checkpoint_of_one_engine_continues_in_the_other(tmp_path):
    learner = nbt.Learner(nbt.LSTM(units=4, symbols=3), nbt.NoBackTrack(norms=nbt.GramianNorms()), nbt.Kalman())
    start, stream = learner.init(0, dtype="float64"), symbols(200)
    ends = []
    for first, second in itertools.product(("jax", "fused"), repeat=2):
        state, _ = learner.run(start, stream[:100], engine=first)
        nbt.save(tmp_path / "learner", learner, state)
        found = nbt.load(tmp_path / "learner")
        ends.append(found.learner.run(found.state, stream[100:], engine=second)[0])
    assert max(distance(ends[0], end) for end in ends[1:]) < 1e-10


def test_chunks_do_not_matter():
    learner = nbt.Learner(nbt.GRU(units=4, symbols=3), nbt.NoBackTrack(rank=2), nbt.Kalman())
    start, stream = learner.init(0), symbols(100)
    whole, info = learner.run(start, stream, engine="fused")
    for chunk in (1, 7):
        state, again = learner.run(start, stream, engine="fused", chunk=chunk)
        np.testing.assert_array_equal(info.loss, again.loss)
        assert distance(whole, state) == 0


def test_inputs_are_not_touched():
    learner = nbt.Learner(nbt.RNN(units=3, symbols=3), nbt.NoBackTrack(), nbt.Kalman())
    state, stream = learner.init(0), symbols(50)
    before = jax.tree.map(np.array, (state, stream))
    learner.run(state, stream, engine="fused")
    assert distance(before, jax.tree.map(np.array, (state, stream))) == 0
