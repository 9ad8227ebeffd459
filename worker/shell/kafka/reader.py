"""
Access from outside the group: read its offsets, read the messages of topics, feed documents.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from worker.errors import NeardupError, StopError
from worker.settings import Settings
from worker.shell.kafka import client, configuration
from worker.shell.kafka.log import deleted_record
from worker.shell.ports import CommittedOffset, Headers
from worker.shell.runtime.logging import get_logger

_log = get_logger(__name__)

FIRST_S_MAX = 5.0  # how long partitions are asked for their first message


class GroupOffsets:
    """
    The offsets of the documents that a group has committed, read and set from outside the group.

    This uses a consumer, because the administrator's client crashes if the coordinator is still
    loading.

    Args:
        partitions: how many partitions the topic of documents has.
        wait_s: how long to ask; `call_timeout_s` if left out.
    """

    def __init__(self, settings: Settings, partitions: int, wait_s: float | None = None) -> None:
        self._consumer = client.made(Consumer, configuration.offsets_config(settings))
        self._asked = [
            TopicPartition(settings.topic_documents, number) for number in range(partitions)
        ]
        self._group = settings.group
        self._topic = settings.topic_documents
        self._doing = f"asking for the offsets of group {settings.group}"
        self._wait_s = settings.call_timeout_s if wait_s is None else wait_s

    def get(self) -> dict[int, CommittedOffset]:
        """
        Return the committed offset (None: none) and its metadata, by partition.

        Offsets of open transactions do not count yet.

        Raises:
            RetryError: there was no answer in time.
            StopError: a later question would get no answer either.
        """
        return client.retry(self._ask, self._doing, self._wait_s)

    def set(self, commits: Mapping[int, CommittedOffset]) -> None:
        """
        Commit offsets for the group.

        Raises:
            RetryError, StopError: the group has a member, or does not answer.
        """
        doing = f"setting the offsets of group {self._group}"
        client.commit(self._consumer, self._topic, commits, doing)

    def _ask(self, timeout_s: float) -> dict[int, CommittedOffset]:
        try:
            return client.committed_offsets(self._consumer, self._asked, timeout_s)
        except KafkaException:
            # If there is no answer, an event has the reason, such as that access is denied.
            event = self._consumer.poll(0)
            reason = None if event is None else event.error()
            if reason is None:
                raise
            raise KafkaException(reason) from None

    def close(self) -> None:
        """Disconnect."""
        self._consumer.close()


class TopicMessage(NamedTuple):
    """A committed message of any topic, as a reader outside the group sees it."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class TopicReader:
    """
    Committed messages of some topics, outside any group.

    Args:
        starts: the first offset to read, by topic and partition; 0 is the beginning.
        ends: the offsets to read up to; by default the present ends of the committed messages.
        step_over: skip a batch that cannot be read, instead of raising StopError.

    `offsets` is the number of offsets between starts and ends. Some of them are markers of
    transactions or aborted messages, so fewer messages may arrive. Retention may also delete
    messages before they are read: reading continues after them, with a warning, except in the log.
    """

    def __init__(
        self,
        settings: Settings,
        starts: Mapping[tuple[str, int], int],
        *,
        ends: Mapping[tuple[str, int], int] | None = None,
        step_over: bool = False,
    ) -> None:
        self._config = configuration.reader_config(settings)
        self._call_timeout_s = settings.call_timeout_s
        self._step_over = step_over
        self._topic_log = settings.topic_fingerprints
        self._next: dict[tuple[str, int], int] = {}  # the offset to be read next
        self._events = client.ErrorEvents(self._call_timeout_s)
        self._consumer = client.made(Consumer, self._config)
        parts = [TopicPartition(*place, start) for place, start in starts.items()]
        self._ends: dict[tuple[str, int], int] = {}
        self.offsets = 0
        for place, part in zip(starts, parts, strict=True):
            try:
                low, high = client.span(
                    self._consumer, part, f"{part.topic}[{part.partition}]", self._call_timeout_s
                )
            except NeardupError:
                self._consumer.close()
                raise
            part.offset = min(max(part.offset, low), high)
            end = high if ends is None else ends[place]
            self._next[place] = part.offset
            if end > part.offset:
                self._ends[place] = end
                self.offsets += end - part.offset
        self._consumer.assign(parts)

    def add(self, places: Sequence[tuple[str, int]]) -> None:
        """Read these partitions, too, which have come since the start, from their beginning."""
        parts = [TopicPartition(topic, partition) for topic, partition in places]
        for topic in sorted({part.topic for part in parts}):
            # By itself the client looks for new partitions only every five minutes.
            with client.translated(f"asking for the partitions of {topic}"):
                self._consumer.list_topics(topic, self._call_timeout_s)
        for part in parts:
            what = f"{part.topic}[{part.partition}]"
            part.offset, _ = client.span(self._consumer, part, what, self._call_timeout_s)
            self._next[part.topic, part.partition] = part.offset
        if parts:
            with client.translated(f"reading {', '.join({part.topic for part in parts})}"):
                self._consumer.incremental_assign(parts)

    def read(self, wait_s: float, messages_max: int = 1_000) -> list[TopicMessage]:
        """Return the messages that have arrived, after at most `wait_s`."""
        first = self._consumer.poll(wait_s)
        if first is None:
            return []
        read = []
        for message in [first, *self._consumer.consume(messages_max, 0)]:
            topic = message.topic() or ""
            partition = message.partition() or 0
            offset = message.offset() or 0
            error = message.error()
            if error is None:
                read.append(
                    TopicMessage(
                        topic,
                        partition,
                        offset,
                        message.timestamp()[1],
                        message.key(),
                        message.value(),
                        client.headers_of(message) or (),
                    )
                )
                self._reached(topic, partition, offset + 1)
            elif error.code() == KafkaError._PARTITION_EOF:
                self._reached(topic, partition, offset)
            elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                self._go_on(message, topic, partition)
            elif (damage := self._events.take(message)) is not None:
                self._meet(damage)
        return read

    def _meet(self, damage: client.UnreadableBatch) -> None:
        if not self._step_over:
            raise StopError(str(damage))
        stop = client.end_of_batch(self._config, damage, self._call_timeout_s)
        self._consumer.seek(TopicPartition(damage.topic, damage.partition, stop))
        self._reached(damage.topic, damage.partition, stop)

    def _go_on(self, message: Message, topic: str, partition: int) -> None:
        """
        Go on at a partition's first offset, if the one to be read next has been deleted.

        Raises StopError: it is a record of the log; or the topic was truncated.
        """
        part = TopicPartition(topic, partition)
        name = f"{topic}[{partition}]"
        start = self._next[topic, partition]
        if topic == self._topic_log:
            raise deleted_record(topic, start)
        low, _ = client.span(self._consumer, part, name, self._call_timeout_s)
        if low <= start:
            self._events.take(message)
            return
        _log.warning(
            "retention has deleted messages before they were read",
            topic=topic,
            partition=partition,
            offsets=low - start,
        )
        with client.translated(f"going on in {name}"):
            self._consumer.incremental_unassign([part])
            part.offset = low
            self._consumer.incremental_assign([part])
        self._reached(topic, partition, low)

    def _reached(self, topic: str, partition: int, offset: int) -> None:
        self._next[topic, partition] = offset
        if offset >= self._ends.get((topic, partition), offset + 1):
            del self._ends[topic, partition]

    def at_end(self) -> bool:
        """Return whether all partitions have been read to their end."""
        return not self._ends

    def awaited(self) -> list[tuple[str, int]]:
        """Return the partitions that have not been read to their end."""
        return sorted(self._ends)

    def close(self) -> None:
        """Stop reading."""
        self._consumer.close()


