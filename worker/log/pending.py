"""Verdicts of one source partition that are decided but not known to be committed, ordered by source offset."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from sortedcontainers import SortedDict

from worker.log.answers import JudgedRows
from worker.log.coverage import Coverage


class Pending:
    """
    Batches of answers by the first offset that they cover.

    Cost: O(log n) a call over n batches; memory is the records' own columns until they are pruned.
    """

    __slots__ = ("_batches", "pruned")

    def __init__(self) -> None:
        self._batches: SortedDict = SortedDict()  # first offset -> JudgedRows
        self.pruned = 0  # offsets below are committed

    def __len__(self) -> int:
        """Return the number of batches."""
        return len(self._batches)

    def __iter__(self) -> Iterator[JudgedRows]:
        return iter(self._batches.values())

    def add(self, rows: JudgedRows) -> None:
        """Keep the answers of these rows."""
        if rows.span.stop > self.pruned:
            self._batches[rows.span.first] = rows

    def between(self, first: int, stop: int) -> list[JudgedRows]:
        """Return the rows of the source offsets [first, stop) that are kept, in order."""
        found = []
        for start in self._batches.islice(max(self._batches.bisect_right(first) - 1, 0)):
            if start >= stop:
                break
            rows = self._batches[start].between(first, stop)
            if rows.first < rows.stop:
                found.append(rows)
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
        while self._batches and self._batches.peekitem(0)[1].span.stop <= committed:
            self._batches.popitem(0)

    def check(self, coverage: Coverage) -> None:
        """Assert that batches are disjoint and covered."""
        before = 0
        for first, batch in self._batches.items():
            assert before <= first < batch.span.stop, (before, first, batch.span)
            assert not coverage.missing(*batch.span)
            before = batch.span.stop
