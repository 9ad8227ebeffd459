"""
Whether a run was right: its topics, as they were read at its end, held against a replay and a plain
oracle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tests.oracle import Oracle, Said, said
from worker.errors import DocumentError
from worker.log.record import Source
from worker.log.replica import Replica
from worker.log.rules import Definition
from worker.shell.admin.audit import Defect, Report, check
from worker.shell.admin.new_documents import NewDocuments
from worker.shell.admin.published import AnswerMessage
from worker.shell.messages import decode_dead_letter, decode_verdict
from worker.shell.ports import Headers, InputMessage, LogEntry

FINDINGS_MAX = 50


class Topics(NamedTuple):
    """All that a deployment has written, and what was fed."""

    definition: Definition
    topic: str
    topic_id: bytes
    log: Sequence[LogEntry]
    documents: Sequence[InputMessage]
    answers: Sequence[AnswerMessage]
    committed: Mapping[int, int | None]
    fed: int
    # Key, value, headers of the new documents.
    new: Sequence[tuple[bytes | None, bytes | None, Headers]]


class Result(NamedTuple):
    """The count of what is wrong, the first findings, and the report of `neardup verify`."""

    lost: int
    repeated: int
    wrong: int
    findings: tuple[str, ...]
    report: Report

    @property
    def clean(self) -> bool:
        """Return whether nothing is wrong."""
        return not (self.lost or self.repeated or self.wrong)


def judge(
    topics: Topics,
    *,
    has_new: bool = True,
    replica: Replica | None = None,
    base: Sequence[LogEntry] = (),
) -> Result:
    """
    Hold a whole history against the rules, twice: by the check of `neardup verify`, and by the
    plain oracle.

    Lost is what was fed and has no committed answer; two documents that duplicate each other are
    wrong, and so is a dead letter or new document that is not as it came. `replica` and `base` are
    the log's beginning and what made it.
    """
    new = NewDocuments(is_whole=True)
    for key, value, _ in topics.new:
        new.take(key, value)
    report = check(
        replica or Replica(topics.definition),
        topics.topic,
        topics.topic_id,
        log=topics.log,
        documents=topics.documents,
        answers=topics.answers,
        committed=topics.committed,
        new=new if has_new else None,
    )
    findings = [
        f"{one.defect.value}: [{one.partition}] {one.offset}: {one.text}" for one in report.findings
    ]
    answered, strange = _beside_the_oracle(topics, base)
    findings += [f"oracle: {text}" for text in strange]
    defects = report.defects
    lost = defects[Defect.LOST] + report.unanswered + max(topics.fed - report.documents, 0)
    return Result(
        max(lost, topics.fed - len(answered)),
        max(defects[Defect.REPEATED], answered.total() - len(answered)),
        max(defects[Defect.WRONG], len(strange)) + defects[Defect.MUTUAL],
        tuple(findings[:FINDINGS_MAX]),
        report,
    )


def _beside_the_oracle(
    topics: Topics, base: Sequence[LogEntry]
) -> tuple[Counter[tuple[int, int]], list[str]]:
    """
    Return how often each source offset is answered, and what the oracle does not say or not
    forward.
    """
    oracle = Oracle.of(topics.definition, base)
    for entry in topics.log:
        oracle.apply(entry.value, entry.timestamp_ms)
    wanted = {
        (source.partition, offset): answer
        for (source, offset), answer in oracle.answers.items()
        if source.topic_id == topics.topic_id
    }
    answered, found = Counter[tuple[int, int]](), []
    for published in topics.answers:
        try:
            place, answer = read_answer(published)
        except DocumentError as error:
            found.append(f"neither verdict nor dead letter: {error}")
            continue
        answered[place] += 1
        if answer != wanted.get(place):
            found.append(f"{list(place)}: answered {answer}, the oracle says {wanted.get(place)}")
    forwarded = Counter[tuple[bytes | None, bytes | None, Headers]](
        (oracle.doc_ids[Source(topics.topic_id, partition), offset].encode(), value, headers)
        for partition, offset, _, value, _, headers, *_ in topics.documents
        if (of := wanted.get((partition, offset))) and of[0] in ("new", "deleted")
    )
    found += [
        f"in the topic of new documents: {one}"
        for one in (Counter(topics.new) - forwarded).elements()
    ]
    return answered, found


def read_answer(published: AnswerMessage) -> tuple[tuple[int, int], Said]:
    """Return which source offset an answer is for, and what it says."""
    if published.is_dead_letter:
        letter = decode_dead_letter(published.key, published.value, published.headers)
        return (letter.source_partition, letter.source_offset), said(
            DocumentError(letter.code, letter.text)
        )
    verdict = decode_verdict(published.value or b"")
    return (verdict.source_partition, verdict.source_offset), said(verdict)
