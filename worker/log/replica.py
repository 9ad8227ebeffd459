"""
The state machine that every worker holds a copy of: it takes the log's records in order and knows
every verdict.

    read(value)
      │ 1 acceptance      what is not of the log's definition, or no record at all, is ignored by all replicas alike
      │ 2 coverage        rows whose offset the log already held are ignored: the first appearance wins
      │ 3 judge           rows in order against the originals before them; what matches nothing is an original
      │ 4 pending         each verdict is kept until its source offset is known to be committed
      ▼
    answers(source, offsets)  what was decided, never decided again

Everything that changes a replica happens in `read`. It reads no clock, no file and no other record,
so two replicas that have applied the same log are equal. Only originals enter the index (leader
clustering): every duplicate is within `max_distance` of its original and chains cannot form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from sortedcontainers import SortedDict, SortedList

from worker.errors import RetryError
from worker.log.judge import Judge, JudgedRows
from worker.log.originals import Memory, OriginalStore, anonymous
from worker.log.record import Record, Row, RowKind, Rows, Section, Source, Span, decode, encode
from worker.log.rules import Acceptance, Definition, Ignored, LogDefinition

# Rows of originals that have left: fewer are not worth the pause of a compaction.
LEFT_MIN = 1 << 20
RENUMBERED_FROM = 3 << 30  # rows are 32 bits in the tables; a record adds a million at most
_WARM_ROWS = 2_200  # more than an index without tables has
_SPREAD = 0x9E37_79B9_7F4A_7C15  # multiples of it differ in many bits

Encoded = TypeVar("Encoded")
Encoder = Callable[[JudgedRows, OriginalStore, Definition, int, str], Iterable[Encoded]]


class Coverage:
    """
    Which offsets of one source partition the log already holds: disjoint intervals, never adjacent.

        offsets   0 1 2 3 4 5 6 7 8 9
        covered   x x x . . x x x x .     [0, 3), [5, 9)

    A maximum would not do: a batch that failed before a good one leaves a gap, whose documents it
    would call answered.
    Cost: O(log n) a call over n intervals; a partition read in order has one.

    >>> coverage = Coverage()
    >>> coverage.add(0, 3)
    [Span(first=0, stop=3)]
    >>> coverage.add(2, 5)
    [Span(first=3, stop=5)]
    >>> coverage.missing(4, 7)
    [Span(first=5, stop=7)]
    """

    __slots__ = ("_firsts", "_stops")

    def __init__(self) -> None:
        # Where the intervals begin, and where they end.
        self._firsts = SortedList()
        self._stops = SortedList()

    def __iter__(self) -> Iterator[Span]:
        return map(Span, self._firsts, self._stops)

    def missing(self, first: int, stop: int) -> list[Span]:
        """
        Return the parts of [first, stop) that are not covered, in order. ValueError: stop lies
        before first.
        """
        if stop < first:
            raise ValueError(f"stop must not lie before first, got first={first}, stop={stop}")
        low = self._stops.bisect_right(first)
        high = self._firsts.bisect_left(stop)
        covered = chain.from_iterable(
            zip(self._firsts[low:high], self._stops[low:high], strict=True)
        )
        edges = [first, *covered, stop]
        return [Span(*gap) for gap in zip(edges[::2], edges[1::2], strict=True) if gap[0] < gap[1]]

    def add(self, first: int, stop: int) -> list[Span]:
        """Cover [first, stop) and return the parts that were not covered before."""
        gaps = self.missing(first, stop)
        if gaps:
            # Those that touch it, too.
            low = self._stops.bisect_left(first)
            high = self._firsts.bisect_right(stop)
            if low < high:
                first = min(first, self._firsts[low])
                stop = max(stop, self._stops[high - 1])
            del self._firsts[low:high], self._stops[low:high]
            self._firsts.add(first)
            self._stops.add(stop)
        return gaps

    def check(self) -> None:
        """Assert that the intervals are non-empty, ordered, disjoint and not adjacent."""
        before = -1
        for first, stop in self:
            assert before < first < stop, (before, first, stop)
            before = stop


class Pending:
    """
    Verdicts of one source partition that are decided and not known to be committed: batches by
    their first offset.

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
        """
        Give the originals that kept answers name their new numbers: `numbers[row - first]` for each
        row.
        """
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


class ApplyResult(NamedTuple):
    """
    What one record brought: rows judged, rows whose offsets the log already had, why it was ignored
    if it was.
    """

    judged: int
    repeated: int
    ignored: Ignored | None = None


