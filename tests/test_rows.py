"""Rows of CSV and JSON as they come: cut anywhere, the same; bad, and it says where; predictions before targets."""

import json
import math
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

import nobacktrack as nbt
from experiments import fuzz
from nobacktrack import checkpoint as module
from nobacktrack.checks import same_bits
from nobacktrack.readers.features import Classes, Features, Scale
from nobacktrack.readers.rows import Columns, RowsReader
from nobacktrack.readers.table import Parts, TableReader
from nobacktrack.readers.tally import Tally, frequencies_nats

CSV, JSONL = fuzz.STREAMS["csv"], fuzz.STREAMS["jsonl"]


def rows_reader(form="csv", task="regression", columns=None, **options):
    table = TableReader(task, Parts(units=3))
    return RowsReader(table, form, columns or Columns("y"), **options)


@pytest.mark.parametrize("task", ["regression", "classification"])
@pytest.mark.parametrize(("form", "raw"), [("csv", CSV), ("jsonl", JSONL)])
def test_rows_may_be_cut_anywhere_and_saved_there(form, raw, task, tmp_path):
    whole = rows_reader(form, task)
    whole.take(raw)
    cut, begin = rows_reader(form, task), 0
    for end in (5, 30, 77, 300, len(raw)):
        cut.take(raw[begin:end])
        if cut.begun:
            nbt.save(tmp_path / "a", cut.learner, cut.state, cut.notes())
            cut = RowsReader.resumed(*nbt.load(tmp_path / "a"))
        begin = end
    assert same_bits(cut.state, whole.state)
    assert cut.notes() == whole.notes()
    assert cut.tally.targets == 40


def test_rows_in_both_formats_are_the_same_rows():
    one, other = rows_reader("csv"), rows_reader("jsonl")
    one.take(CSV)
    other.take(JSONL)
    assert same_bits(one.state, other.state)


@pytest.mark.parametrize(
    ("form", "line", "message"),
    [
        ("csv", b"1,red", "row 3: 2 fields, but the header has 3"),
        ("csv", b'1,"red,2', "row 3: not CSV, or cut short"),
        ("csv", b"nan,red,2", "row 3: column 'u': nan is not a finite number"),
        ("csv", b"red,red,2", "row 3: column 'u': 'red' among numbers"),
        ("csv", b"1,7,2", "row 3: column 'colour': '7' among words"),
        ("csv", b"1,red,big", "row 3: column 'y': 'big' among numbers"),
        ("csv", b"1,\xff\xfe,2", "row 3: byte 2 of the line is not UTF-8"),
        ("csv", b"1,r\0d,2", "row 3: a zero byte"),
        ("jsonl", b'{"u": 1, "colour": "red"', "row 2: not JSON, or cut short"),
        ("jsonl", b'{"u": 1, "y": 2}', "row 2: column 'colour' is missing"),
        ("jsonl", b'{"u": NaN, "colour": "red", "y": 2}', "row 2: NaN is not a finite number"),
        ("jsonl", b'{"u": "1", "colour": "red", "y": 2}', "row 2: column 'u': '1' among numbers"),
        ("jsonl", b'{"u": 1, "colour": 3, "y": 2}', "row 2: column 'colour': 3 among words"),
        ("jsonl", b'{"u": [1], "colour": "red", "y": 2}', "row 2: column 'u': list is neither"),
        ("jsonl", b'{"u": 1, "colour": "red", "y": 2, "z": 3}', "row 2: column 'z' was not in the first row"),
        ("jsonl", b"[1, 2]", "row 2: expected an object"),
        ("jsonl", b'{"u": 1' + b"0" * 400 + b', "colour": "red", "y": 2}', "row 2: column 'u'"),
        ("jsonl", b"[" * 100_000, "row 2: not JSON"),
    ],
)
def test_a_bad_row_says_where_and_changes_nothing(form, line, message):
    good = b"u,colour,y\n1,red,2\n" if form == "csv" else b'{"u": 1, "colour": "red", "y": 2}\n'
    reader = rows_reader(form)
    reader.take(good)
    before, notes = reader.state, json.dumps(reader.notes())
    with pytest.raises(nbt.BadItem, match=message.replace("[", r"\[")):
        reader.take(line + b"\n1,red,3\n")
    assert same_bits(reader.state, before)
    reader.rest = b""
    assert json.dumps(reader.notes()) == notes
    lenient = rows_reader(form, skip_bad=True)
    lenient.take(good + line + b"\n" + good.split(b"\n")[-2] + b"\n")
    assert (lenient.tally.skipped, lenient.tally.targets) == (1, 2)


