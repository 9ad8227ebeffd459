"""
What the index is asked in trials: fingerprints of texts, and documents of a directed search, whose
trials are here.

A text is four passages of fifteen words, drawn from real texts of a language. Their bits are as
uneven as those of real
texts: function words and common phrases come again and again.

Directed documents are fingerprints, doubts and sketches, as an array [n, 10]. `neardup directed`:
loaded to a size, then asked and fed as the others are. `unrelated`: random documents judged from
nothing on; told is how many sketches of others are read for one, and what is found, which would be
false.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
from neardup import Fingerprinter
from numpy.typing import NDArray

from tests.benchmarks.accuracy_samples import crawl_samples
from tests.benchmarks.common import CORPORA, REPOSITORY, Figures, corpus_rows
from tests.benchmarks.trial import BATCH, OPERATIONS, loaded_and_asked, touch
from worker.core.definition import detect
from worker.core.index import SearchIndex
from worker.core.search import SearchedDocument, SearchedOriginal, SearchRules, best
from worker.core.sketch import SKETCH, sketch_of
from worker.log.columns import ChunkedColumn
from worker.settings import Settings

KEPT = REPOSITORY / "out" / "texts.npy"
PASSAGES = 4
WORDS = 15
PART = 200_000
CRAWL_DOCUMENTS = 3_000


def kept_fingerprints(count: int) -> Path:
    """A file of at least `count` fingerprints for `numpy.load`; made once, the same each time."""
    if not KEPT.is_file() or len(np.load(KEPT, mmap_mode="r")) < count:
        KEPT.parent.mkdir(exist_ok=True)
        np.save(KEPT, fingerprints(passages(), count))
    return KEPT


def fingerprints(by_language: list[list[str]], count: int) -> NDArray[np.uint64]:
    """Draw texts and fingerprint them; a language has as many texts as it has passages."""
    every = [passage for passages_ in by_language for passage in passages_]
    ends = np.cumsum([0, *map(len, by_language)])
    dice = np.random.default_rng(3)
    fingerprinter = Fingerprinter()
    parts = []
    for begin in range(0, count, PART):
        first = dice.integers(0, len(every), min(PART, count - begin))
        language = np.searchsorted(ends, first, side="right") - 1
        low, high = ends[language], ends[language + 1]
        others = low[:, None] + (
            dice.random((len(first), PASSAGES - 1)) * (high - low)[:, None]
        ).astype(np.int64)
        chosen = np.column_stack((first, others)).tolist()
        parts.append(
            fingerprinter.many(
                [" ".join([every[number] for number in numbers]) for numbers in chosen]
            )
        )
    return np.concatenate(parts)


def passages() -> list[list[str]]:
    """The passages of each language: of the corpus where it is there, else of a generated crawl."""
    texts = [
        (str(row["lang"])[:2], row["text"])
        for row in corpus_rows(CORPORA)
        if row.get("text") and row.get("lang")
    ]
    if not texts:
        (sample,) = crawl_samples(CRAWL_DOCUMENTS, 1, Settings())
        texts = [(detect(text) or "", text) for text in sample.corpus.texts]
    found: dict[str, list[str]] = {}
    for language, text in texts:
        words = text.split()
        cuts = pairwise(range(0, len(words) + 1, WORDS))
        found.setdefault(language, []).extend(" ".join(words[begin:end]) for begin, end in cuts)
    return [passages_ for passages_ in found.values() if len(passages_) > 1]


DIRECTED = "neardup directed"
RULES = SearchRules()
DOUBTFUL = 1, 0, 0, 0, 1, 0  # binary places, the last first: .266 of the bits, as of web documents
COPY_FLIPS_MAX = 8
DRAWN_AT_ONCE = 1_000_000
RECALLED = 200  # copies whose search is checked by the definition, which is slow

Documents = NDArray[np.uint64]


def random_signs(count: int, seed: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return fingerprints and doubts of unrelated documents."""
    dice = np.random.default_rng(seed)
    fingerprints = dice.integers(0, 2**64, count, dtype=np.uint64)
    doubts = np.zeros(count, np.uint64)
    for place in DOUBTFUL:
        bits = dice.integers(0, 2**64, count, dtype=np.uint64)
        doubts = doubts | bits if place else doubts & bits
    return fingerprints, doubts


