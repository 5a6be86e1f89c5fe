"""`train` on rows: several columns, some rows ahead, with intervals; dates; presets; rows to come."""

import csv
import datetime

import numpy as np
import pytest


def hours(path, count=400, gaps=()):
    """Two columns over hours, and the time of each row; cells of `gaps` are empty."""
    start, random = datetime.datetime(2024, 1, 1), np.random.default_rng(0)
    rows = ["time,load,heat"]
    for t in range(count):
        load, heat = 100 + 20 * np.sin(2 * np.pi * t / 24) + random.normal(), -5 * np.cos(2 * np.pi * t / 24)
        cells = ["" if t in gaps else f"{value:.4f}" for value in (load, heat)]
        rows.append(",".join([str(start + t * datetime.timedelta(hours=1)), *cells]))
    path.write_text("\n".join(rows) + "\n")
    return path


def test_several_columns_some_rows_ahead_with_intervals(call, tmp_path):
    rows, out = hours(tmp_path / "h.csv", gaps=(100, 101, 250)), tmp_path / "out.csv"
    options = "--target", "load,heat", "--ahead", "6", "--season", "24", "--interval", "0.9"
    summary = call("train", rows, *options, "--predictions", out, "--json").json()
    assert summary["relative_rmse"] < 0.5 * summary["last_relative_rmse"]
    assert summary["coverage"] > 0.85
    assert set(summary["targets"]) == {"load", "heat"}
    assert summary["targets"]["load"]["rmse"] < summary["targets"]["load"]["last_rmse"]
    records = list(csv.DictReader(out.read_text().splitlines()))
    assert [int(record["row"]) for record in records] == [*range(2, 402), *range(402, 408)]
    assert all(record["load predicted"] == "" for record in records[:6])  # nothing was foreseen
    assert all(float(record["load low"]) < float(record["load high"]) for record in records[50:])
    assert [record["load"] for record in records[-6:]] == [""] * 6
    assert records[100]["load"] == ""
    plain = call("train", rows, *options)
    assert "rmse of load" in plain.err
    assert "share inside the intervals" in plain.err


def test_a_run_that_goes_on_predicts_rows_to_come_anew(call, tmp_path):
    rows, whole, parts, saved = (tmp_path / name for name in ("h.csv", "whole.csv", "parts.csv", "h.nbt"))
    hours(rows)
    lines = rows.read_text().splitlines(keepends=True)
    options = "--target", "load", "--ahead", "3", "--predictions"
    call("train", rows, *options, whole)
    rows.write_text("".join(lines[:200]))
    call("train", rows, *options, parts, "--checkpoint", saved)
    assert len(parts.read_text().splitlines()) == 1 + 199 + 3
    rows.write_text("".join(lines))
    call("resume", saved, "--predictions", parts)
    assert parts.read_text() == whole.read_text()


def test_times_are_known_and_may_be_words(call, tmp_path):
    """The hour of the row says its load: there is nothing else to know it by."""
    rows = tmp_path / "t.csv"
    random = np.random.default_rng(0)
    later = np.cumsum(random.integers(1, 40, 600)).tolist()
    when = [datetime.datetime(2024, 1, 1) + datetime.timedelta(hours=hours) for hours in later]
    rows.write_text("when,y\n" + "".join(f"{t.isoformat()},{10 * np.sin(2 * np.pi * t.hour / 24):.3f}\n" for t in when))
    summary = call("train", rows, "--target", "y", "--json").json()
    assert summary["rmse"] < 0.3 * summary["baseline_rmse"]
    rows.write_text("when,y\n2024-01-01,1\n2024-01-02,2\nyesterday,3\n")
    run = call("train", rows, "--target", "y", ok=False)
    assert "row 4: column 'when': 'yesterday' among times" in run.err
    assert call("train", rows, "--target", "y", "--words", "when", "--json").json()["rows"] == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--ahead", "3", "--cell", "lstm"), "ahead: of numbers, by a committee"),
        (("--interval", "0.9", "--task", "classification"), "interval: of numbers, by a committee"),
        (("--interval", "1.5"), "interval: a share of targets below 1"),
        (("--inputs", "load"), "'load' is a target too: it would be read before it is predicted; --ahead 1"),
    ],
)
def test_what_only_a_committee_on_numbers_can_do(call, tmp_path, options, message):
    run = call("train", hours(tmp_path / "h.csv", 5), "--target", "load", *options, ok=False)
    assert message in run.err
    assert run.code == 2


def test_rows_say_what_learns_them_and_take_presets(call, tmp_path):
    rows = hours(tmp_path / "h.csv", 30)
    assert "learner: a committee of lstm of 32 units" in call("train", rows, "--target", "load").err
    assert "leaky of 20 units" in call("train", rows, "--target", "load", "--budget", "10").err
    assert "LSTM(units=512" in call("train", rows, "--target", "load", "--preset", "large", "--json").json()["learner"]


def test_rows_get_a_committee_beside_the_last_value(call, tmp_path):
    rows, saved = tmp_path / "rows.csv", tmp_path / "r.nbt"
    rows.write_text("v\n" + "".join(f"{100 + 10 * np.sin(i / 3):.4f}\n" for i in range(600)))
    run = call("train", rows, "--target", "v", "--inputs", "v", "--ahead", "1", "--checkpoint", saved, "--json")
    found = run.json()
    assert found["recent_rmse"] < 0.5 * found["last_rmse"]
    assert found["experts"]["last value"] > found["experts"]["least squares on the others"]
    known = call("evaluate", saved, rows, "--json").json()
    assert known["rmse"] < 0.5 * known["last_rmse"]
    shown = call("info", saved).out
    assert "Committee" in shown


