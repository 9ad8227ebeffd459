"""
Which answers retention or compaction may have deleted, told by the log's order and by no clock.

A message may have the time of the worker that published it, if its topic was created before topics
of answers used broker time. Records of the log always have the broker's. So no times are compared.
If retention has deleted the beginning of a partition, `verify` looks up its oldest remaining
messages in the log. The first one that the log knows of decides:

    log      r1 decides X    r2 decides M    r3 knows that M is committed    r4 decides Y
    topic    X, deleted  │   M                                               Y

Answers that were deleted had been published before M. So they were decided by records before r3,
the first one that knows of M's commit, and an answer that r3 or a later record has decided is not
among them. If no record knows of M's commit, a later message says the same of what was published
before it. If no record knows of any, any answer may have been deleted.

`verify --mend` publishes an answer long after its commit, behind answers that later records have
decided. So such messages say nothing here: they have the header MENDED, and are passed over.

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
OLDEST_MAX = 100  # messages that are looked up for a partition, until the log knows of one
MENDED = "neardup.mended"  # the header of messages that `verify --mend` has published


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
            answers there to be committed, in the order of the answers. The first one decides: a
            later one would only hide more losses.

    >>> deleted_before([]), deleted_before([[None, 5, 7], [3]]), deleted_before([[3], [None]])
    (0, 5, 9223372036854775807)
    """
    stops = (
        next((record for record in records if record is not None), EVERYTHING)
        for records in remains
    )
    return max(stops, default=0)
