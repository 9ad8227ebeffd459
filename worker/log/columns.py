"""
A column of numbers that grows at its end and is forgotten from its beginning, in chunks of fixed size.

    rows     0 … 65,535 | 65,536 …  | 131,072 … | 196,608 … length
    chunks   forgotten  | forgotten | shared    | own            shared with a snapshot: a change copies it first

So growing copies nothing, forgetting gives memory back, and a snapshot is a list of the chunks: nothing ever pauses.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["Column"]

Scalar = TypeVar("Scalar", bound=np.generic)

_CHUNK_BITS = 16
_CHUNK = 1 << _CHUNK_BITS


class Column(Generic[Scalar]):
    """
    An array of one number type by row; rows below `first` are forgotten.

    Cost: `append` O(new), `take` O(asked); memory is the entries, rounded up to 65,536.

    >>> column = Column(np.uint64)
    >>> column.append(np.array([5, 6], np.uint64))
    >>> column.take(np.array([1])).tolist(), len(column)
    ([6], 2)
    """

    __slots__ = ("_base", "_chunks", "_length", "_shared", "dtype")

    def __init__(self, dtype: type[Scalar]) -> None:
        self.dtype = np.dtype(dtype)
        self._chunks: list[NDArray[Scalar]] = []
        self._base = 0  # chunks forgotten
        self._length = 0
        self._shared: set[int] = set()  # places among the chunks

    def __len__(self) -> int:
        """Give the number of rows, forgotten ones included."""
        return self._length

    @property
    def first(self) -> int:
        """The first row that is kept, the first one of a chunk."""
        return self._base << _CHUNK_BITS

    @property
    def nbytes(self) -> int:
        """Bytes of memory held."""
        return len(self._chunks) * _CHUNK * self.dtype.itemsize

    def __getitem__(self, row: int) -> int:
        if not self.first <= row < self._length:
            raise IndexError(f"row must lie in [{self.first}, {self._length}), got {row}")
        return int(self._chunks[(row >> _CHUNK_BITS) - self._base][row & (_CHUNK - 1)])

    def append(self, values: NDArray[Scalar]) -> None:
        """Add values behind the last one."""
        at = 0
        while at < len(values):
            used = self._length & (_CHUNK - 1)
            if used == 0:
                self._chunks.append(np.empty(_CHUNK, self.dtype))
            part = values[at : at + _CHUNK - used]
            self._chunks[-1][used : used + len(part)] = part  # behind what a snapshot has been given
            at += len(part)
            self._length += len(part)

    def _check(self, rows: NDArray[np.int64]) -> None:
        if len(rows) and not (int(rows.min()) >= self.first and int(rows.max()) < self._length):
            raise IndexError(
                f"rows must lie in [{self.first}, {self._length}), got {int(rows.min())} to {int(rows.max())}"
            )

    def take(self, rows: NDArray[np.int64]) -> NDArray[Scalar]:
        """Give the values at `rows`, each in [first, len)."""
        self._check(rows)
        if len(rows) < 64:
            chunks = self._chunks
            return np.array(
                [chunks[(row >> _CHUNK_BITS) - self._base][row & (_CHUNK - 1)] for row in rows.tolist()], self.dtype
            )
        taken = np.empty(len(rows), self.dtype)
        places = (rows >> _CHUNK_BITS) - self._base
        for place in np.unique(places).tolist():
            mine = places == place
            taken[mine] = self._chunks[place][rows[mine] & (_CHUNK - 1)]
        return taken

    def put(self, rows: NDArray[np.int64], value: int) -> None:
        """Set the value of `rows`, each in [first, len). Cost: O(rows), and a copy of each chunk that is shared."""
        self._check(rows)
        places = (rows >> _CHUNK_BITS) - self._base
        for place in np.unique(places).tolist():
            if place in self._shared:
                self._chunks[place] = self._chunks[place].copy()
                self._shared.discard(place)
            self._chunks[place][rows[places == place] & (_CHUNK - 1)] = value

    def slice(self, first: int, stop: int) -> NDArray[Scalar]:
        """Give the values of [first, stop), a view where one chunk holds them. Cost: O(asked)."""
        if not self.first <= first <= stop <= self._length:
            raise IndexError(f"[first, stop) must lie in [{self.first}, {self._length}), got [{first}, {stop})")
        low, high = (first >> _CHUNK_BITS) - self._base, (max(stop - 1, first) >> _CHUNK_BITS) - self._base
        if low == high:
            begin = first & (_CHUNK - 1)
            return self._chunks[low][begin : begin + stop - first] if first < stop else np.empty(0, self.dtype)
        begin = first - ((low + self._base) << _CHUNK_BITS)
        return np.concatenate(self._chunks[low : high + 1])[begin : begin + stop - first]

    def forget(self, row: int) -> None:
        """Give back the chunks that lie wholly below `row`, never the last one. Cost: O(chunks)."""
        count = min(row, self._length - 1) // _CHUNK - self._base
        if count > 0:
            del self._chunks[:count]
            self._base += count
            self._shared = {place - count for place in self._shared if place >= count}

    def pieces(self) -> list[NDArray[Scalar]]:
        """
        Give the values from `first` on in order, as views that stay as they are, whatever is appended or put later.

        Cost: O(chunks); nothing is copied, now.
        """
        self._shared = set(range(len(self._chunks)))
        used = self._length & (_CHUNK - 1)
        return [*self._chunks[:-1], self._chunks[-1][:used]] if used else list(self._chunks)

    @classmethod
    def from_array(cls, dtype: type[Scalar], values: NDArray[Scalar], first: int = 0) -> Column[Scalar]:
        """
        Give the column with these values from row `first` on; it refers to them (a mapped file) and never writes there.

        Raises:
            ValueError: `first` is not the first row of a chunk.
        Cost: O(chunks); the entries of the last, partly filled chunk are copied.
        """
        if first & (_CHUNK - 1):
            raise ValueError(f"first must be a multiple of {_CHUNK}, got {first}: whole chunks are forgotten")
        column = cls(dtype)
        whole = len(values) & ~(_CHUNK - 1)
        column._chunks = [values[at : at + _CHUNK] for at in range(0, whole, _CHUNK)]
        column._shared = set(range(len(column._chunks)))
        column._base = first >> _CHUNK_BITS
        column._length = first + whole
        column.append(values[whole:])
        return column
