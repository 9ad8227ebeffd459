"""Settings of the cluster: where the brokers are, which group and topics are used, and security."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, SecretStr, field_validator, model_validator

from worker.settings.declaration import setting

TOPICS = (
    "topic_documents",
    "topic_fingerprints",
    "topic_verdicts",
    "topic_dead_letter",
    "topic_new",
)
_TOPIC = r"^[A-Za-z0-9._-]+$"
_SERVERS = re.compile(r"([A-Za-z0-9_.-]+|\[[0-9a-fA-F:.]+\]):([0-9]{1,5})")

# What librdkafka options would break, or which setting has them already.
KAFKA_OPTIONS_REFUSED = {
    **dict.fromkeys(
        ("enable.auto.commit", "enable.auto.offset.store", "auto.commit.interval.ms"),
        "offsets are committed with the verdicts, in one transaction",
    ),
    "auto.offset.reset": "a reset during a rebalance would publish a partition's verdicts twice",
    "isolation.level": "records of aborted transactions must stay unseen",
    "enable.idempotence": "a retried append must not stand in the log twice",
    **dict.fromkeys(("acks", "request.required.acks"), "a record that one broker loses must not "
                                                       "be lost"),
    "transactional.id": "it follows from group and worker_id, so that a successor fences its "
                        "predecessor",
    "group.instance.id": "it follows from worker_id; see static_membership",
    "partition.assignment.strategy": "the worker relies on cooperative-sticky: an eager one stops "
                                     "every member",
    "allow.auto.create.topics": "a topic made on the fly has the wrong settings: run `neardup "
                                "topics create`",
    "enable.partition.eof": "the worker's own loop sets it",
    "test.mock.num.brokers": "the mock cluster has no transactions",
    **dict.fromkeys(("bootstrap.servers", "metadata.broker.list"), "use bootstrap"),
    "group.id": "use group",
    "client.id": "use worker_id, by which the group's other workers know this one",
    "sasl.mechanisms": "use sasl_mechanism",
    **{
        name: f"use {name.replace('.', '_')}"
        + (", which is never shown" if name.endswith("password") else "")
        for name in (
            "group.protocol", "session.timeout.ms", "max.poll.interval.ms",
            "transaction.timeout.ms", "security.protocol", "sasl.mechanism", "sasl.username",
            "sasl.password", "ssl.ca.location", "ssl.certificate.location", "ssl.key.location",
            "ssl.key.password",
        )
    },
}  # fmt: skip


def _host_name() -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", socket.gethostname())[:128] or "worker"


class ConnectionSettings(BaseModel):
    """The cluster, the group, the topics and security."""

    bootstrap: str = setting(
        "127.0.0.1:19092",
        "host:port list",
        (
            "Brokers to contact first. Separated by commas; the default is where `neardup broker "
            "start` serves."
        ),
    )
    group: str = setting(
        "neardup",
        "text",
        "Consumer group of the workers. Another group reads all documents again.",
        low=1,
        high=200,
        pattern=_TOPIC,
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
        pattern=_TOPIC,
        default_text="the host name",
    )
    topic_documents: str = setting(
        "documents",
        "text",
        "Topic of the captured pages.",
        low=1,
        high=249,
        pattern=_TOPIC,
    )
    topic_fingerprints: str = setting(
        "fingerprints",
        "text",
        "Topic of the ordered log. One partition, never compacted.",
        low=1,
        high=249,
        pattern=_TOPIC,
    )
    topic_verdicts: str = setting(
        "verdicts",
        "text",
        "Topic of the verdicts.",
        low=1,
        high=249,
        pattern=_TOPIC,
    )
    topic_dead_letter: str = setting(
        "documents.dead-letter",
        "text",
        "Topic of dead letters: the documents that could not be judged, and why.",
        low=1,
        high=249,
        pattern=_TOPIC,
    )
    topic_new: str | None = setting(
        None,
        "text",
        (
            "Topic of the documents that are new, for subscribers that need only these. They are "
            "written in the transaction of their verdicts."
        ),
        low=1,
        high=249,
        pattern=_TOPIC,
    )
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = setting(
        "PLAINTEXT",
        "choice",
        "Security protocol of the connection to the brokers.",
    )
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] | None = (
        setting(
            None,
            "choice",
            "How to log in. Required with SASL_PLAINTEXT and SASL_SSL.",
        )
    )
    sasl_username: str | None = setting(
        None,
        "text",
        (
            "User name for PLAIN and SCRAM. The password is read from $NEARDUP_SASL_PASSWORD or "
            "the file, never from a flag."
        ),
        low=1,
        high=1_024,
    )
    sasl_password: SecretStr | None = setting(
        None,
        "secret",
        "Password for PLAIN and SCRAM.",
    )
    ssl_ca_location: Path | None = setting(
        None,
        "file",
        "Certificates of the authority that signed the brokers' certificates, PEM.",
    )
    ssl_certificate_location: Path | None = setting(
        None,
        "file",
        "This client's certificate, PEM.",
    )
    ssl_key_location: Path | None = setting(
        None,
        "file",
        (
            "This client's private key, PEM. Its password is read from $NEARDUP_SSL_KEY_PASSWORD "
            "or the file, never from a flag."
        ),
    )
    ssl_key_password: SecretStr | None = setting(
        None,
        "secret",
        "Password of the private key.",
    )
    kafka_options: dict[str, str] = setting(
        dict,
        "name=value",
        (
            "Further options of librdkafka for every client. They take precedence over neardup's "
            "own; options that would break one of neardup's guarantees are refused."
        ),
        default_text="none",
        shown=False,
    )
    session_timeout_ms: int = setting(
        10_000,
        "ms",
        (
            "If a worker gives no sign of life for this long, its partitions go to others. Set it "
            "above the time of a restart. Brokers refuse less than 6,000 and more than 1,800,000."
        ),
        low=6_000,
        high=1_800_000,
    )
    max_poll_interval_ms: int = setting(
        300_000,
        "ms",
        "The longest time that a batch may take before the group considers this worker stuck.",
        low=10_000,
        high=86_400_000,
    )
    transaction_timeout_ms: int = setting(
        10_000,
        "ms",
        (
            "How long the transaction of a dead worker holds up readers of its verdicts. Brokers "
            "refuse more than 900,000."
        ),
        low=1_000,
        high=900_000,
    )
    static_membership: bool = setting(
        True,
        "yes/no",
        "Whether a worker that returns within the session time-out keeps its partitions.",
    )
    group_protocol: Literal["classic", "consumer"] = setting(
        "classic",
        "choice",
        (
            "Rebalance protocol of the group. With consumer (KIP-848), the broker's own time-outs "
            "apply: it notices a death after 45 s."
        ),
    )
    partitions: int = setting(
        6,
        "partitions",
        (
            "Partitions of a new topic. For documents, verdicts and dead letters, this is the "
            "largest number of workers that can share the work."
        ),
        low=1,
        high=10_000,
    )
    replication_factor: int = setting(
        1,
        "brokers",
        "Copies of a new partition. With 3, topics survive the loss of a broker.",
        low=1,
        high=9,
    )

    @field_validator("bootstrap")
    @classmethod
    def _is_server_list(cls, bootstrap: str) -> str:
        for server in bootstrap.split(","):
            found = _SERVERS.fullmatch(server.strip())
            if found is None or not 1 <= int(found[2]) <= 65_535:
                raise ValueError(
                    f"must be host:port, separated by commas, like 10.0.0.1:9092, got "
                    f"{server.strip()!r}"
                )
        return bootstrap

    @field_validator("kafka_options")
    @classmethod
    def _keeps_the_promises(cls, options: dict[str, str]) -> dict[str, str]:
        for name in options:
            if name in KAFKA_OPTIONS_REFUSED:
                raise ValueError(f"{name} cannot be set: {KAFKA_OPTIONS_REFUSED[name]}")
        return options

    @model_validator(mode="after")
    def _connection_agrees(self) -> Self:
        named = {name: getattr(self, name) for name in TOPICS}
        topics = {name: topic for name, topic in named.items() if topic is not None}
        if len(set(topics.values())) != len(topics):
            raise ValueError(
                f"{', '.join(topics)} must differ, got {', '.join(topics.values())}: a worker "
                f"would read what it writes"
            )
        if self.security_protocol.startswith("SASL") and self.sasl_mechanism is None:
            raise ValueError(
                f"sasl_mechanism is needed with security_protocol {self.security_protocol}, got "
                f"none"
            )
        if self.sasl_mechanism is not None and not self.security_protocol.startswith("SASL"):
            raise ValueError(
                f"security_protocol must be SASL_SSL or SASL_PLAINTEXT with sasl_mechanism "
                f"{self.sasl_mechanism}, got "
                f"{self.security_protocol}: the log-in would be left out silently"
            )
        if self.sasl_mechanism not in (None, "OAUTHBEARER") and (
            not self.sasl_username or not self.sasl_password
        ):
            raise ValueError(
                f"sasl_username and sasl_password are needed with sasl_mechanism "
                f"{self.sasl_mechanism}"
            )
        if (self.ssl_certificate_location is None) != (self.ssl_key_location is None):
            raise ValueError(
                "ssl_certificate_location and ssl_key_location belong together, got one of them"
            )
        return self