class Replica:
    """
    A copy of the state machine, at one offset of the log.

    Args:
        definition: how fingerprints are made and compared; the log must have the same.
        declared: the log's definition, where a snapshot knows it.
        memory: where the columns of the originals lie that finding does not need.
    """

    def __init__(
        self,
        definition: Definition,
        declared: LogDefinition | None = None,
        memory: Memory = anonymous,
    ) -> None:
        self.definition = definition
        self.acceptance = Acceptance(definition, declared)
        # Of the log: the record to apply next, or any later one (a log has gaps)
        self.next_offset = 0
        self.judge = Judge(definition, memory)
        self.coverage: dict[Source, Coverage] = {}
        self.pending: dict[Source, Pending] = {}
        # Rows of originals that have left, after the last compaction: a kept verdict names each.
        self._left_kept = 0
        # Of the source topic whose verdicts are asked for; None: of any.
        self._topic_id: bytes | None = None

    @property
    def documents(self) -> int:
        """Originals in the index."""
        return self.judge.held.documents

    def use_threads(self, count: int) -> None:
        """
        Search for originals with up to `count` threads at a time, whose answers are those of one.

        Two take a tenth more processor time together than one alone, so this is for cores that
        would idle.

        Raises:
            ValueError: fewer than one.
        """
        self.judge.held.threads = count

    def read(self, value: bytes, log_offset: int, timestamp_ms: int) -> ApplyResult:
        """
        Take the log's next record, whatever it is, at its offset and with the log's own time stamp.

        Raises:
            DefinitionError: the log's definition is not this one; StopError: its format is a newer
                one.
            ValueError: as `apply`, whose cost it has.
        """
        accepted = self.acceptance.accept(value, log_offset)
        if isinstance(accepted, Record):
            return self.apply(accepted, log_offset, timestamp_ms)
        self.next_offset = log_offset + 1
        return ApplyResult(0, 0, accepted)

    def apply(
        self, record: Record, log_offset: int, timestamp_ms: int, *, keep: bool = False
    ) -> ApplyResult:
        """
        Take the log's next record, which has been accepted: judge its rows in their order;
        ValueError: a former offset.

        Args:
            keep: keep all verdicts, also of offsets that the record says are committed.
        """
        if log_offset < self.next_offset:
            raise ValueError(
                f"records come in the log's order: next is {self.next_offset}, got {log_offset}"
            )
        spans = list(self._cover(record))
        fresh = np.zeros(len(record), np.bool_)
        for _, _, row_first, row_stop in spans:
            fresh[row_first:row_stop] = True
        judged = self.judge.judge(record, fresh, timestamp_ms)
        for source, span, row_first, row_stop in spans:
            if self._topic_id in (None, source.topic_id):
                mine = judged.between(row_first, row_stop)
                self.pending.setdefault(source, Pending()).add(
                    JudgedRows(span, record, row_first, row_stop, mine, log_offset, timestamp_ms)
                )
        for section in record.sections:
            if section.committed > 0 and section.source in self.pending and not keep:
                self.pending[section.source].prune(section.committed)
        self._forget()
        self.next_offset = log_offset + 1
        rows = int(np.count_nonzero(fresh))
        return ApplyResult(rows, len(record) - rows)

    def _forget(self) -> None:
        """
        Free the memory of originals that have left, up to the first that a kept verdict names.
        """
        held = self.judge.held
        if (
            held.oldest >= held.first + held.live.size
        ):  # a chunk of rows lies wholly before the oldest that is live
            named = (pending.named() for pending in self.pending.values())
            held.forget(min([held.oldest, *(int(rows.min()) for rows in named if len(rows))]))
        if len(held) >= RENUMBERED_FROM:
            self.compact()
        else:
            self.compact_if_due(LEFT_MIN)

    def compact_if_due(self, left_min: int) -> bool:
        """
        Compact when as many rows have left as are live, and no fewer than `left_min`; return
        whether they had.
        """
        is_due = self._left() >= max(left_min, self.documents, 2 * self._left_kept)
        if is_due:
            self.compact()
        return is_due

    def _left(self) -> int:
        """Return how many rows of originals have left and still take memory."""
        held = self.judge.held
        return len(held) - held.first - held.documents

    def compact(self) -> None:
        """
        Number the originals anew, in their order, without those that have left and that no kept
        verdict names: a pause.

            rows      live dead dead live dead(named) dead live
            become     0              1      2               3
        """
        held = self.judge.held
        first = held.first
        named = [pending.named() for pending in self.pending.values()]
        numbers = held.compact(np.concatenate([np.empty(0, np.int64), *named]))
        for pending in self.pending.values():
            pending.renumber(numbers, first)
        self._left_kept = self._left()

    def _cover(self, record: Record) -> Iterator[tuple[Source, Span, int, int]]:
        """
        Cover a record's offsets; yield the ranges that the log did not hold before, each with its
        rows.
        """
        at = 0
        for section in record.sections:
            for gap in self.coverage.setdefault(section.source, Coverage()).add(
                section.first, section.stop
            ):
                first, stop = np.searchsorted(section.rows.offsets, gap).tolist()
                yield section.source, gap, at + first, at + stop
            at += len(section.rows)

    def missing(self, source: Source, first: int, stop: int) -> list[Span]:
        """Return the parts of [first, stop) that no record of the log covers."""
        return self.coverage.get(source, Coverage()).missing(first, stop)

    def committed(self, source: Source, offset: int) -> None:
        """
        Forget the verdicts of source offsets below `offset`: they are published and committed.
        """
        self.pending.setdefault(source, Pending()).prune(offset)

    def serve(self, topic_id: bytes, committed: Mapping[int, int]) -> None:
        """
        Keep no verdict that nobody will ask for, now and later.

        Args:
            topic_id: of the source topic; one of this name that was deleted had another.
            committed: the group's offset of each partition, those included that have long been
                silent.
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
        """
        Return what the log says of some messages of one partition.

        Args:
            source: the partition; `topic` is that topic's name, which the log does not carry.
            offsets: ascending; they must be covered and not yet committed.
            encode: makes the answers of judged rows: bytes, by `messages.encode_answers`.

        Raises:
            RetryError: a verdict has been dropped, because its offset is known to be committed.
            KeyError: no record covers an offset.
        Cost: O(log n) over the pending batches, and what `encode` costs.
        """
        if not offsets:
            return []
        found = (
            self.pending[source].between(offsets[0], offsets[-1] + 1)
            if source in self.pending
            else []
        )
        answers = [
            answer
            for rows in found
            for answer in encode(rows, self.judge.held, self.definition, source.partition, topic)
        ]
        answered = [offset for rows in found for offset in rows.offsets()]
        if answered == list(offsets):
            return answers
        # The log may hold messages that were not asked for.
        by_offset = dict(zip(answered, answers, strict=True))
        for offset in offsets:
            if offset in by_offset:
                continue
            if self.missing(source, offset, offset + 1):
                raise KeyError(
                    f"no record of the log covers offset {offset} of {topic}[{source.partition}]"
                )
            raise RetryError(
                f"the verdict of offset {offset} of {topic}[{source.partition}] was committed and "
                f"is no longer kept. "
                f"Either this worker is behind and another one has the partition, or the consumer "
                f"group's offset was "
                f"moved back: then set it forward again, or judge the documents anew with a new "
                f"group and a new log"
            )
        return [by_offset[offset] for offset in offsets]

    def warm_up(self) -> None:
        """
        Load or compile the kernels now, before the worker joins its group. The replica itself is
        left as it is.
        """
        source = Source(bytes(16), 0)
        rows = [
            Row(0, RowKind.FULL, "a", "", 0, 1, 1, 9),
            Row(1, RowKind.SHORT, "b", "", 0, 2, 2, 1),
            *(
                Row(n, RowKind.FULL, str(n), "", 0, n * _SPREAD % 2**64, n, 9)
                for n in range(2, _WARM_ROWS)
            ),
            Row(
                _WARM_ROWS, RowKind.FULL, "copy", "", 0, 1, 1, 9
            ),  # so that not all rows before it and behind it stay
            Row(_WARM_ROWS + 1, RowKind.FULL, "last", "", 0, 2**64 - 1, 4, 9),
            Row(
                _WARM_ROWS + 2, RowKind.FULL, "a", "", 0, 2**63, 3, 9
            ),  # another version of the first
            Row(_WARM_ROWS + 3, RowKind.DELETED, "b", "", 0),
        ]
        idle = Replica(self.definition)
        for log_offset, data in enumerate(
            encode(
                self.definition.author(""),
                [Section(source, 0, len(rows), -1, Rows.of(rows))],
                1 << 20,
            )
        ):
            idle.apply(decode(data), log_offset, 0)
        self.judge.held.index.warm_up()

    def check(self) -> None:
        """Assert the invariants that hold between two calls of `apply`."""
        self.judge.held.check()
        for source, coverage in self.coverage.items():
            coverage.check()
            if source in self.pending:
                self.pending[source].check(coverage)
