"""
The directed engine: looks into the likeliest buckets and compares what it finds there. Equal to
`worker.core.search`.

    fingerprint, doubts -> probes -> filters scanned -> places -> rows -> second look -> sketches

    probe    number of the bucket (32 bits) | pattern by which the block differs (32 bits)
    found    place of the entry, then its row (64 bits) | the bits in which it differs (64 bits)

An entry says all of a fingerprint (`entries`), so the second look reads nothing else but doubts.

A query reads some hundred buckets at random places, so its time is that of its cache misses and of
its wrongly predicted branches. Three things follow:

1. Memory is asked for early. While one fingerprint is searched, probe by probe, the entries of the
   next one are asked for (those of long buckets LEAD probes ahead), the heads of the one after
   that, and the patterns of the third. An entry that is near is not looked up at once: its
   reference is asked for, the reference is read when the table is through, and its doubts when all
   are.
2. A bucket is compared without a branch: as many entries as most buckets have, VECTORS times eight,
   whether this one has fewer or not; those behind its end are masked out. Only a bucket that has
   more takes another round. The last round of a long one ends with the bucket and masks out what
   was compared before, so that it reads no line behind it.
3. What a query reads of the block that describes the tables is held in a `View`. Kernels write
   through addresses, and after each such write the compiler would read the block again.
"""

from __future__ import annotations

from math import ceil, sqrt
from typing import Any, NamedTuple

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
    write64,
)
from worker.core.search import BITS as BITS_ALL
from worker.core.search import SearchRules
from worker.core.tables import confirm, store
from worker.core.tables.confirm import LOOK_MAX, LOOK_SHIFT, RANK_COUNT, UNCONFIRMED, bits
from worker.core.tables.doubts import (
    ADDRESSES,
    CHUNK_ROWS,
    INDEXED,
    Doubts,
    ask_doubts,
    doubts_of,
)
from worker.core.tables.entries import (
    FILTER_MASK,
    PIECE_ENDS,
    PIECES,
    ROTATIONS,
    TOP,
    WIDTHS,
    ZERO,
    add,
    arranged,
    ask_places,
    delete_directed,
    filter_at,
    longest_bucket,
    pieces_of,
    renumber_directed,
    restored,
)
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
    TABLES,
    Memory,
    count_of,
    kernel,
    signed,
    start_of,
)

PATTERNS = store.ENGINE + 5  # at most, of each block
RECIPES = store.ENGINE + 6  # address: `patterns.Patterns.recipes`
COUNTS = store.ENGINE + 7  # address: `patterns.Patterns.counts`
PATTERN_TABLE = store.ENGINE + 8  # address: `patterns.Patterns.table`; 0: there is none
PREFIX_MAX = store.ENGINE + 9  # entries of one prefix that are looked at
LOOK_MIN = store.ENGINE + 10
VECTORS = store.ENGINE + 11  # of WIDE_LANES entries, compared at a time: 1, 2, 3 or VECTORS_MAX
TURNS = store.ENGINE + 12  # address: scratch, the probes of some queries
TURN_BYTES = store.ENGINE + 13  # of one query
FOUND = store.ENGINE + 14  # address: scratch, the entries that are near
SCRATCH = store.ENGINE + 15  # address: where the patterns of a wide block are made
LEAD = store.ENGINE + 17  # long buckets are asked for so many probes ahead

TURNS_HELD = 4  # queries whose probes are kept: the one that is answered and those after it
AHEAD = 3  # queries whose probes are made: the one that is answered and two more
VECTORS_MAX = store.WIDE_READ_MAX // WIDE_LANES
SHORT_MAX = 3  # VECTORS of short buckets: they are asked for a whole query ahead
READ_BYTES = signed(64)  # that a vector reads, for the 48 of its entries
# Cache lines of long buckets that are asked for before they are read: with those of a whole query,
# 4,000 at 10 M originals, a query takes a fifth longer.
LEAD_LINES = 400
LEAD_MIN = 8
FOUND_MAX = 4_096  # entries that wait after a bucket, or they are ranked at once
PATTERN_MASK = np.uint64((1 << 32) - 1)
BUCKET_SHIFT = np.uint64(32)
IDENTICAL = signed(1 << 32)  # similarity and look 1000, distance 0: nothing else is better
SURE = signed(search.SURE)
NONE = np.empty(0, np.uint64), np.empty(0, np.uint32)  # fingerprints and rows
GIVEN_AHEAD = signed(8)  # fingerprints whose buckets are asked for before they are entered


