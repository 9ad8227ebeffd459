"""Verdicts and source offsets in one transaction, and what becomes of a producer whose end is in doubt."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from worker.errors import FencedError, NeardupError, RetryError
from worker.shell.kafka.clearing import Clearing, Scope
from worker.shell.kafka.errors import TIMED_OUT, logged, translate, translated
from worker.shell.ports import Outgoing
from worker.shell.runtime.fault_hooks import FaultHook, Point, never

LATE = 1.5  # times its own time-out: a call that has not returned by then never will
CALLS_MAX = 10  # one after another, each just within its time-out: what is longer is no progress


def _unlimited(_doing: str, _limit_s: float) -> AbstractContextManager[None]:
    return contextlib.nullcontext()


class TransactionalPublisher:
    """
    Verdicts and source offsets in one transaction.

    After a call of ours that timed out the producer is mostly fenced by its own coordinator, not by a successor: it is
    made anew, which also settles what became of the open transaction. Fenced without such a reason means a successor.

    Args:
        scope: all that publishing writes, for `Clearing`.
        limit: what a call runs under that may never return, whatever its time-out: see `Watchdog.limit`.
    """

    def __init__(
        self,
        config: dict[str, Any],
        scope: Scope,
        call_timeout_s: float,
        transaction_timeout_s: float,
        reach: FaultHook = never,
        limit: Callable[[str, float], AbstractContextManager[None]] = _unlimited,
    ) -> None:
        self._limit = limit
        self._reach = reach
        self._config = config
        self._source = scope.source
        self._call_timeout_s = call_timeout_s
        self._transaction_timeout_s = transaction_timeout_s
        self._producer: Producer | None = None
        self._calls = threading.Lock()  # held while a call may be inside the client
        self._clearing = Clearing(scope, call_timeout_s, self._calling)
        self._doubtful = False  # a call timed out, or the transaction outlived its time: fencing may be our own doing

    def _ready(self, topics: Collection[str] = ()) -> Producer:
        """Return a producer with nothing left open behind it that matters to these topics; make it if there is none."""
        if self._producer is not None and not self._clearing.is_needed(topics):
            return self._producer
        producer, started = self._producer or Producer(logged(self._config)), time.monotonic()
        try:
            if self._producer is None:
                with self._calling("opening the transactional producer"):
                    producer.init_transactions(self._call_timeout_s)
                self._clearing.begin()
            self._clearing.run(producer, topics)
        except NeardupError:
            self._discard(producer)
            raise
        except KafkaException as error:
            self._discard(producer)
            ours = translated(error, f"opening the transactional producer {self._config['transactional.id']}")
            if isinstance(ours, FencedError) and self._outlived(started):
                ours = RetryError(str(ours))
            raise ours from error
        self._producer, self._doubtful = producer, False
        return producer

    def _discard(self, producer: Producer) -> None:
        """Destroy a producer with all that it holds: left alone, it would go on sending beside the next one."""
        self._producer = None
        with contextlib.suppress(KafkaException), self._calling("closing a producer"):
            producer.purge()
            producer.close()  # type: ignore[attr-defined]  # which the stubs lack

    def _outlived(self, started_s: float) -> bool:
        """Return whether a transaction begun then has outlived its time, so that its coordinator has ended it."""
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
        producer = self._ready({message.topic for message in messages})
        started, offsets_sent = time.monotonic(), False
        try:
            producer.begin_transaction()
            self._send(producer, messages)
            self._reach(Point.IN_TRANSACTION)
            positions = [TopicPartition(self._source, number, stop, metadata) for number, stop in offsets.items()]
            offsets_sent = True
            with self._calling("sending offsets to a transaction"):
                producer.send_offsets_to_transaction(positions, membership, self._call_timeout_s)
            self._reach(Point.AFTER_OFFSETS)
            with self._calling("committing a transaction"):
                producer.commit_transaction(self._call_timeout_s)
        except KafkaException as error:
            self._doubtful |= self._outlived(started)
            ours = self._give_up(producer, _cause(producer, error.args[0]))
            if isinstance(ours, RetryError) and ours.settled:
                self._clearing.aborted(messages, offsets_sent=offsets_sent)
            raise ours from error

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
        """Abort if that is still possible, else throw the producer away; return the error to raise."""
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
    """Return what has made the transaction fail, when a later call only says that it has."""
    if error.code() == KafkaError._STATE:
        try:
            producer.begin_transaction()  # refused, with the first error; nothing is sent
        except KafkaException as first:
            error = first.args[0]
    return error
