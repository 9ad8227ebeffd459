"""What may lose records of the log, make its time wrong, or put another topic in its place."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
import structlog

from tests.shell.memory_log import MemoryLog, MemoryReader
from worker.errors import RetryError, StopError
from worker.log.record import record_digest
from worker.settings import Settings
from worker.shell.admin import rebuild
from worker.shell.kafka import log as kafka_log
from worker.shell.kafka.admin import Admin, Topic
from worker.shell.kafka.log import LogConsumer, log_entries
from worker.shell.kafka.topics import (
    Problem,
    check_topics,
    create_topics,
    other_partitions,
    topic_specs,
)
from worker.shell.pipeline import service
from worker.shell.pipeline.offsets import CommitMetadata, check_log
from worker.shell.pipeline.service import Incarnation, Periodic


def problems(
    replicas: int,
    settings: Settings | None = None,
    records: int = 0,
    verdicts: int = 0,
    **config: str,
) -> list[Problem]:
    """What is said of four topics with these settings, and so many records and verdicts."""
    settings = settings or Settings()
    partitions = int(config.pop("partitions", "1"))
    changes = {name.replace("_", "."): value for name, value in config.items()}
    found = {
        spec.name: Topic(spec.name, bytes(16), partitions, replicas, spec.config | changes)
        for spec in topic_specs(settings)
    }
    written = {settings.topic_fingerprints: records, settings.topic_verdicts: verdicts}
    admin = SimpleNamespace(
        describe=lambda _names: found,
        has_messages=lambda topic: written.get(topic.name, 0) > 0,
    )
    return check_topics(cast(Admin, admin), settings)


def test_verdicts_that_are_there_before_the_log_are_another_groups() -> None:
    """Its readers would get two for each document. A log with records has verdicts of its own."""
    [problem] = problems(1, verdicts=3)
    assert problem.topic == "verdicts" and not problem.fatal
    assert "has messages, and the log fingerprints is empty" in problem.text
    assert "--topic-verdicts" in problem.remedy
    assert problems(1, verdicts=3, records=1) == []


def test_another_number_of_partitions_is_told_with_what_can_be_done() -> None:
    """More can be added; fewer cannot be had. The log always has one."""
    found = {
        spec.name: Topic(spec.name, bytes(16), 1 if spec.is_log else 6, 1, {})
        for spec in topic_specs(Settings())
    }
    admin = cast(Admin, SimpleNamespace(describe=lambda _names: found))
    more, *_ = differing = other_partitions(admin, Settings(partitions=12))
    assert [problem.topic for problem in differing] == [
        Settings().topic_documents, Settings().topic_verdicts,
    ]  # fmt: skip
    assert "has 6 partitions, not 12" in more.text
    assert "neardup topics alter documents partitions=12" in more.remedy
    assert (
        "cannot take partitions away" in other_partitions(admin, Settings(partitions=3))[0].remedy
    )
    assert not other_partitions(admin, Settings(partitions=6))


class MadeTopics:
    """An administrator of topics in memory."""

    def __init__(self, **topics: tuple[int, int]) -> None:
        self.topics = topics  # partitions and replicas, by name
        self.in_sync: dict[str, str | None] = {}  # of those that were created

    def describe(self, names: Sequence[str]) -> dict[str, Topic]:
        found = {name: self.topics[name] for name in names if name in self.topics}
        return {name: Topic(name, bytes(16), *counts, {}) for name, counts in found.items()}

    def create(self, name: str, partitions: int, replicas: int, config: Mapping[str, str]) -> bool:
        is_missing = name not in self.topics
        if is_missing:
            self.topics[name] = partitions, replicas
            self.in_sync[name] = config.get("min.insync.replicas")
        return is_missing

    def readable(self, topic: str, partitions: int) -> tuple[dict[object, object], object]:
        return {(topic, number): (0, 9) for number in range(partitions)}, {}


@pytest.mark.parametrize(
    ("named", "partitions", "replicas"),
    [
        ({}, 12, 3),
        ({"partitions": 4}, 4, 3),
        ({"replication_factor": 2}, 12, 2),
        ({"replication_factor": 5}, 12, 5),
        ({"partitions": 6, "replication_factor": 1}, 6, 1),  # the defaults, but by name
    ],
)
def test_new_topics_are_like_the_groups_others(
    named: dict[str, Any], partitions: int, replicas: int
) -> None:
    """
    What the settings name comes first, as in a command's options. So are those of a log that is
    renewed or rebuilt, like the group that it is of.
    """
    made = MadeTopics(documents=(12, 2), fingerprints=(1, 3))
    settings = Settings(topic_new="new", **named)
    created = create_topics(cast(Admin, made), settings)
    assert {name for name, was_missing in created.items() if not was_missing} == {
        "documents", "fingerprints",
    }  # fmt: skip
    assert made.topics["verdicts"] == made.topics["new"] == (partitions, replicas)
    assert made.topics[settings.topic_dead_letter] == (1, replicas)
    assert set(made.in_sync.values()) == {"2" if replicas >= 3 else None}
    only_documents = MadeTopics(documents=(12, 2))
    create_topics(cast(Admin, only_documents), Settings())
    assert only_documents.topics["fingerprints"] == (1, 2)


@pytest.mark.parametrize(("named", "replicas"), [({}, 3), ({"replication_factor": 1}, 1)])
def test_a_rebuilt_log_has_as_many_replicas_as_the_present_one(
    monkeypatch: pytest.MonkeyPatch, named: dict[str, Any], replicas: int
) -> None:
    """Its group is to take over: with one replica, it would be lost with one broker."""
    monkeypatch.setattr(rebuild, "_has_definition", lambda *_: False)
    made = MadeTopics(documents=(12, 2), fingerprints=(1, 3))
    plan = rebuild.plan(Settings(**named), cast(Admin, made))
    assert len(plan.created) == 3 and set(plan.stops) == set(range(12))
    assert made.topics[plan.settings.topic_fingerprints] == (1, replicas)
    assert made.topics[plan.settings.topic_verdicts] == (12, replicas)


def test_a_rebuild_of_a_rebuild_or_of_nothing_is_refused() -> None:
    """
    Names that end in the hash of these parameters are a rebuild's own; a topic of documents must be
    there.
    """
    made = cast(Admin, MadeTopics())
    own = f"fingerprints-{Settings().rules.hash:016x}"
    with pytest.raises(StopError, match=f"{own} already has these parameters: there is nothing"):
        rebuild.plan(Settings(topic_fingerprints=own), made)
    with pytest.raises(StopError, match=r"no-documents does not exist at .*: nothing to rebuild"):
        rebuild.plan(Settings(topic_documents="no-documents"), made)


LOG = Settings().topic_fingerprints
LETTERS = Settings().topic_dead_letter
ALL = {spec.name for spec in topic_specs(Settings())}
WRITTEN = ALL - {Settings().topic_documents}
SAFE = {"min_insync_replicas": "2", "unclean_leader_election_enable": "false"}


@pytest.mark.parametrize(
    ("replicas", "config", "said", "fatal", "text"),
    [
        (3, SAFE, 0, set(), ""),
        (1, {"min_insync_replicas": "1", "unclean_leader_election_enable": "true"}, 0, set(), ""),
        (3, {"min_insync_replicas": "1"}, 4, set(), "min.insync.replicas=2"),
        (
            3,
            SAFE | {"unclean_leader_election_enable": "true"},
            4,
            {LOG},
            "unclean.leader.election.enable=false",
        ),
        (1, {"min_insync_replicas": "2"}, 4, ALL, "nothing can be written"),
        (1, {"partitions": "2"}, 1, {LOG}, "has 2 partitions, but only one"),
        (1, {"cleanup_policy": "compact"}, 2, {LOG, LETTERS}, "cleanup.policy=delete"),
        (1, {"cleanup_policy": "compact,delete"}, 2, {LOG, LETTERS}, "cleanup.policy=delete"),
        (1, {"diskless_enable": "true"}, 3, WRITTEN, "a diskless topic has no transactions"),
        (1, {"inkless_enable": "true"}, 3, WRITTEN, "create a classic topic"),
        (1, {"diskless_enable": "false", "remote_storage_enable": "true"}, 0, set(), ""),
        (1, {"retention_ms": "60000"}, 1, set(), "retention.ms is 60000, should be -1"),
    ],
)
def test_what_may_lose_records_is_told_with_its_remedy(
    replicas: int, config: dict[str, str], said: int, fatal: set[str], text: str
) -> None:
    """
    Of each topic that has it; what the log cannot live with is refused, the rest is a warning.
    """
    found = problems(replicas, None, 0, 0, **config)
    assert len(found) == said and {problem.topic for problem in found if problem.fatal} == fatal
    assert all(text in str(problem) for problem in found)


@pytest.mark.parametrize("records", [0, 1, 10_000])
def test_only_an_empty_log_may_be_deleted(records: int) -> None:
    """Its first partition is the group's state. A worker runs next to a second partition."""
    [said] = problems(1, records=records, partitions="2")
    assert said.topic == LOG and "has 2 partitions" in said.text
    assert said.fatal == ("Delete it" in said.remedy) == (not records)
    assert ("Leave it as it is" in said.remedy) == bool(records)


