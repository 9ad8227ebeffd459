"""
Publishes answers and source offsets in one transaction, as a `ports.Publisher`.

If a call of ours timed out and the producer is then fenced, its own coordinator has usually fenced
it, not a successor. So it is replaced by a new producer, which also settles the open transaction.
If a producer is fenced without such a time-out, a successor has taken over.

Apache Kafka 4.3.1 can end a transaction without telling its partitions (KAFKA-20734). If a
coordinator restarts while the leader of a partition does not serve yet, it takes that partition for
deleted, and writes no marker into it. The transaction then stays open there: readers wait, and the
next commit under the same id makes its messages visible, so documents that were answered again
meanwhile have two answers. Therefore, before a producer commits anything in such a partition, it
writes into it and aborts. The marker of the abort ends the old transaction. `Clearing` knows where
this is needed:

    a new producer            every partition of every topic, and the group's offsets
    an abort of its own       where the aborted transaction wrote
    a partition offline       waits, and with it only what is to be written into its topic
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from worker.errors import FencedError, NeardupError, RetryError, StopError
from worker.settings import Settings, command
from worker.shell.kafka import client, configuration
from worker.shell.kafka.admin import Admin
from worker.shell.ports import CommittedOffset, Outgoing
from worker.shell.runtime.logging import get_logger

LATE = 1.5  # a call that has not returned after this many times its time-out never will
CALLS_MAX = 10  # calls in a row, each just within its time-out; more would be no progress
VOID = b'{"void":"no answer, written to be aborted: read with isolation.level=read_committed"}'

_ANY = -1  # the partition that the key leads to
_REFUSED = {  # the group's coordinator refuses, and so has become part of the transaction
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.FENCED_INSTANCE_ID,
    KafkaError.STALE_MEMBER_EPOCH,
}

# What the client reports for calls and messages after the error that made the transaction fail.
_CONSEQUENCES = {KafkaError._STATE, KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT}

# Runs one call into the client, with a text that says what it is for.
Calling = Callable[[str], AbstractContextManager[None]]

_log = get_logger(__name__)


class TransactionalPublisher:
    """
    A transactional producer. If the end of a transaction is in doubt, a new producer replaces it.

    Args:
        limit: the context for calls that may never return, in spite of their time-out. See
            `Watchdog.limit`.
        slot: see `configuration.publisher_config`.
    """

    def __init__(
        self,
        settings: Settings,
        limit: Callable[[str, float], AbstractContextManager[None]] = lambda *_: nullcontext(),
        slot: str = "",
    ) -> None:
        self._limit = limit
        self._settings = settings
        self._config = configuration.publisher_config(settings, slot)
        self._source = settings.topic_documents
        self._call_timeout_s = settings.call_timeout_s
        self._transaction_timeout_s = settings.transaction_timeout_ms / 1_000
        self._producer: Producer | None = None
        self._calls = threading.Lock()  # held while a call may be inside the client
        self._clearing = Clearing(settings, self._calling)
        # A call or the transaction has timed out, so we may have been fenced by our own
        # coordinator.
        self._doubtful = False

    def open(self) -> None:
        with self._calls, self._limit("settling what is open", CALLS_MAX * self._call_timeout_s):
            self._ready()

    @contextmanager
    def transaction(self, topics: Collection[str]) -> Iterator[_Transaction]:
        with self._calls, self._limit("publishing verdicts", CALLS_MAX * self._call_timeout_s):
            producer = self._ready(topics)
            running = _Transaction(producer, self._source, self._call_timeout_s, self._calling)
            started_s = time.monotonic()
            try:
                producer.begin_transaction()
                yield running
                with self._calling("committing a transaction"):
                    producer.commit_transaction(self._call_timeout_s)
            except KafkaException as error:
                self._doubtful |= self._outlived(started_s)
                cause = _cause(producer, error.args[0])
                ours = self._give_up(producer, cause)
                if cause.code() == KafkaError.INVALID_RECORD:
                    ours = self._explained(ours, running.messages)
                if isinstance(ours, RetryError) and ours.settled:
                    self._clearing.aborted(running.messages, offsets_sent=running.offsets_sent)
                raise ours from error

    def _ready(self, topics: Collection[str] = ()) -> Producer:
        """
        Return a producer after which nothing is left open in these topics. Make one if there is
        none.
        """
        if self._producer is not None and not self._clearing.is_needed(topics):
            return self._producer
        producer = self._producer or client.made(Producer, self._config)
        started_s = time.monotonic()
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
            cause = _cause(producer, error.args[0])
            self._discard(producer)
            ours = client.translate(
                cause, f"opening the transactional producer {self._config['transactional.id']}"
            )
            if isinstance(ours, FencedError) and self._outlived(started_s):
                ours = RetryError(str(ours))
            raise ours from error
        self._producer = producer
        self._doubtful = False
        return producer

    def _explained(self, refusal: NeardupError, messages: Sequence[Outgoing]) -> NeardupError:
        """Return a refusal of one of these messages with what the topics' settings say of it."""
        try:
            topics = Admin(self._settings).describe(sorted({one.topic for one in messages}))
        except NeardupError:
            return refusal
        policies = {name: topic.config.get("cleanup.policy", "") for name, topic in topics.items()}
        return StopError(f"{refusal}{why_refused(messages, policies, self._settings)}")

    def _discard(self, producer: Producer) -> None:
        """
        Destroy a producer and all that it holds. Otherwise it would go on sending, next to its
        replacement.
        """
        self._producer = None
        with suppress(KafkaException), self._calling("closing a producer"):
            producer.purge()
            producer.close()  # type: ignore[attr-defined]  # which the stubs lack

    def _outlived(self, started_s: float) -> bool:
        """
        Return whether a transaction that began at this time has timed out, so that its coordinator
        has ended it.
        """
        return time.monotonic() - started_s > self._transaction_timeout_s

    def _calling(self, doing: str) -> AbstractContextManager[None]:
        return self._limit(doing, LATE * self._call_timeout_s)

    def _give_up(self, producer: Producer, error: KafkaError) -> NeardupError:
        """
        Abort the transaction if that is still possible, otherwise discard the producer. Returns the
        error to raise.
        """
        ours = client.translate(error, "publishing verdicts")
        if error.code() == KafkaError.FENCED_INSTANCE_ID:
            # Our own consumer may have rejoined under a new member id since. If a successor has
            # taken the place, the consumer says so, and the producer is fenced as well.
            ours = RetryError("publishing verdicts: the membership is not the current one")
        if error.code() in client.TIMED_OUT:
            self._doubtful = True
        if isinstance(ours, RetryError) and not (error.fatal() or self._doubtful):
            try:
                with self._calling("aborting a transaction"):
                    producer.abort_transaction(self._call_timeout_s)
                return RetryError(str(ours), settled=True)
            except KafkaException as failure:
                ours = client.translate(failure, "aborting a transaction")
        if isinstance(ours, FencedError) and self._doubtful:
            ours = RetryError(str(ours))
        self._discard(producer)
        return ours

    def close(self) -> None:
        """
        Abort an open transaction. If another thread is still inside the client, the end of the
        process does that.
        """
        if not self._calls.acquire(blocking=False):
            return
        if self._producer is not None:
            with suppress(KafkaException), self._calling("aborting a transaction"):
                self._producer.abort_transaction(1.0)
            self._discard(self._producer)
        self._calls.release()


