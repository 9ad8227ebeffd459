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

An earlier row is a candidate if it is near and alike enough, and if it differs from the row by a
pattern that is looked up, in some block in which it was listed at birth. A sorted search notes on
its way which rows of the part meet each other (`parts`). After a search that was not sorted, or if
there was no room for all pairs, the second step compares each row with the earlier originals of the
part, eight at a time: .4 µs of a row with 1,024 of them.

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
from worker.core.tables.confirm import UNCONFIRMED
from worker.core.tables.directed import (
    GIVEN_AHEAD,
    DirectedTables,
    scratch_of,
    search_turn,
)
from worker.core.tables.entries import TOP, add, arranged, ask_places
from worker.core.tables.equal import IDENTICAL, find_equal
from worker.core.tables.memory import (
    INSERT_ALL,
    INSERT_GIVEN,
    QUERY,
    Block,
    DirectedMemory,
    kernel,
    signed,
)
from worker.core.tables.parts import Notes, Part, join, join_pairs, note_kept, take_kept
from worker.core.tables.scan import PATTERN_MASK, view_of
from worker.core.tables.second_look import is_alike, products
from worker.core.tables.sorted_probes import Sorting, search_sorted, sorting_for
from worker.core.tables.turns import AHEAD, ask_patterns, prepare, probes_at, probes_end, turn_at

# Of a part whose probes are not sorted: in a longer one the second step would cost more than it
# saves.
PART_ROWS_MAX = 1_024
# Pairs of near rows that the second step meets in a part: beyond it, parts have PART_ROWS_MAX rows.
# Thousands of pages of one template, each of which becomes an original, would take seconds: 20 to
# 100 ns a pair.
NEAR_MAX = 1 << 20
PAIRS_MAX = 1 << 21  # that a sorted search notes of a part: 16 MB, if it finds so many
NO_PAIRS = np.empty(0, np.uint64)
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
    ranks = part.ranks
    view = view_of(memory)
    ready = looked_at = signed(begin)
    for i in range(begin, end):
        while ready < min(signed(i) + AHEAD, signed(end)):
            if ready == looked_at:
                looked_at = find_equal(memory, view, fingerprints, doubts, ranks, ready, end)
            prepare(memory, ready, fingerprints[ready], doubts[ready], ranks[ready])
            ready += 1
        if ready < end:
            ask_patterns(memory, doubts[ready])
        take_kept(memory, part, signed(i))
        best = search_turn(memory, view, signed(i), ready, doubts[i])
        if ranks[i] < IDENTICAL:
            memory.rank_count = signed(0)
            confirm.keep(memory, signed(ranks[i]))
        else:
            ranks[i] = best
        note_kept(memory, part, signed(i))


@kernel
def confirm_rows(block: Block, part: Part) -> None:
    """Confirm the candidates of a part's rows."""
    memory: DirectedMemory = block[0]
    scratch = memory.ranks
    for i in range(part.first, part.end):
        take_kept(memory, part, signed(i))
        part.ranks[i] = confirm.confirm(memory, signed(i))
    memory.ranks = scratch


@kernel
def join_outside(block: Block, part: Part, found: Candidates) -> None:
    """
    Keep what another index has found for a part's rows, and confirm those that have got something.
    """
    memory: DirectedMemory = block[0]
    scratch = memory.ranks
    for i in range(part.first, part.end):
        if found.begins[i] == found.ends[i]:
            continue
        take_kept(memory, part, signed(i))
        for at in range(found.begins[i], found.ends[i]):
            confirm.keep(memory, signed(found.ranks[at]))
        note_kept(memory, part, signed(i))
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
def join_earlier(memory: DirectedMemory, part: Part, i: int, count: int) -> bool:
    """
    Keep those of the part's first `count` originals that a row finds; tell whether there are any.
    """
    fingerprint = part.fingerprints[i]
    doubts = part.doubts
    has_joined = is_prepared = False
    limit = np.uint64(memory.distance_max)
    turn = turn_at(memory, signed(i))
    for begin in range(0, count, WIDE_LANES):
        near = words_within(part.notes.news.ctypes.data, signed(begin), fingerprint, limit)
        while near:
            number = begin + signed(machine.trailing_zeros(near))
            near &= near - ONE
            if number >= count:  # the last vector reaches past them
                break
            memory.near_met += 1
            earlier = part.notes.places[number]
            difference = fingerprint ^ part.notes.news[number]
            product, norms = products(difference, doubts[i], doubts[earlier])
            if not is_alike(memory.look_min, product, norms):
                continue
            if not is_prepared:
                prepare(memory, signed(i), fingerprint, doubts[i], signed(UNCONFIRMED))
                is_prepared = True
            if is_looked_up(memory, turn, difference, np.uint64(part.listed[earlier])):
                join(memory, part, i, earlier)
                has_joined = True
    return has_joined


