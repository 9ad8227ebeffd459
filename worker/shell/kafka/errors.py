"""
The client's errors, which leave this package as ours.

    client's word                                        ours
    fenced by a successor (producer, static member)      FencedError: end, touch nothing
    abortable, time-out, coordinator moved               RetryError: abort, ask for the committed offsets, go on
    offset gone, topic gone, not allowed, append failed  StopError: end and say the remedy
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Any

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from worker.errors import FencedError, NeardupError, RetryError, StopError
from worker.shell.runtime import metrics

TELL_AGAIN_S = 5.0

_log = structlog.get_logger(__name__)
_told_s: dict[int, float] = {}  # when an error was last logged, by its code

_FENCED = {KafkaError._FENCED, KafkaError.FENCED_INSTANCE_ID, KafkaError.PRODUCER_FENCED}
TIMED_OUT = {KafkaError._TIMED_OUT, KafkaError._TIMED_OUT_QUEUE, KafkaError.REQUEST_TIMED_OUT}
_SILENCE = TIMED_OUT | {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE}
REFUSED = {KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._SSL}
_GRANT = "grant what deploy/README.md lists"
REFUSALS = {
    KafkaError._AUTO_OFFSET_RESET: "the offset to read has been deleted by the topic's retention: documents are lost. "
    "Raise the retention; to go on without them, move the group's offset by hand",
    KafkaError.OFFSET_OUT_OF_RANGE: "the offset to read is not in the topic: it was truncated or recreated. "
    "Let another --group read the documents from their beginning",
    KafkaError._UNKNOWN_PARTITION: "the partition does not exist: its topic was deleted. Start the worker again",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "the topic does not exist: neardup topics create",
    KafkaError.MSG_SIZE_TOO_LARGE: "a message is larger than its topic takes: raise the topic's max.message.bytes",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: f"access to the topic is denied: {_GRANT}",
    KafkaError.GROUP_AUTHORIZATION_FAILED: f"access to the group is denied: {_GRANT}",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: f"access to the transactional id is denied: {_GRANT}",
    KafkaError._AUTHENTICATION: "authentication failed: check the SASL settings",
    KafkaError.SASL_AUTHENTICATION_FAILED: "authentication failed: check the SASL settings",
    KafkaError._SSL: "no trust between client and broker: check the certificates in the ssl_ settings",
}


def translate(error: KafkaError, doing: str) -> NeardupError:
    """Return our error for the client's. Everything that is neither fenced nor hopeless may pass: a RetryError."""
    if error.code() == KafkaError._FATAL:  # a consumer's, wrapped: only the text tells what it is
        if KafkaError(KafkaError.FENCED_INSTANCE_ID).str() not in error.str():
            return StopError(f"{doing}: the client has given up: {error.str()}: restart the worker")
        error = KafkaError(KafkaError.FENCED_INSTANCE_ID)
    if error.code() in _FENCED:
        return FencedError(
            f"{doing}: fenced, because another process has taken over this worker's id ({error.name()}). Give each "
            f"worker its own --worker-id"
        )
    if error.code() in REFUSALS:
        return StopError(f"{doing}: {REFUSALS[error.code()]} ({error.name()}: {error.str()})")
    return RetryError(f"{doing}: {error.name()}: {error.str()}")


def translated(error: KafkaException, doing: str) -> NeardupError:
    """Return our error for what the client raised."""
    return translate(error.args[0], doing)


def passing(error: KafkaException, doing: str, waited_s: float) -> RetryError:
    """Return our error for a condition that should have passed, and has not in the time that we asked again."""
    return RetryError(f"{translated(error, doing)} (asked again for {waited_s:g} s: is a broker away, or starting?)")


def is_silence(error: BaseException | None) -> bool:
    """Return whether nobody has answered: there may be no broker at all."""
    return isinstance(error, KafkaException) and error.args[0].code() in _SILENCE


def logged(config: dict[str, Any], on_error: Callable[[KafkaError], None] | None = None) -> dict[str, Any]:
    """Let the client's troubles come as our log lines; its own, on stderr, would not be JSON."""
    return {**config, "log_level": 2, "error_cb": on_error or note}


def note(error: KafkaError, **place: Any) -> None:
    """Count it and say it, but not hundreds of times a second, as the client does while no broker is there."""
    metrics.KAFKA_ERRORS.inc()
    now_s = time.monotonic()
    if error.fatal() or now_s - _told_s.get(error.code(), -math.inf) >= TELL_AGAIN_S:
        _told_s[error.code()] = now_s
        _log.warning("kafka client", code=error.name(), text=error.str(), fatal=error.fatal(), **place)


class Ends:
    """Where partitions end as the last fetch had it, and who we are, for a scrape in any thread; nothing is sent."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._lock = threading.Lock()
        self._closed = False

    def of(self, part: TopicPartition) -> int:
        """Return the offset behind the last message; 0 before the first fetch."""
        with self._lock:
            try:
                return 0 if self._closed else max(int(self._consumer.get_watermark_offsets(part, cached=True)[1]), 0)
            except KafkaException:
                return 0

    def is_member(self) -> bool:
        """Return whether the group counts us among its members, as far as we know."""
        with self._lock:
            return not self._closed and bool(self._consumer.memberid())

    def close(self) -> None:
        """Ask the consumer no more: it is about to be closed."""
        with self._lock:
            self._closed = True
