"""
The ordered part of the pipeline, the same for Kafka and for files: append what the log lacks, apply, answer.

`Ordering` owns a replica and the two ends of the log. It gives what to publish and publishes nothing itself.
"""

from __future__ import annotations

import bisect
import time
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import NamedTuple

from worker.core.verdict import Verdict
from worker.errors import StopError
from worker.log.record import Author, Row, Section, Source, decode, encode
from worker.log.replica import Rejection, Replica
from worker.shell import metrics
from worker.shell.lineage import Lineage
from worker.shell.ports import LogReader, LogWriter

__all__ = ["PATIENCE_S", "Ordering", "Part"]

PATIENCE_S = 120.0  # longer than a new leader takes


class Part(NamedTuple):
    """What a worker read of one source: offsets [first, stop), a row for each message, what it knows as committed."""

    source: Source
    first: int
    stop: int
    committed: int
    rows: Sequence[Row]


class Ordering:
    """A replica that follows the log, and the worker's way to add to it."""

    def __init__(
        self,
        replica: Replica,
        reader: LogReader,
        writer: LogWriter,
        author: Author,
        record_bytes_max: int,
        log_id: str = "",
    ) -> None:
        self.replica = replica
        self._reader = reader
        self._writer = writer
        self._author = author
        self._record_bytes_max = record_bytes_max
        self._log_id = log_id

    def restore(self, between: Callable[[], None] = lambda: None) -> int:
        """
        Apply the log from where the replica stands to its present end; give the number of records.

        Args:
            between: called again and again while the replica stands still, to take a snapshot of a long way.

        Raises:
            StopError: the log starts after that point or ends before it: it was truncated or recreated. Or it has given
                nothing for `PATIENCE_S`.
        """
        low, high = self._reader.end()
        at = self.replica.next_offset
        if low > at:
            raise StopError(
                f"the log starts at offset {low}, but the replica needs {at}: records have been deleted. Set the "
                f"topic's retention to unlimited, and build a new log from the documents"
            )
        if high < at:
            raise StopError(f"the replica stands at offset {at}, past the log's end ({high}): the topic was recreated")
        records = 0
        progress_s = time.monotonic()
        while (position := max(self.replica.next_offset, self._reader.position())) < high:
            records += self.follow(1.0)
            between()
            now_s = time.monotonic()
            if max(self.replica.next_offset, self._reader.position()) > position:
                progress_s = now_s
            elif now_s - progress_s > PATIENCE_S:
                raise StopError(
                    f"the log gave nothing for {PATIENCE_S:g} s, at offset {position} of {high}: is the leader of its "
                    f"partition there? Start again when it is"
                )
        return records

    def follow(self, wait_s: float) -> int:
        """Apply what the log has to offer now; wait up to `wait_s` for the first record. Give the number of records."""
        entries = self._reader.read(wait_s)
        for offset, timestamp_ms, value in entries:
            applied = self.replica.apply(decode(value), offset, timestamp_ms)
            metrics.REPEATED_ROWS.inc(applied.repeated)
        if entries:
            metrics.LOG_OFFSET.set(self.replica.next_offset)
            metrics.DOCUMENTS_INDEXED.set(self.replica.documents)
        return len(entries)

    def missing(self, parts: Sequence[Part]) -> list[Section]:
        """Give what of these parts the log does not hold yet."""
        return [
            Section(part.source, gap.first, gap.stop, part.committed, _between(part.rows, gap.first, gap.stop))
            for part in parts
            for gap in self.replica.missing(part.source, part.first, part.stop)
        ]

    def append(self, sections: Sequence[Section]) -> None:
        """Append to the log and apply everything up to there, what other workers appended before included."""
        if sections:
            last = self._writer.append(list(encode(self._author, sections, self._record_bytes_max)))
            while self.replica.next_offset <= last:
                self.follow(1.0)

    def behind(self) -> int:
        """Give how many records are known to be there and have not been applied; asks nobody."""
        return max(self._reader.end_seen() - self.replica.next_offset, 0)

    def log_end(self) -> int:
        """Give the offset behind the log's last record."""
        return self._reader.end()[1]

    def lineage(self) -> Lineage:
        """Give the log and how much of it has been applied."""
        return Lineage(self._log_id, self.replica.next_offset)

    def answers(self, part: Part, topic: str) -> list[Verdict | Rejection]:
        """Give the log's answer to each row of a part, in order."""
        return self.replica.answers(part.source, [row.offset for row in part.rows], topic)


def _between(rows: Sequence[Row], first: int, stop: int) -> Sequence[Row]:
    begin = bisect.bisect_left(rows, first, key=attrgetter("offset"))
    return rows[begin : bisect.bisect_left(rows, stop, begin, key=attrgetter("offset"))]
