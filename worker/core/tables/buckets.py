"""
The kernels of one store of buckets: how an entry comes and goes, and how its bucket gets room from
its neighbours.

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
by `store.Buckets.maintain`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from worker.core.compiled import inner
from worker.core.kernels.machine import move16, move32, read32, read64, write16, write32, write64
from worker.core.tables.memory import Block, Store, TableMemory, kernel, signed

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
def head_of(store: Store, bucket: int) -> np.uint64:
    return read64(store.heads, bucket)


@inner
def start_of(head: np.uint64) -> int:
    return signed(head >> START_SHIFT)


@inner
def count_of(head: np.uint64) -> int:
    return signed(head & COUNT_MASK)


@inner
def mark_split(store: Store, bucket: int) -> None:
    write64(store.heads, bucket, head_of(store, bucket) | SPLIT)


@inner
def move_entries(store: Store, target: int, source: int, count: int) -> None:
    if store.wide:
        move16(store.filters, 3 * target, 3 * source, 3 * count)
    else:
        move32(store.filters, target, source, count)
    move32(store.refs, target, source, count)


@inner
def shift_bucket(store: Store, bucket: int, start: int) -> None:
    """
    Move a bucket's entries to another start. The caller knows that the places are free or its own.
    """
    head = head_of(store, bucket)
    old = start_of(head)
    if start != old:
        move_entries(store, start, old, count_of(head))
        write64(
            store.heads,
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
def lay_out(block: Block, counts: NDArray[np.int64], places: int, entries: int) -> None:
    """
    Give each bucket of an empty store room for `counts` entries, `entries` in all, and its share of
    what is free.
    """
    store: Store = block[0]
    buckets = store.buckets
    each = np.float64(places - entries) / np.float64(entries + SMOOTHING * buckets)
    held = signed(0)
    weight = np.float64(0.0)
    start = signed(0)
    for b in range(buckets):
        write64(store.heads, b, np.uint64(start) << START_SHIFT)
        held += counts[b]
        weight += np.float64(counts[b] + SMOOTHING)
        start = held + signed(weight * each)


@inner
def make_room(store: Store, bucket: int, moved_max: int) -> bool:
    """
    Give a full bucket a free place by dealing out those of its neighbourhood again. False if there
    is none within `moved_max`.
    """
    first = signed(0)
    last = store.buckets
    # What the sweep has still to deal lies behind it.
    gap = store.cursor - signed(store.direction > 0)
    if store.direction != 0 and bucket < gap:
        last = gap
    elif store.direction != 0 and bucket > gap:
        first = gap + 1
    width = signed(WINDOW_MIN)
    while True:
        low = max(first, bucket // width * width)
        high = min(last, bucket // width * width + width)
        entries = signed(0)
        for b in range(low, high):
            entries += count_of(head_of(store, b))
        free = start_of(head_of(store, high)) - start_of(head_of(store, low)) - entries
        if free >= 2 and free * 16 >= entries:
            break
        if entries > moved_max or (low == first and high == last):
            if free >= 1:
                break
            if entries > moved_max or last - first == store.buckets:
                return False
            # Rather disturb the sweep than fail.
            first = signed(0)
            last = store.buckets
        width *= 2
    deal(store, low, high, bucket)
    return True


@inner
def deal(store: Store, low: int, high: int, favoured: int) -> None:
    """
    Deal the free places of buckets `low` to `high` - 1 anew; the favoured one gets at least one.
    """
    store.dealt += high - low
    position = start_of(head_of(store, low))
    entries = signed(0)
    for b in range(low, high):  # gather to the left …
        shift_bucket(store, b, position)
        count = count_of(head_of(store, b))
        entries += count
        position += count
    top = start_of(head_of(store, high))
    free = top - position - 1
    for b in range(high - 1, low, -1):  # … and deal to the right
        count = count_of(head_of(store, b))
        dealt = share(free, b, count, entries, b + 1 - low)
        entries -= count
        free -= dealt
        top -= count + dealt + signed(b == favoured)
        shift_bucket(store, b, top)


@inner
def write_entry(store: Store, position: int, filter_: np.uint64, ref: np.uint32) -> None:
    if store.wide:
        for part in range(3):
            piece = np.uint64(filter_) >> np.uint64(16 * part)
            write16(store.filters, 3 * position + part, np.uint16(piece & np.uint64(0xFFFF)))
    else:
        write32(store.filters, position, np.uint32(filter_ & np.uint64(0xFFFFFFFF)))
    write32(store.refs, position, ref)


@inner
def append(store: Store, bucket: int, filter_: np.uint64, ref: np.uint32, moved_max: int) -> bool:
    """Add an entry. False: the bucket is full and its neighbourhood too; nothing was changed."""
    head = head_of(store, bucket)
    position = start_of(head) + count_of(head)
    if position == start_of(head_of(store, bucket + 1)):
        if count_of(head) == COUNT_MAX or not make_room(store, bucket, moved_max):
            return False
        head = head_of(store, bucket)
        position = start_of(head) + count_of(head)
    write_entry(store, position, filter_, ref)
    write64(store.heads, bucket, head + ONE)
    recount(store, bucket, signed(1))
    return True


@inner
def recount(store: Store, bucket: int, change: int) -> None:
    """Account for an entry that came or went."""
    store.entries += change
    if store.direction != 0 and store.direction * (bucket - store.cursor) >= 0:
        store.unswept += change


@inner
def place_of(store: Store, bucket: int, ref: np.uint32) -> int:
    """Return the position of the first entry with this reference in a bucket, or -1."""
    head = head_of(store, bucket)
    start = start_of(head)
    for position in range(start, start + count_of(head)):
        if read32(store.refs, position) == ref:
            return signed(position)
    return signed(-1)


@inner
def remove(store: Store, bucket: int, position: int) -> None:
    """Take out the entry at a position of a bucket; the bucket's last takes its place."""
    head = head_of(store, bucket)
    move_entries(store, position, start_of(head) + count_of(head) - 1, signed(1))
    write64(store.heads, bucket, head - ONE)
    recount(store, bucket, signed(-1))


