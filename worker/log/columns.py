"""
Columns with the data of each original by row, in chunks that can grow, be freed and be shared.

    rows     0 … 65,535 | 65,536 …  | 131,072 … | 196,608 … length
    chunks   forgotten  | forgotten | shared    | own

A chunk that is shared belongs to a snapshot as well: a change copies it first.

A column grows at its end and is forgotten from its beginning, in chunks of a fixed size. So growing
copies nothing, forgetting gives memory back, a snapshot is a list of chunks, and nothing ever
pauses. Facts that are read together are the fields of one column (`Field`). Texts are columns, too:

    places   0 3 4 | 7 2 5 | …    of each row: where its doc_id starts, its length, and the URL's
    bytes    abcdefghijklmn…      all back to back: both texts of an original are on one page

Rejected, and why
- A Python object per original: a tuple of two strings and a number takes 200 bytes, texts aside.
- One array per column that doubles: all replicas would pause at the same record, to copy all rows.
- Chunks from the C library's heap: it keeps much of what is freed to it, so originals that expired
  gave nothing back. Each chunk is a memory map of its own.
- A snapshot that copies: the table of doc_ids alone took 0.42 s at 1 M rows. A list of chunks takes
  some 50 ns per chunk, and a later change copies the one chunk that it touches.
- All columns in memory: 233 bytes per original at 5 M. With the columns in mapped files (`Memory`)
  and only the tables in memory it is 74 bytes at 10 M, 53 of them the index. A page that is not in
  memory then costs 55 µs, and 12 when it is asked for with others: a batch asks for all that it
  will read (`will_need`).
- A column for each fact of an original: of 1,000 rows, half of them copies, the judge and the
  verdicts read 2,119 pages, and 1,177 where the facts are fields of one column.
"""

from __future__ import annotations

import itertools
import mmap
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from worker.log.texts import Texts

Scalar = TypeVar("Scalar", bound=np.generic)

ROWS_BITS = 16  # of a chunk of a column by row
BYTES_BITS = 20  # of a chunk of texts
# Up to so many rows a loop is faster than what calls a kernel, or numpy for each chunk.
_LOOPED_MAX = 15
_PUT_LOOPED_MAX = 511
# So many rows are worth a look at whether they are on a disk. More are most of a column, which
# would have to fit into memory at once.
_SAMPLED = range(256, 1 << 16)
_SAMPLE = 32
_ADDRESSES = 16  # of chunks there is room for at first
_FLAGS = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_ANONYMOUS") else {}


class Memory:
    """Where chunks lie: in memory of this process alone, unless a subclass has another place."""

    def __call__(self, size: int, /) -> Any:
        """Return so many bytes, all zero, that are free when the last array on them is gone."""
        return mmap.mmap(-1, size, **_FLAGS)

    def pages_read(self) -> int:
        """Return how many pages this thread has read from disks so far, as far as that is known."""
        return 0  # nothing here is on a disk


anonymous = Memory()


