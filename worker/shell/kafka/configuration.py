"""
The configuration of each Kafka client of a worker.

Each option that a guarantee rests on is set here, with its reason. The user's own properties
(`settings.kafka`) come last and win. Those that would break a guarantee are refused when the
settings are read (`settings/kafka.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from worker.settings import MESSAGE_BYTES_MAX, Settings, in_clear

FETCH_BYTES_MAX = 16 << 20
CLIENT_BYTES_MAX = 1_000_000_000  # the most that the client takes
QUEUE_KBYTES_MAX = 16 << 10
# A member learns of a rebalance from the answer to its next heartbeat, and all members wait for the
# last one to learn of it.
HEARTBEAT_MS_MAX = 500
# Members learn of added partitions this late, and then share them out in a rebalance. The client's
# own 5 minutes would leave their documents alone for as long.
PARTITIONS_SEEN_MS = 10_000
# How old the last stable offset may be that a worker's lag is counted to.
STATISTICS_MS = 2_000


# Properties of one client alone. Others would complain of them, or refuse them.
_OF_THE_MEMBER = frozenset(
    {
        "group.protocol", "group.remote.assignor", "heartbeat.interval.ms", "max.poll.interval.ms",
        "session.timeout.ms",
    }
)  # fmt: skip
_OF_THE_PUBLISHER = frozenset({"transaction.timeout.ms"})


def _with_users(
    own: Mapping[str, Any], settings: Settings, besides: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """
    Return a client's configuration: what neardup sets, then the user's properties, which win.

    They come last because the client takes the later one of two names for the same property, such
    as `compression.type` and `compression.codec`.

    Args:
        own: what neardup sets.
        settings: the worker's settings.
        besides: properties of one client alone that this one takes.
    """
    alone = (_OF_THE_MEMBER | _OF_THE_PUBLISHER) - besides
    users = {name: value for name, value in in_clear(settings.kafka).items() if name not in alone}
    return {name: value for name, value in own.items() if name not in users} | users


def _connection(settings: Settings) -> dict[str, Any]:
    """Return what every client has: where the cluster is, and who asks."""
    return {
        "bootstrap.servers": settings.bootstrap,
        "client.id": settings.worker_id,
        "message.max.bytes": MESSAGE_BYTES_MAX,
        "reconnect.backoff.max.ms": 1_000,  # a broker that restarts is back within seconds
    }


def _consumer_config(
    settings: Settings, further: dict[str, Any], besides: frozenset[str] = frozenset()
) -> dict[str, Any]:
    own = {
        **_connection(settings),
        # The client requires a group's name. A reader that is no member commits nothing under it.
        "group.id": settings.group,
        "enable.auto.commit": False,
        "auto.offset.reset": "error",  # if an offset is gone, stop: never move to another
        "isolation.level": "read_committed",
        # With the default of 1,000 a bounded queue runs at a tenth of its rate.
        "fetch.queue.backoff.ms": 10,
        "fetch.max.bytes": FETCH_BYTES_MAX,
        "queued.max.messages.kbytes": QUEUE_KBYTES_MAX,
        **further,
    }
    return _with_users(own, settings, besides)


def group_config(settings: Settings) -> dict[str, Any]:
    """
    Return the configuration of the group's member, which reads documents.

    It commits offsets only where a partition begins. All others are committed in transactions.
    """
    own: dict[str, Any] = {
        "group.protocol": settings.group_protocol,
        "max.poll.interval.ms": settings.max_poll_interval_ms,
        "topic.metadata.refresh.interval.ms": PARTITIONS_SEEN_MS,
        # See `consumer.Gaps`.
        "enable.partition.eof": True,
        "statistics.interval.ms": STATISTICS_MS,
    }
    if settings.group_protocol == "classic":
        own |= {
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": settings.session_timeout_ms,
            "heartbeat.interval.ms": min(settings.session_timeout_ms // 5, HEARTBEAT_MS_MAX),
        }
    if settings.static_membership:
        own["group.instance.id"] = settings.worker_id
    return _consumer_config(settings, own, _OF_THE_MEMBER)


def log_config(settings: Settings) -> dict[str, Any]:
    """
    Return the configuration of the log's reader: every worker reads all of it, outside the group.
    """
    own = {
        "isolation.level": "read_uncommitted",  # the log is written without transactions
        "fetch.wait.max.ms": 100,
        "enable.partition.eof": True,  # says where the log ends, even if it ends with a gap
    }
    return _consumer_config(settings, own)


def reader_config(settings: Settings) -> dict[str, Any]:
    """Return the configuration of a reader of committed messages outside any group."""
    return _consumer_config(settings, {"enable.partition.eof": True})


def offsets_config(settings: Settings) -> dict[str, Any]:
    """
    Return the configuration of a client that reads the group's offsets without joining the group.

    With read_committed, an answer would wait for the end of a pending transaction.
    """
    return _consumer_config(settings, {"isolation.level": "read_uncommitted"})


def _producer_config(
    settings: Settings, further: dict[str, Any], besides: frozenset[str] = frozenset()
) -> dict[str, Any]:
    own = {**_connection(settings), "enable.idempotence": True, "acks": "all", **further}
    return _with_users(own, settings, besides)


def appender_config(settings: Settings) -> dict[str, Any]:
    """
    Return the configuration of the log's writer.

    It writes outside transactions: an open transaction of a dead worker would stall every reader.
    """
    timeout_ms = int(settings.call_timeout_s * 1_000)
    return _producer_config(
        settings, {"compression.type": "lz4", "linger.ms": 0, "delivery.timeout.ms": timeout_ms}
    )


def publisher_config(settings: Settings, slot: str = "") -> dict[str, Any]:
    """
    Return the configuration of the transactional producer.

    The transactional id is that of the worker's slot, so that a successor in the same slot fences
    this one.

    Args:
        settings: the worker's settings.
        slot: for a producer of another process, a slot with a slash in its name; empty for the
            worker's own.
    """
    own = {
        # A new document is published unchanged. Its topic limits the size, not the client.
        **({} if settings.topic_new is None else {"message.max.bytes": CLIENT_BYTES_MAX}),
        # Neither name may contain a slash, so no two workers share an id.
        "transactional.id": f"{settings.group}/{slot or settings.worker_id}",
        "transaction.timeout.ms": settings.transaction_timeout_ms,
        "compression.type": "lz4",
        "partitioner": "murmur2_random",  # where the Java client would put the key
        "linger.ms": 2,
        # The coordinator refuses offsets until the transaction before is complete, and the client
        # sends them again after this pause.
        "retry.backoff.ms": 5,
        "queue.buffering.max.kbytes": 1 << 17,
    }
    return _producer_config(settings, own, _OF_THE_PUBLISHER)


def feeder_config(settings: Settings) -> dict[str, Any]:
    """Return the configuration of the producer of `neardup feed`."""
    own = {
        "compression.type": "zstd",
        "partitioner": "murmur2_random",
        "linger.ms": 20,
        "queue.buffering.max.kbytes": 1 << 16,
        "delivery.timeout.ms": 120_000,
    }
    return _producer_config(settings, own)


def admin_config(settings: Settings) -> dict[str, Any]:
    """
    Return the configuration of the administrator's client.

    With sparse connections it would use a whole core while it waits for a broker.
    """
    return _with_users({**_connection(settings), "enable.sparse.connections": False}, settings)
