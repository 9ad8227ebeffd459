"""
Kafka: the one file that talks to the client library. Its errors leave here as ours.

    client's word                                        ours
    fenced by a successor (producer, static member)      FencedError: end, touch nothing
    abortable, time-out, coordinator moved               RetryError: abort, ask for the committed offsets, go on
    offset gone, topic gone, not allowed, append failed  StopError: end and say the remedy
"""

from __future__ import annotations

import base64
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

import structlog
from confluent_kafka import (
    OFFSET_BEGINNING,
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    ConsumerGroupState,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
    Uuid,
)
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec  # type: ignore[attr-defined]

from worker.errors import FencedError, NeardupError, RetryError, StopError
from worker.shell.faultpoints import Point, Reach, never
from worker.shell.ports import LogEntry, Outgoing, SourceMessage

__all__ = ["GroupConsumer", "LogAppender", "LogConsumer", "TransactionalPublisher", "translate"]

_log = structlog.get_logger(__name__)

_FENCED = {KafkaError._FENCED, KafkaError.FENCED_INSTANCE_ID, KafkaError.PRODUCER_FENCED}
_TIMED_OUT = {KafkaError._TIMED_OUT, KafkaError._TIMED_OUT_QUEUE, KafkaError.REQUEST_TIMED_OUT}
_STOP = {
    KafkaError._AUTO_OFFSET_RESET: "the offset to read has been deleted by the topic's retention: documents are lost. "
    "Raise the retention; to go on without them, move the group's offset by hand",
    KafkaError.OFFSET_OUT_OF_RANGE: "the offset to read is not in the topic: it was truncated or recreated",
    KafkaError._UNKNOWN_PARTITION: "the partition does not exist",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "the topic does not exist: neardup topics create",
    KafkaError.MSG_SIZE_TOO_LARGE: "a message is larger than its topic takes: raise the topic's max.message.bytes",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "access to the topic is denied: grant it in the cluster's ACLs",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "access to the group is denied: grant it in the cluster's ACLs",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "the transactional id is denied: grant it in the cluster's ACLs",
    KafkaError._AUTHENTICATION: "authentication failed: check the SASL settings",
    KafkaError.SASL_AUTHENTICATION_FAILED: "authentication failed: check the SASL settings",
}


def translate(error: KafkaError, doing: str) -> NeardupError:
    """Give our error for the client's. Everything that is neither fenced nor hopeless may pass: a RetryError."""
    if error.code() == KafkaError._FATAL:  # a consumer's, wrapped: only the text tells what it is
        if KafkaError(KafkaError.FENCED_INSTANCE_ID).str() not in error.str():
            return StopError(f"{doing}: the client has given up: {error.str()}: restart the worker")
        error = KafkaError(KafkaError.FENCED_INSTANCE_ID)
    if error.code() in _FENCED:
        return FencedError(
            f"{doing}: fenced, because another process has taken over this worker's id ({error.name()}). Give each "
            f"worker its own --worker-id"
        )
    if error.code() in _STOP:
        return StopError(f"{doing}: {_STOP[error.code()]} ({error.name()}: {error.str()})")
    return RetryError(f"{doing}: {error.name()}: {error.str()}")


def _raise(error: KafkaException, doing: str) -> NeardupError:
    return translate(error.args[0], doing)


def _logged(config: dict[str, Any]) -> dict[str, Any]:
    """Let the client's troubles come as our log lines; its own, on stderr, would not be JSON."""
    return {**config, "log_level": 2, "error_cb": _on_error}


def _on_error(error: KafkaError) -> None:
    _log.warning("kafka client", code=error.name(), text=error.str(), fatal=error.fatal())


