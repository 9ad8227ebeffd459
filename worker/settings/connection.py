"""Settings of the cluster: where the brokers are, which group and topics are used."""

from __future__ import annotations

import re
import socket
from typing import Any, Self

from pydantic import BaseModel, field_validator, model_validator

from worker.settings.declaration import setting
from worker.settings.kafka import KafkaProperties, check_agreement, text_of, time_ms

TOPICS = (
    "topic_documents",
    "topic_fingerprints",
    "topic_verdicts",
    "topic_dead_letter",
    "topic_new",
)
_NAME = r"^[A-Za-z0-9._-]+$"
_SERVERS = re.compile(r"([A-Za-z0-9_.-]+|\[[0-9a-fA-F:.]+\]):([0-9]{1,5})")


def _host_name() -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", socket.gethostname())[:128] or "worker"


def _topic(default: str | None, description: str) -> Any:
    """Declare the setting that names a topic."""
    return setting(default, "text", description, low=1, high=249, pattern=_NAME)


class ConnectionSettings(BaseModel):
    """The cluster, the group, the topics and Kafka's own settings."""

    bootstrap: str = setting(
        "127.0.0.1:19092",
        "host:port list",
        (
            "Brokers to contact first. Separated by commas; "
            "the default is where `neardup broker start` serves."
        ),
    )
    group: str = setting(
        "neardup",
        "text",
        "Consumer group of the workers. Another group reads all documents again.",
        low=1,
        high=200,
        pattern=_NAME,
    )
    worker_id: str = setting(
        _host_name,
        "text",
        (
            "Name of this worker's slot. A second process with the same name fences the first, so "
            "two workers on one machine need two names."
        ),
        low=1,
        high=128,
        pattern=_NAME,
        default_text="the host name",
    )
    topic_documents: str = _topic(
        "documents",
        "Topic of the captured pages.",
    )
    topic_fingerprints: str = _topic(
        "fingerprints",
        "Topic of the ordered log. One partition, never compacted.",
    )
    topic_verdicts: str = _topic(
        "verdicts",
        "Topic of the verdicts. Each group has its own: `verify` reports another group's verdicts "
        "as wrong.",
    )
    topic_dead_letter: str = _topic(
        "documents.dead-letter",
        (
            "Topic of dead letters: the documents that could not be judged, and why. Each group "
            "has its own, too."
        ),
    )
    topic_new: str | None = _topic(
        None,
        (
            "Topic of the documents that are new, for subscribers that need only these. They are "
            "written in the transaction of their verdicts."
        ),
    )
    kafka: KafkaProperties = setting(
        dict,
        "name=value",
        (
            "Kafka's own settings: properties of librdkafka by their names, for every client, such "
            "as kafka.sasl.username in the file, NEARDUP_KAFKA_SASL_USERNAME as a variable and "
            "--kafka sasl.username=worker as an option. They take precedence over neardup's own "
            "choices. Those that would break what neardup promises are refused, and so are unknown "
            "ones. Secrets (passwords, keys, tokens) are never shown, and no option takes one."
        ),
        default_text="none",
    )
    static_membership: bool = setting(
        True,
        "yes/no",
        (
            "Whether a worker that returns within the session time-out keeps its partitions. "
            "Without it, partitions move at each restart, those of a worker that leaves for good "
            "move at once, and another program in the group is recognised only by other topics "
            "that it reads."
        ),
    )
    partitions: int = setting(
        6,
        "partitions",
        (
            "Partitions of new topics of documents, verdicts and new documents: the largest number "
            "of workers that can share the work. Dead letters have one. If it is not set, a topic "
            "gets as many as the existing topic of documents has."
        ),
        low=1,
        high=10_000,
    )
    replication_factor: int = setting(
        1,
        "brokers",
        (
            "Copies of a new partition. With 3, topics survive the loss of a broker. If it is not "
            "set, a topic gets as many as the group's existing topics have."
        ),
        low=1,
        high=9,
    )

    @property
    def max_poll_interval_ms(self) -> int:
        """The longest time that a batch may take before the group considers this worker stuck."""
        return time_ms(self.kafka, "max.poll.interval.ms")

    @property
    def session_timeout_ms(self) -> int:
        """How long a worker may give no sign of life before its partitions go to others."""
        return time_ms(self.kafka, "session.timeout.ms")

    @property
    def transaction_timeout_ms(self) -> int:
        """How long the transaction of a dead worker holds up readers of its verdicts."""
        return time_ms(self.kafka, "transaction.timeout.ms")

    @property
    def group_protocol(self) -> str:
        """The rebalance protocol of the group, "classic" or "consumer" (KIP-848)."""
        return text_of(self.kafka, "group.protocol", "classic").lower()

    @field_validator(*TOPICS)
    @classmethod
    def _is_topic_name(cls, topic: str | None) -> str | None:
        if topic in {".", ".."}:
            raise ValueError(f"must be another name: Kafka refuses {topic!r}")
        return topic

    @field_validator("bootstrap")
    @classmethod
    def _is_server_list(cls, bootstrap: str) -> str:
        for server in bootstrap.split(","):
            found = _SERVERS.fullmatch(server.strip())
            if found is None or not 1 <= int(found[2]) <= 65_535:
                raise ValueError(
                    "must be host:port, separated by commas, "
                    f"like 10.0.0.1:9092, got {server.strip()!r}"
                )
        return bootstrap

    @model_validator(mode="after")
    def _connection_agrees(self) -> Self:
        named = {name: getattr(self, name) for name in TOPICS}
        topics = {name: topic for name, topic in named.items() if topic is not None}
        if len(set(topics.values())) != len(topics):
            raise ValueError(
                f"{', '.join(topics)} must differ, got {', '.join(topics.values())}: a worker "
                f"would read what it writes"
            )
        check_agreement(self.kafka)
        return self
