"""The clearing transaction: where it writes, and what waits for a partition that is offline."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaException, Producer

from worker.errors import RetryError
from worker.settings import Settings
from worker.shell.kafka.publisher import VOID, Clearing
from worker.shell.ports import Outgoing

PARTITIONS = {"v": 3, "l": 2}
ALL = [("l", b"void", 0), ("l", b"void", 1), ("v", b"void", 0), ("v", b"void", 1), ("v", b"void", 2)]


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
        self, topic: str, value: bytes, key: bytes, partition: int, on_delivery: Callable[[None, None], None]
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


@pytest.fixture
def producer() -> Recorded:
    """One."""
    return Recorded()


def clearing() -> Clearing:
    """For a new producer."""
    settings = Settings(bootstrap="127.0.0.1:1", topic_verdicts="v", topic_dead_letter="l")
    return Clearing(settings.model_copy(update={"call_timeout_s": 0.3}), lambda _doing: contextlib.nullcontext())


def run(it: Clearing, producer: Recorded, *topics: str) -> None:
    """Run it if it is needed."""
    if it.is_needed(topics):
        it.run(cast(Producer, producer), topics)


def test_a_new_producer_clears_everything_once(producer: Recorded) -> None:
    """Who knows what was before it; what it commits itself leaves nothing."""
    it = clearing()
    run(it, producer)
    run(it, producer, "v", "l")
    assert producer.transactions == [(ALL, True)]
    it.begin()
    run(it, producer)
    assert len(producer.transactions) == 2


@pytest.mark.parametrize("offsets_sent", [False, True])
def test_after_an_abort_only_what_it_wrote_is_cleared(producer: Recorded, offsets_sent: bool) -> None:
    """By the same keys, which lead to the same partitions; a message without a key may be anywhere in its topic."""
    it = clearing()
    run(it, producer)
    it.aborted(
        [Outgoing("v", b"a", b"1"), Outgoing("v", b"b", b"2"), Outgoing("v", b"a", b"3")], offsets_sent=offsets_sent
    )
    run(it, producer, "v")
    it.aborted([Outgoing("l", None, b"1")], offsets_sent=False)
    run(it, producer, "l")
    assert producer.transactions[1:] == [([("v", b"a", -1), ("v", b"b", -1)], offsets_sent), (ALL[:2], False)]
    assert not it.is_needed(("v", "l"))


def test_a_partition_offline_keeps_only_its_own_topic_waiting(producer: Recorded) -> None:
    """The rest is cleared and answered; a dead letter waits until it has a leader, and then nothing of it is open."""
    it = clearing()
    producer.offline.add(("l", 1))
    run(it, producer)
    assert producer.transactions == [([place for place in ALL if place != ("l", b"void", 1)], True)]
    assert not it.is_needed(("v",))
    with pytest.raises(RetryError, match="asking for the partitions of l: LEADER_NOT_AVAILABLE"):
        run(it, producer, "v", "l")
    producer.offline.clear()
    run(it, producer, "v", "l")
    assert producer.transactions[1:] == [([("l", b"void", 1)], False)]


def test_what_fails_is_not_taken_for_cleared(producer: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that has not gone out may stand before an open transaction."""
    it = clearing()
    monkeypatch.setattr(producer, "flush", lambda _timeout_s: 1)
    with pytest.raises(KafkaException):
        run(it, producer)
    assert it.is_needed(())


def test_a_reader_of_aborted_messages_can_read_the_value() -> None:
    """JSON that says what it is."""
    assert list(json.loads(VOID)) == ["void"]
    assert "read_committed" in json.loads(VOID)["void"]
