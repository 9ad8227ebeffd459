"""
The ordering loop: takes prepared batches in order, has the log decide, publishes verdicts and offsets together.

    batch ──► rows ──► append what the log lacks ──► apply the log ──► answers ──► one transaction
                                                                          ▲              │ settled failure: try again
                                                                          └──────────────┘ doubtful: read again

The only thread that touches the log, the replica and the transactional producer.
"""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import structlog

from worker.core.verdict import Verdict
from worker.errors import DocumentError, RetryError, StopError
from worker.log.record import Row, Source
from worker.settings import Settings
from worker.shell import metrics
from worker.shell.faultpoints import Point, Reach
from worker.shell.intake import Batch, BatchSection
from worker.shell.messages import encode_dead_letter, encode_verdict
from worker.shell.ordering import Ordering, Part
from worker.shell.ownership import Claim, Ownership
from worker.shell.ports import Outgoing, Publisher, SourceMessage
from worker.shell.watchdog import Watchdog

__all__ = ["Loop", "Surroundings"]

STOP_GRACE_S = 10.0  # supervisors kill after 30 s

_log = structlog.get_logger(__name__)


class _Ready(NamedTuple):
    """One partition's share of a batch, ready to be published under its claim."""

    claim: Claim
    stop: int
    messages: list[Outgoing]
    outcomes: list[str]


def _nothing() -> None:
    pass


class Surroundings(NamedTuple):
    """
    What the loop has of the process that it runs in.

    `stopping` is set when the worker is to end: no batch is then waited for longer than ten seconds. `between` is
    called between batches, whether there are any or not: the replica stands still while it runs.
    """

    watchdog: Watchdog
    reach: Reach
    stopping: threading.Event
    sleep: Callable[[float], None] = time.sleep
    between: Callable[[], None] = _nothing


