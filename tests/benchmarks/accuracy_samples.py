"""
Texts and the truth about pairs of them: the labelled corpus set by set, a crawl made by
`sample_crawl`, what is hard.

    other laws, other API pages  the labelled corpus, every two of another name, below the similarity of a copy
    a template's pages           as `sample_crawl` fills them: streams of 350, of six kinds in eight languages
    parts                        20 to 400 words of the labelled texts, a share of them replaced by other words
    blocks                       articles in plain text with other advertisements, cut, wrapped; with scattered other words
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

from tests.benchmarks.common import corpus_rows
from worker.cli.labelled import Corpus, pairs_of, read_corpus, read_labels
from worker.cli.reading import Reading
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


def _corpus(folder: Path, settings: Settings) -> Corpus:
    return read_corpus([str(folder / "docs.jsonl")], settings, Reading(), quiet=True)


def labelled(folder: Path, settings: Settings) -> tuple[Corpus, Pairs]:
    """Return the documents of the labelled corpus, and its pairs."""
    corpus = _corpus(folder, settings)
    pairs = folder / "pairs.tsv"
    return corpus, pairs_of(read_labels(pairs), pairs, corpus)


def corpus_samples(folder: Path, settings: Settings) -> Iterator[Sample]:
    """
    The labelled corpus: all sets, each set, and pages in languages that are not English.

    Pairs are the same with a Jaccard similarity of word 3-shingles of 0.8 or more, others below
    0.5, else not scored.
    """
    corpus, pairs = labelled(folder, settings)
    sets = np.array([kind.partition(":")[0] for kind in pairs.kinds])
    yield Sample("all labelled sets", corpus, pairs)
    for name in sorted(set(sets.tolist())):
        yield Sample(name, corpus, _chosen(pairs, sets == name))


def plain_sample(folder: Path, settings: Settings) -> Sample:
    """
    The labelled pages with other advertisements as WET files have them: all that is visible, not
    main text alone.
    """
    corpus, pairs = labelled(folder, settings)
    number = {doc_id: row for row, doc_id in enumerate(corpus.doc_ids)}
    texts = list(corpus.texts)
    for row in corpus_rows(folder):
        if row["set"] == "adswap":
            texts[number[row["doc_id"]]] = html.unescape(re.sub(_INVISIBLE, "\n", row["html"]))
    mine = np.array([kind.startswith("adswap:") for kind in pairs.kinds])
    return Sample("adswap, all visible text", corpus._replace(texts=texts), _chosen(pairs, mine))


def crawl_samples(documents: int, seed: int, settings: Settings) -> Iterator[Sample]:
    """
    A generated crawl: each copy with its original, one sample a relation; others are unrelated
    articles.
    """
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "crawl.warc.gz"
        crawl.write_sample_crawl(archive, documents, seed)
        corpus = read_corpus([str(archive)], settings, Reading())
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
    """
    Every two laws, API pages and classes of another name whose 3-shingles are less alike than those
    of a copy.
    """
    corpus = _corpus(folder, settings)
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
    """
    What a document is about, without its version: `gesetze/z/zvfv@2012…`, `kafka/39/javadoc/…`.
    """
    return doc_id.split("/", 2)[-1] if doc_id.startswith("kafka/") else doc_id.partition("@")[0]


def templates(pages: int = crawl.PAGES_MAX, seed: int = 1) -> Sample:
    """
    Streams of pages, of each kind in each language one behind the other; pairs are every two of a
    stream.
    """
    texts: list[str] = []
    languages: list[str | None] = []
    rows: list[tuple[int, int, str]] = []
    for kind, code in product(crawl.TEMPLATES, crawl.LANGUAGES):
        dice, begin = crawl.Dice(seed), len(texts)
        for number in range(pages):
            texts.append(page_text(kind, number, code, dice))
            languages.append(code)
            rows += [(begin + before, begin + number, kind) for before in range(number)]
    return _sample(
        "templates", Corpus([str(row) for row in range(len(texts))], texts, languages), rows
    )


def page_text(kind: str, number: int, code: str, dice: crawl.Dice) -> str:
    """Return a page of a template in plain text."""
    article = crawl.fill_template(kind, str(number), code, dice)
    parts = [article.title, *(sentence for part in article.paragraphs for sentence in part)]
    return re.sub(r"</?\w+>", "\n", "\n".join(parts))


def merged(pairs: Pairs, found: NDArray[np.bool_], documents: int) -> NDArray[np.bool_]:
    """
    Mark the documents that a stream would call duplicates: those with a pair found whose first is
    an original.

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
    corpus = _corpus(folder, settings)
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
        # Words apart from each other cost three shingles each.
        wanted = (length - 2) * (1 - point) / (3 * (1 + point))
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


