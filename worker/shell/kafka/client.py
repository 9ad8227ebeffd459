"""
What all Kafka clients of a worker share: how they are made, the meaning of errors, repeated calls.

Every error of the client becomes one of three of ours, by what the worker should do about it:

    the client reports                                    ours, and what the worker does
    fenced by a successor (producer, static member)       FencedError: end, touch nothing
    abortable, timed out, coordinator moved               RetryError: abort, read the committed
                                                          offsets, go on
    offset gone, topic gone, not allowed, append failed   StopError: end, and say the remedy
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from worker.errors import FencedError, NeardupError, RetryError, StopError
from worker.shell.ports import CommittedOffset, Headers
from worker.shell.runtime import metrics
from worker.shell.runtime.logging import get_logger

Answer = TypeVar("Answer")
Client = TypeVar("Client")

_log = get_logger(__name__)
_CREATING = re.compile(r"^Failed to create [a-z ]+: ")

# ---- Errors
#
# A producer's fatal error is raised once, by the next call that runs callbacks: `poll` or `flush`.
# So each of these calls is made within `translated`. The last calls, on closing, raise nothing,
# because that would hide the error that has ended the process.

# While no broker answers, the client reports the same errors hundreds of times a second. Each code
# is logged at once, then after 10 s, 20 s more, 40 s more and so on, up to every ten minutes.
TELL_AGAIN_S = 10.0
TELL_AGAIN_S_MAX = 600.0
QUIET_S = 60.0  # a code that was not reported for so long is logged at once when it returns

_FENCED = {KafkaError._FENCED, KafkaError.FENCED_INSTANCE_ID, KafkaError.PRODUCER_FENCED}
TIMED_OUT = {KafkaError._TIMED_OUT, KafkaError._TIMED_OUT_QUEUE, KafkaError.REQUEST_TIMED_OUT}
_SILENCE = TIMED_OUT | {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE}
REFUSED = {KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._SSL}
_GRANT = "grant what deploy/README.md lists"
REFUSALS = {
    KafkaError._AUTO_OFFSET_RESET: "the offset to read has been deleted by the topic's retention: "
    "documents are lost. Raise the retention; to go on without them: neardup offsets restore",
    KafkaError.OFFSET_OUT_OF_RANGE: "the offset to read is not in the topic: it was truncated or "
    "recreated. Let another --group read the documents from their beginning",
    KafkaError._UNKNOWN_PARTITION: "the partition does not exist: its topic was deleted. Start "
    "the worker again",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "the topic does not exist: neardup topics create",
    KafkaError.MSG_SIZE_TOO_LARGE: "a message is larger than its topic allows: "
    "raise the topic's max.message.bytes",
    # Kafka gives this code to messages without a key in a compacted topic, and to whatever a check
    # of the brokers' own refuses, as one of schemas: `why_refused` of the publisher knows more.
    KafkaError.INVALID_RECORD: "the brokers refuse a message, and their log says why",
    KafkaError.INVALID_TIMESTAMP: "the topic refuses the time that this machine has given a "
    "message by its clock. Correct it, or have the brokers give the time: neardup topics alter "
    "TOPIC message.timestamp.type=LogAppendTime",
    KafkaError.INVALID_TRANSACTION_TIMEOUT: "the brokers allow no transaction as long: lower "
    "kafka.transaction.timeout.ms, or raise their transaction.max.timeout.ms",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: f"access to the topic is denied: {_GRANT}",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: f"writing is denied, to every topic: {_GRANT}",
    KafkaError.GROUP_AUTHORIZATION_FAILED: f"access to the group is denied: {_GRANT}",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "access to the transactional id "
    f"is denied: {_GRANT}",
    KafkaError._AUTHENTICATION: "authentication failed: check the kafka.sasl settings",
    KafkaError.SASL_AUTHENTICATION_FAILED: "authentication failed: check the kafka.sasl settings",
    KafkaError._SSL: "no trust between client and broker: "
    "check the certificates in the kafka.ssl settings",
}

# What helps a client that has given up, where a restart alone does not. Only the text of its error
# names the code.
_GIVEN_UP = {
    KafkaError.GROUP_ID_NOT_FOUND: "the group has members, or had them within the last session, "
    "with kafka.group.protocol=classic, and no worker can change it alone: stop all workers, wait "
    "for a session time-out, then start them with kafka.group.protocol=consumer",
    KafkaError.UNRELEASED_INSTANCE_ID: "another process has this worker's id, or one that died and "
    "whose session has not ended yet. Give each worker its own --worker-id, or wait until the "
    "session ends (45 s, unless the brokers' group.consumer.session.timeout.ms is another)",
}


def translate(raised: KafkaError | KafkaException, doing: str) -> NeardupError:
    """
    Return our error for an error of the client.

    An error that is not known to be final may pass, so it becomes a RetryError.

    Args:
        raised: the client's error.
        doing: what was being done, for the message.
    """
    error: KafkaError = raised.args[0] if isinstance(raised, KafkaException) else raised
    if error.code() == KafkaError._FATAL:  # a consumer's error, wrapped: only its text says which
        if KafkaError(KafkaError.FENCED_INSTANCE_ID).str() not in error.str():
            return _given_up(error.str(), doing)
        error = KafkaError(KafkaError.FENCED_INSTANCE_ID)
    if error.code() in _FENCED:
        return FencedError(
            f"{doing}: fenced, because another process has taken over this worker's id "
            f"({error.name()}). Give each worker its own --worker-id"
        )
    if error.code() in REFUSALS:
        return StopError(f"{doing}: {REFUSALS[error.code()]} ({error.name()}: {error.str()})")
    return RetryError(f"{doing}: {error.name()}: {error.str()}")


def _given_up(text: str, doing: str) -> StopError:
    """Return the error of a client that has given up; only its text says why."""
    for code, remedy in _GIVEN_UP.items():
        if KafkaError(code).str() in text:
            return StopError(f"{doing}: {remedy} ({text})")
    return StopError(f"{doing}: the client has given up: {text}: restart the worker")


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Raise our error instead of the client's, around a call that runs callbacks."""
    try:
        yield
    except KafkaException as error:
        raise translate(error, doing) from error
    except SystemError as error:
        # The client goes on to the next callback, a message's, with the fatal error pending. Python
        # then blames the first call in there, and keeps the error as the cause.
        if not isinstance(error.__cause__, KafkaException):
            raise
        raise translate(error.__cause__, doing) from error


