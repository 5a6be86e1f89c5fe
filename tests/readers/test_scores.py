"""Scores of surprise: of rows, lines and characters, the same however a stream is cut."""

import itertools
import math

import numpy as np
import pytest

import nobacktrack as nbt
from nobacktrack.protocol import NATS_PER_BIT
from nobacktrack.readers.alphabets import Growing, Known, Octets
from nobacktrack.readers.lines import Columns
from nobacktrack.readers.rows import RowsReader
from nobacktrack.readers.scores import KNOWN, LEAST_DEVIATION, RECENT, RowScores, TextScores, Usual
from nobacktrack.readers.table import Parts, TableReader
from nobacktrack.readers.text import TextReader


def fed(scores, text, losses, cuts=()):
    """The records of a text in pieces, the scores being made anew from their record at each cut."""
    units = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    places = np.cumsum([0, *(len(letter.encode()) for letter in text)])
    records = []
    for begin, end in itertools.pairwise([0, *cuts, len(units)]):
        scores = TextScores(**scores.record())
        scores.write = records.append
        scores.take(losses[begin:end], units[begin:end], places[begin : end + 1])
    scores.finish()
    return records


def reader_of(alphabet, records, by="line", **options):
    learner = nbt.Learner(nbt.LeakyRNN(units=4, symbols=alphabet.capacity), nbt.NoBackTrack(), nbt.Kalman())
    reader = TextReader(learner, learner.init(0), alphabet, **options)
    reader.scores.by, reader.scores.write = by, records.append
    return reader


# --- what is unusual ------------------------------------------------------------------------------------------------


def test_unusual_is_in_deviations_of_what_came_before():
    usual, values = Usual(), np.random.default_rng(0).normal(2, 0.5, KNOWN)
    for value in values:
        assert usual.unusual(100.0) == 0
        usual.add(float(value))
    assert usual.mean == pytest.approx(values.mean())
    assert usual.variance == pytest.approx(values.var())
    assert usual.unusual(5.0) == pytest.approx((5 - values.mean()) / values.std())
    assert usual.unusual(values.mean() - values.std()) == pytest.approx(-1)


def test_what_is_usual_moves_and_is_never_without_deviation():
    usual = Usual()
    for _ in range(2 * RECENT):
        usual.add(1.0)
    assert usual.unusual(1 + LEAST_DEVIATION) == pytest.approx(1)
    for _ in range(10 * RECENT):
        usual.add(3.0)
    assert usual.mean == pytest.approx(3, abs=1e-3)
    assert Usual(*usual.record()).unusual(5.0) == usual.unusual(5.0)


def test_what_is_frozen_soon_has_a_usual_loss_of_its_own():
    usual = Usual(RECENT, 1.0, 0.01)
    usual.loosen()
    assert usual.unusual(2.0) == pytest.approx(10)
    for _ in range(2 * KNOWN):
        usual.add(2.0)
    assert usual.unusual(2.0) < 1
    untold = Usual(3, 1.0, 0.01)
    untold.loosen()
    assert untold.unusual(2.0) == 0


# --- text -----------------------------------------------------------------------------------------------------------


def test_lines_and_what_they_cost():
    records = fed(TextScores(), "aé\n\nbcd", np.array([1, 2, 3, 4, 6, 5, 6.0]) * NATS_PER_BIT)
    assert [record.pop("unusual") for record in records] == [0, 0, 0]
    names = "line", "byte", "characters", "bits", "per_character", "peak", "peak_at"
    expected = [(1, 0, 3, 6, 2, 3, 3), (2, 4, 1, 4, 4, 4, 1), (3, 5, 3, 17, 17 / 3, 6, 1)]
    for record, values in zip(records, expected, strict=True):
        assert record == {name: pytest.approx(value, abs=1e-6) for name, value in zip(names, values, strict=True)}


