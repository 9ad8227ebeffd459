"""
The directed engine: looks into the likeliest buckets and compares what it finds there. Equal to
`worker.core.search`.

    fingerprint, doubts -> probes -> filters scanned -> places -> slots -> second look -> sketches

The bits of a block are taken to the top of the 64, the others below them. The topmost name a
bucket, the lower 48 are the filter of an entry, so that together they say all of a fingerprint.

    probe    number of the bucket (32 bits) | pattern by which the block differs (32 bits)

The entries of a bucket stand in the order of their rows, so that a scan of the first PREFIX_MAX
finds the earliest.

A query reads some hundred buckets at random places, so its time is that of its cache misses and of
its wrongly predicted branches. Three things follow:

1. Memory is asked for early. While one fingerprint is searched, probe by probe, the entries of the
   next one are asked for, the heads of the one after that, and the patterns of the third. An entry
   that is near is not looked up at once: its reference is asked for, the reference is read when the
   table is through, and its fingerprint when all are.
2. A bucket is compared without a branch: as many entries as most buckets have, VECTORS times eight,
   whether this one has fewer or not; those behind its end are masked out. Only a bucket that has
   more takes another round.
3. What a query reads of the block that describes the tables is held in a `View`. Kernels write
   through addresses, and after each such write the compiler would read the block again.
"""

from __future__ import annotations

from math import ceil, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.core import search
from worker.core.compiled import fused, inner
from worker.core.kernels import machine
from worker.core.kernels.machine import (
    WIDE_LANES,
    popcount,
    prefetch,
    prefetch_many,
    read16,
    read32,
    read64,
    write32,
    write64,
)
from worker.core.search import BITS as BITS_ALL
from worker.core.search import SearchRules
from worker.core.tables import confirm, store
from worker.core.tables.confirm import LOOK_MAX, LOOK_SHIFT, RANK_COUNT, UNCONFIRMED, bits
from worker.core.tables.patterns import (
    FLIPS_MAX,
    SCRATCH_BYTES,
    patterns_for,
    recipe_number,
    write_patterns,
)
from worker.core.tables.store import (
    BASE,
    BITS,
    ONE,
    ROWS,
    TABLES,
    Memory,
    count_of,
    head_of,
    kernel,
    signed,
    start_of,
)

DOUBTS = store.ENGINE  # address, by slot
WIDTHS = store.ENGINE + 1  # address, by table: bits of its block
ROTATIONS = store.ENGINE + 2  # address, by table: to the left; takes a block of one run to the top
PIECES = store.ENGINE + 3  # address: what takes a block of two runs there, as (right, mask, left)
PIECE_ENDS = store.ENGINE + 4  # address, by table: where its pieces begin; one more at the end
PATTERNS = store.ENGINE + 5  # at most, of each block
RECIPES = store.ENGINE + 6  # address: `patterns.Patterns.recipes`
COUNTS = store.ENGINE + 7  # address: `patterns.Patterns.counts`
PATTERN_TABLE = store.ENGINE + 8  # address: `patterns.Patterns.table`; 0: there is none
PREFIX_MAX = store.ENGINE + 9  # entries of one prefix that are looked at
LOOK_MIN = store.ENGINE + 10
VECTORS = store.ENGINE + 11  # of WIDE_LANES entries, compared at a time: 1, 2, 3 or VECTORS_MAX
TURNS = store.ENGINE + 12  # address: scratch, the probes of some queries
TURN_BYTES = store.ENGINE + 13  # of one query
PLACES = store.ENGINE + 14  # address: scratch, places of entries that are near, then their slots
SCRATCH = store.ENGINE + 15  # address: where the patterns of a wide block are made

