"""What only tests do to topics: delete them, cut their beginning off, append with a time of one's own."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

__all__ = ["append", "delete_records", "delete_topic"]


def delete_topic(bootstrap: str, topic: str) -> None:
    """Delete a topic with all that it holds."""
    client = AdminClient({"bootstrap.servers": bootstrap})
    client.delete_topics([topic])[topic].result(20)


def delete_records(bootstrap: str, topic: str, before: Mapping[int, int]) -> None:
    """Delete what lies before these offsets."""
    client = AdminClient({"bootstrap.servers": bootstrap})
    parts = [TopicPartition(topic, partition, offset) for partition, offset in before.items()]
    for future in client.delete_records(parts).values():
        future.result(20)


def append(bootstrap: str, topic: str, values: Sequence[bytes], at_ms: int = 0) -> None:
    """Append to partition 0; with a time stamp (ms), or now."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for value in values:
        producer.produce(topic, value=value, partition=0, timestamp=at_ms or int(time.time() * 1_000))
    assert producer.flush(20) == 0
