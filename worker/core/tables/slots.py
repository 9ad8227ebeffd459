"""
The slots of an index, the dense columns of what it holds, and maintenance of its memory: the same for either search.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.core.tables.columns import MappedColumn
from worker.core.tables.maintenance import Buckets
from worker.core.tables.words import BITS, FINGERPRINTS, FLAT, INDEX_WORDS, ROWS, SIZE, SLOTS, TABLES

SLOTS_MIN = 4_096
COUNTED_MAX = 1 << 20  # fingerprints counted at once: the temporaries stay small


class Slots(ABC):
    """
    The content of an index as kernels take it: one block of words that says where everything is.

    Below `flat_below` fingerprints there are no tables, and a search scans the slots.

    Args:
        columns: places in the block of words and element types of the columns by slot; the first are those that an
            insertion brings, fingerprints first.
        constants: places and values of columns that never change.
    """

    def __init__(
        self, bits: int, flat_below: int, columns: dict[int, Any], constants: dict[int, NDArray[np.generic]]
    ) -> None:
        self.flat_below = flat_below
        self.words = np.zeros(INDEX_WORDS, np.int64)
        self._constants = constants  # kept alive here: the words hold their addresses
        for place, values in constants.items():
            self.words[place] = values.ctypes.data
        self.words[BITS] = bits
        self.columns: dict[int, MappedColumn[Any]] = {place: MappedColumn(kind, 0) for place, kind in columns.items()}
        self._resize(SLOTS_MIN)
        self.stores: tuple[Buckets, ...] = ()
        self.words[FLAT] = 1

    def __len__(self) -> int:
        return int(self.words[SIZE])

    @property
    def flat(self) -> bool:
        """There are no tables."""
        return not self.stores

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of memory held: pages that were never written are not there, so slots count as far as they are used."""

    @property
    def fingerprints(self) -> NDArray[np.uint64]:
        """By slot. A view: keep it no longer than until the next change."""
        return self.column(FINGERPRINTS)

    @property
    def rows(self) -> NDArray[np.uint32]:
        """By slot. A view: keep it no longer than until the next change."""
        return self.column(ROWS)

    def column(self, place: int) -> NDArray[Any]:
        """One of the columns by slot. A view: keep it no longer than until the next change."""
        return self.columns[place].array[: len(self)]

    def maintain(self) -> None:
        """Make room for at least one more fingerprint, and give back what is no longer needed. Before each change."""
        size = len(self)
        if self.flat and size >= self.flat_below:
            self.load(self._held(), self.rows.copy())
            return
        if not self.flat and size < self.flat_below // 2:
            self._flatten()
        self._make_room()

    def load(self, held: tuple[NDArray[np.uint64], ...], rows: NDArray[np.uint32]) -> None:
        """Hold these and nothing else. Cost: for many at once less than half of inserting them."""
        self._flatten()
        self.words[SIZE] = 0
        self._resize(len(rows) + len(rows) // 8 + SLOTS_MIN)
        if len(rows) >= self.flat_below:
            self.stores = self._new_stores(len(rows))
            self.stores[0].deal(self._counts(held[0]))
            self.words[FLAT] = 0
            self._on_growth(len(rows))
        self._insert(held, rows, self._make_room)

    def insert(self, held: tuple[NDArray[np.uint64], ...], rows: NDArray[np.uint32]) -> None:
        """Index `held[0][i]` as `rows[i]`; `held[1]` are the doubts, where they are kept."""
        self._insert(held, rows, self.maintain)

    def _insert(
        self, held: tuple[NDArray[np.uint64], ...], rows: NDArray[np.uint32], when_full: Callable[[], None]
    ) -> None:
        """The same. A load only makes room when full: halfway it would be too small for tables, and lose them."""
        numbers = rows.astype(np.int64)
        done = 0
        while (done := self._enter(held, numbers, done)) < len(rows):
            when_full()

    @abstractmethod
    def _enter(self, held: tuple[NDArray[np.uint64], ...], rows: NDArray[np.int64], begin: int) -> int:
        """Index from `begin` on; gives where it stopped for want of room."""

    @abstractmethod
    def _held(self) -> tuple[NDArray[np.uint64], ...]:
        """Copies of the columns that an insertion brings."""

    @abstractmethod
    def _new_stores(self, documents: int) -> tuple[Buckets, ...]:
        """Empty stores for so many; the first has 2^BITS buckets for each table."""

    @abstractmethod
    def _buckets(self, table: int, fingerprints: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the buckets of fingerprints within a table."""

    def _on_growth(self, documents: int) -> None:  # noqa: B027  # most have nothing to do
        """Adapt to the number held."""

    def _make_room(self) -> None:
        size, slots = len(self), int(self.words[SLOTS])
        if size >= slots or slots > 2 * size + SLOTS_MIN:
            self._resize(size + size // 2 + SLOTS_MIN // 2)
        for store in self.stores:
            store.maintain()
        if self.stores:
            self._on_growth(self.stores[0].entries // int(self.words[TABLES]))

    def _counts(self, fingerprints: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Entries of each bucket, were these inserted."""
        bits = int(self.words[BITS])
        counts = np.zeros((int(self.words[TABLES]), 1 << bits), np.int64)
        for table in range(len(counts)):
            for begin in range(0, len(fingerprints), COUNTED_MAX):
                buckets = self._buckets(table, fingerprints[begin : begin + COUNTED_MAX])
                counts[table] += np.bincount(buckets, minlength=1 << bits)
        return counts.ravel()

    def _flatten(self) -> None:
        self.stores = ()
        self.words[FLAT] = 1

    def _resize(self, slots: int) -> None:
        for place, column in self.columns.items():
            column.resize(slots)
            self.words[place] = column.address
        self.words[SLOTS] = slots

    def check(self) -> None:
        """Assert the invariants of the columns."""
        assert len(self) <= self.words[SLOTS]
        assert all(len(column) == self.words[SLOTS] for column in self.columns.values())
        assert self.flat == bool(self.words[FLAT])
        for store in self.stores:
            store.check()
