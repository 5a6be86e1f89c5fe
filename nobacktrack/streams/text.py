"""Text as symbols."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def characters(path: str | Path) -> tuple[np.ndarray, str]:
    """A UTF-8 text file as symbols, and its alphabet: symbol i is the character alphabet[i], in code point order."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 text (byte {error.start})") from None
    points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    alphabet, symbols = np.unique(points, return_inverse=True)
    if len(alphabet) < 2:
        raise ValueError(f"{path}: {len(text)} characters, {len(alphabet)} distinct; at least two symbols are needed")
    return symbols.astype(np.int32), "".join(map(chr, alphabet))
