"""Feeds the documents of files into their topic."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from worker.errors import NeardupError, StopError
from worker.settings import MESSAGE_BYTES_MAX, OVERHEAD_BYTES_MAX, Settings
from worker.shell.files.archives import Record
from worker.shell.kafka.admin import Admin
from worker.shell.kafka.reader import Feeder

# A larger body does not fit into a message: base64 makes it longer by a third.
FED_BODY_BYTES_MAX = (MESSAGE_BYTES_MAX - OVERHEAD_BYTES_MAX) * 3 // 4


def feed_documents(
    settings: Settings,
    records: Iterable[Record],
    rate: float = 0,
    sent: Callable[[int, int, int], None] | None = None,
) -> Feeder:
    """
    Send documents, and wait until all are acknowledged. The returned feeder has the counts.

    Args:
        rate: the most documents per second; 0 is no limit.
        sent: is called with partition, offset and time of sending (Unix ms) of each delivered
            document.

    Raises:
        StopError: the topic does not exist, or was deleted and created again meanwhile.
    """
    name = settings.topic_documents
    admin = Admin(settings)
    topic_id = admin.existing([name])[name].topic_id
    feeder = Feeder(settings, sent)
    started = time.monotonic()
    for count, record in enumerate(records):
        if rate:
            wait_s = started + count / rate - time.monotonic()
            if wait_s > 0:
                time.sleep(wait_s)
        feeder.send(record.key, record.value)
    left = feeder.flush(120.0)
    if left:
        raise StopError(
            f"{left} documents were not acknowledged in 120 s: "
            "is the cluster there? Feed them again"
        )
    _check_same_topic(admin, name, topic_id)
    return feeder


def _check_same_topic(admin: Admin, name: str, topic_id: bytes) -> None:
    """Raise StopError if a topic is gone, or has another id than before."""
    try:
        present = admin.topic_ids([name])
    except NeardupError:  # without an answer, nothing is known of it
        return
    if present.get(name) != topic_id:
        raise StopError(
            f"topic {name} was deleted while documents were fed, so that some are not in the "
            "present one: feed them again"
        )
