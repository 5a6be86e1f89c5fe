"""Which engine runs a learner, what it says where it cannot, and several learners at once."""

from __future__ import annotations

import itertools
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tables import REFUSED, distance, symbols

import nobacktrack as nbt
from nobacktrack import engines
from nobacktrack.configuration import configuration
from nobacktrack.engines import begin, choose
from nobacktrack.engines.fused import support
from nobacktrack.engines.fused.memory import layout
from nobacktrack.engines.fused.session import Fused


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


def test_recent_means_do_not_depend_on_the_engine():
    learner = nbt.Learner(nbt.RNN(units=3, symbols=3), nbt.NoBackTrack(), nbt.Kalman())
    state, stream = learner.init(0, dtype="float64"), symbols(30_000)
    recent = [learner.run(state, stream, engine=engine)[1].recent for engine in ("jax", "fused")]
    np.testing.assert_allclose(recent[0], recent[1], rtol=1e-3)


def test_several_at_once_are_each_alone():
    learner = nbt.Learner(nbt.LeakyRNN(units=5, symbols=3), nbt.NoBackTrack(), nbt.Kalman())
    states, streams = [learner.init(seed) for seed in range(4)], [symbols(500, seed) for seed in range(4)]
    together = nbt.run_many(learner, states, streams, workers=4)
    for (state, info), first, stream in zip(together, states, streams, strict=True):
        alone, expected = learner.run(first, stream)
        assert distance(alone, state) == 0
        np.testing.assert_array_equal(info.loss, expected.loss)
    with pytest.raises(ValueError, match="one of each"):
        nbt.run_many(learner, states, streams[:2])
    with pytest.raises(ValueError, match="not iterators"):
        nbt.run_many(learner, states[:1], [iter([1, 2])])


def test_one_that_diverges_does_not_lose_the_others():
    learners = [
        nbt.Learner(nbt.RNN(units=3, inputs=1, outputs=1), nbt.NoBackTrack(), nbt.SGD(rate)) for rate in (0.01, 3.0)
    ]
    states = [learner.init(0, dtype="float64") for learner in learners]
    stream = 5 * np.random.default_rng(0).normal(size=(3000, 1))
    with pytest.raises(nbt.Divergence) as alone:
        learners[1].run(states[1], stream)
    with pytest.warns(UserWarning, match=rf"diverged: 1 of 2 runs \(1 at t = {alone.value.t}\)"):
        (_, good), (state, lost) = nbt.run_many(learners, states, [stream, stream])
    assert good.divergence is None
    assert good.loss.shape == (3000,)
    assert lost.divergence is not None
    assert lost.t == alone.value.t == state.steps
    assert len(lost.loss) == lost.t
    assert np.isfinite(lost.loss).all()
    assert distance(state, alone.value.state) == 0


# --- an engine of one's own -----------------------------------------------------------------------------------------


class Dummy(engines.Session):
    """Another engine: the learner's own verbs, one item at a time, for networks of three units."""

    name = "dummy"

    @classmethod
    def refusal(cls, learner, state):
        return None if getattr(learner.system, "units", 0) == 3 else "it is for three units"

    @property
    def t(self):
        return self._state.steps

    def chunk_size(self, at_hand):
        return 7

    def process(self, chunk, y_hats=None):
        assert isinstance(chunk, nbt.Series)
        found = [self._learn(int(y)) for y in chunk.values]
        if y_hats is not None:
            y_hats[:] = [y_hat for _, y_hat in found]
        return np.array([loss for loss, _ in found])

    def _learn(self, y):
        y_hat, loss = self.predict(), self.observe(y)
        self.advance(y)
        return loss, y_hat

    def predict(self):
        return self.learner.predict(self._state)

    def observe(self, y):
        self._state, info = self.learner.observe(self._state, y)
        return float(info.loss)

    def advance(self, x):
        self._state = self.learner.advance(self._state, x)

    def state(self):
        return self._state

    def become(self, state):
        self._state = state

    snapshot = state

    def restore(self, snapshot):
        self._state = snapshot

    def finite(self):
        return True


def test_an_engine_is_one_line_in_the_list(monkeypatch):
    """`run`, `Live` and the checks use it by its name; where it does not apply, they say why."""
    monkeypatch.setattr(engines, "ENGINES", {"dummy": f"{__name__}:Dummy"} | engines.ENGINES)
    monkeypatch.setitem(sys.modules, __name__, sys.modules[Dummy.__module__])
    learner = nbt.Learner(nbt.RNN(units=3, symbols=3), nbt.NoBackTrack(), nbt.Kalman())
    state, stream = learner.init(0, dtype="float64"), symbols(20)
    assert choose(learner, state)[0] is Dummy
    wanted, info = learner.run(state, stream, engine="jax")
    found, again = learner.run(state, stream, engine="dummy")
    assert distance(found, wanted) < 1e-12
    np.testing.assert_allclose(again.loss, info.loss, rtol=1e-12)
    live = nbt.Live(learner, state, engine="dummy")
    losses = [live.learn(int(y)) for y in stream]
    assert live.engine == "dummy"
    np.testing.assert_allclose(losses, info.loss, rtol=1e-12)
    nbt.checks.check_engines(learner, state, stream, engine="dummy")
    larger = nbt.Learner(nbt.RNN(units=4, symbols=3), nbt.NoBackTrack(), nbt.Kalman())
    with pytest.warns(UserWarning, match="the dummy engine does not run it: it is for three units; engine='fused'"):
        larger.run(larger.init(0), stream, engine="dummy")
    with pytest.raises(ValueError, match=r"engine dummy: .* three units"):
        begin(larger, larger.init(0), "dummy", strict=True)


@configuration
class Rounded:
    """A readout of another kind: the fused engine would take it for a Gaussian."""

    space: Any

    def loss(self, y_hat, y):
        return jnp.sum(jnp.abs(y_hat - y))

    def fisher_root(self, y_hat):
        return jnp.eye(y_hat.size, dtype=y_hat.dtype)


@configuration
class WithReadout(nbt.RNN):
    @property
    def readout(self) -> Any:
        return Rounded(nbt.RNN(units=1, inputs=1, outputs=self.outputs or 1).target_space)


def test_another_readout_is_not_taken_for_one_that_is_known(monkeypatch):
    monkeypatch.setattr(support, "CELLS", support.CELLS | {WithReadout: support.CELLS[nbt.RNN]})
    learner = nbt.Learner(WithReadout(units=3, inputs=1, outputs=1), nbt.NoBackTrack(), nbt.Kalman())
    engine, reason = choose(learner, learner.init(0))
    assert engine.name == "jax"
    assert "it has no loop for the readout Rounded, only for Softmax, Gaussian" in reason


def test_every_piece_of_the_fused_memory_has_one_name_and_a_shape():
    for loop in support.LOOPS.values():
        specs = {**layout.Pieces._field_defaults, **loop.pieces._field_defaults}
        assert len(specs) == len(layout.Pieces._fields) + len(loop.pieces._fields)
    for cell, estimator in itertools.product(support.CELLS, support.LOOPS):
        learner = nbt.Learner(cell(units=3, symbols=3), estimator(), nbt.Kalman())
        sizes = support.sizes_of(learner)
        made = layout.Layout(sizes, support.LOOPS[estimator].pieces, 4)
        ends = made.table[:, 0] + np.prod(made.table[:, 1:], axis=1)
        assert (made.table[1:, 0] >= ends[:-1]).all()  # none overlaps the next
        assert made.size >= ends[-1]
