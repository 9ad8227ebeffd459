"""
Checks the whole history of a deployment: every document must have one answer, which is the log's.

This file does no I/O. `verify.py` reads the topics and feeds them in this order, one message at a
time:

    1 log        replayed through a replica: what the answer to each source offset must be
    2 documents  which source offsets exist
    3 answers    the committed verdicts and dead letters, each compared with what the log says
    4 log        once more, if an answer lacks an optional field that the log's verdict has
    5 report     everything below the group's committed offsets is answered once, nothing else is

Fields are added to a verdict, never changed. So a verdict of an older version may lack a field
that this version writes, and what both have must be equal. Which fields it lacks is known when it
is read, behind the log. Such verdicts are noted, and the log is replayed again to compare them.

Where a log was renewed, its first record says which offsets the log before it had. Their answers
are counted, and no other log says what they should be: `carried` is their number.

A source topic that was deleted and created again has the same offsets again, and an answer does
not say of which of the two topics it is. If this log has decided it, its content does: an answer
with other content counts for the former topic, if that one still has none, and is wrong otherwise.
If the log before has, all that is known is how many answers an offset should have: one of each
topic. The first answer counts for the present topic. So if the present topic's answer is lost and
the former one's is there, the loss goes unnoticed.

Retention goes on deleting while all this is read. So what it may have deleted is asked for last,
after the answers have been read, and until then each document keeps the offset of its record.

Memory, in addition to the replica and the dead letters: 14 bytes per document, 8 bytes per verdict
on a text, 16 more per duplicate (48 for a moment, at the end), 23 for each verdict that lacks a
field, and 8 for each answer to an offset far from all that exist. Any program may have written such
an answer, so no page of offsets is made for it.
"""

from __future__ import annotations

import dataclasses
import hashlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
import orjson
import xxhash
from numpy.typing import NDArray

from worker.core.document import Outcome
from worker.errors import DocumentError
from worker.log.record import LogRecord, Source
from worker.log.replica import Replica
from worker.shell.admin.new_documents import NewDocuments
from worker.shell.admin.older_verdicts import OlderVerdicts, older_content
from worker.shell.admin.published import (
    OFFSET_BITS,
    AnswerMessage,
    checked_place,
    digest,
    digest_again,
    place_of,
)
from worker.shell.admin.remains import KnownCommits, deleted_before
from worker.shell.messages import (
    DeadLetter,
    VerdictBytes,
    decode_dead_letter,
    encode_answers,
)
from worker.shell.ports import UNREADABLE, InputMessage, LogEntry

# What an audit reads of the published answers, and what it finds.


class Defect(StrEnum):
    """The defects that an answer to a source offset can have."""

    LOST = "lost"  # committed by the group, but never answered
    REPEATED = "repeated"  # answered more than once
    WRONG = "wrong"  # the answer differs from the log's, or there should be none
    MUTUAL = "mutual"  # two documents, each a duplicate of the other


class Finding(NamedTuple):
    """One defect. Partition and offset are those of the source, or -1 if a message names none."""

    defect: Defect
    partition: int
    offset: int
    text: str


class Left(NamedTuple):
    """
    What retention and compaction have left of the topics of answers.

    Each list has the oldest messages of a partition that has lost its beginning, at most
    OLDEST_MAX, without those that `verify --mend` has published. Of a compacted topic nothing
    counts as left, since no trace shows what is gone.
    """

    verdicts: Sequence[Sequence[AnswerMessage]] = ()
    dead_letters: Sequence[Sequence[AnswerMessage]] = ()


class _DeletedBefore(NamedTuple):
    """
    The log offsets before which answers may have been deleted, by topic; see `remains.py`.

    Dead letters are few, and often all of them are gone.
    """

    verdicts: int
    dead_letters: int


class AnsweredPartition(NamedTuple):
    """How far log and answers go in one source partition. All are offsets of the source."""

    first: int = 0  # the first that the log covers
    covered: int = 0  # after the last one that it covers
    committed: int = 0  # what the authors of its records say was committed
    answered: int = 0  # after the last document with an answer
    aged: int = 0  # answers below may have been deleted by retention
    unanswered: int = 0  # how many offsets below `answered` never had an answer


