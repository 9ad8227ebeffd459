"""
Directed search: the kernels that look into the likeliest buckets, and compare what they find there.

    fingerprint, doubts -> probes -> filters scanned -> found -> second look -> candidates -> sketches -> the best

A rank is (1000 - look) << 40 | distance << 32 | row: the smallest is the best; UNRANKED is none. What is confirmed has
(1000 - similarity) << 50 in front. `worker.core.search` defines the result.
"""

from __future__ import annotations

import numpy as np

from worker.core import search
from worker.core.kernels.machine import (
    NUMBER_LANES,
    popcount,
    prefetch,
    prefetch_many,
    read32,
    read64,
    trailing_zeros,
    wide_lanes_within,
    will_need,
    write64,
)
from worker.core.tables.earliest import filter_at
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
    ASKING,
    BASE,
    BEST_COUNT,
    BITS,
    CONFIRMED,
    DISTANCE_MAX,
    DOUBTS,
    FINGERPRINTS,
    FOUND,
    FOUND_COUNT,
    FRESH,
    FRESH_FIRST,
    FRESH_PLACES,
    LAST_ROW,
    LOOK_MIN,
    PREFIX_MAX,
    READ,
    ROWS,
    SIMILARITY_MIN,
    SIZE,
    SKETCH_BITS,
    SKETCH_FIRST,
    SKETCHES,
    Words,
    inner,
    signed,
)

FOUND_MAX = signed(64)  # slots that wait: enough that what they hold is near when they are ranked
CONFIRMED_MAX = signed(search.CONFIRMED_MAX)
SKETCH_BYTES = signed(64)
SIMILARITY_MAX = signed(1_000)
SIMILARITY_SHIFT = signed(50)
UNCONFIRMED = signed(1 << 62)  # no match
ROW_MASK = signed((1 << 32) - 1)

LOOK_MAX = signed(1_000)
ROW_BITS = signed(32)
LOOK_SHIFT = signed(40)
UNRANKED = signed((int(LOOK_MAX) + 1) << int(LOOK_SHIFT))
IDENTICAL = signed(1 << 32)  # similarity and look 1000, distance 0: what is below it is not beaten in another bucket
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
def find(words: Words, slot: int, fingerprint: np.uint64, doubts: np.uint64) -> None:
    """Let a slot wait until what it holds has come near; those that wait are ranked when there is no more room."""
    prefetch(words[FINGERPRINTS], 8 * slot)
    prefetch(words[DOUBTS], 8 * slot)
    write64(words[FOUND], words[FOUND_COUNT], np.uint64(slot))
    words[FOUND_COUNT] += 1
    if words[FOUND_COUNT] == FOUND_MAX:
        rank_found(words, fingerprint, doubts)


@inner
def rank_found(words: Words, fingerprint: np.uint64, doubts: np.uint64) -> None:
    """Rank the slots that wait, and keep the best candidates in order, each once."""
    best = words[FOUND] + 8 * FOUND_MAX
    kept_max = CONFIRMED_MAX if words[SIMILARITY_MIN] else signed(1)
    for number in range(words[FOUND_COUNT]):
        rank = rank_of(words, signed(read64(words[FOUND], number)), fingerprint, doubts)
        count = words[BEST_COUNT]
        if rank == UNRANKED or (count == kept_max and rank >= signed(read64(best, count - 1))):
            continue
        place = count
        while place > 0 and signed(read64(best, place - 1)) > rank:
            place -= 1
        if place > 0 and signed(read64(best, place - 1)) == rank:  # another block has found it, too
            continue
        last = min(count, kept_max - 1)
        for at in range(last, place, -1):
            write64(best, at, read64(best, at - 1))
        write64(best, place, np.uint64(rank))
        words[BEST_COUNT] = last + 1
    words[FOUND_COUNT] = 0


@inner
def sketch_of(words: Words, row: int) -> int:
    """The address of an original's sketch."""
    if row >= words[FRESH_FIRST]:
        return signed(words[FRESH] + SKETCH_BYTES * signed(read64(words[FRESH_PLACES], row - words[FRESH_FIRST])))
    own = row - words[SKETCH_FIRST]
    chunk = signed(read64(words[SKETCHES], own >> words[SKETCH_BITS]))
    return signed(chunk + SKETCH_BYTES * (own & ((signed(1) << words[SKETCH_BITS]) - 1)))


