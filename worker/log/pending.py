"""Verdicts of one source partition that are decided but not known to be committed, ordered by source offset."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sortedcontainers import SortedDict

from worker.log.coverage import Coverage, Span
from worker.log.record import Record

__all__ = ["Answer", "Judged", "Pending", "Rejection"]


class Rejection(NamedTuple):
    """The log's word on a message that cannot be judged: the class and the text of the error."""

    code: str
    text: str


class Judged(NamedTuple):
    """What the judge found for each row of a record; entries of rows that were not fresh mean nothing."""

    originals: NDArray[np.int64]  # the original's row, or -1
    distances: NDArray[np.uint8]
    remarks: NDArray[np.uint8]  # a Remark
    documents: NDArray[np.int64]  # originals in the index when the row was judged


class Answer(NamedTuple):
    """One row of a record with what the judge found; enough to write its verdict at any later time."""

    record: Record
    row: int
    judged: Judged
    log_offset: int
    timestamp_ms: int


class _Batch(NamedTuple):
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
        self._batches: SortedDict = SortedDict()  # first offset -> _Batch
        self.pruned = 0  # offsets below are committed

    def __len__(self) -> int:
        """Give the number of batches."""
        return len(self._batches)

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
            self._batches[span.first] = _Batch(span.stop, record, judged, rows, log_offset, timestamp_ms)

    def find(self, offset: int) -> Answer | None:
        """Give the answer to one source offset; None if it is not kept, or no message had this offset."""
        position = self._batches.bisect_right(offset) - 1
        if position < 0:
            return None
        batch: _Batch = self._batches.peekitem(position)[1]
        first, stop = batch.rows
        row = first + int(np.searchsorted(batch.record.offsets[first:stop], offset))
        if row >= stop or int(batch.record.offsets[row]) != offset:
            return None
        return Answer(batch.record, row, batch.judged, batch.log_offset, batch.timestamp_ms)

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
