"""
The slots of an exact index: where a fingerprint and its row lie, and how they come into the tables
and leave them.

    fingerprints, rows    [ slot 0 | slot 1 | … | slot held - 1 ]      dense, in no order

The last slot moves into one that has become free. So a slot is no name for a row: whoever keeps one
across a deletion has another row's.
"""

from __future__ import annotations

import numpy as np

from worker.core.compiled import inner
from worker.core.kernels.machine import read32, read64, write32, write64
from worker.core.tables import buckets
from worker.core.tables.buckets import count_of, head_of
from worker.core.tables.memory import ExactMemory, Store, signed
from worker.core.tables.prefixes import deep_bucket, fold, push_children, root_bucket, word
from worker.core.tables.rings import NOTHING, join, link, neighbour
from worker.core.tables.within import find_equal


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
