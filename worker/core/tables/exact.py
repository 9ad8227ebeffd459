"""
The exact engine: every fingerprint within `max_distance` bits, by the tables of a layout
(`worker.core.permutation`).

    prefixes    filter and bucket of a fingerprint in each table, and in sub-tables
    within      the search: buckets -> filters -> candidates
    rings       equal fingerprints
    slots       how a fingerprint comes and goes
    exact       the kernels that Python calls, and the columns that they work on

It is not the directed engine with fixed probes: that reads 48 bits of filter where 32 do, a quarter
more memory and at 1 M originals twice the time; and without sub-tables a prefix that 200,000 share
costs 50 times as much.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.core.kernels.machine import read32, write32
from worker.core.permutation import Layout
from worker.core.tables import buckets, confirm
from worker.core.tables.columns import MappedColumn
from worker.core.tables.memory import (
    INSERT_ALL,
    INSERT_GIVEN,
    INSERT_NEW,
    QUERY,
    Block,
    ExactMemory,
    kernel,
    signed,
)
from worker.core.tables.prefixes import (
    DEPTH_MAX,
    SUB_BITS,
    buckets_of,
    factor_of,
    filters_of,
    sub_tables,
)
from worker.core.tables.rings import neighbour, ring_of, slot_of, unlink
from worker.core.tables.slots import add, change, fill
from worker.core.tables.store import Buckets, Tables
from worker.core.tables.within import ONE_BIT, ask, find_equal, search, search_all

SLOTS_MIN = 4_096
# A bucket is split at this many entries, or at 8 times the average: 4 KB of filters, 0.1 µs.
HOT_MIN = 1_024
BACKED_AHEAD = 1 << 16  # slots
MATCHES_MIN = 256  # room for all matches of one query at the first try


@kernel
def match_exact(
    block: Block,
    fingerprints: NDArray[np.uint64],
    begin: int,
    first_row: int,
    ranks: NDArray[np.int64],
    mode: int,
) -> int:
    """`Tables.match`."""
    memory: ExactMemory = block[0]
    row = first_row
    for i in range(begin, len(fingerprints)):
        if mode != QUERY and not buckets.has_room(memory):
            return signed(i)
        ask(memory, fingerprints, i)
        if mode == INSERT_GIVEN:
            add(memory, fingerprints[i], ranks[i], find_equal(memory, fingerprints[i]))
            continue
        best, slot = search(memory, fingerprints[i])
        rank = confirm.NO_RANK | best if slot >= 0 else confirm.UNCONFIRMED
        if memory.fresh and slot >= 0:
            if memory.similarity_min:
                search_all(memory, fingerprints[i])
            else:
                memory.rank_count = 0
                confirm.keep(memory, confirm.NO_LOOK | best)
            rank = confirm.confirm(memory, signed(i))
        ranks[i] = rank
        if mode == INSERT_ALL or (mode == INSERT_NEW and rank >= confirm.UNCONFIRMED):
            add(memory, fingerprints[i], row, slot if best < ONE_BIT else signed(-1))
            confirm.note_fresh(memory, row, signed(i))
            row += 1
    return signed(len(fingerprints))


@kernel
def equal_bound(block: Block, fingerprint: np.uint64) -> int:
    """`Tables.equal_bound`."""
    memory: ExactMemory = block[0]
    first = find_equal(memory, fingerprint)
    if first < 0:
        return signed(0)
    count = signed(1)
    slot = neighbour(memory.nexts, first)
    while slot >= 0 and slot != first and count < confirm.RANKS_MAX:
        count += 1
        slot = neighbour(memory.nexts, slot)
    return count


@kernel
def find_all(block: Block, fingerprint: np.uint64) -> None:
    """`search_all`, for Python."""
    memory: ExactMemory = block[0]
    search_all(memory, fingerprint)


@kernel
def delete_exact(
    block: Block,
    fingerprints: NDArray[np.uint64],
    rows: NDArray[np.uint32],
    done: NDArray[np.bool_],
) -> None:
    """Take out rows; `done[i]` tells whether row i was there under its fingerprint."""
    memory: ExactMemory = block[0]
    for i in range(len(fingerprints)):
        ask(memory, fingerprints, i)
        first = find_equal(memory, fingerprints[i])
        slot = slot_of(memory, first, rows[i]) if first >= 0 else first
        done[i] = slot >= 0
        if slot < 0:
            continue
        second = neighbour(memory.nexts, slot)
        if second < 0:
            change(memory, fingerprints[i], np.uint32(slot), signed(-1))
        else:
            if slot == first:  # its place in the tables stays; the second takes over
                write32(memory.rows, first, read32(memory.rows, second))
                slot = second
            unlink(memory, slot)
        fill(memory, slot)
        buckets.sweep_on(memory)


class ExactTables(Tables):
    """
    The content of an exact index: slots, a bucket store for the tables of a layout, another for all
    sub-tables.

    `similarity_min`: in thousandths, what the sketches must confirm; 0: the best match is taken.
    """

    memory: ExactMemory
    kind = ExactMemory
    brought = 1
    _match = staticmethod(match_exact)
    _delete = staticmethod(delete_exact)

    def __init__(self, layout: Layout, bits: int, similarity_min: int = 0) -> None:
        fan = layout.max_distance + 1
        self._masks, children = sub_tables([table.mask for table in layout.permutations], fan)
        flips = [np.array(table.flips(), np.uint64) for table in layout.permutations]
        self._factors = np.array(
            [factor_of(table.mask) for table in layout.permutations], np.uint64
        )
        flipped = [
            buckets_of(differences, mask, factor, bits)
            for differences, mask, factor in zip(flips, self._masks, self._factors, strict=False)
        ]
        constants: dict[str, NDArray[np.generic]] = {
            "masks": self._masks,
            "children": children,
            "factors": self._factors,
            "flips": np.concatenate(flips),
            "flipped": np.concatenate(flipped),
            "flip_ends": np.cumsum([0, *map(len, flips)]).astype(np.int64),
            "ranks": np.zeros(int(confirm.RANKS_MAX), np.uint64),
            "pending": np.zeros(DEPTH_MAX * fan, np.uint64),
        }
        types: dict[str, Any] = {
            "fingerprints": np.uint64,
            "rows": np.uint32,
            "nexts": np.uint32,
            "backs": np.uint32,
        }
        self.columns: dict[str, MappedColumn[Any]] = {
            name: MappedColumn(of_column, 0) for name, of_column in types.items()
        }
        super().__init__(len(flips), bits, constants)
        self.memory.deep_bits = SUB_BITS
        self.memory.fan = fan
        self.memory.distance_max = layout.max_distance
        self.memory.similarity_min = similarity_min
        self.memory.ahead = max(1, min(8, 48 // layout.probes))

    @property
    def nbytes(self) -> int:
        """Bytes of memory held; a column of nothing but zeros is not there."""
        columns = sum(values.nbytes for values in map(self.column, self.columns) if values.any())
        return super().nbytes + columns

    @property
    def fingerprints(self) -> NDArray[np.uint64]:
        """By slot. A view: keep it no longer than until the next change."""
        return self.column("fingerprints")

    @property
    def rows(self) -> NDArray[np.uint32]:
        """By slot. A view: keep it no longer than until the next change."""
        return self.column("rows")

    @property
    def latest(self) -> NDArray[np.uint32]:
        """Return all rows. The last ones are in the last slots, while nothing is deleted."""
        return self.rows

    def column(self, name: str) -> NDArray[Any]:
        """Return a view of one of the columns by slot."""
        return self.columns[name].array[: len(self)]

    def equal_bound(self, fingerprint: int) -> int:
        """`Tables.equal_bound`."""
        return int(equal_bound(self.memory.block, np.uint64(fingerprint)))

    def renumber(self, rows: NDArray[np.uint32]) -> None:
        """Give the last slots these rows."""
        self.rows[len(self) - len(rows) :] = rows

    def contents(self) -> list[NDArray[Any]]:
        """Return copies of fingerprints and rows, by ascending row."""
        order = np.argsort(self.rows, kind="stable")
        return [self.fingerprints[order], self.rows[order]]

    def maintain(self) -> None:
        """Maintain the tables and the columns of slots."""
        size = len(self)
        slots = self.memory.held_max
        if size >= slots or slots > 2 * size + SLOTS_MIN:
            self._resize(size + size // 2 + SLOTS_MIN // 2)
        super().maintain()

    def all_matches(self, fingerprint: np.uint64) -> NDArray[np.int64]:
        """Return the slots of all matches, in no order."""
        count = MATCHES_MIN
        found = np.empty(0, np.int64)
        while count > len(found):
            found = np.empty(count, np.int64)
            self.memory.found = found.ctypes.data
            self.memory.found_max = count
            find_all(self.memory.block, fingerprint)
            count = self.memory.found_count
        self.memory.found_max = 0
        nexts = self.columns["nexts"].array
        rings = [ring_of(nexts, first) for first in np.unique(found[:count]).tolist()]
        return np.array([slot for ring in rings for slot in ring], np.int64)

    def check(self) -> None:
        """Assert the invariants of slots, rings and entries."""
        super().check()
        size = len(self)
        slots = self.memory.held_max
        assert all(len(column) == slots for column in self.columns.values())
        assert not size or self.rows.max() <= self.memory.last_row
        nexts, backs = (self.columns[which].array for which in ("nexts", "backs"))
        assert not nexts[size:].any()
        assert not backs[size:].any()
        in_ring = np.flatnonzero(nexts)
        assert (backs[nexts[in_ring] - 1] - 1 == in_ring).all()
        after = (nexts[in_ring] - 1).astype(np.int64)
        assert (self.fingerprints[after] == self.fingerprints[in_ring]).all()
        # Each distinct fingerprint is entered once, by its smallest row, and once in each table.
        rows = self.rows
        tables = len(self._factors)
        order = np.lexsort((rows, self.fingerprints))
        first = np.ones(len(order), np.bool_)
        first[1:] = self.fingerprints[order[1:]] != self.fingerprints[order[:-1]]
        standing = np.sort(order[first])
        # A ring ascends by row, and only its first follows a greater one.
        assert (np.isin(after, standing) | (rows[after] >= rows[in_ring])).all()
        entered, filters, refs = self.stores[0].contents()
        held = self.fingerprints[refs]
        assert (filters == filters_of(held)).all()
        deep = set(self.stores[1].contents()[2].tolist())
        bits = self.memory.bits
        for table in range(tables):
            own = entered >> bits == table
            assert (self._buckets(table, held[own]) == entered[own] & ((1 << bits) - 1)).all()
            slots_there = np.sort(refs[own])
            assert (slots_there[1:] != slots_there[:-1]).all()
            assert np.isin(slots_there, standing).all()
            assert deep.issuperset(np.setdiff1d(standing, slots_there).tolist())

    def _new_stores(self, documents: int) -> tuple[Buckets, ...]:
        tables = len(self._factors)
        count = tables << self.memory.bits
        root = Buckets(self.memory.root, count, tables, tables * documents)
        return root, Buckets(self.memory.deep, 1 << SUB_BITS, len(self._masks), 0)

    def _buckets(self, table: int, fingerprints: NDArray[np.uint64]) -> NDArray[np.int64]:
        bits = self.memory.bits
        return buckets_of(fingerprints, self._masks[table], self._factors[table], bits)

    def _size_for(self, fingerprints: NDArray[np.uint64]) -> None:
        """Make empty stores for these, and slots."""
        count = len(fingerprints)
        self._resize(count + count // 8 + SLOTS_MIN)
        super()._size_for(fingerprints)

    def _resize(self, slots: int) -> None:
        for column in self.columns.values():
            column.resize(slots)
        self.memory.point_to({name: column.array for name, column in self.columns.items()})
        self.memory.held_max = slots

    def _back(self) -> bool:
        size = len(self)
        columns = (self.columns["fingerprints"], self.columns["rows"])
        return any(one.back(size, size + BACKED_AHEAD) for one in columns) or super()._back()

    def _on_growth(self, documents: int) -> None:
        self.memory.hot = max(HOT_MIN, 8 * documents >> self.memory.bits)
