"""Verdicts and dead letters as they are committed: what `neardup verdicts`, the demo and the checks read."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import NamedTuple

from schemas.fields import TimestampError, parse_timestamp
from worker.core.document import Verdict
from worker.errors import StopError
from worker.settings import Settings
from worker.shell.kafka.admin import Admin
from worker.shell.kafka.reader import TopicMessage, TopicReader
from worker.shell.messages import DeadLetter, decode_dead_letter, decode_verdict

_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class PublishedAnswer(NamedTuple):
    """One committed answer: when it was published, its message as it came, and what it says."""

    timestamp_ms: int
    value: bytes
    answer: Verdict | DeadLetter


def watch(
    settings: Settings,
    names: Sequence[str],
    *,
    follow: bool,
    wait_s: float = 0.2,
    since_ms: int | None = None,
    on_start: Callable[[int], None] = lambda _: None,
) -> Iterator[PublishedAnswer | None]:
    """
    Return the committed answers, those of one partition in order; None when nothing has come for a while.

    Args:
        names: of the topics: that of verdicts, of dead letters, or both.
        follow: go on after the present end; else stop there.
        wait_s: how long to wait for something before None.
        since_ms: only what was published at this time or later; else from the beginning.
        on_start: told how many offsets there are to read up to the present end; some have no answer.

    Raises:
        StopError: a topic is missing or unreadable.
    """
    admin = Admin(settings)
    partitions = {name: topic.partitions for name, topic in admin.existing(names).items()}
    starts = {(name, number): 0 for name, count in partitions.items() for number in range(count)}
    if since_ms is not None:
        starts = admin.offsets_since(partitions, since_ms)
    with closing(TopicReader(settings, starts)) as reader:
        on_start(reader.offsets)
        while follow or not reader.at_end():
            messages = reader.read(wait_s)
            for message in messages:
                yield PublishedAnswer(message.timestamp_ms, message.value or b"", _decode(message, settings))
            if not messages:
                yield None


def time_ms(text: str, now_ms: int | None = None) -> int:
    """
    Return a time as Unix milliseconds: a date and time, or how long ago it is.

    Raises:
        StopError: it is neither.

    >>> time_ms("2h", 7_200_500), time_ms("1970-01-01T00:00:01Z")
    (500, 1000)
    """
    ago = re.fullmatch(r"([0-9]{1,9})([smhd])", text.strip())
    if ago is not None:
        now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
        return max(now_ms - int(ago[1]) * _UNITS_MS[ago[2]], 0)
    try:
        return max(parse_timestamp(text), 0)
    except TimestampError as error:
        raise StopError(f"a time is like 2026-01-31T12:00:00Z, or 90s, 15m, 2h, 7d ago, got {text!r}") from error


def message_at(settings: Settings, topic: str, partition: int, offset: int) -> TopicMessage | None:
    """
    Return one committed message; None when it is not there any more, or does not come in time.

    Raises:
        StopError: the topic or the partition is unknown.
    """
    deadline = time.monotonic() + settings.call_timeout_s
    with closing(TopicReader(settings, {(topic, partition): offset})) as reader:
        while not reader.at_end() and time.monotonic() < deadline:
            for message in reader.read(1.0, 1):
                return message if message.offset == offset else None
    return None


def _decode(message: TopicMessage, settings: Settings) -> Verdict | DeadLetter:
    if message.topic == settings.topic_dead_letter:
        return decode_dead_letter(message.key, message.value, message.headers)
    return decode_verdict(message.value or b"")
