"""General compressors at their highest level; a symbol is a byte. They see a block of the data before they write it."""

from __future__ import annotations

import bz2 as _bz2
import gzip as _gzip
import lzma
from collections.abc import Callable
from typing import Any

import numpy as np

from .alphabet import checked


def gzip(data: Any) -> float:
    """Bits per character of `gzip -9` on a text, on bytes, or on symbols."""
    return _rate(data, lambda content: _gzip.compress(content, 9, mtime=0))


def bz2(data: Any) -> float:
    """Bits per character of `bzip2 -9` on a text, on bytes, or on symbols."""
    return _rate(data, lambda content: _bz2.compress(content, 9))


def xz(data: Any) -> float:
    """Bits per character of `xz -9e` on a text, on bytes, or on symbols."""
    return _rate(data, lambda content: lzma.compress(content, preset=9 | lzma.PRESET_EXTREME))


def _rate(data: Any, compress: Callable[[bytes], bytes]) -> float:
    content = data.encode() if isinstance(data, str) else data
    if not isinstance(content, bytes):
        content = checked(content, 256).astype(np.uint8).tobytes()
    if not content:
        raise ValueError("data: there is none")
    return 8 * len(compress(content)) / len(data)
