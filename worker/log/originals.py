"""
The originals: the documents that duplicated nothing, the data of each, and how to find one.

Later documents are compared with originals alone: they are all that the judge knows of the past.

Rows
    row            0 … first       first …        oldest …                      length
    columns        forgotten       kept, dead     kept: live, or dead since      the queue's end
    tables                                        the live ones; by URL only the latest of each

An original enters at the end and keeps its row for life. A row is never used twice and never moves:
an original that retention keeps for longer leaves its row and gets a new one at the end; `moved`
says which, for the duplicates that name the old one. So the
order of rows is the order in which originals were last seen, whatever expires stands at the front,
and the memory at the front can be given back. A dead row stays for a while, because a verdict that
is decided and not yet published may name it. Only `compact` gives rows other numbers, and keeps
their order.

Tables
    index     fingerprint and doubts     live rows of kind FULL, in the blocks that list them since
                                         birth; confirms a candidate by its sketch
    short     digest, or with a title    live rows of kind SHORT, each by one of them (`short.py`)
    names     hash of the doc_id         all live rows
    urls      hash of the URL            live rows of which no later original has the URL
    thin      digest with URL or title   live rows of kind FULL that are thin pages (`thin.py`)
    duplicates  digest                   no rows: of the texts of duplicates (`duplicates.py`) the
                                         row of the original that each was a copy of

A hash table has rows and a few bits of their hashes, so a row that it finds may be another text's:
its text in the columns is compared before it counts. doc_ids and URLs are chosen by strangers, so
their hashes have a secret key, new for each process. No verdict and no snapshot depends on the key.

The data of each original stand in columns by row (`columns.py`). One of them, `rows`, has all that
confirms a candidate and all that a verdict says, except for the texts. So the search and the
verdict read one page of a disk, and the texts are another:

    byte 0    64     72            80      88      96    104            120
    sketch    mark   fingerprint   doubts  digest  time  place of texts

Rejected, and why
- The row of a dead original for the next one: a verdict that waits for its commit may name it, and
  would name another document. Rows also tell the order, which retention and the search go by.
- Tables that keep whole hashes, or the texts themselves: a table with 16 bits of each hash takes 10
  bytes per row, and the text that decides is in the columns anyway.
- Taking rows out one by one, however many leave: 2 µs each. To build all tables from the columns
  takes 0.8 µs per row that stays, so that is done where more leave than stay.
- To search for a question with the rows that it would replace merely left out of the result: such a
  row would still take the place of another candidate. `hidden` takes them out for as long.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.core.document import Original
from worker.core.hash_table import HashTable
from worker.core.index import SearchIndex
from worker.core.marks import are_thin
from worker.core.search import SearchRules
from worker.errors import RestoreError
from worker.log.columns import (
    PLACE,
    ChunkedColumn,
    Field,
    Memory,
    TextPairs,
    anonymous,
    bytes_column,
)
from worker.log.duplicates import ENTRY, DuplicateTexts
from worker.log.outside import SLICE_ROW, Outside
from worker.log.record import RowKind, Rows
from worker.log.short import ShortTable
from worker.log.texts import Texts
from worker.log.thin import ThinTables
from worker.log.url_rules import NO_URL_RULES, UrlRules

CONTENT = ("kinds", "fingerprints", "doubts", "digests", "sketches", "marks")  # as the log has it
ROW = np.dtype(
    [
        ("sketches", "<u8", 8),
        ("marks", "<u8"),  # right behind the sketch, as the index reads it
        ("fingerprints", "<u8"),
        ("doubts", "<u8"),
        ("digests", "<u8"),
        ("times", "<i8"),  # when they were fetched
        ("texts", PLACE),
    ]
)
BY_ROW = ("rows", "kinds", "live", "latest", "listed", "copies", "seen", "moved")
_WITH_TIMES = ("seen", "moved")  # only retention needs them
# Of doc_ids and URLs, under this replica's key: in no snapshot.
_HASHES = ("name_hashes", "url_hashes")
_HASHED_AT_ONCE = 100_000  # hashing copies what it reads
# Rows that leave at once, from which on building the tables anew can be faster.
_REBUILT_MIN = 50_000


class OriginalStore:
    """
    Originals by row, and the tables that find the live ones.

    `documents` is the number of live rows; no row below `oldest` is live. Both are kept up to date
    by `add`, `remove` and the judge (`oldest`), and counted anew by `build`.

    A caller may note with `divide` which originals are there. `are_earlier` tells them from later
    ones, whether they are renewed or numbered anew meanwhile.

    Args:
        search: what the index by fingerprint finds.
        has_times: keep for each row the log's time at which it was seen; retention needs it.
        memory: where the columns lie that finding does not need: all but `live` and `copies`, which
            are changed in place all the time.
        url_rules: which URLs name one page. The table of URLs has pages.
    """

    def __init__(
        self,
        search: SearchRules,
        *,
        has_times: bool = False,
        memory: Memory = anonymous,
        url_rules: UrlRules = NO_URL_RULES,
    ) -> None:
        self.search = search
        self.url_rules = url_rules
        self.memory = memory
        self._refer(ChunkedColumn(ROW, memory=memory), bytes_column(memory))
        self.kinds: ChunkedColumn[np.uint8] = ChunkedColumn(np.uint8, memory=memory)
        self.live: ChunkedColumn[np.uint8] = ChunkedColumn(np.uint8)  # 1: in the index
        # 1: no later original had its URL.
        self.latest: ChunkedColumn[np.uint8] = ChunkedColumn(np.uint8, memory=memory)
        # In which blocks each was listed at birth, bit by bit; 0 for exact rules. Of SHORT ones
        # under which key (`short.py`).
        self.listed: ChunkedColumn[np.uint16] = ChunkedColumn(np.uint16, memory=memory)
        # How many rows have been judged duplicates of each (`copies.py`).
        self.copies: ChunkedColumn[np.uint32] = ChunkedColumn(np.uint32)
        # The log's time when each was seen: ascending, since rows are in that order.
        self.seen: ChunkedColumn[np.int64] | None = (
            ChunkedColumn(np.int64, memory=memory) if has_times else None
        )
        # The row that each has left its own for; 0 if for none, which no row is left for.
        self.moved: ChunkedColumn[np.uint32] | None = (
            ChunkedColumn(np.uint32, memory=memory) if has_times else None
        )
        self.duplicates = DuplicateTexts(memory)
        self.name_hashes: ChunkedColumn[np.uint64] = ChunkedColumn(np.uint64, memory=memory)
        self.url_hashes: ChunkedColumn[np.uint64] = ChunkedColumn(np.uint64, memory=memory)
        self._key = secrets.randbits(128)
        self._threads = 1
        self._asks = False
        self.outside: Outside | None = None  # what `index` does not have; `build` must follow
        self._boundary = 0  # those below are earlier ones
        self._renewed: set[int] = set()  # rows from there on of earlier ones that were renewed
        self.build()

    def _refer(self, rows: ChunkedColumn[Any], text_bytes: ChunkedColumn[np.uint8]) -> None:
        """Have these columns of ROWs and of texts."""
        self.rows = rows
        self.sketches: Field[np.uint64] = Field(rows, "sketches")
        self.marks: Field[np.uint64] = Field(rows, "marks")
        self.fingerprints: Field[np.uint64] = Field(rows, "fingerprints")
        self.doubts: Field[np.uint64] = Field(rows, "doubts")
        self.digests: Field[np.uint64] = Field(rows, "digests")
        self.times: Field[np.int64] = Field(rows, "times")
        self._places: Field[Any] = Field(rows, "texts")
        self.texts = TextPairs(self._places, text_bytes)

    def __len__(self) -> int:
        """Return the number of rows, those that are gone included."""
        return len(self.live)

    @property
    def threads(self) -> int:
        """How many threads may search at a time; 1 at first."""
        return self._threads

    @threads.setter
    def threads(self, count: int) -> None:
        self._threads = self.index.threads = count

    @property
    def asks(self) -> bool:
        """
        Whether the store prefetches the rows that it will read, before it reads the first.

        False at first. It pays where the columns are on a disk and not in memory.
        """
        return self._asks

    @asks.setter
    def asks(self, asks: bool) -> None:
        self._asks = self.index.asks = asks

    @property
    def first(self) -> int:
        """The first row that is kept."""
        return self.live.first

    def get(self, row: int) -> Original:
        """
        Return the fields of this row that a verdict names, whether the row is live or not.

        Raises IndexError: the row is forgotten, or not there yet.
        """
        if not self.first <= row < len(self):
            raise IndexError(
                f"row {row} of {len(self)} originals, of which the first {self.first} are forgotten"
            )
        doc_id = self.texts.text(2 * row).decode("utf-8", "surrogatepass")
        url = self.texts.text(2 * row + 1).decode("utf-8", "surrogatepass")
        return Original(doc_id, url, self.times[row])

    def begin_rows(self, sketches: NDArray[np.uint64], marks: NDArray[np.uint64]) -> None:
        """Append rows with only the fields that the next search reads; `add` completes them."""
        rows = np.zeros(len(sketches), ROW)
        rows["sketches"] = sketches
        rows["marks"] = marks
        self.rows.append(rows)

    def add(
        self,
        times: NDArray[np.int64],
        texts: tuple[Texts, Texts],
        hashes: tuple[NDArray[np.uint64], NDArray[np.uint64]],
        content: Mapping[str, NDArray[Any]],
        clock_ms: int,
        latest: NDArray[np.uint8],
        live: NDArray[np.uint8],
        *,
        listed: NDArray[np.uint16],
        copies: NDArray[np.uint32],
    ) -> None:
        """
        Complete rows that were begun, and enter them into all tables but the index by fingerprint.

        The index is the caller's to fill: it searches and inserts in one pass, before the rows are
        here (`match_or_insert`).

        Args:
            times: when they were fetched, in milliseconds.
            texts: their doc_ids and their URLs.
            hashes: of the doc_ids, and of the URLs' pages; see `hashes`.
            content: the columns of CONTENT, by name.
            clock_ms: the log's time, at which they were seen.
            latest: 1 for each row that is its URL's latest original. The table of URLs must no
                longer have another row of that URL; `newest` sees to it.
            live: 0 for each row that has left again, which no table gets.
            listed: the blocks in which the index has listed each; of a SHORT one its key.
            copies: the duplicates of each so far.
        Cost: some 1 µs per row.
        """
        first = len(self)
        self.times.fill(first, times)
        self._places.fill(first, self.texts.append(*texts))
        for field in ("fingerprints", "doubts", "digests"):
            getattr(self, field).fill(first, content[field])
        self.kinds.append(content["kinds"])
        for column, values in zip((self.name_hashes, self.url_hashes), hashes, strict=True):
            column.append(values)
        self.live.append(live)
        self.latest.append(latest)
        self.listed.append(listed)
        self.copies.append(copies)
        if self.seen is not None and self.moved is not None:
            self.seen.append(np.full(len(times), clock_ms))
            self.moved.append(np.zeros(len(times), np.uint32))
        for table, is_in, keys in (
            (self.names, live, hashes[0]),
            (self.urls, live & latest, hashes[1]),
        ):
            places = np.flatnonzero(is_in)
            table.insert(keys[places], (first + places).astype(np.uint32))
        kinds = content["kinds"]
        self.short.insert(first + np.flatnonzero(live & (kinds == RowKind.SHORT)))
        self.thin.insert(first + np.flatnonzero(live & self._may_be_thin(kinds)))
        self.documents += int(live.sum())

    def divide(self, boundary: int | None = None, moved: Iterable[int] = ()) -> None:
        """
        Note which originals are earlier ones.

        Args:
            boundary: rows below it are earlier ones; by default all that there are.
            moved: rows at or above the boundary that earlier ones have got by a renewal.
        """
        self._boundary = len(self) if boundary is None else boundary
        self._renewed = set(moved)

    def are_earlier(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """
        Return for each row whether it is that of an earlier original (`divide`).

        Cost: O(rows); some 0.1 µs for each later one if any was renewed.
        """
        is_earlier: NDArray[np.bool_] = rows < self._boundary
        if self._renewed:
            for at in np.flatnonzero(~is_earlier).tolist():
                is_earlier[at] = int(rows[at]) in self._renewed
        return is_earlier

    def newest(self, formers: NDArray[np.int64]) -> NDArray[np.uint8]:
        """
        Mark the rows to be added that are the latest of their URL, and unmark their predecessors.

        Args:
            formers: for each row to be added, the original that was its URL's latest before, or -1.
                It may be one of the rows to be added: they get the numbers from len(self) on.
        Returns:
            1 for each row that no other of these rows follows; `add` takes it as `latest`.
        """
        length = len(self)
        latest = np.ones(len(formers), np.uint8)
        latest[formers[formers >= length] - length] = 0
        followed = formers[(formers >= 0) & (formers < length)]
        if len(followed):
            self.latest.put(followed, 0)
            self.urls.delete_many(self.url_hashes.take(followed), followed.astype(np.uint32))
        return latest

    def latest_of(self, urls: Texts, hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
        """
        Return the row of each page's latest original, -1 where it is not in the index.

        `urls` are those of pages (`url_rules`), `hashes` theirs. Cost: that of `find_many`.
        """
        return self._rows(self.urls, 1, urls, hashes)

    def find_many(self, hashes: NDArray[np.uint64], doc_ids: Texts) -> NDArray[np.int64]:
        """
        Return the row of the original with each doc_id, -1 where none is in the index.

        `hashes` are those of the doc_ids. Cost: 50 ns per doc_id, 0.2 µs where one is there.
        """
        return self._rows(self.names, 0, doc_ids, hashes)

    def _rows(
        self, table: HashTable, place: int, texts: Texts, hashes: NDArray[np.uint64]
    ) -> NDArray[np.int64]:
        """Return the row that a table has of each text (`place` 0: doc_ids, 1: URLs), or -1."""
        rows = table.find(hashes)
        places = np.flatnonzero(rows >= 0)
        if not len(places):
            return rows
        asked = texts.take(places)
        # Of its hash the table has a few bits only, so a row may be that of another text.
        known = self.texts.texts(2 * rows[places] + place)
        is_other = ~(self.url_rules.pages_of(known) if place else known).equal_to(asked)
        for at in np.flatnonzero(is_other).tolist():
            own = int(places[at])
            rows[own] = self._row_of(table, int(hashes[own]), place, asked[at])
        return rows

    def _row_of(self, table: HashTable, text_hash: int, place: int, text: bytes) -> int:
        """Return the row of this text among all that a table has under the hash's bits, or -1."""
        for row in table.find_all(text_hash):
            known = self.texts.text(2 * row + place)
            if (self.url_rules.page_of(known) if place else known) == text:
                return row
        return -1

    def will_need(self, record: Rows, rows: NDArray[np.int64], hashes: NDArray[np.uint64]) -> None:
        """
        Prefetch the originals that the tables list under the digests, doc_ids and URLs of a
        record's rows.

        `rows` are the record's; `hashes` are those of all its doc_ids. The index prefetches by
        itself (`asks`).

        Cost: a look-up of each doc_id and URL, and a system call per page.
        """
        short = rows[record.kinds[rows] == RowKind.SHORT]
        full = rows[record.kinds[rows] == RowKind.FULL]
        url_hashes = self.hashes(self.url_rules.pages_of(record.urls))
        self.rows.will_need(self.short.candidates(record.digests[short]))
        self.duplicates.will_need(record.digests[full])
        thin = full[are_thin(record.marks[full])]
        self.rows.will_need(self.thin.candidates(record, thin, url_hashes[thin]))
        of_doc_ids = self.names.find(hashes[rows])
        of_urls = self.urls.find(url_hashes[rows])
        candidates = np.concatenate([of_doc_ids, of_urls])
        candidates = candidates[candidates >= 0]
        # An original that leaves is taken out of the tables by these.
        for column in (self.kinds, self.latest, self.name_hashes, self.url_hashes):
            column.will_need(candidates)
        self.rows.will_need(candidates)
        self.texts.will_need(candidates)

    def marks_of(self, record: Rows, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return the marks by which a record's rows are kept apart; none without sketches."""
        return record.marks[rows] if self.search.similarity_min else np.zeros(len(rows), np.uint64)

    def after_moves(self, originals: NDArray[np.int64]) -> NDArray[np.int64]:
        """
        Return the rows at which originals are live now, -1 for those that have left.

        Args:
            originals: rows at which they once were, -1 for none.
        """
        originals = np.where(originals >= self.first, originals, -1)
        places = np.flatnonzero(originals >= 0)
        while len(places):
            places = places[self.live.take(originals[places]) == 0]
            later = (
                np.zeros(len(places), np.int64)
                if self.moved is None
                else self.moved.take(originals[places]).astype(np.int64)
            )
            originals[places] = np.where(later > 0, later, -1)
            places = places[later > 0]
        return originals

    def is_content(
        self, formers: NDArray[np.int64], record: Rows, rows: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Return for each original of `formers` whether it has the content of the record's row."""
        is_same: NDArray[np.bool_] = self.kinds.take(formers) == record.kinds[rows]
        is_same &= self.fingerprints.take(formers) == record.fingerprints[rows]
        is_same &= self.digests.take(formers) == record.digests[rows]
        return is_same

    def remove(self, rows: NDArray[np.int64]) -> None:
        """
        Take live rows out of the tables. Their columns stay, for the verdicts that name them.

        `rows` are live and ascend. Cost: 2 µs per row; where more leave than stay, that of `build`.
        """
        self.live.put(rows, 0)
        self.documents -= len(rows)
        if len(rows) > _REBUILT_MIN and len(rows) > self.documents:
            self.build()
            return
        full = rows[self.kinds.take(rows) == RowKind.FULL]
        self.index.delete_many(self.fingerprints.take(full), full.astype(np.uint32))
        self._take_out(rows)

    def leave_tables(self, rows: NDArray[np.int64]) -> None:
        """
        Take live rows, which the index has no longer, out of the other tables; as `remove`.
        """
        if len(rows):
            self.live.put(rows, 0)
            self.documents -= len(rows)
            self._take_out(rows)

    def _take_out(self, rows: NDArray[np.int64]) -> None:
        """Take rows out of all tables but the index by fingerprint."""
        kinds = self.kinds.take(rows)
        self.short.remove(rows[kinds == RowKind.SHORT])
        self.thin.remove(rows[self._may_be_thin(kinds)])
        self.names.delete_many(self.name_hashes.take(rows), rows.astype(np.uint32))
        latest = rows[self.latest.take(rows) == 1]
        self.urls.delete_many(self.url_hashes.take(latest), latest.astype(np.uint32))

    @contextmanager
    def hidden(self, rows: NDArray[np.int64]) -> Iterator[None]:
        """
        Take live rows out of the index by fingerprint until the block ends; nothing else changes.

        A search that only left such a row out of its result would not be the same: the row would
        still take the place of another candidate. What the index finds depends on its content
        alone, so that afterwards it is as before.

        Cost: 4 µs per row.
        """
        full = rows[self.kinds.take(rows) == RowKind.FULL]
        fingerprints = self.fingerprints.take(full)
        doubts = self.doubts.take(full)
        numbers = full.astype(np.uint32)
        listed = self.listed.take(full)
        self.index.delete_many(fingerprints, numbers)
        try:
            yield
        finally:
            self.index.insert(fingerprints, doubts, numbers, listed)

    def renew(self, rows: NDArray[np.int64], clock_ms: int) -> None:
        """
        Move live rows to the end: each leaves its row and gets a new one, seen at `clock_ms`.

        That is a new birth: all of them leave first, then each is listed where there is room.

        `rows` are live and ascend, so that they keep their order.

        Cost: some 3 µs per row.
        """
        first = len(self)
        moved = (first + np.flatnonzero(self.are_earlier(rows))).tolist()
        self._renewed.difference_update(rows.tolist())
        self._renewed.update(moved)
        hashes = (self.name_hashes.take(rows), self.url_hashes.take(rows))
        latest = self.latest.take(rows)
        content = {name: getattr(self, name).take(rows) for name in CONTENT}
        self.remove(rows)
        self.begin_rows(content["sketches"], content["marks"])
        # Without a search: an original is no duplicate of those that it stood among.
        is_full = content["kinds"] == RowKind.FULL
        full = (first + np.flatnonzero(is_full)).astype(np.uint32)
        listed = self.listed.take(rows)
        listed[is_full] = self.index.insert(
            content["fingerprints"][is_full], content["doubts"][is_full], full
        )
        self.add(
            times=self.times.take(rows),
            texts=self.texts.take(rows),
            hashes=hashes,
            content=content,
            clock_ms=clock_ms,
            latest=latest,
            live=np.ones(len(rows), np.uint8),
            listed=listed,
            copies=self.copies.take(rows),
        )
        assert self.moved is not None, "only with retention"
        self.moved.put(rows, (first + np.arange(len(rows))).astype(np.uint32))

    def hashes(self, texts: Texts) -> NDArray[np.uint64]:
        """
        Return the hashes by which the tables know doc_ids and URLs.

        The key is this store's secret: nobody can choose texts whose hashes collide.
        """
        return texts.hashes(self._key)

    def _table(self, hashes: ChunkedColumn[np.uint64], rows: NDArray[np.int64]) -> HashTable:
        """Return the table of these rows by one of the columns of hashes."""
        # No method of this store, which has the table: in a cycle neither would be freed before
        # Python looks for cycles, with all gigabytes of the store.
        table = HashTable(hashes.take, len(rows))
        first = self.first
        table.insert(hashes.slice(first, len(self))[rows - first], rows.astype(np.uint32))
        return table

    def build(self) -> None:
        """
        Make all tables, `documents` and `oldest` from the columns. Cost: 0.8 µs per live row.

        Raises RestoreError: an original is listed in a block where it cannot be, so no store wrote
        these columns.
        """
        first = self.first
        length = len(self)
        live = first + np.flatnonzero(self.live.slice(first, length))
        self.documents = len(live)
        self.oldest = int(live[0]) if len(live) else length  # no row before it is live
        is_full = self.kinds.slice(first, length)[live - first] == RowKind.FULL
        all_full = live[is_full]
        short = live[~is_full]
        full = all_full if self.outside is None else all_full[~self.outside.has(all_full)]
        content = {
            "fingerprints": self.fingerprints.slice(first, length)[full - first],
            "doubts": self.doubts.slice(first, length)[full - first],
            "listed": self.listed.slice(first, length)[full - first],
            "rows": full.astype(np.uint32),
        }
        try:
            self.index = SearchIndex.from_arrays(
                content, self.search, sketches=self.sketches, are_marked=True
            )
        except ValueError as error:
            raise RestoreError(f"the snapshot's originals are no index: {error}") from error
        for rows in self.rows_outside(self.outside):
            self.index.count_outside(self.fingerprints.take(rows), self.listed.take(rows))
        self.index.threads = self._threads
        self.index.asks = self._asks
        self.short = ShortTable(self.rows, self.listed, short)
        self.names = self._table(self.name_hashes, live)  # rows of those that are in the index
        latest = live[self.latest.slice(first, length)[live - first] == 1]
        # Row of each URL's latest original, while that is in the index.
        self.urls = self._table(self.url_hashes, latest)
        may_be_thin = self._may_be_thin(self.kinds.take(all_full))
        self.thin = ThinTables(
            self.rows, self.url_hashes, self.texts, all_full[may_be_thin], self.url_rules
        )

    def may_leave(self, doc_ids: Iterable[Texts]) -> NDArray[np.int64]:
        """
        Return the originals that rows with these doc_ids can remove: those that have one of them.

        Cost: that of `find_many`; memory for one of the parts, and 8 bytes for each that is found.
        """
        found = [np.empty(0, np.int64)]
        for texts in doc_ids:
            rows = self.find_many(self.hashes(texts), texts)
            found.append(rows[rows >= 0])
        return np.unique(np.concatenate(found))

    def rows_outside(self, outside: Outside | None) -> Iterator[NDArray[np.int64]]:
        """Yield the rows that are outside, in parts, ascending."""
        if outside is None:
            return
        stop = min(outside.stop, len(self))
        for begin in range(self.first, stop, self.live.size):
            live = self.live_between(begin, min(begin + self.live.size, stop))
            full = live[self.kinds.take(live) == RowKind.FULL]
            yield full[outside.has(full)]

    def slice_rows(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """
        Return the rows that are listed in any block, with the columns that another index needs.
        """
        listed = self.listed.take(rows)
        rows = rows[listed > 0]
        columns = self.rows.take(rows)
        found = np.empty(len(rows), SLICE_ROW)
        for name in ("sketches", "marks", "fingerprints", "doubts"):
            found[name] = columns[name]
        found["listed"] = listed[listed > 0]
        found["rows"] = rows
        return found

    def _may_be_thin(self, kinds: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Return for originals of some kinds whether the table of thin pages may have them."""
        is_full: NDArray[np.bool_] = kinds == RowKind.FULL
        return is_full if self.search.similarity_min else np.zeros(len(kinds), np.bool_)

    def live_between(self, first: int, stop: int) -> NDArray[np.int64]:
        """Return the live rows of [first, stop)."""
        return first + np.flatnonzero(self.live.slice(first, stop))

    def forget(self, row: int) -> None:
        """Free the memory of rows below `row`, in whole chunks."""
        stop = min(row, len(self) - 1) & -self.live.size
        if (
            self.moved is not None
            and stop > self.first
            and self.moved.slice(self.first, stop).any()
        ):
            # Duplicates that name a row to be freed would lose the original that has moved from it.
            self.duplicates.rename(self.after_moves)
        for column in self.columns().values():
            column.forget(row)
        self.texts.forget()

    def compact(self, named: NDArray[np.int64]) -> NDArray[np.int64]:
        """
        Number the rows anew, in their order, without those that are neither live nor named.

        Args:
            named: rows that kept verdicts name, in any order, also repeated.
        Returns:
            The new number of each row from the old `first` on; of a row that is left out it means
            nothing.
        Cost: 0.3 µs per row, and `build`; memory for the new columns beside the old ones.
        """
        first = self.first
        length = len(self)
        stays = self.live.slice(first, length) == 1
        stays[named - first] = True
        numbers = np.cumsum(stays) - 1

        def renumbered(rows: NDArray[np.int64]) -> NDArray[np.int64]:
            rows = self.after_moves(rows)
            is_live = rows >= 0
            rows[is_live] = numbers[rows[is_live] - first]
            return rows

        self.duplicates.rename(renumbered)
        old_columns = self.columns()
        new_columns: dict[str, ChunkedColumn[Any]] = {
            name: column.like(np.empty(0, column.dtype)) for name, column in old_columns.items()
        }
        texts = TextPairs(Field(new_columns["rows"], "texts"), bytes_column(self.memory))
        # A chunk at a time, so that no column is in memory twice as one array.
        for begin in range(first, length, self.live.size):
            stop = min(begin + self.live.size, length)
            staying = np.flatnonzero(stays[begin - first : stop - first])
            doc_ids, urls = self.texts.between(begin, stop)
            places = texts.append(doc_ids.take(staying), urls.take(staying))
            for name, column in old_columns.items():
                values = column.slice(begin, stop)[staying]
                if name == "rows":
                    values["texts"] = places
                elif name == "moved":
                    values = np.zeros_like(values)  # nothing names the former rows any more
                new_columns[name].append(values)
        for name, column in new_columns.items():
            setattr(self, name, column)
        self._refer(self.rows, texts.data)
        self.build()
        self._boundary = int(np.count_nonzero(stays[: max(self._boundary - first, 0)]))
        self._renewed = {
            int(numbers[row - first])
            for row in self._renewed
            if row >= first and stays[row - first]
        }
        return numbers

    def load(
        self,
        arrays: Mapping[str, NDArray[Any]],
        firsts: Sequence[int],
        first_duplicate: int = 0,
    ) -> None:
        """
        Refer to the rows of a snapshot; `build` or `compact` must follow, to make the tables.

        Args:
            arrays: the columns that `pieces` gave, each in one piece, checked by the caller
                (`snapshot_schema.py`).
            firsts: the first row, and the first byte of the texts, that the snapshot has.
            first_duplicate: the number of the first text of a duplicate.
        Cost: O(chunks), and hashing each doc_id and URL under this process's key, some 40 ns per
        row. Nothing is copied.
        """
        first_row, first_byte = firsts
        text_bytes = self.texts.data.like(arrays["text_bytes"], first_byte)
        for name, column in self.columns().items():
            values = arrays.get(name, np.empty(0, column.dtype))  # the hashes are in no snapshot
            setattr(self, name, column.like(values, first_row))
        self._refer(self.rows, text_bytes)
        entries = arrays.get("duplicates", np.empty(0, ENTRY))
        self.duplicates.refer(self.duplicates.entries.like(entries, first_duplicate))
        for begin in range(first_row, len(self), _HASHED_AT_ONCE):
            doc_ids, urls = self.texts.between(begin, min(begin + _HASHED_AT_ONCE, len(self)))
            self.name_hashes.append(self.hashes(doc_ids))
            self.url_hashes.append(self.hashes(self.url_rules.pages_of(urls)))
        self.documents = int(arrays["live"].sum())

    def pieces(self) -> dict[str, Sequence[NDArray[np.generic]]]:
        """Return columns by name, in pieces that never change. Cost: O(chunks), no copy."""
        columns = self.columns()
        columns["text_bytes"] = self.texts.data
        columns["duplicates"] = self.duplicates.entries
        return {name: column.pieces() for name, column in columns.items()}

    def columns(self) -> dict[str, ChunkedColumn[Any]]:
        """Return the columns of numbers by name; the texts are no part of it."""
        columns = {name: getattr(self, name) for name in (*BY_ROW, *_HASHES)}
        if self.seen is None:
            for name in _WITH_TIMES:
                del columns[name]
        return columns

    def check(self) -> None:
        """Assert that columns have one length, and that the tables hold the live rows."""
        self.index.check()
        self.duplicates.check()
        assert len(self.names) == self.documents
        for name, column in self.columns().items():
            assert len(column) == len(self), name
            assert column.first == self.first
        live = self.live.slice(self.first, len(self))
        latest = self.latest.slice(self.first, len(self))
        assert int(live.sum()) == self.documents
        full = np.flatnonzero(live & (self.kinds.slice(self.first, len(self)) == RowKind.FULL))
        assert len(full) + len(self.short) == self.documents
        contents = self.index.arrays()
        indexed = full
        if self.outside is not None:
            indexed = full[~self.outside.has(self.first + full)]
        if self.search.mode == "directed":
            listed = self.listed.slice(self.first, len(self))[indexed]
            indexed = indexed[listed > 0]
            assert np.array_equal(contents["listed"], listed[listed > 0])
        assert np.array_equal(contents["rows"], self.first + indexed)
        assert int((live & latest).sum()) == len(self.urls)
        self.thin.check(self.first + full if self.search.similarity_min else full[:0])
        assert not len(self.live_between(self.first, max(self.oldest, self.first)))
        if self.seen is not None:
            times = self.seen.slice(self.first, len(self))
            assert (times[1:] >= times[:-1]).all()


def repeated(hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
    """
    Return the places of the hashes that occur more than once, ascending.

    >>> repeated(np.array([7, 5, 7, 6], np.uint64)).tolist()
    [0, 2]
    """
    ordered = np.sort(hashes)
    # Nearly always; sorting alone takes a seventh of what `np.unique` takes with its inverse.
    if not (ordered[1:] == ordered[:-1]).any():
        return np.empty(0, np.int64)
    _, inverse, counts = np.unique(hashes, return_inverse=True, return_counts=True)
    return np.flatnonzero(counts[inverse] > 1)
