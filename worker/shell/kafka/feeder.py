"""Documents into their topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from worker.shell.kafka.errors import logged


class Feeder:
    """
    Documents into their topic: keyed, in order for a key, each once.

    Args:
        sent: told partition, offset and the time of sending (Unix ms) of each delivered document.
    """

    FAILURES_KEPT = 10

    def __init__(self, config: dict[str, Any], topic: str, sent: Callable[[int, int, int], None] | None = None) -> None:
        self._producer = Producer(logged(config))
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
        """Wait until everything queued has gone out; return the number of messages that have not."""
        return int(self._producer.flush(wait_s))
