"""
The exact engine: every fingerprint within `max_distance` bits, by the tables of a layout
(`worker.core.permutation`).

    fingerprint -> its prefix under each permutation -> bucket -> filters scanned -> candidates
    compared in full

The filter of a fingerprint is its upper half xor its lower half: two fingerprints that differ in d
bits have filters that differ in at most d, and of unrelated ones about 1 in a million come within
3. It is the same in every table.

A bucket that would be scanned for long is *split*: what no longer goes into it goes into
sub-tables, keyed by the table's prefix and one of k + 1 groups of the other bits. k differing bits
leave one group equal, so nothing is missed; and a sub-table's bucket can be split again. That
bounds the scan when many fingerprints share a prefix.

Equal fingerprints form a ring, ascending by row, the last and the first neighbours. Only the first
of a ring stands in the tables, for all: a million copies of one page cost a query no more than one.

A ring is no second way to look something up: the tables find its first, and links of four bytes
the rest. Entries for all of them would fill one bucket of each table.

What is held lies in slots: dense columns, in no order. The last slot moves into one that has become
free.

It is not the directed engine with fixed probes: that reads 48 bits of filter where 32 do, a quarter
more memory and at 1 M originals twice the time; and without sub-tables a prefix that 200,000 share
costs 50 times as much.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.core.compiled import inner
from worker.core.kernels import machine
from worker.core.kernels.machine import (
    NUMBER_LANES,
    popcount,
    prefetch,
    read32,
    read64,
    write32,
    write64,
)
from worker.core.permutation import BITS as BITS_ALL
from worker.core.permutation import Layout
from worker.core.tables import buckets, confirm
from worker.core.tables.buckets import count_of, head_of, start_of
from worker.core.tables.columns import MappedColumn
from worker.core.tables.memory import (
    INSERT_ALL,
    INSERT_GIVEN,
    INSERT_NEW,
    QUERY,
    Block,
    ExactMemory,
    Store,
    kernel,
    signed,
)
from worker.core.tables.store import Buckets, Tables

SLOTS_MIN = 4_096

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX = np.uint64(0xD6E8FEB86659FD93)
HALF = np.uint64(32)
LOW_HALF = np.uint64(0xFFFFFFFF)
ONE_BIT = signed(1 << 32)  # here a rank is distance << 32 | row: below it a fingerprint is equal
ASKED_MAX = signed(192)  # filters of one bucket that are prefetched, 12 cache lines


@inner
def word(column: int, position: int) -> int:
    """Return an element of a column of 64-bit numbers, as a signed one."""
    return signed(read64(column, position))


@inner
def fold(fingerprint: np.uint64) -> np.uint32:
    """Return the filter of a fingerprint."""
    return np.uint32((fingerprint ^ (fingerprint >> HALF)) & LOW_HALF)


@inner
def root_bucket(memory: ExactMemory, table: int, fingerprint: np.uint64) -> int:
    key = (fingerprint & read64(memory.masks, table)) * read64(memory.factors, table)
    return signed(key >> np.uint64(64 - memory.bits)) + signed(table << memory.bits)


@inner
def deep_bucket(memory: ExactMemory, node: int, fingerprint: np.uint64) -> int:
    """
    Return the bucket of a sub-table's prefix.

    Prefixes are hashed: sub-tables share buckets, and the filter tells their entries apart.

    Those that have sub-tables of their own use the even ones, the others the odd ones. So all that
    share a bucket follow one rule for when it is full, and a deletion finds an entry where the
    insertion has put it.
    """
    key = ((fingerprint & read64(memory.masks, node)) + np.uint64(node)) * GOLDEN
    key = (key ^ (key >> HALF)) * MIX
    bucket = signed((key ^ (key >> HALF)) * GOLDEN >> np.uint64(65 - memory.deep_bits))
    return 2 * bucket + signed(word(memory.children, node) == 0)


@inner
def scan(
    memory: ExactMemory, store: Store, bucket: int, fingerprint: np.uint64, best: int, slot: int
) -> tuple[int, int]:
    """Return the better of `best` (a rank, with its slot) and the best entry of the bucket."""
    head = head_of(store, bucket)
    start = start_of(head)
    end = start + count_of(head)
    own = fold(fingerprint)
    limit = np.uint32((best - 1) >> 32)
    filters = store.filters
    position = start
    while position < end:
        near = machine.lanes_within(filters, position, own, limit)
        position += NUMBER_LANES
        while near:
            place = position - NUMBER_LANES + signed(machine.trailing_zeros(near))
            near &= near - np.uint32(1)
            if place < end:  # the last vector reaches past the bucket
                candidate = signed(read32(store.refs, place))
                distance = signed(popcount(read64(memory.fingerprints, candidate) ^ fingerprint))
                if distance <= signed(limit):
                    rank = (distance << confirm.DISTANCE_SHIFT) | signed(
                        read32(memory.rows, candidate)
                    )
                    if rank < best:
                        best = rank
                        slot = candidate
    return signed(best), signed(slot)


@inner
def push_children(memory: ExactMemory, node: int, waiting: int) -> int:
    """Put a node's sub-tables on the stack; return how many wait there now."""
    first = word(memory.children, node)
    for child in range(memory.fan if first else 0):
        write64(memory.pending, waiting, np.uint64(first + child))
        waiting += 1
    return signed(waiting)


