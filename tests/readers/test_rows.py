"""Rows as they come: cut anywhere, the same; bad, and it says where."""

import json
import warnings

import numpy as np
import pytest

import nobacktrack as nbt
from experiments import fuzz
from nobacktrack.checks import same_bits
from nobacktrack.readers.lines import Columns
from nobacktrack.readers.notes import RowsNotes, as_json, from_json
from nobacktrack.readers.rows import RowsReader
from nobacktrack.readers.table import Parts, TableReader

CSV, JSONL = fuzz.STREAMS["csv"], fuzz.STREAMS["jsonl"]


def rows_reader(form="csv", task="regression", columns=None, **options):
    table = TableReader(task, Parts(units=3))
    return RowsReader(table, form, columns or Columns(("y",)), **options)


def rows_notes(found):
    notes = from_json(found)
    assert isinstance(notes, RowsNotes)
    return notes


@pytest.mark.parametrize("task", ["regression", "classification"])
@pytest.mark.parametrize(("form", "raw"), [("csv", CSV), ("jsonl", JSONL)])
def test_rows_may_be_cut_anywhere_and_saved_there(form, raw, task, tmp_path):
    whole = rows_reader(form, task)
    whole.take(raw)
    cut, begin = rows_reader(form, task), 0
    for end in (5, 30, 77, 300, len(raw)):
        cut.take(raw[begin:end])
        if cut.begun:
            nbt.save(tmp_path / "a", cut.learner, cut.state, as_json(cut.notes()))
            learner, state, notes = nbt.load(tmp_path / "a")
            cut = RowsReader.resume(learner, state, rows_notes(notes))
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
        ("csv", b"inf,red,2", "row 3: column 'u': inf is not a finite number"),
        ("csv", b"red,red,2", "row 3: column 'u': 'red' among numbers"),
        ("csv", b"1,7,2", "row 3: column 'colour': '7' among words"),
        ("csv", b"1,red,big", "row 3: column 'y': 'big' among numbers"),
        ("csv", b"1,\xff\xfe,2", "row 3: byte 2 of the line is not UTF-8"),
        ("csv", b"1,r\0d,2", "row 3: a zero byte"),
        ("jsonl", b'{"u": 1, "colour": "red"', "row 2: not JSON, or cut short"),
        ("jsonl", b'{"u": Infinity, "colour": "red", "y": 2}', "row 2: Infinity is not a finite number"),
        ("jsonl", b'{"u": "1", "colour": "red", "y": 2}', "row 2: column 'u': '1' among numbers"),
        ("jsonl", b'{"u": 1, "colour": 3, "y": 2}', "row 2: column 'colour': 3 among words"),
        (
            "jsonl",
            b'{"u": [1], "colour": "red", "y": 2}',
            "row 2: column 'u': list is neither a number nor a word; --inputs",
        ),
        ("jsonl", b"[1, 2]", "row 2: expected an object"),
        ("jsonl", b'{"u": 1' + b"0" * 400 + b', "colour": "red", "y": 2}', "row 2: column 'u'"),
        ("jsonl", b"[" * 100_000, "row 2: not JSON"),
    ],
)
def test_a_bad_row_says_where_and_changes_nothing(form, line, message):
    good = b"u,colour,y\n1,red,2\n" if form == "csv" else b'{"u": 1, "colour": "red", "y": 2}\n'
    reader = rows_reader(form)
    reader.take(good)
    before, notes = reader.state, json.dumps(as_json(reader.notes()))
    with pytest.raises(nbt.BadItem, match=message.replace("[", r"\[")):
        reader.take(line + b"\n1,red,3\n")
    assert same_bits(reader.state, before)
    reader.rest = b""
    assert json.dumps(as_json(reader.notes())) == notes
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
    reader.on_prediction = found.append
    for piece in pieces:
        reader.take(piece)
    reader.finish()
    reader.tell_rest()
    return found


