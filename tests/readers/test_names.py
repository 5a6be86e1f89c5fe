"""Networks, estimators, updates and streams by name."""

import numpy as np
import pytest

import nobacktrack as nbt
from nobacktrack.readers import names


@pytest.mark.parametrize(
    ("text", "estimator"),
    [
        ("nobacktrack:10", nbt.NoBackTrack(rank=10)),
        ("diagonal:1:4+gramian", nbt.DiagonalPlusRankOne(lag=4, norms=nbt.GramianNorms())),
        ("kronecker:3", nbt.KroneckerSum(rank=3)),
        ("artbp", nbt.ARTBP()),
        ("bptt:7", nbt.TruncatedBPTT(depth=7)),
    ],
)
def test_estimators_have_names(text, estimator):
    assert names.estimator_of(text) == estimator


@pytest.mark.parametrize(
    "text", ["nothing", "uoro:3", "nobacktrack:x", "snap1+gramian", "diagonal:1:2:3", "diagonal+big"]
)
def test_other_names_are_refused(text):
    with pytest.raises(ValueError, match="estimator: "):
        names.estimator_of(text)


def test_updates_have_names():
    assert names.update_of("kalman:0.2:50") == nbt.Kalman(decay=nbt.inverse_sqrt(0.2), prior=50.0)
    assert names.update_of("sgd:0.5") == nbt.SGD(nbt.inverse_sqrt(0.5))
    for text in ("adam:x", "newton", "sgd:1:2"):
        with pytest.raises(ValueError, match="update: "):
            names.update_of(text)


def test_streams_have_names(tmp_path):
    source = names.stream_of("copy:4-5")
    assert source.symbols == 6
    np.testing.assert_array_equal(source.make(3, 50), nbt.streams.copy(4, 5, length=50, seed=3))
    assert source.entropy == nbt.streams.copy_entropy(4, 5)
    assert names.stream_of("anbn").symbols == 3
    assert names.stream_of("music").symbols == len(nbt.streams.MUSIC_ALPHABET)
    (tmp_path / "text").write_text("abcabc")
    assert names.stream_of(str(tmp_path / "text")).length == 6
    with pytest.raises(ValueError, match="takes 2 numbers"):
        names.stream_of("anbn:1")


def test_updates_that_do_not_slow_down():
    assert names.update_of("kalman-steady") == nbt.Kalman(decay=1e-4)
    assert names.update_of("kalman-steady:0.001:5") == nbt.Kalman(decay=1e-3, prior=5.0)
    assert names.update_of("sgd-steady:0.02") == nbt.SGD(0.02)
    for name in ("adam-steady", "kalman-slow", "kalman:1:2:3"):
        with pytest.raises(ValueError, match="is none of"):
            names.update_of(name)