class Loop:
    """
    Runs until the intake says that nothing more comes.

    Args:
        topic_id: of the source topic, as the log knows it.
    """

    def __init__(
        self,
        settings: Settings,
        topic_id: bytes,
        ordering: Ordering,
        publisher: Publisher,
        ownership: Ownership,
        batches: queue.Queue[Batch | None],
        surroundings: Surroundings,
    ) -> None:
        self._settings = settings
        self._topic_id = topic_id
        self._ordering = ordering
        self._publisher = publisher
        self._ownership = ownership
        self._batches = batches
        self._watchdog, self._reach, self._stopping, self._sleep, self._between = surroundings
        self._rewinds_in_a_row = 0

    def run(self) -> None:
        """Answer batch after batch, and follow the log while there is none."""
        while True:
            self._between()
            try:
                batch = self._batches.get(timeout=0.01)
            except queue.Empty:
                batch = None
                self._ordering.follow(0)
            else:
                if batch is None:
                    return
                self.answer(batch)

    def answer(self, batch: Batch) -> None:
        """Give every message of a batch its answer, if its partition is still ours."""
        limit_s = self._settings.call_timeout_s
        if not any(self._ownership.holds(section.claim) for section in batch.sections):
            return
        with metrics.STAGE_S.labels("prepare").time():
            if not self._wait(batch):
                return
            rows = batch.prepared.rows()
        parts = [
            (section, self._part(section, rows[section.begin : section.end]))
            for section in batch.sections
            if self._ownership.holds(section.claim)
        ]
        with self._watchdog.limit("appending to the log", 2 * limit_s), metrics.STAGE_S.labels("append").time():
            self._ordering.follow(0)
            lacking = self._ordering.missing([part for _, part in parts])
            self._reach(Point.BEFORE_APPEND)
            self._ordering.append(lacking)
        self._reach(Point.AFTER_APPEND)
        try:
            with metrics.STAGE_S.labels("answer").time():
                ready = [
                    self._ready(section.claim, part, batch.messages[section.begin : section.end])
                    for section, part in parts
                ]
            with metrics.STAGE_S.labels("publish").time():
                published = self._publish(ready)
        except RetryError as error:
            self._read_again(error)
            return
        if published:  # a batch of which nothing is ours any more says nothing of the cluster
            self._rewinds_in_a_row = 0
            metrics.LATENCY_S.observe(time.monotonic() - batch.read_at_s)

    def _wait(self, batch: Batch) -> bool:
        """Follow the log until a batch is prepared; False if it takes too long while the worker is to stop."""
        deadline_s = math.inf
        while not batch.prepared.wait(0.05):
            self._ordering.follow(0)
            if self._stopping.is_set():
                deadline_s = min(deadline_s, time.monotonic() + STOP_GRACE_S)
                if time.monotonic() > deadline_s:
                    _log.warning("stopping without the last batch: its documents stay uncommitted")
                    self._ownership.rewind()  # and without the ones behind it
                    return False
        return True

    def _read_again(self, error: RetryError) -> None:
        """Let everything be read again from the committed offsets, but not for ever."""
        self._rewinds_in_a_row += 1
        if self._rewinds_in_a_row > self._settings.retries_max:
            raise StopError(
                f"gave up after reading again {self._settings.retries_max} times in a row: {error}"
            ) from error
        _log.warning("reading again", cause=str(error), in_a_row=self._rewinds_in_a_row)
        self._ownership.rewind()
        metrics.REWINDS.inc()
        self._sleep(min(0.05 * self._rewinds_in_a_row, 0.5))

    def _part(self, section: BatchSection, rows: Sequence[Row]) -> Part:
        partition = section.claim.partition
        committed = self._ownership.committed.get(partition, -1)
        return Part(Source(self._topic_id, partition), section.first, section.stop, committed, rows)

    def _ready(self, claim: Claim, part: Part, messages: Sequence[SourceMessage]) -> _Ready:
        topic = self._settings.topic_documents
        outgoing: list[Outgoing] = []
        outcomes: list[str] = []
        for message, answer in zip(messages, self._ordering.answers(part, topic), strict=True):
            if isinstance(answer, Verdict):
                outgoing.append(Outgoing(self._settings.topic_verdicts, *encode_verdict(answer)))
                outcomes.append(answer.outcome.value)
            else:
                key, value, headers = encode_dead_letter(
                    topic, message.partition, message.offset, message.key, message.value,
                    DocumentError(answer.code, answer.text), bytes_max=self._settings.dead_letter_bytes_max,
                )  # fmt: skip
                outgoing.append(Outgoing(self._settings.topic_dead_letter, key, value, tuple(headers)))
                outcomes.append("dead-letter")
                metrics.DEAD_LETTERS.labels(answer.code).inc()
        return _Ready(claim, part.stop, outgoing, outcomes)

    def _publish(self, ready: Sequence[_Ready]) -> bool:
        """
        Publish in one transaction what is still ours; after a settled failure once more, with a fresh membership.

        Gives False when nothing is ours any more.

        Raises:
            RetryError: the outcome is in doubt, or the attempts are used up.
        """
        for attempt in range(1, self._settings.retries_max + 2):
            with self._ownership.publishing():
                mine = [share for share in ready if self._ownership.holds(share.claim)]
                if not mine:
                    return False
                offsets = {share.claim.partition: share.stop for share in mine}
                messages = [message for share in mine for message in share.messages]
                try:
                    started = time.monotonic()
                    with self._watchdog.limit("publishing verdicts", 4 * self._settings.call_timeout_s):
                        self._publisher.publish(
                            messages, offsets, self._ownership.membership, str(self._ordering.lineage())
                        )
                except RetryError as error:
                    metrics.RETRIES.inc()
                    if not error.settled or attempt > self._settings.retries_max:
                        raise
                    _log.warning("transaction aborted, trying again", cause=str(error), attempt=attempt)
                else:
                    metrics.TRANSACTION_S.observe(time.monotonic() - started)
                    self._reach(Point.AFTER_COMMIT)
                    self._ownership.mark_committed(offsets)
                    self._count(mine)
                    return True
            self._sleep(min(0.05 * attempt, 0.5))
        raise AssertionError("the last attempt returns or raises")

    def _count(self, shares: Sequence[_Ready]) -> None:
        documents = 0
        for share in shares:
            documents += len(share.outcomes)
            self._ordering.replica.committed(Source(self._topic_id, share.claim.partition), share.stop)
            for outcome in set(share.outcomes):
                metrics.ANSWERS.labels(outcome).inc(share.outcomes.count(outcome))
        metrics.BATCH_DOCUMENTS.observe(documents)
