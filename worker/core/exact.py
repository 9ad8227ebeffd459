"""The exact table: 64-bit keys to rows, several rows a key allowed. For digests of short texts and for doc_ids."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["ExactTable"]


class ExactTable:
    """
    Rows by 64-bit key.

    >>> table = ExactTable()
    >>> table.insert(np.array([7, 7, 9], dtype=np.uint64), np.array([0, 1, 2], dtype=np.uint32))
    >>> table.find(np.array([9, 7, 8], dtype=np.uint64)).tolist(), table.find_all(7)
    ([2, 0, -1], [0, 1])
    """

    def __init__(self) -> None:
        self._rows: dict[int, list[int]] = {}
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def nbytes(self) -> int:
        """Bytes of memory held."""
        return 200 * self._size

    def find(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The smallest row of each key, or -1."""
        return np.array([self._rows[key][0] if key in self._rows else -1 for key in keys.tolist()], np.int64)

    def find_all(self, key: int) -> list[int]:
        """Every row of the key, ascending."""
        return list(self._rows.get(key, ()))

    def insert(self, keys: NDArray[np.uint64], rows: NDArray[np.uint32]) -> None:
        """Add `rows[i]` under `keys[i]`."""
        if len(keys) != len(rows):
            raise ValueError(f"one row for each key, got {len(keys)} keys and {len(rows)} rows")
        for key, row in zip(keys.tolist(), rows.tolist(), strict=True):
            held = self._rows.setdefault(key, [])
            held.append(row)
            held.sort()
            self._size += 1

    def delete(self, key: int, row: int) -> bool:
        """Take one row out. False: it was not there under this key."""
        held = self._rows.get(key, [])
        if row not in held:
            return False
        held.remove(row)
        if not held:
            del self._rows[key]
        self._size -= 1
        return True

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """The content as two columns, by row: all that a snapshot needs."""
        pairs = sorted((row, key) for key, rows in self._rows.items() for row in rows)
        return {
            "keys": np.array([key for _, key in pairs], np.uint64),
            "rows": np.array([row for row, _ in pairs], np.uint32),
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[np.generic]]) -> ExactTable:
        """The table whose content is `arrays`, as `arrays()` gave it."""
        table = cls()
        table.insert(arrays["keys"].astype(np.uint64), arrays["rows"].astype(np.uint32))
        return table
