"""The topics: what they must be, what is wrong with those that exist, and how to mend it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from worker.errors import StopError
from worker.settings import MESSAGE_BYTES_MAX, OVERHEAD_BYTES_MAX, TOPICS, Settings, flag
from worker.shell.kafka import Admin, Topic


class TopicSpec(NamedTuple):
    """A topic as it should be."""

    name: str
    partitions: int
    config: dict[str, str]
    reasons: Mapping[str, str] = MappingProxyType({})  # of settings without which the guarantees do not hold
    fatal: frozenset[str] = frozenset()  # of these the ones without which no worker runs
    is_log: bool = False  # which has one partition; of the others any number will do


class Problem(NamedTuple):
    """What is wrong with a topic, and how to mend it. The worker refuses to start on a fatal one."""

    topic: str
    text: str
    remedy: str
    fatal: bool

    def __str__(self) -> str:
        return f"{self.topic}: {self.text}. {self.remedy}"


def specs(settings: Settings) -> list[TopicSpec]:
    """Return the topics as they should be, in the order of a document's way."""
    expires = settings.definition.retention.expire_after_ms > 0
    size, broker_time = {"max.message.bytes": str(MESSAGE_BYTES_MAX)}, {"message.timestamp.type": "LogAppendTime"}
    forever = {"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete"}
    expiry = "records that expire take their originals with them"
    found = [
        TopicSpec(
            settings.topic_documents, settings.partitions, size | broker_time,
            {"message.timestamp.type": "latency and lag are told by the crawler's clock"},
        ),
        TopicSpec(
            settings.topic_fingerprints, 1, forever | broker_time,
            {
                "cleanup.policy": "a compacted log loses records, and with them originals",
                "retention.ms": expiry,
                "retention.bytes": expiry,
                "message.timestamp.type": "originals expire by the records' times: one writer whose clock is ahead "
                "takes all of them with it",
            },
            frozenset({"cleanup.policy", "message.timestamp.type"} if expires else {"cleanup.policy"}),
            is_log=True,
        ),
        TopicSpec(settings.topic_verdicts, settings.partitions, {}),
        TopicSpec(settings.topic_dead_letter, 1, size),
    ]  # fmt: skip
    if settings.topic_new is not None:
        largest = max(MESSAGE_BYTES_MAX, settings.document_bytes_max) + OVERHEAD_BYTES_MAX
        reason = {"max.message.bytes": "a new document of document_bytes_max would stop every worker"}
        size = {"max.message.bytes": str(largest)}
        found.append(TopicSpec(settings.topic_new, settings.partitions, size, reason, frozenset(reason)))
    return found


def create(admin: Admin, settings: Settings) -> dict[str, bool]:
    """
    Create what is missing; for each topic, return whether it was. An existing one is left as it is.

    Raises:
        StopError: the cluster refuses, or does not show a new topic in time.
    """
    replicas, wanted = settings.replication_factor, specs(settings)
    config = {"min.insync.replicas": "2"} if replicas >= 3 else {}
    created = {
        spec.name: admin.create(spec.name, spec.partitions, replicas, {**config, **spec.config}) for spec in wanted
    }
    deadline = time.monotonic() + settings.call_timeout_s
    while missing := created.keys() - admin.describe(list(created)).keys():
        if time.monotonic() > deadline:  # brokers learn of a new topic a moment after its creation
            raise StopError(f"created, but not to be seen after {settings.call_timeout_s:g} s: {', '.join(missing)}")
        time.sleep(0.1)
    return created


def check(admin: Admin, settings: Settings) -> list[Problem]:
    """Compare the topics with what they should be."""
    wanted = specs(settings)
    found = admin.describe([spec.name for spec in wanted])
    own = [flag(settings, name) for name in TOPICS if getattr(settings, name) != Settings.model_fields[name].default]
    creates = " ".join(["neardup topics create", *own])
    return [problem for spec in wanted for problem in _problems(spec, found.get(spec.name), creates)]


def _problems(spec: TopicSpec, topic: Topic | None, creates: str) -> Iterator[Problem]:
    if topic is None:
        yield Problem(spec.name, "the topic does not exist", f"Create it: {creates}", fatal=True)
        return
    if spec.is_log and topic.partitions != 1:
        yield Problem(
            spec.name,
            f"has {topic.partitions} partitions, but only one gives all fingerprints one order",
            "Delete and create it again, or name another one with --topic-fingerprints",
            fatal=True,
        )
    yield from _durability(topic, is_log=spec.is_log)
    for name, value in spec.config.items():
        actual = topic.config.get(name)
        is_larger = name == "max.message.bytes" and str(actual).isdigit() and int(actual or 0) >= int(value)
        if actual != value and not is_larger:
            reason = f": {spec.reasons[name]}" if name in spec.reasons else ""
            remedy = _alter(spec.name, name, value)
            yield Problem(spec.name, f"{name} is {actual}, should be {value}{reason}", remedy, name in spec.fatal)


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
    return admin.describe([spec.name for spec in specs(settings)]), problems
