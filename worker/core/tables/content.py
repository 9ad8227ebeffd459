"""
All columns of an exact index: the slots, the bucket stores, and the tree of masks that keys them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from worker.core.permutation import BITS as BITS_ALL
from worker.core.permutation import Layout
from worker.core.tables.judging import INSERT_GIVEN, judge
from worker.core.tables.maintenance import Buckets
from worker.core.tables.search import GOLDEN
from worker.core.tables.slots import Slots
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
    FLIP_ENDS,
    FLIPPED,
    FLIPS,
    HOT,
    MASKS,
    NEXTS,
    ROWS,
    TABLES,
)

NODES_MAX = 2_048  # sub-tables; each is a mask and a number
DEPTH_MAX = 3  # 16 + 12 + 9 + 7 bits for k = 3: at most 2^20 fingerprints share the last prefix
SUB_BITS = 16  # 2^16 buckets for the sub-tables of all split buckets
HOT_MIN = 1_024  # a bucket is split at this many entries, or at 8 times the average: 4 KB of filters, 0.1 µs


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


class Tables(Slots):
    """The content of an exact index: slots, a bucket store for the tables of a layout, another for all sub-tables."""

    def __init__(self, layout: Layout, bits: int, flat_below: int) -> None:
        tree = SubTables(layout)
        flips = [np.array(table.flips(), np.uint64) for table in layout.permutations]
        self._factors = np.array([_factor(table.mask) for table in layout.permutations], np.uint64)
        self._masks = tree.masks
        flipped = [
            (differences & mask) * factor >> np.uint64(BITS_ALL - bits)
            for differences, mask, factor in zip(flips, self._masks, self._factors, strict=False)
        ]
        constants: dict[int, NDArray[np.generic]] = {
            MASKS: tree.masks,
            CHILDREN: tree.children,
            FACTORS: self._factors,
            FLIPS: np.concatenate(flips),
            FLIPPED: np.concatenate(flipped).astype(np.int64),
            FLIP_ENDS: np.cumsum([0, *map(len, flips)]).astype(np.int64),
        }
        columns = {FINGERPRINTS: np.uint64, ROWS: np.uint32, NEXTS: np.uint32, BACKS: np.uint32}
        super().__init__(bits, flat_below, columns, constants)
        self.words[[TABLES, DEEP_BITS, FAN]] = len(flips), SUB_BITS, tree.fan
        self.words[DISTANCE_MAX] = layout.max_distance
        self.ahead = max(1, min(8, 48 // layout.probes))  # queries whose buckets are asked for ahead

    @property
    def nbytes(self) -> int:
        """Bytes of memory held; rings only where there are equal ones."""
        rings = 8 if self.column(NEXTS).any() else 0
        return (12 + rings) * len(self) + sum(store.nbytes for store in self.stores)

    def with_equals(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """These slots, each with all others that hold the same fingerprint."""
        nexts = self.columns[NEXTS].array
        found = slots.tolist()
        for first in slots[nexts[slots] != 0].tolist():
            slot = int(nexts[first]) - 1
            while slot != first:
                found.append(slot)
                slot = int(nexts[slot]) - 1
        return np.array(found, np.int64)

    def check(self) -> None:
        """Assert the invariants of slots, rings and entries."""
        super().check()
        size = len(self)
        nexts, backs = (self.columns[which].array for which in (NEXTS, BACKS))
        assert not nexts[size:].any()
        assert not backs[size:].any()
        in_ring = np.flatnonzero(nexts)
        assert (backs[nexts[in_ring] - 1] - 1 == in_ring).all()
        assert (self.fingerprints[nexts[in_ring] - 1] == self.fingerprints[in_ring]).all()
        if self.flat:
            assert len(in_ring) == 0
        else:
            self._check_entries()

    def _check_entries(self) -> None:
        """Each distinct fingerprint is entered once, by its smallest row, and once in each table."""
        rows, tables = self.rows, len(self._factors)
        order = np.lexsort((rows, self.fingerprints))
        first = np.ones(len(order), np.bool_)
        first[1:] = self.fingerprints[order[1:]] != self.fingerprints[order[:-1]]
        standing = np.sort(order[first])
        buckets, filters, refs = self.stores[0].contents()
        held = self.fingerprints[refs]
        assert (filters == ((held ^ (held >> np.uint64(32))) & np.uint64(0xFFFF_FFFF))).all()
        deep = set(self.stores[1].contents()[2].tolist())
        bits = int(self.words[BITS])
        for table in range(tables):
            own = buckets >> bits == table
            assert (self._buckets(table, held[own]) == buckets[own] & ((1 << bits) - 1)).all()
            entered = np.sort(refs[own])
            assert (entered[1:] != entered[:-1]).all()
            assert np.isin(entered, standing).all()
            assert deep.issuperset(np.setdiff1d(standing, entered).tolist())

    def _enter(self, held: tuple[NDArray[np.uint64], ...], rows: NDArray[np.int64], begin: int) -> int:
        nothing = np.empty(0, np.uint8)
        return int(judge(self.words, held[0], begin, 0, rows, nothing, INSERT_GIVEN, self.ahead))

    def _held(self) -> tuple[NDArray[np.uint64], ...]:
        return (self.fingerprints.copy(),)

    def _new_stores(self, documents: int) -> tuple[Buckets, ...]:
        tables = len(self._factors)
        base = Buckets(self.words, BASE, tables << int(self.words[BITS]), tables, tables * documents)
        return base, Buckets(self.words, DEEP, 1 << SUB_BITS, len(self._masks), 0)

    def _buckets(self, table: int, fingerprints: NDArray[np.uint64]) -> NDArray[np.int64]:
        keys = (fingerprints & self._masks[table]) * self._factors[table]
        buckets: NDArray[np.int64] = (keys >> np.uint64(BITS_ALL - int(self.words[BITS]))).astype(np.int64)
        return buckets

    def _on_growth(self, documents: int) -> None:
        self.words[HOT] = max(HOT_MIN, 8 * documents >> int(self.words[BITS]))

    def _flatten(self) -> None:
        super()._flatten()
        self.column(NEXTS)[:] = 0
        self.column(BACKS)[:] = 0


def _factor(mask: int) -> int:
    """
    Return what takes the masked bits to the top of a product: by shifting when they are a run, else by hashing.

    Shifted ones keep their differences: neighbouring prefixes are neighbouring buckets, as `FLIPPED` needs them.
    """
    return int(GOLDEN) if mask & (mask + (mask & -mask)) else 1 << (BITS_ALL - mask.bit_length())
