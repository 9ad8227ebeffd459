"""
The entries of a directed index: how a fingerprint becomes one in each table, and how entries come
and go.

    arranged fingerprint    block (16 to 32 bits) | the other bits
                            bucket (the topmost `bits` bits), and the filter (the lowest 48)

Of a block the bits are taken to the top of the 64. Bucket and filter together are the whole
fingerprint, and nothing else keeps it: `restored` reads it out of any entry. The reference of an
entry is the row of its original, and the entries of a bucket ascend by row, so that a row is found
by bisection.

A row has an entry in those tables in which it was listed at birth (`search.listed`), and none in
the others. So at most prefix_max entries of a table have one prefix. A row that is listed nowhere
is not in the index, and costs nothing.

Rows may be listed outside: other indexes hold them, and are asked for themselves. Here only their
number counts, by table and prefix, because they take places of prefix_max.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from worker.core.compiled import fused, inner
from worker.core.kernels import machine
from worker.core.kernels.machine import prefetch, read16, read32, read64, write32
from worker.core.search import BITS as BITS_ALL
from worker.core.tables import buckets
from worker.core.tables.buckets import ONE, count_of, head_of, start_of
from worker.core.tables.doubts import count_indexed, doubts_of, write_doubts
from worker.core.tables.memory import Block, DirectedMemory, kernel, signed

FILTER_MASK = np.uint64((1 << 48) - 1)
ZERO = np.uint64(0)
TOP = np.uint64(64)


@fused
def arranged(memory: DirectedMemory, table: int, fingerprint: np.uint64) -> np.uint64:
    """Return a fingerprint, or its doubts, with the bits of a table's block on top."""
    value: np.uint64 = machine.rotated(fingerprint, read64(memory.rotations, table))
    begin = read64(memory.piece_ends, table)
    end = read64(memory.piece_ends, table + 1)
    if begin != end:  # not one run of bits
        value = gathered(memory, signed(begin), signed(end), fingerprint)
    return value


@inner
def gathered(memory: DirectedMemory, begin: int, end: int, fingerprint: np.uint64) -> np.uint64:
    """Return the runs of bits that some pieces name, each where its piece says."""
    value = ZERO
    pieces = memory.pieces
    for piece in range(begin, end):
        run = (fingerprint >> read64(pieces, 3 * piece)) & read64(pieces, 3 * piece + 1)
        value |= run << read64(pieces, 3 * piece + 2)
    return value


@inner
def restored(memory: DirectedMemory, table: int, value: np.uint64) -> np.uint64:
    """Return the fingerprint of which `arranged` makes this value."""
    begin = read64(memory.piece_ends, table)
    end = read64(memory.piece_ends, table + 1)
    if begin == end:
        turned = (TOP - read64(memory.rotations, table)) & np.uint64(63)
        return np.uint64(machine.rotated(value, turned))
    whole = ZERO
    pieces = memory.pieces
    for piece in range(signed(begin), signed(end)):
        run = (value >> read64(pieces, 3 * piece + 2)) & read64(pieces, 3 * piece + 1)
        whole |= run << read64(pieces, 3 * piece)
    return whole


# ---- in numpy: `arranged` and `restored` of a whole column, in one table

Pieces = list[tuple[int, int, int]]  # shift right, mask, shift left


def arranged_column(
    fingerprints: NDArray[np.uint64], rotation: int, pieces: Pieces
) -> NDArray[np.uint64]:
    """Return what `arranged` makes of each fingerprint, in the table of these pieces."""
    if not pieces:  # the block is one run of bits
        turned = np.uint64(rotation)
        return fingerprints << turned | fingerprints >> (TOP - turned) % TOP
    arranged = np.zeros_like(fingerprints)
    for right, mask, left in pieces:
        arranged |= (fingerprints >> np.uint64(right) & np.uint64(mask)) << np.uint64(left)
    return arranged


def restored_column(
    values: NDArray[np.uint64], rotation: int, pieces: Pieces
) -> NDArray[np.uint64]:
    """Return the fingerprints of which `arranged_column` makes these values."""
    if not pieces:
        turned = np.uint64(rotation)
        return values >> turned | values << (TOP - turned) % TOP
    restored = np.zeros_like(values)
    for right, mask, left in pieces:
        restored |= (values >> np.uint64(left) & np.uint64(mask)) << np.uint64(right)
    return restored


