"""How good a text is that was made of a page whose main content people have reviewed."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple


class Quality(NamedTuple):
    f1: float
    precision: float
    recall: float


def _quality(precision: float, recall: float) -> Quality:
    return Quality(2 * precision * recall / (precision + recall), precision, recall)


def reviewed_pages(corpora: Path, name: str) -> list[dict[str, Any]]:
    """The pages of a set: "benchmark", "readability" (`body`) or "strings" (`with`, `without`); none where absent."""
    path = corpora / "pages" / ("readability.jsonl.gz" if name == "readability" else "articles.jsonl.gz")
    if not path.exists():
        return []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [page for page in map(json.loads, lines) if page["set"] == name]


def labelled_pages(corpora: Path, name: str) -> tuple[dict[str, str], dict[int, list[tuple[str, str]]]]:
    """The HTML of a set's documents, and its pairs: 1 near-duplicates, 0 others."""
    documents = map(json.loads, (corpora / "docs.jsonl").open(encoding="utf-8"))
    pages = {row["doc_id"]: row["html"] for row in documents if row["set"] == name and "html" in row}
    pairs: dict[int, list[tuple[str, str]]] = {0: [], 1: []}
    for line in (corpora / "pairs.tsv").open(encoding="utf-8"):
        one, other, label, *_ = line.split("\t")
        if label in "01" and one in pages and other in pages:
            pairs[int(label)].append((one, other))
    return pages, pairs


def renamed_adverts(html: str) -> str:
    """A page of the set "adswap" whose advertisements have a class that tells nothing."""
    return re.sub(r'<div class="(ad|promo)"( id="[^"]*")?', '<div class="c1"', html)


def shares_within(fingerprints: dict[str, int], pairs: list[tuple[str, str]], k: int) -> float:
    """Which share of pairs is within k bits."""
    return mean((fingerprints[one] ^ fingerprints[other]).bit_count() <= k for one, other in pairs)


def bodies_quality(pages: Iterable[dict[str, Any]], extract: Callable[[str], str]) -> Quality:
    """Mean precision and recall of word 4-grams over pages, as article-extraction-benchmark counts them."""
    precisions, recalls = [], []
    for page in pages:
        true, found = _grams(page["body"]), _grams(extract(page["html"]))
        common = (true & found).total()
        if found:
            precisions.append(common / found.total())
        if true:
            recalls.append(common / true.total())
    return _quality(mean(precisions), mean(recalls))


def strings_quality(pages: Iterable[dict[str, Any]], extract: Callable[[str], str]) -> Quality:
    """Of all strings that must and must not be in the texts, as trafilatura's evaluation counts them."""
    right = wrong = missing = 0
    for page in pages:
        text = " ".join(extract(page["html"]).split())
        wanted = sum(" ".join(string.split()) in text for string in page["with"])
        right, missing = right + wanted, missing + len(page["with"]) - wanted
        wrong += sum(" ".join(string.split()) in text for string in page["without"])
    return _quality(right / (right + wrong), right / (right + missing))


def _grams(text: str) -> Counter[tuple[str, ...]]:
    words = re.findall(r"\w+", text)
    return Counter(tuple(words[k : k + 4]) for k in range(max(len(words) - 3, 1 if words else 0)))
