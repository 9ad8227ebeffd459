"""
A replica that follows the ordered log, together with the writer that appends to it.

The sequencer's thread follows and appends. Any other thread may ask what the log says: see
`ReplicatedLog`.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, TypeVar

import numpy as np

from worker.core.planner import Growth
from worker.errors import StopError
from worker.log.record import (
    FORMAT_VERSION,
    RECORD_BYTES_MAX,
    Author,
    Rows,
    Section,
    Source,
    encode,
)
from worker.log.replica import Encoder, LatestOriginal, Replica, SourceReach
from worker.log.rules import Ignored
from worker.shell.pipeline.offsets import CommitMetadata
from worker.shell.ports import LogReader, LogWriter
from worker.shell.runtime import metrics
from worker.shell.runtime.logging import get_logger

PATIENCE_S = 120.0  # longer than a new leader takes
AWAIT_S = 0.5  # how long the intake waits for the log; the group waits meanwhile

Encoded = TypeVar("Encoded")

_log = get_logger(__name__)


class AsOfOffset(NamedTuple):
    """The state of the replica that gave an answer, as `schemas.ask.AsOf` says it."""

    log_offset: int  # of the log's next record
    behind: int | None  # records known to be there and not applied yet


class FairLock:
    """
    A lock that goes to the thread that has waited the longest.

    Python's own lock goes to any thread. A thread that releases it and takes it again at once, as
    the sequencer's does between two calls of the judge, nearly always gets it. With this lock, a
    question waits for at most one call, of one record or of those that were waiting
    (`Replica.read_together`), and a call waits only for the questions that came before it.

    >>> lock = FairLock()
    >>> with lock:
    ...     lock.is_held
    True
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._waiting: deque[threading.Lock] = deque()
        self.is_held = False

    def __enter__(self) -> None:
        with self._guard:
            if not self.is_held:
                self.is_held = True
                return
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append(turn)
        turn.acquire()  # the holder hands the lock over without releasing it in between

    def __exit__(self, *_: object) -> None:
        with self._guard:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self.is_held = False


