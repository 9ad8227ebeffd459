"""
The hash table: 64-bit hashes to rows. For doc_ids, URLs and the digests of short texts.

    directory  2^depth entries, by a prefix of the mixed hash ──► segment
    segments   256 buckets each; a full one is split in two, two poor neighbours become one
    bucket     row row … (10 of 32 bits) | tag tag … (10 of 16 bits) | count | passed; 64 bytes

A bucket stores 16 bits of each hash, the tag. So a row that is found may belong to another hash,
and the caller must compare the keys. The caller must also know the hash of each row, because it is
needed again when a segment is split or joined. A row whose bucket is full goes to the next bucket
with room. Each bucket that it passes counts that, and a look-up ends at a bucket that no row has
passed. These counts stay after the rows have left, so a segment that many rows have left is built
again.

The table is never rebuilt as a whole, so the longest pause is that of one segment. The prefix is
bent, so that some segments cover twice as much as others. They fill up one after the other, and
memory grows as the content does (spiral storage). Hashes are mixed with a random number that is
drawn for each table, so that an attacker who chooses hashes cannot make them collide.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.core.compiled import inner, kernel
from worker.core.kernels.machine import prefetch
from worker.core.tables.columns import MappedColumn, column_of, rows_of

U = np.uint64
I = np.int64  # noqa: E741  # the signed twin of U
BUCKETS = 256
PLACES = 10  # rows in a bucket
WORDS = 16  # 32-bit words in a bucket
SEGMENT_WORDS = BUCKETS * WORDS
# Where they stand, in 16-bit halves of a bucket.
TAGS = 20
COUNT = 30
PASSED = 31
LIMIT = BUCKETS * PLACES * 19 // 20  # beyond it most buckets are full
AHEAD = 12  # hashes between a prefetch and its use
BUCKET_MASK = U(BUCKETS - 1)
BEND = 2.0**-32
_DEPTH_MAX = 28
# Rows a segment when a whole table is loaded: some cover a third more, and chance adds to it.
_LOADED = LIMIT * 5 // 8
_POOR = LIMIT // 4  # below it a segment looks for a neighbour to join
_JOINED = LIMIT * 5 // 8
_LEFT_MAX = 2 * BUCKETS  # rows that may leave a segment before it is built again


@inner
def _mixed(key: Any, seed: Any) -> Any:
    """A bijection of 64-bit hashes. Without the seed, an attacker cannot choose its results."""
    value = key ^ seed
    value = (value ^ (value >> U(33))) * U(0xFF51AFD7ED558CCD)
    value = (value ^ (value >> U(33)) ^ seed) * U(0xC4CEB9FE1A85EC53)
    return value ^ (value >> U(33))


@inner
def _segment(directory: Any, depth: Any, mixed: Any) -> Any:
    """
    Return the segment of a mixed hash.

    Its place u in [0, 1) is bent to √(1 + 3u) - 1, so that places are twice as dense at the end.
    """
    bent = math.sqrt(1.0 + 3.0 * BEND * (mixed >> U(32))) - 1.0
    return I(directory[I(bent * (I(1) << depth))])


@inner
def _home(segment: Any, mixed: Any) -> Any:
    """The first word of a mixed hash's own bucket."""
    return segment * SEGMENT_WORDS + I(mixed & BUCKET_MASK) * WORDS


@inner
def _next(at: Any) -> Any:
    """The bucket after this one; in its segment, the first follows the last."""
    following = at + WORDS
    return following if following % SEGMENT_WORDS else following - SEGMENT_WORDS


@inner
def _further(halves: Any, at: Any, home: Any) -> Any:
    """
    Return the bucket to look into after this one; -1 if no row has passed it, or if all have been
    looked into.
    """
    following = _next(at) if halves[at * 2 + PASSED] else home
    return I(-1) if following == home else following


@inner
def _begin(memory: Any, way: Any, hashes: Any, i: Any) -> Any:
    """Return the segment, own bucket and tag of hash i, and prefetch the bucket of a later one."""
    directory, depth, seed = way
    if i + AHEAD < len(hashes):
        later = _mixed(hashes[i + AHEAD], seed)
        prefetch(memory[2], _home(_segment(directory, depth, later), later) * 4)
    mixed = _mixed(hashes[i], seed)
    segment = _segment(directory, depth, mixed)
    return segment, _home(segment, mixed), np.uint16((mixed >> U(8)) & U(0xFFFF))


