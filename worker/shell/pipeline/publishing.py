"""
Publishing: answers and the source offsets that they answer, batch after batch, one transaction each.

    ordering thread   append, apply, answer n + 1 │ … n + 2
                                    │ hands over in order, one waits
    publishing thread transaction n               │ n + 1 ─┬─► committed: the replica may forget
                          ▲              │ settled failure: once more, with a fresh membership
                          └──────────────┤
                                         └ doubtful failure: a new producer, and everything is read again

That a batch is judged while the one before it is being committed is safe: what stands in the log stays there, and a
doubtful failure makes the claims of every later batch void before the next one is looked at.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

import structlog

from worker.errors import DocumentError, RetryError, StopError
from worker.log.replica import Rejection
from worker.settings import Settings
from worker.shell.messages import VerdictBytes, encode_dead_letter
from worker.shell.pipeline.dead_letter_log import DeadLetterLog
from worker.shell.pipeline.ownership import Claim, Ownership
from worker.shell.ports import Outgoing, Publisher, SourceMessage
from worker.shell.runtime import metrics
from worker.shell.runtime.fault_hooks import FaultHook, Point

__all__ = ["Answered", "Handover", "Publishing", "PublishingThread", "Share"]

_SLICE_S = 0.05

_log = structlog.get_logger(__name__)


class Share(NamedTuple):
    """One partition's share of a batch: its messages with their answers, to be published under its claim."""

    claim: Claim
    stop: int
    messages: Sequence[SourceMessage]
    answers: Sequence[VerdictBytes | Rejection]


class Answered(NamedTuple):
    """A batch as the log answered it, or the reason why it must be read again."""

    shares: Sequence[Share]
    commit_metadata: str  # kept beside the offsets: the log, and how much of it had been applied
    read_at_s: float  # monotonic
    ended: threading.Event  # set when it is published, or is to be read again
    failure: RetryError | None = None


class _Written(NamedTuple):
    """A share as messages."""

    share: Share
    outgoing: list[Outgoing]
    outcomes: list[str]
    dead: list[tuple[str, int, int]]  # class, partition and offset of each dead letter


