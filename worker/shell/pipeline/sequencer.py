"""
The sequencer, which appends prepared batches to the ordered log and hands on the log's answers.

Only the sequencer's thread reads and writes the log and changes the replica. The thread that writes
a snapshot, and a scrape, only read.

For each batch it first applies what the log has, then appends only the offsets that no record
covers, because a partition's former owner may have appended them already. An append is answered
when the record has come back from the log, after all records that other workers appended before it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, field

from worker.errors import DocumentError, RetryError
from worker.log.record import Section, Source
from worker.settings import Settings
from worker.shell.messages import VerdictBytes, encode_answers
from worker.shell.pipeline.partitions import Partitions
from worker.shell.pipeline.publishing import Publishing
from worker.shell.pipeline.replicated_log import ReplicatedLog
from worker.shell.pipeline.stage import POLL_S, Batch, Stage
from worker.shell.runtime import metrics
from worker.shell.runtime.fault_hooks import FaultHook, Point, never
from worker.shell.runtime.health import Watchdog
from worker.shell.runtime.logging import get_logger

IDLE_S = 0.01  # longest wait for a batch
STOP_GRACE_S = 10.0  # supervisors kill after 30 s

_log = get_logger(__name__)


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
        Sequence batch after batch until all have been published; follow the log in between.

        Args:
            on_idle: called before each batch, and while there is none: the replica stands still
                while it runs.
        Raises:
            NeardupError: the error with which a stage has ended.
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
        batch = self.preparer.poll(wait_s)
        if batch:
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
        self._use_idle_threads()
        self.log.follow(0)
        self._forget()

    def _use_idle_threads(self) -> None:
        """
        Search for originals with the preparer's threads that have nothing to do, and this one.

        They have nothing to do when this worker catches up, and when its group is at the limit that
        judging sets: every worker judges all documents, and prepares its share of them.
        """
        if self.settings.search_threads > 1:
            busy = self.settings.threads - self.preparer.idle_threads()
            self.log.replica.use_threads(max(1, self.settings.search_threads - busy))

    def _forget(self) -> None:
        while batch := self.publishing.poll():
            for share in batch.shares:
                self.log.replica.committed(self._source(share.claim.partition), share.stop)
        metrics.PENDING_BATCHES.set(sum(map(len, self.log.replica.pending.values())))

    def _source(self, partition: int) -> Source:
        return Source(self.topic_id, partition)

    def _sequence(self, batch: Batch) -> None:
        """
        Get the answer to every message of a batch whose partition is still ours, and hand the batch
        on.
        """
        if not batch.drop_void(self.partitions):
            return
        self._forget()
        self._append(batch)
        try:
            with metrics.STAGE_S.labels("answer").time():
                batch.answers = self._answers(batch)
            batch.commit_metadata = self.log.commit_metadata()
        except RetryError as error:
            batch.failure = error
        # The log goes on while publishing has no room: other workers' batches need no place here.
        while not self.publishing.submit(batch, POLL_S):
            self.follow()

    def _append(self, batch: Batch) -> None:
        """Append the messages of a batch that the log does not have, and apply them."""
        limit_s = 2 * self.settings.call_timeout_s
        with (
            self.watchdog.limit("appending to the log", limit_s),
            metrics.STAGE_S.labels("append").time(),
        ):
            self._use_idle_threads()
            self.log.follow(0)
            lacking = list(self._lacking(batch))
            self.reach(Point.BEFORE_APPEND)
            self.log.append(lacking)
        self.reach(Point.AFTER_APPEND)

    def _lacking(self, batch: Batch) -> Iterator[Section]:
        """
        Yield the rows of a batch that the log does not have, with the offsets that we know to be
        committed.
        """
        known = self.partitions.known()
        for share in batch.shares:
            partition = share.claim.partition
            rows = batch.rows.between(share.begin, share.end)
            committed = known[partition].published if partition in known else -1
            yield from self.log.missing(
                Section(self._source(partition), share.first, share.stop, committed, rows)
            )

    def _answers(self, batch: Batch) -> list[VerdictBytes | DocumentError | None]:
        """
        Return the log's answer to each message; None for one whose partition is no longer ours.
        """
        answers: list[VerdictBytes | DocumentError | None] = [None] * len(batch.messages)
        asked = [
            (
                self._source(share.claim.partition),
                batch.rows.offsets[share.begin : share.end].tolist(),
            )
            for share in batch.shares
        ]
        found = self.log.replica.answers_of_all(
            asked, self.settings.topic_documents, encode_answers
        )
        for share, of_share in zip(batch.shares, found, strict=True):
            answers[share.begin : share.end] = of_share
        return answers