# Fields of a report that JSON has in another form, or not at all.
_NOT_PLAIN = (
    "findings", "lost_answers", "partitions", "held_up", "foreign_offsets", "log_author",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Report:
    """
    Counts over the whole history. `defects` counts every defect by its kind, `findings` has the
    first of each.
    """

    documents: int  # source offsets that the topic or the log has
    answered: int  # source offsets with at least one answer
    outcomes: Mapping[str, int]  # new, duplicate, skipped, deleted, dead-letter
    unanswered: int  # not committed yet: they wait for a worker
    expired: int  # without an answer, because retention has deleted answers of that age
    defects: Mapping[str, int]
    findings: tuple[Finding, ...]
    log_records: int
    log_rows: int
    log_rows_repeated: int  # rows that were appended again, which every replica ignores
    new_documents: int | None = None  # messages of `topic_new`; None if they were not checked
    # Partition and offset of committed documents without an answer that the log has an answer for:
    # the first `LOST_ANSWERS_MAX` of them.
    lost_answers: tuple[tuple[int, int], ...] = ()
    # Of the partitions of the source topic that exists now.
    partitions: Mapping[int, AnsweredPartition] = dataclasses.field(default_factory=dict)
    # The last stable offset of each partition of the source that an open transaction holds up: what
    # stands behind it cannot be read, and is not counted.
    held_up: Mapping[int, int] = dataclasses.field(default_factory=dict)
    # Offsets of the group that no worker has committed with this log, by partition: they do not say
    # what is answered.
    foreign_offsets: Mapping[int, int] = dataclasses.field(default_factory=dict)
    # How many of the wrong answers are no answers at all: tombstones, another program's messages.
    no_answers: int = 0
    carried: int = 0  # answers that were decided by the log before this one: counted, not compared
    log_author: str | None = None  # "group/worker": who has begun the log

    @property
    def clean(self) -> bool:
        """
        Return whether nothing is lost, repeated, wrong or mutual, and the group's offsets say what
        is answered. Unanswered documents merely wait.
        """
        return not (any(self.defects.values()) or self.foreign_offsets)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as for JSON."""
        return {
            **{
                name: value
                for name, value in dataclasses.asdict(self).items()
                if name not in _NOT_PLAIN
            },
            "held_up": {str(number): offset for number, offset in self.held_up.items()},
            "foreign_offsets": {str(at): offset for at, offset in self.foreign_offsets.items()},
            "clean": self.clean,
            "findings": [finding._asdict() for finding in self.findings],
        }


FINDINGS_MAX = 20  # findings of each defect that are described; more are only counted
LOST_ANSWERS_MAX = 10_001  # kept to be published: one more than `mend` publishes

_PAGE_BITS = 12
_PAGE = 1 << _PAGE_BITS
_RECORD_MAX = (1 << 32) - 1
# What is known of a source offset: bits of `flags` below.
_LOGGED = 1  # the log has it
_DEAD = 2  # the log has a dead letter for it
_PRESENT = 4  # the source topic still has its message
_OFFSET = np.dtype(
    [
        ("digest", "<u8"),  # of the verdict's message that must have been published
        ("record", "<u4"),  # the log offset of the record that decided it
        ("flags", "u1"),
        ("answers", "u1"),  # how many were published
    ]
)


class _Dead(NamedTuple):
    """
    The text that a dead letter must have, and the message that it must carry (None if the topic no
    longer has it, or if it could not be read: another replica that leads now may have it whole).
    """

    code: str
    text: str
    message: tuple[bytes | None, int, bytes] | None  # key, bytes of the value, SHA-256 of the value

    def says(self, letter: DeadLetter) -> bool:
        """Return whether a dead letter has this text."""
        return (letter.code, letter.text) == (self.code, self.text)

    def is_in(self, letter: DeadLetter) -> bool:
        """Return whether a dead letter has the message, or points to it, as far as it is known."""
        return self.message is None or _carries(
            letter.key, letter.value, self.message, is_pointer=letter.is_pointer
        )


LogAnswer = tuple[Source, int, VerdictBytes | DocumentError]  # source and offset of the document


def replayed_answers(replica: Replica, log: Iterable[LogEntry], topic: str) -> Iterator[LogAnswer]:
    """
    Apply the records of a log, and yield the answer of each document as a worker publishes it.

    Args:
        replica: stands where the records begin.
        topic: the source topic's name.
    """
    for entry in log:
        record = replica.acceptance.accept(entry.value, entry.offset)
        if isinstance(record, LogRecord):
            replica.apply(record, entry.offset, entry.timestamp_ms)
            yield from _answers_of_last(replica, topic)


def _answers_of_last(replica: Replica, topic: str) -> Iterator[LogAnswer]:
    """Yield the answers of the last applied record, and let the replica forget them."""
    for source, kept in replica.pending.items():
        offsets = [offset for rows in kept for offset in rows.offsets()]
        answers = replica.answers(source, offsets, topic, encode_answers)
        for offset, answer in zip(offsets, answers, strict=True):
            yield source, offset, answer
    replica.pending.clear()


@dataclasses.dataclass(eq=False)
class _History:
    """
    Takes the log, the documents and the answers of a deployment, in this order. Then `report`
    returns the defects. See `check`.
    """

    replica: Replica
    topic: str
    topic_id: bytes
    new: NewDocuments | None

    def __post_init__(self) -> None:
        # Pages of 4,096 offsets in a row, by their number.
        self._pages: dict[Source, dict[int, NDArray[np.void]]] = {}
        self._dead: dict[tuple[Source, int], _Dead] = {}
        self._commits = KnownCommits()
        self._defects: Counter[str] = Counter({defect.value: 0 for defect in Defect})
        self._findings: list[Finding] = []
        self._lost_answers: list[tuple[int, int]] = []
        self._outcomes: Counter[str] = Counter()
        # Hashes of doc_ids: of each document judged by its text; of duplicates, of their originals.
        self._texts, self._duplicates, self._originals = array("Q"), array("Q"), array("Q")
        self._strays = array("Q")  # place keys of answers to offsets far from all that exist
        self._records = self._rows = self._repeated = 0
        self._no_answers = 0
        self._carried: Counter[Source] = Counter()  # offsets below were another log's
        self._carried_answers = 0
        self.older = OlderVerdicts()

    def take_record(self, entry: LogEntry) -> None:
        """Take the log's next record. Its answers must have been published."""
        record = self.replica.acceptance.accept(entry.value, entry.offset)
        self._records += 1
        if not isinstance(record, LogRecord):
            return
        applied = self.replica.apply(record, entry.offset, entry.timestamp_ms)
        self._rows += len(record)
        self._repeated += applied.repeated
        for source, offset, answer in _answers_of_last(self.replica, self.topic):
            self._expect(source, offset, answer, entry.offset)
        for section in record.sections:
            self._commits.take(section.source, section.committed, entry.offset)
            if section.is_carried:
                self._carried[section.source] = max(self._carried[section.source], section.stop)

    def _expect(
        self, source: Source, offset: int, answer: VerdictBytes | DocumentError, log_offset: int
    ) -> None:
        known = self._at(source, offset)
        known["flags"] |= _LOGGED
        known["record"] = min(log_offset, _RECORD_MAX)
        if isinstance(answer, DocumentError):
            known["flags"] |= _DEAD
            self._dead[source, offset] = _Dead(answer.code, answer.text, None)
        else:
            known["digest"] = digest(answer.key, answer.value)
            if self.new is not None:
                self.new.expect(source, offset, answer, log_offset)

    def take_document(self, message: InputMessage) -> None:
        """Take a message of the source topic as it is now."""
        source = Source(self.topic_id, message.partition)
        known = self._at(source, message.offset)
        known["flags"] |= _PRESENT
        is_dead = known["flags"] & _DEAD
        if is_dead and self._dead[source, message.offset].code != UNREADABLE:
            value = message.value or b""
            content = message.key, len(value), hashlib.sha256(value).digest()
            self._dead[source, message.offset] = self._dead[source, message.offset]._replace(
                message=content
            )

    def take_verdict(self, published: AnswerMessage) -> None:
        """Take a committed message of the verdicts' topic."""
        try:
            fields = orjson.loads(published.value or b"")
            numbers = int(fields["source"]["partition"]), int(fields["source"]["offset"])
            partition, offset = checked_place(*numbers)
            outcome = Outcome(fields["verdict"])
            doc_id = _hash(fields["doc_id"])
            is_duplicate = outcome is Outcome.DUPLICATE
            original = _hash(fields["duplicate_of"]["doc_id"]) if is_duplicate else 0
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            return self._find_no_answer(f"not a verdict ({error!r}): {_shown(published.value)}")
        self._outcomes[outcome.value] += 1
        if outcome in (Outcome.NEW, Outcome.DUPLICATE):
            self._texts.append(doc_id)
        if is_duplicate:
            self._duplicates.append(doc_id)
            self._originals.append(original)
        content = digest(published.key, published.value)
        source = self._wanting(partition, offset, content)
        if source is None:
            source = self._wanting(partition, offset, digest_again(published))
        places = self._places(partition, offset)
        is_logged = any(known["flags"] & _LOGGED for _, known in places)
        if source is None and is_logged:
            older = older_content(published)
            if older is not None:
                self.older.add(partition, offset, *older)
                return None
        carriers = self._carriers(partition, offset)
        if source in carriers or (source is None and self._may_be_carried(carriers, offset)):
            return self._count_carried(carriers, offset, content)
        self._count_answer(source or Source(self.topic_id, partition), offset)
        if source is None:
            reason = "not what the log says" if is_logged else "the log has no such offset"
            if fields["source"].get("topic") != self.topic:
                reason = (
                    f"the verdict on a document of another topic than {self.topic}: if another "
                    "group wrote it, give that one a --topic-verdicts of its own"
                )
            self._find(Defect.WRONG, partition, offset, f"{reason}: {_shown(published.value)}")
        return None

    def _wanting(self, partition: int, offset: int, digest: int) -> Source | None:
        """Return the source whose answer at this place must have this digest."""
        places = self._places(partition, offset)
        return next(
            (source for source, known in places if digest and int(known["digest"]) == digest), None
        )

    def settle_older(self, answers: Iterable[LogAnswer]) -> None:
        """
        Compare the verdicts that lack fields with the log's answers, which are all there once more.
        Those are wrong that differ in other fields as well.
        """
        for source, offset, answer in answers:
            if not isinstance(answer, DocumentError):
                for _ in range(self.older.settle(source.partition, offset, answer)):
                    self._count_answer(source, offset)
        for partition, offset, lacking, content in self.older.unsettled():
            carriers = self._carriers(partition, offset)
            if self._may_be_carried(carriers, offset, content):
                self._count_carried(carriers, offset, content)
                continue
            self._count_answer(Source(self.topic_id, partition), offset)
            text = f"not what the log says, in more than the fields it lacks: {', '.join(lacking)}"
            self._find(Defect.WRONG, partition, offset, text)

    def take_dead_letter(self, published: AnswerMessage) -> None:
        """Take a committed message of the dead letters' topic."""
        try:
            letter = decode_dead_letter(published.key, published.value, published.headers)
            partition, offset = checked_place(letter.source_partition, letter.source_offset)
        except (DocumentError, ValueError) as error:
            return self._find_no_answer(str(error))
        self._outcomes["dead-letter"] += 1
        matching = [
            source
            for source, known in self._places(partition, offset)
            if known["flags"] & _DEAD and self._dead[source, offset].says(letter)
        ]
        complete = [source for source in matching if self._dead[source, offset].is_in(letter)]
        carriers = self._carriers(partition, offset)
        if complete or self._may_be_carried(carriers, offset):
            # Unlike verdicts, the dead letters of two topics may be equal.
            source = self._unanswered([*complete, *carriers], offset)
            self._carried_answers += source in carriers
            return self._count_answer(source, offset)
        self._count_answer(matching[-1] if matching else Source(self.topic_id, partition), offset)
        text = f"a dead letter that the log has not: {letter.code}"
        if matching:
            text = f"the dead letter ({letter.code}) lacks the original message"
        return self._find(Defect.WRONG, partition, offset, text)

    def _unanswered(self, sources: Sequence[Source], offset: int) -> Source:
        """
        Return the source that an answer counts for, of those whose answer it may be: the present
        topic's if it has none yet, else the first without one.
        """
        ordered = sorted(sources, key=lambda source: source.topic_id != self.topic_id)
        silent = (one for one in ordered if not self._at(one, offset)["answers"])
        return next(silent, ordered[0])

    def _carriers(self, partition: int, offset: int) -> list[Source]:
        """Return the incarnations of a partition of which the log before this one had an offset."""
        return [
            source
            for source, stop in self._carried.items()
            if source.partition == partition and offset < stop
        ]

    def _may_be_carried(self, carriers: Sequence[Source], offset: int, content: int = 0) -> bool:
        """
        Return whether an answer that this log does not have may be one of the log before.

        Where this log has decided the offset, it is one only if the log before had decided it for
        a source topic that still lacks its answer, or whose answer has the same content.
        """
        if not carriers:
            return False
        partition = carriers[0].partition
        if not any(known["flags"] & _LOGGED for _, known in self._places(partition, offset)):
            return True
        known = [self._at(source, offset) for source in carriers]
        return any(not one["answers"] or (content and one["digest"] == content) for one in known)

    def _count_carried(self, carriers: Sequence[Source], offset: int, content: int) -> None:
        """
        Count an answer that the log before has decided.

        Args:
            carriers: the sources that it may be of.
            content: its digest, by which the same one again is of the same source; 0: none.
        """
        self._carried_answers += 1
        same = (one for one in carriers if content and self._at(one, offset)["digest"] == content)
        source = next(same, None) or self._unanswered(carriers, offset)
        self._at(source, offset)["digest"] = content
        self._count_answer(source, offset)

    def _count_answer(self, source: Source, offset: int) -> None:
        is_near = offset >> _PAGE_BITS in self._pages.get(source, ())
        if not is_near and not offset < self._carried[source]:
            self._strays.append(source.partition << OFFSET_BITS | offset)
            return
        known = self._at(source, offset)
        known["answers"] = min(int(known["answers"]) + 1, 255)
        if known["answers"] > 1:
            self._find_repeated(source.partition, offset, int(known["answers"]))

    def _count_strays(self) -> int:
        """Return how many offsets far from all that exist have answers; find repeated ones."""
        places, counts = np.unique(_as_array(self._strays), return_counts=True)
        for at in np.flatnonzero(counts > 1).tolist():
            partition, offset = divmod(int(places[at]), 1 << OFFSET_BITS)
            for number in range(2, int(counts[at]) + 1):
                self._find_repeated(partition, offset, number)
        return len(places)

    def _at(self, source: Source, offset: int) -> Any:
        """Return the entry of a source offset, an `_OFFSET`, which the caller may change."""
        pages = self._pages.setdefault(source, {})
        number = offset >> _PAGE_BITS
        if number not in pages:
            pages[number] = np.zeros(_PAGE, _OFFSET)
        return pages[number][offset & (_PAGE - 1)]

    def _places(self, partition: int, offset: int) -> Iterator[tuple[Source, Any]]:
        """
        Return the places that an answer may belong to.

        A verdict does not say which incarnation of the topic it means.
        """
        for source, pages in self._pages.items():
            if source.partition == partition and offset >> _PAGE_BITS in pages:
                yield source, self._at(source, offset)

    def _find(self, defect: Defect, partition: int, offset: int, text: str) -> None:
        if self._defects[defect] < FINDINGS_MAX:
            self._findings.append(Finding(defect, partition, offset, text))
        self._defects[defect] += 1

    def _find_repeated(self, partition: int, offset: int, number: int) -> None:
        self._find(Defect.REPEATED, partition, offset, f"answer number {number}")

    def _find_no_answer(self, text: str) -> None:
        """Note a message that is neither a verdict nor a dead letter."""
        self._no_answers += 1
        self._find(Defect.WRONG, -1, -1, text)

    def deleted_before(self, left: Left) -> _DeletedBefore:
        """Return the log offsets before which answers may have been deleted."""
        verdicts, dead_letters = (
            deleted_before([self._record_of(message) for message in oldest] for oldest in topic)
            for topic in left
        )
        return _DeletedBefore(verdicts, dead_letters)

    def _record_of(self, published: AnswerMessage) -> int | None:
        """
        Return the first record that knows an answer to be committed; None: none does.

        If several incarnations of the source topic have its offset, this is the last record of
        theirs, so that it comes behind the answer in any case.
        """
        place = place_of(published)
        if place is None:
            return None
        partition, offset = place
        records = [
            self._commits.record_of(source, offset)
            for source in self.replica.coverage
            if source.partition == partition
            and not self.replica.missing(source, offset, offset + 1)
        ]
        known = [record for record in records if record is not None]
        return max(known) if known and len(known) == len(records) else None

    def _is_aged(self, page: NDArray[np.void], before: _DeletedBefore) -> NDArray[np.bool_]:
        """Return whose answers may have been deleted by retention, of the offsets of a page."""
        is_dead = (page["flags"] & _DEAD) > 0
        stop = np.where(is_dead, before.dead_letters, before.verdicts)
        return ((page["flags"] & _LOGGED) > 0) & (page["record"] < stop)

    def report(self, committed: Mapping[int, int | None], left: Left) -> Report:
        """Compute the report. Call it once, at the end."""
        before = self.deleted_before(left)
        documents = unanswered = expired = 0
        answered = self._count_strays()
        for source, pages in sorted(self._pages.items()):
            stop = (committed.get(source.partition) or 0) if source.topic_id == self.topic_id else 0
            for number, page in sorted(pages.items()):
                offsets = np.arange(number << _PAGE_BITS, (number + 1) << _PAGE_BITS)
                exists = (page["flags"] & (_LOGGED | _PRESENT)) > 0
                silent = exists & (page["answers"] == 0)
                aged = silent & self._is_aged(page, before)
                if any(before):  # nothing says how old an answer of the log before is
                    aged |= silent & (offsets < self._carried[source])
                if source.topic_id != self.topic_id:
                    aged = silent  # no answer is possible for a deleted topic
                lost = np.flatnonzero(silent & ~aged & (offsets < stop)).tolist()
                for at in lost:
                    is_logged = page["flags"][at] & _LOGGED
                    logged = "the log has its verdict" if is_logged else "not in the log either"
                    if offsets[at] < self._carried[source]:
                        logged = "the log before this one had its verdict"
                    if is_logged and len(self._lost_answers) < LOST_ANSWERS_MAX:
                        self._lost_answers.append((source.partition, int(offsets[at])))
                    self._find(
                        Defect.LOST,
                        source.partition,
                        int(offsets[at]),
                        f"committed and unanswered, {logged}",
                    )
                documents += int(exists.sum())
                answered += int((page["answers"] > 0).sum())
                expired += int(aged.sum())
                unanswered += int(silent.sum() - aged.sum()) - len(lost)
        self._find_mutual()
        if self.new is not None:
            stops = {Source(self.topic_id, number): stop or 0 for number, stop in committed.items()}
            missing = self.new.missing(stops, self._commits, has_carried=bool(self._carried))
            for source, offset, text in missing:
                self._find(Defect.LOST, source.partition, offset, text)
            # What the log before had forwarded stands in the topic, too.
            for text in self.new.invented() if not self._carried else ():
                self._find(Defect.WRONG, -1, -1, text)
        declared = self.replica.acceptance.declared
        return Report(
            documents, answered, dict(sorted(self._outcomes.items())), unanswered, expired,
            dict(self._defects), tuple(self._findings), self._records, self._rows, self._repeated,
            None if self.new is None else len(self.new), tuple(self._lost_answers),
            {source.partition: self._partition(source, before)
             for source in {*self._pages, *self.replica.coverage}
             if source.topic_id == self.topic_id},
            no_answers=self._no_answers,
            carried=self._carried_answers,
            log_author=None if declared is None else declared.author,
        )  # fmt: skip

    def _partition(self, source: Source, before: _DeletedBefore) -> AnsweredPartition:
        """Return how far log and answers go in a partition."""
        reach = self.replica.reach(source)
        aged = 0
        answered = 0
        silent: list[int] = []  # offsets of the log that never had an answer
        # None, if all that the log has of it was carried over from the log before.
        for number, page in sorted(self._pages.get(source, {}).items()):
            begin = number << _PAGE_BITS
            with_answer = np.flatnonzero(page["answers"])
            if len(with_answer):
                answered = begin + int(with_answer[-1]) + 1
            is_aged = self._is_aged(page, before)
            if is_aged.any():
                aged = begin + int(np.flatnonzero(is_aged)[-1]) + 1
            is_silent = ((page["flags"] & _LOGGED) > 0) & (page["answers"] == 0) & ~is_aged
            silent += (begin + np.flatnonzero(is_silent)).tolist()
        unanswered = sum(offset < answered for offset in silent)
        if answered > reach.first:  # offsets that no record covers were skipped
            gaps = self.replica.missing(source, reach.first, answered)
            unanswered += sum(gap.stop - gap.first for gap in gaps)
        committed = self._commits.last(source)
        return AnsweredPartition(reach.first, reach.stop, committed, answered, aged, unanswered)

    def _find_mutual(self) -> None:
        """
        Find documents that are duplicates of each other. Only documents that arrived once count,
        since versions of a document may be duplicates of each other's versions.
        """
        duplicates, originals = _as_array(self._duplicates), _as_array(self._originals)
        keys = duplicates ^ originals  # both directions of a pair have one
        ordered = np.sort(keys)
        again = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
        if not len(again):
            return
        at = np.searchsorted(again, keys).clip(max=len(again) - 1)
        rows = np.flatnonzero(again[at] == keys)
        pairs = set(zip(duplicates[rows].tolist(), originals[rows].tolist(), strict=True))
        texts = np.sort(_as_array(self._texts))
        for one, other in sorted(pairs):
            if one < other and (other, one) in pairs and _once(texts, one) and _once(texts, other):
                self._find(Defect.MUTUAL, -1, -1, f"doc_ids with XXH3 {one:016x} and {other:016x}")


def check(  # noqa: PLR0913  # the parts of a history
    replica: Replica,
    topic: str,
    topic_id: bytes,
    *,
    log: Iterable[LogEntry],
    documents: Iterable[InputMessage],
    answers: Iterable[AnswerMessage],
    committed: Mapping[int, int | None],
    left: Callable[[], Left] = Left,
    new: NewDocuments | None = None,
    again: Callable[[], tuple[Replica, Iterable[LogEntry]]] | None = None,
) -> Report:
    """
    Check a whole history against the rules.

    Args:
        replica: a replica at the log's beginning: empty, or with the log's base. Like a worker, it
            refuses another definition.
        topic: the source topic's name.
        topic_id: the topic's present id. The log may know earlier topics with this name.
        log: all records.
        documents: the messages of the source topic.
        answers: the committed verdicts and dead letters.
        committed: the group's offset for each partition, read before the end of the answers was.
        left: called after the answers were read: the oldest of them that retention has left.
        new: the messages of `topic_new`, which are also compared with the log.
        again: returns a replica like `replica`, and all records once more. It is called if verdicts
            lack optional fields; without it, these are wrong.

    Returns:
        Counts, and the first defects of each kind.

    Cost: some 15 µs per row of the log, 3 µs per document, 5 µs per answer. With `again`, once more
    what the log takes.
    """
    history = _History(replica, topic, topic_id, new)
    for entry in log:
        history.take_record(entry)
    for message in documents:
        history.take_document(message)
    for answer in answers:
        if answer.is_dead_letter:
            history.take_dead_letter(answer)
        else:
            history.take_verdict(answer)
    answers_left = left()
    answers_again: Iterable[LogAnswer] = ()
    if history.older and again is not None:
        answers_again = replayed_answers(*again(), topic)
    history.settle_older(answers_again)
    return history.report(committed, answers_left)


def _as_array(column: array[int]) -> NDArray[np.uint64]:
    return np.frombuffer(column, np.uint64)


def _once(ordered: NDArray[np.uint64], value: int) -> bool:
    """Return whether a value appears once among ordered ones."""
    wanted = np.uint64(value)
    return bool(np.searchsorted(ordered, wanted, "right") - np.searchsorted(ordered, wanted) == 1)


def _carries(
    key: bytes | None,
    value: bytes | None,
    content: tuple[bytes | None, int, bytes],
    *,
    is_pointer: bool,
) -> bool:
    """Return whether a dead letter has the message that it is about, or points to it."""
    wanted_key, size, sha256 = content
    if not is_pointer:
        return key == wanted_key and hashlib.sha256(value or b"").digest() == sha256
    try:
        pointer = orjson.loads(value or b"")
    except orjson.JSONDecodeError:  # another program has written it
        return False
    if not isinstance(pointer, dict):
        return False
    return bool(pointer.get("value_bytes") == size and pointer.get("value_sha256") == sha256.hex())


def _hash(doc_id: str) -> int:
    return xxhash.xxh3_64_intdigest(doc_id.encode("utf-8", "surrogatepass"))


def _shown(value: bytes | None) -> str:
    return (value or b"")[:300].decode("utf-8", "replace")
