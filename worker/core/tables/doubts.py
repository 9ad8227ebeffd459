"""
The doubts of a directed index, by row: what its entries do not say of an original.

    row    number of its chunk (12 bits) | place within the chunk (20 bits)

A chunk is memory of its own, so that nothing is ever copied: the newest one fills page by page, and
one whose rows have all gone is given back. Rows are given in their order and originals leave at the
front, as in the columns of a log's originals, so the chunks that are there are nearly full. A row
that is not indexed, between others that are, costs its eight bytes all the same.

It is not a log's column (`ChunkedColumn`), which forgets from its beginning and grows at its end.
Here any chunk may be missing: rows come with the numbers that a caller gives, and a chunk goes when
its last row has, wherever it lies. What the other would cost stands in the package's docstring.

Kernels find a chunk by its number in a directory that never moves. They write only to rows whose
chunk `hold` has made.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from worker.core.compiled import inner
from worker.core.kernels.machine import prefetch, read64, write64
from worker.core.tables.columns import MappedColumn
from worker.core.tables.memory import ROWS_MAX, DirectedMemory, signed

CHUNK_BITS = 20
CHUNK_ROWS = 1 << CHUNK_BITS
CHUNKS_MAX = ROWS_MAX >> CHUNK_BITS
PLACE_MASK = signed(CHUNK_ROWS - 1)


@inner
def chunk_of(directory: int, row: int) -> int:
    """Return the address of the chunk that has a row."""
    return signed(read64(directory, row >> CHUNK_BITS))


@inner
def doubts_of(directory: int, row: int) -> np.uint64:
    return read64(chunk_of(directory, row), row & PLACE_MASK)


@inner
def ask_doubts(directory: int, row: int) -> None:
    prefetch(chunk_of(directory, row), 8 * (row & PLACE_MASK))


@inner
def write_doubts(memory: DirectedMemory, row: int, doubts: np.uint64) -> None:
    """Set the doubts of a row that is now indexed."""
    write64(chunk_of(memory.doubts, row), row & PLACE_MASK, doubts)
    count_indexed(memory, row, signed(1))


@inner
def count_indexed(memory: DirectedMemory, row: int, change: int) -> None:
    """Account for a row that came or went."""
    chunk = row >> CHUNK_BITS
    write64(memory.doubts_indexed, chunk, read64(memory.doubts_indexed, chunk) + np.uint64(change))


class Doubts:
    """
    The chunks, and what kernels know of them.

    >>> doubts = Doubts()
    >>> doubts.hold(np.array([5, 3 << 20]))
    >>> np.flatnonzero(doubts.addresses).tolist()
    [0, 3]
    """

    def __init__(self) -> None:
        self.addresses = np.zeros(CHUNKS_MAX, np.int64)
        self.indexed = np.zeros(CHUNKS_MAX, np.int64)
        self._chunks: dict[int, MappedColumn[np.uint64]] = {}

    def hold(self, rows: NDArray[np.int64]) -> None:
        """Make the chunks of these rows, those that are not there. Cost: O(rows)."""
        if not len(rows):
            return
        low = int(rows.min()) >> CHUNK_BITS
        high = int(rows.max()) >> CHUNK_BITS
        wanted = [low] if low == high else np.unique(rows >> CHUNK_BITS).tolist()
        for number in wanted:
            if number not in self._chunks:
                self._chunks[number] = MappedColumn(np.uint64, CHUNK_ROWS)
                self.addresses[number] = self._chunks[number].address

    def release(self) -> None:
        """Give back the chunks of which no row is indexed. Cost: O(chunks)."""
        for number in list(self._chunks):
            if not self.indexed[number]:
                del self._chunks[number]
                self.addresses[number] = 0

    def take(self, rows: NDArray[np.uint32]) -> NDArray[np.uint64]:
        """Return the doubts of indexed rows."""
        doubts = np.empty(len(rows), np.uint64)
        numbers = rows >> CHUNK_BITS
        for number in np.unique(numbers).tolist():
            is_there = numbers == number
            doubts[is_there] = self._chunks[number].array[rows[is_there] & (CHUNK_ROWS - 1)]
        return doubts

    def nbytes(self, last_row: int) -> int:
        """Bytes of memory held; no row after the last one was ever written."""
        sizes = (min(CHUNK_ROWS, last_row + 1 - number * CHUNK_ROWS) for number in self._chunks)
        return sum(8 * max(0, size) for size in sizes)

    def check(self, rows: NDArray[np.uint32]) -> None:
        """Assert that these are the indexed rows, and that each has its chunk."""
        numbers = rows >> CHUNK_BITS
        assert (np.bincount(numbers, minlength=CHUNKS_MAX) == self.indexed).all()
        assert set(np.unique(numbers).tolist()) <= set(self._chunks)
        assert set(np.flatnonzero(self.addresses).tolist()) == set(self._chunks)
