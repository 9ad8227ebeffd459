"""
Directed search on several cores, with the answers of `match_directed`, which takes one row after
the other.

A call's rows are taken in parts. Of each part

1. threads search the rows among the originals as they were before the part, all at once. They read
   the tables, and each writes to a scratch of its own. Of each row its best candidates are kept,
   and the best match. Where rows and originals are many, each thread sorts the probes of its rows
   by bucket (`sorted_probes`); else it takes one row after the other.
2. one pass goes over the rows in their order. The earlier rows of the part that have become
   originals join a row's candidates if the search would have found them; the sketches decide again;
   what is new is indexed.

The second step needs no tables to see which earlier rows are near: a part has few, and they are
compared eight at a time. A row takes .4 µs of it with 1,024 new ones, 3.5 with 16,384. A near one
is a candidate if it is alike enough, if it differs from the row by a pattern that is looked up, in
some block in which it was listed at birth.

What is found with all bits equal among the originals stays the best: an earlier row of the part has
a greater number.

Where sketches lie on a disk, a call may prefetch them (`asks`). The first step then asks for the
sketches of each row's best candidates, whatever the number of threads. The device reads them while
the next rows are searched, and what was found is confirmed behind the part's last row. Rejected: a
search that only asks, and a second one that reads, at 4 µs per row with 1 M originals and 12 with
10 M.

A call may bring what other indexes have found for its rows (`Candidates`). These join between the
two steps, and take part as if this index had found them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.core.compiled import inner
from worker.core.kernels import machine
from worker.core.kernels.machine import read64
from worker.core.kernels.nearness import WIDE_LANES, words_within
from worker.core.planner import TOGETHER_ROWS, are_sorted
from worker.core.search import SearchRules
from worker.core.tables import buckets, confirm
from worker.core.tables.buckets import ONE
from worker.core.tables.confirm import LOOK_MAX, UNCONFIRMED
from worker.core.tables.directed import (
    GIVEN_AHEAD,
    IDENTICAL,
    DirectedTables,
    scratch_of,
    search_turn,
)
from worker.core.tables.entries import TOP, add, arranged, ask_places
from worker.core.tables.memory import (
    INSERT_ALL,
    INSERT_GIVEN,
    QUERY,
    Block,
    DirectedMemory,
    kernel,
    signed,
)
from worker.core.tables.parts import Part, take_kept
from worker.core.tables.scan import PATTERN_MASK, view_of
from worker.core.tables.second_look import products, rank_of
from worker.core.tables.sorted_probes import Sorting, search_sorted, sorting_for
from worker.core.tables.turns import AHEAD, ask_patterns, prepare, probes_at, probes_end, turn_at

ROWS_MAX = 1_024  # of a part: beyond it the second step would compare more than it saves
# Pairs of near rows in a part: beyond it, parts have ROWS_MAX rows. Thousands of pages of one
# template, each of which becomes an original, would take seconds: 20 to 100 ns a pair.
NEAR_MAX = 1 << 20
SHARE_MIN = 32  # rows that are worth a thread: some 60 µs


class Candidates(NamedTuple):
    """
    The best candidates that an index has for some fingerprints, before their sketches decide.

    Each is a rank (`confirm`) without similarity. Those of fingerprint i are `ranks[begins[i]]` to
    `ranks[ends[i] - 1]`, at most RANKS_MAX, the best first. If one is equal to the fingerprint in
    all that is compared, worse ones may be missing.
    """

    begins: NDArray[np.int64]
    ends: NDArray[np.int64]
    ranks: NDArray[np.uint64]

    @property
    def equal(self) -> int:
        """How many of all are equal to their fingerprint."""
        return confirm.count_equal(self.ranks)


@kernel
def search_rows(block: Block, part: Part, begin: int, end: int) -> None:
    """Search rows `begin` to `end` - 1 of the call, and change nothing that other searches see."""
    memory: DirectedMemory = block[0]
    fingerprints = part.fingerprints
    doubts = part.doubts
    view = view_of(memory)
    ready = signed(begin)
    for i in range(begin, end):
        while ready < min(signed(i) + AHEAD, signed(end)):
            prepare(memory, ready, fingerprints[ready], doubts[ready])
            ready += 1
        if ready < end:
            ask_patterns(memory, doubts[ready])
        take_kept(memory, part, signed(i))
        best = search_turn(memory, view, signed(i), ready, doubts[i])
        part.ranks[i] = best
        part.counts[i - part.first] = memory.rank_count


@kernel
def confirm_rows(block: Block, part: Part, end: int) -> None:
    """Confirm the candidates of a part's rows, up to row `end` - 1 of the call."""
    memory: DirectedMemory = block[0]
    scratch = memory.ranks
    for i in range(part.first, end):
        take_kept(memory, part, signed(i))
        part.ranks[i] = confirm.confirm(memory, signed(i))
    memory.ranks = scratch


