"""
A column of numbers that grows at its end and is forgotten from its beginning, in chunks of fixed size.

    rows     0 … 65,535 | 65,536 …  | 131,072 … | 196,608 … length
    chunks   forgotten  | forgotten | shared    | own            shared with a snapshot: a change copies it first

So growing copies nothing, forgetting gives memory back, and a snapshot is a list of the chunks: nothing ever pauses.
Chunks are memory maps of their own, because the C library keeps much of what is freed to it; or whoever made the column
says where they lie, in a file for example.
"""

from __future__ import annotations

import mmap
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

Scalar = TypeVar("Scalar", bound=np.generic)

ROWS_BITS = 16  # of a chunk of a column by row
BYTES_BITS = 20  # of a chunk of texts
_FLAGS = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_ANONYMOUS") else {}


class Memory(Protocol):
    """Where chunks lie."""

    def __call__(self, size: int, /) -> Any:
        """Return so many bytes, all zero, that are free when the last array on them is gone."""

    def is_cold(self) -> bool:
        """Whether much had to be read from a disk since the last call: a hint."""


class _Anonymous:
    """Memory of this process alone."""

    def __call__(self, size: int, /) -> mmap.mmap:
        return mmap.mmap(-1, size, **_FLAGS)

    def is_cold(self) -> bool:
        return False


anonymous = _Anonymous()