def test_a_first_row_that_is_bad_decides_nothing():
    reader = rows_reader("jsonl", skip_bad=True)
    reader.take(b'{"u": "a", "colour": 1, "y": 2, "extra": 3, "bad": [1]}\n' + JSONL)
    assert (reader.tally.skipped, reader.tally.targets) == (1, 40)
    assert reader.header == ["u", "colour", "y"]
    assert reader.kinds == {"u": "numbers", "colour": "words", "y": "numbers"}


def told(reader, *pieces):
    found = []
    reader.tell = found.append
    for piece in pieces:
        reader.take(piece)
    reader.finish()
    return found


def test_predictions_are_told_before_their_targets():
    """What is told with a row is what `predict` says of it when it has not been seen."""
    for ahead in (False, True):
        reader, beside = (rows_reader(columns=Columns("y", ahead=ahead)) for _ in range(2))
        found = told(reader, CSV)
        assert found[0]["prediction"] is None  # nothing was known of its size
        assert reader.table.scored == 39
        assert [record["row"] for record in found] == [*range(2, 42 + ahead)]
        beside.take(CSV[: CSV.rindex(b"\n", 0, -1) + 1])  # all but the last row
        *_, u, colour, y = CSV[:-1].decode().replace("\n", ",").split(",")
        row = {"u": float(u), "colour": colour}
        if not ahead:
            beside.table.features.learn(row)  # means and deviations are those with this row
        expected = beside.table.expected() if ahead else beside.table.predict(row)
        assert found[39]["prediction"] == expected
        assert found[39]["target"] == float(y)
        assert same_bits(reader.state, rows_after(CSV, ahead).state)
        if ahead:
            assert found[40] == {"row": 42, "target": None, "prediction": reader.table.expected()}


def rows_after(raw, ahead):
    reader = rows_reader(columns=Columns("y", ahead=ahead))
    reader.take(raw)
    return reader


def test_labels_are_told_with_their_probabilities():
    found = told(rows_reader(columns=Columns("colour"), task="classification"), CSV)
    assert found[0] | {"row": 0, "target": 0} == {
        "row": 0,
        "target": 0,
        "prediction": None,
        "probability": None,
        "probabilities": {},
    }
    assert found[1]["target"] not in found[1]["probabilities"]  # it has not come before
    last = found[-1]
    assert sum(last["probabilities"].values()) == pytest.approx(1)
    assert last["probabilities"][last["prediction"]] == last["probability"] == max(last["probabilities"].values())


def test_rows_are_predicted_without_their_targets():
    trained = rows_reader()
    trained.take(CSV)
    frozen = RowsReader.resumed(trained.learner, trained.state, trained.notes(), form="jsonl", learning=False)
    (found,) = told(frozen, b'{"colour": "red", "u": 1.5}\n')
    assert found == {"row": 1, "target": None, "prediction": trained.table.predict({"u": 1.5, "colour": "red"})}
    assert frozen.tally.targets == 0
    for raw, message in (
        (b"u;colour;y\n", "no column 'u' among 'u;colour;y'; --delimiter"),
        (b"u,y\n", "there is no column 'colour'"),
    ):
        frozen = RowsReader.resumed(trained.learner, trained.state, trained.notes(), learning=False)
        with pytest.raises(nbt.BadItem, match=message):
            frozen.take(raw)
    with pytest.raises(nbt.BadItem, match="row 2: column 'y' is missing"):
        rows_reader("jsonl", columns=Columns("y", ("u",))).take(b'{"u": 1, "y": 2}\n{"u": 1}\n')


