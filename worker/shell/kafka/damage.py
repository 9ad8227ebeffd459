"""
What a consumer is told beside messages. Every error event is logged and counted; one that stays ends in something:

    hopeless                           StopError, at once
    without an offset                  the client reconnects by itself
    at an offset, three times          a batch that cannot be decompressed or read: Damage, for whoever reads to decide
                                       any other reason: StopError, once it has lasted

The client itself would fetch the same batch again, twice a second, for ever.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from worker.errors import RetryError, StopError
from worker.shell.kafka.errors import logged, note, translate

REPEATS = 3
_DAMAGE = {KafkaError._BAD_COMPRESSION, KafkaError._BAD_MSG, KafkaError.INVALID_MSG}
_BEHIND = {KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET}


class Damage(NamedTuple):
    """A batch that cannot be read: its place, its first offset, and the client's words."""

    topic: str
    partition: int
    first: int
    text: str

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}] cannot be read at offset {self.first}: {self.text}"


class _Repeated(NamedTuple):
    offset: int
    code: int
    times: int
    since_s: float


class ErrorEvents:
    """The error events of one consumer. An error that lasts `patience_s` at one offset is not passing any more."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._last: dict[tuple[str, int], _Repeated] = {}

    def take(self, message: Message) -> Damage | None:
        """
        Log and count an event; return the damage that it tells of for the third time.

        Raises:
            StopError: no later fetch will bring anything else.
        """
        error, topic, partition = message.error(), message.topic() or "", message.partition()
        assert error is not None
        offset = message.offset()
        ours = translate(error, f"reading {topic}[{partition}]")
        if isinstance(ours, StopError) or error.fatal():
            raise ours
        note(error, topic=topic, partition=partition, offset=offset)
        if partition is None or offset is None or offset < 0:
            return None
        now_s = time.monotonic()
        last = self._last.get((topic, partition))
        if last is None or (last.offset, last.code) != (offset, error.code()):
            last = _Repeated(offset, error.code(), 0, now_s)
        last = last._replace(times=last.times + 1)
        self._last[topic, partition] = last
        if last.times < REPEATS:
            return None
        damage = Damage(topic, partition, offset, f"{error.name()}: {error.str()}")
        if error.code() in _DAMAGE:
            return damage
        if now_s - last.since_s > self._patience_s:
            raise StopError(f"{damage} (for {self._patience_s:g} s)")
        return None


def end_of_batch(config: dict[str, Any], damage: Damage, wait_s: float) -> int:
    """
    Return the offset behind a batch that cannot be read: the first that brings something else.

    Raises:
        RetryError: the cluster did not answer in time.
    Cost: a fetch for each doubling of the batch's offsets, and as many to halve.
    """
    consumer = Consumer(logged({**config, "enable.partition.eof": True}))
    deadline = time.monotonic() + wait_s

    def is_inside(offset: int) -> bool:
        consumer.assign([TopicPartition(damage.topic, damage.partition, offset)])
        while time.monotonic() < deadline:
            message = consumer.poll(0.5)
            error = None if message is None else message.error()
            if message is not None and (error is None or error.code() in _BEHIND | _DAMAGE):
                return error is not None and error.code() in _DAMAGE and message.offset() == damage.first
        raise RetryError(f"{damage}; where that batch ends was not to be learnt in {wait_s:g} s")

    try:
        inside, step = damage.first, 1
        while is_inside(damage.first + step):
            inside, step = damage.first + step, 2 * step
        behind = damage.first + step
        while behind - inside > 1:
            middle = (inside + behind) // 2
            if is_inside(middle):
                inside = middle
            else:
                behind = middle
        return behind
    finally:
        consumer.close()
