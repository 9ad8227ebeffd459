"""Texts and the truth about pairs of them: the labelled corpus, and a crawl made by `sample_crawl`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import orjson

from worker.core.document import BodyKind, Document
from worker.core.extract import Extracted, PageLimits, extract
from worker.core.language import detect
from worker.shell.crawl_files import CrawlFiles
from worker.shell.messages import decode_document
from worker.shell.sample_crawl import truth_path, write_sample_crawl

__all__ = ["Sample", "Texts", "corpus_samples", "crawl_samples"]

_LIMITS = PageLimits()


@dataclass
class Texts:
    """Texts with the languages that their labels name."""

    texts: list[str] = field(default_factory=list)
    labelled: list[str | None] = field(default_factory=list)

    @cached_property
    def elected(self) -> list[str | None]:
        """The language of each text, elected by its function words."""
        return [detect(text) for text in self.texts]


@dataclass
class Sample:
    """Pairs of texts that are near-duplicates, and pairs that are not."""

    name: str
    of: Texts
    same: list[tuple[int, int]] = field(default_factory=list)
    other: list[tuple[int, int]] = field(default_factory=list)


def corpus_samples(folder: Path) -> Iterator[Sample]:
    """
    The labelled corpus in two parts: versions of documents, and pages with the same article and other advertisements.

    Pairs are the same with a Jaccard similarity of word 3-shingles of 0.8 or more, others below 0.5, else not scored.
    """
    rows = {row["doc_id"]: row for row in map(orjson.loads, (folder / "docs.jsonl").read_bytes().splitlines())}
    pairs = [line.split("\t") for line in (folder / "pairs.tsv").read_text(encoding="utf-8").splitlines()]
    for name, chosen in (("documents in versions", False), ("other advertisements", True)):
        sample = Sample(name, Texts())
        numbers: dict[str, int] = {}
        for left, right, label, _, kind in pairs:
            if kind.startswith("adswap") != chosen or label == "-1":
                continue
            for doc_id in (left, right):
                if doc_id not in numbers:
                    numbers[doc_id] = len(sample.of.texts)
                    sample.of.texts.append(_text_of_row(rows[doc_id]))
                    sample.of.labelled.append(rows[doc_id].get("lang"))
            (sample.same if label == "1" else sample.other).append((numbers[left], numbers[right]))
        yield sample


def crawl_samples(documents: int, seed: int) -> Iterator[Sample]:
    """
    A generated crawl, one sample a relation: each copy with its original; others are originals of one language.

    The others are the same in each sample: up to 300,000 pairs of unrelated articles of one language.
    """
    of, truth = _crawl(documents, seed)
    first: dict[str, int] = {}
    copies: dict[str, list[tuple[int, int]]] = {}
    for number, row in enumerate(truth):
        if row["relation"] in ("short", "damaged"):
            continue
        original = first.setdefault(row["group"], number)
        if original != number:
            copies.setdefault(row["relation"], []).append((original, number))
    others = _pairs_of_one_language(sorted(first.values()), of.labelled, 300_000, seed)
    for relation in sorted(copies):
        yield Sample(f"crawl: {relation}", of, copies[relation], others)


def _crawl(documents: int, seed: int) -> tuple[Texts, list[dict[str, str]]]:
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "crawl.warc.gz"
        write_sample_crawl(archive, documents, seed)
        truth = {row["doc_id"]: row for row in map(orjson.loads, truth_path(archive).read_bytes().splitlines())}
        of, rows = Texts(), []
        for record in CrawlFiles([str(archive)]):
            document = decode_document(record.key, record.value)
            row = truth.get(document.doc_id) if isinstance(document, Document) else None
            if isinstance(document, Document) and row is not None and row["expected"] == "verdict":
                of.texts.append(_text(document))
                of.labelled.append(row["language"])
                rows.append(row)
    return of, rows


def _pairs_of_one_language(
    numbers: Sequence[int], languages: Sequence[str | None], pairs_max: int, seed: int
) -> list[tuple[int, int]]:
    generator = np.random.default_rng(seed)
    found: list[tuple[int, int]] = []
    spoken = sorted({language for language in languages if language is not None})
    for language in spoken:
        mine = np.array([number for number in numbers if languages[number] == language])
        drawn = generator.integers(0, max(1, len(mine)), (pairs_max // len(spoken), 2))
        found.extend((int(mine[a]), int(mine[b])) for a, b in drawn if a != b)
    return found


def _text_of_row(row: dict[str, str]) -> str:
    if "text" in row:
        return row["text"]
    return _text(Document(row["doc_id"], row["url"], 0, BodyKind.HTML, row["html"]))


def _text(document: Document) -> str:
    found = extract(document, _LIMITS)
    return found.text if isinstance(found, Extracted) else ""
