"""
The judge: says of each row, in the log's order, which original it duplicates, if any; what
duplicates none is one.

    row's kind   is compared by                     becomes an original
    FULL         fingerprint, doubts and sketch     when the search for an original finds none (core.search)
    SHORT        digest of the normalised text      when no short original has the same
    DELETED      doc_id                             never; takes its original out of the index
    SKIPPED      nothing                            never
    DEAD         nothing                            never

A document never duplicates itself. The same doc_id with the same content is answered as before;
with other content it
is a new version: the former one leaves the index first. The verdict on a page whose URL has been
seen names the latest original of that URL; where versions are replaced it leaves the index, too.
Retention acts before and after a record.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.core.sketch import SIMILARITY_MAX
from worker.log.originals import CONTENT, Memory, OriginalStore, repeated
from worker.log.record import Record, RowKind, Span
from worker.log.rules import Definition
from worker.log.texts import Texts

_COMPARED_MAX = 512  # rows at once, each with each original that leaves
_RENEWALS = 16  # an original moves at most so often in a window, and in a turn of the queue


class ReasonCode(IntEnum):
    """What the outcome alone does not tell."""

    NONE = 0
    REDELIVERED = 1  # an original again, with the same content
    REMOVED = 2  # a deletion that took an original out of the index
    NOT_AN_ORIGINAL = 3  # a deletion of a document that the index does not hold


# As verdicts say it.
REASONS = {int(code): code.name.lower().replace("_", "-") if code else None for code in ReasonCode}


class Judgements(NamedTuple):
    """
    What the judge found for each row of a record; entries of rows that were not fresh mean nothing.
    """

    originals: NDArray[np.int64]  # the original's row, or -1
    formers: NDArray[np.int64]  # the row of the former version, or -1
    distances: NDArray[np.uint8]
    similarities: NDArray[np.uint16]  # in thousandths, 0 without an original
    remarks: NDArray[np.uint8]  # a ReasonCode
    documents: NDArray[np.int64]  # originals in the index when the row was judged
    horizon_ms: int | None  # originals seen before it had left by then; None: none had

    def between(self, first: int, stop: int) -> Judgements:
        """Return what was found for the rows [first, stop)."""
        return self._replace(
            **{name: getattr(self, name)[first:stop] for name in JUDGEMENT_COLUMNS}
        )


JUDGEMENT_COLUMNS = Judgements._fields[:-1]


class JudgedRows(NamedTuple):
    """
    Rows [first, stop) of a record with what was found for them: enough to write their verdicts at
    any time.
    """

    span: Span  # source offsets that they answer
    record: Record
    first: int
    stop: int
    judged: Judgements
    log_offset: int
    timestamp_ms: int

    def between(self, first: int, stop: int) -> JudgedRows:
        """Return the rows of the source offsets [first, stop)."""
        offsets = self.record.offsets[self.first : self.stop]
        begin, end = np.searchsorted(offsets, [first, stop]).tolist()
        judged = self.judged.between(begin, end)
        return self._replace(first=self.first + begin, stop=self.first + end, judged=judged)

    def offsets(self) -> list[int]:
        """Return the source offset of each row."""
        offsets: list[int] = self.record.offsets[self.first : self.stop].tolist()
        return offsets


class Judge:
    """
    Rows in, answers out. What it knows is in `held`; the log's clock and the number of originals
    let it go.
    """

    def __init__(self, definition: Definition, memory: Memory) -> None:
        self._retention = definition.retention
        self.held = OriginalStore(
            definition.search, has_times=not self._retention.is_endless, memory=memory
        )
        # The former version of a URL leaves, as one of a doc_id does.
        self.replaces = definition.recrawls == "replace"
        self.clock_ms = 0  # the log's: the largest time stamp so far
        self.horizon_ms: int | None = None  # originals seen before it have left; None: none has

    def judge(self, record: Record, fresh: NDArray[np.bool_], timestamp_ms: int = 0) -> Judgements:
        """
        Judge the fresh rows of a record, of the log's time `timestamp_ms`, in their order; the
        others are left alone.

        Cost: an index operation a row, in batches of different doc_ids, and one for each original
        that leaves.
        """
        self._before_record(timestamp_ms)
        one = _RecordJudge(record, self)
        is_cold = self.held.memory.is_cold()
        if is_cold:  # have read at once what would be read one by one
            self.held.will_need(record, np.flatnonzero(fresh), one.hashes)
        judged = one.judge(fresh)
        if is_cold:  # what answers say of originals and former versions
            originals, formers = (rows[rows >= 0] for rows in (judged.originals, judged.formers))
            for column in (
                self.held.kinds,
                self.held.fingerprints,
                self.held.doubts,
                self.held.sketches,
            ):
                column.will_need(formers)
            is_equal = (judged.originals >= 0) & (judged.distances == 0)
            self.held.digests.will_need(np.concatenate([formers, judged.originals[is_equal]]))
            self.held.will_need_texts(np.concatenate([formers, originals]))
        self._after_record(judged.originals, one.seen_again)
        return judged

    def _before_record(self, timestamp_ms: int) -> None:
        """Move the clock, and let the originals leave that have not been seen for too long."""
        self.clock_ms = max(self.clock_ms, timestamp_ms)
        if not self._retention.expire_after_ms:
            return
        horizon_ms = self.clock_ms - self._retention.expire_after_ms
        held = self.held
        assert held.seen is not None, "only with retention"
        rows = held.live_between(held.oldest, bisect_left(held.seen, horizon_ms, held.oldest))
        if len(rows):
            self._evict(rows)
        if len(rows) or self.horizon_ms is not None:
            self.horizon_ms = max(horizon_ms, self.horizon_ms or 0)

    def _after_record(self, originals: NDArray[np.int64], seen_again: Sequence[int]) -> None:
        """
        Move what the record has brought again, or duplicated, to the end of the queue; evict what
        is too many.
        """
        if self.held.seen is None:
            return
        if self._retention.expire_from == "last":
            self._renew(
                np.unique(
                    np.concatenate([originals[originals >= 0], np.array(seen_again, np.int64)])
                )
            )
        excess = self.held.documents - self._retention.documents_max
        if self._retention.documents_max and excess > 0:
            rows = self._first_live(excess)
            self.horizon_ms = max(self.held.seen[int(rows[-1])], self.horizon_ms or 0)
            self._evict(rows)

    def _renew(self, rows: NDArray[np.int64]) -> None:
        """Move these originals to the end of the queue, unless they stand near it."""
        held = self.held
        retention = self._retention
        assert held.seen is not None
        rows = rows[held.live.take(rows) == 1]
        is_due = np.zeros(len(rows), np.bool_)
        if retention.expire_after_ms:
            is_due |= self.clock_ms - held.seen.take(rows) >= max(
                retention.expire_after_ms // _RENEWALS, 1
            )
        if retention.documents_max:
            is_due |= rows <= self._live_from_end(max(retention.documents_max // _RENEWALS, 1) + 1)
        if is_due.any():
            held.renew(rows[is_due], self.clock_ms)

    def _evict(self, rows: NDArray[np.int64]) -> None:
        """Take the first originals of the queue out: no row up to the last of them is live then."""
        self.held.remove(rows)
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
        Return the live row that is number `count` from the end, or -1. Cost: some 3 µs per chunk of
        rows between.
        """
        held = self.held
        stop = len(self.held)
        while stop > held.oldest:
            first = max((stop - 1) & -held.live.size, held.oldest)
            live = int(np.count_nonzero(held.live.slice(first, stop)))
            if count <= live:
                return int(held.live_between(first, stop)[-count])
            count -= live
            stop = first
        return -1


