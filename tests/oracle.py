"""
What the log means, once more, as slowly and plainly as possible: the oracle that the replica is
held against.

It shares nothing with the replica but the record format: no index, no columns, no intervals; it
looks at every original that there has been.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import orjson

from worker.core.document import Outcome, Verdict
from worker.core.marks import (
    HOST_AND_TITLE,
    LONG,
    NO_MARK,
    TITLE_SHIFT,
    TITLE_WORDS_MIN,
    are_apart,
)
from worker.core.search import (
    ApartBy,
    SearchedDocument,
    SearchedOriginal,
    SearchRules,
    again,
    best,
    kept_apart,
    listed,
    look,
)
from worker.core.sketch import sketch_similarity
from worker.errors import DocumentError, RecordError
from worker.log import duplicates
from worker.log.judge import JudgedRows, Partitions
from worker.log.originals import OriginalStore
from worker.log.record import Row, RowKind, Section, Source, decode
from worker.log.replica import Replica
from worker.log.rules import Definition, Retention
from worker.log.short import BY_DIGEST, BY_TITLE
from worker.shell.messages import encode_answers, verdict_of
from worker.shell.ports import LogEntry

RENEWALS = 16  # an original moves to the end at most so often in a window
Said = tuple[
    str,
    str | None,
    int | None,
    str | None,
    int,
    float | None,
    str | None,
    tuple[str, str, float] | None,
    int | None,
]
"""
Outcome, doc_id of the original, distance, kind or reason, originals before, similarity, former
version; of what is new although an original is similar enough, that one, why, and how similar;
copies of its original so far.
"""


def unpack(data: bytes) -> list[Section]:
    """Decode a record back into sections."""
    return list(decode(data).sections)


def plain(sections: Iterable[Section]) -> list[tuple[object, ...]]:
    """Return sections with rows that can be compared."""
    return [(*section[:4], list(section.rows)) for section in sections]


def read_answers(
    rows: JudgedRows,
    held: OriginalStore,
    definition: Definition,
    partition: Partitions,
    topic: str,
) -> list[Verdict | DocumentError]:
    """Return what `encode_answers` writes, as objects."""
    answers = encode_answers(rows, held, definition, partition, topic)
    return [
        answer if isinstance(answer, DocumentError) else verdict_of(orjson.loads(answer.value))
        for answer in answers
    ]


def read_answer(replica: Replica, source: Source, offset: int) -> Verdict | DocumentError:
    """Return what the log says of one source message."""
    return replica.answers(source, [offset], "documents", read_answers)[0]


def said(answer: Verdict | DocumentError) -> Said:
    """Reduce an answer to what the oracle speaks of."""
    if isinstance(answer, DocumentError):
        return "dead", None, None, str(answer), 0, None, None, None, None
    match, before = answer.duplicate_of, answer.former_version
    former = f"{before.original.doc_id} {before.changed} {before.similarity}" if before else None
    if match is None:
        apart = answer.kept_apart
        before_it = answer.index_documents
        told = apart and (apart.doc_id, apart.reason.value, apart.similarity)
        return answer.outcome.value, None, None, answer.reason, before_it, None, former, told, None
    return (
        answer.outcome.value,
        match.original.doc_id,
        match.distance,
        match.kind.value,
        answer.index_documents,
        match.similarity,
        former,
        None,
        match.copies,
    )


@dataclass
class Oracle:
    """
    Applies the log's rows one by one; `of` makes one for a whole log, with all that stands in it.
    """

    search: SearchRules
    retention: Retention = Retention()  # noqa: RUF009  # frozen
    answers: dict[tuple[Source, int], Said] = field(default_factory=dict)
    horizons: dict[tuple[Source, int], int | None] = field(default_factory=dict)
    doc_ids: dict[tuple[Source, int], str] = field(default_factory=dict)
    clock_ms: int = 0
    horizon_ms: int | None = None
    definition: str | None = None  # its hash; None: every row given counts
    replaces: bool = False  # a new version of a URL takes the place of the former one
    _log_format: int = 0
    _latest: dict[str, Row] = field(default_factory=dict)  # original of each URL
    # Originals, and when each entered it.
    _queue: list[tuple[Row, int]] = field(default_factory=list)
    # By original, as an object: the blocks in which it was listed when it entered; of a short one
    # whether by its digest or by its title.
    _listed: dict[int, int] = field(default_factory=dict)
    _copies: dict[int, int] = field(default_factory=dict)  # by original, as an object
    _again: list[Row] = field(default_factory=list)  # originals that this record brought again
    # Texts that a search found near an original, in this order: their digests, and that original.
    _duplicates: list[tuple[int, Row]] = field(default_factory=list)

    @classmethod
    def of(cls, definition: Definition, base: Iterable[LogEntry] = ()) -> Oracle:
        """
        An oracle for a log, which begins with its definition, and with what the log of its base
        came to.
        """
        oracle = cls(
            definition.search, definition.retention, replaces=definition.recrawls == "replace"
        )
        for entries, of in ((base, replace(definition, base=None)), ((), definition)):
            oracle.definition, oracle._log_format = f"{of.hash:016x}", 0
            for entry in entries:
                oracle.apply(entry.value, entry.timestamp_ms)
        return oracle

    def apply(self, data: bytes, timestamp_ms: int = 0) -> None:
        """Take the next record; a source offset that was answered before is ignored."""
        if self.definition is not None and not self._counts(data):
            return
        self.clock_ms = max(self.clock_ms, timestamp_ms)
        self._expire()
        self._again = []
        for section in unpack(data):
            for row in section.rows:
                key = (section.source, row.offset)
                if key not in self.answers:
                    self.answers[key] = self._judge(row)
                    self.horizons[key], self.doc_ids[key] = self.horizon_ms, row.doc_id
        self._renew()
        self._evict()
        step = 1 << duplicates.STEP_BITS
        limit = max(len(self._queue), duplicates.TEXTS_MIN)
        while len(self._duplicates) >= limit + step:
            del self._duplicates[:step]

    def _counts(self, data: bytes) -> bool:
        """
        Return whether a record is one of rows, of the log's definition and of a format that it has
        allowed.
        """
        try:
            fields = json.loads(data)
        except ValueError:
            fields = {}
        if (
            isinstance(fields, dict)
            and fields.get("neardup") == "definition"
            and fields["hash"] == self.definition
        ):
            if not self._log_format or fields["raises"]:
                self._log_format = max(self._log_format, fields["format"])
            return False
        try:
            record = decode(data)
        except RecordError:
            return False
        return (
            f"{record.author.parameters_hash:016x}" == self.definition
            and record.format <= self._log_format
        )

    def _expire(self) -> None:
        """What was seen longer ago than the window leaves."""
        if self.retention.expire_after_ms:
            horizon_ms = self.clock_ms - self.retention.expire_after_ms
            stays = [entry for entry in self._queue if entry[1] >= horizon_ms]
            if len(stays) < len(self._queue) or self.horizon_ms is not None:
                self.horizon_ms = max(horizon_ms, self.horizon_ms or 0)
            self._queue = stays

    def _renew(self) -> None:
        """
        What came again goes to the end, when a sixteenth of the window has passed or of the queue
        is behind it.
        """
        if self.retention.expire_from == "first":
            return
        queue = list(self._queue)
        renewed = []
        for place, entry in enumerate(queue):
            row, seen_ms = entry
            window_ms, turn = self.retention.expire_after_ms, self.retention.documents_max
            is_due = (
                window_ms > 0 and self.clock_ms - seen_ms >= max(window_ms // RENEWALS, 1)
            ) or (turn > 0 and len(queue) - place >= max(turn // RENEWALS, 1) + 1)
            if is_due and any(row is other for other in self._again):
                renewed.append(row)
        # All of them leave first; then each is born again.
        self._queue = [
            entry for entry in self._queue if not any(entry[0] is row for row in renewed)
        ]
        for row in renewed:
            self._enter(row, is_renewed=True)

    def _evict(self) -> None:
        """Beyond the largest number the front of the queue leaves."""
        while self.retention.documents_max and len(self._queue) > self.retention.documents_max:
            _, seen_ms = self._queue.pop(0)
            self.horizon_ms = max(seen_ms, self.horizon_ms or 0)

    def _judge(self, row: Row) -> Said:
        originals = [original for original, _ in self._queue]
        before = len(originals)
        same = [original for original in originals if original.doc_id == row.doc_id]
        if row.kind == RowKind.DEAD:
            return "dead", None, None, row.note, 0, None, None, None, None
        if row.kind == RowKind.SKIPPED:
            return Outcome.SKIPPED.value, None, None, row.note, before, None, None, None, None
        if row.kind == RowKind.DELETED:
            self._queue = [entry for entry in self._queue if entry[0] not in same]
            return (
                Outcome.DELETED.value,
                None,
                None,
                "removed" if same else "not-an-original",
                before,
                None,
                None,
                None,
                None,
            )
        if any(_content(original) == _content(row) for original in same):
            self._again += same
            return Outcome.NEW.value, None, None, "redelivered", before, None, None, None, None
        latest = self._latest.get(row.url)
        former = latest if any(latest is original for original in originals) else None
        if self.replaces and former is not None and _content(former) != _content(row):
            same.append(former)
        self._queue = [entry for entry in self._queue if entry[0] not in same]
        told = self._changed([*same, former][0], row)
        position, distance, similarity = self._search(row)
        if position < 0:
            apart = self._kept_apart(row)
            self._enter(row)
            self._latest[row.url] = row
            return Outcome.NEW.value, None, None, None, before, None, told, apart, None
        original, _ = self._queue[position]
        self._again.append(original)
        copies = self._copies[id(original)] = self._copies[id(original)] + 1
        kind = "exact" if distance == 0 and original.digest == row.digest else "near"
        return (
            Outcome.DUPLICATE.value,
            original.doc_id,
            distance,
            kind,
            before,
            similarity,
            told,
            None,
            copies,
        )

    def _kept_apart(self, row: Row) -> tuple[str, str, float] | None:
        """Say why a row is new if an original is similar enough: that one, why, and how similar."""
        if row.kind == RowKind.SHORT:
            first = [one.doc_id for one, _ in self._queue if self._is_short(one, row, BY_DIGEST)]
            return (first[0], "other-page", 1.0) if first else None
        document = SearchedDocument(row.fingerprint, row.doubts, row.sketch, row.mark)
        apart = kept_apart(self.search, document, self._near(row))
        if apart is None:
            return None
        reasons = {ApartBy.OTHER_PAGE: "other-page", ApartBy.LIKE_OTHERS: "like-others"}
        original, _ = self._queue[apart.row]
        return original.doc_id, reasons[apart.by], apart.similarity / 1_000

    def _near(self, row: Row) -> list[SearchedOriginal]:
        """Return the originals near a row. The others are never found, and the search is slow."""
        return [
            one
            for one in self._searched()
            if (one.fingerprint ^ row.fingerprint).bit_count() <= self.search.max_distance
        ]

    def _enter(self, row: Row, *, is_renewed: bool = False) -> None:
        """Make a row an original, which is listed now or never. A short one keeps its key for life."""
        if row.kind == RowKind.FULL and self.search.mode == "directed":
            self._listed[id(row)] = listed(self.search, row.fingerprint, self._searched())
        if not is_renewed:
            self._copies[id(row)] = 0
        if row.kind == RowKind.SHORT and not is_renewed:
            has_first = any(self._is_short(one, row, BY_DIGEST) for one, _ in self._queue)
            self._listed[id(row)] = BY_TITLE if has_first else BY_DIGEST
        self._queue.append((row, self.clock_ms))

    def _searched(self) -> list[SearchedOriginal]:
        """Return the originals of kind FULL, by their position."""
        return [
            SearchedOriginal(
                at, one.fingerprint, one.doubts, one.sketch, one.mark, self._listed.get(id(one), 0)
            )
            for at, (one, _) in enumerate(self._queue)
            if one.kind == RowKind.FULL
        ]

    def _is_short(self, one: Row, row: Row, listed_as: int) -> bool:
        """Return whether an original has a short row's text, and is listed so."""
        is_same = one.kind == RowKind.SHORT and one.digest == row.digest
        return is_same and self._listed[id(one)] == listed_as

    def _search_short(self, row: Row) -> tuple[int, int, float]:
        """
        Look for the first original with a short row's text, then for one of its host and title.
        """
        mark = row.mark if self.search.similarity_min else 0
        for at, (one, _) in enumerate(self._queue):
            if self._is_short(one, row, BY_DIGEST) and not are_apart(one.mark, mark, 1_000):
                return at, 0, 1.0
        for at, (one, _) in enumerate(self._queue):
            is_of_title = not (one.mark ^ mark) & int(HOST_AND_TITLE)
            if self._is_short(one, row, BY_TITLE) and mark and is_of_title:
                return at, 0, 1.0
        return -1, 0, 0.0

    def _changed(self, former: Row | None, row: Row) -> str | None:
        """Name the former version, how much has changed and the similarity, where that is known."""
        if former is None:
            return None
        if (former.kind, former.digest) == (row.kind, row.digest):
            return f"{former.doc_id} not 1.0"
        if former.kind != row.kind or row.kind == RowKind.SHORT:
            return f"{former.doc_id} much None"
        distance = (former.fingerprint ^ row.fingerprint).bit_count()
        alike = sketch_similarity(row.sketch, former.sketch)
        is_near = (
            distance <= self.search.max_distance and alike >= self.search.similarity_thousandths
        )
        if self.search.mode == "directed":
            is_near &= (
                look(row.fingerprint, row.doubts, former.fingerprint, former.doubts)
                >= self.search.look_min
            )
        return f"{former.doc_id} {'little' if is_near else 'much'} {alike / 1_000}"

    def _search(self, row: Row) -> tuple[int, int, float]:
        """
        Return the original's position, its distance and similarity; -1 for none. By looking at
        every original.
        """
        if row.kind == RowKind.SHORT:
            return self._search_short(row)
        for same_page in (_is_same_url, _is_same_title):
            for at, (one, _) in enumerate(self._queue):
                is_thin = self.search.similarity_min and row.mark and not row.mark & LONG
                if is_thin and _are_thin_copies(one, row) and same_page(one, row):
                    return at, 0, 1.0
        document = SearchedDocument(row.fingerprint, row.doubts, row.sketch, row.mark)
        before = [original for digest, original in self._duplicates if digest == row.digest]
        for searched in self._searched():
            if before and self._queue[searched.row][0] is before[-1]:
                match = again(self.search, document, searched)
                if match:
                    return match.row, match.distance, match.similarity / 1_000
        found = best(self.search, document, self._near(row))
        if found:
            original, _ = self._queue[found.row]
            is_equal = found.distance == 0 and found.similarity == 1_000
            if self.search.mode == "directed":
                is_equal &= found.look == 1_000
            if not is_equal or original.digest != row.digest:
                self._duplicates.append((row.digest, original))
        return (found.row, found.distance, found.similarity / 1_000) if found else (-1, 0, 0.0)


def _are_thin_copies(one: Row, row: Row) -> bool:
    """Return whether an original has the text of a row, and both may be thin pages."""
    texts = [
        (each.kind, each.digest, each.fingerprint, each.doubts, each.sketch) for each in (one, row)
    ]
    return texts[0] == texts[1] and one.mark != NO_MARK and not one.mark & LONG


def _is_same_url(one: Row, row: Row) -> bool:
    return one.url == row.url


def _is_same_title(one: Row, row: Row) -> bool:
    title = row.mark >> TITLE_SHIFT
    return not (one.mark ^ row.mark) & int(HOST_AND_TITLE) and title.bit_count() >= TITLE_WORDS_MIN


def _content(row: Row) -> tuple[int, int, int]:
    return row.kind, row.fingerprint, row.digest