TURNS_HELD = 4  # queries whose probes are kept: the one that is answered and those after it
AHEAD = 3  # queries whose probes are made: the one that is answered and two more
VECTORS_MAX = store.WIDE_READ_MAX // WIDE_LANES
PLACES_MAX = 4_096  # places that wait after a bucket, or they are ranked at once
FILTER_MASK = np.uint64((1 << 48) - 1)
PATTERN_MASK = np.uint64((1 << 32) - 1)
BUCKET_SHIFT = np.uint64(32)
ZERO = np.uint64(0)
TOP = np.uint64(64)
IDENTICAL = signed(1 << 32)  # similarity and look 1000, distance 0: nothing else is better
SURE = signed(search.SURE)
GIVEN_AHEAD = signed(8)  # fingerprints whose buckets are asked for before they are entered


class View(NamedTuple):
    """What a query reads of the block. No kernel changes any of it, insertions or not."""

    tables: int
    bits: int
    heads: int  # address
    filters: int  # address
    refs: int  # address
    fingerprints: int  # address
    doubts: int  # address
    rows: int  # address
    places: int  # address
    prefix_max: int
    distance_max: int
    look_min: int
    vectors: int


@inner
def view_of(memory: Memory) -> View:
    return View(
        memory[TABLES],
        memory[BITS],
        memory[BASE + store.HEADS],
        memory[BASE + store.FILTERS],
        memory[BASE + store.REFS],
        memory[store.FINGERPRINTS],
        memory[DOUBTS],
        memory[ROWS],
        memory[PLACES],
        memory[PREFIX_MAX],
        memory[store.DISTANCE_MAX],
        memory[LOOK_MIN],
        memory[VECTORS],
    )


@fused
def arranged(memory: Memory, table: int, fingerprint: np.uint64) -> np.uint64:
    """A fingerprint, or its doubts, with the bits of a table's block on top."""
    value: np.uint64 = machine.rotated(fingerprint, read64(memory[ROTATIONS], table))
    begin = read64(memory[PIECE_ENDS], table)
    end = read64(memory[PIECE_ENDS], table + 1)
    if begin != end:  # not one run of bits
        value = gathered(memory, signed(begin), signed(end), fingerprint)
    return value


@inner
def gathered(memory: Memory, begin: int, end: int, fingerprint: np.uint64) -> np.uint64:
    """The runs of bits that some pieces name, each where its piece says."""
    value = ZERO
    pieces = memory[PIECES]
    for piece in range(begin, end):
        run = (fingerprint >> read64(pieces, 3 * piece)) & read64(pieces, 3 * piece + 1)
        value |= run << read64(pieces, 3 * piece + 2)
    return value


@inner
def bucket_of(memory: Memory, table: int, value: np.uint64) -> int:
    """The bucket of an arranged fingerprint."""
    return signed(value >> (TOP - np.uint64(memory[BITS]))) + signed(table << memory[BITS])


# ---- a turn: the probes of one query, and for each table what they have in common. In words:
#
#     number of probes | of each table: arranged fingerprint, where its probes end | probe | …


@inner
def turn_at(memory: Memory, number: int) -> int:
    """The address of a query's turn."""
    return signed(memory[TURNS] + (number & (TURNS_HELD - 1)) * memory[TURN_BYTES])


@inner
def probe_count(turn: int) -> int:
    return signed(read64(turn, signed(0)))


@inner
def arranged_in(turn: int, table: int) -> np.uint64:
    return read64(turn, 1 + 2 * table)


@inner
def probes_end(turn: int, table: int) -> int:
    return signed(read64(turn, 2 + 2 * table))


@inner
def probes_at(turn: int, tables: int) -> int:
    """The address of the first probe."""
    return signed(turn + 8 * (1 + 2 * tables))


@inner
def bucket_in(probe: np.uint64) -> int:
    return signed(probe >> BUCKET_SHIFT)