@kernel
def _find(memory: Any, way: Any, hashes: Any, found: Any) -> Any:
    """Write the first row with each hash's tag into `found`, -1 where there is none."""
    words, halves, _ = memory
    for i in range(len(hashes)):
        _, home, tag = _begin(memory, way, hashes, i)
        at, found[i] = home, I(-1)
        while at >= 0 and found[i] < 0:
            for place in range(I(halves[at * 2 + COUNT])):
                if halves[at * 2 + TAGS + place] == tag:
                    found[i] = I(words[at + place])
                    break
            at = _further(halves, at, home)


@kernel
def _find_all(memory: Any, way: Any, hashes: Any, found: Any) -> Any:
    """Write all rows with the tag of the one hash into `found`; return how many."""
    words, halves, _ = memory
    _, home, tag = _begin(memory, way, hashes, I(0))
    at = home
    count = I(0)
    while at >= 0:
        for place in range(I(halves[at * 2 + COUNT])):
            if halves[at * 2 + TAGS + place] == tag:
                found[count] = I(words[at + place])
                count += 1
        at = _further(halves, at, home)
    return count


@kernel
def _insert(memory: Any, way: Any, counts: Any, hashes: Any, rows: Any, begin: Any) -> Any:
    """
    Insert rows from `begin` on.

    Returns where it stopped (at the end, or before a row whose segment is full), and that segment.
    """
    words, halves, _ = memory
    for i in range(begin, len(hashes)):
        segment, at, tag = _begin(memory, way, hashes, i)
        if counts[segment] >= LIMIT:
            return I(i), segment
        while halves[at * 2 + COUNT] == PLACES:
            halves[at * 2 + PASSED] += np.uint16(1)
            at = _next(at)
        place = I(halves[at * 2 + COUNT])
        words[at + place] = rows[i]
        halves[at * 2 + TAGS + place] = tag
        halves[at * 2 + COUNT] = np.uint16(place + 1)
        counts[segment] += 1
    return I(len(hashes)), I(-1)


@kernel
def _remove(memory: Any, way: Any, counts: Any, hashes: Any, rows: Any, segments: Any) -> Any:
    """
    Take rows out. `segments` receives the segment of each row, or -1 if the row was not found under
    its hash.
    """
    words, halves, _ = memory
    for i in range(len(hashes)):
        segment, home, tag = _begin(memory, way, hashes, i)
        at = home
        found = I(-1)
        last = I(-1)
        while at >= 0:
            last = I(halves[at * 2 + COUNT]) - 1
            for place in range(last + 1):
                if words[at + place] == rows[i] and halves[at * 2 + TAGS + place] == tag:
                    found = I(place)
                    break
            if found >= 0:
                break
            at = _further(halves, at, home)
        segments[i] = segment if found >= 0 else I(-1)
        if found < 0:
            continue
        words[at + found] = words[at + last]
        halves[at * 2 + TAGS + found] = halves[at * 2 + TAGS + last]
        halves[at * 2 + COUNT] = np.uint16(last)
        counts[segment] -= 1
        while home != at:
            halves[home * 2 + PASSED] -= np.uint16(1)
            home = _next(home)


@kernel
def _gather(memory: Any, first: Any, stop: Any, rows: Any) -> Any:
    """Write all rows of some segments; return how many."""
    words, halves, _ = memory
    to = I(0)
    for at in range(first * SEGMENT_WORDS, stop * SEGMENT_WORDS, WORDS):
        for place in range(I(halves[at * 2 + COUNT])):
            rows[to] = words[at + place]
            to += 1
    return to


