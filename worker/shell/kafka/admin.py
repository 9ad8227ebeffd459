"""Topics and cluster, asked and changed from outside."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException, TopicCollection, TopicPartition, Uuid
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec  # type: ignore[attr-defined]

from worker.errors import StopError
from worker.shell.kafka.errors import logged, translated

__all__ = ["Admin", "Topic"]


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
        self._client = AdminClient(logged(config))
        self._bootstrap = config["bootstrap.servers"]
        self._timeout_s = min(call_timeout_s, 15.0)  # a person waits for the answer

    def _wait(self, future: Future[Any], doing: str) -> Any:
        try:
            return future.result(self._timeout_s)
        except KafkaException as error:
            raise translated(error, doing) from error
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
