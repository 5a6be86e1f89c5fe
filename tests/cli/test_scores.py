"""`--scores`: how surprising each line, character or row was, and the same file after a kill."""

import csv
import json
import signal
import subprocess
import sys
import time

import pytest

ODD = "zzyxq\n"
NETWORK = ["--cell", "rnn", "--units", 6, "--estimator", "nobacktrack"]


def records_of(path):
    if path.suffix == ".csv":
        with path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))
    return [json.loads(line) for line in path.read_text().splitlines()]


def most_unusual(path):
    return max(records_of(path), key=lambda record: float(record["unusual"] or 0))


@pytest.fixture
def lines(tmp_path):
    """A file of lines like one another."""
    path = tmp_path / "lines.txt"
    path.write_text("".join(f"{'ab' * (i % 3 + 1)} zyxq\n" for i in range(600)))
    return path


@pytest.fixture
def rows(tmp_path):
    """Rows like one another, but one; one has no label."""
    path = tmp_path / "rows.csv"
    labels = ["" if t == 9 else "high" if t == 250 else ["low", "low", "high"][t % 3] for t in range(300)]
    path.write_text("x,label\n" + "".join(f"{t % 3},{label}\n" for t, label in enumerate(labels)))
    return path


# --- text -----------------------------------------------------------------------------------------------------------


def test_an_odd_line_is_on_top(call, lines, tmp_path):
    saved, new = tmp_path / "a.nbt", tmp_path / "new.txt"
    call("train", lines, *NETWORK, "--checkpoint", saved, "--scores", tmp_path / "known.csv", "--json")
    known = lines.read_text().splitlines(keepends=True)
    new.write_text("".join([*known[:7], ODD, *known[:30]]).removesuffix("\n"))
    for told in (tmp_path / "new.csv", tmp_path / "new.jsonl"):
        call("evaluate", saved, new, "--scores", told, "--json")
        first = told.read_bytes()
        top, last = most_unusual(told), records_of(told)[-1]
        assert (int(top["line"]), int(top["characters"])) == (8, len(ODD))
        assert int(top["byte"]) == len("".join(known[:7]))
        assert float(top["unusual"]) > 3
        assert float(top["peak"]) <= float(top["bits"]) <= len(ODD) * float(top["peak"])
        assert int(last["line"]) == 38  # without an end
        assert int(last["characters"]) == len(known[29]) - 1
        call("evaluate", saved, new, "--scores", told, "--json")
        assert told.read_bytes() == first  # written anew, and nothing was learned


def test_bits_add_up_to_those_of_the_summary(call, lines, tmp_path):
    by_line, by_byte = tmp_path / "lines.csv", tmp_path / "bytes.jsonl"
    for told, by in ((by_line, "line"), (by_byte, "byte")):
        run = call("train", lines, *NETWORK, "--scores", told, "--scores-by", by, "--json")
        summary = json.loads(run.out)
        total = sum(float(record["bits"]) for record in records_of(told))
        assert total == pytest.approx(summary["bits"] * summary["characters"], abs=0.01)
    assert "".join(record["character"] for record in records_of(by_byte)) == lines.read_text()
    assert [record["byte"] for record in records_of(by_byte)] == list(range(lines.stat().st_size))


def test_characters_that_csv_must_quote(call, tmp_path):
    text, told = tmp_path / "text.txt", tmp_path / "told.csv"
    text.write_bytes('a,"é\r\n'.encode() * 20)
    call("train", text, *NETWORK, "--scores", told, "--scores-by", "byte", "--json")
    assert "".join(record["character"] for record in records_of(told)) == text.read_bytes().decode()


@pytest.mark.parametrize("by", ["line", "byte"])
def test_scores_of_a_run_in_parts_are_those_of_one_in_whole(call, lines, tmp_path, by):
    """Cut inside a line, where a file ended that grows; and with more than the checkpoint knew, as after a kill."""
    for told in (tmp_path / "told.csv", tmp_path / "told.jsonl"):
        whole, growing, saved = tmp_path / f"whole{told.suffix}", tmp_path / "growing.txt", tmp_path / "a.nbt"
        call("train", lines, *NETWORK, "--scores", whole, "--scores-by", by, "--json")
        raw = lines.read_bytes()
        growing.write_bytes(raw[:3001])
        options = ["--checkpoint", saved, "--overwrite", "--scores", told, "--scores-by", by, "--json"]
        call("train", growing, *NETWORK, "--alphabet", "known", *options)
        for end in (3001, 3003, len(raw)):
            with told.open("a") as file:
                file.write(told.read_text().splitlines()[-1] + '\n{"li')
            growing.write_bytes(raw[:end])
            call("resume", saved, "--scores", told, "--json")
        assert told.read_bytes() == whole.read_bytes()


def test_scores_that_begin_with_resume_know_the_line(call, lines, tmp_path):
    saved, growing, told = tmp_path / "a.nbt", tmp_path / "growing.txt", tmp_path / "told.jsonl"
    raw = lines.read_bytes()
    growing.write_bytes(raw[:3001])
    call("train", growing, *NETWORK, "--checkpoint", saved, "--json")
    growing.write_bytes(raw)
    call("resume", saved, "--scores", told, "--json")
    found = records_of(told)
    assert (found[0]["line"], found[0]["byte"]) == (raw[:3001].count(b"\n") + 1, 3001)
    assert (found[-1]["line"], found[1]["byte"]) == (600, raw.index(b"\n", 3001) + 1)


