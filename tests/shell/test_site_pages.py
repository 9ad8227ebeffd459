"""
Pages of one host that show one text are told apart. That each is found again, however many show it,
is tested in `tests/log/test_thin.py`.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from neardup import ApartReason, Deduplicator, KeptApart

from tests.faults.crawl import random_words

NOTICE = (
    "You need to enable JavaScript to run this app, because its pages are made in your browser."
)


def site_page(name: str, title: str, text: str, site: str = "https://example.org") -> Any:
    """A page with a URL of its own."""
    html = f"<title>{title}</title><main><p>{text}</p></main>"
    return {"doc_id": f"{name}-{title}-{site}", "url": f"{site}/{name}", "html": html}


@pytest.mark.parametrize(
    ("text", "are_apart"),
    [
        ("Please wait.", True),
        (NOTICE, True),
        (" ".join(random_words(random.Random(3), 130)), False),
    ],
    ids=["short", "thin", "long"],
)
def test_pages_of_one_host_that_show_the_same_are_told_apart_by_their_titles(
    text: str, are_apart: bool
) -> None:
    """
    Unless it has a hundred words. The page itself under another URL is a copy, and so are another
    title under the same URL, and a page of another host.
    """
    pages = [
        site_page("1", "Ferries", text),
        site_page("2", "Harbours", text),
        site_page("2?from=mail", "Harbours", text),
        site_page("1", "Boats", text),
        site_page("1", "Lamps", text, "https://mirror.example"),
        {"doc_id": "text", "url": "https://example.org/4", "text": text},
    ]
    of = [verdict.duplicate_of for verdict in Deduplicator().add_many(pages)]
    first, second = (page["doc_id"] for page in pages[:2])
    wanted = [None, None, second, first, first, first] if are_apart else [None, *[first] * 5]
    assert [match and match.original.doc_id for match in of] == wanted


@pytest.mark.parametrize("text", ["Please wait.", NOTICE], ids=["short", "thin"])
def test_a_verdict_says_that_another_page_of_the_host_shows_the_same(text: str) -> None:
    """
    A question says it, too. The page itself, crawled again, has an original, and needs no reason.
    """
    pages = [site_page("1", "Ferries", text), site_page("2", "Harbours", text)]
    found = Deduplicator()
    first = found.add(pages[0])
    apart = KeptApart(str(pages[0]["doc_id"]), ApartReason.OTHER_PAGE, 1.0)
    asked = found.ask(pages[1])
    second = found.add(pages[1])
    again = found.add(pages[1])
    assert [first.kept_apart, asked.kept_apart, second.kept_apart] == [None, apart, apart]
    assert (again.reason, again.kept_apart) == ("redelivered", None)
