"""The paper's experiments, at a small size: interrupted, continued, repeated, reported."""

import csv
import json
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from rich.console import Console

import nobacktrack as nbt
from nobacktrack.engines import choose
from nobacktrack.experiments.paper import claims, figures, manifest, measures, reproduce, results, runs
from nobacktrack.experiments.paper.figures import ANBN, FIGURES, SOURCES
from nobacktrack.experiments.paper.manifest import Budget, Manifest, Scale, marks_to
from nobacktrack.experiments.paper.runs import Job, Ledger, Result

LENGTH = 12_000


TINY = Scale("tiny", dict.fromkeys(SOURCES, LENGTH), 2)


pytestmark = pytest.mark.usefixtures("as_users_have_it")


@pytest.fixture
def quick_speeds(monkeypatch):
    """Speeds that need not be measured: exact gradients ten times slower, truncated BPTT twice as fast."""

    def speeds(kinds, stream, say):
        return {name: 10.0 if "RTRL" in name else 0.5 if "BPTT" in name else 1.0 for name in kinds}

    monkeypatch.setattr(manifest, "_speeds", speeds)


def call(names, out, scale=TINY, seeds=2, budgets=None):
    return reproduce.reproduce(reproduce.chosen(names), scale, seeds, 2, out, None, budgets, Console(quiet=True)).page


def test_marks_are_each_a_tenth_below_the_next():
    marks = marks_to(1_000_000)
    assert marks[-1] == 1_000_000
    assert 100 <= marks[0] < 112
    np.testing.assert_allclose(np.divide(marks[:-1], marks[1:]), 0.9, rtol=0.01)


def test_a_ledger_does_not_depend_on_how_the_characters_come():
    bits = np.random.default_rng(0).random(5000).astype(np.float32)
    budget = Budget(3000, 5000)
    ledgers = [Ledger(budget.marks()) for _ in range(2)]
    ledgers[0].add(bits)
    for part in np.split(bits, [1, 2000, 3000]):
        ledgers[1].add(part)
        ledgers[1] = Ledger(budget.marks(), json.loads(json.dumps(ledgers[1].notes())))
    assert ledgers[0].reached == ledgers[1].reached == budget.marks()
    np.testing.assert_allclose(ledgers[0].bits, ledgers[1].bits, rtol=1e-12)
    assert ledgers[0].bits[-1] == pytest.approx(bits.sum(dtype=float))


def test_curves_are_means_over_all_and_over_the_last_tenth():
    marks = marks_to(1000)
    bits = np.arange(1, 1001)  # the t-th character pays t
    paid = np.cumsum(bits)
    whole = Result("", marks, [float(paid[m - 1]) for m in marks], None, None)
    ended = Result("", marks[:5], whole.bits[:5], diverged=200, blocks=None)
    curves = results.curves([whole, ended], 1000)
    assert curves.mean[0, -1] == pytest.approx(500.5)
    assert curves.recent[0, -1] == pytest.approx(bits[900:].mean())
    assert np.isnan(curves.mean[1, 5:]).all()
    assert np.isfinite(curves.mean[1, :5]).all()
    assert curves.last.tolist() == [curves.recent[0, -1]]


def test_figures_are_those_of_the_paper_and_run_in_the_fused_engine():
    assert list(FIGURES) == [f"fig{i}" for i in range(1, 7)]
    for figure in FIGURES.values():
        names = [method.name for method in figure.methods]
        assert len(set(names)) == len(names)
        for method in figure.methods:
            assert method.learner.system.units == 20
            assert choose(method.learner, method.learner.init(0))[1] == ""
    for name in ("fig1", "fig2"):
        rates = {method.learner.update.rate.c for method in FIGURES[name].methods if not method.ours}
        assert rates == {{"fig1": 1.0, "fig2": 0.03}[name]}


def test_all_have_the_time_of_the_reference(tmp_path, quick_speeds):
    found = Manifest(tmp_path, TINY)
    found.calibrate(ANBN, np.zeros(10, np.int32), lambda _: None)
    budgets = {method.name: found.budget(ANBN, method.learner) for method in FIGURES["fig5"].methods}
    assert budgets["NoBackTrack, rank 1, Kalman"] == (LENGTH, LENGTH)
    assert budgets["RTRL"] == (LENGTH / 10, LENGTH)
    assert budgets["BPTT(15)"] == (2 * LENGTH, LENGTH)
    again = Manifest(tmp_path, TINY)
    assert again.content == found.content
    jobs = runs.jobs_of([FIGURES["fig5"]], 2, again)
    assert len({job.name for job in jobs}) == len(jobs) == 2 * len(FIGURES["fig5"].methods)
    costs = [runs.cost(job, again) for job in jobs]
    assert costs == sorted(costs, reverse=True)


