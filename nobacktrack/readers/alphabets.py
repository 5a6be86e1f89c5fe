"""Which symbol a character or a byte is: bytes, the characters of a text that is known, or characters as they come."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

POINTS = 0x110000
CHARACTERS = POINTS - 0x800  # Unicode scalar values: all code points but the surrogates
FIRST_CAPACITY = 32
NEVER_SEEN = 0  # the symbol that stands for all characters that have not come yet


class Octets:
    """256 bytes, whatever they mean."""

    kind: ClassVar[str] = "bytes"
    text: ClassVar[bool] = False
    capacity = used = 256

    def symbols(self, units: np.ndarray) -> np.ndarray:
        return units.astype(np.int32)

    def spelled(self, symbols: np.ndarray) -> str:
        return bytes(np.asarray(symbols, np.uint8)).decode("latin-1")

    def described(self) -> dict[str, Any]:
        return {"kind": self.kind}


class Known:
    """The characters of a text that was looked through beforehand."""

    kind: ClassVar[str] = "known"
    text: ClassVar[bool] = True

    def __init__(self, characters: str):
        if len(characters) < 2 or len(set(characters)) < len(characters):
            raise ValueError(f"alphabet: at least two distinct characters are needed, not {characters!r}")
        self.characters = characters
        self._table = _table(characters, 0)

    @property
    def capacity(self) -> int:
        return len(self.characters)

    used = capacity

    def symbols(self, units: np.ndarray) -> np.ndarray:
        return self._table[units]

    def spelled(self, symbols: np.ndarray) -> str:
        return "".join(self.characters[symbol] for symbol in symbols)

    def described(self) -> dict[str, Any]:
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

    def spelled(self, symbols: np.ndarray) -> str:
        known = "\ufffd" + self.characters
        return "".join(known[symbol] if symbol < len(known) else "\ufffd" for symbol in symbols)

    def described(self) -> dict[str, Any]:
        return {"kind": self.kind, "characters": self.characters, "capacity": self.capacity}


def alphabet_of(described: dict[str, Any]) -> Octets | Known | Growing:
    """An alphabet from what `described` said."""
    kinds: dict[str, Any] = {kind.kind: kind for kind in (Octets, Known, Growing)}
    fields = {name: value for name, value in described.items() if name != "kind"}
    return kinds[described["kind"]](**fields)


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
