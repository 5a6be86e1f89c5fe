"""`train`, `resume` and `evaluate`: learn, stop, go on, and say clearly what is wrong."""

import json
from types import SimpleNamespace

import pytest

import nobacktrack as nbt
from nobacktrack import checkpoint
from nobacktrack.checks import same_bits
from nobacktrack.cli.checkpoints import Checkpointer
from nobacktrack.cli.progress import Alarm
from nobacktrack.cli.run import _after_divergence
from nobacktrack.readers.notes import from_json
from nobacktrack.readers.tally import Tally

DIVERGING = ["--units", 5, "--update", "sgd-steady:1e35", "--estimator", "nobacktrack"]


def test_train_on_a_file_and_resume_bit_for_bit(call, text, tmp_path):
    options = ["--units", 6, "--seed", 3, "--checkpoint-every", 1000, "--json"]
    summary = json.loads(call("train", text, *options, "--checkpoint", tmp_path / "whole").out)
    assert summary["characters"] == 6000
    assert 0 < summary["recent_bits"] < 1.585
    beginning = tmp_path / "beginning.txt"
    beginning.write_text(text.read_text()[:4096])
    call("train", beginning, *options, "--checkpoint", tmp_path / "half")
    assert nbt.load(tmp_path / "half").state.steps == 4096
    call("resume", tmp_path / "half", "--stream", text, "--json")
    one, other = nbt.load(tmp_path / "whole"), nbt.load(tmp_path / "half")
    assert same_bits(one.state, other.state)
    assert one.notes["tally"] == other.notes["tally"]


def test_progress_and_summary_for_people(call, text, monkeypatch):
    monkeypatch.setattr("nobacktrack.cli.progress.PLAIN_GLANCE", 0.0)
    run = call("train", text, "--units", 4, "--cell", "lstm", "--estimator", "bptt")
    lines = run.err.splitlines()
    assert any(line.endswith(")") and "% " in line and " bits (all " in line for line in lines)  # no terminal: plain
    assert "recent bits" in run.err
    assert "TruncatedBPTT" in run.err


def test_bytes_are_read_and_written(call, tmp_path):
    (tmp_path / "b").write_bytes(b"\xff\x00\xfe" * 2000)
    call("train", tmp_path / "b", "--alphabet", "bytes", "--units", 4, "--json", "--checkpoint", tmp_path / "c")
    call("resume", tmp_path / "c", "--json")
    assert nbt.load(tmp_path / "c").notes["position"] == 6000


def test_engines_by_name(call, text, tmp_path):
    for engine in ("jax", "fused"):
        assert json.loads(call("train", text, "--units", 4, "--engine", engine, "--json").out)["engine"] == engine
    summary = json.loads(call("train", text, "--units", 4, "--cell", "lru", "--json").out)
    assert summary["engine"].startswith("jax (the fused engine does not run it: it has no loop for LRU")
    rows = tmp_path / "rows.csv"
    rows.write_text("x,y\n" + "1,2\n2,3\n" * 20)
    for stream in ([text], [rows, "--target", "y"]):
        run = call("train", *stream, "--cell", "lru", "--engine", "fused", ok=False)
        assert run.code == 2
        assert "engine fused: the fused engine does not run it: it has no loop for LRU" in run.err
        assert len(run.err.splitlines()) == 1
    assert (
        json.loads(call("train", rows, "--target", "y", "--cell", "rnn", "--engine", "jax", "--json").out)["engine"]
        == "jax"
    )
    assert "engine must be one of auto, fused, jax" in call("train", text, "--engine", "cuda", ok=False).err


# --- divergence -----------------------------------------------------------------------------------------------------


def test_a_run_that_diverges_saves_the_last_good_state_and_says_how_to_go_on(call, text, tmp_path):
    saved = tmp_path / "a.nbt"
    run = call("train", text, *DIVERGING, "--cell", "rnn", "--checkpoint", saved, ok=False)
    assert run.code == 2
    at = checkpoint.inspect(saved)["t"]
    assert f"diverged at t = {at}: " in run.err
    assert ".state" not in run.err
    assert f"The state after {at:,} characters is saved in {saved}" in run.err
    assert f"`nobacktrack resume {saved} --update kalman`" in run.err
    again = call("resume", saved, ok=False)
    assert f"diverged at t = {at}: " in again.err  # as it is, at the same place
    assert checkpoint.inspect(saved)["t"] == at
    unsaved = call("train", text, *DIVERGING, "--cell", "rnn", ok=False)
    assert "Nothing is saved: --checkpoint FILE keeps the last good state. Try --update kalman" in unsaved.err


