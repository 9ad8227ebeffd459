"""What the indexes have in common: their answers, how rows leave and are renumbered, and which columns they take."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from worker.core.tables.slots import Slots

ROWS_MAX = 2**32  # a row is 32 bits in memory and in snapshots
DELETIONS_MAX = 4_096  # between two looks at whether memory can be given back


class Judgement(NamedTuple):
    """The best match of each fingerprint. Row -1, distance 255, look and similarity 0: no match."""

    rows: NDArray[np.int64]
    distances: NDArray[np.uint8]
    looks: NDArray[np.uint16]  # second look in thousandths; 0 where the search is exact
    similarities: NDArray[np.uint16]  # of the sketches, in thousandths; 0 where there are none
    new: int  # how many had no match


class SketchColumn(Protocol):
    """Sketches by row, as kernels read them: in chunks of `1 << bits` rows side by side."""

    @property
    def bits(self) -> int: ...

    @property
    def first(self) -> int:
        """The first row of the first chunk."""

    @property
    def addresses(self) -> NDArray[np.int64]:
        """Of each chunk its first byte."""

    def __len__(self) -> int:
        """One more than the last row."""

    def take(self, rows: NDArray[np.int64], /) -> NDArray[np.uint64]:
        """Return the sketches of these rows."""

    def will_need(self, rows: NDArray[np.int64], /) -> None:
        """Ask the system for the sketches of these rows."""


class RowIndex(ABC):
    """An index of fingerprints by row."""

    tables: Slots

    def __len__(self) -> int:
        return len(self.tables)

    @property
    def nbytes(self) -> int:
        """Bytes of memory held."""
        return self.tables.nbytes

    def renumber(self, rows: NDArray[np.uint32]) -> None:
        """
        Put these rows in place of those of the fingerprints that were indexed last, with nothing deleted since.

        Raises:
            ValueError: the rows do not ascend beyond those of the others: the earliest match would be another one.
        """
        mine = self.tables.rows[len(self) - len(rows) :]
        if len(rows) > len(self) or not ((rows[1:] > rows[:-1]).all() and (rows >= mine).all()):
            raise ValueError(f"rows must ascend from {mine[:1]} on, at most {len(self)} of them, got {rows[:3]} …")
        mine[:] = rows

    def delete(self, fingerprint: int, row: int) -> bool:
        """Take one row out. False: it was not indexed under this fingerprint."""
        return bool(self.delete_many(np.array([fingerprint], np.uint64), np.array([row], np.uint32))[0])

    def delete_many(self, fingerprints: NDArray[np.uint64], rows: NDArray[np.uint32]) -> NDArray[np.bool_]:
        """
        Take rows out; return for each whether it was indexed under its fingerprint. Memory is given back.

        Cost: about twice that of inserting them.
        """
        fingerprints, rows = column_of(fingerprints), rows_of(rows, len(fingerprints))
        done = np.zeros(len(rows), np.bool_)
        for begin in range(0, len(rows), DELETIONS_MAX):
            part = slice(begin, begin + DELETIONS_MAX)
            self.tables.maintain()
            self._delete(fingerprints[part], rows[part], done[part])
        self.tables.maintain()
        return done

    @abstractmethod
    def _delete(self, fingerprints: NDArray[np.uint64], rows: NDArray[np.uint32], done: NDArray[np.bool_]) -> None:
        """Take these rows out; `done` gets which were there."""

    def check(self) -> None:
        """Assert the invariants: each fingerprint stands where each table looks for it, and nothing else does."""
        self.tables.check()


def column_of(values: NDArray[np.generic], name: str = "fingerprint") -> NDArray[np.uint64]:
    """Return 64-bit numbers as kernels take them. Raises TypeError, ValueError for another type or shape."""
    if not isinstance(values, np.ndarray):
        raise TypeError(f"{name}s are one column of uint64, got {values!r:.50}: np.array([…], np.uint64)")
    if values.ndim != 1 or (len(values) and values.dtype != np.uint64):
        raise ValueError(
            f"{name}s are one column of uint64, got {values.dtype} of shape {values.shape}: another type would lose or "
            f"change bits"
        )
    return np.ascontiguousarray(values, np.uint64)


def rows_of(rows: NDArray[np.generic], count: int, name: str = "fingerprint") -> NDArray[np.uint32]:
    """Return `count` rows as kernels take them. Raises ValueError for another number, or beyond 32 bits."""
    if len(rows) != count:
        raise ValueError(f"one row for each {name}, got {count} {name}s and {len(rows)} rows")
    if rows.dtype != np.uint32 and len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < ROWS_MAX:
        raise ValueError(f"rows must be 0 to {ROWS_MAX - 1}, got {rows.min()} to {rows.max()}")
    return np.ascontiguousarray(rows, np.uint32)
