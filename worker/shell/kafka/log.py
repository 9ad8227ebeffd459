"""The ordered log: one partition to follow and to append to, outside groups and transactions."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, suppress

from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from worker.errors import NeardupError, RetryError, StopError
from worker.settings import MESSAGE_BYTES_MAX, Settings
from worker.shell.kafka.client import (
    Ends,
    ErrorEvents,
    made,
    span,
    translate,
    translated,
)
from worker.shell.kafka.configuration import appender_config, log_config
from worker.shell.ports import LogEntry
from worker.shell.runtime import metrics
from worker.shell.runtime.logging import get_logger

AHEAD_S_MAX = 300.0
TELL_AGAIN_S = 60.0
# `neardup rebuild` refuses to make a new log with the parameters of the old one.
_START_OVER = 'judge the documents again, as another group: deploy/changes.md, "Start over"'

_log = get_logger(__name__)


class LogConsumer:
    """
    The ordered log, as a `ports.LogReader`: one partition, read from an explicit offset, by every
    worker.

    If originals expire (`expires`), they expire by the records' time stamps. These must then be the
    broker's.
    """

    def __init__(
        self,
        settings: Settings,
        offset: int,
        *,
        expires: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._part = TopicPartition(settings.topic_fingerprints, 0, offset)
        self._position = offset
        self._call_timeout_s = settings.call_timeout_s
        self._consumer = made(Consumer, log_config(settings))
        self._ends = Ends(self._consumer)
        self._events = ErrorEvents(settings.call_timeout_s)
        self._expires, self._clock, self._told_s = expires, clock, -math.inf
        self._consumer.assign([self._part])

    def read(self, wait_s: float) -> list[LogEntry]:
        first = self._consumer.poll(wait_s)
        if first is None:
            return []
        entries = []
        for message in [first, *self._consumer.consume(1_000, 0)]:
            error = message.error()
            if error is None:
                entries.append(
                    LogEntry(message.offset() or 0, self._time_of(message), message.value() or b"")
                )
                self._position = entries[-1].offset + 1
            elif error.code() == KafkaError._PARTITION_EOF:  # carries the next offset to read
                self._position = max(self._position, message.offset() or 0)
            elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                raise deleted_record(self._part.topic, self._position)
            elif (damage := self._events.take(message)) is not None:
                raise StopError(
                    f"the log {damage}. Have another replica lead, if one has it whole. "
                    f"Otherwise {_START_OVER}"
                )
        if entries:
            self.look(entries[-1].timestamp_ms)
        return entries

    def _time_of(self, message: Message) -> int:
        """
        Return a record's time stamp, ms. Raises StopError if originals expire and the time stamp is
        its writer's.
        """
        kind, timestamp_ms = message.timestamp()
        if self._expires and kind != TIMESTAMP_LOG_APPEND_TIME:
            raise StopError(
                f"record {message.offset()} of the log {message.topic()} has its writer's time, "
                "not the broker's, and originals expire by it. `neardup topics create` makes a log "
                f"with message.timestamp.type=LogAppendTime: {_START_OVER}"
            )
        return 0 if kind == TIMESTAMP_NOT_AVAILABLE else timestamp_ms

    def look(self, timestamp_ms: int) -> None:
        """Warn of a broker whose clock is ahead of this machine's."""
        now_s = self._clock()
        ahead_s = timestamp_ms / 1_000 - now_s
        metrics.LOG_AHEAD_S.set(max(ahead_s, 0))
        if self._expires and ahead_s > AHEAD_S_MAX and now_s - self._told_s >= TELL_AGAIN_S:
            self._told_s = now_s
            _log.warning(
                "the log's time is ahead of this machine's clock",
                ahead_s=round(ahead_s),
                remedy="originals expire by it, for good: "
                "set the clock of the broker (or this one) right at once. "
                f"To bring back what has expired too early, {_START_OVER}",
            )

    def position(self) -> int:
        return self._position

    def end(self) -> tuple[int, int]:
        return span(self._consumer, self._part, f"the log {self._part.topic}", self._call_timeout_s)

    def end_seen(self) -> int:
        return self._ends.of(self._part)

    def close(self) -> None:
        self._ends.close()
        self._consumer.close()


def deleted_record(topic: str, offset: int) -> StopError:
    """Return the error for a log whose next record is gone before it was read."""
    return StopError(
        f"the log {topic} no longer has record {offset}, which was to be read next: records have "
        "been deleted, or the topic was truncated. Set its retention to unlimited (neardup topics "
        f"check), and {_START_OVER}"
    )


def log_entries(settings: Settings, offset: int) -> Generator[LogEntry, None, None]:
    """
    Yield the records from an offset to the log's present end. Yields none if the offset is gone.

    Raises:
        StopError: nothing arrived for `call_timeout_s` before that end.
    """
    with closing(LogConsumer(settings, offset)) as log:
        first, stop = log.end()
        deadline = time.monotonic() + settings.call_timeout_s
        while first <= offset and (reached := log.position()) < stop:
            yield from log.read(1.0)
            if log.position() > reached:
                deadline = time.monotonic() + settings.call_timeout_s
            elif time.monotonic() >= deadline:
                raise StopError(
                    f"reading the log {settings.topic_fingerprints}[0]: nothing arrived in "
                    f"{settings.call_timeout_s:g} s at offset {reached}, before its end {stop}: is "
                    "a broker away, or a transaction open? It is safe to run the command again; on "
                    "a slow network, raise call_timeout_s"
                )


class LogAppender:
    """
    A `ports.LogWriter`. The first failure is final, because it is then unknown whether the log has
    the record.
    """

    def __init__(self, settings: Settings) -> None:
        self._topic = settings.topic_fingerprints
        self._call_timeout_s = settings.call_timeout_s
        self._producer = made(Producer, appender_config(settings))

    def append(self, records: Sequence[bytes]) -> int:
        outcomes: list[tuple[KafkaError | None, int]] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            outcomes.append((error, message.offset() or 0))

        for record in records:
            try:
                self._producer.produce(
                    self._topic, value=record, partition=0, on_delivery=delivered
                )
            except BufferError as refusal:
                raise StopError(
                    f"appending to {self._topic}: {refusal}: raise "
                    "kafka.queue.buffering.max.kbytes and .messages, or leave them out"
                ) from refusal
            except KafkaException as refusal:
                error = refusal.args[0]
                if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
                    raise StopError(
                        f"appending to {self._topic}: {error.str()}: kafka.message.max.bytes must "
                        f"be at least {MESSAGE_BYTES_MAX:,}"
                    ) from refusal
                raise self._final(error) from refusal
        deadline = time.monotonic() + self._call_timeout_s
        while len(outcomes) < len(records):
            try:
                with translated(f"appending to {self._topic}"):
                    self._producer.poll(0.05)
            except RetryError as failure:
                raise StopError(f"{failure}: restart the worker") from failure
            if time.monotonic() > deadline:
                raise StopError(
                    f"appending to {self._topic}: {len(records) - len(outcomes)} of {len(records)} "
                    f"records were not acknowledged in {self._call_timeout_s:g} s: restart the "
                    "worker when the cluster serves again"
                )
        for error, _ in outcomes:
            if error is not None:
                raise self._final(error)
        return outcomes[-1][1]

    def _final(self, error: KafkaError) -> StopError:
        """Return our error for an error that leaves it unknown what the log contains."""
        ours = translate(error, f"appending to {self._topic}")
        return ours if isinstance(ours, StopError) else StopError(f"{ours}: restart the worker")

    def close(self) -> None:
        with suppress(NeardupError), translated(f"appending to {self._topic}"):
            self._producer.flush(1.0)
