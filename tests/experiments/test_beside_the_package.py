"""The experiments run, at a small size; what they keep, they do not run again."""

import json

import jax
import numpy as np
import pytest

import nobacktrack as nbt
from experiments import (
    averaging,
    balancing,
    cells,
    continuous,
    divergence,
    drift,
    forecasts,
    fuzz,
    hidden_markov,
    kalman,
    pendulum,
    rescaling,
    river_streams,
    series,
    share,
    sizes,
    trials,
    univariate,
)

pytestmark = pytest.mark.usefixtures("as_users_have_it")


def small(learner, name="a method"):
    return trials.Trial(name, "0.1", learner, kalman.stream)


def test_trials_are_kept_and_not_run_again(tmp_path, capsys):
    given = trials.options("d", ("x",), "").parse_args(
        ["x", "--seeds", "2", "--length", "300", "--out", str(tmp_path / "r.json")]
    )
    learner = nbt.Learner(nbt.LeakyRNN(units=3, symbols=3), nbt.NoBackTrack(), nbt.Kalman())
    trials.run([small(learner)], given, kalman.LINES)
    kept = json.loads(given.out.read_text())
    ((key, result),) = kept.items()
    assert key == "a method | 0.1 | 2 seeds | 300"
    assert len(result["bits"]) == 2
    assert np.isfinite(result["bits"]).all()
    assert (tmp_path / "r_x.png").stat().st_size > 1000
    result["bits"] = [1.25, 1.75]
    given.out.write_text(json.dumps(kept))
    trials.run([small(learner)], given, kalman.LINES)
    assert "1.5000" in capsys.readouterr().out


def test_the_last_steps_before_a_divergence_are_followed():
    learner = nbt.Learner(nbt.LSTM(units=3, symbols=3), nbt.NoBackTrack(), nbt.Kalman())
    rows = divergence.follow(learner, 0, until=60, steps=10)
    assert [row.t for row in rows] == list(range(51, 62))
    assert np.isfinite(rows).all()
    assert all(row.influence > 0 for row in rows)


def test_sizes_are_measured_and_drawn(tmp_path, monkeypatch, capsys):
    text = tmp_path / "a.txt"
    text.write_text("to be or not to be\n" * 60)
    out = tmp_path / "s.json"
    monkeypatch.setattr(sizes, "ESTIMATORS", {"truncated": "bptt:5", "blocks": "block:6:3"})
    arguments = [str(text), "--sizes", "3,5", "--length", "600", "--seeds", "2", "--out", str(out)]
    monkeypatch.setattr("sys.argv", ["sizes", *arguments])
    sizes.main()
    found = json.loads(out.read_text())
    assert {name: {n: len(bits) for n, bits in row.items()} for name, row in found.items()} == {
        name: {"3": 2, "5": 2} for name in sizes.ESTIMATORS
    }
    assert all(1 < bit < 5 for row in found.values() for bits in row.values() for bit in bits)
    assert "blocks" in capsys.readouterr().out
    assert out.with_suffix(".png").stat().st_size > 1000


def test_seeds_at_once_are_seeds_one_by_one():
    estimators = nbt.NoBackTrack(), nbt.RTRL()
    for estimator in estimators:
        learner = nbt.Learner(nbt.LeakyRNN(units=3, symbols=3), estimator, nbt.Kalman())
        together = trials.last_tenth(small(learner), 2, 300)
        alone = [learner.run(learner.init(seed), kalman.stream(seed, 300))[1].bits[-30:].mean() for seed in range(2)]
        np.testing.assert_allclose(together, alone, rtol=1e-3)


def test_a_run_that_diverges_is_counted_and_left_out_of_the_mean():
    learner = nbt.Learner(nbt.GRU(units=3, symbols=3), nbt.NoBackTrack(), nbt.SGD(1e30))
    (bits,) = trials.last_tenth(small(learner), 1, 300)
    assert np.isnan(bits)
    result = trials.table([("m", "0.1", [0.2, 0.4, bits])])
    cells_of = [next(iter(column.cells)) for column in result.columns]
    assert cells_of == ["m", "0.1", "0.3000", "0.1000", "0.3000", "1"]


