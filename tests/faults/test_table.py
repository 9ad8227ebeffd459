"""The fault table of tests/README.md: no row without a test, and no test without a row."""

from __future__ import annotations

import ast
import re
from itertools import takewhile
from pathlib import Path


def _table() -> set[int]:
    """Return the numbers in the table; one line may have several."""
    lines = (Path(__file__).parents[1] / "README.md").read_text().splitlines()
    begin = lines.index("| # | fault | outcome |") + 2
    firsts = (line.split("|")[1] for line in takewhile(str.strip, lines[begin:]))
    return {int(number) for first in firsts for number in re.findall(r"\d+", first)}


def _tests() -> dict[str, ast.FunctionDef]:
    files = sorted(Path(__file__).parent.glob("test_rows_*.py"))
    functions = [
        node
        for path in files
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef)
    ]
    return {function.name: function for function in functions if function.name.startswith("test_")}


def _rows(name: str) -> range:
    found = re.match(r"test_rows?_(\d\d)(?:_to_(\d\d))?_\w+", name)
    return range(int(found[1]), int(found[2] or found[1]) + 1) if found else range(0)


def test_every_row_has_a_test_and_every_test_names_a_row() -> None:
    """By its number in the table; and a test's first line says what goes wrong."""
    tests = _tests()
    assert {row for name in tests for row in _rows(name)} == _table()
    for name, function in tests.items():
        assert _rows(name) and ast.get_docstring(function), name


def test_every_file_of_rows_counts_as_faults() -> None:
    """`make test-faults` selects them by their mark."""
    for path in Path(__file__).parent.glob("test_rows_*.py"):
        assert "pytest.mark.faults" in path.read_text(), path.name