@inner
def scan_deep(
    memory: ExactMemory, table: int, probe: np.uint64, fingerprint: np.uint64, best: int, slot: int
) -> tuple[int, int]:
    """
    Scan the sub-tables of a split bucket, as `scan` does. `probe` is the fingerprint with the
    prefix that was probed.
    """
    waiting = push_children(memory, table, signed(0))
    while waiting and best >= ONE_BIT:
        waiting -= 1
        node = word(memory.pending, waiting)
        bucket = deep_bucket(memory, node, probe)
        best, slot = scan(memory, memory.deep, bucket, fingerprint, best, slot)
        if head_of(memory.deep, bucket) & buckets.SPLIT:
            waiting = push_children(memory, node, waiting)
    return signed(best), signed(slot)


@inner
def search(memory: ExactMemory, fingerprint: np.uint64) -> tuple[int, int]:
    """Return the best match: (distance << 32 | row, slot); slot -1 where there is none."""
    best = (memory.distance_max + 1) << confirm.DISTANCE_SHIFT
    slot = signed(-1)
    for table in range(memory.tables):
        own = root_bucket(memory, table, fingerprint)
        for number in range(word(memory.flip_ends, table), word(memory.flip_ends, table + 1)):
            bucket = own ^ word(memory.flipped, number)
            best, slot = scan(memory, memory.root, bucket, fingerprint, best, slot)
            if best >= ONE_BIT and head_of(memory.root, bucket) & buckets.SPLIT:
                probe = fingerprint ^ read64(memory.flips, number)
                best, slot = scan_deep(memory, table, probe, fingerprint, best, slot)
            if best < ONE_BIT:
                return best, slot
    return best, slot


@inner
def put(memory: ExactMemory, candidate: int, distance: int) -> None:
    """
    Add a slot to those that are found, and the first of its ring to the candidates that are
    confirmed.
    """
    if memory.found_count < memory.found_max:
        write64(memory.found, memory.found_count, np.uint64(candidate))
    memory.found_count += 1
    slot = candidate
    for _ in range(confirm.RANKS_MAX):
        confirm.keep(
            memory,
            confirm.NO_LOOK
            | distance << confirm.DISTANCE_SHIFT
            | signed(read32(memory.rows, slot)),
        )
        slot = neighbour(memory.nexts, slot)
        if slot < 0 or slot == candidate:
            return


@inner
def scan_all(memory: ExactMemory, store: Store, bucket: int, fingerprint: np.uint64) -> None:
    """Put a bucket's matches to those that are found."""
    head = head_of(store, bucket)
    start = start_of(head)
    own = fold(fingerprint)
    limit = np.uint64(memory.distance_max)
    memory.filters_read += count_of(head)
    for position in range(start, start + count_of(head)):
        if np.uint64(popcount(np.uint32(read32(store.filters, position) ^ own))) <= limit:
            slot = signed(read32(store.refs, position))
            distance = popcount(read64(memory.fingerprints, slot) ^ fingerprint)
            if distance <= limit:
                put(memory, slot, signed(distance))


@inner
def search_all(memory: ExactMemory, fingerprint: np.uint64) -> None:
    """
    Put all matches to those that are found, and the best to the candidates that are confirmed.
    """
    memory.rank_count = memory.found_count = 0
    for table in range(memory.tables):
        own = root_bucket(memory, table, fingerprint)
        for number in range(word(memory.flip_ends, table), word(memory.flip_ends, table + 1)):
            probe = fingerprint ^ read64(memory.flips, number)
            bucket = own ^ word(memory.flipped, number)
            scan_all(memory, memory.root, bucket, fingerprint)
            waiting = (
                push_children(memory, table, signed(0))
                if head_of(memory.root, bucket) & buckets.SPLIT
                else signed(0)
            )
            while waiting:
                waiting -= 1
                node = word(memory.pending, waiting)
                bucket = deep_bucket(memory, node, probe)
                scan_all(memory, memory.deep, bucket, fingerprint)
                if head_of(memory.deep, bucket) & buckets.SPLIT:
                    waiting = push_children(memory, node, waiting)