def test_a_run_whose_influence_explodes_goes_on_with_other_parts(call, text, tmp_path):
    begun, saved = tmp_path / "begun.txt", tmp_path / "a.nbt"
    begun.write_text(text.read_text()[:1000])
    call("train", begun, "--cell", "leaky", "--units", 5, "--estimator", "nobacktrack", "--checkpoint", saved, "--json")
    learner, state, notes = nbt.load(saved)
    nbt.save(saved, learner, state._replace(influence=state.influence._replace(v=state.influence.v * 1e30)), notes)
    run = call("resume", saved, "--stream", text, ok=False)
    assert "diverged at t = 1000: " in run.err
    assert f"`nobacktrack resume {saved} --update kalman:0.1:100` or" in run.err
    call("resume", saved, "--stream", text, "--update", "kalman:0.1:100", "--estimator", "bptt", "--json")
    found = nbt.load(saved)
    assert found.state.steps == 6000
    assert found.learner.estimator == nbt.TruncatedBPTT()
    assert found.learner.update == nbt.Kalman(nbt.inverse_sqrt(0.1), prior=100.0)
    assert float(found.state.update.theta.prior) == 100


def test_a_divergence_leaves_an_earlier_checkpoint(call, text, tmp_path):
    """Its numbers are smaller; and what it has learned is not lost to a state that is about to overflow."""
    call("train", text, "--units", 5, "--checkpoint", tmp_path / "a", "--json")
    found = nbt.load(tmp_path / "a")
    grown = found.state._replace(influence=found.state.influence._replace(v=found.state.influence.v * 1e30))
    reader = SimpleNamespace(learner=found.learner, state=found.state, begun=True, unit="characters", tally=Tally())
    reader.notes = lambda: from_json(found.notes)
    checkpointer = Checkpointer(tmp_path / "b", reader, "text", None, None)
    checkpointer.save()
    reader.state = grown
    assert "saved in" in _after_divergence(reader, checkpointer)
    assert same_bits(nbt.load(tmp_path / "b").state, found.state)


def test_another_seed_gives_other_signs_from_there(call, text, tmp_path):
    half = tmp_path / "half.txt"
    half.write_text(text.read_text()[:3000])
    ends = []
    for seed in (None, 5, 5):
        call("train", half, "--units", 4, "--checkpoint", tmp_path / "a", "--overwrite", "--json")
        other = [] if seed is None else ["--seed", seed]
        call("resume", tmp_path / "a", "--stream", text, *other, "--json")
        ends.append(nbt.load(tmp_path / "a").state)
    assert same_bits(ends[1], ends[2])
    assert not same_bits(ends[0].params, ends[1].params)


# --- rows -----------------------------------------------------------------------------------------------------------


def rows_file(path, count=60):
    path.write_text("x,label\n" + "".join(f"{t % 3},{'high' if t % 3 == 2 else 'low'}\n" for t in range(count)))
    return path


def test_labels_and_predictions_for_people_and_programs(call, tmp_path):
    """The summary of a classification; predictions that go on with the run; files that would be written over."""
    rows, saved, told = rows_file(tmp_path / "rows.csv"), tmp_path / "a.nbt", tmp_path / "told.csv"
    train = ["train", rows, "--target", "label", "--task", "classification", "--units", 3]
    first = call(*train, "--checkpoint", saved, "--predictions", told)
    assert "share of the most frequent        0.6667" in first.err
    assert "saved in" in first.err
    with rows.open("a") as file:
        file.write("2,high\n")
    call("resume", saved, "--predictions", told, "--json")
    assert [line.split(",")[0] for line in told.read_text().splitlines()] == ["row", *map(str, range(2, 63))]
    before = rows.read_bytes()
    for option in ("--predictions", "--log", "--checkpoint"):
        wrong = call(*train, option, rows, "--overwrite", ok=False)
        assert wrong.code == 2
        assert "must be files of their own" in wrong.err
        assert rows.read_bytes() == before


