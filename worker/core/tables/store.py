"""
What an index holds, between two kernel calls: its stores of buckets, which grow and shrink without
a pause.

    Buckets   one store: its columns, made longer or cut where it is time
    Tables    what the index holds, for either search: its stores, and what its engine adds

`buckets` draws how entries lie, and has the kernels that change them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import ceil
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.core.kernels.nearness import NUMBER_LANES, WIDE_LANES
from worker.core.tables.buckets import COUNT_MASK, PACE_SHIFT, START_SHIFT, lay_out, sweep_now
from worker.core.tables.columns import MappedColumn
from worker.core.tables.memory import INSERT_GIVEN, Store, TableMemory

WIDE_READ_MAX = 7 * WIDE_LANES  # the most entries of a wide store compared at a time
SHIFT = int(START_SHIFT)


class Slack(NamedTuple):
    """Places that are kept free, beyond those of the entries."""

    spare: int  # after growing, one for so many entries
    free_max: int  # and so many for each bucket
    grow_share: float  # growing begins at so many for each entry
    grow_free: float  # and so many for each bucket

    def size_for(self, entries: int, buckets: int) -> int:
        """Return the places to begin with, after growing."""
        free = min(self.free_max * buckets, buckets + (self.free_max - 1) * entries)
        return entries + entries // self.spare + free

    def grow_at(self, size: int, buckets: int) -> int:
        """Return the number of entries from which on so many places are too few."""
        filled = (size - self.grow_free * buckets) / (1 + self.grow_share)
        return int(filled if filled > buckets else (size - 0.4 * buckets) / 3.16)


# Half of it in a wide store costs a third more for each insertion, and three times the longest
# pause: full buckets look far for a free place.
SLACK = Slack(spare=4, free_max=6, grow_share=0.09, grow_free=3)
WIDE_SLACK = Slack(spare=10, free_max=5, grow_share=0.05, grow_free=2.5)
RESERVED_AHEAD = 64  # one of so many entries before growing, room for it is mapped
GATHER_STEPS = 8  # at least, of a sweep that gathers, with each change
SWEPT_TOGETHER = 256  # entries that a sweep moves in a row
TOGETHER_MAX = 32  # buckets


class Buckets:
    """
    One store of buckets: its columns, and what kernels know of them.

    Places kept free are those of `Slack`: a quarter of the entries and 6 a bucket after growing,
    and growing begins at 9 % and 3 a bucket. With fewer entries than buckets it is 1 a bucket and 5
    an entry, 0.4 and 2.1: a new store is small, and made at once. At 10 M documents in 4 tables
    that is 32 B of entries in 35 to 42 B of columns. A wide store's entries are longer and its
    buckets have more of them, so it keeps less free: 40 B of entries in 43 to 46 B.

    Args:
        numbers: the store's, in the block that kernels are given.
        buckets: how many.
        per_insertion: entries that one insertion may add.
        entries: how many are expected.
        wide: filters of 48 bits, not 32.
    """

    def __init__(
        self,
        numbers: Store,
        buckets: int,
        per_insertion: int,
        entries: int,
        *,
        wide: bool = False,
    ) -> None:
        numbers.clear()
        self._own = numbers
        self._buckets = numbers.buckets = buckets
        self._slack = WIDE_SLACK if wide else SLACK
        self._per_insertion = per_insertion
        self.heads = MappedColumn(np.uint64, buckets + 1)
        self._own.heads = self.heads.address
        self._own.wide = self._wide = int(wide)
        self.filters: MappedColumn[Any] = MappedColumn(np.uint16 if wide else np.uint32, 0)
        self.refs = MappedColumn(np.uint32, 0)
        self._resize(self._size_for(entries))
        self._own.grow_at = self._grow_at()

    @property
    def entries(self) -> int:
        """Entries held."""
        return int(self._own.entries)

    @property
    def nbytes(self) -> int:
        """
        Bytes of memory held; of a store that was never dealt nor filled no page was ever written.
        """
        return sum(one.array.nbytes for one in (self.heads, self.filters, self.refs)) * bool(
            self.heads.array[-2]
        )

    def maintain(self) -> None:
        """
        Begin to grow or to shrink where it is time, and finish what a sweep has prepared. Before
        each change.
        """
        own = self._own
        if own.direction != 0 and own.entries >= own.grow_at:
            self.finish_sweep()  # too slow for this load
        if own.direction == 0 and own.limit:
            self._cut()
        if own.direction == 0:
            grow_at = self._grow_at()
            if own.entries >= grow_at:
                self.grow()
            elif own.entries >= grow_at - grow_at // RESERVED_AHEAD:
                self._reserve(self._size_for(grow_at + self._per_insertion))
            elif len(self.refs) > 2 * self._size_for(self.entries):
                own.limit = self._size_for(self.entries)
                self._begin(1, 0, max(GATHER_STEPS, self._per_insertion))
        own.grow_at = len(self.refs) - self._per_insertion if own.direction else self._grow_at()

    def back(self) -> bool:
        """Make one huge page ahead of those that the columns will grow by; False: there is none."""
        return self.filters.back(len(self.filters)) or self.refs.back(len(self.refs))

    def finish_sweep(self) -> None:
        """Take the sweep to its end, if one is under way."""
        sweep_now(self._own.block, self._buckets)

    def check(self) -> None:
        """Assert that buckets lie in order within the columns and that their counts add up."""
        heads = self.heads.array
        starts = (heads >> START_SHIFT).astype(np.int64)
        counts = (heads & COUNT_MASK).astype(np.int64)
        assert starts[0] >= 0
        assert starts[-1] == len(self.refs)
        assert len(self.filters) == self._filter_elements(len(self.refs))
        assert (starts[:-1] + counts[:-1] <= starts[1:]).all()
        assert counts[:-1].sum() == self._own.entries
        cursor = int(self._own.cursor)
        direction = int(self._own.direction)
        if direction:
            unswept = counts[: cursor + 1] if direction < 0 else counts[cursor:-1]
            assert unswept.sum() == self._own.unswept

    def contents(
        self, first: int = 0, stop: int | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.uint32]]:
        """Bucket, filter and reference of every entry of buckets `first` to `stop` - 1."""
        heads = self.heads.array[:-1][first:stop]
        counts = (heads & COUNT_MASK).astype(np.int64)
        buckets = np.repeat(np.arange(first, first + len(heads)), counts)
        offsets = np.repeat(
            (heads >> START_SHIFT).astype(np.int64) - (np.cumsum(counts) - counts), counts
        )
        places = offsets + np.arange(len(buckets))
        if not self._wide:
            return buckets, self.filters.array[places].astype(np.uint64), self.refs.array[places]
        parts = (
            self.filters.array[3 * places + part].astype(np.uint64) << np.uint64(16 * part)
            for part in range(3)
        )
        return buckets, sum(parts, np.zeros(len(places), np.uint64)), self.refs.array[places]

    def _size_for(self, entries: int) -> int:
        return self._slack.size_for(entries, self._buckets) + 2 * self._per_insertion

    def _grow_at(self) -> int:
        return self._slack.grow_at(len(self.refs) - self._per_insertion, self._buckets)

    def grow(self) -> None:
        """
        Make the columns longer at their end. The next insertions spread the room over the buckets.
        """
        # A third of it may be used up before the sweep is through.
        free = max(1, len(self.refs) - self.entries)
        self._resize(max(self._size_for(self.entries), len(self.refs) + self._per_insertion))
        self._begin(-1, self._buckets - 1, 3 * self._per_insertion * self._buckets / free)

    def _cut(self) -> None:
        last = int(self.heads.array[-2])
        end = (last >> SHIFT) + (last & int(COUNT_MASK))
        self._resize(max(end + self._per_insertion, int(self._own.limit)))
        self._own.limit = 0

    def _reserve(self, size: int) -> None:
        self.filters.reserve(self._filter_elements(size))
        self._own.filters = self.filters.address
        self.refs.reserve(size)
        self._own.refs = self.refs.address

    def _resize(self, size: int) -> None:
        self.filters.resize(self._filter_elements(size))
        self._own.filters = self.filters.address
        self.refs.resize(size)
        self._own.refs = self.refs.address
        self.heads.array[-1] = np.uint64(size << SHIFT)

    def _filter_elements(self, size: int) -> int:
        """
        So many that vectors may be read at any place; those of a wide store end 16 bytes later.
        """
        return 3 * (size + WIDE_READ_MAX) + 8 if self._wide else size + NUMBER_LANES

    def _begin(self, direction: int, cursor: int, steps: float) -> None:
        together = SWEPT_TOGETHER * self._buckets // max(1, self.entries)
        self._own.pace = ceil(min(self._buckets, steps) * (1 << PACE_SHIFT))
        self._own.due_max = max(1, min(together, TOGETHER_MAX)) << PACE_SHIFT
        self._own.due = 0
        self._own.direction = direction
        self._own.cursor = cursor
        self._own.unswept = self._own.entries


DEALT_FROM = 4_096  # fingerprints from which on the stores of an empty index are made for them
COUNTED_MAX = 1 << 20  # fingerprints counted at once: the temporaries stay small


class Tables(ABC):
    """
    The content of an index as kernels take it: one block of numbers that says where everything is.

    Args:
        tables: how many; `bits`: of a bucket number within one.
        constants: columns that never change, by the names of their addresses.
    """

    kind: ClassVar[type[TableMemory]]  # of the block
    brought: ClassVar[int]  # columns that an insertion brings, fingerprints first
    _match: ClassVar[Any]  # the engine's kernels
    _delete: ClassVar[Any]

    def __init__(self, tables: int, bits: int, constants: dict[str, NDArray[np.generic]]) -> None:
        self.memory = self.kind()
        self._constants = constants  # kept alive here: the block holds their addresses
        self.memory.point_to(constants)
        self.memory.tables = tables
        self.memory.bits = bits
        self.memory.last_row = -1
        self.stores: tuple[Buckets, ...] = ()
        self._size_for(np.empty(0, np.uint64))

    def __len__(self) -> int:
        return self.memory.held

    @property
    def nbytes(self) -> int:
        """Bytes of memory held: pages that were never written are not there."""
        return sum(store.nbytes for store in self.stores)

    @property
    @abstractmethod
    def latest(self) -> NDArray[np.uint32]:
        """The rows indexed last, as far as `renumber` can change them. A view."""

    @abstractmethod
    def renumber(self, rows: NDArray[np.uint32]) -> None:
        """Give the last of the `latest` other numbers, which ascend and are no smaller."""

    @abstractmethod
    def equal_bound(self, fingerprint: int) -> int:
        """
        Return an upper bound of the rows with this very fingerprint that a search may see.

        A search keeps at most RANKS_MAX candidates, so an exact index stops counting there. A
        directed one may count a row once for each table that lists it.
        """

    @abstractmethod
    def contents(self) -> list[NDArray[Any]]:
        """Return the columns that were brought, and the rows, by ascending row. Copies."""

    def maintain(self) -> None:
        """
        Make room for at least one more fingerprint, and give back what is no longer needed. Before
        each change.
        """
        for store in self.stores:
            store.maintain()
        self._on_growth(self.stores[0].entries // self.memory.tables)
        self._back()

    def insert(self, held: list[NDArray[np.uint64]], rows: NDArray[np.uint32]) -> None:
        """
        Index `held[0][i]` as `rows[i]`; `held[1]` are the doubts, where they are kept.

        An empty index is made for many at once, in less than half the time; for few all its buckets
        would cost more.
        """
        if len(self) or len(rows) < DEALT_FROM:
            self.maintain()
        else:
            self._size_for(held[0])
        numbers = rows.astype(np.int64)
        done = 0
        while (done := self.match(held, done, 0, numbers, INSERT_GIVEN)) < len(rows):
            self.maintain()

    def match(
        self,
        held: list[NDArray[np.uint64]],
        begin: int,
        first_row: int,
        ranks: NDArray[np.int64],
        mode: int,
    ) -> int:
        """
        Search, and index according to `mode`, from fingerprint `begin` on; return where it stopped.

        It stops at the end, or earlier where the columns are to be made longer first. The results
        go to `ranks`, UNCONFIRMED or more for no match. A fingerprint that is indexed has the row
        `first_row` + (its place among those indexed since `begin`); with INSERT_GIVEN `ranks` says
        the rows, nothing is searched and there are no results.
        """
        return int(self._match(self.memory.block, *held, begin, first_row, ranks, mode))

    def note_latest(self, fingerprints: NDArray[np.uint64], first_row: int) -> None:  # noqa: B027
        """Remember what a call has indexed, from `first_row` on, if `renumber` needs it."""

    def delete(
        self, fingerprints: NDArray[np.uint64], rows: NDArray[np.uint32], done: NDArray[np.bool_]
    ) -> None:
        """Take out rows; `done[i]` tells whether row i was there under its fingerprint."""
        self._delete(self.memory.block, fingerprints, rows, done)

    @abstractmethod
    def _new_stores(self, documents: int) -> tuple[Buckets, ...]:
        """Empty stores for so many; the first has 2^bits buckets for each table."""

    @abstractmethod
    def _buckets(self, table: int, fingerprints: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The buckets of fingerprints within a table."""

    def _back(self) -> bool:
        """Make one huge page ahead of those that will be needed first; False: there is none."""
        return any(store.back() for store in self.stores)

    def _on_growth(self, documents: int) -> None:  # noqa: B027  # most have nothing to do
        """Adapt to the number held."""

    def _size_for(self, fingerprints: NDArray[np.uint64]) -> None:
        """Make empty stores for these."""
        count = len(fingerprints)
        self.stores = self._new_stores(count)
        counts = self._counts(fingerprints)
        lay_out(self.memory.root.block, counts, len(self.stores[0].refs), int(counts.sum()))
        self._on_growth(count)

    def _counts(self, fingerprints: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Entries of each bucket, were these inserted."""
        bits = self.memory.bits
        counts = np.zeros((self.memory.tables, 1 << bits), np.int64)
        for table in range(len(counts)):
            for begin in range(0, len(fingerprints), COUNTED_MAX):
                buckets = self._buckets(table, fingerprints[begin : begin + COUNTED_MAX])
                counts[table] += np.bincount(buckets, minlength=1 << bits)
        return counts.ravel()

    def check(self) -> None:
        """Assert the invariants of the stores."""
        assert len(self) <= self.memory.held_max
        for store in self.stores:
            store.check()