@inner
def prepare(memory: Memory, number: int, fingerprint: np.uint64, doubts: np.uint64) -> None:
    """Write the probes of a query."""
    turn = turn_at(memory, number)
    tables = memory[TABLES]
    probes = probes_at(turn, tables)
    end = signed(0)
    for table in range(tables):
        width = read64(memory[WIDTHS], table)
        own = arranged(memory, table, fingerprint)
        unsure = arranged(memory, table, doubts) >> (TOP - width)
        recipe = recipe_number(signed(width), unsure)
        count = signed(read64(memory[COUNTS], recipe))
        block = own >> (TOP - width)
        surplus = width - np.uint64(memory[BITS])
        first = np.uint64(table << memory[BITS])
        if memory[PATTERN_TABLE]:
            patterns = memory[PATTERN_TABLE] + 2 * memory[PATTERNS] * signed(unsure)
            for i in range(count):
                pattern = np.uint64(read16(patterns, signed(i)))
                write64(probes, end + i, (first + (block ^ pattern)) << BUCKET_SHIFT | pattern)
        else:
            scratch = memory[SCRATCH]
            patterns = scratch + signed(SCRATCH_BYTES)
            steps = memory[RECIPES] + 2 * memory[PATTERNS] * recipe
            write_patterns(steps, count, unsure, signed(width), scratch, patterns)
            for i in range(count):
                pattern = np.uint64(read32(patterns, signed(i)))
                bucket = first + ((block ^ pattern) >> surplus)
                write64(probes, end + i, bucket << BUCKET_SHIFT | pattern)
        end += count
        write64(turn, 1 + 2 * table, own)
        write64(turn, 2 + 2 * table, np.uint64(end))
    write64(turn, signed(0), np.uint64(end))


@inner
def ask_patterns(memory: Memory, doubts: np.uint64) -> None:
    """Prefetch what `prepare` will read of the table of patterns."""
    for table in range(memory[TABLES] if memory[PATTERN_TABLE] else 0):
        unsure = arranged(memory, table, doubts) >> (TOP - read64(memory[WIDTHS], table))
        begin = 2 * memory[PATTERNS] * signed(unsure)
        for line in range(begin, begin + 2 * memory[PATTERNS], 64):
            prefetch(memory[PATTERN_TABLE], signed(line))


@fused
def ask_entries(view: View, probe: np.uint64) -> None:
    """
    Prefetch the entries that a probe will read; the bucket's head is near already.

    What is compared beyond a short bucket's end is asked for, too: one line less costs 0.4 to 2 µs
    a query.
    """
    head = read64(view.heads, bucket_in(probe))
    begin = view.filters + 6 * start_of(head)
    prefetch_many(begin, signed(0))
    prefetch_many(begin, signed(64))
    if view.vectors == 1:
        return
    prefetch_many(begin, signed(128))
    prefetch_many(begin, signed(192))
    if view.vectors <= 3:
        return
    prefetch_many(begin, signed(256))
    prefetch_many(begin, signed(320))
    end = begin + 6 * min(count_of(head), view.prefix_max)
    line = begin + 384
    while line < end + 64:
        prefetch_many(line, signed(0))
        line += 64


@fused
def ask_ahead(
    view: View, number: int, soon: int, count_soon: int, later: int, count_later: int
) -> None:
    """Prefetch for a probe of each of the next two queries; `soon`, `later`: where they begin."""
    if number < count_later:
        prefetch(view.heads, 8 * bucket_in(read64(later, number)))
    if number < count_soon:
        ask_entries(view, read64(soon, number))


# ---- the search of one query


@inner
def filter_at(filters: int, position: int) -> np.uint64:
    """The filter of the entry at a position."""
    filter_ = np.uint64(0)
    for part in range(3):
        piece = np.uint64(read16(filters, 3 * position + part))
        filter_ |= piece << np.uint64(16 * part)
    return filter_


@fused
def lanes_near(
    filters: int, position: int, number: int, wanted: np.uint64, left: np.uint64
) -> np.uint64:
    """Which entries of one vector are near, as the bits of a number, in their places."""
    first = WIDE_LANES * number
    lanes: np.uint64 = machine.wide_lanes_within(filters, position + first, wanted, left)
    return lanes << np.uint64(first)