class ChunkedColumn(Generic[Scalar]):
    """
    An array by row that grows at its end and is forgotten from its beginning, in chunks.

    Invariants: all chunks but the last are full; `first` is the first row of a chunk; what was
    given to a snapshot (`pieces`) never changes.

    Args:
        dtype: of a row; np.dtype((np.uint64, 8)) has eight numbers per row.
        bits: a chunk has 2 ** bits rows; ROWS_BITS if left out.
        memory: where the chunks lie.

    Cost: `append` O(new), `take` O(asked). Memory is the rows, rounded up to a chunk; pages that
    were never written are free.

    >>> column = ChunkedColumn(np.uint64)
    >>> column.append(np.array([5, 6], np.uint64))
    >>> column.take(np.array([1])).tolist(), len(column)
    ([6], 2)
    """

    __slots__ = (
        "_addressed", "_addresses", "_base", "_chunks", "_length", "_shared", "bits", "dtype",
        "memory", "size",
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
        self.memory = memory
        # Of the first `_addressed` chunks, in an array that is longer. Asking numpy for an address
        # is slow, so each is asked for once; and a search asks for all of them.
        self._addresses = np.empty(_ADDRESSES, np.int64)
        self._addressed = 0
        self._chunks: list[NDArray[Scalar]] = []
        self._base = 0  # chunks forgotten
        self._length = 0
        # Places of the chunks that a snapshot refers to, or that refer to one: read only.
        self._shared: set[int] = set()

    def __len__(self) -> int:
        """Return the number of rows, forgotten ones included."""
        return self._length

    @property
    def first(self) -> int:
        """The first row that is kept, the first one of a chunk."""
        return self._base << self.bits

    @property
    def step(self) -> int:
        """Bytes from one row to the next."""
        return self.dtype.itemsize

    @property
    def addresses(self) -> NDArray[np.int64]:
        """The address of each chunk's first byte, for kernels. It holds until the next change."""
        count = len(self._chunks)
        if count > len(self._addresses):
            longer = np.empty(2 * count, np.int64)
            longer[: self._addressed] = self._addresses[: self._addressed]
            self._addresses = longer
        for place in range(self._addressed, count):
            self._addresses[place] = self._chunks[place].ctypes.data
        self._addressed = count
        return self._addresses[:count]

    def __getitem__(self, row: int) -> int:
        """Return the value at `row`. Raises IndexError: it is forgotten, or not there yet."""
        if not self.first <= row < self._length:
            raise IndexError(f"row must lie in [{self.first}, {self._length}), got {row}")
        return int(self._chunks[(row >> self.bits) - self._base][row & (self.size - 1)])

    def _new(self) -> NDArray[Any]:
        return np.frombuffer(self.memory(self.size * self.dtype.itemsize), self.dtype)

    def append(self, values: NDArray[Scalar]) -> None:
        """Add values behind the last one. Cost: O(values), and a new chunk now and then."""
        at = 0
        while at < len(values):
            used = self._length & (self.size - 1)
            if used == 0:
                self._chunks.append(self._new())
            part = values[at : at + self.size - used]
            # A shared chunk, too, is written in place: a snapshot has only the rows before these.
            self._chunks[-1][used : used + len(part)] = part
            at += len(part)
            self._length += len(part)

    def check_rows(self, rows: NDArray[np.int64]) -> None:
        """Raise IndexError if one of these rows is forgotten, or not there yet."""
        if not len(rows):
            return
        low = int(rows.min())
        high = int(rows.max())
        if low < self.first or high >= self._length:
            raise IndexError(
                f"rows must lie in [{self.first}, {self._length}), got {low} to {high}"
            )

    def take(self, rows: NDArray[np.int64]) -> NDArray[Scalar]:
        """
        Return the values at `rows`: any of [first, len), in any order, also repeated.

        Raises IndexError: a row is forgotten, or not there yet.

        Cost: O(rows), and a cache miss each. Of many rows that are on a disk most are prefetched.
        """
        self.check_rows(rows)
        values = np.empty(len(rows), self.dtype)
        if len(rows) <= _LOOPED_MAX:
            for at, row in enumerate(rows.tolist()):
                chunk = self._chunks[(row >> self.bits) - self._base]
                values[at] = chunk[row & (self.size - 1)]
            return values
        _take_into(values, self, rows)
        return values

    def will_need(self, rows: NDArray[np.int64]) -> None:
        """
        Prefetch these rows (madvise), where they are on a disk.

        Returns before anything is read; `take` then waits for all of them together instead of one
        after the other. Cost: a system call, some 0.5 µs, for each row, or for several that
        lie close together.
        """
        self.check_rows(rows)
        begins = np.sort(rows)
        self._ask(begins, begins + 1)

    def _ask(self, begins: NDArray[np.int64], ends: NDArray[np.int64]) -> None:
        """Prefetch slices, in the order of their begins."""
        # Here, since settings must load without numba.
        from worker.core.kernels.texts import ask_for_slices  # noqa: PLC0415

        ask_for_slices(self.addresses, self.bits, self.first, self.step, begins, ends)

    def put(self, rows: NDArray[np.int64], values: int | NDArray[Scalar]) -> None:
        """
        Set the values of these rows, one for all or one for each. Raises IndexError, as `take`.

        Cost: O(rows), and a copy of each chunk that is shared with a snapshot.
        """
        if not len(rows):
            return
        self.check_rows(rows)
        places = (rows >> self.bits) - self._base
        for place in self._shared.intersection(places.tolist()):
            copy = self._new()
            copy[:] = self._chunks[place]
            self._chunks[place] = copy
            # This one's has changed, and those that are known stay a beginning.
            self._addressed = min(self._addressed, place)
            self._shared.discard(place)
        each = np.broadcast_to(np.asarray(values, self.dtype.base), (len(rows), *self.dtype.shape))
        if len(rows) <= _PUT_LOOPED_MAX:
            for place, row, value in zip(
                places.tolist(), rows.tolist(), each.tolist(), strict=True
            ):
                self._chunks[place][row & (self.size - 1)] = value
            return
        order = np.argsort(places, kind="stable")  # of rows that come twice, the last one counts
        places = places[order]
        begins = np.flatnonzero(np.diff(places, prepend=-1))
        for begin, end in itertools.pairwise([*begins.tolist(), len(order)]):
            here = order[begin:end]
            self._chunks[int(places[begin])][rows[here] & (self.size - 1)] = each[here]

    def slice(self, first: int, stop: int) -> NDArray[Scalar]:
        """
        Return the values of [first, stop): a view where one chunk holds them, else a copy.

        Raises IndexError: the range is not within [first, len].
        """
        parts = self.parts(first, stop)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def parts(self, first: int, stop: int) -> list[NDArray[Scalar]]:
        """Return the values of [first, stop) as views, at least one. IndexError, as `slice`."""
        if not self.first <= first <= stop <= self._length:
            raise IndexError(
                f"[first, stop) must lie in [{self.first}, {self._length}), got [{first}, {stop})"
            )
        if first == stop:
            return [np.empty(0, self.dtype)]
        low = (first >> self.bits) - self._base
        high = ((stop - 1) >> self.bits) - self._base
        begin = first & (self.size - 1)
        end = ((stop - 1) & (self.size - 1)) + 1
        if low == high:
            return [self._chunks[low][begin:end]]
        return [self._chunks[low][begin:], *self._chunks[low + 1 : high], self._chunks[high][:end]]

    def will_need_slices(self, begins: NDArray[np.int64], ends: NDArray[np.int64]) -> None:
        """
        Prefetch slices [begin, end). Empty ones are left out, wherever they are.

        Raises IndexError: another one is forgotten, or not there yet.
        """
        kept = np.flatnonzero(begins < ends)
        kept = kept[np.argsort(begins[kept])]
        self._check_slices(begins[kept], ends[kept])
        self._ask(begins[kept], ends[kept])

    def _check_slices(self, begins: NDArray[np.int64], ends: NDArray[np.int64]) -> None:
        """Raise IndexError if a slice is forgotten, or not there yet: kernels check nothing."""
        if len(begins) and not (
            int(begins.min()) >= self.first
            and int(ends.max()) <= self._length
            and bool((begins <= ends).all())
        ):
            raise IndexError(
                f"slices must lie in [{self.first}, {self._length}) and end behind their begin"
            )

    def cut(self, begins: NDArray[np.int64], ends: NDArray[np.int64]) -> Texts:
        """
        Return the slices [begin, end) of a column of bytes, each in [first, len], back to back.

        Cost: 30 ns each, and a cache miss.
        """
        # Here, since settings must load without numba.
        from worker.core.kernels.texts import take_slices  # noqa: PLC0415

        self._check_slices(begins, ends)
        edges = np.cumsum(ends - begins)
        taken = np.empty(int(edges[-1]) if len(edges) else 0, np.uint8)
        take_slices(self.addresses, self.bits, self.first, begins, ends, taken)
        return Texts(taken, edges)

    def forget(self, row: int) -> None:
        """
        Free the chunks that lie wholly below `row`, never the last one. Cost: O(chunks).

        The last one stays: `append` goes on in it. A chunk that a snapshot refers to lives on.
        """
        count = min(row, self._length - 1) // self.size - self._base
        if count > 0:
            del self._chunks[:count]
            self._addresses = self._addresses[count:].copy()
            self._addressed = max(self._addressed - count, 0)
            self._base += count
            self._shared = {place - count for place in self._shared if place >= count}

    def pieces(self) -> list[NDArray[Scalar]]:
        """
        Return the values from `first` on, as views that never change. Cost: O(chunks), no copy.

        From here on all chunks are shared: `put` copies one before it changes it.
        """
        self._shared = set(range(len(self._chunks)))
        used = self._length & (self.size - 1)
        if not used:  # no chunk yet, or the last one is full
            return list(self._chunks)
        return [*self._chunks[:-1], self._chunks[-1][:used]]

    def like(self, values: NDArray[Scalar], first: int = 0) -> ChunkedColumn[Scalar]:
        """
        Return another column of this kind with these values from row `first` on.

        It refers to the values, chunk by chunk, and copies only the last chunk's, to grow behind
        them. So a replica that restores a snapshot reads it where it is mapped.

        Raises ValueError: `first` is not the first row of a chunk. Cost: O(chunks).
        """
        column: ChunkedColumn[Scalar] = ChunkedColumn(self.dtype, self.bits, self.memory)
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


def _take_into(
    values: NDArray[Any], column: ChunkedColumn[Any] | Field[Any], rows: NDArray[np.int64]
) -> None:
    """
    Copy the values at these rows, which must be there: the kernel checks nothing.

    Of many rows a few are read first, from all over. If one of them is on a disk, the others are
    prefetched, which pays from one page in a hundred on. A hash table's segment that is split needs
    some 2,000 rows: one page after the other, they took most of the time of a cold disk.
    """
    if len(rows) in _SAMPLED:
        sample = np.ascontiguousarray(rows[:: len(rows) // _SAMPLE])
        before = column.memory.pages_read()
        _copy_into(np.empty(len(sample), column.dtype), column, sample)
        if column.memory.pages_read() > before:
            column.will_need(rows)
    _copy_into(values, column, rows)


def _copy_into(
    values: NDArray[Any], column: ChunkedColumn[Any] | Field[Any], rows: NDArray[np.int64]
) -> None:
    # Here, since settings must load without numba.
    from worker.core.kernels.texts import take_rows  # noqa: PLC0415

    size = column.dtype.itemsize
    taken = values.view(np.uint8).reshape(-1)
    take_rows(column.addresses, column.bits, column.first, column.step, size, rows, taken)


class Field(Generic[Scalar]):
    """
    One field of a column whose rows have several: it is read as a column of its own would be.

    All fields of a row lie together, so reading them takes one page of a disk, or two.

    >>> column = ChunkedColumn(np.dtype([("number", np.int64), ("half", np.float64)]))
    >>> column.append(np.array([(5, 2.5), (6, 3.0)], column.dtype))
    >>> Field(column, "half").take(np.array([1])).tolist()
    [3.0]
    """

    __slots__ = ("_name", "_offset", "dtype", "rows")

    def __init__(self, rows: ChunkedColumn[Any], name: str) -> None:
        assert rows.dtype.fields is not None, "a column whose rows have fields"
        self.rows = rows
        self._name = name
        self.dtype: np.dtype[Any]
        self.dtype, self._offset = rows.dtype.fields[name][:2]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: int) -> int:
        """Return the value at `row`, as `ChunkedColumn` does."""
        return int(self.slice(row, row + 1)[0])

    @property
    def bits(self) -> int:
        """A chunk has 2 ** bits rows."""
        return self.rows.bits

    @property
    def first(self) -> int:
        """The first row that is kept."""
        return self.rows.first

    @property
    def memory(self) -> Memory:
        """Where the chunks lie."""
        return self.rows.memory

    @property
    def step(self) -> int:
        """Bytes from one row to the next."""
        return self.rows.step

    @property
    def addresses(self) -> NDArray[np.int64]:
        """The address of the field's first byte in each chunk. It holds until the next change."""
        addresses = self.rows.addresses
        return addresses + self._offset if self._offset else addresses

    def take(self, rows: NDArray[np.int64]) -> NDArray[Scalar]:
        """Return the values at `rows`, as `ChunkedColumn.take` does."""
        values = np.empty(len(rows), self.dtype)
        if len(rows):
            self.rows.check_rows(rows)
            _take_into(values, self, rows)
        return values

    def slice(self, first: int, stop: int) -> NDArray[Scalar]:
        """Return the values of [first, stop), as `ChunkedColumn.slice` does."""
        parts = [part[self._name] for part in self.rows.parts(first, stop)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def will_need(self, rows: NDArray[np.int64]) -> None:
        """Prefetch these rows, with all their fields."""
        self.rows.will_need(rows)

    def fill(self, first: int, values: NDArray[Any]) -> None:
        """Write the values of rows from `first` on. They are there, and in no snapshot yet."""
        begin = 0
        for part in self.rows.parts(first, first + len(values)):
            end = begin + len(part)
            part[self._name] = values[begin:end]
            begin = end


def bytes_column(memory: Memory) -> ChunkedColumn[np.uint8]:
    """Return an empty column for the bytes of texts."""
    return ChunkedColumn(np.uint8, BYTES_BITS, memory)


# Where the texts of a row are: back to back.
PLACE = np.dtype([("begin", "<i8"), ("doc_id_bytes", "<u4"), ("url_bytes", "<u4")])


class TextPairs:
    """
    The doc_id and the URL of each row: text number 2 * row, and the one after it.

    They stand side by side because a verdict says both: one page to read, not two.

    Args:
        places: where they stand, by row; the caller adds what `append` returns.
        data: their bytes.
    """

    __slots__ = ("data", "places")

    def __init__(
        self, places: Field[Any] | ChunkedColumn[Any], data: ChunkedColumn[np.uint8]
    ) -> None:
        self.places = places
        self.data = data

    def append(self, doc_ids: Texts, urls: Texts) -> NDArray[Any]:
        """Add the texts of rows, as many doc_ids as URLs; return their PLACEs."""
        places = np.empty(len(doc_ids), PLACE)
        if len(doc_ids):
            both = Texts.joined([doc_ids, urls])
            alternating = np.arange(len(both)).reshape(2, -1).T.ravel()  # 0 n 1 n+1 2 …
            texts = both.take(alternating)
            sizes = texts.sizes.reshape(-1, 2)
            places["begin"] = len(self.data) + texts.ends[1::2] - sizes.sum(axis=1)
            places["doc_id_bytes"], places["url_bytes"] = sizes.T
            self.data.append(texts.data[: texts.ends[-1]])
        return places

    def text(self, number: int) -> bytes:
        """Return a text by its number: 2 * row is a doc_id, 2 * row + 1 a URL."""
        return self.texts(np.array([number])).tolist()[0]

    def between(self, first: int, stop: int) -> tuple[Texts, Texts]:
        """Return the doc_ids and the URLs of rows [first, stop)."""
        if first == stop:
            return Texts.of([]), Texts.of([])
        places = self.places.slice(first, stop)
        sizes = np.stack([places["doc_id_bytes"], places["url_bytes"]], axis=1)
        ends = np.cumsum(sizes, dtype=np.int64)
        begin = int(places["begin"][0])
        both = Texts(self.data.slice(begin, begin + int(ends[-1])), ends)
        evens = np.arange(0, len(both), 2)
        return both.take(evens), both.take(evens + 1)

    def take(self, rows: NDArray[np.int64]) -> tuple[Texts, Texts]:
        """Return the doc_ids and the URLs of these rows. Cost: some 0.1 µs per row."""
        places = self.places.take(rows)
        begins = np.ascontiguousarray(places["begin"])
        middles = begins + places["doc_id_bytes"]
        doc_ids = self.data.cut(begins, middles)
        return doc_ids, self.data.cut(middles, middles + places["url_bytes"])

    def texts(self, numbers: NDArray[np.int64]) -> Texts:
        """Return texts by their numbers, as `text` does."""
        places = self.places.take(numbers >> 1)
        is_url = numbers & 1 == 1
        begins = places["begin"] + np.where(is_url, places["doc_id_bytes"], 0)
        sizes = np.where(is_url, places["url_bytes"], places["doc_id_bytes"])
        return self.data.cut(begins, begins + sizes)

    def will_need(self, rows: NDArray[np.int64]) -> None:
        """Prefetch the texts of these rows. This reads where they are."""
        places = self.places.take(rows)
        ends = places["begin"] + places["doc_id_bytes"] + places["url_bytes"]
        self.data.will_need_slices(places["begin"], ends)

    def forget(self) -> None:
        """Free the texts of the rows whose places are forgotten, in whole chunks."""
        first = self.places.first
        if first < len(self.places):
            self.data.forget(int(self.places.take(np.array([first]))["begin"][0]))