@kernel
def find_all(block: Block, fingerprint: np.uint64) -> None:
    """`search_all`, for Python."""
    memory: ExactMemory = block[0]
    search_all(memory, fingerprint)


@inner
def ask_heads(memory: ExactMemory, fingerprint: np.uint64) -> None:
    """Prefetch the heads of the buckets that a search will read."""
    for table in range(memory.tables):
        own = root_bucket(memory, table, fingerprint)
        for number in range(word(memory.flip_ends, table), word(memory.flip_ends, table + 1)):
            prefetch(memory.root.heads, 8 * (own ^ word(memory.flipped, number)))


@inner
def ask_entries(memory: ExactMemory, fingerprint: np.uint64) -> None:
    """
    Prefetch the entries that a search will read, and the places where an insertion will write.
    """
    for table in range(memory.tables):
        own = root_bucket(memory, table, fingerprint)
        head = head_of(memory.root, own)
        prefetch(memory.root.refs, 4 * (start_of(head) + count_of(head)))
        for number in range(word(memory.flip_ends, table), word(memory.flip_ends, table + 1)):
            head = head_of(memory.root, own ^ word(memory.flipped, number))
            position = start_of(head)
            end = position + min(count_of(head), ASKED_MAX)
            while position < end + NUMBER_LANES:
                prefetch(memory.root.filters, 4 * position)
                position += NUMBER_LANES


@inner
def find_equal(memory: ExactMemory, fingerprint: np.uint64) -> int:
    """Return the slot that stands in the tables for this very fingerprint, or -1."""
    store = memory.root
    node = signed(0)
    bucket = root_bucket(memory, signed(0), fingerprint)
    while True:
        _, slot = scan(memory, store, bucket, fingerprint, ONE_BIT, signed(-1))
        if (
            slot >= 0
            or not head_of(store, bucket) & buckets.SPLIT
            or word(memory.children, node) == 0
        ):
            return signed(slot)
        store = memory.deep
        node = word(memory.children, node)
        bucket = deep_bucket(memory, node, fingerprint)


NOTHING = np.uint32(0)


@inner
def neighbour(links: int, slot: int) -> int:
    """Return the slot after (by `nexts`) or before (by `backs`) one in its ring, or -1."""
    return signed(read32(links, slot)) - 1


@inner
def join(memory: ExactMemory, before: int, after: int) -> None:
    """Make two slots neighbours in a ring."""
    write32(memory.nexts, before, np.uint32(after + 1))
    write32(memory.backs, after, np.uint32(before + 1))


@inner
def link(memory: ExactMemory, first: int, slot: int) -> None:
    """Put a slot into the ring of `first`, by row; the smallest row is kept in `first`."""
    rows = memory.rows
    if neighbour(memory.nexts, first) < 0:
        join(memory, first, first)
    before = signed(first)
    own = read32(rows, slot)
    held = read32(rows, first)
    if own < held:
        write32(rows, slot, held)
        write32(rows, first, own)
    else:
        before = neighbour(memory.backs, first)
        while before != first and read32(rows, before) > own:
            before = neighbour(memory.backs, before)
    after = neighbour(memory.nexts, before)
    join(memory, before, slot)
    join(memory, slot, after)


@inner
def unlink(memory: ExactMemory, slot: int) -> None:
    """Take a slot out of its ring."""
    before = neighbour(memory.backs, slot)
    after = neighbour(memory.nexts, slot)
    join(memory, before, after)
    for alone in (slot, before if before == after else slot):  # one that is left is no ring
        write32(memory.nexts, alone, NOTHING)
        write32(memory.backs, alone, NOTHING)


