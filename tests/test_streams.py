"""Streams made by a rule, and text files."""

import numpy as np
import pytest

import nobacktrack as nbt


def test_anbn_is_blocks_of_equal_length_uniform_in_the_range():
    symbols = nbt.streams.anbn(2, 5, length=50_000, seed=3)
    text = "".join(nbt.streams.ANBN_ALPHABET[s] for s in symbols)
    lines = text.split("\n")[:-2]
    lines = lines[: len(lines) // 2 * 2]
    assert all(a == "a" * len(a) and b == "b" * len(a) for a, b in zip(lines[::2], lines[1::2], strict=True))
    counts = np.bincount([len(a) for a in lines[::2]])
    assert counts[:2].sum() == 0
    np.testing.assert_allclose(counts[2:] / counts.sum(), 0.25, atol=0.02)


def test_anbn_depends_on_its_seed_alone():
    one, other = (nbt.streams.anbn(1, 32, length=1000, seed=s) for s in (0, 1))
    assert np.array_equal(one, nbt.streams.anbn(1, 32, length=1000, seed=0))
    assert not np.array_equal(one, other)
    assert len(one) == 1000


def test_entropy_rates_of_anbn():
    assert nbt.streams.anbn_entropy(1, 32) == pytest.approx(1 / 7)
    assert nbt.streams.anbn_entropy(1, 32, independent=True) == pytest.approx(2 / 7)


def test_characters_are_symbols_in_code_point_order(tmp_path):
    (tmp_path / "a.txt").write_text("\ufeffhéllo\n", encoding="utf-8")
    symbols, alphabet = nbt.streams.characters(tmp_path / "a.txt")
    assert alphabet == "\nhloé"
    assert "".join(alphabet[s] for s in symbols) == "héllo\n"


@pytest.mark.parametrize(
    ("content", "message"), [(b"", "0 characters"), (b"aaaa", "1 distinct"), (b"a\xff\xfe", "UTF-8")]
)
def test_bad_text_is_refused(content, message, tmp_path):
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        nbt.streams.characters(tmp_path / "a.txt")
