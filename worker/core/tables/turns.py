"""
The turns of a directed index: the probes of a query, made some queries before they are looked up.

A turn has, in words of 64 bits, the probes of one query, and for each table what they have in
common:

    number of probes | of each table: arranged fingerprint, where its probes end | probe | …

What a query will read is prefetched while others are searched: the patterns of the third query from
here, the heads of the buckets of the one after the next, and the entries that are compared
LEAD probes later.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from worker.core.compiled import fused, inner
from worker.core.kernels.machine import prefetch, read64, write64
from worker.core.search import SearchRules
from worker.core.tables.entries import TOP, arranged
from worker.core.tables.equal import IDENTICAL
from worker.core.tables.memory import DirectedMemory, signed
from worker.core.tables.patterns import pattern_at, patterns_of
from worker.core.tables.scan import BUCKET_SHIFT, View, ask_range, bucket_in

TURNS_HELD = 4  # queries whose probes are kept: the one that is answered and those after it
AHEAD = 3  # queries whose probes are made: the one that is answered and two more


def turn_words(rules: SearchRules) -> int:
    """Return the words of a turn, at most."""
    return 1 + 2 * rules.blocks + rules.blocks * rules.patterns


@inner
def turn_at(memory: DirectedMemory, number: int) -> int:
    """Return the address of a query's turn."""
    return signed(memory.turns + (number & (TURNS_HELD - 1)) * memory.turn_bytes)


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
    """Return the address of the first probe."""
    return signed(turn + 8 * (1 + 2 * tables))


@inner
def prepare(
    memory: DirectedMemory, number: int, fingerprint: np.uint64, doubts: np.uint64, rank: int
) -> None:
    """Write the probes of a query: none if its rank says that an equal one has been found."""
    turn = turn_at(memory, number)
    tables = memory.tables
    probes = probes_at(turn, tables)
    end = signed(0)
    if rank < IDENTICAL:
        write64(turn, signed(0), np.uint64(0))
        for table in range(tables):
            write64(turn, 2 + 2 * table, np.uint64(0))
        return
    for table in range(tables):
        width = read64(memory.widths, table)
        own = arranged(memory, table, fingerprint)
        unsure = arranged(memory, table, doubts) >> (TOP - width)
        block = own >> (TOP - width)
        surplus = width - np.uint64(memory.bits)
        first = np.uint64(table << memory.bits)
        patterns = patterns_of(memory, width, unsure)
        for i in range(patterns.length):
            pattern = pattern_at(patterns, i)
            bucket = first + ((block ^ pattern) >> surplus)
            write64(probes, end + i, bucket << BUCKET_SHIFT | pattern)
        end += patterns.length
        write64(turn, 1 + 2 * table, own)
        write64(turn, 2 + 2 * table, np.uint64(end))
    write64(turn, signed(0), np.uint64(end))


@inner
def ask_patterns(memory: DirectedMemory, doubts: np.uint64) -> None:
    """Prefetch the patterns that `prepare` will read."""
    for table in range(memory.tables):
        ask_patterns_of(memory, signed(table), doubts)


@inner
def ask_patterns_of(memory: DirectedMemory, table: int, doubts: np.uint64) -> None:
    """Prefetch the patterns of one table, if they are not made by their recipe."""
    if memory.pattern_table:
        unsure = arranged(memory, table, doubts) >> (TOP - read64(memory.widths, table))
        begin = 2 * memory.patterns * signed(unsure)
        for line in range(begin, begin + 2 * memory.patterns, 64):
            prefetch(memory.pattern_table, signed(line))


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
def turns_from(memory: DirectedMemory, view: View, turn: int, ready: int) -> QueryTurns:
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
        min(memory.lead, count_here),
    )


@fused
def ask_ahead(view: View, turns: QueryTurns, begin: int, end: int) -> None:
    """Prefetch for probes of the query after the next, and for as many that are searched soon."""
    for number in range(begin, min(end, turns.count_later)):
        prefetch(view.heads, 8 * bucket_in(read64(turns.later, number)))
    begin += turns.lead
    end += turns.lead
    ask_range(view, turns.here, begin, min(end, turns.count_here))
    soon = max(signed(0), begin - turns.count_here)
    ask_range(view, turns.soon, soon, min(end - turns.count_here, turns.count_soon))


@inner
def ask_rest(memory: DirectedMemory, view: View, turns: QueryTurns) -> None:
    """
    Prefetch the probes that `ask_ahead` left out, when the next queries have more probes than this
    one.
    """
    for number in range(turns.count_here, turns.count_later):
        prefetch(view.heads, 8 * bucket_in(read64(turns.later, number)))
    ask_range(view, turns.soon, turns.lead, min(memory.lead, turns.count_soon))
