"""The examples of the README and of the pages run as printed."""

import doctest
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


pytestmark = pytest.mark.usefixtures("as_users_have_it")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_run_as_printed(page):
    options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    result = doctest.testfile(str(page), module_relative=False, optionflags=options, encoding="utf-8")
    assert result.failed == 0
    if page.name == "README.md":
        assert result.attempted > 0
