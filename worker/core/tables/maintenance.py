"""
Maintenance of a bucket store: its columns made longer before they are full, and cut when they empty, without a pause.

Kernels change what the columns hold; the columns themselves are changed here, between two kernel calls.
"""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.core.kernels.machine import NUMBER_LANES
from worker.core.tables.columns import MappedColumn
from worker.core.tables.store import (
    BUCKETS,
    COUNT_MASK,
    CURSOR,
    DIRECTION,
    DUE,
    DUE_MAX,
    ENTRIES,
    FILTERS,
    GROW_AT,
    HEADS,
    LIMIT,
    PACE,
    PACE_SHIFT,
    REFS,
    START_SHIFT,
    STORE_WORDS,
    UNSWEPT,
    WIDE,
    lay_out,
    sweep,
)
from worker.core.tables.words import Words

SHIFT = int(START_SHIFT)
FREE_MAX = 6  # places kept free for a bucket
SPARE, WIDE_SPARE = 4, 6  # one in so many of the entries' places is free after growing
GATHER_STEPS = 8  # of a sweep that gathers, with each change
SWEPT_TOGETHER = 256  # entries that a sweep moves in a row
TOGETHER_MAX = 32  # buckets


class Buckets:
    """
    One bucket store: its columns, and its words within the block that kernels are given.

    Places kept free: a quarter of the entries and 6 a bucket after growing; growing begins at 9 % and 3 a bucket: with
    fewer a full bucket would look far for a free place. With fewer entries than buckets it is 1 a bucket and 5 an
    entry, 0.4 and 2.1: a new store is small, and made at once. At 10 M documents in 4 tables that is 32 B of entries
    in 35 to 42 B of columns. A wide store's entries are longer, so it keeps a sixth free, not a quarter.

    Args:
        words: the block; the store's words begin at `at`.
        buckets: how many.
        per_insertion: entries that one insertion may add.
        entries: how many are expected.
        wide: filters of 48 bits, not 32.
    """

    def __init__(
        self, words: Words, at: int, buckets: int, per_insertion: int, entries: int, *, wide: bool = False
    ) -> None:
        self._block = words
        self._at = at
        self._words = words[at : at + STORE_WORDS]
        self._words[:] = 0
        self._buckets = self._words[BUCKETS] = buckets
        self._spare = WIDE_SPARE if wide else SPARE
        self._per_insertion = per_insertion
        self.heads = MappedColumn(np.uint64, buckets + 1)
        self._words[HEADS] = self.heads.address
        self._words[WIDE] = self._wide = int(wide)
        self.filters: MappedColumn[Any] = MappedColumn(np.uint16 if wide else np.uint32, 0)
        self.refs = MappedColumn(np.uint32, 0)
        self._resize(self._size_for(entries))
        self._words[GROW_AT] = self._grow_at()

    @property
    def entries(self) -> int:
        """Entries held."""
        return int(self._words[ENTRIES])

    @property
    def nbytes(self) -> int:
        """Bytes of memory held; an empty store has columns, but no page of them was ever written."""
        return (self.heads.array.nbytes + self.filters.array.nbytes + self.refs.array.nbytes) * (self.entries > 0)

    def deal(self, counts: NDArray[np.int64]) -> None:
        """Give each empty bucket the places that so many entries need, and the free ones their share."""
        lay_out(self._block, self._at, counts, len(self.refs), int(counts.sum()))

    def maintain(self) -> None:
        """Begin to grow or to shrink where it is time, and finish what a sweep has prepared. Before each change."""
        words = self._words
        if words[DIRECTION] != 0 and words[ENTRIES] >= words[GROW_AT]:
            sweep(self._block, self._at, self._buckets)  # too slow for this load: finish it now
        if words[DIRECTION] == 0 and words[LIMIT]:
            self._cut()
        if words[DIRECTION] == 0:
            if words[ENTRIES] >= self._grow_at():
                self.grow()
            elif len(self.refs) > 2 * self._size_for(self.entries):
                words[LIMIT] = self._size_for(self.entries)
                self._begin(1, 0, GATHER_STEPS)
        words[GROW_AT] = len(self.refs) - self._per_insertion if words[DIRECTION] else self._grow_at()

    def check(self) -> None:
        """Assert that buckets lie in order within the columns and that their counts add up."""
        heads = self.heads.array
        starts = (heads >> START_SHIFT).astype(np.int64)
        counts = (heads & COUNT_MASK).astype(np.int64)
        assert starts[0] >= 0
        assert starts[-1] == len(self.refs)
        assert len(self.filters) == self._filter_elements(len(self.refs))
        assert (starts[:-1] + counts[:-1] <= starts[1:]).all()
        assert counts[:-1].sum() == self._words[ENTRIES]
        cursor, direction = int(self._words[CURSOR]), int(self._words[DIRECTION])
        if direction:
            unswept = counts[: cursor + 1] if direction < 0 else counts[cursor:-1]
            assert unswept.sum() == self._words[UNSWEPT]

    def contents(self) -> tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.uint32]]:
        """Bucket, filter and reference of every entry, for checks."""
        heads = self.heads.array[:-1]
        counts = (heads & COUNT_MASK).astype(np.int64)
        buckets = np.repeat(np.arange(self._buckets), counts)
        first = np.repeat((heads >> START_SHIFT).astype(np.int64) - (np.cumsum(counts) - counts), counts)
        places = first + np.arange(len(buckets))
        if not self._wide:
            return buckets, self.filters.array[places].astype(np.uint64), self.refs.array[places]
        parts = (self.filters.array[3 * places + part].astype(np.uint64) << np.uint64(16 * part) for part in range(3))
        return buckets, sum(parts, np.zeros(len(places), np.uint64)), self.refs.array[places]

    def _size_for(self, entries: int) -> int:
        free = min(FREE_MAX * self._buckets, self._buckets + (FREE_MAX - 1) * entries)
        return entries + entries // self._spare + free + 2 * self._per_insertion

    def _grow_at(self) -> int:
        size = len(self.refs) - self._per_insertion
        filled = (size - 3 * self._buckets) / 1.09
        return int(filled if filled > self._buckets else (size - 0.4 * self._buckets) / 3.16)

    def grow(self) -> None:
        """Make the columns longer at their end; the coming insertions sweep the room through the buckets."""
        free = max(1, len(self.refs) - self.entries)  # a third of it may be used up before the sweep is through
        self._resize(max(self._size_for(self.entries), len(self.refs) + self._per_insertion))
        self._begin(-1, self._buckets - 1, 3 * self._per_insertion * self._buckets / free)

    def _cut(self) -> None:
        last = int(self.heads.array[-2])
        end = (last >> SHIFT) + (last & int(COUNT_MASK))
        self._resize(max(end + self._per_insertion, int(self._words[LIMIT])))
        self._words[LIMIT] = 0

    def _resize(self, size: int) -> None:
        self.filters.resize(self._filter_elements(size))
        self.refs.resize(size)
        self.heads.array[-1] = np.uint64(size << SHIFT)
        self._words[FILTERS] = self.filters.address
        self._words[REFS] = self.refs.address

    def _filter_elements(self, size: int) -> int:
        """So many that a vector may be read at any place."""
        return 3 * (size + NUMBER_LANES) + NUMBER_LANES // 2 if self._wide else size + NUMBER_LANES

    def _begin(self, direction: int, cursor: int, steps: float) -> None:
        together = SWEPT_TOGETHER * self._buckets // max(1, self.entries)
        self._words[PACE] = ceil(min(self._buckets, steps) * (1 << PACE_SHIFT))
        self._words[DUE_MAX] = max(1, min(together, TOGETHER_MAX)) << PACE_SHIFT
        self._words[DUE] = 0
        self._words[DIRECTION] = direction
        self._words[CURSOR] = cursor
        self._words[UNSWEPT] = self._words[ENTRIES]