@pytest.mark.slow
def test_a_report_of_two_figures(tmp_path, quick_speeds):
    page = call(["fig1", "fig5"], tmp_path / "out").read_text()
    out = tmp_path / "out"
    for name in ("fig1", "fig5"):
        assert (out / f"{name}.png").stat().st_size > 20_000
        assert (out / f"{name}.svg").read_text().count("<path") > 20
        found = json.loads((out / f"{name}.json").read_text(), parse_constant=lambda _: pytest.fail("NaN in JSON"))
        assert set(found["methods"]) == {method.name for method in FIGURES[name].methods}
        assert found["seeds"] == [0, 1]
        rows = list(csv.DictReader((out / f"{name}.csv").open()))
        last = [row for row in rows if row["method"] == "RTRL" and row["budget"] == "characters"][-1]
        assert last["characters"] == str(LENGTH)
        assert float(last["bits_last_tenth"]) == pytest.approx(
            found["methods"]["RTRL"]["same_characters"]["last_tenth"][-1], abs=1e-6
        )
    assert page.count("data:image/svg+xml;base64,") == 2
    assert not re.search(r"(src|href)='?(http|/)", page)  # it stands alone
    for verdict in claims.verdicts({"fig5": _panel(out, "fig5")}):
        assert verdict.claim.split(",")[0] in page
    assert not list(out.glob(".*"))


def _panel(out, name):
    found = Manifest(out, TINY)
    text, alphabet = FIGURES[name].source.read(LENGTH, None)
    return results.panel(FIGURES[name], 2, found, runs.lines_of(FIGURES[name].source, text, alphabet, out), out)


def test_a_run_that_is_kept_is_not_run_again_and_one_that_is_damaged_is_named(tmp_path, quick_speeds):
    call(["fig2"], tmp_path)
    files = sorted((tmp_path / "runs").glob("music-*seed*.json"))
    content = json.loads(files[0].read_text())
    content["bits"][-1] = 1e6
    files[0].write_text(json.dumps(content))
    call(["fig2"], tmp_path)
    assert "1e6" in files[0].read_text() or "1000000.0" in files[0].read_text()
    files[0].write_text("{")
    with pytest.raises(ValueError, match="damaged"):
        call(["fig2"], tmp_path)


def test_a_folder_belongs_to_one_kind_of_run(tmp_path, quick_speeds):
    call(["fig2"], tmp_path / "a")
    with pytest.raises(ValueError, match=r"of a run of another kind \(tiny, not other\)"):
        call(["fig2"], tmp_path / "a", TINY._replace(name="other"))
    made = json.loads((tmp_path / "a" / "manifest.json").read_text())
    made["machine"]["numba"] = "0.1"
    (tmp_path / "a" / "manifest.json").write_text(json.dumps(made))
    with pytest.raises(ValueError, match=r"made with numba 0\.1, this is .*; choose another folder"):
        call(["fig2"], tmp_path / "a")


def test_budgets_of_another_run_are_taken_over(tmp_path, quick_speeds, monkeypatch):
    call(["fig2"], tmp_path / "a")
    monkeypatch.setattr(manifest, "_speeds", lambda *_: pytest.fail("measured again"))
    made = json.loads((tmp_path / "a" / "manifest.json").read_text())
    made["calibrated_on"]["processor"] = "another"
    (tmp_path / "other.json").write_text(json.dumps(made))
    call(["fig2"], tmp_path / "b", budgets=tmp_path / "other.json")
    taken = json.loads((tmp_path / "b" / "manifest.json").read_text())
    assert taken["microseconds"] == made["microseconds"]
    assert taken["calibrated_on"]["processor"] == "another" != taken["machine"]["processor"]
    assert (tmp_path / "a" / "fig2.csv").read_bytes() == (tmp_path / "b" / "fig2.csv").read_bytes()
    made["seconds"]["music"] *= 2
    (tmp_path / "other.json").write_text(json.dumps(made))
    with pytest.raises(ValueError, match="as far as another manifest says"):
        call(["fig2"], tmp_path / "b", budgets=tmp_path / "other.json")


