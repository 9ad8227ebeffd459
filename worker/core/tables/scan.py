"""
Prefetches the bucket of a probe, and finds which of its entries are near: the innermost part of a
directed search.

    probe    number of the bucket (32 bits) | pattern by which the block differs (32 bits)
    found    place of the entry, then its row (64 bits) | the bits in which it differs (64 bits)

A bucket is compared without a branch: as many entries as most buckets have (`vectors` times eight,
unless they are long), whether this one has fewer or not; those behind its end are masked out. Only
a bucket that has more takes another round. Three lengths of buckets, by the number that most have:

    short     up to 32 entries: as many lines are asked for and read of each
    middle    up to 56: a line that is read in vain costs more than it takes to know where the
              bucket ends, so the last vectors end with it
    long      more: lines are asked for in a loop, 32 entries are compared at a time, and the last
              round begins as much earlier as it takes to end with the bucket; entries that were
              compared before are masked out. Rounds of 56 compared mostly entries that had been
              compared before: with 4 M originals a search took a tenth longer (x86-64-v3)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from worker.core.compiled import fused, inner
from worker.core.kernels import machine
from worker.core.kernels.machine import (
    popcount,
    prefetch,
    prefetch_many,
    read64,
    write64,
)
from worker.core.kernels.nearness import (
    WIDE_LANES,
    WIDE_SPARE,
    wide_lanes_behind,
    wide_lanes_within,
)
from worker.core.tables.buckets import ONE, count_of, start_of
from worker.core.tables.entries import FILTER_MASK, ZERO, filter_at
from worker.core.tables.memory import DirectedMemory, signed
from worker.core.tables.store import WIDE_READ_MAX

VECTORS_MAX = WIDE_READ_MAX // WIDE_LANES
SHORT_MAX = 4  # `vectors` of short buckets
LONG = VECTORS_MAX + 1  # `vectors` of long ones
LONG_ROUND = signed(SHORT_MAX * WIDE_LANES)  # entries of them that are compared at a time
VECTOR_BYTES = signed(6 * WIDE_LANES)
READ_MIN = signed(27)  # entries of longer buckets that are read anyway: three vectors to their end
PATTERN_MASK = np.uint64((1 << 32) - 1)
BUCKET_SHIFT = np.uint64(32)


class View(NamedTuple):
    """The numbers of the block that a query reads. No kernel changes any of them."""

    tables: int
    bits: int
    heads: int  # address
    filters: int  # address
    refs: int  # address
    doubts: int  # address
    found: int  # address
    distance_max: int
    look_min: int
    vectors: int


@inner
def view_of(memory: DirectedMemory) -> View:
    return View(
        memory.tables,
        memory.bits,
        memory.root.heads,
        memory.root.filters,
        memory.root.refs,
        memory.doubts,
        memory.found,
        memory.distance_max,
        memory.look_min,
        memory.vectors,
    )


@inner
def bucket_in(probe: np.uint64) -> int:
    return signed(probe >> BUCKET_SHIFT)


@fused
def ask_short(view: View, probe: np.uint64) -> None:
    """
    Prefetch the lines that a probe will read of a short bucket; its head is near already. Without
    AVX-512 the last of these lines is not always read.

    Lines beyond the bucket's end are among them, because they are compared, too. The whole search
    would wait for a line that was not asked for.
    """
    begin = view.filters + 6 * start_of(read64(view.heads, bucket_in(probe)))
    prefetch(begin, signed(0))
    if view.vectors > 1:
        prefetch(begin, signed(64))
    if view.vectors > 2:
        prefetch(begin, signed(128))
    if view.vectors > 3:
        prefetch(begin, signed(192))
    prefetch(begin, VECTOR_BYTES * view.vectors + signed(WIDE_SPARE - 1))


@fused
def ask_middle(view: View, probe: np.uint64) -> None:
    """
    Prefetch a bucket in which more than SHORT_MAX vectors are compared; the last of them end with
    the bucket.

    As many lines are prefetched as most buckets have, without a branch: of a bucket that has fewer
    the last one is asked for again.
    """
    head = read64(view.heads, bucket_in(probe))
    begin = view.filters + 6 * start_of(head)
    last = begin + 6 * max(READ_MIN, count_of(head)) - 1
    for line in range(5):
        prefetch(min(begin + 64 * line, last), signed(0))
    if view.vectors > 5:
        prefetch(min(begin + 320, last), signed(0))
    if view.vectors > 6:
        prefetch(min(begin + 384, last), signed(0))


@fused
def ask_long(view: View, probe: np.uint64) -> None:
    """Prefetch a long bucket, though not into the first level, which holds few lines."""
    head = read64(view.heads, bucket_in(probe))
    begin = view.filters + 6 * start_of(head)
    entries = max(LONG_ROUND, count_of(head))
    end = begin + 6 * entries + signed(WIDE_SPARE)
    line = begin & ~signed(63)
    while line < end:
        prefetch_many(line, signed(0))
        line += 64


@fused
def ask_range(view: View, probes: int, begin: int, end: int) -> None:
    """Prefetch for some of the probes of a query, which are at the address `probes`."""
    if view.vectors == LONG:
        for number in range(begin, end):
            ask_long(view, read64(probes, number))
    elif view.vectors > SHORT_MAX:
        for number in range(begin, end):
            ask_middle(view, read64(probes, number))
    else:
        for number in range(begin, end):
            ask_short(view, read64(probes, number))


@fused
def lanes_near(
    filters: int, position: int, number: int, wanted: np.uint64, left: np.uint64
) -> np.uint64:
    """Return which entries of one vector are near: bit i stands for entry `position` + i."""
    first = WIDE_LANES * number
    lanes: np.uint64 = wide_lanes_within(filters, position + first, wanted, left)
    return lanes << np.uint64(first)


@fused
def last_near(
    filters: int, position: int, number: int, rest: int, wanted: np.uint64, left: np.uint64
) -> np.uint64:
    """
    Return which entries of a vector are near that may be the last. Such a vector begins early
    enough to end with the bucket, and nothing behind the bucket is read.
    """
    first = min(WIDE_LANES * number, max(rest, READ_MIN) - WIDE_LANES)
    lanes: np.uint64 = wide_lanes_behind(filters, position + first, wanted, left)
    return lanes << np.uint64(first)


@fused
def entries_near(
    filters: int, vectors: int, position: int, rest: int, wanted: np.uint64, left: np.uint64
) -> np.uint64:
    """
    Return which entries of the next vectors are near: bit i stands for entry `position` + i.

    `rest` is how many entries the bucket still has. There is no loop over `vectors`: the compiler
    would unroll it, with more branches than it has rounds. Where a vector begins depends on the
    length of a middle bucket from the fourth vector on. Of short ones it is cheaper to read a line
    in vain.
    """
    near: np.uint64 = lanes_near(filters, position, signed(0), wanted, left)
    if vectors > 1:
        near |= lanes_near(filters, position, signed(1), wanted, left)
    if vectors > 2:
        near |= lanes_near(filters, position, signed(2), wanted, left)
    if vectors in (SHORT_MAX, LONG):
        near |= lanes_near(filters, position, signed(3), wanted, left)
    elif vectors > SHORT_MAX:
        near |= last_near(filters, position, signed(3), rest, wanted, left)
        near |= last_near(filters, position, signed(4), rest, wanted, left)
        if vectors > 5:
            near |= last_near(filters, position, signed(5), rest, wanted, left)
        if vectors > 6:
            near |= last_near(filters, position, signed(6), rest, wanted, left)
    return near & ((ONE << np.uint64(min(rest, signed(WIDE_READ_MAX)))) - ONE)


@fused
def put_found(view: View, waiting: int, place: int, difference: np.uint64) -> int:
    """Queue an entry until its reference has been prefetched; return how many are queued."""
    prefetch(view.refs, 4 * place)
    write64(view.found, 2 * waiting, np.uint64(place))
    write64(view.found, 2 * waiting + 1, difference)
    return waiting + 1


@fused
def scan_probe(
    view: View, probe: np.uint64, own: np.uint64, below: np.uint64, waiting: int
) -> tuple[int, int]:
    """
    Find the entries that a bucket has for a probe; return how many wait now, and how many were
    read.

    `own`: the arranged fingerprint; `below`: how many of its bits lie below the block.
    """
    head = read64(view.heads, bucket_in(probe))
    position = start_of(head)
    count = count_of(head)
    pattern = probe & PATTERN_MASK
    flipped = pattern << below
    wanted = (own ^ flipped) & FILTER_MASK
    left = np.uint64(view.distance_max) - np.uint64(popcount(pattern))
    compared = LONG_ROUND if view.vectors == LONG else signed(WIDE_LANES * view.vectors)
    vectors = view.vectors
    rest = count
    known = signed(0)
    while True:
        near = entries_near(view.filters, vectors, position, rest, wanted, left)
        near &= ~ZERO << np.uint64(known)
        waiting = put_near(view, near, position, wanted, below, flipped, waiting)
        rest -= compared
        if rest <= 0:
            return waiting, count
        # Few that are left are compared together with some before them: what is read ends with the
        # bucket.
        least = compared if vectors == LONG else min(READ_MIN, compared)
        known = max(signed(0), least - rest)
        position += compared - known
        rest += known
        vectors = max(vectors, signed(VECTORS_MAX))
        if vectors != LONG:
            compared = signed(WIDE_READ_MAX)


@fused
def put_near(
    view: View,
    near: np.uint64,
    position: int,
    wanted: np.uint64,
    below: np.uint64,
    flipped: np.uint64,
    waiting: int,
) -> int:
    """Queue the entries of which `near` has a bit, those of the prefix that is looked up."""
    while near:
        place = position + signed(machine.trailing_zeros(near))
        near &= near - ONE
        difference = filter_at(view.filters, place) ^ wanted
        if difference >> below == ZERO:
            waiting = put_found(view, waiting, place, flipped | difference)
    return waiting