def first_messages(
    settings: Settings,
    starts: Mapping[tuple[str, int], int],
    ends: Mapping[tuple[str, int], int],
) -> dict[tuple[str, int], int]:
    """
    Return the offset of the first committed message between each start and end; the end if there
    is none.

    Offsets without a message are markers of transactions and aborted messages. A partition that
    does not answer within `FIRST_S_MAX` is left out.

    Cost: a fetch from each partition.
    """
    found: dict[tuple[str, int], int] = {}
    deadline = time.monotonic() + FIRST_S_MAX
    with closing(TopicReader(settings, starts, ends=ends, step_over=True)) as reader:
        while found.keys() != starts.keys() and time.monotonic() < deadline:
            for message in reader.read(0.1):
                place = message.topic, message.partition
                found.setdefault(place, min(message.offset, ends[place]))
            awaited = reader.awaited()
            for place in starts.keys() - found.keys():
                if place not in awaited:
                    found[place] = ends[place]
    return found


class Feeder:
    """
    Sends documents to their topic: each document once, and documents with the same key in order.

    Args:
        sent: called for each delivered document with its partition, its offset and the time of
            sending (Unix ms).
    """

    FAILURES_KEPT = 10

    def __init__(
        self, settings: Settings, sent: Callable[[int, int, int], None] | None = None
    ) -> None:
        self._producer = client.made(Producer, configuration.feeder_config(settings))
        self._topic = settings.topic_documents
        self._doing = f"writing to {self._topic}"
        self._sent = sent
        self.delivered = 0
        self.failures = 0
        self.failed: list[str] = []  # the first few reasons

    def send(self, key: bytes | None, value: bytes | None) -> None:
        """
        Queue a message. Waits while the queue is full.

        A message that the client refuses, because it is too large, counts as failed.

        Raises:
            StopError: the brokers let us write nothing at all, or the message is larger than the
                client's whole queue.
        """
        try:
            client.produce(
                self._producer,
                self._topic,
                lambda: self._serve(0.1),
                value=value,
                key=key,
                on_delivery=self._on_delivery,
            )
        except KafkaException as error:
            if error.args[0].fatal():
                raise client.translate(error, self._doing) from error
            self._fail(error.args[0].str())  # larger than message.max.bytes
        self._serve(0)

    def _serve(self, wait_s: float) -> None:
        """Run the callbacks that wait."""
        with client.translated(self._doing):
            self._producer.poll(wait_s)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._fail(error.str())
            return
        self.delivered += 1
        if self._sent is not None:
            self._sent(message.partition() or 0, message.offset() or 0, message.timestamp()[1])

    def _fail(self, reason: str) -> None:
        self.failures += 1
        if len(self.failed) < self.FAILURES_KEPT:
            self.failed.append(reason)

    def flush(self, wait_s: float) -> int:
        """
        Wait until the queue is empty; return the number of messages still in it.

        Raises:
            StopError: the brokers let us write nothing at all.
        """
        with client.translated(self._doing):
            return int(self._producer.flush(wait_s))
