"""The kernels compiled, or loaded, once, by running them on next to nothing; the log's are `Replica.warm_up`'s."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from worker.core.compiled import cache_directory, is_kept
from worker.core.fingerprint import Fingerprinter
from worker.core.index import PermutedIndex
from worker.core.kernels.documents import read_documents
from worker.core.kernels.fingerprint import fingerprint_batch
from worker.core.kernels.machine import SLACK
from worker.core.pages import extract_pages
from worker.core.pages.batch import extract_batch
from worker.core.pairs import all_pairs, clusters

DISTANCE = 3  # the kernels are the same at any other
TABLES_FROM = 4_096  # a smaller index is a flat list, and its tables' kernels would not run


def pages() -> None:
    """Pages to texts: half of what a first start waits for."""
    extract_pages(["<p>warm"])


def messages() -> None:
    """Messages to documents."""
    data, none = np.zeros(SLACK, np.uint8), np.empty((0, 3), np.int64)
    read_documents(data, none, data.copy(), none.copy(), np.empty(0, np.uint8), data.copy(), none.copy())


def fingerprints() -> None:
    """Texts to fingerprints, those that are composed first among them."""
    Fingerprinter().warm_up()


def exact_index() -> None:
    """Exact search."""
    index = PermutedIndex(DISTANCE, documents_expected=TABLES_FROM)
    numbers = np.arange(TABLES_FROM, dtype=np.uint64)
    index.insert(numbers, numbers.astype(np.uint32))
    index.judge(numbers[:1], TABLES_FROM)
    index.query_all(0)
    index.delete(0, 0)


def pairs() -> None:
    """All pairs of a set, and clusters."""
    numbers = np.arange(2, dtype=np.uint64)
    list(all_pairs(numbers, DISTANCE))
    clusters(numbers, DISTANCE)


def are_pages_kept() -> bool:
    """Return whether `pages` would load its machine code, or have no place to keep it."""
    return is_kept(extract_batch) or cache_directory(extract_batch.py_func) is None


def kept_in() -> Path | None:
    """Return where machine code is kept for the next process; None when each compiles for itself."""
    return cache_directory(fingerprint_batch.py_func)
