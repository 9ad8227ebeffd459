"""
The replica: a copy of the state machine that every worker holds, and that knows every verdict.

    read_together(records)
      │ 1 acceptance      what is not of the log's definition, or no record at all, is ignored
      │ 2 coverage        rows whose offset the log already held are ignored: the first wins
      │ 3 judge           rows in order against the originals before them; no match: an original
      │ 4 pending         each verdict is kept until its source offset is known to be committed
      ▼
    answers(source, offsets)  what was decided, never decided again

The idea: two near-duplicates can be read by two workers, and no partition key brings them together.
So all workers append what they read to one log, and each applies the whole log to a replica. A
verdict is a pure function of the log before the document's first appearance. Every worker can
compute it, the one that has the source partition publishes it, and a new owner needs no state from
the old one.

Invariants
- Everything that changes an answer happens in `_apply`. `read_together` calls it with the log's
  next records, `apply_together` with records of files; the answers are those of one record after
  the other. It sees no clock, no file (but what was found in it before, `outside.py`) and no record
  that is still to come. So two replicas that have applied the same log give the same answers. All
  other methods that change a replica drop verdicts that no worker will ask for, or renumber rows.
- A row whose offset is covered is never judged again, even if several workers append it several
  times.
- A verdict is decided when its row is applied, and never again: the index has changed since.
- Only originals enter the index (leader clustering). So every duplicate is within `max_distance` of
  its original, and chains cannot form.

Rejected, and why
- An index per partition misses pairs across partitions. If such indexes exchange what they have,
  each of two documents can be declared a duplicate of the other, and both are lost.
- The largest offset seen, instead of `Coverage`: if a batch fails and a later one succeeds, there
  is a gap below the largest offset. Its documents would count as answered, and would never get an
  answer.
- Raising a final error when a dropped verdict is asked for: a worker that was stopped for longer
  than its session still believes that it owns its partitions, and asks for verdicts that another
  worker has committed. It is late, not broken, so it gets a `RetryError` and reads again.
- Keeping the rows of originals that have left until the next start: if a thousand documents are
  fetched again and again, each fetch takes more memory. `compact` removes these rows once there are
  more of them than live rows, so its cost per removed row is bounded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from sortedcontainers import SortedDict

from worker.core.document import Original
from worker.core.planner import TOGETHER_ROWS
from worker.errors import RetryError, StopError
from worker.log.columns import Memory, anonymous
from worker.log.coverage import Coverage
from worker.log.judge import NAMING_COLUMNS, Judge, JudgedRows, Judgements, Partitions
from worker.log.originals import OriginalStore
from worker.log.record import (
    LogRecord,
    Row,
    RowKind,
    Rows,
    Section,
    Source,
    Span,
    decode,
    encode,
    record_digest,
    row_count,
)
from worker.log.rules import Acceptance, Definition, Ignored, LogDefinition
from worker.log.texts import Texts

# Rows of originals that have left: fewer are not worth the pause of a compaction.
LEFT_MIN = 1 << 20
# Rows are 32 bits in the tables. A record adds at most a million, so 2^30 rows before the limit is
# early enough.
RENUMBERED_FROM = 3 << 30
# Rows of records that are judged in one call. Questions wait for it: .5 to 1 s with 10 M originals
# and two threads.
TOGETHER_MAX = TOGETHER_ROWS
_WARM_ROWS = 2_200  # an index without tables has fewer
_SPREAD = 0x9E37_79B9_7F4A_7C15  # multiples of it differ in many bits

Encoded = TypeVar("Encoded")

Encoder = Callable[[JudgedRows, OriginalStore, Definition, Partitions, str], Iterable[Encoded]]


def _together(
    pieces: Iterable[tuple[int, JudgedRows]],
) -> Iterator[tuple[JudgedRows, Partitions]]:
    """
    Join pieces of several partitions that stand next to each other in a record. Yields each run of
    rows with its partition, or with the partition of each of its rows.

    The `span` of a run is that of its first piece.
    """
    run: list[tuple[int, JudgedRows]] = []
    for piece in pieces:
        rows = piece[1]
        if run and not (rows.record is run[-1][1].record and rows.first == run[-1][1].stop):
            yield _as_one(run)
            run = []
        run.append(piece)
    if run:
        yield _as_one(run)


def _as_one(run: list[tuple[int, JudgedRows]]) -> tuple[JudgedRows, Partitions]:
    """Return rows next to each other in a record as one, with the partitions of all rows."""
    partition, whole = run[0]
    if len(run) == 1:
        return whole, partition
    judged = Judgements.joined([rows.judged for _, rows in run])
    sizes = [rows.stop - rows.first for _, rows in run]
    partitions = np.repeat([partition for partition, _ in run], sizes)
    return whole._replace(stop=run[-1][1].stop, judged=judged), partitions


class Pending:
    """
    The verdicts of one source partition that are decided, but not known to be committed.

    They are kept as batches of judged rows, by their first source offset. Batches are disjoint,
    because coverage lets no offset through twice.

    Cost: O(log n) per call over n batches. Memory is the records themselves, until they are pruned.
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
        """Keep the answers of these rows, unless all of them are known to be committed."""
        if rows.span.stop > self.pruned:
            self._batches[rows.span.first] = rows

    def between(self, first: int, stop: int) -> list[JudgedRows]:
        """
        Return the kept rows of the source offsets [first, stop), in order.

        A batch can be cut at both ends. Offsets without a kept row are left out.

        Cost: O(log n) over the kept batches, and O(1) for each that is returned: nothing is copied.
        """
        parts = []
        # The range may begin within the batch before it.
        place = max(self._batches.bisect_right(first) - 1, 0)
        for start in self._batches.islice(place):
            if start >= stop:
                break
            rows = self._batches[start].between(first, stop)
            if rows.first < rows.stop:
                parts.append(rows)
        return parts

    def named(self) -> NDArray[np.int64]:
        """
        Return the rows of originals that kept answers name, repeated ones too. Cost: O(rows kept).
        """
        parts = [np.empty(0, np.int64)]
        for batch in self:
            parts += [getattr(batch.judged, name) for name in NAMING_COLUMNS]
        rows = np.concatenate(parts)
        return rows[rows >= 0]

    def renumber(self, numbers: NDArray[np.int64], first: int) -> None:
        """
        Give the originals that kept answers name their new numbers, after a compaction.

        Args:
            numbers: the new number of row `first + i` at place i.

        Cost: O(rows kept).
        """
        for start, batch in self._batches.items():
            # Copies: a snapshot that is being written may still read the old numbers.
            columns = {name: getattr(batch.judged, name).copy() for name in NAMING_COLUMNS}
            for rows in columns.values():
                rows[rows >= 0] = numbers[rows[rows >= 0] - first]
            judged = batch.judged._replace(**columns)
            self._batches[start] = batch._replace(judged=judged)

    def prune(self, committed: int) -> None:
        """Drop the batches that lie wholly below the committed offset. Cost: O(log n) for each."""
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


