"""What a column holds: dates that are understood or not, columns that come and go, labels and numbers."""

import pytest

from nobacktrack.readers.lines import Columns, is_label, number_hint
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
