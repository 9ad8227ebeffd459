"""The topics: what they must be, what is wrong with those that exist, and how to mend it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from worker.errors import StopError
from worker.settings import Settings
from worker.settings.batches import MESSAGE_BYTES_MAX, OVERHEAD_BYTES_MAX
from worker.settings.connection import TOPICS
from worker.settings.load import flag
from worker.shell.kafka import Admin, Topic


class Wanted(NamedTuple):
    """A topic as it should be. `partitions_exact` is None where any number will do."""

    name: str
    partitions: int
    partitions_exact: int | None
    config: dict[str, str]
    essential: dict[str, str]  # settings without which the guarantees do not hold, with the reason
    fatal: frozenset[str] = frozenset()  # of these the ones without which no worker runs


class Problem(NamedTuple):
    """What is wrong with a topic, and how to mend it. The worker refuses to start on a fatal one."""

    topic: str
    text: str
    remedy: str
    fatal: bool

    def __str__(self) -> str:
        return f"{self.topic}: {self.text}. {self.remedy}"


_FOREVER = {"retention.ms": "-1", "retention.bytes": "-1"}


def wanted(settings: Settings) -> list[Wanted]:
    """Return the topics, in the order of a document's way."""
    expires = settings.definition.retention.expire_after_ms > 0
    size = {"max.message.bytes": str(MESSAGE_BYTES_MAX)}
    wants = [
        Wanted(
            settings.topic_documents,
            settings.partitions,
            None,
            {**size, "message.timestamp.type": "LogAppendTime"},
            {"message.timestamp.type": "latency and lag are told by the crawler's clock"},
        ),
        Wanted(
            settings.topic_fingerprints,
            1,
            1,
            {**_FOREVER, "cleanup.policy": "delete", "message.timestamp.type": "LogAppendTime"},
            {
                "cleanup.policy": "a compacted log loses records, and with them originals",
                "retention.ms": "records that expire take their originals with them",
                "retention.bytes": "records that expire take their originals with them",
                "message.timestamp.type": "originals expire by the records' times: one writer whose clock is ahead "
                "takes all of them with it",
            },
            frozenset({"cleanup.policy", "message.timestamp.type"} if expires else {"cleanup.policy"}),
        ),
        Wanted(settings.topic_verdicts, settings.partitions, None, {}, {}),
        Wanted(settings.topic_dead_letter, 1, None, size, {}),
    ]
    if settings.topic_new is not None:
        wants.append(
            Wanted(
                settings.topic_new,
                settings.partitions,
                None,
                {"max.message.bytes": str(max(MESSAGE_BYTES_MAX, settings.document_bytes_max) + OVERHEAD_BYTES_MAX)},
                {"max.message.bytes": "a new document of document_bytes_max would stop every worker"},
                frozenset({"max.message.bytes"}),
            )
        )
    return wants


def create(admin: Admin, settings: Settings) -> dict[str, bool]:
    """
    Create what is missing; for each topic, return whether it was. An existing one is left as it is.

    Raises:
        StopError: the cluster refuses, or does not show a new topic in time.
    """
    replicas = settings.replication_factor
    config = {"min.insync.replicas": "2"} if replicas >= 3 else {}
    wants = wanted(settings)
    created = {
        want.name: admin.create(want.name, want.partitions, replicas, {**config, **want.config}) for want in wants
    }
    deadline = time.monotonic() + settings.call_timeout_s
    while missing := {want.name for want in wants} - set(admin.describe([want.name for want in wants])):
        if time.monotonic() > deadline:  # brokers learn of a new topic a moment after its creation
            raise StopError(f"created, but not to be seen after {settings.call_timeout_s:g} s: {', '.join(missing)}")
        time.sleep(0.1)
    return created


def check(admin: Admin, settings: Settings) -> list[Problem]:
    """Compare the topics with what they should be."""
    found = admin.describe([want.name for want in wanted(settings)])
    own = [flag(settings, name) for name in TOPICS if getattr(settings, name) != Settings.model_fields[name].default]
    creates = " ".join(["neardup topics create", *own])
    return [problem for want in wanted(settings) for problem in _problems(want, found, creates)]


def _problems(want: Wanted, found: Mapping[str, Topic], creates: str) -> list[Problem]:
    topic = found.get(want.name)
    if topic is None:
        return [Problem(want.name, "the topic does not exist", f"Create it: {creates}", fatal=True)]
    problems = []
    if want.partitions_exact is not None and topic.partitions != want.partitions_exact:
        problems.append(
            Problem(
                want.name,
                f"has {topic.partitions} partitions, but only one gives all fingerprints one order",
                "Delete and create it again, or name another one with --topic-fingerprints",
                fatal=True,
            )
        )
    problems.extend(_durability(topic, is_log=want.partitions_exact == 1))
    for name, value in want.config.items():
        actual = topic.config.get(name)
        if actual == value or _is_larger(name, actual, value):
            continue
        problems.append(
            Problem(
                want.name,
                f"{name} is {actual}, should be {value}"
                + (f": {want.essential[name]}" if name in want.essential else ""),
                _alter(want.name, name, value),
                fatal=name in want.fatal,
            )
        )
    return problems


def _durability(topic: Topic, *, is_log: bool) -> Iterator[Problem]:
    """Say what may lose a record that the cluster has acknowledged, or keeps it from acknowledging any."""
    in_sync = int(topic.config.get("min.insync.replicas", "1"))
    if in_sync > topic.replicas:
        yield Problem(
            topic.name,
            f"min.insync.replicas is {in_sync}, and it has {topic.replicas}: nothing can be written",
            _alter(topic.name, "min.insync.replicas", str(topic.replicas)),
            fatal=True,
        )
    elif in_sync < 2 <= topic.replicas:
        yield Problem(
            topic.name,
            "min.insync.replicas is 1: what a single broker has acknowledged is lost with it",
            _alter(topic.name, "min.insync.replicas", "2"),
            fatal=False,
        )
    if topic.replicas > 1 and topic.config.get("unclean.leader.election.enable") == "true":
        yield Problem(
            topic.name,
            "unclean.leader.election.enable is true: a broker that lacks acknowledged records may become the leader, "
            "and they are lost",
            _alter(topic.name, "unclean.leader.election.enable", "false"),
            fatal=is_log,
        )


def _alter(topic: str, name: str, value: str) -> str:
    return f"neardup topics alter {topic} {name}={value}"


def _is_larger(name: str, actual: str | None, value: str) -> bool:
    return name == "max.message.bytes" and actual is not None and actual.isdigit() and int(actual) >= int(value)


def require(admin: Admin, settings: Settings) -> tuple[dict[str, Topic], list[Problem]]:
    """
    Return the topics that a worker can run on, with what is wrong but not fatal.

    Raises:
        StopError: a topic is missing or cannot carry the guarantees.
    """
    problems = check(admin, settings)
    fatal = [problem for problem in problems if problem.fatal]
    if fatal:
        raise StopError("\n".join(str(problem) for problem in fatal))
    return admin.describe([want.name for want in wanted(settings)]), problems