@kernel
def join_outside(block: Block, part: Part, end: int, found: Candidates) -> None:
    """
    Keep what another index has found for a part's rows, up to row `end` - 1 of the call, and
    confirm those that have got something.
    """
    memory: DirectedMemory = block[0]
    scratch = memory.ranks
    for i in range(part.first, end):
        if found.begins[i] == found.ends[i]:
            continue
        take_kept(memory, part, signed(i))
        for at in range(found.begins[i], found.ends[i]):
            confirm.keep(memory, signed(found.ranks[at]))
        part.counts[i - part.first] = memory.rank_count
        part.ranks[i] = confirm.confirm(memory, signed(i))
    memory.ranks = scratch


@inner
def is_looked_up(
    memory: DirectedMemory, turn: int, difference: np.uint64, listed: np.uint64
) -> bool:
    """Return whether a query finds one that differs so, in one of the tables where it is listed."""
    probes = probes_at(turn, memory.tables)
    number = signed(0)
    for table in range(memory.tables):
        end = probes_end(turn, signed(table))
        if listed >> np.uint64(table) & ONE:
            below = TOP - read64(memory.widths, table)
            pattern = arranged(memory, table, difference) >> below
            for probe in range(number, end):
                if read64(probes, signed(probe)) & PATTERN_MASK == pattern:
                    return True
        number = end
    return False


@inner
def join_earlier(memory: DirectedMemory, part: Part, i: int, count: int, first_row: int) -> bool:
    """
    Keep those of the part's first `count` originals that a row finds; tell whether there are any.
    """
    fingerprint = part.fingerprints[i]
    doubts = part.doubts
    has_joined = is_prepared = False
    limit = np.uint64(memory.distance_max)
    turn = turn_at(memory, signed(i))
    for begin in range(0, count, WIDE_LANES):
        near = words_within(part.news.ctypes.data, signed(begin), fingerprint, limit)
        while near:
            number = begin + signed(machine.trailing_zeros(near))
            near &= near - ONE
            if number >= count:  # the last vector reaches past them
                break
            memory.near_met += 1
            difference = fingerprint ^ part.news[number]
            product, norms = products(difference, doubts[i], doubts[part.places[number]])
            squares = LOOK_MAX * LOOK_MAX * product * product
            least = memory.look_min
            if squares < least * least * norms or (product <= 0 and least > 0):
                continue
            if not is_prepared:
                prepare(memory, signed(i), fingerprint, doubts[i])
                is_prepared = True
            listed = np.uint64(part.listed[part.places[number]])
            if is_looked_up(memory, turn, difference, listed):
                rank = rank_of(product, norms, difference, signed(first_row + number))
                confirm.keep(memory, rank)
                has_joined = True
    return has_joined


