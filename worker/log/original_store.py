"""
The originals with all that is known of them, and the ways to find one: by fingerprint, by digest, by doc_id, by URL.

    row            0 … first       first …        oldest …                      length
    columns        forgotten       kept, dead     kept: live, or dead since      the queue's end
    tables                                        the live ones; by URL only the latest of each

A row is never used again and never moves: an original that is to stay longer gets a new one at the end. So the order of
rows is the order in which originals were seen, what expires is at the front, and its memory is given back.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.core.hash_table import HashTable
from worker.core.search import SearchRules
from worker.core.search_index import index_from_arrays, new_index
from worker.core.sketch import SKETCH
from worker.log.batches import repeated
from worker.log.columns import Column, Memory, anonymous
from worker.log.originals import Originals
from worker.log.rows import Record, RowKind
from worker.log.texts import Texts

CONTENT = ("kinds", "fingerprints", "doubts", "digests", "sketches")  # as the log has it
BY_ROW = (*CONTENT, "live", "latest", "seen")
_HASHES = ("name_hashes", "url_hashes")  # of doc_ids and URLs, under this replica's key: in no snapshot
_HASHED_AT_ONCE = 100_000  # hashing copies what it reads
_REBUILT_MIN = 50_000  # rows that leave at once, from which on building the tables anew can be faster


class OriginalStore:
    """
    Originals by row.

    Args:
        search: what the index by fingerprint finds.
        has_times: keep for each row the log's time at which it was seen; retention needs it.
        memory: where the columns lie that finding does not need: all but `live`.
    """

    def __init__(self, search: SearchRules, *, has_times: bool = False, memory: Memory = anonymous) -> None:
        self.search = search
        self.memory = memory
        self.originals = Originals(memory)
        self.fingerprints: Column[np.uint64] = Column(np.uint64, memory=memory)
        self.doubts: Column[np.uint64] = Column(np.uint64, memory=memory)
        self.digests: Column[np.uint64] = Column(np.uint64, memory=memory)
        self.sketches: Column[np.uint64] = Column(SKETCH, memory=memory)
        self.kinds: Column[np.uint8] = Column(np.uint8, memory=memory)
        self.live: Column[np.uint8] = Column(np.uint8)  # 1: in the index
        self.latest: Column[np.uint8] = Column(np.uint8, memory=memory)  # 1: no later original had its URL
        self.seen: Column[np.int64] | None = None  # ascending: the log's time
        if has_times:
            self.seen = Column(np.int64, memory=memory)
        self.name_hashes: Column[np.uint64] = Column(np.uint64, memory=memory)
        self.url_hashes: Column[np.uint64] = Column(np.uint64, memory=memory)
        none = np.empty(0, np.int64)
        self.short = self._table("digests", none)  # rows of SHORT originals
        self.names = self._table("name_hashes", none)  # rows of the originals that are in the index
        self.urls = self._table("url_hashes", none)  # row of each URL's latest original, while that is in the index
        self.documents = 0
        self.oldest = 0  # no row before it is live
        self.index = new_index(search, sketches=self.sketches)
        self._key = secrets.randbits(128)

    def __len__(self) -> int:
        """Return the number of rows, those that are gone included."""
        return len(self.originals)

    def add(
        self,
        times: NDArray[np.int64],
        texts: tuple[Texts, Texts],
        hashes: NDArray[np.uint64],
        content: Mapping[str, NDArray[Any]],
        clock_ms: int,
        *,
        before: NDArray[np.int64] | None = None,
        latest: NDArray[np.uint8] | None = None,
    ) -> None:
        """
        Append rows; the index by fingerprint knows them already, the tables learn them here.

        Args:
            times: when they were fetched; texts: doc_ids and URLs; hashes: of the doc_ids.
            content: the columns named in CONTENT; clock_ms: the log's time.
            before: row of the latest original of each one's URL, -1 for none; or
            latest: whether each is its URL's latest original, of which the tables no longer know another.
        """
        hashes_of_urls = self.hashes(texts[1])
        if before is not None:
            latest = self._newest(texts[1], hashes_of_urls, before)
        assert latest is not None
        first = self.originals.append(times, *texts)
        for name in CONTENT:
            getattr(self, name).append(content[name])
        self.name_hashes.append(hashes)
        self.url_hashes.append(hashes_of_urls)
        self.names.insert(hashes, np.arange(first, first + len(times), dtype=np.uint32))
        short = np.flatnonzero(content["kinds"] == RowKind.SHORT)
        self.short.insert(content["digests"][short], (first + short).astype(np.uint32))
        self.live.append(np.ones(len(times), np.uint8))
        self.latest.append(latest)
        mine = np.flatnonzero(latest)
        self.urls.insert(hashes_of_urls[mine], (first + mine).astype(np.uint32))
        if self.seen is not None:
            self.seen.append(np.full(len(times), clock_ms))
        self.documents += len(times)

    def _newest(self, urls: Texts, hashes: NDArray[np.uint64], before: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Mark the last one of each URL, which takes the place of the latest original so far."""
        gone = np.unique(before[before >= 0])
        if len(gone):
            self.latest.put(gone, 0)
            self.urls.delete_many(self.url_hashes.take(gone), gone.astype(np.uint32))
        newest = np.ones(len(hashes), np.uint8)
        again = repeated(hashes).tolist()
        if again:
            texts = urls.between(0, len(urls))
            newest[again] = 0
            newest[list({texts[at]: at for at in again}.values())] = 1
        return newest

    def latest_of(self, urls: Texts, hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the row of each URL's latest original, -1 where that is not in the index; see `_rows`."""
        return self._rows(self.urls, self.originals.url, urls, hashes)

    def find_many(self, hashes: NDArray[np.uint64], doc_ids: Texts) -> NDArray[np.int64]:
        """Return the row of the original with each doc_id, -1 where there is none; see `_rows`."""
        return self._rows(self.names, self.originals.doc_id, doc_ids, hashes)

    def _rows(
        self, table: HashTable, text_of: Callable[[int], bytes], texts: Texts, hashes: NDArray[np.uint64]
    ) -> NDArray[np.int64]:
        """
        Return the row that a table has under each text, -1 where it has none.

        Args:
            text_of: the text of a row; hashes: of the texts. Rows of other texts with an equal tag are passed over.
        Cost: 50 ns a text, 1 to 2 µs one that is known, and one in some ten thousand others.
        """
        found = table.find(hashes)
        known = np.flatnonzero(found >= 0)
        rows, asked = found[known].tolist(), texts.take(known).between(0, len(known))
        held = {row: text_of(row) for row in set(rows)}
        for at, row, text in zip(known.tolist(), rows, asked, strict=True):
            if held[row] != text:
                others = table.find_all(int(hashes[at]))
                found[at] = next((other for other in others if text_of(other) == text), -1)
        return found

    def will_need(self, record: Record, rows: NDArray[np.int64], hashes: NDArray[np.uint64]) -> None:
        """Ask the system for what judging these rows of a record will read; `hashes`: of the record's doc_ids."""
        known = np.concatenate([self.names.find(hashes[rows]), self.urls.find(self.hashes(record.urls)[rows])])
        self.originals.will_need(known[known >= 0])
        full = rows[record.kinds[rows] == RowKind.FULL]
        self.index.will_need(record.fingerprints[full], record.doubts[full])

    def find_short(self, digests: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the row of the SHORT original with each digest, -1 where there is none."""
        found = self.short.find(digests)
        known = np.flatnonzero(found >= 0)
        for at in known[self.digests.take(found[known]) != digests[known]].tolist():  # equal tags only
            others = self.short.find_all(int(digests[at]))
            found[at] = next((row for row in others if self.digests[row] == int(digests[at])), -1)
        return found

    def is_content(self, formers: NDArray[np.int64], record: Record, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of these originals have the content of the record's rows beside them."""
        is_same: NDArray[np.bool_] = self.kinds.take(formers) == record.kinds[rows]
        is_same &= self.fingerprints.take(formers) == record.fingerprints[rows]
        is_same &= self.digests.take(formers) == record.digests[rows]
        return is_same

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
        is_full = self.kinds.take(rows) == RowKind.FULL
        full, short = rows[is_full], rows[~is_full]
        self.index.delete_many(self.fingerprints.take(full), full.astype(np.uint32))
        self.short.delete_many(self.digests.take(short), short.astype(np.uint32))
        self.names.delete_many(self.name_hashes.take(rows), rows.astype(np.uint32))
        mine = rows[self.latest.take(rows) == 1]
        self.urls.delete_many(self.url_hashes.take(mine), mine.astype(np.uint32))

    def renew(self, rows: NDArray[np.int64], clock_ms: int) -> None:
        """Move live rows, ascending, to the end: each gets a new row there, seen at `clock_ms`, and leaves its own."""
        first = len(self)
        hashes, latest = self.name_hashes.take(rows), self.latest.take(rows)
        content = {name: getattr(self, name).take(rows) for name in CONTENT}
        self.remove(rows)
        self.add(self.originals.times(rows), self.originals.texts(rows), hashes, content, clock_ms, latest=latest)
        full = content["kinds"] == RowKind.FULL
        rows = first + np.flatnonzero(full)
        self.index.insert(content["fingerprints"][full], content["doubts"][full], rows.astype(np.uint32))

    def hashes(self, texts: Texts) -> NDArray[np.uint64]:
        """Return the hashes by which doc_ids and URLs are known, under a key of its own, which decides nothing."""
        return texts.hashes(self._key)

    def _table(self, column: str, rows: NDArray[np.int64]) -> HashTable:
        """Return the table of these rows by one of the columns."""
        table = HashTable(lambda asked: getattr(self, column).take(asked), len(rows))
        if len(rows):
            first = self.originals.first
            hashes = getattr(self, column).slice(first, len(self))[rows - first]
            table.insert(hashes, rows.astype(np.uint32))
        return table

    def build(self) -> None:
        """Make the tables from the columns. Cost: some 0.8 µs a live row."""
        first, length = self.originals.first, len(self)
        live = first + np.flatnonzero(self.live.slice(first, length))
        self.documents = len(live)
        self.oldest = int(live[0]) if len(live) else length
        is_full = self.kinds.slice(first, length)[live - first] == RowKind.FULL
        full, short = live[is_full], live[~is_full]
        held = self.columns()
        content = {name: held[name].slice(first, length)[full - first] for name in ("fingerprints", "doubts")}
        self.index = index_from_arrays(self.search, content | {"rows": full.astype(np.uint32)}, self.sketches)
        self.short = self._table("digests", short)
        self.names = self._table("name_hashes", live)
        latest = live[self.latest.slice(first, length)[live - first] == 1]
        self.urls = self._table("url_hashes", latest)

    def live_between(self, first: int, stop: int) -> NDArray[np.int64]:
        """Return the live rows of [first, stop)."""
        return first + np.flatnonzero(self.live.slice(first, stop))

    @property
    def has_forgettable(self) -> bool:
        """Whether a chunk of rows lies wholly before the oldest that is live."""
        return self.oldest >= self.originals.first + self.live.size

    def forget(self, row: int) -> None:
        """Free the memory of rows below `row`, in whole chunks."""
        self.originals.forget(row)
        for column in self.columns().values():
            column.forget(row)

    def compact(self, named: NDArray[np.int64]) -> NDArray[np.int64]:
        """
        Leave out the rows that are neither live nor `named`, and number the others anew in their order.

        Returns:
            The number of each row from `originals.first` on; that of a row left out means nothing.
        Cost: some 0.3 µs a row that stays, and that of `build`.
        """
        first, length = self.originals.first, len(self)
        stays = self.live.slice(first, length) == 1
        stays[named - first] = True
        originals, old = Originals(self.memory), self.columns()
        new: dict[str, Column[Any]] = {name: column.like(np.empty(0, column.dtype)) for name, column in old.items()}
        for at in range(first, length, self.live.size):
            stop = min(at + self.live.size, length)
            mine = np.flatnonzero(stays[at - first : stop - first])
            times, doc_ids, urls = self.originals.between(at, stop)
            originals.append(times[mine], doc_ids.take(mine), urls.take(mine))
            for name, column in old.items():
                new[name].append(column.slice(at, stop)[mine])
        vars(self).update(new, originals=originals)
        self.build()
        return np.cumsum(stays) - 1

    def load(self, arrays: Mapping[str, NDArray[Any]], firsts: Sequence[int]) -> None:
        """
        Take the rows of a snapshot, by reference; `build` or `compact` must follow.

        Args:
            arrays: by their names in a snapshot, without "originals."; firsts: as `Originals.firsts` was then.
        """
        self.originals = self.originals.like(arrays, firsts)
        for name, column in self.columns().items():
            setattr(self, name, column.like(arrays.get(name, np.empty(0, column.dtype)), firsts[0]))
        for at in range(firsts[0], len(self), _HASHED_AT_ONCE):
            _, doc_ids, urls = self.originals.between(at, min(at + _HASHED_AT_ONCE, len(self)))
            self.name_hashes.append(self.hashes(doc_ids))
            self.url_hashes.append(self.hashes(urls))
        self.documents = int(arrays["live"].sum())

    def columns(self) -> dict[str, Column[Any]]:
        """Return the numbers kept by row, by name, beside the texts and times of `originals`."""
        return {name: column for name in (*BY_ROW, *_HASHES) if (column := getattr(self, name)) is not None}

    @property
    def nbytes(self) -> int:
        """Bytes of memory held."""
        own = sum(column.nbytes for column in self.columns().values())
        return own + sum(part.nbytes for part in (self.originals, self.index, self.short, self.names, self.urls))

    def check(self) -> None:
        """Assert that the three tables agree on the number of originals."""
        self.index.check()
        assert len(self.names) == self.documents == len(self.index) + len(self.short)
        for column in self.columns().values():
            assert (len(column), column.first) == (len(self), self.originals.first)
        assert sum(int(piece.sum()) for piece in self.live.pieces()) == self.documents
        both = sum(
            int((live & latest).sum()) for live, latest in zip(self.live.pieces(), self.latest.pieces(), strict=True)
        )
        assert len(self.urls) == both
        assert not len(self.live_between(self.originals.first, max(self.oldest, self.originals.first)))
        if self.seen is not None:
            times = self.seen.slice(self.originals.first, len(self))
            assert (times[1:] >= times[:-1]).all()