class View(NamedTuple):
    """What a query reads of the block. No kernel changes any of it, insertions or not."""

    tables: int
    bits: int
    heads: int  # address
    filters: int  # address
    refs: int  # address
    doubts: int  # address
    found: int  # address
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
        memory[ADDRESSES],
        memory[FOUND],
        memory[PREFIX_MAX],
        memory[store.DISTANCE_MAX],
        memory[LOOK_MIN],
        memory[VECTORS],
    )


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


class QueryTurns(NamedTuple):
    """Where the probes begin of the query that is answered and of the two after it."""

    here: int  # address
    count_here: int
    soon: int  # address
    count_soon: int  # 0: it has none yet
    later: int  # address
    count_later: int
    lead: int  # LEAD, at most `count_here`


@inner
def turns_from(memory: Memory, view: View, turn: int, ready: int) -> QueryTurns:
    here = turn_at(memory, turn)
    soon = turn_at(memory, turn + 1)
    later = turn_at(memory, turn + 2)
    count_here = probe_count(here)
    return QueryTurns(
        probes_at(here, view.tables),
        count_here,
        probes_at(soon, view.tables),
        probe_count(soon) if turn + 1 < ready else signed(0),
        probes_at(later, view.tables),
        probe_count(later) if turn + 2 < ready else signed(0),
        min(memory[LEAD], count_here),
    )


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
def ask_short(view: View, probe: np.uint64) -> None:
    """
    Prefetch the lines that a probe will read of a bucket, no more and no fewer; its head is near
    already.

    What is compared beyond a short bucket's end is read, too. For a line that nobody has asked for
    the whole search waits: without the last one of every other bucket it takes half as long again.
    """
    begin = view.filters + 6 * start_of(read64(view.heads, bucket_in(probe)))
    prefetch_many(begin, signed(0))
    if view.vectors == 1:
        prefetch_many(begin, READ_BYTES - 1)
        return
    prefetch_many(begin, signed(64))
    if view.vectors == 2:
        prefetch_many(begin, READ_BYTES + 6 * WIDE_LANES - 1)
        return
    prefetch_many(begin, signed(128))
    prefetch_many(begin, READ_BYTES + 12 * WIDE_LANES - 1)


@fused
def ask_long(view: View, probe: np.uint64) -> None:
    """The same where VECTORS_MAX vectors are compared at a time."""
    head = read64(view.heads, bucket_in(probe))
    begin = view.filters + 6 * start_of(head)
    entries = max(signed(store.WIDE_READ_MAX), min(count_of(head), view.prefix_max))
    end = begin + 6 * (entries - WIDE_LANES) + READ_BYTES
    line = begin & ~signed(63)
    while line < end:
        prefetch_many(line, signed(0))
        line += 64


@fused
def ask_ahead(view: View, turns: QueryTurns, number: int) -> None:
    """Prefetch for a probe of the query after the next, and for one that is searched soon."""
    if number < turns.count_later:
        prefetch(view.heads, 8 * bucket_in(read64(turns.later, number)))
    if view.vectors <= SHORT_MAX:
        if number < turns.count_soon:
            ask_short(view, read64(turns.soon, number))
        return
    ahead = number + turns.lead
    if ahead < turns.count_here:
        ask_long(view, read64(turns.here, ahead))
    elif ahead - turns.count_here < turns.count_soon:
        ask_long(view, read64(turns.soon, ahead - turns.count_here))