def test_predictions_after_the_last_checkpoint_are_not_written_twice(call, tmp_path):
    """As a run leaves it that was killed: more predictions than the checkpoint knows of, the last one cut short."""
    rows, saved = rows_file(tmp_path / "rows.csv"), tmp_path / "a.nbt"
    for told in (tmp_path / "told.csv", tmp_path / "told.jsonl"):
        train = ["train", rows, "--target", "label", "--task", "classification", "--units", 3]
        call(*train, "--checkpoint", saved, "--predictions", told, "--overwrite", "--json")
        whole = told.read_text()
        with told.open("a") as file:
            file.write(whole.splitlines()[-1] + "\n" + whole.splitlines()[-1][:5])
        with rows.open("a") as file:
            file.write("2,high\n")
        call("resume", saved, "--predictions", told, "--json")
        assert told.read_text().startswith(whole)
        assert len(told.read_text().splitlines()) == len(whole.splitlines()) + 1
        other = told.with_name(f"other{told.suffix}")
        other.write_text(whole + "mine\n" * 100)
        call("resume", saved, "--predictions", other, "--json")
        assert other.read_text().startswith(whole + "mine\n" * 100)  # another file is not cut


def test_ordinary_csv_files(call, tmp_path):
    """The index that pandas writes, cells that are missing, decimal commas."""
    rows = tmp_path / "rows.csv"
    rows.write_text(",x,y\n" + "".join(f"{i},{'NA' if i % 7 == 0 else i % 3},{i % 3}\n" for i in range(60)))
    summary = json.loads(call("train", rows, "--target", "y", "--units", 3, "--json").out)
    assert summary["rows"] == 60
    assert summary["rmse"] < summary["baseline_rmse"]
    rows.write_text("x;y\n" + "".join(f"{i % 3},5;{i % 3},25\n" for i in range(60)))
    options = ["train", rows, "--target", "y", "--units", 3, "--delimiter", ";", "--json"]
    assert json.loads(call(*options, "--decimal", ",").out)["skipped"] == 0
    rows.write_text("x,y\n1,2\n-999,2\n")
    assert json.loads(call("train", rows, "--target", "y", "--missing", "-999", "--json").out)["rows"] == 2


def test_regression_is_told_in_the_unit_of_the_target_first(call, tmp_path):
    rows = tmp_path / "rows.csv"
    rows.write_text("x,y\n" + "".join(f"{i % 3},{1000 * (i % 3)}\n" for i in range(60)))
    run = call("train", rows, "--target", "y", "--units", 3)
    places = [
        run.err.index(words) for words in ("rmse, in the target's unit", "rmse of the mean", "loss, nats per row")
    ]
    assert places == sorted(places)


def test_after_a_pipe_a_file_is_read_from_its_start(call, text, tmp_path):
    call("train", text, "--units", 4, "--checkpoint", tmp_path / "a", "--json")
    learner, state, notes = nbt.load(tmp_path / "a")
    nbt.save(tmp_path / "a", learner, state, notes | {"stream": "-"})
    more = tmp_path / "more.txt"
    more.write_text(text.read_text() * 2)
    run = call("resume", tmp_path / "a", "--stream", more, ok=False)
    assert "6000 bytes of standard input were read so far; --from-start reads this file from its beginning" in run.err
    call("resume", tmp_path / "a", "--stream", more, "--from-start", "--json")
    assert nbt.load(tmp_path / "a").state.steps == 18_000
    short = tmp_path / "short.txt"
    short.write_text("ab")
    run = call("resume", tmp_path / "a", "--stream", short, ok=False)
    assert "is it another file? --from-start reads it from its beginning" in run.err


# --- what is written beside -----------------------------------------------------------------------------------------


def test_a_checkpoint_is_not_lost_to_a_second_run(call, text, tmp_path):
    train = ["train", text, "--units", 3, "--json", "--checkpoint"]
    call(*train, tmp_path / "a")
    before = (tmp_path / "a").read_bytes()
    again = call(*train, tmp_path / "a", ok=False)
    assert again.code == 2
    assert "goes on, --overwrite begins anew" in again.err
    assert (tmp_path / "a").read_bytes() == before
    for wrong, message in (
        (tmp_path, "a folder; a checkpoint is a file"),
        (tmp_path / "b" / "c", "there is no folder"),
    ):
        assert message in call(*train, wrong, ok=False).err
    assert not (tmp_path / "b").exists()


def test_two_processes_do_not_write_one_checkpoint(call, text, tmp_path):
    with nbt.files.alone(tmp_path / "a"):
        run = call("train", text, "--checkpoint", tmp_path / "a", ok=False)
    assert run.code == 2
    assert "another process is writing it" in run.err
    assert not (tmp_path / "a").exists()


