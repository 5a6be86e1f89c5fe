"""One file, bit for bit, and never half of one."""

import json
import os
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import safetensors.numpy
from tables import own_state, own_system

import nobacktrack as nbt
from nobacktrack import checkpoint, registry
from nobacktrack.checks import same_bits
from nobacktrack.configuration import configuration
from nobacktrack.registry import register

STREAM = nbt.streams.anbn(1, 6, length=200, seed=1)
UPDATE = nbt.SGD(nbt.inverse_sqrt(0.1))


LEARNERS = (
    nbt.Learner(nbt.LeakyRNN(units=5, symbols=3), nbt.NoBackTrack(rank=2), UPDATE),
    nbt.Learner(nbt.RNN(units=5, symbols=3, activation="tanh", graph=[(0, 1), (4, 2)]), nbt.SplitNoBackTrack(), UPDATE),
    nbt.Learner(nbt.RNN(units=5, symbols=3), nbt.RTRL(), nbt.Apart(theta=UPDATE, phi=nbt.Frozen())),
    nbt.Learner(nbt.RNN(units=5, symbols=3), nbt.TruncatedBPTT(depth=4), nbt.SGD(0.1)),
)


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_a_checkpoint_is_the_learner_and_its_state(learner, tmp_path):
    state, _ = learner.run(learner.init(0), STREAM)
    nbt.save(tmp_path / "a.nbt", learner, state, {"alphabet": "ab\n"})
    found = nbt.load(tmp_path / "a.nbt")
    assert found.learner == learner
    assert same_bits(found.state, state)
    assert found.notes == {"alphabet": "ab\n"}
    assert same_bits(found.learner.run(found.state, STREAM)[0], learner.run(state, STREAM)[0])
    assert os.listdir(tmp_path) == ["a.nbt"]


def test_a_learner_of_ones_own_functions_is_passed_in(tmp_path):
    learner = nbt.Learner(own_system(), nbt.NoBackTrack(), nbt.Optax(optax.adam(1e-3)))
    state, _ = learner.run(own_state(learner, fast=2), np.ones((20, 2)))
    nbt.save(tmp_path / "a", learner, state)
    with pytest.raises(ValueError, match="pass the learner in"):
        nbt.load(tmp_path / "a")
    assert same_bits(nbt.load(tmp_path / "a", learner).state, state)
    assert same_bits(nbt.load(tmp_path / "a", learner, like=own_state(learner, fast=2)).state, state)


def test_a_state_for_another_learner_is_refused(tmp_path):
    nbt.save(tmp_path / "a", LEARNERS[0], LEARNERS[0].init(0))
    other = nbt.Learner(nbt.LeakyRNN(units=6, symbols=3), nbt.NoBackTrack(rank=2), UPDATE)
    with pytest.raises(ValueError, match=r"state\.params\.theta"):
        nbt.load(tmp_path / "a", other, like=other.init(0))
    adam = nbt.Learner(LEARNERS[0].system, LEARNERS[0].estimator, nbt.Optax(optax.adam(0.1)))
    with pytest.raises(ValueError, match=r"state\.update\.theta"):
        nbt.load(tmp_path / "a", adam)


def test_a_state_does_not_load_into_another_learner(tmp_path):
    nbt.save(tmp_path / "a", LEARNERS[0], LEARNERS[0].init(0))
    for system, estimator in (
        (nbt.LeakyRNN(units=9, symbols=3), nbt.NoBackTrack(rank=2)),
        (nbt.LeakyRNN(units=5, symbols=3), nbt.NoBackTrack(rank=3)),
        (nbt.LeakyRNN(units=5, symbols=3), nbt.RTRL()),
        (nbt.LeakyRNN(units=5, symbols=3), nbt.TruncatedBPTT()),
        (nbt.LeakyRNN(units=5, symbols=3), nbt.BlockNoBackTrack()),
        (nbt.LeakyRNN(units=5, symbols=3), nbt.NoBackTrack(rank=2, belief=nbt.Caution())),
    ):
        with pytest.raises(ValueError, match="another learner"):
            nbt.load(tmp_path / "a", nbt.Learner(system, estimator, UPDATE))


@pytest.mark.parametrize("estimator", [nbt.TruncatedBPTT(depth=5), nbt.BlockNoBackTrack(depth=6, every=3)])
def test_what_filters_and_beliefs_have_seen_is_kept(tmp_path, estimator):
    learner = nbt.Learner(nbt.LSTM(units=4, symbols=3), estimator, nbt.Kalman())
    stream = nbt.streams.anbn(1, 4, length=200, seed=0)
    state, _ = learner.run(learner.init(0), stream[:100])
    assert float(state.update.theta.lengths.gradients) > 0
    nbt.save(tmp_path / "a", learner, state)
    for again in (nbt.load(tmp_path / "a")[1], nbt.load(tmp_path / "a", learner)[1]):
        assert same_bits(again, state)
        assert same_bits(learner.run(again, stream[100:])[0], learner.run(state, stream[100:])[0])


def test_keys_that_would_share_a_name_are_refused(tmp_path):
    system = nbt.System(lambda theta, h, x: h, lambda phi, h: h, lambda y_hat, y: (y_hat - y) ** 2)
    learner = nbt.Learner(system, nbt.RTRL(), nbt.SGD(0.1))
    state = learner.init(0, theta={"a.b": 1.0, "a": {"b": 2.0}}, phi=(), h=0.0, x=0.0)
    with pytest.raises(ValueError, match="rename"):
        nbt.save(tmp_path / "a", learner, state)


