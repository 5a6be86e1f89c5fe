"""The command line, as a user calls it."""

import json
import os
import subprocess
import sys

import pytest

import nobacktrack as nbt
from nobacktrack.checks import same_bits


def call(*arguments, ok=True, env=None):
    command = [sys.executable, "-m", "nobacktrack", *map(str, arguments)]
    run = subprocess.run(command, capture_output=True, text=True, env=env)
    assert (run.returncode == 0) == ok, run.stderr
    return run


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("".join(nbt.streams.ANBN_ALPHABET[s] for s in nbt.streams.anbn(1, 8, length=6000, seed=0)))
    return path


def test_train_on_a_file_and_resume_bit_for_bit(text, tmp_path):
    options = ["--units", 6, "--seed", 3, "--checkpoint-every", 1000, "--json"]
    summary = json.loads(call("train", text, *options, "--checkpoint", tmp_path / "whole").stdout)
    assert summary["characters"] == 6000
    assert 0 < summary["recent_bits"] < 1.585
    beginning = tmp_path / "beginning.txt"
    beginning.write_text(text.read_text()[:4096])
    call("train", beginning, *options, "--checkpoint", tmp_path / "half")
    assert nbt.load(tmp_path / "half").state.steps == 4096
    call("resume", tmp_path / "half", "--stream", text, "--json")
    one, other = nbt.load(tmp_path / "whole"), nbt.load(tmp_path / "half")
    assert one.state.params.theta.tobytes() == other.state.params.theta.tobytes()
    assert one.state.influence.w.tobytes() == other.state.influence.w.tobytes()


def test_progress_and_summary_for_people(text):
    run = call("train", text, "--units", 4, "--cell", "lstm", "--estimator", "bptt")
    assert "recent bits" in run.stderr
    assert "TruncatedBPTT" in run.stderr


def test_a_trained_learner_writes_text_of_its_alphabet(text, tmp_path):
    call("train", text, "--units", 4, "--json", "--checkpoint", tmp_path / "c")
    runs = [call("generate", tmp_path / "c", "--length", 300, "--seed", seed) for seed in (0, 0, 1)]
    assert runs[0].stdout == runs[1].stdout != runs[2].stdout
    assert set(runs[0].stdout) <= set(text.read_text())
    assert 300 <= len(runs[0].stdout) <= 301
    assert "blocks with n_a = n_b" in runs[0].stderr
    wrong = call("generate", tmp_path / "c", "--prime", "abc", ok=False)
    assert wrong.returncode == 2
    assert "'c' is not among the 3 characters" in wrong.stderr


def test_bytes_are_read_and_written(tmp_path):
    (tmp_path / "b").write_bytes(b"\xff\x00\xfe" * 2000)
    call("train", tmp_path / "b", "--alphabet", "bytes", "--units", 4, "--json", "--checkpoint", tmp_path / "c")
    call("resume", tmp_path / "c", "--json")
    command = [sys.executable, "-m", "nobacktrack", "generate", str(tmp_path / "c"), "--length", "50"]
    written = subprocess.run(command, capture_output=True, check=True).stdout
    assert len(written) == 50
    assert set(written) <= {0xFF, 0x00, 0xFE}


def test_engines_by_name(text):
    for engine in ("jax", "fused"):
        assert json.loads(call("train", text, "--units", 4, "--engine", engine, "--json").stdout)["engine"] == engine
    summary = json.loads(call("train", text, "--units", 4, "--cell", "lru", "--json").stdout)
    assert summary["engine"].startswith("jax (the fused engine does not run it: it has no loop for LRU")


def test_what_is_compiled_is_kept_and_gives_the_same_bits(text, tmp_path):
    env = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    found = []
    for name in ("fresh", "kept"):
        command = ["train", text, "--units", 4, "--engine", "jax", "--checkpoint", tmp_path / name, "--json"]
        call(*command, env=env | {"NOBACKTRACK_CACHE": str(tmp_path)})
        found.append({path.name for path in tmp_path.glob("nobacktrack/jax/*/*-cache")})
    assert len(found[0]) > 10
    assert found[0] == found[1]
    assert same_bits(nbt.load(tmp_path / "fresh").state, nbt.load(tmp_path / "kept").state)


def test_bench_in_one_table_and_as_json():
    options = ["bench", "--sizes", "4x3,5x4", "--ranks", "1,2", "--rounds", 1]
    found = json.loads(call(*options, "--json").stdout)
    names = {row["contender"] for row in found["rows"]}
    assert {"fused, rank 1", "jax, rank 1", "fused, rank 2", "jax, rank 2", "fused, live"} <= names
    assert all(0 < row["least"] <= row["median"] <= row["most"] for row in found["rows"])
    assert [place["units"] for place in found["bandwidth"]] == [4, 5]
    printed = call(*options[:2], "4x3", *options[3:]).stdout
    assert "4 units, 3 symbols, 32 parameters" in printed
    assert "a copy of the same working set" in printed