def test_predictions_are_told_before_their_targets():
    """What is told with a row is what `predict` says of it when it has not been seen."""
    for ahead in (False, True):
        reader, beside = (rows_reader(columns=Columns(("y",), ahead=ahead)) for _ in range(2))
        found = told(reader, CSV)
        assert found[0]["prediction"] is None  # nothing was known of its size
        assert reader.table.targets.squares[""][0].targets == 39
        assert [record["row"] for record in found] == [*range(2, 42 + ahead)]
        beside.take(CSV[: CSV.rindex(b"\n", 0, -1) + 1])  # all but the last row
        *_, u, colour, y = CSV[:-1].decode().replace("\n", ",").split(",")
        row = {"u": float(u), "colour": colour}
        if not ahead:
            beside.table.features.learn(row)  # means and deviations are those with this row
        expected = beside.table.expected()[0].value if ahead else beside.table.predict(row)
        assert found[39]["prediction"] == expected
        assert found[39]["target"] == float(y)
        assert same_bits(reader.state, rows_after(CSV, ahead).state)
        if ahead:
            assert found[40] == {"row": 42, "target": None, "prediction": reader.table.expected()[0].value}


def rows_after(raw, ahead):
    reader = rows_reader(columns=Columns(("y",), ahead=ahead))
    reader.take(raw)
    return reader


def test_labels_are_told_with_their_probabilities():
    found = told(rows_reader(columns=Columns(("colour",)), task="classification"), CSV)
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
    frozen = RowsReader.resume(trained.learner, trained.state, trained.notes(), form="jsonl", learning=False)
    (found,) = told(frozen, b'{"colour": "red", "u": 1.5}\n')
    assert found == {"row": 1, "target": None, "prediction": trained.table.predict({"u": 1.5, "colour": "red"})}
    assert frozen.tally.targets == 0
    for raw, message in (
        (b"u;colour;y\n", "no column 'u' among 'u;colour;y'; --delimiter"),
        (b"u,y\n", "there is no column 'colour'"),
    ):
        frozen = RowsReader.resume(trained.learner, trained.state, trained.notes(), learning=False)
        with pytest.raises(nbt.BadItem, match=message):
            frozen.take(raw)


def test_fields_may_be_separated_by_something_else(tmp_path):
    columns = Columns(("y",), delimiter=";")
    reader = rows_reader(columns=columns)
    reader.take(CSV.replace(b",", b";"))
    plain = rows_after(CSV, ahead=False)
    assert same_bits(reader.state, plain.state)
    notes = rows_notes(json.loads(json.dumps(as_json(reader.notes()))))
    assert RowsReader.resume(reader.learner, reader.state, notes).columns == columns
    with pytest.raises(ValueError, match="delimiter must be one character"):
        rows_reader(columns=Columns(("y",), delimiter="::"))


def test_a_last_row_without_an_end_may_get_it_later():
    reader, plain = rows_reader(), rows_after(CSV + b"3,red,4\n", ahead=False)
    reader.take(CSV[:-1])
    reader.finish()
    assert reader.position == len(CSV) - 1
    assert reader.tally.targets == 40
    again = RowsReader.resume(reader.learner, reader.state, reader.notes())
    again.take(b"\n3,red,4\n")
    again.finish()
    assert (again.line, again.position) == (plain.line, plain.position)
    assert same_bits(again.state, plain.state)
    with pytest.raises(nbt.BadItem, match="row 43: 2 fields"):
        again.take(b"1,red\n")
    again = RowsReader.resume(again.learner, again.state, again.notes(), skip_bad=True)
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
        rows_reader(columns=Columns(("z",))).take(CSV)
    with pytest.raises(nbt.BadItem, match="row 1: no end of line in 1048576 bytes"):
        rows_reader().take(b"x" * (1 << 20) + b"x")


def test_a_word_never_seen_is_learned_but_not_evaluated():
    reader = rows_reader()
    reader.take(CSV + b"1,green,2\n")
    assert reader.table.features.knows("colour", "green")
    learner, state, notes = reader.learner, reader.state, reader.notes()
    frozen = RowsReader.resume(learner, state, notes, learning=False)
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


@pytest.mark.parametrize("token", ["NaN", "NA", "null", "-", "n/a", "None", "?"])
def test_what_others_write_for_a_missing_cell_is_one(token):
    one, other = rows_reader(), rows_reader()
    one.take(f"u,colour,y\n{token},red,2\n1,{token},2\n2,red,{token}\n3,red,1\n".encode())
    other.take(b"u,colour,y\n,red,2\n1,,2\n2,red,\n3,red,1\n")
    assert same_bits(one.state, other.state)
    assert one.tally.targets == 3


