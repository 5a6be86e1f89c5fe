"""Numbers of the house, by folder: `python tests/house.py` prints them, `test_house.py` keeps them within bounds.

Modules and lines; the longest file and function, and those beyond the budget; functions of more than seven parameters;
imports inside functions; codes that are compared; `Any` in signatures.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
MOST_LINES, MOST_STATEMENTS, MANY_PARAMETERS = 350, 40, 7

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(tree: ast.AST) -> list[Function]:
    return [node for node in ast.walk(tree) if isinstance(node, Function)]


def body_lines(function: Function) -> int:
    """Lines of a function, from its first statement on: a signature and a docstring may take what they need."""
    documented = ast.get_docstring(function) is not None
    body = function.body[1:] if documented else function.body
    return (function.end_lineno or 0) - body[0].lineno + 1 if body else 0


def parameters(function: Function) -> int:
    given = function.args
    named = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    bound = bool(named) and named[0].arg in ("self", "cls")
    return len(named) + bool(given.vararg) + bool(given.kwarg) - bound


def anys(function: Function) -> int:
    """How often `Any` stands in a signature."""
    given = function.args
    arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    notes = [argument.annotation for argument in arguments if argument is not None] + [function.returns]
    names = (node for note in notes if note is not None for node in ast.walk(note))
    return sum(isinstance(node, ast.Name) and node.id == "Any" for node in names)


def codes(tree: ast.AST) -> int:
    """Comparisons with a constant by name, `x == LSTM` or `x == Cell.LSTM`."""
    found = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            for side in (node.left, *node.comparators):
                name = side.attr if isinstance(side, ast.Attribute) else getattr(side, "id", "")
                found += name.isupper() and name not in ("ZERO", "ONE", "HALF")
    return found


def numbers(file: Path) -> Counter[str]:
    text = file.read_text()
    tree = ast.parse(text)
    every = functions(tree)
    return Counter(
        {
            "modules": 1,
            "lines": text.count("\n"),
            "longest file": text.count("\n"),
            "longest function": max(map(body_lines, every), default=0),
            "over 7 parameters": sum(parameters(function) > MANY_PARAMETERS for function in every),
            "inner imports": sum(
                isinstance(node, (ast.Import, ast.ImportFrom)) for function in every for node in ast.walk(function)
            ),
            "codes compared": codes(tree),
            "Any": sum(map(anys, every)),
        }
    )


def files(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))


def by_folder(*folders: str) -> dict[str, Counter[str]]:
    """The numbers of all files of each folder: sums, and the largest of what is longest."""
    found: dict[str, Counter[str]] = {}
    for file in files(*folders):
        total, here = found.setdefault(str(file.parent.relative_to(ROOT)), Counter()), numbers(file)
        longest = {name: max(total[name], here[name]) for name in here if name.startswith("longest")}
        total.update(here)
        total.update({name: value - total[name] for name, value in longest.items()})
    return found


def main() -> None:
    table = by_folder("nobacktrack", "experiments", "benchmarks", "tests")
    names = list(next(iter(table.values())))
    sys.stdout.write(f"{'':42}" + "".join(f"{name:>19}" for name in names) + "\n")
    for folder, found in table.items():
        sys.stdout.write(f"{folder:42}" + "".join(f"{found[name]:>19}" for name in names) + "\n")


if __name__ == "__main__":
    main()
