"""Verdicts of one source partition that are decided but not known to be committed, ordered by source offset."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from sortedcontainers import SortedDict

from worker.log.answers import Judged, JudgedRows
from worker.log.coverage import Coverage, Span
from worker.log.record import Record

__all__ = ["Pending", "PendingBatch"]


class PendingBatch(NamedTuple):
    """The answers to [first, stop) of one source: the rows `rows` ([first, stop)) of a judged record."""

    first: int
    stop: int
    record: Record
    judged: Judged
    rows: tuple[int, int]
    log_offset: int
    timestamp_ms: int


class Pending:
    """
    Batches of answers by the first offset that they cover.

    Cost: O(log n) a call over n batches; memory is the records' own columns until they are pruned.
    """

    __slots__ = ("_batches", "pruned")

    def __init__(self) -> None:
        self._batches: SortedDict = SortedDict()  # first offset -> PendingBatch
        self.pruned = 0  # offsets below are committed

    def __len__(self) -> int:
        """Give the number of batches."""
        return len(self._batches)

    def __iter__(self) -> Iterator[PendingBatch]:
        return iter(self._batches.values())

    def add(
        self,
        span: Span,
        record: Record,
        judged: Judged,
        rows: tuple[int, int],
        log_offset: int,
        timestamp_ms: int,
    ) -> None:
        """Keep the answers of `rows` ([first, stop) of the record), which cover `span`."""
        if span.stop > self.pruned:
            self._batches[span.first] = PendingBatch(
                span.first, span.stop, record, judged, rows, log_offset, timestamp_ms
            )

    def between(self, first: int, stop: int) -> list[JudgedRows]:
        """Give the rows of the source offsets [first, stop) that are kept, in order."""
        found = []
        for start in self._batches.islice(max(self._batches.bisect_right(first) - 1, 0)):
            if start >= stop:
                break
            batch: PendingBatch = self._batches[start]
            row_first, row_stop = batch.rows
            begin, end = np.searchsorted(batch.record.offsets[row_first:row_stop], [first, stop]).tolist()
            if begin < end:
                found.append(
                    JudgedRows(
                        batch.record, row_first + begin, row_first + end, batch.judged, batch.log_offset,
                        batch.timestamp_ms,
                    )
                )  # fmt: skip
        return found

    def lowest_original(self) -> int | None:
        """Give the smallest row of an original that a kept answer names. Cost: O(rows kept)."""
        lowest = None
        for batch in self:
            rows = batch.judged.originals[slice(*batch.rows)]
            named = rows[rows >= 0]
            if len(named):
                lowest = int(named.min()) if lowest is None else min(lowest, int(named.min()))
        return lowest

    def renumber(self, less: int) -> None:
        """Follow the originals, whose rows have become `less` smaller."""
        for first, batch in self._batches.items():
            rows = batch.judged.originals
            judged = batch.judged._replace(originals=np.where(rows >= 0, rows - less, rows))
            self._batches[first] = batch._replace(judged=judged)

    def prune(self, committed: int) -> None:
        """Drop the batches that lie wholly below the committed offset."""
        self.pruned = max(self.pruned, committed)
        while self._batches and self._batches.peekitem(0)[1].stop <= committed:
            self._batches.popitem(0)

    def _check(self, coverage: Coverage) -> None:
        """Assert that batches are disjoint and covered."""
        before = 0
        for first, batch in self._batches.items():
            assert before <= first < batch.stop, (before, first, batch.stop)
            assert not coverage.missing(first, batch.stop)
            before = batch.stop