class ApplyResult(NamedTuple):
    """The effect of one record."""

    judged: int  # rows
    repeated: int  # rows whose offsets the log already had
    ignored: Ignored | None = None  # why the record is ignored; None if it was applied


class LatestOriginal(NamedTuple):
    """An original, its content as the replica knows it, and how many duplicates it has had."""

    original: Original
    digest: int
    fingerprint: int
    copies: int


class SourceReach(NamedTuple):
    """A replica's offsets of a source partition: the log's coverage, and what was committed."""

    first: int  # the first offset that the log covers; 0 if none
    stop: int  # the offset after the last one that it covers; 0 if none
    committed: int  # the largest offset that is known to be committed; 0 if none


class _AsIfCold(Memory):
    """Memory that says of each record that it has read from a disk, whatever it did."""

    def __init__(self) -> None:
        self._pages = 0

    def pages_read(self) -> int:
        self._pages += 1 << 20
        return self._pages


class Replica:
    """
    A copy of the state machine, at one offset of the log.

    Args:
        definition: how fingerprints are made and compared; the log must have the same.
        declared: the log's definition, if a snapshot knows it.
        memory: stores the columns of originals that the search does not need.

    Only one thread may call methods that change a replica. Any thread may read `documents`.
    """

    def __init__(
        self,
        definition: Definition,
        declared: LogDefinition | None = None,
        memory: Memory = anonymous,
    ) -> None:
        self.definition = definition
        self.acceptance = Acceptance(definition, declared)
        # The log's offset to apply next. Later ones are allowed, because a log has gaps.
        self.next_offset = 0
        # The digest of the record before it; "" if it is not known. By it a log that has lost its
        # end and grown again is told from the one that was applied.
        self.last_digest = ""
        # Rows of the records that this process has applied.
        self.rows_applied = 0
        self.judge = Judge(definition, memory)
        self.coverage: dict[Source, Coverage] = {}
        self.pending: dict[Source, Pending] = {}
        # Rows of originals that the last compaction had to keep, because a kept verdict names each.
        self._left_kept = 0
        # The id of the source topic whose verdicts are asked for; None for any topic.
        self._topic_id: bytes | None = None

    @property
    def documents(self) -> int:
        """Originals in the index."""
        return self.judge.held.documents

    def use_threads(self, count: int) -> None:
        """
        Search for originals with up to `count` threads at a time. Answers stay the same.

        Two threads take a tenth more processor time together than one alone, so this is for cores
        that would otherwise be idle: while the log is replayed, or over files.

        Raises:
            ValueError: `count` is below 1.
        """
        self.judge.held.threads = count

    def read(self, value: bytes, log_offset: int, timestamp_ms: int) -> ApplyResult:
        """Apply the log's next record, which may be any bytes: `read_together` with one."""
        [applied] = self.read_together([(log_offset, timestamp_ms, value)])
        return applied

    def read_together(self, entries: Sequence[tuple[int, int, bytes]]) -> list[ApplyResult]:
        """
        Apply the log's next records, which may be any bytes: as many of them as are judged in one
        call, at least one.

        Several are, where nothing has to be done between them (`may_apply_together`). The replica
        is the one that it is after one by one. A search of many rows takes less time for each
        (`core/tables/sorted_probes.py`).

        Args:
            entries: at least one: offset, time stamp and bytes of each. Gaps between offsets are
                allowed, going back is not. The log's time stamp is the only time that retention
                uses.
        Returns:
            What each record that was applied has changed, or why it is ignored. The entries behind
            them are still to be read.
        Raises:
            DefinitionError: the log's definition is not this replica's.
            StopError: from the first record on the log has a format that this version cannot read.
            ValueError: an offset has already been applied.
        Cost: decoding, some 50 µs per record, and judging: some 5 µs per row at 1 M originals.
        """
        accepted: list[LogRecord | Ignored | None] = []
        rows = 0
        for log_offset, _, value in entries:
            rows += row_count(value)
            if accepted and (rows > TOGETHER_MAX or not self.may_apply_together(rows)):
                break
            try:
                accepted.append(self.acceptance.accept(value, log_offset))
            except StopError:
                if not accepted:
                    raise
                break  # raised by the next call, after those before it have been applied
        records = [
            (record, log_offset, timestamp_ms)
            for record, (log_offset, timestamp_ms, _) in zip(accepted, entries, strict=False)
            if isinstance(record, LogRecord)
        ]
        applied = deque(self._apply(records))
        results = []
        for record in accepted:
            if isinstance(record, LogRecord):
                results.append(applied.popleft())
            else:
                results.append(ApplyResult(0, 0, record))
        last_offset, _, last = entries[len(accepted) - 1]
        self.next_offset = last_offset + 1
        self.last_digest = record_digest(last)
        return results

    def apply(self, record: LogRecord, log_offset: int, timestamp_ms: int) -> ApplyResult:
        """
        Take the log's next record, which has been accepted: judge its rows in their order.

        All verdicts are kept, also those of offsets that the record says are committed: an audit
        wants them.

        Args:
            record: one that has been accepted.
            log_offset, timestamp_ms: as in `read_together`.
        Raises:
            ValueError: this offset has already been applied.

        Cost: that of `read`, without the decoding.
        """
        [applied] = self._apply([(record, log_offset, timestamp_ms)], keep=True)
        return applied

    def _apply(
        self, records: Sequence[tuple[LogRecord, int, int]], *, keep: bool = False
    ) -> list[ApplyResult]:
        """
        Judge records in one call, each given with its offset and time: more than one only where
        `may_apply_together` allows it.
        """
        if not records:
            return []
        next_offset = self.next_offset
        for _, log_offset, _ in records:
            if log_offset < next_offset:
                raise ValueError(
                    f"records come in the log's order: next is {next_offset}, got {log_offset}"
                )
            next_offset = log_offset + 1
        # 1. The rows that the log did not hold before; the others have their verdicts.
        spans = [list(self._cover(record)) for record, _, _ in records]
        begins = np.cumsum([0, *(len(record) for record, _, _ in records)]).tolist()
        fresh = np.zeros(begins[-1], np.bool_)
        for begin, of_record in zip(begins, spans, strict=False):
            for _, _, row_first, row_stop in of_record:
                fresh[begin + row_first : begin + row_stop] = True
        # 2. Their verdicts.
        whole: Rows = records[0][0]
        if len(records) > 1:
            whole = Rows.joined([record for record, _, _ in records])
        judged = self.judge.judge(whole, fresh, max(time_ms for _, _, time_ms in records))
        for begin, of_record, (record, log_offset, timestamp_ms) in zip(
            begins, spans, records, strict=False
        ):
            # 3. Keep what may be asked for.
            for source, span, first, stop in of_record:
                if self._topic_id in (None, source.topic_id):
                    answers = judged.between(begin + first, begin + stop)
                    if len(records) > 1:  # a view would keep the judgements of all of them
                        answers = Judgements.joined([answers])
                    self.pending.setdefault(source, Pending()).add(
                        JudgedRows(span, record, first, stop, answers, log_offset, timestamp_ms)
                    )
            # 4. Drop verdicts that the author knows to be committed, because no worker will ask
            # for them.
            for section in record.sections:
                if section.committed > 0 and section.source in self.pending and not keep:
                    self.pending[section.source].prune(section.committed)
        # 5. Give back the memory of originals that are gone, now that fewer verdicts name them.
        self._forget()
        self.next_offset = next_offset
        self.last_digest = ""
        self.rows_applied += len(whole)
        counts = [sum(stop - first for _, _, first, stop in of_record) for of_record in spans]
        return [
            ApplyResult(judged_rows, len(record) - judged_rows)
            for judged_rows, (record, _, _) in zip(counts, records, strict=True)
        ]

    def may_apply_together(self, rows: int) -> bool:
        """
        Return whether so many rows may be judged in one call, whichever records they are of.

        A verdict is that of one row after the other, and an original's number is how many became
        originals before it. So where a record ends matters only for what is done between records:
        retention acts, and originals are numbered anew (`compact`), and texts of duplicates are
        forgotten. The last two are done when there are more of something than of something else.
        A row adds at most one original and one text, and takes out at most one original where
        re-crawls replace none. So both are told from the counts before the first row.
        """
        judge = self.judge
        held = judge.held
        if not self.definition.retention.is_endless or judge.replaces:
            return False
        documents_min = held.documents - rows
        if held.duplicates.may_forget(rows, documents_min):
            return False
        if held.outside is not None:  # then none is numbered anew
            return True
        is_compacted = self._left() + rows >= max(LEFT_MIN, documents_min, 2 * self._left_kept)
        return not is_compacted and len(held) + rows < RENUMBERED_FROM

    def apply_together(self, section: Section, records: int, timestamp_ms: int) -> JudgedRows:
        """
        Take the log's next records, as many as are given, in one call.

        The replica is the one that `apply` makes of each record in its turn, and so are the
        judgements.

        Args:
            section: the rows of all records, which cover offsets that no record has covered.
                There may be so many (`may_apply_together`), unless they are one record.
            records: how many they are.
            timestamp_ms: the time of all of them.
        Returns:
            The rows with their judgements. The log's offset is that of the first record.
        """
        log_offset = self.next_offset
        columns = {name: getattr(section.rows, name) for name in Rows.__dataclass_fields__}
        author = self.definition.author("")
        record = LogRecord(**columns, author=author, format=0, sections=(section,), data=b"")
        self.apply(record, log_offset, timestamp_ms)
        self.next_offset = log_offset + records
        [judged] = self.pending[section.source].between(section.first, section.stop)
        return judged

    def _forget(self) -> None:
        """Free the memory of originals that have left and that no kept verdict names."""
        held = self.judge.held
        # Only if a whole chunk of rows lies before the oldest live one. Less frees no memory, and
        # finding the named rows costs a walk over all kept verdicts.
        if held.oldest >= held.first + held.live.size:
            needed = [held.oldest]
            for pending in self.pending.values():
                rows = pending.named()
                if len(rows):
                    needed.append(int(rows.min()))
            held.forget(min(needed))
        if len(held) >= RENUMBERED_FROM and held.outside is None:
            self.compact()
        else:
            self.compact_if_due(LEFT_MIN)

    def compact_if_due(self, left_min: int) -> bool:
        """
        Compact when as many rows have left as are live, and no fewer than `left_min`.

        So each compaction is paid for by the rows that have left since the last one. These must
        also be as many as the last one had to keep; otherwise a replica whose verdicts wait for a
        commit would compact after every record, and leave nothing out.

        While originals are outside, none gets another number.

        Returns whether it has compacted.
        """
        is_due = self._left() >= max(left_min, self.documents, 2 * self._left_kept)
        is_due &= self.judge.held.outside is None
        if is_due:
            self.compact()
        return is_due

    def _left(self) -> int:
        """Return how many rows of originals have left and still take memory."""
        held = self.judge.held
        return len(held) - held.first - held.documents

    def compact(self) -> None:
        """
        Renumber the originals, and remove those that have left and that no kept verdict names.

            rows      live dead dead live dead(named) dead live
            become     0              1      2               3

        They keep their order, so every later answer is the same as without it. Cost: some 1 µs per
        live row, during which the replica stands still.
        """
        held = self.judge.held
        first = held.first
        named = [np.empty(0, np.int64)]
        named += [pending.named() for pending in self.pending.values()]
        numbers = held.compact(np.concatenate(named))
        for pending in self.pending.values():
            pending.renumber(numbers, first)
        self._left_kept = self._left()

    def _cover(self, record: LogRecord) -> Iterator[tuple[Source, Span, int, int]]:
        """
        Cover a record's offsets; yield the ranges that are new, with their rows in the record.

        A range may have fewer rows than offsets, or none: a topic has gaps where transactions end.
        """
        section_begin = 0  # the section's first row in the record
        for section in record.sections:
            coverage = self.coverage.setdefault(section.source, Coverage())
            for gap in coverage.add(section.first, section.stop):
                first, stop = np.searchsorted(section.rows.offsets, gap).tolist()
                yield section.source, gap, section_begin + first, section_begin + stop
            section_begin += len(section.rows)

    def missing(self, source: Source, first: int, stop: int) -> list[Span]:
        """Return the parts of [first, stop) that no record of the log covers."""
        return self.coverage.get(source, Coverage()).missing(first, stop)

    def reach(self, source: Source) -> SourceReach:
        """
        Return the coverage and the commits of a source partition. Cost: O(intervals) of its
        coverage.
        """
        spans = list(self.coverage.get(source, ()))
        pending = self.pending.get(source)
        return SourceReach(
            first=spans[0].first if spans else 0,
            stop=spans[-1].stop if spans else 0,
            committed=pending.pruned if pending is not None else 0,
        )

    def committed(self, source: Source, offset: int) -> None:
        """Forget the verdicts of source offsets below `offset`: they are committed."""
        self.pending.setdefault(source, Pending()).prune(offset)

    def serve(self, topic_id: bytes, committed: Mapping[int, int]) -> None:
        """
        Keep only verdicts that a worker may ask for, now and from here on.

        Otherwise a replica would keep the verdicts of a source topic that was deleted and created
        again, and of partitions that no longer get documents, because no record says that these
        verdicts were committed.

        Args:
            topic_id: the present id of the source topic.
            committed: the group's committed offset of each partition that has one.

        Cost: O(log n) for each batch that is dropped.
        """
        self._topic_id = topic_id
        self.pending = {
            source: pending
            for source, pending in self.pending.items()
            if source.topic_id == topic_id
        }
        for partition, offset in committed.items():
            self.committed(Source(topic_id, partition), offset)

    def answers(
        self, source: Source, offsets: Sequence[int], topic: str, encode: Encoder[Encoded]
    ) -> list[Encoded]:
        """Return the log's answers to messages of a single partition, as `answers_of_all` does."""
        return self.answers_of_all([(source, offsets)], topic, encode)[0]

    def answers_of_all(
        self,
        asked: Iterable[tuple[Source, Sequence[int]]],
        topic: str,
        encode: Encoder[Encoded],
    ) -> list[list[Encoded]]:
        """
        Return the log's answers to some messages of several partitions.

        Args:
            asked: each partition with its offsets, which ascend; they must be covered and not yet
                committed.
            topic: the name of the sources' topic, which the log does not carry.
            encode: makes the answers of judged rows: bytes, by `messages.encode_answers`.

        Returns:
            A list for each partition, with one answer per offset, in the order of `asked`.
        Raises:
            RetryError: a verdict has been dropped, because its offset is known to be committed.
            KeyError: no record covers an offset.
        Cost: O(log n) over the pending batches, and what `encode` costs: 1.5 ms a call and 3 µs a
            row on a slow processor. So it gets rows of all partitions at once, where they stand
            next to each other in a record, as those of a worker's own batch do.
        """
        asked = list(asked)
        kept = [
            self.pending[source].between(offsets[0], offsets[-1] + 1)
            if len(offsets) and source in self.pending
            else []
            for source, offsets in asked
        ]
        pieces = [
            (source.partition, rows)
            for (source, _), of_source in zip(asked, kept, strict=True)
            for rows in of_source
        ]
        encoded: list[Encoded] = []
        for rows, partitions in _together(pieces):
            encoded += encode(rows, self.judge.held, self.definition, partitions, topic)
        answers = []
        begin = 0
        for (source, offsets), of_source in zip(asked, kept, strict=True):
            answered = [offset for rows in of_source for offset in rows.offsets()]
            end = begin + len(answered)
            own = encoded[begin:end]
            if answered != list(offsets):  # the log may hold messages that were not asked for
                own = self._chosen(source, offsets, topic, dict(zip(answered, own, strict=True)))
            answers.append(own)
            begin = end
        if begin != len(encoded):
            raise RuntimeError(f"{begin} rows must have as many answers, got {len(encoded)}")
        return answers

    def _chosen(
        self, source: Source, offsets: Sequence[int], topic: str, answers: Mapping[int, Encoded]
    ) -> list[Encoded]:
        """Return the answers to these offsets of a partition, as `answers_of_all`, if all exist."""
        for offset in offsets:
            if offset in answers:
                continue
            if self.missing(source, offset, offset + 1):
                raise KeyError(
                    f"no record of the log covers offset {offset} of {topic}[{source.partition}]"
                )
            raise RetryError(
                f"the verdict of offset {offset} of {topic}[{source.partition}] was committed and "
                "is no longer kept. Either this worker is behind and another one has the "
                "partition, or the consumer group's offset was moved back: then set it forward "
                "again, or judge the documents again with a new group and a new log"
            )
        return [answers[offset] for offset in offsets]

    def ask(
        self, rows: Rows, encode: Encoder[Encoded], *, as_others: bool = False
    ) -> list[Encoded]:
        """
        Return the answers that the log would give to these rows, each as if it came next and alone.

        A row gets the same verdict when it is appended, if no other row comes before it. Only the
        log's offset and time stamp differ: the answer has `next_offset` and the log's time.
        Replicas at the same offset give the same answers. Nothing is remembered.

        Args:
            rows: a row for each question; their offsets are ignored.
            as_others: whether each is another document than all originals, whatever its doc_id.
            encode: makes the answers of judged rows.
        Cost: 0.1 ms, and per row what a query of the index costs.
        """
        asked = JudgedRows(
            span=Span(0, len(rows)),
            record=rows,
            first=0,
            stop=len(rows),
            judged=self.judge.foresee(rows, as_others=as_others),
            log_offset=self.next_offset,
            timestamp_ms=self.judge.clock_ms,
        )
        return list(encode(asked, self.judge.held, self.definition, 0, ""))

    def latest_of(self, url: str) -> LatestOriginal | None:
        """
        Return the latest original of a URL; None where the index has none.

        One that was deleted, replaced or has expired is not followed by an earlier one.

        Cost: a hash, a look-up, and up to two texts read from the columns.
        """
        held = self.judge.held
        urls = held.url_rules.pages_of(Texts.of([url.encode("utf-8", "surrogatepass")]))
        row = int(held.latest_of(urls, held.hashes(urls))[0])
        if row < 0:
            return None
        return LatestOriginal(
            held.get(row), held.digests[row], held.fingerprints[row], held.copies[row]
        )

    def warm_up(self, encode_answers: Encoder[Encoded] | None = None) -> None:
        """
        Load or compile the kernels now, before the worker joins its group.

        A second replica judges a record that reaches every kernel, and a third one does as if its
        originals were on a cold disk; this one is left as it is. Without it the second record of a
        log took 160 ms instead of 20, with partitions waiting.

        Args:
            encode_answers: makes the answers to these rows, too, as `encode` of `answers` does.
        """
        source = Source(bytes(16), 0)
        rows = [
            Row(0, RowKind.FULL, "a", "", 0, 1, 1, 9),
            Row(1, RowKind.SHORT, "b", "", 0, 2, 2, 1),
        ]
        for number in range(2, _WARM_ROWS):
            fingerprint = number * _SPREAD % 2**64
            rows.append(Row(number, RowKind.FULL, str(number), "", 0, fingerprint, number, 9))
        rows += [
            # A duplicate, so that not all rows before it and behind it become originals.
            Row(_WARM_ROWS, RowKind.FULL, "copy", "", 0, 1, 1, 9),
            Row(_WARM_ROWS + 1, RowKind.FULL, "last", "", 0, 2**64 - 1, 4, 9),
            # Another version of the first.
            Row(_WARM_ROWS + 2, RowKind.FULL, "a", "", 0, 2**63, 3, 9),
            Row(_WARM_ROWS + 3, RowKind.DELETED, "b", "", 0),
        ]
        # A record of its own, all of it judged: one that came before, delivered again.
        again = Row(len(rows), RowKind.FULL, "last", "", 0, 2**64 - 1, 4, 9)
        author = self.definition.author("")
        records = [
            record
            for part in (rows, [again])
            for record in encode(
                author,
                [Section(source, part[0].offset, part[-1].offset + 1, -1, Rows.of(part))],
                1 << 20,
            )
        ]
        for memory in (anonymous, _AsIfCold()):
            idle = Replica(self.definition, memory=memory)
            for log_offset, data in enumerate(records):
                idle.apply(decode(data), log_offset, 0)
            if encode_answers is not None:
                idle.answers(source, range(len(rows) + 1), "", encode_answers)
        self.judge.held.index.warm_up()
        self.judge.held.index.is_crowded(0, 0)
        self.judge.held.index.may_hide(0, 0)

    def check(self) -> None:
        """
        Assert the invariants that hold between two calls of `apply`.

        Cost: all originals and kept verdicts are read: for tests.
        """
        self.judge.held.check()
        for source, coverage in self.coverage.items():
            coverage.check()
            if source in self.pending:
                self.pending[source].check(coverage)
