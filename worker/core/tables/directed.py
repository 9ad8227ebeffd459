"""
The directed engine: looks into the likeliest buckets and compares what it finds there. Equal to
`worker.core.search`.

    fingerprint, doubts -> probes -> filters scanned -> places -> rows -> second look -> sketches

    entries        a fingerprint in the tables, and how a row comes and goes
    equal          exact copies, which are not searched for
    turns          the probes of the next queries, and what is prefetched for them
    scan           the bucket of a probe
    second_look    how alike a candidate is
    directed       the search of one query, the kernel that Python calls, and its columns

An entry says all of a fingerprint (`entries`), so the second look reads nothing else but doubts.

A query reads some hundred buckets at random places, so its time is that of its cache misses and of
its wrongly predicted branches. Three things follow:

1. Memory is prefetched. While one fingerprint is searched, the entries that are compared LEAD
   probes later are prefetched, the heads of the one after the next, and the patterns of the third.
   The probes of short buckets go in chunks: CHUNK are prefetched, then as many are compared, and
   each of the two loops keeps what it needs in registers. An entry that is near is not looked
   up at once: its reference is prefetched, the reference is read when the table is through, and its
   doubts when all are.
2. A bucket is compared without a branch: `scan` tells how.
3. What a query reads of the block that describes the tables is held in a `View`. Kernels write
   through addresses, and after each such write the compiler would read the block again.
"""

from __future__ import annotations

from math import ceil, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.core import search
from worker.core.compiled import fused, inner
from worker.core.kernels.machine import read32, read64, write64
from worker.core.kernels.nearness import WIDE_LANES
from worker.core.search import BITS as BITS_ALL
from worker.core.search import SearchRules
from worker.core.tables import buckets, confirm
from worker.core.tables.confirm import UNCONFIRMED
from worker.core.tables.doubts import CHUNK_ROWS, Doubts, ask_doubts
from worker.core.tables.entries import (
    TOP,
    add,
    arranged_column,
    ask_places,
    delete_directed,
    equal_bound,
    longest_bucket,
    pieces_of,
    renumber_directed,
    restored,
    restored_column,
)
from worker.core.tables.equal import COPIES_TOGETHER, IDENTICAL, find_equal
from worker.core.tables.memory import (
    INSERT_ALL,
    INSERT_GIVEN,
    INSERT_NEW,
    QUERY,
    ROWS_MAX,
    Block,
    DirectedMemory,
    kernel,
    signed,
)
from worker.core.tables.patterns import FLIPS_MAX, SCRATCH_BYTES, patterns_for
from worker.core.tables.scan import LONG, VECTORS_MAX, View, scan_probe, view_of
from worker.core.tables.second_look import rank_found
from worker.core.tables.store import WIDE_READ_MAX, Buckets, Tables
from worker.core.tables.turns import (
    AHEAD,
    TURNS_HELD,
    arranged_in,
    ask_ahead,
    ask_patterns,
    ask_rest,
    prepare,
    probes_end,
    turn_at,
    turn_words,
    turns_from,
)

# Cache lines that are prefetched. Of 48 KB that a first level holds 110 are a
# seventh: prefetched a whole query ahead, 800 at 1 M originals, a query takes a sixth longer.
LEAD_LINES = 110
LONG_LEAD_LINES = 260  # of long buckets; into the second level
LEAD_MIN = 8
CHUNK = signed(8)  # probes that are prefetched, then as many that are compared
FOUND_MAX = 4_096  # entries that wait after a bucket, or they are ranked at once
NONE = np.empty(0, np.uint64), np.empty(0, np.uint32)  # fingerprints and rows
GIVEN_AHEAD = signed(8)  # fingerprints whose buckets are prefetched before they are entered


@fused
def name_rows(memory: DirectedMemory, view: View, table: int, begin: int, end: int) -> None:
    """
    Replace places by rows and prefetch their doubts; put the differing bits where the fingerprint
    has them.
    """
    for number in range(begin, end):
        row = signed(read32(view.refs, signed(read64(view.found, 2 * number))))
        ask_doubts(view.doubts, row)
        difference = read64(view.found, 2 * number + 1)
        write64(view.found, 2 * number, np.uint64(row))
        write64(view.found, 2 * number + 1, restored(memory, table, difference))


