"""Asks for topics and cluster, and changes them."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple, TypeVar

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
    Uuid,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

from worker.errors import RetryError, StopError
from worker.settings import Settings
from worker.shell.kafka import client, configuration
from worker.shell.runtime import metrics
from worker.shell.runtime.logging import get_logger

LATE_S = 2.0
TELL_S = 2.5  # seconds without an answer; the first call takes 3 s
OFFSET_MAX = 2**63 - 1
# Refusals of a change that may pass, as while a controller goes. The client itself marks none.
_PASSING = {
    KafkaError.NOT_CONTROLLER,
    KafkaError.THROTTLING_QUOTA_EXCEEDED,
    KafkaError.UNKNOWN,  # whatever has failed within the broker
}

Answer = TypeVar("Answer")

_log = get_logger(__name__)


class Topic(NamedTuple):
    """
    An existing topic: its id (16 bytes), its partitions, the replicas of the first one, and its
    settings.
    """

    name: str
    topic_id: bytes
    partitions: int
    replicas: int
    config: dict[str, str]


class Member(NamedTuple):
    """
    A member of a group: its member id, the worker's name, its host, and the partitions of the
    documents that it owns.
    """

    member_id: str
    worker_id: str  # of another program: its client id
    host: str
    partitions: tuple[int, ...]
    elsewhere: tuple[str, ...] = ()  # what it owns of other topics, such as "verdicts[0]"
    is_static: bool = True  # its instance id is its client id, as a worker's is

    def __str__(self) -> str:
        return f"{self.worker_id} at {self.host} ({self.member_id})"


def foreign_members(members: Sequence[Member], *, are_static: bool = False) -> list[Member]:
    """
    Return the members that are no workers.

    A worker reads the documents alone, and its instance id is its client id. If no member has an
    instance id, because `static_membership` is off, only members that read other topics can be
    recognised as foreign.

    Args:
        members: all of the group.
        are_static: the workers are known to have one, even if none is there.

    >>> worker = Member("m1", "w1", "a", (0,))
    >>> reader = Member("m2", "rdkafka", "b", (1,), is_static=False)
    >>> foreign_members([worker, reader]) == [reader], foreign_members([reader])
    (True, [])
    """
    are_static |= any(member.is_static and not member.elsewhere for member in members)
    return [
        member for member in members if member.elsewhere or (are_static and not member.is_static)
    ]


class Admin:
    """
    Asks for the state of topics and cluster, and changes it.

    A question is repeated for `wait_s` seconds, or `call_timeout_s` if that is left out.

    Raises StopError: see `client.made`.
    """

    def __init__(self, settings: Settings, wait_s: float | None = None) -> None:
        self._refusal: KafkaError | None = None
        self._trouble = ""
        self._has_told = False
        self._bootstrap = settings.bootstrap
        self._documents = settings.topic_documents
        self._wait_s = settings.call_timeout_s if wait_s is None else wait_s
        self._client = client.made(
            AdminClient, configuration.admin_config(settings), self._on_error
        )

    def _ask(self, ask: Callable[[float], Answer], doing: str) -> Answer:
        """Return the result of a call. Repeat the call as long as its error may pass."""
        try:
            return client.retry(ask, doing, self._wait_s, partial(self._on_wait, time.monotonic()))
        except RetryError as error:
            if client.is_silence(error.__cause__):
                raise self._no_answer(doing) from error
            raise

    def _on_wait(self, since_s: float, left_s: float) -> None:
        """
        Log once that an address does not answer. With a wrong address, nothing else is logged for a
        minute.
        """
        if not self._has_told and time.monotonic() - since_s >= TELL_S:
            self._has_told = True
            self._client.poll(0)  # runs `_on_error`
            _log.warning(
                f"no answer from {self._bootstrap} yet{self._trouble}: asking for "
                f"{max(round(left_s), 1)} s more"
            )

    def _on_error(self, error: KafkaError) -> None:
        # The error is not logged here, because `_on_wait` and `_no_answer` say what was asked, and
        # quote it.
        metrics.KAFKA_ERRORS.inc()
        if error.code() in client.REFUSED:
            self._refusal = error
        reason = error.str().partition(" (after")[0]
        if "Invalid response size" in reason:  # the client advises to read answers of any size
            reason = (
                f"{reason.partition(': ')[0]} does not speak Kafka's protocol: check the port, and "
                "kafka.security.protocol"
            )
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._trouble = f" ({reason})"

    def _no_answer(self, doing: str) -> StopError:
        self._client.poll(0)  # runs `_on_error`
        if self._refusal is not None:
            return StopError(str(client.translate(self._refusal, doing)))
        return StopError(
            f"{doing}: no answer from {self._bootstrap} in {self._wait_s:g} s{self._trouble}. "
            f"Start a broker "
            f"(neardup broker start), or name yours with --bootstrap or $NEARDUP_BOOTSTRAP"
        )

    def cluster_id(self) -> str:
        """Return the cluster's id."""
        doing = "asking for the cluster"
        return str(
            self._ask(
                lambda s: _result(self._client.describe_cluster(request_timeout=s), s), doing
            ).cluster_id
        )

    def describe(self, names: Sequence[str]) -> dict[str, Topic]:
        """Return those of the named topics that exist."""
        found: dict[str, Topic] = {}
        for name, topic in self._described(names, f"describing {', '.join(names)}").items():
            try:
                # A broker may know less of a new topic than the one asked before.
                config = self._config(name)
            except StopError as error:
                if isinstance(error.__cause__, KafkaException) and _is_unknown(error.__cause__):
                    continue
                raise
            parts = topic.partitions
            found[name] = Topic(
                name, _uuid_bytes(topic.topic_id), len(parts), len(parts[0].replicas), config
            )
        return found

    def existing(self, names: Sequence[str]) -> dict[str, Topic]:
        """Return the named topics. Raises StopError if one does not exist."""
        found = self.describe(names)
        if missing := [name for name in names if name not in found]:
            raise StopError(
                f"a topic does not exist at {self._bootstrap}: {', '.join(missing)}. Is the name "
                "right (--topic-documents and others)? With the same options, neardup topics "
                "create makes it"
            )
        return found

    def topic_ids(self, names: Sequence[str]) -> dict[str, bytes]:
        """Return the id of those of the named topics that exist."""
        found = self._described(names, "asking for the topics' ids")
        return {name: _uuid_bytes(topic.topic_id) for name, topic in found.items()}

    def _described(self, names: Sequence[str], doing: str) -> dict[str, Any]:
        def ask(timeout_s: float) -> dict[str, Any]:
            found = {}
            asked = TopicCollection([*names])
            for name, future in self._client.describe_topics(
                asked, request_timeout=timeout_s
            ).items():
                try:
                    found[name] = _result(future, timeout_s)
                except KafkaException as error:
                    if not _is_unknown(error):
                        raise
            return found

        return self._ask(ask, doing)

    def _config(self, name: str) -> dict[str, str]:
        resource = ConfigResource(ConfigResource.Type.TOPIC, name)

        def ask(timeout_s: float) -> Any:
            return _result(
                self._client.describe_configs([resource], request_timeout=timeout_s)[resource],
                timeout_s,
            )

        entries = self._ask(ask, f"reading the settings of topic {name}")
        return {key: str(entry.value) for key, entry in entries.items()}

    def ends(
        self, topics: Mapping[str, int], *, stable: bool = False
    ) -> dict[tuple[str, int], tuple[int, int]]:
        """
        Return the first offset of each partition, and the one behind its last message, committed or
        not.

        Args:
            topics: how many partitions each has.
            stable: end at the last stable offset instead. An open transaction holds up all that was
                written after its first message: nobody can read that yet.
        """
        specs = OffsetSpec.earliest(), OffsetSpec.latest()  # type: ignore[no-untyped-call]
        starts, stops = self._offsets(
            topics,
            specs,
            f"asking where {', '.join(topics)} start and end",
            IsolationLevel.READ_COMMITTED if stable else IsolationLevel.READ_UNCOMMITTED,
        )
        return {place: (start, stops[place]) for place, start in starts.items()}

    def log_end(self, topic: str) -> int:
        """Return the offset behind the last record of a log: workers use its partition 0 alone."""
        return self.ends({topic: 1})[topic, 0][1]

    def has_messages(self, topic: Topic) -> bool:
        """Return whether anything was ever written to a topic, whatever is left of it."""
        return any(stop for _, stop in self.ends({topic.name: topic.partitions}).values())

    def readable(
        self, topic: str, partitions: int
    ) -> tuple[dict[tuple[str, int], tuple[int, int]], dict[int, int]]:
        """
        Return where the partitions of a topic start and end for a reader of committed messages, and
        where those end that an open transaction holds up.
        """
        # Asked in this order, so that what is written meanwhile is not taken for held up.
        all_ends = self.ends({topic: partitions})
        ends = self.ends({topic: partitions}, stable=True)
        held_up = {place[1]: stop for place, (_, stop) in ends.items() if stop < all_ends[place][1]}
        return ends, held_up

    def offsets_since(
        self, topics: Mapping[str, int], timestamp_ms: int
    ) -> dict[tuple[str, int], int]:
        """
        Return, for each partition, the first offset whose message has this time or a later one, or
        else its end.
        """
        spec = OffsetSpec.for_timestamp(timestamp_ms)
        doing = f"asking for the offsets of a time in {', '.join(topics)}"
        [found] = self._offsets(topics, [spec], doing)
        return {place: OFFSET_MAX if offset < 0 else offset for place, offset in found.items()}

    def _offsets(
        self,
        topics: Mapping[str, int],
        specs: Sequence[OffsetSpec],
        doing: str,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> list[dict[tuple[str, int], int]]:
        """Return the offset of each partition by each specification, all asked for at once."""
        parts = [
            TopicPartition(topic, number)
            for topic, count in topics.items()
            for number in range(count)
        ]

        def ask(timeout_s: float) -> list[dict[tuple[str, int], int]]:
            asked = [
                self._client.list_offsets(
                    dict.fromkeys(parts, spec),
                    request_timeout=timeout_s,
                    isolation_level=isolation,
                )
                for spec in specs
            ]
            try:
                return [
                    {
                        (part.topic, part.partition): int(_result(found[part], timeout_s).offset)
                        for part in parts
                    }
                    for found in asked
                ]
            except KafkaException as error:
                if (
                    error.args[0].code() == KafkaError.FENCED_LEADER_EPOCH
                ):  # the client does not notice a frozen broker
                    self._client.list_topics(timeout=timeout_s)
                raise

        return self._ask(ask, doing)

    def create(self, name: str, partitions: int, replicas: int, config: Mapping[str, str]) -> bool:
        """Create a topic; return whether it was missing. StopError: the cluster refuses."""
        topic = NewTopic(
            name, num_partitions=partitions, replication_factor=replicas, config=dict(config)
        )
        return self._change(
            f"creating topic {name}",
            lambda s: self._client.create_topics([topic], request_timeout=s)[name],
            lambda refusal: refusal.code() == KafkaError.TOPIC_ALREADY_EXISTS,
        )

    def alter(self, topic: str, config: Mapping[str, str]) -> None:
        """
        Set some of a topic's settings, and leave the others; StopError: the cluster refuses one.
        """
        set_ = AlterConfigOpType.SET
        entries = [
            ConfigEntry(name, value, incremental_operation=set_) for name, value in config.items()
        ]
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
        alter = self._client.incremental_alter_configs
        self._change(
            f"altering topic {topic}", lambda s: alter([resource], request_timeout=s)[resource]
        )

    def delete(self, topic: str) -> None:
        """Delete a topic with all that it holds; StopError: the cluster refuses."""
        self._change(
            f"deleting topic {topic}",
            lambda s: self._client.delete_topics([topic], request_timeout=s)[topic],
            lambda refusal: refusal.code() == KafkaError.UNKNOWN_TOPIC_OR_PART,
        )

    def add_partitions(self, topic: str, count: int) -> None:
        """Give a topic this many partitions; StopError: the cluster refuses, as for fewer ones."""
        wanted = [NewPartitions(topic, count)]

        def has_them(_: KafkaError) -> bool:
            found = self.describe([topic]).get(topic)
            return found is not None and found.partitions == count

        self._change(
            f"adding partitions to {topic}",
            lambda s: self._client.create_partitions(wanted, request_timeout=s)[topic],
            has_them,
        )

    def _change(
        self,
        doing: str,
        call: Callable[[float], Future[Any]],
        is_done: Callable[[KafkaError], bool] = lambda _: False,
    ) -> bool:
        """
        Change something at the cluster.

        Args:
            doing: what is done, for the message.
            call: begins the change, which may take so many seconds.
            is_done: whether things are already as wanted, when the cluster refuses with this error.
        Returns:
            False if things were as wanted before. A call whose answer was lost may have made them
            so: then the next one is refused, and it is True.
        Raises:
            StopError: the cluster refuses.
        """
        calls = 0

        def ask(timeout_s: float) -> bool:
            nonlocal calls
            calls += 1
            try:
                _result(call(timeout_s), timeout_s)
            except KafkaException as error:
                refusal = error.args[0]
                if client.is_silence(error) or refusal.code() in _PASSING:
                    raise
                if is_done(refusal):
                    return calls > 1
                if refusal.code() in client.REFUSALS:
                    raise  # `_ask` gives it its remedy
                raise StopError(f"{doing}: {refusal.str()}") from error
            return True

        return self._ask(ask, doing)

    def members(self, group: str) -> tuple[str, list[Member]]:
        """
        Return the state of a group ("stable", "empty", …) and its members, by worker id.

        Both are empty while the group's coordinator is loading, moves or does not answer. Then ask
        again.
        """
        future = self._client.describe_consumer_groups([group], request_timeout=self._wait_s)[group]
        try:
            description = _result(future, self._wait_s)
        except KafkaException as error:
            ours = client.translate(error, f"describing group {group}")
            if isinstance(ours, StopError):
                raise ours from error
            return "", []
        members = [self._member(one) for one in description.members]
        state = description.state.name.lower().replace("_", " ")
        return state, sorted(members, key=lambda one: (one.worker_id, one.member_id))

    def _member(self, described: Any) -> Member:
        assignment = described.assignment
        parts = assignment.topic_partitions if assignment else []
        owned = [part.partition for part in parts if part.topic == self._documents]
        elsewhere = [
            f"{part.topic}[{part.partition}]" for part in parts if part.topic != self._documents
        ]
        return Member(
            described.member_id,
            described.client_id,
            described.host.removeprefix("/"),
            tuple(sorted(owned)),
            tuple(sorted(elsewhere)),
            is_static=described.group_instance_id == described.client_id,
        )

    def assigned(self, group: str) -> dict[str, int]:
        """
        Return how many partitions of the documents each member of a group has now.

        It is empty while the group rebalances.
        """
        state, members = self.members(group)
        return {one.member_id: len(one.partitions) for one in members} if state == "stable" else {}


def known_brokers(address: str, timeout_s: float) -> dict[int, int]:
    """
    Return the port of each broker, by its id, that the broker at an address knows; none if it does
    not serve.
    """
    asking = client.made(AdminClient, {"bootstrap.servers": address}, lambda _: None)
    try:
        return {
            broker.id: broker.port
            for broker in asking.list_topics(timeout=timeout_s).brokers.values()
        }
    except KafkaException:
        return {}


def _result(future: Future[Answer], timeout_s: float) -> Answer:
    """
    Return the result of a call.

    The client ends the call in time, but may be late on a busy machine.
    """
    try:
        return future.result(timeout_s + LATE_S)
    except TimeoutError as error:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT)) from error


def _is_unknown(error: KafkaException) -> bool:
    return bool(error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART)


def _uuid_bytes(uuid: Uuid) -> bytes:
    """Return the 16 bytes of an id that prints as base64 without padding."""
    return base64.urlsafe_b64decode(f"{uuid}==")
