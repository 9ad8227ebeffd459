"""
Links lead somewhere: each relative link of a page names a file that is here and a heading that the
file has, and a page that another page names can be clicked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml

from tests.conftest import REPOSITORY, output_of

# The templates become part of an issue or a pull request, where a relative link leads nowhere.
PAGES = [
    name
    for name in output_of("git", "ls-files", "*.md", cwd=REPOSITORY).splitlines()
    if "TEMPLATE" not in name
]
LINK = re.compile(r"(?s)\[(?:`[^`]*`|[^\]`])*\]\(([^)\s]*)\)")
CODE = re.compile(r"(?m)^(?: {4}|\t).*$")
NAMED_PAGE = re.compile(r"`((?:[\w.-]+/)+[\w-]+\.md)`")
# Where the names of a page begin: at its folder, at the top, or at the package.
BASES = ("", "worker")


def _slug(heading: str) -> str:
    """
    Return the anchor that GitHub gives a heading.

    >>> _slug("A wrong merge: how do I undo it?")
    'a-wrong-merge-how-do-i-undo-it'
    """
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def _text(page: str) -> str:
    """Return a page without its blocks of code."""
    return CODE.sub("", page)


@cache
def _anchors(path: Path) -> frozenset[str]:
    headings = re.findall(r"(?m)^#{1,6} (.+)$", _text(path.read_text("utf-8")))
    return frozenset(map(_slug, headings))


def _broken(text: str, folder: Path, own: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield the links of a page in this folder that lead nowhere; `own` are the page's anchors."""
    for target in LINK.findall(_text(text)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        path = folder / name
        if not path.exists():
            yield f"no file: {target}"
        elif anchor and anchor not in (_anchors(path) if name else own):
            yield f"no heading: {target}"


@pytest.mark.parametrize("page", PAGES)
def test_each_link_leads_to_a_file_and_a_heading(page: str) -> None:
    """Also from one heading of a page to another."""
    path = REPOSITORY / page
    assert list(_broken(path.read_text("utf-8"), path.parent, _anchors(path))) == []


@pytest.mark.parametrize("page", PAGES)
def test_a_page_that_is_named_can_be_clicked(page: str) -> None:
    """Outside of links and blocks, no page stands in backticks alone."""
    path = REPOSITORY / page
    prose = LINK.sub("", _text(path.read_text("utf-8")))
    plain = [
        name
        for name in NAMED_PAGE.findall(prose)
        if any(
            (base / name).exists() and (base / name) != path
            for base in (path.parent, *(REPOSITORY / base for base in BASES))
        )
    ]
    assert plain == []


def test_the_link_of_each_alert_leads_to_a_heading() -> None:
    """They begin at the top of the repository."""
    rules = yaml.safe_load((REPOSITORY / "deploy" / "prometheus" / "alerts.yml").read_text())
    links = [rule["annotations"]["runbook_url"] for rule in rules["groups"][0]["rules"]]
    assert list(_broken("".join(f"[a]({link})" for link in links), REPOSITORY)) == []


def test_a_link_that_leads_nowhere_is_noticed() -> None:
    """A file or a heading that is gone, also where the text breaks over two lines."""
    text = (
        "[a](gone.md), [`b`\nc](README.md#gone), [d](#gone), [e](#here), [f](https://a.example)\n"
    )
    assert list(_broken(text + "\n    [g](code)", REPOSITORY, frozenset({"here"}))) == [
        "no file: gone.md",
        "no heading: README.md#gone",
        "no heading: #gone",
    ]
