"""Files: written whole or not at all, and where what can be made again is kept."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write(path: str | Path, content: bytes | str) -> None:
    """Write a file atomically: it is the old one or the new one, never half of it."""
    path = Path(path)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        try:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def cache() -> Path:
    """The folder for what can be made or fetched again: in $NOBACKTRACK_CACHE or the user's cache."""
    root = os.environ.get("NOBACKTRACK_CACHE") or os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(root) / "nobacktrack"


def data() -> Path:
    """The folder for downloaded texts."""
    return cache() / "data"