@inner
def sketch_similarity(one: int, other: int) -> int:
    """`sketch.sketch_similarity` of the sketches at two addresses."""
    either, both, equal = signed(0), signed(0), signed(0)
    for word in range(4):
        low, high = read64(one, word), read64(one, word + 4)
        other_low, other_high = read64(other, word), read64(other, word + 4)
        mine, others = low | high, other_low | other_high
        either += bits(mine | others)
        both += bits(mine & others)
        equal += bits(mine & others & ~((low ^ other_low) | (high ^ other_high)))
    return max(signed(0), SIMILARITY_MAX * (3 * equal - both) // (2 * either)) if either else signed(SIMILARITY_MAX)


@inner
def confirm(words: Words, own: int) -> int:
    """The best candidate that the sketches confirm, by similarity, then rank; `own` is the address of the query's."""
    ranks = words[FOUND] + 8 * FOUND_MAX
    if words[ASKING]:
        for number in range(words[BEST_COUNT]):
            will_need(sketch_of(words, signed(read64(ranks, number)) & ROW_MASK), SKETCH_BYTES)
        return UNCONFIRMED
    words[CONFIRMED] += words[BEST_COUNT]
    for number in range(words[BEST_COUNT]):
        prefetch(sketch_of(words, signed(read64(ranks, number)) & ROW_MASK), signed(0))
    best = UNCONFIRMED
    for number in range(words[BEST_COUNT]):
        rank = signed(read64(ranks, number))
        similarity = sketch_similarity(own, sketch_of(words, rank & ROW_MASK))
        if similarity >= words[SIMILARITY_MIN]:
            best = min(best, (SIMILARITY_MAX - similarity) << SIMILARITY_SHIFT | rank)
    return signed(best)


@inner
def scan_probe(words: Words, bucket: int, probe: np.uint64, fingerprint: np.uint64, doubts: np.uint64) -> None:
    """Find what a bucket has for a probe."""
    head = head_of(words, signed(BASE), bucket)
    position, count = start_of(head), count_of(head)
    if count > words[PREFIX_MAX]:
        if np.uint64(64 - words[BITS]) != below_block(probe):
            scan_shared(words, position, count, probe, fingerprint, doubts)
            return
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
                find(words, signed(read32(refs, place)), fingerprint, doubts)
        position += NUMBER_LANES


@inner
def scan_shared(
    words: Words, start: int, count: int, probe: np.uint64, fingerprint: np.uint64, doubts: np.uint64
) -> None:
    """
    The same of a long bucket that several prefixes share: of the one that is looked up, the earliest only.

    Nearly always it has no more than PREFIX_MAX rows; else the row that is the last of these is searched for first.
    """
    below, wanted, left = below_block(probe), probe & FILTER_MASK, np.uint64(left_of(probe))
    words[READ] += count
    rows = signed(0)
    for place in range(start, start + count):
        rows += signed((filter_at(words, place) ^ wanted) >> below == np.uint64(0))
    if rows == 0:
        return
    low, high = signed(0), words[LAST_ROW]  # the smallest limit below which PREFIX_MAX rows lie
    if rows <= words[PREFIX_MAX]:
        low = high + 1
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
            find(words, signed(read32(words[BASE + REFS], place)), fingerprint, doubts)


@inner
def row_of(words: Words, place: int) -> int:
    return signed(read32(words[ROWS], signed(read32(words[BASE + REFS], place))))


@inner
def scan_flat(words: Words, fingerprint: np.uint64, doubts: np.uint64) -> None:
    """Find, over all slots, what one of the probes finds."""
    limit = np.uint64(words[DISTANCE_MAX])
    is_prepared = False
    words[READ] += words[SIZE]
    for slot in range(words[SIZE]):
        held = read64(words[FINGERPRINTS], slot)
        if np.uint64(popcount(held ^ fingerprint)) <= limit and rank_of(words, slot, fingerprint, doubts) < UNRANKED:
            if not is_prepared:
                prepare(words, signed(0), fingerprint, doubts)
                is_prepared = True
            if is_found(words, held):
                find(words, slot, fingerprint, doubts)


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
    vectors = (min(count_of(head), words[PREFIX_MAX]) + NUMBER_LANES - 1) // NUMBER_LANES
    ask_run(words[BASE + FILTERS] + 6 * start_of(head), 6 * NUMBER_LANES * vectors)


@inner
def ask_run(address: int, length: int) -> None:
    """Prefetch so many bytes."""
    line = address & -64
    while line < address + length:
        prefetch_many(line, signed(0))
        line += 64