@fused
def entries_near(
    filters: int, vectors: int, position: int, rest: int, wanted: np.uint64, left: np.uint64
) -> np.uint64:
    """
    Which entries of the next vectors are near, as the bits of a number.

    `rest`: how many entries the bucket still has. There is no loop over `vectors`: the compiler
    would unroll it, with more branches than it has rounds.
    """
    near: np.uint64 = lanes_near(filters, position, signed(0), wanted, left)
    if vectors > 1:
        near |= lanes_near(filters, position, signed(1), wanted, left)
    if vectors > 2:
        near |= lanes_near(filters, position, signed(2), wanted, left)
    if vectors > 3:
        for number in range(3, VECTORS_MAX):
            near |= lanes_near(filters, position, signed(number), wanted, left)
    return near & ((ONE << np.uint64(min(rest, signed(store.WIDE_READ_MAX)))) - ONE)


@fused
def put_place(view: View, waiting: int, place: int) -> int:
    """Let an entry wait until its reference has come near; return how many wait now."""
    prefetch(view.refs, 4 * place)
    write64(view.places, waiting, np.uint64(place))
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
    wanted = (own ^ (pattern << below)) & FILTER_MASK
    left = np.uint64(view.distance_max) - np.uint64(popcount(pattern))
    is_shared = below != np.uint64(64 - view.bits)  # several prefixes share the bucket
    if count > view.prefix_max:
        if is_shared:
            return scan_shared(view, position, count, wanted, left, below, waiting), count
        count = view.prefix_max
    vectors = view.vectors
    rest = count
    while True:
        near = entries_near(view.filters, vectors, position, rest, wanted, left)
        while near:
            place = position + signed(machine.trailing_zeros(near))
            near &= near - ONE
            if is_shared and (filter_at(view.filters, place) ^ wanted) >> below != ZERO:
                continue
            waiting = put_place(view, waiting, place)
        rest -= WIDE_LANES * vectors
        if rest <= 0:
            return waiting, count
        position += WIDE_LANES * vectors
        vectors = signed(VECTORS_MAX)  # of a long bucket as many at a time as can be


@inner
def scan_shared(
    view: View,
    start: int,
    count: int,
    wanted: np.uint64,
    left: np.uint64,
    below: np.uint64,
    waiting: int,
) -> int:
    """
    Do the same for a long bucket that several prefixes share: find only the earliest entry of the
    prefix that is looked up.
    """
    rows = signed(0)
    for place in range(start, start + count):
        difference = filter_at(view.filters, place) ^ wanted
        if difference >> below == ZERO:
            if np.uint64(popcount(difference)) <= left:
                waiting = put_place(view, waiting, place)
            rows += 1
            if rows == view.prefix_max:
                break
    return waiting


@fused
def name_slots(view: View, begin: int, end: int) -> None:
    """Put slots in the stead of places, and let what they hold come near."""
    for number in range(begin, end):
        slot = signed(read32(view.refs, signed(read64(view.places, number))))
        prefetch(view.fingerprints, 8 * slot)
        prefetch(view.doubts, 8 * slot)
        write64(view.places, number, np.uint64(slot))


@inner
def products(difference: np.uint64, doubts: np.uint64, other: np.uint64) -> tuple[int, int]:
    """
    The product of two documents' tallies, as far as it is known, and that of their squared norms.
    """
    both = doubts & other
    either = doubts | other
    product = SURE * SURE * (64 - bits(either) - 2 * bits(difference & ~either))
    product += SURE * (bits(either ^ both) - 2 * bits(difference & (either ^ both)))
    product += bits(both) - 2 * bits(difference & both)
    norm = 64 * SURE * SURE - (SURE * SURE - 1) * bits(doubts)
    other_norm = 64 * SURE * SURE - (SURE * SURE - 1) * bits(other)
    return product, norm * other_norm


@inner
def look(product: int, norms: int) -> int:
    """The second look in thousandths, 0 where the cosine is not positive."""
    if product <= 0:
        return signed(0)
    squared = np.uint64(LOOK_MAX * LOOK_MAX * product * product) // np.uint64(norms)
    root = np.uint64(0)
    for bit in range(9, -1, -1):
        longer = root | np.uint64(1) << np.uint64(bit)
        if longer * longer <= squared:
            root = longer
    return signed(root)


