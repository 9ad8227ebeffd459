"""
The search of an exact index: every fingerprint within `max_distance` bits, or the best of them.

    fingerprint -> its prefix under each permutation -> bucket -> filters scanned -> candidates
    compared in full

Probed are the buckets of a fingerprint's own prefix and of those that the layout flips (`flips`).
A search ends with the first equal fingerprint: nothing is better, and one slot stands for all that
are equal.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from worker.core.compiled import inner
from worker.core.kernels import machine
from worker.core.kernels.machine import popcount, prefetch, read32, read64, write64
from worker.core.kernels.nearness import NUMBER_LANES, lanes_within
from worker.core.tables import buckets, confirm
from worker.core.tables.buckets import count_of, head_of, start_of
from worker.core.tables.memory import ExactMemory, Store, signed
from worker.core.tables.prefixes import deep_bucket, fold, push_children, root_bucket, word
from worker.core.tables.rings import neighbour

ONE_BIT = signed(1 << 32)  # here a rank is distance << 32 | row: below it a fingerprint is equal
ASKED_MAX = signed(192)  # filters of one bucket that are prefetched, 12 cache lines


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
        near = lanes_within(filters, position, own, limit)
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


# ---- all matches of one fingerprint


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


# ---- what the next searches will read


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
def ask(memory: ExactMemory, fingerprints: NDArray[np.uint64], i: int) -> None:
    """Prefetch for the next fingerprints: heads for the later one, entries for the sooner."""
    ahead = memory.ahead
    if i + 2 * ahead < len(fingerprints):
        ask_heads(memory, fingerprints[i + 2 * ahead])
    if i + ahead < len(fingerprints):
        ask_entries(memory, fingerprints[i + ahead])
