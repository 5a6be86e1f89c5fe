"""Streams made by a rule, and text files."""

import hashlib
import itertools
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

import numpy as np
import pytest

import nobacktrack as nbt
from benchmarks.baselines import entropy_by_phrases
from nobacktrack.streams import gutenberg

DATA = Path(__file__).parents[2] / "shared" / "data"


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


def test_entropy_rate_of_music_is_computed_and_met_by_its_phrases():
    rate = nbt.streams.music_entropy()
    assert abs(rate - 0.9422802) < 1e-7
    found, error = entropy_by_phrases(1_000_000)
    assert error < 5e-4
    assert abs(found - rate) < 4 * error


def test_music_depends_on_its_seed_alone():
    one, other = (nbt.streams.music(length=1000, seed=s) for s in (0, 1))
    assert np.array_equal(one, nbt.streams.music(length=2000, seed=0)[:1000])
    assert not np.array_equal(one, other)
    assert one.dtype == np.int32
    assert len(one) == 1000
    assert one.max() == 16


def test_a_file_can_be_gone_through_again_and_again():
    symbols = np.array([3, 1, 2])
    assert nbt.streams.cycle(symbols, 7).tolist() == [3, 1, 2, 3, 1, 2, 3]
    chunks = itertools.islice(nbt.streams.endless(symbols), 3)
    assert np.concatenate(list(chunks)).tolist() == [3, 1, 2] * 3
    with pytest.raises(ValueError, match="none to go through"):
        nbt.streams.cycle(np.zeros(0, np.int32), 3)


def test_bytes_are_symbols_in_order(tmp_path):
    (tmp_path / "a").write_bytes(b"\xff\x00b\xff")
    symbols, alphabet = nbt.streams.octets(tmp_path / "a")
    assert alphabet == b"\x00b\xff"
    assert symbols.tolist() == [2, 0, 1, 2]
    (tmp_path / "a").write_bytes(b"aa")
    with pytest.raises(ValueError, match="2 bytes, 1 distinct"):
        nbt.streams.octets(tmp_path / "a")


@pytest.fixture
def small_edition(monkeypatch, tmp_path):
    """A text of a few lines in the place of Shakespeare's, pinned, and its archive in the place of the download."""
    text = (
        "\ufeffabout\r\n*** START OF THIS ***\r\n\r\nTo be,\r\nor not\r\n\r\n* CONTENT NOTE (added in 2017) *\r\n"
        "*** END OF THIS ***\r\n"
    ).encode()
    with zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
        archive.writestr("100-0.txt", text)
    content = (tmp_path / "archive.zip").read_bytes()
    monkeypatch.delenv("NOBACKTRACK_DATA", raising=False)
    monkeypatch.setenv("NOBACKTRACK_CACHE", str(tmp_path / "cache"))
    for name, pinned in (("EBOOK", text), ("ARCHIVE", content), ("WORKS", b"To be,\nor not\n")):
        digest = hashlib.sha256(pinned).hexdigest()
        monkeypatch.setattr(gutenberg, name, gutenberg.Pinned(len(pinned), digest))
    monkeypatch.setattr(gutenberg, "ADDRESS", (tmp_path / "archive.zip").as_uri())
    return text


def shown(symbols, alphabet):
    return "".join(alphabet[s] for s in symbols)


def test_the_works_alone_from_a_file_a_folder_the_environment_or_a_download(small_edition, tmp_path, monkeypatch):
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "shakespeare.txt").write_bytes(small_edition)
    for path in (folder / "shakespeare.txt", folder):
        assert shown(*nbt.streams.shakespeare(path)) == "To be,\nor not\n"
    (folder / "works.txt").write_bytes(b"To be,\nor not\n")
    assert shown(*nbt.streams.shakespeare(folder / "works.txt")) == "To be,\nor not\n"
    with pytest.raises(FileNotFoundError, match="not to be downloaded"):
        nbt.streams.shakespeare(download=False)
    monkeypatch.setenv("NOBACKTRACK_DATA", str(folder))
    assert shown(*nbt.streams.shakespeare(download=False)) == "To be,\nor not\n"
    monkeypatch.delenv("NOBACKTRACK_DATA")
    assert shown(*nbt.streams.shakespeare()) == "To be,\nor not\n"
    assert (tmp_path / "cache" / "nobacktrack" / "data" / "shakespeare.txt").read_bytes() == small_edition
    assert shown(*nbt.streams.shakespeare(download=False)) == "To be,\nor not\n"  # it is kept


