"""
The store of buckets: for each bucket its entries side by side, all buckets in one pair of columns, in bucket order.

    head of bucket b    start (38 bits) | split (1 bit) | count (25 bits)         one word
    filters, refs       [ b=0: e e e . . | b=1: e . . | b=2: e e e e . | … ]      e an entry, . free

The entries of bucket b begin at its start; what is free after them reaches to the start of bucket b + 1. An entry is a
32-bit filter and a 32-bit reference at the same position of two columns, so that a scan reads filters only. The filters
of a wide store have 48 bits.

There is no allocator: a full bucket takes free places from its neighbours by moving a few of them (as in a packed
memory array). When free places run short overall, the columns are made longer at their end and a sweep from the last
bucket to the first spreads the new room, a few buckets with each insertion; when many are free, a sweep from the first
to the last gathers the entries and the columns are cut. Every state in between is a valid one, so nothing ever pauses.

A kernel finds a store in a block of words, at `at` and the places named below.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from worker.core.kernels.machine import move16, move32, read32, read64, write16, write32, write64
from worker.core.tables.words import Words, inner, kernel, signed

HEADS = signed(0)  # address of the heads: one more than buckets, the last one's start is the columns' length
FILTERS = signed(1)  # address; NUMBER_LANES more elements than places, so that a vector may be read anywhere
REFS = signed(2)  # address
BUCKETS = signed(3)
ENTRIES = signed(4)  # entries held
DIRECTION = signed(5)  # of the sweep: -1 spreads from the last bucket down, 1 gathers from the first up, 0 none
CURSOR = signed(6)  # the bucket that the sweep takes next
UNSWEPT = signed(7)  # entries in the cursor's bucket and those after it in the sweep's direction
LIMIT = signed(8)  # gathering: where the entries shall end
PACE = signed(9)  # buckets that the sweep takes for each insertion or deletion, in 256ths
GROW_AT = signed(10)  # entries from which on no insertion begins: the columns are to be made longer first
DEALT = signed(11)  # buckets gone over to make room, ever: what insertions cost beyond their own writing
DUE = signed(12)  # buckets that the sweep owes, in 256ths
DUE_MAX = signed(13)  # when it owes so many it takes them, one after the other: the processor reads ahead
WIDE = signed(14)  # 1: filters are 48 bits, three elements of 16 each
STORE_WORDS = 15
PACE_SHIFT = 8

COUNT_BITS = 25
COUNT_MAX = signed((1 << COUNT_BITS) - 1)
SPLIT = np.uint64(1 << COUNT_BITS)  # entries of this bucket may also be in its sub-tables
START_SHIFT = np.uint64(COUNT_BITS + 1)
COUNT_MASK = np.uint64(COUNT_MAX)
ONE = np.uint64(1)

SMOOTHING = signed(8)  # free places go to buckets in proportion to entries + 8: small ones vary more
STRIDE = np.uint64(0x9E3779B97F4A7C15)  # the golden ratio: consecutive multiples fill a circle evenly
WINDOW_MIN = signed(8)  # buckets that a full one looks at first
MOVED_MAX = signed(32_768)  # entries moved to make room for one: 256 KB, some 20 µs


@inner
def head_of(words: Words, at: int, bucket: int) -> np.uint64:
    return read64(words[at + HEADS], bucket)


@inner
def start_of(head: np.uint64) -> int:
    return signed(head >> START_SHIFT)


@inner
def count_of(head: np.uint64) -> int:
    return signed(head & COUNT_MASK)


@inner
def mark_split(words: Words, at: int, bucket: int) -> None:
    write64(words[at + HEADS], bucket, head_of(words, at, bucket) | SPLIT)


@inner
def move_entries(words: Words, at: int, target: int, source: int, count: int) -> None:
    if words[at + WIDE]:
        move16(words[at + FILTERS], 3 * target, 3 * source, 3 * count)
    else:
        move32(words[at + FILTERS], target, source, count)
    move32(words[at + REFS], target, source, count)


@inner
def shift_bucket(words: Words, at: int, bucket: int, start: int) -> None:
    """Move a bucket's entries to another start. The caller knows that the places are free or its own."""
    head = head_of(words, at, bucket)
    old = start_of(head)
    if start != old:
        move_entries(words, at, start, old, count_of(head))
        write64(words[at + HEADS], bucket, (np.uint64(start) << START_SHIFT) | (head & (SPLIT | COUNT_MASK)))


@inner
def share(free: int, bucket: int, count: int, entries: int, buckets: int) -> int:
    """
    How many of `free` places a bucket of `count` gets when they are dealt to `buckets` buckets of `entries`.

    Halves are rounded up in one bucket and down in the next, by its number: rounded down in all, few would get any.
    """
    if free <= 0:
        return signed(0)
    due = np.float64(free) * np.float64(count + SMOOTHING) / np.float64(entries + SMOOTHING * buckets)
    dither = np.float64(np.uint64(bucket) * STRIDE >> np.uint64(40)) * 2.0**-24
    return min(signed(free), signed(due + dither))


@kernel
def lay_out(words: Words, at: int, counts: NDArray[np.int64], places: int, entries: int) -> None:
    """Give each bucket of an empty store room for `counts` entries, `entries` in all, and its share of what is free."""
    buckets = words[at + BUCKETS]
    each = np.float64(places - entries) / np.float64(entries + SMOOTHING * buckets)
    held, weight, start = signed(0), np.float64(0.0), signed(0)
    for b in range(buckets):
        write64(words[at + HEADS], b, np.uint64(start) << START_SHIFT)
        held += counts[b]
        weight += np.float64(counts[b] + SMOOTHING)
        start = held + signed(weight * each)


