"""
MappedColumns that grow and shrink in place: arrays on anonymous memory maps.

The kernel of the operating system moves the pages of a map instead of copying them, so growing by a gigabyte costs
microseconds, memory that was never written costs nothing, and a shortened column gives its pages back at once. Long
columns ask for huge pages: a query reads at dozens of places, and looking up small pages would cost it half its time.
"""

from __future__ import annotations

import mmap
from contextlib import suppress
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T", bound=np.generic)
HUGE_PAGE = 1 << 21
HUGE_FROM = 1 << 22  # bytes from which a column lies in huge pages
_FLAGS = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_ANONYMOUS") else {}


class MappedColumn(Generic[T]):
    """
    A one-dimensional array of zeros that can be resized. Hold no reference to `array` across `resize`.

    `address` is where its first element lies, for kernels; it changes with `resize`.

    >>> column = MappedColumn(np.uint32, 2)
    >>> column.array[1] = 7
    >>> column.resize(4)
    >>> column.array.tolist()
    [0, 7, 0, 0]
    """

    def __init__(self, dtype: type[T], size: int) -> None:
        self._dtype: np.dtype[Any] = np.dtype(dtype)
        self._map = self._new(size)
        self._show(size)

    def __len__(self) -> int:
        return len(self.array)

    def resize(self, size: int) -> None:
        """
        Make the column `size` long: new elements are 0, cut elements are gone.

        Raises:
            MemoryError: the system grants no more; the column is as it was.

        Cost: microseconds on Linux; a copy elsewhere, or while somebody holds a view of the array.
        """
        before = len(self.array)
        self.array[size : self._bytes(size) // self._dtype.itemsize] = 0  # stays mapped: it must not come back
        del self.array
        try:
            self._map.resize(self._bytes(size))
        except (BufferError, SystemError, OSError, ValueError):
            old = np.frombuffer(self._map, self._dtype)
            try:
                replacement = self._new(size)
            except OSError as error:
                self._show(before)
                raise MemoryError(f"no memory for a column of {size} elements of {self._dtype}") from error
            kept = min(size, before)
            np.frombuffer(replacement, self._dtype)[:kept] = old[:kept]
            self._map = replacement
        self._show(size)

    def _show(self, size: int) -> None:
        self.array: NDArray[T] = np.frombuffer(self._map, self._dtype)[:size]
        self.address = int(self.array.ctypes.data)
        if len(self._map) >= HUGE_FROM and hasattr(mmap, "MADV_HUGEPAGE"):
            with suppress(OSError):  # a system without them
                self._map.madvise(mmap.MADV_HUGEPAGE)

    def _new(self, size: int) -> mmap.mmap:
        return mmap.mmap(-1, self._bytes(size), **_FLAGS)

    def _bytes(self, size: int) -> int:
        wanted = max(1, size) * self._dtype.itemsize
        page = mmap.PAGESIZE if wanted < HUGE_FROM else HUGE_PAGE
        return -(-wanted // page) * page
