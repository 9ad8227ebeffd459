"""A column of numbers that only grows: chunks of fixed size, so that growing copies nothing and never pauses."""

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
    An append-only array of one number type.

    Cost: `append` O(new), `take` O(asked); memory is the entries, rounded up to 65,536.

    >>> column = Column(np.uint64)
    >>> column.append(np.array([5, 6], np.uint64))
    >>> column.take(np.array([1])).tolist(), len(column)
    ([6], 2)
    """

    __slots__ = ("_chunks", "_length", "dtype")

    def __init__(self, dtype: type[Scalar]) -> None:
        self.dtype = np.dtype(dtype)
        self._chunks: list[NDArray[Scalar]] = []
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, row: int) -> int:
        if not 0 <= row < self._length:
            raise IndexError(f"row must lie in [0, {self._length}), got {row}")
        return int(self._chunks[row >> _CHUNK_BITS][row & (_CHUNK - 1)])

    def append(self, values: NDArray[Scalar]) -> None:
        """Add values behind the last one."""
        at = 0
        while at < len(values):
            used = self._length & (_CHUNK - 1)
            if used == 0:
                self._chunks.append(np.empty(_CHUNK, self.dtype))
            part = values[at : at + _CHUNK - used]
            self._chunks[-1][used : used + len(part)] = part
            at += len(part)
            self._length += len(part)

    def take(self, rows: NDArray[np.int64]) -> NDArray[Scalar]:
        """Give the values at `rows`, each in [0, len)."""
        if len(rows) and not (int(rows.min()) >= 0 and int(rows.max()) < self._length):
            raise IndexError(f"rows must lie in [0, {self._length}), got {int(rows.min())} to {int(rows.max())}")
        if len(rows) < 64:
            return np.array([self._chunks[row >> _CHUNK_BITS][row & (_CHUNK - 1)] for row in rows.tolist()], self.dtype)
        taken = np.empty(len(rows), self.dtype)
        chunks = rows >> _CHUNK_BITS
        for chunk in np.unique(chunks).tolist():
            mine = chunks == chunk
            taken[mine] = self._chunks[chunk][rows[mine] & (_CHUNK - 1)]
        return taken

    def slice(self, first: int, stop: int) -> NDArray[Scalar]:
        """Give the values of [first, stop), a view where one chunk holds them. Cost: O(asked)."""
        if not 0 <= first <= stop <= self._length:
            raise IndexError(f"[first, stop) must lie in [0, {self._length}), got [{first}, {stop})")
        low, high = first >> _CHUNK_BITS, max(stop - 1, first) >> _CHUNK_BITS
        if low == high:
            begin = first & (_CHUNK - 1)
            return self._chunks[low][begin : begin + stop - first] if first < stop else np.empty(0, self.dtype)
        return np.concatenate(self._chunks[low : high + 1])[first - (low << _CHUNK_BITS) :][: stop - first]

    def pieces(self) -> list[NDArray[Scalar]]:
        """
        Give all values in order as views that stay as they are, whatever is appended later.

        Cost: O(chunks); nothing is copied.
        """
        ends = range(0, self._length, _CHUNK)
        return [chunk[: self._length - at] for at, chunk in zip(ends, self._chunks, strict=True)]

    @classmethod
    def from_array(cls, dtype: type[Scalar], values: NDArray[Scalar]) -> Column[Scalar]:
        """
        Give the column with these values; it refers to them (a mapped file, say) and never writes into them.

        Cost: O(chunks); the entries of the last, partly filled chunk are copied.
        """
        column = cls(dtype)
        whole = len(values) & ~(_CHUNK - 1)
        column._chunks = [values[at : at + _CHUNK] for at in range(0, whole, _CHUNK)]
        column._length = whole
        column.append(values[whole:])
        return column

    def to_array(self) -> NDArray[Scalar]:
        """Give all values as one array (a copy)."""
        if not self._chunks:
            return np.empty(0, self.dtype)
        return np.concatenate(self._chunks)[: self._length]
