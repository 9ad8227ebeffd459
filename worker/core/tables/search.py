"""
Looking up: the kernels that find the best match, or all, of a fingerprint in the tables.

    fingerprint -> its prefix under each permutation -> bucket -> filters scanned -> candidates compared in full

The filter of a fingerprint is its upper half xor its lower half: two fingerprints that differ in d bits have filters
that differ in at most d, and of unrelated ones about 1 in a million come within 3. It is the same in every table.

A bucket that would be scanned for long is *split*: what no longer goes into it goes into sub-tables, keyed by the
table's prefix and one of k + 1 groups of the other bits. k differing bits leave one group equal, so nothing is missed;
and a sub-table's bucket can be split again. That bounds the scan when many fingerprints share a prefix.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from worker.core.kernels.machine import NUMBER_LANES, lanes_within, popcount, prefetch, read32, read64, trailing_zeros
from worker.core.tables.store import FILTERS, HEADS, REFS, SPLIT, count_of, head_of, start_of
from worker.core.tables.words import (
    BASE,
    BITS,
    CHILDREN,
    DEEP,
    DEEP_BITS,
    DISTANCE_MAX,
    FACTORS,
    FAN,
    FINGERPRINTS,
    FLAT,
    FLIP_ENDS,
    FLIPPED,
    FLIPS,
    MASKS,
    PENDING,
    READ,
    ROWS,
    SIZE,
    TABLES,
    Words,
    inner,
    kernel,
    signed,
)

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX = np.uint64(0xD6E8FEB86659FD93)
HALF = np.uint64(32)
LOW_HALF = np.uint64(0xFFFFFFFF)
ONE_BIT = signed(1 << 32)  # a candidate's rank is distance << 32 | row: the smallest is the best
ASKED_MAX = signed(192)  # filters of one bucket that are asked for ahead, 12 cache lines


@inner
def word(words: Words, column: int, position: int) -> int:
    """An element of a column of 64-bit numbers, as a signed one."""
    return signed(read64(words[column], position))


@inner
def fold(fingerprint: np.uint64) -> np.uint32:
    """The filter of a fingerprint."""
    return np.uint32((fingerprint ^ (fingerprint >> HALF)) & LOW_HALF)


@inner
def root_bucket(words: Words, table: int, fingerprint: np.uint64) -> int:
    key = (fingerprint & read64(words[MASKS], table)) * read64(words[FACTORS], table)
    return signed(key >> np.uint64(64 - words[BITS])) + signed(table << words[BITS])


@inner
def deep_bucket(words: Words, node: int, fingerprint: np.uint64) -> int:
    """
    The bucket of a sub-table's prefix, hashed: sub-tables share buckets, the filter tells their entries apart.

    Those that have sub-tables of their own use the even ones, the others the odd ones. So all that share a bucket
    follow one rule for when it is full, and a deletion finds an entry where the insertion has put it.
    """
    key = ((fingerprint & read64(words[MASKS], node)) + np.uint64(node)) * GOLDEN
    key = (key ^ (key >> HALF)) * MIX
    bucket = signed((key ^ (key >> HALF)) * GOLDEN >> np.uint64(65 - words[DEEP_BITS]))
    return 2 * bucket + signed(word(words, CHILDREN, node) == 0)


@inner
def scan(words: Words, at: int, bucket: int, fingerprint: np.uint64, best: int, slot: int) -> tuple[int, int]:
    """The better of `best` (a rank, with its slot) and the bucket's best."""
    head = head_of(words, at, bucket)
    start = start_of(head)
    end = start + count_of(head)
    own = fold(fingerprint)
    limit = np.uint32((best - 1) >> 32)
    filters = words[at + FILTERS]
    position = start
    while position < end:
        near = lanes_within(filters, position, own, limit)
        position += NUMBER_LANES
        while near:
            place = position - NUMBER_LANES + signed(trailing_zeros(near))
            near &= near - np.uint32(1)
            if place < end:  # the last vector reaches past the bucket
                candidate = signed(read32(words[at + REFS], place))
                distance = signed(popcount(read64(words[FINGERPRINTS], candidate) ^ fingerprint))
                if distance <= signed(limit):
                    rank = (distance << 32) | signed(read32(words[ROWS], candidate))
                    if rank < best:
                        best = rank
                        slot = candidate
    return signed(best), signed(slot)


@inner
def push_children(words: Words, node: int, waiting: int) -> int:
    """Put a node's sub-tables on the stack; gives how many wait there now."""
    first = word(words, CHILDREN, node)
    for child in range(words[FAN] if first else 0):
        words[PENDING + waiting] = first + child
        waiting += 1
    return signed(waiting)


@inner
def scan_deep(
    words: Words, table: int, probe: np.uint64, fingerprint: np.uint64, best: int, slot: int
) -> tuple[int, int]:
    """The same over the sub-tables of a split bucket. `probe` is the fingerprint with the prefix that was probed."""
    waiting = push_children(words, table, signed(0))
    while waiting and best >= ONE_BIT:
        waiting -= 1
        node = words[PENDING + waiting]
        bucket = deep_bucket(words, node, probe)
        best, slot = scan(words, DEEP, bucket, fingerprint, best, slot)
        if head_of(words, DEEP, bucket) & SPLIT:
            waiting = push_children(words, node, waiting)
    return signed(best), signed(slot)