def test_what_stands_for_a_missing_cell_can_be_said():
    reader = rows_reader(columns=Columns(("y",), missing=("", "-999")))
    reader.take(b"u,colour,y\n-999,red,2\n1,red,-999\n")
    assert reader.tally.targets == 1
    with pytest.raises(nbt.BadItem, match="'NA' among numbers"):
        reader.take(b"1,red,NA\n")


def test_any_word_may_be_a_label():
    reader = rows_reader(columns=Columns(("y",)), task="classification")
    reader.take(b"u,y\n1,none\n2,-\n3,\n4,none\n")
    assert reader.tally.targets == 3
    assert list(reader.table.classes.places) == ["none", "-"]


def test_the_index_that_pandas_writes_is_left_out(caplog):
    plain, indexed = rows_after(CSV, ahead=False), rows_reader()
    lines = CSV.decode().splitlines()
    indexed.take("".join(f"{'' if i == 0 else i - 1},{line}\n" for i, line in enumerate(lines)).encode())
    assert same_bits(plain.state, indexed.state)
    assert "column 'unnamed 1': left out; --inputs can name it" in caplog.text
    asked = rows_reader(columns=Columns(("y",), inputs=("unnamed 1", "u")))
    asked.take(b",u,colour,y\n0,1,red,2\n")
    assert set(asked.table.features.numbers) == {"unnamed 1", "u"}


def test_a_header_that_is_bad_is_never_skipped():
    """Else the rows after it would be tried as headers, one by one."""
    reader = rows_reader(skip_bad=True)
    with pytest.raises(nbt.BadItem, match="row 1: the header needs distinct names, and has 'u' more than once"):
        reader.take(b"u,u,y\n1,2,3\n")
    with pytest.raises(nbt.BadItem, match="row 1: there is no column 'y'"):
        rows_reader(skip_bad=True).take(b"u,z\n1,2\n1,y\n")


def test_numbers_may_have_a_decimal_comma():
    columns = Columns(("y",), delimiter=";", decimal=",")
    reader = rows_reader(columns=columns)
    reader.take(CSV.replace(b",", b";").replace(b".", b","))
    assert same_bits(reader.state, rows_after(CSV, ahead=False).state)
    plain = rows_reader(columns=Columns(("y",), delimiter=";"))
    with pytest.raises(nbt.BadItem, match="'1,5' among numbers; --decimal , reads it as a number"):
        plain.take(b"u;y\n1;2\n1,5;2\n")
    with pytest.raises(ValueError, match="delimiter and decimal are both ','"):
        rows_reader(columns=Columns(("y",), decimal=","))


def test_an_engine_that_does_not_apply_is_refused():
    table = TableReader("regression", Parts(cell="lru", units=3), engine="fused")
    with pytest.raises(ValueError, match="engine fused: the fused engine does not run it: it has no loop for LRU"):
        RowsReader(table, "csv", Columns(("y",))).take(CSV)
    table = TableReader("regression", Parts(units=3), engine="jax")
    reader = RowsReader(table, "csv", Columns(("y",)))
    reader.take(CSV)
    assert reader.engine_name == "jax"


def test_errors_are_told_in_the_unit_of_the_target():
    reader = rows_reader()
    reader.take(b"u,y\n" + b"".join(b"%d,%d\n" % (i % 5, 1000 * (i % 5)) for i in range(200)))
    score = reader.score()
    assert list(score)[:3] == ["rmse", "recent_rmse", "last_rmse"]
    rmse, last, baseline = (score[name] for name in ("rmse", "last_rmse", "baseline_rmse"))
    assert rmse is not None
    assert baseline is not None
    assert 100 < rmse < baseline < 2000
    assert last == pytest.approx(1000 * np.sqrt(4), rel=0.02)  # 1000 four times, -4000 once


def test_one_step_ahead_is_learned():
    series = nbt.streams.henon(length=3000, seed=0)
    raw = b"v\n" + b"".join(b"%.6f\n" % value for value in np.ravel(series))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reader = RowsReader(TableReader("regression", Parts(units=10)), "csv", Columns(("v",), ("v",), (), True))
        reader.take(raw)
    score = reader.score()
    rmse, baseline = score["rmse"], score["baseline_rmse"]
    assert rmse is not None
    assert baseline is not None
    assert rmse < 0.7 * baseline
