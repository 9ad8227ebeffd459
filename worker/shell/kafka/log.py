"""The ordered log: one partition to follow and to append to, outside groups and transactions."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from worker.errors import StopError
from worker.shell.kafka.damage import ErrorEvents
from worker.shell.kafka.errors import Ends, logged, translate
from worker.shell.kafka.log_time import LogTime
from worker.shell.kafka.retry import span
from worker.shell.ports import LogEntry


class LogConsumer:
    """
    The ordered log, as a `ports.LogReader`: one partition, read from an explicit offset, by every worker.

    Args:
        expires: originals expire by the records' time stamps, which must then be the broker's.
    """

    def __init__(
        self, config: dict[str, Any], topic: str, offset: int, call_timeout_s: float, *, expires: bool = False
    ) -> None:
        self._part = TopicPartition(topic, 0, offset)
        self._position = offset
        self._call_timeout_s = call_timeout_s
        self._consumer = Consumer(logged(config))
        self._ends = Ends(self._consumer)
        self._events = ErrorEvents(call_timeout_s)
        self._time = LogTime(expires=expires)
        self._consumer.assign([self._part])

    def read(self, wait_s: float) -> list[LogEntry]:
        first = self._consumer.poll(wait_s)
        if first is None:
            return []
        messages = [first, *self._consumer.consume(1_000, 0)]
        entries = []
        for message in messages:
            error = message.error()
            if error is None:
                entries.append(LogEntry(message.offset() or 0, self._time.of(message), message.value() or b""))
                self._position = entries[-1].offset + 1
                continue
            if error.code() == KafkaError._PARTITION_EOF:  # carries the next offset to read
                self._position = max(self._position, message.offset() or 0)
                continue
            damage = self._events.take(message)
            if damage is not None:
                raise StopError(
                    f"the log {damage}. Have another replica lead, if one has it whole; else give this worker a "
                    f"new log topic and rebuild that from the documents: neardup rebuild"
                )
        if entries:
            self._time.look(entries[-1].timestamp_ms)
        return entries

    def position(self) -> int:
        return self._position

    def end(self) -> tuple[int, int]:
        return span(self._consumer, self._part, f"the log {self._part.topic}", self._call_timeout_s)

    def end_seen(self) -> int:
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
        self._producer = Producer(logged(config))

    def append(self, records: Sequence[bytes]) -> int:
        """Append in order and wait until all are durable; return the offset of the last."""
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
                ours = translate(error, f"appending to {self._topic}")
                raise ours if isinstance(ours, StopError) else StopError(f"{ours}: restart the worker")
        return outcomes[-1][1]

    def close(self) -> None:
        """Stop writing."""
        self._producer.flush(1.0)
