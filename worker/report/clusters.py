"""Originals and their copies: how large the clusters are, and the members of the largest."""

from __future__ import annotations

import tempfile
from array import array
from typing import NamedTuple

import numpy as np
import xxhash

from worker.core.verdict import Original, Verdict
from worker.shell.messages import decode_verdict

MEMBERS_READ_MAX = 200  # of a cluster; its size counts all


class Cluster(NamedTuple):
    """An original and its copies; `members` are the first of them by their verdicts, each document once."""

    original: Original
    size: int  # the original and all copies
    members: list[Verdict]

    @property
    def farthest(self) -> Verdict:
        """The member that is least like the original."""
        return min(self.members, key=_likeness)


def _likeness(verdict: Verdict) -> tuple[float, int]:
    match = verdict.duplicate_of
    return (match.similarity, -match.distance) if match else (1.0, 0)


class Clusters:
    """
    Copies by their originals.

    In memory a copy is 16 bytes: the hash of its original's doc_id, and where its verdict lies in a temporary file.
    """

    def __init__(self) -> None:
        self._originals = array("Q")
        self._places = array("q")
        self._end = 0
        self._kept = tempfile.TemporaryFile(prefix="neardup-report-")  # noqa: SIM115  # closed by `close`

    def add(self, original: str, value: bytes) -> None:
        """Take a copy of an original; `value` is its verdict as a message."""
        self._originals.append(xxhash.xxh3_64_intdigest(original.encode("utf-8", "surrogatepass")))
        self._places.append(self._end)
        self._end += self._kept.write(value.rstrip().replace(b"\n", b" ") + b"\n")

    def __len__(self) -> int:
        """Return the number of copies."""
        return len(self._originals)

    def sizes(self) -> dict[int, int]:
        """Return how many clusters there are of each size, the original included, the smallest first."""
        if not self._originals:
            return {}
        _, copies = np.unique(np.frombuffer(self._originals, np.uint64), return_counts=True)
        sizes, counts = np.unique(copies + 1, return_counts=True)
        return dict(zip(sizes.tolist(), counts.tolist(), strict=True))

    def largest(self, count: int) -> list[Cluster]:
        """Return the largest clusters; of equal ones the earlier."""
        if not self._originals:
            return []
        hashes, places = np.frombuffer(self._originals, np.uint64), np.frombuffer(self._places, np.int64)
        different, first, copies = np.unique(hashes, return_index=True, return_counts=True)
        found = []
        for number in np.lexsort((first, -copies))[:count].tolist():
            rows = np.flatnonzero(hashes == different[number])[:MEMBERS_READ_MAX]
            members = {one.doc_id: one for one in map(self._read, places[rows].tolist())}
            original = next(one.duplicate_of.original for one in members.values() if one.duplicate_of)
            found.append(Cluster(original, int(copies[number]) + 1, list(members.values())))
        return found

    def _read(self, place: int) -> Verdict:
        self._kept.seek(place)
        return decode_verdict(self._kept.readline())

    def close(self) -> None:
        """Give the temporary file back."""
        self._kept.close()
