"""Who leaves the index by retention, and when: before a record, and after it; see `retention`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from worker.log.original_store import OriginalStore
from worker.log.retention import Retention


class Eviction:
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
        rows = self._seen_before(horizon_ms)
        if len(rows):
            self._evict(rows)
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
            rows = self._first_live(excess)
            self.horizon_ms = max(self._held.seen[int(rows[-1])], self.horizon_ms or 0)
            self._evict(rows)

    def _renew(self, rows: NDArray[np.int64]) -> None:
        """Move these originals to the end of the queue, unless they stand near it."""
        held, retention = self._held, self._retention
        assert held.seen is not None
        rows = rows[held.live.take(rows) == 1]
        is_due = np.zeros(len(rows), np.bool_)
        if retention.renewed_after_ms is not None:
            is_due |= self.clock_ms - held.seen.take(rows) >= retention.renewed_after_ms
        if retention.renewed_after_originals is not None:
            is_due |= rows <= self._live_from_end(retention.renewed_after_originals)
        if is_due.any():
            held.renew(rows[is_due], self.clock_ms)

    def _evict(self, rows: NDArray[np.int64]) -> None:
        """Take the first originals of the queue out: no row up to the last of them is live then."""
        self._held.remove(rows)
        self._held.oldest = max(self._held.oldest, int(rows[-1]) + 1)

    def _seen_before(self, time_ms: int) -> NDArray[np.int64]:
        """Return the live rows that were seen before a time, ascending."""
        held = self._held
        assert held.seen is not None, "only with retention"
        row = held.oldest
        while row < len(held):
            stop = self._end_of_chunk(row)
            row += int(np.searchsorted(held.seen.slice(row, stop), time_ms))
            if row < stop:
                break
        return held.live_between(held.oldest, row)

    def _first_live(self, count: int) -> NDArray[np.int64]:
        """Return the `count` first live rows, ascending; there must be as many."""
        parts, row = [], self._held.oldest
        while count > 0:
            stop = self._end_of_chunk(row)
            parts.append(self._held.live_between(row, stop)[:count])
            count -= len(parts[-1])
            row = stop
        return np.concatenate(parts)

    def _end_of_chunk(self, row: int) -> int:
        return min((row | (self._held.live.size - 1)) + 1, len(self._held))

    def _live_from_end(self, count: int) -> int:
        """
        Return the row of the live original that is number `count` from the end; -1: there are fewer.

        Cost: some 3 µs a chunk of rows between.
        """
        held, stop = self._held, len(self._held)
        while stop > held.oldest:
            first = max((stop - 1) & -held.live.size, held.oldest)
            live = int(np.count_nonzero(held.live.slice(first, stop)))
            if count <= live:
                return int(held.live_between(first, stop)[-count])
            count -= live
            stop = first
        return -1
