"""
The originals: all that is known of each document that was first, by row, and the ways to find one.

    row            0 … first       first …        oldest …                      length
    columns        forgotten       kept, dead     kept: live, or dead since      the queue's end
    tables                                        the live ones; by URL only the latest of each

A row is never used again and never moves: an original that is to stay longer gets a new one at the
end. So the order of rows is the order in which originals were seen, what expires is at the front,
and its memory is given back.

A column grows at its end and is forgotten from its beginning, in chunks of fixed size:

    rows     0 … 65,535 | 65,536 …  | 131,072 … | 196,608 … length
    chunks   forgotten  | forgotten | shared    | own            shared with a snapshot: a change copies it first

So growing copies nothing, forgetting gives memory back, and a snapshot is a list of the chunks:
nothing ever pauses. Chunks are memory maps of their own, because the C library keeps much of what
is freed to it; or whoever made the column says where they lie, in a file for example. Texts are
columns, too:

    begins   0 3 7 …      two a row, doc_id and URL, where each starts; it stops where the next one starts
    bytes    abcdefg…     all back to back: what a verdict says of an original lies on one page
"""

from __future__ import annotations

import mmap
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from worker.core.document import Original
from worker.core.hash_table import HashTable
from worker.core.index import SearchIndex
from worker.core.search import SearchRules
from worker.core.sketch import SKETCH
from worker.log.record import Record, RowKind
from worker.log.texts import Texts

Scalar = TypeVar("Scalar", bound=np.generic)

ROWS_BITS = 16  # of a chunk of a column by row
BYTES_BITS = 20  # of a chunk of texts
CONTENT = ("kinds", "fingerprints", "doubts", "digests", "sketches")  # as the log has it
BY_ROW = ("times", *CONTENT, "live", "latest", "seen")
# Of doc_ids and URLs, under this replica's key: in no snapshot.
_HASHES = ("name_hashes", "url_hashes")
_HASHED_AT_ONCE = 100_000  # hashing copies what it reads
# Rows that leave at once, from which on building the tables anew can be faster.
_REBUILT_MIN = 50_000
_FLAGS = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_ANONYMOUS") else {}


class Memory:
    """Where chunks lie: in memory of this process alone, unless a subclass has another place."""

    def __call__(self, size: int, /) -> Any:
        """Return so many bytes, all zero, that are free when the last array on them is gone."""
        return mmap.mmap(-1, size, **_FLAGS)

    def is_cold(self) -> bool:
        """Whether much had to be read from a disk since the last call: a hint."""
        return False


anonymous = Memory()