@inner
def rank_of(product: int, norms: int, difference: np.uint64, row: int) -> int:
    """The rank of a candidate whose sketch nobody has compared."""
    unlike = LOOK_MAX - look(product, norms)
    return signed(unlike << LOOK_SHIFT | bits(difference) << confirm.DISTANCE_SHIFT | row)


@inner
def rank_slots(
    memory: Memory, view: View, count: int, fingerprint: np.uint64, doubts: np.uint64
) -> None:
    """
    Rank the slots that were found, and keep the best candidates.

    Most fall short of `look_min`, so that is told without a division and a root: floor(sqrt(a / b))
    >= m exactly when a >= m * m * b. All lie within the distance: their filters and patterns have
    said so.
    """
    for number in range(count):
        slot = signed(read64(view.places, number))
        difference = read64(view.fingerprints, slot) ^ fingerprint
        product, norms = products(difference, doubts, read64(view.doubts, slot))
        squares = LOOK_MAX * LOOK_MAX * product * product
        if squares >= view.look_min * view.look_min * norms and (product > 0 or view.look_min == 0):
            row = signed(read32(view.rows, slot))
            confirm.keep(memory, rank_of(product, norms, difference, row))


@inner
def search_turn(
    memory: Memory, view: View, turn: int, ready: int, fingerprint: np.uint64, doubts: np.uint64
) -> int:
    """
    The best match. `ready`: up to this turn probes are prepared; their memory is asked for on the
    way.

    The first probe finds whatever is equal: when that is confirmed as such, the others need not be
    looked up.
    """
    here = turn_at(memory, turn)
    soon = turn_at(memory, turn + 1)
    later = turn_at(memory, turn + 2)
    count_soon = probe_count(soon) if turn + 1 < ready else signed(0)
    count_later = probe_count(later) if turn + 2 < ready else signed(0)
    probes = probes_at(here, view.tables)
    probes_soon = probes_at(soon, view.tables)
    probes_later = probes_at(later, view.tables)
    memory[RANK_COUNT] = 0
    waiting = named = number = read = signed(0)
    best = UNCONFIRMED
    for table in range(view.tables):
        own = arranged_in(here, table)
        end = probes_end(here, table)
        below = TOP - read64(memory[WIDTHS], table)
        while number < end:
            ask_ahead(view, number, probes_soon, count_soon, probes_later, count_later)
            if best >= IDENTICAL:
                probe = read64(probes, number)
                waiting, entries = scan_probe(view, probe, own, below, waiting)
                read += entries
                if number == 0 or waiting > PLACES_MAX:
                    name_slots(view, named, waiting)
                    rank_slots(memory, view, waiting, fingerprint, doubts)
                    waiting = named = signed(0)
                    if number == 0 and memory[RANK_COUNT]:
                        best = confirm.confirm(memory, turn)
            number += 1
        name_slots(view, named, waiting)
        named = waiting
    for rest in range(number, max(count_soon, count_later)):
        ask_ahead(view, rest, probes_soon, count_soon, probes_later, count_later)
    memory[store.READ] += read
    if best < IDENTICAL:
        return signed(best)
    rank_slots(memory, view, waiting, fingerprint, doubts)
    return signed(confirm.confirm(memory, turn))


# ---- what is entered and taken out


@inner
def enter(memory: Memory, bucket: int, filter_: np.uint64, slot: int) -> None:
    """
    Add an entry. The caller has made sure that there is room, and that LAST_ROW is not below the
    slot's row.

    A bucket of COUNT_MAX entries, 33 million, takes no more: the latest are beyond PREFIX_MAX
    anyway.
    """
    if not store.append(memory, BASE, bucket, filter_, np.uint32(slot), store.UNLIMITED):
        return
    row = read32(memory[ROWS], slot)
    if signed(row) == memory[store.LAST_ROW]:  # the latest of all stands right at the end
        return
    head = head_of(memory, BASE, bucket)
    low = start_of(head)
    last = high = low + count_of(head) - 1
    while low < high:  # search the first that is later
        middle = (low + high) >> 1
        if read32(memory[ROWS], signed(read32(memory[BASE + store.REFS], middle))) < row:
            low = middle + 1
        else:
            high = middle
    store.move_entries(memory, BASE, low + 1, low, last - low)
    store.write_entry(memory, BASE, low, filter_, np.uint32(slot))


