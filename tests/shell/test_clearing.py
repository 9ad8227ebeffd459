"""What a new producer, and one after an abort, clears of transactions that may still be open."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaException, Producer

from tests.conftest import Kafka, deployed, eventually
from worker.errors import RetryError
from worker.settings import Settings
from worker.shell.kafka.publisher import VOID, Clearing, TransactionalPublisher
from worker.shell.kafka.reader import TopicReader
from worker.shell.ports import Outgoing

PARTITIONS = {"v": 3, "l": 2}
ALL = [
    ("l", b"void", 0),
    ("l", b"void", 1),
    ("v", b"void", 0),
    ("v", b"void", 1),
    ("v", b"void", 2),
]


class Recorded:
    """A producer that keeps what each transaction wrote; all of them must be aborted."""

    def __init__(self) -> None:
        self.transactions: list[tuple[list[tuple[str, bytes, int]], bool]] = []
        self.offline: set[tuple[str, int]] = set()
        self._open: list[tuple[str, bytes, int]] | None = None
        self._has_offsets = False

    def list_topics(self, topic: str, _timeout_s: float) -> Any:
        parts = {
            number: SimpleNamespace(leader=-1 if (topic, number) in self.offline else 1)
            for number in range(PARTITIONS[topic])
        }
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None, partitions=parts)})

    def begin_transaction(self) -> None:
        assert self._open is None
        self._open, self._has_offsets = [], False

    def produce(
        self,
        topic: str,
        value: bytes,
        key: bytes,
        partition: int,
        on_delivery: Callable[[None, None], None],
    ) -> None:
        assert value == VOID and self._open is not None
        self._open.append((topic, key, partition))
        on_delivery(None, None)

    def flush(self, _timeout_s: float) -> int:
        return 0

    def send_offsets_to_transaction(self, *_args: Any) -> None:
        self._has_offsets = True

    def abort_transaction(self, _timeout_s: float) -> None:
        assert self._open is not None
        self.transactions.append((self._open, self._has_offsets))
        self._open = None


def clearing() -> Clearing:
    settings = Settings(topic_verdicts="v", topic_dead_letter="l")
    return Clearing(settings, lambda _doing: nullcontext())


def run(it: Clearing, producer: Recorded, *topics: str) -> None:
    """Run it if it is needed."""
    if it.is_needed(topics):
        it.run(cast(Producer, producer), topics)


def test_a_new_producer_clears_everything_once() -> None:
    """Who knows what was before it; what it commits itself leaves nothing."""
    it, producer = clearing(), Recorded()
    run(it, producer)
    run(it, producer, "v", "l")
    assert producer.transactions == [(ALL, True)]
    it.begin()
    run(it, producer)
    assert len(producer.transactions) == 2


@pytest.mark.parametrize("offsets_sent", [False, True])
def test_after_an_abort_only_what_it_wrote_is_cleared(offsets_sent: bool) -> None:
    """
    By the same keys, which lead to the same partitions; a message without a key may be anywhere in
    its topic.
    """
    it, producer = clearing(), Recorded()
    run(it, producer)
    it.aborted([Outgoing("v", key, b"1") for key in (b"a", b"b", b"a")], offsets_sent=offsets_sent)
    run(it, producer, "v")
    it.aborted([Outgoing("l", None, b"1")], offsets_sent=False)
    run(it, producer, "l")
    assert producer.transactions[1:] == [
        ([("v", b"a", -1), ("v", b"b", -1)], offsets_sent),
        (ALL[:2], False),
    ]
    assert not it.is_needed(("v", "l"))


def test_a_partition_offline_keeps_only_its_own_topic_waiting() -> None:
    """
    The rest is cleared and answered; a dead letter waits until it has a leader, and then nothing of
    it is open.
    """
    it, producer = clearing(), Recorded()
    producer.offline.add(("l", 1))
    run(it, producer)
    assert producer.transactions == [([place for place in ALL if place != ("l", b"void", 1)], True)]
    assert not it.is_needed(("v",))
    with pytest.raises(RetryError, match="asking for the partitions of l: LEADER_NOT_AVAILABLE"):
        run(it, producer, "v", "l")
    producer.offline.clear()
    run(it, producer, "v", "l")
    assert producer.transactions[1:] == [([("l", b"void", 1)], False)]


def test_what_fails_is_not_taken_for_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that has not gone out may stand before an open transaction."""
    it, producer = clearing(), Recorded()
    monkeypatch.setattr(producer, "flush", lambda _timeout_s: 1)
    with pytest.raises(KafkaException):
        run(it, producer)
    assert it.is_needed(())


def test_a_queue_of_one_message_is_enough_to_publish(kafka: Kafka) -> None:
    """What is left open is cleared, and answers go out, one message after the other."""
    small = {"queue.buffering.max.messages": "1"}
    settings = deployed(kafka, worker_id="w", partitions=2, kafka=small)
    topic = settings.topic_verdicts
    with closing(TransactionalPublisher(settings)) as one:
        one.open()
        with one.transaction({topic}) as transaction:
            transaction.produce([Outgoing(topic, bytes([key]), b"v") for key in range(5)])

    def published() -> int:
        with closing(TopicReader(settings, {(topic, number): 0 for number in range(2)})) as reader:
            return sum(len(reader.read(0.2)) for _ in iter(reader.at_end, True))

    eventually(lambda: published() == 5)
