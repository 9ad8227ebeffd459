"""
The permuted index: which indexed fingerprint is within `max_distance` bits of this one, the best of them, exactly.

Rows are the caller's numbers for what it has indexed, given in insertion order and never reused.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["NO_MATCH", "Judgement", "PermutedIndex"]

NO_MATCH = 255  # the distance beside row -1
DISTANCE_MAX = 7


class Judgement(NamedTuple):
    """The best match of each fingerprint: smallest distance, then earliest row. Row -1, distance 255: no match."""

    rows: NDArray[np.int64]
    distances: NDArray[np.uint8]
    new: int  # how many had no match


class PermutedIndex:
    """
    Fingerprints by row, searched by Hamming distance.

    Args:
        max_distance: a match differs in at most this many of the 64 bits, 0 to 7.
        documents_expected: what the index is sized for; it grows beyond.

    >>> index = PermutedIndex(max_distance=3)
    >>> index.judge(np.array([0b0000, 0b0111, 0b1111], dtype=np.uint64), first_row=0).rows.tolist()
    [-1, 0, -1]
    """

    def __init__(self, max_distance: int = 3, documents_expected: int = 0) -> None:
        if not 0 <= max_distance <= DISTANCE_MAX:
            raise ValueError(f"max_distance must be 0 to {DISTANCE_MAX}, got {max_distance}: too many would match")
        self.max_distance = max_distance
        self.documents_expected = documents_expected
        self._fingerprints = np.empty(1024, np.uint64)
        self._rows = np.empty(1024, np.uint32)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def nbytes(self) -> int:
        """Bytes of memory held."""
        return self._fingerprints.nbytes + self._rows.nbytes

    def judge(self, fingerprints: NDArray[np.uint64], first_row: int) -> Judgement:
        """
        Leader clustering, in order: the best match of each fingerprint, or a new row of its own.

        A fingerprint without a match is indexed at once as row `first_row` + (new ones before it in this call), so
        that later ones of the same call find it.
        """
        rows = np.full(len(fingerprints), -1, np.int64)
        distances = np.full(len(fingerprints), NO_MATCH, np.uint8)
        new = 0
        for position, fingerprint in enumerate(fingerprints):
            rows[position], distances[position] = self._best(fingerprint)
            if rows[position] < 0:
                self._append(fingerprint, first_row + new)
                new += 1
        return Judgement(rows, distances, new)

    def query(self, fingerprints: NDArray[np.uint64]) -> Judgement:
        """The best match of each fingerprint among what is indexed. Changes nothing."""
        best = [self._best(fingerprint) for fingerprint in fingerprints]
        rows = np.array([row for row, _ in best], np.int64)
        return Judgement(rows, np.array([distance for _, distance in best], np.uint8), int((rows < 0).sum()))

    def query_then_insert(self, fingerprints: NDArray[np.uint64], first_row: int) -> Judgement:
        """As `judge`, but every fingerprint is indexed, the matched too: rows `first_row`, `first_row` + 1, …"""
        rows = np.full(len(fingerprints), -1, np.int64)
        distances = np.full(len(fingerprints), NO_MATCH, np.uint8)
        for position, fingerprint in enumerate(fingerprints):
            rows[position], distances[position] = self._best(fingerprint)
            self._append(fingerprint, first_row + position)
        return Judgement(rows, distances, int((rows < 0).sum()))

    def query_all(self, fingerprint: int) -> list[tuple[int, int]]:
        """Every match as (row, distance), by distance, then row."""
        return self._ranked(fingerprint, self.max_distance, self._size)

    def nearest(self, fingerprint: int, count: int) -> list[tuple[int, int]]:
        """The `count` most similar as (row, distance), by distance, then row; not limited by `max_distance`."""
        return self._ranked(fingerprint, 64, count)

    def insert(self, fingerprints: NDArray[np.uint64], rows: NDArray[np.uint32]) -> None:
        """Index `fingerprints[i]` as `rows[i]`, whether it has matches or not."""
        if len(fingerprints) != len(rows):
            raise ValueError(f"one row for each fingerprint, got {len(fingerprints)} fingerprints and {len(rows)} rows")
        for fingerprint, row in zip(fingerprints, rows, strict=True):
            self._append(fingerprint, int(row))

    def delete(self, fingerprint: int, row: int) -> bool:
        """Take one row out. False: it was not indexed under this fingerprint."""
        at = np.flatnonzero(
            (self._fingerprints[: self._size] == np.uint64(fingerprint)) & (self._rows[: self._size] == row)
        )
        if len(at) == 0:
            return False
        self._size -= 1
        self._fingerprints[at[0]] = self._fingerprints[self._size]
        self._rows[at[0]] = self._rows[self._size]
        return True

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """The content as two columns in row order: all that a snapshot needs."""
        order = np.argsort(self._rows[: self._size], kind="stable")
        return {"fingerprints": self._fingerprints[: self._size][order], "rows": self._rows[: self._size][order]}

    @classmethod
    def from_arrays(
        cls, arrays: dict[str, NDArray[np.generic]], max_distance: int = 3, documents_expected: int = 0
    ) -> PermutedIndex:
        """The index whose content is `arrays`, as `arrays()` gave it."""
        index = cls(max_distance, documents_expected)
        index.insert(arrays["fingerprints"].astype(np.uint64), arrays["rows"].astype(np.uint32))
        return index

    def check(self) -> None:
        """Assert the invariants."""
        assert self._size <= len(self._fingerprints) == len(self._rows)

    def _append(self, fingerprint: np.uint64, row: int) -> None:
        if self._size == len(self._rows):
            self._fingerprints = np.concatenate([self._fingerprints, np.empty_like(self._fingerprints)])
            self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])
        self._fingerprints[self._size] = fingerprint
        self._rows[self._size] = row
        self._size += 1

    def _best(self, fingerprint: np.uint64) -> tuple[int, int]:
        if self._size == 0:
            return -1, NO_MATCH
        distances = np.bitwise_count(self._fingerprints[: self._size] ^ fingerprint)
        smallest = int(distances.min())
        if smallest > self.max_distance:
            return -1, NO_MATCH
        return int(self._rows[: self._size][distances == smallest].min()), smallest

    def _ranked(self, fingerprint: int, distance_max: int, count: int) -> list[tuple[int, int]]:
        distances = np.bitwise_count(self._fingerprints[: self._size] ^ np.uint64(fingerprint))
        order = np.lexsort((self._rows[: self._size], distances))[:count]
        order = order[distances[order] <= distance_max]
        return [(int(self._rows[at]), int(distances[at])) for at in order]
