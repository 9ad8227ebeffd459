"""README.md stays true: what it draws adds up, and the commands that it names are there."""

from __future__ import annotations

import re

import pytest
from typer.main import get_command

from tests.conftest import REPOSITORY
from worker import Fingerprinter, hamming_distance
from worker.cli import app

README = (REPOSITORY / "README.md").read_text()


def test_the_drawn_pair_differs_where_the_drawing_says() -> None:
    """Three bits, in two of the four blocks."""
    a, b, marks = (
        re.search(rf"^    {name} +([01.x]{{16}}(?: [01.x]{{16}}){{3}})$", README, re.MULTILINE)[1]  # type: ignore[index]
        for name in ("a", "b", "differ")
    )
    assert marks == "".join(" " if x == " " else ".x"[x != y] for x, y in zip(a, b, strict=True))
    assert marks.count("x") == 3
    assert ["x" in block for block in marks.split()] == [False, True, False, True]


def test_every_command_in_the_readme_exists() -> None:
    """Those of the shell and those of make."""
    commands = set(get_command(app).commands)  # type: ignore[attr-defined]
    named = set(re.findall(r"(?:^ {4}|`)neardup ([a-z][a-z-]+)", README, re.MULTILINE))
    assert {"worker", "feed", "verdicts", "dedup"} <= named <= commands
    targets = set(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"make ([a-z-]+)[` ]", README)) <= targets | {"and"}


def test_the_library_example_holds() -> None:
    """Case and punctuation do not count."""
    sentences = re.findall(r'fingerprints\.one\("(.+)"\)', README)
    assert len(sentences) == 2
    fingerprinter = Fingerprinter()
    assert hamming_distance(*map(fingerprinter.one, sentences)) == 0


@pytest.mark.parametrize(
    "section", ["The way of a document", "Use", "How a pair is found", "Figures", "Limits, plainly"]
)
def test_the_sections_that_a_reader_looks_for_are_there(section: str) -> None:
    """A new reader finds what it is, how it is used, how it works, how fast it is and what it cannot do."""
    assert f"\n## {section}\n" in README
