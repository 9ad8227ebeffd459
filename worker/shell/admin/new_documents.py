"""Audits the topic of new documents against the log."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import xxhash
from numpy.typing import NDArray

from worker.core.document import FORWARDED, Outcome
from worker.log.record import Source
from worker.shell.admin.remains import KnownCommits, deleted_before
from worker.shell.messages import VerdictBytes


class NewDocuments:
    """
    Compares the topic of new documents with the log: one message for each `new` or `deleted`, and
    no other.

    Give it the topic's messages first (`take`), then the log's verdicts (`expect`), then ask what
    is `missing` and what was `invented`. A message counts as its key, and whether its value is
    null.

    Args:
        is_whole: the topic has been written since the log began. If False, nothing is missed before
            a source partition's first document in the topic, because `topic_new` was set later.
        is_compacted: messages may have been replaced by later ones of the same key, so none is
            missed.

    Cost: 8 bytes per message in the topic, and 32 bytes per message that must be there.
    """

    def __init__(self, *, is_whole: bool = False, is_compacted: bool = False) -> None:
        self._is_whole = is_whole
        self._is_compacted = is_compacted
        self._found = array("Q")
        self._oldest: list[list[int]] = []
        self._sources: dict[Source, int] = {}
        self._wanted = {
            "digest": array("Q"),
            "source": array("q"),
            "offset": array("q"),
            "record": array("q"),
        }

    def __len__(self) -> int:
        """Return how many messages stand in the topic."""
        return len(self._found)

    def take(self, key: bytes | None, value: bytes | None) -> None:
        """Take a committed message of the topic."""
        self._found.append(_digest_new(key, is_null=value is None))

    def take_oldest(self, messages: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        """
        Take the oldest messages left of a partition of which retention has deleted some.

        Ask for them after the last `take`, because retention goes on meanwhile. See `remains.py`.
        """
        self._oldest.append([_digest_new(key, is_null=value is None) for key, value in messages])

    def expect(self, source: Source, offset: int, verdict: VerdictBytes, log_offset: int) -> None:
        """Take the log's verdict on a source offset, which the record at a log offset decided."""
        if verdict.outcome in FORWARDED:
            digest = _digest_new(verdict.key, is_null=verdict.outcome is Outcome.DELETED)
            number = self._sources.setdefault(source, len(self._sources))
            row = digest, number, offset, log_offset
            for column, field in zip(self._wanted.values(), row, strict=True):
                column.append(field)

    def missing(
        self, stops: Mapping[Source, int], commits: KnownCommits, *, has_carried: bool = False
    ) -> Iterator[tuple[Source, int, str]]:
        """
        Yield source, offset and kind of each message that must be there, because it is committed
        below these stops, but is missing.

        Args:
            stops: the group's offsets.
            commits: what the log knows of them. By it a message is not missed that retention may
                have deleted.
            has_carried: the log goes on from an older one, and the topic has what that one
                forwarded. A message without a verdict in this log was committed before its first
                record.
        """
        if self._is_compacted:
            return
        digest, source, offset, record = (
            np.frombuffer(column, column.typecode) for column in self._wanted.values()
        )
        stop = np.array([stops.get(source, 0) for source in self._sources], np.int64)
        first = np.zeros(len(stop), np.int64)
        stands = _standing(digest, _array(self._found))
        if not self._is_whole:
            first += np.iinfo(np.int64).max
            np.minimum.at(first, source[stands], offset[stands])
        sources = list(self._sources)
        # Of equal messages the last ones are left. So the first row that stands is the oldest one.
        first_row: dict[int, int] = {}
        oldest = np.array([one for part in self._oldest for one in part], np.uint64)
        for row in np.flatnonzero(stands & np.isin(digest, oldest)).tolist():
            first_row.setdefault(int(digest[row]), row)
        records: list[list[int | None]] = []
        for part in self._oldest:
            known: list[int | None] = []
            for one in part:
                at = first_row.get(one)
                if at is not None:
                    known.append(commits.record_of(sources[source[at]], int(offset[at])))
                elif has_carried:
                    known.append(0)
            records.append(known)
        for row in np.flatnonzero(~stands & (record >= deleted_before(records))).tolist():
            number = source[row]
            if first[number] <= offset[row] < stop[number]:
                yield sources[number], int(offset[row]), "not in the topic of new documents"

    def invented(self) -> Iterator[str]:
        """Describe each message of the topic that has no verdict."""
        found = _array(self._found)
        for digest in found[~_standing(found, _array(self._wanted["digest"]))].tolist():
            yield (
                "in the topic of new documents without such a verdict: "
                f"a key with XXH3 {digest:016x}"
            )


def _array(column: array[int]) -> NDArray[np.uint64]:
    return np.frombuffer(column, np.uint64)


def _standing(these: NDArray[np.uint64], others: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """
    Return which of these hashes also appear among the others.

    If equal hashes appear less often there, the last ones count.
    """
    values, group, counts = np.unique(these, return_inverse=True, return_counts=True)
    others = np.sort(others)
    there = np.searchsorted(others, values, "right") - np.searchsorted(others, values, "left")
    order = np.argsort(group, kind="stable")
    found = np.zeros(len(these), np.bool_)
    found[order] = np.arange(len(these)) >= (np.cumsum(counts) - there)[group[order]]
    return found


def _digest_new(key: bytes | None, *, is_null: bool) -> int:
    return xxhash.xxh3_64_intdigest(key or b"", seed=is_null)
