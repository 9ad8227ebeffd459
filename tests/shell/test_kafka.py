"""The Kafka client: its errors, its configurations, what is asked again; topics."""

from __future__ import annotations

import re
import shlex
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, closing, nullcontext
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest
import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.cli import program
from tests.conftest import Kafka, deployed, deployment, eventually
from tests.faults import cluster
from tests.shell.simulated_cluster import begins_at_first
from worker.errors import FencedError, NeardupError, RetryError, StopError
from worker.settings import Settings
from worker.settings.kafka import REFUSED
from worker.settings.librdkafka import properties
from worker.shell.admin.watch import Missing, message_at
from worker.shell.kafka import client, configuration, consumer, publisher
from worker.shell.kafka.admin import Admin
from worker.shell.kafka.client import CALL_S_MAX, retry
from worker.shell.kafka.consumer import GroupConsumer
from worker.shell.kafka.publisher import TransactionalPublisher
from worker.shell.kafka.reader import Feeder, GroupOffsets, TopicMessage, TopicReader
from worker.shell.kafka.topics import check_topics, create_topics, require_topics, topic_specs
from worker.shell.ports import CommittedOffset, Outgoing
from worker.shell.runtime import metrics


def nobody(**more: Any) -> Settings:
    """Where no broker is, asked for 0.2 s."""
    return Settings(bootstrap="127.0.0.1:1").model_copy(update={"call_timeout_s": 0.2, **more})


def test_each_call_into_the_producer_runs_under_a_limit_of_its_own() -> None:
    """
    One that never returns is told from one that is slow soon after its time-out, and by its name.
    """
    limits: list[tuple[str, float]] = []

    def limit(doing: str, limit_s: float) -> AbstractContextManager[None]:
        limits.append((doing, limit_s))
        return nullcontext()

    one = TransactionalPublisher(nobody(kafka={"transaction.timeout.ms": "1000"}), limit)
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
    monkeypatch: pytest.MonkeyPatch,
    code: int,
    kind: type[NeardupError],
    is_settled: bool | None,
    ends: list[str],
) -> None:
    """Aborted where that is possible; else the producer goes, with all that it holds."""
    producer = Refused(code)
    monkeypatch.setattr(publisher, "Producer", lambda _config: producer)
    monkeypatch.setattr(
        publisher.Clearing, "run", lambda clearing, *_: setattr(clearing, "_is_new", False)
    )
    one = TransactionalPublisher(nobody())
    with pytest.raises(NeardupError) as raised, one.transaction({"v"}) as transaction:
        transaction.produce([Outgoing("v", b"k", b"v")])
        transaction.send_offsets({0: CommittedOffset(1, "log=a next=1")}, None)
    assert type(raised.value) is kind and getattr(raised.value, "settled", None) is is_settled
    sent = [
        "init_transactions",
        "begin_transaction",
        "produce",
        "poll",
        "send_offsets_to_transaction",
    ]
    assert producer.calls == [*sent, *ends]
    # A producer made anew clears everything.
    assert one._clearing.is_needed({"v"}) is (is_settled is True)


def test_a_fenced_client_writes_nothing_of_its_own(
    kafka: Kafka, capfd: pytest.CaptureFixture[str]
) -> None:
    """
    Not even the lines on fatal errors, which `log_level` does not keep back: the error is ours to
    tell.
    """
    settings = deployed(kafka, worker_id="w", partitions=1)
    with closing(GroupOffsets(settings, 1)) as offsets:
        offsets.get()  # brings the group's coordinator into being, as a worker's joining does
    older = TransactionalPublisher(settings)
    newer = TransactionalPublisher(settings)
    try:
        older.open()
        newer.open()
        with (
            pytest.raises(FencedError, match="another process has taken over this worker's id"),
            older.transaction({settings.topic_verdicts}) as transaction,
        ):
            transaction.produce([Outgoing(settings.topic_verdicts, b"k", b"v")])
    finally:
        older.close()
        newer.close()
    assert "%" not in capfd.readouterr().err


