"""
The directed search of many rows at once: their probes are sorted by bucket, so that each bucket is
read once for all of them, and the buckets in the order of the memory.

    fingerprints, doubts -> probes of a table -> sorted by bucket -> filters in planes -> candidates

    probe    prefix that is looked up (32 bits) | row, counted from the first one (32 bits)

The search of one row reads some hundred buckets at random places (`directed`). With 10 M originals
a table has 65,536 buckets of 150 entries, and the probes of 65,536 rows meet each of them 64 times.
Exact copies are found first (`equal`), and take no part. In one table after the other

1. the probes of all rows are made,
2. and sorted: by the upper half of their bucket's number, then each of these groups by the lower
   half. A group lies in the cache; one sort by all bits would write all over the memory.
3. Of each bucket that is probed, the filters are written into planes: of 32 entries the lowest byte
   in one vector, the next byte in another. Then each probe is compared with all of them. It takes
   half the instructions of comparing filters as they lie (`scan`) on a processor that cannot count
   the bits of a vector, and all probes of the bucket share what the planes cost.
4. What is near waits until its reference and its doubts have been prefetched, and then joins the
   candidates of its row.
5. The rows of the part are sorted by their own bucket, too, and compared with the probes of that
   bucket. So each row gets to know which earlier rows it meets (`parts`). Without that it would be
   compared with all of them: 3.5 µs with 16,384.

Processor time of a query in µs, for documents that have no original, by how many rows a call has.
The two searches of a line took turns in one process, compiled for x86-64-v3:

    originals, rules      row by row    1,000    4,096    16,384    65,536
    AMD EPYC (family 26)
    1 M     4x16x64              3.4       11      5.1       3.4       3.6
    3 M     4x16x64              7.2       16      7.4       5.4       5.9
    5 M     4x16x64               13       22      9.8       7.4       7.0
    10 M    4x16x64               22       36       15        12        11
    20 M    4x16x64               46       58       28        20        20
    30 M    3x19x128              20       62       31        15        11
    100 M   3x21x128              20                          32        20
    Intel Xeon (family 6, model 207)
    3 M     4x16x64               17       20       12        11
    10 M    4x16x64               58       44       26        19
    100 M   3x21x128              48                          43

With 3x21x128, 65,536 rows meet a bucket four times: each table has 2 M buckets, of 48 entries.

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
from worker.core.tables.directed import FOUND_MAX, name_rows
from worker.core.tables.entries import FILTER_MASK, TOP, ZERO, arranged, filter_at
from worker.core.tables.equal import IDENTICAL, find_equal
from worker.core.tables.memory import Block, DirectedMemory, kernel, signed
from worker.core.tables.parts import Part, note_kept, note_pair, take_kept
from worker.core.tables.patterns import pattern_at, patterns_of
from worker.core.tables.scan import (
    View,
    put_found,
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
    rows: NDArray[np.uint32]  # of each entry that waits, the row that it is near
    planes: NDArray[np.uint8]  # of ENTRIES_MAX filters
    entered: NDArray[np.uint64]  # of one table: prefix and row of the part, at last by bucket
    by_lower_half: NDArray[np.uint64]  # the same by the lower half of their bucket's number


def sorting_for(rules: SearchRules, rows: int, part_rows: int) -> Sorting:
    """
    Return what a search of so many rows of a part writes to: 16 bytes for each of their probes of a
    table, 67 MB for 65,536 rows with 64 patterns.
    """
    probes = rows * rules.patterns
    return Sorting(
        np.empty(probes, np.uint64),
        np.empty(probes, np.uint64),
        np.empty(1 << HALF_BITS_MAX, np.uint64),
        np.empty(1 << HALF_BITS_MAX, np.uint64),
        np.empty(rows, np.uint64),
        # A probe adds no more entries than one prefix has.
        np.empty(FOUND_MAX + rules.prefix_max + 1, np.uint32),
        np.empty(6 * int(ENTRIES_MAX), np.uint8),
        np.empty(part_rows, np.uint64),
        np.empty(part_rows, np.uint64),
    )


class SearchedRows(NamedTuple):
    """The rows of a part that one thread searches, `begin` to `end` - 1 of the call."""

    part: Part
    pairs: NDArray[np.uint64]  # gets their earlier rows; without room for any, none is looked for
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
        note_kept(memory, part, i)


@inner
def put_equal(memory: DirectedMemory, view: View, searched: SearchedRows) -> None:
    """Find the rows that need no search; what equals them is their only candidate so far."""
    part = searched.part
    looked_at = searched.begin
    while looked_at < searched.end:
        looked_at = find_equal(
            memory, view, part.fingerprints, part.doubts, part.ranks, looked_at, searched.end
        )
    for i in range(searched.begin, searched.end):
        take_kept(memory, part, signed(i))
        memory.rank_count = signed(0)
        if part.ranks[i] < IDENTICAL:
            confirm.keep(memory, signed(part.ranks[i]))
        note_kept(memory, part, signed(i))


@inner
def make_probes(memory: DirectedMemory, searched: SearchedRows, table: int) -> int:
    """Write the probes of all rows in a table; return how many."""
    part, sorting, begin = searched.part, searched.sorting, searched.begin
    made = sorting.probes.ctypes.data
    total = signed(0)
    width = read64(memory.widths, table)
    for i in range(begin, searched.end):
        if i + LEAD < searched.end:
            ask_patterns_of(memory, table, part.doubts[i + LEAD])
        row = i - begin
        if part.ranks[i] < IDENTICAL:
            continue
        own = arranged(memory, table, part.fingerprints[i])
        sorting.own[row] = own
        block = own >> (TOP - width)
        unsure = arranged(memory, table, part.doubts[i]) >> (TOP - width)
        patterns = patterns_of(memory, width, unsure)
        for number in range(patterns.length):
            prefix = block ^ pattern_at(patterns, number)
            write64(made, total + number, prefix << PREFIX_SHIFT | np.uint64(row))
        total += patterns.length
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


class Halves(NamedTuple):
    """How the number of a bucket is halved, and where it begins in a probe."""

    shift: np.uint64
    lower: int  # bits
    groups: int  # values of the upper half
    buckets: int  # values of the lower half


@inner
def halves_of(memory: DirectedMemory, table: int) -> Halves:
    lower = signed(memory.bits) >> 1
    # Of a prefix, the bits below those of its bucket's number.
    surplus = read64(memory.widths, table) - np.uint64(memory.bits)
    groups = signed(1) << (signed(memory.bits) - lower)
    return Halves(PREFIX_SHIFT + surplus, lower, groups, signed(1) << lower)


@inner
def enter_part(memory: DirectedMemory, searched: SearchedRows, table: int, halves: Halves) -> int:
    """Write the part's rows as a table would list them, by bucket; return how many."""
    room = len(searched.pairs)
    if room == 0 or memory.pairs_noted > room:  # none is wanted, or there are too many
        return signed(0)
    part, sorting = searched.part, searched.sorting
    entered = sorting.entered.ctypes.data
    by_lower_half = sorting.by_lower_half.ctypes.data
    ends = sorting.bucket_ends.ctypes.data
    below = TOP - read64(memory.widths, table)
    rows = part.end - part.first
    for row in range(rows):
        own = arranged(memory, table, part.fingerprints[part.first + row])
        write64(entered, row, (own >> below) << PREFIX_SHIFT | np.uint64(row))
    none = signed(0)
    sort_probes(entered, none, rows, halves.shift, halves.buckets, ends, by_lower_half)
    upper = halves.shift + np.uint64(halves.lower)
    sort_probes(by_lower_half, none, rows, upper, halves.groups, ends, entered)
    return rows