@inner
def change(memory: Memory, fingerprint: np.uint64, old: int, new: int) -> None:
    """
    In every table, point the entry of slot `old` to `new`; if `new` is -1, remove it and move up
    those behind it.
    """
    for table in range(memory[TABLES]):
        bucket = bucket_of(memory, table, arranged(memory, table, fingerprint))
        position = store.place_of(memory, BASE, bucket, np.uint32(old))
        if position < 0:  # it was never added
            continue
        if new >= 0:
            write32(memory[BASE + store.REFS], position, np.uint32(new))
            continue
        head = head_of(memory, BASE, bucket)
        last = start_of(head) + count_of(head) - 1
        store.move_entries(memory, BASE, position, position + 1, last - position)
        store.remove(memory, BASE, bucket, last)


@inner
def add(memory: Memory, fingerprint: np.uint64, doubts: np.uint64, row: int) -> None:
    """Index a fingerprint in a new slot."""
    slot = store.add_slot(memory, fingerprint, row)
    write64(memory[DOUBTS], slot, doubts)
    for table in range(memory[TABLES]):
        value = arranged(memory, table, fingerprint)
        enter(memory, bucket_of(memory, table, value), value & FILTER_MASK, slot)
    store.sweep_on(memory)


@inner
def ask_places(memory: Memory, fingerprint: np.uint64, stage: int) -> None:
    """Prefetch where a fingerprint will be entered: heads first, the ends of buckets later."""
    for table in range(memory[TABLES]):
        bucket = bucket_of(memory, table, arranged(memory, table, fingerprint))
        if stage == 0:
            prefetch(memory[BASE + store.HEADS], 8 * bucket)
        else:
            head = head_of(memory, BASE, bucket)
            position = start_of(head) + count_of(head)
            prefetch(memory[BASE + store.FILTERS], 6 * position)
            prefetch(memory[BASE + store.REFS], 4 * position)


@kernel
def match_directed(
    memory: Memory,
    fingerprints: NDArray[np.uint64],
    doubts: NDArray[np.uint64],
    begin: int,
    first_row: int,
    ranks: NDArray[np.int64],
    mode: int,
) -> int:
    """`Slots.match`."""
    row = first_row
    count = len(fingerprints)
    ready = signed(begin)
    view = view_of(memory)
    for i in range(begin, count):
        if mode != store.QUERY and not store.has_room(memory):
            return signed(i)
        if mode == store.INSERT_GIVEN:
            if i + 2 * GIVEN_AHEAD < count:
                ask_places(memory, fingerprints[i + 2 * GIVEN_AHEAD], signed(0))
                ask_places(memory, fingerprints[i + GIVEN_AHEAD], signed(1))
            add(memory, fingerprints[i], doubts[i], ranks[i])
            continue
        while ready < min(signed(i) + AHEAD, signed(count)):
            prepare(memory, ready, fingerprints[ready], doubts[ready])
            ready += 1
        if ready < count:
            ask_patterns(memory, doubts[ready])
        if mode != store.QUERY and i + 1 < count:
            ask_places(memory, fingerprints[i + 1], signed(1))
        ranks[i] = search_turn(memory, view, signed(i), ready, fingerprints[i], doubts[i])
        if mode == store.INSERT_ALL or (mode == store.INSERT_NEW and ranks[i] == UNCONFIRMED):
            add(memory, fingerprints[i], doubts[i], row)
            confirm.note_fresh(memory, row, signed(i))
            row += 1
    return signed(count)