class Clock:
    """A time that a test moves on."""

    now_s = 1_000.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of a client that has had no error yet."""
    clock = Clock()
    monkeypatch.setattr(client, "_errors", client._Errors())
    monkeypatch.setattr(time, "monotonic", lambda: clock.now_s)
    return clock


def test_a_cluster_that_is_away_does_not_fill_the_log(clock: Clock) -> None:
    """
    The client repeats itself hundreds of times a second. Each of its errors is logged at once, then
    at intervals that double; the first answer says for how long the brokers were away.
    """
    codes = [KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT]
    with structlog.testing.capture_logs() as lines:
        asked_s = clock.now_s
        for _ in range(100):
            for code in codes * 100:
                client.note(KafkaError(code))
            clock.now_s += 1
        client._answered(asked_s)  # was asked before the last error: proves nothing
        assert Counter(line["code"] for line in lines) == {"_ALL_BROKERS_DOWN": 4, "_TRANSPORT": 4}
        assert [line.get("for_s") for line in lines[::2]] == [None, 10, 30, 70]
        lines.clear()
        assert client.retry(lambda _s: 7, "asking", 1) == client.retry(lambda _s: 7, "asking", 1)
        assert [(line["event"], line["after_s"]) for line in lines] == [("brokers are back", 100)]
        lines.clear()
        clock.now_s += client.QUIET_S  # later, they are away again: that is news
        client.note(KafkaError(KafkaError._ALL_BROKERS_DOWN))
        assert len(lines) == 1 and "for_s" not in lines[0]


def test_brokers_that_come_and_go_do_not_fill_the_log_either(clock: Clock) -> None:
    """A broker that is away every other second is logged at most once a minute."""
    with structlog.testing.capture_logs() as lines:
        for _ in range(300):
            client.note(KafkaError(KafkaError._ALL_BROKERS_DOWN))
            clock.now_s += 1
            client.retry(lambda _s: 7, "asking", 1)
            clock.now_s += 1
    events = Counter(line["event"] for line in lines)
    assert events["kafka client"] == events["brokers are back"]  # each outage that was logged ends
    assert 5 <= events["kafka client"] <= 13  # in ten minutes


def test_each_outage_has_its_own_duration(clock: Clock) -> None:
    """
    It begins behind the answer that ended the one before. If no question comes for hours, it ends
    with its last error.
    """
    told: list[tuple[str, int | None]] = []
    with structlog.testing.capture_logs() as lines:
        for lasts_s, quiet_s in ((300, 50), (90, 4_000), (30, 4_000)):
            for _ in range(lasts_s + 1):
                client.note(KafkaError(KafkaError._ALL_BROKERS_DOWN))
                clock.now_s += 1
            clock.now_s += quiet_s
            if lasts_s != 90:  # nobody asks between the second outage and the third
                client.retry(lambda _s: 7, "asking", 1)
            told += [(line["event"], line.get("for_s", line.get("after_s"))) for line in lines]
            lines.clear()
    assert told == [
        *[("kafka client", for_s) for for_s in (None, 10, 30, 70, 150)],
        ("brokers are back", 351),
        ("kafka client", None),
        *[("kafka client", for_s) for for_s in (None, 10, 30)],
        ("brokers are back", 30),
    ]


def test_a_client_that_never_closes_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """It costs the time limit, not the worker's end."""
    stuck = threading.Event()

    class Stuck(Consumer):
        def close(self) -> None:
            stuck.wait()

    monkeypatch.setattr(consumer, "Consumer", Stuck)
    source = GroupConsumer(nobody(), begins_at_first, *[print] * 3)
    with structlog.testing.capture_logs() as lines:
        source.close()
    assert [line["waited_s"] for line in lines] == [0.2]
    stuck.set()