@inner
def ask_rest(memory: Memory, view: View, turns: QueryTurns) -> None:
    """Prefetch what `ask_ahead` leaves, when the next queries have more probes than this one."""
    for number in range(turns.count_here, turns.count_later):
        prefetch(view.heads, 8 * bucket_in(read64(turns.later, number)))
    if view.vectors <= SHORT_MAX:
        for number in range(turns.count_here, turns.count_soon):
            ask_short(view, read64(turns.soon, number))
        return
    for number in range(turns.lead, min(memory[LEAD], turns.count_soon)):
        ask_long(view, read64(turns.soon, number))


# ---- the search of one query


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
def put_found(view: View, waiting: int, place: int, difference: np.uint64) -> int:
    """Let an entry wait until its reference has come near; return how many wait now."""
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
    is_shared = below != np.uint64(64 - view.bits)  # several prefixes share the bucket
    if count > view.prefix_max:
        if is_shared:
            found = scan_shared(view, position, count, wanted, left, below, flipped, waiting)
            return found, count
        count = view.prefix_max
    vectors = view.vectors
    rest = count
    known = signed(0)
    while True:
        near = entries_near(view.filters, vectors, position, rest, wanted, left)
        near &= ~ZERO << np.uint64(known)
        while near:
            place = position + signed(machine.trailing_zeros(near))
            near &= near - ONE
            difference = filter_at(view.filters, place) ^ wanted
            if is_shared and difference >> below != ZERO:
                continue
            waiting = put_found(view, waiting, place, flipped | difference)
        rest -= WIDE_LANES * vectors
        if rest <= 0:
            return waiting, count
        position += WIDE_LANES * vectors
        if vectors == VECTORS_MAX and rest < store.WIDE_READ_MAX:  # end where the bucket ends
            known = store.WIDE_READ_MAX - rest
            position -= known
            rest = signed(store.WIDE_READ_MAX)
        vectors = signed(VECTORS_MAX)  # of a long bucket as many at a time as can be