@pytest.mark.parametrize("which", ["methods", "norms", "tanh"])
def test_methods_are_named_apart(which):
    names = [(trial.name, trial.setting) for trial in kalman.methods(which)]
    assert len(set(names)) == len(names) > 0


@pytest.mark.parametrize("which", ["anbn", "brackets"])
def test_cells_read_their_streams(which):
    for trial in cells.methods(which, prior=100.0):
        stream = trial.stream(0, 100)
        assert 0 <= stream.min() <= stream.max() < trial.learner.system.symbols


def test_without_scales_w_shrinks_with_the_time_step(monkeypatch):
    """|w|^2 goes as dt without the scales; with them it does not depend on dt."""
    monkeypatch.setattr(continuous, "DURATION", 2.0)
    sizes = {
        (name, dt): float(np.mean(continuous.over_copies(norms, dt, 64).w[:, -1]))
        for name, norms in continuous.NORMS.items()
        for dt in (0.1, 0.01)
    }
    assert 5 < sizes["without", 0.1] / sizes["without", 0.01] < 20
    assert 0.5 < sizes["with the scales", 0.1] / sizes["with the scales", 0.01] < 2


def test_the_pendulum_learns_its_length():
    lengths, _ = pendulum.learned(6000, seed=0)
    assert abs(lengths[-100:].mean() - pendulum.LENGTH) < 0.1 < abs(lengths[0] - pendulum.LENGTH)


def test_reduced_online_em_is_near_the_exact_one(monkeypatch):
    monkeypatch.setattr(hidden_markov, "COUNT", 5000)
    exact, reduced = hidden_markov.error(3, None, 0), hidden_markov.error(3, 10, 0)
    assert exact < 0.1
    assert abs(reduced - exact) < 0.02


@pytest.mark.parametrize("name", rescaling.NORMS)
def test_the_variance_of_the_rescaling_example_is_as_computed(name):
    mean, error = rescaling.measured(rescaling.NORMS[name], steps=20, copies=2000)
    expected = rescaling.exact(np.arange(1, 21), "without" not in name)
    assert (np.abs(mean - expected) < 5 * error + 1e-3).all()
    assert error[-1] < 0.1 * expected[-1]


def test_short_truncations_go_the_wrong_way_and_unbiased_estimators_do_not():
    short, whole = (balancing.learned(balancing.ESTIMATORS[name], 3000, 0, 0.0003)[-1] for name in ("BPTT(10)", "RTRL"))
    assert whole < -0.05
    assert short > 0.05
    theta = balancing.learned(nbt.NoBackTrack(rank=10), 20_000, 0, 0.0003)
    assert theta[-1] == pytest.approx(balancing.OPTIMUM, abs=0.06)


def test_means_of_unbiased_gradients_go_to_the_exact_one():
    with jax.enable_x64(True):
        unbiased, biased = (averaging.errors(estimator, 1024, 0) for estimator in (nbt.UORO(), nbt.SnAp1()))
    slope = np.polyfit(np.log(averaging.COUNTS), np.log(unbiased), 1)[0]
    assert -0.7 < slope < -0.35
    assert biased[-1] == pytest.approx(biased[0])
    assert biased[-1] > 0.05


def test_series_are_scored_by_squared_error_over_variance(tmp_path, monkeypatch):
    learner = nbt.Learner(nbt.RNN(units=4, inputs=1, outputs=1), nbt.RTRL(), nbt.Kalman())
    values = nbt.streams.henon(length=400, seed=0)
    state, expected = learner.init(0), []
    for y in values[:50]:
        expected.append(float((learner.predict(state) - y)[0] ** 2))
        state, _ = learner.step(state, y)
    assert series.error(learner, values[:50], 0) == pytest.approx(np.mean(expected[-5:]), rel=1e-3)
    monkeypatch.setattr(series, "ESTIMATORS", {"RTRL": nbt.RTRL()})
    out = tmp_path / "s.json"
    monkeypatch.setattr("sys.argv", ["series", "--seeds", "2", "--steps", "100", "--units", "3", "--out", str(out)])
    series.main()
    assert all(len(errors) == 2 and np.isfinite(errors).all() for errors in json.loads(out.read_text()).values())