@inner
def slot_of(memory: Memory, fingerprint: np.uint64, row: np.uint32) -> int:
    """
    The slot of a row with this fingerprint, or -1. It is looked for in the shortest of its buckets.
    """
    head = np.uint64(0)
    value = np.uint64(0)
    for table in range(memory[TABLES]):
        arranged_ = arranged(memory, table, fingerprint)
        other = head_of(memory, BASE, bucket_of(memory, table, arranged_))
        if table == 0 or count_of(other) < count_of(head):
            head = other
            value = arranged_
    position = start_of(head)
    end = position + count_of(head)
    filters = memory[BASE + store.FILTERS]
    while position < end:
        equal = machine.wide_lanes_within(filters, position, value & FILTER_MASK, ZERO)
        while equal:
            place = position + signed(machine.trailing_zeros(equal))
            equal &= equal - ONE
            if place >= end:  # the last vector reaches past the bucket
                break
            slot = signed(read32(memory[BASE + store.REFS], place))
            if read32(memory[ROWS], slot) == row:
                return slot
        position += WIDE_LANES
    return signed(-1)


@kernel
def delete_directed(
    memory: Memory,
    fingerprints: NDArray[np.uint64],
    rows: NDArray[np.uint32],
    done: NDArray[np.bool_],
) -> None:
    """Take out rows; `done[i]` tells whether row i was there under its fingerprint."""
    for i in range(len(fingerprints)):
        slot = slot_of(memory, fingerprints[i], rows[i])
        done[i] = slot >= 0
        if slot < 0:
            continue
        change(memory, fingerprints[i], slot, signed(-1))
        last = memory[store.SIZE] - 1
        memory[store.SIZE] = last
        if slot != last:  # the last takes its place, so that the slots stay dense
            fingerprint = read64(memory[store.FINGERPRINTS], last)
            change(memory, fingerprint, last, slot)
            write64(memory[store.FINGERPRINTS], slot, fingerprint)
            write64(memory[DOUBTS], slot, read64(memory[DOUBTS], last))
            write32(memory[ROWS], slot, read32(memory[ROWS], last))
        store.sweep_on(memory)


@kernel
def longest_bucket(memory: Memory, fingerprint: np.uint64) -> int:
    """How many entries the longest of a fingerprint's own buckets has."""
    longest = signed(0)
    for table in range(memory[TABLES]):
        bucket = bucket_of(memory, table, arranged(memory, table, fingerprint))
        longest = max(longest, count_of(head_of(memory, BASE, bucket)))
    return longest