class HashTable:
    """
    Rows by hash.

    Args:
        hashes_of: the hashes of rows; it knows them before they are inserted.
        rows_expected: what the table is sized for; it grows beyond.
        seed: 64 bits that mix the hashes; drawn when not given.

    Cost: 20 to 50 ns a hash in batches of hundreds; 10 bytes per row.

    >>> hashes = np.array([7, 8, 9], dtype=np.uint64)
    >>> table = HashTable(hashes.take)
    >>> table.insert(hashes[:2], np.array([0, 1], dtype=np.uint32))
    >>> table.find(hashes).tolist(), table.find_all(8)
    ([0, 1, -1], [1])
    """

    def __init__(
        self,
        hashes_of: Callable[[NDArray[np.int64]], NDArray[np.uint64]],
        rows_expected: int = 0,
        seed: int | None = None,
    ) -> None:
        self._hashes_of = hashes_of
        self._seed = np.uint64(secrets.randbits(64) if seed is None else seed)
        self._depth = max(rows_expected // _LOADED, 0).bit_length()
        segments = 1 << self._depth
        self._words: MappedColumn[np.uint32] = MappedColumn(np.uint32, segments * SEGMENT_WORDS)
        self._directory = np.arange(segments, dtype=np.int32)
        self._counts = np.zeros(segments, np.int32)  # rows, by segment; longer than needed
        self._left = np.zeros(segments, np.int32)  # rows taken out since it was built
        self._depths = np.full(segments, self._depth, np.int8)  # bits that choose a segment
        self._prefixes = np.arange(segments, dtype=np.int64)  # those bits
        self._segments = segments

    def __len__(self) -> int:
        return int(self._counts[: self._segments].sum())

    @property
    def nbytes(self) -> int:
        """Bytes of memory held."""
        columns = (self._directory, self._counts, self._left, self._depths, self._prefixes)
        return self._segments * SEGMENT_WORDS * 4 + sum(column.nbytes for column in columns)

    @property
    def rows(self) -> NDArray[np.int64]:
        """All rows, ascending. Cost: O(n), and the sort."""
        return np.sort(self._rows_of(0, self._segments)).astype(np.int64)

    def find(self, hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
        """
        Return for each hash one of the rows that `find_all` has, -1 where it has none.

        A row that is found may belong to another hash, because the table stores only a few bits of
        each. So the caller compares the keys, and calls `find_all` if they differ.

        Raises:
            TypeError, ValueError: the hashes are no column of uint64.

        Cost: 20 to 50 ns per hash in batches of hundreds.
        """
        hashes = column_of(hashes, "key")
        found = np.empty(len(hashes), np.int64)
        if len(hashes):
            _find(self._memory(), self._way(), hashes, found)
        return found

    def find_all(self, key: int) -> list[int]:
        """
        Return the rows of this hash, among others one in some ten thousand times.

        Cost: a call into a kernel, and an object per row: for the few that `find` gets wrong.
        """
        found = np.empty(BUCKETS * PLACES, np.int64)
        count = _find_all(self._memory(), self._way(), np.array([key], np.uint64), found)
        rows: list[int] = found[:count].tolist()
        return rows

    def insert(self, hashes: NDArray[np.uint64], rows: NDArray[np.uint32]) -> None:
        """
        Add `rows[i]` under `hashes[i]`. A hash may have several rows, though not thousands.

        Raises:
            ValueError: more rows have one hash than a segment has room for. Those before are there.

        Cost: O(new), and a segment cut in two (some 200 µs) every 1,000 rows.
        """
        hashes = column_of(hashes, "key")
        rows = rows_of(rows, len(hashes), "key")
        if not len(rows):
            return
        at, full = _insert(self._memory(), self._way(), self._counts, hashes, rows, 0)
        while at < len(hashes):
            self._split(full)
            at, full = _insert(self._memory(), self._way(), self._counts, hashes, rows, at)

    def delete_many(self, hashes: NDArray[np.uint64], rows: NDArray[np.uint32]) -> None:
        """
        Take rows out. A row that is not there under its hash is passed over.

        Cost: O(rows). Segments that have become poor are joined, and their memory is given back.
        """
        hashes = column_of(hashes, "key")
        rows = rows_of(rows, len(hashes), "key")
        if not len(rows):
            return
        segments = np.empty(len(hashes), np.int64)
        _remove(self._memory(), self._way(), self._counts, hashes, rows, segments)
        touched = segments[segments >= 0]
        np.add.at(self._left, touched, 1)
        for segment in np.unique(touched[self._left[touched] > _LEFT_MAX]).tolist():
            self._put(self._taken(segment))
        if self._segments > 1:
            self._join_poor(touched)

    def _split(self, segment: int) -> None:
        """Cut a segment in two, by one bit more of the prefix."""
        depth = int(self._depths[segment])
        prefix = int(self._prefixes[segment])
        if depth == self._depth:
            if depth == _DEPTH_MAX:
                raise MemoryError(
                    f"a hash table ends at 2**{_DEPTH_MAX} segments of {BUCKETS * PLACES} places"
                )
            self._check_differ(segment)
            self._directory = np.repeat(self._directory, 2)
            self._depth += 1
        added = self._segments
        if added == len(self._counts):
            for name in ("_counts", "_left", "_depths", "_prefixes"):
                column = getattr(self, name)
                setattr(
                    self,
                    name,
                    np.concatenate([column, np.zeros(len(column) // 2 + 4, column.dtype)]),
                )
        if (added + 1) * SEGMENT_WORDS > len(self._words):
            self._words.resize((added + 1 + added // 8) * SEGMENT_WORDS)
        self._segments += 1
        self._counts[added] = self._left[added] = 0
        rows = self._taken(segment)
        for number, bits in ((segment, prefix * 2), (added, prefix * 2 + 1)):
            self._depths[number], self._prefixes[number] = depth + 1, bits
        self._directory[self._entries(added)] = added
        self._put(rows)

    def _check_differ(self, segment: int) -> None:
        """
        Raise ValueError if all rows of a full segment have one hash: no bit would part them, and
        each cut would make the directory twice as long, up to 1 GB.
        """
        rows = self._rows_of(segment, segment + 1).astype(np.int64)
        hashes = self._hashes_of(rows)
        if (hashes == hashes[0]).all():
            raise ValueError(
                f"at most {len(rows)} rows may have one hash, got one more of {hashes[0]:#x}: "
                "a hash is that of one text, and the caller joins rows of equal texts"
            )

    def _rows_of(self, first: int, stop: int) -> NDArray[np.uint32]:
        """Return the rows of some segments."""
        rows = np.empty(int(self._counts[first:stop].sum()), np.uint32)
        _gather(self._memory(), first, stop, rows)
        return rows

    def _taken(self, segment: int) -> NDArray[np.uint32]:
        """Empty a segment and return its rows."""
        rows = self._rows_of(segment, segment + 1)
        self._words.array[self._bytes_of(segment)] = 0
        self._counts[segment] = self._left[segment] = 0
        return rows

    def _put(self, rows: NDArray[np.uint32]) -> None:
        """Put rows back that were taken, to where the directory leads now."""
        hashes = self._hashes_of(rows.astype(np.int64))
        done, _ = _insert(self._memory(), self._way(), self._counts, hashes, rows, 0)
        assert done == len(rows), "a segment has room for what one had"

    def _bytes_of(self, segment: int) -> slice:
        return slice(segment * SEGMENT_WORDS, (segment + 1) * SEGMENT_WORDS)

    def _entries(self, segment: int) -> slice:
        """Return the entries of the directory that lead to a segment."""
        shift = self._depth - int(self._depths[segment])
        first = int(self._prefixes[segment]) << shift
        return slice(first, first + (1 << shift))

    def _join_poor(self, touched: NDArray[np.int64]) -> None:
        """Join segments that have become poor with their neighbours, and give memory back."""
        poor = np.unique(touched[self._counts[touched] < _POOR])
        for prefix, depth_first in [
            (int(self._prefixes[s]), int(self._depths[s])) for s in poor.tolist()
        ]:
            for depth in range(depth_first, 0, -1):
                at = prefix >> (depth_first - depth)
                pair = [
                    int(self._directory[side << (self._depth - depth)])
                    for side in (at & ~1, at | 1)
                ]
                rows = int(self._counts[pair].sum())
                if any(self._depths[side] != depth for side in pair) or rows > _JOINED:
                    break
                self._join(*pair)
        if len(self._words) > SEGMENT_WORDS * (self._segments + self._segments // 4 + 1):
            self._words.resize(SEGMENT_WORDS * self._segments)
        while len(self._directory) > 1 and np.array_equal(
            self._directory[::2], self._directory[1::2]
        ):
            self._directory = self._directory[::2].copy()
            self._depth -= 1

    def _join(self, low: int, high: int) -> None:
        """
        Move the rows of a segment to its neighbour. The last segment takes the place that becomes
        free.
        """
        rows = self._taken(high)
        self._depths[low] -= 1
        self._prefixes[low] >>= 1
        self._directory[self._entries(low)] = low
        self._put(rows)
        last = self._segments - 1
        self._segments = last
        if high != last:
            for column in (self._counts, self._left, self._depths, self._prefixes):
                column[high] = column[last]
            words = self._words.array
            words[self._bytes_of(high)] = words[self._bytes_of(last)]
            self._directory[self._entries(high)] = high
        self._words.array[self._bytes_of(last)] = 0

    def _memory(self) -> tuple[NDArray[np.uint32], NDArray[np.uint16], int]:
        return self._words.array, self._words.array.view(np.uint16), self._words.address

    def _way(self) -> tuple[NDArray[np.int32], int, np.uint64]:
        return self._directory, self._depth, self._seed

    def check(self) -> None:
        """Assert the invariants: each row is found, segments and directory agree."""
        assert len(self._directory) == 1 << self._depth
        for segment in range(self._segments):
            assert (self._directory[self._entries(segment)] == segment).all()
            assert 0 <= self._counts[segment] <= LIMIT
        rows = self.rows
        assert len(rows) == len(self)
        hashes = self._hashes_of(rows)
        assert all(
            row in self.find_all(key)
            for row, key in zip(rows.tolist(), hashes.tolist(), strict=True)
        )