def test_a_stream_that_changes(tmp_path, capsys, monkeypatch):
    options = ["drift", "--length", "10000", "--seeds", "2", "--out", str(tmp_path / "d.png")]
    monkeypatch.setattr("sys.argv", options)
    drift.main()
    assert "Kalman, 0.0001" in capsys.readouterr().out
    assert (tmp_path / "d.png").stat().st_size > 10_000
    whole = drift.stream(1000, 0)
    assert len(whole) == 5000
    assert np.array_equal(whole[1000:2000], nbt.streams.anbn(1, 32, length=1000, seed=1))


def test_models_on_the_streams_of_river(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["tables", "--seeds", "1", "--streams", "AirlinePassengers"])
    river_streams.main()
    assert "AirlinePassengers" in capsys.readouterr().out
    first, second = list(river_streams.rows("AirlinePassengers"))[:2]
    assert first == ({"last": 0.0}, 112)
    assert second == ({"last": 112}, 118)


def test_series_are_predicted_before_they_are_learned_from(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["univariate", "--seeds", "2", "--series", "sunspots"])
    univariate.main()
    assert "least squares" in capsys.readouterr().out
    power = univariate.hourly_power(0)
    assert 0.01 < sum(y is None for y in power.targets) / len(power.targets) < 0.03
    line = univariate.Series([{}] * 200, [2.0 * t for t in range(200)])
    assert univariate.score(line, univariate.Before(1)).error == pytest.approx(2)
    assert univariate.score(line, univariate.LeastSquares()).error < 1e-3


@pytest.mark.parametrize("ahead", [1, 30])
def test_forecasts_are_of_their_rows(ahead, monkeypatch):
    """The last row and the last day are those that were known when a row was predicted."""
    monkeypatch.setattr(forecasts, "BEGIN", 80)
    y = np.cumsum(np.random.default_rng(0).normal(size=(130, 2)), axis=0)
    found = forecasts.run(y, 0, nbt.Forecasts(ahead=ahead, interval=0.9))
    day = 24 if ahead == 1 else 48
    for name, back in ("the last row", ahead), ("last value", ahead), ("the last day", day):
        assert found.errors[name] == pytest.approx(((y[80:] - y[80 - back : -back]) ** 2).mean())
    assert 0.5 < found.coverage <= 1
    assert found.width > 0
    titles = forecasts.table("a.csv", [found], nbt.Forecasts(ahead=ahead, interval=0.9))
    assert f"{ahead} ahead" in str(titles.title)


def test_the_best_sequence_of_experts_is_found(tmp_path, monkeypatch, capsys):
    random = np.random.default_rng(0)
    costs = random.exponential(size=(9, 3))
    sequences = np.stack(np.meshgrid(*[range(3)] * 9, indexing="ij"), axis=-1).reshape(-1, 9)
    changes = (np.diff(sequences, axis=1) != 0).sum(axis=1)
    for most in range(4):
        every = costs[np.arange(9), sequences[changes <= most]].sum(axis=1)
        found = share.best_sequence(costs, most)
        assert (np.diff(found) != 0).sum() <= most
        assert costs[np.arange(9), found].sum() == pytest.approx(every.min())
    monkeypatch.setattr("sys.argv", ["share", "--rows", "60", "--out", str(tmp_path / "s.png")])
    share.main()
    found = dict(line.split(":") for line in capsys.readouterr().out.splitlines())
    assert float(found["mixture"].split()[0]) < float(found["bound"].split()[0])
    assert (tmp_path / "s.png").stat().st_size > 1000


def test_mutations_are_counted(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["fuzz", "--count", "20"])
    fuzz.main()
    found = json.loads(capsys.readouterr().out)
    assert sum(count for name, count in found.items() if name.startswith("checkpoint")) == 20
    assert sum(count for name, count in found.items() if name.startswith("stream")) == 20
