"""The fused engine means what the reference engine means: same states, same signs, same losses, to rounding."""

from __future__ import annotations

import collections
import itertools
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from equality import CELLS, ESTIMATORS, UPDATES

import nobacktrack as nbt
from nobacktrack.checks import check_engines, expect_close
from nobacktrack.configuration import configuration
from nobacktrack.engines import choose, reference
from nobacktrack.engines.fused.memory import layout
from nobacktrack.engines.fused.session import Fused
from nobacktrack.streams.items import Pairs, Series

# Every pair of parts, but not every triple: `benchmarks/equality.py`, where they are listed, runs those.
COMBINATIONS = [
    *((cell, estimator, UPDATES[0]) for cell, estimator in itertools.product(CELLS, ESTIMATORS)),
    *((nbt.LSTM, estimator, update) for estimator, update in itertools.product(ESTIMATORS, UPDATES[1:])),
]


def symbols(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 3, count).astype(np.int32)


def distance(one: object, other: object) -> float:
    """The largest relative difference between two trees of the same types."""
    assert jax.tree.map(lambda leaf: np.asarray(leaf).dtype, one) == jax.tree.map(
        lambda leaf: np.asarray(leaf).dtype, other
    )
    return expect_close(one, other, np.inf, "same")


def agrees(learner: nbt.Learner, stream: object, dtype: str = "float64", tolerance: float = 1e-10) -> float:
    return check_engines(learner, learner.init(1, dtype=dtype), stream, tolerance=tolerance)


@pytest.mark.parametrize(("cell", "estimator", "update"), COMBINATIONS, ids=lambda part: repr(part).split(".")[-1])
def test_the_fused_engine_equals_the_reference(cell, estimator, update):
    learner = nbt.Learner(cell(units=4, symbols=3), estimator, update)
    agrees(learner, symbols(192))


@pytest.mark.parametrize(
    ("cell", "estimator"), [*((nbt.LSTM, e) for e in ESTIMATORS), (nbt.GRU, ESTIMATORS[0])], ids=repr
)
def test_pairs_missing_targets_and_episodes(cell, estimator):
    random = np.random.default_rng(3)
    learner = nbt.Learner(cell(units=3, inputs=2, outputs=2), estimator, nbt.Kalman())
    x, y = random.normal(size=(192, 2)), random.normal(size=(192, 2))
    agrees(learner, Pairs(x, y, random.random(192) < 0.7, random.random(192) < 0.1))
    agrees(learner, Pairs(x, y))
    agrees(learner, Pairs(x))


@pytest.mark.parametrize("update", UPDATES, ids=repr)
def test_missing_targets_in_every_metric(update):
    seen = np.random.default_rng(4).random(192) < 0.5
    learner = nbt.Learner(nbt.GRU(units=3, symbols=3), nbt.NoBackTrack(rank=2), update)
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
@pytest.mark.parametrize("estimator", [nbt.NoBackTrack(rank=3), nbt.NoBackTrack(norms=nbt.GramianNorms())], ids=repr)
def test_gates_that_begin_within_a_band(cell, estimator):
    """Several bands, missing targets, and a Jacobian: every kernel that goes over bands."""
    units = layout.BLOCK * 2 // 3
    learner = nbt.Learner(cell(units=units, symbols=3), estimator, nbt.Kalman(every=2))
    agrees(learner, Pairs(symbols(192), symbols(192, 1), np.random.default_rng(7).random(192) < 0.7))


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


@pytest.mark.parametrize("estimator", [nbt.NoBackTrack(), nbt.TruncatedBPTT(depth=3), nbt.RTRL()], ids=repr)
def test_divergence_stops_where_the_reference_does(estimator):
    learner = nbt.Learner(nbt.RNN(units=3, inputs=1, outputs=1), estimator, nbt.SGD(3.0))
    start = learner.init(0, dtype="float64")
    stream = 5 * np.random.default_rng(0).normal(size=(3000, 1))
    errors = []
    for engine in ("jax", "fused"):
        with pytest.raises(nbt.Divergence) as caught:
            learner.run(start, stream, engine=engine)
        errors.append(caught.value)
    assert errors[0].t == errors[1].t
    assert distance(errors[0].state, errors[1].state) < 1e-3  # close, though it is about to diverge
    assert str(errors[0]).split(";")[0] == str(errors[1]).split(";")[0]


def test_inputs_are_not_touched():
    learner = nbt.Learner(nbt.RNN(units=3, symbols=3), nbt.NoBackTrack(), nbt.Kalman())
    state, stream = learner.init(0), symbols(50)
    before = jax.tree.map(np.array, (state, stream))
    learner.run(state, stream, engine="fused")
    assert distance(before, jax.tree.map(np.array, (state, stream))) == 0


@configuration
class OwnLearner(nbt.Learner):
    """A learner that may do anything."""


