"""The house stays in order: budgets of files and functions, no new `Any` upstairs, pages that say what is so."""

import ast
import re
from pathlib import Path

import house
import pytest

import nobacktrack as nbt
from nobacktrack.readers import names

# `Any` in the signatures of the upper floors, as it stands: it may become less, not more.
MOST_ANYS = {
    "nobacktrack": 165,
    "nobacktrack/systems": 57,
    "nobacktrack/estimators": 79,
    "nobacktrack/updates": 20,
    "nobacktrack/influence": 45,
    "nobacktrack/engines": 12,
}


@pytest.mark.parametrize("file", list(house.files("nobacktrack", "experiments", "benchmarks", "tests")), ids=str)
def test_files_and_functions_are_of_one_idea(file):
    text = file.read_text()
    assert text.count("\n") <= house.MOST_LINES
    long = {
        function.name: house.body_lines(function)
        for function in house.functions(ast.parse(text))
        if house.body_lines(function) > house.MOST_STATEMENTS
    }
    assert not long


def test_a_function_that_is_too_long_is_seen():
    (function,) = house.functions(ast.parse("def f():\n    '''Says.'''\n" + "    x = 1\n" * 41))
    assert house.body_lines(function) == 41


@pytest.mark.parametrize("folder", MOST_ANYS)
def test_the_upper_floors_get_no_new_any(folder):
    assert house.by_folder("nobacktrack")[folder]["Any"] <= MOST_ANYS[folder]


def test_every_public_name_is_there():
    public: list[str] = vars(nbt)["__all__"]
    assert len(public) == len(set(public)) > 60
    for name in public:
        assert getattr(nbt, name) is not None
    with pytest.raises(AttributeError, match="No nobacktrack attribute Nonsense"):
        nbt.Nonsense  # noqa: B018 # pyright: ignore[reportAttributeAccessIssue]


def test_names_of_estimators_are_those_of_the_page():
    """docs/diagnostics.md lists what commands take, from the table that they take it from."""
    page = " ".join((house.ROOT / "docs" / "diagnostics.md").read_text().split())
    for name, kind in names.KINDS.items():
        assert f"`{kind.usage(name)}`" in page, name
        assert hasattr(nbt, kind.cls)
    for cell in names.Cell:
        assert f"`{cell}`" in page


def test_prose_is_wrapped():
    """Lines of prose end by column 120; tables, figures and code may not."""
    for page in (house.ROOT / "README.md", house.ROOT / "CONTRIBUTING.md", *(house.ROOT / "docs").glob("*.md")):
        inside, long = False, []
        for number, line in enumerate(page.read_text().splitlines(), 1):
            inside ^= line.startswith("```")
            free = inside or line.startswith(("|", "![", "    ")) or re.search(r"\S{100,}", line)
            if len(line) > 120 and not free:
                long.append(number)
        assert not long, f"{page.name}: lines {long}"


def test_links_between_pages_lead_somewhere():
    for page in (house.ROOT / "README.md", *(house.ROOT / "docs").glob("*.md")):
        for link in re.findall(r"\]\(([^)#]+)", page.read_text()):
            if not link.startswith("http"):
                assert (page.parent / Path(link)).exists(), f"{page.name}: {link}"