@inner
def pair_rows(
    memory: DirectedMemory, searched: SearchedRows, table: int, at: int, first: int, last: int
) -> None:
    """Note which rows of probes `first` to `last` - 1 meet the part's row that is entered there."""
    part = searched.part
    probes = searched.sorting.probes.ctypes.data
    entry = read64(searched.sorting.entered.ctypes.data, at)
    earlier = part.first + signed(entry & ROW_MASK)
    for number in range(first, last):
        probe = read64(probes, signed(number))
        i = searched.begin + signed(probe & ROW_MASK)
        if (probe ^ entry) >> PREFIX_SHIFT == ZERO and earlier < i:
            note_pair(memory, part, searched.pairs, i, earlier, table)
            if memory.pairs_noted > len(searched.pairs):
                return


@inner
def search_table(memory: DirectedMemory, view: View, searched: SearchedRows, table: int) -> None:
    """
    Let what all rows find in a table join their candidates, and note which earlier rows of the part
    they meet there.
    """
    sorting = searched.sorting
    halves = halves_of(memory, table)
    shift, lower = halves.shift, halves.lower
    entered = sorting.entered.ctypes.data
    entries = enter_part(memory, searched, table, halves)
    total = make_probes(memory, searched, table)
    probes = sorting.probes.ctypes.data
    by_group = sorting.by_group.ctypes.data
    ends = sorting.group_ends.ctypes.data
    sort_probes(probes, signed(0), total, shift + np.uint64(lower), halves.groups, ends, by_group)
    waiting = first = at = signed(0)
    for group in range(halves.groups):
        stop = signed(read64(sorting.group_ends.ctypes.data, signed(group)))
        ends = sorting.bucket_ends.ctypes.data
        sort_probes(by_group, first, stop, shift, halves.buckets, ends, probes)
        begin = group << lower
        heads = view.heads + 8 * ((table << memory.bits) + begin)
        for bucket in range(halves.buckets):
            last = signed(read64(ends, signed(bucket)))
            if first < last:
                head = read64(heads, signed(bucket))
                waiting = search_bucket(memory, view, searched, table, head, first, last, waiting)
            if memory.pairs_noted > len(searched.pairs):
                entries = at
            while at < entries and signed(read64(entered, at) >> shift) == begin + bucket:
                pair_rows(memory, searched, table, at, first, last)
                at += 1
            first = last
    rank_waiting(memory, view, searched, table, waiting)


@kernel
def search_sorted(
    block: Block, part: Part, pairs: NDArray[np.uint64], sorting: Sorting, begin: int, end: int
) -> None:
    """
    Search rows `begin` to `end` - 1 of the call, as `parallel.search_rows` does: find the best
    match and the best candidates of each. `pairs` gets the earlier rows of the part that each
    meets (`parts`).
    """
    memory: DirectedMemory = block[0]
    view = view_of(memory)
    searched = SearchedRows(part, pairs, sorting, signed(begin), signed(end))
    put_equal(memory, view, searched)
    for table in range(memory.tables):
        search_table(memory, view, searched, signed(table))
    for i in range(begin, end):
        if i + LEAD < end:
            take_kept(memory, part, i + LEAD)
            for number in range(memory.rank_count):
                row = signed(read64(memory.ranks, signed(number))) & confirm.ROW_MASK
                prefetch(confirm.sketch_of(memory, row), signed(0))
        if part.ranks[i] >= IDENTICAL:
            take_kept(memory, part, signed(i))
            part.ranks[i] = confirm.confirm(memory, signed(i))
