"""
Fingerprints of texts, as many as wanted: each is four passages of fifteen words, drawn from real texts of a language.

Their bits are as uneven as those of real texts: function words and common phrases come again and again.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import orjson
from neardup import Fingerprinter
from numpy.typing import NDArray

from tests.benchmarks.accuracy_samples import crawl_samples
from tests.benchmarks.common import CORPORA, REPOSITORY
from worker.core.definition import detect
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
        others = low[:, None] + (dice.random((len(first), PASSAGES - 1)) * (high - low)[:, None]).astype(np.int64)
        chosen = np.column_stack((first, others)).tolist()
        parts.append(fingerprinter.many([" ".join([every[number] for number in numbers]) for numbers in chosen]))
    return np.concatenate(parts)


def passages() -> list[list[str]]:
    """The passages of each language: of the corpus where it is there, else of a generated crawl."""
    if (CORPORA / "docs.jsonl").is_file():
        rows = map(orjson.loads, (CORPORA / "docs.jsonl").read_bytes().splitlines())
        texts = [(str(row["lang"])[:2], row["text"]) for row in rows if row.get("text") and row.get("lang")]
    else:
        (sample,) = crawl_samples(CRAWL_DOCUMENTS, 1, Settings())
        texts = [(detect(text) or "", text) for text in sample.corpus.texts]
    found: dict[str, list[str]] = {}
    for language, text in texts:
        words = text.split()
        cuts = pairwise(range(0, len(words) + 1, WORDS))
        found.setdefault(language, []).extend(" ".join(words[begin:end]) for begin, end in cuts)
    return [passages_ for passages_ in found.values() if len(passages_) > 1]
