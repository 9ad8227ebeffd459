"""Verdicts of one source partition that are decided but not known to be committed, ordered by source offset."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sortedcontainers import SortedDict

from worker.log.answers import Judged, JudgedRows
from worker.log.coverage import Coverage, Span
from worker.log.record import Record

__all__ = ["Pending", "PendingBatch"]


class PendingBatch(NamedTuple):
    """The answers to [first, stop) of one source: `judged` of the rows `rows` ([first, stop)) of a record."""

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
        """Return the number of batches."""
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
        """Keep the answers of `rows` ([first, stop) of the record), which cover `span`; `judged` is of these rows."""
        if span.stop > self.pruned:
            self._batches[span.first] = PendingBatch(
                span.first, span.stop, record, judged, rows, log_offset, timestamp_ms
            )

    def between(self, first: int, stop: int) -> list[JudgedRows]:
        """Return the rows of the source offsets [first, stop) that are kept, in order."""
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
                        batch.record, row_first + begin, row_first + end, batch.judged.between(begin, end),
                        batch.log_offset, batch.timestamp_ms,
                    )
                )  # fmt: skip
        return found

    def named(self) -> NDArray[np.int64]:
        """Return the rows of the originals that kept answers name. Cost: O(rows kept)."""
        named = (rows for batch in self for rows in (batch.judged.originals, batch.judged.formers))
        rows = np.concatenate([np.empty(0, np.int64), *named])
        return rows[rows >= 0]

    def renumber(self, numbers: NDArray[np.int64], first: int) -> None:
        """Follow the originals, whose rows from `first` on have these numbers now."""
        for at, batch in self._batches.items():
            own = {name: getattr(batch.judged, name).copy() for name in ("originals", "formers")}
            for rows in own.values():
                rows[rows >= 0] = numbers[rows[rows >= 0] - first]
            self._batches[at] = batch._replace(judged=batch.judged._replace(**own))

    def prune(self, committed: int) -> None:
        """Drop the batches that lie wholly below the committed offset."""
        self.pruned = max(self.pruned, committed)
        while self._batches and self._batches.peekitem(0)[1].stop <= committed:
            self._batches.popitem(0)

    def check(self, coverage: Coverage) -> None:
        """Assert that batches are disjoint and covered."""
        before = 0
        for first, batch in self._batches.items():
            assert before <= first < batch.stop, (before, first, batch.stop)
            assert not coverage.missing(first, batch.stop)
            before = batch.stop