@inner
def search_turn(
    memory: DirectedMemory, view: View, turn: int, ready: int, doubts: np.uint64
) -> int:
    """
    Return the best match. Up to the turn `ready`, probes are prepared; their memory is prefetched
    on the way.
    """
    here = turn_at(memory, turn)
    turns = turns_from(memory, view, turn, ready)
    memory.rank_count = 0
    waiting = named = number = read = signed(0)
    chunk = signed(1) if view.vectors == LONG else CHUNK
    for table in range(view.tables):
        own = arranged_in(here, table)
        end = probes_end(here, table)
        below = TOP - read64(memory.widths, table)
        while number < end:
            stop = min(end, number + chunk)
            ask_ahead(view, turns, number, stop)
            for probed in range(number, stop):
                probe = read64(turns.here, probed)
                waiting, entries = scan_probe(view, probe, own, below, waiting)
                read += entries
            if waiting > FOUND_MAX:
                name_rows(memory, view, table, named, waiting)
                rank_found(memory, view, waiting, doubts)
                waiting = named = signed(0)
            number = stop
        name_rows(memory, view, table, named, waiting)
        named = waiting
    ask_rest(memory, view, turns)
    memory.filters_read += read
    rank_found(memory, view, waiting, doubts)
    return signed(confirm.confirm(memory, turn))


@kernel
def match_directed(
    block: Block,
    fingerprints: NDArray[np.uint64],
    doubts: NDArray[np.uint64],
    begin: int,
    first_row: int,
    ranks: NDArray[np.int64],
    listed: NDArray[np.uint16],
    mode: int,
) -> int:
    """`Tables.match`. `listed` has the tables that are allowed, and gets those that list a row."""
    memory: DirectedMemory = block[0]
    row = first_row
    count = len(fingerprints)
    ready = looked_at = signed(begin)
    view = view_of(memory)
    for i in range(begin, count):
        if mode != QUERY and not buckets.has_room(memory):
            return signed(i)
        if mode == INSERT_GIVEN:
            if i + 2 * GIVEN_AHEAD < count:
                ask_places(memory, fingerprints[i + 2 * GIVEN_AHEAD], signed(0))
                ask_places(memory, fingerprints[i + GIVEN_AHEAD], signed(1))
            allowed = np.uint64(listed[i])
            listed[i] = add(memory, fingerprints[i], doubts[i], ranks[i], allowed)
            continue
        while ready < min(signed(i) + AHEAD, signed(count)):
            if ready == looked_at:
                looked_at = find_equal(memory, view, fingerprints, doubts, ranks, ready, count)
            prepare(memory, ready, fingerprints[ready], doubts[ready], ranks[ready])
            ready += 1
        if ready < count:
            ask_patterns(memory, doubts[ready])
        if mode != QUERY and i + 1 < count:
            ask_places(memory, fingerprints[i + 1], signed(1))
        best = search_turn(memory, view, signed(i), ready, doubts[i])
        if ranks[i] >= IDENTICAL:
            ranks[i] = best
        if mode == INSERT_ALL or (mode == INSERT_NEW and ranks[i] >= UNCONFIRMED):
            listed[i] = add(memory, fingerprints[i], doubts[i], row, np.uint64(listed[i]))
            confirm.note_fresh(memory, row, signed(i))
            row += 1
    return signed(count)


