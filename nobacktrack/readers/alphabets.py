"""Which symbol a character or a byte is: bytes, the characters of a text that is known, or characters as they come."""

from __future__ import annotations

import codecs
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

POINTS = 0x110000
CHARACTERS = POINTS - 0x800  # Unicode scalar values: all code points but the surrogates
FIRST_CAPACITY = 32
BLOCK = 1 << 20  # bytes of a file at a time
NEVER_SEEN = 0  # the symbol that stands for all characters that have not come yet


class Octets:
    """256 bytes, whatever they mean."""

    kind: ClassVar[str] = "bytes"
    text: ClassVar[bool] = False
    capacity = used = 256

    def symbols(self, units: np.ndarray) -> np.ndarray:
        return units.astype(np.int32)

    def spell(self, symbols: np.ndarray) -> str:
        return bytes(np.asarray(symbols, np.uint8)).decode("latin-1")

    def record(self) -> dict[str, Any]:
        return {"kind": self.kind}


class Known:
    """The characters of a text that was looked through beforehand."""

    kind: ClassVar[str] = "known"
    text: ClassVar[bool] = True

    def __init__(self, characters: str):
        if not characters or len(set(characters)) < len(characters):
            raise ValueError(f"alphabet: distinct characters are needed, not {characters!r}")
        self.characters = characters
        self._table = _table(characters, 0)

    @property
    def capacity(self) -> int:
        """Two for a text of one character, since there must be something to choose from."""
        return max(2, self.used)

    @property
    def used(self) -> int:
        return len(self.characters)

    def symbols(self, units: np.ndarray) -> np.ndarray:
        return self._table[units]

    def spell(self, symbols: np.ndarray) -> str:
        return "".join(self.characters[symbol] if symbol < self.used else "\ufffd" for symbol in symbols)

    def record(self) -> dict[str, Any]:
        return {"kind": self.kind, "characters": self.characters}


class Growing:
    """Characters as they come: symbol 0 is any that has not come yet, the others follow in the order in which they
    came; the room for them doubles.
    """

    kind: ClassVar[str] = "growing"
    text: ClassVar[bool] = True

    def __init__(self, characters: str = "", capacity: int = FIRST_CAPACITY):
        if len(set(characters)) < len(characters) or len(characters) >= capacity:
            raise ValueError(f"alphabet: {len(characters)} characters do not go into {capacity} symbols")
        self.characters, self.capacity = characters, capacity
        self._table = _table(characters, 1)

    @property
    def used(self) -> int:
        return 1 + len(self.characters)

    def symbols(self, units: np.ndarray) -> np.ndarray:
        return self._table[units]

    def name_bits(self) -> float:
        """What it takes to say which character a never seen one is: any of those left, alike."""
        return float(np.log2(CHARACTERS - len(self.characters)))

    def add(self, unit: int) -> int:
        """The symbol of a character that comes for the first time; `capacity` doubles where there is no room."""
        symbol = self.used
        self._table[unit] = symbol
        self.characters += chr(unit)
        if symbol >= self.capacity:
            self.capacity *= 2
        return symbol

    def spell(self, symbols: np.ndarray) -> str:
        known = "\ufffd" + self.characters
        return "".join(known[symbol] if symbol < len(known) else "\ufffd" for symbol in symbols)

    def record(self) -> dict[str, Any]:
        return {"kind": self.kind, "characters": self.characters, "capacity": self.capacity}


def alphabet_of(record: dict[str, Any]) -> Octets | Known | Growing:
    """An alphabet from its record."""
    kinds: dict[str, Any] = {kind.kind: kind for kind in (Octets, Known, Growing)}
    fields = {name: value for name, value in record.items() if name != "kind"}
    return kinds[record["kind"]](**fields)


def known_alphabet(path: str | Path) -> Known:
    """The characters of a UTF-8 text file, in code point order; it is looked through block by block."""
    seen, decoder = np.zeros(POINTS, bool), codecs.getincrementaldecoder("utf-8")()
    with open(path, "rb") as file:
        marked = file.read(len(codecs.BOM_UTF8)) == codecs.BOM_UTF8  # the mark is no character of the text
        position = file.seek(len(codecs.BOM_UTF8) if marked else 0)
        while block := file.read(BLOCK):
            seen[_points(block, decoder, position, path)] = True
            position += len(block)
        _points(b"", decoder, position, path, last=True)
    characters = "".join(map(chr, np.flatnonzero(seen)))
    if not characters:
        raise ValueError(f"{path}: there is nothing in it; a pipe, or --alphabet bytes, may be empty at first")
    return Known(characters)


def _points(block: bytes, decoder: Any, position: int, path: str | Path, last: bool = False) -> np.ndarray:
    """The code points of a block; what may be the beginning of a character waits in the decoder."""
    units, waiting = np.frombuffer(block, np.uint8), decoder.getstate()[0]
    if not waiting and (units < 0x80).all():
        return units  # plain ASCII, many times faster
    try:
        text = decoder.decode(block, last)
    except UnicodeDecodeError as error:
        place = position - len(waiting) + error.start
        raise ValueError(
            f"{path}: not UTF-8 text (byte {place}); `--alphabet bytes`, or `nbt.streams.octets`, reads any file"
        ) from None
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)


def symbols_in(raw: bytes, alphabet: Octets | Known | Growing) -> np.ndarray:
    """The symbols of some bytes, without what has none."""
    units = [*map(ord, raw.decode(errors="ignore"))] if alphabet.text else [*raw]
    symbols = alphabet.symbols(np.array(units, np.uint32))
    return symbols[symbols >= 0]


def _table(characters: str, first: int) -> np.ndarray:
    """The symbol of every code point, -1 where there is none."""
    table = np.full(POINTS, -1, np.int32)
    table[[ord(character) for character in characters]] = np.arange(first, first + len(characters))
    return table
