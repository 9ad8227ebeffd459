"""What becomes of the client's errors: which end the worker, with which remedy."""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.conftest import Kafka
from worker.errors import FencedError, NeardupError, RetryError, StopError
from worker.settings import Settings
from worker.shell.kafka import (
    Admin,
    Feeder,
    GroupConsumer,
    TransactionalPublisher,
    client,
    consumer,
    publisher,
    topics,
)
from worker.shell.ports import Outgoing


@pytest.mark.parametrize(
    ("code", "kind", "text"),
    [
        (KafkaError.MSG_SIZE_TOO_LARGE, StopError, "raise the topic's max.message.bytes"),
        (KafkaError.OFFSET_OUT_OF_RANGE, StopError, "truncated or recreated"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, StopError, "grant what deploy/README.md lists"),
        (KafkaError.PRODUCER_FENCED, FencedError, "--worker-id"),
        (KafkaError._FENCED, FencedError, "--worker-id"),
        (KafkaError.NOT_COORDINATOR, RetryError, "NOT_COORDINATOR"),
        (KafkaError._TIMED_OUT, RetryError, "_TIMED_OUT"),
    ],
)
def test_each_error_says_what_to_do(code: int, kind: type[NeardupError], text: str) -> None:
    """Hopeless ones name their remedy, a successor its own, and everything else may pass."""
    found = client.translate(KafkaError(code), "publishing")
    assert type(found) is kind
    assert text in str(found)


def nobody(**more: Any) -> Settings:
    """Where no broker is, asked for 0.2 s."""
    return Settings(bootstrap="127.0.0.1:1").model_copy(update={"call_timeout_s": 0.2, **more})


def test_each_call_into_the_producer_runs_under_a_limit_of_its_own() -> None:
    """One that never returns is told from one that is slow soon after its time-out, and by its name."""
    limits: list[tuple[str, float]] = []

    def limit(doing: str, limit_s: float) -> AbstractContextManager[None]:
        limits.append((doing, limit_s))
        return nullcontext()

    one = TransactionalPublisher(nobody(transaction_timeout_ms=1_000), limit)
    with pytest.raises(RetryError, match="opening the transactional producer"):
        one.open()
    assert [doing for doing, _ in limits] == [
        "settling what is open", "opening the transactional producer", "closing a producer",
    ]  # fmt: skip
    assert [limit_s for _, limit_s in limits] == pytest.approx([2.0, 0.3, 0.3])


class Refused:
    """A producer whose commit fails with this error."""

    def __init__(self, code: int) -> None:
        self.error = KafkaError(code)
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_args, **_more: self.calls.append(name)

    def commit_transaction(self, _timeout_s: float) -> None:
        raise KafkaException(self.error)


@pytest.mark.parametrize(
    ("code", "kind", "is_settled", "ends"),
    [
        (KafkaError.NOT_COORDINATOR, RetryError, True, ["abort_transaction"]),
        (KafkaError.FENCED_INSTANCE_ID, RetryError, True, ["abort_transaction"]),
        (KafkaError._TIMED_OUT, RetryError, False, ["purge", "close"]),
        (KafkaError._FENCED, FencedError, None, ["purge", "close"]),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, StopError, None, ["purge", "close"]),
    ],
)
def test_a_failed_commit_is_settled_or_in_doubt_or_the_end(
    monkeypatch: pytest.MonkeyPatch, code: int, kind: type[NeardupError], is_settled: bool | None, ends: list[str]
) -> None:
    """Aborted where that is possible; else the producer goes, with all that it holds."""
    producer = Refused(code)
    monkeypatch.setattr(publisher, "Producer", lambda _config: producer)
    monkeypatch.setattr(publisher.Clearing, "run", lambda clearing, *_: setattr(clearing, "_is_new", False))
    one = TransactionalPublisher(nobody())
    with pytest.raises(NeardupError) as raised, one.transaction({"v"}) as transaction:
        transaction.produce([Outgoing("v", b"k", b"v")])
        transaction.send_offsets({0: 1}, None, "log=a next=1")
    assert type(raised.value) is kind and getattr(raised.value, "settled", None) is is_settled
    sent = ["init_transactions", "begin_transaction", "produce", "poll", "send_offsets_to_transaction"]
    assert producer.calls == [*sent, *ends]
    assert one._clearing.is_needed({"v"}) is (is_settled is True)  # a producer made anew clears everything


