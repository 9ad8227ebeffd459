"""Texts and the truth about pairs of them: the labelled corpus set by set, and a crawl made by `sample_crawl`."""

from __future__ import annotations

import html
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import orjson

from worker.cli.tune import Corpus, read_corpus, read_pairs
from worker.core.evaluation import Pairs
from worker.devkit.sample.crawl import TEMPLATES, truth_path, write_sample_crawl
from worker.settings import Settings

_INVISIBLE = re.compile(r"<(script|style)\b.*?</\1>|<!--.*?-->|<[^>]*>", re.DOTALL)
OTHERS_MAX = 100_000  # pairs of unrelated articles of the crawl


class Sample(NamedTuple):
    """Documents, and pairs of them."""

    name: str
    corpus: Corpus
    pairs: Pairs


def corpus_samples(folder: Path, settings: Settings) -> Iterator[Sample]:
    """
    The labelled corpus: all sets, each set, and pages in languages that are not English.

    Pairs are the same with a Jaccard similarity of word 3-shingles of 0.8 or more, others below 0.5, else not scored.
    """
    corpus = read_corpus(folder / "docs.jsonl", settings)
    pairs = read_pairs(folder / "pairs.tsv", corpus)
    sets = np.array([kind.partition(":")[0] for kind in pairs.kinds])
    yield Sample("all labelled sets", corpus, pairs)
    for name in sorted(set(sets.tolist())):
        yield Sample(name, corpus, _chosen(pairs, sets == name))


def plain_sample(folder: Path, settings: Settings) -> Sample:
    """The labelled pages with other advertisements as WET files have them: all that is visible, not main text alone."""
    corpus = read_corpus(folder / "docs.jsonl", settings, quiet=True)
    pairs = read_pairs(folder / "pairs.tsv", corpus)
    number = {doc_id: row for row, doc_id in enumerate(corpus.doc_ids)}
    texts = list(corpus.texts)
    for row in map(orjson.loads, (folder / "docs.jsonl").read_bytes().splitlines()):
        if row["set"] == "adswap":
            texts[number[row["doc_id"]]] = html.unescape(re.sub(_INVISIBLE, "\n", row["html"]))
    mine = np.array([kind.startswith("adswap:") for kind in pairs.kinds])
    return Sample("adswap, all visible text", corpus._replace(texts=texts), _chosen(pairs, mine))


def crawl_samples(documents: int, seed: int, settings: Settings) -> Iterator[Sample]:
    """A generated crawl: each copy with its original, one sample a relation; others are unrelated articles."""
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "crawl.warc.gz"
        write_sample_crawl(archive, documents, seed)
        corpus = read_corpus(archive, settings)
        truth = {row["doc_id"]: row for row in map(orjson.loads, truth_path(archive).read_bytes().splitlines())}
    first: dict[str, int] = {}
    copies: list[tuple[int, int, str]] = []
    for number, doc_id in enumerate(corpus.doc_ids):
        row = truth[doc_id]
        if row["relation"] in TEMPLATES:  # not unrelated, and no copies
            continue
        original = first.setdefault(row["group"], number)
        if row["expected"] == "verdict" and row["relation"] != "short" and original != number:
            copies.append((original, number, row["relation"]))
    drawn = np.random.default_rng(seed).choice(sorted(first.values()), (OTHERS_MAX, 2))
    others = [(int(one), int(other), "unrelated") for one, other in np.sort(drawn, axis=1) if one != other]
    rows = [*copies, *others]
    pairs = Pairs(
        np.array([row[0] for row in rows]),
        np.array([row[1] for row in rows]),
        np.arange(len(rows)) < len(copies),
        [row[2] for row in rows],
    )
    yield Sample(f"sample crawl of {documents:,}", corpus, pairs)


def _chosen(pairs: Pairs, rows: np.ndarray) -> Pairs:
    kinds = [kind for kind, chosen in zip(pairs.kinds, rows.tolist(), strict=True) if chosen]
    return Pairs(pairs.first[rows], pairs.second[rows], pairs.same[rows], kinds)
