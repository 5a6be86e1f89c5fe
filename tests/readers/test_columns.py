"""What a column holds: dates that are understood or not, columns that come and go, labels and numbers."""

import pytest

import nobacktrack as nbt
from nobacktrack.checks import same_bits
from nobacktrack.readers.features import Features
from nobacktrack.readers.lines import Columns, is_label, number_hint
from nobacktrack.readers.notes import as_json, from_json
from nobacktrack.readers.rows import RowsReader
from nobacktrack.readers.table import Parts, TableReader


def rows_reader(form="csv", task="regression", columns=None, **options):
    return RowsReader(TableReader(task, Parts(units=3)), form, columns or Columns(("y",)), **options)


@pytest.mark.parametrize(
    ("value", "dated"),
    [
        *((text, True) for text in ("02.01.2022", "01/02/2024 00:00", "1-2-2024", "31.12.24", "2024.1.31", "2024/1/5")),
        *((text, False) for text in ("2024-01-31 14:00", "red", "1.2.10", "10.0.12.10", "12/5", "01-02-2024-x")),
    ],
)
def test_dates_that_are_not_iso_are_told_of_once(caplog, value, dated):
    reader = rows_reader()
    reader.take(f"when,y\n{value},1\n{value},2\n".encode())
    told = [message for message in caplog.messages if "ISO 8601" in message]
    assert len(told) == dated
    assert all("column 'when'" in message and "read as a word" in message for message in told)


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        *((text, "--decimal ,") for text in ("806,15", "-0,5")),
        *((text, "without signs") for text in ("$12.30", "12%", "1,234.50", "1.234,50", "12,5 €", "1'000'000")),
        *((text, "") for text in ("red", "a,b", "2024-01-31", "inf", "10.0.0.1", "%", "")),
    ],
)
def test_a_word_that_looks_like_a_number_gets_a_hint(value, hint):
    found = number_hint(value, Columns(("y",)))
    assert found.startswith(hint)
    assert bool(found) == bool(hint)


@pytest.mark.parametrize("value", [1, 2.5, [1], {"a": 1}, None, 10**400])
def test_what_is_no_label(value):
    assert not is_label(value, "jsonl", Columns(("y",)))


def test_labels_that_are_all_new_are_told_of_once(caplog):
    reader = rows_reader(task="classification")
    reader.take(b"x,y\n" + b"".join(b"1,%d.5\n" % (i % 101) for i in range(210)))
    assert len([message for message in caplog.messages if "101 different labels in 200 rows" in message]) == 1
    caplog.clear()
    rows_reader(task="classification").take(b"x,y\n" + b"".join(b"1,%d\n" % (i % 100) for i in range(210)))
    assert not [message for message in caplog.messages if "different labels" in message]


@pytest.mark.parametrize(
    ("target", "task"), [(b"true", "classification"), (b'"up"', "classification"), (b"1", "regression")]
)
def test_the_first_target_decides_where_that_was_left_open(target, task):
    """Rows without a target come first: what they taught of the columns stays."""
    reader = rows_reader("jsonl", labels=lambda first: TableReader("classification", Parts(units=3)))
    reader.take(b'{"x": 1, "y": null}\n{"x": 3, "y": null}\n')
    reader.take(b'{"x": 2, "y": %s}\n' % target * 5)
    assert reader.table.task == task
    assert (reader.tally.items, reader.tally.targets) == (7, 5)
    assert reader.table.features.numbers["x"][1].count == 7


def test_columns_of_json_lines_come_and_go():
    """A key that is not there is a value that is missing; a new one is a new column."""
    reader, whole = rows_reader("jsonl"), rows_reader("jsonl")
    reader.take(b'{"u": 1, "y": 2}\n{"y": 3}\n{"u": 2, "v": 5, "y": 1}\n{"u": 4, "v": 6, "y": 1}\n')
    whole.take(b'{"u": 1, "y": 2}\n{"u": null, "y": 3}\n{"u": 2, "v": 5, "y": 1}\n{"u": 4, "v": 6, "y": 1}\n')
    assert same_bits(reader.state, whole.state)
    assert set(reader.table.features.numbers) == {"u", "v"}
    assert reader.header == ["u", "y", "v"]
    reader.take(b'{"u": 1}\n')
    assert (reader.tally.items, reader.tally.targets) == (5, 4)
    with pytest.raises(nbt.BadItem, match="row 6: column 'v': 'up' among numbers"):
        reader.take(b'{"v": "up", "w": 1, "y": 1}\n')
    assert "w" not in [*(reader.header or ()), *reader.kinds]


def test_named_columns_of_json_lines_need_not_be_in_the_first_row(caplog):
    reader = rows_reader("jsonl", columns=Columns(("y",), inputs=("u", "v", "misspelled"), words=("w",)))
    reader.take(b'{"u": 1, "y": 2, "deep": {"a": [1]}}\n{"v": 3, "y": 3, "other": 1}\n')
    reader.finish()
    assert set(reader.table.features.numbers) == {"u", "v"}
    assert "column 'misspelled': in no row so far" in caplog.text
    with pytest.raises(nbt.BadItem, match="row 1: there is no column 'y' among 'u', 'z'"):
        rows_reader("jsonl").take(b'{"u": 1, "z": 2}\n')


def test_what_is_nested_can_be_left_out():
    with pytest.raises(nbt.BadItem, match=r"column 'deep': dict is neither .*; --inputs names the columns to read"):
        rows_reader("jsonl").take(b'{"u": 1, "deep": {"a": 1}, "y": 2}\n')


def test_rows_that_are_evaluated_may_lack_columns():
    trained = rows_reader("jsonl")
    trained.take(b'{"u": 1, "y": 2}\n{"u": 2, "v": 1, "y": 3}\n')
    frozen = RowsReader.resume(trained.learner, trained.state, trained.notes(), learning=False)
    found = []
    frozen.on_prediction = found.append
    frozen.take(b'{"v": 2, "new": 7}\n')
    assert found[0]["prediction"] == trained.table.predict({"v": 2.0})


def test_columns_whose_names_are_data_are_told_of(caplog):
    features = Features()
    features.learn({f"user {i}": 1.0 for i in range(255)})
    assert not caplog.messages
    features.learn({"user 255": 1.0, "user 256": 1.0})
    assert len(caplog.messages) == 1
    assert "256 columns of numbers so far, 'user 255' the last" in caplog.text


def test_notes_of_another_version_are_refused_by_the_name_of_their_file():
    reader = rows_reader()
    reader.take(b"u,y\n1,2\n")
    found = as_json(reader.notes()) | {"unheard": 1}
    with pytest.raises(ValueError, match=r"old\.nbt: written by another version, with other notes"):
        from_json(found, "old.nbt")