@kernel
def settle_rows(
    block: Block, part: Part, begin: int, end: int, first_row: int, count: int, mode: int
) -> int:
    """
    Settle rows `begin` to `end` - 1 of the call, that are searched; return where it stopped: for
    want of room, or where NEAR_MAX pairs of them were near.

    `count` of the part's rows are indexed already, from `first_row` on.
    """
    memory: DirectedMemory = block[0]
    fingerprints = part.fingerprints
    ranks = part.ranks
    scratch = memory.ranks
    for i in range(begin, end):
        is_crowded = memory.near_met > NEAR_MAX and i >= part.first + ROWS_MAX
        if is_crowded or not buckets.has_room(memory):
            end = signed(i)
            break
        if i + 2 * GIVEN_AHEAD < end:
            ask_places(memory, fingerprints[i + 2 * GIVEN_AHEAD], signed(0))
            ask_places(memory, fingerprints[i + GIVEN_AHEAD], signed(1))
        if ranks[i] >= IDENTICAL:
            take_kept(memory, part, signed(i))
            if join_earlier(memory, part, signed(i), count, first_row):
                ranks[i] = confirm.confirm(memory, signed(i))
        if mode == INSERT_ALL or ranks[i] >= UNCONFIRMED:
            part.news[count] = fingerprints[i]
            part.places[count] = i
            allowed = np.uint64(part.listed[i])
            listed = add(memory, fingerprints[i], part.doubts[i], first_row + count, allowed)
            part.listed[i] = listed
            confirm.note_fresh(memory, first_row + count, signed(i))
            count += 1
    memory.ranks = scratch
    return signed(end)


@lru_cache(maxsize=1)
def _pool(_process: int) -> ThreadPoolExecutor:
    """The threads of a process, made as they are needed; a fork has none of its parent's."""
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="judge")


class Scratch:
    """The memory that one of several parallel searches writes to."""

    def __init__(self, rules: SearchRules) -> None:
        self._rules = rules
        self._sorting: Sorting | None = None
        self._arrays = scratch_of(rules)  # kept alive here: blocks hold their addresses

    def sorting(self, rows: int) -> Sorting:
        """Return the arrays that a sorted search of so many rows writes to."""
        if self._sorting is None or len(self._sorting.own) < rows:
            self._sorting = sorting_for(self._rules, rows)
        return self._sorting

    def block_like(self, memory: DirectedMemory) -> DirectedMemory:
        """
        Return a copy of the block that describes the tables, with this scratch in place of its own.
        """
        block = memory.copy()
        block.point_to(self._arrays)
        return block


