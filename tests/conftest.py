"""Strict arithmetic for all tests: no silent promotion of types or ranks, float64 where a test asks for it."""

import jax

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
