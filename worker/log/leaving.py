"""Who leaves the index by retention, and when: before a record, and after it; see `retention`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from worker.log.original_store import OriginalStore
from worker.log.retention import Retention

__all__ = ["Leaving"]


class Leaving:
    """The log's clock, and what it and the number of originals let go."""

    def __init__(self, held: OriginalStore, retention: Retention) -> None:
        self.clock_ms = 0  # the log's: the largest time stamp so far
        self.horizon_ms: int | None = None  # originals seen before it have left; None: none has
        self._held = held
        self._retention = retention

    def before_record(self, timestamp_ms: int) -> None:
        """Move the clock, and let the originals leave that have not been seen for too long."""
        self.clock_ms = max(self.clock_ms, timestamp_ms)
        if not self._retention.expire_after_ms:
            return
        horizon_ms = self.clock_ms - self._retention.expire_after_ms
        rows = self._held.seen_before(horizon_ms)
        if len(rows):
            self._leave(rows)
        if len(rows) or self.horizon_ms is not None:
            self.horizon_ms = max(horizon_ms, self.horizon_ms or 0)

    def after_record(self, originals: NDArray[np.int64], seen_again: Sequence[int]) -> None:
        """
        Move what the record has brought again to the end of the queue; let the first leave when there are too many.

        Args:
            originals: of the record's duplicates, -1 for other rows; seen_again: those that it had themselves.
        """
        if self._held.seen is None:
            return
        if self._retention.renews:
            self._renew(np.unique(np.concatenate([originals[originals >= 0], np.array(seen_again, np.int64)])))
        excess = self._held.documents - self._retention.documents_max
        if self._retention.documents_max and excess > 0:
            rows = self._held.first_live(excess)
            self.horizon_ms = max(self._held.seen[int(rows[-1])], self.horizon_ms or 0)
            self._leave(rows)

    def _renew(self, rows: NDArray[np.int64]) -> None:
        """Move these originals to the end of the queue, unless they stand near it."""
        held, retention = self._held, self._retention
        assert held.seen is not None
        rows = rows[held.live.take(rows) == 1]
        is_due = np.zeros(len(rows), np.bool_)
        if retention.renewed_after_ms is not None:
            is_due |= self.clock_ms - held.seen.take(rows) >= retention.renewed_after_ms
        if retention.renewed_after_originals is not None:
            is_due |= rows <= held.live_from_end(retention.renewed_after_originals)
        if is_due.any():
            held.renew(rows[is_due], self.clock_ms)

    def _leave(self, rows: NDArray[np.int64]) -> None:
        """Take the first originals of the queue out."""
        self._held.remove(rows)
        self._held.pass_over(int(rows[-1]) + 1)
