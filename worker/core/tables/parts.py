"""
The rows of a call that are searched together: their candidates, and the pairs of them that meet.

A pair is a word, so that sorted pairs are in the order of the rows that they are for:

    row (24 bits) | earlier row (24 bits) | table in which the row's search meets it (16 bits)

Both rows are counted from the part's first. Whether the earlier row becomes an original is known
only in the pass that settles the rows, and so is where it is listed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.core import planner
from worker.core.compiled import inner
from worker.core.kernels.machine import popcount
from worker.core.tables import confirm
from worker.core.tables.memory import DirectedMemory, signed
from worker.core.tables.second_look import is_alike, products, rank_of

assert planner.TOGETHER_ROWS <= 1 << 24, "a pair has 24 bits for a row"
KEPT_BYTES = signed(8 * int(confirm.RANKS_MAX))
ROW_SHIFT = np.uint64(40)
EARLIER_SHIFT = np.uint64(16)
EARLIER_MASK = np.uint64((1 << 24) - 1)
TABLES_MASK = np.uint64((1 << 16) - 1)


class Notes(NamedTuple):
    """What is noted by row of a part, counted from its first."""

    kept: NDArray[np.uint64]  # its best candidates, as ranks
    counts: NDArray[np.int64]  # how many they are
    born: NDArray[np.int64]  # the original that it became, or -1
    news: NDArray[np.uint64]  # those that became originals: their fingerprints
    places: NDArray[np.int64]  # … their rows of the call


class Part(NamedTuple):
    """The rows of a call that are searched together, and what is known of them."""

    first: int  # the call's row that the part begins with
    end: int  # … and the one that it ends before
    fingerprints: NDArray[np.uint64]  # by row of the call
    doubts: NDArray[np.uint64]  # by row of the call
    ranks: NDArray[np.int64]  # by row of the call: the best match
    # By row of the call: the tables in which it may be listed; of an original, those that list it.
    listed: NDArray[np.uint16]
    notes: Notes
    is_paired: bool  # all pairs that meet have been noted


@inner
def take_kept(memory: DirectedMemory, part: Part, i: int) -> None:
    """Let `confirm.keep` and `confirm.confirm` go on with the candidates that a row has so far."""
    memory.ranks = signed(part.notes.kept.ctypes.data + KEPT_BYTES * (i - part.first))
    memory.rank_count = part.notes.counts[i - part.first]


@inner
def note_kept(memory: DirectedMemory, part: Part, i: int) -> None:
    """Note how many candidates a row has now."""
    part.notes.counts[i - part.first] = memory.rank_count


@inner
def note_pair(
    memory: DirectedMemory, part: Part, pairs: NDArray[np.uint64], i: int, earlier: int, table: int
) -> None:
    """
    Note that the search of a row meets an earlier one in a table, if the two are near and alike
    enough. `memory.pairs_noted` is greater than `len(pairs)` where there was no more room.
    """
    difference = part.fingerprints[i] ^ part.fingerprints[earlier]
    if signed(popcount(difference)) > memory.distance_max:
        return
    product, norms = products(difference, part.doubts[i], part.doubts[earlier])
    if not is_alike(memory.look_min, product, norms):
        return
    if memory.pairs_noted < len(pairs):
        pairs[memory.pairs_noted] = (
            np.uint64(i - part.first) << ROW_SHIFT
            | np.uint64(earlier - part.first) << EARLIER_SHIFT
            | np.uint64(1) << np.uint64(table)
        )
    memory.pairs_noted += 1


@inner
def join(memory: DirectedMemory, part: Part, i: int, earlier: int) -> None:
    """Let an earlier row that became an original join a row's candidates (`take_kept`)."""
    difference = part.fingerprints[i] ^ part.fingerprints[earlier]
    product, norms = products(difference, part.doubts[i], part.doubts[earlier])
    born = part.notes.born[earlier - part.first]
    confirm.keep(memory, rank_of(product, norms, difference, born))


@inner
def join_pairs(
    memory: DirectedMemory, part: Part, pairs: NDArray[np.uint64], at: int, i: int
) -> tuple[int, bool]:
    """
    Keep the earlier rows that pairs from place `at` on have for a row, those that became originals
    and are listed where it meets them; return where its pairs end, and whether there were any.
    """
    row = np.uint64(i - part.first)
    has_joined = False
    while at < len(pairs) and pairs[at] >> ROW_SHIFT <= row:
        pair = pairs[at]
        at += 1
        if pair >> ROW_SHIFT < row:  # that row needed none
            continue
        earlier = signed(pair >> EARLIER_SHIFT & EARLIER_MASK)
        listed = np.uint64(part.listed[part.first + earlier])
        if part.notes.born[earlier] >= 0 and pair & TABLES_MASK & listed:
            join(memory, part, i, part.first + earlier)
            has_joined = True
    return at, has_joined
