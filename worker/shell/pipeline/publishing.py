"""
Publishing: commits answers with the source offsets that they answer, one transaction per batch.

    sequencer    append, apply, answer n + 1 │ … n + 2
                               │ one batch waits
    publishing   transaction n               │ n + 1 ─┬─► committed: the replica may forget
                     ▲              │ settled failure: once more, with fresh group metadata
                     └──────────────┤
                                    └ in doubt: a new producer, and everything is read again

The promise is one committed verdict per source offset. Verdicts, dead letters and offsets go into
one transaction, so either all of them count or none. A commit is `Publishing._commit`, in eight
steps. What may fail, and what becomes of the batch:

    a claim is void before step 2  its share is dropped: the partition's next owner publishes it
    settled: aborted for certain   the steps again with new group metadata, `RETRIES_MAX` times;
                                   then as in doubt
    in doubt, such as a time-out   a new producer settles it, all claims are void, and all since the
    no answers from the log        committed offsets is read again, `RETRIES_MAX` times in a row;
                                   then the worker ends
    fenced by a successor          the worker ends; nothing of what waits is published
    refused for good               the worker ends, and says the remedy

Invariants
- Claims are looked at within the transaction's lock, and a revocation waits for that lock. So no
  partition leaves between the look and the commit.
- Group metadata is read before the claims. The broker fences a member, not a partition (KIP-447):
  it would accept the offsets of a lost partition with metadata that is newer than the loss.
- After a failure in doubt, everything that was read is void: this batch and all later ones.

A batch is judged while the one before it is being committed. That is safe: records stay in the log,
and a failure in doubt makes the claims of all later batches void before the next batch is looked
at.

Rejected, and why
- The next call on a producer whose commit, abort or send_offsets timed out: it mostly ends in
  `_FENCED`, which is fatal. `_read_again` makes a new producer instead.
- Waiting until the transaction in doubt times out: until then Kafka does not answer what the
  committed offsets are, and nothing can be read. Opening the new producer aborts the transaction at
  once.
- A transaction per document or per partition: each transaction takes 5 to 6 ms, even an empty one.

tests/shell/test_simulation.py removes each of these defences and shows a history that then goes
wrong.
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

from worker.core.document import FORWARDED
from worker.errors import DocumentError, RetryError, StopError
from worker.settings import OVERHEAD_BYTES_MAX, Settings
from worker.shell.messages import VerdictBytes, encode_dead_letter
from worker.shell.pipeline.partitions import Partitions
from worker.shell.pipeline.stage import Batch, Stage, StageThread
from worker.shell.ports import InputMessage, Outgoing, Publisher, first_stamp_ms, headers_bytes
from worker.shell.runtime import metrics
from worker.shell.runtime.fault_hooks import FaultHook, Point, never
from worker.shell.runtime.logging import get_logger

DEAD_LETTERS_TOLD_S = 60.0
_IDLE_S = 1.0
# Of a document that is forwarded: half of what its topic has room for besides the document.
HEADERS_BYTES_MAX = OVERHEAD_BYTES_MAX // 2
# Errors that may pass do so within seconds. Twenty attempts, with pauses of up to half a second,
# are seven seconds and more. Then a new process is the better attempt.
RETRIES_MAX = 20

_log = get_logger(__name__)


@dataclass(eq=False)
class Publishing:
    """
    The last stage, with a `Stage`'s verbs: a batch is finished when something of it is committed.

    Args:
        publisher: makes transactions, one at a time.
        partitions: says which claims are still ours, and notes what was committed.
        reach: called at the points where tests kill the worker.
        sleep: waits between attempts.
        batches_max: how many batches may wait.
        traced: the spans of a batch's documents, around its commit.
        retries_max: how often in a row a batch is tried again.
    """

    settings: Settings
    publisher: Publisher
    partitions: Partitions
    reach: FaultHook = never
    sleep: Callable[[float], None] = time.sleep
    batches_max: int = 1
    traced: Callable[[Batch], AbstractContextManager[Any]] = nullcontext
    retries_max: int = RETRIES_MAX

    def __post_init__(self) -> None:
        self._rewinds_in_a_row = 0
        self._waiting = Stage(self.batches_max)
        self._committed: deque[Batch] = deque()
        self._dead_letters = DeadLetterLog()
        self._are_headers_told = False
        self._thread = StageThread("publish", self._run)
        self.start = self._thread.start
        self.close = self._waiting.close

    def submit(self, batch: Batch, wait_s: float = 0.0) -> bool:
        """
        Take a batch. Returns False if there was no room for it within `wait_s`.

        Raises:
            NeardupError: the error with which the publishing thread has ended.
        """
        self._thread.check()
        return self._waiting.submit(batch, wait_s)

    def poll(self) -> Batch | None:
        """
        Return the next finished batch, or None. Its shares are those that were committed.

        Raises:
            NeardupError: the error with which the publishing thread has ended.
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
        Publish the documents of the next batch whose claims still hold.

        Raises:
            StopError: everything had to be read again too many times in a row, or the cluster
                refuses for good.
            FencedError: another process has taken over this worker id.
        """
        self._dead_letters.tick()
        batch = self._waiting.poll(wait_s)
        if batch is None or not batch.drop_void(self.partitions):
            return
        try:
            if batch.failure is not None:
                raise batch.failure
            with metrics.STAGE_S.labels("publish").time():
                batch.outgoing = self._outgoing(batch)
                with self.traced(batch):
                    self._commit_settled(batch)
        except RetryError as error:
            self._read_again(error)
            return
        # If no share of the batch was still ours, nothing was sent, so its success proves nothing
        # about the cluster.
        if batch.shares:
            self._rewinds_in_a_row = 0
            self._committed.append(batch)

    def _outgoing(self, batch: Batch) -> list[Outgoing | None]:
        """Return what is published for each message; None if its partition is no longer ours."""
        topic = self.settings.topic_verdicts
        outgoing: list[Outgoing | None] = []
        for message, answer in zip(batch.messages, batch.answers, strict=True):
            if isinstance(answer, VerdictBytes):
                outgoing.append(Outgoing(topic, answer.key, answer.value))
            elif answer is None:
                outgoing.append(None)
            else:
                outgoing.append(self._dead_letter(message, answer))
        return outgoing

    def _dead_letter(self, message: InputMessage, error: DocumentError) -> Outgoing:
        topics = self.settings
        key, value, headers = encode_dead_letter(topics.topic_documents, message, error)
        return Outgoing(topics.topic_dead_letter, key, value, tuple(headers))

    def _commit_settled(self, batch: Batch) -> None:
        """
        Commit; after a settled failure try again, up to `retries_max` times.

        The lock is released between two attempts. Only then can the rebalance that made the first
        attempt fail go on, and the second attempt needs the new group metadata.

        Raises:
            RetryError: the outcome is in doubt, or the attempts are used up.
        """
        for attempt in count(1):
            try:
                with self.partitions.transaction:
                    self._commit(batch)
                break
            except RetryError as error:
                metrics.RETRIES.inc()
                if not error.settled or attempt > self.retries_max:
                    raise
                _log.warning("transaction aborted, trying again", cause=str(error), attempt=attempt)
            self.sleep(min(0.05 * attempt, 0.5))

    def _commit(self, batch: Batch) -> None:
        """
        Commit what is still ours of a batch in one transaction. The module's head says what may
        fail.
        """
        started_s = time.monotonic()
        # 1. The group metadata, before the claims: read after them, it may be of a generation in
        #    which another member has the partitions.
        group_metadata = self.partitions.group_metadata
        # 2. The shares that are still ours. They stay ours: a revocation waits for the end of the
        #    transaction.
        if not batch.drop_void(self.partitions):
            return
        places = [at for share in batch.shares for at in range(share.begin, share.end)]
        answers: list[Outgoing] = []
        for at in places:
            message = batch.outgoing[at]
            if message is not None:
                answers.append(message)
        documents, without_headers = self._new_documents(batch, places)
        stops = {share.claim: share.stop for share in batch.shares}
        topics = {message.topic for message in (*answers, *documents)}
        # 3. Begin. What an earlier transaction may have left open in these topics is ended first.
        with self.publisher.transaction(topics) as transaction:
            # 4. Verdicts and dead letters.
            transaction.produce(answers)
            # 5. New documents.
            transaction.produce(documents)
            self.reach(Point.IN_TRANSACTION)
            # 6. Offsets, and with them the log and how much of it was applied: a worker that starts
            #    later can tell that its log is another one, or has lost records.
            commits = {
                claim.partition: batch.commit_metadata.committed_at(stop)
                for claim, stop in stops.items()
            }
            transaction.send_offsets(commits, group_metadata)
            self.reach(Point.AFTER_OFFSETS)
            # 7. Commit: the end of this block. An exception in it aborts.
        metrics.TRANSACTION_S.observe(time.monotonic() - started_s)
        self.reach(Point.AFTER_COMMIT)
        # 8. The partitions stand behind what was committed.
        last_ms = {
            share.claim: first_stamp_ms(reversed(batch.messages[share.begin : share.end]))
            for share in batch.shares
        }
        self.partitions.publish(stops, last_ms)
        self._count(batch, places)
        if without_headers:
            self._tell_headers(without_headers)

    def _new_documents(
        self, batch: Batch, places: list[int]
    ) -> tuple[list[Outgoing], list[InputMessage]]:
        """
        Return each new document as it came, and a null value for each that was deleted; and the
        messages whose headers are left out.

        Their key is the verdict's: a document may come without one, and a compacted copy needs it.
        A document whose headers take more than HEADERS_BYTES_MAX goes without them: the topic may
        refuse them, and one such document would end every worker.
        """
        topic = self.settings.topic_new
        if topic is None:
            return [], []
        documents = []
        without_headers = []
        for at in places:
            answer = batch.answers[at]
            if isinstance(answer, VerdictBytes) and answer.outcome in FORWARDED:
                message = batch.messages[at]
                headers = message.headers
                if headers_bytes(headers) > HEADERS_BYTES_MAX:
                    without_headers.append(message)
                    headers = ()
                documents.append(Outgoing(topic, answer.key, message.value, headers))
        return documents, without_headers

    def _tell_headers(self, messages: list[InputMessage]) -> None:
        """Count the messages that were forwarded without their headers; log the first of all."""
        metrics.HEADERS_LEFT_OUT.labels("size").inc(len(messages))
        if self._are_headers_told:
            return
        self._are_headers_told = True
        message = messages[0]
        _log.warning(
            "the headers of a new document are too large: it is forwarded without them, and so are "
            "others like it",
            partition=message.partition,
            offset=message.offset,
            headers_bytes=headers_bytes(message.headers),
            headers_bytes_max=HEADERS_BYTES_MAX,
            remedy="have the crawler send fewer or shorter headers, or put them into the document; "
            "neardup_headers_left_out_total counts the documents",
        )

    def _count(self, batch: Batch, places: list[int]) -> None:
        """
        Count and log what has been committed. This comes after the commit, so that it is true.
        """
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
        sent_ms = np.array([batch.messages[at].timestamp_ms for at in places], np.int64)
        metrics.LATENCY_S.observe(time.time() - sent_ms[sent_ms > 0] / 1_000)

    def _read_again(self, error: RetryError) -> None:
        """
        Have everything read again from the committed offsets, up to `retries_max` times in a row.

        First a new producer settles the transaction in doubt, then the claims become void. In this
        order, because the intake must read committed offsets that no transaction of ours can still
        move.

        Raises:
            StopError: everything was read again too many times in a row.
        """
        self._rewinds_in_a_row += 1
        if self._rewinds_in_a_row > self.retries_max:
            raise StopError(
                f"gave up after reading again {self.retries_max} times in a row: {error}"
            ) from error
        _log.warning("reading again", cause=str(error), in_a_row=self._rewinds_in_a_row)
        try:  # at once: until then the transaction in doubt hides the committed offsets
            self.publisher.open()
        except RetryError as failure:  # then the next transaction opens a producer
            _log.warning("the transaction in doubt stays open for now", cause=str(failure))
        self.partitions.rewind()
        metrics.REWINDS.inc()
        self.sleep(min(0.05 * self._rewinds_in_a_row, 0.5))


class DeadLetterLog:
    """
    Logs the first dead letter of each class, and once a minute how many more there were.

    It logs no content of documents, which may be private.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._due_s = clock() + DEAD_LETTERS_TOLD_S
        self._classes: set[str] = set()
        self._more: Counter[str] = Counter()

    def add(self, code: str, partition: int, offset: int) -> None:
        """Take a dead letter that has been committed."""
        metrics.DEAD_LETTERS.labels(code).inc()
        if code in self._classes:
            self._more[code] += 1
            return
        self._classes.add(code)
        remedy = "see `neardup verdicts --only dead`; more of this class are counted once a minute"
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
