"""
Verdicts and source offsets in one transaction, and what becomes of a producer whose end is in doubt.

Apache Kafka 4.3.1 can end a transaction without telling its partitions: a coordinator that comes back beside a
leader that is not serving yet takes the partition for deleted, and writes no marker into it (KAFKA-20734). What the
transaction wrote there stays open: readers wait, and the next commit under the same id makes it visible, so that
documents that were answered again since have two answers. So each new producer begins with a transaction of its own
that writes into every partition where one before it may have written, and aborts it: that marker ends what is left.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from worker.errors import FencedError, NeardupError, RetryError
from worker.shell.faultpoints import Point, Reach, never
from worker.shell.kafka.again import ask_again
from worker.shell.kafka.errors import TIMED_OUT, logged, translate, translated
from worker.shell.ports import Outgoing

__all__ = ["Scope", "TransactionalPublisher"]

LATE = 1.5  # times its own time-out: a call that has not returned by then never will
CALLS_MAX = 10  # one after another, each just within its time-out: what is longer is no progress
_REFUSED = {  # by the group's coordinator, which has thereby become a part of the transaction
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.FENCED_INSTANCE_ID,
    KafkaError.STALE_MEMBER_EPOCH,
}


class Scope(NamedTuple):
    """
    What a transaction writes: answers into `topics`, and offsets of `source` for the group of `group_config`.

    `unread` is a topic that we may read and of which the group holds no offset: the clearing transaction names it.
    """

    source: str
    topics: Sequence[str]
    group_config: dict[str, Any]
    unread: str


def _unlimited(_doing: str, _limit_s: float) -> AbstractContextManager[None]:
    return contextlib.nullcontext()


class TransactionalPublisher:
    """
    Verdicts and source offsets in one transaction.

    After a call of ours that timed out the producer is mostly fenced by its own coordinator, not by a successor: it is
    made anew, which also settles what became of the open transaction. Fenced without such a reason means a successor.

    Args:
        scope: all that publishing writes: what a new producer clears of leftovers.
        limit: what a call runs under that may never return, whatever its time-out: see `Watchdog.limit`.
    """

    def __init__(
        self,
        config: dict[str, Any],
        scope: Scope,
        call_timeout_s: float,
        transaction_timeout_s: float,
        reach: Reach = never,
        limit: Callable[[str, float], AbstractContextManager[None]] = _unlimited,
    ) -> None:
        self._limit = limit
        self._reach = reach
        self._config = config
        self._scope = scope
        self._call_timeout_s = call_timeout_s
        self._transaction_timeout_s = transaction_timeout_s
        self._producer: Producer | None = None
        self._calls = threading.Lock()  # held while a call may be inside the client
        self._is_clear = False  # nothing that a transaction before wrote can be open
        self._doubtful = False  # a call timed out, or the transaction outlived its time: fencing may be our own doing

    def _ready(self) -> Producer:
        """Give a producer with nothing left open behind it; make it if there is none."""
        if self._producer is not None and self._is_clear:
            return self._producer
        producer, started = self._producer or Producer(logged(self._config)), time.monotonic()
        try:
            if self._producer is None:
                with self._calling("opening the transactional producer"):
                    producer.init_transactions(self._call_timeout_s)
            self._clear(producer)
        except NeardupError:
            self._discard(producer)
            raise
        except KafkaException as error:
            self._discard(producer)
            ours = translated(error, "opening the transactional producer")
            if isinstance(ours, FencedError) and self._outlived(started):
                ours = RetryError(str(ours))
            raise ours from error
        self._producer, self._is_clear, self._doubtful = producer, True, False
        return producer

    def _clear(self, producer: Producer) -> None:
        """Write into every partition that a transaction before may have left open, and abort."""
        failures: list[KafkaError] = []

        def delivered(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                failures.append(error)

        parts = [(topic, number) for topic in self._scope.topics for number in self._partitions(producer, topic)]
        producer.begin_transaction()
        for topic, number in parts:
            producer.produce(topic, key=b"void", value=b"", partition=number, on_delivery=delivered)
        with self._calling("clearing open transactions"):
            if producer.flush(self._call_timeout_s) > 0:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        if failures:
            raise KafkaException(failures[0])
        with self._calling("clearing pending offsets"):
            try:  # aborted with the rest
                unread = [TopicPartition(self._scope.unread, 0, 0)]
                producer.send_offsets_to_transaction(unread, self._outsider, self._call_timeout_s)
            except KafkaException as error:
                if error.args[0].code() not in _REFUSED:
                    raise
        with self._calling("ending the clearing transaction"):
            producer.abort_transaction(self._call_timeout_s)

    @cached_property
    def _outsider(self) -> Any:
        """The metadata of a consumer outside the group, always the same; nothing is sent."""
        consumer = Consumer(logged(self._scope.group_config))
        try:
            return consumer.consumer_group_metadata()
        finally:
            consumer.close()

    def _partitions(self, producer: Producer, topic: str) -> list[int]:
        """Give the partitions of a topic as the cluster has them now."""

        def ask(timeout_s: float) -> list[int]:
            found = producer.list_topics(topic, timeout_s).topics[topic]
            if found.error is not None:
                raise KafkaException(found.error)
            return sorted(found.partitions)

        doing = f"asking for the partitions of {topic}"
        with self._calling(doing):
            return ask_again(ask, doing, self._call_timeout_s)

    def _discard(self, producer: Producer) -> None:
        """Destroy a producer with all that it holds: left alone, it would go on sending beside the next one."""
        self._producer = None
        with contextlib.suppress(KafkaException), self._calling("closing a producer"):
            producer.purge()
            producer.close()  # type: ignore[attr-defined]  # which the stubs lack

    def _outlived(self, started_s: float) -> bool:
        """Tell whether a transaction begun then has outlived its time, so that its coordinator has ended it."""
        return time.monotonic() - started_s > self._transaction_timeout_s

    def _calling(self, doing: str) -> AbstractContextManager[None]:
        return self._limit(doing, LATE * self._call_timeout_s)

    def open(self) -> None:
        """Take over this worker's transactional id: a predecessor's open transaction ends here."""
        with self._calls, self._limit("settling what is open", CALLS_MAX * self._call_timeout_s):
            self._ready()

    def publish(
        self, messages: Sequence[Outgoing], offsets: Mapping[int, int], membership: Any, metadata: str = ""
    ) -> None:
        """Publish in one transaction; see `ports.Publisher`."""
        with self._calls, self._limit("publishing verdicts", CALLS_MAX * self._call_timeout_s):
            self._publish(messages, offsets, membership, metadata)

    def _publish(
        self, messages: Sequence[Outgoing], offsets: Mapping[int, int], membership: Any, metadata: str
    ) -> None:
        producer = self._ready()
        started = time.monotonic()
        try:
            producer.begin_transaction()
            self._send(producer, messages)
            self._reach(Point.IN_TRANSACTION)
            positions = [TopicPartition(self._scope.source, number, stop, metadata) for number, stop in offsets.items()]
            with self._calling("sending offsets to a transaction"):
                producer.send_offsets_to_transaction(positions, membership, self._call_timeout_s)
            self._reach(Point.AFTER_OFFSETS)
            with self._calling("committing a transaction"):
                producer.commit_transaction(self._call_timeout_s)
        except KafkaException as error:
            self._doubtful |= self._outlived(started)
            raise self._give_up(producer, _cause(producer, error.args[0])) from error

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
                self._is_clear = False
                return RetryError(str(ours), settled=True)
            except KafkaException as failure:
                ours = translated(failure, "aborting a transaction")
        if isinstance(ours, FencedError) and self._doubtful:
            ours = RetryError(str(ours))
        self._discard(producer)
        return ours

    def close(self) -> None:
        """Abort what is open. While another thread is still inside the client, that is left to the process's end."""
        if not self._calls.acquire(blocking=False):
            return
        if self._producer is not None:
            with contextlib.suppress(KafkaException), self._calling("aborting a transaction"):
                self._producer.abort_transaction(1.0)
            self._discard(self._producer)
        self._calls.release()


def _cause(producer: Producer, error: KafkaError) -> KafkaError:
    """Give what has made the transaction fail, when a later call only says that it has."""
    if error.code() == KafkaError._STATE:
        try:
            producer.begin_transaction()  # refused, with the first error; nothing is sent
        except KafkaException as first:
            error = first.args[0]
    return error
