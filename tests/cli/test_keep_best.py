"""`--keep-best`: the learner at its lowest recent loss, in a file of its own."""

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import nobacktrack as nbt
from nobacktrack.checks import same_bits
from nobacktrack.cli.checkpoints import Best, BestKeeper, best_in

NETWORK = ["--cell", "rnn", "--units", 6, "--estimator", "nobacktrack"]


@pytest.fixture
def soon(monkeypatch):
    """The best counts soon enough for a short text."""
    monkeypatch.setattr("nobacktrack.cli.checkpoints.SETTLED", 1000)


@pytest.fixture
def trained(call, text, tmp_path, soon):
    """A checkpoint and the best of a run on a^n b^n, and what was said of it."""
    saved, best = tmp_path / "a.nbt", tmp_path / "best.nbt"
    run = call("train", text, *NETWORK, "--checkpoint", saved, "--keep-best", best)
    return saved, best, run.err


def keeper_of(monkeypatch, best):
    """A keeper on a reader of rows that says when it would save; `stand(targets, recent, now)` is how it is."""
    tally, clock, saved = SimpleNamespace(losses=SimpleNamespace()), SimpleNamespace(now=100.0), []
    monkeypatch.setattr("nobacktrack.cli.checkpoints.time", SimpleNamespace(monotonic=lambda: clock.now))
    reader = SimpleNamespace(unit="rows", tally=tally)
    checkpointer: Any = SimpleNamespace(reader=reader, write=lambda path: saved.append(tally.items))

    def stand(targets, recent, now):
        tally.items = tally.targets = targets
        tally.losses.recent, clock.now = recent, now

    return BestKeeper(Path("best"), checkpointer, best), stand, saved


def noise_after(text, path):
    """The same text, and letters in no order."""
    path.write_text(text.read_text() + "".join(np.random.default_rng(0).choice(list("ab\n"), 9000)))
    return path


# --- when it saves --------------------------------------------------------------------------------------------------


def test_it_saves_what_is_lowest_once_that_has_settled_and_not_too_often(monkeypatch):
    keeper, stand, saved = keeper_of(monkeypatch, Best())
    for targets, recent, now, due in (
        (999, 0.1, 100, False),  # not settled
        (1000, 1.0, 101, True),
        (1001, 1.0, 110, False),  # not lower
        (1002, 0.9, 120, True),
        (1003, 0.8, 124, False),  # too soon
        (1004, 0.85, 126, True),
        (1005, math.nan, 140, False),
    ):
        stand(targets, recent, now)
        keeper.look()
        assert (targets in saved) == due, targets
    stand(1006, 0.7, 141)
    keeper.look()
    stand(1007, 0.6, 142)
    keeper.look()
    keeper.look(last=True)
    keeper.look(last=True)
    assert saved[-2:] == [1006, 1007]
    assert keeper.best == Best(0.6, 1007)


def test_nothing_is_saved_that_does_not_beat_what_was_there(monkeypatch):
    keeper, stand, saved = keeper_of(monkeypatch, Best(0.5, 77))
    stand(2000, 0.6, 100)
    keeper.look(last=True)
    assert not saved
    assert "after 77 rows, with a recent loss of 0.5000 nats (0.7213 bits) per row" in keeper.message()
    stand(3000, 0.4, 101)
    keeper.look(last=True)
    assert saved == [3000]


def test_a_run_that_has_not_settled_says_so(call, text, tmp_path):
    run = call("train", text, *NETWORK, "--keep-best", tmp_path / "best.nbt")
    assert f"nothing is written to {tmp_path / 'best.nbt'}: the best counts from 20,000 targets on" in run.err
    assert not (tmp_path / "best.nbt").exists()


# --- what it keeps --------------------------------------------------------------------------------------------------


def test_the_best_is_a_checkpoint_like_any_other(call, trained, text, tmp_path):
    saved, best, said = trained
    assert f"the best is kept in {best}: after 6,000 characters, with a recent loss of " in said
    assert same_bits(nbt.load(saved).state, nbt.load(best).state)
    assert f"with a recent loss of {best_in(best, 'characters').loss:.4f} nats" in said
    assert json.loads(call("evaluate", best, text, "--json").out)["bits"] > 0
    assert set(call("generate", best, "--length", 50).out) <= set(text.read_text())
    assert " of late (" in " ".join(call("info", best).out.split())
    more = noise_after(text, tmp_path / "more.txt")
    call("resume", best, "--stream", more, "--json")
    assert nbt.load(best).state.steps == 15_000