@pytest.mark.parametrize(
    ("name", "rows", "measure"),
    [
        ("r.csv", "x,y\n1,\n" + "1,up\n2,down\n" * 20, "accuracy"),
        ("r.csv", "x,y\n1,\n" + "1,3\n2,4\n" * 20, "rmse"),
        ("r.jsonl", '{"x": 1, "y": "7"}\n{"x": 2, "y": "8"}\n' * 20, "accuracy"),
        ("r.jsonl", '{"x": 1, "y": true}\n{"x": 2, "y": false}\n' * 20, "accuracy"),
    ],
)
def test_what_the_first_target_is_decides_what_is_predicted(call, tmp_path, name, rows, measure):
    (tmp_path / name).write_text(rows)
    summary = call("train", tmp_path / name, "--target", "y", "--units", 3, "--json").json()
    assert measure in summary


def test_a_target_that_only_looks_like_a_number_is_told_of(call, tmp_path):
    rows = tmp_path / "r.csv"
    rows.write_text("x;y\n" + "1;806,15\n2;907,3\n" * 3)
    options = "train", rows, "--target", "y", "--delimiter", ";", "--units", 3
    told = "labels are predicted, since the first target is '806,15'; --decimal , reads it as a number"
    assert told in call(*options).err
    assert "labels are predicted" not in call(*options, "--decimal", ",").err


def test_a_pipe_is_read_as_a_file_is(call, tmp_path, monkeypatch):
    """The first target says what is predicted, wherever it comes from."""
    rows = tmp_path / "r.jsonl"
    rows.write_text('{"x": 1, "ok": true}\n{"x": 2, "ok": false}\n' * 20)
    options = "--target", "ok", "--units", 3, "--json"
    from_file = call("train", rows, *options).json()
    with rows.open() as pipe:
        monkeypatch.setattr("sys.stdin", pipe)
        from_pipe = call("train", "-", "--format", "jsonl", *options).json()
    assert from_pipe["accuracy"] == from_file["accuracy"]


def test_a_measure_of_zero_is_said(call, tmp_path):
    """Each label comes once: none can be right."""
    rows = tmp_path / "r.csv"
    rows.write_text("x,y\n" + "".join(f"{i},label{i}\n" for i in range(20)))
    run = call("train", rows, "--target", "y", "--units", 3)
    assert "share of right labels             0.0000" in run.err
    assert "recent share                      0.0000" in run.err
    assert "skipped" not in run.err
    assert "set back" not in run.err


def test_errors_of_experts_say_that_outliers_are_bounded(call, tmp_path):
    assert (
        "recent rmse of each expert, outliers bounded"
        in call("train", hours(tmp_path / "h.csv", 30), "--target", "load").err
    )


def test_small_numbers_are_shown_and_no_error_of_none(call, tmp_path):
    rows = tmp_path / "r.csv"
    rows.write_text("x,y\n" + "".join(f"{i},{(i % 7) * 1e-9}\n" for i in range(60)))
    one = call("train", rows, "--target", "y", "--ahead", 1).err
    assert " 0.0000" not in one
    assert "e-09" in one
    both = call("train", rows, "--target", "x,y", "--ahead", 1).err
    assert "recent rmse/deviation of each expert, outliers bounded" in both
    rows.write_text("x,y\n0,1\n")
    assert "of each expert" not in call("train", rows, "--target", "y", "--ahead", 1).err


def test_a_target_is_named_once(call, tmp_path):
    run = call("train", hours(tmp_path / "h.csv", 30), "--target", "load,load", ok=False)
    assert run.err.splitlines()[-1] == "nobacktrack: --target: 'load' is named twice"
    assert run.code == 2


@pytest.mark.parametrize("name", ["R.CSV", "r.Tsv"])
def test_the_name_of_a_file_says_what_it_is_in_any_case(call, tmp_path, name):
    rows, out = tmp_path / name, tmp_path / "OUT.CSV"
    rows.write_text("x,y\n1,2\n".replace(",", "," if "C" in name else "\t"))
    assert call("train", rows, "--target", "y", "--units", 3, "--predictions", out, "--json").json()["rows"] == 1
    assert out.read_text().splitlines()[0] == "row,target,prediction"


def test_a_header_alone_has_no_rows(call, tmp_path):
    rows, saved = tmp_path / "r.csv", tmp_path / "r.nbt"
    rows.write_text("x,y\n")
    run = call("train", rows, "--target", "y", "--checkpoint", saved)
    assert "there were no rows; nothing is saved" in run.err
    assert not saved.exists()


def test_a_season_is_not_of_labels(call, tmp_path):
    rows = tmp_path / "r.csv"
    rows.write_text("x,y\n1,up\n2,down\n")
    run = call("train", rows, "--target", "y", "--season", "3", ok=False)
    assert run.err.splitlines()[-1] == (
        "nobacktrack: season: of numbers, by a committee; not by one network alone, nor of labels"
    )
    assert run.code == 2