class _Ends:
    """Where partitions end as the last fetch had it, for a scrape in any thread; nothing is sent."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._lock = threading.Lock()
        self._closed = False

    def of(self, part: TopicPartition) -> int:
        """Give the offset behind the last message; 0 before the first fetch."""
        with self._lock:
            try:
                return 0 if self._closed else max(int(self._consumer.get_watermark_offsets(part, cached=True)[1]), 0)
            except KafkaException:
                return 0

    def close(self) -> None:
        """Ask the consumer no more: it is about to be closed."""
        with self._lock:
            self._closed = True


class GroupConsumer:
    """
    The source topic as a member of the group.

    Assigned partitions start at the group's committed offsets, asked for by ourselves: while another member's
    transaction is pending, the client library would apply `auto.offset.reset` in their place. A partition without a
    commit starts at its beginning, and only then.

    Args:
        on_assigned: told the start of each new partition (None: the beginning).
        on_revoked: told before partitions go; when it returns, nothing of theirs may be published.
        on_lost: told when they are gone already.
    """

    def __init__(
        self,
        config: dict[str, Any],
        topic: str,
        call_timeout_s: float,
        on_assigned: Callable[[dict[int, int | None]], None],
        on_revoked: Callable[[list[int]], None],
        on_lost: Callable[[list[int]], None],
    ) -> None:
        self._topic = topic
        self._call_timeout_s = call_timeout_s
        self._on_assigned, self._on_revoked, self._on_lost = on_assigned, on_revoked, on_lost
        self._failure: NeardupError | None = None
        self._assigned: set[int] = set()
        self._waiting: deque[int] = deque()  # ours, but without a start yet: another member's transaction is pending
        self._waiting_until = 0.0
        self._membership: Any = None
        self._consumer = Consumer(_logged(config))
        self._ends = _Ends(self._consumer)
        self._consumer.subscribe([topic], on_assign=self._assign, on_revoke=self._revoke, on_lost=self._lose)

    def _assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        numbers = [part.partition for part in partitions]
        self._waiting_until = time.monotonic() + self._call_timeout_s
        try:
            starts = self._committed(numbers, 0.5)
        except NeardupError as error:
            if isinstance(error, StopError):  # raised from poll(): an exception in a callback would be swallowed
                self._failure = error
            # A pending transaction of one partition hides the answer for all. What we have already must not wait.
            self._waiting.extend(numbers)
            consumer.incremental_assign([])
            _log.info("partitions wait for their committed offsets", partitions=numbers, cause=str(error))
        else:
            self._take(starts)

    def _take(self, starts: dict[int, int | None]) -> None:
        self._consumer.incremental_assign([self._at(number, start) for number, start in starts.items()])
        self._assigned.update(starts)
        self._on_assigned(starts)

    def _take_waiting(self) -> None:
        """Ask for one partition's start, and take it when the answer is there."""
        number = self._waiting[0]
        self._waiting.rotate(-1)
        try:
            starts = self._committed([number], 0.1)
        except NeardupError as error:
            if isinstance(error, StopError) or time.monotonic() > self._waiting_until:
                raise
        else:
            self._waiting.remove(number)
            self._take(starts)

    def _revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._on_revoked([part.partition for part in partitions])
        self._give_back(consumer, partitions)

    def _lose(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._on_lost([part.partition for part in partitions])
        self._give_back(consumer, partitions)

    def _give_back(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        mine = [part for part in partitions if part.partition in self._assigned]
        if mine:
            consumer.resume(mine)  # a paused partition would come back paused
        consumer.incremental_unassign(mine)
        gone = {part.partition for part in partitions}
        self._assigned -= gone
        self._waiting = deque(number for number in self._waiting if number not in gone)

    def _at(self, partition: int, offset: int | None) -> TopicPartition:
        return TopicPartition(self._topic, partition, OFFSET_BEGINNING if offset is None else offset)

    def poll(self, messages_max: int, wait_s: float) -> list[SourceMessage]:
        """Give what has come, at most `messages_max`, after at most `wait_s`; runs the rebalance callbacks."""
        if self._waiting:
            self._take_waiting()
        messages = self._consumer.consume(messages_max, wait_s)
        if self._failure is not None:
            raise self._failure
        return [
            SourceMessage(message.partition() or 0, message.offset() or 0, message.key(), message.value())
            for message in messages
            if self._is_message(message)
        ]

    def _is_message(self, message: Message) -> bool:
        error = message.error()
        if error is None:
            return True
        ours = translate(error, f"reading {self._topic}[{message.partition()}]")
        if isinstance(ours, StopError) or error.fatal():
            raise ours
        return False  # a broker that is away, a poll that came late: the client reconnects and rejoins by itself

    def committed(self, partitions: Sequence[int]) -> dict[int, int | None]:
        """
        Give the group's committed offsets; None where it has committed none.

        While another member's transaction is pending the cluster has no answer yet; we ask again until it ends, which
        is within its transaction time-out.

        Raises:
            RetryError: no answer came in time.
        """
        return self._committed(partitions, self._call_timeout_s)

    def _committed(self, partitions: Sequence[int], wait_s: float) -> dict[int, int | None]:
        asked = [TopicPartition(self._topic, number) for number in partitions]
        if not asked:
            return {}
        deadline = time.monotonic() + wait_s
        while True:
            try:
                answer = self._consumer.committed(asked, timeout=min(wait_s, 2.0))
            except KafkaException as error:
                if isinstance(_raise(error, "asking for committed offsets"), StopError) or time.monotonic() > deadline:
                    raise _raise(error, "asking for committed offsets") from error
                continue
            failed = [part.error for part in answer if part.error is not None]
            if not failed:
                return {part.partition: part.offset if part.offset >= 0 else None for part in answer}
            if time.monotonic() > deadline:
                raise translate(failed[0], "asking for committed offsets")
            time.sleep(0.1)

    def seek(self, offsets: Mapping[int, int | None]) -> None:
        """Read on from these offsets; what was fetched before is thrown away."""
        parts = [self._at(partition, offset) for partition, offset in offsets.items()]
        if parts:
            try:
                self._consumer.incremental_unassign([TopicPartition(self._topic, p.partition) for p in parts])
                self._consumer.incremental_assign(parts)
            except KafkaException as error:
                raise _raise(error, f"going back in {self._topic}") from error

    def pause(self) -> None:
        """Fetch nothing more for now, and stay in the group."""
        self._consumer.pause(self._consumer.assignment())

    def resume(self) -> None:
        """Fetch again."""
        self._consumer.resume(self._consumer.assignment())

    def membership(self) -> Any:
        """
        Give the proof of membership that a commit carries; it changes with every rebalance.

        None before the first rebalance. A member that the group has expelled keeps its last proof, which the group
        refuses. Without member and generation it would be what a producer outside any group sends, and that the broker
        accepts unchecked, even while others own the partitions.
        """
        proof = self._consumer.consumer_group_metadata()
        if self._consumer.memberid():  # asked second: once expelled, it stays empty until the next poll
            self._membership = proof
        return self._membership

    def ends(self, partitions: Sequence[int]) -> dict[int, int]:
        """Give where partitions end as the last fetch had it; any thread may ask, and nothing is sent."""
        return {number: self._ends.of(TopicPartition(self._topic, number)) for number in partitions}

    def close(self) -> None:
        """Leave the group."""
        self._ends.close()
        self._consumer.close()


class LogConsumer:
    """The ordered log: one partition, read from an explicit offset, by every worker."""

    def __init__(self, config: dict[str, Any], topic: str, offset: int, call_timeout_s: float) -> None:
        self._part = TopicPartition(topic, 0, offset)
        self._position = offset
        self._call_timeout_s = call_timeout_s
        self._consumer = Consumer(_logged(config))
        self._ends = _Ends(self._consumer)
        self._consumer.assign([self._part])

    def read(self, wait_s: float) -> list[LogEntry]:
        """Give the records that are there, in order; wait up to `wait_s` for the first."""
        first = self._consumer.poll(wait_s)
        if first is None:
            return []
        messages = [first, *self._consumer.consume(1_000, 0)]
        entries = []
        for message in messages:
            error = message.error()
            if error is None:
                kind, timestamp_ms = message.timestamp()
                stamp = 0 if kind == TIMESTAMP_NOT_AVAILABLE else timestamp_ms
                entries.append(LogEntry(message.offset() or 0, stamp, message.value() or b""))
                self._position = entries[-1].offset + 1
                continue
            if error.code() == KafkaError._PARTITION_EOF:  # carries the next offset to read
                self._position = max(self._position, message.offset() or 0)
                continue
            ours = translate(error, f"reading the log {self._part.topic}")
            if isinstance(ours, StopError) or error.fatal():
                raise ours
        return entries

    def position(self) -> int:
        """Give the offset below which everything has been read; the log's gaps count, unlike a record's offset."""
        return self._position

    def end(self) -> tuple[int, int]:
        """Give the log's first offset and the offset behind its last record."""
        deadline = time.monotonic() + self._call_timeout_s
        while True:
            try:
                low, high = self._consumer.get_watermark_offsets(self._part, timeout=2.0, cached=False)
            except KafkaException as error:
                ours = _raise(error, f"asking for the end of the log {self._part.topic}")
                if isinstance(ours, StopError) or time.monotonic() > deadline:
                    raise ours from error
                continue
            return int(low), int(high)

    def end_seen(self) -> int:
        """Give the offset behind the last record as the last fetch had it; 0 before the first."""
        return self._ends.of(self._part)

    def close(self) -> None:
        """Stop reading."""
        self._ends.close()
        self._consumer.close()


class LogAppender:
    """The ordered log, to append to. The first failure is final: whether a record stands in the log is then unknown."""

    def __init__(self, config: dict[str, Any], topic: str, call_timeout_s: float) -> None:
        self._topic = topic
        self._call_timeout_s = call_timeout_s
        self._producer = Producer(_logged(config))

    def append(self, records: Sequence[bytes]) -> int:
        """Append in order and wait until all are durable; give the offset of the last."""
        outcomes: list[tuple[KafkaError | None, int]] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            outcomes.append((error, message.offset() or 0))

        for record in records:
            try:
                self._producer.produce(self._topic, value=record, partition=0, on_delivery=delivered)
            except (KafkaException, BufferError) as refusal:
                raise StopError(f"appending to {self._topic}: {refusal}: lower record_bytes_max") from refusal
        deadline = time.monotonic() + self._call_timeout_s
        while len(outcomes) < len(records):
            self._producer.poll(0.05)
            if time.monotonic() > deadline:
                raise StopError(
                    f"appending to {self._topic}: {len(records) - len(outcomes)} of {len(records)} records were not "
                    f"acknowledged in {self._call_timeout_s:g} s: restart the worker when the cluster serves again"
                )
        for error, _ in outcomes:
            if error is not None:
                raise StopError(f"appending to {self._topic}: {error.name()}: {error.str()}: restart the worker")
        return outcomes[-1][1]

    def close(self) -> None:
        """Stop writing."""
        self._producer.flush(1.0)


class TransactionalPublisher:
    """
    Verdicts and source offsets in one transaction.

    After a call of ours that timed out the producer is mostly fenced by its own coordinator, not by a successor: it is
    made anew, which also settles what became of the open transaction. Fenced without such a reason means a successor.
    """

    def __init__(
        self,
        config: dict[str, Any],
        source_topic: str,
        call_timeout_s: float,
        transaction_timeout_s: float,
        reach: Reach = never,
    ) -> None:
        self._reach = reach
        self._config = config
        self._source_topic = source_topic
        self._call_timeout_s = call_timeout_s
        self._transaction_timeout_s = transaction_timeout_s
        self._producer: Producer | None = None
        self._doubtful = False  # a call timed out, or the transaction outlived its time: fencing may be our own doing

    def _ready(self) -> Producer:
        if self._producer is None:
            self._producer = Producer(_logged(self._config))
            try:
                self._producer.init_transactions(self._call_timeout_s)
            except KafkaException as error:
                self._producer = None
                raise _raise(error, "opening the transactional producer") from error
            self._doubtful = False
        return self._producer

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
            producer.send_offsets_to_transaction(positions, membership, self._call_timeout_s)
            self._reach(Point.AFTER_OFFSETS)
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
        if error.code() in _TIMED_OUT:
            self._doubtful = True
        if isinstance(ours, RetryError) and not (error.fatal() or self._doubtful):
            try:
                producer.abort_transaction(self._call_timeout_s)
                return RetryError(str(ours), settled=True)
            except KafkaException as failure:
                ours = _raise(failure, "aborting a transaction")
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


class Topic(NamedTuple):
    """A topic as it is: its id (16 bytes), partitions, replicas of the first partition, and settings."""

    name: str
    topic_id: bytes
    partitions: int
    replicas: int
    config: dict[str, str]


class Admin:
    """Topics and cluster, as they are and as they should be."""

    def __init__(self, config: dict[str, Any], call_timeout_s: float) -> None:
        self._client = AdminClient(_logged(config))
        self._bootstrap = config["bootstrap.servers"]
        self._timeout_s = min(call_timeout_s, 15.0)  # a person waits for the answer

    def _wait(self, future: Future[Any], doing: str) -> Any:
        try:
            return future.result(self._timeout_s)
        except KafkaException as error:
            raise _raise(error, doing) from error
        except TimeoutError as error:
            raise self._no_answer(doing) from error

    def _no_answer(self, doing: str) -> StopError:
        return StopError(
            f"{doing}: no answer from {self._bootstrap} in {self._timeout_s:g} s. Start a broker (neardup broker "
            f"start), or name yours with --bootstrap or $NEARDUP_BOOTSTRAP"
        )

    def cluster_id(self) -> str:
        """Give the cluster's id."""
        return str(self._wait(self._client.describe_cluster(), "asking for the cluster").cluster_id)

    def describe(self, names: Sequence[str]) -> dict[str, Topic]:
        """Give those of the named topics that exist."""
        found: dict[str, Topic] = {}
        futures = self._client.describe_topics(TopicCollection(list(names)), request_timeout=self._timeout_s)
        for name, future in futures.items():
            try:
                description = self._wait(future, f"describing topic {name}")
                config = self._config(name)  # a broker may know less of a new topic than the one asked before
            except StopError as error:
                cause = error.__cause__
                if isinstance(cause, KafkaException) and cause.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    continue
                raise
            found[name] = Topic(
                name,
                _uuid_bytes(description.topic_id),
                len(description.partitions),
                len(description.partitions[0].replicas),
                config,
            )
        return found

    def _config(self, name: str) -> dict[str, str]:
        resource = ConfigResource(ConfigResource.Type.TOPIC, name)
        futures = self._client.describe_configs([resource], request_timeout=self._timeout_s)
        entries = self._wait(next(iter(futures.values())), f"reading the settings of topic {name}")
        return {key: str(entry.value) for key, entry in entries.items()}

    def ends(self, topics: Mapping[str, int]) -> dict[tuple[str, int], tuple[int, int]]:
        """Give the first offset of each partition and the one behind its last message, committed or not."""
        parts = [TopicPartition(topic, number) for topic, count in topics.items() for number in range(count)]
        found = [
            self._client.list_offsets(dict.fromkeys(parts, spec), request_timeout=self._timeout_s)
            for spec in (OffsetSpec.earliest(), OffsetSpec.latest())  # type: ignore[no-untyped-call]
        ]
        return {
            (part.topic, part.partition): (
                int(self._wait(found[0][part], f"asking for the start of {part.topic}").offset),
                int(self._wait(found[1][part], f"asking for the end of {part.topic}").offset),
            )
            for part in parts
        }

    def create(self, name: str, partitions: int, replicas: int, config: Mapping[str, str]) -> bool:
        """Create a topic; tell whether it was missing."""
        topic = NewTopic(name, num_partitions=partitions, replication_factor=replicas, config=dict(config))
        future = self._client.create_topics([topic], request_timeout=self._timeout_s)[name]
        try:
            future.result(self._timeout_s)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return False
            raise StopError(f"creating topic {name}: {error.args[0].str()}") from error
        except TimeoutError as error:
            raise self._no_answer(f"creating topic {name}") from error
        return True

    def assigned(self, group: str) -> dict[str, int]:
        """Give how many partitions each member of a group has now, by member id; empty while it rebalances."""
        future = self._client.describe_consumer_groups([group], request_timeout=self._timeout_s)[group]
        description = self._wait(future, f"describing group {group}")
        if description.state is not ConsumerGroupState.STABLE:
            return {}
        return {
            member.member_id: len(member.assignment.topic_partitions) if member.assignment else 0
            for member in description.members
        }


def _uuid_bytes(uuid: Uuid) -> bytes:
    """Give the 16 bytes of an id that prints as base64 without padding."""
    return base64.urlsafe_b64decode(f"{uuid}==")


class Feeder:
    """
    Documents into their topic: keyed, in order for a key, each once.

    Args:
        sent: told partition, offset and the time of sending (Unix ms) of each delivered document.
    """

    FAILURES_KEPT = 10

    def __init__(self, config: dict[str, Any], topic: str, sent: Callable[[int, int, int], None] | None = None) -> None:
        self._producer = Producer(_logged(config))
        self._topic = topic
        self._sent = sent
        self.delivered = 0
        self.failures = 0
        self.failed: list[str] = []  # the first few reasons

    def send(self, key: bytes | None, value: bytes | None) -> None:
        """Queue a message; waits while the queue is full. One that the client refuses is counted as failed."""
        while True:
            try:
                self._producer.produce(self._topic, value=value, key=key, on_delivery=self._on_delivery)
                break
            except BufferError:
                self._producer.poll(0.1)
            except KafkaException as error:  # larger than message.max.bytes
                self._fail(error.args[0].str())
                break
        self._producer.poll(0)

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
        """Wait until everything queued has gone out; give the number of messages that have not."""
        return int(self._producer.flush(wait_s))


class GroupOffsets:
    """
    The offsets that a group has committed, asked for from outside the group.

    Not by the administrator's client, which crashes when it asks a coordinator that is still loading.
    """

    def __init__(self, config: dict[str, Any], topic: str, partitions: int, call_timeout_s: float) -> None:
        self._consumer = Consumer(_logged(config))
        self._asked = [TopicPartition(topic, number) for number in range(partitions)]
        self._call_timeout_s = call_timeout_s

    def get(self) -> dict[int, tuple[int | None, str]]:
        """Give offset (None: none) and metadata of each partition; offsets of open transactions do not count yet."""
        try:
            answer = self._consumer.committed(self._asked, timeout=self._call_timeout_s)
        except KafkaException as error:
            raise _raise(error, "asking for the group's offsets") from error
        for part in answer:
            if part.error is not None:
                raise translate(part.error, "asking for the group's offsets")
        return {part.partition: (part.offset if part.offset >= 0 else None, part.metadata or "") for part in answer}

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
    headers: tuple[tuple[str, bytes], ...]


class TopicReader:
    """
    Committed messages of some topics, from their beginning or from now on, outside any group.

    Args:
        ends: (topic, partition) -> offset at which `at_end` has come; else where the committed messages end now.
    """

    def __init__(
        self,
        config: dict[str, Any],
        topics: Mapping[str, int],
        call_timeout_s: float,
        *,
        from_beginning: bool,
        ends: Mapping[tuple[str, int], int] | None = None,
    ) -> None:
        self._consumer = Consumer(_logged(config))
        parts = [TopicPartition(topic, number) for topic, count in topics.items() for number in range(count)]
        self._ends: dict[tuple[str, int], int] = {}
        for part in parts:
            try:
                low, high = self._consumer.get_watermark_offsets(part, timeout=call_timeout_s, cached=False)
            except KafkaException as error:
                raise _raise(error, f"asking for the end of {part.topic}[{part.partition}]") from error
            part.offset = low if from_beginning else high
            end = high if ends is None else ends[part.topic, part.partition]
            if end > part.offset:
                self._ends[part.topic, part.partition] = end
        self._consumer.assign(parts)

    def read(self, wait_s: float, messages_max: int = 1_000) -> list[TopicMessage]:
        """Give what has come after at most `wait_s`."""
        first = self._consumer.poll(wait_s)
        if first is None:
            return []
        found = []
        for message in [first, *self._consumer.consume(messages_max, 0)]:
            topic, partition, offset = message.topic() or "", message.partition() or 0, message.offset() or 0
            error = message.error()
            if error is None:
                found.append(
                    TopicMessage(topic, partition, offset, message.timestamp()[1], message.key(), message.value(),
                                 tuple(message.headers() or ()))  # type: ignore[arg-type]
                )  # fmt: skip
                self._reached(topic, partition, offset + 1)
            elif error.code() == KafkaError._PARTITION_EOF:
                self._reached(topic, partition, offset)
            elif isinstance(ours := translate(error, f"reading {topic}"), StopError) or error.fatal():
                raise ours
        return found

    def _reached(self, topic: str, partition: int, offset: int) -> None:
        if offset >= self._ends.get((topic, partition), offset + 1):
            del self._ends[topic, partition]

    def at_end(self) -> bool:
        """Tell whether everything that was there at the start has been read."""
        return not self._ends

    def awaited(self) -> list[tuple[str, int]]:
        """Give the partitions that have not been read to their end."""
        return sorted(self._ends)

    def close(self) -> None:
        """Stop reading."""
        self._consumer.close()