class Column(Generic[Scalar]):
    """
    An array of one number type by row, or of a few numbers a row; rows below `first` are forgotten.

    np.dtype((np.uint64, 8)) has eight numbers a row; a chunk has 2 ** `bits` entries, ROWS_BITS if
    left out.
    Cost: `append` O(new), `take` O(asked); memory is the entries, rounded up to a chunk; pages
    never written are free.

    >>> column = Column(np.uint64)
    >>> column.append(np.array([5, 6], np.uint64))
    >>> column.take(np.array([1])).tolist(), len(column)
    ([6], 2)
    """

    __slots__ = (
        "_addresses", "_base", "_chunks", "_length", "_memory", "_shared", "bits", "dtype", "size",
    )  # fmt: skip

    def __init__(
        self,
        dtype: type[Scalar] | np.dtype[Any],
        bits: int | None = None,
        memory: Memory = anonymous,
    ) -> None:
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.bits = ROWS_BITS if bits is None else bits
        self.size = 1 << self.bits  # entries of a chunk
        self._memory = memory
        self._addresses: list[int] = []  # of the chunks, as far as they are known
        self._chunks: list[NDArray[Scalar]] = []
        self._base = 0  # chunks forgotten
        self._length = 0
        self._shared: set[int] = set()  # places among the chunks

    def __len__(self) -> int:
        """Return the number of rows, forgotten ones included."""
        return self._length

    @property
    def first(self) -> int:
        """The first row that is kept, the first one of a chunk."""
        return self._base << self.bits

    @property
    def addresses(self) -> NDArray[np.int64]:
        """Of each chunk its first byte, for kernels; until the next change."""
        self._addresses += [chunk.ctypes.data for chunk in self._chunks[len(self._addresses) :]]
        return np.array(self._addresses, np.int64)

    def __getitem__(self, row: int) -> int:
        if not self.first <= row < self._length:
            raise IndexError(f"row must lie in [{self.first}, {self._length}), got {row}")
        return int(self._chunks[(row >> self.bits) - self._base][row & (self.size - 1)])

    def _new(self) -> NDArray[Any]:
        return np.frombuffer(self._memory(self.size * self.dtype.itemsize), self.dtype)

    def append(self, values: NDArray[Scalar]) -> None:
        """Add values behind the last one."""
        at = 0
        while at < len(values):
            used = self._length & (self.size - 1)
            if used == 0:
                self._chunks.append(self._new())
            part = values[at : at + self.size - used]
            # Behind what a snapshot has been given.
            self._chunks[-1][used : used + len(part)] = part
            at += len(part)
            self._length += len(part)

    def _check(self, rows: NDArray[np.int64]) -> None:
        low, high = (
            (int(rows.min()), int(rows.max())) if len(rows) else (self.first, self.first - 1)
        )
        if low < self.first or high >= self._length:
            raise IndexError(
                f"rows must lie in [{self.first}, {self._length}), got {low} to {high}"
            )

    def take(self, rows: NDArray[np.int64]) -> NDArray[Scalar]:
        """Return the values at `rows`, each in [first, len)."""
        self._check(rows)
        if len(rows) < 64:
            chunks = self._chunks
            found = np.empty(len(rows), self.dtype)
            for at, row in enumerate(rows.tolist()):
                found[at] = chunks[(row >> self.bits) - self._base][row & (self.size - 1)]
            return found
        taken = np.empty(len(rows), self.dtype)
        places = (rows >> self.bits) - self._base
        for place in np.unique(places).tolist():
            mine = places == place
            taken[mine] = self._chunks[place][rows[mine] & (self.size - 1)]
        return taken

    def will_need(self, rows: NDArray[np.int64]) -> None:
        """
        Ask the system for what it has of `rows` on a disk, all at once. Cost: a call a row, some
        0.5 µs.
        """
        from worker.core.kernels.texts import ask_for_rows  # noqa: PLC0415  # numba: settings must load without it

        self._check(rows)
        ask_for_rows(self.addresses, self.bits, self.first, self.dtype.itemsize, rows)

    def put(self, rows: NDArray[np.int64], value: int) -> None:
        """
        Set the value of `rows`, each in [first, len). Cost: O(rows), and a copy of each chunk that
        is shared.
        """
        self._check(rows)
        places = (rows >> self.bits) - self._base
        for place in np.unique(places).tolist():
            if place in self._shared:
                copy = self._new()
                copy[:] = self._chunks[place]
                self._chunks[place] = copy
                del self._addresses[place:]
                self._shared.discard(place)
            self._chunks[place][rows[places == place] & (self.size - 1)] = value

    def slice(self, first: int, stop: int) -> NDArray[Scalar]:
        """Return the values of [first, stop), a view where one chunk holds them. Cost: O(asked)."""
        if not self.first <= first <= stop <= self._length:
            raise IndexError(
                f"[first, stop) must lie in [{self.first}, {self._length}), got [{first}, {stop})"
            )
        if first == stop:
            return np.empty(0, self.dtype)
        low = (first >> self.bits) - self._base
        high = ((stop - 1) >> self.bits) - self._base
        begin = first & (self.size - 1)
        end = ((stop - 1) & (self.size - 1)) + 1
        if low == high:
            return self._chunks[low][begin:end]
        return np.concatenate(
            [self._chunks[low][begin:], *self._chunks[low + 1 : high], self._chunks[high][:end]]
        )

    def cut(self, begins: NDArray[np.int64], ends: NDArray[np.int64]) -> list[bytes]:
        """
        Return the bytes of the slices [begin, end). Cost: 0.2 µs each, more for one across two
        chunks.
        """
        views = [chunk.data.cast("B") for chunk in self._chunks]
        bits = self.bits
        mask = self.size - 1
        scale = self.dtype.itemsize
        return [
            views[(begin >> bits) - self._base][
                (begin & mask) * scale : ((end - 1 & mask) + 1) * scale
            ].tobytes()
            if begin < end and begin >> bits == (end - 1) >> bits
            else self.slice(begin, end).tobytes()
            for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
        ]

    def forget(self, row: int) -> None:
        """Free the chunks that lie wholly below `row`, never the last one. Cost: O(chunks)."""
        count = min(row, self._length - 1) // self.size - self._base
        if count > 0:
            del self._chunks[:count]
            del self._addresses[:count]
            self._base += count
            self._shared = {place - count for place in self._shared if place >= count}

    def pieces(self) -> list[NDArray[Scalar]]:
        """
        Return the values from `first` on, as views that stay as they are. Cost: O(chunks), nothing
        is copied.
        """
        self._shared = set(range(len(self._chunks)))
        used = self._length & (self.size - 1)
        return [*self._chunks[:-1], self._chunks[-1][:used]] if used else list(self._chunks)

    def like(self, values: NDArray[Scalar], first: int = 0) -> Column[Scalar]:
        """
        Return another column of this kind, which refers to these values from row `first` on. Cost:
        O(chunks).
        """
        column: Column[Scalar] = Column(self.dtype, self.bits, self._memory)
        size = column.size
        if first & (size - 1):
            raise ValueError(
                f"first must be a multiple of {size}, got {first}: whole chunks are forgotten"
            )
        whole = len(values) & ~(size - 1)
        column._chunks = [values[at : at + size] for at in range(0, whole, size)]
        column._shared = set(range(len(column._chunks)))
        column._base = first >> column.bits
        column._length = first + whole
        column.append(values[whole:])
        return column


