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
from worker.core.tables import confirm, store
from worker.core.tables.store import (
    BASE,
    BITS,
    DEEP,
    TABLES,
    Memory,
    count_of,
    head_of,
    kernel,
    signed,
)

# Address, by slot: slot + 1 of the next one with an equal fingerprint, 0 where there is no other.
NEXTS = store.ENGINE
BACKS = store.ENGINE + 1  # address, by slot: the same backwards
DEEP_BITS = store.ENGINE + 2
FAN = store.ENGINE + 3  # sub-tables of a split bucket: k + 1
HOT = store.ENGINE + 4  # entries from which on a bucket is split
MASKS = store.ENGINE + 5  # address, by table and sub-table: the bits that key it
# Address, by table and sub-table: the first of its sub-tables, 0 for none.
CHILDREN = store.ENGINE + 6
FACTORS = store.ENGINE + 7  # address, by table: takes the masked bits to the top
FLIPS = store.ENGINE + 8  # address: neighbouring prefixes of all tables, as differences
FLIPPED = store.ENGINE + 9  # address: the same as differences of bucket numbers
FLIP_ENDS = store.ENGINE + 10  # address, by table: where its flips begin; one more at the end
AHEAD = store.ENGINE + 11  # queries whose buckets are prefetched
# address: the slots of all matches, one for each distinct fingerprint, some more than once.
FOUND = store.ENGINE + 12
FOUND_MAX = store.ENGINE + 13  # how many have room there
FOUND_COUNT = store.ENGINE + 14  # how many there are; they may be more
FINGERPRINTS = store.ENGINE + 15  # address, by slot
ROWS = store.ENGINE + 16  # address, by slot
# Scratch, the rest of the block: a stack of sub-tables still to be visited.
PENDING = store.ENGINE + 17

SLOTS_MIN = 4_096

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX = np.uint64(0xD6E8FEB86659FD93)
HALF = np.uint64(32)
LOW_HALF = np.uint64(0xFFFFFFFF)
ONE_BIT = signed(1 << 32)  # here a rank is distance << 32 | row: below it a fingerprint is equal
ASKED_MAX = signed(192)  # filters of one bucket that are prefetched, 12 cache lines


@inner
def word(memory: Memory, column: int, position: int) -> int:
    """Return an element of a column of 64-bit numbers, as a signed one."""
    return signed(read64(memory[column], position))


@inner
def fold(fingerprint: np.uint64) -> np.uint32:
    """Return the filter of a fingerprint."""
    return np.uint32((fingerprint ^ (fingerprint >> HALF)) & LOW_HALF)


@inner
def root_bucket(memory: Memory, table: int, fingerprint: np.uint64) -> int:
    key = (fingerprint & read64(memory[MASKS], table)) * read64(memory[FACTORS], table)
    return signed(key >> np.uint64(64 - memory[BITS])) + signed(table << memory[BITS])


@inner
def deep_bucket(memory: Memory, node: int, fingerprint: np.uint64) -> int:
    """
    Return the bucket of a sub-table's prefix.

    Prefixes are hashed: sub-tables share buckets, and the filter tells their entries apart.

    Those that have sub-tables of their own use the even ones, the others the odd ones. So all that
    share a bucket follow one rule for when it is full, and a deletion finds an entry where the
    insertion has put it.
    """
    key = ((fingerprint & read64(memory[MASKS], node)) + np.uint64(node)) * GOLDEN
    key = (key ^ (key >> HALF)) * MIX
    bucket = signed((key ^ (key >> HALF)) * GOLDEN >> np.uint64(65 - memory[DEEP_BITS]))
    return 2 * bucket + signed(word(memory, CHILDREN, node) == 0)


@inner
def scan(
    memory: Memory, at: int, bucket: int, fingerprint: np.uint64, best: int, slot: int
) -> tuple[int, int]:
    """Return the better of `best` (a rank, with its slot) and the best entry of the bucket."""
    head = head_of(memory, at, bucket)
    start = store.start_of(head)
    end = start + count_of(head)
    own = fold(fingerprint)
    limit = np.uint32((best - 1) >> 32)
    filters = memory[at + store.FILTERS]
    position = start
    while position < end:
        near = machine.lanes_within(filters, position, own, limit)
        position += NUMBER_LANES
        while near:
            place = position - NUMBER_LANES + signed(machine.trailing_zeros(near))
            near &= near - np.uint32(1)
            if place < end:  # the last vector reaches past the bucket
                candidate = signed(read32(memory[at + store.REFS], place))
                distance = signed(popcount(read64(memory[FINGERPRINTS], candidate) ^ fingerprint))
                if distance <= signed(limit):
                    rank = (distance << confirm.DISTANCE_SHIFT) | signed(
                        read32(memory[ROWS], candidate)
                    )
                    if rank < best:
                        best = rank
                        slot = candidate
    return signed(best), signed(slot)