def is_silence(error: BaseException | None) -> bool:
    """Return whether the error says that no broker answered. There may be none at all."""
    return isinstance(error, KafkaException) and error.args[0].code() in _SILENCE


class _ClientLines:
    """
    Stands in for a `logging.Logger`: takes the client's own lines, and logs them as ours.

    They are logged for debugging only, because important ones are also reported as errors.
    """

    def log(self, _level: int, text: str, *parts: object) -> None:
        """Log one line; `poll` and `flush` call it."""
        _log.debug("kafka client", text=text % parts)


_lines = _ClientLines()


def made(
    kind: Callable[[dict[str, Any]], Client],
    config: Mapping[str, Any],
    on_error: Callable[[KafkaError], None] | None = None,
) -> Client:
    """
    Return a client that hands its errors and its lines to us, so that we log them.

    Otherwise the client writes lines of its own to stderr. `log_level` keeps back most of them, but
    not those on fatal errors, such as `%0|…|FATAL|…` when a producer is fenced: those go to
    `logger`.

    Args:
        kind: the client's class.
        config: a configuration of `configuration.py`.
        on_error: what takes the client's errors; `note` by default.
    Raises:
        StopError: the client refuses a property: its value, a file that is missing, properties that
            do not agree.
    """
    try:
        return kind({**config, "log_level": 2, "logger": _lines, "error_cb": on_error or note})
    except KafkaException as error:
        text = _CREATING.sub("", error.args[0].str())
        raise StopError(
            f"the Kafka client refuses its settings: {text}. Check Kafka's own settings (kafka.…): "
            f"`neardup settings --changed` shows them"
        ) from error


@dataclass
class _Repeated:
    """One error code that the client goes on reporting."""

    since_s: float
    last_s: float
    tell_again_s: float  # when to log it the next time
    interval_s: float = TELL_AGAIN_S