class TextPairs:
    """The doc_id and the URL of each row: two columns of texts that lie in one."""

    __slots__ = ("begins", "data")

    def __init__(self, memory: Memory) -> None:
        self.begins: Column[np.int64] = Column(np.int64, ROWS_BITS + 1, memory)
        self.data: Column[np.uint8] = Column(np.uint8, BYTES_BITS, memory)

    def append(self, doc_ids: Texts, urls: Texts) -> None:
        if len(doc_ids):
            both = Texts.joined([doc_ids, urls])
            texts = both.take(np.arange(len(both)).reshape(2, -1).T.ravel())
            self.begins.append(len(self.data) + np.concatenate([[0], texts.ends[:-1]]))
            self.data.append(texts.data[: texts.ends[-1]])

    def text(self, number: int) -> bytes:
        """Return a text by its number: twice its row, for a URL one more."""
        stop = self.begins[number + 1] if number + 1 < len(self.begins) else len(self.data)
        return self.data.slice(self.begins[number], stop).tobytes()

    def between(self, first: int, stop: int) -> tuple[Texts, Texts]:
        """Return the doc_ids and the URLs of rows [first, stop)."""
        if first == stop:
            return Texts.of([]), Texts.of([])
        begins = self.begins.slice(2 * first, 2 * stop)
        end = self.begins[2 * stop] if 2 * stop < len(self.begins) else len(self.data)
        both = Texts(self.data.slice(int(begins[0]), end), np.append(begins[1:], end) - begins[0])
        evens = np.arange(0, len(both), 2)
        return both.take(evens), both.take(evens + 1)

    def take(self, rows: NDArray[np.int64]) -> tuple[Texts, Texts]:
        """Return the doc_ids and the URLs of these rows. Cost: some 0.5 µs per row."""
        return self._take(2 * rows), self._take(2 * rows + 1)

    def _take(self, numbers: NDArray[np.int64]) -> Texts:
        begins = self.begins.take(numbers)
        ends = np.full(len(numbers), len(self.data))
        is_followed = numbers + 1 < len(self.begins)
        ends[is_followed] = self.begins.take(numbers[is_followed] + 1)
        return Texts.of(self.data.cut(begins, ends))

    def will_need(self, rows: NDArray[np.int64]) -> None:
        """Ask the system for these rows: first for where their texts are, then for the texts."""
        self.begins.will_need(2 * rows)
        begins = self.begins.take(2 * rows)
        self.data.will_need(begins[begins < len(self.data)])  # the last may be empty

    def forget(self, row: int) -> None:
        self.begins.forget(2 * row)
        if len(self.begins):
            self.data.forget(self.begins[self.begins.first])