class DirectedTables(store.Slots):
    """The content of a directed index."""

    _match = staticmethod(match_directed)
    _delete = staticmethod(delete_directed)

    def __init__(self, rules: SearchRules, bits: int) -> None:
        self._pieces = [_pieces(runs) if len(runs) > 1 else [] for runs in rules.runs]
        self._rotations = [(BITS_ALL - sum(runs[-1])) % BITS_ALL for runs in rules.runs]
        widths = [sum(width for _, width in runs) for runs in rules.runs]
        self._patterns = patterns_for(
            frozenset(widths), rules.patterns, min(rules.max_distance, FLIPS_MAX)
        )
        constants: dict[int, NDArray[np.generic]] = {
            PIECES: np.array([piece for pieces in self._pieces for piece in pieces], np.uint64),
            PIECE_ENDS: np.cumsum([0, *map(len, self._pieces)]).astype(np.uint64),
            ROTATIONS: np.array(self._rotations, np.uint64),
            WIDTHS: np.array(widths, np.uint64),
            RECIPES: self._patterns.recipes,
            COUNTS: self._patterns.counts,
            **scratch_of(rules),
        }
        if self._patterns.table is not None:
            constants[PATTERN_TABLE] = self._patterns.table.array
        columns = {store.FINGERPRINTS: np.uint64, DOUBTS: np.uint64, ROWS: np.uint32}
        super().__init__(rules.blocks, bits, columns, 2, constants)
        self.memory[PREFIX_MAX] = rules.prefix_max
        self.memory[PATTERNS] = rules.patterns
        self.memory[LOOK_MIN] = rules.look_min
        self.memory[TURN_BYTES] = 8 * _turn_words(rules)
        self.memory[store.DISTANCE_MAX] = rules.max_distance
        self.memory[confirm.SIMILARITY_MIN] = rules.similarity_thousandths

    def is_crowded(self, fingerprint: int, more: int) -> bool:
        """Whether a bucket may have more entries than are looked at, once it has `more`."""
        longest = longest_bucket(self.memory, np.uint64(fingerprint))
        return bool(longest + more > self.memory[PREFIX_MAX])

    def _on_growth(self, documents: int) -> None:
        """Compare and ask for as many entries at a time as most buckets have now."""
        mean = documents / (1 << int(self.memory[BITS]))
        vectors = ceil((mean + 2 * sqrt(mean)) / WIDE_LANES)
        self.memory[VECTORS] = max(1, vectors) if vectors <= 3 else VECTORS_MAX

    def check(self) -> None:
        """
        Assert the invariants of slots and entries: each slot once in each table, those of a bucket
        by row.
        """
        super().check()
        bits = int(self.memory[BITS])
        buckets, filters, refs = self.stores[0].contents()
        for table in range(len(self._pieces)):
            mine = buckets >> bits == table
            held = self.fingerprints[refs[mine]]
            assert (np.sort(refs[mine]) == np.arange(len(self))).all()
            assert (filters[mine] == self._arranged(table, held) & FILTER_MASK).all()
            assert (buckets[mine] & ((1 << bits) - 1) == self._buckets(table, held)).all()
        rows = self.rows[refs].astype(np.int64)
        assert (rows[1:] > rows[:-1])[buckets[1:] == buckets[:-1]].all()

    def _new_stores(self, documents: int) -> tuple[store.Buckets, ...]:
        tables = len(self._pieces)
        return (
            store.Buckets(
                self.memory,
                BASE,
                tables << int(self.memory[BITS]),
                tables,
                tables * documents,
                wide=True,
            ),
        )

    def _buckets(self, table: int, fingerprints: NDArray[np.uint64]) -> NDArray[np.int64]:
        top = np.uint64(BITS_ALL - int(self.memory[BITS]))
        return (self._arranged(table, fingerprints) >> top).astype(np.int64)

    def _arranged(self, table: int, fingerprints: NDArray[np.uint64]) -> NDArray[np.uint64]:
        if not self._pieces[table]:
            rotation = np.uint64(self._rotations[table])
            return fingerprints << rotation | fingerprints >> (TOP - rotation) % TOP
        arranged = np.zeros_like(fingerprints)
        for right, mask, left in self._pieces[table]:
            arranged |= (fingerprints >> np.uint64(right) & np.uint64(mask)) << np.uint64(left)
        return arranged


def scratch_of(rules: SearchRules) -> dict[int, NDArray[np.generic]]:
    """
    Return what one search writes to, by place in the block: searches at the same time have one
    each.
    """
    return {
        TURNS: np.zeros(TURNS_HELD * _turn_words(rules), np.uint64),
        PLACES: np.zeros(PLACES_MAX + rules.prefix_max + 1, np.uint64),
        SCRATCH: np.zeros(SCRATCH_BYTES + 4 * rules.patterns, np.uint8),
        confirm.RANKS: np.zeros(int(confirm.RANKS_MAX), np.uint64),
    }


def _turn_words(rules: SearchRules) -> int:
    return 1 + 2 * rules.blocks + rules.blocks * rules.patterns


def _pieces(runs: tuple[tuple[int, int], ...]) -> list[tuple[int, int, int]]:
    """
    Return what takes a block's runs to the top, the last topmost, and the other bits below.

    Each piece is (shift right, mask, shift left).

    >>> _pieces(((0, 16), (32, 16)))
    [(32, 65535, 48), (0, 65535, 32), (48, 65535, 16), (16, 65535, 0)]
    """
    rest = []
    end = 0
    for low, width in (*runs, (BITS_ALL, 0)):
        if low > end:
            rest.append((end, low - end))
        end = low + width
    pieces = []
    left = BITS_ALL
    for low, width in (*reversed(runs), *reversed(rest)):
        left -= width
        pieces.append((low, (1 << width) - 1, left))
    return pieces
