"""The signs of `counter.py`, bit for bit: Threefry-2x32 with 20 rounds on (key, t)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....compiled import ONE, kernel

_PARITY = np.uint32(0x1BD11BDA)
_ROTATIONS = np.array([[13, 15, 26, 6], [17, 29, 16, 24]], np.uint32)
_WORD = np.uint32(32)


@kernel
def threefry(key0: Any, key1: Any, x: Any, y: Any) -> Any:
    """Two words from a key and a counter of two words each."""
    key2 = np.uint32(key0 ^ key1 ^ _PARITY)
    x, y = np.uint32(x + key0), np.uint32(y + key1)
    for block in range(5):
        for i in range(4):
            rotation = _ROTATIONS[block % 2, i]
            x = np.uint32(x + y)
            y = np.uint32((y << rotation) | (y >> (_WORD - rotation))) ^ x
        key0, key1, key2 = key1, key2, key0
        x = np.uint32(x + key0)
        y = np.uint32(y + key1 + np.uint32(block + 1))
    return x, y


@kernel
def draw_signs(clock: Any, signs: Any) -> None:
    """Independent signs for the time of a clock (key, key, t, t)."""
    key0, key1 = threefry(clock[0], clock[1], clock[2], clock[3])
    for block in range((signs.size + 63) // 64):
        x, y = threefry(key0, key1, np.uint32(block), np.uint32(0))
        first = 64 * block
        for i in range(min(32, signs.size - first)):
            signs[first + i] = -ONE if (x >> np.uint32(i)) & np.uint32(1) else ONE
        for i in range(min(32, signs.size - first - 32)):
            signs[first + 32 + i] = -ONE if (y >> np.uint32(i)) & np.uint32(1) else ONE


@kernel
def tick(clock: Any) -> None:
    """t + 1, over two words."""
    clock[3] = np.uint32(clock[3] + np.uint32(1))
    if clock[3] == 0:
        clock[2] = np.uint32(clock[2] + np.uint32(1))