@pytest.mark.parametrize("size", [50_000, 9 << 20])
def test_a_message_too_large_for_its_topic_stops_the_worker_with_the_remedy(
    kafka: Kafka, size: int
) -> None:
    """
    Refused by the broker (the topic's limit) or by the client (its own): trying again would never
    end.
    """
    settings = deployed(kafka, worker_id="w", partitions=1, kafka={"compression.type": "none"})
    small = f"{settings.topic_verdicts}.small"
    Admin(settings, 30).create(small, 1, 1, {"max.message.bytes": "10000"})
    source = GroupConsumer(settings, begins_at_first, *[print] * 3)
    writer = TransactionalPublisher(settings)
    try:
        while source.group_metadata() is None:
            source.poll(1, 0.1)
        writer.open()
        with (
            pytest.raises(
                StopError,
                match=r"larger than its topic allows: raise the topic's max\.message\.bytes",
            ),
            writer.transaction({small}) as transaction,
        ):
            transaction.produce([Outgoing(small, b"k", b"x" * size)])
            transaction.send_offsets({0: CommittedOffset(0)}, source.group_metadata())
    finally:
        writer.close()
        source.close()


def test_a_document_too_large_for_the_client_is_counted_and_told(kafka: Kafka) -> None:
    """Feeding goes on behind it."""
    feeder = Feeder(deployed(kafka))
    for value in (b"small", b"x" * (9 << 20), b"small again"):
        feeder.send(b"k", value)
    assert feeder.flush(60) == 0
    assert (feeder.delivered, feeder.failures) == (2, 1)
    assert "too large" in feeder.failed[0].lower()


def test_a_document_larger_than_the_clients_queue_ends_with_a_reason() -> None:
    """No room comes by waiting; a worker's transaction would wait for ever, too."""
    small = {"queue.buffering.max.kbytes": "100"}
    feeder = Feeder(nobody(kafka=small))
    feeder.send(b"k", b"small")
    producer = client.made(Producer, configuration.feeder_config(nobody(kafka=small)))
    transaction = publisher._Transaction(producer, "documents", 1, lambda _doing: nullcontext())
    says = r"Queue full, and nothing else is in it: .* larger than kafka\.queue\.buffering\.max"
    with pytest.raises(StopError, match=f"writing to new: .*{says}"):
        transaction.produce([Outgoing("new", b"k", b"x" * 200_000)])
    empty = Feeder(nobody(kafka=small))
    with pytest.raises(StopError, match=f"writing to documents: .*{says}"):
        empty.send(b"k", b"x" * 200_000)


def test_a_queue_that_was_full_a_moment_ago_is_tried_again() -> None:
    """Its messages go out at any time: it may be empty as soon as it has refused one."""

    class Full:
        refusals = 1

        def __len__(self) -> int:
            return 0

        def produce(self, _topic: str) -> None:
            self.refusals -= 1
            if self.refusals >= 0:
                raise BufferError("Local: Queue full")

    served: list[bool] = []
    client.produce(cast(Producer, Full()), "v", lambda: served.append(True))
    assert served == [True]


class _Strict:
    """An administrator's client whose cluster refuses a change so many times."""

    calls = 0

    def __init__(self, code: int, refusals: int = 1_000) -> None:
        self._error = KafkaError(code, "retention of a day at most")
        self._refusals = refusals

    def incremental_alter_configs(
        self, resources: Sequence[object], **_: object
    ) -> dict[object, object]:
        self.calls += 1
        future = Future[None]()
        if self.calls > self._refusals:
            future.set_result(None)
        else:
            future.set_exception(KafkaException(self._error))
        return dict.fromkeys(resources, future)


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (KafkaError.POLICY_VIOLATION, "altering topic v: retention of a day at most"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "altering topic v: access to the topic is denied"),
    ],
)
def test_a_change_that_the_cluster_refuses_is_refused_at_once(code: int, says: str) -> None:
    """
    Asking again would get the same answer until the time is over, and lose the reason. Where the
    error has a remedy, that is told.
    """
    admin = Admin(nobody(), wait_s=60)
    strict = _Strict(code)
    admin._client = strict  # type: ignore[assignment]
    with pytest.raises(StopError, match=says):
        admin.alter("v", {"retention.ms": "-1"})
    assert strict.calls == 1


@pytest.mark.parametrize(
    "code", [KafkaError.NOT_CONTROLLER, KafkaError.UNKNOWN, KafkaError.THROTTLING_QUOTA_EXCEEDED]
)
def test_a_change_that_the_cluster_cannot_make_now_is_asked_for_again(code: int) -> None:
    """As while another controller takes over, or when there were too many changes at once."""
    admin = Admin(nobody(), wait_s=5)
    strict = _Strict(code, refusals=1)
    admin._client = strict  # type: ignore[assignment]
    admin.alter("v", {"retention.ms": "-1"})
    assert strict.calls == 2


