"""A replica and the two ends of its log, the same for Kafka and for files: append what the log lacks, and apply it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import numpy as np
import structlog

from worker.errors import StopError
from worker.log.acceptance import Ignored
from worker.log.record import FORMAT_VERSION, encode
from worker.log.replica import Replica
from worker.log.rows import Author, Rows, Section
from worker.shell.pipeline.commit_metadata import CommitMetadata, digest
from worker.shell.ports import LogEntry, LogReader, LogWriter
from worker.shell.runtime import metrics

_log = structlog.get_logger(__name__)

PATIENCE_S = 120.0  # longer than a new leader takes


class ReplicatedLog:
    """A replica that follows the log, and the worker's way to add to it."""

    def __init__(
        self,
        replica: Replica,
        reader: LogReader,
        writer: LogWriter,
        author: Author,
        record_bytes_max: int,
        log_id: str = "",
        record_format: int = 0,
    ) -> None:
        self.replica = replica
        self._reader = reader
        self._writer = writer
        self._author = author
        self._record_bytes_max = record_bytes_max
        self._log_id = log_id
        self._last: LogEntry | None = None
        self._record_format = record_format
        self._told: set[Ignored] = set()
        self._live_from = 0

    def restore(self, on_idle: Callable[[], None] = lambda: None, stop: threading.Event | None = None) -> int:
        """
        Apply the log from where the replica stands to its present end; return the number of records.

        Args:
            on_idle: called again and again while the replica stands still, to take a snapshot of a long way.

            stop: ends it before the end.

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
        self._live_from = high
        records = 0
        progress_s = time.monotonic()
        while (position := max(self.replica.next_offset, self._reader.position())) < high and not (
            stop and stop.is_set()
        ):
            records += self.follow(1.0)
            on_idle()
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
        """Apply what the log has now, after at most `wait_s` for the first record; return the number of records."""
        entries = self._reader.read(wait_s)
        for offset, timestamp_ms, value in entries:
            applied = self.replica.read(value, offset, timestamp_ms)
            metrics.REPEATED_ROWS.inc(applied.repeated)
            if applied.ignored:
                self._tell(applied.ignored, offset, value)
        if entries:
            self._last = entries[-1]
            metrics.LOG_OFFSET.set(self.replica.next_offset)
            metrics.DOCUMENTS_INDEXED.set(self.replica.documents)
        return len(entries)

    def missing(self, section: Section) -> list[Section]:
        """Return what of a section the log does not hold yet."""
        return [
            section._replace(first=gap.first, stop=gap.stop, rows=_between(section.rows, gap.first, gap.stop))
            for gap in self.replica.missing(section.source, section.first, section.stop)
        ]

    def append(self, sections: Sequence[Section]) -> None:
        """
        Append to the log and apply everything up to there, what other workers appended before included.

        Raises:
            DefinitionError: another worker has given the log its definition, which is not this one's.
            StopError: the log has the records, and the replicas ignore them.
        """
        if not sections:
            return
        acceptance = self.replica.acceptance
        if not acceptance.record_format or acceptance.record_format < self._record_format:
            wanted, raises = self._record_format or FORMAT_VERSION, self._record_format > 0
            self._append([self.replica.definition.declaration(self._author.name, wanted, raises=raises)])
        self._append(list(encode(self._author, sections, self._record_bytes_max, acceptance.record_format)))
        for section in sections:
            if self.replica.missing(section.source, section.first, section.stop):
                raise StopError(
                    f"the log does not take this worker's records: those of offsets [{section.first}, {section.stop}) "
                    f"of partition {section.source.partition} were appended and are ignored by every replica. Run the "
                    f"version and the settings of the other workers"
                )

    def _append(self, records: Sequence[bytes]) -> None:
        last = self._writer.append(records)
        while self.replica.next_offset <= last:
            self.follow(1.0)

    def _tell(self, reason: Ignored, offset: int, value: bytes) -> None:
        """Count a record that is ignored, if it came after the start; the first of each reason is told."""
        if offset >= self._live_from:
            metrics.LOG_RECORDS_IGNORED.labels(reason).inc()
        if reason not in self._told:
            self._told.add(reason)
            _log.warning("a record of the log is ignored", reason=reason, offset=offset, start=repr(value[:40]))

    def behind(self) -> int:
        """Return how many records are known to be there and have not been applied; asks nobody."""
        return max(self._reader.end_seen() - self.replica.next_offset, 0)

    def log_end(self) -> int:
        """Return the offset behind the log's last record."""
        return self._reader.end()[1]

    def commit_metadata(self) -> CommitMetadata:
        """Return the log and how much of it has been applied. Cost: 0.1 ms for the longest record."""
        last, stop = self._last, self.replica.next_offset
        return CommitMetadata(
            self._log_id, stop, digest(last.value) if last is not None and last.offset + 1 == stop else ""
        )


def _between(rows: Rows, first: int, stop: int) -> Rows:
    return rows.between(*np.searchsorted(rows.offsets, [first, stop]).tolist())
