"""
Directed search: the kernels that look into the likeliest buckets, and compare what they find there.

    fingerprint, doubts -> probes -> filters scanned -> candidates -> second look -> the best

A rank is (1000 - look) << 40 | distance << 32 | row: the smallest is the best; UNRANKED is none. `worker.core.search`
defines the result.
"""

from __future__ import annotations

import numpy as np

from worker.core.kernels.machine import popcount, trailing_zeros
from worker.core.tables.earliest import filter_at
from worker.core.tables.machine import LANES, prefetch, prefetch_many, read32, read64, wide_lanes_within
from worker.core.tables.patterns import (
    FILTER_MASK,
    arranged,
    below_block,
    bucket_at,
    bucket_of,
    left_of,
    prepare,
    probe_at,
    probes_of,
    turn_at,
)
from worker.core.tables.store import FILTERS, HEADS, REFS, count_of, head_of, start_of
from worker.core.tables.words import (
    BASE,
    BITS,
    DISTANCE_MAX,
    DOUBTS,
    FINGERPRINTS,
    LAST_ROW,
    LOOK_MIN,
    PREFIX_MAX,
    READ,
    ROWS,
    SIZE,
    Words,
    inner,
    signed,
)

__all__ = ["IDENTICAL", "LOOK_SHIFT", "ROW_BITS", "UNRANKED", "ask_entries", "ask_head", "scan_flat", "scan_probe"]

LOOK_MAX = signed(1_000)
ROW_BITS = signed(32)
LOOK_SHIFT = signed(40)
UNRANKED = signed((int(LOOK_MAX) + 1) << int(LOOK_SHIFT))
IDENTICAL = signed(1 << 32)  # look 1000, distance 0: a rank below it is not beaten in another bucket
SURE = signed(6)


@inner
def bits(value: np.uint64) -> int:
    return signed(popcount(value))


@inner
def look(difference: np.uint64, doubts: np.uint64, other: np.uint64) -> int:
    """The second look in thousandths, 0 where the cosine is not positive."""
    both, either = doubts & other, doubts | other
    product = SURE * SURE * (64 - bits(either) - 2 * bits(difference & ~either))
    product += SURE * (bits(either ^ both) - 2 * bits(difference & (either ^ both)))
    product += bits(both) - 2 * bits(difference & both)
    if product <= 0:
        return signed(0)
    norms = (64 * SURE * SURE - (SURE * SURE - 1) * bits(doubts)) * (64 * SURE * SURE - (SURE * SURE - 1) * bits(other))
    squared = np.uint64(LOOK_MAX * LOOK_MAX * product * product) // np.uint64(norms)
    root = np.uint64(0)
    for bit in range(9, -1, -1):
        longer = root | np.uint64(1) << np.uint64(bit)
        if longer * longer <= squared:
            root = longer
    return signed(root)


@inner
def rank_of(words: Words, slot: int, fingerprint: np.uint64, doubts: np.uint64) -> int:
    """The rank of a slot for a query; UNRANKED where it is no match."""
    difference = read64(words[FINGERPRINTS], slot) ^ fingerprint
    distance = bits(difference)
    seen = look(difference, doubts, read64(words[DOUBTS], slot))
    if distance > words[DISTANCE_MAX] or seen < words[LOOK_MIN]:
        return signed(UNRANKED)
    return signed((LOOK_MAX - seen) << LOOK_SHIFT | distance << ROW_BITS | signed(read32(words[ROWS], slot)))


@inner
def scan_probe(
    words: Words, bucket: int, probe: np.uint64, fingerprint: np.uint64, doubts: np.uint64, best: int
) -> int:
    """The better of `best` (a rank) and the best of a bucket."""
    head = head_of(words, signed(BASE), bucket)
    position, count = start_of(head), count_of(head)
    if count > words[PREFIX_MAX]:
        if np.uint64(64 - words[BITS]) != below_block(probe):
            return signed(scan_shared(words, position, count, probe, fingerprint, doubts, best))
        count = words[PREFIX_MAX]
    words[READ] += count
    end = position + count
    filters, refs = words[BASE + FILTERS], words[BASE + REFS]
    wanted, left = probe & FILTER_MASK, left_of(probe)
    while position < end:
        near = wide_lanes_within(filters, position, wanted, left)
        while near:
            place = position + signed(trailing_zeros(near))
            near &= near - np.uint32(1)
            if place < end and (filter_at(words, place) ^ wanted) >> below_block(probe) == np.uint64(0):
                best = min(best, rank_of(words, signed(read32(refs, place)), fingerprint, doubts))
        position += LANES
    return signed(best)


