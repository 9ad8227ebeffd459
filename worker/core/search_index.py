"""The index that a log's rules ask for: one way to use either, with doubts, rows and looks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from worker.core.chance import SMALL
from worker.core.directed_index import DirectedIndex
from worker.core.index import PermutedIndex
from worker.core.row_index import Judgement
from worker.core.search import SearchRules

__all__ = ["SearchIndex", "index_from_arrays", "new_index"]

WIDE_EXPECTED = 3_000_000  # the buckets of ten blocks take 21 MB when empty; beyond it queries read more, in proportion


class ExactIndex:
    """A `PermutedIndex` in the place of a directed one: it has no use for doubts, and its looks are 0."""

    def __init__(self, index: PermutedIndex) -> None:
        self._index = index
        self.delete_many = index.delete_many
        self.renumber = index.renumber
        self.arrays = index.arrays
        self.check = index.check

    def __len__(self) -> int:
        return len(self._index)

    @property
    def nbytes(self) -> int:
        """Bytes of memory held."""
        return self._index.nbytes

    def judge(self, fingerprints: NDArray[np.uint64], _doubts: NDArray[np.uint64], first_row: int) -> Judgement:
        """As `PermutedIndex.judge`."""
        return self._index.judge(fingerprints, first_row)

    def insert(self, fingerprints: NDArray[np.uint64], _doubts: NDArray[np.uint64], rows: NDArray[np.uint32]) -> None:
        """As `PermutedIndex.insert`."""
        self._index.insert(fingerprints, rows)


SearchIndex = DirectedIndex | ExactIndex


def new_index(rules: SearchRules, documents_expected: int = 0) -> SearchIndex:
    """
    Return an empty index for these rules, sized for `documents_expected`; it grows beyond.

    >>> nothing = np.zeros(2, np.uint64)
    >>> [new_index(rules).judge(nothing, nothing, 0).new for rules in (SearchRules(), SearchRules("exact", 3))]
    [1, 1]
    """
    if rules.mode == "directed":
        return DirectedIndex(rules, max(documents_expected, _least(rules)))
    return ExactIndex(PermutedIndex(rules.max_distance, documents_expected=documents_expected))


def index_from_arrays(rules: SearchRules, arrays: dict[str, NDArray[np.generic]]) -> SearchIndex:
    """
    Return the index of these rules that holds `arrays`.

    Args:
        arrays: "fingerprints", "rows" and, for a directed search, "doubts", as its `arrays()` gave them.
    """
    if rules.mode == "directed":
        return DirectedIndex.from_arrays(arrays, rules, _least(rules))
    return ExactIndex(PermutedIndex.from_arrays(arrays, rules.max_distance))


def _least(rules: SearchRules) -> int:
    """Return what an index is sized for at least: its buckets stay as many, and wide blocks are for many originals."""
    return WIDE_EXPECTED if rules.block_bits > SMALL.block_bits else 0
