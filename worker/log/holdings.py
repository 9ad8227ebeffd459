"""
The originals with all that is known of them, and the three ways to find one: by fingerprint, by digest, by doc_id.

    row            0 … first       first …        oldest …                      length
    columns        forgotten       kept, dead     kept: live, or dead since      the queue's end
    three tables                                  the live ones

A row is never used again and never moves: an original that is to stay longer gets a new one at the end. So the order of
rows is the order in which originals were seen, what expires is at the front, and its memory is given back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.core.exact import ExactTable
from worker.core.index import PermutedIndex
from worker.log.columns import Column
from worker.log.originals import Originals
from worker.log.record import RowKind
from worker.log.texts import Texts

__all__ = ["RENUMBERED_FROM", "Holdings"]

_HASHED_AT_ONCE = 100_000  # hashing copies what it reads
RENUMBERED_FROM = 3 << 30  # rows; a record adds a million at most
_REBUILT_MIN = 50_000  # rows that leave at once, from which on building the tables anew can be faster


class Holdings:
    """
    Originals by row.

    Args:
        max_distance: for the index by fingerprint.
        has_times: keep for each row the log's time at which it was seen; retention needs it.
        documents_expected: for the index's first size; 0 when unknown.
    """

    def __init__(self, max_distance: int, *, has_times: bool = False, documents_expected: int = 0) -> None:
        self.index = PermutedIndex(max_distance, documents_expected=documents_expected)
        self.short = ExactTable()  # digest -> row of a SHORT original
        self.names = ExactTable()  # XXH64 of the doc_id -> row of an original that is in the index
        self.originals = Originals()
        self.fingerprints: Column[np.uint64] = Column(np.uint64)
        self.digests: Column[np.uint64] = Column(np.uint64)
        self.kinds: Column[np.uint8] = Column(np.uint8)
        self.live: Column[np.uint8] = Column(np.uint8)  # 1: in the index
        self.seen: Column[np.int64] | None = Column(np.int64) if has_times else None  # ascending: the log's time
        self.documents = 0
        self.oldest = 0  # no row before it is live
        self.renumbered = 0  # by how much less each row is than it would have been

    def __len__(self) -> int:
        """Give the number of rows, those that are gone included."""
        return len(self.originals)

    def add(
        self,
        times: NDArray[np.int64],
        texts: tuple[Texts, Texts],
        hashes: NDArray[np.uint64],
        content: tuple[NDArray[np.uint8], NDArray[np.uint64], NDArray[np.uint64]],
        clock_ms: int,
    ) -> None:
        """
        Append rows; the tables by fingerprint and by digest know them already, that by doc_id learns them here.

        Args:
            times: when they were fetched; texts: doc_ids and URLs; hashes: of the doc_ids.
            content: kinds, fingerprints and digests; clock_ms: the log's time.
        """
        first = self.originals.append(times, *texts)
        self.names.insert(hashes, np.arange(first, first + len(times), dtype=np.uint32))
        for column, values in zip((self.kinds, self.fingerprints, self.digests), content, strict=True):
            column.append(values)  # type: ignore[attr-defined]
        self.live.append(np.ones(len(times), np.uint8))
        if self.seen is not None:
            self.seen.append(np.full(len(times), clock_ms))
        self.documents += len(times)

    def find(self, doc_id_hash: int, doc_id: bytes) -> int | None:
        """Give the row of the original with this doc_id; equal hashes of other doc_ids are passed over."""
        rows = self.names.find_all(doc_id_hash)
        return next((row for row in rows if self.originals.doc_id(row) == doc_id), None)

    def content(self, row: int) -> tuple[int, int, int]:
        """Give kind, fingerprint and digest of a row."""
        return self.kinds[row], self.fingerprints[row], self.digests[row]

    def remove(self, rows: NDArray[np.int64]) -> None:
        """
        Take live rows, ascending, out of the tables; what verdicts say of them stays until they are forgotten.

        Cost: some 2 µs a row, or what building the tables from the others costs, whichever is less.
        """
        self.live.put(rows, 0)
        self.documents -= len(rows)
        if len(rows) > _REBUILT_MIN and len(rows) > self.documents:
            self.build()
            return
        self._find_by_content(rows, are_there=False)
        self.names.delete_many(self.doc_id_hashes(rows), rows.astype(np.uint32))

    def renew(self, rows: NDArray[np.int64], clock_ms: int) -> None:
        """Move live rows, ascending, to the end: each gets a new row there, seen at `clock_ms`, and leaves its own."""
        first = len(self)
        hashes = self.doc_id_hashes(rows)
        content = self.kinds.take(rows), self.fingerprints.take(rows), self.digests.take(rows)
        self.remove(rows)
        self.add(self.originals.times(rows), self.originals.texts(rows), hashes, content, clock_ms)
        self._find_by_content(np.arange(first, len(self)), are_there=True)

    def _find_by_content(self, rows: NDArray[np.int64], *, are_there: bool) -> None:
        """Let rows be found by fingerprint and by digest, or no longer."""
        is_full = self.kinds.take(rows) == RowKind.FULL
        for table, column, chosen in (
            (self.index, self.fingerprints, rows[is_full]),
            (self.short, self.digests, rows[~is_full]),
        ):
            if len(chosen):
                change = table.insert if are_there else table.delete_many
                change(column.take(chosen), chosen.astype(np.uint32))

    def doc_id_hashes(self, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Give the XXH64 of the doc_ids of ascending rows."""
        if not len(rows):
            return np.empty(0, np.uint64)
        first, stop = int(rows[0]), int(rows[-1]) + 1
        if stop - first > 4 * len(rows):  # far apart
            return Texts.of([self.originals.doc_id(row) for row in rows.tolist()]).hashes()
        parts = []
        for at in range(first, stop, _HASHED_AT_ONCE):
            end = min(at + _HASHED_AT_ONCE, stop)
            mine = rows[np.searchsorted(rows, at) : np.searchsorted(rows, end)]
            if len(mine):
                parts.append(self.originals.doc_ids(at, end).hashes()[mine - at])
        return np.concatenate(parts)

    def build(self) -> None:
        """Make the three tables from the columns. Cost: some 0.7 µs a live row."""
        first, length = self.originals.first, len(self)
        live = first + np.flatnonzero(self.live.slice(first, length))
        self.documents = len(live)
        self.oldest = int(live[0]) if len(live) else length
        is_full = self.kinds.slice(first, length)[live - first] == RowKind.FULL
        rows = live.astype(np.uint32)
        columns = self.fingerprints.slice(first, length), self.digests.slice(first, length)
        by_fingerprint, by_digest = columns[0][live[is_full] - first], columns[1][live[~is_full] - first]
        self.index = PermutedIndex.from_arrays(
            {"fingerprints": by_fingerprint, "rows": rows[is_full]}, max_distance=self.index.max_distance
        )
        self.short = ExactTable.from_arrays({"keys": by_digest, "rows": rows[~is_full]})
        self.names = ExactTable.from_arrays({"keys": self.doc_id_hashes(live), "rows": rows})

    def seen_before(self, time_ms: int) -> NDArray[np.int64]:
        """Give the live rows that were seen before a time, ascending."""
        assert self.seen is not None, "only with retention"
        row = self.oldest
        while row < len(self):
            stop = min((row | (self.live.size - 1)) + 1, len(self))
            older = int(np.searchsorted(self.seen.slice(row, stop), time_ms))
            row += older
            if row < stop:
                break
        return self._live_between(self.oldest, row)

    def first_live(self, count: int) -> NDArray[np.int64]:
        """Give the `count` first live rows, ascending; there must be as many."""
        parts, row = [], self.oldest
        while count > 0:
            stop = min((row | (self.live.size - 1)) + 1, len(self))
            part = self._live_between(row, stop)[:count]
            parts.append(part)
            count -= len(part)
            row = stop
        return np.concatenate(parts)

    def _live_between(self, first: int, stop: int) -> NDArray[np.int64]:
        return first + np.flatnonzero(self.live.slice(first, stop))

    def pass_over(self, row: int) -> None:
        """Note that no row before this one is live."""
        self.oldest = max(self.oldest, row)

    @property
    def has_forgettable(self) -> bool:
        """Whether a chunk of rows lies wholly before the oldest that is live."""
        return self.oldest >= self.originals.first + self.live.size

    def forget(self, row: int) -> None:
        """Give back the memory of rows below `row`, in whole chunks."""
        self.originals.forget(row)
        for column in self._columns():
            column.forget(row)

    def renumber(self) -> int:
        """
        Call the first row that is kept 0; gives by how much less each row is now.

        Cost: that of `build`. Rows are 32 bits in the tables, and with retention there can be more of them in time.
        """
        less = self.originals.first
        self.renumbered += less
        self.originals.renumber(less)
        for column in self._columns():
            column.renumber(less)
        self.build()
        return less

    def adopt(self, arrays: Mapping[str, NDArray[Any]], firsts: Sequence[int]) -> list[NDArray[Any]]:
        """
        Refer to arrays, of a snapshot of these very rows, in place of the columns that never change.

        Args:
            arrays: by their names in a snapshot, without "originals.".
            firsts: as `Originals.firsts` was then, in today's numbers; it may be negative.
        Returns:
            The chunks replaced: their memory is free when they are dropped.
        """
        old = self.originals.adopt(arrays, firsts)
        old += self.fingerprints.adopt(arrays["fingerprints"], firsts[0])
        old += self.digests.adopt(arrays["digests"], firsts[0])
        old += self.kinds.adopt(arrays["kinds"], firsts[0])
        if self.seen is not None:
            old += self.seen.adopt(arrays["seen"], firsts[0])
        return old

    def _columns(self) -> Iterator[Column[Any]]:
        """The numbers kept by row, beside the texts and times of `originals`."""
        yield from (self.fingerprints, self.digests, self.kinds, self.live)
        if self.seen is not None:
            yield self.seen

    @property
    def nbytes(self) -> int:
        """Bytes of memory held."""
        own = sum(column.nbytes for column in self._columns())
        return own + sum(part.nbytes for part in (self.originals, self.index, self.short, self.names))

    def _check(self) -> None:
        """Assert that the three tables agree on the number of originals."""
        self.index.check()
        assert len(self.names) == self.documents == len(self.index) + len(self.short)
        for column in self._columns():
            assert (len(column), column.first) == (len(self), self.originals.first)
        assert sum(int(piece.sum()) for piece in self.live.pieces()) == self.documents
        assert not len(self._live_between(self.originals.first, max(self.oldest, self.originals.first)))
        if self.seen is not None:
            times = self.seen.slice(self.originals.first, len(self))
            assert (times[1:] >= times[:-1]).all()