@inner
def push_children(memory: Memory, node: int, waiting: int) -> int:
    """Put a node's sub-tables on the stack; return how many wait there now."""
    first = word(memory, CHILDREN, node)
    for child in range(memory[FAN] if first else 0):
        memory[PENDING + waiting] = first + child
        waiting += 1
    return signed(waiting)


@inner
def scan_deep(
    memory: Memory, table: int, probe: np.uint64, fingerprint: np.uint64, best: int, slot: int
) -> tuple[int, int]:
    """
    Scan the sub-tables of a split bucket, as `scan` does. `probe` is the fingerprint with the
    prefix that was probed.
    """
    waiting = push_children(memory, table, signed(0))
    while waiting and best >= ONE_BIT:
        waiting -= 1
        node = memory[PENDING + waiting]
        bucket = deep_bucket(memory, node, probe)
        best, slot = scan(memory, DEEP, bucket, fingerprint, best, slot)
        if head_of(memory, DEEP, bucket) & store.SPLIT:
            waiting = push_children(memory, node, waiting)
    return signed(best), signed(slot)


@inner
def search(memory: Memory, fingerprint: np.uint64) -> tuple[int, int]:
    """Return the best match: (distance << 32 | row, slot); slot -1 where there is none."""
    best = (memory[store.DISTANCE_MAX] + 1) << confirm.DISTANCE_SHIFT
    slot = signed(-1)
    for table in range(memory[TABLES]):
        own = root_bucket(memory, table, fingerprint)
        for number in range(word(memory, FLIP_ENDS, table), word(memory, FLIP_ENDS, table + 1)):
            bucket = own ^ word(memory, FLIPPED, number)
            best, slot = scan(memory, BASE, bucket, fingerprint, best, slot)
            if best >= ONE_BIT and head_of(memory, BASE, bucket) & store.SPLIT:
                probe = fingerprint ^ read64(memory[FLIPS], number)
                best, slot = scan_deep(memory, table, probe, fingerprint, best, slot)
            if best < ONE_BIT:
                return best, slot
    return best, slot


@inner
def put(memory: Memory, candidate: int, distance: int) -> None:
    """
    Add a slot to those that are found, and the first of its ring to the candidates that are
    confirmed.
    """
    if memory[FOUND_COUNT] < memory[FOUND_MAX]:
        write64(memory[FOUND], memory[FOUND_COUNT], np.uint64(candidate))
    memory[FOUND_COUNT] += 1
    slot = candidate
    for _ in range(confirm.RANKS_MAX):
        confirm.keep(
            memory,
            confirm.NO_LOOK
            | distance << confirm.DISTANCE_SHIFT
            | signed(read32(memory[ROWS], slot)),
        )
        slot = neighbour(memory, NEXTS, slot)
        if slot < 0 or slot == candidate:
            return


@inner
def scan_all(memory: Memory, at: int, bucket: int, fingerprint: np.uint64) -> None:
    """Put a bucket's matches to those that are found."""
    head = head_of(memory, at, bucket)
    start = store.start_of(head)
    own = fold(fingerprint)
    limit = np.uint64(memory[store.DISTANCE_MAX])
    memory[store.READ] += count_of(head)
    for position in range(start, start + count_of(head)):
        if (
            np.uint64(popcount(np.uint32(read32(memory[at + store.FILTERS], position) ^ own)))
            <= limit
        ):
            slot = signed(read32(memory[at + store.REFS], position))
            distance = popcount(read64(memory[FINGERPRINTS], slot) ^ fingerprint)
            if distance <= limit:
                put(memory, slot, signed(distance))