@inner
def scan_shared(
    words: Words,
    start: int,
    count: int,
    probe: np.uint64,
    fingerprint: np.uint64,
    doubts: np.uint64,
    best: int,
) -> int:
    """
    The same of a long bucket that several prefixes share: of the one that is looked up, the earliest only.

    Nearly always it has no more than PREFIX_MAX rows; else the row that is the last of these is searched for first.
    """
    words[READ] += count
    below, wanted, left = below_block(probe), probe & FILTER_MASK, np.uint64(left_of(probe))
    rows, found = signed(0), best
    for place in range(start, start + count):
        difference = filter_at(words, place) ^ wanted
        if difference >> below == np.uint64(0):
            rows += 1
            if rows <= words[PREFIX_MAX] and popcount(difference) <= left:
                found = min(found, rank_of(words, signed(read32(words[BASE + REFS], place)), fingerprint, doubts))
    if rows <= words[PREFIX_MAX]:
        return signed(found)
    low, high = signed(0), words[LAST_ROW]  # the smallest limit below which PREFIX_MAX rows lie
    while low < high:
        words[READ] += count
        limit = (low + high) >> 1
        earlier = signed(0)
        for place in range(start, start + count):
            if (filter_at(words, place) ^ wanted) >> below == np.uint64(0):
                earlier += signed(row_of(words, place) < limit)
        if earlier < words[PREFIX_MAX]:
            low = limit + 1
        else:
            high = limit
    words[READ] += count
    for place in range(start, start + count):
        difference = filter_at(words, place) ^ wanted
        if difference >> below == np.uint64(0) and popcount(difference) <= left and row_of(words, place) < low:
            slot = signed(read32(words[BASE + REFS], place))
            best = min(best, rank_of(words, slot, fingerprint, doubts))
    return signed(best)


@inner
def row_of(words: Words, place: int) -> int:
    return signed(read32(words[ROWS], signed(read32(words[BASE + REFS], place))))


@inner
def scan_flat(words: Words, fingerprint: np.uint64, doubts: np.uint64) -> int:
    """The best rank over all slots that one of the probes finds."""
    limit = np.uint64(words[DISTANCE_MAX])
    best = UNRANKED
    is_prepared = False
    words[READ] += words[SIZE]
    for slot in range(words[SIZE]):
        held = read64(words[FINGERPRINTS], slot)
        if np.uint64(popcount(held ^ fingerprint)) <= limit:
            rank = rank_of(words, slot, fingerprint, doubts)
            if rank < best and not is_prepared:
                prepare(words, signed(0), fingerprint, doubts)
                is_prepared = True
            if rank < best and is_found(words, held):
                best = rank
    return signed(best)


@inner
def is_found(words: Words, held: np.uint64) -> bool:
    """Whether a fingerprint has one of the prefixes that are looked up."""
    turn = turn_at(words, signed(0))
    for number in range(probes_of(turn)):
        bucket, probe = bucket_at(turn, number), probe_at(turn, number)
        table = signed(bucket >> words[BITS])
        value = arranged(words, table, held)
        same_bucket = bucket_of(words, table, value) == bucket
        if same_bucket and ((value ^ probe) & FILTER_MASK) >> below_block(probe) == np.uint64(0):
            return True
    return False


@inner
def ask_head(words: Words, bucket: int) -> None:
    """Prefetch the head of a bucket that will be looked into."""
    prefetch(words[BASE + HEADS], 8 * bucket)


@inner
def ask_entries(words: Words, bucket: int) -> None:
    """Prefetch what a probe will read; the bucket's head is near already."""
    head = head_of(words, signed(BASE), bucket)
    vectors = (min(count_of(head), words[PREFIX_MAX]) + LANES - 1) // LANES
    ask_run(words[BASE + FILTERS] + 6 * start_of(head), 6 * LANES * vectors)


@inner
def ask_run(address: int, length: int) -> None:
    """Prefetch so many bytes."""
    line = address & -64
    while line < address + length:
        prefetch_many(line, signed(0))
        line += 64