def test_fields_may_be_separated_by_something_else(tmp_path):
    columns = Columns("y", delimiter=";")
    reader = rows_reader(columns=columns)
    reader.take(CSV.replace(b",", b";"))
    plain = rows_after(CSV, ahead=False)
    assert same_bits(reader.state, plain.state)
    assert RowsReader.resumed(reader.learner, reader.state, json.loads(json.dumps(reader.notes()))).columns == columns
    older = plain.notes() | {"columns": ["y", None, [], False]}  # as files without a delimiter have it
    assert RowsReader.resumed(plain.learner, plain.state, older).columns == Columns("y")
    score = plain.notes()["score"]
    assert RowsReader.resumed(plain.learner, plain.state, older | {"score": score[:3]}).table.scored == 40
    with pytest.raises(ValueError, match="delimiter must be one character"):
        rows_reader(columns=Columns("y", delimiter="::"))


def test_a_last_row_without_an_end_may_get_it_later():
    reader, plain = rows_reader(), rows_after(CSV + b"3,red,4\n", ahead=False)
    reader.take(CSV[:-1])
    reader.finish()
    assert reader.position == len(CSV) - 1
    assert reader.tally.targets == 40
    again = RowsReader.resumed(reader.learner, reader.state, reader.notes())
    again.take(b"\n3,red,4\n")
    again.finish()
    assert (again.line, again.position) == (plain.line, plain.position)
    assert same_bits(again.state, plain.state)
    with pytest.raises(nbt.BadItem, match="row 43: 2 fields"):
        again.take(b"1,red\n")
    again = RowsReader.resumed(again.learner, again.state, again.notes(), skip_bad=True)
    again.finish()  # the bad row was waiting, with its end
    assert (again.tally.skipped, again.line, again.position) == (1, 43, plain.position + 6)


def test_the_first_ones_that_are_skipped_are_told_of():
    reader = rows_reader(skip_bad=True)
    reader.take(CSV + b"1,red\n" * 9)
    assert reader.tally.skipped == 9
    assert reader.tally.skips == [f"row {i}: 2 fields, but the header has 3: cut short?" for i in range(42, 47)]


def test_another_stream_is_read_from_its_beginning():
    reader = rows_reader()
    reader.take(CSV)
    reader.rewind()
    reader.take(CSV)
    assert reader.line == 41
    with pytest.raises(nbt.BadItem, match="row 42: 2 fields"):
        reader.take(b"1,red\n")


def test_a_column_that_is_not_there_a_line_that_does_not_end():
    with pytest.raises(nbt.BadItem, match="row 1: there is no column 'z' among 'u', 'colour', 'y'"):
        rows_reader(columns=Columns("z")).take(CSV)
    with pytest.raises(nbt.BadItem, match="row 1: no end of line in 1048576 bytes"):
        rows_reader().take(b"x" * (1 << 20) + b"x")


def test_a_word_never_seen_is_learned_but_not_evaluated():
    reader = rows_reader()
    reader.take(CSV + b"1,green,2\n")
    assert reader.table.features.knows("colour", "green")
    learner, state, notes = reader.learner, reader.state, reader.notes()
    frozen = RowsReader.resumed(learner, state, notes, learning=False)
    before = frozen.state.params
    frozen.take(CSV.split(b"\n")[0] + b"\n1,red,2\n")
    assert same_bits(frozen.state.params, before)
    assert frozen.tally.targets == 1
    with pytest.raises(nbt.BadItem, match="'pink' was never seen"):
        frozen.take(b"1,pink,2\n")


def test_missing_values_and_targets():
    reader = rows_reader()
    losses = reader.take(b"u,colour,y\n1,red,2\n,red,2\n1,,\n\n2,red,1\n")
    assert np.isnan(losses).tolist() == [True, False, False, True, True, False]
    assert reader.tally.targets == 3


def test_one_step_ahead_is_learned():
    series = nbt.streams.henon(length=3000, seed=0)
    raw = b"v\n" + b"".join(b"%.6f\n" % value for value in np.ravel(series))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reader = RowsReader(TableReader("regression", Parts(units=10)), "csv", Columns("v", ("v",), (), True))
        reader.take(raw)
    table = reader.table
    assert table.off < 0.5 * table.off_mean


# --- parts ----------------------------------------------------------------------------------------------------------