def test_a_run_that_was_killed_leaves_the_same_scores(tmp_path):
    """In processes of their own, with SIGKILL."""
    stream, whole, told, saved = (tmp_path / name for name in ("s.txt", "whole.csv", "told.csv", "a.nbt"))
    stream.write_text("".join(f"{'ab' * (i % 7)} {i % 10}\n" for i in range(40_000)))
    command = [sys.executable, "-m", "nobacktrack"]
    train = [*command, "train", str(stream), *map(str, NETWORK), "--json", "--scores"]
    subprocess.run([*train, str(whole)], check=True, capture_output=True)
    options = ["--checkpoint", str(saved), "--checkpoint-every", "1000"]
    process = subprocess.Popen([*train, str(told), *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not saved.exists() and process.poll() is None:
        time.sleep(0.01)
    time.sleep(0.3)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert 0 < told.stat().st_size < whole.stat().st_size
    subprocess.run([*command, "resume", str(saved), "--scores", str(told), "--json"], check=True, capture_output=True)
    assert told.read_bytes() == whole.read_bytes()


# --- rows -----------------------------------------------------------------------------------------------------------


def test_an_odd_row_is_on_top_and_one_without_a_label_has_no_score(call, rows, tmp_path):
    train = ["train", rows, "--target", "label", "--task", "classification", "--units", 3]
    for told in (tmp_path / "told.csv", tmp_path / "told.jsonl"):
        call(*train, "--scores", told, "--json")
        assert [int(record["row"]) for record in records_of(told)] == list(range(2, 302))
        assert int(most_unusual(told)["row"]) == 252
        assert [int(record["row"]) for record in records_of(told) if record["bits"] in ("", None)] == [11]


def test_new_rows_are_scored_without_learning_by_what_was_usual(call, rows, tmp_path):
    saved, few, told = tmp_path / "a.nbt", tmp_path / "few.jsonl", tmp_path / "told.csv"
    known = ["--scores", tmp_path / "known.csv", "--json"]
    call("train", rows, "--target", "label", "--task", "classification", "--units", 3, "--checkpoint", saved, *known)
    few.write_text("".join(f'{{"x": {t % 3}, "label": "{"high" if t in (2, 4) else "low"}"}}\n' for t in range(6)))
    before = saved.read_bytes()
    call("evaluate", saved, few, "--scores", told, "--json")
    assert [int(record["row"]) for record in records_of(told)] == [1, 2, 3, 4, 5, 6]
    assert int(most_unusual(told)["row"]) in (5, 6)  # "high" too soon, or "low" in its place
    assert float(most_unusual(told)["unusual"]) > 2
    assert saved.read_bytes() == before


def test_scores_and_predictions_of_rows_go_on_after_the_checkpoint(call, rows, tmp_path):
    growing, saved = tmp_path / "growing.csv", tmp_path / "a.nbt"
    train = ["--target", "label", "--task", "classification", "--units", 3, "--json"]
    kinds = "scores", "predictions"
    one, two = ({kind: tmp_path / f"{name}_{kind}.csv" for kind in kinds} for name in ("one", "two"))
    files = [option for kind, path in two.items() for option in (f"--{kind}", path)]
    call("train", rows, *train, "--scores", one["scores"], "--predictions", one["predictions"])
    raw = rows.read_bytes()
    growing.write_bytes(raw[:1201])
    call("train", growing, *train, *files, "--checkpoint", saved)
    for path in two.values():
        with path.open("a") as file:
            file.write("1,2,3\n9")
    growing.write_bytes(raw)
    call("resume", saved, *files, "--json")
    for kind in kinds:
        assert two[kind].read_bytes() == one[kind].read_bytes()


# --- refusals -------------------------------------------------------------------------------------------------------


def test_scores_that_cannot_be_are_refused(call, lines, rows, tmp_path):
    told, saved = tmp_path / "told.csv", tmp_path / "a.nbt"
    text, table = ["train", lines, *NETWORK], ["train", rows, "--target", "x"]
    before = lines.read_bytes()
    for arguments, message in (
        ([*table, "--scores", told, "--scores-by", "byte"], "--scores-by byte: it is for text"),
        ([*text, "--scores-by", "byte"], "--scores-by byte: there is no --scores FILE"),
        ([*text, "--scores", lines], "--scores and --log must be files of their own"),
        ([*text, "--scores", told, "--log", told], "--scores and --log must be files of their own"),
        ([*text, "--scores", tmp_path / "told.txt"], "ends in .csv or .jsonl"),
    ):
        run = call(*arguments, ok=False)
        assert run.code == 2
        (refusal,) = [line for line in run.err.splitlines() if not line.startswith("learner: ")]
        assert message in refusal
        assert lines.read_bytes() == before
        assert not told.exists()
    call(*text, "--scores", told, "--checkpoint", saved, "--json")
    run = call("resume", saved, "--scores", told, "--scores-by", "byte", ok=False)
    assert f"--scores-by byte: {told} holds scores by line; choose another file" in run.err