def test_lines_are_the_same_wherever_they_are_cut():
    rng = np.random.default_rng(1)
    text = "".join(rng.choice(list("abé\n"), 2000, p=[0.4, 0.4, 0.1, 0.1]))
    losses = rng.exponential(size=2000)
    whole = fed(TextScores(), text, losses)
    assert len(whole) == len(text.splitlines())
    assert any(record["unusual"] > 2 for record in whole)
    assert fed(TextScores(), text, losses, cuts=sorted(rng.choice(2000, 300))) == whole
    assert fed(TextScores(), text, losses, cuts=range(1, 2000)) == whole
    assert sum(record["bits"] for record in whole) == pytest.approx(losses.sum() / NATS_PER_BIT, abs=1e-3)


def test_where_scoring_begins_inside_a_line_it_is_the_line_from_there():
    scores = TextScores()
    units = np.frombuffer(b"ab\ncd", np.uint8)
    scores.take(np.ones(5), units, np.arange(6))
    records = []
    scores.write = records.append
    scores.take(np.ones(3), np.frombuffer(b"e\nf", np.uint8), np.arange(5, 9))
    assert [(record["line"], record["byte"], record["characters"]) for record in records] == [(2, 5, 2)]


def test_characters_and_bytes_one_by_one():
    losses = np.array([1.0, 2, 3]) * NATS_PER_BIT
    expected = [(0, "é", 1), (2, "\n", 2), (3, "a", 3)]
    found = [tuple(record.values()) for record in fed(TextScores("byte"), "é\na", losses, cuts=[1])]
    assert found == expected
    records = []
    reader_of(Octets(), records, "byte").take(b"\xff\n")
    assert [(record["byte"], record["character"]) for record in records] == [(0, 255), (1, 10)]


@pytest.mark.parametrize("alphabet", [Octets(), Known("\nabé"), Growing()])
def test_a_reader_scores_what_its_tally_counts(alphabet):
    records, raw = [], ("abé\nab\n" * 30 + "ab").encode()
    reader = reader_of(alphabet, records)
    for begin in range(0, len(raw), 7):
        reader.take(raw[begin : begin + 7])
    reader.finish()
    assert len(records) == 60
    reader.scores.finish()
    assert [record["line"] for record in records] == list(range(1, 62))
    assert records[2]["byte"] == len("abé\nab\n".encode())
    assert sum(record["characters"] for record in records) == reader.tally.items
    assert sum(record["bits"] for record in records) == pytest.approx(
        reader.tally.losses.total / NATS_PER_BIT, abs=1e-3
    )


def test_a_skipped_end_of_line_ends_it_all_the_same():
    records = []
    reader = reader_of(Known("ab"), records, skip_bad=True)
    reader.take(b"ab\n\nba\n")
    assert [(record["line"], record["byte"], record["characters"]) for record in records] == [(1, 0, 2), (3, 4, 2)]


def test_another_stream_has_lines_of_its_own():
    records = []
    reader = reader_of(Octets(), records)
    reader.take(b"ab\nab")
    reader.rewind()
    reader.take(b"ab\n")
    assert [record["line"] for record in records] == [1, 1]
    assert records[1]["characters"] == 3
    assert reader.scores.usual.count == 2


# --- rows -----------------------------------------------------------------------------------------------------------


def test_rows_have_numbers_bits_and_no_score_without_a_target():
    records = []
    reader = RowsReader(TableReader("regression", Parts(units=3)), "csv", Columns(("y",)), skip_bad=True)
    reader.scores.write = records.append
    losses = reader.take(b"x,y\n1,2\n\n2,NaN\nbad\n3,4\n")
    assert [record["row"] for record in records] == [2, 4, 6]
    assert records[1] == {"row": 4, "bits": None, "unusual": None}
    told = [record["bits"] for record in records if record["bits"] is not None]
    assert told == pytest.approx(losses[~np.isnan(losses)] / NATS_PER_BIT, abs=1e-6)


def test_an_odd_row_stands_out():
    records, scores = [], RowScores()
    scores.write = records.append
    for row, loss in enumerate([1.0, 1.1] * 50 + [9.0, math.nan, 1.0], 1):
        scores = RowScores(**scores.record())
        scores.write = records.append
        scores.take(row, loss)
    assert max(records, key=lambda record: record["unusual"] or 0)["row"] == 101
    assert records[100]["unusual"] > 20
    assert records[101]["unusual"] is None
    assert abs(records[102]["unusual"]) < 1
