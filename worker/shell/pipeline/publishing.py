"""
Publishing: answers and the source offsets that they answer, batch after batch, one transaction each.

    sequencer    append, apply, answer n + 1 │ … n + 2
                               │ one batch waits
    publishing   transaction n               │ n + 1 ─┬─► committed: the replica may forget
                     ▲              │ settled failure: once more, with a fresh membership
                     └──────────────┤
                                    └ doubtful failure: a new producer, and everything is read again

That a batch is judged while the one before it is being committed is safe: what stands in the log stays there, and a
doubtful failure makes the claims of every later batch void before the next one is looked at.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import chain
from typing import Any

import numpy as np
import structlog

from worker.core.verdict import FORWARDED
from worker.errors import DocumentError, RetryError, StopError
from worker.settings import Settings
from worker.shell.messages import VerdictBytes, encode_dead_letter
from worker.shell.pipeline.batch import Batch
from worker.shell.pipeline.dead_letter_log import DeadLetterLog
from worker.shell.pipeline.partitions import Partitions
from worker.shell.pipeline.stage import Stage, StageThread
from worker.shell.ports import Outgoing, Publisher, SourceMessage
from worker.shell.runtime import metrics
from worker.shell.runtime.fault_hooks import FaultHook, Point, never
from worker.shell.runtime.tracing import untraced

_IDLE_S = 1.0

_log = structlog.get_logger(__name__)


class Publishing(Stage):
    """The last stage: `poll` gives back each batch of which something is committed; its shares say what."""

    def __init__(
        self,
        settings: Settings,
        publisher: Publisher,
        partitions: Partitions,
        reach: FaultHook = never,
        sleep: Callable[[float], None] = time.sleep,
        batches_max: int = 1,
        traced: Callable[[Batch], AbstractContextManager[None]] = untraced,
    ) -> None:
        super().__init__(batches_max)
        self._settings = settings
        self._publisher = publisher
        self._partitions = partitions
        self._reach = reach
        self._sleep = sleep
        self._traced = traced
        self._rewinds_in_a_row = 0
        self._committed: deque[Batch] = deque()
        self._dead_letters = DeadLetterLog()
        self._thread = StageThread("publish", self._run)

    def start(self) -> None:
        """Begin to publish, on a thread of its own."""
        self._thread.start()

    def submit(self, batch: Batch, wait_s: float = 0.0) -> bool:
        """Take a batch; False: there was no room for it within `wait_s`. Raises what publishing has failed with."""
        self._thread.check()
        return super().submit(batch, wait_s)

    def poll(self, wait_s: float = 0.0) -> Batch | None:  # noqa: ARG002  # nobody waits for it
        """Return the next batch of which something is committed. Raises what publishing has failed with."""
        self._thread.check()
        return self._committed.popleft() if self._committed else None

    def join(self, wait_s: float) -> bool:
        """Return whether the thread has ended within `wait_s`."""
        return self._thread.join(wait_s)

    def _run(self) -> None:
        while not super().join(0):
            self.step(_IDLE_S)

    def step(self, wait_s: float = 0.0) -> None:
        """
        Publish what is still ours of the next batch; a failure whose outcome is in doubt has everything read again.

        Raises:
            StopError: that happened too many times in a row.
        """
        self._dead_letters.tick()
        if (batch := super().poll(wait_s)) is None:
            return
        self._drop_void(batch)
        if not batch.shares:
            return
        try:
            if batch.failure is not None:
                raise batch.failure
            with metrics.STAGE_S.labels("publish").time():
                self._write(batch)
                with self._traced(batch):
                    self._transact(batch)
        except RetryError as error:
            self._read_again(error)
            return
        if batch.shares:  # a batch of which nothing is ours any more says nothing of the cluster
            self._rewinds_in_a_row = 0
            self._committed.append(batch)

    def _drop_void(self, batch: Batch) -> None:
        batch.shares = [share for share in batch.shares if self._partitions.holds(share.claim)]

    def _write(self, batch: Batch) -> None:
        """Write the answers as messages."""
        batch.outgoing = [
            None if answer is None else self._message(message, answer)
            for message, answer in zip(batch.messages, batch.answers, strict=True)
        ]

    def _message(self, message: SourceMessage, answer: VerdictBytes | DocumentError) -> Outgoing:
        topics = self._settings
        if isinstance(answer, VerdictBytes):
            return Outgoing(topics.topic_verdicts, answer.key, answer.value)
        key, value, headers = encode_dead_letter(
            topics.topic_documents, message.partition, message.offset, message.key, message.value, answer,
            bytes_max=topics.dead_letter_bytes_max, is_readable=not message.defect,
        )  # fmt: skip
        return Outgoing(topics.topic_dead_letter, key, value, tuple(headers))

    def _transact(self, batch: Batch) -> None:
        """
        Publish in one transaction what is still ours; after a settled failure once more, with a fresh membership.

        Raises:
            RetryError: the outcome is in doubt, or the attempts are used up.
        """
        for attempt in range(1, self._settings.retries_max + 2):
            with self._partitions.transaction():
                # First: read after the claims it may be that of a later membership, which has them elsewhere.
                membership = self._partitions.membership()
                self._drop_void(batch)
                if not batch.shares:
                    return
                try:
                    self._commit(batch, membership)
                except RetryError as error:
                    metrics.RETRIES.inc()
                    if not error.settled or attempt > self._settings.retries_max:
                        raise
                    _log.warning("transaction aborted, trying again", cause=str(error), attempt=attempt)
                else:
                    self._reach(Point.AFTER_COMMIT)
                    ours, messages = batch.shares, batch.messages
                    last_ms = {one.claim: messages[one.end - 1].timestamp_ms for one in ours if one.end > one.begin}
                    self._partitions.publish({share.claim: share.stop for share in ours}, last_ms)
                    self._count(batch)
                    return
            self._sleep(min(0.05 * attempt, 0.5))
        raise AssertionError("the last attempt returns or raises")

    def _commit(self, batch: Batch, membership: Any) -> None:
        started_s = time.monotonic()
        ours = chain.from_iterable(batch.outgoing[share.begin : share.end] for share in batch.shares)
        offsets = {share.claim.partition: share.stop for share in batch.shares}
        messages = [message for message in ours if message]
        if self._settings.topic_new is not None:
            messages += self._forwarded(batch, self._settings.topic_new)
        self._publisher.publish(messages, offsets, membership, batch.commit_metadata)
        metrics.TRANSACTION_S.observe(time.monotonic() - started_s)

    def _forwarded(self, batch: Batch, topic: str) -> Iterator[Outgoing]:
        """Yield each new document as it came, and a null value for each that was deleted, under the verdict's key."""
        for share in batch.shares:
            places = slice(share.begin, share.end)
            for message, answer in zip(batch.messages[places], batch.answers[places], strict=True):
                if isinstance(answer, VerdictBytes) and answer.outcome in FORWARDED:
                    yield Outgoing(topic, answer.key, message.value, message.headers)

    def _count(self, batch: Batch) -> None:
        outcomes: Counter[str] = Counter()
        for share in batch.shares:
            for at in range(share.begin, share.end):
                answer = batch.answers[at]
                if isinstance(answer, DocumentError):
                    outcomes["dead-letter"] += 1
                    self._dead_letters.add(answer.code, share.claim.partition, batch.messages[at].offset)
                elif answer is not None:
                    outcomes[answer.outcome] += 1
        for outcome, count in outcomes.items():
            metrics.ANSWERS.labels(outcome).inc(count)
        metrics.BATCH_DOCUMENTS.observe(outcomes.total())
        ours = chain.from_iterable(batch.messages[share.begin : share.end] for share in batch.shares)
        came_ms = np.array([message.timestamp_ms for message in ours], np.int64)
        metrics.LATENCY_S.observe(time.time() - came_ms[came_ms > 0] / 1_000)

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
        self._partitions.rewind()
        metrics.REWINDS.inc()
        self._sleep(min(0.05 * self._rewinds_in_a_row, 0.5))