@inner
def scan_shared(
    view: View,
    start: int,
    count: int,
    wanted: np.uint64,
    left: np.uint64,
    below: np.uint64,
    flipped: np.uint64,
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
                waiting = put_found(view, waiting, place, flipped | difference)
            rows += 1
            if rows == view.prefix_max:
                break
    return waiting


@fused
def name_rows(memory: Memory, view: View, table: int, begin: int, end: int) -> None:
    """
    Put rows in the stead of places, and let their doubts come near; put the differing bits where
    the fingerprint has them.
    """
    for number in range(begin, end):
        row = signed(read32(view.refs, signed(read64(view.found, 2 * number))))
        ask_doubts(view.doubts, row)
        difference = read64(view.found, 2 * number + 1)
        write64(view.found, 2 * number, np.uint64(row))
        write64(view.found, 2 * number + 1, restored(memory, table, difference))


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
def rank_found(memory: Memory, view: View, count: int, doubts: np.uint64) -> None:
    """
    Rank what was found, and keep the best candidates.

    Most fall short of `look_min`, so that is told without a division and a root: floor(sqrt(a / b))
    >= m exactly when a >= m * m * b. All lie within the distance: their filters and patterns have
    said so.
    """
    for number in range(count):
        row = signed(read64(view.found, 2 * number))
        difference = read64(view.found, 2 * number + 1)
        product, norms = products(difference, doubts, doubts_of(view.doubts, row))
        squares = LOOK_MAX * LOOK_MAX * product * product
        if squares >= view.look_min * view.look_min * norms and (product > 0 or view.look_min == 0):
            confirm.keep(memory, rank_of(product, norms, difference, row))


@inner
def search_turn(memory: Memory, view: View, turn: int, ready: int, doubts: np.uint64) -> int:
    """
    The best match. `ready`: up to this turn probes are prepared; their memory is asked for on the
    way.

    The first probe finds whatever is equal: when that is confirmed as such, the others need not be
    looked up.
    """
    here = turn_at(memory, turn)
    turns = turns_from(memory, view, turn, ready)
    memory[RANK_COUNT] = 0
    waiting = named = number = read = signed(0)
    best = UNCONFIRMED
    for table in range(view.tables):
        own = arranged_in(here, table)
        end = probes_end(here, table)
        below = TOP - read64(memory[WIDTHS], table)
        while number < end:
            ask_ahead(view, turns, number)
            if best >= IDENTICAL:
                probe = read64(turns.here, number)
                waiting, entries = scan_probe(view, probe, own, below, waiting)
                read += entries
                if number == 0 or waiting > FOUND_MAX:
                    name_rows(memory, view, table, named, waiting)
                    rank_found(memory, view, waiting, doubts)
                    waiting = named = signed(0)
                    if number == 0 and memory[RANK_COUNT]:
                        best = confirm.confirm(memory, turn)
            number += 1
        name_rows(memory, view, table, named, waiting)
        named = waiting
    ask_rest(memory, view, turns)
    memory[store.READ] += read
    if best < IDENTICAL:
        return signed(best)
    rank_found(memory, view, waiting, doubts)
    return signed(confirm.confirm(memory, turn))


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
    """`Tables.match`."""
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
        ranks[i] = search_turn(memory, view, signed(i), ready, doubts[i])
        if mode == store.INSERT_ALL or (mode == store.INSERT_NEW and ranks[i] == UNCONFIRMED):
            add(memory, fingerprints[i], doubts[i], row)
            confirm.note_fresh(memory, row, signed(i))
            row += 1
    return signed(count)


class DirectedTables(store.Tables):
    """The content of a directed index."""

    brought = 2
    _match = staticmethod(match_directed)
    _delete = staticmethod(delete_directed)

    def __init__(self, rules: SearchRules, bits: int) -> None:
        self._pieces = [pieces_of(runs) if len(runs) > 1 else [] for runs in rules.runs]
        self._rotations = [(BITS_ALL - sum(runs[-1])) % BITS_ALL for runs in rules.runs]
        widths = [sum(width for _, width in runs) for runs in rules.runs]
        self._patterns = patterns_for(
            frozenset(widths), rules.patterns, min(rules.max_distance, FLIPS_MAX)
        )
        self._doubts = Doubts()
        self._latest = NONE
        constants: dict[int, NDArray[np.generic]] = {
            PIECES: np.array([piece for pieces in self._pieces for piece in pieces], np.uint64),
            PIECE_ENDS: np.cumsum([0, *map(len, self._pieces)]).astype(np.uint64),
            ROTATIONS: np.array(self._rotations, np.uint64),
            WIDTHS: np.array(widths, np.uint64),
            RECIPES: self._patterns.recipes,
            COUNTS: self._patterns.counts,
            ADDRESSES: self._doubts.addresses,
            INDEXED: self._doubts.indexed,
            **scratch_of(rules),
        }
        if self._patterns.table is not None:
            constants[PATTERN_TABLE] = self._patterns.table.array
        super().__init__(rules.blocks, bits, constants)
        self.memory[store.SIZE_MAX] = store.ROWS_MAX
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
        self.memory[VECTORS] = max(1, vectors) if vectors <= SHORT_MAX else VECTORS_MAX
        lines = mean * 6 / 64 + 1
        self.memory[LEAD] = max(LEAD_MIN, int(LEAD_LINES / lines))

    @property
    def nbytes(self) -> int:
        """Bytes of memory held: pages that were never written are not there."""
        return super().nbytes + self._doubts.nbytes(int(self.memory[store.LAST_ROW]))

    @property
    def latest(self) -> NDArray[np.uint32]:
        """Those that the last call has indexed, if it searched."""
        return self._latest[1]

    def note_latest(self, fingerprints: NDArray[np.uint64], first_row: int) -> None:
        """Remember the fingerprints, without which nothing finds an entry."""
        rows = np.arange(first_row, first_row + len(fingerprints), dtype=np.uint32)
        self._latest = fingerprints, rows

    def renumber(self, rows: NDArray[np.uint32]) -> None:
        """Give the last of the `latest` other numbers."""
        fingerprints, before = (column[len(self.latest) - len(rows) :] for column in self._latest)
        self._doubts.hold(rows.astype(np.int64))
        renumber_directed(self.memory, fingerprints, before, rows)
        before[:] = rows

    def insert(self, held: list[NDArray[np.uint64]], rows: NDArray[np.uint32]) -> None:
        """The same."""
        self._latest = NONE
        super().insert(held, rows)

    def match(
        self,
        held: list[NDArray[np.uint64]],
        begin: int,
        first_row: int,
        ranks: NDArray[np.int64],
        mode: int,
    ) -> int:
        """The same: for what may be indexed, there are chunks of doubts."""
        self._hold(first_row, ranks[begin:], mode)
        return super().match(held, begin, first_row, ranks, mode)

    def _hold(self, first_row: int, ranks: NDArray[np.int64], mode: int) -> None:
        """Make the chunks of doubts for the rows that a call may index."""
        if mode == store.INSERT_GIVEN:
            self._doubts.hold(ranks)
        elif mode != store.QUERY and len(ranks):
            last_row = first_row + len(ranks) - 1
            # A row of each chunk between the two, too: a call may index millions.
            self._doubts.hold(np.append(np.arange(first_row, last_row, CHUNK_ROWS), last_row))

    def delete(
        self, fingerprints: NDArray[np.uint64], rows: NDArray[np.uint32], done: NDArray[np.bool_]
    ) -> None:
        """The same; chunks of doubts that are no longer needed are given back."""
        self._latest = NONE
        super().delete(fingerprints, rows, done)
        self._doubts.release()

    def contents(self) -> list[NDArray[Any]]:
        """Fingerprints, doubts and rows, by ascending row, from the first table. Copies."""
        fingerprints, rows = self._entered(0)
        return [fingerprints, self._doubts.take(rows), rows]

    def _entered(self, table: int) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
        """Return what the entries of a table say: fingerprints and rows, by ascending row."""
        bits = int(self.memory[BITS])
        buckets, filters, rows = self.stores[0].contents(table << bits, (table + 1) << bits)
        prefixes = (buckets - (table << bits)).astype(np.uint64)
        fingerprints = self._restored(table, prefixes << np.uint64(BITS_ALL - bits) | filters)
        order = np.argsort(rows, kind="stable")
        return fingerprints[order], rows[order]

    def check(self) -> None:
        """
        Assert the invariants of rows and entries: each row once in each table, under the same
        fingerprint, those of a bucket in their order.
        """
        super().check()
        fingerprints, rows = self._entered(0)
        assert len(rows) == len(self)
        assert (rows[1:] > rows[:-1]).all()
        assert not len(self) or rows[-1] <= self.memory[store.LAST_ROW]
        self._doubts.check(rows)
        for table in range(1, len(self._pieces)):
            others, of_table = self._entered(table)
            assert np.array_equal(of_table, rows)
            assert np.array_equal(others, fingerprints)
        buckets, _, refs = self.stores[0].contents()
        assert (refs[1:] > refs[:-1])[buckets[1:] == buckets[:-1]].all()

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

    def _restored(self, table: int, values: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return what `_arranged` makes these values of."""
        if not self._pieces[table]:
            rotation = np.uint64(self._rotations[table])
            return values >> rotation | values << (TOP - rotation) % TOP
        restored = np.zeros_like(values)
        for right, mask, left in self._pieces[table]:
            restored |= (values >> np.uint64(left) & np.uint64(mask)) << np.uint64(right)
        return restored


def scratch_of(rules: SearchRules) -> dict[int, NDArray[np.generic]]:
    """
    Return what one search writes to, by place in the block: searches at the same time have one
    each.
    """
    return {
        TURNS: np.zeros(TURNS_HELD * _turn_words(rules), np.uint64),
        FOUND: np.zeros(2 * (FOUND_MAX + rules.prefix_max + 1), np.uint64),
        SCRATCH: np.zeros(SCRATCH_BYTES + 4 * rules.patterns, np.uint8),
        confirm.RANKS: np.zeros(int(confirm.RANKS_MAX), np.uint64),
    }


def _turn_words(rules: SearchRules) -> int:
    return 1 + 2 * rules.blocks + rules.blocks * rules.patterns
