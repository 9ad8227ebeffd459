"""
The judge: says of each row, in the log's order, which original it duplicates, if any; what duplicates none is one.

    row's kind   is compared by                     becomes an original
    FULL         Hamming distance of fingerprints   when nothing lies within max_distance
    SHORT        digest of the normalised text      when no short original has the same
    DELETED      doc_id                             never; takes its original out of the index
    SKIPPED      nothing                            never
    DEAD         nothing                            never

A document never duplicates itself. The same doc_id with the same content is answered as before; with other content it
is a new version: the former one leaves the index first. Retention acts before and after each record.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from worker.core.exact import ExactTable
from worker.log.answers import Answer, Judged, JudgedRows, Remark, write_answers
from worker.log.definition import Definition
from worker.log.holdings import Holdings
from worker.log.record import Record, RowKind
from worker.log.retention import ENDLESS, Retention

__all__ = ["Judge"]


class Judge:
    """
    Rows in, answers out; what it knows is in `held`.

    Args:
        max_distance: bits in which a duplicate may differ from its original.
        retention: when originals leave.
        documents_expected: for the index's first size; 0 when unknown.
    """

    def __init__(self, max_distance: int, retention: Retention = ENDLESS, documents_expected: int = 0) -> None:
        self.held = Holdings(max_distance, has_times=not retention.is_endless, documents_expected=documents_expected)
        self.clock_ms = 0  # the log's: the largest time stamp so far
        self.horizon_ms: int | None = None  # originals seen before it have left; None: none has
        self._retention = retention
        self._met: list[int] = []  # originals that this record has brought again

    def judge(self, record: Record, fresh: NDArray[np.bool_], timestamp_ms: int = 0) -> Judged:
        """
        Judge the fresh rows of a record in their order; the others are left alone.

        Args:
            timestamp_ms: the log's time stamp of the record.

        Cost: an index operation a row, in batches between the rows that need a look at their doc_id; and one for each
        original that leaves.
        """
        self.clock_ms = max(self.clock_ms, timestamp_ms)
        self._expire()
        judged = self._judge(record, fresh)
        self._renew(judged)
        self._evict()
        return judged

    def _judge(self, record: Record, fresh: NDArray[np.bool_]) -> Judged:
        count, held = len(record), self.held
        judged = Judged(
            np.full(count, -1, np.int64),
            np.zeros(count, np.uint8),
            np.zeros(count, np.uint8),
            np.empty(count, np.int64),
            self.horizon_ms,
        )
        before = held.documents
        changes = np.zeros(count, np.int64)  # of the number of originals, by each row
        hashes = record.doc_ids.hashes()
        text = fresh & ((record.kinds == RowKind.FULL) | (record.kinds == RowKind.SHORT))
        deletions = fresh & (record.kinds == RowKind.DELETED)
        at = 0
        for single in [*np.flatnonzero(deletions | self._met_before(hashes, text, deletions)).tolist(), count]:
            batch = at + np.flatnonzero(text[at:single])
            if len(batch):
                self._judge_batch(record, hashes, batch, judged, changes)
            if single < count:
                self._judge_single(record, hashes, single, judged, changes)
            at = single + 1
        judged.documents[:] = before + np.cumsum(changes) - changes
        return judged

    def _expire(self) -> None:
        """Let the originals leave that have not been seen for too long."""
        if not self._retention.expire_after_ms:
            return
        horizon_ms = self.clock_ms - self._retention.expire_after_ms
        rows = self.held.seen_before(horizon_ms)
        if len(rows):
            self.held.remove(rows)
            self.held.pass_over(int(rows[-1]) + 1)
        if len(rows) or self.horizon_ms is not None:
            self.horizon_ms = max(horizon_ms, self.horizon_ms or 0)

    def _renew(self, judged: Judged) -> None:
        """Move the originals that this record has brought again to the end of the queue, unless they stand near it."""
        held, retention = self.held, self._retention
        met, self._met = self._met, []
        if not retention.renews or held.seen is None:
            return
        rows = np.unique(np.concatenate([judged.originals[judged.originals >= 0], np.array(met, np.int64)]))
        rows = rows[held.live.take(rows) == 1]
        is_due = np.zeros(len(rows), np.bool_)
        if retention.renewed_after_ms is not None:
            is_due |= self.clock_ms - held.seen.take(rows) >= retention.renewed_after_ms
        if retention.renewed_after_rows is not None:
            is_due |= len(held) - rows >= retention.renewed_after_rows
        if is_due.any():
            held.renew(rows[is_due], self.clock_ms)

    def _evict(self) -> None:
        """Let the first of the queue leave when there are too many."""
        excess = self.held.documents - self._retention.documents_max
        if not self._retention.documents_max or excess <= 0 or self.held.seen is None:
            return
        rows = self.held.first_live(excess)
        last = int(rows[-1])
        self.horizon_ms = max(self.held.seen[last], self.horizon_ms or 0)
        self.held.remove(rows)
        self.held.pass_over(last + 1)

    def _met_before(
        self, hashes: NDArray[np.uint64], text: NDArray[np.bool_], deletions: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Mark the texts whose doc_id may be known when their turn comes: from before, or from this record."""
        met = np.zeros(len(hashes), np.bool_)
        mine = hashes[text]
        met[text] = (self.held.names.find(mine) >= 0) | _repeats(mine)
        if deletions.any():
            met[text] |= np.isin(mine, hashes[deletions])
        return met

    def _judge_batch(
        self,
        record: Record,
        hashes: NDArray[np.uint64],
        rows: NDArray[np.int64],
        judged: Judged,
        changes: NDArray[np.int64],
    ) -> None:
        """Judge rows whose doc_ids are new and differ, and take those without a match as originals."""
        held, first = self.held, len(self.held)
        is_full = record.kinds[rows] == RowKind.FULL
        full, short = rows[is_full], rows[~is_full]
        matches = held.index.judge(record.fingerprints[full], first)
        groups = _Groups(record.digests[short], held.short)
        new_full, new_short = full[matches.rows < 0], short[groups.new]
        new = np.sort(np.concatenate([new_full, new_short]))
        if len(short):
            own = first + np.searchsorted(new, new_short)
            judged.originals[short] = groups.originals(own)
            held.short.insert(record.digests[new_short], own.astype(np.uint32))
        found = matches.rows
        if len(new_short) and len(new_full):  # the index has numbered its own as if they were alone
            own = first + np.searchsorted(new, new_full)
            held.index.renumber(own.astype(np.uint32))
            found = found.copy()
            found[found >= first] = own[found[found >= first] - first]
        judged.originals[full] = found
        judged.distances[full] = matches.distances
        self._take_originals(record, hashes, new)
        changes[new] += 1

    def _take_originals(self, record: Record, hashes: NDArray[np.uint64], rows: NDArray[np.int64]) -> None:
        if not len(rows):
            return
        self.held.add(
            record.fetched_at_ms[rows],
            (record.doc_ids.take(rows), record.urls.take(rows)),
            hashes[rows],
            (record.kinds[rows], record.fingerprints[rows], record.digests[rows]),
            self.clock_ms,
        )

    def _judge_single(
        self, record: Record, hashes: NDArray[np.uint64], row: int, judged: Judged, changes: NDArray[np.int64]
    ) -> None:
        """Judge a deletion, or a document whose doc_id may be known."""
        original = self.held.find(int(hashes[row]), record.doc_ids[row])
        is_deletion = record.kinds[row] == RowKind.DELETED
        if is_deletion:
            judged.remarks[row] = Remark.NOT_AN_ORIGINAL if original is None else Remark.REMOVED
        elif original is not None and self.held.content(original) == (
            int(record.kinds[row]),
            int(record.fingerprints[row]),
            int(record.digests[row]),
        ):
            judged.remarks[row] = Remark.REDELIVERED
            self._met.append(original)
            return
        if original is not None:
            self.held.remove(np.array([original]))
            changes[row] -= 1
        if not is_deletion:
            self._judge_batch(record, hashes, np.array([row]), judged, changes)

    def answers(self, rows: JudgedRows, definition: Definition, partition: int, topic: str) -> Iterator[Answer]:
        """Write the answer to each judged row, in order."""
        return write_answers(rows, self.held.originals, self.held.digests, definition, partition, topic)