class _Frozen:
    """
    An administrator's client whose broker froze: where leaders are it only learns when it asks for
    topics.
    """

    is_stale = True

    def list_offsets(
        self, asked: dict[TopicPartition, object], **_: object
    ) -> dict[TopicPartition, object]:
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
    """
    After a broker froze, its client repeats an old epoch for ever unless topics are asked for.
    """
    admin = Admin(Settings(bootstrap="127.0.0.1:1", worker_id="one"), wait_s=5)
    admin._client = _Frozen()  # type: ignore[assignment]
    assert admin.ends({"verdicts": 1}) == {("verdicts", 0): (7, 7)}


def test_a_name_that_is_no_utf8_costs_the_headers_not_the_document() -> None:
    """
    Other clients write such names, which the client decodes when it is asked: the message is read
    all the same. A worker that forwards headers counts each, and names the first with the remedy.
    """
    found = [[b"ok"], [b"ok", b"caf\xe9"], []]
    messages: list[Any] = [
        SimpleNamespace(
            headers=lambda names=names: [(name.decode(), b"x") for name in names] or None
        )
        for names in found
    ]
    assert [client.headers_of(message) for message in messages] == [(("ok", b"x"),), None, ()]
    for message in messages:
        for name in ("partition", "offset", "key", "value"):
            setattr(message, name, lambda: None)
        message.timestamp = lambda: (0, 0)
    counted = metrics.HEADERS_LEFT_OUT.labels("name")
    before = counted._value.get()
    settings = Settings(bootstrap="127.0.0.1:1", topic_new="new")
    reader = GroupConsumer(
        settings,
        lambda commits, _first: commits,
        print,
        lambda _numbers: None,
        lambda _numbers: None,
    )
    try:
        with structlog.testing.capture_logs() as said:
            taken = [reader._input(message).headers for message in messages * 2]
    finally:
        reader.close()
    assert taken == [(("ok", b"x"),), (), ()] * 2
    assert counted._value.get() - before == 2
    [line] = said
    assert "not UTF-8" in line["event"] and "in UTF-8" in line["remedy"]


Configure = Callable[[Settings], dict[str, Any]]
CLIENTS: list[Configure] = [
    one for name, one in vars(configuration).items() if name.endswith("_config") and name[0] != "_"
]


@pytest.mark.parametrize("configure", CLIENTS)
@pytest.mark.parametrize("group_protocol", ["classic", "consumer"])
def test_an_option_of_the_users_wins_or_is_refused(
    configure: Configure, group_protocol: str
) -> None:
    """
    Whatever neardup sets for a client of its own accord. The client takes the last of two names
    for the same property, so the user's stand behind neardup's.
    """
    own = configure(Settings(kafka={"group.protocol": group_protocol}))
    open_to_users = (own.keys() & properties().keys()) - REFUSED.keys() - {"group.protocol"}
    assert "message.max.bytes" in open_to_users
    options = dict.fromkeys(sorted(open_to_users), "10001") | {"group.protocol": group_protocol}
    if "max.poll.interval.ms" in options:
        options["max.poll.interval.ms"] = "300001"
    if "fetch.wait.max.ms" in options:
        options["fetch.wait.max.ms"] = "1001"
    configured = configure(Settings(kafka=options))
    if configure is not configuration.group_config:
        del options["group.protocol"]
    assert configured == own | options
    assert list(configured)[-len(options) :] == list(options)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (
            {"security.protocol": "SSL", "ssl.ca.location": "missing.pem"},
            "ssl.ca.location failed",
        ),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"},
            "sasl.username and sasl.password must be set",
        ),
        ({"linger.ms": "soon"}, "Invalid value for configuration property"),
        ({"retries": "0"}, "`retries` must be set >= 1"),
    ],
)
def test_settings_that_the_client_refuses_are_named(wrong: dict[str, str], named: str) -> None:
    """In one line, whichever client is made with them: nobody is asked."""
    with pytest.raises(StopError, match=f"refuses its settings: {named}.* Check Kafka's own"):
        Feeder(Settings(kafka=wrong))


