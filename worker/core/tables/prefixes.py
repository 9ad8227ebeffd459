"""
Where a fingerprint stands in the tables of an exact index: its filter, its bucket in each table,
and its buckets in the sub-tables of those that were split.

    table        masked bits ──► bucket          a root bucket, 2^bits of each table
    sub-table    masked bits ──► bucket          a deep one; the store of all sub-tables is shared

The filter of a fingerprint is its upper half xor its lower half: two fingerprints that differ in d
bits have filters that differ in at most d, and of unrelated ones about 1 in a million come within
3. It is the same in every table.

A bucket that would be scanned for long is *split*: what no longer goes into it goes into
sub-tables, keyed by the table's prefix and one of k + 1 groups of the other bits. k differing bits
leave one group equal, so nothing is missed; and a sub-table's bucket can be split again. That
bounds the scan when many fingerprints share a prefix. Tables and sub-tables are the *nodes* of one
tree, numbered from the tables on.

The functions of numpy at the end define what the kernels compute; `ExactTables.check` compares the
two for everything that is held.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from worker.core.compiled import inner
from worker.core.kernels.machine import read64, write64
from worker.core.permutation import BITS as BITS_ALL
from worker.core.tables.memory import ExactMemory, signed

NODES_MAX = 2_048  # tables and sub-tables; each is a mask and a number
DEPTH_MAX = 3  # 16 + 12 + 9 + 7 bits for k = 3: at most 2^20 fingerprints share the last prefix
SUB_BITS = 16  # 2^16 buckets for the sub-tables of all split buckets

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX = np.uint64(0xD6E8FEB86659FD93)
HALF = np.uint64(32)
LOW_HALF = np.uint64(0xFFFFFFFF)


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
def push_children(memory: ExactMemory, node: int, waiting: int) -> int:
    """Put a node's sub-tables on the stack; return how many wait there now."""
    first = word(memory.children, node)
    for child in range(memory.fan if first else 0):
        write64(memory.pending, waiting, np.uint64(first + child))
        waiting += 1
    return signed(waiting)


# ---- in numpy: what the kernels above compute, and the tree that they walk


def filters_of(fingerprints: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return what `fold` makes of each fingerprint."""
    return (fingerprints ^ fingerprints >> HALF) & LOW_HALF


def buckets_of(
    fingerprints: NDArray[np.uint64], mask: np.uint64, factor: np.uint64, bits: int
) -> NDArray[np.int64]:
    """Return the number of each fingerprint's bucket within one table, as `root_bucket`."""
    keys = (fingerprints & mask) * factor
    return (keys >> np.uint64(BITS_ALL - bits)).astype(np.int64)


def sub_tables(tables: list[int], fan: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
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


def factor_of(mask: int) -> int:
    """
    Return what takes the masked bits to the top of a product: by shifting when they are a run, else
    by hashing.

    Shifted ones keep their differences: neighbouring prefixes are neighbouring buckets, as
    `FLIPPED` needs them.
    """
    return int(GOLDEN) if mask & (mask + (mask & -mask)) else 1 << (BITS_ALL - mask.bit_length())