@kernel
def search_all(memory: Memory, fingerprint: np.uint64) -> None:
    """
    Put all matches to those that are found, and the best to the candidates that are confirmed.
    """
    memory[confirm.RANK_COUNT] = memory[FOUND_COUNT] = 0
    for table in range(memory[TABLES]):
        own = root_bucket(memory, table, fingerprint)
        for number in range(word(memory, FLIP_ENDS, table), word(memory, FLIP_ENDS, table + 1)):
            probe = fingerprint ^ read64(memory[FLIPS], number)
            bucket = own ^ word(memory, FLIPPED, number)
            scan_all(memory, BASE, bucket, fingerprint)
            waiting = (
                push_children(memory, table, signed(0))
                if head_of(memory, BASE, bucket) & store.SPLIT
                else signed(0)
            )
            while waiting:
                waiting -= 1
                node = memory[PENDING + waiting]
                bucket = deep_bucket(memory, node, probe)
                scan_all(memory, DEEP, bucket, fingerprint)
                if head_of(memory, DEEP, bucket) & store.SPLIT:
                    waiting = push_children(memory, node, waiting)


@inner
def ask_heads(memory: Memory, fingerprint: np.uint64) -> None:
    """Prefetch the heads of the buckets that a search will read."""
    for table in range(memory[TABLES]):
        own = root_bucket(memory, table, fingerprint)
        for number in range(word(memory, FLIP_ENDS, table), word(memory, FLIP_ENDS, table + 1)):
            prefetch(memory[BASE + store.HEADS], 8 * (own ^ word(memory, FLIPPED, number)))


@inner
def ask_entries(memory: Memory, fingerprint: np.uint64) -> None:
    """
    Prefetch the entries that a search will read, and the places where an insertion will write.
    """
    for table in range(memory[TABLES]):
        own = root_bucket(memory, table, fingerprint)
        head = head_of(memory, BASE, own)
        prefetch(memory[BASE + store.REFS], 4 * (store.start_of(head) + count_of(head)))
        for number in range(word(memory, FLIP_ENDS, table), word(memory, FLIP_ENDS, table + 1)):
            head = head_of(memory, BASE, own ^ word(memory, FLIPPED, number))
            position = store.start_of(head)
            end = position + min(count_of(head), ASKED_MAX)
            while position < end + NUMBER_LANES:
                prefetch(memory[BASE + store.FILTERS], 4 * position)
                position += NUMBER_LANES


@inner
def find_equal(memory: Memory, fingerprint: np.uint64) -> int:
    """Return the slot that stands in the tables for this very fingerprint, or -1."""
    at = signed(BASE)
    node = signed(0)
    bucket = root_bucket(memory, signed(0), fingerprint)
    while True:
        _, slot = scan(memory, at, bucket, fingerprint, ONE_BIT, signed(-1))
        if (
            slot >= 0
            or not head_of(memory, at, bucket) & store.SPLIT
            or word(memory, CHILDREN, node) == 0
        ):
            return signed(slot)
        at = DEEP
        node = word(memory, CHILDREN, node)
        bucket = deep_bucket(memory, node, fingerprint)


NOTHING = np.uint32(0)


@inner
def neighbour(memory: Memory, column: int, slot: int) -> int:
    """Return the slot after (NEXTS) or before (BACKS) one in its ring, or -1."""
    return signed(read32(memory[column], slot)) - 1


@inner
def join(memory: Memory, before: int, after: int) -> None:
    """Make two slots neighbours in a ring."""
    write32(memory[NEXTS], before, np.uint32(after + 1))
    write32(memory[BACKS], after, np.uint32(before + 1))


@inner
def link(memory: Memory, first: int, slot: int) -> None:
    """Put a slot into the ring of `first`, by row; the smallest row is kept in `first`."""
    rows = memory[ROWS]
    if neighbour(memory, NEXTS, first) < 0:
        join(memory, first, first)
    before = signed(first)
    own = read32(rows, slot)
    held = read32(rows, first)
    if own < held:
        write32(rows, slot, held)
        write32(rows, first, own)
    else:
        before = neighbour(memory, BACKS, first)
        while before != first and read32(rows, before) > own:
            before = neighbour(memory, BACKS, before)
    after = neighbour(memory, NEXTS, before)
    join(memory, before, slot)
    join(memory, slot, after)


@inner
def unlink(memory: Memory, slot: int) -> None:
    """Take a slot out of its ring."""
    before = neighbour(memory, BACKS, slot)
    after = neighbour(memory, NEXTS, slot)
    join(memory, before, after)
    for alone in (slot, before if before == after else slot):  # one that is left is no ring
        write32(memory[NEXTS], alone, NOTHING)
        write32(memory[BACKS], alone, NOTHING)