class DirectedTables(Tables):
    """The content of a directed index."""

    memory: DirectedMemory
    kind = DirectedMemory
    brought = 2
    _delete = staticmethod(delete_directed)

    def __init__(self, rules: SearchRules, bits: int) -> None:
        self._rules = rules
        self._pieces = [pieces_of(runs) if len(runs) > 1 else [] for runs in rules.runs]
        self._rotations = [(BITS_ALL - sum(runs[-1])) % BITS_ALL for runs in rules.runs]
        widths = [sum(width for _, width in runs) for runs in rules.runs]
        self._patterns = patterns_for(
            frozenset(widths), rules.patterns, min(rules.max_distance, FLIPS_MAX)
        )
        self._doubts = Doubts()
        self._latest = NONE
        self._listed = np.empty(0, np.uint16)
        self._outside = np.empty((0, 0), np.uint32)
        self._widths = widths
        constants: dict[str, NDArray[np.generic]] = {
            "pieces": np.array([piece for pieces in self._pieces for piece in pieces], np.uint64),
            "piece_ends": np.cumsum([0, *map(len, self._pieces)]).astype(np.uint64),
            "rotations": np.array(self._rotations, np.uint64),
            "widths": np.array(widths, np.uint64),
            "recipes": self._patterns.recipes,
            "counts": self._patterns.counts,
            "doubts": self._doubts.addresses,
            "doubts_indexed": self._doubts.indexed,
            **scratch_of(rules),
        }
        if self._patterns.table is not None:
            constants["pattern_table"] = self._patterns.table.array
        super().__init__(rules.blocks, bits, constants)
        self.memory.held_max = ROWS_MAX
        self.memory.prefix_max = rules.prefix_max
        self.memory.patterns = rules.patterns
        self.memory.look_min = rules.look_min
        self.memory.turn_bytes = 8 * turn_words(rules)
        self.memory.distance_max = rules.max_distance
        self.memory.similarity_min = rules.similarity_thousandths
        self.memory.margin = rules.margin_thousandths

    def is_crowded(self, fingerprint: int, more: int) -> bool:
        """
        Return whether a bucket may have more entries than one prefix may have, once it has `more`.
        """
        longest = longest_bucket(self.memory.block, np.uint64(fingerprint))
        return bool(longest + more > self.memory.prefix_max)

    def equal_bound(self, fingerprint: int) -> int:
        """`Tables.equal_bound`."""
        return int(equal_bound(self.memory.block, np.uint64(fingerprint)))

    def count_outside(self, fingerprints: NDArray[np.uint64], listed: NDArray[np.uint16]) -> None:
        """
        Count rows that other indexes hold, with the tables in which each is listed.

        Cost: some 10 ns per row and table; 4 bytes for each prefix that there may be.
        """
        if not self._outside.size:
            bits = max(self._widths)
            self._outside = np.zeros((len(self._widths), 1 << bits), np.uint32)
            self.memory.outside_bits = bits
            self.memory.outside = self._outside.ctypes.data
        if len(listed) and not (listed & np.uint16(1)).all():
            self.memory.unlisted = 1
        for table, width in enumerate(self._widths):
            own = fingerprints[listed >> np.uint16(table) & np.uint16(1) == 1]
            prefixes = self._arranged(table, own) >> np.uint64(BITS_ALL - width)
            np.add.at(self._outside[table], prefixes.astype(np.int64), 1)

    def _on_growth(self, documents: int) -> None:
        """Compare and prefetch as many entries at a time as most buckets have now."""
        mean = documents / (1 << self.memory.bits)
        vectors = ceil((mean + 2 * sqrt(mean)) / WIDE_LANES)
        is_long = mean > WIDE_READ_MAX
        self.memory.vectors = LONG if is_long else min(max(1, vectors), VECTORS_MAX)
        lead_lines = LONG_LEAD_LINES if is_long else LEAD_LINES
        self.memory.lead = max(LEAD_MIN, int(lead_lines / (mean * 6 / 64 + 1)))

    @property
    def nbytes(self) -> int:
        """Bytes of memory held: pages that were never written are not there."""
        return super().nbytes + self._doubts.nbytes(self.memory.last_row)

    @property
    def latest(self) -> NDArray[np.uint32]:
        """The rows that the last call has indexed, if it searched."""
        return self._latest[1]

    def note_latest(self, fingerprints: NDArray[np.uint64], first_row: int) -> None:
        """Remember the fingerprints, without which nothing finds an entry."""
        rows = np.arange(first_row, first_row + len(fingerprints), dtype=np.uint32)
        self._latest = fingerprints, rows

    def renumber(self, rows: NDArray[np.uint32]) -> None:
        """Give the last of the `latest` other numbers."""
        fingerprints, before = (column[len(self.latest) - len(rows) :] for column in self._latest)
        self._doubts.hold(rows.astype(np.int64))
        renumber_directed(self.memory.block, fingerprints, before, rows)
        before[:] = rows

    def begin_call(
        self, count: int, allowed: NDArray[np.uint16] | None = None
    ) -> NDArray[np.uint16]:
        """
        Return the column that the next call fills with the blocks that list each row, bit by bit.

        Args:
            count: rows of the call.
            allowed: by row, the blocks in which it may be listed; all, if left out.
        """
        everywhere = np.full(count, search.LISTED_ALL, np.uint16)
        self._listed = everywhere if allowed is None else allowed.astype(np.uint16)
        return self._listed

    def insert(self, held: list[NDArray[np.uint64]], rows: NDArray[np.uint32]) -> None:
        """Index `held[0][i]`, with the doubts `held[1][i]`, as `rows[i]`."""
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
        """
        Match a call, as `Tables.match`, after making chunks of doubts for the rows that it may
        index.
        """
        self._hold(first_row, ranks[begin:], mode)
        listed = self._listed
        return int(match_directed(self.memory.block, *held, begin, first_row, ranks, listed, mode))

    def _hold(self, first_row: int, ranks: NDArray[np.int64], mode: int) -> None:
        """Make the chunks of doubts for the rows that a call may index."""
        if mode == INSERT_GIVEN:
            self._doubts.hold(ranks)
        elif mode != QUERY and len(ranks):
            last_row = first_row + len(ranks) - 1
            # A row of each chunk between the two, too: a call may index millions.
            self._doubts.hold(np.append(np.arange(first_row, last_row, CHUNK_ROWS), last_row))

    def delete(
        self, fingerprints: NDArray[np.uint64], rows: NDArray[np.uint32], done: NDArray[np.bool_]
    ) -> None:
        """
        Delete rows, as `Tables.delete`, and give back chunks of doubts that are no longer needed.
        """
        self._latest = NONE
        super().delete(fingerprints, rows, done)
        self._doubts.release()

    def contents(self) -> list[NDArray[Any]]:
        """
        Return copies of fingerprints, doubts, rows, and the tables that list each, by ascending
        row.
        """
        entered = [self._entered(table) for table in range(len(self._pieces))]
        every_row = np.concatenate([of_table for _, of_table in entered])
        rows, places = np.unique(every_row, return_index=True)
        fingerprints = np.concatenate([values for values, _ in entered])[places]
        listed = np.zeros(len(rows), np.uint16)
        for table, (_, of_table) in enumerate(entered):
            listed[np.searchsorted(rows, of_table)] |= np.uint16(1 << table)
        return [fingerprints, self._doubts.take(rows), rows, listed]

    def _entered(self, table: int) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
        """Return what the entries of a table say: fingerprints and rows, by ascending row."""
        bits = self.memory.bits
        buckets, filters, rows = self.stores[0].contents(table << bits, (table + 1) << bits)
        prefixes = (buckets - (table << bits)).astype(np.uint64)
        values = prefixes << np.uint64(BITS_ALL - bits) | filters
        fingerprints = restored_column(values, self._rotations[table], self._pieces[table])
        order = np.argsort(rows, kind="stable")
        return fingerprints[order], rows[order]

    def check(self) -> None:
        """
        Assert the invariants of rows and entries: each row at most once in each table, under the
        same fingerprint, those of a bucket in their order, and of a prefix no more than prefix_max.
        """
        super().check()
        fingerprints, _, rows, _ = self.contents()
        assert len(rows) == len(self)
        assert (rows[1:] > rows[:-1]).all()
        assert not len(self) or rows[-1] <= self.memory.last_row
        self._doubts.check(rows)
        for table, runs in enumerate(self._rules.runs):
            others, of_table = self._entered(table)
            assert (of_table[1:] > of_table[:-1]).all()
            assert np.array_equal(others, fingerprints[np.searchsorted(rows, of_table)])
            below = np.uint64(BITS_ALL - sum(width for _, width in runs))
            _, counts = np.unique(self._arranged(table, others) >> below, return_counts=True)
            assert not len(counts) or counts.max() <= self.memory.prefix_max
        buckets, _, refs = self.stores[0].contents()
        assert (refs[1:] > refs[:-1])[buckets[1:] == buckets[:-1]].all()

    def _new_stores(self, documents: int) -> tuple[Buckets, ...]:
        tables = len(self._pieces)
        count = tables << self.memory.bits
        return (Buckets(self.memory.root, count, tables, tables * documents, wide=True),)

    def _buckets(self, table: int, fingerprints: NDArray[np.uint64]) -> NDArray[np.int64]:
        top = np.uint64(BITS_ALL - self.memory.bits)
        return (self._arranged(table, fingerprints) >> top).astype(np.int64)

    def _arranged(self, table: int, fingerprints: NDArray[np.uint64]) -> NDArray[np.uint64]:
        return arranged_column(fingerprints, self._rotations[table], self._pieces[table])


def scratch_of(rules: SearchRules) -> dict[str, NDArray[np.generic]]:
    """
    Return what one search writes to, by the name of its address in the block: searches at the same
    time have one each.
    """
    return {
        "firsts": np.zeros(int(COPIES_TOGETHER), np.uint64),
        "turns": np.zeros(TURNS_HELD * turn_words(rules), np.uint64),
        "found": np.zeros(2 * (FOUND_MAX + int(CHUNK) * rules.prefix_max + 1), np.uint64),
        "scratch": np.zeros(SCRATCH_BYTES + 4 * rules.patterns, np.uint8),
        "ranks": np.zeros(int(confirm.RANKS_MAX), np.uint64),
    }
