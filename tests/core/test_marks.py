"""The marks of pages, and which two of them are kept apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.core.kernels.marks import page_marks
from worker.core.marks import are_apart, page_mark
from worker.core.pages import title_words
from worker.log.texts import Texts

PARTS = st.sampled_from(
    ["http", "HTTPS", "git+ssh", "urn", "", ":", "://", "//", "a.example", "A.Example", "é.example",
     "user@", "user:p@ss@", ":8080", "/", "?", "#", "\\", "@", "x", "[::1]", "\ud800", "\0"]
)  # fmt: skip
URLS = st.lists(PARTS, max_size=9).map("".join) | st.text(max_size=20)
ROWS = st.lists(st.tuples(URLS, st.integers(0, 2**31 - 1), st.integers(0, 2**32 - 1)), max_size=8)


@given(ROWS)
def test_the_kernel_makes_the_marks_of_the_definition(rows: list[tuple[str, int, int]]) -> None:
    """Of any URLs, titles and counts, those without a host and without a title among them."""
    urls, titles, features = zip(*rows, strict=True) if rows else ((), (), ())
    texts = Texts.of([url.encode("utf-8", "surrogatepass") for url in urls])
    columns = np.array(titles, np.uint32), np.array(features, np.uint32)
    marks = page_marks(texts.data, texts.ends, *columns)
    assert marks.tolist() == [page_mark(*row) for row in rows]


def mark(url: str, title: str = "A title", features: int = 100) -> int:
    return page_mark(url, title_words(title), features)


PAGE = mark("https://a.example/1")
OTHER = "Another title"
# What is compared with PAGE, at a similarity; whether the two are kept apart.
PAIRS = {
    "alike and long": (mark("https://a.example/2", OTHER), 900, False),
    "less alike": (mark("https://a.example/2", OTHER), 899, True),
    "shorter": (mark("https://a.example/2", OTHER, 99), 1_000, True),
    "another host": (mark("https://b.example/2", OTHER, 9), 600, False),
    "another port": (mark("https://a.example:81/2", OTHER, 9), 600, False),
    "a host in capitals": (mark("https://A.EXAMPLE/2", OTHER, 9), 600, True),
    "a user's name": (mark("https://me@a.example/2", OTHER, 9), 600, True),
    "a path in capitals": (mark("https://a.example/2?Q", OTHER, 9), 600, True),
    "the same URL, another title": (mark("https://a.example/1", OTHER, 9), 600, False),
    "another fragment, another title": (mark("https://a.example/1#x", OTHER, 9), 600, False),
    "another scheme, another title": (mark("http://a.example/1", OTHER, 9), 600, False),
    "the same title": (mark("https://a.example/2", features=9), 600, False),
    "a title in capitals": (mark("https://a.example/2", " a  TITLE", 9), 600, False),
    "a title with a word more": (mark("https://a.example/2", "(3) A title: print", 9), 600, False),
    "a title of which half is other": (mark("https://a.example/2", "A ferry", 9), 600, True),
    "no title": (mark("https://a.example/2", " ", 9), 600, False),
    "no URL": (mark("", OTHER, 9), 600, False),
    "no host": (mark("file:///2", OTHER, 9), 600, False),
}


@pytest.mark.parametrize("name", PAIRS)
def test_two_pages_of_a_host_are_kept_apart_by_url_and_title(name: str) -> None:
    """Only if both differ, and if the text is not as alike and as long as that of a copy."""
    other, similarity, wanted = PAIRS[name]
    assert are_apart(PAGE, other, similarity) is are_apart(other, PAGE, similarity) is wanted
