"""
The exact table: 64-bit keys to rows, several rows a key allowed. For digests of short texts and for doc_ids.

    directory   2^depth entries, by the top bits of the mixed key ──► segment
    segments    32 KB each; a full one is cut in two, two poor neighbours become one      (extendible hashing)
    more        a key's further rows, beyond the smallest, in order

Nothing is ever rebuilt as a whole: the longest pause is that of one segment. Keys are mixed with a number that is drawn
anew for each table, so that nobody who chooses keys can make them meet; it decides where a key stands, never what is
found. Further rows of a key are rare (two doc_ids with one hash), so they may cost more.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sortedcontainers import SortedList

from worker.core.kernels.exact import (
    BUCKETS,
    LIMIT,
    PLACES,
    SEGMENT_WORDS,
    find,
    gather,
    insert,
    remove,
    segment_of,
    set_rows,
    split,
)
from worker.core.row_index import column_of, rows_of
from worker.core.tables.columns import MappedColumn

__all__ = ["ExactTable"]

_DEPTH_MAX = 28
_LOADED = LIMIT * 3 // 4  # keys a segment when a whole table is loaded: chance makes some fuller
_POOR = LIMIT // 4  # below it a segment looks for a neighbour to join
_JOINED = LIMIT * 5 // 8


class ExactTable:
    """
    Rows by 64-bit key.

    Args:
        keys_expected: what the table is sized for; it grows beyond.
        seed: 64 bits that mix the keys; drawn when not given.

    Cost: 20 to 50 ns a key in batches of hundreds; 16 to 32 bytes a key.

    >>> table = ExactTable()
    >>> table.insert(np.array([7, 7, 9], dtype=np.uint64), np.array([0, 1, 2], dtype=np.uint32))
    >>> table.find(np.array([9, 7, 8], dtype=np.uint64)).tolist(), table.find_all(7)
    ([2, 0, -1], [0, 1])
    """

    def __init__(self, keys_expected: int = 0, seed: int | None = None) -> None:
        self._seed = np.uint64(secrets.randbits(64) if seed is None else seed)
        self._more: dict[int, SortedList] = {}
        self._more_rows = 0
        self._depth = max(keys_expected // _LOADED, 0).bit_length()
        segments = 1 << self._depth
        self._words: MappedColumn[np.uint64] = MappedColumn(np.uint64, segments * SEGMENT_WORDS)
        self._directory = np.arange(segments, dtype=np.int32)
        self._counts = np.zeros(segments, np.int32)  # keys, by segment; longer than needed
        self._depths = np.full(segments, self._depth, np.int8)  # bits that choose a segment
        self._prefixes = np.arange(segments, dtype=np.int64)  # those bits
        self._segments = segments

    def __len__(self) -> int:
        return int(self._counts[: self._segments].sum()) + self._more_rows

    @property
    def nbytes(self) -> int:
        """Bytes of memory held; a further row of a key counts 200, what Python takes for one."""
        columns = (self._directory, self._counts, self._depths, self._prefixes)
        segments = self._segments * SEGMENT_WORDS * 8
        return segments + sum(column.nbytes for column in columns) + 200 * self._more_rows

    def find(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the smallest row of each key, or -1."""
        keys = column_of(keys, "key")
        found = np.empty(len(keys), np.int64)
        find(self._memory(), self._way(), keys, found)
        return found

    def find_all(self, key: int) -> list[int]:
        """Return every row of the key, ascending."""
        smallest = int(self.find(np.array([key], np.uint64))[0])
        return [] if smallest < 0 else [smallest, *self._more.get(key, ())]

    def insert(self, keys: NDArray[np.uint64], rows: NDArray[np.uint32]) -> None:
        """
        Add `rows[i]` under `keys[i]`.

        Raises:
            ValueError: columns of different lengths, keys of another type, or a row that 32 bits do not hold.
        Cost: O(new), and a segment cut in two (some 50 µs) every 1,000 keys; O(log n) for the n-th row of one key.
        """
        keys, rows = column_of(keys, "key"), rows_of(rows, len(keys), "key")
        met = np.zeros(len(keys), np.bool_)
        at = 0
        while True:
            at = insert(self._memory(), self._way(), self._counts, keys, rows, at, met)
            if at == len(keys):
                break
            self._split(segment_of(self._way(), keys[at]))
        for i in np.flatnonzero(met).tolist():
            self._insert_further(int(keys[i]), int(rows[i]))

    def _insert_further(self, key: int, row: int) -> None:
        smallest = int(self.find(np.array([key], np.uint64))[0])
        if row < smallest:
            self._set(key, row)
        self._more.setdefault(key, SortedList()).add(max(row, smallest))
        self._more_rows += 1

    def _set(self, key: int, row: int) -> None:
        column = np.array([key], np.uint64), np.array([row], np.uint32)
        set_rows(self._memory(), self._way(), *column)

    def delete(self, key: int, row: int) -> bool:
        """Take one row out. False: it was not there under this key."""
        return bool(self.delete_many(np.array([key], np.uint64), np.array([row], np.uint32))[0])

    def delete_many(self, keys: NDArray[np.uint64], rows: NDArray[np.uint32]) -> NDArray[np.bool_]:
        """Take rows out; return for each whether it was there under its key. Memory is given back."""
        keys, rows = column_of(keys, "key"), rows_of(rows, len(keys), "key")
        done = np.zeros(len(keys), np.bool_)
        plain = np.ones(len(keys), np.bool_)
        if self._more:
            for i, key in enumerate(keys.tolist()):
                if key in self._more:
                    plain[i], done[i] = False, self._delete_further(key, int(rows[i]))
        segments = np.empty(int(plain.sum()), np.int64)
        taken = np.zeros(len(segments), np.bool_)
        remove(self._memory(), self._way(), self._counts, keys[plain], rows[plain], taken, segments)
        done[plain] = taken
        if self._segments > 1:
            self._join_poor(segments[taken])
        return done

    def _delete_further(self, key: int, row: int) -> bool:
        """Take one of the several rows of a key out."""
        further = self._more[key]
        smallest = int(self.find(np.array([key], np.uint64))[0])
        if row == smallest:
            self._set(key, further.pop(0))
        elif row in further:
            further.remove(row)
        else:
            return False
        self._more_rows -= 1
        if not further:
            del self._more[key]
        return True

    def _split(self, segment: int) -> None:
        """Cut a segment in two, by one bit more of the mixed keys."""
        depth, prefix = int(self._depths[segment]), int(self._prefixes[segment])
        if depth == self._depth:
            if depth == _DEPTH_MAX:
                raise MemoryError(f"an exact table ends at 2**{_DEPTH_MAX} segments of {BUCKETS * PLACES} places")
            self._directory = np.repeat(self._directory, 2)
            self._depth += 1
        added = self._segments
        if added == len(self._counts):
            for name in ("_counts", "_depths", "_prefixes"):
                column = getattr(self, name)
                setattr(self, name, np.concatenate([column, np.zeros(len(column) // 2 + 4, column.dtype)]))
        if (added + 1) * SEGMENT_WORDS > len(self._words):
            self._words.resize((added + 1 + added // 8) * SEGMENT_WORDS)
        self._segments += 1
        old = self._taken(segment)
        self._counts[added] = 0
        for number, bits in ((segment, prefix * 2), (added, prefix * 2 + 1)):
            self._depths[number], self._prefixes[number] = depth + 1, bits
        self._directory[self._entries(added)] = added
        split(self._memory(), old, self._counts, segment, added, 63 - depth, self._seed)

    def _taken(self, segment: int) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
        """Return a copy of a segment and empty it."""
        mine = self._words.array[segment * SEGMENT_WORDS : (segment + 1) * SEGMENT_WORDS]
        copy = mine.copy()
        mine[:] = 0
        self._counts[segment] = 0
        return copy, copy.view(np.uint32)

    def _entries(self, segment: int) -> slice:
        """Return the entries of the directory that lead to a segment."""
        shift = self._depth - int(self._depths[segment])
        first = int(self._prefixes[segment]) << shift
        return slice(first, first + (1 << shift))

    def _join_poor(self, touched: NDArray[np.int64]) -> None:
        """Join segments that have become poor with their neighbours, and give memory back."""
        poor = np.unique(touched[self._counts[touched] < _POOR])
        for prefix, depth_first in [(int(self._prefixes[s]), int(self._depths[s])) for s in poor.tolist()]:
            for depth in range(depth_first, 0, -1):
                at = prefix >> (depth_first - depth)
                pair = [int(self._directory[side << (self._depth - depth)]) for side in (at & ~1, at | 1)]
                keys = int(self._counts[pair].sum())
                if any(self._depths[side] != depth for side in pair) or keys > _JOINED:
                    break
                self._join(*pair)
        if len(self._words) > SEGMENT_WORDS * (self._segments + self._segments // 4 + 1):
            self._words.resize(SEGMENT_WORDS * self._segments)
        while len(self._directory) > 1 and np.array_equal(self._directory[::2], self._directory[1::2]):
            self._directory = self._directory[::2].copy()
            self._depth -= 1

    def _join(self, low: int, high: int) -> None:
        """Move the keys of one segment to its neighbour; the last segment takes the place that becomes free."""
        old = self._taken(high)
        split(self._memory(), old, self._counts, low, low, 0, self._seed)
        self._depths[low] -= 1
        self._prefixes[low] >>= 1
        self._directory[self._entries(low)] = low
        last = self._segments - 1
        self._segments = last
        if high != last:
            for column in (self._counts, self._depths, self._prefixes):
                column[high] = column[last]
            content, _ = self._taken(last)
            self._words.array[high * SEGMENT_WORDS : (high + 1) * SEGMENT_WORDS] = content
            self._directory[self._entries(high)] = high

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return the content as two columns, by row, then key. Cost: O(n), and the sort."""
        count = len(self) - self._more_rows
        keys, rows = np.empty(count, np.uint64), np.empty(count, np.uint32)
        gather(self._memory(), self._segments, keys, rows)
        further = [(key, row) for key, more in self._more.items() for row in more]
        if further:
            keys = np.concatenate([keys, np.array([key for key, _ in further], np.uint64)])
            rows = np.concatenate([rows, np.array([row for _, row in further], np.uint32)])
        order = np.lexsort((keys, rows))
        return {"keys": keys[order], "rows": rows[order]}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[np.generic]], seed: int | None = None) -> ExactTable:
        """Return the table whose content is `arrays`, as `arrays()` gave it. Cost: that of one insertion of all."""
        table = cls(len(arrays["keys"]), seed)
        table.insert(arrays["keys"].astype(np.uint64, copy=False), arrays["rows"].astype(np.uint32, copy=False))
        return table

    def _memory(self) -> tuple[NDArray[np.uint64], NDArray[np.uint32], int]:
        return self._words.array, self._words.array.view(np.uint32), self._words.address

    def _way(self) -> tuple[NDArray[np.int32], int, np.uint64]:
        return self._directory, self._depth, self._seed

    def check(self) -> None:
        """Assert the invariants: each key is found, segments and directory agree, further rows are in order."""
        assert len(self._directory) == 1 << self._depth
        for segment in range(self._segments):
            assert (self._directory[self._entries(segment)] == segment).all()
            assert 0 <= self._counts[segment] <= LIMIT
        content: dict[str, Any] = self.arrays()
        assert len(content["keys"]) == len(self)
        assert (self.find(content["keys"]) >= 0).all()
        for key, further in self._more.items():
            assert further and self.find_all(key) == sorted(self.find_all(key))
