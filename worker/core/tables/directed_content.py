"""All columns of a directed index: the slots with their doubts, and one bucket store for the tables of all blocks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from worker.core.search import BITS as BITS_ALL
from worker.core.search import SearchRules
from worker.core.tables.directed import CONFIRMED_MAX, FOUND_MAX
from worker.core.tables.directing import judge_directed
from worker.core.tables.judging import INSERT_GIVEN
from worker.core.tables.maintenance import Buckets
from worker.core.tables.patterns import FILTER_MASK, scratch_words
from worker.core.tables.slots import Slots
from worker.core.tables.words import (
    BASE,
    BITS,
    DISTANCE_MAX,
    DOUBTS,
    FINGERPRINTS,
    FOUND,
    LAST_ROW,
    LOOK_MIN,
    PATTERNS,
    PIECE_ENDS,
    PIECES,
    PREFIX_MAX,
    PROBES,
    ROWS,
    SIMILARITY_MIN,
    TABLES,
    WIDTHS,
)


class DirectedTables(Slots):
    """The content of a directed index. `flat_below` is at most `prefix_max`: a scan of all slots needs no count."""

    def __init__(self, rules: SearchRules, bits: int, flat_below: int) -> None:
        self._pieces = [_pieces(runs) for runs in rules.runs]
        constants: dict[int, NDArray[np.generic]] = {
            PIECES: np.array([piece for pieces in self._pieces for piece in pieces], np.uint64),
            PIECE_ENDS: np.cumsum([0, *map(len, self._pieces)]).astype(np.uint64),
            WIDTHS: np.array([sum(width for _, width in runs) for runs in rules.runs], np.uint64),
            PROBES: np.zeros(scratch_words(rules.blocks, rules.patterns), np.uint64),
            FOUND: np.zeros(int(FOUND_MAX + CONFIRMED_MAX), np.uint64),
        }
        columns = {FINGERPRINTS: np.uint64, DOUBTS: np.uint64, ROWS: np.uint32}
        super().__init__(bits, min(flat_below, rules.prefix_max), columns, constants)
        self.words[[TABLES, PATTERNS, LOOK_MIN]] = rules.blocks, rules.patterns, rules.look_min
        self.words[[DISTANCE_MAX, PREFIX_MAX, LAST_ROW]] = rules.max_distance, rules.prefix_max, -1
        self.words[SIMILARITY_MIN] = rules.similarity_min

    @property
    def nbytes(self) -> int:
        """Bytes of memory held."""
        return 20 * len(self) + sum(store.nbytes for store in self.stores)

    @property
    def doubts(self) -> NDArray[np.uint64]:
        """By slot. A view: keep it no longer than until the next change."""
        return self.column(DOUBTS)

    def check(self) -> None:
        """Assert the invariants of slots and entries: each slot once in each table, the earliest of a bucket first."""
        super().check()
        if self.flat:
            return
        bits, prefix_max = int(self.words[BITS]), int(self.words[PREFIX_MAX])
        buckets, filters, refs = self.stores[0].contents()
        assert (self.rows <= self.words[LAST_ROW]).all()
        for table in range(len(self._pieces)):
            mine = buckets >> bits == table
            held = self.fingerprints[refs[mine]]
            assert (np.sort(refs[mine]) == np.arange(len(self))).all()
            assert (filters[mine] == self._arranged(table, held) & FILTER_MASK).all()
            assert (buckets[mine] & ((1 << bits) - 1) == self._buckets(table, held)).all()
        for bucket in np.flatnonzero(np.bincount(buckets) > prefix_max):
            rows = self.rows[refs[buckets == bucket]]
            first, rest = rows[:prefix_max], rows[prefix_max:]
            assert first.max() < rest.min()
            assert (rest >= rest[(np.arange(len(rest)) - 1).clip(0) // 2]).all()

    def _enter(self, held: tuple[NDArray[np.uint64], ...], rows: NDArray[np.int64], begin: int) -> int:
        return int(judge_directed(self.words, *held, begin, 0, rows, INSERT_GIVEN))

    def _held(self) -> tuple[NDArray[np.uint64], ...]:
        return self.fingerprints.copy(), self.doubts.copy()

    def _new_stores(self, documents: int) -> tuple[Buckets, ...]:
        tables = len(self._pieces)
        return (Buckets(self.words, BASE, tables << int(self.words[BITS]), tables, tables * documents, wide=True),)

    def _buckets(self, table: int, fingerprints: NDArray[np.uint64]) -> NDArray[np.int64]:
        top = np.uint64(BITS_ALL - int(self.words[BITS]))
        return (self._arranged(table, fingerprints) >> top).astype(np.int64)

    def _arranged(self, table: int, fingerprints: NDArray[np.uint64]) -> NDArray[np.uint64]:
        arranged = np.zeros_like(fingerprints)
        for right, mask, left in self._pieces[table]:
            arranged |= (fingerprints >> np.uint64(right) & np.uint64(mask)) << np.uint64(left)
        return arranged


def _pieces(runs: tuple[tuple[int, int], ...]) -> list[tuple[int, int, int]]:
    """
    Return what takes a block's runs to the top, the last topmost, and the other bits below: (right, mask, left) each.

    >>> _pieces(((16, 16),))
    [(16, 65535, 48), (32, 4294967295, 16), (0, 65535, 0)]
    """
    rest, end = [], 0
    for low, width in (*runs, (BITS_ALL, 0)):
        if low > end:
            rest.append((end, low - end))
        end = low + width
    pieces, left = [], BITS_ALL
    for low, width in (*reversed(runs), *reversed(rest)):
        left -= width
        pieces.append((low, (1 << width) - 1, left))
    return pieces