def pieces_of(runs: tuple[tuple[int, int], ...]) -> Pieces:
    """
    Return what takes a block's runs to the top, the last topmost, and the other bits below.

    Each piece is (shift right, mask, shift left).

    >>> pieces_of(((0, 16), (32, 16)))
    [(32, 65535, 48), (0, 65535, 32), (48, 65535, 16), (16, 65535, 0)]
    """
    rest = []
    end = 0
    for low, width in (*runs, (BITS_ALL, 0)):
        if low > end:
            rest.append((end, low - end))
        end = low + width
    pieces = []
    left = BITS_ALL
    for low, width in (*reversed(runs), *reversed(rest)):
        left -= width
        pieces.append((low, (1 << width) - 1, left))
    return pieces


@inner
def bucket_of(memory: DirectedMemory, table: int, value: np.uint64) -> int:
    """Return the bucket of an arranged fingerprint."""
    return signed(value >> (TOP - np.uint64(memory.bits))) + signed(table << memory.bits)


@inner
def filter_at(filters: int, position: int) -> np.uint64:
    """Return the filter of the entry at a position."""
    filter_ = np.uint64(0)
    for part in range(3):
        piece = np.uint64(read16(filters, 3 * position + part))
        filter_ |= piece << np.uint64(16 * part)
    return filter_


@inner
def enter(memory: DirectedMemory, bucket: int, filter_: np.uint64, row: int) -> None:
    """
    Add an entry. The caller has made sure that there is room, and that last_row is not below the
    row.

    A bucket of COUNT_MAX entries, 33 million, takes no more.
    """
    if not buckets.append(memory.root, bucket, filter_, np.uint32(row), buckets.UNLIMITED):
        return
    if row == memory.last_row:  # the latest of all stands right at the end
        return
    head = head_of(memory.root, bucket)
    last = start_of(head) + count_of(head) - 1
    place = first_from(memory, start_of(head), last, row + 1)
    buckets.move_entries(memory.root, place + 1, place, last - place)
    buckets.write_entry(memory.root, place, filter_, np.uint32(row))


@inner
def first_from(memory: DirectedMemory, low: int, high: int, row: int) -> int:
    """
    Return the first of entries `low` to `high` - 1 of a bucket whose row is not below, or `high`.
    """
    while low < high:
        middle = (low + high) >> 1
        if signed(read32(memory.root.refs, middle)) < row:
            low = middle + 1
        else:
            high = middle
    return low


@inner
def place_of(memory: DirectedMemory, bucket: int, filter_: np.uint64, row: int) -> int:
    """Return the position of a row's entry in a bucket, or -1."""
    head = head_of(memory.root, bucket)
    end = start_of(head) + count_of(head)
    place = first_from(memory, start_of(head), end, row)
    # More than one only if the caller gave a row twice.
    while place < end and signed(read32(memory.root.refs, place)) == row:
        if filter_at(memory.root.filters, place) == filter_:
            return signed(place)
        place += 1
    return signed(-1)


@inner
def take_out(memory: DirectedMemory, bucket: int, place: int) -> None:
    """Remove an entry and move up those behind it."""
    head = head_of(memory.root, bucket)
    last = start_of(head) + count_of(head) - 1
    buckets.move_entries(memory.root, place, place + 1, last - place)
    buckets.remove(memory.root, bucket, last)


@inner
def listed_now(memory: DirectedMemory, fingerprint: np.uint64) -> np.uint64:
    """Return in which tables a fingerprint would be listed if it were born now, a bit for each."""
    listed = ZERO
    for table in range(memory.tables):
        value = arranged(memory, table, fingerprint)
        head = head_of(memory.root, bucket_of(memory, table, value))
        below = TOP - read64(memory.widths, table)
        rows = count_of(head)
        outside = listed_outside(memory, signed(table), value)
        if rows + outside >= memory.prefix_max and below != np.uint64(64 - memory.bits):
            rows = rows_of_prefix(memory, start_of(head), rows, value & FILTER_MASK, below)
        if rows + outside < memory.prefix_max:
            listed |= ONE << np.uint64(table)
    return listed


@inner
def listed_outside(memory: DirectedMemory, table: int, value: np.uint64) -> int:
    """Return how many rows outside are listed in a table under the prefix of an arranged value."""
    if memory.outside == 0:
        return signed(0)
    prefix = value >> (TOP - read64(memory.widths, table))
    place = signed(table << memory.outside_bits) + signed(prefix)
    return signed(read32(memory.outside, place))


@inner
def rows_of_prefix(
    memory: DirectedMemory, start: int, count: int, filter_: np.uint64, below: np.uint64
) -> int:
    """
    Return how many entries of a bucket that several prefixes share have this one; at most
    prefix_max are counted.
    """
    rows = signed(0)
    for place in range(start, start + count):
        difference = filter_at(memory.root.filters, signed(place)) ^ filter_
        rows += signed(difference >> below == ZERO)
        if rows == memory.prefix_max:
            break
    return rows


