"""
The ordered log and the sequencer: prepared batches in order, the log decides, its answers go on to
be published.

The sequencer's thread alone reads and writes the log and changes the replica; the writer of a
snapshot, and a scrape, look on.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import NamedTuple, Self

import numpy as np
import structlog
import xxhash

from worker.errors import DocumentError, RetryError, StopError
from worker.log.record import FORMAT_VERSION, Author, Section, Source, encode
from worker.log.replica import Replica
from worker.log.rules import Ignored
from worker.settings import Settings
from worker.shell.messages import VerdictBytes, encode_answers
from worker.shell.pipeline.partitions import Partitions
from worker.shell.pipeline.publishing import Publishing
from worker.shell.pipeline.stage import POLL_S, Batch, Stage
from worker.shell.ports import LogEntry, LogReader, LogWriter
from worker.shell.runtime import metrics
from worker.shell.runtime.fault_hooks import FaultHook, Point, never
from worker.shell.runtime.health import Watchdog

PATIENCE_S = 120.0  # longer than a new leader takes
IDLE_S = 0.01  # longest wait for a batch
STOP_GRACE_S = 10.0  # supervisors kill after 30 s

_log = structlog.get_logger(__name__)


class CommitMetadata(NamedTuple):
    """
    A log and the next offset in it, kept beside each committed offset: the group's offsets outlive
    the log.

    >>> CommitMetadata.parse(str(CommitMetadata("0d9f", 7, "5c")))
    CommitMetadata(log_id='0d9f', next_offset=7, digest='5c')
    """

    log_id: str  # of the topic, in hex
    next_offset: int
    digest: str = ""  # of the record before `next_offset`; empty: not known

    def __str__(self) -> str:
        return f"log={self.log_id} next={self.next_offset}" + (
            f" last={self.digest}" if self.digest else ""
        )

    @classmethod
    def parse(cls, metadata: str | None) -> Self | None:
        """Read what a worker has written; None for an offset that was set by hand."""
        fields = dict(part.partition("=")[::2] for part in (metadata or "").split())
        try:
            return cls(fields["log"], int(fields["next"]), fields.get("last", ""))
        except (KeyError, ValueError):
            return None


def record_digest(record: bytes) -> str:
    """Return 64 bits of a record, in hex."""
    return xxhash.xxh3_64_hexdigest(record)


@dataclass(eq=False)
class ReplicatedLog:
    """A replica that follows the log, and the worker's way to add to it."""

    replica: Replica
    reader: LogReader
    writer: LogWriter
    author: Author
    record_bytes_max: int
    log_id: str = ""
    record_format: int = 0
    _last: LogEntry | None = field(default=None, init=False)
    _told: set[Ignored] = field(default_factory=set, init=False)
    _live_from: int = field(default=0, init=False)

    def restore(
        self, on_idle: Callable[[], None] = lambda: None, stop: threading.Event | None = None
    ) -> int:
        """
        Apply the log from where the replica stands to its present end; return the number of
        records.

        Args:
            on_idle: called again and again while the replica stands still, to take a snapshot of a
                long way.
            stop: ends it before the end.

        Raises:
            StopError: the log starts after that point or ends before it: it was truncated or
                recreated. Or it has given
                nothing for `PATIENCE_S`.
        """
        low, high = self.reader.end()
        at = self.replica.next_offset
        if low > at:
            raise StopError(
                f"the log starts at offset {low}, but the replica needs {at}: records have been "
                f"deleted. Set the "
                f"topic's retention to unlimited, and build a new log from the documents"
            )
        if high < at:
            raise StopError(
                f"the replica stands at offset {at}, past the log's end ({high}): the topic was "
                f"recreated"
            )
        self._live_from = high
        records = 0
        progress_s = time.monotonic()
        while (position := max(self.replica.next_offset, self.reader.position())) < high and not (
            stop and stop.is_set()
        ):
            records += self.follow(1.0)
            on_idle()
            now_s = time.monotonic()
            if max(self.replica.next_offset, self.reader.position()) > position:
                progress_s = now_s
            elif now_s - progress_s > PATIENCE_S:
                raise StopError(
                    f"the log gave nothing for {PATIENCE_S:g} s, at offset {position} of {high}: "
                    f"is the leader of its "
                    f"partition there? Start again when it is"
                )
        return records

    def follow(self, wait_s: float) -> int:
        """
        Apply what the log has now, after at most `wait_s` for the first record; return the number
        of records.
        """
        entries = self.reader.read(wait_s)
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
            section._replace(
                first=gap.first,
                stop=gap.stop,
                rows=section.rows.between(*np.searchsorted(section.rows.offsets, gap).tolist()),
            )
            for gap in self.replica.missing(section.source, section.first, section.stop)
        ]

    def append(self, sections: Sequence[Section]) -> None:
        """
        Append to the log and apply everything up to there, what other workers appended before
        included.

        Raises:
            DefinitionError: another worker has given the log its definition, which is not this
                one's.
            StopError: the log has the records, and the replicas ignore them.
        """
        if not sections:
            return
        acceptance = self.replica.acceptance
        if not acceptance.record_format or acceptance.record_format < self.record_format:
            wanted = self.record_format or FORMAT_VERSION
            raises = self.record_format > 0
            self._append(
                [self.replica.definition.declaration(self.author.name, wanted, raises=raises)]
            )
        self._append(
            list(encode(self.author, sections, self.record_bytes_max, acceptance.record_format))
        )
        for section in sections:
            if self.replica.missing(section.source, section.first, section.stop):
                raise StopError(
                    f"the log does not take this worker's records: those of offsets "
                    f"[{section.first}, {section.stop}) "
                    f"of partition {section.source.partition} were appended and are ignored by "
                    f"every replica. Run the "
                    f"version and the settings of the other workers"
                )

    def _append(self, records: Sequence[bytes]) -> None:
        last = self.writer.append(records)
        while self.replica.next_offset <= last:
            self.follow(1.0)

    def _tell(self, reason: Ignored, offset: int, value: bytes) -> None:
        """
        Count a record that is ignored, if it came after the start; the first of each reason is
        told.
        """
        if offset >= self._live_from:
            metrics.LOG_RECORDS_IGNORED.labels(reason).inc()
        if reason not in self._told:
            self._told.add(reason)
            _log.warning(
                "a record of the log is ignored",
                reason=reason,
                offset=offset,
                start=repr(value[:40]),
            )

    def behind(self) -> int:
        """Return how many records are known to be there and have not been applied; asks nobody."""
        return max(self.reader.end_seen() - self.replica.next_offset, 0)

    def commit_metadata(self) -> CommitMetadata:
        """
        Return the log and how much of it has been applied. Cost: 0.1 ms for the longest record.
        """
        last = self._last
        stop = self.replica.next_offset
        return CommitMetadata(
            self.log_id,
            stop,
            record_digest(last.value) if last is not None and last.offset + 1 == stop else "",
        )


