"""Estimators and updates on one stream, over seeds."""

import numpy as np
import pytest

import nobacktrack as nbt
from nobacktrack.experiments import compare
from nobacktrack.experiments.compare import Curve, Entry
from nobacktrack.readers import names


def entry(name, estimator, length=1000):
    return Entry(name, "sgd", nbt.Learner(nbt.RNN(units=3, symbols=3), estimator, nbt.SGD(0.1)), length)


def make(seed, length):
    return nbt.streams.anbn(1, 4, length=length, seed=seed)


def test_runs_are_those_of_the_learners_and_are_kept(tmp_path):
    entries, out = [entry("nbt", nbt.NoBackTrack()), entry("snap", nbt.SnAp1(), 600)], tmp_path / "deep" / "c.json"
    results = compare.run(entries, make, 2, out, lambda text: None)
    for each in entries:
        for seed in range(2):
            _, info = each.learner.run(each.learner.init(seed), make(seed, each.length))
            assert results[each.key(seed)].last == pytest.approx(info.bits[-each.length // 10 :].mean(), rel=1e-4)
    said = []
    again = compare.run(entries, lambda seed, length: pytest.fail("run again"), 2, out, said.append)
    assert again == results
    assert said[0].startswith("nbt, sgd: [")
    shown = compare.table(entries, results, 2, [500, 5000], [1e-3], 0.2)
    assert shown.row_count == 2
    compare.figure(entries, results, 2, 0.2, tmp_path / "c.png")
    assert (tmp_path / "c.png").stat().st_size > 10_000


def test_runs_with_an_optimiser_of_optax_are_found_again():
    one, other = (
        Entry("nbt", "adam", nbt.Learner(nbt.RNN(units=3, symbols=3), nbt.UORO(), names.update_of("adam")), 300)
        for _ in range(2)
    )
    assert one.key(0) == other.key(0)
    assert one.key(0) != one._replace(update="adam:0.1").key(0)
    assert one.key(0) != one.key(1)


def test_curves_are_read_at_characters_and_at_times():
    curve = Curve([100, 200, 400, 800], [3.0, 2.0, 1.0], 1.0, microseconds=10.0)
    assert curve.at(400) == 2.0
    assert curve.at_time(400 * 10e-6) == pytest.approx(2.0)
    assert 1.0 < curve.at(600) < 2.0
    assert np.isnan(curve.at(900))
    assert np.isnan(curve.at(150))


def test_a_run_that_diverged_is_counted(monkeypatch):
    wild = Entry("wild", "sgd", nbt.Learner(nbt.RNN(units=3, symbols=3), nbt.RTRL(), nbt.SGD(1e30)), 1000)
    curve = compare.one(wild, make(0, 1000), 0)
    assert np.isnan(curve.last)
    assert compare._mean([curve.last, 0.5, 0.7]) == "0.6000 (0.1000) [1 lost]"