@inner
def place(memory: Memory, fingerprint: np.uint64, slot: int) -> None:
    """Enter a slot into every table. The caller has made sure of the room."""
    own = fold(fingerprint)
    ref = np.uint32(slot)
    for table in range(memory[TABLES]):
        bucket = root_bucket(memory, table, fingerprint)
        divisible = word(memory, CHILDREN, table) != 0
        if divisible and count_of(head_of(memory, BASE, bucket)) >= memory[HOT]:
            split = True
        else:
            split = not store.append(
                memory, BASE, bucket, own, ref, store.MOVED_MAX if divisible else store.UNLIMITED
            )
        if split:
            store.mark_split(memory, BASE, bucket)
            place_deep(memory, table, fingerprint, ref)


@inner
def place_deep(memory: Memory, table: int, fingerprint: np.uint64, ref: np.uint32) -> None:
    """Enter a slot into the sub-tables of a split bucket."""
    waiting = push_children(memory, table, signed(0))
    while waiting:
        waiting -= 1
        node = memory[PENDING + waiting]
        bucket = deep_bucket(memory, node, fingerprint)
        if (
            word(memory, CHILDREN, node) != 0
            and count_of(head_of(memory, DEEP, bucket)) >= memory[HOT]
        ):
            store.mark_split(memory, DEEP, bucket)
            waiting = push_children(memory, node, waiting)
        else:
            store.append(memory, DEEP, bucket, fold(fingerprint), ref, store.UNLIMITED)


@inner
def change(memory: Memory, fingerprint: np.uint64, old: np.uint32, new: int) -> None:
    """Point the entry of slot `old` in every table to `new`, or take it out when `new` is -1."""
    for table in range(memory[TABLES]):
        waiting = signed(0)
        if not change_entry(memory, BASE, root_bucket(memory, table, fingerprint), old, new):
            waiting = push_children(memory, table, signed(0))
        while waiting:
            waiting -= 1
            node = memory[PENDING + waiting]
            if not change_entry(memory, DEEP, deep_bucket(memory, node, fingerprint), old, new):
                waiting = push_children(memory, node, waiting)


@inner
def change_entry(memory: Memory, at: int, bucket: int, old: np.uint32, new: int) -> bool:
    """Change the entry of one bucket as `change` does. False: the entry is not there."""
    position = store.place_of(memory, at, bucket, old)
    if position < 0:
        return False
    if new < 0:
        store.remove(memory, at, bucket, position)
    else:
        write32(memory[at + store.REFS], position, np.uint32(new))
    return True


@inner
def ask(memory: Memory, fingerprints: NDArray[np.uint64], i: int) -> None:
    """Prefetch for the next fingerprints: heads for the later one, entries for the sooner."""
    ahead = memory[AHEAD]
    if i + 2 * ahead < len(fingerprints):
        ask_heads(memory, fingerprints[i + 2 * ahead])
    if i + ahead < len(fingerprints):
        ask_entries(memory, fingerprints[i + ahead])


@inner
def add_slot(memory: Memory, fingerprint: np.uint64, row: int) -> int:
    """
    Put a fingerprint into a new slot, which is yet to be entered into the tables; return the slot.
    """
    slot = memory[store.SIZE]
    write64(memory[FINGERPRINTS], slot, fingerprint)
    write32(memory[ROWS], slot, np.uint32(row))
    memory[store.SIZE] = slot + 1
    memory[store.LAST_ROW] = max(memory[store.LAST_ROW], row)
    return signed(slot)


@inner
def add(memory: Memory, fingerprint: np.uint64, row: int, equal: int) -> None:
    """
    Index a fingerprint in a new slot; `equal` is the slot that stands for the same fingerprint, or
    -1.
    """
    slot = add_slot(memory, fingerprint, row)
    if equal >= 0:
        link(memory, equal, slot)
    else:
        place(memory, fingerprint, slot)
    store.sweep_on(memory)


