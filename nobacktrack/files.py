"""Files: written whole or not at all, and where what can be made again is kept."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import filelock


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
        _settle(path.parent)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _settle(folder: Path) -> None:
    """Have the disk know the new name too, where a folder can be asked to."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextlib.contextmanager
def alone(path: str | Path) -> Iterator[None]:
    """Be the one process that writes a file: a second one gets a ValueError; one that was killed holds nothing."""
    path = Path(path)
    try:
        with filelock.FileLock(path.with_name(f".{path.name}.lock"), blocking=False):
            yield
    except filelock.Timeout:
        raise ValueError(f"{path}: another process is writing it; stop that one, or choose another file") from None


def cache() -> Path:
    """The folder for what can be made or fetched again: in $NOBACKTRACK_CACHE or the user's cache."""
    root = os.environ.get("NOBACKTRACK_CACHE") or os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(root) / "nobacktrack"


def expect_writable(folder: Path) -> None:
    """An OSError where a folder cannot be made or written to."""
    folder.mkdir(parents=True, exist_ok=True)
    tempfile.TemporaryFile(dir=folder).close()


def remove_unused(folder: Path, pattern: str, seconds: float) -> None:
    """Remove what can be made again and has not been used for so long; what another process removes first is gone."""
    for found in folder.glob(pattern):
        if time.time() - found.stat().st_mtime > seconds:
            shutil.rmtree(found, ignore_errors=True)


def programs() -> Path:
    """The folder for programs that JAX compiles, apart for each kind of processor."""
    try:
        flags = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith(("flags", "Feat"))]
    except OSError:
        flags = []
    processor = flags[0] if flags else platform.node()  # where that cannot be known, each machine has its own
    return cache() / "jax" / hashlib.sha256(f"{platform.machine()} {processor}".encode()).hexdigest()[:16]


def data() -> Path:
    """The folder for downloaded texts."""
    return cache() / "data"