@dataclass(eq=False)
class ReplicatedLog:
    """
    A replica that follows the log, together with the writer that appends to it.

    Only one thread follows and appends. Any thread may ask: questions and records take turns, so
    each answer describes the replica at one offset. The one thread also writes answers, forgets
    verdicts and takes snapshots. A question may run at the same time, because it reads columns,
    which these leave as they are, and changes tables, which these do not read.

    Attributes:
        check_founder: gets the author of the log's definition as soon as there is one, and refuses
            that of another group.
    """

    record_bytes_max: ClassVar[int] = RECORD_BYTES_MAX  # the simulation makes several of a batch
    replica: Replica
    reader: LogReader
    writer: LogWriter
    author: Author
    log_id: str = ""
    check_founder: Callable[[str], None] = lambda _: None
    _is_begun: bool = field(default=False, init=False)
    _told: set[Ignored] = field(default_factory=set, init=False)
    _live_from: int = field(default=0, init=False)
    # All below is applied. Unlike the replica's next offset, it also passes over gaps in the log.
    _applied: int = field(default=0, init=False)
    _turns: FairLock = field(default_factory=FairLock, init=False)
    _growth: Growth = field(init=False)

    def __post_init__(self) -> None:
        self._applied = self.replica.next_offset
        self._growth = Growth(self.replica.definition.search, "neardup rebuild with")
        metrics.DOCUMENTS_SERVED.set(self._growth.documents_max or 0)
        self._tell_state()

    def restore(
        self, on_idle: Callable[[], None] = lambda: None, stop: threading.Event | None = None
    ) -> int:
        """
        Apply the log from where the replica stands to its present end.

        Args:
            on_idle: called between records, so that a long replay can take snapshots.
            stop: ends it before the end.
        Returns:
            The number of records.
        Raises:
            StopError: the log starts after the replica's offset or ends before it, because it was
                truncated or recreated. Or it returned nothing for `PATIENCE_S`; or another group
                has begun it.
        """
        low, high = self.reader.end()
        at = self.replica.next_offset
        if low > at:
            raise StopError(
                f"the log starts at offset {low}, but the replica needs {at}: records have been "
                "deleted. Set the topic's retention to unlimited, "
                "and build a new log from the documents"
            )
        if high < at:
            raise StopError(
                f"the replica stands at offset {at}, past the log's end ({high}): "
                "the topic was recreated"
            )
        self._live_from = high
        records = self.restore_to(high, on_idle, stop)
        self._check_begun()  # where a snapshot has all of the log, nothing was read
        return records

    def restore_to(
        self,
        end: int,
        on_idle: Callable[[], None] = lambda: None,
        stop: threading.Event | None = None,
    ) -> int:
        """
        Apply the log up to an offset that it has reached. The arguments are those of `restore`.

        Returns:
            The number of records.
        Raises:
            StopError: it returned nothing for `PATIENCE_S`.
        """
        records = 0
        progress_s = time.monotonic()
        position = self._position()
        while position < end and not (stop and stop.is_set()):
            records += self.follow(1.0)
            on_idle()
            now_s = time.monotonic()
            before = position
            position = self._position()
            if position > before:
                progress_s = now_s
            elif now_s - progress_s > PATIENCE_S:
                raise StopError(
                    f"the log gave nothing for {PATIENCE_S:g} s, at offset {position} of {end}: "
                    "is the leader of its partition there? Start again when it is"
                )
        return records

    def _position(self) -> int:
        """Return the next offset to read: at the log's end there may be markers and no records."""
        return max(self.replica.next_offset, self.reader.position())

    def follow(self, wait_s: float) -> int:
        """
        Apply what the log has now; return the number of records.

        `wait_s` is how long it waits for the first one.

        Raises StopError: another group has begun the log.
        """
        entries = self.reader.read(wait_s)
        done = 0
        while done < len(entries):
            with self._turns:
                results = self.replica.read_together(entries[done:])
            for applied, entry in zip(results, entries[done:], strict=False):
                metrics.REPEATED_ROWS.inc(applied.repeated)
                if applied.ignored:
                    self._tell(applied.ignored, entry.offset, entry.value)
            done += len(results)
        self._check_begun()
        if entries:
            self._tell_state()
            notice = self._growth.notice(self.replica.documents)
            if notice:
                _log.warning("the index outgrows its search", notice=notice)
        self._applied = self._position()
        return len(entries)

    def _tell_state(self) -> None:
        metrics.LOG_OFFSET.set(self.replica.next_offset)
        metrics.DOCUMENTS_INDEXED.set(self.replica.documents)

    def _check_begun(self) -> None:
        """Check the log's founder, as soon as the log has a definition."""
        declared = self.replica.acceptance.declared
        if declared is not None and not self._is_begun:
            self._is_begun = True
            self.check_founder(declared.author)

    def missing(self, section: Section) -> list[Section]:
        """Return the parts of a section that the log does not have yet."""
        parts = []
        for gap in self.replica.missing(section.source, section.first, section.stop):
            begin, end = np.searchsorted(section.rows.offsets, gap).tolist()
            rows = section.rows.between(begin, end)
            parts.append(section._replace(first=gap.first, stop=gap.stop, rows=rows))
        return parts

    def append(self, sections: Sequence[Section]) -> None:
        """
        Append to the log, and apply everything up to there, including other workers' records.

        Raises:
            DefinitionError: another worker has given the log its definition, which is not this
                one's.
            StopError: the log has the records, but the replicas ignore them.
        """
        if not sections:
            return
        acceptance = self.replica.acceptance
        if not acceptance.record_format:  # the first record of a log is its definition
            definition = self.replica.definition
            self._append([definition.declaration(self.author.name, FORMAT_VERSION)])
        # The format as it is now: somebody else's declaration may have come first.
        record_format = acceptance.record_format
        self._append(list(encode(self.author, sections, self.record_bytes_max, record_format)))
        for section in sections:
            if self.replica.missing(section.source, section.first, section.stop):
                raise StopError(
                    "the log does not accept this worker's records: those of offsets "
                    f"[{section.first}, {section.stop}) of partition {section.source.partition} "
                    "were appended and are ignored by every replica. Run the version and the "
                    "settings of the other workers"
                )

    def _append(self, records: Sequence[bytes]) -> None:
        """Append records, and apply the log up to the last of them."""
        last = self.writer.append(records)
        while self.replica.next_offset <= last:
            self.follow(1.0)

    def _tell(self, reason: Ignored, offset: int, value: bytes) -> None:
        """
        Count a record that is ignored, if it came after the start, and log the first per reason.
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
        """Return how many known records of the log have not been applied. No broker is asked."""
        return max(self.reader.end_seen() - self.replica.next_offset, 0)

    def end(self) -> int:
        """Return the offset after the log's last record, as a broker has it now."""
        return self.reader.end()[1]

    def await_applied(self, offset: int) -> bool:
        """
        Return whether all below this offset is applied, after at most `AWAIT_S`. Any thread but the
        one that follows may call it.
        """
        deadline = time.monotonic() + AWAIT_S
        while self._applied < offset and time.monotonic() < deadline:
            time.sleep(0.005)
        return self._applied >= offset

    def reach(self, source: Source) -> SourceReach:
        """Return what the applied records say of a source partition. Any thread may ask."""
        with self._turns:
            return self.replica.reach(source)

    def ask(self, rows: Rows, encode: Encoder[Encoded]) -> tuple[list[Encoded], AsOfOffset]:
        """
        Return what the log would say of these rows now, and the offset of that answer. Any thread
        may ask.

        Args:
            rows, encode: as in `Replica.ask`.
        Cost: that of `Replica.ask`, after the record that is being applied.
        """
        with self._turns:
            return self.replica.ask(rows, encode), self._as_of()

    def latest_of(self, url: str) -> tuple[LatestOriginal | None, AsOfOffset]:
        """
        Return the latest original of a URL, and the offset of that answer. Any thread may ask.
        """
        with self._turns:
            return self.replica.latest_of(url), self._as_of()

    def _as_of(self) -> AsOfOffset:
        return AsOfOffset(self.replica.next_offset, self.behind())

    def commit_metadata(self) -> CommitMetadata:
        """
        Return the log and how much of it has been applied. Any thread may ask.

        Cost: after the record that is being applied.
        """
        with self._turns:  # offset and digest of the same record
            return CommitMetadata(self.log_id, self.replica.next_offset, self.replica.last_digest)