@kernel
def match_exact(
    memory: Memory,
    fingerprints: NDArray[np.uint64],
    begin: int,
    first_row: int,
    ranks: NDArray[np.int64],
    mode: int,
) -> int:
    """`Tables.match`."""
    row = first_row
    for i in range(begin, len(fingerprints)):
        if mode != store.QUERY and not store.has_room(memory):
            return signed(i)
        ask(memory, fingerprints, i)
        if mode == store.INSERT_GIVEN:
            add(memory, fingerprints[i], ranks[i], find_equal(memory, fingerprints[i]))
            continue
        best, slot = search(memory, fingerprints[i])
        rank = confirm.NO_RANK | best if slot >= 0 else confirm.UNCONFIRMED
        if memory[confirm.FRESH] and slot >= 0:
            if memory[confirm.SIMILARITY_MIN]:
                search_all(memory, fingerprints[i])
            else:
                memory[confirm.RANK_COUNT] = 0
                confirm.keep(memory, confirm.NO_LOOK | best)
            rank = confirm.confirm(memory, signed(i))
        ranks[i] = rank
        if mode == store.INSERT_ALL or (mode == store.INSERT_NEW and rank >= confirm.UNCONFIRMED):
            add(memory, fingerprints[i], row, slot if best < ONE_BIT else signed(-1))
            confirm.note_fresh(memory, row, signed(i))
            row += 1
    return signed(len(fingerprints))


@kernel
def delete_exact(
    memory: Memory,
    fingerprints: NDArray[np.uint64],
    rows: NDArray[np.uint32],
    done: NDArray[np.bool_],
) -> None:
    """Take out rows; `done[i]` tells whether row i was there under its fingerprint."""
    for i in range(len(fingerprints)):
        first = find_equal(memory, fingerprints[i])
        slot = first
        while slot >= 0 and read32(memory[ROWS], slot) != rows[i]:
            slot = neighbour(memory, NEXTS, slot)
            if slot == first:
                slot = signed(-1)
        done[i] = slot >= 0
        if slot < 0:
            continue
        second = neighbour(memory, NEXTS, slot)
        if second < 0:
            change(memory, fingerprints[i], np.uint32(slot), signed(-1))
        else:
            if slot == first:  # its place in the tables stays; the second takes over
                write32(memory[ROWS], first, read32(memory[ROWS], second))
                slot = second
            unlink(memory, slot)
        fill(memory, slot)
        store.sweep_on(memory)


@inner
def fill(memory: Memory, slot: int) -> None:
    """Move the last slot into one that has become free, so that the slots stay dense."""
    last = memory[store.SIZE] - 1
    memory[store.SIZE] = last
    if slot == last:
        return
    fingerprint = read64(memory[FINGERPRINTS], last)
    if find_equal(memory, fingerprint) == last:
        change(memory, fingerprint, np.uint32(last), slot)
    write64(memory[FINGERPRINTS], slot, fingerprint)
    write32(memory[ROWS], slot, read32(memory[ROWS], last))
    before = neighbour(memory, BACKS, last)
    after = neighbour(memory, NEXTS, last)
    if after >= 0:
        join(memory, before, slot)
        join(memory, slot, after)
        write32(memory[NEXTS], last, NOTHING)
        write32(memory[BACKS], last, NOTHING)


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


