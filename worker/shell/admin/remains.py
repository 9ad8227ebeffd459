"""
Which answers retention or compaction may have deleted, told by the log's order and by no clock.

A message has the time of the worker that published it, and a record of the log that of a broker. So
no times are compared. Of each partition of answers that has lost its beginning, the oldest messages
that are left are looked up in the log:

    log      r1 decides X    r2 decides M    r3 knows that M is committed    r4 decides Y
    topic    X, deleted  │   M                                               Y

Answers that were deleted had been published before M. So they were decided by records before r3,
the first one that knows of M's commit, and an answer that r3 or a later record has decided is not
among them. If no record knows of M's commit, any answer may have been deleted.

Rejected, and why
- The time stamp of M: if that worker's clock is days behind, deleted answers are called lost, and
  `verify --mend` publishes them again. If it is ahead, answers that are lost are called deleted.
- The time at which M was decided: a worker that takes over the partitions of a dead one publishes
  what was decided hours before, behind other workers' later answers.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable

from worker.log.record import Source

EVERYTHING = (1 << 63) - 1  # behind all records
# Messages that are looked up for a partition. The last record of all theirs counts, because
# `verify --mend` may have published one of them long after its commit.
OLDEST_MAX = 100


class KnownCommits:
    """The records of a log by which it knows what is committed. Cost: 16 bytes per section."""

    def __init__(self) -> None:
        self._known: dict[Source, tuple[array[int], array[int]]] = {}

    def take(self, source: Source, committed: int, log_offset: int) -> None:
        """Take what the log's next record says of a source."""
        if committed > self.last(source):
            stops, records = self._known.setdefault(source, (array("q"), array("q")))
            stops.append(committed)
            records.append(log_offset)

    def last(self, source: Source) -> int:
        """Return the largest committed offset of a source that the log knows; 0: none."""
        known = self._known.get(source)
        return known[0][-1] if known else 0

    def record_of(self, source: Source, offset: int) -> int | None:
        """Return the offset of the first record that knows a source offset to be committed."""
        stops, records = self._known.get(source, ((), ()))
        at = bisect_right(stops, offset)
        return records[at] if at < len(stops) else None


def deleted_before(remains: Iterable[Iterable[int | None]]) -> int:
    """
    Return the log offset before which answers may have been deleted.

    Args:
        remains: of each partition that has lost its beginning, the records that know the oldest
            answers there to be committed.

    >>> deleted_before([]), deleted_before([[7, None, 5], [3]]), deleted_before([[3], [None]])
    (0, 7, 9223372036854775807)
    """
    stops = []
    for records in remains:
        known = [record for record in records if record is not None]
        stops.append(max(known, default=EVERYTHING))
    return max(stops, default=0)
