"""
Which source partitions are ours, and since when: what the intake thread and the ordering thread agree on.

A batch remembers the ownership under which it was read. It may be published only while that still holds: partitions
that have been revoked, lost or rewound since then are dropped from it, because their new owner (which may be this
worker again) reads them once more from the committed offset.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

__all__ = ["Claim", "Ownership"]


class Claim(NamedTuple):
    """The ownership of one partition at one time."""

    partition: int
    assignment: int  # counts the partition's assignments to us
    rewind: int  # counts the times that everything was read again


class Ownership:
    """Owned partitions, the group membership that proves it, and the committed offsets as far as we know them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._publishing = threading.Lock()
        self._assignments: dict[int, int] = {}  # partition -> count, owned ones only
        self._count = 0
        self.rewinds = 0
        self.committed: dict[int, int] = {}
        self.membership: Any = None

    def partitions(self) -> list[int]:
        """Return the owned partitions, in order."""
        with self._lock:
            return sorted(self._assignments)

    def assign(self, starts: dict[int, int | None]) -> None:
        """Take partitions over, with their committed offsets (None: none)."""
        with self._lock:
            for partition, start in starts.items():
                self._count += 1
                self._assignments[partition] = self._count
                self.committed[partition] = -1 if start is None else start

    def drop(self, partitions: list[int]) -> None:
        """Give partitions up at once."""
        with self._lock:
            for partition in partitions:
                self._assignments.pop(partition, None)
                self.committed.pop(partition, None)

    def give_up(self, partitions: list[int], wait_s: float) -> bool:
        """Give partitions up and wait for the end of a transaction with their offsets; return whether it came."""
        self.drop(partitions)
        ended = self._publishing.acquire(timeout=wait_s)
        if ended:
            self._publishing.release()
        return ended

    def rewind(self) -> None:
        """Invalidate every batch that has been read so far."""
        with self._lock:
            self.rewinds += 1

    def claim(self, partition: int, rewinds: int) -> Claim | None:
        """Return the claim on a partition for what was read after `rewinds` rewinds; None if it is not ours."""
        with self._lock:
            assignment = self._assignments.get(partition)
            return None if assignment is None else Claim(partition, assignment, rewinds)

    def holds(self, claim: Claim) -> bool:
        """Return whether what was read under this claim may still be published."""
        with self._lock:
            return claim.rewind == self.rewinds and self._assignments.get(claim.partition) == claim.assignment

    @contextmanager
    def publishing(self) -> Iterator[None]:
        """Hold off revocations while a transaction runs; check `holds` inside."""
        with self._publishing:
            yield

    def mark_committed(self, offsets: dict[int, int]) -> None:
        """Remember what has been committed."""
        with self._lock:
            for partition, offset in offsets.items():
                if partition in self._assignments:
                    self.committed[partition] = offset
