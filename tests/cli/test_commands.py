"""The other commands, as a user calls them."""

import json

import pytest

import nobacktrack as nbt


def test_a_trained_learner_writes_text_of_its_alphabet(call, text, tmp_path):
    call("train", text, "--units", 4, "--json", "--checkpoint", tmp_path / "c")
    runs = [call("generate", tmp_path / "c", "--length", 300, "--seed", seed) for seed in (0, 0, 1)]
    assert runs[0].out == runs[1].out != runs[2].out
    assert set(runs[0].out) <= set(text.read_text())
    assert 300 <= len(runs[0].out) <= 301
    assert "blocks with n_a = n_b" in runs[0].err
    wrong = call("generate", tmp_path / "c", "--prime", "abc", ok=False)
    assert wrong.code == 2
    assert "'c' is not among the 3 characters" in wrong.err
    shown = "".join(call("info", tmp_path / "c").out.split())  # folded somewhere, by the length of the path
    assert "text.txt,atbyte6,000" in shown
    assert "natsatargetover6,000" in shown


def test_bench_in_one_table_and_as_json(call, monkeypatch):
    monkeypatch.setattr("nobacktrack.experiments.bench.SECONDS", 0.01)
    options = ["bench", "--sizes", "4x3", "--ranks", "1,2", "--rounds", 1]
    found = json.loads(call(*options, "--json").out)
    names = {row["contender"] for row in found["rows"]}
    assert {"fused, rank 1", "jax, rank 1", "fused, rank 2", "jax, rank 2", "fused, live"} <= names
    assert all(0 < row["least"] <= row["median"] <= row["most"] for row in found["rows"])
    assert [place["units"] for place in found["bandwidth"]] == [4]
    printed = call("bench", "--sizes", "4x3", "--ranks", "1", "--rounds", 1).out
    assert "4 units, 3 symbols, 32 parameters" in printed
    assert "a copy of the same working set" in printed


def test_compare_keeps_its_results(call, tmp_path):
    options = ["compare", "anbn:1-4", "--length", 1000, "--seeds", 2, "--units", 4, "--marks", 500, "--seconds", 0.001]
    options += ["--estimators", "nobacktrack,snap1@500", "--updates", "kalman,adam", "--out", tmp_path / "c.json"]
    first = call(*options)
    assert len(json.loads((tmp_path / "c.json").read_text())) == 8
    assert (tmp_path / "c.png").stat().st_size > 10_000
    assert "entropy 0.2857" in first.out
    assert call(*options).out == first.out
    found = json.loads(call(*options, "--json").out)
    assert found["entropy"] == pytest.approx(2 / 7)
    assert [(m["estimator"], m["update"], m["characters"], len(m["bits"])) for m in found["methods"]] == [
        ("nobacktrack", "kalman", 1000, 2),
        ("snap1", "kalman", 500, 2),
        ("nobacktrack", "adam", 1000, 2),
        ("snap1", "adam", 500, 2),
    ]
    options[options.index("--seeds") + 1] = 1
    alone = call(*options).out
    assert "one seed" in alone
    assert "nan" not in alone


def test_diagnose_a_stream_and_a_checkpoint(call, text, tmp_path):
    options = ["--steps", 60, "--copies", 2, "--figure", tmp_path / "d.png"]
    found = json.loads(
        call("diagnose", "anbn:1-4", "--train", 300, "--units", 4, "--others", "rtrl", *options, "--json").out
    )
    assert [row["name"] for row in found["rows"]] == ["its own", "rtrl"]
    assert found["rows"][1]["cosine"] == pytest.approx(1, abs=1e-3)
    assert (tmp_path / "d.png").stat().st_size > 10_000
    call("train", text, "--units", 4, "--checkpoint", tmp_path / "c.nbt", "--json")
    printed = call("diagnose", tmp_path / "c.nbt", "--others", "bptt", *options).out
    assert "its own" in printed
    assert "bptt" in printed


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
def test_a_mistake_is_a_clear_line_and_exit_code_2(call, arguments, message, text):
    saved = text.with_name("saved.nbt")
    learner = nbt.Learner(nbt.RNN(units=3, symbols=3), nbt.NoBackTrack(), nbt.SGD(0.1))
    nbt.save(saved, learner, learner.init(0))
    run = call(*(a.format(text=text, saved=saved, folder=text.parent) for a in arguments), ok=False)
    assert run.code == 2
    assert message in run.err
    assert not (text.parent / "out").exists()


def test_demo_saves_its_figure_and_prints_its_table(call, tmp_path):
    run = call("demo", "--length", 20_000, "--out", tmp_path / "demo.png")
    assert (tmp_path / "demo.png").stat().st_size > 10_000
    assert "truncated BPTT(15)" in run.out
    assert "0.1429" in run.out
    assert "nobacktrack train" in run.out
    assert "the paper's learner" in run.out
    assert "bz2" in run.out


def test_reproduce_runs_what_it_can_where_the_text_is_missing(call, tmp_path, monkeypatch):
    """Without a network: five of six figures, a word on the sixth, and exit code 1."""
    from nobacktrack.experiments.paper import figures, manifest, reproduce
    from nobacktrack.experiments.paper.manifest import Scale

    def absent(length, data):
        raise OSError("the works of Shakespeare are not here")

    monkeypatch.setattr(manifest, "QUICK", Scale("tiny", dict.fromkeys(figures.SOURCES, 12_000), 1))
    monkeypatch.setattr(manifest, "_speeds", lambda kinds, *_: dict.fromkeys(kinds, 1.0))
    third, sixth = figures.FIGURES["fig3"], figures.FIGURES["fig6"]
    lost = sixth._replace(source=sixth.source._replace(read=absent))
    for module in (figures, reproduce):
        monkeypatch.setattr(module, "FIGURES", {"fig3": third, "fig6": lost})  # two are enough here
    run = call("reproduce", "all", "--seeds", 1, "--out", tmp_path / "out", ok=False)
    assert run.code == 1
    assert "fig6 was not run: the works of Shakespeare are not here" in run.err
    assert (tmp_path / "out" / "index.html").exists()
    assert (tmp_path / "out" / "fig3.csv").exists()