@given(some.lists(some.floats(-1e6, 1e6), min_size=1, max_size=30))
def test_a_scale_is_the_mean_and_deviation(values):
    scale = Scale()
    for value in values:
        scale.add(value)
    assert scale.mean == pytest.approx(np.mean(values), abs=1e-6)
    if np.std(values) > 1e-3:
        assert scale.deviation == pytest.approx(np.std(values), rel=1e-6)
    assert Scale(*scale.described()).described() == scale.described()
    assert abs(scale.within(values[0])) <= 8


def test_columns_come_and_go():
    features = Features()
    assert not features.learn({"b": 1.0, "a": 2.0})
    assert features.numbers["a"][0] == 0  # in the order of names, whatever the order of the row
    assert features.learn({"c": "x", "d": 1, "e": True})
    assert features.capacity == 8
    assert features.vector({"c": "x"}).tolist() == [0, 0, 0, 0, 1, 0, 0, 0]  # words after numbers
    assert features.vector({"c": "unheard", "f": 9.0, "a": None}).tolist() == [0] * 8
    assert Features.made(features.described()).described() == features.described()
    before = features.described()
    with pytest.raises(nbt.BadItem, match="'g': inf is not finite"):
        features.learn({"new": 1.0, "g": math.inf})
    assert features.described() == before
    with pytest.raises(nbt.BadItem, match="neither a number nor a word"):
        features.learn({"g": [1]})


def test_labels_of_any_kind_in_the_order_they_came():
    classes = Classes()
    assert [classes.place(label) for label in (True, "x", 3, "x")] == [(0, True), (1, True), (2, True), (1, False)]
    assert classes.capacity == 4
    assert Classes(**classes.described()).places == classes.places


def test_a_tally_goes_on_and_a_baseline_is_a_code():
    whole, cut = Tally(), Tally()
    losses = np.random.default_rng(0).random(500)
    losses[::7] = np.nan
    whole.add(losses)
    for loss in losses[:100]:
        cut.add_one(loss)
    cut = Tally(**cut.described())
    cut.add(losses[100:])
    assert cut.mean == pytest.approx(whole.mean)
    assert cut.lately == pytest.approx(whole.lately)
    # (1/2)(1/4)(3/6) for the counts (1, 2): the product of the Krichevsky-Trofimov estimates
    assert frequencies_nats(np.array([1, 2])) * 3 == pytest.approx(-math.log(1 / 2 * 1 / 4 * 3 / 6))


# --- whatever comes -------------------------------------------------------------------------------------------------

MUTATIONS = some.lists(
    some.tuples(some.integers(0, 10**6), some.sampled_from(fuzz.KINDS), some.binary(max_size=4)), min_size=1, max_size=3
)


@pytest.mark.parametrize("form", ["csv", "jsonl"])
@given(mutations=MUTATIONS)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_mutated_stream_is_read_or_refused_with_its_row(form, mutations):
    assert fuzz.read(form, fuzz.mutated(fuzz.STREAMS[form], mutations)) in ("read", "refused")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("fuzz") / "a"
    reader = rows_reader()
    reader.take(CSV)
    nbt.save(path, reader.learner, reader.state, reader.notes())
    return path, path.read_bytes(), nbt.load(path)


@given(mutations=MUTATIONS)
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_mutated_checkpoint_is_refused_or_the_same(saved, mutations):
    path, whole, checkpoint = saved
    path.with_name("b").write_bytes(fuzz.mutated(whole, mutations))
    assert fuzz.loaded(path.with_name("b"), checkpoint) in ("refused", "the same")


def test_a_checkpoint_without_its_digest_would_be_taken_for_another(saved, monkeypatch):
    """The digest is what refuses: with any digest accepted, a flipped bit of the numbers passes, and is found out."""
    path, whole, checkpoint = saved
    path.with_name("b").write_bytes(fuzz.mutated(whole, [(len(whole) - 100, "flip", b"")]))
    assert fuzz.loaded(path.with_name("b"), checkpoint) == "refused"
    digest = module.inspect(path)["digest"]
    monkeypatch.setattr(module, "_digest", lambda header, arrays: digest)
    with pytest.raises(AssertionError, match="not what was saved"):
        fuzz.loaded(path.with_name("b"), checkpoint)