def test_no_two_slots_share_a_transactional_id() -> None:
    """
    Wherever the names of a group and of a worker have their dots: each would fence the other for
    ever.
    """
    slots = [("neardup", "eu.w1"), ("neardup.eu", "w1"), ("neardup", "w1")]
    ids = {
        configuration.publisher_config(Settings(group=group, worker_id=name))["transactional.id"]
        for group, name in slots
    }
    assert len(ids) == len(slots)


class Answer(NamedTuple):
    """
    What the coordinator says of one partition; only the client itself can make its own with an
    error.
    """

    partition: int
    error: KafkaError | None
    offset: int = 7
    metadata: str | None = None


class Coordinator:
    """
    What a client is told about a group's offsets: these errors first, of the call or of a
    partition, then 7.
    """

    def __init__(self, *errors: int, of_the_call: bool = True) -> None:
        self.errors = list(errors)
        self.of_the_call = of_the_call
        self.timeouts_s: list[float] = []

    def committed(self, parts: Sequence[TopicPartition], timeout: float) -> list[Answer]:
        self.timeouts_s.append(timeout)
        code = self.errors.pop(0) if self.errors else None
        if code is not None and self.of_the_call:
            raise KafkaException(KafkaError(code))
        error = None if code is None else KafkaError(code)
        return [Answer(part.partition, error) for part in parts]

    def poll(self, _wait_s: float) -> None:
        """Nothing has come."""


def offsets_of(coordinator: Coordinator) -> GroupOffsets:
    offsets = GroupOffsets(nobody(), 2, 30)
    offsets.close()
    offsets._consumer = cast(Consumer, coordinator)
    return offsets


@pytest.mark.parametrize("of_the_call", [True, False])
def test_offsets_are_asked_for_again_while_the_coordinator_moves(of_the_call: bool) -> None:
    """
    Moved, still loading, timed out: nothing that a caller has to know of; denied now is denied the
    next time.
    """
    passing = (
        KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError._TRANSPORT, KafkaError._TIMED_OUT,
    )  # fmt: skip
    coordinator = Coordinator(*passing, of_the_call=of_the_call)
    assert offsets_of(coordinator).get() == {0: (7, ""), 1: (7, "")}
    assert len(coordinator.timeouts_s) == len(passing) + 1
    denied = Coordinator(KafkaError.GROUP_AUTHORIZATION_FAILED, of_the_call=of_the_call)
    with pytest.raises(StopError, match="access to the group is denied"):
        offsets_of(denied).get()
    assert len(denied.timeouts_s) == 1


def test_no_call_takes_all_the_time() -> None:
    """
    A call that a dying broker holds until its time-out is not the last one; the error has the
    reason of that.
    """
    allowed: list[float] = []

    def ask(timeout_s: float) -> str:
        allowed.append(timeout_s)
        if len(allowed) < 3:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return "answer"

    assert retry(ask, "asking", 2) == "answer"
    assert all(0.5 <= timeout_s <= 1 for timeout_s in allowed)
    assert sorted(allowed, reverse=True) == allowed
    assert retry(lambda timeout_s: timeout_s, "asking", 60) == CALL_S_MAX
    coordinator = Coordinator(*[KafkaError.NOT_COORDINATOR] * 1_000)
    with pytest.raises(RetryError, match=r"asking: NOT_COORDINATOR: .* \(asked again for 0\.5 s"):
        retry(lambda timeout_s: coordinator.committed([], timeout_s), "asking", 0.5)
    assert 1 < len(coordinator.timeouts_s) < 1_000


def test_created_topics_are_as_they_should_be(kafka: Kafka) -> None:
    """Creating is complete, and a second time changes nothing."""
    settings, admin = deployment(kafka, partitions=5)
    assert set(create_topics(admin, settings).values()) == {True}
    assert check_topics(admin, settings) == []
    found, problems = require_topics(admin, settings)
    assert problems == []
    assert found[settings.topic_documents].partitions == 5
    assert found[settings.topic_fingerprints].partitions == 1
    assert len({topic.topic_id for topic in found.values()}) == 4
    assert set(create_topics(admin, settings).values()) == {False}


