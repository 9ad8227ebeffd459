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
from worker.log.retention import Retention

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
    retention: Retention = Retention()  # noqa: RUF009  # frozen
    answers: dict[tuple[Source, int], Said] = field(default_factory=dict)
    horizons: dict[tuple[Source, int], int | None] = field(default_factory=dict)
    clock_ms: int = 0
    horizon_ms: int | None = None
    _originals: list[Row] = field(default_factory=list)  # in the order of the queue
    _entries: list[tuple[Row, int, int]] = field(default_factory=list)  # the same: row, number of entry, time
    _entered: int = 0
    _again: list[Row] = field(default_factory=list)  # originals that this record brought again

    def apply(self, data: bytes, timestamp_ms: int = 0) -> None:
        """Take the next record; a source offset that was answered before is ignored."""
        self.clock_ms = max(self.clock_ms, timestamp_ms)
        self._expire()
        self._again = []
        for section in unpack(data):
            for row in section.rows:
                key = (section.source, row.offset)
                if key not in self.answers:
                    self.answers[key] = self._judge(row)
                    self.horizons[key] = self.horizon_ms
                    if not self.retention.is_endless:
                        self._enter_new()
        if not self.retention.is_endless:
            self._renew()
            self._evict()

    def _expire(self) -> None:
        """What was seen longer ago than the window leaves."""
        if self.retention.expire_after_ms:
            horizon_ms = self.clock_ms - self.retention.expire_after_ms
            gone = [row for row, _, seen_ms in self._live() if seen_ms < horizon_ms]
            self._originals = [row for row in self._originals if row not in gone]
            if gone or self.horizon_ms is not None:
                self.horizon_ms = max(horizon_ms, self.horizon_ms or 0)

    def _live(self) -> list[tuple[Row, int, int]]:
        self._entries = [entry for entry in self._entries if any(entry[0] is row for row in self._originals)]
        return self._entries

    def _enter_new(self) -> None:
        known = [row for row, _, _ in self._live()]
        for row in self._originals:
            if not any(row is other for other in known):
                self._entries.append((row, self._entered, self.clock_ms))
                self._entered += 1

    def _renew(self) -> None:
        """What came again goes to the end of the queue, when a sixteenth of the window or of the queue has passed."""
        if self.retention.expire_from == "first":
            return
        rows_before = self._entered
        for entry in list(self._live()):
            row, number, seen_ms = entry
            window_ms, turn = self.retention.expire_after_ms, self.retention.documents_max
            is_due = (window_ms > 0 and self.clock_ms - seen_ms >= max(window_ms // 16, 1)) or (
                turn > 0 and rows_before - number >= max(turn // 16, 1) + 1
            )
            if is_due and any(row is other for other in self._again):
                self._entries.remove(entry)
                self._entries.append((row, self._entered, self.clock_ms))
                self._entered += 1
        self._originals = [row for row, _, _ in self._entries]

    def _evict(self) -> None:
        """Beyond the largest number the front of the queue leaves."""
        while self.retention.documents_max and len(self._originals) > self.retention.documents_max:
            row, _, seen_ms = self._live()[0]
            self._originals = [other for other in self._originals if other is not row]
            self.horizon_ms = max(seen_ms, self.horizon_ms or 0)

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
            self._again += same
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
        self._again.append(original)
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