REFUSED = {
    "OwnLearner": OwnLearner(nbt.RNN(units=3, symbols=3), nbt.NoBackTrack(), nbt.Kalman()),
    "LRU": nbt.Learner(nbt.LRU(units=3, symbols=3), nbt.NoBackTrack(), nbt.Kalman()),
    "graphs": nbt.Learner(nbt.RNN(units=3, symbols=3, graph=[(0, 1)]), nbt.NoBackTrack(), nbt.Kalman()),
    "SlidingBPTT": nbt.Learner(nbt.RNN(units=3, symbols=3), nbt.SlidingBPTT(), nbt.Kalman()),
    "InvariantNorms": nbt.Learner(nbt.RNN(units=3, symbols=3), nbt.NoBackTrack(norms=nbt.InvariantNorms()), nbt.SGD(1)),
    "BlockDiagonal": nbt.Learner(
        nbt.RNN(units=3, symbols=3), nbt.NoBackTrack(), nbt.Kalman(metric=nbt.BlockDiagonal())
    ),
    "ExactFisher": nbt.Learner(nbt.RNN(units=3, symbols=3), nbt.NoBackTrack(), nbt.Kalman(fisher=nbt.ExactFisher())),
    "Frozen": nbt.Learner(nbt.RNN(units=3, symbols=3), nbt.NoBackTrack(), nbt.Frozen(nbt.SGD(1.0))),
    "Stack": nbt.Learner(nbt.Stack([nbt.RNN(units=3, symbols=3)] * 2), nbt.NoBackTrack(), nbt.Kalman()),
}


@pytest.mark.parametrize("word", REFUSED)
def test_what_it_does_not_run_is_said_and_the_reference_runs(word):
    learner = REFUSED[word]
    state = learner.init(0)
    engine, reason = choose(learner, state)
    assert engine.name == "jax"
    assert word in reason
    with pytest.warns(UserWarning, match=word):
        forced, _ = learner.run(state, symbols(5), engine="fused")
    assert distance(forced, learner.run(state, symbols(5), engine="jax")[0]) == 0


def test_batches_of_states_and_mixed_numbers_are_left_to_the_reference():
    learner = nbt.Learner(nbt.RNN(units=3, symbols=3), nbt.NoBackTrack(), nbt.Kalman())
    batch = jax.vmap(learner.init)(jax.random.split(jax.random.key(0), 2))
    assert "vmap" in choose(learner, batch)[1]
    state = learner.init(0)
    mixed = state._replace(params=state.params._replace(phi=state.params.phi.astype("float64")))
    assert "float32, float64" in choose(learner, mixed)[1]
    assert choose(learner, state) == (Fused, "")
    with pytest.raises(ValueError, match="engine must be one of auto, fused, jax"):
        learner.run(state, symbols(5), engine="numba")


# --- one step at a time, several at once ----------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_live_steps_are_those_of_a_run(estimator):
    learner = nbt.Learner(nbt.LSTM(units=4, symbols=3), estimator, nbt.Kalman())
    start, stream = learner.init(0), symbols(300)
    live = nbt.Live(learner, start)
    losses = [live.learn(int(y)) for y in stream]
    state, info = learner.run(start, stream, engine="fused")
    np.testing.assert_array_equal(np.asarray(losses, np.float32), info.loss)
    assert distance(state, live.state) == 0
    assert live.t == 300
    np.testing.assert_allclose(live.predict(), learner.predict(state), rtol=1e-5)


def test_live_goes_on_after_the_state_was_taken():
    learner = nbt.Learner(nbt.LSTM(units=4, symbols=3), nbt.NoBackTrack(rank=2), nbt.Kalman())
    live, other = (nbt.Live(learner, learner.init(0, dtype="float64")) for _ in range(2))
    for y in symbols(40).tolist():
        live.observe(y)
        assert live.state.steps == live.t  # between the two verbs: nothing is owed to w
        live.advance(y)
        assert live.state.steps == live.t
        other.learn(y)
    assert distance(other.state, live.state) < 1e-10


def test_live_pairs_and_repeated_targets():
    learner = nbt.Learner(nbt.RNN(units=3, inputs=2, outputs=1), nbt.NoBackTrack(), nbt.SGD(0.1))
    state = learner.init(0, dtype="float64")
    live = nbt.Live(learner, state)
    for x, y in (([0.1, 0.2], None), ([0.3, 0.1], [0.5]), ([1.0, -1.0], [0.2])):
        loss = live.learn(np.array(x), None if y is None else np.array(y))
        state, info = learner.step(state, np.array(x), None if y is None else np.array(y))
        np.testing.assert_allclose(loss, info.loss)
    live.observe(np.array([0.4]))  # a second target for the same state
    state, _ = learner.observe(state, np.array([0.4]))
    live.advance(np.array([0.0, 1.0]))
    assert distance(learner.advance(state, np.array([0.0, 1.0])), live.state) < 1e-10