class ExactTables(store.Tables):
    """
    The content of an exact index: slots, a bucket store for the tables of a layout, another for all
    sub-tables.

    `similarity_min`: in thousandths, what the sketches must confirm; 0: the best match is taken.
    """

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
        constants: dict[int, NDArray[np.generic]] = {
            MASKS: self._masks,
            CHILDREN: children,
            FACTORS: self._factors,
            FLIPS: np.concatenate(flips),
            FLIPPED: np.concatenate(flipped).astype(np.int64),
            FLIP_ENDS: np.cumsum([0, *map(len, flips)]).astype(np.int64),
            confirm.RANKS: np.zeros(int(confirm.RANKS_MAX), np.uint64),
        }
        kinds: dict[int, Any] = {
            FINGERPRINTS: np.uint64,
            ROWS: np.uint32,
            NEXTS: np.uint32,
            BACKS: np.uint32,
        }
        self.columns: dict[int, store.MappedColumn[Any]] = {
            place: store.MappedColumn(kind, 0) for place, kind in kinds.items()
        }
        super().__init__(len(flips), bits, constants)
        self.memory[[DEEP_BITS, FAN]] = SUB_BITS, fan
        self.memory[[store.DISTANCE_MAX, confirm.SIMILARITY_MIN]] = (
            layout.max_distance,
            similarity_min,
        )
        self.memory[AHEAD] = max(1, min(8, 48 // layout.probes))

    @property
    def nbytes(self) -> int:
        """Bytes of memory held; a column of nothing but zeros is not there."""
        columns = sum(values.nbytes for values in map(self.column, self.columns) if values.any())
        return super().nbytes + columns

    @property
    def fingerprints(self) -> NDArray[np.uint64]:
        """By slot. A view: keep it no longer than until the next change."""
        return self.column(FINGERPRINTS)

    @property
    def rows(self) -> NDArray[np.uint32]:
        """By slot. A view: keep it no longer than until the next change."""
        return self.column(ROWS)

    @property
    def latest(self) -> NDArray[np.uint32]:
        """All rows: the slots of the last ones are the last, while nothing is deleted."""
        return self.rows

    def column(self, place: int) -> NDArray[Any]:
        """Return a view of one of the columns by slot."""
        return self.columns[place].array[: len(self)]

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
        slots = int(self.memory[store.SIZE_MAX])
        if size >= slots or slots > 2 * size + SLOTS_MIN:
            self._resize(size + size // 2 + SLOTS_MIN // 2)
        super().maintain()

    def all_matches(self, fingerprint: np.uint64) -> NDArray[np.int64]:
        """Return the slots of all matches, in no order."""
        count = MATCHES_MIN
        found = np.empty(0, np.int64)
        while count > len(found):
            found = np.empty(count, np.int64)
            self.memory[[FOUND, FOUND_MAX]] = found.ctypes.data, count
            search_all(self.memory, fingerprint)
            count = int(self.memory[FOUND_COUNT])
        self.memory[FOUND_MAX] = 0
        nexts = self.columns[NEXTS].array
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
        slots = self.memory[store.SIZE_MAX]
        assert all(len(column) == slots for column in self.columns.values())
        assert not size or self.rows.max() <= self.memory[store.LAST_ROW]
        nexts, backs = (self.columns[which].array for which in (NEXTS, BACKS))
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
        buckets, filters, refs = self.stores[0].contents()
        held = self.fingerprints[refs]
        assert (filters == ((held ^ (held >> np.uint64(32))) & np.uint64(0xFFFF_FFFF))).all()
        deep = set(self.stores[1].contents()[2].tolist())
        bits = int(self.memory[BITS])
        for table in range(tables):
            own = buckets >> bits == table
            assert (self._buckets(table, held[own]) == buckets[own] & ((1 << bits) - 1)).all()
            entered = np.sort(refs[own])
            assert (entered[1:] != entered[:-1]).all()
            assert np.isin(entered, standing).all()
            assert deep.issuperset(np.setdiff1d(standing, entered).tolist())

    def _new_stores(self, documents: int) -> tuple[store.Buckets, ...]:
        tables = len(self._factors)
        base = store.Buckets(
            self.memory, BASE, tables << int(self.memory[BITS]), tables, tables * documents
        )
        return base, store.Buckets(self.memory, DEEP, 1 << SUB_BITS, len(self._masks), 0)

    def _buckets(self, table: int, fingerprints: NDArray[np.uint64]) -> NDArray[np.int64]:
        keys = (fingerprints & self._masks[table]) * self._factors[table]
        buckets: NDArray[np.int64] = (keys >> np.uint64(BITS_ALL - int(self.memory[BITS]))).astype(
            np.int64
        )
        return buckets

    def _size_for(self, fingerprints: NDArray[np.uint64]) -> None:
        """Make empty stores for these, and slots."""
        count = len(fingerprints)
        self._resize(count + count // 8 + SLOTS_MIN)
        super()._size_for(fingerprints)

    def _resize(self, slots: int) -> None:
        for place, column in self.columns.items():
            column.resize(slots)
            self.memory[place] = column.address
        self.memory[store.SIZE_MAX] = slots

    def _on_growth(self, documents: int) -> None:
        self.memory[HOT] = max(HOT_MIN, 8 * documents >> int(self.memory[BITS]))


def _factor(mask: int) -> int:
    """
    Return what takes the masked bits to the top of a product: by shifting when they are a run, else
    by hashing.

    Shifted ones keep their differences: neighbouring prefixes are neighbouring buckets, as
    `FLIPPED` needs them.
    """
    return int(GOLDEN) if mask & (mask + (mask & -mask)) else 1 << (BITS_ALL - mask.bit_length())