@dataclass(eq=False)
class _Transaction:
    """One transaction's messages and offsets: a `ports.Transaction`."""

    producer: Producer
    source: str
    call_timeout_s: float
    calling: Calling
    messages: list[Outgoing] = field(default_factory=list)
    offsets_sent: bool = False

    def produce(self, messages: Iterable[Outgoing]) -> None:
        for message in messages:
            self.messages.append(message)
            client.produce(
                self.producer,
                message.topic,
                lambda: self.producer.poll(0.05),
                value=message.value,
                key=message.key,
                headers=list(message.headers) or None,
            )
        self.producer.poll(0)

    def send_offsets(self, offsets: Mapping[int, CommittedOffset], group_metadata: Any) -> None:
        positions = [
            TopicPartition(self.source, number, commit.offset or 0, commit.metadata)
            for number, commit in offsets.items()
        ]
        self.offsets_sent = True
        with self.calling("sending offsets to a transaction"):
            self.producer.send_offsets_to_transaction(
                positions, group_metadata, self.call_timeout_s
            )


def why_refused(
    messages: Sequence[Outgoing], policies: Mapping[str, str], settings: Settings
) -> str:
    """
    Return what may have made the brokers refuse one of these messages, as sentences with a remedy;
    "": nothing is known.

    Args:
        messages: those of a transaction.
        policies: the `cleanup.policy` of each topic.
        settings: those of the worker.

    >>> why_refused([Outgoing("letters", None, b"")], {"letters": "compact,delete"}, Settings())
    ... # doctest: +NORMALIZE_WHITESPACE
    '. A message for letters has no key, and its cleanup.policy is compact,delete: a compacted topic
    takes none without a key. neardup topics alter letters cleanup.policy=delete'
    >>> why_refused([Outgoing("letters", b"key", b"")], {"letters": "compact"}, Settings())
    ''
    """
    keyless = {message.topic for message in messages if message.key is None}
    return "".join(
        f". A message for {name} has no key, and its cleanup.policy is {policies[name]}: "
        "a compacted topic takes none without a key. "
        f"{command(settings, 'topics alter')} {name} cleanup.policy=delete"
        for name in sorted(keyless)
        if "compact" in policies.get(name, "")
    )


def _cause(producer: Producer, error: KafkaError) -> KafkaError:
    """
    Return the error that made the transaction fail, if this later error only says that it has
    failed.
    """
    if error.code() in _CONSEQUENCES:
        try:
            producer.begin_transaction()  # is refused with the first error; nothing is sent
        except KafkaException as first:
            error = first.args[0]
    return error


