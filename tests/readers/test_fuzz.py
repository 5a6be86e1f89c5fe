"""Whatever comes: mutated streams and checkpoints are read as they were, or refused."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

import nobacktrack as nbt
from experiments import fuzz
from nobacktrack import checkpoint as module
from nobacktrack.readers.lines import Columns
from nobacktrack.readers.notes import as_json
from nobacktrack.readers.rows import RowsReader
from nobacktrack.readers.table import Parts, TableReader

CSV, JSONL = fuzz.STREAMS["csv"], fuzz.STREAMS["jsonl"]


def rows_reader(form="csv", task="regression", columns=None, **options):
    table = TableReader(task, Parts(units=3))
    return RowsReader(table, form, columns or Columns(("y",)), **options)


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
    nbt.save(path, reader.learner, reader.state, as_json(reader.notes()))
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
