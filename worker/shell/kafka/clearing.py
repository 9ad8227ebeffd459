"""
What a transaction may have left open in its partitions, and the transaction that ends it.

Apache Kafka 4.3.1 can end a transaction without telling its partitions: a coordinator that comes back beside a
leader that is not serving yet takes the partition for deleted, and writes no marker into it (KAFKA-20734). What the
transaction wrote there stays open: readers wait, and the next commit under the same id makes it visible, so that
documents that were answered again since have two answers. So before it commits anything there, a producer writes into
the partition and aborts: that marker ends what is left.

    a new producer            every partition of every topic, and the group's offsets
    an abort of its own       where the aborted transaction wrote
    a partition offline       waits, and with it only what is to be written into its topic
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any, NamedTuple

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from worker.shell.kafka.errors import logged
from worker.shell.kafka.retry import retry
from worker.shell.ports import Outgoing

VOID = b'{"void":"no answer, written to be aborted: read with isolation.level=read_committed"}'

_ANY = -1  # the partition that the key leads to
_REFUSED = {  # by the group's coordinator, which has thereby become a part of the transaction
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.FENCED_INSTANCE_ID,
    KafkaError.STALE_MEMBER_EPOCH,
}

_log = structlog.get_logger(__name__)


class Scope(NamedTuple):
    """
    What a transaction writes: answers into `topics`, and offsets of `source` for the group of `group_config`.

    `unread` is a topic that we may read and of which the group holds no offset: the clearing transaction names it.
    """

    source: str
    topics: Sequence[str]
    group_config: dict[str, Any]
    unread: str


class _Place(NamedTuple):
    topic: str
    partition: int
    key: bytes = b"void"


class Clearing:
    """
    Where transactions of one producer id may have left something open.

    Args:
        calling: what each call into the client runs under, told what for.
    """

    def __init__(
        self, scope: Scope, call_timeout_s: float, calling: Callable[[str], AbstractContextManager[None]]
    ) -> None:
        self._scope = scope
        self._call_timeout_s = call_timeout_s
        self._calling = calling
        self._is_new = True
        self._all: set[_Place] = set()
        self._left: set[_Place] = set()
        self._offsets_left = False

    def begin(self) -> None:
        """Take everything for open: the producer is new, and who knows what was before it."""
        self._is_new = True

    def aborted(self, messages: Sequence[Outgoing], *, offsets_sent: bool) -> None:
        """Take for open what a transaction of ours has written and aborted."""
        for topic, key, _, _ in messages:
            anywhere = (place for place in self._all if place.topic == topic)
            self._left.update([_Place(topic, _ANY, key)] if key else anywhere)
        self._offsets_left |= offsets_sent

    def is_needed(self, topics: Collection[str]) -> bool:
        """Return whether something may be open that a commit into these topics, and of offsets, would make visible."""
        return self._is_new or self._offsets_left or any(place.topic in topics for place in self._left)

    def run(self, producer: Producer, topics: Collection[str]) -> None:
        """
        End what is left, but in partitions without a leader; of `topics` they are waited for.

        Raises:
            KafkaException, RetryError: it is still left: the producer is to be made anew.
        """
        asked = self._scope.topics if self._is_new else {place.topic for place in self._left if place.partition != _ANY}
        serving = {topic: self._serving(producer, topic, is_awaited=topic in topics) for topic in asked}
        if self._is_new:
            self._all = {_Place(topic, number) for topic, parts in serving.items() for number in parts}
            self._left, self._offsets_left = set(self._all), True
        ready = {place for place in self._left if place.partition == _ANY or serving[place.topic][place.partition]}
        self._abort(producer, sorted(ready))
        self._left -= ready
        self._is_new = self._offsets_left = False
        if self._left:
            offline = sorted(f"{place.topic}[{place.partition}]" for place in self._left)
            _log.warning("partitions without a leader: their topics get no answers until they have one", of=offline)

    def _abort(self, producer: Producer, places: Sequence[_Place]) -> None:
        """Write into all these partitions in one transaction, and abort it."""
        failures: list[KafkaError] = []

        def delivered(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                failures.append(error)

        producer.begin_transaction()
        for place in places:
            producer.produce(place.topic, VOID, place.key, place.partition, on_delivery=delivered)
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
        """Make the group's coordinator a part of the transaction; the offset is aborted with the rest."""
        try:
            unread = [TopicPartition(self._scope.unread, 0, 0)]
            producer.send_offsets_to_transaction(unread, self._outsider, self._call_timeout_s)
        except KafkaException as error:
            if error.args[0].code() not in _REFUSED:
                raise

    @cached_property
    def _outsider(self) -> Any:
        """The metadata of a consumer outside the group, always the same; nothing is sent."""
        consumer = Consumer(logged(self._scope.group_config))
        try:
            return consumer.consumer_group_metadata()
        finally:
            consumer.close()

    def _serving(self, producer: Producer, topic: str, *, is_awaited: bool) -> dict[int, bool]:
        """Return the partitions of a topic as the cluster has them now, each with whether it has a leader."""

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
            return retry(ask, doing, self._call_timeout_s)
