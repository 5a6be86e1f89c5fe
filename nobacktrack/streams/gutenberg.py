"""The works of Shakespeare: Project Gutenberg's eBook 100 without what stands around the works, from a file or a
pinned download; the library does not carry the text.
"""

from __future__ import annotations

import hashlib
import http.client
import io
import os
import urllib.request
import warnings
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import wrap_file

from .. import files
from .text import symbols_of


class Pinned(NamedTuple):
    """A file known by its size in bytes and its SHA-256."""

    size: int
    sha256: str

    def matches(self, content: bytes) -> bool:
        return len(content) == self.size and hashlib.sha256(content).hexdigest() == self.sha256


NAMES = ("shakespeare.txt", "100-0.txt")
EBOOK = Pinned(5_852_404, "17d47ae375676f7576feb3d931784223865403a18537707f9a567247015d6781")
WORKS = Pinned(5_680_703, "38ddcd7f36780aa18b0b889c3b626b611153bfd3b663a1e4c71dce40fc7b9f83")
ARCHIVE = Pinned(2_166_912, "2caed7fe4a0d73f8bb5c2ae1724aeacf25671cf1e1bb8241ef8a86edb500fe8f")
ADDRESS = "https://raw.githubusercontent.com/tmgreenside/CPSC_475/51d1a31a264ff978350c8093f12938199eebe4cf/100-0.zip"


def shakespeare(path: str | Path | None = None, *, download: bool = True) -> tuple[np.ndarray, str]:
    """Shakespeare's works as symbols, and their alphabet: 5,662,716 characters, 93 symbols.

    `path`, or else $NOBACKTRACK_DATA, is the text or a folder that holds it; without either, it is in the user's
    cache, or is downloaded there.
    """
    return symbols_of(works(found(path, download)), "the works of Shakespeare")


def found(path: str | Path | None = None, download: bool = True) -> bytes:
    """The text, checked against its size and hash."""
    place = _place(path)
    if place is not None:
        return _checked(place.read_bytes(), place)
    if not download:
        raise FileNotFoundError(_missing("it was not to be downloaded"))
    text = _unpacked(_downloaded())
    try:
        files.data().mkdir(parents=True, exist_ok=True)
        files.write(files.data() / NAMES[0], text)
    except OSError as error:
        warnings.warn(f"the works of Shakespeare are not kept, and will be downloaded again: {error}", stacklevel=3)
    return text


def works(ebook: bytes) -> str:
    """The works alone: between Gutenberg's marks, before its note on copyright, lines ended by newlines."""
    if WORKS.matches(ebook):
        return ebook.decode("utf-8")
    lines = ebook.decode("utf-8-sig").replace("\r\n", "\n").split("\n")
    begin, end = (_line(lines, mark) for mark in ("*** START OF", "*** END OF"))
    text = "\n".join(lines[begin + 1 : end])
    return text[: text.index("* CONTENT NOTE (added in 2017) *")].strip("\n") + "\n"


def _line(lines: list[str], mark: str) -> int:
    return next(i for i, line in enumerate(lines) if line.startswith(mark))


def _place(path: str | Path | None) -> Path | None:
    """The file to read; None where there is none and none was named."""
    path = path or os.environ.get("NOBACKTRACK_DATA")
    if not path:
        return next((files.data() / name for name in NAMES if (files.data() / name).is_file()), None)
    path = Path(path)
    if path.is_dir():
        inside = next((path / name for name in NAMES if (path / name).is_file()), None)
        if inside is None:
            raise FileNotFoundError(f"{path}: neither {NAMES[0]} nor {NAMES[1]} is in this folder")
        return inside
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file or folder")
    return path


def _checked(content: bytes, place: Path) -> bytes:
    if EBOOK.matches(content) or WORKS.matches(content):
        return content
    raise ValueError(
        f"{place}: not the edition that is read here: {len(content):,} bytes, sha256 "
        f"{hashlib.sha256(content).hexdigest()}; expected {EBOOK.size:,} bytes, sha256 {EBOOK.sha256} (Project "
        f"Gutenberg's 100-0.txt of June 2018), or the works alone, {WORKS.size:,} bytes, sha256 {WORKS.sha256}"
    )


def _downloaded() -> bytes:
    """The archive, with a progress bar on stderr."""
    try:
        with (
            urllib.request.urlopen(ADDRESS, timeout=30) as answer,
            wrap_file(
                answer, ARCHIVE.size, description="downloading Shakespeare", console=Console(stderr=True)
            ) as reader,
        ):
            content = b"".join(iter(lambda: reader.read(1 << 16), b""))
    except (http.client.HTTPException, OSError) as error:
        raise OSError(_missing(f"the download failed ({getattr(error, 'reason', error)})")) from None
    if not ARCHIVE.matches(content):
        raise ValueError(
            f"{ADDRESS}: {len(content):,} bytes, sha256 {hashlib.sha256(content).hexdigest()}; expected "
            f"{ARCHIVE.size:,} bytes, sha256 {ARCHIVE.sha256}"
        )
    return content


def _unpacked(archive: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(archive)) as content:
        return _checked(content.read(NAMES[1]), Path(ADDRESS))


def _missing(why: str) -> str:
    return (
        f"the works of Shakespeare are not here, and {why}: give the path of the text (Project Gutenberg's 100-0.txt "
        f"of June 2018, {EBOOK.size:,} bytes) or of its folder, or name either in NOBACKTRACK_DATA"
    )
