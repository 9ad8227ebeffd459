"""
The topics: what they must be, what is wrong with those that exist, and how to mend it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from worker.errors import RetryError, StopError
from worker.settings import MESSAGE_BYTES_MAX, OVERHEAD_BYTES_MAX, TOPICS, Settings, command
from worker.shell.kafka.admin import Admin, Topic


class TopicSpec(NamedTuple):
    """A topic as it should be."""

    name: str
    partitions: int
    config: dict[str, str]
    # The reason for each setting that a guarantee rests on.
    reasons: Mapping[str, str] = MappingProxyType({})
    fatal: frozenset[str] = frozenset()  # those without which a worker refuses to run
    is_log: bool = False  # the log has one partition, other topics any number
    # Of a topic that has max.message.bytes from its cluster: the least that workers can run on.
    message_bytes_min: int = 0


# Kafka's own default. A batch that the client sends has up to 1,000,000 bytes, or one message.
BATCH_BYTES_MAX = 1_048_588

_OF_NEW_TOPICS = ("partitions", "replication_factor", "document_bytes_max")
PARTITIONS = "partitions"  # no setting of Kafka's, but `topics alter` takes it like one

# Settings of topics whose data is only in object storage (KIP-1150; Aiven).
DISKLESS = ("diskless.enable", "inkless.enable")


class Problem(NamedTuple):
    """
    A problem with a topic, and how to repair it. The worker refuses to start if it is fatal.
    """

    topic: str
    text: str
    remedy: str
    fatal: bool

    def __str__(self) -> str:
        return f"{self.topic}: {self.text}. {self.remedy}"


def topic_specs(settings: Settings) -> list[TopicSpec]:
    """Return the topics as they should be, in the order in which a document meets them."""
    expires = settings.rules.retention.expires
    size = {"max.message.bytes": str(MESSAGE_BYTES_MAX)}
    broker_time = {"message.timestamp.type": "LogAppendTime"}
    by_clocks = "retention goes by workers' clocks, and a wrong one deletes too early or never"
    kept_by_clocks = {"message.timestamp.type": by_clocks}
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
                "message.timestamp.type": "originals expire by the records' times: one writer "
                                          "whose clock is ahead "
                "takes all of them with it",
            },
            frozenset(
                {"cleanup.policy", "message.timestamp.type"} if expires else {"cleanup.policy"}
            ),
            is_log=True,
            message_bytes_min=BATCH_BYTES_MAX,
        ),
        TopicSpec(
            settings.topic_verdicts, settings.partitions, broker_time, kept_by_clocks,
            message_bytes_min=BATCH_BYTES_MAX,
        ),
        TopicSpec(
            settings.topic_dead_letter, 1, size | broker_time | {"cleanup.policy": "delete"},
            kept_by_clocks
            | {
                "cleanup.policy": "a compacted topic takes no message without a key, and a dead "
                "letter has the key of its message",
            },
            frozenset({"cleanup.policy"}),
        ),
    ]  # fmt: skip
    if settings.topic_new is not None:
        largest = settings.document_bytes_max + OVERHEAD_BYTES_MAX
        reason = {
            "max.message.bytes": "a new document of document_bytes_max would stop every worker"
        }
        size = {"max.message.bytes": str(largest)}
        found.append(
            TopicSpec(
                settings.topic_new,
                settings.partitions,
                size | broker_time,
                reason | kept_by_clocks,
                frozenset(reason),
            )
        )
    return found


def create_topics(
    admin: Admin, settings: Settings, *, like: Settings | None = None
) -> dict[str, bool]:
    """
    Create the topics that are missing, and leave the others as they are.

    Partitions and replicas that the settings do not name are those of existing topics.

    Args:
        settings: what is to be there.
        like: the deployment whose topics these are; by default the same one.
    Returns:
        Whether each topic was missing.
    Raises:
        StopError: the cluster refuses, or does not show a new topic in time.
    """
    settings = _as_the_others(admin, settings, like or settings)
    replicas = settings.replication_factor
    wanted = topic_specs(settings)
    config = {"min.insync.replicas": "2"} if replicas >= 3 else {}
    created = {
        spec.name: admin.create(spec.name, spec.partitions, replicas, {**config, **spec.config})
        for spec in wanted
    }
    deadline = time.monotonic() + settings.call_timeout_s
    while missing := created.keys() - admin.describe(list(created)).keys():
        if time.monotonic() > deadline:  # brokers learn of a new topic a moment after its creation
            raise StopError(
                "created, "
                f"but not visible after {settings.call_timeout_s:g} s: {', '.join(missing)}"
            )
        time.sleep(0.1)
    return created


def _as_the_others(admin: Admin, settings: Settings, others: Settings) -> Settings:
    """
    Fill in partitions and replicas that the settings leave open, from the topics of `others`.

    Workers do not need `replication_factor`, so their settings may not name it.
    """
    found = admin.describe([others.topic_documents, others.topic_fingerprints])
    documents, log = found.get(others.topic_documents), found.get(others.topic_fingerprints)
    known = {}
    if documents is not None:
        known = {"partitions": documents.partitions, "replication_factor": documents.replicas}
    if log is not None:
        known["replication_factor"] = log.replicas
    return settings.model_copy(
        update={name: n for name, n in known.items() if name not in settings.model_fields_set}
    )


def other_partitions(admin: Admin, settings: Settings) -> list[Problem]:
    """
    Return the topics that have another number of partitions than the settings ask for.

    It is no problem for a worker, so only the command that was given a number tells it.
    """
    wanted = {spec.name: spec for spec in topic_specs(settings)}
    problems = []
    for name, topic in admin.describe(list(wanted)).items():
        spec = wanted[name]
        if spec.partitions in (1, topic.partitions):
            continue
        text = f"has {topic.partitions} partitions, not {spec.partitions}, and is left as it is"
        remedy = "Kafka cannot take partitions away: keep it, or create another topic"
        if spec.partitions > topic.partitions:
            remedy = (
                f"{command(settings, 'topics alter')} {name} {PARTITIONS}={spec.partitions} adds "
                "them. Workers read them within 10 seconds; keys then lead to other partitions"
            )
        problems.append(Problem(name, text, remedy, fatal=False))
    return problems


def check_topics(admin: Admin, settings: Settings) -> list[Problem]:
    """Compare the topics with what they should be."""
    wanted = topic_specs(settings)
    found = admin.describe([spec.name for spec in wanted])
    problems = [
        problem for spec in wanted for problem in _problems(spec, found.get(spec.name), settings)
    ]
    log = found.get(settings.topic_fingerprints)
    if log is not None and log.partitions != 1:
        problems.append(_log_of_many(admin, log))
    written_to = found.keys() - {settings.topic_documents}
    problems += _diskless(found[name] for name in sorted(written_to))
    return [*problems, *_of_another_log(admin, settings, found)]


def _of_another_log(
    admin: Admin, settings: Settings, found: Mapping[str, Topic]
) -> Iterator[Problem]:
    """
    Yield the topics with answers of another log: this one is empty, and stands on nothing.

    No answer of a broker that is away counts as none: it is no reason not to start.
    """
    log = found.get(settings.topic_fingerprints)
    if log is None or settings.base_snapshot is not None or admin.has_messages(log):
        return
    answers = sorted(found.keys() - {settings.topic_documents, log.name})
    try:
        written_to = [name for name in answers if admin.has_messages(found[name])]
        # A group that began meanwhile has written to its log first.
        has_begun = admin.has_messages(log)
    except RetryError:
        return
    for name in () if has_begun else written_to:
        yield Problem(
            name,
            f"has messages, and the log {log.name} is empty: workers of another log wrote them, "
            "and readers would get two answers to one document",
            "Unless the group that wrote them has ended, name topics of answers for this group "
            "alone (--topic-verdicts, --topic-dead-letter, --topic-new)",
            fatal=False,
        )


def _diskless(topics: Iterable[Topic]) -> Iterator[Problem]:
    """Yield the topics that cannot be written to in a transaction."""
    for topic in topics:
        for name in DISKLESS:
            if topic.config.get(name) == "true":
                yield Problem(
                    topic.name,
                    f"{name} is true: a diskless topic has no transactions, in which verdicts and "
                    "offsets are written together",
                    "Keep it, and create a classic topic under another name (--topic-…), with or "
                    "without tiered storage",
                    fatal=True,
                )


def _log_of_many(admin: Admin, log: Topic) -> Problem:
    """
    Return what is to be done about a log with more than one partition.

    Workers append to partition 0 and read nothing else, so later partitions change no verdict. But
    partition 0 is the state of the group, so only an empty log may be made again.
    """
    text = f"has {log.partitions} partitions, but only one gives all fingerprints one order"
    if admin.has_messages(log):
        text = f"{text}: workers use partition 0, and ignore what is written to the others"
        remedy = (
            "Leave it as it is: partition 0 has the state of the group, "
            "and Kafka cannot take partitions away"
        )
        return Problem(log.name, text, remedy, fatal=False)
    remedy = (
        "It is empty. Delete it and create it again, or name another one with --topic-fingerprints"
    )
    return Problem(log.name, text, remedy, fatal=True)


def _problems(spec: TopicSpec, topic: Topic | None, settings: Settings) -> Iterator[Problem]:
    if topic is None:
        creates = command(settings, "topics create", *TOPICS, *_OF_NEW_TOPICS)
        yield Problem(spec.name, "the topic does not exist", f"Create it: {creates}", fatal=True)
        return

    def to_alter(text: str, name: str, value: str, *, fatal: bool) -> Problem:
        alters = command(settings, "topics alter")
        return Problem(spec.name, text, f"{alters} {spec.name} {name}={value}", fatal)

    # Problems by which the cluster may lose an acknowledged record, or acknowledge no record at
    # all.
    in_sync = int(topic.config.get("min.insync.replicas", "1"))
    if in_sync > topic.replicas:
        text = (
            f"min.insync.replicas is {in_sync}, and it has {topic.replicas}: nothing can be written"
        )
        yield to_alter(text, "min.insync.replicas", str(topic.replicas), fatal=True)
    elif in_sync < 2 <= topic.replicas:
        text = "min.insync.replicas is 1: what a single broker has acknowledged is lost with it"
        yield to_alter(text, "min.insync.replicas", "2", fatal=False)
    if topic.replicas > 1 and topic.config.get("unclean.leader.election.enable") == "true":
        text = "a broker that lacks acknowledged records may become the leader, and they are lost"
        unclean = "unclean.leader.election.enable"
        yield to_alter(f"{unclean} is true: {text}", unclean, "false", fatal=spec.is_log)
    for name, value in spec.config.items():
        actual = topic.config.get(name)
        is_larger = (
            name == "max.message.bytes" and str(actual).isdigit() and int(actual or 0) >= int(value)
        )
        if actual != value and not is_larger:
            reason = f": {spec.reasons[name]}" if name in spec.reasons else ""
            text = f"{name} is {actual}, should be {value}{reason}"
            yield to_alter(text, name, value, fatal=name in spec.fatal)
    size = topic.config.get("max.message.bytes", "")
    if size.isdigit() and int(size) < spec.message_bytes_min:
        text = (
            f"max.message.bytes is {size}, should be {spec.message_bytes_min}: a batch of workers' "
            "records may be larger, and a worker whose batch is refused ends"
        )
        yield to_alter(text, "max.message.bytes", str(spec.message_bytes_min), fatal=False)


def require_topics(admin: Admin, settings: Settings) -> tuple[dict[str, Topic], list[Problem]]:
    """
    Return the topics that a worker can run on, and the problems with them that are not fatal.

    Raises StopError: a topic is missing or cannot carry the guarantees.
    """
    problems = check_topics(admin, settings)
    fatal = [problem for problem in problems if problem.fatal]
    if fatal:
        raise StopError("\n".join(str(problem) for problem in fatal))
    return admin.describe([spec.name for spec in topic_specs(settings)]), problems