def test_a_missing_topic_stops_a_worker_with_the_remedy(kafka: Kafka) -> None:
    """The name of each, and the command that creates all of them as these settings want them."""
    new = f"{uuid.uuid4().hex}.new"
    settings, admin = deployment(
        kafka, partitions=3, topic_new=new, document_bytes_max=9 << 20, replication_factor=1
    )
    with pytest.raises(StopError) as refused:
        require_topics(admin, settings)
    [command] = {
        re.search(
            rf"(?m)^{re.escape(spec.name)}: the topic does not exist\. Create it: neardup (.*)$",
            str(refused.value),
        )[1]  # type: ignore[index]
        for spec in topic_specs(settings)
    }
    program.run(*shlex.split(command))
    found, problems = require_topics(admin, settings)
    assert problems == [] and found[new].partitions == 3


def test_a_problem_is_mended_by_the_command_that_it_names(kafka: Kafka) -> None:
    """As it stands; what the cluster refuses is told."""
    settings, admin = deployment(kafka)
    small = {"max.message.bytes": "2000"}
    compacted = {"cleanup.policy": "compact", "retention.ms": "60000"}
    admin.create(settings.topic_fingerprints, 1, 1, compacted | small)
    admin.create(settings.topic_verdicts, 1, 1, small | {"message.timestamp.type": "LogAppendTime"})
    create_topics(admin, settings)
    problems = check_topics(admin, settings)
    remedies = [shlex.split(problem.remedy) for problem in problems]
    assert len(remedies) == 5
    assert sum("max.message.bytes is 2000, should be 1048588: " in p.text for p in problems) == 2
    for _, *command in remedies:
        program.run(*command)
    assert check_topics(admin, settings) == []
    with pytest.raises(StopError, match=r"altering topic .*\.verdicts: .*retention"):
        admin.alter(settings.topic_verdicts, {"retention.ms": "long"})


def test_a_message_that_is_missing_is_told_with_the_reason(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that retention has deleted, one that never was, and one that does not come in time."""
    settings, admin = deployment(kafka, partitions=1)
    create_topics(admin, settings)
    settings = settings.model_copy(update={"call_timeout_s": 2})
    topic = settings.topic_documents
    cluster.append(settings.bootstrap, topic, [b"one", b"two", b"three"])
    cluster.delete_records(settings.bootstrap, topic, {0: 1})
    message = message_at(settings, topic, 0, 1)
    assert isinstance(message, TopicMessage) and message.value == b"two"
    assert message_at(settings, topic, 0, 0) is Missing.DELETED
    assert message_at(settings, topic, 0, 7) is Missing.NONE
    monkeypatch.setattr(TopicReader, "read", lambda *_: [])
    assert message_at(settings, topic, 0, 0) is Missing.DELETED
    assert message_at(settings, topic, 0, 1) is Missing.LATE


def test_partitions_may_be_added_twice(kafka: Kafka) -> None:
    """The command may be run again after an answer was lost; fewer cannot be had."""
    settings, admin = deployment(kafka)
    name = settings.topic_verdicts
    admin.create(name, 2, 1, {})
    admin.add_partitions(name, 3)
    eventually(lambda: admin.existing([name])[name].partitions == 3)
    admin.add_partitions(name, 3)
    with pytest.raises(StopError, match=r"adding partitions to .*2 would not be an increase"):
        admin.add_partitions(name, 2)


def test_a_topic_of_new_documents_takes_the_largest_one(kafka: Kafka) -> None:
    """It is created with room for one; without room no worker starts."""
    settings, admin = deployment(kafka, topic_new=uuid.uuid4().hex, document_bytes_max=1 << 20)
    assert create_topics(admin, settings)[str(settings.topic_new)]
    assert check_topics(admin, settings) == []
    larger = settings.model_copy(update={"document_bytes_max": 9 << 20})
    with pytest.raises(
        StopError,
        match=r"a new document of document_bytes_max would stop.*max\.message\.bytes=9502720",
    ):
        require_topics(admin, larger)