class _RecordJudge:
    """The judge of one record."""

    def __init__(self, record: Record, judge: Judge) -> None:
        count = len(record)
        held = judge.held
        self._record, self._held, self._replaces = record, held, judge.replaces
        self._clock_ms = judge.clock_ms
        self.hashes = held.hashes(record.doc_ids)
        self._changes = np.zeros(count, np.int64)  # of the number of originals, by each row
        self._judged = Judgements(
            np.full(count, -1, np.int64),
            np.full(count, -1, np.int64),
            np.zeros(count, np.uint8),
            np.zeros(count, np.uint16),
            np.zeros(count, np.uint8),
            np.full(count, held.documents, np.int64),
            judge.horizon_ms,
        )
        self.seen_again: list[int] = []  # originals that this record has brought again

    def judge(self, fresh: NDArray[np.bool_]) -> Judgements:
        record = self._record
        judged = self._judged
        rows = np.flatnonzero(
            fresh & np.isin(record.kinds, (RowKind.FULL, RowKind.SHORT, RowKind.DELETED))
        )
        names = self.hashes[rows]
        addresses = self._held.hashes(record.urls)[rows]
        is_copy = copies(record, rows, (names, addresses))
        taken = np.flatnonzero(~is_copy)
        deletions = record.kinds[rows[taken]] == RowKind.DELETED
        keys = [names[taken]]
        if self._replaces:
            keys.append(np.where(deletions, keys[0], addresses[taken]))  # a deletion has no URL
        for batch in batches(rows[taken], deletions, keys):
            if record.kinds[batch[0]] == RowKind.DELETED:
                self._delete(batch)
                continue
            begin = 0
            size = _COMPARED_MAX
            while begin < len(batch):
                count = self._judge_batch(batch[begin : begin + size])
                begin = begin + count
                size = min(2 * count, _COMPARED_MAX)
        if is_copy.any():
            models = np.maximum.accumulate(np.where(is_copy, 0, np.arange(len(rows))))[is_copy]
            for column in (
                judged.originals,
                judged.formers,
                judged.distances,
                judged.similarities,
                judged.remarks,
            ):
                column[rows[is_copy]] = column[rows[models]]
        judged.documents[:] += np.cumsum(self._changes) - self._changes
        return judged

    def _judge_batch(self, rows: NDArray[np.int64]) -> int:
        """
        Judge rows of different doc_ids, up to the first of an original that one before it has;
        return how many.
        """
        held = self._held
        judged = self._judged
        formers = held.find_many(self.hashes[rows], self._record.doc_ids.take(rows))
        is_again = self._is_same(formers, rows)
        others = self._replaced(rows, formers)  # those of the same URL
        if self._replaces and (count := claimed_once(formers, others)) < len(rows):
            rows = rows[:count]
            formers = formers[:count]
            others = others[:count]
            is_again = is_again[:count]
        count = len(rows)
        judged.remarks[rows[is_again]] = ReasonCode.REDELIVERED
        self.seen_again += formers[is_again].tolist()
        rows = rows[~is_again]
        formers = formers[~is_again]
        others = others[~is_again]
        begin = 0
        for end in [*self._cuts(rows, formers, others), len(rows)]:
            leaving = np.concatenate([formers[begin:end], others[begin:end]])
            if (leaving >= 0).any():
                held.remove(np.sort(leaving[leaving >= 0]))
                self._changes[rows[begin:end]] -= (formers[begin:end] >= 0).astype(np.int64) + (
                    others[begin:end] >= 0
                )
            if begin < end:
                self._judge_new(rows[begin:end])
            begin = end
        told = np.where(formers >= 0, formers, others)
        judged.formers[rows[told >= 0]] = told[told >= 0]
        return count

    def _is_same(self, formers: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which rows have a former version of the same content."""
        is_same = formers >= 0
        known = np.flatnonzero(is_same)
        is_same[known] = self._held.is_content(formers[known], self._record, rows[known])
        return is_same

    def _replaced(self, rows: NDArray[np.int64], formers: NDArray[np.int64]) -> NDArray[np.int64]:
        """
        Return the original of other content that leaves because a row has its URL, beside the one
        of its doc_id.
        """
        if not self._replaces:
            return np.full(len(rows), -1)
        latest = self._latest(rows)
        stays = (latest == formers) | self._is_same(latest, rows) | self._is_same(formers, rows)
        return np.where(stays, -1, latest)

    def _latest(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        urls = self._record.urls.take(rows)
        return self._held.latest_of(urls, self._held.hashes(urls))

    def _cuts(
        self, rows: NDArray[np.int64], formers: NDArray[np.int64], others: NDArray[np.int64]
    ) -> Iterator[int]:
        """
        Yield where to cut rows, so that those between two cuts may be judged when all that leaves
        for them has left.

        An original leaves right before its successor. Gone earlier, it could be missed by a row
        that would have matched it or named it; such a row ends before that cut. Cost: a comparison
        of each row with each that leaves.
        """
        record = self._record
        held = self._held
        places = np.concatenate([np.flatnonzero(formers >= 0), np.flatnonzero(others >= 0)])
        if not places.any():  # nothing leaves, or for the first row alone
            return
        old = np.concatenate([formers[formers >= 0], others[others >= 0]])
        kinds = record.kinds[rows][:, None]
        is_near = (kinds == RowKind.FULL) & (held.kinds.take(old) == RowKind.FULL)
        differ = record.fingerprints[rows][:, None] ^ held.fingerprints.take(old)
        is_near &= np.bitwise_count(differ) <= held.search.max_distance
        is_same = (kinds == RowKind.SHORT) & (held.kinds.take(old) == RowKind.SHORT)
        is_near |= is_same & (record.digests[rows][:, None] == held.digests.take(old))
        is_near |= self._latest(rows)[:, None] == old
        is_near &= np.arange(len(rows))[:, None] < places
        found = np.flatnonzero(is_near.any(axis=0))
        begin = 0
        for at in found[np.argsort(places[found], kind="stable")].tolist():
            if is_near[begin:, at].any():
                begin = int(places[at])
                yield begin

    def _judge_new(self, rows: NDArray[np.int64]) -> None:
        """
        Judge rows whose doc_ids are new and differ, and take those without a match as originals.
        """
        record = self._record
        held = self._held
        judged = self._judged
        first = len(held)
        urls = record.urls.take(rows)
        url_hashes = held.hashes(urls)
        before = held.latest_of(urls, url_hashes)
        is_full = record.kinds[rows] == RowKind.FULL
        full = rows[is_full]
        short = rows[~is_full]
        doubts = record.doubts[full]
        sketches = record.sketches[full]
        matches = held.index.match_or_insert(record.fingerprints[full], doubts, sketches, first)
        equals = held.find_short(record.digests[short])
        unknown = short[equals < 0]
        _, firsts, groups = np.unique(
            record.digests[unknown], return_index=True, return_inverse=True
        )
        models = unknown[firsts[groups]]  # the first of each digest is new, the others follow it
        new_full = full[matches.rows < 0]
        new_short = unknown[models == unknown]
        new = np.sort(np.concatenate([new_full, new_short]))
        equals[equals < 0] = np.where(models == unknown, -1, first + np.searchsorted(new, models))
        judged.originals[short] = equals
        judged.similarities[short] = np.where(equals >= 0, SIMILARITY_MAX, 0)
        found = matches.rows
        if len(new_short) and len(new_full):  # the index has numbered its own as if they were alone
            own = first + np.searchsorted(new, new_full)
            held.index.renumber(own.astype(np.uint32))
            found = found.copy()
            found[found >= first] = own[found[found >= first] - first]
        judged.originals[full] = found
        judged.distances[full] = matches.distances
        judged.similarities[full] = matches.similarities
        is_new = np.zeros(len(rows), np.bool_)
        is_new[np.searchsorted(rows, new)] = True
        formers = _formers(urls, repeated(url_hashes), before, is_new, first)
        judged.formers[rows] = formers
        self._changes[new] += 1
        if len(new):
            held.add(
                record.fetched_at_ms[new],
                (record.doc_ids.take(new), urls.take(np.flatnonzero(is_new))),
                self.hashes[new],
                {name: getattr(record, name)[new] for name in CONTENT},
                self._clock_ms,
                held.newest(formers[is_new]),
            )

    def _delete(self, rows: NDArray[np.int64]) -> None:
        """Take the originals of these rows' doc_ids, which differ, out of the index."""
        originals = self._held.find_many(self.hashes[rows], self._record.doc_ids.take(rows))
        is_there = originals >= 0
        self._judged.remarks[rows] = np.where(
            is_there, ReasonCode.REMOVED, ReasonCode.NOT_AN_ORIGINAL
        )
        if is_there.any():
            self._held.remove(np.sort(originals[is_there]))
            self._changes[rows[is_there]] -= 1


def _formers(
    urls: Texts,
    again: NDArray[np.int64],
    before: NDArray[np.int64],
    is_new: NDArray[np.bool_],
    first: int,
) -> NDArray[np.int64]:
    """
    Return each URL's latest original at its turn: of `before`, or one of these; `again`: places of
    repeated URLs.
    """
    if not len(again):
        return before
    formers = before.copy()
    texts = urls.tolist()
    own = np.where(is_new, first + np.cumsum(is_new) - 1, -1).tolist()
    later: dict[bytes, int] = {}
    for at in again.tolist():
        url = texts[at]
        formers[at] = later.get(url, formers[at])
        if own[at] >= 0:
            later[url] = own[at]
    return formers


def batches(
    rows: NDArray[np.int64], deletions: NDArray[np.bool_], keys: Sequence[NDArray[np.uint64]]
) -> Iterator[NDArray[np.int64]]:
    """
    Yield ascending rows in parts in which no key comes twice, and either all or none are deletions.
    """
    former: dict[int, int] = {}  # by place: that of the latest row before it with one of its keys
    for key in keys:
        latest: dict[int, int] = {}
        places = repeated(key)
        for at, value in zip(places.tolist(), key[places].tolist(), strict=True):
            if value in latest:
                former[at] = max(former.get(at, 0), latest[value])
            latest[value] = at
    turns = set((np.flatnonzero(deletions[1:] != deletions[:-1]) + 1).tolist())
    begin = 0
    for at in sorted(former.keys() | turns):
        if at in turns or former[at] >= begin:
            yield rows[begin:at]
            begin = at
    if begin < len(rows):
        yield rows[begin:]


def copies(
    record: Record, rows: NDArray[np.int64], hashes: Sequence[NDArray[np.uint64]]
) -> NDArray[np.bool_]:
    """
    Mark the rows that are the same as the two right before them, fetch time aside; `hashes`: of
    doc_ids and URLs.

    The second changed nothing: it is a redelivery, or a duplicate whose former version has left. So
    the third finds the same.
    """
    same = np.zeros(len(rows), np.bool_)
    numbers = (record.kinds, record.fingerprints, record.doubts, record.digests)
    columns: list[NDArray[np.generic]] = [*hashes, *(values[rows] for values in numbers)]
    same[1:] = np.all([values[1:] == values[:-1] for values in columns], axis=0)
    same[1:] &= same[:-1]
    for at in np.flatnonzero(same).tolist():
        one, *others = (
            (record.doc_ids[row], record.urls[row]) for row in rows[at - 2 : at + 1].tolist()
        )
        same[at] = others == [one, one]
    return same


def claimed_once(formers: NDArray[np.int64], others: NDArray[np.int64]) -> int:
    """
    Return how many rows there are before the first that has an original of one before it, at least
    one.
    """
    claimed = np.stack([formers, others], axis=1).ravel()
    places = np.flatnonzero(claimed >= 0)
    _, firsts = np.unique(claimed[places], return_index=True)
    again = np.delete(places, firsts)
    return int(again[0]) // 2 if len(again) else len(formers)
