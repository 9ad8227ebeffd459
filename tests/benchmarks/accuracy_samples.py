"""
Texts and the truth about pairs of them: the labelled corpus set by set, a crawl made by `sample_crawl`, what is hard.

    other laws, other API pages   the labelled corpus, every two of another name, below the similarity of a copy
    a template's pages            as `sample_crawl` fills them: streams of 350, of six kinds in eight languages
    parts                         20 to 400 words of the labelled texts, a share of them replaced by other words
"""

from __future__ import annotations

import html
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from worker.cli.tune import Corpus, read_corpus, read_pairs
from worker.core.evaluation import SAME_FROM, Pairs, exact_jaccard, shingle_set
from worker.devkit.sample import crawl
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
        crawl.write_sample_crawl(archive, documents, seed)
        corpus = read_corpus(archive, settings)
        truth = {
            row["doc_id"]: row
            for row in map(orjson.loads, crawl.truth_path(archive).read_bytes().splitlines())
        }
    first: dict[str, int] = {}
    copies: list[tuple[int, int, str]] = []
    for number, doc_id in enumerate(corpus.doc_ids):
        row = truth[doc_id]
        if row["relation"] in crawl.TEMPLATES:  # not unrelated, and no copies
            continue
        original = first.setdefault(row["group"], number)
        if row["expected"] == "verdict" and row["relation"] != "short" and original != number:
            copies.append((original, number, row["relation"]))
    drawn = np.random.default_rng(seed).choice(sorted(first.values()), (OTHERS_MAX, 2))
    others = [
        (int(one), int(other), "unrelated") for one, other in np.sort(drawn, axis=1) if one != other
    ]
    yield _sample(f"sample crawl of {documents:,}", corpus, [*copies, *others], len(copies))


def _chosen(pairs: Pairs, rows: np.ndarray) -> Pairs:
    kinds = [kind for kind, chosen in zip(pairs.kinds, rows.tolist(), strict=True) if chosen]
    return Pairs(pairs.first[rows], pairs.second[rows], pairs.same[rows], kinds)


OTHERS = {"gesetze": "other laws", "vba": "other API pages", "kafka": "other classes"}
LENGTHS = (20, 40, 60, 150, 400)  # words
POINTS = (0.95, 0.87, 0.75, 0.66, 0.55)  # Jaccard index of 3-shingles, ± REACH
REACH = 0.03
PAIRS = 150  # of a length around a point
TRIES = 20  # for each of them
CHARACTERS_A_WORD = 12  # at most: texts that are written without spaces are left out


def others(folder: Path, settings: Settings) -> Sample:
    """Every two laws, API pages and classes of another name whose 3-shingles are less alike than those of a copy."""
    corpus = read_corpus(folder / "docs.jsonl", settings, quiet=True)
    names = [_name(doc_id) for doc_id in corpus.doc_ids]
    shingles = [shingle_set(text) for text in corpus.texts]
    rows: list[tuple[int, int, str]] = []
    for prefix, kind in OTHERS.items():
        mine = [row for row, doc_id in enumerate(corpus.doc_ids) if doc_id.startswith(f"{prefix}/")]
        for one, other in zip(*np.triu_indices(len(mine), 1), strict=True):
            first, second = mine[one], mine[other]
            if (
                names[first] != names[second]
                and exact_jaccard(shingles[first], shingles[second]) < SAME_FROM
            ):
                rows.append((first, second, kind))
    return _sample("others", corpus, rows)


def _name(doc_id: str) -> str:
    """What a document is about, without its version: `gesetze/z/zvfv@2012…`, `kafka/39/javadoc/…`."""
    return doc_id.split("/", 2)[-1] if doc_id.startswith("kafka/") else doc_id.partition("@")[0]


def templates(pages: int = crawl.PAGES_MAX, seed: int = 1) -> Sample:
    """Streams of pages, of each kind in each language one behind the other; pairs are every two of a stream."""
    texts: list[str] = []
    languages: list[str | None] = []
    rows: list[tuple[int, int, str]] = []
    for kind, code in product(crawl.TEMPLATES, crawl.LANGUAGES):
        dice, begin = crawl.Dice(seed), len(texts)
        for number in range(pages):
            article = crawl.fill_template(kind, str(number), code, dice)
            parts = [article.title, *(sentence for part in article.paragraphs for sentence in part)]
            texts.append(re.sub(r"</?\w+>", "\n", "\n".join(parts)))
            languages.append(code)
            rows += [(begin + before, begin + number, kind) for before in range(number)]
    return _sample(
        "templates", Corpus([str(row) for row in range(len(texts))], texts, languages), rows
    )


def merged(pairs: Pairs, found: NDArray[np.bool_], documents: int) -> NDArray[np.bool_]:
    """
    Mark the documents that a stream would call duplicates: those with a pair found whose first is an original.

    Args:
        pairs: in the order of their second documents, each after its first.
    """
    duplicate = np.zeros(documents, np.bool_)
    ends = np.searchsorted(pairs.second, np.arange(documents), side="right")
    begin = 0
    for document, end in enumerate(ends.tolist()):
        duplicate[document] = (found[begin:end] & ~duplicate[pairs.first[begin:end]]).any()
        begin = end
    return duplicate


def edits(folder: Path, settings: Settings, pairs_each: int = PAIRS, seed: int = 1) -> Sample:
    """Parts of the labelled texts and the same with words replaced; kinds are "length point"."""
    corpus = read_corpus(folder / "docs.jsonl", settings, quiet=True)
    words = [text.split() for text in corpus.texts]
    spaced = [
        row
        for row, text in enumerate(corpus.texts)
        if len(text) < CHARACTERS_A_WORD * len(words[row])
    ]
    pool: dict[str | None, list[str]] = defaultdict(list)
    for row in spaced:
        pool[corpus.languages[row]] += words[row]
    generator = np.random.default_rng(seed)
    texts: list[str] = []
    languages: list[str | None] = []
    rows: list[tuple[int, int, str]] = []
    for length, point in product(LENGTHS, POINTS):
        long = [row for row in spaced if len(words[row]) >= length]
        wanted = (
            (length - 2) * (1 - point) / (3 * (1 + point))
        )  # words apart from each other cost three shingles each
        there = len(rows) + pairs_each
        for _ in range(TRIES * pairs_each):
            if len(rows) == there:
                break
            row = long[generator.integers(len(long))]
            begin = generator.integers(len(words[row]) - length + 1)
            part, donor = words[row][begin : begin + length], pool[corpus.languages[row]]
            other = list(part)
            for at in generator.choice(
                length, generator.integers(1, int(1.6 * wanted) + 2), replace=False
            ).tolist():
                other[at] = donor[generator.integers(len(donor))]
            pair = " ".join(part), " ".join(other)
            if abs(exact_jaccard(shingle_set(pair[0]), shingle_set(pair[1])) - point) < REACH:
                rows.append((len(texts), len(texts) + 1, f"{length} {point}"))
                texts += pair
                languages += [corpus.languages[row]] * 2
    return _sample("parts", Corpus([str(row) for row in range(len(texts))], texts, languages), rows)


def _sample(name: str, corpus: Corpus, rows: list[tuple[int, int, str]], same: int = 0) -> Sample:
    """Of these pairs, the first `same` of which are."""
    first, second, kinds = zip(*rows, strict=True)
    return Sample(
        name, corpus, Pairs(np.array(first), np.array(second), np.arange(len(rows)) < same, kinds)
    )
