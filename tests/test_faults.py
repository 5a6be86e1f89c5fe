"""Killed, told to stop, on a full disk, two at once: nothing is lost, nothing is broken."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import nobacktrack as nbt
from experiments import faults
from nobacktrack import checkpoint

COMMAND = [sys.executable, "-m", "nobacktrack"]


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("".join(np.array(list("ab\n"))[nbt.streams.anbn(1, 8, length=20_000, seed=0)]))
    return path


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_run_that_was_killed_ends_where_one_ends_that_was_not(how):
    options = ["--units", "8", "--estimator", "nobacktrack:4", "--checkpoint-every", "2000"]
    found = faults.run(1_500_000, 3, how, 5.0, options)
    assert found.identical
    assert found.broken == 0
    assert found.kills >= 1


def test_a_pipe_that_is_told_to_stop_loses_nothing(tmp_path):
    """All that was written before the signal is learned, and all after it by the next run: as if there were one."""
    raw = b"abba" * 3000
    arguments = ["train", "-", "--alphabet", "growing", "--units", "4", "--checkpoint", str(tmp_path / "a"), "--json"]
    process = subprocess.Popen([*COMMAND, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(raw[:7001])
    process.stdin.flush()
    deadline = time.monotonic() + 120
    while not (tmp_path / ".a.lock").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1)
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert json.loads(said)["stopped_by"] == "SIGTERM"
    assert json.loads(said)["characters"] == 7001
    more = subprocess.run([*COMMAND, "resume", str(tmp_path / "a"), "--json"], input=raw[7001:], capture_output=True)
    assert json.loads(more.stdout)["characters"] == len(raw)
    arguments[arguments.index(str(tmp_path / "a"))] = str(tmp_path / "b")
    subprocess.run([*COMMAND, *arguments], input=raw, check=True, capture_output=True)
    assert faults._same(tmp_path / "a", tmp_path / "b")


def test_two_processes_do_not_write_one_checkpoint(text, tmp_path):
    with nbt.files.alone(tmp_path / "a"):
        run = subprocess.run([*COMMAND, "train", str(text), "--checkpoint", str(tmp_path / "a")], capture_output=True)
    assert run.returncode == 2
    assert b"another process is writing it" in run.stderr
    assert not (tmp_path / "a").exists()


@pytest.mark.skipif(os.name != "posix", reason="a limit on the size of files")
def test_a_full_disk_leaves_the_last_checkpoint(text, tmp_path):
    kept = tmp_path / "a"
    learner = nbt.Learner(nbt.RNN(units=3, symbols=3), nbt.NoBackTrack(), nbt.Kalman())
    nbt.save(kept, learner, learner.init(0))
    before = kept.read_bytes()
    train = " ".join(
        [*COMMAND, "train", str(text), "--units", "40", "--checkpoint", str(kept), "--overwrite", "--json"]
    )
    run = subprocess.run(["bash", "-c", f"ulimit -f 16; {train}"], capture_output=True, text=True)
    assert run.returncode == 2, run.stderr
    assert len(run.stderr.strip().splitlines()) == 1
    assert "too large" in run.stderr
    assert kept.read_bytes() == before
    assert checkpoint.inspect(kept)["t"] == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [".a.lock", "a", "text.txt"]


def test_labels_and_predictions_for_people_and_programs(tmp_path):
    """The summary of a classification; predictions that go on with the run; files that would be written over."""
    rows, kept, told = (tmp_path / name for name in ("rows.csv", "a.nbt", "told.csv"))
    rows.write_text("x,label\n" + "".join(f"{t % 3},{'high' if t % 3 == 2 else 'low'}\n" for t in range(60)))
    train = [*COMMAND, "train", str(rows), "--target", "label", "--task", "classification", "--units", "3"]
    first = subprocess.run(
        [*train, "--checkpoint", str(kept), "--predictions", str(told)], capture_output=True, text=True
    )
    assert first.returncode == 0, first.stderr
    assert "share of the most frequent 0.6667" in first.stderr
    assert "saved in" in first.stderr
    with rows.open("a") as file:
        file.write("2,high\n")
    subprocess.run(
        [*COMMAND, "resume", str(kept), "--predictions", str(told), "--json"], check=True, capture_output=True
    )
    assert [line.split(",")[0] for line in told.read_text().splitlines()] == ["row", *map(str, range(2, 63))]
    before = rows.read_bytes()
    for option in ("--predictions", "--log", "--checkpoint"):
        wrong = subprocess.run([*train, option, str(rows), "--overwrite"], capture_output=True, text=True)
        assert wrong.returncode == 2
        assert "must be files of their own" in wrong.stderr
        assert rows.read_bytes() == before


def test_a_checkpoint_is_not_lost_to_a_second_run(text, tmp_path):
    train = [*COMMAND, "train", str(text), "--units", "3", "--json", "--checkpoint"]
    subprocess.run([*train, str(tmp_path / "a")], check=True, capture_output=True)
    before = (tmp_path / "a").read_bytes()
    again = subprocess.run([*train, str(tmp_path / "a")], capture_output=True, text=True)
    assert again.returncode == 2
    assert "goes on, --overwrite begins anew" in again.stderr
    assert (tmp_path / "a").read_bytes() == before
    for wrong, message in (
        (tmp_path, "a folder; a checkpoint is a file"),
        (tmp_path / "b" / "c", "there is no folder"),
    ):
        run = subprocess.run([*train, str(wrong)], capture_output=True, text=True)
        assert run.returncode == 2
        assert message in run.stderr
    assert not (tmp_path / "b").exists()


def test_logs_are_records_that_go_on(text, tmp_path):
    options = ["--log", str(tmp_path / "l.csv"), "--log", str(tmp_path / "l.jsonl"), "--log-seconds", "0", "--json"]
    begin = ["train", str(text), "--units", "4", "--checkpoint", str(tmp_path / "a")]
    subprocess.run([*COMMAND, *begin, "--tensorboard", str(tmp_path / "board"), *options], check=True)
    (tmp_path / "l.jsonl").open("a").write('{"t": 1')  # as a run leaves it that was killed
    more = text.with_name("more.txt")
    more.write_text(text.read_text() * 2)
    subprocess.run([*COMMAND, "resume", str(tmp_path / "a"), "--stream", str(more), *options], check=True)
    rows = (tmp_path / "l.csv").read_text().splitlines()
    assert rows[0].startswith("t,seconds,per_second,bits,recent_bits,baseline_bits,parameter_norm")
    assert rows[-1].startswith("40000,")
    assert sum(row.startswith("t,") for row in rows) == 1
    records = (tmp_path / "l.jsonl").read_text().splitlines()
    assert json.loads(records[-1])["t"] == 40_000
    assert sum(not record.endswith("}") for record in records) == 1
    assert any((tmp_path / "board").iterdir())


def test_options_from_a_file_and_from_the_command_line(text, tmp_path):
    (tmp_path / "run.toml").write_text('units = 5\nestimator = "uoro"\nseed = 3\n')
    options = ["train", str(text), "--config", str(tmp_path / "run.toml"), "--json", "--seed", "4"]
    run = subprocess.run([*COMMAND, *options], check=True, capture_output=True)
    assert "LeakyRNN(units=5, symbols=3), estimator=UORO()" in json.loads(run.stdout)["learner"]
    (tmp_path / "run.toml").write_text("unit = 5\n")
    run = subprocess.run([*COMMAND, *options], capture_output=True, text=True)
    assert run.returncode == 2
    assert "'unit' is no option" in run.stderr.replace("\n", " ")
