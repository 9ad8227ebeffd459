"""The house rules that a machine can check: nothing grows until nobody can hold it in the head."""

from __future__ import annotations

import ast

from tests.conftest import REPOSITORY

FILE_LINES_MAX = 1_150
FUNCTION_LINES_MAX = 115


def test_files_and_functions_stay_short() -> None:
    """No file and no function of the product is longer than its bound."""
    too_long = {}
    for package in ("worker", "schemas"):
        for path in (REPOSITORY / package).rglob("*.py"):
            source = path.read_text(encoding="utf-8")
            name = path.relative_to(REPOSITORY).as_posix()
            lines = len(source.splitlines())
            if lines > FILE_LINES_MAX:
                too_long[name] = lines
            for node in ast.walk(ast.parse(source)):
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    assert node.end_lineno is not None
                    function_lines = node.end_lineno - node.lineno + 1
                    if function_lines > FUNCTION_LINES_MAX:
                        too_long[f"{name}:{node.name}"] = function_lines
    assert too_long == {}