def test_a_run_that_goes_on_must_beat_what_was_kept(call, trained, text, tmp_path):
    saved, best, _ = trained
    before, loss = best.read_bytes(), best_in(best, "characters").loss
    worse = noise_after(text, tmp_path / "worse.txt")
    kept = saved.read_bytes()
    run = json.loads(call("resume", saved, "--stream", worse, "--keep-best", best, "--json").out)
    assert best.read_bytes() == before
    assert (run["best_recent_loss"], run["best_after"]) == (loss, 6000)
    assert run["recent_bits"] * math.log(2) > loss
    saved.write_bytes(kept)
    better = tmp_path / "better.txt"
    better.write_text(text.read_text() * 3)
    run = json.loads(call("resume", saved, "--stream", better, "--keep-best", best, "--json").out)
    assert best_in(best, "characters").loss == run["best_recent_loss"] < loss
    assert run["best_after"] > 6000


def test_the_best_goes_on_with_its_own_scores(call, text, tmp_path, monkeypatch, soon):
    """Its notes know how much of the scores is its own: they are cut there, and nothing is missing."""
    best, told, whole = tmp_path / "best.nbt", tmp_path / "told.csv", tmp_path / "whole.csv"
    monkeypatch.setattr("nobacktrack.cli.checkpoints.PAUSE", 1e9)  # the first time only, and the end, which is worse
    worse = noise_after(text, tmp_path / "worse.txt")
    call("train", worse, *NETWORK, "--keep-best", best, "--scores", told, "--json")
    assert nbt.load(best).state.steps < 15_000
    whole.write_bytes(told.read_bytes())
    call("resume", best, "--scores", told, "--json")
    assert told.read_bytes() == whole.read_bytes()


def test_the_best_of_rows(call, tmp_path):
    rows, best = tmp_path / "rows.csv", tmp_path / "best.nbt"
    rows.write_text("x,y\n" + "".join(f"{i % 3},{i % 3}\n" for i in range(1200)))
    run = call("train", rows, "--target", "y", "--units", 3, "--keep-best", best)
    assert f"the best is kept in {best}: after 1,200 rows" in run.err
    assert json.loads(call("evaluate", best, rows, "--json").out)["rows"] == 1200


# --- refusals -------------------------------------------------------------------------------------------------------


def test_files_that_would_be_written_over_are_refused(call, trained, text, tmp_path):
    saved, best, _ = trained
    before = best.read_bytes()
    again = call("train", text, *NETWORK, "--keep-best", best, ok=False)
    assert "it exists: `nobacktrack resume" in again.err
    for option in ("--checkpoint", "--log", "--scores"):
        one = tmp_path / "one.csv"
        run = call("train", text, *NETWORK, option, one, "--keep-best", one, ok=False)
        assert "--keep-best, --predictions, --scores and --log must be files of their own" in run.err
        assert not one.exists()
    assert "must be files" in call("train", text, "--keep-best", text, "--overwrite", ok=False).err
    assert "must be files" in call("resume", saved, "--keep-best", saved, ok=False).err
    assert "there is no folder" in call("train", text, "--keep-best", tmp_path / "b" / "c", ok=False).err
    assert best.read_bytes() == before
    call("train", text, *NETWORK, "--seed", 5, "--keep-best", best, "--overwrite", "--json")
    assert best.read_bytes() != before


def test_what_is_not_of_such_a_run_is_refused(call, trained, tmp_path):
    saved, best, _ = trained
    learner, state, _ = nbt.load(best)
    nbt.save(best, learner, state)
    run = call("resume", saved, "--from-start", "--keep-best", best, ok=False)
    assert f"{best}: not of a run on text: its loss is none to beat" in run.err
    best.write_text("mine")
    assert "not a checkpoint, or damaged" in call("resume", saved, "--keep-best", best, ok=False).err
    with nbt.files.alone(tmp_path / "other.nbt"):
        run = call("resume", saved, "--from-start", "--keep-best", tmp_path / "other.nbt", ok=False)
    assert "another process is writing it" in run.err
