"""The examples of the README and of the pages run as printed."""

import doctest
from pathlib import Path

import jax
import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.fixture(autouse=True)
def as_users_have_it():
    """Without the strict settings of the other tests."""
    strict = {
        "jax_enable_x64": False,
        "jax_numpy_dtype_promotion": "standard",
        "jax_numpy_rank_promotion": "allow",
    }
    before = {name: getattr(jax.config, name) for name in strict}
    for name, value in strict.items():
        jax.config.update(name, value)
    yield
    for name, value in before.items():
        jax.config.update(name, value)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_examples_run_as_printed(page):
    options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    result = doctest.testfile(str(page), module_relative=False, optionflags=options, encoding="utf-8")
    assert result.failed == 0
    if page.name == "README.md":
        assert result.attempted > 0
