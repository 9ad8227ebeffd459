"""
Publishing: answers and the source offsets that they answer, batch after batch, one transaction
each.

A commit is `Publishing._commit`, step by step. What may fail, and what becomes of the batch:

    a claim is void before step 2     its share is dropped: the partition's next owner publishes it
    settled: aborted for certain      the steps again with new group metadata, `retries_max` times; then as in doubt
    in doubt, such as a time-out      a new producer settles it, all claims are void, and all since the committed
    no answers from the log           offsets is read again, `retries_max` times in a row; then the worker ends
    fenced by a successor             the worker ends; nothing of what waits is published
    refused for good                  the worker ends, and says the remedy

That a batch is judged while the one before it is being committed is safe: what stands in the log
stays there, and a doubtful failure makes the claims of every later batch void before the next one
is looked at.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import structlog

from worker.core.document import FORWARDED
from worker.errors import DocumentError, RetryError, StopError
from worker.settings import Settings
from worker.shell.messages import VerdictBytes, encode_dead_letter
from worker.shell.pipeline.partitions import Partitions
from worker.shell.pipeline.stage import Batch, Stage, StageThread
from worker.shell.ports import Outgoing, Publisher, SourceMessage
from worker.shell.runtime import metrics
from worker.shell.runtime.fault_hooks import FaultHook, Point, never

DEAD_LETTERS_TOLD_S = 60.0
_IDLE_S = 1.0

_log = structlog.get_logger(__name__)


@dataclass(eq=False)
class Publishing:
    """
    The last stage, with a `Stage`'s verbs: a batch is finished when something of it is committed.
    """

    settings: Settings
    publisher: Publisher
    partitions: Partitions
    reach: FaultHook = never
    sleep: Callable[[float], None] = time.sleep
    batches_max: int = 1
    traced: Callable[[Batch], AbstractContextManager[Any]] = nullcontext

    def __post_init__(self) -> None:
        self._rewinds_in_a_row = 0
        self._waiting = Stage(self.batches_max)
        self._committed: deque[Batch] = deque()
        self._dead_letters = DeadLetterLog()
        self._thread = StageThread("publish", self._run)
        self.start, self.close = self._thread.start, self._waiting.close

    def submit(self, batch: Batch, wait_s: float = 0.0) -> bool:
        """
        Take a batch; False: there was no room for it within `wait_s`. Raises what publishing has
        failed with.
        """
        self._thread.check()
        return self._waiting.submit(batch, wait_s)

    def poll(self) -> Batch | None:
        """
        Return the next batch that is finished; its shares say what of it. Raises what publishing
        has failed with.
        """
        self._thread.check()
        return self._committed.popleft() if self._committed else None

    def join(self, wait_s: float) -> bool:
        """Return whether the thread has ended within `wait_s`."""
        return self._thread.join(wait_s)

    def _run(self) -> None:
        while not self._waiting.join(0):
            self.step(_IDLE_S)

    def step(self, wait_s: float = 0.0) -> None:
        """
        Publish what is still ours of the next batch. Raises StopError: that has failed too many
        times in a row.
        """
        self._dead_letters.tick()
        batch = self._waiting.poll(wait_s)
        if batch is None or not batch.drop_void(self.partitions):
            return
        try:
            if batch.failure is not None:
                raise batch.failure
            with metrics.STAGE_S.labels("publish").time():
                pairs = zip(batch.messages, batch.answers, strict=True)
                batch.outgoing = [self._encode(message, answer) for message, answer in pairs]
                with self.traced(batch):
                    self._commit_settled(batch)
        except RetryError as error:
            self._read_again(error)
            return
        if batch.shares:  # a batch of which nothing is ours any more says nothing of the cluster
            self._rewinds_in_a_row = 0
            self._committed.append(batch)

    def _encode(
        self, message: SourceMessage, answer: VerdictBytes | DocumentError | None
    ) -> Outgoing | None:
        topics = self.settings
        if answer is None:
            return None
        if isinstance(answer, VerdictBytes):
            return Outgoing(topics.topic_verdicts, answer.key, answer.value)
        key, value, headers = encode_dead_letter(
            topics.topic_documents, message, answer, topics.dead_letter_bytes_max
        )
        return Outgoing(topics.topic_dead_letter, key, value, tuple(headers))

    def _commit_settled(self, batch: Batch) -> None:
        """
        Commit, after a settled failure once more. Raises RetryError: in doubt, or the attempts are
        used up.
        """
        for attempt in count(1):
            try:
                with self.partitions.transaction:
                    self._commit(batch)
                break
            except RetryError as error:
                metrics.RETRIES.inc()
                if not error.settled or attempt > self.settings.retries_max:
                    raise
                _log.warning("transaction aborted, trying again", cause=str(error), attempt=attempt)
            self.sleep(min(0.05 * attempt, 0.5))

    def _commit(self, batch: Batch) -> None:
        """
        Commit in one transaction what is still ours of a batch, with its offsets; what fails, the
        head says.
        """
        started_s = time.monotonic()
        # 1. The group metadata, before the claims: read after them it may be of a generation that has them elsewhere.
        group_metadata = self.partitions.group_metadata
        # 2. The shares that are still ours. They stay so: a revocation waits for the end of the transaction.
        if not batch.drop_void(self.partitions):
            return
        places = [at for share in batch.shares for at in range(share.begin, share.end)]
        answers = [out for at in places if (out := batch.outgoing[at]) is not None]
        documents = self._new_documents(batch, places)
        stops = {share.claim: share.stop for share in batch.shares}
        # 3. Begin. What an earlier transaction may have left open in these topics ends before.
        with self.publisher.transaction(
            {message.topic for message in (*answers, *documents)}
        ) as transaction:
            # 4. Verdicts and dead letters.
            transaction.produce(answers)
            # 5. New documents.
            transaction.produce(documents)
            self.reach(Point.IN_TRANSACTION)
            # 6. Offsets, and beside them the log and how much of it was applied.
            offsets = {claim.partition: stop for claim, stop in stops.items()}
            transaction.send_offsets(offsets, group_metadata, batch.commit_metadata)
            self.reach(Point.AFTER_OFFSETS)
            # 7. Commit: the end of this block.
        metrics.TRANSACTION_S.observe(time.monotonic() - started_s)
        self.reach(Point.AFTER_COMMIT)
        # 8. The partitions stand behind what was committed.
        messages = batch.messages
        last_ms = {
            one.claim: messages[one.end - 1].timestamp_ms
            for one in batch.shares
            if one.end > one.begin
        }
        self.partitions.publish(stops, last_ms)
        self._count(batch, places)

    def _new_documents(self, batch: Batch, places: list[int]) -> list[Outgoing]:
        """
        Return each new document as it came, and a null value for each that was deleted, under the
        verdict's key.
        """
        topic = self.settings.topic_new
        if topic is None:
            return []
        return [
            Outgoing(topic, answer.key, batch.messages[at].value, batch.messages[at].headers)
            for at in places
            if isinstance(answer := batch.answers[at], VerdictBytes) and answer.outcome in FORWARDED
        ]

    def _count(self, batch: Batch, places: list[int]) -> None:
        outcomes: Counter[str] = Counter()
        for at in places:
            answer = batch.answers[at]
            message = batch.messages[at]
            if isinstance(answer, DocumentError):
                outcomes["dead-letter"] += 1
                self._dead_letters.add(answer.code, message.partition, message.offset)
            elif answer is not None:
                outcomes[answer.outcome] += 1
        for outcome, number in outcomes.items():
            metrics.ANSWERS.labels(outcome).inc(number)
        metrics.BATCH_DOCUMENTS.observe(outcomes.total())
        came_ms = np.array([batch.messages[at].timestamp_ms for at in places], np.int64)
        metrics.LATENCY_S.observe(time.time() - came_ms[came_ms > 0] / 1_000)

    def _read_again(self, error: RetryError) -> None:
        """Let everything be read again from the committed offsets, but not for ever."""
        self._rewinds_in_a_row += 1
        if self._rewinds_in_a_row > self.settings.retries_max:
            raise StopError(
                f"gave up after reading again {self.settings.retries_max} times in a row: {error}"
            ) from error
        _log.warning("reading again", cause=str(error), in_a_row=self._rewinds_in_a_row)
        try:  # at once: until then the transaction in doubt hides the committed offsets
            self.publisher.open()
        except RetryError as failure:
            _log.warning("the transaction in doubt stays open for now", cause=str(failure))
        self.partitions.rewind()
        metrics.REWINDS.inc()
        self.sleep(min(0.05 * self._rewinds_in_a_row, 0.5))


class DeadLetterLog:
    """
    Logs dead letters, the first of each class and then how many more, without a word of the
    documents.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._due_s = clock() + DEAD_LETTERS_TOLD_S
        self._classes: set[str] = set()
        self._more: Counter[str] = Counter()

    def add(self, code: str, partition: int, offset: int) -> None:
        """Take one that has been committed."""
        metrics.DEAD_LETTERS.labels(code).inc()
        if code in self._classes:
            self._more[code] += 1
            return
        self._classes.add(code)
        remedy = "see `neardup dead-letters`; more of this class are counted once a minute"
        _log.warning("dead letter", code=code, partition=partition, offset=offset, remedy=remedy)

    def tick(self) -> None:
        """Log how many more have come, once a minute."""
        now_s = self._clock()
        if now_s >= self._due_s:
            self._due_s = now_s + DEAD_LETTERS_TOLD_S
            if self._more:
                counts = {code.replace("-", "_"): count for code, count in self._more.items()}
                _log.warning("more dead letters", **counts)
                self._more.clear()
