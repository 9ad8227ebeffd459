"""
Judging by directed search: the kernels that Python calls, for a batch of fingerprints, one after the other.

They change what the columns hold, never the columns: where one is full they stop; maintenance makes it longer. While
one fingerprint is searched, the memory of the next two is asked for, probe by probe.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from worker.core.kernels.machine import NUMBER_LANES, prefetch, read32, read64, wide_lanes_within, write32, write64
from worker.core.tables.directed import (
    IDENTICAL,
    SKETCH_BYTES,
    UNCONFIRMED,
    ask_entries,
    ask_head,
    confirm,
    rank_found,
    scan_flat,
    scan_probe,
)
from worker.core.tables.earliest import enter, filter_at, take_out
from worker.core.tables.judging import INSERT_ALL, INSERT_GIVEN, INSERT_NEW, QUERY, sweep_on
from worker.core.tables.patterns import (
    FILTER_MASK,
    arranged,
    bucket_at,
    bucket_of,
    prepare,
    probe_at,
    probes_of,
    turn_at,
)
from worker.core.tables.store import (
    DIRECTION,
    ENTRIES,
    FILTERS,
    GROW_AT,
    HEADS,
    REFS,
    count_of,
    head_of,
    place_of,
    start_of,
)
from worker.core.tables.words import (
    BASE,
    BEST_COUNT,
    DOUBTS,
    FINGERPRINTS,
    FLAT,
    FOUND_COUNT,
    FRESH,
    FRESH_FIRST,
    FRESH_PLACES,
    LAST_ROW,
    PREFIX_MAX,
    ROWS,
    SIZE,
    SLOTS,
    TABLES,
    Words,
    inner,
    kernel,
    signed,
)

GIVEN_AHEAD = signed(8)  # fingerprints whose buckets are asked for before they are entered


@inner
def has_room(words: Words) -> bool:
    """Whether one more fingerprint can be indexed before the columns are to be made longer."""
    if words[FLAT]:
        return bool(words[SIZE] < min(words[SLOTS], words[PREFIX_MAX]))
    return bool(words[SIZE] < words[SLOTS] and words[BASE + ENTRIES] < words[BASE + GROW_AT])


@inner
def add(words: Words, fingerprint: np.uint64, doubts: np.uint64, row: int) -> None:
    """Index a fingerprint in a new slot."""
    slot = words[SIZE]
    write64(words[FINGERPRINTS], slot, fingerprint)
    write64(words[DOUBTS], slot, doubts)
    write32(words[ROWS], slot, np.uint32(row))
    words[SIZE] = slot + 1
    words[LAST_ROW] = max(words[LAST_ROW], row)
    if not words[FLAT]:
        for table in range(words[TABLES]):
            value = arranged(words, table, fingerprint)
            enter(words, bucket_of(words, table, value), value & FILTER_MASK, slot)
        if words[BASE + DIRECTION] != 0:
            sweep_on(words, signed(BASE))


@inner
def search(words: Words, turn: int, ready: int, fingerprint: np.uint64, doubts: np.uint64) -> int:
    """
    The best match. `ready`: up to this turn probes are prepared; their memory is asked for on the way.

    The first probe finds whatever is equal: when that is confirmed as such, the others need not be looked up.
    """
    own = words[FRESH] + SKETCH_BYTES * turn
    words[FOUND_COUNT] = words[BEST_COUNT] = 0
    here, soon, later = turn_at(words, turn), turn_at(words, turn + 1), turn_at(words, turn + 2)
    count = probes_of(here)
    count_soon = probes_of(soon) if turn + 1 < ready else signed(0)
    count_later = probes_of(later) if turn + 2 < ready else signed(0)
    for number in range(max(count, count_soon, count_later)):
        if number < count_later:
            ask_head(words, bucket_at(later, number))
        if number < count_soon:
            ask_entries(words, bucket_at(soon, number))
        if number < count:
            scan_probe(words, bucket_at(here, number), probe_at(here, number), fingerprint, doubts)
        if number == 0:
            rank_found(words, fingerprint, doubts)
            best = confirm(words, own) if words[BEST_COUNT] else UNCONFIRMED
            if best < IDENTICAL:
                count = signed(0)
    rank_found(words, fingerprint, doubts)
    return signed(confirm(words, own))


@inner
def ask_places(words: Words, fingerprint: np.uint64, stage: int) -> None:
    """Prefetch where a fingerprint will be entered: heads first, the ends of buckets later."""
    for table in range(words[TABLES]):
        bucket = bucket_of(words, table, arranged(words, table, fingerprint))
        if stage == 0:
            prefetch(words[BASE + HEADS], 8 * bucket)
        else:
            head = head_of(words, signed(BASE), bucket)
            position = start_of(head) + count_of(head)
            prefetch(words[BASE + FILTERS], 6 * position)
            prefetch(words[BASE + REFS], 4 * position)


@kernel
def judge_directed(
    words: Words,
    fingerprints: NDArray[np.uint64],
    doubts: NDArray[np.uint64],
    begin: int,
    first_row: int,
    ranks: NDArray[np.int64],
    mode: int,
) -> int:
    """
    Search, and index according to `mode`, from fingerprint `begin` on; gives where it stopped.

    It stops at the end, or earlier where the columns are to be made longer first. The results go to `ranks`,
    UNCONFIRMED for no match. A fingerprint that is indexed has the row `first_row` + (its place among those indexed
    since `begin`); with INSERT_GIVEN `ranks` says the rows, nothing is searched and there are no results.
    """
    row = first_row
    count = len(fingerprints)
    ready = signed(begin)
    for i in range(begin, count):
        if mode != QUERY and not has_room(words):
            return signed(i)
        if mode == INSERT_GIVEN:
            if not words[FLAT] and i + 2 * GIVEN_AHEAD < count:
                ask_places(words, fingerprints[i + 2 * GIVEN_AHEAD], signed(0))
                ask_places(words, fingerprints[i + GIVEN_AHEAD], signed(1))
            add(words, fingerprints[i], doubts[i], ranks[i])
            continue
        if words[FLAT]:
            words[FOUND_COUNT] = words[BEST_COUNT] = 0
            scan_flat(words, fingerprints[i], doubts[i])
            rank_found(words, fingerprints[i], doubts[i])
            best = confirm(words, words[FRESH] + SKETCH_BYTES * signed(i))
        else:
            while ready < min(signed(i) + 3, signed(count)):
                prepare(words, ready, fingerprints[ready], doubts[ready])
                ready += 1
            if mode != QUERY and i + 1 < count:
                ask_places(words, fingerprints[i + 1], signed(1))
            best = search(words, signed(i), ready, fingerprints[i], doubts[i])
        ranks[i] = best
        if mode == INSERT_ALL or (mode == INSERT_NEW and best == UNCONFIRMED):
            add(words, fingerprints[i], doubts[i], row)
            write64(words[FRESH_PLACES], row - words[FRESH_FIRST], np.uint64(i))
            row += 1
    return signed(count)


@inner
def slot_of(words: Words, fingerprint: np.uint64, row: np.uint32) -> int:
    """The slot of a row with this fingerprint, or -1. It is looked for in the shortest of its buckets."""
    if words[FLAT]:
        for slot in range(words[SIZE]):
            if read32(words[ROWS], slot) == row and read64(words[FINGERPRINTS], slot) == fingerprint:
                return signed(slot)
        return signed(-1)
    head, value = np.uint64(0), np.uint64(0)
    for table in range(words[TABLES]):
        arranged_ = arranged(words, table, fingerprint)
        other = head_of(words, signed(BASE), bucket_of(words, table, arranged_))
        if table == 0 or count_of(other) < count_of(head):
            head, value = other, arranged_
    position = start_of(head)
    end = position + count_of(head)
    while position < end:
        near = wide_lanes_within(words[BASE + FILTERS], position, value & FILTER_MASK, np.uint32(0))
        for place in range(position, min(position + NUMBER_LANES, end) if near else position):
            slot = signed(read32(words[BASE + REFS], place))
            if filter_at(words, place) == value & FILTER_MASK and read32(words[ROWS], slot) == row:
                return slot
        position += NUMBER_LANES
    return signed(-1)


@kernel
def delete_directed(
    words: Words, fingerprints: NDArray[np.uint64], rows: NDArray[np.uint32], done: NDArray[np.bool_]
) -> None:
    """Take out rows; `done[i]` tells whether row i was there under its fingerprint."""
    for i in range(len(fingerprints)):
        slot = slot_of(words, fingerprints[i], rows[i])
        done[i] = slot >= 0
        if slot < 0:
            continue
        last = words[SIZE] - 1
        if not words[FLAT]:
            for table in range(words[TABLES]):
                bucket = bucket_of(words, table, arranged(words, table, fingerprints[i]))
                take_out(words, bucket, place_of(words, signed(BASE), bucket, np.uint32(slot)))
        if slot != last:
            fill(words, slot, last)
        words[SIZE] = last
        if not words[FLAT] and words[BASE + DIRECTION] != 0:
            sweep_on(words, signed(BASE))


@inner
def fill(words: Words, slot: int, last: int) -> None:
    """Move the last slot into one that has become free, so that the slots stay dense."""
    fingerprint = read64(words[FINGERPRINTS], last)
    if not words[FLAT]:
        for table in range(words[TABLES]):
            bucket = bucket_of(words, table, arranged(words, table, fingerprint))
            place = place_of(words, signed(BASE), bucket, np.uint32(last))
            if place >= 0:
                write32(words[BASE + REFS], place, np.uint32(slot))
    write64(words[FINGERPRINTS], slot, fingerprint)
    write64(words[DOUBTS], slot, read64(words[DOUBTS], last))
    write32(words[ROWS], slot, read32(words[ROWS], last))
