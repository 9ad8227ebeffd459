"""
The house rules that a machine can check: files and functions stay short, a class name has one
meaning, and a file that is named in text exists.

Today's exceptions are a table below, which may only shrink: an exception that is no longer needed,
or that allows more than its file still takes, fails its test until somebody removes or lowers it.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.conftest import REPOSITORY

FILE_LINES_MAX = 800
FUNCTION_LINES_MAX = 70

# Lines of a file that is too long, rounded up to the next hundred: the slack is for explanation.
LONG_FILES: dict[str, int] = {}

PRODUCT = ("schemas", "worker")
FOLDERS = (".github", "deploy", "schemas", "tests", "worker")

# Files that text may name although they are not here: what a user may have in a folder of theirs,
# and a placeholder.
FILES_OF_USERS = {"worker.py", "schemas.py", "NAME.md"}
FILE_NAME = re.compile(r"(?<![\w/.{}*<>$-])(?:[\w.-]+/)*[\w-]+\.(?:py|md)(?![\w*{/])")


def _files(suffix: str, folders: tuple[str, ...] = FOLDERS) -> Iterator[tuple[str, Path]]:
    """Yield each of the repository's files of this suffix in these folders, by its name."""
    for folder in folders:
        for path in sorted((REPOSITORY / folder).rglob(f"*{suffix}")):
            yield path.relative_to(REPOSITORY).as_posix(), path


def _functions(source: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node


def _misfits(
    lengths: Mapping[str, int], exceptions: Mapping[str, int], bound: int, step: int
) -> dict[str, str]:
    """
    Return what is wrong with these lengths, by name, each with its remedy.

    Args:
        lengths: lines, by name.
        exceptions: lines allowed to a name beyond the bound, a multiple of `step`.
    """
    misfits = {}
    for name, lines in lengths.items():
        allowed = exceptions.get(name)
        if allowed is None:
            if lines > bound:
                misfits[name] = f"{lines} lines, at most {bound}: divide it"
        elif lines <= bound:
            misfits[name] = f"{lines} lines are within {bound}: remove its exception"
        elif lines > allowed:
            misfits[name] = f"{lines} lines, its exception allows {allowed}: divide it"
        elif lines <= allowed - step:
            misfits[name] = f"{lines} lines, its exception allows {allowed}: lower it"
    for name in exceptions.keys() - lengths.keys():
        misfits[name] = "it is gone: remove its exception"
    return misfits


def test_files_stay_short() -> None:
    """No file of code is longer than the bound, those in a table that shrinks excepted."""
    lengths = {name: len(path.read_text("utf-8").splitlines()) for name, path in _files(".py")}
    assert _misfits(lengths, LONG_FILES, FILE_LINES_MAX, step=100) == {}


def test_functions_stay_short() -> None:
    """No function is longer than the bound."""
    lengths: dict[str, int] = defaultdict(int)
    for name, path in _files(".py"):
        for function in _functions(path.read_text("utf-8")):
            assert function.end_lineno is not None
            key = f"{name}:{function.name}"
            lengths[key] = max(lengths[key], function.end_lineno - function.lineno + 1)
    assert _misfits(lengths, {}, FUNCTION_LINES_MAX, step=10) == {}


def test_an_exception_is_removed_or_lowered_as_its_file_shrinks() -> None:
    """An exception that is too small, too large, not needed, or of nothing is told of by name."""
    lengths = {"right": 820, "longer": 901, "shrunk": 900, "short": 800, "new": 801, "good": 1}
    exceptions = {"right": 900, "longer": 900, "shrunk": 1_000, "short": 900, "gone": 900}
    remedies = {
        name: misfit.rpartition(": ")[2]
        for name, misfit in _misfits(lengths, exceptions, 800, step=100).items()
    }
    assert remedies == {
        "longer": "divide it",
        "shrunk": "lower it",
        "short": "remove its exception",
        "new": "divide it",
        "gone": "remove its exception",
    }


def test_a_class_name_has_one_meaning() -> None:
    """No two classes of the product have one name."""
    places: dict[str, list[str]] = defaultdict(list)
    for name, path in _files(".py", PRODUCT):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(name)
    shared = {name: files for name, files in places.items() if len(files) > 1}
    assert shared == {}, "give each class a name of its own"


def _named_in(path: Path) -> set[str]:
    """Return the .py and .md files that are named anywhere in a file, also in its code."""
    return set(FILE_NAME.findall(path.read_text("utf-8")))


def _prose(name: str, path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a page, or of a module's comments and docstrings, with their numbers."""
    source = path.read_text("utf-8")
    if name.endswith(".md"):
        # Where a link leads is checked in test_links.py.
        yield from enumerate(re.sub(r"\]\([^)\s]*\)", "]", source).splitlines(), 1)
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            docstring = ast.get_docstring(node, clean=False)
            if docstring is not None:
                yield from enumerate(docstring.splitlines(), node.body[0].lineno)


def test_a_file_that_is_named_in_text_exists() -> None:
    """Each .py and .md file in pages, docstrings and comments is a file here, by its path's end."""
    files = [*_files(".py"), *_files(".md")]
    files += [(path.name, path) for path in REPOSITORY.glob("*.md")]
    ends = set(FILES_OF_USERS)
    for name, _ in files:
        parts = name.split("/")
        ends.update("/".join(parts[start:]) for start in range(len(parts)))
    missing = [
        f"{name}:{line}: {named}"
        for name, path in files
        # Telling strings from code is slow: a file is taken apart only if it has such a name at all.
        if _named_in(path) - ends
        for line, text in _prose(name, path)
        for named in FILE_NAME.findall(text)
        if named not in ends
    ]
    assert missing == []


NO_VERB = re.compile(r"(?:The same|Whether|What|Who\w*|How|Which)\b")


def test_a_docstring_says_what_a_function_does() -> None:
    """It begins with a verb, not with a question or with a word about its neighbour."""
    vague = [
        f"{name}:{function.lineno}: {function.name}"
        for name, path in _files(".py", PRODUCT)
        for function in _functions(path.read_text("utf-8"))
        if NO_VERB.match(ast.get_docstring(function) or "")
        and not any("property" in ast.unparse(mark) for mark in function.decorator_list)
    ]
    assert vague == []


# Tests that compare processor times. They fail by chance on a busy machine: count work instead
# (bytes, steps, calls), and keep times in benchmarks. This list may only become shorter.
TIMED = {
    "tests/core/test_compare.py",
    "tests/core/test_hash_table.py",
    "tests/shell/test_archives_limits.py",
    "tests/shell/test_prepare_limits.py",
}


def test_no_further_test_asserts_that_something_is_fast() -> None:
    """Only benchmarks and checks of an image measure; deadlines of minutes use `monotonic`."""
    measured = {
        name
        for name, path in _files(".py", ("tests",))
        if re.search(r"\b(process_time|perf_counter|thread_time)\(", path.read_text())
        and not name.startswith("tests/benchmarks/")
    }
    assert measured == TIMED