def test_a_log_of_its_writers_time_is_refused_only_where_originals_expire() -> None:
    """Without an expiry no verdict depends on time."""
    for expire_after_s, is_fatal in ((0, False), (60, True)):
        said = problems(
            1, Settings(expire_after_s=expire_after_s), message_timestamp_type="CreateTime"
        )
        assert [problem.fatal for problem in said if problem.topic == LOG] == [is_fatal]


def test_what_workers_write_is_kept_by_the_brokers_clock() -> None:
    """A topic with its writers' time is told with the command; workers run on it all the same."""
    settings = Settings(topic_new="new")
    said = {one.topic: one for one in problems(1, settings, message_timestamp_type="CreateTime")}
    for topic in (settings.topic_verdicts, settings.topic_dead_letter, "new"):
        assert "retention goes by workers' clocks" in said[topic].text and not said[topic].fatal
        assert said[topic].remedy.endswith(f"{topic} message.timestamp.type=LogAppendTime")


@pytest.mark.parametrize(
    ("expires", "ahead_s", "lines"), [(True, 3_600, 2), (True, 200, 0), (False, 3_600, 0)]
)
def test_a_brokers_clock_that_jumps_forward_is_told(
    expires: bool, ahead_s: int, lines: int
) -> None:
    """Once a minute, with the remedy, where originals expire by it."""
    now_s = 1_000_000.0
    log = LogConsumer(Settings(bootstrap="127.0.0.1:1"), 0, expires=expires, clock=lambda: now_s)
    with structlog.testing.capture_logs() as told:
        for _ in range(100):
            log.look(int((now_s + ahead_s) * 1_000))
            now_s += 1
    log.close()
    assert len(told) == lines
    assert all("clock of the broker" in line["remedy"] for line in told)


