"""
The column that grows and shrinks in place, and the check of columns that callers bring.
"""

from __future__ import annotations

import mmap
from contextlib import suppress
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from worker.core.tables.memory import ROWS_MAX
from worker.errors import safe_repr

T = TypeVar("T", bound=np.generic)
HUGE_PAGE = 1 << 21
# Bytes from which a column lies in huge pages: heads are 2 MB, and read at random.
HUGE_FROM = 1 << 21


class MappedColumn(Generic[T]):
    """
    A one-dimensional array of zeros that can be resized. Hold no reference to `array` across
    `resize`.

    `address` is where its first element lies, for kernels; it changes with `resize` and `reserve`.

    The system makes a huge page when it is first written. That takes 0.1 ms, and some 5 ms in a
    virtual machine whose host has given it to others. Columns that grow together need theirs
    together, so a call of the index makes one ahead (`back`).
    """

    def __init__(self, dtype: type[T], size: int) -> None:
        self._dtype: np.dtype[Any] = np.dtype(dtype)
        self._map = self._new(size)
        self._backed = 0  # bytes up to which huge pages are there
        self._show(size)

    def __len__(self) -> int:
        return len(self.array)

    def resize(self, size: int) -> None:
        """
        Make the column `size` long: new elements are 0, cut elements are gone.

        Microseconds on Linux; a copy elsewhere, or while somebody holds a view. MemoryError: the
        column is as it was.
        """
        # Stays mapped: it must not come back.
        self.array[size : self._bytes(size) // self._dtype.itemsize] = 0
        self._remap(size)
        self._show(size)

    def reserve(self, size: int) -> None:
        """
        Make room for `size` elements, of which `resize` will show those that it asks for; it gives
        back the rest. Cost and error are those of `resize`.
        """
        shown = len(self.array)
        if self._bytes(size) > len(self._map):
            self._remap(size)
            self._show(shown)

    def back(self, first: int = 0, stop: int | None = None) -> bool:
        """
        Make one huge page ahead, the first that is not there yet. False: they are all there.

        Args:
            first: the page that this element lies in is there; those behind it are looked at.
            stop: if set, only pages that begin before this element.
        """
        size = len(self._map)
        end = size if stop is None else min(size, stop * self._dtype.itemsize)
        # The page that it begins in is there: what lies before it is written.
        place = max(self._backed, -(-first * self._dtype.itemsize // HUGE_PAGE) * HUGE_PAGE)
        if size < HUGE_FROM or place >= end:
            return False
        self._map[place] = self._map[place]
        self._backed = place + HUGE_PAGE
        return True

    def _remap(self, size: int) -> None:
        """Have room for `size` elements and no more; `_show` has to follow."""
        before = len(self.array)
        self._backed = min(self._backed, self._bytes(size))
        del self.array
        try:
            self._map.resize(self._bytes(size))
        except (BufferError, SystemError, OSError, ValueError):
            old = np.frombuffer(self._map, self._dtype)
            try:
                replacement = self._new(size)
            except OSError as error:
                self._show(before)
                raise MemoryError(
                    f"no memory for a column of {size} elements of {self._dtype}"
                ) from error
            kept = min(size, before)
            np.frombuffer(replacement, self._dtype)[:kept] = old[:kept]
            self._map = replacement

    def _show(self, size: int) -> None:
        self.array: NDArray[T] = np.frombuffer(self._map, self._dtype)[:size]
        self.address = int(self.array.ctypes.data)
        if len(self._map) >= HUGE_FROM and hasattr(mmap, "MADV_HUGEPAGE"):
            with suppress(OSError):  # a system without them
                self._map.madvise(mmap.MADV_HUGEPAGE)

    def _new(self, size: int) -> mmap.mmap:
        return mmap.mmap(-1, self._bytes(size), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)

    def _bytes(self, size: int) -> int:
        wanted = max(1, size) * self._dtype.itemsize
        page = mmap.PAGESIZE if wanted < HUGE_FROM else HUGE_PAGE
        return -(-wanted // page) * page


def column_of(values: NDArray[np.generic], name: str = "fingerprint") -> NDArray[np.uint64]:
    """
    Return 64-bit numbers as kernels take them. Raises TypeError, ValueError for another type or
    shape.
    """
    if not isinstance(values, np.ndarray):
        raise TypeError(
            f"{name}s are one column of uint64, got {safe_repr(values):.50}: "
            "np.array([…], np.uint64)"
        )
    if values.ndim != 1 or (len(values) and values.dtype != np.uint64):
        raise ValueError(
            f"{name}s are one column of uint64, got {values.dtype} of shape {values.shape}: "
            "another type would lose or change bits"
        )
    return np.ascontiguousarray(values, np.uint64)


def rows_of(rows: NDArray[np.generic], count: int, name: str = "fingerprint") -> NDArray[np.uint32]:
    """
    Return `count` rows as kernels take them. Raises ValueError for another number, or beyond 32
    bits.
    """
    if len(rows) != count:
        raise ValueError(f"one row for each {name}, got {count} {name}s and {len(rows)} rows")
    if (
        rows.dtype != np.uint32
        and len(rows)
        and not 0 <= int(rows.min()) <= int(rows.max()) < ROWS_MAX
    ):
        raise ValueError(f"rows must be 0 to {ROWS_MAX - 1}, got {rows.min()} to {rows.max()}")
    return np.ascontiguousarray(rows, np.uint32)