@dataclass(eq=False)
class Sequencer:
    """The stage between preparing and publishing, on the thread that runs it."""

    settings: Settings
    topic_id: bytes  # of the source topic, as the log knows it
    log: ReplicatedLog
    partitions: Partitions
    preparer: Stage
    publishing: Publishing
    watchdog: Watchdog
    _: KW_ONLY
    reach: FaultHook = never
    clock: Callable[[], float] = time.monotonic
    _awaited_since_s: float = field(default=0.0, init=False)
    _closed_at_s: float = field(default=math.inf, init=False)

    def run(self, on_idle: Callable[[], None]) -> None:
        """
        Sequence batch after batch, and follow the log while there is none, until all have been
        published.

        `on_idle` is called in between, whether there are batches or not: the replica stands still
        while it runs.
        """
        try:
            while not self.preparer.join(0):
                on_idle()
                self.step(IDLE_S)
            self.publishing.close()
            while not self.publishing.join(POLL_S):
                self.follow()
            self.follow()
        except BaseException:
            self.publishing.close(finish=False)
            self.publishing.join(self.settings.call_timeout_s)
            raise

    def close(self) -> None:
        """Wait for no batch longer than ten seconds from now on."""
        self._closed_at_s = min(self._closed_at_s, self.clock())

    def step(self, wait_s: float = 0.0) -> None:
        """Sequence the next batch; without one follow the log."""
        if batch := self.preparer.poll(wait_s):
            self._sequence(batch)
        else:
            self.follow()
        if batch or not len(self.preparer):
            self._awaited_since_s = self.clock()
        elif self.clock() > max(self._awaited_since_s, self._closed_at_s) + STOP_GRACE_S:
            _log.warning("stopping without the last batch: its documents stay uncommitted")
            self.preparer.close(finish=False)  # and without the ones behind it

    def follow(self) -> None:
        """Apply what the log has, and forget what has been committed."""
        self.log.follow(0)
        self._forget()

    def _forget(self) -> None:
        while batch := self.publishing.poll():
            for share in batch.shares:
                self.log.replica.committed(self._source(share.claim.partition), share.stop)
        metrics.PENDING_BATCHES.set(sum(map(len, self.log.replica.pending.values())))

    def _source(self, partition: int) -> Source:
        return Source(self.topic_id, partition)

    def _sequence(self, batch: Batch) -> None:
        """
        Get every message of a batch its answer, if its partition is still ours, and hand them on.
        """
        if not batch.drop_void(self.partitions):
            return
        self._forget()
        self._append(batch)
        try:
            with metrics.STAGE_S.labels("answer").time():
                batch.answers = self._answers(batch)
            batch.commit_metadata = str(self.log.commit_metadata())
        except RetryError as error:
            batch.failure = error
        while not self.publishing.submit(batch, POLL_S):
            self.follow()

    def _append(self, batch: Batch) -> None:
        """Append what the log lacks of a batch, and apply it."""
        limit_s = 2 * self.settings.call_timeout_s
        with (
            self.watchdog.limit("appending to the log", limit_s),
            metrics.STAGE_S.labels("append").time(),
        ):
            self.log.follow(0)
            lacking = list(self._lacking(batch))
            self.reach(Point.BEFORE_APPEND)
            self.log.append(lacking)
        self.reach(Point.AFTER_APPEND)

    def _lacking(self, batch: Batch) -> Iterator[Section]:
        known = self.partitions.known()
        for share in batch.shares:
            partition = share.claim.partition
            rows = batch.rows.between(share.begin, share.end)
            committed = known[partition].published if partition in known else -1
            yield from self.log.missing(
                Section(self._source(partition), share.first, share.stop, committed, rows)
            )

    def _answers(self, batch: Batch) -> list[VerdictBytes | DocumentError | None]:
        """Return the log's answer to each message, None where it is not ours any more."""
        answers: list[VerdictBytes | DocumentError | None] = [None] * len(batch.messages)
        for share in batch.shares:
            offsets = batch.rows.offsets[share.begin : share.end].tolist()
            source = self._source(share.claim.partition)
            answers[share.begin : share.end] = self.log.replica.answers(
                source, offsets, self.settings.topic_documents, encode_answers
            )
        return answers
