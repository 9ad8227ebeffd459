"""
The store of buckets: how an index's fingerprints lie in memory, and how that grows and shrinks
without a pause.

    Memory        the numbers that kernels are given in place of an index: where everything is
    MappedColumn  an array that grows and shrinks in place
    Buckets       entries by bucket, for the tables of an index
    Tables        what the index holds, for either search: its stores, and what its engine adds

For each bucket its entries stand side by side, all buckets in one pair of columns, in bucket order:

    head of bucket b    start (38 bits) | split (1 bit) | count (25 bits)         one number
    filters, refs       [ b=0: e e e . . | b=1: e . . | b=2: e e e e . | … ]      e an entry, . free

The entries of bucket b begin at its start; what is free after them reaches to the start of bucket b
+ 1. An entry is a filter and a 32-bit reference at the same position of two columns, so that a scan
reads filters only. Exact search has filters of 32 bits and refers to slots. Directed search has a
*wide* store: filters of 48 bits, and references that are rows.

There is no allocator: a full bucket takes free places from its neighbours by moving a few of them
(as in a packed memory array). When free places run short overall, the columns are made longer at
their end and a sweep from the last bucket to the first spreads the new room, a few buckets with
each insertion; when many are free, a sweep from the first to the last gathers the entries and the
columns are cut. Every state in between is a valid one, so nothing ever pauses.

Kernels change what the columns hold; the columns themselves are changed between two kernel calls,
by `maintain`.
"""

from __future__ import annotations

import mmap
from abc import ABC, abstractmethod
from contextlib import suppress
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from worker.core import compiled
from worker.core.compiled import inner
from worker.core.kernels.machine import (
    NUMBER_LANES,
    WIDE_LANES,
    move16,
    move32,
    read32,
    read64,
    write16,
    write32,
    write64,
)
from worker.errors import safe_repr

if TYPE_CHECKING:
    signed = int
else:
    signed = np.int64  # every signed number of a kernel

kernel = partial(compiled.kernel, counted=False)  # the kernels of the tables own no memory
Memory = NDArray[np.int64]

# A place in the block is an `np.int64` and not a plain integer: numba compiles a kernel anew for
# each plain constant that is passed to it.
BASE = signed(0)  # the store with 2^BITS buckets for each table
DEEP = signed(16)  # the exact index's store of all sub-tables, hashed
SIZE = signed(34)  # fingerprints held
SIZE_MAX = signed(35)  # for how many there is room, but for their entries
TABLES = signed(36)
BITS = signed(37)  # of a bucket number within a table
DISTANCE_MAX = signed(38)  # k
LAST_ROW = signed(39)  # the greatest that was ever indexed
# Filters read by directed searches and by those of the exact one for all matches, ever.
READ = signed(40)
CONFIRM = signed(41)  # what `confirm` knows
ENGINE = signed(64)  # what one engine alone knows
MEMORY_SIZE = 192

ROWS_MAX = 2**32  # a row is 32 bits in memory and in snapshots
QUERY = 0  # change nothing
INSERT_NEW = 1  # index what has no match
INSERT_ALL = 2  # index everything
INSERT_GIVEN = 3  # index everything as the rows that are given, and search nothing

# The numbers of one bucket store, from BASE or DEEP on.
# Address of the heads: one more than buckets, the last one's start is the columns' length.
HEADS = signed(0)
FILTERS = signed(1)  # address; longer than the places, so that vectors may be read anywhere
REFS = signed(2)  # address
BUCKETS = signed(3)
ENTRIES = signed(4)  # entries held
# Of the sweep: -1 spreads from the last bucket down, 1 gathers from the first up, 0 none.
DIRECTION = signed(5)
CURSOR = signed(6)  # the bucket that the sweep takes next
UNSWEPT = signed(7)  # entries in the cursor's bucket and those after it in the sweep's direction
LIMIT = signed(8)  # gathering: where the entries shall end
PACE = signed(9)  # buckets that the sweep takes for each insertion or deletion, in 256ths
# Entries from which on no insertion begins: the columns are to be made longer first.
GROW_AT = signed(10)
# Buckets gone over to make room, ever: what insertions cost beyond their own writing.
DEALT = signed(11)
DUE = signed(12)  # buckets that the sweep owes, in 256ths
# When it owes so many it takes them, one after the other: the processor reads ahead.
DUE_MAX = signed(13)
WIDE = signed(14)  # 1: filters are 48 bits, three elements of 16 each
STORE_SIZE = 15
WIDE_READ_MAX = 7 * WIDE_LANES  # entries of a wide store that a search compares at a time
PACE_SHIFT = 8

