"""Verdicts and dead letters as they are committed: what `neardup verdicts`, the demo and the checks read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from worker.core.verdict import Verdict
from worker.errors import StopError
from worker.settings import Settings
from worker.shell.kafka import Admin, TopicReader
from worker.shell.kafka import config as kafka_config
from worker.shell.messages import DeadLetter, decode_dead_letter, decode_verdict

__all__ = ["Seen", "watch"]


class Seen(NamedTuple):
    """One committed answer: when it was published, its message as it came, and what it says."""

    timestamp_ms: int
    value: bytes
    answer: Verdict | DeadLetter


def watch(settings: Settings, names: Sequence[str], *, follow: bool, wait_s: float = 0.2) -> Iterator[Seen | None]:
    """
    Return the committed answers, those of one partition in order; None when nothing has come for a while.

    Args:
        names: of the topics: that of verdicts, of dead letters, or both.
        follow: go on after the present end; else stop there.
        wait_s: how long to wait for something before None.

    Raises:
        StopError: a topic is missing or unreadable.
    """
    found = Admin(kafka_config.admin(settings), settings.call_timeout_s).describe(names)
    missing = [name for name in names if name not in found]
    if missing:
        raise StopError(f"topic {', '.join(missing)} does not exist at {settings.bootstrap}: neardup topics create")
    reader = TopicReader(
        kafka_config.reader(settings),
        {name: topic.partitions for name, topic in found.items()},
        settings.call_timeout_s,
        from_beginning=True,
    )
    try:
        while follow or not reader.at_end():
            messages = reader.read(wait_s)
            for message in messages:
                yield Seen(message.timestamp_ms, message.value or b"", _decode(message.topic, settings, *message[4:]))
            if not messages:
                yield None
    finally:
        reader.close()


def _decode(
    topic: str,
    settings: Settings,
    key: bytes | None,
    value: bytes | None,
    headers: tuple[tuple[str, bytes], ...],
) -> Verdict | DeadLetter:
    return (
        decode_dead_letter(key, value, headers) if topic == settings.topic_dead_letter else decode_verdict(value or b"")
    )