def test_another_edition_is_refused_by_size_and_hash(small_edition, tmp_path):
    (tmp_path / "other.txt").write_text("To be or not")
    with pytest.raises(ValueError, match=r"12 bytes, sha256 [0-9a-f]{64}; expected .* bytes, sha256"):
        nbt.streams.shakespeare(tmp_path / "other.txt")
    with pytest.raises(FileNotFoundError, match="neither"):
        nbt.streams.shakespeare(tmp_path)
    with pytest.raises(FileNotFoundError, match="no such file"):
        nbt.streams.shakespeare(tmp_path / "missing")


def test_a_download_that_fails_says_what_to_do(small_edition, monkeypatch, tmp_path):
    def unreachable(*_, **__):
        raise urllib.error.URLError("no route to host")

    monkeypatch.setattr(urllib.request, "urlopen", unreachable)
    with pytest.raises(OSError, match=r"no route to host.*NOBACKTRACK_DATA"):
        nbt.streams.shakespeare()


def test_a_damaged_download_is_not_kept(small_edition, monkeypatch, tmp_path):
    (tmp_path / "archive.zip").write_bytes(b"damaged")
    with pytest.raises(ValueError, match="7 bytes, sha256"):
        nbt.streams.shakespeare()
    assert not (tmp_path / "cache").exists()


@pytest.mark.skipif(not DATA.exists(), reason="needs the text")
def test_the_works_have_their_known_size():
    symbols, alphabet = nbt.streams.shakespeare(DATA)
    assert (len(symbols), len(alphabet)) == (5_662_716, 93)
    digest = hashlib.sha256(shown(symbols, alphabet).encode()).hexdigest()
    assert digest == gutenberg.WORKS.sha256


def test_copies_come_back_after_the_delay():
    stream = nbt.streams.copy(8, 40, length=43 * 50, seed=0).reshape(50, 43)
    np.testing.assert_array_equal(stream[:, 0], stream[:, -1])
    np.testing.assert_array_equal(stream[:, 1:41], 8)
    np.testing.assert_array_equal(stream[:, 41], 9)
    assert set(stream[:, 0]) == set(range(8))
    assert nbt.streams.copy_entropy(8, 40) == pytest.approx(3 / 43)
    with pytest.raises(ValueError, match="symbols must be an integer >= 2"):
        nbt.streams.copy(1, 40, length=10, seed=0)


@pytest.mark.parametrize("make", [nbt.streams.henon, nbt.streams.mackey_glass, nbt.streams.lorenz])
def test_chaotic_series_are_standardised_and_differ_by_seed(make):
    series = make(length=3000, seed=0)
    assert series.shape == (3000, 1)
    assert abs(series.mean()) < 1e-5
    assert series.std() == pytest.approx(1, abs=1e-5)
    assert not np.allclose(series, make(length=3000, seed=1))
    np.testing.assert_array_equal(series, make(length=3000, seed=0))


def test_henon_obeys_its_map():
    """x'' = 1 - a x'^2 + b x holds up to one shift and one scale: three numbers fit 3,000 items."""
    x = nbt.streams.henon(length=3000, seed=0)[:, 0].astype(float)
    terms = np.stack([np.ones(2998), x[1:-1], x[1:-1] ** 2, x[:-2]], axis=1)
    fit, *_ = np.linalg.lstsq(terms, x[2:], rcond=None)
    np.testing.assert_allclose(terms @ fit, x[2:], atol=1e-4)
    assert fit[3] == pytest.approx(0.3, abs=1e-3)


def test_lorenz_and_mackey_glass_have_their_known_shape():
    lorenz = nbt.streams.lorenz(length=20_000, seed=0)[:, 0]
    assert 0.3 < np.mean(lorenz > 0) < 0.7  # both wings
    assert np.abs(np.diff(lorenz)).max() < 0.6  # smooth at steps of 0.02
    glass = nbt.streams.mackey_glass(length=5000, seed=0)[:, 0]
    spectrum = np.abs(np.fft.rfft(glass))
    period = 5000 / spectrum.argmax()
    assert 40 < period < 60  # about 50 for tau = 17