COUNT_BITS = 25
COUNT_MAX = signed((1 << COUNT_BITS) - 1)
SPLIT = np.uint64(1 << COUNT_BITS)  # entries of this bucket may also be in its sub-tables
START_SHIFT = np.uint64(COUNT_BITS + 1)
COUNT_MASK = np.uint64(COUNT_MAX)
ONE = np.uint64(1)

# Free places go to buckets in proportion to entries + 8: small ones vary more.
SMOOTHING = signed(8)
# The golden ratio: consecutive multiples fill a circle evenly.
STRIDE = np.uint64(0x9E3779B97F4A7C15)
WINDOW_MIN = signed(8)  # buckets that a full one looks at first
UNLIMITED = signed(1 << 62)
MOVED_MAX = signed(32_768)  # entries moved to make room for one: 256 KB, some 20 µs


@inner
def head_of(memory: Memory, at: int, bucket: int) -> np.uint64:
    return read64(memory[at + HEADS], bucket)


@inner
def start_of(head: np.uint64) -> int:
    return signed(head >> START_SHIFT)


@inner
def count_of(head: np.uint64) -> int:
    return signed(head & COUNT_MASK)


@inner
def mark_split(memory: Memory, at: int, bucket: int) -> None:
    write64(memory[at + HEADS], bucket, head_of(memory, at, bucket) | SPLIT)


@inner
def move_entries(memory: Memory, at: int, target: int, source: int, count: int) -> None:
    if memory[at + WIDE]:
        move16(memory[at + FILTERS], 3 * target, 3 * source, 3 * count)
    else:
        move32(memory[at + FILTERS], target, source, count)
    move32(memory[at + REFS], target, source, count)


@inner
def shift_bucket(memory: Memory, at: int, bucket: int, start: int) -> None:
    """
    Move a bucket's entries to another start. The caller knows that the places are free or its own.
    """
    head = head_of(memory, at, bucket)
    old = start_of(head)
    if start != old:
        move_entries(memory, at, start, old, count_of(head))
        write64(
            memory[at + HEADS],
            bucket,
            (np.uint64(start) << START_SHIFT) | (head & (SPLIT | COUNT_MASK)),
        )


@inner
def share(free: int, bucket: int, count: int, entries: int, buckets: int) -> int:
    """
    Return how many of `free` places a bucket of `count` entries gets when they are dealt to
    `buckets` buckets with `entries` entries.

    Halves are rounded up in one bucket and down in the next, by its number: rounded down in all,
    few would get any.
    """
    if free <= 0:
        return signed(0)
    due = (
        np.float64(free) * np.float64(count + SMOOTHING) / np.float64(entries + SMOOTHING * buckets)
    )
    dither = np.float64(np.uint64(bucket) * STRIDE >> np.uint64(40)) * 2.0**-24
    return min(signed(free), signed(due + dither))


@kernel
def lay_out(memory: Memory, at: int, counts: NDArray[np.int64], places: int, entries: int) -> None:
    """
    Give each bucket of an empty store room for `counts` entries, `entries` in all, and its share of
    what is free.
    """
    buckets = memory[at + BUCKETS]
    each = np.float64(places - entries) / np.float64(entries + SMOOTHING * buckets)
    held = signed(0)
    weight = np.float64(0.0)
    start = signed(0)
    for b in range(buckets):
        write64(memory[at + HEADS], b, np.uint64(start) << START_SHIFT)
        held += counts[b]
        weight += np.float64(counts[b] + SMOOTHING)
        start = held + signed(weight * each)