class Publishing:
    """
    Publishes batches in the order in which it gets them. One thread calls it.

    `committed` collects what the replica may forget: (partition, offset) in the order of the commits.
    """

    def __init__(
        self,
        settings: Settings,
        publisher: Publisher,
        ownership: Ownership,
        reach: FaultHook,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._settings = settings
        self._publisher = publisher
        self._ownership = ownership
        self._reach = reach
        self._sleep = sleep
        self._rewinds_in_a_row = 0
        self.committed: deque[tuple[int, int]] = deque()
        self.dead_letters = DeadLetterLog()

    def publish(self, batch: Answered) -> None:
        """
        Publish what is still ours of a batch; a failure whose outcome is in doubt has everything read again.

        Raises:
            StopError: that happened too many times in a row.
        """
        try:
            if batch.failure is not None:
                raise batch.failure
            with metrics.STAGE_S.labels("publish").time():
                written = [self._write(share) for share in batch.shares if self._ownership.holds(share.claim)]
                published = self._transact(written, batch.commit_metadata)
        except RetryError as error:
            self._read_again(error)
            return
        finally:
            batch.ended.set()
        if published:  # a batch of which nothing is ours any more says nothing of the cluster
            self._rewinds_in_a_row = 0
            metrics.LATENCY_S.observe(time.monotonic() - batch.read_at_s)

    def _write(self, share: Share) -> _Written:
        topics, bytes_max = self._settings, self._settings.dead_letter_bytes_max
        outgoing: list[Outgoing] = []
        outcomes: list[str] = []
        dead: list[tuple[str, int, int]] = []
        for message, answer in zip(share.messages, share.answers, strict=True):
            if isinstance(answer, VerdictBytes):
                outgoing.append(Outgoing(topics.topic_verdicts, answer.key, answer.value))
                outcomes.append(answer.outcome.value)
            else:
                key, value, headers = encode_dead_letter(
                    topics.topic_documents, message.partition, message.offset, message.key, message.value,
                    DocumentError(answer.code, answer.text), bytes_max=bytes_max, is_readable=not message.defect,
                )  # fmt: skip
                outgoing.append(Outgoing(topics.topic_dead_letter, key, value, tuple(headers)))
                outcomes.append("dead-letter")
                dead.append((answer.code, message.partition, message.offset))
        return _Written(share, outgoing, outcomes, dead)

    def _transact(self, written: Sequence[_Written], commit_metadata: str) -> bool:
        """
        Publish in one transaction what is still ours; after a settled failure once more, with a fresh membership.

        Gives False when nothing is ours any more.

        Raises:
            RetryError: the outcome is in doubt, or the attempts are used up.
        """
        for attempt in range(1, self._settings.retries_max + 2):
            with self._ownership.publishing():
                mine = [part for part in written if self._ownership.holds(part.share.claim)]
                if not mine:
                    return False
                offsets = {part.share.claim.partition: part.share.stop for part in mine}
                messages = [message for part in mine for message in part.outgoing]
                try:
                    self._commit(messages, offsets, commit_metadata)
                except RetryError as error:
                    metrics.RETRIES.inc()
                    if not error.settled or attempt > self._settings.retries_max:
                        raise
                    _log.warning("transaction aborted, trying again", cause=str(error), attempt=attempt)
                else:
                    self._reach(Point.AFTER_COMMIT)
                    self._ownership.mark_committed(offsets)
                    self.committed.extend(offsets.items())
                    self._count(mine)
                    return True
            self._sleep(min(0.05 * attempt, 0.5))
        raise AssertionError("the last attempt returns or raises")

    def _count(self, parts: Sequence[_Written]) -> None:
        for part in parts:
            for outcome in set(part.outcomes):
                metrics.ANSWERS.labels(outcome).inc(part.outcomes.count(outcome))
            for letter in part.dead:
                self.dead_letters.add(*letter)
        metrics.BATCH_DOCUMENTS.observe(sum(len(part.outcomes) for part in parts))

    def _commit(self, messages: Sequence[Outgoing], offsets: Mapping[int, int], commit_metadata: str) -> None:
        started = time.monotonic()
        self._publisher.publish(messages, offsets, self._ownership.membership, commit_metadata)
        metrics.TRANSACTION_S.observe(time.monotonic() - started)

    def _read_again(self, error: RetryError) -> None:
        """Let everything be read again from the committed offsets, but not for ever."""
        self._rewinds_in_a_row += 1
        if self._rewinds_in_a_row > self._settings.retries_max:
            raise StopError(
                f"gave up after reading again {self._settings.retries_max} times in a row: {error}"
            ) from error
        _log.warning("reading again", cause=str(error), in_a_row=self._rewinds_in_a_row)
        try:  # at once: until then the transaction in doubt hides the committed offsets
            self._publisher.open()
        except RetryError as failure:
            _log.warning("the transaction in doubt stays open for now", cause=str(failure))
        self._ownership.rewind()
        metrics.REWINDS.inc()
        self._sleep(min(0.05 * self._rewinds_in_a_row, 0.5))


class Handover(Protocol):
    """How batches get from the ordering thread to `Publishing`."""

    def offer(self, batch: Answered, meanwhile: Callable[[], object]) -> None:
        """Hand a batch over; while there is no room for it `meanwhile` is called."""

    def check(self) -> None:
        """Raise what publishing has failed with; it may be long until there is another batch to offer."""

    def finish(self, meanwhile: Callable[[], object]) -> None:
        """Wait until all that were handed over have been published."""

    def abandon(self, wait_s: float) -> None:
        """Publish nothing more."""


class PublishingThread:
    """
    Runs `publish` for batch after batch on a thread of its own; one batch may wait.

    What `publish` raises comes out of the next call, and nothing is published after it: while there is no batch to
    offer, `check` is to be called.
    """

    def __init__(self, publish: Callable[[Answered], None]) -> None:
        self._publish = publish
        self._batches: queue.Queue[Answered | None] = queue.Queue(1)
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="publish", daemon=True)
        self._thread.start()

    def offer(self, batch: Answered, meanwhile: Callable[[], object]) -> None:
        """Hand a batch over; while there is no room for it `meanwhile` is called, many times a second."""
        while not self._put(batch):
            meanwhile()

    def check(self) -> None:
        """Raise what publishing has failed with."""
        if self._failure is not None:
            raise self._failure

    def finish(self, meanwhile: Callable[[], object]) -> None:
        """Take no more batches, and wait until all that were handed over have been published."""
        while not self._put(None):
            meanwhile()
        while self._thread.is_alive():
            self._thread.join(_SLICE_S)
            meanwhile()
        self.check()

    def abandon(self, wait_s: float) -> None:
        """Let the transaction that runs come to its end, and drop what waits behind it."""
        self._failure = self._failure or StopError("the ordering thread has ended")
        with contextlib.suppress(queue.Full):
            self._batches.put(None, timeout=wait_s)
        self._thread.join(wait_s)

    def _put(self, batch: Answered | None) -> bool:
        self.check()
        try:
            self._batches.put(batch, timeout=_SLICE_S)
        except queue.Full:
            return False
        return True

    def _run(self) -> None:
        while (batch := self._batches.get()) is not None:
            if self._failure is not None:
                batch.ended.set()  # emptied, so that nobody waits for room
                continue
            try:
                self._publish(batch)
            except BaseException as error:
                self._failure = error
