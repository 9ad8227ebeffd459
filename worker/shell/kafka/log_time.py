"""The time stamps of the log's records: the broker's own, when originals expire by them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import structlog
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, TIMESTAMP_NOT_AVAILABLE, Message

from worker.errors import StopError
from worker.shell.runtime import metrics

AHEAD_S_MAX = 300.0
TELL_AGAIN_S = 60.0

_log = structlog.get_logger(__name__)


class LogTime:
    """
    Reads time stamps, and says when they cannot be trusted.

    Args:
        expires: originals expire by them, so that one writer whose clock is ahead would take all of them away.
        clock: of this machine, s.
    """

    def __init__(self, *, expires: bool, clock: Callable[[], float] = time.time) -> None:
        self._expires = expires
        self._clock = clock
        self._told_s = -math.inf

    def of(self, message: Message) -> int:
        """
        Return a record's time stamp, ms.

        Raises:
            StopError: originals expire, and the stamp is its writer's.
        """
        kind, timestamp_ms = message.timestamp()
        if self._expires and kind != TIMESTAMP_LOG_APPEND_TIME:
            raise StopError(
                f"record {message.offset()} of the log {message.topic()} has its writer's time, not the broker's, and "
                f"originals expire by it. Set message.timestamp.type=LogAppendTime for a new log topic, and rebuild it "
                f"from the documents: neardup rebuild"
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
                remedy="originals expire by it, for good: set the clock of the broker (or this one) right at once; "
                "what has expired too early comes back only with a new log: neardup rebuild",
            )
