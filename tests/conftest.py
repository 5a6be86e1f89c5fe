"""Strict arithmetic for all tests: no silent promotion of types or ranks, float64 where a test asks for it."""

import contextlib
import ctypes
import gc
import importlib.metadata
import os
from pathlib import Path

# Read by JAX when it is imported: the programs that it compiles are kept,
# for the other workers, for commands that tests call, and for the next time.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

# Compiled with less care, programs of tests run as they do and are there three times sooner. A flag that a version of
# XLA does not know ends the process.
QUICKLY = (
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true --xla_cpu_use_fusion_emitters=false "
    "--xla_cpu_parallel_codegen_split_count=2"
)
os.environ.setdefault("XLA_FLAGS", QUICKLY if importlib.metadata.version("jaxlib").startswith("0.10.") else "")

import jax
import psutil
import pytest

MOST_RESIDENT, MORE = 1 << 30, 1 << 29  # bytes: before programs go for the first time, and again

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


resident = {"most": MOST_RESIDENT}


@pytest.fixture(autouse=True)
def _forget_programs():
    """Compiled programs take memory, and memory maps, of which a process may have 65,530: now and then they go. Loops
    that Numba has compiled stay, and what they take is not counted again.
    """
    yield
    if psutil.Process().memory_info().rss > resident["most"]:
        jax.clear_caches()
        gc.collect()
        with contextlib.suppress(OSError, AttributeError):  # of glibc, which keeps what it was given back
            ctypes.CDLL("libc.so.6").malloc_trim(0)
        resident["most"] = max(MOST_RESIDENT, psutil.Process().memory_info().rss + MORE)


@pytest.fixture
def as_users_have_it():
    """JAX as it is without these tests."""
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


@pytest.fixture
def relaxed():
    """Rank promotion, for formulas written out in a test."""
    with jax.numpy_rank_promotion("allow"):
        yield