def test_a_damaged_file_is_refused(tmp_path):
    nbt.save(tmp_path / "a", LEARNERS[0], LEARNERS[0].init(0))
    whole = (tmp_path / "a").read_bytes()
    for cut in (0, 4, 100, len(whole) - 1):
        (tmp_path / "b").write_bytes(whole[:cut])
        with pytest.raises(ValueError, match="not a checkpoint, or damaged"):
            nbt.load(tmp_path / "b")
    for place in range(8, len(whole), 97):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << place % 8
        (tmp_path / "b").write_bytes(flipped)
        with pytest.raises(ValueError, match=r"damaged|format"):
            nbt.load(tmp_path / "b")
    safetensors.numpy.save_file({"x": np.zeros(2)}, tmp_path / "c")
    with pytest.raises(ValueError, match="not a checkpoint"):
        nbt.load(tmp_path / "c")


def test_another_format_or_an_unknown_class_is_refused(tmp_path):
    safetensors.numpy.save_file({"x": np.zeros(2)}, tmp_path / "a", {"nobacktrack": json.dumps({"format": 99})})
    with pytest.raises(ValueError, match="format 99"):
        nbt.load(tmp_path / "a")
    header = {"format": checkpoint.FORMAT, "learner": {"class": "Popen", "fields": {}}, "repr": "", "notes": {}}
    header["digest"] = checkpoint._digest(header, {"x": np.zeros(2)})
    safetensors.numpy.save_file({"x": np.zeros(2)}, tmp_path / "a", {"nobacktrack": json.dumps(header)})
    with pytest.raises(ValueError, match="unknown class 'Popen'"):
        nbt.load(tmp_path / "a")


def test_a_save_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    learner = LEARNERS[0]
    nbt.save(tmp_path / "a", learner, learner.init(0))
    before = (tmp_path / "a").read_bytes()

    def full(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="disk full"):
        nbt.save(tmp_path / "a", learner, learner.init(1))
    assert (tmp_path / "a").read_bytes() == before
    assert os.listdir(tmp_path) == ["a"]


def test_float64_needs_float64(tmp_path):
    learner = LEARNERS[0]
    nbt.save(tmp_path / "a", learner, learner.init(0, dtype=jnp.float64))
    jax.config.update("jax_enable_x64", False)
    try:
        with pytest.raises(ValueError, match="JAX_ENABLE_X64"):
            nbt.load(tmp_path / "a")
    finally:
        jax.config.update("jax_enable_x64", True)


class Unregistered(NamedTuple):
    a: Any


@register
class Registered(NamedTuple):
    a: Any


def test_a_record_that_could_not_be_read_back_is_refused_when_it_is_saved(tmp_path):
    learner = nbt.Learner(nbt.RNN(units=3, symbols=3), nbt.NoBackTrack(), nbt.SGD(0.1))
    state = learner.init(0)
    strange = state._replace(influence=Unregistered(state.influence))
    with pytest.raises(
        ValueError, match=r"state.influence: Unregistered is not a record .* nobacktrack.registry.register"
    ):
        nbt.save(tmp_path / "a", learner, strange)
    assert not (tmp_path / "a").exists()
    nbt.save(tmp_path / "a", learner, state._replace(influence=Registered(state.influence)))
    assert checkpoint.inspect(tmp_path / "a")["t"] == 0


@configuration
class Doubling(nbt.Recurrent):
    """A cell of one's own, decorated: a checkpoint may name it."""

    def pointwise(self, a, own, setting):
        return 2 * a

    def activity(self, own):
        return jnp.tanh(own[-1])


def test_a_cell_of_ones_own_is_saved_and_read_by_its_name(tmp_path):
    learner = nbt.Learner(Doubling(units=3, symbols=3), nbt.NoBackTrack(), nbt.Kalman())
    state, _ = learner.run(learner.init(0), np.array([0, 1, 2, 1]))
    nbt.save(tmp_path / "a", learner, state)
    found = nbt.load(tmp_path / "a")
    assert found.learner == learner
    assert same_bits(found.state, state)
    assert registry.name_of(Doubling).endswith(":Doubling")
    assert registry.name_of(nbt.RNN) == "RNN"


class Then(NamedTuple):
    """A record as another version had it."""

    value: Any
    gone: Any


class Now(NamedTuple):
    """The same as this version has it."""

    value: Any
    new: Any


def test_a_record_of_another_version_is_refused_in_one_line(tmp_path, monkeypatch):
    learner = LEARNERS[0]
    state = learner.init(0)
    monkeypatch.setitem(registry._CLASSES, registry.name_of(Then), Then)
    nbt.save(tmp_path / "a", learner, state._replace(h=Then(state.h, state.h)))
    monkeypatch.setitem(registry._CLASSES, registry.name_of(Then), Now)
    with pytest.raises(
        ValueError, match=r"a: written by another version, whose .*Then is not that of this one"
    ) as found:
        nbt.load(tmp_path / "a")
    assert "\n" not in str(found.value)


def test_a_learner_of_another_version_is_refused_in_one_line(tmp_path, monkeypatch):
    nbt.save(tmp_path / "a", LEARNERS[0], LEARNERS[0].init(0))
    monkeypatch.setitem(registry._CLASSES, "LeakyRNN", Now)
    with pytest.raises(ValueError, match="a: written by another version, whose LeakyRNN"):
        nbt.load(tmp_path / "a")