class _Place(NamedTuple):
    topic: str
    partition: int
    key: bytes = b"void"


class Clearing:
    """Knows where transactions of one producer id may have left something open, and ends it."""

    def __init__(self, settings: Settings, calling: Calling) -> None:
        answers = (settings.topic_verdicts, settings.topic_dead_letter, settings.topic_new)
        self._topics = [name for name in answers if name]
        self._group_config = configuration.offsets_config(settings)
        # A topic that we may read, and for which the group has no offset.
        self._unread = settings.topic_fingerprints
        self._call_timeout_s = settings.call_timeout_s
        self._calling = calling
        self._is_new = True
        self._all: set[_Place] = set()
        self._left: set[_Place] = set()
        self._offsets_left = False

    def begin(self) -> None:
        """
        Assume that everything is open, because the producer is new and its predecessor unknown.
        """
        self._is_new = True

    def aborted(self, messages: Sequence[Outgoing], *, offsets_sent: bool) -> None:
        """Note where a transaction of ours has written and was aborted."""
        for topic, key, _, _ in messages:
            anywhere = (place for place in self._all if place.topic == topic)
            self._left.update([_Place(topic, _ANY, key)] if key else anywhere)
        self._offsets_left |= offsets_sent

    def is_needed(self, topics: Collection[str]) -> bool:
        """
        Return whether a commit into these topics, with offsets, could make something visible that
        is still open.
        """
        return (
            self._is_new or self._offsets_left or any(place.topic in topics for place in self._left)
        )

    def run(self, producer: Producer, topics: Collection[str]) -> None:
        """
        End what was left open. Partitions without a leader are left for later, but those of
        `topics` are waited for.

        Raises:
            KafkaException, RetryError: something is still open. The caller must make a new
                producer.
        """
        asked = (
            self._topics
            if self._is_new
            else {place.topic for place in self._left if place.partition != _ANY}
        )
        serving = {
            topic: self._serving(producer, topic, is_awaited=topic in topics) for topic in asked
        }
        if self._is_new:
            self._all = {
                _Place(topic, number) for topic, parts in serving.items() for number in parts
            }
            self._left, self._offsets_left = set(self._all), True
        ready = {
            place
            for place in self._left
            if place.partition == _ANY or serving[place.topic][place.partition]
        }
        self._abort(producer, sorted(ready))
        self._left -= ready
        self._is_new = self._offsets_left = False
        if self._left:
            offline = sorted(f"{place.topic}[{place.partition}]" for place in self._left)
            _log.warning(
                "partitions without a leader: their topics get no answers until they have one",
                of=offline,
            )

    def _abort(self, producer: Producer, places: Sequence[_Place]) -> None:
        """Write into all these partitions in one transaction, and abort it."""
        failures: list[KafkaError] = []

        def delivered(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                failures.append(error)

        producer.begin_transaction()
        for place in places:
            client.produce(
                producer, place.topic, lambda: producer.poll(0.05),
                value=VOID, key=place.key, partition=place.partition, on_delivery=delivered,
            )  # fmt: skip
        with self._calling("clearing open transactions"):
            if producer.flush(self._call_timeout_s) > 0:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        if failures:
            raise KafkaException(failures[0])
        if self._offsets_left:
            with self._calling("clearing pending offsets"):
                self._send_offsets(producer)
        with self._calling("ending the clearing transaction"):
            producer.abort_transaction(self._call_timeout_s)

    def _send_offsets(self, producer: Producer) -> None:
        """
        Make the group's coordinator part of the transaction. The offset is aborted with the rest.
        """
        try:
            unread = [TopicPartition(self._unread, 0, 0)]
            producer.send_offsets_to_transaction(unread, self._outsider, self._call_timeout_s)
        except KafkaException as error:
            if error.args[0].code() not in _REFUSED:
                raise

    @cached_property
    def _outsider(self) -> Any:
        """
        The metadata of a consumer outside the group, which is always the same. Nothing is sent.
        """
        consumer = client.made(Consumer, self._group_config)
        try:
            return consumer.consumer_group_metadata()
        finally:
            consumer.close()

    def _serving(self, producer: Producer, topic: str, *, is_awaited: bool) -> dict[int, bool]:
        """
        Return the partitions of a topic as the cluster has them now, each with whether it has a
        leader.
        """

        def ask(timeout_s: float) -> dict[int, bool]:
            found = producer.list_topics(topic, timeout_s).topics[topic]
            if found.error is not None:
                raise KafkaException(found.error)
            serving = {number: part.leader >= 0 for number, part in found.partitions.items()}
            if is_awaited and not all(serving.values()):
                raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
            return serving

        doing = f"asking for the partitions of {topic}"
        with self._calling(doing):
            return client.retry(ask, doing, self._call_timeout_s)