@inner
def place(memory: ExactMemory, fingerprint: np.uint64, slot: int) -> None:
    """Enter a slot into every table. The caller has made sure of the room."""
    own = fold(fingerprint)
    ref = np.uint32(slot)
    for table in range(memory.tables):
        bucket = root_bucket(memory, table, fingerprint)
        divisible = word(memory.children, table) != 0
        if divisible and count_of(head_of(memory.root, bucket)) >= memory.hot:
            split = True
        else:
            split = not buckets.append(
                memory.root, bucket, own, ref, buckets.MOVED_MAX if divisible else buckets.UNLIMITED
            )
        if split:
            buckets.mark_split(memory.root, bucket)
            place_deep(memory, table, fingerprint, ref)


@inner
def place_deep(memory: ExactMemory, table: int, fingerprint: np.uint64, ref: np.uint32) -> None:
    """Enter a slot into the sub-tables of a split bucket."""
    waiting = push_children(memory, table, signed(0))
    while waiting:
        waiting -= 1
        node = word(memory.pending, waiting)
        bucket = deep_bucket(memory, node, fingerprint)
        if (
            word(memory.children, node) != 0
            and count_of(head_of(memory.deep, bucket)) >= memory.hot
        ):
            buckets.mark_split(memory.deep, bucket)
            waiting = push_children(memory, node, waiting)
        else:
            buckets.append(memory.deep, bucket, fold(fingerprint), ref, buckets.UNLIMITED)


@inner
def change(memory: ExactMemory, fingerprint: np.uint64, old: np.uint32, new: int) -> None:
    """Point the entry of slot `old` in every table to `new`, or take it out when `new` is -1."""
    for table in range(memory.tables):
        waiting = signed(0)
        if not change_entry(memory.root, root_bucket(memory, table, fingerprint), old, new):
            waiting = push_children(memory, table, signed(0))
        while waiting:
            waiting -= 1
            node = word(memory.pending, waiting)
            if not change_entry(memory.deep, deep_bucket(memory, node, fingerprint), old, new):
                waiting = push_children(memory, node, waiting)


@inner
def change_entry(store: Store, bucket: int, old: np.uint32, new: int) -> bool:
    """Change the entry of one bucket as `change` does. False: the entry is not there."""
    position = buckets.place_of(store, bucket, old)
    if position < 0:
        return False
    if new < 0:
        buckets.remove(store, bucket, position)
    else:
        write32(store.refs, position, np.uint32(new))
    return True


@inner
def ask(memory: ExactMemory, fingerprints: NDArray[np.uint64], i: int) -> None:
    """Prefetch for the next fingerprints: heads for the later one, entries for the sooner."""
    ahead = memory.ahead
    if i + 2 * ahead < len(fingerprints):
        ask_heads(memory, fingerprints[i + 2 * ahead])
    if i + ahead < len(fingerprints):
        ask_entries(memory, fingerprints[i + ahead])


@inner
def add_slot(memory: ExactMemory, fingerprint: np.uint64, row: int) -> int:
    """
    Put a fingerprint into a new slot, which is yet to be entered into the tables; return the slot.
    """
    slot = memory.held
    write64(memory.fingerprints, slot, fingerprint)
    write32(memory.rows, slot, np.uint32(row))
    memory.held = slot + 1
    memory.last_row = max(memory.last_row, row)
    return signed(slot)


@inner
def add(memory: ExactMemory, fingerprint: np.uint64, row: int, equal: int) -> None:
    """
    Index a fingerprint in a new slot; `equal` is the slot that stands for the same fingerprint, or
    -1.
    """
    slot = add_slot(memory, fingerprint, row)
    if equal >= 0:
        link(memory, equal, slot)
    else:
        place(memory, fingerprint, slot)
    buckets.sweep_on(memory)


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
def delete_exact(
    block: Block,
    fingerprints: NDArray[np.uint64],
    rows: NDArray[np.uint32],
    done: NDArray[np.bool_],
) -> None:
    """Take out rows; `done[i]` tells whether row i was there under its fingerprint."""
    memory: ExactMemory = block[0]
    for i in range(len(fingerprints)):
        first = find_equal(memory, fingerprints[i])
        slot = first
        while slot >= 0 and read32(memory.rows, slot) != rows[i]:
            slot = neighbour(memory.nexts, slot)
            if slot == first:
                slot = signed(-1)
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


@inner
def fill(memory: ExactMemory, slot: int) -> None:
    """Move the last slot into one that has become free, so that the slots stay dense."""
    last = memory.held - 1
    memory.held = last
    if slot == last:
        return
    fingerprint = read64(memory.fingerprints, last)
    if find_equal(memory, fingerprint) == last:
        change(memory, fingerprint, np.uint32(last), slot)
    write64(memory.fingerprints, slot, fingerprint)
    write32(memory.rows, slot, read32(memory.rows, last))
    before = neighbour(memory.backs, last)
    after = neighbour(memory.nexts, last)
    if after >= 0:
        join(memory, before, slot)
        join(memory, slot, after)
        write32(memory.nexts, last, NOTHING)
        write32(memory.backs, last, NOTHING)


