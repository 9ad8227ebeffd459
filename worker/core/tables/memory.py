"""
The block of numbers that a kernel gets in place of an index: what lies where, by name.

    Store           one store of buckets: its columns, and how far its sweep is
    TableMemory     what either engine has: its stores, what is held, sketches
    ExactMemory     … and slots, rings and sub-tables
    DirectedMemory  … and doubts, patterns and turns

Each class is the table of its fields: 64 bits each, in their order. Kernels get the block as a
record of numpy, so that they and Python read and write the same words by the same names. A name
that is not there is an error of mypy, and of numba when it compiles.

A field that is an *address* says where a column begins. Nothing checks what is read there.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self, get_type_hints

import numpy as np
from numpy.typing import NDArray

from worker.core import compiled

if TYPE_CHECKING:
    signed = int
else:
    signed = np.int64  # every signed number of a kernel

kernel = partial(compiled.kernel, counted=False)  # the kernels of the tables own no memory

ROWS_MAX = 2**32  # a row is 32 bits in memory and in snapshots
QUERY = 0  # change nothing
INSERT_NEW = 1  # index what has no match
INSERT_ALL = 2  # index everything
INSERT_GIVEN = 3  # index everything as the rows that are given, and search nothing

WORD = np.dtype(np.int64)
# A record as Python hands it to a kernel: an array of one. Numba takes 0.3 µs to know its type, and
# 6 µs that of the record itself.
Block = NDArray[Any]


class NamedNumbers:
    """
    Numbers with names: those that a subclass annotates, or records of them. Zeros at first.

    Kernels get `block`, and change the numbers that Python sees.

    >>> memory = TableMemory()
    >>> memory.root.entries += 2
    >>> memory.root.entries, int(memory.block[0]["root"]["entries"]), memory.copy().held
    (2, 2, 0)
    """

    layout: ClassVar[np.dtype[Any]]
    _records: ClassVar[dict[str, type[NamedNumbers]]]  # those that this one has in it

    def __init_subclass__(cls) -> None:
        fields = get_type_hints(cls)
        known = get_type_hints(NamedNumbers)
        names = [name for name in fields if name not in known]
        cls._records = {name: fields[name] for name in names if fields[name] is not int}
        cls.layout = np.dtype(
            [(name, cls._records[name].layout if name in cls._records else WORD) for name in names]
        )
        for name in names:
            if name not in cls._records:
                setattr(cls, name, _Number(cls._place(name)))

    def __init__(self, words: NDArray[np.int64] | None = None) -> None:
        if words is None:
            words = np.zeros(self.layout.itemsize // WORD.itemsize, WORD)
        self.block: Block = words.view(self.layout)
        words_as_bytes: Any = words
        self.words = memoryview(words_as_bytes)  # ten times as fast as fields of numpy's record
        for name, kind in self._records.items():
            place = self._place(name)
            setattr(self, name, kind(words[place : place + kind.layout.itemsize // WORD.itemsize]))

    def copy(self) -> Self:
        """Return a record of its own with the same numbers."""
        return type(self)(np.array(self.words))

    def clear(self) -> None:
        """Set every number to 0."""
        for place in range(len(self.words)):
            self.words[place] = 0

    def point_to(self, columns: Mapping[str, NDArray[Any]]) -> None:
        """Write where columns lie, by the names of their addresses. Who calls keeps them alive."""
        for name, column in columns.items():
            self.words[self._place(name)] = column.ctypes.data

    @classmethod
    def _place(cls, name: str) -> int:
        fields: Any = cls.layout.fields
        return int(fields[name][1]) // WORD.itemsize


class _Number:
    """A field of a record, as Python reads and writes it."""

    def __init__(self, place: int) -> None:
        self._place = place

    def __get__(self, record: NamedNumbers | None, _owner: type[NamedNumbers]) -> Any:
        return self if record is None else record.words[self._place]

    def __set__(self, record: NamedNumbers, value: int) -> None:
        record.words[self._place] = value


class Store(NamedNumbers):
    """One store of buckets (`buckets`)."""

    # Address: one more than buckets; the last one's start is the columns' length.
    heads: int
    filters: int  # address; longer than the places, so that vectors may be read anywhere
    refs: int  # address
    buckets: int
    entries: int  # held
    # Of the sweep: -1 spreads from the last bucket down, 1 gathers from the first up, 0 none.
    direction: int
    cursor: int  # the bucket that the sweep takes next
    unswept: int  # entries in the cursor's bucket and those after it in the sweep's direction
    limit: int  # gathering: where the entries shall end
    pace: int  # buckets that the sweep takes for each insertion or deletion, in 256ths
    # Entries from which on no insertion begins: the columns are to be made longer first.
    grow_at: int
    # Buckets gone over to make room, ever: what insertions cost beyond their own writing.
    dealt: int
    due: int  # buckets that the sweep owes, in 256ths
    # When it owes so many it takes them, one after the other: the processor reads ahead.
    due_max: int
    wide: int  # 1: filters are 48 bits, three elements of 16 each


class TableMemory(NamedNumbers):
    """The arrays that both engines have."""

    root: Store  # 2^bits buckets for each table
    deep: Store  # the exact index's store of all sub-tables, hashed; else it has no buckets
    held: int  # fingerprints
    held_max: int  # for how many there is room, but for their entries
    tables: int
    bits: int  # of a bucket number within a table
    distance_max: int  # k
    last_row: int  # the greatest that was ever indexed
    # Filters read by directed searches and by those of the exact one for all matches, ever.
    filters_read: int

    # The candidates of a query, and what `confirm` knows of sketches and marks.
    similarity_min: int  # 0: nothing is confirmed, the best candidate is taken
    margin: int  # by which the best must exceed the candidate at the place RIVAL
    ranks: int  # address: scratch, the ranks of the best candidates
    rank_count: int  # those that stand there
    sketches: int  # address: of each chunk of the sketches, by row, its address
    sketch_bits: int  # a chunk has 2^sketch_bits rows
    sketch_first: int  # the first row of the first chunk
    sketch_step: int  # bytes from one sketch to the next, in the chunks
    sketches_read: int  # of candidates, ever
    are_marked: int  # 1: each sketch of the chunks is followed by its row's mark
    # 1: sketches are not read but prefetched, if their pages are on disk; nothing matches.
    asking: int
    # address: the sketches of the documents that are searched; 0: there are no sketches.
    fresh: int
    fresh_marks: int  # address: the marks of these documents; 0: they have none
    fresh_first: int  # the first row that these get
    fresh_places: int  # address, by row from fresh_first on: its place among them


class ExactMemory(TableMemory):
    """The arrays that only the exact engine has."""

    fingerprints: int  # address, by slot
    rows: int  # address, by slot
    # Address, by slot: slot + 1 of the next one with an equal fingerprint, 0 where there is none.
    nexts: int
    backs: int  # address, by slot: the same backwards
    deep_bits: int  # of a bucket number of the sub-tables
    fan: int  # sub-tables of a split bucket: k + 1
    hot: int  # entries from which on a bucket is split
    masks: int  # address, by table and sub-table: the bits that key it
    children: int  # address, by table and sub-table: the first of its sub-tables, 0 for none
    factors: int  # address, by table: takes the masked bits to the top
    flips: int  # address: neighbouring prefixes of all tables, as differences
    flipped: int  # address: the same as differences of bucket numbers
    flip_ends: int  # address, by table: where its flips begin; one more at the end
    ahead: int  # queries whose buckets are prefetched
    # address: the slots of all matches, one for each distinct fingerprint, some more than once.
    found: int
    found_max: int  # how many have room there
    found_count: int  # how many there are; they may be more
    pending: int  # address: scratch, a stack of sub-tables still to be visited


class DirectedMemory(TableMemory):
    """The arrays that only the directed engine has."""

    doubts: int  # address: the directory of the doubts, by chunk its address
    doubts_indexed: int  # address: by chunk how many of its rows are indexed
    widths: int  # address, by table: bits of its block
    rotations: int  # address, by table: to the left; takes a block of one run to the top
    pieces: int  # address: what takes a block of two runs there, as (right, mask, left)
    piece_ends: int  # address, by table: where its pieces begin; one more at the end
    prefix_max: int  # entries of one prefix that a table takes
    # address, by table and prefix: how many rows are listed there outside; 0: none is anywhere
    outside: int
    outside_bits: int  # a table has 2^outside_bits prefixes there
    # 1: some row, here or outside, is listed in other tables than the first alone
    unlisted: int
    patterns: int  # at most, of each block
    recipes: int  # address: `patterns.Patterns.recipes`
    counts: int  # address: `patterns.Patterns.counts`
    pattern_table: int  # address: `patterns.Patterns.table`; 0: there is none
    look_min: int
    pairs_noted: int  # by a sorted search: rows of its part that meet, one for each table (`parts`)
    near_met: int  # pairs of a part's rows that were near where each is compared (`parallel`)
    # Of WIDE_LANES entries, compared at a time: 1 to VECTORS_MAX, or LONG.
    vectors: int
    lead: int  # buckets are prefetched so many probes ahead
    firsts: int  # address: scratch, the first probes of some queries
    turns: int  # address: scratch, the probes of some queries
    turn_bytes: int  # of one query
    found: int  # address: scratch, the entries that are near
    scratch: int  # address: where the patterns of a wide block are made
