"""
The sequencer: takes prepared batches in order, has the log decide, hands them on to be published.

    batch ──► rows ──► append what the log lacks ──► apply the log ──► answers ──► publishing, on its own thread

Its thread alone reads and writes the log and changes the replica; the writer of a snapshot, and a scrape, look on.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator

import structlog

from worker.errors import DocumentError, RetryError
from worker.log.rows import Section, Source
from worker.settings import Settings
from worker.shell.messages import VerdictBytes, encode_answers
from worker.shell.pipeline.batch import Batch
from worker.shell.pipeline.partitions import Partitions
from worker.shell.pipeline.replicated_log import ReplicatedLog
from worker.shell.pipeline.stage import SLICE_S, Stage
from worker.shell.runtime import metrics
from worker.shell.runtime.fault_hooks import FaultHook, Point, never
from worker.shell.runtime.watchdog import Watchdog

IDLE_S = 0.01  # how long one wait for a batch takes
STOP_GRACE_S = 10.0  # supervisors kill after 30 s

_log = structlog.get_logger(__name__)


class Sequencer:
    """
    The stage between preparing and publishing, on the thread that runs it.

    Args:
        topic_id: of the source topic, as the log knows it.
    """

    def __init__(
        self,
        settings: Settings,
        topic_id: bytes,
        log: ReplicatedLog,
        partitions: Partitions,
        preparer: Stage,
        publishing: Stage,
        watchdog: Watchdog,
        *,
        reach: FaultHook = never,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._topic_id = topic_id
        self._replicated = log
        self._partitions = partitions
        self._preparer = preparer
        self._publishing = publishing
        self._watchdog = watchdog
        self._reach = reach
        self._clock = clock
        self._awaited_since_s = 0.0
        self._closed_at_s = math.inf

    def run(self, on_idle: Callable[[], None]) -> None:
        """
        Sequence batch after batch, and follow the log while there is none, until all have been published.

        Args:
            on_idle: called between batches, whether there are any or not: the replica stands still while it runs.
        """
        try:
            while not self._preparer.join(0):
                on_idle()
                self.step(IDLE_S)
            self._publishing.close()
            while not self._publishing.join(SLICE_S):
                self.follow()
            self.follow()
        except BaseException:
            self._publishing.close(finish=False)
            self._publishing.join(self._settings.call_timeout_s)
            raise

    def close(self) -> None:
        """Wait for no batch longer than ten seconds from now on."""
        self._closed_at_s = min(self._closed_at_s, self._clock())

    def step(self, wait_s: float = 0.0) -> None:
        """Sequence the next batch; without one follow the log."""
        if batch := self._preparer.poll(wait_s):
            self._sequence(batch)
        else:
            self.follow()
        if batch or not len(self._preparer):
            self._awaited_since_s = self._clock()
        elif self._clock() > max(self._awaited_since_s, self._closed_at_s) + STOP_GRACE_S:
            _log.warning("stopping without the last batch: its documents stay uncommitted")
            self._preparer.close(finish=False)  # and without the ones behind it

    def follow(self) -> None:
        """Apply what the log has, and forget what has been committed."""
        self._replicated.follow(0)
        self._forget()

    def _forget(self) -> None:
        while batch := self._publishing.poll():
            for share in batch.shares:
                self._replicated.replica.committed(self._source(share.claim.partition), share.stop)
        metrics.PENDING_BATCHES.set(sum(map(len, self._replicated.replica.pending.values())))

    def _source(self, partition: int) -> Source:
        return Source(self._topic_id, partition)

    def _sequence(self, batch: Batch) -> None:
        """Get every message of a batch its answer, if its partition is still ours, and hand them on."""
        batch.shares = [share for share in batch.shares if self._partitions.holds(share.claim)]
        if not batch.shares:
            return
        self._forget()
        self._append(batch)
        try:
            with metrics.STAGE_S.labels("answer").time():
                batch.answers = self._answers(batch)
            batch.commit_metadata = str(self._replicated.commit_metadata())
        except RetryError as error:
            batch.failure = error
        while not self._publishing.submit(batch, SLICE_S):
            self.follow()

    def _append(self, batch: Batch) -> None:
        """Append what the log lacks of a batch, and apply it."""
        limit_s = 2 * self._settings.call_timeout_s
        with self._watchdog.limit("appending to the log", limit_s), metrics.STAGE_S.labels("append").time():
            self._replicated.follow(0)
            lacking = list(self._lacking(batch))
            self._reach(Point.BEFORE_APPEND)
            self._replicated.append(lacking)
        self._reach(Point.AFTER_APPEND)

    def _lacking(self, batch: Batch) -> Iterator[Section]:
        known = self._partitions.known()
        for share in batch.shares:
            partition, rows = share.claim.partition, batch.rows.between(share.begin, share.end)
            committed = known[partition].published if partition in known else -1
            yield from self._replicated.missing(
                Section(self._source(partition), share.first, share.stop, committed, rows)
            )

    def _answers(self, batch: Batch) -> list[VerdictBytes | DocumentError | None]:
        """Return the log's answer to each message, None where it is not ours any more."""
        answers: list[VerdictBytes | DocumentError | None] = [None] * len(batch.messages)
        for share in batch.shares:
            offsets = batch.rows.offsets[share.begin : share.end].tolist()
            source = self._source(share.claim.partition)
            answers[share.begin : share.end] = self._replicated.replica.answers(
                source, offsets, self._settings.topic_documents, encode_answers
            )
        return answers