def test_compare_keeps_its_results(tmp_path):
    options = ["compare", "anbn:1-4", "--length", 1000, "--seeds", 2, "--units", 4, "--marks", 500, "--seconds", 0.001]
    options += ["--estimators", "nobacktrack,snap1@500", "--updates", "kalman,adam", "--out", tmp_path / "c.json"]
    first = call(*options)
    assert len(json.loads((tmp_path / "c.json").read_text())) == 8
    assert (tmp_path / "c.png").stat().st_size > 10_000
    assert "entropy 0.2857" in first.stdout
    assert call(*options).stdout == first.stdout
    found = json.loads(call(*options, "--json").stdout)
    assert found["entropy"] == pytest.approx(2 / 7)
    assert [(m["estimator"], m["update"], m["characters"], len(m["bits"])) for m in found["methods"]] == [
        ("nobacktrack", "kalman", 1000, 2),
        ("snap1", "kalman", 500, 2),
        ("nobacktrack", "adam", 1000, 2),
        ("snap1", "adam", 500, 2),
    ]


def test_diagnose_a_stream_and_a_checkpoint(text, tmp_path):
    options = ["--steps", 200, "--copies", 2, "--figure", tmp_path / "d.png"]
    found = json.loads(
        call("diagnose", "anbn:1-4", "--train", 300, "--units", 4, "--others", "rtrl", *options, "--json").stdout
    )
    assert [row["name"] for row in found["rows"]] == ["its own", "rtrl"]
    assert found["rows"][1]["cosine"] == pytest.approx(1, abs=1e-3)
    assert (tmp_path / "d.png").stat().st_size > 10_000
    call("train", text, "--units", 4, "--checkpoint", tmp_path / "c.nbt", "--json")
    printed = call("diagnose", tmp_path / "c.nbt", *options).stdout
    assert "its own" in printed
    assert "rank 4" in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bench", "--sizes", "20"], "sizes: expected UNITSxSYMBOLS"),
        (["bench", "--ranks", "0"], "ranks: expected numbers"),
        (["train", "missing.txt"], "missing.txt"),
        (["train", "{text}", "--estimator", "nobacktrack:0"], "rank must be an integer >= 1"),
        (["train", "{text}", "--cell", "cat"], "cell"),
        (["compare", "missing.txt"], "missing.txt"),
        (["compare", "anbn", "--estimators", "cat"], "estimator: 'cat' is none of"),
        (["compare", "anbn", "--marks", "ten"], "marks: expected numbers"),
        (["compare", "anbn", "--length", "10"], "length: at least 200"),
        (["diagnose", "{text}"], "--train 100000 and --steps 4000 need more"),
        (["diagnose", "{saved}"], "which text it was reading"),
        (["resume", "{text}"], "not a checkpoint"),
        (["resume", "{saved}"], "saved by a program"),
        (["generate", "{text}"], "not a checkpoint"),
        (["generate", "{saved}"], "which characters"),
        (["reproduce", "fig7"], "figure 'fig7': there are fig1, fig2, fig3, fig4, fig5, fig6 and all"),
        (["reproduce", "--quick", "--full"], "not both"),
        (["reproduce", "fig6", "--data", "missing.txt", "--out", "{folder}/out"], "missing.txt: no such file"),
        (["reproduce", "fig6", "--data", "{text}", "--out", "{folder}/out"], "6,000 bytes, sha256"),
        (["reproduce", "fig6", "--data", "{folder}", "--out", "{folder}/out"], "neither shakespeare.txt nor"),
        (["reproduce", "fig2", "--out", "{text}/out"], "Not a directory"),
        (
            ["reproduce", "fig2", "--out", "{folder}/out", "--manifest", "missing.json"],
            "missing.json: no such manifest",
        ),
        (["reproduce", "fig2", "--out", "{folder}/out", "--manifest", "{text}"], "not a manifest"),
    ],
)
def test_a_mistake_is_a_clear_line_and_exit_code_2(arguments, message, text):
    saved = text.with_name("saved.nbt")
    learner = nbt.Learner(nbt.RNN(units=3, symbols=3), nbt.NoBackTrack(), nbt.SGD(0.1))
    nbt.save(saved, learner, learner.init(0))
    run = call(*(a.format(text=text, saved=saved, folder=text.parent) for a in arguments), ok=False)
    assert run.returncode == 2
    assert message in run.stderr
    assert "Traceback" not in run.stderr
    assert not (text.parent / "out").exists()


def test_help_does_not_import_jax():
    script = "import sys; from nobacktrack.cli import app; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0
    assert "train" in call("--help").stdout


def test_demo_saves_its_figure_and_prints_its_table(tmp_path):
    run = call("demo", "--length", 20_000, "--out", tmp_path / "demo.png")
    assert (tmp_path / "demo.png").stat().st_size > 10_000
    assert "NoBackTrack" in run.stdout
    assert "0.1429" in run.stdout
