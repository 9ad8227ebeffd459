"""The index that a log's rules ask for: one way to use either, with doubts, rows and looks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from worker.core.directed_index import DirectedIndex
from worker.core.index import PermutedIndex
from worker.core.row_index import Judgement, SketchColumn
from worker.core.search import BLOCK_BITS_MIN, CONFIRMED_MAX, NO_MATCH, SearchRules
from worker.core.sketch import WORDS, sketch_similarities

WIDE_EXPECTED = 3_000_000  # the buckets of ten blocks take 21 MB when empty; beyond it queries read more, in proportion


class ExactIndex:
    """
    A `PermutedIndex` in the place of a directed one: it has no use for doubts, and its looks are 0.

    What is to be confirmed is searched one by one, with all its matches: some 20 µs each.
    """

    def __init__(self, index: PermutedIndex, rules: SearchRules, sketches: SketchColumn | None) -> None:
        self._index, self._rules, self._sketches = index, rules, sketches
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

    def judge(
        self,
        fingerprints: NDArray[np.uint64],
        _doubts: NDArray[np.uint64],
        sketches: NDArray[np.uint64],
        first_row: int,
    ) -> Judgement:
        """As `PermutedIndex.judge`, with the similarity of each match."""
        if self._rules.similarity_min:
            return self._judge_confirmed(fingerprints, sketches, first_row)
        found = self._index.judge(fingerprints, first_row)
        similarities = np.zeros(len(found.rows), np.uint16)
        places = np.flatnonzero(found.rows >= 0)
        fresh = sketches[found.rows < 0]
        similarities[places] = sketch_similarities(sketches[places], self._of(found.rows[places], fresh, first_row))
        return found._replace(similarities=similarities)

    def _judge_confirmed(
        self, fingerprints: NDArray[np.uint64], sketches: NDArray[np.uint64], first_row: int
    ) -> Judgement:
        count = len(fingerprints)
        rows, fresh = np.full(count, -1), np.empty_like(sketches)
        distances, similarities = np.full(count, NO_MATCH, np.uint8), np.zeros(count, np.uint16)
        new = 0
        for at, fingerprint in enumerate(fingerprints.tolist()):
            candidates = np.array(self._index.query_all(fingerprint)[:CONFIRMED_MAX], np.int64).reshape(-1, 2)
            theirs = self._of(candidates[:, 0], fresh, first_row)
            alike = sketch_similarities(np.broadcast_to(sketches[at], theirs.shape), theirs)
            best = int(alike.argmax()) if len(alike) else 0  # the first of the most similar: the nearest, the earliest
            if len(alike) and alike[best] >= self._rules.similarity_min:
                (rows[at], distances[at]), similarities[at] = candidates[best], alike[best]
            else:
                self._index.insert(fingerprints[at : at + 1], np.array([first_row + new], np.uint32))
                fresh[new] = sketches[at]
                new += 1
        return Judgement(rows, distances, np.zeros(count, np.uint16), similarities, new)

    def _of(self, rows: NDArray[np.int64], fresh: NDArray[np.uint64], first_row: int) -> NDArray[np.uint64]:
        """Return the sketches of rows, of which those from `first_row` on are `fresh`."""
        found = np.empty((len(rows), WORDS), np.uint64)
        is_fresh = rows >= first_row
        found[is_fresh] = fresh[rows[is_fresh] - first_row]
        if not is_fresh.all():
            assert self._sketches is not None, "each indexed row has a sketch"
            found[~is_fresh] = self._sketches.take(rows[~is_fresh])
        return found

    def will_need(self, fingerprints: NDArray[np.uint64], _doubts: NDArray[np.uint64]) -> None:
        """As `DirectedIndex.will_need`, for the nearest of each alone."""
        rows = self._index.query(fingerprints).rows
        if self._sketches is not None:
            self._sketches.will_need(rows[rows >= 0])

    def insert(self, fingerprints: NDArray[np.uint64], _doubts: NDArray[np.uint64], rows: NDArray[np.uint32]) -> None:
        """As `PermutedIndex.insert`."""
        self._index.insert(fingerprints, rows)


SearchIndex = DirectedIndex | ExactIndex


def new_index(rules: SearchRules, documents_expected: int = 0, sketches: SketchColumn | None = None) -> SearchIndex:
    """
    Return an empty index for these rules, sized for `documents_expected`; it grows beyond.

    Args:
        sketches: by row, of all that is indexed; whoever indexes a row adds it there before the next call.

    >>> nothing, none = np.zeros(2, np.uint64), np.zeros((2, 8), np.uint64)
    >>> [new_index(rules).judge(nothing, nothing, none, 0).new for rules in (SearchRules(), SearchRules("exact", 3))]
    [1, 1]
    """
    if rules.mode == "directed":
        return DirectedIndex(rules, max(documents_expected, _least(rules)), sketches)
    return ExactIndex(PermutedIndex(rules.max_distance, documents_expected=documents_expected), rules, sketches)


def index_from_arrays(
    rules: SearchRules, arrays: dict[str, NDArray[np.generic]], sketches: SketchColumn | None = None
) -> SearchIndex:
    """
    Return the index of these rules that holds `arrays`.

    Args:
        arrays: "fingerprints", "rows" and, for a directed search, "doubts", as its `arrays()` gave them.
    """
    if rules.mode == "directed":
        return DirectedIndex.from_arrays(arrays, rules, _least(rules), sketches)
    return ExactIndex(PermutedIndex.from_arrays(arrays, rules.max_distance), rules, sketches)


def _least(rules: SearchRules) -> int:
    """Return what an index is sized for at least: its buckets stay as many, and wide blocks are for many originals."""
    return WIDE_EXPECTED if rules.block_bits > BLOCK_BITS_MIN else 0
