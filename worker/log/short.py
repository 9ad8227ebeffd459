"""
Short texts: the originals of fewer than `tokens_min` tokens, by their digests.

Of the originals with one short text, the first is listed under its digest. Another page of its
host with the same text is a page of its own (`marks.are_apart`), and is listed under the digest,
the host and the title, for its own copies to find. Which of the two it is, is decided at its birth.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.core.hash_table import HashTable
from worker.core.marks import HOST_AND_TITLE, titled_digests
from worker.errors import RestoreError
from worker.log.columns import ChunkedColumn, Field

# Under which key one is listed: its digest, or its digest with its host and title.
BY_DIGEST = 1
BY_TITLE = 2


class ShortTable:
    """
    Rows of live originals of kind SHORT, each under one of its two keys.

    Args:
        rows: the column of `originals.ROW`.
        listed: the column that says under which key each is listed.
        live: the originals to begin with.
    Raises:
        RestoreError: one of these is listed in neither way, so the columns are no store's.

    Cost: 10 bytes per original.
    """

    def __init__(
        self, rows: ChunkedColumn[Any], listed: ChunkedColumn[np.uint16], live: NDArray[np.int64]
    ) -> None:
        self._digests: Field[np.uint64] = Field(rows, "digests")
        self._marks: Field[np.uint64] = Field(rows, "marks")
        self._listed = listed
        ways = listed.take(live)
        if len(live) and not BY_DIGEST <= ways.min() <= ways.max() <= BY_TITLE:
            raise RestoreError(
                f"the snapshot has short originals listed as {ways.min()} to {ways.max()}, and "
                f"may have {BY_DIGEST} or {BY_TITLE}"
            )
        # No method of this object, whose table it is: a cycle would be freed late.
        self._keys_of = partial(_keys_of, self._digests, self._marks, listed)
        self._table = HashTable(self._keys_of, len(live))
        self.insert(live)

    def __len__(self) -> int:
        """Return the number of originals."""
        return len(self._table)

    @property
    def rows(self) -> NDArray[np.int64]:
        """All rows, ascending. Cost: O(n), and the sort."""
        return self._table.rows

    @property
    def nbytes(self) -> int:
        """Bytes of the table."""
        return self._table.nbytes

    def insert(self, rows: NDArray[np.int64]) -> None:
        """Enter new originals. Cost: some 0.1 µs each."""
        self._table.insert(self._keys_of(rows), rows.astype(np.uint32))

    def remove(self, rows: NDArray[np.int64]) -> None:
        """Take originals out. Cost: some 0.2 µs each."""
        self._table.delete_many(self._keys_of(rows), rows.astype(np.uint32))

    def find(
        self, digests: NDArray[np.uint64], marks: NDArray[np.uint64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """
        Return for each digest and mark the original that is listed BY_DIGEST, and the one that is
        listed BY_TITLE; -1 where there is none.

        Cost: a look-up per digest, and one per mark, and what the columns have of a row that is
        found.
        """
        first = self._find(digests, digests, marks, BY_DIGEST)
        titled = np.full(len(digests), -1)
        marked = np.flatnonzero(marks)
        if len(marked):
            keys = titled_digests(digests[marked], marks[marked])
            titled[marked] = self._find(keys, digests[marked], marks[marked], BY_TITLE)
        return first, titled

    def candidates(self, digests: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the rows that the table has under some digests, which may be other texts'."""
        rows = self._table.find(digests)
        return rows[rows >= 0]

    def _find(
        self,
        keys: NDArray[np.uint64],
        digests: NDArray[np.uint64],
        marks: NDArray[np.uint64],
        way: int,
    ) -> NDArray[np.int64]:
        """Return the row that is listed in one of the two ways under each key, or -1."""
        rows = self._table.find(keys)
        for at in np.flatnonzero(rows >= 0).tolist():
            # The table has a few bits of each key only, so another text's row may have been found.
            digest = int(digests[at])
            mark = int(marks[at])
            if not self._is_listed(int(rows[at]), digest, mark, way):
                others = self._table.find_all(int(keys[at]))
                is_right = (row for row in others if self._is_listed(row, digest, mark, way))
                rows[at] = next(is_right, -1)
        return rows

    def _is_listed(self, row: int, digest: int, mark: int, way: int) -> bool:
        """Return whether an original has a text, and is listed in one of the two ways."""
        if self._listed[row] != way or self._digests[row] != digest:
            return False
        return way == BY_DIGEST or not (self._marks[row] ^ mark) & int(HOST_AND_TITLE)


def _keys_of(
    digests: Field[np.uint64],
    marks: Field[np.uint64],
    listed: ChunkedColumn[np.uint16],
    rows: NDArray[np.int64],
) -> NDArray[np.uint64]:
    """Return the keys under which originals are listed, as the columns say."""
    own = digests.take(rows)
    titled = titled_digests(own, marks.take(rows))
    return np.where(listed.take(rows) == BY_TITLE, titled, own)
