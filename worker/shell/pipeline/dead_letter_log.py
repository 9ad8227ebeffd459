"""What a worker's log says of dead letters: the first of each class, and then how many more, once a minute."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

import structlog

from worker.shell.runtime import metrics

INTERVAL_S = 60.0

_log = structlog.get_logger(__name__)


class DeadLetterLog:
    """
    Counts dead letters and tells of them, without a word of the documents: `neardup dead-letters` prints the reasons.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._due_s = clock() + INTERVAL_S
        self._classes: set[str] = set()
        self._more: Counter[str] = Counter()

    def add(self, code: str, partition: int, offset: int) -> None:
        """Take one that has been committed."""
        metrics.DEAD_LETTERS.labels(code).inc()
        if code in self._classes:
            self._more[code] += 1
            return
        self._classes.add(code)
        remedy = "see `neardup dead-letters`; more of this class are counted once a minute"
        _log.warning("dead letter", code=code, partition=partition, offset=offset, remedy=remedy)

    def tick(self) -> None:
        """Log how many more have come, once a minute."""
        now_s = self._clock()
        if now_s >= self._due_s:
            self._due_s = now_s + INTERVAL_S
            if self._more:
                counts = {code.replace("-", "_"): count for code, count in self._more.items()}
                _log.warning("more dead letters", **counts)
                self._more.clear()