def test_logs_are_records_that_go_on(call, text, tmp_path):
    options = ["--log", tmp_path / "l.csv", "--log", tmp_path / "l.jsonl", "--log-seconds", 0, "--json"]
    begin = ["train", text, "--units", 4, "--checkpoint", tmp_path / "a"]
    call(*begin, "--tensorboard", tmp_path / "board", *options)
    (tmp_path / "l.jsonl").open("a").write('{"t": 1')  # as a run leaves it that was killed
    more = text.with_name("more.txt")
    more.write_text(text.read_text() * 2)
    call("resume", tmp_path / "a", "--stream", more, *options)
    rows = (tmp_path / "l.csv").read_text().splitlines()
    assert rows[0].startswith(
        "t,seconds,per_second,bits,recent_bits,baseline_bits,order2_bits,tree_bits,parameter_norm"
    )
    assert rows[-1].startswith("12000,")
    assert sum(row.startswith("t,") for row in rows) == 1
    records = (tmp_path / "l.jsonl").read_text().splitlines()
    assert json.loads(records[-1])["t"] == 12_000
    assert sum(not record.endswith("}") for record in records) == 1
    assert any((tmp_path / "board").iterdir())


def test_options_from_a_file_and_from_the_command_line(call, text, tmp_path):
    (tmp_path / "run.toml").write_text('cell = "leaky"\nunits = 5\nestimator = "uoro"\nseed = 3\n')
    options = ["train", text, "--config", tmp_path / "run.toml", "--json", "--seed", 4]
    assert "LeakyRNN(units=5, symbols=3), estimator=UORO()" in json.loads(call(*options).out)["learner"]
    (tmp_path / "run.toml").write_text("unit = 5\n")
    run = call(*options, ok=False)
    assert run.code == 2
    assert "'unit' is no option" in run.err.replace("\n", " ")


@pytest.mark.parametrize("estimator", ["rtrl:3", "bptt:x", "snap1+gramian", "diagonal:1:2:3", "cat"])
def test_an_estimator_that_is_misspelled_is_named(call, text, estimator):
    messages = {
        "rtrl:3": "rtrl takes no number",
        "bptt:x": "bptt is bptt[:depth], with whole numbers",
        "snap1+gramian": "norms are for nobacktrack, split, diagonal, not for snap1",
        "diagonal:1:2:3": "diagonal is diagonal[:rank[:lag]], with whole numbers",
        "cat": "is none of block[:depth[:every[:rank]]]",
    }
    run = call("train", text, "--estimator", estimator, ok=False)
    assert run.code == 2
    assert f"estimator: {estimator!r}" in run.err
    assert messages[estimator] in run.err


# --- what is chosen -------------------------------------------------------------------------------------------------


def test_a_committee_is_chosen_for_a_text_and_says_why(call, text, tmp_path):
    saved = tmp_path / "a.nbt"
    run = call("train", text, "--budget", 30, "--checkpoint", saved)
    assert "learner: a committee of lstm of 32 units, block" in run.err
    assert "(an alphabet of 3, a budget of 30 us a character)" in run.err
    assert "  context tree" in run.err
    before = json.loads(call("resume", saved, "--from-start", "--json").out)
    assert before["engine"] == "committee"
    assert before["bits"] < before["baseline_bits"]
    assert set(before["experts"]) == set(nbt.load(saved).learner.experts)
    assert before["set_back"] == 0
    known = json.loads(call("evaluate", saved, text, "--json").out)
    assert known["bits"] < 0.5
    assert "this learner is a committee" in call("resume", saved, "--update", "kalman", ok=False).err


def test_the_paper_and_presets_by_name(call, text):
    paper = json.loads(call("train", text, "--paper", "--json").out)["learner"]
    assert "LeakyRNN(units=20, symbols=3), estimator=NoBackTrack()" in paper
    assert "LeakyRNN(units=20" in json.loads(call("train", text, "--preset", "tiny", "--json").out)["learner"]
    assert "'huge' is none of tiny, text" in call("train", text, "--preset", "huge", ok=False).err
    assert "--preset says all" in call("train", text, "--paper", "--units", 5, ok=False).err
    assert "not --preset tiny" in call("train", text, "--paper", "--preset", "tiny", ok=False).err


def test_an_alarm_is_raised_once_and_taken_back_once():
    alarm = Alarm()
    losses = [1.0] * 5 + [2.0] * 5 + [1.0] * 5
    said = [alarm.look(loss, 30_000 + i) for i, loss in enumerate(losses)]
    assert [bool(message) for message in said] == [i in (5, 10) for i in range(15)]
    assert "stands well above the best so far, 1.443" in str(said[5])
    assert Alarm().look(5.0, 100) is None


def test_a_network_alone_is_measured_beside_contexts(call, text):
    summary = call("train", text, "--cell", "leaky", "--units", "4", "--json").json()
    assert 0 < summary["tree_bits"] < summary["baseline_bits"]
    assert summary["order2_bits"] < summary["baseline_bits"]