class _Errors:
    """The client's errors: which of them are logged, and when the brokers are back. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._repeated: dict[int, _Repeated] = {}
        self._are_away = False  # no broker has answered since the error that says so
        self._is_away_told = False

    def is_told(self, code: int, now_s: float) -> tuple[bool, float]:
        """Return whether to log an error of this code, and for how long it has been reported."""
        with self._lock:
            is_told, for_s = self._is_told(code, now_s)
            if code == KafkaError._ALL_BROKERS_DOWN:
                if not self._are_away:  # an outage begins, however soon after the last one
                    self._are_away = True
                    self._repeated[code].since_s = now_s
                    for_s = 0.0
                self._is_away_told |= is_told
            return is_told, for_s

    def _is_told(self, code: int, now_s: float) -> tuple[bool, float]:
        known = self._repeated.get(code)
        if known is None or now_s - known.last_s >= QUIET_S:
            self._repeated[code] = _Repeated(now_s, now_s, now_s + TELL_AGAIN_S)
            return True, 0.0
        known.last_s = now_s
        if now_s < known.tell_again_s:
            return False, now_s - known.since_s
        known.interval_s = min(2 * known.interval_s, TELL_AGAIN_S_MAX)
        known.tell_again_s = now_s + known.interval_s
        return True, now_s - known.since_s

    def ended(self, asked_s: float, now_s: float) -> float | None:
        """
        Take note that a broker has answered.

        Args:
            asked_s: when it was asked. An answer proves nothing about errors that came later.
        Returns:
            For how long no broker had answered; None if the log does not say that they were down,
            or if they may still be.
        """
        with self._lock:
            if not self._are_away:
                return None
            down = self._repeated[KafkaError._ALL_BROKERS_DOWN]
            if asked_s <= down.last_s:
                return None
            # If no question has come for long, the last error says when the outage ended.
            until_s = now_s if now_s - down.last_s < QUIET_S else down.last_s
            away_s = until_s - down.since_s if self._is_away_told else None
            self._are_away = False
            self._is_away_told = False
            # The next outage is logged within a minute, however long this one has lasted.
            down.tell_again_s = min(down.tell_again_s, now_s + QUIET_S)
            return away_s


_errors = _Errors()


def note(error: KafkaError, **place: Any) -> None:
    """Count an error. Log it too, unless the same code was logged a short time ago."""
    metrics.KAFKA_ERRORS.inc()
    is_told, for_s = _errors.is_told(error.code(), time.monotonic())
    if is_told or error.fatal():
        lasting = {"for_s": round(for_s)} if for_s else {}
        _log.warning(
            "kafka client",
            code=error.name(),
            text=error.str(),
            fatal=error.fatal(),
            **lasting,
            **place,
        )


def _answered(asked_s: float) -> None:
    """
    Log that the brokers are back, if the log says that they were down.

    This is a warning because commands show their user only warnings, and they have shown the other.
    """
    away_s = _errors.ended(asked_s, time.monotonic())
    if away_s is not None:
        _log.warning("brokers are back", after_s=round(away_s))


# ---- Questions, which are asked again while a broker restarts or a coordinator moves

# With less, no call could be answered on a busy machine.
CALL_S_MIN = 0.5
# With more, a broker that hangs would hold the question long after another has taken over.
CALL_S_MAX = 3.0
PAUSE_S = 0.1


def retry(
    ask: Callable[[float], Answer],
    doing: str,
    wait_s: float,
    on_wait: Callable[[float], None] = lambda _left_s: None,
) -> Answer:
    """
    Ask until there is an answer, even if calls time out or the coordinator moves.

    Args:
        ask: makes a call, and gets the seconds that it may take. That is at most half of the time
            left, so a call that a dying broker holds is never the last one.
        doing: what is asked, for the message.
        wait_s: how long to ask.
        on_wait: called after each call without an answer, with the seconds left.

    Raises:
        StopError: a later call would get the same error.
        RetryError: there was no answer within `wait_s`.
    """
    deadline = time.monotonic() + wait_s
    call_s_min = min(CALL_S_MIN, wait_s)
    while True:
        asked_s = time.monotonic()
        try:
            answer = ask(min(max((deadline - asked_s) / 2, call_s_min), CALL_S_MAX))
        except KafkaException as error:
            ours = translate(error, doing)
            if isinstance(ours, StopError):
                raise ours from error
            if time.monotonic() + PAUSE_S > deadline:
                raise RetryError(
                    f"{ours} (asked again for {wait_s:g} s: is a broker away, or starting?)"
                ) from error
        else:
            _answered(asked_s)
            return answer
        on_wait(deadline - time.monotonic())
        time.sleep(PAUSE_S)


def committed_offsets(
    consumer: Consumer, parts: list[TopicPartition], timeout_s: float
) -> dict[int, CommittedOffset]:
    """
    Ask once for the group's offsets in one topic, and return them by partition.

    Raises:
        KafkaException: the call failed, or a single partition has an error.
    """
    answer = consumer.committed(parts, timeout=timeout_s)
    for part in answer:
        if part.error is not None:
            raise KafkaException(part.error)
    return {
        part.partition: CommittedOffset(
            part.offset if part.offset >= 0 else None, part.metadata or ""
        )
        for part in answer
    }


def commit(
    consumer: Consumer, topic: str, commits: Mapping[int, CommittedOffset], doing: str
) -> None:
    """
    Commit offsets outside a transaction.

    A member commits under its generation. Other consumers can commit only while the group is empty.

    Args:
        doing: what is done, for the message.
    Raises:
        RetryError, StopError: the group refuses them, or does not answer.
    """
    parts = [
        TopicPartition(topic, number, commit.offset or 0, commit.metadata)
        for number, commit in commits.items()
    ]
    try:
        answer = consumer.commit(offsets=parts, asynchronous=False)
    except KafkaException as error:
        raise translate(error, doing) from error
    for part in answer or ():
        if part.error is not None:
            raise translate(part.error, doing)


def produce(producer: Producer, topic: str, serve: Callable[[], object], **message: Any) -> None:
    """
    Queue a message. Wait while the queue is full.

    Args:
        producer: nothing else may write with it meanwhile.
        serve: lets some messages go out, and runs the callbacks that wait.
        message: what `Producer.produce` takes besides the topic.
    Raises:
        StopError: the message is larger than the whole queue, so waiting would not help.
        KafkaException: the client refuses the message.
    """
    was_empty = False  # Not asked before each message: the queue is hardly ever full.
    while True:
        try:
            return producer.produce(topic, **message)
        except BufferError as refusal:
            # Messages go out at any time, so an empty queue says something only before the attempt.
            if was_empty:
                raise StopError(
                    f"writing to {topic}: {refusal}, and nothing else is in it: a message is "
                    "larger than kafka.queue.buffering.max.kbytes. Raise it, or leave it out"
                ) from refusal
        serve()
        was_empty = not len(producer)


def span(consumer: Consumer, part: TopicPartition, name: str, wait_s: float) -> tuple[int, int]:
    """
    Return a partition's first offset, and the offset after its last message.

    For a consumer of committed messages, that is the last committed message.
    """

    def ask(timeout_s: float) -> tuple[int, int]:
        low, high = consumer.get_watermark_offsets(part, timeout=timeout_s, cached=False)
        return int(low), int(high)

    return retry(ask, f"asking for the end of {name}", wait_s)


class Ends:
    """
    What the consumer already knows: where partitions end, and whether it is a member of the group.

    Any thread may ask, such as a scrape. Nothing is sent to a broker.
    """

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._lock = threading.Lock()
        self._closed = False

    def of(self, part: TopicPartition) -> int:
        """Return the offset after the last message; 0 before the first fetch."""
        with self._lock:
            if self._closed:
                return 0
            try:
                _, end = self._consumer.get_watermark_offsets(part, cached=True)
            except KafkaException:
                return 0
            return max(int(end), 0)

    def is_member(self) -> bool:
        """
        Return whether we are a member of the group. Only the next poll shows that we were expelled.
        """
        with self._lock:
            return not self._closed and bool(self._consumer.memberid())

    def close(self) -> None:
        """Stop asking the consumer, which is about to be closed."""
        with self._lock:
            self._closed = True


# ---- Error events, which a consumer receives among its messages
#
# Each is logged and counted. The client itself would fetch the same batch again, twice a second,
# without end. So an error that persists has a consequence:
#
#     a final error                      StopError, at once
#     one without an offset              nothing: the client reconnects by itself
#     the same at one offset, thrice
#       the batch cannot be read         UnreadableBatch; the caller decides
#       any other reason                 StopError, once it has lasted

REPEATS = 3
_DAMAGE = {KafkaError._BAD_COMPRESSION, KafkaError._BAD_MSG, KafkaError.INVALID_MSG}
_BEHIND = {KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET}


class UnreadableBatch(NamedTuple):
    """A batch that cannot be read: its place, its first offset, and what the client says."""

    topic: str
    partition: int
    first: int
    text: str

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}] cannot be read at offset {self.first}: {self.text}"


class ErrorEvents:
    """
    The error events of one consumer.

    Args:
        patience_s: an error that lasts this long at one offset counts as final.
    """

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        # By partition: offset and code of the last error, how often it came in a row, and since
        # when.
        self._last: dict[tuple[str, int], tuple[tuple[int, int], int, float]] = {}

    def take(self, message: Message) -> UnreadableBatch | None:
        """
        Log and count an event.

        Returns:
            The batch that cannot be read, if this is the third event about it; else None.

        Raises:
            StopError: the error is final.
        """
        error = message.error()
        topic = message.topic() or ""
        partition = message.partition()
        assert error is not None
        offset = message.offset()
        ours = translate(error, f"reading {topic}[{partition}]")
        if isinstance(ours, StopError) or error.fatal():
            raise ours
        note(error, topic=topic, partition=partition, offset=offset)
        if partition is None or offset is None or offset < 0:
            return None
        what = (offset, error.code())
        now_s = time.monotonic()
        known, times, since_s = self._last.get((topic, partition), (what, 0, now_s))
        if known != what:
            times = 0
            since_s = now_s
        self._last[topic, partition] = what, times + 1, since_s
        if times + 1 < REPEATS:
            return None
        damage = UnreadableBatch(topic, partition, offset, f"{error.name()}: {error.str()}")
        if error.code() in _DAMAGE:
            return damage
        if now_s - since_s > self._patience_s:
            raise StopError(f"{damage} (for {self._patience_s:g} s)")
        return None


def end_of_batch(config: dict[str, Any], damage: UnreadableBatch, wait_s: float) -> int:
    """
    Return the offset after a batch that cannot be read.

    The batch's header has its last offset, but never reaches us. So this tries later offsets, first
    at doubling distances, then by bisection, until one no longer returns the batch's error.

    Raises:
        RetryError: it was not found within `wait_s`.
    """
    consumer = made(Consumer, {**config, "enable.partition.eof": True})
    deadline = time.monotonic() + wait_s

    def is_inside(offset: int) -> bool:
        consumer.assign([TopicPartition(damage.topic, damage.partition, offset)])
        while time.monotonic() < deadline:
            message = consumer.poll(0.5)
            error = None if message is None else message.error()
            if message is not None and (error is None or error.code() in _BEHIND | _DAMAGE):
                return (
                    error is not None
                    and error.code() in _DAMAGE
                    and message.offset() == damage.first
                )
        raise RetryError(f"{damage}; where that batch ends was not found in {wait_s:g} s")

    try:
        inside = damage.first
        step = 1
        while is_inside(damage.first + step):
            inside = damage.first + step
            step = 2 * step
        behind = damage.first + step
        while behind - inside > 1:
            middle = (inside + behind) // 2
            if is_inside(middle):
                inside = middle
            else:
                behind = middle
        return behind
    finally:
        consumer.close()


def headers_of(message: Message) -> Headers | None:
    """
    Return a message's headers. None: a header's name is not UTF-8.

    Kafka accepts such a name, but the client refuses it, and all headers with it.
    """
    try:
        return tuple(message.headers() or ())  # type: ignore[arg-type]
    except UnicodeDecodeError:
        return None
