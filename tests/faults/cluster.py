"""
What only tests do to topics: delete them, cut their beginning off, append with a time of one's own.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from tests.conftest import eventually

ANSWER_S = 90.0  # of a broker on a busy machine


def create_on(bootstrap: str, topic: str, broker: int) -> None:
    """Create a topic with one partition, on one broker alone."""
    client = AdminClient({"bootstrap.servers": bootstrap})
    config = {"min.insync.replicas": "1"}
    client.create_topics([NewTopic(topic, 1, replica_assignment=[[broker]], config=config)])[
        topic
    ].result(ANSWER_S)


def delete_topic(bootstrap: str, topic: str) -> None:
    """Delete a topic with all that it holds."""
    client = AdminClient({"bootstrap.servers": bootstrap})
    client.delete_topics([topic])[topic].result(ANSWER_S)


def alter(bootstrap: str, topic: str, config: Mapping[str, str]) -> None:
    """Set some of a topic's settings, and leave the others."""
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in config.items()
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
    client = AdminClient({"bootstrap.servers": bootstrap})
    client.incremental_alter_configs([resource])[resource].result(ANSWER_S)


def delete_records(bootstrap: str, topic: str, before: Mapping[int, int]) -> None:
    """Delete what lies before these offsets."""
    client = AdminClient({"bootstrap.servers": bootstrap})
    parts = [TopicPartition(topic, partition, offset) for partition, offset in before.items()]
    for future in client.delete_records(parts).values():
        future.result(ANSWER_S)


def until_in_sync(bootstrap: str) -> None:
    """
    Wait until every replica is in sync: before that the loss of another node stops the writers.
    """

    def is_in_sync() -> bool:
        try:
            found = client.list_topics(timeout=10).topics.values()
        except KafkaException:  # of a node that has just died or come
            return False
        return all(
            len(part.isrs) == len(part.replicas)
            for topic in found
            for part in topic.partitions.values()
        )

    client = AdminClient({"bootstrap.servers": bootstrap})
    eventually(is_in_sync, "all replicas are in sync")


def has_leader(bootstrap: str, topic: str) -> bool:
    """Return whether a topic's partition 0 has a leader, as the cluster knows it now."""
    parts = (
        AdminClient({"bootstrap.servers": bootstrap})
        .list_topics(topic, 10)
        .topics[topic]
        .partitions
    )
    return 0 in parts and parts[0].leader >= 0


def append(
    bootstrap: str,
    topic: str,
    values: Sequence[bytes | None],
    at_ms: int = 0,
    partition: int = 0,
    key: bytes | None = None,
) -> None:
    """Append to one partition; with a time stamp (ms), or now."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for value in values:
        producer.produce(
            topic,
            value,
            key,
            partition=partition,
            timestamp=at_ms or int(time.time() * 1_000),
        )
    assert producer.flush(ANSWER_S) == 0