@inner
def add(
    memory: DirectedMemory, fingerprint: np.uint64, doubts: np.uint64, row: int, allowed: np.uint64
) -> np.uint64:
    """
    Index a fingerprint in the tables of `allowed` in which it would be listed now; return these.

    At birth all are allowed. A row that is put back is allowed where it was listed at birth. These
    tables have room for it, since they had it before; that they are counted nevertheless bounds
    what a search finds, whatever masks a caller gives.
    """
    listed: np.uint64 = allowed & listed_now(memory, fingerprint)
    memory.last_row = max(memory.last_row, row)
    if listed & ONE == ZERO:
        if listed == ZERO:
            return listed
        memory.unlisted = 1
    memory.held += 1
    write_doubts(memory, row, doubts)
    for table in range(memory.tables):
        if listed >> np.uint64(table) & ONE:
            value = arranged(memory, table, fingerprint)
            enter(memory, bucket_of(memory, table, value), value & FILTER_MASK, row)
    buckets.sweep_on(memory)
    return listed


@inner
def ask_places(memory: DirectedMemory, fingerprint: np.uint64, stage: int) -> None:
    """Prefetch where a fingerprint will be entered: heads first, the ends of buckets later."""
    for table in range(memory.tables):
        bucket = bucket_of(memory, table, arranged(memory, table, fingerprint))
        if stage == 0:
            prefetch(memory.root.heads, 8 * bucket)
        else:
            head = head_of(memory.root, bucket)
            position = start_of(head) + count_of(head)
            prefetch(memory.root.filters, 6 * position)
            prefetch(memory.root.refs, 4 * position)


@kernel
def delete_directed(
    block: Block,
    fingerprints: NDArray[np.uint64],
    rows: NDArray[np.uint32],
    done: NDArray[np.bool_],
) -> None:
    """Take out rows; `done[i]` tells whether row i was there under its fingerprint."""
    memory: DirectedMemory = block[0]
    for i in range(len(fingerprints)):
        row = signed(rows[i])
        is_there = False
        for table in range(memory.tables):
            value = arranged(memory, table, fingerprints[i])
            bucket = bucket_of(memory, table, value)
            place = place_of(memory, bucket, value & FILTER_MASK, row)
            if place >= 0:  # else it is not listed in this table
                take_out(memory, bucket, place)
                is_there = True
        done[i] = is_there
        if is_there:
            memory.held -= 1
            count_indexed(memory, row, signed(-1))
            buckets.sweep_on(memory)


@kernel
def renumber_directed(
    block: Block,
    fingerprints: NDArray[np.uint64],
    before: NDArray[np.uint32],
    rows: NDArray[np.uint32],
) -> None:
    """
    Give the rows `before`, the last ones that are indexed, other numbers; both ascend.

    The last one comes first, so that no number is given that another row still has.
    """
    memory: DirectedMemory = block[0]
    for i in range(len(rows) - 1, -1, -1):
        row = signed(before[i])
        is_there = False
        for table in range(memory.tables):
            value = arranged(memory, table, fingerprints[i])
            bucket = bucket_of(memory, table, value)
            place = place_of(memory, bucket, value & FILTER_MASK, row)
            if place >= 0:
                write32(memory.root.refs, place, rows[i])
                is_there = True
        if is_there:
            count_indexed(memory, row, signed(-1))
            write_doubts(memory, signed(rows[i]), doubts_of(memory.doubts, row))


@kernel
def equal_bound(block: Block, fingerprint: np.uint64) -> int:
    """
    `Tables.equal_bound`.

    If every listed row is in the first table (`unlisted` is 0), only that table is read. Otherwise
    all are, and a row counts once for each table that lists it.
    """
    memory: DirectedMemory = block[0]
    tables = memory.tables if memory.unlisted != 0 else signed(1)
    rows = signed(0)
    for table in range(tables):
        value = arranged(memory, signed(table), fingerprint)
        head = head_of(memory.root, bucket_of(memory, signed(table), value))
        # Bucket and filter together are the whole fingerprint.
        rows += rows_of_prefix(memory, start_of(head), count_of(head), value & FILTER_MASK, ZERO)
    return rows


@kernel
def longest_bucket(block: Block, fingerprint: np.uint64) -> int:
    """Return how many rows the longest of a fingerprint's own buckets has, with those outside."""
    memory: DirectedMemory = block[0]
    longest = signed(0)
    for table in range(memory.tables):
        value = arranged(memory, table, fingerprint)
        rows = count_of(head_of(memory.root, bucket_of(memory, table, value)))
        longest = max(longest, rows + listed_outside(memory, signed(table), value))
    return longest
