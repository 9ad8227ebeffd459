"""
Judging: the kernels that Python calls, for a batch of fingerprints, one after the other.

They change what the columns hold, never the columns: where one is full they stop; `Tables.maintain` makes it longer.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from worker.core.kernels.machine import read32, read64, write32, write64
from worker.core.tables.placing import change, place
from worker.core.tables.rings import NOTHING, join, link, neighbour, unlink
from worker.core.tables.search import ONE_BIT, ask_entries, ask_heads, find_equal, search
from worker.core.tables.store import DIRECTION, DUE, DUE_MAX, ENTRIES, GROW_AT, PACE, PACE_SHIFT, sweep
from worker.core.tables.words import (
    BACKS,
    BASE,
    DEEP,
    FINGERPRINTS,
    FLAT,
    NEXTS,
    ROWS,
    SIZE,
    SLOTS,
    Words,
    inner,
    kernel,
    signed,
)

QUERY = 0  # change nothing
INSERT_NEW = 1  # index what has no match
INSERT_ALL = 2  # index everything
INSERT_GIVEN = 3  # index everything as the rows that are given, and search nothing
ROW_MASK = signed((1 << 32) - 1)


@inner
def add(words: Words, fingerprint: np.uint64, row: int, equal: int) -> None:
    """Index a fingerprint in a new slot; `equal` is the slot that stands for the same fingerprint, or -1."""
    slot = words[SIZE]
    write64(words[FINGERPRINTS], slot, fingerprint)
    write32(words[ROWS], slot, np.uint32(row))
    words[SIZE] = slot + 1
    if not words[FLAT]:
        if equal >= 0:
            link(words, equal, slot)
        else:
            place(words, fingerprint, slot)
        sweep_both(words)


@inner
def sweep_both(words: Words) -> None:
    """Take the sweeps that are under way a little further."""
    if words[BASE + DIRECTION] != 0:
        sweep_on(words, BASE)
    if words[DEEP + DIRECTION] != 0:
        sweep_on(words, DEEP)


@inner
def sweep_on(words: Words, at: int) -> None:
    """As far as one more change makes due."""
    due = words[at + DUE] + words[at + PACE]
    if due >= words[at + DUE_MAX]:
        sweep(words, at, due >> PACE_SHIFT)
        due &= (1 << PACE_SHIFT) - 1
    words[at + DUE] = due


@inner
def has_room(words: Words) -> bool:
    """Whether one more fingerprint can be indexed before the columns are to be made longer."""
    if words[FLAT]:
        return bool(words[SIZE] < words[SLOTS])
    return bool(
        words[SIZE] < words[SLOTS]
        and words[BASE + ENTRIES] < words[BASE + GROW_AT]
        and words[DEEP + ENTRIES] < words[DEEP + GROW_AT]
    )


@inner
def ask(words: Words, fingerprints: NDArray[np.uint64], i: int, ahead: int) -> None:
    """Prefetch for the fingerprints that come soon: heads for the later one, entries for the sooner."""
    if not words[FLAT]:
        if i + 2 * ahead < len(fingerprints):
            ask_heads(words, fingerprints[i + 2 * ahead])
        if i + ahead < len(fingerprints):
            ask_entries(words, fingerprints[i + ahead])


@kernel
def judge(
    words: Words,
    fingerprints: NDArray[np.uint64],
    begin: int,
    first_row: int,
    rows: NDArray[np.int64],
    distances: NDArray[np.uint8],
    mode: int,
    ahead: int,
) -> int:
    """
    Search, and index according to `mode`, from fingerprint `begin` on; gives where it stopped.

    It stops at the end, or earlier where the columns are to be made longer first. `rows` and `distances` take the
    results. A fingerprint that is indexed has the row `first_row` + (its place among those indexed since `begin`);
    with INSERT_GIVEN `rows` says the rows, nothing is searched and there are no results.
    """
    row = first_row
    for i in range(begin, len(fingerprints)):
        if mode != QUERY and not has_room(words):
            return signed(i)
        ask(words, fingerprints, i, ahead)
        if mode == INSERT_GIVEN:
            equal = signed(-1) if words[FLAT] else find_equal(words, fingerprints[i])
            add(words, fingerprints[i], rows[i], equal)
            continue
        best, slot = search(words, fingerprints[i])
        rows[i] = best & ROW_MASK if slot >= 0 else signed(-1)
        distances[i] = np.uint8(best >> 32 if slot >= 0 else signed(255))
        if mode == INSERT_ALL or (mode == INSERT_NEW and slot < 0):
            add(words, fingerprints[i], row, slot if best < ONE_BIT else signed(-1))
            row += 1
    return signed(len(fingerprints))


@inner
def slot_of(words: Words, fingerprint: np.uint64, row: np.uint32) -> tuple[int, int]:
    """The slot that stands in the tables for a fingerprint, and the slot of a row with it; -1 where there is none."""
    if words[FLAT]:
        for slot in range(words[SIZE]):
            if read64(words[FINGERPRINTS], slot) == fingerprint and read32(words[ROWS], slot) == row:
                return signed(slot), signed(slot)
        return signed(-1), signed(-1)
    first = find_equal(words, fingerprint)
    slot = first
    while slot >= 0 and read32(words[ROWS], slot) != row:
        slot = neighbour(words, NEXTS, slot)
        if slot == first:
            slot = signed(-1)
    return first, slot


@kernel
def delete(words: Words, fingerprints: NDArray[np.uint64], rows: NDArray[np.uint32], done: NDArray[np.bool_]) -> None:
    """Take out rows; `done[i]` tells whether row i was there under its fingerprint."""
    for i in range(len(fingerprints)):
        first, slot = slot_of(words, fingerprints[i], rows[i])
        done[i] = slot >= 0
        if slot < 0:
            continue
        if words[FLAT]:
            fill(words, slot)
            continue
        second = neighbour(words, NEXTS, slot)
        if second < 0:
            change(words, fingerprints[i], np.uint32(slot), signed(-1))
        else:
            if slot == first:  # its place in the tables stays; the second takes over
                write32(words[ROWS], first, read32(words[ROWS], second))
                slot = second
            unlink(words, slot)
        fill(words, slot)
        sweep_both(words)


@inner
def fill(words: Words, slot: int) -> None:
    """Move the last slot into one that has become free, so that the slots stay dense."""
    last = words[SIZE] - 1
    words[SIZE] = last
    if slot == last:
        return
    fingerprint = read64(words[FINGERPRINTS], last)
    if not words[FLAT] and find_equal(words, fingerprint) == last:
        change(words, fingerprint, np.uint32(last), slot)
    write64(words[FINGERPRINTS], slot, fingerprint)
    write32(words[ROWS], slot, read32(words[ROWS], last))
    before, after = neighbour(words, BACKS, last), neighbour(words, NEXTS, last)
    if after >= 0:
        join(words, before, slot)
        join(words, slot, after)
        write32(words[NEXTS], last, NOTHING)
        write32(words[BACKS], last, NOTHING)