def test_a_log_that_does_not_come_to_its_end_is_not_taken_for_the_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither by a reader of all its records, nor by one that asks for a single one."""

    class Stalled(MemoryReader):
        """Gets no more than the first records of a longer log."""

        def end(self) -> tuple[int, int]:
            return 0, 5

    memory = MemoryLog(lambda: 0)
    memory.append([b"a", b"b"])
    monkeypatch.setattr(kafka_log, "LogConsumer", lambda _, offset: Stalled(memory, offset))
    settings = Settings(topic_fingerprints="f").model_copy(update={"call_timeout_s": 0.01})
    assert service.record_digest_at(settings, 1) == record_digest(b"b")
    says = r"f\[0\]: nothing arrived in 0.01 s at offset 2, before its end 5: .*call_timeout_s"
    entries = log_entries(settings, 0)
    assert [next(entries).value, next(entries).value] == [b"a", b"b"]
    with pytest.raises(StopError, match=says):
        next(entries)
    with pytest.raises(StopError, match="nothing arrived"):
        service.record_digest_at(settings, 4)


def commit_metadata(log: list[str | None], *committed: CommitMetadata) -> None:
    """Check against a log that has these digests."""
    settings = Settings(topic_fingerprints="f")
    check_log(
        settings, committed, "a", lambda: len(log), lambda offset: log[offset], sleep=lambda _: None
    )


def test_a_log_that_lost_records_and_has_grown_since_is_noticed() -> None:
    """
    It is longer than what was committed, and another record stands where verdicts were decided.
    """
    committed = CommitMetadata("a", 3, "r2"), CommitMetadata("a", 2, "r1"), CommitMetadata("a", 1)
    commit_metadata(["r0", "r1", "r2", "r3"], *committed)
    with pytest.raises(
        StopError, match=r"record 2 of the log f is not the one.*lost records.*grown again"
    ):
        commit_metadata(["r0", "r1", "x2", "x3", "x4"], *committed)


def test_what_cannot_be_compared_is_taken() -> None:
    """Offsets that an older version has committed, and records that retention has deleted."""
    commit_metadata(["x0", "x1"], CommitMetadata("a", 2))
    commit_metadata([None, None, "r2"], CommitMetadata("a", 2, "r1"))
    with pytest.raises(StopError, match="another log"):
        commit_metadata(["x0"], CommitMetadata("b", 1, "x0"))


def test_a_lineage_survives_being_written() -> None:
    """As the metadata of an offset; one without a digest, too."""
    assert CommitMetadata.parse(str(CommitMetadata("0d9f", 7, "5c"))) == CommitMetadata(
        "0d9f", 7, "5c"
    )
    assert CommitMetadata.parse("log=0d9f next=7") == CommitMetadata("0d9f", 7)
    assert CommitMetadata.parse("set by hand") is None


class Ids:
    """
    A cluster as far as its topics' ids go; each look takes the next answer, and the last one stays.
    """

    def __init__(self, *answers: dict[str, bytes] | Exception) -> None:
        self._answers = list(answers)
        self.is_last = threading.Event()

    def topic_ids(self, _names: list[str]) -> dict[str, bytes]:
        answer = self._answers[0]
        if len(self._answers) == 1:
            self.is_last.set()
        else:
            self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_a_topic_that_was_created_anew_is_noticed_while_the_worker_runs() -> None:
    """
    By its id; one that is gone, and a cluster that does not answer, are noticed by whoever reads.
    """
    ids = Ids({"d": b"1"}, {}, RetryError("no answer"), {"d": b"2"})
    incarnation = Incarnation(cast(Admin, ids), {"d": b"1"}, every_s=0.001)
    assert ids.is_last.wait(60)
    with pytest.raises(
        StopError, match=r"topic d was deleted and created again.*start the worker again"
    ):
        incarnation.look()
    with pytest.raises(StopError, match="topic d was deleted"):
        while True:  # the thread's own look may end a moment later
            incarnation.check()


MOVES, BUG = RetryError("the coordinator moves"), KeyError("a bug")
UNKNOWN, FAILED = "nothing is known", "the asking thread's question has failed: it asks again"


@pytest.mark.parametrize(
    ("answers", "events"),
    [
        ([MOVES, 5], [UNKNOWN]),
        ([BUG, 5], [FAILED]),
        ([MOVES, MOVES, BUG, BUG, MOVES, 5], [UNKNOWN, FAILED, UNKNOWN]),
        ([MOVES, 4, MOVES, MOVES, 5], [UNKNOWN, UNKNOWN]),
    ],
)
def test_an_answer_is_taken_once_and_a_failure_is_asked_again(
    answers: Sequence[Exception | int], events: Sequence[str]
) -> None:
    """The thread goes on after any error, and tells the first one of a kind in a row."""
    asked, checked = threading.Event(), threading.Event()
    left = iter(answers)

    def ask() -> int:
        answer = next(left, None)
        if answer is None:  # the one before has been kept
            asked.set()
            checked.wait(60)
            return 6
        if isinstance(answer, Exception):
            raise answer
        return answer

    with structlog.testing.capture_logs() as said:
        periodic = Periodic("asking", ask, 0.001, UNKNOWN)
        assert asked.wait(60)
    assert periodic.take() == 5 and periodic.take() is None
    assert [line["event"] for line in said] == events
    assert said[0].get("cause") == ("the coordinator moves" if events[0] == UNKNOWN else None)
    periodic.close()
    checked.set()
