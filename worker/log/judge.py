"""
The judge: holds the originals and says of each row, in the log's order, which original it duplicates, if any.

    row's kind   is compared by                     becomes an original
    FULL         Hamming distance of fingerprints   when nothing lies within max_distance
    SHORT        digest of the normalised text      when no short original has the same
    DELETED      doc_id                             never; takes its original out of the index
    SKIPPED      nothing                            never
    DEAD         nothing                            never

A document never duplicates itself. The same doc_id with the same content is answered as before; with other content it
is a new version: the former one leaves the index first.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from worker.core.exact import ExactTable
from worker.core.index import PermutedIndex
from worker.log.answers import Answer, Judged, JudgedRows, Remark, write_answers
from worker.log.columns import Column
from worker.log.definition import Definition
from worker.log.originals import Originals
from worker.log.record import Record, RowKind

__all__ = ["Judge"]


class Judge:
    """
    Originals, and the three ways to find them: by fingerprint, by digest, by doc_id.

    Args:
        max_distance: bits in which a duplicate may differ from its original.
        documents_expected: for the index's first size; 0 when unknown.
    """

    def __init__(self, max_distance: int, documents_expected: int = 0) -> None:
        self.index = PermutedIndex(max_distance, documents_expected=documents_expected)
        self.short = ExactTable()  # digest -> row of a SHORT original
        self.names = ExactTable()  # XXH64 of the doc_id -> row of an original that is in the index
        self.originals = Originals()
        self.fingerprints: Column[np.uint64] = Column(np.uint64)
        self.digests: Column[np.uint64] = Column(np.uint64)
        self.kinds: Column[np.uint8] = Column(np.uint8)
        self.live: Column[np.uint8] = Column(np.uint8)  # 1: in the index
        self.documents = 0

    def judge(self, record: Record, fresh: NDArray[np.bool_]) -> Judged:
        """
        Judge the fresh rows of a record in their order; the others are left alone.

        Cost: an index operation a row, in batches between the rows that need a look at their doc_id.
        """
        count = len(record)
        judged = Judged(
            np.full(count, -1, np.int64),
            np.zeros(count, np.uint8),
            np.zeros(count, np.uint8),
            np.empty(count, np.int64),
        )
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
        judged.documents[:] = self.documents + np.cumsum(changes) - changes
        self.documents += int(changes.sum())
        return judged

    def _met_before(
        self, hashes: NDArray[np.uint64], text: NDArray[np.bool_], deletions: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Mark the texts whose doc_id may be known when their turn comes: from before, or from this record."""
        met = np.zeros(len(hashes), np.bool_)
        mine = hashes[text]
        met[text] = (self.names.find(mine) >= 0) | _repeats(mine)
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
        is_full = record.kinds[rows] == RowKind.FULL
        full, short = rows[is_full], rows[~is_full]
        if len(full):
            matches = self.index.judge(record.fingerprints[full], len(self.originals))
            judged.originals[full] = matches.rows
            judged.distances[full] = matches.distances
            self._take_originals(record, hashes, full[matches.rows < 0])
        if len(short):
            self._judge_short(record, hashes, short, judged)
        changes[rows[judged.originals[rows] < 0]] += 1

    def _judge_short(self, record: Record, hashes: NDArray[np.uint64], rows: NDArray[np.int64], judged: Judged) -> None:
        """Judge short texts: the first of each digest that is not known becomes an original, the others follow it."""
        digests = record.digests[rows]
        matches = self.short.find(digests)
        unknown = np.flatnonzero(matches < 0)
        _, firsts, groups = np.unique(digests[unknown], return_index=True, return_inverse=True)
        firsts.sort()
        new = unknown[firsts]
        own = len(self.originals) + np.arange(len(new))
        if len(new) < len(unknown):  # repeats among the unknown: each has the row of its group's first
            by_group = np.empty(len(new), np.int64)
            by_group[groups[firsts]] = own
            matches[unknown] = by_group[groups]
            matches[new] = -1
        judged.originals[rows] = matches
        self.short.insert(digests[new], own.astype(np.uint32))
        self._take_originals(record, hashes, rows[new])

    def _take_originals(self, record: Record, hashes: NDArray[np.uint64], rows: NDArray[np.int64]) -> None:
        if not len(rows):
            return
        first = self.originals.append(record.fetched_at_ms[rows], record.doc_ids.take(rows), record.urls.take(rows))
        self.names.insert(hashes[rows], np.arange(first, first + len(rows), dtype=np.uint32))
        self.fingerprints.append(record.fingerprints[rows])
        self.digests.append(record.digests[rows])
        self.kinds.append(record.kinds[rows])
        self.live.append(np.ones(len(rows), np.uint8))

    def _judge_single(
        self, record: Record, hashes: NDArray[np.uint64], row: int, judged: Judged, changes: NDArray[np.int64]
    ) -> None:
        """Judge a deletion, or a document whose doc_id may be known."""
        original = self._find(int(hashes[row]), record.doc_ids[row])
        is_deletion = record.kinds[row] == RowKind.DELETED
        if is_deletion:
            judged.remarks[row] = Remark.NOT_AN_ORIGINAL if original is None else Remark.REMOVED
        elif original is not None and self._content(original) == (
            int(record.kinds[row]),
            int(record.fingerprints[row]),
            int(record.digests[row]),
        ):
            judged.remarks[row] = Remark.REDELIVERED
            return
        if original is not None:
            self._remove(original, int(hashes[row]))
            changes[row] -= 1
        if not is_deletion:
            self._judge_batch(record, hashes, np.array([row]), judged, changes)

    def _find(self, doc_id_hash: int, doc_id: bytes) -> int | None:
        """Give the row of the original with this doc_id; equal hashes of other doc_ids are passed over."""
        rows = self.names.find_all(doc_id_hash)
        return next((row for row in rows if self.originals.doc_id(row) == doc_id), None)

    def _content(self, row: int) -> tuple[int, int, int]:
        return self.kinds[row], self.fingerprints[row], self.digests[row]

    def _remove(self, row: int, doc_id_hash: int) -> None:
        kind, fingerprint, digest = self._content(row)
        if kind == RowKind.FULL:
            self.index.delete(fingerprint, row)
        else:
            self.short.delete(digest, row)
        self.names.delete(doc_id_hash, row)
        self.live.put(np.array([row]), 0)

    def answers(self, rows: JudgedRows, definition: Definition, partition: int, topic: str) -> Iterator[Answer]:
        """Write the answer to each judged row, in order."""
        return write_answers(rows, self.originals, self.digests, definition, partition, topic)

    def _check(self) -> None:
        """Assert that the three tables agree on the number of originals."""
        self.index.check()
        assert len(self.names) == self.documents == len(self.index) + len(self.short)
        assert len(self.originals) == len(self.fingerprints) == len(self.digests) == len(self.kinds)
        assert sum(int(piece.sum()) for piece in self.live.pieces()) == self.documents


def _repeats(hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Mark each entry that equals an earlier one."""
    ordered = np.sort(hashes)
    if not (ordered[1:] == ordered[:-1]).any():  # nearly always
        return np.zeros(len(hashes), np.bool_)
    _, firsts = np.unique(hashes, return_index=True)
    repeats = np.ones(len(hashes), np.bool_)
    repeats[firsts] = False
    return repeats