@inner
def make_room(words: Words, at: int, bucket: int, moved_max: int) -> bool:
    """Give a full bucket a free place by dealing those of its neighbourhood anew. False: none within `moved_max`."""
    first, last = signed(0), words[at + BUCKETS]
    gap = words[at + CURSOR] - signed(words[at + DIRECTION] > 0)  # what the sweep has still to deal lies behind it
    if words[at + DIRECTION] != 0 and bucket < gap:
        last = gap
    elif words[at + DIRECTION] != 0 and bucket > gap:
        first = gap + 1
    width = signed(WINDOW_MIN)
    while True:
        low = max(first, bucket // width * width)
        high = min(last, bucket // width * width + width)
        entries = signed(0)
        for b in range(low, high):
            entries += count_of(head_of(words, at, b))
        free = start_of(head_of(words, at, high)) - start_of(head_of(words, at, low)) - entries
        if free >= 2 and free * 16 >= entries:
            break
        if entries > moved_max or (low == first and high == last):
            if free >= 1:
                break
            if entries > moved_max or last - first == words[at + BUCKETS]:
                return False
            first, last = signed(0), words[at + BUCKETS]  # rather disturb the sweep than fail
        width *= 2
    deal(words, at, low, high, bucket)
    return True


@inner
def deal(words: Words, at: int, low: int, high: int, favoured: int) -> None:
    """Deal the free places of buckets `low` to `high` - 1 anew; the favoured one gets at least one."""
    words[at + DEALT] += high - low
    position = start_of(head_of(words, at, low))
    entries = signed(0)
    for b in range(low, high):  # gather to the left …
        shift_bucket(words, at, b, position)
        count = count_of(head_of(words, at, b))
        entries += count
        position += count
    top = start_of(head_of(words, at, high))
    free = top - position - 1
    for b in range(high - 1, low, -1):  # … and deal to the right
        count = count_of(head_of(words, at, b))
        dealt = share(free, b, count, entries, b + 1 - low)
        entries -= count
        free -= dealt
        top -= count + dealt + signed(b == favoured)
        shift_bucket(words, at, b, top)


@inner
def write_entry(words: Words, at: int, position: int, filter_: np.uint64, ref: np.uint32) -> None:
    if words[at + WIDE]:
        for part in range(3):
            piece = np.uint64(filter_) >> np.uint64(16 * part)
            write16(words[at + FILTERS], 3 * position + part, np.uint16(piece & np.uint64(0xFFFF)))
    else:
        write32(words[at + FILTERS], position, np.uint32(filter_ & np.uint64(0xFFFFFFFF)))
    write32(words[at + REFS], position, ref)


@inner
def append(words: Words, at: int, bucket: int, filter_: np.uint64, ref: np.uint32, moved_max: int) -> bool:
    """Add an entry. False: the bucket is full and its neighbourhood too; nothing was changed."""
    head = head_of(words, at, bucket)
    position = start_of(head) + count_of(head)
    if position == start_of(head_of(words, at, bucket + 1)):
        if count_of(head) == COUNT_MAX or not make_room(words, at, bucket, moved_max):
            return False
        head = head_of(words, at, bucket)
        position = start_of(head) + count_of(head)
    write_entry(words, at, position, filter_, ref)
    write64(words[at + HEADS], bucket, head + ONE)
    recount(words, at, bucket, signed(1))
    return True


@inner
def recount(words: Words, at: int, bucket: int, change: int) -> None:
    """Account for an entry that came or went."""
    words[at + ENTRIES] += change
    if words[at + DIRECTION] != 0 and words[at + DIRECTION] * (bucket - words[at + CURSOR]) >= 0:
        words[at + UNSWEPT] += change


@inner
def place_of(words: Words, at: int, bucket: int, ref: np.uint32) -> int:
    """The position of the first entry with this reference in a bucket, or -1."""
    head = head_of(words, at, bucket)
    start = start_of(head)
    for position in range(start, start + count_of(head)):
        if read32(words[at + REFS], position) == ref:
            return signed(position)
    return signed(-1)


@inner
def remove(words: Words, at: int, bucket: int, position: int) -> None:
    """Take out the entry at a position of a bucket; the bucket's last takes its place."""
    head = head_of(words, at, bucket)
    move_entries(words, at, position, start_of(head) + count_of(head) - 1, signed(1))
    write64(words[at + HEADS], bucket, head - ONE)
    recount(words, at, bucket, signed(-1))


@kernel
def sweep(words: Words, at: int, steps: int) -> None:
    """Take the sweep so many buckets further."""
    for _ in range(steps):
        direction, b = words[at + DIRECTION], words[at + CURSOR]
        unswept, buckets = words[at + UNSWEPT], words[at + BUCKETS]
        if direction == 0:
            return
        head = head_of(words, at, b)
        if direction < 0:
            top = start_of(head_of(words, at, b + 1))
            dealt = share(top - unswept, b, count_of(head), unswept, b + 1)
            shift_bucket(words, at, b, max(start_of(head), top - count_of(head) - dealt))
        elif b > 0:
            before = head_of(words, at, b - 1)
            end = start_of(before) + count_of(before)
            dealt = share(words[at + LIMIT] - end - unswept, b, count_of(before), unswept, buckets - b + 1)
            shift_bucket(words, at, b, min(start_of(head), end + dealt))
        else:
            shift_bucket(words, at, signed(0), signed(0))
        words[at + UNSWEPT] = unswept - count_of(head)
        words[at + CURSOR] = b + direction
        if b + direction < 0 or b + direction == buckets:
            words[at + DIRECTION] = 0
            words[at + GROW_AT] = 0  # maintenance is due: it says how far this size goes without a sweep
