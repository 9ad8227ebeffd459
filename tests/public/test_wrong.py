"""What is wrong is refused at once, with the value and what it must be: nothing is fingerprinted that nobody meant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import neardup
import numpy as np
import pytest

library: Any = neardup  # mypy would name these
FINGERPRINTS = library.Fingerprinter()
WRONG: list[tuple[Callable[..., Any], str]] = [
    (lambda: FINGERPRINTS.one(None), "a text is a str, got NoneType None: decode it, or leave it out"),
    (lambda: FINGERPRINTS.one(b"x"), "a text is a str, got bytes b'x'"),
    (lambda: FINGERPRINTS.many("abc"), "wanted a list of texts, got 'abc': `one` takes one"),
    (lambda: FINGERPRINTS.many(None), "wanted a list of texts, got None"),
    (lambda: FINGERPRINTS.many(["a", 3]), "a text is a str, got int 3"),
    (lambda: library.hamming_distance(-1, 0), "a fingerprint is 0 or more, got -1 and 0"),
    (lambda: library.CrawlFiles("crawl.warc"), "wanted a list of files, got 'crawl.warc'"),
    (lambda: library.PermutedIndex(3).query(7), "fingerprints are one column of uint64, got 7"),
    (lambda: list(library.all_pairs(np.array([1.5]), 3)), "fingerprints are one column of uint64, got float64"),
    (lambda: library.Deduplicator({"bits": 64}), r"wanted neardup.Parameters\(…\), got {'bits': 64}"),
    (lambda: library.Deduplicator(search="exact"), r"wanted neardup.SearchRules\(…\), got 'exact'"),
    (lambda: library.Deduplicator(retention=9), r"wanted neardup.Retention\(…\), got 9"),
    (lambda: library.Deduplicator(recrawls="x"), "recrawls must be one of compare, replace, got 'x'"),
    (
        lambda: library.Deduplicator(text_characters_max=0),
        "text_characters_max must be .* 1 or more, got 0",
    ),
    (lambda: library.Retention(expire_after_ms=-1), "expire_after_ms must be 0 .* or more, got -1"),
    (lambda: library.Retention(documents_max=-1), "documents_max must be 0 .* or more, got -1"),
    (lambda: library.Retention(expire_from="middle"), "expire_from must be 'first' or 'last', got 'middle'"),
    (lambda: library.Deduplicator(threads="2"), "threads must be a whole number, 1 or more, got '2'"),
]


@pytest.mark.parametrize(("call", "text"), WRONG)
def test_what_is_wrong_is_named(call: Callable[..., Any], text: str) -> None:
    """By TypeError or ValueError, as Python's own functions do."""
    with pytest.raises((TypeError, ValueError), match=text):
        call()
