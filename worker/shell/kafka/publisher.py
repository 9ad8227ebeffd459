"""Verdicts and source offsets in one transaction, and what becomes of a producer whose end is in doubt."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from worker.errors import FencedError, NeardupError, RetryError
from worker.shell.faultpoints import Point, Reach, never
from worker.shell.kafka.errors import TIMED_OUT, logged, translate, translated
from worker.shell.ports import Outgoing

__all__ = ["TransactionalPublisher"]

LATE = 1.5  # times its own time-out: a call that has not returned by then never will


def _unlimited(_doing: str, _limit_s: float) -> AbstractContextManager[None]:
    return contextlib.nullcontext()


class TransactionalPublisher:
    """
    Verdicts and source offsets in one transaction.

    After a call of ours that timed out the producer is mostly fenced by its own coordinator, not by a successor: it is
    made anew, which also settles what became of the open transaction. Fenced without such a reason means a successor.

    Args:
        limit: what a call runs under that may never return, whatever its time-out: see `Watchdog.limit`.
    """

    def __init__(
        self,
        config: dict[str, Any],
        source_topic: str,
        call_timeout_s: float,
        transaction_timeout_s: float,
        reach: Reach = never,
        limit: Callable[[str, float], AbstractContextManager[None]] = _unlimited,
    ) -> None:
        self._limit = limit
        self._reach = reach
        self._config = config
        self._source_topic = source_topic
        self._call_timeout_s = call_timeout_s
        self._transaction_timeout_s = transaction_timeout_s
        self._producer: Producer | None = None
        self._doubtful = False  # a call timed out, or the transaction outlived its time: fencing may be our own doing

    def _ready(self) -> Producer:
        if self._producer is None:
            self._producer = Producer(logged(self._config))
            try:
                with self._calling("opening the transactional producer"):
                    self._producer.init_transactions(self._call_timeout_s)
            except KafkaException as error:
                self._producer = None
                raise translated(error, "opening the transactional producer") from error
            self._doubtful = False
        return self._producer

    def _calling(self, doing: str) -> AbstractContextManager[None]:
        return self._limit(doing, LATE * self._call_timeout_s)

    def open(self) -> None:
        """Take over this worker's transactional id: a predecessor's open transaction ends here."""
        self._ready()

    def publish(
        self, messages: Sequence[Outgoing], offsets: Mapping[int, int], membership: Any, metadata: str = ""
    ) -> None:
        """Publish in one transaction; see `ports.Publisher`."""
        producer = self._ready()
        started = time.monotonic()
        try:
            producer.begin_transaction()
            self._send(producer, messages)
            self._reach(Point.IN_TRANSACTION)
            positions = [TopicPartition(self._source_topic, number, stop, metadata) for number, stop in offsets.items()]
            with self._calling("sending offsets to a transaction"):
                producer.send_offsets_to_transaction(positions, membership, self._call_timeout_s)
            self._reach(Point.AFTER_OFFSETS)
            with self._calling("committing a transaction"):
                producer.commit_transaction(self._call_timeout_s)
        except KafkaException as error:
            if time.monotonic() - started > self._transaction_timeout_s:
                self._doubtful = True
            raise self._give_up(producer, error.args[0]) from error

    def _send(self, producer: Producer, messages: Sequence[Outgoing]) -> None:
        for message in messages:
            while True:
                try:
                    producer.produce(
                        message.topic, value=message.value, key=message.key, headers=list(message.headers) or None
                    )
                    break
                except BufferError:  # the queue is full: let some go out
                    producer.poll(0.05)
        producer.poll(0)

    def _give_up(self, producer: Producer, error: KafkaError) -> NeardupError:
        """Abort if that is still possible, else throw the producer away; give the error to raise."""
        ours = translate(error, "publishing verdicts")
        if error.code() == KafkaError.FENCED_INSTANCE_ID:
            # Our own consumer may have rejoined under a new member id since. If a successor has taken the place, the
            # consumer says so, and the producer is fenced as well.
            ours = RetryError("publishing verdicts: the membership is not the current one")
        if error.code() in TIMED_OUT:
            self._doubtful = True
        if isinstance(ours, RetryError) and not (error.fatal() or self._doubtful):
            try:
                with self._calling("aborting a transaction"):
                    producer.abort_transaction(self._call_timeout_s)
                return RetryError(str(ours), settled=True)
            except KafkaException as failure:
                ours = translated(failure, "aborting a transaction")
        if isinstance(ours, FencedError) and self._doubtful:
            ours = RetryError(str(ours))
        self._producer = None
        return ours

    def close(self) -> None:
        """Abort what is open."""
        if self._producer is not None:
            with contextlib.suppress(KafkaException):
                self._producer.abort_transaction(1.0)
        self._producer = None