def test_a_cluster_that_is_away_does_not_fill_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client repeats itself hundreds of times a second: each of its errors is told once in five seconds."""
    now_s = 1_000.0
    monkeypatch.setattr(client, "_told_s", {})
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    with structlog.testing.capture_logs() as lines:
        for _ in range(10):
            for code in [KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT] * 100:
                client.note(KafkaError(code))
            now_s += 1
    assert Counter(line["code"] for line in lines) == {"_ALL_BROKERS_DOWN": 2, "_TRANSPORT": 2}


def test_a_client_that_never_closes_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """It costs the time limit, not the worker's end."""
    stuck = threading.Event()

    class Stuck(Consumer):
        def close(self) -> None:
            stuck.wait()

    monkeypatch.setattr(consumer, "Consumer", Stuck)
    source = GroupConsumer(nobody(), *[print] * 3)
    with structlog.testing.capture_logs() as lines:
        source.close()
    assert [line["waited_s"] for line in lines] == [0.2]
    stuck.set()


@pytest.mark.kafka
@pytest.mark.parametrize("size", [50_000, 9 << 20])
def test_a_message_too_large_for_its_topic_stops_the_worker_with_the_remedy(kafka: Kafka, size: int) -> None:
    """Refused by the broker (the topic's limit) or by the client (its own): trying again would never end."""
    name = uuid.uuid4().hex
    settings = Settings(
        bootstrap=kafka.bootstrap, group=name, worker_id="w", topic_documents=f"{name}.d",
        topic_fingerprints=f"{name}.f", topic_verdicts=f"{name}.v", topic_dead_letter=f"{name}.l", partitions=1,
        kafka_options={"compression.type": "none"},
    )  # fmt: skip
    admin = Admin(settings, 30)
    topics.create(admin, settings)
    small = f"{name}.small"
    admin.create(small, 1, 1, {"max.message.bytes": "10000"})
    source = GroupConsumer(settings, *[print] * 3)
    writer = TransactionalPublisher(settings)
    try:
        while source.group_metadata() is None:
            source.poll(1, 0.1)
        writer.open()
        with (
            pytest.raises(StopError, match=r"larger than its topic takes: raise the topic's max\.message\.bytes"),
            writer.transaction({small}) as transaction,
        ):
            transaction.produce([Outgoing(small, b"k", b"x" * size)])
            transaction.send_offsets({0: 0}, source.group_metadata())
    finally:
        writer.close()
        source.close()


@pytest.mark.kafka
def test_a_document_too_large_for_the_client_is_counted_and_told(kafka: Kafka) -> None:
    """Feeding goes on behind it."""
    name = uuid.uuid4().hex
    settings = Settings(bootstrap=kafka.bootstrap, topic_documents=name)
    Admin(settings, 30).create(name, 1, 1, {"max.message.bytes": str(8 << 20)})
    feeder = Feeder(settings)
    for value in (b"small", b"x" * (9 << 20), b"small again"):
        feeder.send(b"k", value)
    assert feeder.flush(60) == 0
    assert (feeder.delivered, feeder.failures) == (2, 1)
    assert "too large" in feeder.failed[0].lower()


class _Frozen:
    """An administrator's client whose broker froze: where leaders are it only learns when it asks for topics."""

    is_stale = True

    def list_offsets(self, asked: dict[TopicPartition, object], **_: object) -> dict[TopicPartition, object]:
        futures = {part: Future[SimpleNamespace]() for part in asked}
        for future in futures.values():
            if self.is_stale:
                future.set_exception(KafkaException(KafkaError(KafkaError.FENCED_LEADER_EPOCH)))
            else:
                future.set_result(SimpleNamespace(offset=7))
        return dict(futures)

    def list_topics(self, **_: object) -> None:
        self.is_stale = False


def test_offsets_are_asked_for_where_the_leader_is_now() -> None:
    """After a broker froze, its client repeats an old epoch for ever unless topics are asked for."""
    admin = Admin(Settings(bootstrap="127.0.0.1:1", worker_id="one"), wait_s=5)
    admin._client = _Frozen()  # type: ignore[assignment]
    assert admin.ends({"verdicts": 1}) == {("verdicts", 0): (7, 7)}


class _Message:
    """A message of the client, whose names of headers are bytes until somebody asks for them."""

    def __init__(self, *names: bytes) -> None:
        self._names = names

    def headers(self) -> Any:
        return [(name.decode(), b"x") for name in self._names] or None


def test_a_name_that_is_no_utf8_costs_the_headers_not_the_document() -> None:
    """Other clients write such names: the message is read all the same."""
    messages: Any = _Message(b"ok"), _Message(b"ok", b"caf\xe9"), _Message()
    assert [client.headers_of(message) for message in messages] == [(("ok", b"x"),), (), ()]