NODES_MAX = 2_048  # sub-tables; each is a mask and a number
DEPTH_MAX = 3  # 16 + 12 + 9 + 7 bits for k = 3: at most 2^20 fingerprints share the last prefix
SUB_BITS = 16  # 2^16 buckets for the sub-tables of all split buckets
# A bucket is split at this many entries, or at 8 times the average: 4 KB of filters, 0.1 µs.
HOT_MIN = 1_024
MATCHES_MIN = 256  # room for all matches of one query at the first try


def _sub_tables(tables: list[int], fan: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """
    The tree of bits that key sub-tables, for the kernels: masks and children by number.

    The tables of the layout are the first nodes; a node's sub-tables are keyed by its bits and one
    of `fan` groups of the others.
    """
    masks = list(tables)
    children = [0] * len(tables)
    level = range(len(tables))
    for _ in range(DEPTH_MAX):
        first = len(masks)
        for node in level:
            free = [bit for bit in range(BITS_ALL - 1, -1, -1) if not masks[node] >> bit & 1]
            if len(free) < 2 * fan or len(masks) + fan > NODES_MAX:
                continue
            children[node] = len(masks)
            for group in range(fan):
                chosen = free[group * len(free) // fan : (group + 1) * len(free) // fan]
                masks.append(masks[node] | sum(1 << bit for bit in chosen))
                children.append(0)
        level = range(first, len(masks))
    return np.array(masks, np.uint64), np.array(children, np.int64)


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
        self._masks, children = _sub_tables([table.mask for table in layout.permutations], fan)
        flips = [np.array(table.flips(), np.uint64) for table in layout.permutations]
        self._factors = np.array([_factor(table.mask) for table in layout.permutations], np.uint64)
        flipped = [
            (differences & mask) * factor >> np.uint64(BITS_ALL - bits)
            for differences, mask, factor in zip(flips, self._masks, self._factors, strict=False)
        ]
        constants: dict[str, NDArray[np.generic]] = {
            "masks": self._masks,
            "children": children,
            "factors": self._factors,
            "flips": np.concatenate(flips),
            "flipped": np.concatenate(flipped).astype(np.int64),
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
        """All rows: the slots of the last ones are the last, while nothing is deleted."""
        return self.rows

    def column(self, name: str) -> NDArray[Any]:
        """Return a view of one of the columns by slot."""
        return self.columns[name].array[: len(self)]

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
        slots: list[int] = []
        for first in np.unique(found[:count]).tolist():
            slots.append(first)
            while nexts[slots[-1]] and (slot := int(nexts[slots[-1]]) - 1) != first:
                slots.append(slot)
        return np.array(slots, np.int64)

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
        assert (self.fingerprints[nexts[in_ring] - 1] == self.fingerprints[in_ring]).all()
        # Each distinct fingerprint is entered once, by its smallest row, and once in each table.
        rows = self.rows
        tables = len(self._factors)
        order = np.lexsort((rows, self.fingerprints))
        first = np.ones(len(order), np.bool_)
        first[1:] = self.fingerprints[order[1:]] != self.fingerprints[order[:-1]]
        standing = np.sort(order[first])
        entered, filters, refs = self.stores[0].contents()
        held = self.fingerprints[refs]
        assert (filters == ((held ^ (held >> np.uint64(32))) & np.uint64(0xFFFF_FFFF))).all()
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
        keys = (fingerprints & self._masks[table]) * self._factors[table]
        top = np.uint64(BITS_ALL - self.memory.bits)
        buckets: NDArray[np.int64] = (keys >> top).astype(np.int64)
        return buckets

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

    def _on_growth(self, documents: int) -> None:
        self.memory.hot = max(HOT_MIN, 8 * documents >> self.memory.bits)


def _factor(mask: int) -> int:
    """
    Return what takes the masked bits to the top of a product: by shifting when they are a run, else
    by hashing.

    Shifted ones keep their differences: neighbouring prefixes are neighbouring buckets, as
    `FLIPPED` needs them.
    """
    return int(GOLDEN) if mask & (mask + (mask & -mask)) else 1 << (BITS_ALL - mask.bit_length())
