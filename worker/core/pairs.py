"""
Whole sets without an index: all pairs within a distance, their clusters, and the nearest of one.

One table after the other: permute the bits so that the leading blocks are on top, sort, and compare
the neighbours that share them. Each pair is given once, by the first table in which it meets. What
a table costs is mostly its sort.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from worker.core.compiled import kernel
from worker.core.kernels.machine import popcount
from worker.core.permutation import Permutation, permuted
from worker.core.tables.columns import column_of

# Of a radix sort: 8,192 places to write to are as many as the address cache holds twice over.
_DIGIT_BITS = 13


@kernel
def _move_bits(
    source: NDArray[np.uint64],
    rights: NDArray[np.uint64],
    masks: NDArray[np.uint64],
    lefts: NDArray[np.uint64],
    target: NDArray[np.uint64],
) -> None:
    """
    Compose each number of `target` from blocks of `source`: shifted right, masked, shifted left.
    """
    for i in range(len(source)):
        value = source[i]
        moved = np.uint64(0)
        for block in range(len(masks)):
            moved |= ((value >> rights[block]) & masks[block]) << lefts[block]
        target[i] = moved


@kernel
def _scatter(
    source: NDArray[np.uint64],
    target: NDArray[np.uint64],
    shift: np.uint64,
    starts: NDArray[np.int64],
) -> None:
    """
    One pass of a radix sort, stable, by the bits from `shift` up; `starts` has a zero for each
    value of a digit.
    """
    digits = np.uint64(len(starts) - 1)
    for i in range(len(source)):
        starts[np.int64((source[i] >> shift) & digits)] += 1
    total = np.int64(0)
    for place in range(len(starts)):
        count = starts[place]
        starts[place] = total
        total += count
    for i in range(len(source)):
        digit = np.int64((source[i] >> shift) & digits)
        target[starts[digit]] = source[i]
        starts[digit] += 1


@kernel
def _meet(
    keys: NDArray[np.uint64],
    shift: np.uint64,
    limit: np.uint64,
    earlier: NDArray[np.uint64],
    found: NDArray[np.uint64],
) -> int:
    """
    Compare all grouped keys that share their bits from `shift` up; return the number of matches.

    A match that agrees in one of the `earlier` masks has been given by an earlier table. Matches go
    to `found` as long as it has room.
    """
    count = 0
    for i in range(len(keys)):
        key = keys[i]
        j = i + 1
        while j < len(keys) and (keys[j] ^ key) >> shift == np.uint64(0):
            difference = keys[j] ^ key
            if popcount(difference) <= limit:
                is_first = True
                for mask in earlier:
                    is_first &= difference & mask != np.uint64(0)
                if is_first:
                    if count < len(found):
                        found[count, 0], found[count, 1] = key, keys[j]
                    count += 1
            j += 1
    return count


@kernel
def _join(first: NDArray[np.int64], second: NDArray[np.int64], parent: NDArray[np.int64]) -> None:
    """
    Union-find over edges, halving paths: afterwards `parent` of each is the smallest of its
    component.
    """
    for edge in range(len(first)):
        a = first[edge]
        b = second[edge]
        while parent[a] != a:
            parent[a] = parent[parent[a]]
            a = parent[a]
        while parent[b] != b:
            parent[b] = parent[parent[b]]
            b = parent[b]
        if a < b:
            parent[b] = a
        else:
            parent[a] = b
    for node in range(len(parent)):  # a parent is smaller than its child, and settled before it
        parent[node] = parent[parent[node]]


def all_pairs(
    fingerprints: NDArray[np.uint64],
    max_distance: int,
    blocks: int | None = None,
    on_table: Callable[[int, int], None] = lambda _done, _total: None,
) -> Iterator[NDArray[np.uint64]]:
    """
    Return all pairs of different fingerprints within `max_distance` bits, table by table.

    Args:
        fingerprints: uint64[n] in any order; equal ones count once.
        max_distance: k, 0 to 63.
        blocks: m, more than k; k + 2 when not given, which is fastest from some 100,000
            fingerprints up.
        on_table: called after each table with the number of tables done and of all.

    Returns:
        Arrays uint64[pairs, 2], the smaller fingerprint first; every pair stands in one of them,
        once.

    Raises:
        TypeError, ValueError: the fingerprints are no column of uint64, or no block would be left
            to match on.

    Cost: two passes of a radix sort per table, C(m, k) tables; 16 bytes per fingerprint.
    Fingerprints that share all leading blocks are compared with each other: quadratic in their
    number.
    Source: Manku, Jain, Das Sarma, WWW 2007, section 3.

    >>> fingerprints = np.array([0, 7, 15, 1 << 63], np.uint64)
    >>> [pairs.tolist() for pairs in all_pairs(fingerprints, 3) if len(pairs)]
    [[[0, 7], [7, 15]], [[0, 9223372036854775808]]]
    """
    chosen = max_distance + 2 if blocks is None else blocks
    tables = permuted(max_distance, chosen).permutations
    unique = _sorted_unique(fingerprints)
    for number, table in enumerate(tables):
        yield _pairs_of_table(unique, table, tables[:number], max_distance)
        on_table(number + 1, len(tables))


def _pairs_of_table(
    unique: NDArray[np.uint64],
    table: Permutation,
    earlier: tuple[Permutation, ...],
    max_distance: int,
) -> NDArray[np.uint64]:
    keys = _grouped(_moved(table, unique), table.prefix_bits)
    masks = _moved(table, np.array([other.mask for other in earlier], np.uint64))
    shift = np.uint64(64 - table.prefix_bits)
    room = 1_024
    while True:
        found = np.empty((room, 2), np.uint64)
        count = _meet(keys, shift, np.uint64(max_distance), masks, found)
        if count <= room:
            break
        room = count
    pairs = _moved(table, found[:count], is_back=True)
    pairs.sort(axis=1)
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]


def clusters(
    fingerprints: NDArray[np.uint64],
    max_distance: int,
    blocks: int | None = None,
    on_table: Callable[[int, int], None] = lambda _done, _total: None,
) -> list[NDArray[np.uint64]]:
    """
    Return the connected components of the pairs within `max_distance`.

    Arguments and errors are those of `all_pairs`.

    Returns:
        Arrays of two or more fingerprints, each ascending, in the order of their smallest.
        Fingerprints without a pair are in none.

    Cost: that of `all_pairs`, two look-ups for each pair, and 8 bytes per fingerprint more. The
    pairs are not kept.

    >>> fingerprints = np.array([0, 7, 63, 1 << 62 | 255 << 40], np.uint64)
    >>> [cluster.tolist() for cluster in clusters(fingerprints, 3)]
    [[0, 7, 63]]
    """
    unique = _sorted_unique(fingerprints)
    parent = np.arange(len(unique), dtype=np.int64)
    for pairs in all_pairs(unique, max_distance, blocks, on_table):
        if len(pairs):
            _join(
                np.searchsorted(unique, pairs[:, 0]), np.searchsorted(unique, pairs[:, 1]), parent
            )
    # Mostly few: the others are not so much as named.
    members = np.flatnonzero(np.bincount(parent)[parent] > 1)
    order = members[np.argsort(parent[members], kind="stable")]
    starts = np.flatnonzero(np.diff(parent[order], prepend=-1))
    return np.split(unique[order], starts[1:]) if len(order) else []


def nearest(
    fingerprints: NDArray[np.uint64], rows: NDArray[np.uint32], to: int, count: int
) -> list[tuple[int, int]]:
    """
    Return the `count` fingerprints most similar to one as (row, distance), by distance, then row.

    Args:
        fingerprints: uint64[n] in any order.
        rows: the row of each.
        to: the fingerprint that they are compared with, which need not be among them.
        count: how many at most; fewer where there are fewer.
    Returns:
        Rows and distances. Of equal distances the smallest row comes first.

    Cost: a scan, some 10 ms for 10 M; 1 byte a fingerprint.

    >>> nearest(np.array([8, 1, 3, 0], np.uint64), np.arange(4, dtype=np.uint32), 0, 3)
    [(3, 0), (0, 1), (1, 1)]
    """
    if count < 1:
        return []
    distances = np.bitwise_count(fingerprints ^ np.uint64(to))
    within = np.cumsum(np.bincount(distances, minlength=65))
    limit = int(np.searchsorted(within, min(count, len(fingerprints))))
    close = np.flatnonzero(distances <= limit)
    order = close[np.lexsort((rows[close], distances[close]))][:count]
    return list(zip(rows[order].tolist(), distances[order].tolist(), strict=True))


def _sorted_unique(fingerprints: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Sort and drop repetitions; ten times the speed of np.unique, which hashes."""
    ordered = np.sort(column_of(fingerprints))
    is_first = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return ordered if is_first.all() else ordered[is_first]


def _grouped(keys: NDArray[np.uint64], prefix_bits: int) -> NDArray[np.uint64]:
    """
    Bring keys with equal leading bits together: a radix sort by those alone, a third of a whole
    sort's time.
    """
    other = np.empty_like(keys)
    for shift in range(64 - prefix_bits, 64, _DIGIT_BITS):
        starts = np.zeros(1 << min(_DIGIT_BITS, 64 - shift), np.int64)
        _scatter(keys, other, np.uint64(shift), starts)
        keys, other = other, keys
    return keys


def _moved(
    table: Permutation, numbers: NDArray[np.uint64], *, is_back: bool = False
) -> NDArray[np.uint64]:
    """Put the table's leading blocks on top, or all blocks back in their places."""
    places = np.array([block.shift for block in table.blocks], np.uint64)
    ordered = (64 - np.cumsum([block.width for block in table.blocks])).astype(np.uint64)
    masks = np.array([block.mask >> block.shift for block in table.blocks], np.uint64)
    rights, lefts = (ordered, places) if is_back else (places, ordered)
    moved = np.empty_like(numbers)
    _move_bits(numbers.ravel(), rights, masks, lefts, moved.ravel())
    return moved