class ParallelTables(DirectedTables):
    """
    The content of a directed index, which up to `threads` threads search at a time.

    With one thread rows are taken one after the other, as if there were nothing else, unless their
    probes are sorted, or a call `asks`: for all sketches that it will read, before it reads the
    first.
    """

    def __init__(self, rules: SearchRules, bits: int) -> None:
        super().__init__(rules, bits)
        self.threads = 1
        self.asks = False
        self.is_sorted: bool | None = None  # whether probes are sorted; None: where it pays
        self.outside: Sequence[Candidates] = ()  # of the next call's rows
        self._scratches: list[Scratch] = []
        rows_max = max(ROWS_MAX, TOGETHER_ROWS)
        self._notes = (
            np.empty((rows_max, int(confirm.RANKS_MAX)), np.uint64),
            np.empty(rows_max, np.int64),
            np.empty(rows_max + WIDE_LANES, np.uint64),
            np.empty(rows_max, np.int64),
        )

    def match(
        self,
        held: list[NDArray[np.uint64]],
        begin: int,
        first_row: int,
        ranks: NDArray[np.int64],
        mode: int,
    ) -> int:
        """`Tables.match`; it goes on to the end, and makes the columns longer itself."""
        is_ascending = mode == QUERY or first_row > self.memory.last_row
        rows = len(ranks) - begin
        is_sorted = self._is_sorted(rows)
        is_row_by_row = self._shares(rows) < 2 and not (is_sorted or self.asks or self.outside)
        if is_row_by_row or not is_ascending or mode == INSERT_GIVEN:
            return super().match(held, begin, first_row, ranks, mode)
        self._hold(first_row, ranks[begin:], mode)
        fingerprints, doubts = held
        part = Part(begin, fingerprints, doubts, ranks, self._listed, *self._notes)
        part_rows = TOGETHER_ROWS if is_sorted else ROWS_MAX
        first = begin
        while first < len(ranks):
            end = min(first + part_rows, len(ranks))
            part = part._replace(first=first)
            self._search(part, end)
            self.memory.asking = self.asks
            for found in self.outside:
                join_outside(self.memory.block, part, end, found)
            self.memory.asking = 0
            if self.asks:
                confirm_rows(self.memory.block, part, end)
            if mode != QUERY:
                end = self._settle(part, end, first_row, mode)
                first_row += confirm.births(ranks[first:end], mode)
                if self.memory.near_met > NEAR_MAX:
                    part_rows = ROWS_MAX
            first = end
        return len(ranks)

    def _settle(self, part: Part, end: int, first_row: int, mode: int) -> int:
        """
        Settle a part's rows up to row `end` - 1 of the call, and return where it stopped: earlier
        if too many of its originals are near each other.
        """
        self.memory.near_met = 0
        done = part.first
        while done < end and self.memory.near_met <= NEAR_MAX:
            self.maintain()
            count = confirm.births(part.ranks[part.first : done], mode)
            done = settle_rows(self.memory.block, part, done, end, first_row, count, mode)
        return done

    def candidates(self, held: list[NDArray[np.uint64]]) -> Candidates:
        """Return the best candidates of each fingerprint. Changes nothing."""
        fingerprints, doubts = held
        count = len(fingerprints)
        ranks = np.empty(count, np.int64)
        part = Part(0, fingerprints, doubts, ranks, self._listed, *self._notes)
        counts = [np.zeros(1, np.int64)]
        found = [np.empty(0, np.uint64)]
        part_rows = TOGETHER_ROWS if self._is_sorted(count) else ROWS_MAX
        for first in range(0, count, part_rows):
            end = min(first + part_rows, count)
            part = part._replace(first=first)
            self._search(part, end)
            counts.append(part.counts[: end - first].copy())
            is_kept = np.arange(part.kept.shape[1]) < counts[-1][:, None]
            found.append(part.kept[: end - first][is_kept])
        edges = np.cumsum(np.concatenate(counts))
        return Candidates(edges[:-1], edges[1:], np.concatenate(found))

    def _shares(self, rows: int) -> int:
        """Return by how many threads so many rows are searched."""
        return max(1, min(self.threads, rows // SHARE_MIN))

    def _is_sorted(self, rows: int) -> bool:
        """Return whether a call of so many rows sorts its probes; each thread sorts its own."""
        if self.is_sorted is not None:
            return self.is_sorted
        each = min(rows, TOGETHER_ROWS) // self._shares(rows)
        bits = self.memory.bits
        entries = self.stores[0].entries / (self.memory.tables << bits)
        return are_sorted(self._rules, each, entries, bits)

    def _search(self, part: Part, end: int) -> None:
        """Search the rows of a part, each thread as many; this one takes the first of them."""
        rows = end - part.first
        shares = self._shares(rows)
        is_sorted = self._is_sorted(rows)
        while len(self._scratches) < shares:
            self._scratches.append(Scratch(self._rules))
        edges = [part.first + rows * share // shares for share in range(shares + 1)]

        def search(share: int) -> DirectedMemory:
            memory = self._scratches[share].block_like(self.memory)
            memory.asking = self.asks
            first, stop = edges[share], edges[share + 1]
            if is_sorted:
                sorting = self._scratches[share].sorting(stop - first)
                search_sorted(memory.block, part, sorting, first, stop)
            else:
                search_rows(memory.block, part, first, stop)
            return memory

        others = [_pool(os.getpid()).submit(search, share) for share in range(1, shares)]
        try:
            blocks = [search(0), *(other.result() for other in others)]
        finally:  # Ctrl-C: the caller gives up the sketches, which a kernel may still be reading
            wait(others)
        known = self.memory.copy()  # each block began with these counts
        for block in blocks:
            self.memory.filters_read += block.filters_read - known.filters_read
            self.memory.sketches_read += block.sketches_read - known.sketches_read
