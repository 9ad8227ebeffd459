"""
The permuted index: which indexed fingerprint is within `max_distance` bits of this one, the best of them, exactly.

Rows are the caller's numbers for what it has indexed, given in insertion order and never reused.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.core.permutation import Layout
from worker.core.planner import DISTANCE_MAX, choose
from worker.core.search import NO_MATCH
from worker.core.tables.content import Tables
from worker.core.tables.judging import INSERT_ALL, INSERT_NEW, QUERY, delete, judge
from worker.core.tables.search import search_all

__all__ = ["NO_MATCH", "Judgement", "PermutedIndex", "column_of", "rows_of"]

ROWS_MAX = 2**32  # a row is 32 bits in memory and in snapshots
DELETIONS_MAX = 4_096  # between two looks at whether memory can be given back
MATCHES_MIN = 256  # room for the matches of one query at the first try


class Judgement(NamedTuple):
    """The best match of each fingerprint. Row -1, distance 255, look 0: no match."""

    rows: NDArray[np.int64]
    distances: NDArray[np.uint8]
    looks: NDArray[np.uint16]  # second look in thousandths; 0 where the search is exact
    new: int  # how many had no match


class PermutedIndex:
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
    """

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

    def __len__(self) -> int:
        return len(self.tables)

    @property
    def nbytes(self) -> int:
        """Bytes of memory held."""
        return self.tables.nbytes

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
        """The best match of each fingerprint among what is indexed. Changes nothing."""
        return self._judge(fingerprints, 0, QUERY)

    def query_then_insert(self, fingerprints: NDArray[np.uint64], first_row: int) -> Judgement:
        """As `judge`, but every fingerprint is indexed, the matched too: rows `first_row`, `first_row` + 1, …"""
        return self._judge(fingerprints, first_row, INSERT_ALL)

    def query_all(self, fingerprint: int) -> list[tuple[int, int]]:
        """
        Every match as (row, distance), by distance, then row.

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

    def renumber(self, rows: NDArray[np.uint32]) -> None:
        """
        Return the fingerprints that were indexed last, with nothing deleted since, these rows instead of their own.

        Raises:
            ValueError: the rows do not ascend beyond those of the others: the earliest match would be another one.

        >>> index = PermutedIndex(max_distance=0)
        >>> _ = index.judge(np.array([5, 6], dtype=np.uint64), first_row=0)
        >>> index.renumber(np.array([0, 2], np.uint32))
        >>> index.query(np.array([6], np.uint64)).rows.tolist()
        [2]
        """
        mine = self.tables.rows[len(self) - len(rows) :]
        if len(rows) > len(self) or not ((rows[1:] > rows[:-1]).all() and (rows >= mine).all()):
            raise ValueError(f"rows must ascend from {mine[:1]} on, at most {len(self)} of them, got {rows[:3]} …")
        mine[:] = rows

    def delete(self, fingerprint: int, row: int) -> bool:
        """Take one row out. False: it was not indexed under this fingerprint."""
        return bool(self.delete_many(np.array([fingerprint], np.uint64), np.array([row], np.uint32))[0])

    def delete_many(self, fingerprints: NDArray[np.uint64], rows: NDArray[np.uint32]) -> NDArray[np.bool_]:
        """
        Take rows out; tells for each whether it was indexed under its fingerprint. Memory is given back.

        Cost: about twice that of inserting them.
        """
        fingerprints, rows = column_of(fingerprints), rows_of(rows, len(fingerprints))
        done = np.zeros(len(rows), np.bool_)
        begin = 0
        while begin < len(rows):
            self.tables.maintain()
            end = min(len(rows), begin + DELETIONS_MAX)
            delete(self.tables.words, fingerprints[begin:end], rows[begin:end], done[begin:end])
            begin = end
        self.tables.maintain()
        return done

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """The content as two columns in row order: all that a snapshot needs. Copies."""
        rows = self.tables.rows
        if (rows[1:] > rows[:-1]).all():
            return {"fingerprints": self.tables.fingerprints.copy(), "rows": rows.copy()}
        order = np.argsort(rows, kind="stable")
        return {"fingerprints": self.tables.fingerprints[order], "rows": rows[order]}

    @classmethod
    def from_arrays(
        cls,
        arrays: dict[str, NDArray[np.generic]],
        max_distance: int = 3,
        layout: Layout | None = None,
        documents_expected: int = 0,
    ) -> PermutedIndex:
        """The index whose content is `arrays`, as `arrays()` gave it. Cost: 0.2 µs each."""
        fingerprints = column_of(arrays["fingerprints"])
        rows = rows_of(arrays["rows"], len(fingerprints))
        index = cls(max_distance, layout, max(documents_expected, len(rows)))
        index.tables.load((fingerprints,), rows)
        return index

    def check(self) -> None:
        """Assert the invariants: each fingerprint stands where each table looks for it, and nothing else does."""
        self.tables.check()

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
        return Judgement(rows, distances, np.zeros(len(column), np.uint16), int(np.count_nonzero(rows < 0)))

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


def column_of(fingerprints: NDArray[np.generic]) -> NDArray[np.uint64]:
    """Fingerprints as kernels take them. Raises ValueError for another type or shape."""
    if fingerprints.ndim != 1 or (len(fingerprints) and fingerprints.dtype != np.uint64):
        raise ValueError(
            f"fingerprints are one column of uint64, got {fingerprints.dtype} of shape {fingerprints.shape}: "
            "another type would lose or change bits"
        )
    return np.ascontiguousarray(fingerprints, np.uint64)


def rows_of(rows: NDArray[np.generic], count: int) -> NDArray[np.uint32]:
    """`count` rows as kernels take them. Raises ValueError for another number, or beyond 32 bits."""
    if len(rows) != count:
        raise ValueError(f"one row for each fingerprint, got {count} fingerprints and {len(rows)} rows")
    if rows.dtype != np.uint32 and len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < ROWS_MAX:
        raise ValueError(f"rows must be 0 to {ROWS_MAX - 1}, got {rows.min()} to {rows.max()}")
    return np.ascontiguousarray(rows, np.uint32)
