"""
What the log means, once more, as slowly and plainly as possible: the oracle that the replica is held against.

It shares nothing with the replica but the record format: no index, no columns, no intervals; it looks at every original
that there has been.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from worker.core.verdict import Outcome, Verdict
from worker.log.record import Row, RowKind, Section, Source, decode
from worker.log.replica import Rejection

__all__ = ["Oracle", "Said", "said", "unpack"]

Said = tuple[str, str | None, int | None, str | None, int]
"""Outcome, doc_id of the original, distance, kind of match or reason, originals before."""


def unpack(data: bytes) -> list[Section]:
    """Decode a record back into sections of plain rows."""
    record = decode(data)
    return [
        Section(
            span.source,
            span.first,
            span.stop,
            span.committed,
            [
                Row(
                    int(record.offsets[i]),
                    int(record.kinds[i]),
                    record.doc_ids[i].decode(),
                    record.urls[i].decode(),
                    int(record.fetched_at_ms[i]),
                    int(record.fingerprints[i]),
                    int(record.digests[i]),
                    int(record.features[i]),
                    record.notes[i].decode(),
                )
                for i in range(span.row_first, span.row_stop)
            ],
        )
        for span in record.spans
    ]


def said(answer: Verdict | Rejection) -> Said:
    """Reduce an answer to what the oracle speaks of."""
    if isinstance(answer, Rejection):
        return "dead", None, None, f"{answer.code}: {answer.text}", 0
    match = answer.duplicate_of
    if match is None:
        return answer.outcome.value, None, None, answer.reason, answer.index_documents
    return answer.outcome.value, match.original.doc_id, match.distance, match.kind.value, answer.index_documents


@dataclass
class Oracle:
    """Applies the log's rows one by one."""

    max_distance: int
    answers: dict[tuple[Source, int], Said] = field(default_factory=dict)
    _originals: list[Row] = field(default_factory=list)

    def apply(self, data: bytes) -> None:
        """Take the next record; a source offset that was answered before is ignored."""
        for section in unpack(data):
            for row in section.rows:
                key = (section.source, row.offset)
                if key not in self.answers:
                    self.answers[key] = self._judge(row)

    def _judge(self, row: Row) -> Said:
        before = len(self._originals)
        same = [original for original in self._originals if original.doc_id == row.doc_id]
        if row.kind == RowKind.DEAD:
            return "dead", None, None, row.note, 0
        if row.kind == RowKind.SKIPPED:
            return Outcome.SKIPPED.value, None, None, row.note, before
        if row.kind == RowKind.DELETED:
            self._originals = [original for original in self._originals if original not in same]
            return Outcome.DELETED.value, None, None, "removed" if same else "not-an-original", before
        if any(_content(original) == _content(row) for original in same):
            return Outcome.NEW.value, None, None, "redelivered", before
        self._originals = [original for original in self._originals if original not in same]
        matches = [
            (_distance(original, row), position)
            for position, original in enumerate(self._originals)
            if self._is_match(original, row)
        ]
        if not matches:
            self._originals.append(row)
            return Outcome.NEW.value, None, None, None, before
        distance, position = min(matches)
        original = self._originals[position]
        kind = "exact" if distance == 0 and original.digest == row.digest else "near"
        return Outcome.DUPLICATE.value, original.doc_id, distance, kind, before

    def _is_match(self, original: Row, row: Row) -> bool:
        if original.kind != row.kind:
            return False
        if row.kind == RowKind.SHORT:
            return original.digest == row.digest
        return _distance(original, row) <= self.max_distance


def _content(row: Row) -> tuple[int, int, int]:
    return row.kind, row.fingerprint, row.digest


def _distance(original: Row, row: Row) -> int:
    return 0 if row.kind == RowKind.SHORT else (original.fingerprint ^ row.fingerprint).bit_count()
