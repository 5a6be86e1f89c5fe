"""Time and randomness as functions of a counter: any step can be replayed, and every engine draws the same signs.

t is 64 bits wide, as two 32-bit words (high, low), since JAX has no 64-bit integers by default and 2^31 steps pass in
half an hour.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int8, UInt32

Words = UInt32[Array, "2"]

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)


def zero() -> Words:
    """The time before the first step."""
    return jnp.zeros(2, jnp.uint32)


def later(t: Words, steps: jax.Array | int = 1) -> Words:
    """t + steps, with the carry."""
    low = t[1] + jnp.asarray(steps, jnp.uint32)
    return jnp.stack([t[0] + (low < t[1]).astype(jnp.uint32), low])


def count(t: jax.Array | np.ndarray) -> int:
    """t as a Python integer."""
    high, low = np.asarray(t, np.uint64)
    return int(high) << 32 | int(low)


def ordinal(t: Words, dtype: jnp.dtype) -> Float[Array, ""]:
    """t + 1 as a float: rates and decays start at 1."""
    return t[0].astype(dtype) * 2.0**32 + t[1].astype(dtype) + 1.0


def threefry(key: tuple[Array, Array], counter: tuple[Array, Array]) -> tuple[Array, Array]:
    """Threefry-2x32 with 20 rounds (Salmon et al. 2011): two words from a key and a counter of two words each."""
    keys = (key[0], key[1], key[0] ^ key[1] ^ _PARITY)
    x, y = counter[0] + keys[0], counter[1] + keys[1]
    for block in range(5):
        for rotation in _ROTATIONS[block % 2]:
            x = x + y
            y = (y << rotation | y >> 32 - rotation) ^ x
        x = x + keys[(block + 1) % 3]
        y = y + keys[(block + 2) % 3] + np.uint32(block + 1)
    return x, y


def _threefry_in_a_loop(key: tuple[Array, Array], counter: tuple[Array, Array]) -> tuple[Array, Array]:
    """The same, its blocks of rounds in a loop that XLA does not look through."""
    keys = (key[0], key[1], key[0] ^ key[1] ^ _PARITY)
    rotations = jnp.asarray(_ROTATIONS, jnp.uint32)

    def block(i: Array, carry: tuple[Array, ...]) -> tuple[Array, ...]:
        x, y, *keys = carry
        for rotation in rotations[i % 2]:
            x = x + y
            y = (y << rotation | y >> 32 - rotation) ^ x
        return x + keys[1], y + keys[2] + i.astype(jnp.uint32) + np.uint32(1), keys[1], keys[2], keys[0]

    keys = tuple(jnp.broadcast_to(word, counter[0].shape) for word in keys)
    return jax.lax.fori_loop(0, 5, block, (counter[0] + keys[0], counter[1] + keys[1], *keys))[:2]


def signs(key: Words, t: Words, shape: tuple[int, ...], tag: int = 0) -> Int8[Array, "..."]:
    """Independent uniform signs, a function of (key, t, tag) alone."""
    size = int(np.prod(shape))
    at_t = threefry((key[0], key[1]), (t[0], t[1]))
    blocks = jnp.arange(-(-size // 64), dtype=jnp.uint32)
    # compiled alone, two words of which not all bits are used keep XLA for CPUs busy for minutes, or without end
    spread = _threefry_in_a_loop if 32 < size < 64 else threefry
    words = jnp.stack(spread(at_t, (blocks, jnp.full_like(blocks, tag))), axis=-1).ravel()
    bits = words[:, None] >> jnp.arange(32, dtype=jnp.uint32)[None, :] & np.uint32(1)
    return (1 - 2 * bits.ravel()[:size].astype(jnp.int8)).reshape(shape)


def words_of(key: jax.Array) -> Words:
    """The two words that stand for a JAX key in a state."""
    words = jax.random.key_data(key)
    return words if words.shape == (2,) else jax.random.bits(key, (2,), jnp.uint32)


def as_key(key: Any) -> jax.Array:
    """A JAX key from a key, old or new, or from a seed."""
    if jnp.issubdtype(jnp.result_type(key), jax.dtypes.prng_key):
        return key
    if jnp.ndim(key) == 0 and jnp.issubdtype(jnp.result_type(key), jnp.integer):
        return jax.random.key(key)
    if jnp.shape(key) == (2,) and jnp.result_type(key) == jnp.uint32:
        return jax.random.wrap_key_data(jnp.asarray(key), impl="threefry2x32")
    raise ValueError(f"key must be a JAX key or an integer seed, not {key!r}")