@kernel
def settle_rows(
    block: Block,
    part: Part,
    pairs: NDArray[np.uint64],
    begin: int,
    first_row: int,
    count: int,
    mode: int,
) -> int:
    """
    Settle a part's rows from row `begin` of the call on; return where it stopped: for want of room,
    or where NEAR_MAX pairs of them were near.

    `count` of the part's rows are indexed already, from `first_row` on. `pairs` are sorted.
    """
    memory: DirectedMemory = block[0]
    fingerprints = part.fingerprints
    ranks = part.ranks
    scratch = memory.ranks
    end = part.end
    at = signed(0)  # of the pairs
    for i in range(begin, end):
        is_crowded = memory.near_met > NEAR_MAX and i >= part.first + PART_ROWS_MAX
        if is_crowded or not buckets.has_room(memory):
            end = signed(i)
            break
        if i + 2 * GIVEN_AHEAD < end:
            ask_places(memory, fingerprints[i + 2 * GIVEN_AHEAD], signed(0))
            ask_places(memory, fingerprints[i + GIVEN_AHEAD], signed(1))
        if ranks[i] >= IDENTICAL:
            take_kept(memory, part, signed(i))
            if part.is_paired:
                at, has_joined = join_pairs(memory, part, pairs, at, signed(i))
            else:
                has_joined = join_earlier(memory, part, signed(i), count)
            if has_joined:
                ranks[i] = confirm.confirm(memory, signed(i))
        part.notes.born[i - part.first] = -1
        if mode == INSERT_ALL or ranks[i] >= UNCONFIRMED:
            part.notes.news[count] = fingerprints[i]
            part.notes.places[count] = i
            row = first_row + count
            part.notes.born[i - part.first] = row
            allowed = np.uint64(part.listed[i])
            part.listed[i] = add(memory, fingerprints[i], part.doubts[i], row, allowed)
            confirm.note_fresh(memory, row, signed(i))
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
        self._pairs = NO_PAIRS
        self._arrays = scratch_of(rules)  # kept alive here: blocks hold their addresses

    def sorting(self, rows: int, part_rows: int) -> Sorting:
        """Return the arrays that a sorted search of so many rows of a part writes to."""
        sorting = self._sorting
        if sorting is None or len(sorting.own) < rows or len(sorting.entered) < part_rows:
            sorting = self._sorting = sorting_for(self._rules, rows, part_rows)
        return sorting

    def pairs(self, shares: int) -> NDArray[np.uint64]:
        """Return the array that gets the pairs of a part, one of so many."""
        if len(self._pairs) != PAIRS_MAX // shares:
            self._pairs = np.empty(PAIRS_MAX // shares, np.uint64)
        return self._pairs

    def release(self) -> None:
        """Give back what a sorted search writes to."""
        self._sorting = None
        self._pairs = NO_PAIRS

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
        self._notes: Notes | None = None

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
        if mode != QUERY and not is_sorted:  # a question comes between two calls that are sorted
            self._release()
        is_row_by_row = self._shares(rows) < 2 and not (is_sorted or self.asks or self.outside)
        if is_row_by_row or not is_ascending or mode == INSERT_GIVEN:
            return super().match(held, begin, first_row, ranks, mode)
        self._hold(first_row, ranks[begin:], mode)
        part = self._part_of(held, ranks, rows)
        first = begin
        while first < len(ranks):
            is_sorted = is_sorted and self._is_sorted(len(ranks) - first)
            part = self._next_part(part, first, is_sorted)
            pairs = self._search(part, is_sorted, has_pairs=mode != QUERY)
            self.memory.asking = self.asks
            for found in self.outside:
                join_outside(self.memory.block, part, found)
            self.memory.asking = 0
            if self.asks:
                confirm_rows(self.memory.block, part)
            first = part.end
            if mode != QUERY:
                first = self._settle(part, pairs, first_row, mode)
                first_row += confirm.births(ranks[part.first : first], mode)
                is_sorted = is_sorted and self.memory.near_met <= NEAR_MAX
        return len(ranks)

    def _release(self) -> None:
        """Give back what sorted searches write to, 150 MB: only an index that is behind sorts."""
        for scratch in self._scratches:
            scratch.release()

    def _part_of(self, held: list[NDArray[np.uint64]], ranks: NDArray[np.int64], rows: int) -> Part:
        """Return a part of a call of so many rows, with room for as many as are taken together."""
        rows = min(rows, max(PART_ROWS_MAX, TOGETHER_ROWS))
        if self._notes is None or len(self._notes.counts) < rows:
            self._notes = Notes(
                kept=np.empty((rows, int(confirm.RANKS_MAX)), np.uint64),
                counts=np.empty(rows, np.int64),
                born=np.empty(rows, np.int64),
                news=np.empty(rows + WIDE_LANES, np.uint64),
                places=np.empty(rows, np.int64),
            )
        fingerprints, doubts = held
        return Part(0, 0, fingerprints, doubts, ranks, self._listed, self._notes, is_paired=False)

    def _next_part(self, part: Part, first: int, is_sorted: bool) -> Part:
        """Return the part that begins with this row of the call."""
        rows = TOGETHER_ROWS if is_sorted else PART_ROWS_MAX
        return part._replace(first=first, end=min(first + rows, len(part.ranks)))

    def _settle(
        self, part: Part, pairs: NDArray[np.uint64] | None, first_row: int, mode: int
    ) -> int:
        """
        Settle a part's rows, and return where it stopped: before its end if too many of its
        originals are near each other.
        """
        part = part._replace(is_paired=pairs is not None)
        pairs = NO_PAIRS if pairs is None else pairs
        self.memory.near_met = 0
        done = part.first
        while done < part.end and self.memory.near_met <= NEAR_MAX:
            self.maintain()
            count = confirm.births(part.ranks[part.first : done], mode)
            done = settle_rows(self.memory.block, part, pairs, done, first_row, count, mode)
        return done

    def candidates(self, held: list[NDArray[np.uint64]]) -> Candidates:
        """Return the best candidates of each fingerprint. Changes nothing."""
        count = len(held[0])
        counts = [np.zeros(1, np.int64)]
        found = [np.empty(0, np.uint64)]
        part = self._part_of(held, np.empty(count, np.int64), count)
        while part.end < count:
            is_sorted = self._is_sorted(count - part.end)
            part = self._next_part(part, part.end, is_sorted)
            self._search(part, is_sorted, has_pairs=False)
            counts.append(part.notes.counts[: part.end - part.first].copy())
            is_kept = np.arange(part.notes.kept.shape[1]) < counts[-1][:, None]
            found.append(part.notes.kept[: part.end - part.first][is_kept])
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

    def _search(self, part: Part, is_sorted: bool, *, has_pairs: bool) -> NDArray[np.uint64] | None:
        """
        Search the rows of a part, each thread as many; this one takes the first of them. Return
        which rows of the part meet each other, in their order, if `has_pairs` and the search is
        sorted; None, too, if there are too many of them.
        """
        rows = part.end - part.first
        shares = self._shares(rows)
        while len(self._scratches) < shares:
            self._scratches.append(Scratch(self._rules))
        edges = [part.first + rows * share // shares for share in range(shares + 1)]

        def search(share: int) -> DirectedMemory:
            memory = self._scratches[share].block_like(self.memory)
            memory.asking = self.asks
            memory.pairs_noted = 0
            first, stop = edges[share], edges[share + 1]
            if is_sorted:
                scratch = self._scratches[share]
                pairs = scratch.pairs(shares) if has_pairs else NO_PAIRS
                sorting = scratch.sorting(stop - first, rows)
                search_sorted(memory.block, part, pairs, sorting, first, stop)
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
        if not (has_pairs and is_sorted):
            return None
        noted = [
            (self._scratches[at].pairs(shares), block.pairs_noted)
            for at, block in enumerate(blocks)
        ]
        if any(count > len(pairs) for pairs, count in noted):
            return None
        met = np.concatenate([pairs[:count] for pairs, count in noted])
        met.sort()
        return met
