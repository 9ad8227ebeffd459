"""README.md stays true: what it draws adds up, and the commands that it names are there."""

from __future__ import annotations

import doctest
import re

import pytest
from typer.main import get_command

from tests.conftest import REPOSITORY
from worker.cli import app
from worker.core.parameters import Parameters
from worker.core.shingles import MULTIPLIER, finish
from worker.core.tokens import HEXADECIMAL_MIN, IDENTIFIER_MIN
from worker.core.unicode_table import UNICODE_VERSION

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
    """Every line of it, as it stands."""
    example = doctest.DocTestParser().get_doctest(README, {}, "README.md", "README.md", 0)
    result = doctest.DocTestRunner().run(example)
    assert (result.failed, len(example.examples) > 8) == (0, True)


def test_the_definition_names_the_codes_constants() -> None:
    """Multiplier, mix, scheme, table and defaults, in the words of the page."""
    page = README[README.index("## The fingerprint, as it is defined") : README.index("## Whose words anchor")]
    defaults = Parameters()
    assert f"M = {MULTIPLIER:X}" in page
    assert finish(1) == int("B456BCFC34C2CB2C", 16)
    for constant in ("FF51AFD7ED558CCD", "C4CEB9FE1A85EC53", f"`{defaults.scheme}`", f"Unicode {UNICODE_VERSION}"):
        assert constant in page
    for name in ("anchored_weight", "unanchored_weight", "shingles_min", "tokens_min"):
        assert re.search(rf"`{name}` \({getattr(defaults, name)}\)", page), name
    assert f"`shingle_widths` ({defaults.widths[0]})" in page
    assert f"{HEXADECIMAL_MIN} or more hexadecimal" in page
    assert f"{IDENTIFIER_MIN} or more characters" in page


@pytest.mark.parametrize(
    "section", ["The way of a document", "Use", "How a pair is found", "Figures", "Limits, plainly"]
)
def test_the_sections_that_a_reader_looks_for_are_there(section: str) -> None:
    """A new reader finds what it is, how it is used, how it works, how fast it is and what it cannot do."""
    assert f"\n## {section}\n" in README