@inner
def scan_flat(words: Words, fingerprint: np.uint64, best: int) -> tuple[int, int]:
    """The best over all slots."""
    address = words[FINGERPRINTS]
    limit = np.uint64((best - 1) >> 32)
    hits = signed(0)
    slot = signed(-1)
    for j in range(words[SIZE]):
        hits += signed(popcount(read64(address, j) ^ fingerprint) <= limit)
    if hits:
        for j in range(words[SIZE]):
            distance = signed(popcount(read64(address, j) ^ fingerprint))
            rank = (distance << 32) | signed(read32(words[ROWS], j))
            if rank < best:
                best = rank
                slot = signed(j)
    return signed(best), slot


@inner
def search(words: Words, fingerprint: np.uint64) -> tuple[int, int]:
    """The best match: (distance << 32 | row, slot); slot -1 where there is none."""
    best = (words[DISTANCE_MAX] + 1) << 32
    slot = signed(-1)
    if words[FLAT]:
        best, slot = scan_flat(words, fingerprint, best)
        return best, slot
    for table in range(words[TABLES]):
        own = root_bucket(words, table, fingerprint)
        for number in range(word(words, FLIP_ENDS, table), word(words, FLIP_ENDS, table + 1)):
            bucket = own ^ word(words, FLIPPED, number)
            best, slot = scan(words, BASE, bucket, fingerprint, best, slot)
            if best >= ONE_BIT and head_of(words, BASE, bucket) & SPLIT:
                probe = fingerprint ^ read64(words[FLIPS], number)
                best, slot = scan_deep(words, table, probe, fingerprint, best, slot)
            if best < ONE_BIT:
                return best, slot
    return best, slot


@inner
def ask_heads(words: Words, fingerprint: np.uint64) -> None:
    """Prefetch the heads of the buckets that a search will read."""
    for table in range(words[TABLES]):
        own = root_bucket(words, table, fingerprint)
        for number in range(word(words, FLIP_ENDS, table), word(words, FLIP_ENDS, table + 1)):
            prefetch(words[BASE + HEADS], 8 * (own ^ word(words, FLIPPED, number)))


@inner
def ask_entries(words: Words, fingerprint: np.uint64) -> None:
    """Prefetch the entries that a search will read, and the places where an insertion will write."""
    for table in range(words[TABLES]):
        own = root_bucket(words, table, fingerprint)
        head = head_of(words, BASE, own)
        prefetch(words[BASE + REFS], 4 * (start_of(head) + count_of(head)))
        for number in range(word(words, FLIP_ENDS, table), word(words, FLIP_ENDS, table + 1)):
            head = head_of(words, BASE, own ^ word(words, FLIPPED, number))
            position = start_of(head)
            end = position + min(count_of(head), ASKED_MAX)
            while position < end + NUMBER_LANES:
                prefetch(words[BASE + FILTERS], 4 * position)
                position += NUMBER_LANES


@inner
def find_equal(words: Words, fingerprint: np.uint64) -> int:
    """The slot that stands in the tables for this very fingerprint, or -1."""
    at, node = signed(BASE), signed(0)
    bucket = root_bucket(words, signed(0), fingerprint)
    while True:
        _, slot = scan(words, at, bucket, fingerprint, ONE_BIT, signed(-1))
        if slot >= 0 or not head_of(words, at, bucket) & SPLIT or word(words, CHILDREN, node) == 0:
            return signed(slot)
        at, node = DEEP, word(words, CHILDREN, node)
        bucket = deep_bucket(words, node, fingerprint)


@inner
def collect(words: Words, at: int, bucket: int, fingerprint: np.uint64, found: NDArray[np.int64], count: int) -> int:
    """Add the slots of a bucket's matches to `found`; gives their number, which may pass the length of `found`."""
    head = head_of(words, at, bucket)
    start = start_of(head)
    own = fold(fingerprint)
    limit = np.uint64(words[DISTANCE_MAX])
    words[READ] += count_of(head)
    for position in range(start, start + count_of(head)):
        if np.uint64(popcount(np.uint32(read32(words[at + FILTERS], position) ^ own))) <= limit:
            slot = signed(read32(words[at + REFS], position))
            if popcount(read64(words[FINGERPRINTS], slot) ^ fingerprint) <= limit:
                if count < len(found):
                    found[count] = slot
                count += 1
    return signed(count)


@kernel
def search_all(words: Words, fingerprint: np.uint64, found: NDArray[np.int64]) -> int:
    """
    The slots of all matches, one for each distinct fingerprint, some more than once.

    Gives their number; when that is more than `found` holds, the caller comes again with a longer one.
    """
    count = signed(0)
    for table in range(words[TABLES]):
        own = root_bucket(words, table, fingerprint)
        for number in range(word(words, FLIP_ENDS, table), word(words, FLIP_ENDS, table + 1)):
            probe = fingerprint ^ read64(words[FLIPS], number)
            bucket = own ^ word(words, FLIPPED, number)
            count = collect(words, BASE, bucket, fingerprint, found, count)
            waiting = push_children(words, table, signed(0)) if head_of(words, BASE, bucket) & SPLIT else signed(0)
            while waiting:
                waiting -= 1
                node = words[PENDING + waiting]
                bucket = deep_bucket(words, node, probe)
                count = collect(words, DEEP, bucket, fingerprint, found, count)
                if head_of(words, DEEP, bucket) & SPLIT:
                    waiting = push_children(words, node, waiting)
    return count
