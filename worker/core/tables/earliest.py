"""
Buckets of the directed index, whose earliest entries stand first, so that a scan of the first ones finds them.

Up to PREFIX_MAX entries stand in any order. In a longer bucket the first PREFIX_MAX are the earliest by row, the others
a heap: none is earlier than the one at half its place.

    [ e e e e | h0 h1 h2 h3 … ]      h0 the earliest of the rest; row(h[i]) >= row(h[(i - 1) // 2])
"""

from __future__ import annotations

import numpy as np

from worker.core.kernels.machine import read16, read32
from worker.core.tables.store import (
    FILTERS,
    REFS,
    append,
    count_of,
    head_of,
    move_entries,
    remove,
    start_of,
    write_entry,
)
from worker.core.tables.words import BASE, LAST_ROW, PREFIX_MAX, ROWS, Words, inner, signed

UNLIMITED = signed(1 << 62)


@inner
def filter_at(words: Words, position: int) -> np.uint64:
    """The filter of the entry at a position."""
    filter_ = np.uint64(0)
    for part in range(3):
        filter_ |= np.uint64(read16(words[BASE + FILTERS], 3 * position + part)) << np.uint64(16 * part)
    return filter_


@inner
def row_at(words: Words, position: int) -> np.uint32:
    return read32(words[ROWS], signed(read32(words[BASE + REFS], position)))


@inner
def swap(words: Words, one: int, other: int) -> None:
    held, ref = filter_at(words, one), read32(words[BASE + REFS], one)
    move_entries(words, signed(BASE), one, other, signed(1))
    write_entry(words, signed(BASE), other, held, ref)


@inner
def rise(words: Words, heap: int, position: int) -> None:
    """Move an entry of a heap towards its first place as far as it belongs."""
    while position > heap:
        above = heap + (position - heap - 1) // 2
        if row_at(words, above) <= row_at(words, position):
            return
        swap(words, above, position)
        position = above


@inner
def sink(words: Words, heap: int, end: int, position: int) -> None:
    """Move an entry of a heap away from its first place as far as it belongs."""
    while True:
        below = heap + 2 * (position - heap) + 1
        if below >= end:
            return
        if below + 1 < end and row_at(words, below + 1) < row_at(words, below):
            below += 1
        if row_at(words, position) <= row_at(words, below):
            return
        swap(words, below, position)
        position = below


@inner
def enter(words: Words, bucket: int, filter_: np.uint64, slot: int) -> None:
    """
    Add an entry. The caller has made sure of the room, and that LAST_ROW is not smaller than the slot's row.

    A bucket of COUNT_MAX entries, 33 million, takes no more: the latest are beyond PREFIX_MAX anyway.
    """
    if not append(words, signed(BASE), bucket, filter_, np.uint32(slot), UNLIMITED):
        return
    head = head_of(words, signed(BASE), bucket)
    if count_of(head) <= words[PREFIX_MAX]:
        return
    start = start_of(head)
    heap, position = start + words[PREFIX_MAX], start + count_of(head) - 1
    if signed(row_at(words, position)) == words[LAST_ROW]:  # the latest of all stands right at the end
        return
    latest = start
    for other in range(start, heap):
        if row_at(words, other) > row_at(words, latest):
            latest = other
    if row_at(words, position) < row_at(words, latest):
        swap(words, latest, position)
    rise(words, heap, position)


@inner
def take_out(words: Words, bucket: int, position: int) -> None:
    """Remove the entry at a position; -1: it was never added."""
    if position < 0:
        return
    head = head_of(words, signed(BASE), bucket)
    start = start_of(head)
    heap, last = start + words[PREFIX_MAX], start + count_of(head) - 1
    if position < heap <= last:  # the earliest of the rest is among the first now
        move_entries(words, signed(BASE), position, heap, signed(1))
        position = heap
    remove(words, signed(BASE), bucket, position)
    if heap <= position < last:
        sink(words, heap, last, position)
        rise(words, heap, position)
