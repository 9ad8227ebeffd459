"""The kernels of pages, fingerprints, index and search compiled, or loaded, once; the log's are `Replica.warm_up`'s."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from worker.core.compiled import cache_directory
from worker.core.fingerprint import Fingerprinter
from worker.core.index import PermutedIndex
from worker.core.kernels.batch import fingerprint_batch
from worker.core.pages import extract_pages
from worker.core.pairs import all_pairs, clusters
from worker.core.parameters import Parameters

__all__ = ["warm_up", "warm_up_documents"]

DISTANCE = 3  # the kernels are the same at any other
TABLES_FROM = 4_096  # a smaller index is a flat list, and its tables' kernels would not run


def warm_up(parameters: Parameters) -> Path | None:
    """
    Run the kernels on next to nothing: pages, fingerprints, index, all pairs.

    Returns:
        Where the machine code is kept for the next process; None when nothing can be written and each process compiles
        for itself.

    Cost: some seconds when nothing is cached, else a fraction of one.
    """
    warm_up_documents(Fingerprinter(parameters))
    index = PermutedIndex(DISTANCE, documents_expected=TABLES_FROM)
    numbers = np.arange(TABLES_FROM, dtype=np.uint64)
    index.insert(numbers, numbers.astype(np.uint32))
    index.judge(numbers[:1], TABLES_FROM)
    index.query_all(0)
    index.delete(0, 0)
    list(all_pairs(numbers[:2], DISTANCE))
    clusters(numbers[:2], DISTANCE)
    return cache_directory(fingerprint_batch.py_func)


def warm_up_documents(fingerprinter: Fingerprinter) -> None:
    """Run the kernels of pages and fingerprints on next to nothing."""
    fingerprinter.warm_up()
    fingerprinter.packed(extract_pages(["<p>warm"]).texts)