@pytest.mark.parametrize("content", ["[]", "{", "{}", '{"format": 1, "scale": "tiny", "characters": {}}'])
def test_what_is_no_manifest_is_refused_before_anything_is_written(content, tmp_path):
    (tmp_path / "bad.json").write_text(content)
    with pytest.raises(ValueError, match="not a manifest"):
        call(["fig2"], tmp_path / "out", budgets=tmp_path / "bad.json")
    assert not (tmp_path / "out").exists()


def test_a_learner_that_diverges_is_counted(tmp_path, quick_speeds):
    budget = Budget(3000, 3000)
    learner = nbt.Learner(nbt.RNN(units=20, symbols=3), nbt.NoBackTrack(), nbt.SGD(1e30))
    job = Job(ANBN, learner, 0, budget)
    (tmp_path / "runs").mkdir()
    done = []
    runs.run(
        job, nbt.streams.anbn(1, 32, length=3000, seed=0), tmp_path, threading.Event(), lambda _, n: done.append(n)
    )
    found = runs.finished(job, tmp_path)
    assert found is not None
    assert found.diverged is not None
    assert found.blocks is None
    assert sum(done) == 3000
    assert results.outcome([found], budget, 1.0).diverged == 1
    assert measures.relapse(results.outcome([found], budget, 1.0)) == np.inf


SCRIPT = """
import signal, sys
from pathlib import Path
from rich.console import Console
from nobacktrack.experiments.paper import claims, figures, manifest, reproduce, runs
from nobacktrack.experiments.paper.manifest import Scale

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has what is in the background ignore it
runs.SAVE_SECONDS = 0.0  # so that a run is seen from outside when it has begun
five = figures.FIGURES["fig5"]
names = {"NoBackTrack, rank 1, Kalman", "RTRL"}
few = five._replace(methods=tuple(m for m in five.methods if m.name in names))
manifest._speeds = lambda kinds, *_: {name: 2.0 if "RTRL" in name else 1.0 for name in kinds}
claims.JUDGES.clear()  # they need all methods
scale = Scale("tiny", {"anbn": 400_000}, 1)
reproduce.reproduce([few], scale, 1, 2, Path(sys.argv[1]), None, None, Console(quiet=True))
"""


@pytest.mark.slow
def test_a_run_that_is_interrupted_goes_on_to_the_same_numbers(tmp_path):
    """A real Ctrl-C, in the middle of runs: what was left is kept, and the second call ends with the same files."""
    whole = tmp_path / "whole"
    subprocess.run([sys.executable, "-c", SCRIPT, whole], check=True)
    halved = next(out for out in map(interrupted, (tmp_path / f"halved{i}" for i in range(4))) if out is not None)
    left = list(halved.glob("runs/*.partial"))
    assert left
    assert all(0 < nbt.load(file).state.steps < 400_000 for file in left)
    assert not (halved / "index.html").exists()
    subprocess.run([sys.executable, "-c", SCRIPT, halved], check=True)
    assert not list(halved.glob("runs/*.partial"))
    for file in ("fig5.csv", "fig5.json"):
        assert (whole / file).read_bytes() == (halved / file).read_bytes()


def interrupted(out):
    """A folder in which runs were met half-way; None where they were over before they heard of it."""
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, out], stderr=subprocess.PIPE)
    while process.poll() is None and not list(out.glob("runs/*.partial")):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    process.communicate()
    return out if process.returncode else None


def test_streams_of_the_figures():
    for source in (SOURCES["music"], SOURCES["anbn"]):
        symbols, alphabet = source.read(500, None)
        assert len(symbols) == 500
        assert symbols.max() < source.symbols == len(alphabet)
    one, two = (figures.MUSIC.read(n, None)[0] for n in (100_000, 250_000))
    assert np.array_equal(two[:100_000], one)
    assert np.array_equal(two[100_000:200_000], one)
    short, long = (ANBN.read(n, None)[0] for n in (1000, 5000))
    assert np.array_equal(long[:1000], short)


@pytest.mark.parametrize("name", ["fig7", "figure1"])
def test_an_unknown_figure_is_named(name):
    with pytest.raises(ValueError, match=f"{name}.*fig1, fig2"):
        reproduce.chosen(["fig1", name])
    assert [figure.name for figure in reproduce.chosen(["fig5", "fig1"])] == ["fig1", "fig5"]
    assert len(reproduce.chosen(["all"])) == len(reproduce.chosen([])) == 6
