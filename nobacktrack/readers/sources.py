"""Bytes from a file or a pipe, piece by piece, with their place, and a way to stop between two pieces."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

FIRST_PIECE, LARGEST_PIECE = 1 << 12, 1 << 20
MOMENT = 0.2  # seconds that a piece should take
PATIENCE = 0.25  # seconds
MOST_IN_A_PIPE = 1 << 20  # bytes: more than this is still being written


class ByteSource:
    """A file, or standard input by the name `-`, from byte `start` on; `follows` is the stream that was read so far, if
    it had another name.
    """

    def __init__(self, name: str, start: int = 0, follows: str | None = None):
        self.name = "standard input" if name == "-" else name
        self._file: BinaryIO = sys.stdin.buffer if name == "-" else _opened(Path(name))
        self.seekable = name != "-" and self._file.seekable()
        self.terminal = name == "-" and self._file.isatty()
        if self.seekable:
            self.size = os.fstat(self._file.fileno()).st_size
            _expect_more(name, self.size, start, follows)
            self._file.seek(start)
        else:
            self.size = None

    def pieces(self, stop: Callable[[], bool]) -> Iterator[bytes]:
        """What comes next, some at a time; nothing, b"", where nothing came for a moment. It ends with the file, or
        when told to stop, with what lies in the pipe by then: that would be lost.
        """
        size = FIRST_PIECE
        while not stop():
            if not self._waits(PATIENCE):
                yield b""
                continue
            piece = os.read(self._file.fileno(), size)
            if not piece:
                return
            start = time.monotonic()
            yield piece
            took = time.monotonic() - start
            if len(piece) == size:  # as many as are learned in a moment, so that a stop is heard
                size = min(max(int(size * min(MOMENT / max(took, 1e-6), 2.0)), 256), LARGEST_PIECE)
        left = 0 if self.seekable else MOST_IN_A_PIPE
        while left > 0 and self._waits(0.0) and (piece := os.read(self._file.fileno(), min(left, FIRST_PIECE))):
            left -= len(piece)
            yield piece

    def _waits(self, seconds: float) -> bool:
        """Whether there is something to read, or the end, within so many seconds."""
        return self.seekable or bool(select.select([self._file.fileno()], [], [], seconds)[0])


def _expect_more(name: str, size: int, start: int, follows: str | None) -> None:
    """Refuse a file that cannot be the rest of what was read so far."""
    if start and follows == "-":
        raise ValueError(
            f"{name}: {start} bytes of standard input were read so far; --from-start reads this file from its beginning"
        )
    if start > size:
        before = f" of {follows}" if follows else ""
        raise ValueError(
            f"{name}: {size} bytes, but {start}{before} were read already: is it another file? --from-start reads it "
            "from its beginning"
        )


def _opened(path: Path) -> BinaryIO:
    if path.is_dir():
        raise ValueError(f"{path}: a folder, not a file")
    return open(path, "rb", buffering=0)  # type: ignore[return-value]