class Column(Generic[Scalar]):
    """
    An array of one number type by row, or of a few numbers a row; rows below `first` are forgotten.

    Args:
        dtype: of a row; np.dtype((np.uint64, 8)) has eight numbers.
        bits: a chunk has 2 ** bits entries; ROWS_BITS if left out.
        memory: where its chunks lie.

    Cost: `append` O(new), `take` O(asked); memory is the entries, rounded up to a chunk, of which pages that were never
    written cost nothing.

    >>> column = Column(np.uint64)
    >>> column.append(np.array([5, 6], np.uint64))
    >>> column.take(np.array([1])).tolist(), len(column)
    ([6], 2)
    """

    __slots__ = (
        "_addresses", "_base", "_chunks", "_foreign", "_length", "_memory", "_shared", "_size", "bits", "dtype",
    )  # fmt: skip

    def __init__(
        self, dtype: type[Scalar] | np.dtype[Any], bits: int | None = None, memory: Memory = anonymous
    ) -> None:
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.bits = ROWS_BITS if bits is None else bits
        self._size = 1 << self.bits
        self._memory = memory
        self._addresses: list[int] = []  # of the chunks, as far as they are known
        self._chunks: list[NDArray[Scalar]] = []
        self._base = 0  # chunks forgotten
        self._length = 0
        self._shared: set[int] = set()  # places among the chunks
        self._foreign: set[int] = set()  # those in somebody else's memory; all of them are shared

    def __len__(self) -> int:
        """Return the number of rows, forgotten ones included."""
        return self._length

    @property
    def first(self) -> int:
        """The first row that is kept, the first one of a chunk."""
        return self._base << self.bits

    @property
    def size(self) -> int:
        """Entries of a chunk."""
        return self._size

    @property
    def nbytes(self) -> int:
        """Bytes of memory held; what lies in a file or refers to somebody else's bytes does not count."""
        return (self._memory is anonymous) * (len(self._chunks) - len(self._foreign)) * self._size * self.dtype.itemsize

    @property
    def addresses(self) -> NDArray[np.int64]:
        """Of each chunk its first byte, for kernels; until the next change."""
        self._addresses += [chunk.ctypes.data for chunk in self._chunks[len(self._addresses) :]]
        return np.array(self._addresses, np.int64)

    def __getitem__(self, row: int) -> int:
        if not self.first <= row < self._length:
            raise IndexError(f"row must lie in [{self.first}, {self._length}), got {row}")
        return int(self._chunks[(row >> self.bits) - self._base][row & (self._size - 1)])

    def _new(self) -> NDArray[Any]:
        return np.frombuffer(self._memory(self._size * self.dtype.itemsize), self.dtype)

    def append(self, values: NDArray[Scalar]) -> None:
        """Add values behind the last one."""
        at = 0
        while at < len(values):
            used = self._length & (self._size - 1)
            if used == 0:
                self._chunks.append(self._new())
            part = values[at : at + self._size - used]
            self._chunks[-1][used : used + len(part)] = part  # behind what a snapshot has been given
            at += len(part)
            self._length += len(part)

    def _check(self, rows: NDArray[np.int64]) -> None:
        if len(rows) and not (int(rows.min()) >= self.first and int(rows.max()) < self._length):
            raise IndexError(
                f"rows must lie in [{self.first}, {self._length}), got {int(rows.min())} to {int(rows.max())}"
            )

    def take(self, rows: NDArray[np.int64]) -> NDArray[Scalar]:
        """Return the values at `rows`, each in [first, len)."""
        self._check(rows)
        if len(rows) < 64:
            chunks = self._chunks
            found = np.empty(len(rows), self.dtype)
            for at, row in enumerate(rows.tolist()):
                found[at] = chunks[(row >> self.bits) - self._base][row & (self._size - 1)]
            return found
        taken = np.empty(len(rows), self.dtype)
        places = (rows >> self.bits) - self._base
        for place in np.unique(places).tolist():
            mine = places == place
            taken[mine] = self._chunks[place][rows[mine] & (self._size - 1)]
        return taken

    def will_need(self, rows: NDArray[np.int64]) -> None:
        """Ask the system for what it has of `rows` on a disk, all at once. Cost: a call a row, some 0.5 µs."""
        from worker.core.kernels.texts import ask_for_rows  # noqa: PLC0415  # numba: settings must load without it

        self._check(rows)
        ask_for_rows(self.addresses, self.bits, self.first, self.dtype.itemsize, rows)

    def put(self, rows: NDArray[np.int64], value: int) -> None:
        """Set the value of `rows`, each in [first, len). Cost: O(rows), and a copy of each chunk that is shared."""
        self._check(rows)
        places = (rows >> self.bits) - self._base
        for place in np.unique(places).tolist():
            if place in self._shared:
                copy = self._new()
                copy[:] = self._chunks[place]
                self._chunks[place] = copy
                del self._addresses[place:]
                self._shared.discard(place)
                self._foreign.discard(place)
            self._chunks[place][rows[places == place] & (self._size - 1)] = value

    def slice(self, first: int, stop: int) -> NDArray[Scalar]:
        """Return the values of [first, stop), a view where one chunk holds them. Cost: O(asked)."""
        if not self.first <= first <= stop <= self._length:
            raise IndexError(f"[first, stop) must lie in [{self.first}, {self._length}), got [{first}, {stop})")
        if first == stop:
            return np.empty(0, self.dtype)
        low, high = (first >> self.bits) - self._base, ((stop - 1) >> self.bits) - self._base
        begin, end = first & (self._size - 1), ((stop - 1) & (self._size - 1)) + 1
        if low == high:
            return self._chunks[low][begin:end]
        return np.concatenate([self._chunks[low][begin:], *self._chunks[low + 1 : high], self._chunks[high][:end]])

    def cut(self, begins: NDArray[np.int64], ends: NDArray[np.int64]) -> list[bytes]:
        """Return the bytes of the slices [begin, end). Cost: 0.2 µs each, more for one across two chunks."""
        views = [chunk.data.cast("B") for chunk in self._chunks]
        bits, mask, scale = self.bits, self._size - 1, self.dtype.itemsize
        return [
            views[(begin >> bits) - self._base][(begin & mask) * scale : ((end - 1 & mask) + 1) * scale].tobytes()
            if begin < end and begin >> bits == (end - 1) >> bits
            else self.slice(begin, end).tobytes()
            for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
        ]

    def forget(self, row: int) -> None:
        """Free the chunks that lie wholly below `row`, never the last one. Cost: O(chunks)."""
        count = min(row, self._length - 1) // self._size - self._base
        if count > 0:
            del self._chunks[:count]
            del self._addresses[:count]
            self._base += count
            self._shared = {place - count for place in self._shared if place >= count}
            self._foreign = {place - count for place in self._foreign if place >= count}

    def pieces(self) -> list[NDArray[Scalar]]:
        """
        Return the values from `first` on in order, as views that stay as they are, whatever is appended or put later.

        Cost: O(chunks); nothing is copied, now.
        """
        self._shared = set(range(len(self._chunks)))
        used = self._length & (self._size - 1)
        return [*self._chunks[:-1], self._chunks[-1][:used]] if used else list(self._chunks)

    def like(self, values: NDArray[Scalar], first: int = 0) -> Column[Scalar]:
        """
        Return another column of this kind with these values from row `first` on; it refers to them, never writes there.

        Raises:
            ValueError: `first` is not the first row of a chunk.
        Cost: O(chunks); the entries of the last, partly filled chunk are copied.
        """
        column: Column[Scalar] = Column(self.dtype, self.bits, self._memory)
        size = column._size
        if first & (size - 1):
            raise ValueError(f"first must be a multiple of {size}, got {first}: whole chunks are forgotten")
        whole = len(values) & ~(size - 1)
        column._chunks = [values[at : at + size] for at in range(0, whole, size)]
        column._shared = set(range(len(column._chunks)))
        column._foreign = set(column._shared)
        column._base = first >> column.bits
        column._length = first + whole
        column.append(values[whole:])
        return column