class _Groups:
    """Short texts by digest: the first of each digest that is not known is new, the others follow it."""

    def __init__(self, digests: NDArray[np.uint64], table: ExactTable) -> None:
        self._matches = table.find(digests)
        self._unknown = np.flatnonzero(self._matches < 0)
        _, firsts, self._groups = np.unique(digests[self._unknown], return_index=True, return_inverse=True)
        self._firsts = np.sort(firsts)
        self.new = self._unknown[self._firsts]

    def originals(self, own: NDArray[np.int64]) -> NDArray[np.int64]:
        """Give the row of each text's original, -1 for the new ones, which get the rows `own`."""
        if len(self.new) < len(self._unknown):
            by_group = np.empty(len(self.new), np.int64)
            by_group[self._groups[self._firsts]] = own
            self._matches[self._unknown] = by_group[self._groups]
            self._matches[self.new] = -1
        return self._matches


def _repeats(hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Mark each entry that equals an earlier one."""
    ordered = np.sort(hashes)
    if not (ordered[1:] == ordered[:-1]).any():  # nearly always
        return np.zeros(len(hashes), np.bool_)
    _, firsts = np.unique(hashes, return_index=True)
    repeats = np.ones(len(hashes), np.bool_)
    repeats[firsts] = False
    return repeats