@inner
def sweep(store: Store, steps: int) -> None:
    """Take the sweep so many buckets further."""
    for _ in range(steps):
        direction = store.direction
        b = store.cursor
        unswept = store.unswept
        buckets = store.buckets
        if direction == 0:
            return
        head = head_of(store, b)
        if direction < 0:
            top = start_of(head_of(store, b + 1))
            dealt = share(top - unswept, b, count_of(head), unswept, b + 1)
            shift_bucket(store, b, max(start_of(head), top - count_of(head) - dealt))
        elif b > 0:
            before = head_of(store, b - 1)
            end = start_of(before) + count_of(before)
            dealt = share(
                store.limit - end - unswept, b, count_of(before), unswept, buckets - b + 1
            )
            shift_bucket(store, b, min(start_of(head), end + dealt))
        else:
            shift_bucket(store, signed(0), signed(0))
        store.unswept = unswept - count_of(head)
        store.cursor = b + direction
        if b + direction < 0 or b + direction == buckets:
            store.direction = 0
            # Maintenance is due: it says how far this size goes without a sweep.
            store.grow_at = 0


@kernel
def sweep_now(block: Block, steps: int) -> None:
    """`sweep`, for Python."""
    store: Store = block[0]
    sweep(store, steps)


@inner
def sweep_on(memory: TableMemory) -> None:
    """Take the sweeps that are under way as far as one more change makes due."""
    sweep_due(memory.root)
    sweep_due(memory.deep)


@inner
def sweep_due(store: Store) -> None:
    """Take the sweep of one store, if it has one, as far as one more change makes due."""
    if store.direction != 0:
        due = store.due + store.pace
        if due >= store.due_max:
            sweep(store, due >> PACE_SHIFT)
            due &= (1 << PACE_SHIFT) - 1
        store.due = due


@inner
def has_room(memory: TableMemory) -> bool:
    """
    Return whether one more fingerprint can be indexed before the columns are to be made longer.
    """
    return bool(
        memory.held < memory.held_max
        and memory.root.entries < memory.root.grow_at
        and (memory.deep.buckets == 0 or memory.deep.entries < memory.deep.grow_at)
    )
