"""Reviewed pages, where there are any: how near the main content is to what people marked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.pages.quality import (
    bodies_quality,
    labelled_pages,
    renamed_adverts,
    reviewed_pages,
    shares_within,
    strings_quality,
)
from worker.core.fingerprint import Fingerprinter
from worker.core.pages import extract_pages


def extract(html: str) -> str:
    return extract_pages([html]).text(0)


def test_bodies_of_articles(corpora: Path) -> None:
    """article-extraction-benchmark: F1 of word 4-grams at least .960 (measured .974)."""
    pages = reviewed_pages(corpora, "benchmark") or pytest.skip("no reviewed pages")
    assert bodies_quality(pages, extract).f1 >= 0.960


def test_bodies_of_documentation_and_portals(corpora: Path) -> None:
    """mozilla/readability: F1 of word 4-grams at least .960 (measured .976); a recall of .7 but on one page."""
    pages = reviewed_pages(corpora, "readability") or pytest.skip("no reviewed pages")
    assert bodies_quality(pages, extract).f1 >= 0.960
    assert sum(bodies_quality([page], extract).recall < 0.7 for page in pages) <= 1


def test_strings_of_pages(corpora: Path) -> None:
    """Strings of trafilatura's evaluation: F1 at least .930 (measured .943)."""
    pages = reviewed_pages(corpora, "strings") or pytest.skip("no reviewed pages")
    assert strings_quality(pages, extract).f1 >= 0.930


def test_adverts_without_a_telling_class_go(corpora: Path) -> None:
    """Articles whose advertisements changed are within 3 bits, whatever class these have: .70 at least (.99)."""
    pages, pairs = labelled_pages(corpora, "adswap")
    packed = extract_pages([renamed_adverts(html) for html in pages.values()])
    values = map(int, Fingerprinter().packed(packed.texts).fingerprints)
    found = dict(zip(pages, values, strict=True))
    assert shares_within(found, pairs[1], 3) >= 0.70
    assert shares_within(found, pairs[0], 6) == 0
