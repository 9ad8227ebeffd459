"""Documents into their topic, at a chosen rate, each once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from worker.errors import StopError
from worker.settings import MESSAGE_BYTES_MAX, OVERHEAD_BYTES_MAX, Settings
from worker.shell.files.archives import Record
from worker.shell.kafka import Admin, Feeder

# A larger body does not fit into a message: base64 makes it longer by a third.
BODY_BYTES_MAX = (MESSAGE_BYTES_MAX - OVERHEAD_BYTES_MAX) * 3 // 4


def feed_documents(
    settings: Settings, records: Iterable[Record], rate: float = 0, sent: Callable[[int, int, int], None] | None = None
) -> Feeder:
    """
    Send documents and wait until all are acknowledged; the feeder given back holds the counts.

    Args:
        rate: documents a second at the most; 0 is no limit.
        sent: told partition, offset and the time of sending (Unix ms) of each delivered document.

    Raises:
        StopError: the topic does not exist.
    """
    Admin(settings).existing([settings.topic_documents])
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
        raise StopError(f"{left} documents were not acknowledged in 120 s: is the cluster there? Feed them again")
    return feeder
