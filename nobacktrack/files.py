"""Files: written whole or not at all, and where what can be made again is kept."""

from __future__ import annotations

import os
import threading
from pathlib import Path


def write(path: str | Path, content: bytes | str) -> None:
    """Write a file atomically: it is the old one or the new one, never half of it."""
    path = Path(path)
    beside = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        with open(beside, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def cache() -> Path:
    """The folder for what can be made or fetched again: in $NOBACKTRACK_CACHE or the user's cache."""
    root = os.environ.get("NOBACKTRACK_CACHE") or os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(root) / "nobacktrack"


def data() -> Path:
    """The folder for downloaded texts."""
    return cache() / "data"