ARTICLE_WORDS_MIN = 150
REPLACED_SHARE = 1 / 12  # of the words of a page with other facts


def articles_of(folder: Path, settings: Settings) -> list[str]:
    """Return the articles of the labelled corpus that are long enough for advertisements."""
    corpus = _corpus(folder, settings)
    return [
        text
        for text, doc_id in zip(corpus.texts, corpus.doc_ids, strict=True)
        if doc_id.startswith("minhash/") and len(text.split()) >= ARTICLE_WORDS_MIN
    ]


def snippets_of(folder: Path) -> list[str]:
    """Return the advertisements of the shared corpus."""
    return [row["text"] for row in corpus_rows(folder, "snippets.jsonl")]


def blocks(folder: Path, settings: Settings, pairs_each: int = PAIRS, seed: int = 1) -> Sample:
    """
    Articles in plain text that differ in blocks, which are copies, and in scattered words, which
    are not.

    Advertisements are those of the shared snippets.
    """
    articles = articles_of(folder, settings)
    snippets = snippets_of(folder)
    dice = crawl.Dice(seed)
    chosen = dice.several(articles, pairs_each)
    texts: list[str] = []
    kinds: list[str] = []

    def add(kind: str, first: str, second: str) -> None:
        texts.extend((first, second))
        kinds.append(kind)

    for article in chosen:
        other = dice.pick(articles)
        for share in (0.1, 0.2, 0.3):
            first, second = (with_share(article, share, snippets, dice) for _ in range(2))
            add(f"rotating {share:.0%}", first, second)
        add("one-sided 50%", article, with_share(article, 0.5, snippets, dice))
        add("cut to 70%", article, _cut(article, 0.7))
        wrapped = f"{_cut(other, 0.15)}\n{article}\n{_cut(dice.pick(articles), 0.15)}"
        add("wrapped in 30%", article, wrapped)
        add("scattered words", article, _with_other_words(article, other, dice))
        shown = advertisements(article, 1.0, snippets, dice)
        first = with_advertisements(article, shown, dice)
        add("another article", first, with_advertisements(other, shown, dice))
    pairs = [(2 * row, 2 * row + 1, kind) for row, kind in enumerate(kinds)]
    doc_ids = [str(row) for row in range(len(texts))]
    return _sample("blocks", Corpus(doc_ids, texts, ["en"] * len(texts)), pairs)


def advertisements(article: str, share: float, snippets: list[str], dice: crawl.Dice) -> list[str]:
    """Return snippets with this share of an article's words, or a few more."""
    wanted = share * len(article.split())
    shown: list[str] = []
    while sum(len(text.split()) for text in shown) < wanted:
        shown.append(dice.pick(snippets))
    return shown


def with_share(article: str, share: float, snippets: list[str], dice: crawl.Dice) -> str:
    """Return an article with advertisements of this share of its words."""
    return with_advertisements(article, advertisements(article, share, snippets, dice), dice)


def with_advertisements(article: str, shown: list[str], dice: crawl.Dice) -> str:
    """Half of the times they stand around the article, else between its sentences."""
    if dice.chance(0.5):
        half = len(shown) // 2
        return "\n".join([*shown[:half], article, *shown[half:]])
    sentences = re.split(r"(?<=[.!?]) ", article)
    for snippet in shown:
        sentences.insert(dice.number(0, len(sentences)), snippet)
    return "\n".join(sentences)


def _cut(article: str, share: float) -> str:
    words = article.split()
    return " ".join(words[: round(share * len(words))])


def _with_other_words(article: str, other: str, dice: crawl.Dice) -> str:
    """
    Return an article with a share of its words replaced, each by itself, by words of another one.
    """
    words, donors = article.split(), other.split()
    replaced = (dice.pick(donors) if dice.chance(REPLACED_SHARE) else None for _ in words)
    return " ".join(new or word for new, word in zip(replaced, words, strict=True))


def _sample(name: str, corpus: Corpus, rows: list[tuple[int, int, str]], same: int = 0) -> Sample:
    """Of these pairs, the first `same` of which are."""
    first, second, kinds = zip(*rows, strict=True)
    return Sample(
        name, corpus, Pairs(np.array(first), np.array(second), np.arange(len(rows)) < same, kinds)
    )
