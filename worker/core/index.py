"""
The permuted index: which indexed fingerprint is within `max_distance` bits of this one, the best of them, exactly.

Rows are the caller's numbers for what it has indexed, given in insertion order and never reused.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from worker.core.permutation import Layout
from worker.core.planner import DISTANCE_MAX, choose
from worker.core.row_index import ROWS_MAX, Judgement, RowIndex, column_of, rows_of
from worker.core.tables.content import Tables
from worker.core.tables.judging import INSERT_ALL, INSERT_NEW, QUERY, delete, judge
from worker.core.tables.search import search_all

MATCHES_MIN = 256  # room for the matches of one query at the first try


class PermutedIndex(RowIndex):
    """
    Fingerprints by row, searched by Hamming distance.

    Args:
        max_distance: a match differs in at most this many of the 64 bits, 0 to 16.
        layout: blocks and tables; chosen for `documents_expected` when not given.
        documents_expected: what the index is sized for; it grows beyond.
    Raises:
        ValueError: a distance out of bounds, or a layout made for a smaller distance: it would miss matches.

    Cost, 4 tables, k = 3: 0.2 µs a judged fingerprint at 1 M, 0.6 µs at 10 M; 48 to 57 bytes each.

    >>> index = PermutedIndex(max_distance=3)
    >>> index.judge(np.array([0b0000, 0b0111, 0b1111], dtype=np.uint64), first_row=0).rows.tolist()
    [-1, 0, -1]
    >>> index.renumber(np.array([2], np.uint32))
    >>> index.query(np.array([0b1111], np.uint64)).rows.tolist()
    [2]
    """

    tables: Tables

    def __init__(self, max_distance: int = 3, layout: Layout | None = None, documents_expected: int = 0) -> None:
        if not 0 <= max_distance <= DISTANCE_MAX:
            raise ValueError(f"max_distance must be 0 to {DISTANCE_MAX}, got {max_distance}: too many would match")
        choice = choose(max_distance, documents_expected, layout)
        if choice.layout.max_distance != max_distance:
            raise ValueError(
                f"layout is for distance {choice.layout.max_distance}, got max_distance={max_distance}: "
                "it would miss matches or compare too many"
            )
        self.max_distance = max_distance
        self.layout = choice.layout
        self.tables = Tables(choice.layout, choice.bits, choice.flat_below)

    def judge(self, fingerprints: NDArray[np.uint64], first_row: int) -> Judgement:
        """
        Leader clustering, in order: the best match of each fingerprint, or a new row of its own.

        A fingerprint without a match is indexed at once as row `first_row` + (new ones before it in this call), so
        that later ones of the same call find it.

        >>> PermutedIndex(0).judge(np.array([5, 6, 5], dtype=np.uint64), first_row=10)[:2]
        (array([-1, -1, 10]), array([255, 255,   0], dtype=uint8))
        """
        return self._judge(fingerprints, first_row, INSERT_NEW)

    def query(self, fingerprints: NDArray[np.uint64]) -> Judgement:
        """Return the best match of each fingerprint among what is indexed. Changes nothing."""
        return self._judge(fingerprints, 0, QUERY)

    def query_then_insert(self, fingerprints: NDArray[np.uint64], first_row: int) -> Judgement:
        """As `judge`, but every fingerprint is indexed, the matched too: rows `first_row`, `first_row` + 1, …"""
        return self._judge(fingerprints, first_row, INSERT_ALL)

    def query_all(self, fingerprint: int) -> list[tuple[int, int]]:
        """
        Return every match as (row, distance), by distance, then row.

        Cost: that of a query, and the sorting of the matches.
        """
        own = _checked(fingerprint)
        if self.tables.flat:
            return self._ranked(own, np.arange(len(self)), self.max_distance)
        slots = np.empty(MATCHES_MIN, np.int64)
        while (count := search_all(self.tables.words, own, slots)) > len(slots):
            slots = np.empty(count, np.int64)
        return self._ranked(own, self.tables.with_equals(np.unique(slots[:count])), self.max_distance)

    def insert(self, fingerprints: NDArray[np.uint64], rows: NDArray[np.uint32]) -> None:
        """Index `fingerprints[i]` as `rows[i]`, whether it has matches or not."""
        fingerprints, rows = column_of(fingerprints), rows_of(rows, len(fingerprints))
        self.tables.maintain()
        self.tables.insert((fingerprints,), rows)

    def _delete(self, fingerprints: NDArray[np.uint64], rows: NDArray[np.uint32], done: NDArray[np.bool_]) -> None:
        delete(self.tables.words, fingerprints, rows, done)

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return the content as two columns in row order: all that a snapshot needs. Copies."""
        rows = self.tables.rows
        if (rows[1:] > rows[:-1]).all():
            return {"fingerprints": self.tables.fingerprints.copy(), "rows": rows.copy()}
        order = np.argsort(rows, kind="stable")
        return {"fingerprints": self.tables.fingerprints[order], "rows": rows[order]}

    @classmethod
    def from_arrays(
        cls, arrays: dict[str, NDArray[np.generic]], max_distance: int = 3, layout: Layout | None = None
    ) -> PermutedIndex:
        """Return the index whose content is `arrays`, as `arrays()` gave it. Cost: 0.2 µs each."""
        fingerprints = column_of(arrays["fingerprints"])
        rows = rows_of(arrays["rows"], len(fingerprints))
        index = cls(max_distance, layout, len(rows))
        index.tables.load((fingerprints,), rows)
        return index

    def warm_up(self) -> None:
        """Compile, or load from the cache, what `judge` runs. Some seconds the first time, else a fraction of one."""
        PermutedIndex(self.max_distance).judge(np.zeros(1, np.uint64), 0)

    def _judge(self, fingerprints: NDArray[np.uint64], first_row: int, mode: int) -> Judgement:
        column = column_of(fingerprints)
        if mode != QUERY and not 0 <= first_row <= ROWS_MAX - len(column):
            raise ValueError(f"rows must be 0 to {ROWS_MAX - 1}, got first_row={first_row} and {len(column)} more")
        rows = np.empty(len(column), np.int64)
        distances = np.empty(len(column), np.uint8)
        before = len(self)
        done = 0
        while done < len(column):
            if mode != QUERY:
                self.tables.maintain()
            row = first_row + len(self) - before
            done = judge(self.tables.words, column, done, row, rows, distances, mode, self.tables.ahead)
        nothing = np.zeros(len(column), np.uint16)
        return Judgement(rows, distances, nothing, nothing, int(np.count_nonzero(rows < 0)))

    def _ranked(self, fingerprint: np.uint64, slots: NDArray[np.int64], limit: int) -> list[tuple[int, int]]:
        distances = np.bitwise_count(self.tables.fingerprints[slots] ^ fingerprint)
        rows = self.tables.rows[slots]
        order = np.lexsort((rows, distances))
        order = order[distances[order] <= limit]
        return list(zip(rows[order].tolist(), distances[order].tolist(), strict=True))


def _checked(fingerprint: int) -> np.uint64:
    if not 0 <= fingerprint < 2**64:
        raise ValueError(f"a fingerprint is 0 to 2**64 - 1, got {fingerprint}")
    return np.uint64(fingerprint)