def test_live_refuses_bad_values_and_keeps_its_state():
    live = nbt.Live(nbt.Learner(nbt.RNN(units=3, symbols=3), nbt.NoBackTrack(), nbt.Kalman()))
    live.learn(1)
    before = live.state
    for value in (3, -1, 1.5, None, "a"):
        with pytest.raises(nbt.BadItem, match="y"):
            live.observe(value)
        with pytest.raises(nbt.BadItem):
            live.learn(1, 3 if value is None else value)
    assert distance(before, live.state) == 0


def test_live_copies_what_it_is_given_and_looks_ahead_again():
    """A buffer that is written over, more targets than paces are computed at once, and a schedule of one's own."""
    learner = nbt.Learner(nbt.RNN(units=2, inputs=1, outputs=1), nbt.NoBackTrack(), nbt.SGD(lambda t: 0.1 / t**0.6))
    start = learner.init(0, dtype="float64")
    stream = np.random.default_rng(0).normal(size=(1500, 1))
    live, buffer = nbt.Live(learner, start), np.zeros(1)
    for y in stream:
        buffer[:] = y
        live.learn(buffer)
    assert distance(learner.run(start, stream, engine="fused")[0], live.state) < 1e-12


def test_recent_means_do_not_depend_on_the_engine():
    learner = nbt.Learner(nbt.RNN(units=3, symbols=3), nbt.NoBackTrack(), nbt.Kalman())
    state, stream = learner.init(0, dtype="float64"), symbols(30_000)
    recent = [learner.run(state, stream, engine=engine)[1].recent for engine in ("jax", "fused")]
    np.testing.assert_allclose(recent[0], recent[1], rtol=1e-3)


def test_a_cache_that_cannot_be_written_is_said_and_not_used(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    code = "import nobacktrack.engines.fused.loops.chunk as loop; print(type(loop.predict._cache).__name__)"
    environment = {**os.environ, "NOBACKTRACK_CACHE": str(blocked)}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert run.stdout.strip() == "NullCache", run.stderr
    assert "NOBACKTRACK_CACHE" in run.stderr


def test_live_divergence_has_the_last_good_state():
    learner = nbt.Learner(nbt.RNN(units=3, inputs=1, outputs=1), nbt.NoBackTrack(), nbt.SGD(3.0))
    start = learner.init(0, dtype="float64")
    stream = 5 * np.random.default_rng(0).normal(size=(3000, 1))
    live = nbt.Live(learner, start)
    with pytest.raises(nbt.Divergence) as caught:
        collections.deque((live.learn(y) for y in stream), maxlen=0)
    with pytest.raises(nbt.Divergence) as expected:
        learner.run(start, stream, engine="fused")
    assert caught.value.t == expected.value.t == live.t
    assert distance(caught.value.state, live.state) == 0


def test_live_with_the_reference_where_the_loop_does_not_apply():
    learner = REFUSED["LRU"]
    live, state = nbt.Live(learner, learner.init(0)), learner.init(0)
    for y in (0, 2, 1):
        loss = live.learn(y)
        state, info = learner.step(state, y)
        np.testing.assert_allclose(loss, info.loss)
    assert distance(state, live.state) == 0
    assert "LRU" in live.reason


def test_several_at_once_are_each_alone():
    learner = nbt.Learner(nbt.LeakyRNN(units=5, symbols=3), nbt.NoBackTrack(), nbt.Kalman())
    states, streams = [learner.init(seed) for seed in range(4)], [symbols(500, seed) for seed in range(4)]
    together = nbt.run_many(learner, states, streams, workers=4)
    for (state, info), begin, stream in zip(together, states, streams, strict=True):
        alone, expected = learner.run(begin, stream)
        assert distance(alone, state) == 0
        np.testing.assert_array_equal(info.loss, expected.loss)
    with pytest.raises(ValueError, match="one of each"):
        nbt.run_many(learner, states, streams[:2])
    with pytest.raises(ValueError, match="not iterators"):
        nbt.run_many(learner, states[:1], [iter([1, 2])])


def test_the_process_that_compiles_runs_the_same_code_as_all_others(tmp_path):
    """From an empty cache: kernels as they are compiled alone differ in last bits from their copies in the loop."""
    script = (
        "import hashlib, nobacktrack as nbt\n"
        "system = nbt.LeakyRNN(units=20, symbols=3)\n"
        "learner = nbt.Learner(system, nbt.NoBackTrack(norms=nbt.GramianNorms()), nbt.Kalman())\n"
        "state, info = learner.run(learner.init(0), nbt.streams.anbn(1, 32, length=2000, seed=0), engine='fused')\n"
        "print(hashlib.sha256(info.loss.tobytes()).hexdigest())"
    )
    found = [
        subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | {"NOBACKTRACK_CACHE": str(tmp_path)},
            check=True,
            capture_output=True,
            text=True,
        )
        for _ in range(2)
    ]
    assert "compiling run_nobacktrack" in found[0].stderr
    assert "compiling" not in found[1].stderr
    assert found[0].stdout == found[1].stdout