class OriginalStore:
    """
    Originals by row; `search` is what the index by fingerprint finds.

    Args:
        has_times: keep for each row the log's time at which it was seen; retention needs it.
        memory: where the columns lie that finding does not need: all but `live`.
    """

    def __init__(
        self, search: SearchRules, *, has_times: bool = False, memory: Memory = anonymous
    ) -> None:
        self.search = search
        self.memory = memory
        self.texts = TextPairs(memory)
        self.times: Column[np.int64] = Column(np.int64, memory=memory)  # when they were fetched
        self.fingerprints: Column[np.uint64] = Column(np.uint64, memory=memory)
        self.doubts: Column[np.uint64] = Column(np.uint64, memory=memory)
        self.digests: Column[np.uint64] = Column(np.uint64, memory=memory)
        self.sketches: Column[np.uint64] = Column(SKETCH, memory=memory)
        self.kinds: Column[np.uint8] = Column(np.uint8, memory=memory)
        self.live: Column[np.uint8] = Column(np.uint8)  # 1: in the index
        # 1: no later original had its URL.
        self.latest: Column[np.uint8] = Column(np.uint8, memory=memory)
        # ascending
        self.seen: Column[np.int64] | None = Column(np.int64, memory=memory) if has_times else None
        self.name_hashes: Column[np.uint64] = Column(np.uint64, memory=memory)
        self.url_hashes: Column[np.uint64] = Column(np.uint64, memory=memory)
        self._key = secrets.randbits(128)
        self._threads = 1
        self.build()

    def __len__(self) -> int:
        """Return the number of rows, those that are gone included."""
        return len(self.times)

    @property
    def threads(self) -> int:
        """How many threads may search at a time; 1 at first."""
        return self._threads

    @threads.setter
    def threads(self, count: int) -> None:
        self._threads = self.index.threads = count

    @property
    def first(self) -> int:
        """The first row that is kept."""
        return self.times.first

    def get(self, row: int) -> Original:
        """
        Return what a verdict says of this row. Raises IndexError where there is none, or none any
        more.
        """
        if not self.first <= row < len(self):
            raise IndexError(
                f"row {row} of {len(self)} originals, of which the first {self.first} are forgotten"
            )
        doc_id, url = (
            self.texts.text(2 * row + at).decode("utf-8", "surrogatepass") for at in (0, 1)
        )
        return Original(doc_id, url, self.times[row])

    def add(
        self,
        times: NDArray[np.int64],
        texts: tuple[Texts, Texts],
        hashes: NDArray[np.uint64],
        content: Mapping[str, NDArray[Any]],
        clock_ms: int,
        latest: NDArray[np.uint8],
    ) -> None:
        """
        Append rows, of which the index by fingerprint knows already: doc_ids and URLs, the doc_ids'
        hashes, CONTENT.

        Args:
            latest: whether each is its URL's latest original, of which the tables no longer know
                another; see `newest`.
        """
        hashes_of_urls = self.hashes(texts[1])
        first = len(self)
        self.times.append(times)
        self.texts.append(*texts)
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

    def newest(self, formers: NDArray[np.int64]) -> NDArray[np.uint8]:
        """
        Mark which of the rows to be added are their URL's latest: `formers` has the row before
        each, or -1.
        """
        latest = np.ones(len(formers), np.uint8)
        latest[formers[formers >= len(self)] - len(self)] = 0
        gone = formers[(formers >= 0) & (formers < len(self))]
        if len(gone):
            self.latest.put(gone, 0)
            self.urls.delete_many(self.url_hashes.take(gone), gone.astype(np.uint32))
        return latest

    def latest_of(self, urls: Texts, hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
        """
        Return the row of each URL's latest original, -1 where that is not in the index; see
        `_rows`.
        """
        return self._rows(self.urls, 1, urls, hashes)

    def find_many(self, hashes: NDArray[np.uint64], doc_ids: Texts) -> NDArray[np.int64]:
        """Return the row of the original with each doc_id, -1 where there is none; see `_rows`."""
        return self._rows(self.names, 0, doc_ids, hashes)

    def _rows(
        self, table: HashTable, place: int, texts: Texts, hashes: NDArray[np.uint64]
    ) -> NDArray[np.int64]:
        """
        Return the row of each text (`place` 0: doc_ids, 1: URLs), -1 for none. Cost: 50 ns, 2 µs of
        a known one.
        """
        found = table.find(hashes)
        known = np.flatnonzero(found >= 0)
        rows = found[known].tolist()
        asked = texts.take(known).tolist()
        held = {row: self.texts.text(2 * row + place) for row in set(rows)}
        for at, row, text in zip(known.tolist(), rows, asked, strict=True):
            if held[row] != text:
                others = table.find_all(int(hashes[at]))
                found[at] = next(
                    (other for other in others if self.texts.text(2 * other + place) == text), -1
                )
        return found

    def will_need(
        self, record: Record, rows: NDArray[np.int64], hashes: NDArray[np.uint64]
    ) -> None:
        """
        Ask the system for what judging these rows of a record will read; `hashes`: of the record's
        doc_ids.
        """
        known = np.concatenate(
            [self.names.find(hashes[rows]), self.urls.find(self.hashes(record.urls)[rows])]
        )
        self.will_need_texts(known[known >= 0])
        full = rows[record.kinds[rows] == RowKind.FULL]
        self.index.will_need(record.fingerprints[full], record.doubts[full])

    def will_need_texts(self, rows: NDArray[np.int64]) -> None:
        """Ask the system for what `get` reads of these rows."""
        self.times.will_need(rows)
        self.texts.will_need(rows)

    def find_short(self, digests: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the row of the SHORT original with each digest, -1 where there is none."""
        found = self.short.find(digests)
        known = np.flatnonzero(found >= 0)
        for at in known[
            self.digests.take(found[known]) != digests[known]
        ].tolist():  # equal tags only
            others = self.short.find_all(int(digests[at]))
            found[at] = next((row for row in others if self.digests[row] == int(digests[at])), -1)
        return found

    def is_content(
        self, formers: NDArray[np.int64], record: Record, rows: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Return which of these originals have the content of the record's rows beside them."""
        is_same: NDArray[np.bool_] = self.kinds.take(formers) == record.kinds[rows]
        is_same &= self.fingerprints.take(formers) == record.fingerprints[rows]
        is_same &= self.digests.take(formers) == record.digests[rows]
        return is_same

    def remove(self, rows: NDArray[np.int64]) -> None:
        """
        Take live rows, ascending, out of the tables, 2 µs each, or build them anew; what verdicts
        say stays.
        """
        self.live.put(rows, 0)
        self.documents -= len(rows)
        if len(rows) > _REBUILT_MIN and len(rows) > self.documents:
            self.build()
            return
        is_full = self.kinds.take(rows) == RowKind.FULL
        full = rows[is_full]
        short = rows[~is_full]
        self.index.delete_many(self.fingerprints.take(full), full.astype(np.uint32))
        self.short.delete_many(self.digests.take(short), short.astype(np.uint32))
        self.names.delete_many(self.name_hashes.take(rows), rows.astype(np.uint32))
        mine = rows[self.latest.take(rows) == 1]
        self.urls.delete_many(self.url_hashes.take(mine), mine.astype(np.uint32))

    def renew(self, rows: NDArray[np.int64], clock_ms: int) -> None:
        """
        Move live rows, ascending, to the end: each gets a new row there, seen at `clock_ms`, and
        leaves its own.
        """
        first = len(self)
        hashes = self.name_hashes.take(rows)
        latest = self.latest.take(rows)
        content = {name: getattr(self, name).take(rows) for name in CONTENT}
        self.remove(rows)
        self.add(self.times.take(rows), self.texts.take(rows), hashes, content, clock_ms, latest)
        full = content["kinds"] == RowKind.FULL
        rows = first + np.flatnonzero(full)
        self.index.insert(
            content["fingerprints"][full], content["doubts"][full], rows.astype(np.uint32)
        )

    def hashes(self, texts: Texts) -> NDArray[np.uint64]:
        """
        Return the hashes by which doc_ids and URLs are known, under a key of its own, which decides
        nothing.
        """
        return texts.hashes(self._key)

    def _table(self, column: str, rows: NDArray[np.int64]) -> HashTable:
        """Return the table of these rows by one of the columns."""
        table = HashTable(lambda asked: getattr(self, column).take(asked), len(rows))
        first = self.first
        table.insert(
            getattr(self, column).slice(first, len(self))[rows - first], rows.astype(np.uint32)
        )
        return table

    def build(self) -> None:
        """Make the tables from the columns. Cost: some 0.8 µs a live row."""
        first = self.first
        length = len(self)
        live = first + np.flatnonzero(self.live.slice(first, length))
        self.documents = len(live)
        self.oldest = int(live[0]) if len(live) else length  # no row before it is live
        is_full = self.kinds.slice(first, length)[live - first] == RowKind.FULL
        full = live[is_full]
        short = live[~is_full]
        held = self.columns()
        content = {
            name: held[name].slice(first, length)[full - first]
            for name in ("fingerprints", "doubts")
        }
        content["rows"] = full.astype(np.uint32)
        self.index = SearchIndex.from_arrays(content, self.search, sketches=self.sketches)
        self.index.threads = self._threads
        self.short = self._table("digests", short)  # rows of SHORT originals
        self.names = self._table("name_hashes", live)  # rows of the originals that are in the index
        latest = live[self.latest.slice(first, length)[live - first] == 1]
        # Row of each URL's latest original, while that is in the index.
        self.urls = self._table("url_hashes", latest)

    def live_between(self, first: int, stop: int) -> NDArray[np.int64]:
        """Return the live rows of [first, stop)."""
        return first + np.flatnonzero(self.live.slice(first, stop))

    def forget(self, row: int) -> None:
        """Free the memory of rows below `row`, in whole chunks."""
        self.texts.forget(row)
        for column in self.columns().values():
            column.forget(row)

    def compact(self, named: NDArray[np.int64]) -> NDArray[np.int64]:
        """
        Leave out what is neither live nor `named`; return each row's new number. Cost: 0.3 µs a
        row, and `build`.
        """
        first = self.first
        length = len(self)
        stays = self.live.slice(first, length) == 1
        stays[named - first] = True
        texts = TextPairs(self.memory)
        old = self.columns()
        new: dict[str, Column[Any]] = {
            name: column.like(np.empty(0, column.dtype)) for name, column in old.items()
        }
        for at in range(first, length, self.live.size):
            stop = min(at + self.live.size, length)
            mine = np.flatnonzero(stays[at - first : stop - first])
            doc_ids, urls = self.texts.between(at, stop)
            texts.append(doc_ids.take(mine), urls.take(mine))
            for name, column in old.items():
                new[name].append(column.slice(at, stop)[mine])
        vars(self).update(new, texts=texts)
        self.build()
        return np.cumsum(stays) - 1

    def load(self, arrays: Mapping[str, NDArray[Any]], firsts: Sequence[int]) -> None:
        """
        Refer to a snapshot's rows (`pieces`) from its first row and byte on; `build` or `compact`
        must follow.
        """
        self.texts.begins = self.texts.begins.like(arrays["text_begins"], 2 * firsts[0])
        self.texts.data = self.texts.data.like(arrays["text_bytes"], firsts[1])
        for name, column in self.columns().items():
            setattr(self, name, column.like(arrays.get(name, np.empty(0, column.dtype)), firsts[0]))
        for at in range(firsts[0], len(self), _HASHED_AT_ONCE):
            doc_ids, urls = self.texts.between(at, min(at + _HASHED_AT_ONCE, len(self)))
            self.name_hashes.append(self.hashes(doc_ids))
            self.url_hashes.append(self.hashes(urls))
        self.documents = int(arrays["live"].sum())

    def pieces(self) -> dict[str, Sequence[NDArray[np.generic]]]:
        """
        Return what is kept as named columns, each in pieces that later rows do not change. Copies
        nothing.
        """
        texts: dict[str, Column[Any]] = {
            "text_begins": self.texts.begins,
            "text_bytes": self.texts.data,
        }
        return {name: column.pieces() for name, column in (self.columns() | texts).items()}

    def columns(self) -> dict[str, Column[Any]]:
        """Return the numbers kept by row, by name, beside the texts."""
        return {
            name: column
            for name in (*BY_ROW, *_HASHES)
            if (column := getattr(self, name)) is not None
        }

    def check(self) -> None:
        """Assert that the three tables agree on the number of originals."""
        self.index.check()
        assert len(self.names) == self.documents == len(self.index) + len(self.short)
        for column in self.columns().values():
            assert (len(column), column.first) == (len(self), self.first)
        live, latest = (column.slice(self.first, len(self)) for column in (self.live, self.latest))
        assert (int(live.sum()), int((live & latest).sum())) == (self.documents, len(self.urls))
        assert not len(self.live_between(self.first, max(self.oldest, self.first)))
        if self.seen is not None:
            times = self.seen.slice(self.first, len(self))
            assert (times[1:] >= times[:-1]).all()


def repeated(hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the places of the hashes that come more than once, ascending."""
    ordered = np.sort(hashes)
    if not (ordered[1:] == ordered[:-1]).any():  # nearly always
        return np.empty(0, np.int64)
    _, inverse, counts = np.unique(hashes, return_inverse=True, return_counts=True)
    return np.flatnonzero(counts[inverse] > 1)