def random_documents(count: int, seed: int = 1) -> Documents:
    """Unrelated documents; bins of their sketches are empty as often as filled with each value."""
    dice = np.random.default_rng([seed, 1])
    documents = dice.integers(0, 2**64, (count, 10), dtype=np.uint64)
    documents[:, 0], documents[:, 1] = random_signs(count, seed)
    return documents


def half_copies(resident: Documents, new: Documents) -> tuple[Documents, NDArray[np.int64]]:
    """
    Half new ones, half copies of residents in which up to 8 bits differ, mostly doubtful; of which,
    -1 for none.
    """
    dice = np.random.default_rng(2)
    sources = dice.integers(0, len(resident), len(new))
    copies = resident[sources]
    for _ in range(COPY_FLIPS_MAX):
        bit = np.uint64(1) << dice.integers(0, 64, len(new), dtype=np.uint64)
        flips = ((copies[:, 1] & bit) != 0) | (dice.random(len(new)) < 0.06)
        copies[:, 0] ^= np.where(flips, bit, np.uint64(0))
    drawn = dice.integers(0, 2**64, (4, len(new), 8), dtype=np.uint64)
    copies[:, 2:] ^= drawn[0] & drawn[1] & drawn[2] & drawn[3]  # a tenth of the bins
    is_copy = dice.random(len(new)) < 0.5
    return np.where(is_copy[:, None], copies, new[::-1] ^ np.uint64(1 << 63)), np.where(
        is_copy, sources, -1
    )


def columns(
    documents: Documents,
) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64]]:
    return documents[:, 0].copy(), documents[:, 1].copy(), documents[:, 2:]


def whole(document: list[int]) -> tuple[int, int, int]:
    return document[0], document[1], sketch_of(document[2:])


class DirectedContender:
    """SearchIndex at the default rules, sized for so many documents; it judges."""

    def __init__(self, documents: int) -> None:
        self.sketches: ChunkedColumn[np.uint64] = ChunkedColumn(SKETCH)
        self.index = SearchIndex(RULES, documents, self.sketches)
        self.index.warm_up()

    def load(self, documents: Documents) -> None:
        held = len(self.index)
        rows = np.arange(held, held + len(documents), dtype=np.uint32)
        self.index.insert(*columns(documents)[:2], rows)
        self.sketches.append(documents[:, 2:])

    def step(self, documents: Documents) -> list[int]:
        found = self.index.match_or_insert(*columns(documents), len(self.index))
        self.sketches.append(documents[found.rows < 0, 2:])
        distances: list[int] = np.where(
            found.rows < 0, -1, found.distances.astype(np.int64)
        ).tolist()
        return distances


def recall_of_copies(
    resident: Documents, asked: Documents, sources: NDArray[np.int64], found: list[int]
) -> float | None:
    """Of the copies that lie within the distance and are alike enough, the share that was found."""
    wide = replace(RULES, patterns=128)
    due = hit = 0
    for document, source, distance in zip(asked.tolist(), sources.tolist(), found, strict=False):
        if source >= 0 and best(
            wide,
            SearchedDocument(*whole(document)),
            [SearchedOriginal(0, *whole(resident[source].tolist()))],
        ):
            due += 1
            hit += distance >= 0
    return hit / due if due else None


def directed_trial(name: str, size: int, limit_s: float) -> Figures:
    if name == "unrelated":
        return judged_unrelated(size)
    resident, new = random_documents(size), random_documents(OPERATIONS, seed=2)
    near, sources = half_copies(resident, new)
    touch(size)
    contender = DirectedContender(size)
    result, found = loaded_and_asked(contender, resident, new, near, limit_s)
    return result | {
        "bytes_counted": contender.index.nbytes / len(contender.index),
        "recall": recall_of_copies(resident, near, sources, found[:RECALLED]),
        "layout": contender.index.rules.text,
    }


def judged_unrelated(documents: int) -> Figures:
    """Judge so many unrelated documents; all that is found is false."""
    contender = DirectedContender(0)
    false = 0
    for start in range(0, documents, DRAWN_AT_ONCE):
        part = random_documents(min(DRAWN_AT_ONCE, documents - start), seed=start + 3)
        read = contender.index.sketches_read
        for begin in range(0, len(part), BATCH):
            false += sum(distance >= 0 for distance in contender.step(part[begin : begin + BATCH]))
        read = contender.index.sketches_read - read
    return {
        "false_matches": false,
        "sketches_per_query_at_the_end": read / len(part),
        "operations": documents,
        "bytes_each": contender.index.nbytes / len(contender.index),
    }
