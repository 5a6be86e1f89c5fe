"""Time and randomness by counter."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nobacktrack import counter


# Known answers published with the Random123 library, threefry2x32 with 20 rounds.
@pytest.mark.parametrize(
    ("count", "key", "wanted"),
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
        ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_threefry_gives_the_published_words(count, key, wanted):
    words = counter.threefry(*[(jnp.uint32(a), jnp.uint32(b)) for a, b in (key, count)])
    assert tuple(map(int, words)) == wanted


@pytest.mark.parametrize(("start", "steps"), [(0, 1), (2**32 - 1, 1), (2**31, 2**31), (2**40 + 2**32 - 2, 5)])
def test_time_is_64_bits_wide(start, steps):
    t = jnp.array([start >> 32, start & 0xFFFFFFFF], jnp.uint32)
    assert counter.count(counter.later(t, steps)) == start + steps
    assert float(counter.ordinal(t, jnp.float64)) == start + 1


@pytest.mark.parametrize("size", [1, 31, 32, 33, 46, 63, 64, 65])
def test_fewer_signs_are_the_first_of_more(size):
    key, t = jnp.array([1, 2], jnp.uint32), jnp.array([0, 5], jnp.uint32)
    np.testing.assert_array_equal(counter.signs(key, t, (size,)), counter.signs(key, t, (200,))[:size])


def test_signs_are_a_function_of_key_time_and_tag():
    key, other = jnp.array([1, 2], jnp.uint32), jnp.array([1, 3], jnp.uint32)
    t, later = jnp.array([0, 5], jnp.uint32), jnp.array([1, 5], jnp.uint32)
    base = counter.signs(key, t, (2, 100))
    np.testing.assert_array_equal(base, counter.signs(key, t, (2, 100)))
    for changed in (
        counter.signs(other, t, (2, 100)),
        counter.signs(key, later, (2, 100)),
        counter.signs(key, t, (2, 100), tag=1),
    ):
        assert not np.array_equal(base, changed)
    np.testing.assert_array_equal(base.ravel()[:64], counter.signs(key, t, (64,)))


def test_signs_are_fair_and_independent():
    key = jnp.array([9, 9], jnp.uint32)
    times = jnp.stack([jnp.zeros(4000, jnp.uint32), jnp.arange(4000, dtype=jnp.uint32)], axis=1)
    signs = np.asarray(jax.vmap(lambda t: counter.signs(key, t, (33,)))(times), float)
    assert set(np.unique(signs)) == {-1.0, 1.0}
    assert np.abs(signs.mean(axis=0)).max() < 5 / np.sqrt(4000)
    correlations = signs.T @ signs / 4000 - np.eye(33)
    assert np.abs(correlations).max() < 5 / np.sqrt(4000)
    assert np.abs((signs[1:] * signs[:-1]).mean(axis=0)).max() < 5 / np.sqrt(4000)


@pytest.mark.parametrize(
    "key", [3, np.int64(3), jnp.int32(3), jax.random.key(3), jax.random.PRNGKey(3), jax.random.key(3, impl="rbg")]
)
def test_any_key_becomes_two_words(key):
    words = counter.words_of(counter.as_key(key))
    assert words.shape == (2,)
    assert words.dtype == jnp.uint32
