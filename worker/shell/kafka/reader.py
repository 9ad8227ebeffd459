"""Committed offsets and messages, read from outside the group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from worker.errors import NeardupError, StopError
from worker.shell.kafka.again import ask_again, span
from worker.shell.kafka.errors import logged, translate

__all__ = ["GroupOffsets", "TopicMessage", "TopicReader"]


class GroupOffsets:
    """
    The offsets that a group has committed, asked for from outside the group.

    Not by the administrator's client, which crashes when it asks a coordinator that is still loading.
    """

    def __init__(self, config: dict[str, Any], topic: str, partitions: int, call_timeout_s: float) -> None:
        self._consumer = Consumer(logged(config))
        self._asked = [TopicPartition(topic, number) for number in range(partitions)]
        self._call_timeout_s = call_timeout_s

    def get(self) -> dict[int, tuple[int | None, str]]:
        """
        Give offset (None: none) and metadata of each partition; offsets of open transactions do not count yet.

        A coordinator that moves or is still loading is asked again, for `call_timeout_s`.

        Raises:
            RetryError: no answer came in time.
            StopError: none will come.
        """
        answer = ask_again(self._ask, "asking for the group's offsets", self._call_timeout_s)
        return {part.partition: (part.offset if part.offset >= 0 else None, part.metadata or "") for part in answer}

    def _ask(self, timeout_s: float) -> list[TopicPartition]:
        answer = self._consumer.committed(self._asked, timeout=timeout_s)
        for part in answer:
            if part.error is not None:
                raise KafkaException(part.error)
        return answer

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
        self._consumer = Consumer(logged(config))
        parts = [TopicPartition(topic, number) for topic, count in topics.items() for number in range(count)]
        self._ends: dict[tuple[str, int], int] = {}
        for part in parts:
            try:
                low, high = span(self._consumer, part, f"{part.topic}[{part.partition}]", call_timeout_s)
            except NeardupError:
                self._consumer.close()
                raise
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
