"""What a column holds: dates that are understood or not, columns that come and go, labels and numbers."""

import pytest

from nobacktrack.readers.lines import Columns
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
