"""
The directed search of many rows at once: their probes are sorted by bucket, so that each bucket is
read once for all of them, and the buckets in the order of the memory.

    fingerprints, doubts -> probes of a table -> sorted by bucket -> filters in planes -> candidates

    probe    prefix that is looked up (32 bits) | row, counted from the first one (32 bits)

The search of one row reads some hundred buckets at random places (`directed`). With 10 M originals
a table has 65,536 buckets of 150 entries, and the probes of 16,384 rows meet each of them 16 times.
In one table after the other

1. the probes of all rows are made,
2. and sorted: by the upper half of their bucket's number, then each of these groups by the lower
   half. A group lies in the cache; one sort by all bits would write all over the memory.
3. Of each bucket that is probed, the filters are written into planes: of 32 entries the lowest byte
   in one vector, the next byte in another. Then each probe is compared with all of them. It takes
   half the instructions of comparing filters as they lie (`scan`) on a processor that cannot count
   the bits of a vector, and all probes of the bucket share what the planes cost.
4. What is near waits until its reference and its doubts have been prefetched, and then joins the
   candidates of its row.

The first probe of each row goes before all others, as in the search of one row: it finds whatever
is equal, and where that is confirmed nothing else is looked up.

Processor time of a query in µs, for documents that have no original, by how many rows a call has.
The two searches of a line took turns in one process (Intel Xeon, family 6, model 207):

    originals, rules, vectors        row by row    1,000    4,096    16,384
    10 M     4x16x64   x86-64-v3             58       44       26        19
    10 M     4x16x64   AVX-512               37       43       25        16
    5 M      4x16x64   x86-64-v3             27       26       20        13
    3 M      4x16x64   x86-64-v3             17       20       12        11
    1 M      4x16x64   x86-64-v3            6.8       13        9         8
    100 M    3x21x128  x86-64-v3             48      109                 43

With 3x21x128, 16,384 rows meet a bucket once: each table has 2 M buckets, of 48 entries.

Of the 19 µs, 3 are for making and sorting probes, 2 for planes, 10 for comparing, 4 for candidates.

Tried: a bucket that one probe meets compared as it lies (a tenth more); planes of 16 bits, of 16
entries each (a tenth more), and of 4 bits, each looked up in a table of 16 (André, Kermarrec, Le
Scouarnec, VLDB 2015; as fast as bytes on x86-64-v3, a quarter slower with AVX-512, and its
instruction is another one on each kind of processor).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.core.compiled import inner
from worker.core.kernels.machine import (
    popcount,
    prefetch,
    prefetch_many,
    read16,
    read32,
    read64,
    trailing_zeros,
    write32,
    write64,
)
from worker.core.kernels.nearness import PLANE_LANES, planes_within, put_planes
from worker.core.search import SearchRules
from worker.core.tables import confirm
from worker.core.tables.buckets import ONE, count_of, start_of
from worker.core.tables.directed import FOUND_MAX, IDENTICAL, is_first_equal, name_rows
from worker.core.tables.entries import FILTER_MASK, TOP, ZERO, arranged, bucket_of, filter_at
from worker.core.tables.memory import Block, DirectedMemory, kernel, signed
from worker.core.tables.parts import Part, take_kept
from worker.core.tables.patterns import SCRATCH_BYTES, recipe_number, write_patterns
from worker.core.tables.scan import (
    BUCKET_SHIFT,
    View,
    ask_range,
    bucket_in,
    put_found,
    scan_probe,
    view_of,
)
from worker.core.tables.second_look import rank_entry
from worker.core.tables.turns import ask_patterns_of

ROW_MASK = np.uint64((1 << 32) - 1)
PREFIX_SHIFT = np.uint64(32)
HALF_BITS_MAX = 13  # of a bucket's number, which has at most 26
ENTRIES_MAX = signed(1_024)  # whose planes are written at once: 6 KB
LEAD = signed(8)  # first probes, patterns and sketches that are prefetched ahead
LEAD_BYTES = 4_096  # of filters


class Sorting(NamedTuple):
    """The arrays that a sorted search writes to, besides those of any search (`scratch_of`)."""

    probes: NDArray[np.uint64]  # of one table: as they are made, and at last by bucket
    by_group: NDArray[np.uint64]  # the same probes by the upper half of their bucket's number
    group_ends: NDArray[np.uint64]  # of each such group, where its probes end
    bucket_ends: NDArray[np.uint64]  # of each bucket of a group, where its probes end
    own: NDArray[np.uint64]  # by row: its fingerprint, arranged for the table
    is_done: NDArray[np.bool_]  # by row: its first probe has found what is equal
    rows: NDArray[np.uint32]  # of each entry that waits, the row that it is near
    planes: NDArray[np.uint8]  # of ENTRIES_MAX filters


def sorting_for(rules: SearchRules, rows: int) -> Sorting:
    """
    Return what a search of so many rows writes to: 16 bytes for each of their probes of a table, 17
    MB for 16,384 rows with 64 patterns.
    """
    probes = rows * rules.patterns
    return Sorting(
        np.empty(probes, np.uint64),
        np.empty(probes, np.uint64),
        np.empty(1 << HALF_BITS_MAX, np.uint64),
        np.empty(1 << HALF_BITS_MAX, np.uint64),
        np.empty(rows, np.uint64),
        np.empty(rows, np.bool_),
        # A probe adds no more entries than one prefix has.
        np.empty(FOUND_MAX + rules.prefix_max + 1, np.uint32),
        np.empty(6 * int(ENTRIES_MAX), np.uint8),
    )


class SearchedRows(NamedTuple):
    """The rows of a part that one thread searches, `begin` to `end` - 1 of the call."""

    part: Part
    sorting: Sorting
    begin: int
    end: int


@inner
def rank_waiting(
    memory: DirectedMemory, view: View, searched: SearchedRows, table: int, waiting: int
) -> None:
    """Let the entries that wait join the candidates of their rows, those that are alike enough."""
    part = searched.part
    name_rows(memory, view, table, signed(0), waiting)
    for number in range(waiting):
        i = searched.begin + signed(read32(searched.sorting.rows.ctypes.data, number))
        take_kept(memory, part, i)
        rank_entry(memory, view, number, part.doubts[i])
        part.counts[i - part.first] = memory.rank_count


@inner
def find_equal(memory: DirectedMemory, view: View, searched: SearchedRows) -> None:
    """Look up the first probe of each row, and note the rows that need no other."""
    part, sorting, begin = searched.part, searched.sorting, searched.begin
    probes = sorting.probes.ctypes.data
    below = TOP - read64(memory.widths, signed(0))
    count = searched.end - begin
    for row in range(count):
        own = arranged(memory, signed(0), part.fingerprints[begin + row])
        bucket = bucket_of(memory, signed(0), own)
        write64(probes, row, np.uint64(bucket) << BUCKET_SHIFT)
        sorting.own[row] = own
    for row in range(count):
        if row + 2 * LEAD < count:
            prefetch(view.heads, 8 * bucket_in(read64(probes, row + 2 * LEAD)))
        ask_range(view, probes, row + LEAD, min(row + LEAD + 1, count))
        i = begin + row
        waiting, entries = scan_probe(view, read64(probes, row), sorting.own[row], below, signed(0))
        memory.filters_read += entries
        part.counts[i - part.first] = 0
        sorting.is_done[row] = False
        if waiting == 0:
            continue
        for number in range(waiting):
            write32(sorting.rows.ctypes.data, signed(number), np.uint32(row))
        rank_waiting(memory, view, searched, signed(0), waiting)
        if part.counts[i - part.first]:
            take_kept(memory, part, i)
            best = confirm.confirm(memory, i)
            if best < IDENTICAL and is_first_equal(memory, signed(best)):
                part.ranks[i] = best
                sorting.is_done[row] = True


@inner
def make_probes(memory: DirectedMemory, searched: SearchedRows, table: int) -> int:
    """Write the probes of all rows in a table, but for their first ones; return how many."""
    part, sorting, begin = searched.part, searched.sorting, searched.begin
    made = sorting.probes.ctypes.data
    first = signed(table == 0)  # of the patterns; the one before it has been looked up
    total = signed(0)
    width = read64(memory.widths, table)
    for i in range(begin, searched.end):
        if i + LEAD < searched.end:
            ask_patterns_of(memory, table, part.doubts[i + LEAD])
        row = i - begin
        if sorting.is_done[row]:
            continue
        own = arranged(memory, table, part.fingerprints[i])
        sorting.own[row] = own
        block = own >> (TOP - width)
        unsure = arranged(memory, table, part.doubts[i]) >> (TOP - width)
        recipe = recipe_number(signed(width), unsure)
        count = signed(read64(memory.counts, recipe))
        if memory.pattern_table:
            patterns = memory.pattern_table + 2 * memory.patterns * signed(unsure)
            for number in range(first, count):
                pattern = np.uint64(read16(patterns, signed(number)))
                probe = (block ^ pattern) << PREFIX_SHIFT | np.uint64(row)
                write64(made, total + number - first, probe)
        else:
            patterns = memory.scratch + signed(SCRATCH_BYTES)
            steps = memory.recipes + 2 * memory.patterns * recipe
            write_patterns(steps, count, unsure, signed(width), memory.scratch, patterns)
            for number in range(first, count):
                pattern = np.uint64(read32(patterns, signed(number)))
                probe = (block ^ pattern) << PREFIX_SHIFT | np.uint64(row)
                write64(made, total + number - first, probe)
        total += count - first
    return total


@inner
def sort_probes(
    source: int, begin: int, end: int, shift: np.uint64, values: int, ends: int, out: int
) -> None:
    """
    Write probes `begin` to `end` - 1 to the same places of `out`, in the order of their bits from
    `shift` on, which have so many `values`. `ends` gets where the probes of each value end.
    """
    mask = np.uint64(values - 1)
    for value in range(values):
        write64(ends, signed(value), ZERO)
    for number in range(begin, end):
        value = signed((read64(source, signed(number)) >> shift) & mask)
        write64(ends, value, read64(ends, value) + ONE)
    place = np.uint64(begin)
    for value in range(values):
        count = read64(ends, signed(value))
        write64(ends, signed(value), place)
        place += count
    for number in range(begin, end):
        probe = read64(source, signed(number))
        value = signed((probe >> shift) & mask)
        place = read64(ends, value)
        write64(out, signed(place), probe)
        write64(ends, value, place + ONE)


@inner
def compare_probe(
    memory: DirectedMemory,
    view: View,
    searched: SearchedRows,
    table: int,
    number: int,
    position: int,
    count: int,
    waiting: int,
) -> int:
    """
    Compare a probe with the `count` entries from a position on, of which there are planes; return
    how many entries wait now.
    """
    sorting = searched.sorting
    below = TOP - read64(memory.widths, table)
    probe = read64(sorting.probes.ctypes.data, number)
    row = signed(probe & ROW_MASK)
    own = sorting.own[row]
    pattern = (probe >> PREFIX_SHIFT) ^ (own >> below)
    flipped = pattern << below
    wanted = (own ^ flipped) & FILTER_MASK
    left = np.uint64(view.distance_max) - np.uint64(popcount(pattern))
    planes = sorting.planes.ctypes.data
    for lanes in range(0, count, PLANE_LANES):
        near = planes_within(planes + 6 * lanes, wanted, left)
        while near:
            lane = lanes + signed(trailing_zeros(near))
            near &= near - ONE
            if lane >= count:  # the last vectors reach past the bucket
                break
            difference = filter_at(view.filters, position + lane) ^ wanted
            if difference >> below == ZERO:  # of the same prefix: several may share a bucket
                write32(sorting.rows.ctypes.data, waiting, np.uint32(row))
                waiting = put_found(view, waiting, position + lane, flipped | difference)
    if waiting > FOUND_MAX:
        rank_waiting(memory, view, searched, table, waiting)
        return signed(0)
    return waiting


@inner
def search_bucket(
    memory: DirectedMemory,
    view: View,
    searched: SearchedRows,
    table: int,
    head: np.uint64,
    first: int,
    last: int,
    waiting: int,
) -> int:
    """
    Compare a bucket with probes `first` to `last` - 1; return how many entries wait now.
    """
    position = start_of(head)
    count = count_of(head)
    memory.filters_read += count * (last - first)
    ahead = view.filters + 6 * position + LEAD_BYTES
    for byte in range(0, 6 * count, 64):
        prefetch_many(ahead, signed(byte))
    planes = searched.sorting.planes.ctypes.data
    while count > 0:
        together = min(count, ENTRIES_MAX)
        begin = view.filters + 6 * position
        for lanes in range(0, together, PLANE_LANES):
            put_planes(begin + 6 * lanes, planes + 6 * lanes)
        for number in range(first, last):
            waiting = compare_probe(
                memory, view, searched, table, signed(number), position, together, waiting
            )
        position += together
        count -= together
    return waiting


@inner
def search_table(memory: DirectedMemory, view: View, searched: SearchedRows, table: int) -> None:
    """Let what all rows find in a table join their candidates."""
    sorting = searched.sorting
    total = make_probes(memory, searched, table)
    lower = signed(memory.bits) >> 1
    upper = signed(memory.bits) - lower
    # Of a prefix, the bits below those of its bucket's number.
    surplus = read64(memory.widths, table) - np.uint64(memory.bits)
    shift = PREFIX_SHIFT + surplus
    probes = sorting.probes.ctypes.data
    by_group = sorting.by_group.ctypes.data
    groups = signed(1) << upper
    buckets = signed(1) << lower
    ends = sorting.group_ends.ctypes.data
    sort_probes(probes, signed(0), total, shift + np.uint64(lower), groups, ends, by_group)
    waiting = first = signed(0)
    for group in range(groups):
        stop = signed(read64(sorting.group_ends.ctypes.data, signed(group)))
        ends = sorting.bucket_ends.ctypes.data
        sort_probes(by_group, first, stop, shift, buckets, ends, probes)
        heads = view.heads + 8 * ((table << memory.bits) + (group << lower))
        for bucket in range(buckets):
            last = signed(read64(ends, signed(bucket)))
            if first < last:
                head = read64(heads, signed(bucket))
                waiting = search_bucket(memory, view, searched, table, head, first, last, waiting)
            first = last
    rank_waiting(memory, view, searched, table, waiting)


@kernel
def search_sorted(block: Block, part: Part, sorting: Sorting, begin: int, end: int) -> None:
    """
    Search rows `begin` to `end` - 1 of the call, as `parallel.search_rows` does: find the best
    match and the best candidates of each.
    """
    memory: DirectedMemory = block[0]
    view = view_of(memory)
    searched = SearchedRows(part, sorting, signed(begin), signed(end))
    find_equal(memory, view, searched)
    for table in range(memory.tables):
        search_table(memory, view, searched, signed(table))
    for i in range(begin, end):
        if i + LEAD < end:
            take_kept(memory, part, i + LEAD)
            for number in range(memory.rank_count):
                row = signed(read64(memory.ranks, signed(number))) & confirm.ROW_MASK
                prefetch(confirm.sketch_of(memory, row), signed(0))
        if not sorting.is_done[i - begin]:
            take_kept(memory, part, signed(i))
            part.ranks[i] = confirm.confirm(memory, signed(i))
