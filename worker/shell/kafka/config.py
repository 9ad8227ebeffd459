"""
The client configurations, as plain maps: each option that carries a guarantee stands here with its reason.

The user's options come last and win; those that may not are refused where they are read (`KAFKA_OPTIONS_REFUSED`).
"""

from __future__ import annotations

from typing import Any

from worker.settings import Settings
from worker.settings.batches import MESSAGE_BYTES_MAX

FETCH_BYTES_MAX = 16 << 20
CLIENT_BYTES_MAX = 1_000_000_000  # the most that the client takes
QUEUE_KBYTES_MAX = 16 << 10
HEARTBEAT_MS_MAX = 500  # a member learns of a rebalance from the answer to its next heartbeat: all wait for the last


def connection(settings: Settings) -> dict[str, Any]:
    """Return what every client needs: where the cluster is and how to prove who we are."""
    secrets = {"sasl.password": settings.sasl_password, "ssl.key.password": settings.ssl_key_password}
    plain = {
        "security.protocol": settings.security_protocol,
        "sasl.mechanism": settings.sasl_mechanism,
        "sasl.username": settings.sasl_username,
        "ssl.ca.location": settings.ssl_ca_location,
        "ssl.certificate.location": settings.ssl_certificate_location,
        "ssl.key.location": settings.ssl_key_location,
    }
    return {
        "bootstrap.servers": settings.bootstrap,
        "client.id": settings.worker_id,
        "message.max.bytes": MESSAGE_BYTES_MAX,
        "reconnect.backoff.max.ms": 1_000,  # a broker that restarts is back within seconds
        **{name: str(value) for name, value in plain.items() if value is not None},
        **{name: value.get_secret_value() for name, value in secrets.items() if value is not None},
        **settings.kafka_options,
    }


def _consumer(settings: Settings) -> dict[str, Any]:
    return {
        **connection(settings),
        "group.id": settings.group,  # the client wants one; who is no member commits nothing under it
        "enable.auto.commit": False,
        "auto.offset.reset": "error",  # an offset that is gone must stop us, never move us
        "isolation.level": "read_committed",
        "fetch.queue.backoff.ms": 10,  # the default of 1,000 holds a bounded queue at a tenth of its rate
        "fetch.max.bytes": FETCH_BYTES_MAX,
        "queued.max.messages.kbytes": QUEUE_KBYTES_MAX,
        **settings.kafka_options,
    }


def group_consumer(settings: Settings) -> dict[str, Any]:
    """Return the source consumer: a member of the group, offsets committed in our transactions alone."""
    classic = {
        "partition.assignment.strategy": "cooperative-sticky",
        "session.timeout.ms": settings.session_timeout_ms,
        "heartbeat.interval.ms": min(settings.session_timeout_ms // 5, HEARTBEAT_MS_MAX),
    }
    return {
        **_consumer(settings),
        "group.protocol": settings.group_protocol,
        **(classic if settings.group_protocol == "classic" else {}),
        **({"group.instance.id": settings.worker_id} if settings.static_membership else {}),
        "max.poll.interval.ms": settings.max_poll_interval_ms,
        **settings.kafka_options,
    }


def log_consumer(settings: Settings) -> dict[str, Any]:
    """Return the log's reader: no member of the group, every worker reads everything."""
    return {
        **_consumer(settings),
        "isolation.level": "read_uncommitted",  # the log is written without transactions
        "fetch.wait.max.ms": 100,
        "enable.partition.eof": True,  # tells where the log ends, whatever gaps it has
        **settings.kafka_options,
    }


def reader(settings: Settings) -> dict[str, Any]:
    """Return a reader of committed messages outside any group, for `verdicts` and for checks."""
    return {**_consumer(settings), "enable.partition.eof": True}


def group_offsets(settings: Settings) -> dict[str, Any]:
    """Return a client that asks for the group's offsets and does not join it; read_uncommitted: without waiting."""
    return {**_consumer(settings), "isolation.level": "read_uncommitted"}


def appender(settings: Settings) -> dict[str, Any]:
    """Return the log's writer: idempotent and outside transactions, so that a dead one stalls no reader."""
    return {
        **connection(settings),
        "enable.idempotence": True,
        "acks": "all",
        "compression.type": "lz4",
        "linger.ms": 0,
        "delivery.timeout.ms": int(settings.call_timeout_s * 1_000),
        **settings.kafka_options,
    }


def publisher(settings: Settings) -> dict[str, Any]:
    """Return the transactional producer; its id is this worker's slot, so that a successor fences it."""
    return {
        **connection(settings),
        # A new document is published as it came, whatever its size: what may stand there `topic_new` says.
        **({} if settings.topic_new is None else {"message.max.bytes": CLIENT_BYTES_MAX}),
        "transactional.id": f"{settings.group}/{settings.worker_id}",  # neither name can hold a slash
        "transaction.timeout.ms": settings.transaction_timeout_ms,
        "acks": "all",
        "compression.type": "lz4",
        "partitioner": "murmur2_random",  # where the Java client would put the key
        "linger.ms": 2,
        "retry.backoff.ms": 5,  # offsets are refused, and sent again, until the transaction before is complete
        "queue.buffering.max.kbytes": 1 << 17,
        **settings.kafka_options,
    }


def feeder(settings: Settings) -> dict[str, Any]:
    """Return the producer of `neardup feed`: each document once, large ones compressed well."""
    return {
        **connection(settings),
        "enable.idempotence": True,
        "acks": "all",
        "compression.type": "zstd",
        "partitioner": "murmur2_random",
        "linger.ms": 20,
        "queue.buffering.max.kbytes": 1 << 16,
        "delivery.timeout.ms": 120_000,
        **settings.kafka_options,
    }


def admin(settings: Settings) -> dict[str, Any]:
    """
    Return the administrator's client.

    It connects to every broker: one that connects to those it needs takes a core and more while it waits for any.
    """
    return {**connection(settings), "enable.sparse.connections": False, **settings.kafka_options}