@inner
def make_room(memory: Memory, at: int, bucket: int, moved_max: int) -> bool:
    """
    Give a full bucket a free place by dealing out those of its neighbourhood again. False if there
    is none within `moved_max`.
    """
    first = signed(0)
    last = memory[at + BUCKETS]
    # What the sweep has still to deal lies behind it.
    gap = memory[at + CURSOR] - signed(memory[at + DIRECTION] > 0)
    if memory[at + DIRECTION] != 0 and bucket < gap:
        last = gap
    elif memory[at + DIRECTION] != 0 and bucket > gap:
        first = gap + 1
    width = signed(WINDOW_MIN)
    while True:
        low = max(first, bucket // width * width)
        high = min(last, bucket // width * width + width)
        entries = signed(0)
        for b in range(low, high):
            entries += count_of(head_of(memory, at, b))
        free = start_of(head_of(memory, at, high)) - start_of(head_of(memory, at, low)) - entries
        if free >= 2 and free * 16 >= entries:
            break
        if entries > moved_max or (low == first and high == last):
            if free >= 1:
                break
            if entries > moved_max or last - first == memory[at + BUCKETS]:
                return False
            # Rather disturb the sweep than fail.
            first = signed(0)
            last = memory[at + BUCKETS]
        width *= 2
    deal(memory, at, low, high, bucket)
    return True


@inner
def deal(memory: Memory, at: int, low: int, high: int, favoured: int) -> None:
    """
    Deal the free places of buckets `low` to `high` - 1 anew; the favoured one gets at least one.
    """
    memory[at + DEALT] += high - low
    position = start_of(head_of(memory, at, low))
    entries = signed(0)
    for b in range(low, high):  # gather to the left …
        shift_bucket(memory, at, b, position)
        count = count_of(head_of(memory, at, b))
        entries += count
        position += count
    top = start_of(head_of(memory, at, high))
    free = top - position - 1
    for b in range(high - 1, low, -1):  # … and deal to the right
        count = count_of(head_of(memory, at, b))
        dealt = share(free, b, count, entries, b + 1 - low)
        entries -= count
        free -= dealt
        top -= count + dealt + signed(b == favoured)
        shift_bucket(memory, at, b, top)


@inner
def write_entry(memory: Memory, at: int, position: int, filter_: np.uint64, ref: np.uint32) -> None:
    if memory[at + WIDE]:
        for part in range(3):
            piece = np.uint64(filter_) >> np.uint64(16 * part)
            write16(memory[at + FILTERS], 3 * position + part, np.uint16(piece & np.uint64(0xFFFF)))
    else:
        write32(memory[at + FILTERS], position, np.uint32(filter_ & np.uint64(0xFFFFFFFF)))
    write32(memory[at + REFS], position, ref)


@inner
def append(
    memory: Memory, at: int, bucket: int, filter_: np.uint64, ref: np.uint32, moved_max: int
) -> bool:
    """Add an entry. False: the bucket is full and its neighbourhood too; nothing was changed."""
    head = head_of(memory, at, bucket)
    position = start_of(head) + count_of(head)
    if position == start_of(head_of(memory, at, bucket + 1)):
        if count_of(head) == COUNT_MAX or not make_room(memory, at, bucket, moved_max):
            return False
        head = head_of(memory, at, bucket)
        position = start_of(head) + count_of(head)
    write_entry(memory, at, position, filter_, ref)
    write64(memory[at + HEADS], bucket, head + ONE)
    recount(memory, at, bucket, signed(1))
    return True


@inner
def recount(memory: Memory, at: int, bucket: int, change: int) -> None:
    """Account for an entry that came or went."""
    memory[at + ENTRIES] += change
    if memory[at + DIRECTION] != 0 and memory[at + DIRECTION] * (bucket - memory[at + CURSOR]) >= 0:
        memory[at + UNSWEPT] += change


@inner
def place_of(memory: Memory, at: int, bucket: int, ref: np.uint32) -> int:
    """Return the position of the first entry with this reference in a bucket, or -1."""
    head = head_of(memory, at, bucket)
    start = start_of(head)
    for position in range(start, start + count_of(head)):
        if read32(memory[at + REFS], position) == ref:
            return signed(position)
    return signed(-1)


@inner
def remove(memory: Memory, at: int, bucket: int, position: int) -> None:
    """Take out the entry at a position of a bucket; the bucket's last takes its place."""
    head = head_of(memory, at, bucket)
    move_entries(memory, at, position, start_of(head) + count_of(head) - 1, signed(1))
    write64(memory[at + HEADS], bucket, head - ONE)
    recount(memory, at, bucket, signed(-1))


@kernel
def sweep(memory: Memory, at: int, steps: int) -> None:
    """Take the sweep so many buckets further."""
    for _ in range(steps):
        direction = memory[at + DIRECTION]
        b = memory[at + CURSOR]
        unswept = memory[at + UNSWEPT]
        buckets = memory[at + BUCKETS]
        if direction == 0:
            return
        head = head_of(memory, at, b)
        if direction < 0:
            top = start_of(head_of(memory, at, b + 1))
            dealt = share(top - unswept, b, count_of(head), unswept, b + 1)
            shift_bucket(memory, at, b, max(start_of(head), top - count_of(head) - dealt))
        elif b > 0:
            before = head_of(memory, at, b - 1)
            end = start_of(before) + count_of(before)
            dealt = share(
                memory[at + LIMIT] - end - unswept, b, count_of(before), unswept, buckets - b + 1
            )
            shift_bucket(memory, at, b, min(start_of(head), end + dealt))
        else:
            shift_bucket(memory, at, signed(0), signed(0))
        memory[at + UNSWEPT] = unswept - count_of(head)
        memory[at + CURSOR] = b + direction
        if b + direction < 0 or b + direction == buckets:
            memory[at + DIRECTION] = 0
            # Maintenance is due: it says how far this size goes without a sweep.
            memory[at + GROW_AT] = 0


T = TypeVar("T", bound=np.generic)
HUGE_PAGE = 1 << 21
# Bytes from which a column lies in huge pages: heads are 2 MB, and read at random.
HUGE_FROM = 1 << 21


@inner
def sweep_on(memory: Memory) -> None:
    """Take the sweeps that are under way as far as one more change makes due."""
    for at in (BASE, DEEP):
        if memory[at + DIRECTION] != 0:
            due = memory[at + DUE] + memory[at + PACE]
            if due >= memory[at + DUE_MAX]:
                sweep(memory, at, due >> PACE_SHIFT)
                due &= (1 << PACE_SHIFT) - 1
            memory[at + DUE] = due


@inner
def has_room(memory: Memory) -> bool:
    """
    Return whether one more fingerprint can be indexed before the columns are to be made longer.
    """
    return bool(
        memory[SIZE] < memory[SIZE_MAX]
        and memory[BASE + ENTRIES] < memory[BASE + GROW_AT]
        and (memory[DEEP + BUCKETS] == 0 or memory[DEEP + ENTRIES] < memory[DEEP + GROW_AT])
    )


class MappedColumn(Generic[T]):
    """
    A one-dimensional array of zeros that can be resized. Hold no reference to `array` across
    `resize`.

    `address` is where its first element lies, for kernels; it changes with `resize`.
    """

    def __init__(self, dtype: type[T], size: int) -> None:
        self._dtype: np.dtype[Any] = np.dtype(dtype)
        self._map = self._new(size)
        self._show(size)

    def __len__(self) -> int:
        return len(self.array)

    def resize(self, size: int) -> None:
        """
        Make the column `size` long: new elements are 0, cut elements are gone.

        Microseconds on Linux; a copy elsewhere, or while somebody holds a view. MemoryError: the
        column is as it was.
        """
        before = len(self.array)
        # Stays mapped: it must not come back.
        self.array[size : self._bytes(size) // self._dtype.itemsize] = 0
        del self.array
        try:
            self._map.resize(self._bytes(size))
        except (BufferError, SystemError, OSError, ValueError):
            old = np.frombuffer(self._map, self._dtype)
            try:
                replacement = self._new(size)
            except OSError as error:
                self._show(before)
                raise MemoryError(
                    f"no memory for a column of {size} elements of {self._dtype}"
                ) from error
            kept = min(size, before)
            np.frombuffer(replacement, self._dtype)[:kept] = old[:kept]
            self._map = replacement
        self._show(size)

    def _show(self, size: int) -> None:
        self.array: NDArray[T] = np.frombuffer(self._map, self._dtype)[:size]
        self.address = int(self.array.ctypes.data)
        if len(self._map) >= HUGE_FROM and hasattr(mmap, "MADV_HUGEPAGE"):
            with suppress(OSError):  # a system without them
                self._map.madvise(mmap.MADV_HUGEPAGE)

    def _new(self, size: int) -> mmap.mmap:
        return mmap.mmap(-1, self._bytes(size), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)

    def _bytes(self, size: int) -> int:
        wanted = max(1, size) * self._dtype.itemsize
        page = mmap.PAGESIZE if wanted < HUGE_FROM else HUGE_PAGE
        return -(-wanted // page) * page


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
GATHER_STEPS = 8  # at least, of a sweep that gathers, with each change
SWEPT_TOGETHER = 256  # entries that a sweep moves in a row
TOGETHER_MAX = 32  # buckets


class Buckets:
    """
    One bucket store: its columns, and its numbers within the block that kernels are given.

    Places kept free are those of `Slack`: a quarter of the entries and 6 a bucket after growing,
    and growing begins at 9 % and 3 a bucket. With fewer entries than buckets it is 1 a bucket and 5
    an entry, 0.4 and 2.1: a new store is small, and made at once. At 10 M documents in 4 tables
    that is 32 B of entries in 35 to 42 B of columns. A wide store's entries are longer and its
    buckets have more of them, so it keeps less free: 40 B of entries in 43 to 46 B.

    Args:
        memory: the block; the store's numbers begin at `at`.
        buckets: how many.
        per_insertion: entries that one insertion may add.
        entries: how many are expected.
        wide: filters of 48 bits, not 32.
    """

    def __init__(
        self,
        memory: Memory,
        at: int,
        buckets: int,
        per_insertion: int,
        entries: int,
        *,
        wide: bool = False,
    ) -> None:
        self._memory = memory
        self._at = at
        self._own = memory[at : at + STORE_SIZE]
        self._own[:] = 0
        self._buckets = self._own[BUCKETS] = buckets
        self._slack = WIDE_SLACK if wide else SLACK
        self._per_insertion = per_insertion
        self.heads = MappedColumn(np.uint64, buckets + 1)
        self._own[HEADS] = self.heads.address
        self._own[WIDE] = self._wide = int(wide)
        self.filters: MappedColumn[Any] = MappedColumn(np.uint16 if wide else np.uint32, 0)
        self.refs = MappedColumn(np.uint32, 0)
        self._resize(self._size_for(entries))
        self._own[GROW_AT] = self._grow_at()

    @property
    def entries(self) -> int:
        """Entries held."""
        return int(self._own[ENTRIES])

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
        if own[DIRECTION] != 0 and own[ENTRIES] >= own[GROW_AT]:
            sweep(self._memory, self._at, self._buckets)  # too slow for this load: finish it now
        if own[DIRECTION] == 0 and own[LIMIT]:
            self._cut()
        if own[DIRECTION] == 0:
            if own[ENTRIES] >= self._grow_at():
                self.grow()
            elif len(self.refs) > 2 * self._size_for(self.entries):
                own[LIMIT] = self._size_for(self.entries)
                self._begin(1, 0, max(GATHER_STEPS, self._per_insertion))
        own[GROW_AT] = len(self.refs) - self._per_insertion if own[DIRECTION] else self._grow_at()

    def check(self) -> None:
        """Assert that buckets lie in order within the columns and that their counts add up."""
        heads = self.heads.array
        starts = (heads >> START_SHIFT).astype(np.int64)
        counts = (heads & COUNT_MASK).astype(np.int64)
        assert starts[0] >= 0
        assert starts[-1] == len(self.refs)
        assert len(self.filters) == self._filter_elements(len(self.refs))
        assert (starts[:-1] + counts[:-1] <= starts[1:]).all()
        assert counts[:-1].sum() == self._own[ENTRIES]
        cursor = int(self._own[CURSOR])
        direction = int(self._own[DIRECTION])
        if direction:
            unswept = counts[: cursor + 1] if direction < 0 else counts[cursor:-1]
            assert unswept.sum() == self._own[UNSWEPT]

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
        self._resize(max(end + self._per_insertion, int(self._own[LIMIT])))
        self._own[LIMIT] = 0

    def _resize(self, size: int) -> None:
        self.filters.resize(self._filter_elements(size))
        self.refs.resize(size)
        self.heads.array[-1] = np.uint64(size << SHIFT)
        self._own[FILTERS] = self.filters.address
        self._own[REFS] = self.refs.address

    def _filter_elements(self, size: int) -> int:
        """
        So many that vectors may be read at any place; those of a wide store end 16 bytes later.
        """
        return 3 * (size + WIDE_READ_MAX) + 8 if self._wide else size + NUMBER_LANES

    def _begin(self, direction: int, cursor: int, steps: float) -> None:
        together = SWEPT_TOGETHER * self._buckets // max(1, self.entries)
        self._own[PACE] = ceil(min(self._buckets, steps) * (1 << PACE_SHIFT))
        self._own[DUE_MAX] = max(1, min(together, TOGETHER_MAX)) << PACE_SHIFT
        self._own[DUE] = 0
        self._own[DIRECTION] = direction
        self._own[CURSOR] = cursor
        self._own[UNSWEPT] = self._own[ENTRIES]


DEALT_FROM = 4_096  # fingerprints from which on the stores of an empty index are made for them
COUNTED_MAX = 1 << 20  # fingerprints counted at once: the temporaries stay small


class Tables(ABC):
    """
    The content of an index as kernels take it: one block of numbers that says where everything is.

    Args:
        tables: how many; `bits`: of a bucket number within one.
        constants: places and values of columns that never change.
    """

    brought: ClassVar[int]  # columns that an insertion brings, fingerprints first
    _match: ClassVar[Any]  # the engine's kernels
    _delete: ClassVar[Any]

    def __init__(self, tables: int, bits: int, constants: dict[int, NDArray[np.generic]]) -> None:
        self.memory = np.zeros(MEMORY_SIZE, np.int64)
        self._constants = constants  # kept alive here: the block holds their addresses
        for place, values in constants.items():
            self.memory[place] = values.ctypes.data
        self.memory[[TABLES, BITS, LAST_ROW]] = tables, bits, -1
        self.stores: tuple[Buckets, ...] = ()
        self._size_for(np.empty(0, np.uint64))

    def __len__(self) -> int:
        return int(self.memory[SIZE])

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
    def contents(self) -> list[NDArray[Any]]:
        """Return the columns that were brought, and the rows, by ascending row. Copies."""

    def maintain(self) -> None:
        """
        Make room for at least one more fingerprint, and give back what is no longer needed. Before
        each change.
        """
        for store in self.stores:
            store.maintain()
        self._on_growth(self.stores[0].entries // int(self.memory[TABLES]))

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
        return int(self._match(self.memory, *held, begin, first_row, ranks, mode))

    def note_latest(self, fingerprints: NDArray[np.uint64], first_row: int) -> None:  # noqa: B027
        """Remember what a call has indexed, from `first_row` on, if `renumber` needs it."""

    def delete(
        self, fingerprints: NDArray[np.uint64], rows: NDArray[np.uint32], done: NDArray[np.bool_]
    ) -> None:
        """Take out rows; `done[i]` tells whether row i was there under its fingerprint."""
        self._delete(self.memory, fingerprints, rows, done)

    @abstractmethod
    def _new_stores(self, documents: int) -> tuple[Buckets, ...]:
        """Empty stores for so many; the first has 2^BITS buckets for each table."""

    @abstractmethod
    def _buckets(self, table: int, fingerprints: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The buckets of fingerprints within a table."""

    def _on_growth(self, documents: int) -> None:  # noqa: B027  # most have nothing to do
        """Adapt to the number held."""

    def _size_for(self, fingerprints: NDArray[np.uint64]) -> None:
        """Make empty stores for these."""
        count = len(fingerprints)
        self.stores = self._new_stores(count)
        counts = self._counts(fingerprints)
        lay_out(self.memory, BASE, counts, len(self.stores[0].refs), int(counts.sum()))
        self._on_growth(count)

    def _counts(self, fingerprints: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Entries of each bucket, were these inserted."""
        bits = int(self.memory[BITS])
        counts = np.zeros((int(self.memory[TABLES]), 1 << bits), np.int64)
        for table in range(len(counts)):
            for begin in range(0, len(fingerprints), COUNTED_MAX):
                buckets = self._buckets(table, fingerprints[begin : begin + COUNTED_MAX])
                counts[table] += np.bincount(buckets, minlength=1 << bits)
        return counts.ravel()

    def check(self) -> None:
        """Assert the invariants of the stores."""
        assert len(self) <= self.memory[SIZE_MAX]
        for store in self.stores:
            store.check()


def column_of(values: NDArray[np.generic], name: str = "fingerprint") -> NDArray[np.uint64]:
    """
    Return 64-bit numbers as kernels take them. Raises TypeError, ValueError for another type or
    shape.
    """
    if not isinstance(values, np.ndarray):
        raise TypeError(
            f"{name}s are one column of uint64, got {safe_repr(values):.50}: np.array([…], "
            f"np.uint64)"
        )
    if values.ndim != 1 or (len(values) and values.dtype != np.uint64):
        raise ValueError(
            f"{name}s are one column of uint64, got {values.dtype} of shape {values.shape}: "
            f"another type would lose or "
            f"change bits"
        )
    return np.ascontiguousarray(values, np.uint64)


def rows_of(rows: NDArray[np.generic], count: int, name: str = "fingerprint") -> NDArray[np.uint32]:
    """
    Return `count` rows as kernels take them. Raises ValueError for another number, or beyond 32
    bits.
    """
    if len(rows) != count:
        raise ValueError(f"one row for each {name}, got {count} {name}s and {len(rows)} rows")
    if (
        rows.dtype != np.uint32
        and len(rows)
        and not 0 <= int(rows.min()) <= int(rows.max()) < ROWS_MAX
    ):
        raise ValueError(f"rows must be 0 to {ROWS_MAX - 1}, got {rows.min()} to {rows.max()}")
    return np.ascontiguousarray(rows, np.uint32)
