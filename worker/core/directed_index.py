"""
The directed index: which indexed fingerprint is the best confirmed match of this one, by the rules of `core.search`.

Rows are the caller's numbers for what it has indexed, never reused.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.core.planner import bucket_bits
from worker.core.row_index import ROWS_MAX, Judgement, RowIndex, SketchColumn, column_of, rows_of
from worker.core.search import LOOK_MAX, NO_MATCH, SearchRules
from worker.core.sketch import SIMILARITY_MAX, SKETCH, WORDS
from worker.core.tables.directed import LOOK_SHIFT, ROW_BITS, SIMILARITY_SHIFT, UNCONFIRMED
from worker.core.tables.directed_content import DirectedTables
from worker.core.tables.directing import delete_directed, judge_directed
from worker.core.tables.judging import INSERT_ALL, INSERT_NEW, QUERY, ROW_MASK
from worker.core.tables.words import (
    ASKING,
    CONFIRMED,
    FRESH,
    FRESH_FIRST,
    FRESH_PLACES,
    LAST_ROW,
    READ,
    SKETCH_BITS,
    SKETCH_FIRST,
    SKETCHES,
)

Column = NDArray[np.uint64]
LOOK_MASK = (1 << int(SIMILARITY_SHIFT - LOOK_SHIFT)) - 1
FLAT_BELOW = 2_048  # fingerprints below which a scan is faster than the tables


class DirectedIndex(RowIndex):
    """
    Fingerprints with their doubts, by row, searched as `rules` say.

    Args:
        rules: of a directed search. They alone decide what is found.
        documents_expected: what the index is sized for; it grows beyond.
        sketches: by row, of all that is indexed; whoever indexes a row adds it there before the next call.
    Raises:
        ValueError: exact rules.

    Cost: measured by `make bench-index`, foretold by `core.planner`.

    >>> index = DirectedIndex(SearchRules())
    >>> fingerprints, doubts = np.array([0b0000, 0b0111], np.uint64), np.array([0b1111, 0b1111], np.uint64)
    >>> index.judge(fingerprints, doubts, np.ones((2, 8), np.uint64), first_row=0).rows.tolist()
    [-1, 0]
    """

    tables: DirectedTables

    def __init__(self, rules: SearchRules, documents_expected: int = 0, sketches: SketchColumn | None = None) -> None:
        if rules.mode != "directed":
            raise ValueError(f"rules must be directed, got {rules.text}: PermutedIndex searches exactly")
        self.rules = rules
        self.sketches = sketches
        self.tables = DirectedTables(rules, bucket_bits(rules, documents_expected), FLAT_BELOW)

    @property
    def filters_read(self) -> int:
        """Entries that all searches so far have read: what they cost, on any machine."""
        return int(self.tables.words[READ])

    @property
    def sketches_read(self) -> int:
        """Sketches of candidates that all searches so far have read."""
        return int(self.tables.words[CONFIRMED])

    def judge(self, fingerprints: Column, doubts: Column, sketches: Column, first_row: int) -> Judgement:
        """
        Leader clustering, in order: the best match of each fingerprint, or a new row of its own.

        A fingerprint without a match is indexed at once as row `first_row` + (new ones before it in this call), so
        that later ones of the same call find it.

        Args:
            fingerprints, doubts: uint64[n]; sketches: uint64[n, 8].
        """
        return self._judge((fingerprints, doubts), sketches, first_row, INSERT_NEW)

    def query(self, fingerprints: Column, doubts: Column, sketches: Column) -> Judgement:
        """Return the best match of each fingerprint among what is indexed. Changes nothing."""
        return self._judge((fingerprints, doubts), sketches, ROWS_MAX, QUERY)

    def will_need(self, fingerprints: Column, doubts: Column) -> None:
        """Ask the system for the sketches that searches for these would read. Changes nothing."""
        self.tables.words[ASKING] = 1
        try:
            self.query(fingerprints, doubts, np.zeros((len(fingerprints), WORDS), np.uint64))
        finally:
            self.tables.words[ASKING] = 0

    def query_then_insert(self, fingerprints: Column, doubts: Column, sketches: Column, first_row: int) -> Judgement:
        """As `judge`, but every fingerprint is indexed, the matched too: rows `first_row`, `first_row` + 1, …"""
        return self._judge((fingerprints, doubts), sketches, first_row, INSERT_ALL)

    def insert(self, fingerprints: NDArray[np.uint64], doubts: NDArray[np.uint64], rows: NDArray[np.uint32]) -> None:
        """Index `fingerprints[i]` as `rows[i]`, whether it has matches or not."""
        fingerprints, doubts = _columns(fingerprints, doubts)
        rows = rows_of(rows, len(fingerprints))
        self.tables.maintain()
        self.tables.insert((fingerprints, doubts), rows)

    def renumber(self, rows: NDArray[np.uint32]) -> None:
        """As for every index; the last row is known to the kernels."""
        super().renumber(rows)
        words = self.tables.words
        words[LAST_ROW] = max(int(words[LAST_ROW]), *rows[-1:].tolist(), -1)

    def _delete(self, fingerprints: NDArray[np.uint64], rows: NDArray[np.uint32], done: NDArray[np.bool_]) -> None:
        delete_directed(self.tables.words, fingerprints, rows, done)

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return the content as columns in row order: all that a snapshot needs. Copies."""
        tables = self.tables
        order = np.argsort(tables.rows, kind="stable")
        columns: dict[str, NDArray[Any]] = {
            "fingerprints": tables.fingerprints,
            "doubts": tables.doubts,
            "rows": tables.rows,
        }
        return {name: column[order] for name, column in columns.items()}

    @classmethod
    def from_arrays(
        cls,
        arrays: dict[str, NDArray[np.generic]],
        rules: SearchRules,
        documents_expected: int = 0,
        sketches: SketchColumn | None = None,
    ) -> DirectedIndex:
        """Return the index whose content is `arrays`, as `arrays()` gave it."""
        held = _columns(arrays["fingerprints"], arrays["doubts"])
        rows = rows_of(arrays["rows"], len(held[0]))
        index = cls(rules, max(documents_expected, len(rows)), sketches)
        index.tables.load(held, rows)
        return index

    def warm_up(self) -> None:
        """Compile, or load from the cache, what `judge` runs. Some seconds the first time, else a fraction of one."""
        nothing = np.zeros(1, np.uint64)
        DirectedIndex(self.rules).judge(nothing, nothing, np.zeros(1, SKETCH), 0)

    def _judge(self, columns: tuple[Column, Column], sketches: Column, first_row: int, mode: int) -> Judgement:
        fingerprints, doubts = _columns(*columns)
        count = len(fingerprints)
        if sketches.shape != (count, WORDS) or sketches.dtype != np.uint64:
            raise ValueError(f"each fingerprint has a sketch, uint64[{count}, {WORDS}], got {sketches.dtype} of "
                             f"shape {sketches.shape}")  # fmt: skip
        if mode != QUERY and not 0 <= first_row <= ROWS_MAX - count:
            raise ValueError(f"rows must be 0 to {ROWS_MAX - 1}, got first_row={first_row} and {count} more")
        fresh, places = np.ascontiguousarray(sketches), np.empty(count, np.int64)
        held = self._point_to(fresh, places, first_row)
        ranks = np.empty(count, np.int64)
        before = len(self)
        done = 0
        while done < count:
            if mode != QUERY:
                self.tables.maintain()
            row = first_row + len(self) - before
            done = judge_directed(self.tables.words, fingerprints, doubts, done, row, ranks, mode)
        del held
        is_match = ranks < UNCONFIRMED
        return Judgement(
            np.where(is_match, ranks & ROW_MASK, -1),
            np.where(is_match, ranks >> ROW_BITS & NO_MATCH, NO_MATCH).astype(np.uint8),
            np.where(is_match, LOOK_MAX - (ranks >> LOOK_SHIFT & LOOK_MASK), 0).astype(np.uint16),
            np.where(is_match, SIMILARITY_MAX - (ranks >> SIMILARITY_SHIFT), 0).astype(np.uint16),
            count - int(np.count_nonzero(is_match)),
        )

    def _point_to(self, fresh: NDArray[np.uint64], places: NDArray[np.int64], first_row: int) -> NDArray[np.int64]:
        """Tell the kernels where sketches lie; what is returned must live as long as they run."""
        words, held = self.tables.words, self.sketches
        known = 0 if held is None else len(held)
        if len(self) and words[LAST_ROW] >= known:
            raise ValueError(f"each indexed row has a sketch, got row {words[LAST_ROW]} and {known} sketches")
        addresses = np.empty(0, np.int64)
        if held is not None:
            addresses = held.addresses
            words[SKETCH_BITS], words[SKETCH_FIRST] = held.bits, held.first
        words[SKETCHES], words[FRESH_FIRST] = addresses.ctypes.data, first_row
        words[FRESH], words[FRESH_PLACES] = fresh.ctypes.data, places.ctypes.data
        return addresses


def _columns(
    fingerprints: NDArray[np.generic], doubts: NDArray[np.generic]
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    if len(doubts) != len(fingerprints):
        raise ValueError(f"each fingerprint has doubts, got {len(fingerprints)} fingerprints and {len(doubts)} doubts")
    return column_of(fingerprints), column_of(doubts)
