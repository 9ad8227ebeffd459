"""
The state machine that every worker holds a copy of: it takes the log's records in order and knows every verdict.

    apply(record)
      │ 1 definition      another scheme or parameter hash: refuse (nobody could compare the fingerprints)
      │ 2 coverage        rows whose offset the log already held are ignored: the first appearance wins
      │ 3 judge           rows in order against the originals before them; what matches nothing is an original
      │ 4 pending         each verdict is kept until its source offset is known to be committed
      ▼
    answer(source, offset)  what was decided, never decided again

Everything that changes a replica happens in `apply`. It reads no clock, no file and no other record, so two replicas
that have applied the same log are equal. Only originals enter the index (leader clustering): every duplicate is within
`max_distance` of its original and chains cannot form.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from worker.core.verdict import Verdict
from worker.errors import RetryError
from worker.log.answers import Answer, Rejection
from worker.log.coverage import Coverage, Span
from worker.log.definition import Definition
from worker.log.holdings import RENUMBERED_FROM
from worker.log.judge import Judge
from worker.log.pending import Pending
from worker.log.record import Record, Row, RowKind, Section, Source, decode, encode

__all__ = ["Answer", "Applied", "Rejection", "Replica", "Verdict"]


_WARM_ROWS = 600  # more than an index without tables has
_SPREAD = 0x9E37_79B9_7F4A_7C15  # multiples of it differ in many bits


class Applied(NamedTuple):
    """What one record brought: rows judged here, and rows ignored because the log already had their offsets."""

    judged: int
    repeated: int


class Replica:
    """
    A copy of the state machine, at one offset of the log.

    Args:
        definition: how fingerprints are made and compared; every record must be of the same.
        documents_expected: for the index's first size; 0 when unknown.
    """

    def __init__(self, definition: Definition, documents_expected: int = 0) -> None:
        self.definition = definition
        self.next_offset = 0  # of the log: the record to apply next, or any later one (a log has gaps)
        self.judge = Judge(definition.max_distance, definition.retention, documents_expected)
        self.coverage: dict[Source, Coverage] = {}
        self.pending: dict[Source, Pending] = {}

    @property
    def documents(self) -> int:
        """Originals in the index."""
        return self.judge.held.documents

    def apply(self, record: Record, log_offset: int, timestamp_ms: int) -> Applied:
        """
        Take the log's next record.

        Args:
            record: decoded; its rows are judged in their order.
            log_offset: its offset, at least `next_offset`.
            timestamp_ms: the log's own time stamp of it.

        Raises:
            ValueError: the offset lies before `next_offset`: records must come in the log's order.
            StopError: the record is of another definition.
        Cost: O(rows) and an index operation a row.
        """
        if log_offset < self.next_offset:
            raise ValueError(f"records come in the log's order: next is {self.next_offset}, got {log_offset}")
        self.definition.check(record.author, log_offset)
        fresh, spans = self._cover(record)
        judged = self.judge.judge(record, fresh, timestamp_ms)
        for source, span, row_first, row_stop in spans:
            self.pending.setdefault(source, Pending()).add(
                span, record, judged, (row_first, row_stop), log_offset, timestamp_ms
            )
        for section in record.spans:
            if section.committed > 0 and section.source in self.pending:
                self.pending[section.source].prune(section.committed)
        self._forget()
        self.next_offset = log_offset + 1
        rows = int(np.count_nonzero(fresh))
        return Applied(rows, len(record) - rows)

    def _forget(self) -> None:
        """Give back the memory of originals that have left, up to the first that a kept verdict names."""
        held = self.judge.held
        if held.has_forgettable:
            named = (pending.lowest_original() for pending in self.pending.values())
            held.forget(min([held.oldest, *(row for row in named if row is not None)]))
            if len(held) >= RENUMBERED_FROM:
                less = held.renumber()
                for pending in self.pending.values():
                    pending.renumber(less)

    def _cover(self, record: Record) -> tuple[np.ndarray[tuple[int], np.dtype[np.bool_]], list[_Fresh]]:
        """Mark the rows whose offsets the log did not hold before, and cover them."""
        fresh = np.zeros(len(record), np.bool_)
        spans: list[_Fresh] = []
        for section in record.spans:
            for gap in self.coverage.setdefault(section.source, Coverage()).add(section.first, section.stop):
                offsets = record.offsets[section.row_first : section.row_stop]
                first, stop = (section.row_first + int(i) for i in np.searchsorted(offsets, [gap.first, gap.stop]))
                fresh[first:stop] = True
                spans.append((section.source, gap, first, stop))
        return fresh, spans

    def missing(self, source: Source, first: int, stop: int) -> list[Span]:
        """Give the parts of [first, stop) that no record of the log covers."""
        return (
            self.coverage[source].missing(first, stop)
            if source in self.coverage
            else [Span(first, stop)][: stop - first]
        )

    def committed(self, source: Source, offset: int) -> None:
        """Forget the verdicts of source offsets below `offset`: they are published and committed."""
        if source in self.pending:
            self.pending[source].prune(offset)

    def answer(self, source: Source, offset: int, topic: str) -> Answer:
        """Give what the log says of one source message; see `answers`."""
        return self.answers(source, [offset], topic)[0]

    def answers(self, source: Source, offsets: Sequence[int], topic: str) -> list[Answer]:
        """
        Give what the log says of some messages of one partition.

        Args:
            source: the partition; `topic` is that topic's name, which the log does not carry.
            offsets: ascending; they must be covered and not yet committed.

        Raises:
            RetryError: a verdict has been dropped, because its offset is known to be committed.
            KeyError: no record covers an offset.
        Cost: O(log n) over the pending batches, and 2 µs an answer.
        """
        if not offsets:
            return []
        found = self.pending[source].between(offsets[0], offsets[-1] + 1) if source in self.pending else []
        answers = [
            answer for rows in found for answer in self.judge.answers(rows, self.definition, source.partition, topic)
        ]
        answered = [offset for rows in found for offset in rows.offsets()]
        if answered == list(offsets):
            return answers
        by_offset = dict(zip(answered, answers, strict=True))  # the log may hold messages that were not asked for
        for offset in offsets:
            if offset not in by_offset:
                raise self._no_answer(source, offset, topic)
        return [by_offset[offset] for offset in offsets]

    def _no_answer(self, source: Source, offset: int, topic: str) -> Exception:
        """Say why there is none."""
        if source in self.coverage and offset in self.coverage[source]:
            return RetryError(
                f"the verdict of offset {offset} of {topic}[{source.partition}] was committed and is no longer kept. "
                f"Either this worker is behind and another one has the partition, or the consumer group's offset was "
                f"moved back: then set it forward again, or judge the documents anew with a new group and a new log"
            )
        return KeyError(f"no record of the log covers offset {offset} of {topic}[{source.partition}]")

    def warm_up(self) -> None:
        """
        Do now what the first record would have to wait for: load the compiled kernels, or compile them.

        A worker calls it before it joins its group. The replica itself is left as it is.
        """
        source = Source(bytes(16), 0)
        rows = [
            Row(0, RowKind.FULL, "a", "", 0, 1, 1, 9),
            Row(1, RowKind.SHORT, "b", "", 0, 2, 2, 1),
            *(Row(n, RowKind.FULL, str(n), "", 0, n * _SPREAD % 2**64, n, 9) for n in range(2, _WARM_ROWS)),
            Row(_WARM_ROWS, RowKind.FULL, "copy", "", 0, 1, 1, 9),  # so that not all rows before it and behind it stay
            Row(_WARM_ROWS + 1, RowKind.FULL, "last", "", 0, 2**64 - 1, 4, 9),
            Row(_WARM_ROWS + 2, RowKind.FULL, "a", "", 0, 2**63, 3, 9),  # another version of the first
            Row(_WARM_ROWS + 3, RowKind.DELETED, "b", "", 0),
        ]
        idle = Replica(self.definition)
        for log_offset, data in enumerate(
            encode(self.definition.author(""), [Section(source, 0, len(rows), -1, rows)], 1 << 20)
        ):
            idle.apply(decode(data), log_offset, 0)
        idle.answers(source, range(4), "")

    def _check(self) -> None:
        """Assert the invariants that hold between two calls of `apply`."""
        self.judge.held._check()
        for source, coverage in self.coverage.items():
            coverage._check()
            if source in self.pending:
                self.pending[source]._check(coverage)


_Fresh = tuple[Source, Span, int, int]
