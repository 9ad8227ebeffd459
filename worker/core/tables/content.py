"""
All columns of an index: the slots, the bucket stores, and the tree of masks that keys them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.core.permutation import BITS as BITS_ALL
from worker.core.permutation import Layout
from worker.core.tables.care import Buckets
from worker.core.tables.columns import MappedColumn
from worker.core.tables.judging import INSERT_GIVEN, judge
from worker.core.tables.search import GOLDEN
from worker.core.tables.words import (
    BACKS,
    BASE,
    BITS,
    CHILDREN,
    DEEP,
    DEEP_BITS,
    DISTANCE_MAX,
    FACTORS,
    FAN,
    FINGERPRINTS,
    FLAT,
    FLIP_ENDS,
    FLIPPED,
    FLIPS,
    HOT,
    INDEX_WORDS,
    MASKS,
    NEXTS,
    ROWS,
    SIZE,
    SLOTS,
    TABLES,
)

__all__ = ["SubTables", "Tables"]

NODES_MAX = 2_048  # sub-tables; each is a mask and a number
DEPTH_MAX = 3  # 16 + 12 + 9 + 7 bits for k = 3: at most 2^20 fingerprints share the last prefix
SUB_BITS = 16  # 2^16 buckets for the sub-tables of all split buckets
HOT_MIN = 1_024  # a bucket is split at this many entries, or at 8 times the average: 4 KB of filters, 0.1 µs
SLOTS_MIN = 4_096
COUNTED_MAX = 1 << 20  # fingerprints counted at once: the temporaries stay small


class SubTables:
    """
    The tree of bits that key sub-tables, for the kernels: `masks` and `children` by number.

    The tables of the layout are the first nodes; a node's sub-tables are keyed by its bits and one of k + 1 groups of
    the others.
    """

    def __init__(self, layout: Layout) -> None:
        self.fan = layout.max_distance + 1
        masks = [table.mask for table in layout.permutations]
        children = [0] * len(masks)
        level = list(range(len(masks)))
        for _ in range(DEPTH_MAX):
            following: list[int] = []
            for node in level:
                free = [bit for bit in range(BITS_ALL - 1, -1, -1) if not masks[node] >> bit & 1]
                if len(free) < 2 * self.fan or len(masks) + self.fan > NODES_MAX:
                    continue
                children[node] = len(masks)
                for group in range(self.fan):
                    chosen = free[group * len(free) // self.fan : (group + 1) * len(free) // self.fan]
                    following.append(len(masks))
                    masks.append(masks[node] | sum(1 << bit for bit in chosen))
                    children.append(0)
            level = following
        self.masks = np.array(masks, np.uint64)
        self.children = np.array(children, np.int64)


class Tables:
    """
    The content of an index as kernels take it: one block of words that says where everything is.

    Below `flat_below` fingerprints there are no tables, and a search scans the slots.
    """

    def __init__(self, layout: Layout, bits: int, flat_below: int) -> None:
        self.flat_below = flat_below
        self.words = np.zeros(INDEX_WORDS, np.int64)
        tree = SubTables(layout)
        flips = [np.array(table.flips(), np.uint64) for table in layout.permutations]
        self._factors = np.array([_factor(table.mask) for table in layout.permutations], np.uint64)
        self._masks = tree.masks
        flipped = [
            (differences & mask) * factor >> np.uint64(BITS_ALL - bits)
            for differences, mask, factor in zip(flips, self._masks, self._factors, strict=False)
        ]
        self._constants = {  # kept alive here: the words hold their addresses
            MASKS: tree.masks,
            CHILDREN: tree.children,
            FACTORS: self._factors,
            FLIPS: np.concatenate(flips),
            FLIPPED: np.concatenate(flipped).astype(np.int64),
            FLIP_ENDS: np.cumsum([0, *map(len, flips)]).astype(np.int64),
        }
        for place, column in self._constants.items():
            self.words[place] = column.ctypes.data
        self.words[[TABLES, BITS, DEEP_BITS, FAN]] = len(flips), bits, SUB_BITS, tree.fan
        self.words[DISTANCE_MAX] = layout.max_distance
        self._columns: dict[int, MappedColumn[Any]] = {
            FINGERPRINTS: MappedColumn(np.uint64, 0),
            ROWS: MappedColumn(np.uint32, 0),
            NEXTS: MappedColumn(np.uint32, 0),
            BACKS: MappedColumn(np.uint32, 0),
        }
        self._resize(SLOTS_MIN)
        self._stores: tuple[Buckets, ...] = ()
        self.words[FLAT] = 1
        self.ahead = max(1, min(8, 48 // layout.probes))  # queries whose buckets are asked for ahead

    def __len__(self) -> int:
        return int(self.words[SIZE])

    @property
    def flat(self) -> bool:
        """There are no tables."""
        return not self._stores

    @property
    def nbytes(self) -> int:
        """Bytes of memory held: pages that were never written are not there, so slots count as far as they are used."""
        rings = 8 if self._columns[NEXTS].array[: len(self)].any() else 0
        return (12 + rings) * len(self) + sum(store.nbytes for store in self._stores)

    @property
    def fingerprints(self) -> NDArray[np.uint64]:
        """By slot. A view: keep it no longer than until the next change."""
        return self._columns[FINGERPRINTS].array[: len(self)]

    @property
    def rows(self) -> NDArray[np.uint32]:
        """By slot. A view: keep it no longer than until the next change."""
        return self._columns[ROWS].array[: len(self)]

    def care(self) -> None:
        """Make room for at least one more fingerprint, and give back what is no longer needed. Before each change."""
        size = len(self)
        if self.flat and size >= self.flat_below:
            self.load(self.fingerprints.copy(), self.rows.copy())
            return
        if not self.flat and size < self.flat_below // 2:
            self._flatten()
        self._make_room()

    def _make_room(self) -> None:
        size, slots = len(self), int(self.words[SLOTS])
        if size >= slots or slots > 2 * size + SLOTS_MIN:
            self._resize(size + size // 2 + SLOTS_MIN // 2)
        for store in self._stores:
            store.care()
        if self._stores:
            average = self._stores[0].entries // (len(self._factors) << int(self.words[BITS]))
            self.words[HOT] = max(HOT_MIN, 8 * average)

    def load(self, fingerprints: NDArray[np.uint64], rows: NDArray[np.uint32]) -> None:
        """Hold these and nothing else. Cost: for many at once less than half of inserting them."""
        self._flatten()
        self.words[SIZE] = 0
        self._resize(len(rows) + len(rows) // 8 + SLOTS_MIN)
        if len(rows) >= self.flat_below:
            tables = len(self._factors)
            buckets = tables << int(self.words[BITS])
            base = Buckets(self.words, BASE, buckets, tables, tables * len(rows))
            base.deal(self._counts(fingerprints))
            self._stores = base, Buckets(self.words, DEEP, 1 << SUB_BITS, len(self._masks), 0)
            self.words[FLAT] = 0
            self.words[HOT] = max(HOT_MIN, 8 * len(rows) * tables // buckets)
        self._insert(fingerprints, rows, self._make_room)

    def insert(self, fingerprints: NDArray[np.uint64], rows: NDArray[np.uint32]) -> None:
        """Index `fingerprints[i]` as `rows[i]`."""
        self._insert(fingerprints, rows, self.care)

    def _insert(
        self, fingerprints: NDArray[np.uint64], rows: NDArray[np.uint32], when_full: Callable[[], None]
    ) -> None:
        """The same. A load only makes room when full: halfway it would be too small for tables, and lose them."""
        numbers = rows.astype(np.int64)
        nothing = np.empty(0, np.uint8)
        done = 0
        while True:
            done = judge(self.words, fingerprints, done, 0, numbers, nothing, INSERT_GIVEN, self.ahead)
            if done == len(rows):
                return
            when_full()

    def with_equals(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """These slots, each with all others that hold the same fingerprint."""
        nexts = self._columns[NEXTS].array
        found = slots.tolist()
        for first in slots[nexts[slots] != 0].tolist():
            slot = int(nexts[first]) - 1
            while slot != first:
                found.append(slot)
                slot = int(nexts[slot]) - 1
        return np.array(found, np.int64)

    def check(self) -> None:
        """Assert the invariants of the columns."""
        size = len(self)
        assert size <= self.words[SLOTS]
        assert all(len(column) == self.words[SLOTS] for column in self._columns.values())
        nexts, backs = (self._columns[which].array for which in (NEXTS, BACKS))
        assert not nexts[size:].any()
        assert not backs[size:].any()
        in_ring = np.flatnonzero(nexts)
        assert (backs[nexts[in_ring] - 1] - 1 == in_ring).all()
        assert (self.fingerprints[nexts[in_ring] - 1] == self.fingerprints[in_ring]).all()
        assert self.flat == bool(self.words[FLAT])
        if self.flat:
            assert len(in_ring) == 0
            return
        for store in self._stores:
            store.check()
        self._check_entries()

    def _check_entries(self) -> None:
        """Each distinct fingerprint is entered once, by its smallest row, and once in each table."""
        rows, tables = self.rows, len(self._factors)
        order = np.lexsort((rows, self.fingerprints))
        first = np.ones(len(order), np.bool_)
        first[1:] = self.fingerprints[order[1:]] != self.fingerprints[order[:-1]]
        standing = np.sort(order[first])
        buckets, filters, refs = self._stores[0].contents()
        held = self.fingerprints[refs]
        assert (filters == (held ^ (held >> np.uint64(32))).astype(np.uint32)).all()
        deep = set(self._stores[1].contents()[2].tolist())
        bits = int(self.words[BITS])
        for table in range(tables):
            own = buckets >> bits == table
            key = (held[own] & self._masks[table]) * self._factors[table] >> np.uint64(BITS_ALL - bits)
            assert (key == (buckets[own] & ((1 << bits) - 1)).astype(np.uint64)).all()
            entered = np.sort(refs[own])
            assert (entered[1:] != entered[:-1]).all()
            assert np.isin(entered, standing).all()
            assert deep.issuperset(np.setdiff1d(standing, entered).tolist())

    def _counts(self, fingerprints: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Entries of each bucket, were these inserted."""
        bits = int(self.words[BITS])
        counts = np.zeros((len(self._factors), 1 << bits), np.int64)
        for table, (mask, factor) in enumerate(zip(self._masks, self._factors, strict=False)):
            for begin in range(0, len(fingerprints), COUNTED_MAX):
                buckets = (fingerprints[begin : begin + COUNTED_MAX] & mask) * factor >> np.uint64(BITS_ALL - bits)
                counts[table] += np.bincount(buckets.astype(np.int64), minlength=1 << bits)
        return counts.ravel()

    def _flatten(self) -> None:
        self._stores = ()
        self._columns[NEXTS].array[: len(self)] = 0
        self._columns[BACKS].array[: len(self)] = 0
        self.words[FLAT] = 1

    def _resize(self, slots: int) -> None:
        for place, column in self._columns.items():
            column.resize(slots)
            self.words[place] = column.address
        self.words[SLOTS] = slots


def _factor(mask: int) -> int:
    """
    What takes the masked bits to the top of a product: by shifting when they are a run, else by hashing.

    Shifted ones keep their differences: neighbouring prefixes are neighbouring buckets, as `FLIPPED` needs them.
    """
    return int(GOLDEN) if mask & (mask + (mask & -mask)) else 1 << (BITS_ALL - mask.bit_length())
