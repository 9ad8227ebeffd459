"""
The judge: decides for each row, in the log's order, which original it duplicates, if any.

A row that duplicates none becomes an original.

    row's kind  is compared by                  becomes an original
    FULL        digest of a duplicate's text,   when the text is that of no duplicate whose original
                then fingerprint, doubts and    is there, and the search finds no original
                sketch                          (core.search)
    SHORT       digest of the normalised text   when no short original has the same
    DELETED     doc_id                          never; takes its original out of the index
    SKIPPED     nothing                         never
    DEAD        nothing                         never

Rules
- A document never duplicates itself. A doc_id that comes again with the same content is answered as
  before. With other content it is a new version: the former one leaves the index first.
- The verdict on a page whose URL has been seen names the latest original of that URL, its former
  version. Where re-crawls replace (`recrawls`), that one leaves the index, too.
- A page below a hundred words that comes again is a copy of its own original (`thin.py`), which a
  search might not find among others of its host with the same text.
- A text that the search has found a duplicate is remembered (`duplicates.py`). Its copies are
  duplicates of the same original while that one is there, whatever else has come since.
- Retention acts before and after a record, never within one: all its rows see the same originals
  leave.

The meaning is that of one row after the other. That would cost a call of each kernel per row, so
many rows are searched in one call wherever the answers are the same (`turns.py`):

    rows of a record
      │ `copies`     rows like the two right before them take their answer
      │ `Turns`      the others in their turn; what they change is entered at the record's end
      ▼
    judgements, and originals for the store

Property tests compare the answers with those of an oracle that judges row by row. A question is
judged in the same turns, without entering anything (`questions.py`).

Rejected, and why
- Judging a row alone when its doc_id or URL comes again in the record, at 100 times the cost: one
  worker's record of chosen doc_ids stopped all replicas for a second.
- Asking the tables, and entering originals into them, for each part of a record that is searched at
  once. Deletions, new versions and redeliveries, each in 2 to 5 of 100 rows, cut records of 1,000
  rows into 33 parts, and numpy's fixed costs in each made 20 µs of a row's 27.
- Moving an original to the end of the queue each time that it is seen: it costs as much as a new
  original. It moves at most sixteen times in a window.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from enum import IntEnum
from itertools import chain, pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from worker.log.columns import Memory
from worker.log.copies import count_copies, next_copies
from worker.log.originals import OriginalStore
from worker.log.questions import AskedOtherTurns, AskedTurns
from worker.log.record import RowKind, Rows, Span
from worker.log.rules import Definition
from worker.log.turns import TURN_COLUMNS, Turns

# A record that reads more pages from a disk, one by one, should have prefetched them. Prefetching
# takes 1.5 to 1.7 µs per row, even if everything is in memory, and a prefetched page takes 12 µs in
# place of 55. So it pays from a page for each 25 rows on; few are not worth the calls.
_PAGES_READ_MIN = 16
_ROWS_A_PAGE = 25
_RENEWALS = 16  # an original moves at most so often in a window, and in a turn of the queue


class ReasonCode(IntEnum):
    """Why a row has its verdict, where the verdict alone does not say it."""

    NONE = 0
    REDELIVERED = 1  # an original again, with the same content
    REMOVED = 2  # a deletion that took an original out of the index
    NOT_AN_ORIGINAL = 3  # a deletion of a document that the index does not hold


# As verdicts say it.
REASONS: dict[int, str | None] = {
    int(code): code.name.lower().replace("_", "-") for code in ReasonCode
}
REASONS[ReasonCode.NONE] = None


class Judgements(NamedTuple):
    """
    What the judge found for each row of a record: columns of its length.

    Entries of rows that were not fresh mean nothing.
    """

    originals: NDArray[np.int64]  # the original's row, or -1
    formers: NDArray[np.int64]  # the row of the former version, or -1
    distances: NDArray[np.uint8]
    similarities: NDArray[np.uint16]  # in thousandths, 0 without an original
    kept_apart: NDArray[np.uint16]  # why it stays new with an original near: `search.Apart.told`
    apart_from: NDArray[np.int64]  # the row of that original, or -1
    remarks: NDArray[np.uint8]  # a ReasonCode
    documents: NDArray[np.int64]  # originals in the index when the row was judged
    copies: NDArray[np.uint32]  # duplicates of the original so far, this row included; or 0
    horizon_ms: int | None  # originals seen before it had left by then; None: none had

    def between(self, first: int, stop: int) -> Judgements:
        """Return what was found for the rows [first, stop)."""
        columns = {name: getattr(self, name)[first:stop] for name in JUDGEMENT_COLUMNS}
        return self._replace(**columns)

    @classmethod
    def joined(cls, parts: Sequence[Judgements]) -> Judgements:
        """Return what was found for the rows of all parts, which are of one record."""
        columns = {
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in JUDGEMENT_COLUMNS
        }
        return cls(**columns, horizon_ms=parts[0].horizon_ms)

    def take(self, places: NDArray[np.int64]) -> Judgements:
        """Return the results for the rows at these places."""
        columns = {name: getattr(self, name)[places] for name in JUDGEMENT_COLUMNS}
        return self._replace(**columns)


JUDGEMENT_COLUMNS = Judgements._fields[:-1]
NAMING_COLUMNS = ("originals", "formers", "apart_from")  # rows of originals, or -1


# The partitions of the source that some rows are from: one of all, or one of each.
Partitions: TypeAlias = int | NDArray[np.int64]


class JudgedRows(NamedTuple):
    """
    Rows [first, stop) of a record with what was found for them.

    It is enough to write their verdicts at any time: none is ever computed again.
    """

    span: Span  # source offsets that they answer
    record: Rows  # of the log, or the rows of a question
    first: int
    stop: int
    judged: Judgements  # of these rows alone
    log_offset: int
    timestamp_ms: int

    @property
    def answered(self) -> Rows:
        """These rows, without the others of their record. Copies nothing."""
        return self.record.between(self.first, self.stop)

    def between(self, first: int, stop: int) -> JudgedRows:
        """
        Return the rows of the source offsets [first, stop). `span` stays as it is. Copies nothing.
        """
        offsets = self.record.offsets[self.first : self.stop]
        begin, end = np.searchsorted(offsets, [first, stop]).tolist()
        judged = self.judged.between(begin, end)
        return self._replace(first=self.first + begin, stop=self.first + end, judged=judged)

    def by_record(self, log_offsets: NDArray[np.int64]) -> Iterator[JudgedRows]:
        """
        Yield the rows of each of the log's records, where several were judged in one call
        (`Replica.apply_together`). A record without rows yields nothing. `span` stays that of the
        whole. Copies nothing.

        `log_offsets`: for each row the offset of its record in the log, ascending.
        """
        begins = np.flatnonzero(np.diff(log_offsets, prepend=-1)).tolist()
        for begin, end in pairwise([*begins, len(log_offsets)]):
            yield self._replace(
                first=self.first + begin,
                stop=self.first + end,
                judged=self.judged.between(begin, end),
                log_offset=int(log_offsets[begin]),
            )

    def offsets(self) -> list[int]:
        """Return the source offset of each row."""
        offsets: list[int] = self.record.offsets[self.first : self.stop].tolist()
        return offsets


class _Pages:
    """Counts the reads from a disk, which decide whether the next record prefetches its pages."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._before = 0  # read before the record began
        self._max = 0

    def begin(self, rows: int) -> bool:
        """Begin a record of `rows` rows, and return whether the last record read too many pages."""
        before = self._before
        self._before = self._memory.pages_read()
        self._max = max(_PAGES_READ_MIN, rows // _ROWS_A_PAGE)
        return self._before - before > self._max

    def are_many(self) -> bool:
        """Return whether this record has read too many pages so far."""
        return self._memory.pages_read() - self._before > self._max


class Judge:
    """
    Rows in, judgements out. What it knows is in `held`, until retention lets it go.

    Args:
        definition: its rules of searching, of retention and of re-crawls.
        memory: where the columns of the originals lie that finding does not need.
    """

    def __init__(self, definition: Definition, memory: Memory) -> None:
        self._retention = definition.retention
        self.held = OriginalStore(
            definition.search,
            has_times=not self._retention.is_endless,
            memory=memory,
            url_rules=definition.url_rules,
        )
        # The former version of a URL leaves, as one of a doc_id does.
        self.replaces = definition.recrawls == "replace"
        self.clock_ms = 0  # the log's: the largest time stamp so far
        self.horizon_ms: int | None = None  # originals seen before it have left; None: none has
        self.pages = _Pages(memory)

    def judge(self, record: Rows, fresh: NDArray[np.bool_], timestamp_ms: int = 0) -> Judgements:
        """
        Judge the fresh rows of a record in their order; the others are left alone.

        Args:
            fresh: for each row, whether the log has not had it before.
            timestamp_ms: the log's time of the record, the latest of several.
        Returns:
            A judgement for each row of the record.

        Cost: an index operation per row and some 4 µs besides, in few calls (`turns.py`); some 6 µs
        more for a row whose doc_id has an original, a deletion or a short text.
        """
        self._before_record(timestamp_ms)
        record_judge = _RecordJudge(record, self)
        # Where the columns are on a disk and not in its cache, what the judge would read one after
        # the other is read at once.
        self.held.asks = self.pages.begin(len(record))
        if self.held.asks:
            self.held.will_need(record, np.flatnonzero(fresh), record_judge.hashes)
        judged = record_judge.judge(fresh)
        # At the end, since it depends on nothing but which row is a duplicate of which original.
        judged = judged._replace(copies=count_copies(self.held.copies, judged.originals))
        self._after_record(judged.originals, record_judge.seen_again)
        self.held.duplicates.forget_beyond(self.held.documents)
        return judged

    def foresee(self, rows: Rows, *, as_others: bool = False) -> Judgements:
        """
        Return what `judge` would find for each of these rows if it were the log's next. Changes
        nothing.

        `as_others`: a row is another document than each original, even than one with its doc_id or
        URL, so that it may be a duplicate of that one.

        Each row is judged for itself, not as one after the others. The time is the log's: an
        original that the next record's time stamp will let expire is still there.

        Cost: that of `AskedTurns`.
        """
        assert self.held.outside is None, "nobody has searched for these rows among the others"
        judged = _RecordJudge(rows, self).foresee(as_others=as_others)
        return judged._replace(copies=next_copies(self.held.copies, judged.originals))

    def _before_record(self, timestamp_ms: int) -> None:
        """Move the clock, and evict the originals that have not been seen for too long."""
        self.clock_ms = max(self.clock_ms, timestamp_ms)
        if not self._retention.expire_after_ms:
            return
        horizon_ms = self.clock_ms - self._retention.expire_after_ms
        held = self.held
        assert held.seen is not None, "only with retention"
        rows = held.live_between(held.oldest, bisect_left(held.seen, horizon_ms, held.oldest))
        if len(rows):
            self._evict(rows)
        # From the first original that has left on, verdicts say how far back the judge can see.
        if len(rows) or self.horizon_ms is not None:
            self.horizon_ms = max(horizon_ms, self.horizon_ms or 0)

    def _after_record(self, originals: NDArray[np.int64], seen_again: Sequence[int]) -> None:
        """
        Renew the originals that the record has met, and evict the first of those that are too many.

        Args:
            originals: those of the record's duplicates, -1 for other rows.
            seen_again: those that the record had themselves, with the same content.
        """
        if self.held.seen is None:
            return
        if self._retention.expire_from == "last":
            seen = [originals[originals >= 0], np.array(seen_again, np.int64)]
            self._renew(np.unique(np.concatenate(seen)))
        excess = self.held.documents - self._retention.documents_max
        if self._retention.documents_max and excess > 0:
            rows = self._first_live(excess)
            self.horizon_ms = max(self.held.seen[int(rows[-1])], self.horizon_ms or 0)
            self._evict(rows)

    def _renew(self, rows: NDArray[np.int64]) -> None:
        """
        Move these originals to the end of the queue, unless they stand near it.

        Moving one costs as much as a new original, so it moves at most `_RENEWALS` times while the
        window, or a turn of the queue, passes.
        """
        held = self.held
        retention = self._retention
        assert held.seen is not None
        rows = rows[held.live.take(rows) == 1]  # a later row of the record may have replaced it
        is_due = np.zeros(len(rows), np.bool_)
        if retention.expire_after_ms:
            due_after_ms = max(retention.expire_after_ms // _RENEWALS, 1)
            is_due |= self.clock_ms - held.seen.take(rows) >= due_after_ms
        if retention.documents_max:
            behind_max = max(retention.documents_max // _RENEWALS, 1)
            is_due |= rows <= self._live_from_end(behind_max + 1)
        if is_due.any():
            held.renew(rows[is_due], self.clock_ms)

    def _evict(self, rows: NDArray[np.int64]) -> None:
        """Take out the first originals of the queue, all that are live up to the last of `rows`."""
        self.held.remove(rows)
        # `remove` may have built the tables, and set `oldest` with them: it never goes back.
        self.held.oldest = max(self.held.oldest, int(rows[-1]) + 1)

    def _first_live(self, count: int) -> NDArray[np.int64]:
        """Return the `count` first live rows, ascending; there must be as many."""
        parts = []
        row = self.held.oldest
        while count > 0:
            stop = min((row | (self.held.live.size - 1)) + 1, len(self.held))  # a chunk at a time
            parts.append(self.held.live_between(row, stop)[:count])
            count -= len(parts[-1])
            row = stop
        return np.concatenate(parts)

    def _live_from_end(self, count: int) -> int:
        """
        Return the live row that is number `count` from the end; -1: fewer are live.

        Cost: some 3 µs per chunk of rows between.
        """
        held = self.held
        stop = len(held)
        while stop > held.oldest:
            first = max((stop - 1) & -held.live.size, held.oldest)
            live = int(np.count_nonzero(held.live.slice(first, stop)))
            if count <= live:
                return int(held.live_between(first, stop)[-count])
            count -= live
            stop = first
        return -1


class _RecordJudge:
    """
    The judge of one record: what is found for its rows so far.

    `hashes` are those of its doc_ids, `seen_again` the originals that it has brought again.
    """

    def __init__(self, record: Rows, judge: Judge) -> None:
        count = len(record)
        held = judge.held
        self._record = record
        self._held = held
        self._replaces = judge.replaces
        self._pages = judge.pages
        self._clock_ms = judge.clock_ms
        self.hashes = held.hashes(record.doc_ids)
        self._page_urls = held.url_rules.pages_of(record.urls)
        self._judged = Judgements(
            originals=np.full(count, -1, np.int64),
            formers=np.full(count, -1, np.int64),
            distances=np.zeros(count, np.uint8),
            similarities=np.zeros(count, np.uint16),
            kept_apart=np.zeros(count, np.uint16),
            apart_from=np.full(count, -1, np.int64),
            remarks=np.zeros(count, np.uint8),
            documents=np.full(count, held.documents, np.int64),
            copies=np.zeros(count, np.uint32),
            horizon_ms=judge.horizon_ms,
        )
        self.seen_again: list[int] = []

    def judge(self, fresh: NDArray[np.bool_]) -> Judgements:
        """Judge the fresh rows in their order."""
        record = self._record
        judged = self._judged
        rows = np.flatnonzero(fresh & self._are_judged())
        hashes = [self.hashes[rows], self._held.hashes(self._page_urls)[rows]]
        is_copy = copies(record, rows, hashes)
        if is_copy.any():
            hashes = [column[~is_copy] for column in hashes]
        own_rows = rows[~is_copy]
        page_urls = self._page_urls.take(own_rows)
        turns = Turns(record, own_rows, page_urls, hashes, self._held, replaces=self._replaces)
        turns.take_all()
        # Verdicts name the originals of duplicates, whose texts have not been read. The disk reads
        # them while the record is entered.
        if self._held.asks or self._pages.are_many():
            named = np.concatenate([turns.originals, turns.apart_from])
            self._held.texts.will_need(named[named >= 0])
        turns.enter(self._clock_ms)
        self._put(own_rows, turns)
        changes = np.zeros(len(record), np.int64)
        changes[own_rows] = turns.changes
        self.seen_again = turns.seen_again
        if is_copy.any():
            # Each copy has the answer of the nearest row before it that is none.
            own_places = np.where(is_copy, 0, np.arange(len(rows)))
            models = np.maximum.accumulate(own_places)[is_copy]
            for name in JUDGEMENT_COLUMNS:  # `documents` is the same for all until it is set below
                column = getattr(judged, name)
                column[rows[is_copy]] = column[rows[models]]
        # The number of originals before each row: that at the beginning, and all changes so far.
        judged.documents[:] += np.cumsum(changes) - changes
        return judged

    def foresee(self, *, as_others: bool) -> Judgements:
        """Judge each row as if it came next and alone; the originals stay as they are."""
        rows = np.flatnonzero(self._are_judged())
        page_urls = self._page_urls.take(rows)
        hashes = [self.hashes[rows], self._held.hashes(page_urls)]
        kind = AskedOtherTurns if as_others else AskedTurns
        replaces = self._replaces and not as_others
        turns = kind(self._record, rows, page_urls, hashes, self._held, replaces=replaces)
        turns.take_all()
        self._put(rows, turns)
        return self._judged

    def _are_judged(self) -> NDArray[np.bool_]:
        """Return which rows are compared with others, by their kinds."""
        # Not `np.isin`, which takes as long as a tenth of a question.
        kinds = self._record.kinds
        is_judged: NDArray[np.bool_] = (kinds != RowKind.SKIPPED) & (kinds != RowKind.DEAD)
        return is_judged

    def _put(self, rows: NDArray[np.int64], turns: Turns) -> None:
        """Put what was found for some rows in their turn into the judgements."""
        judged = self._judged
        for name in TURN_COLUMNS:
            getattr(judged, name)[rows] = getattr(turns, name)
        judged.remarks[rows[turns.is_again]] = ReasonCode.REDELIVERED
        # A deletion changes the number of originals if there was one.
        is_removal = turns.is_deletion & (turns.changes < 0)
        judged.remarks[rows[turns.is_deletion]] = ReasonCode.NOT_AN_ORIGINAL
        judged.remarks[rows[is_removal]] = ReasonCode.REMOVED


def copies(
    record: Rows, rows: NDArray[np.int64], hashes: Sequence[NDArray[np.uint64]]
) -> NDArray[np.bool_]:
    """
    Mark the rows that are the same as the two right before them, fetch time aside.

    The second of three changed nothing: it is a redelivery, or a duplicate whose former version has
    left. So the third finds what the second has found. Without it a record of one document, a
    thousand times over, would be a batch for each row.

    Args:
        rows: of the record, ascending.
        hashes: of these rows' doc_ids and of their URLs' pages.
    """
    same = np.zeros(len(rows), np.bool_)
    numbers = (record.kinds, record.fingerprints, record.doubts, record.digests, record.marks)
    columns: Iterator[NDArray[np.generic]] = chain(hashes, (values[rows] for values in numbers))
    same[1:] = True
    for values in columns:
        same[1:] &= values[1:] == values[:-1]
        if not same.any():  # nearly always, by the hashes of the doc_ids
            return same
    same[1:] &= same[:-1]
    # Hashes can be equal by chance: the texts decide.
    for at in np.flatnonzero(same).tolist():
        names = {(record.doc_ids[row], record.urls[row]) for row in rows[at - 2 : at + 1].tolist()}
        same[at] = len(names) == 1
    return same
