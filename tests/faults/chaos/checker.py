"""Whether a run was right: its topics, as they were read at its end, held against a replay and a plain oracle."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from tests.oracle import Oracle, Said, said
from worker.core.search import SearchRules
from worker.errors import DocumentError
from worker.log.record import Source
from worker.log.replica import Replica
from worker.log.rules import Definition
from worker.shell.admin.audit import AnswerMessage, Defect, NewDocuments, Report, check
from worker.shell.messages import decode_dead_letter, decode_verdict
from worker.shell.ports import LogEntry, SourceMessage

FINDINGS_MAX = 50


class Topics(NamedTuple):
    """All that a deployment has written, and what was fed."""

    definition: Definition
    topic: str
    topic_id: bytes
    log: Sequence[LogEntry]
    documents: Sequence[SourceMessage]
    answers: Sequence[AnswerMessage]
    committed: Mapping[int, int | None]
    fed: int
    new: Sequence[tuple[bytes | None, bytes | None]]  # key, value of the new documents


class Finding(NamedTuple):
    """One wrong answer."""

    kind: str
    text: str


class Result(NamedTuple):
    """The count of what is wrong, the first findings, and the report of `neardup verify`."""

    lost: int
    repeated: int
    wrong: int
    findings: tuple[Finding, ...]
    report: Report

    @property
    def clean(self) -> bool:
        """Return whether nothing is wrong."""
        return not (self.lost or self.repeated or self.wrong)


def judge(topics: Topics, *, has_new: bool = True) -> Result:
    """
    Hold a whole history against the rules, twice: by the check of `neardup verify`, and by the plain oracle.

    Lost is what was fed and has no committed answer, for whatever reason; two documents that duplicate each other are
    wrong, and so is a dead letter that lacks its message.

    Args:
        has_new: the deployment has a topic of new documents.
    """
    new = NewDocuments(is_whole=True)
    for message in topics.new:
        new.take(*message)
    report = check(
        Replica(topics.definition),
        topics.topic,
        topics.topic_id,
        log=topics.log,
        documents=topics.documents,
        answers=topics.answers,
        committed=topics.committed,
        new=new if has_new else None,
    )
    findings = [Finding(found.defect.value, f"[{found.partition}] {found.offset}: {found.text}")
                for found in report.findings]  # fmt: skip
    strange = _disagreements(topics)
    findings += [Finding("oracle", text) for text in strange]
    defects = report.defects
    return Result(
        defects[Defect.LOST] + report.unanswered + max(topics.fed - report.documents, 0),
        defects[Defect.REPEATED],
        max(defects[Defect.WRONG], len(strange)) + defects[Defect.MUTUAL],
        tuple(findings[:FINDINGS_MAX]),
        report,
    )


def _disagreements(topics: Topics) -> list[str]:
    """Return the answers that the oracle does not give."""
    oracle = Oracle.of(topics.definition)
    for entry in topics.log:
        oracle.apply(entry.value, entry.timestamp_ms)
    found = []
    for published in topics.answers:
        try:
            place, answer = read_answer(published)
        except DocumentError as error:
            found.append(f"neither verdict nor dead letter: {error}")
            continue
        wanted = oracle.answers.get((Source(topics.topic_id, place[0]), place[1]))
        if answer != wanted:
            found.append(f"{list(place)}: answered {answer}, the oracle says {wanted}")
    return found


def read_answer(published: AnswerMessage) -> tuple[tuple[int, int], Said]:
    """Return which source offset an answer is for, and what it says."""
    if published.is_dead_letter:
        letter = decode_dead_letter(published.key, published.value, published.headers)
        return (letter.source_partition, letter.source_offset), said(DocumentError(letter.code, letter.text))
    verdict = decode_verdict(published.value or b"")
    return (verdict.source_partition, verdict.source_offset), said(verdict)


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def save(topics: Topics, path: Path) -> None:
    """Write topics into a file, one JSON object a line."""
    definition = topics.definition
    lines: list[dict[str, Any]] = [
        {"definition": [definition.scheme, definition.parameters, astuple(definition.search), definition.pages],
         "topic": topics.topic, "topic_id": topics.topic_id.hex(), "fed": topics.fed,
         "committed": {str(part): offset for part, offset in topics.committed.items()}}
    ]  # fmt: skip
    lines += [{"log": [entry.offset, entry.timestamp_ms, _text(entry.value)]} for entry in topics.log]
    lines += [{"document": [m.partition, m.offset, _text(m.key), _text(m.value)]} for m in topics.documents]
    lines += [
        {"answer": [_text(a.key), _text(a.value), [[name, _text(value)] for name, value in a.headers],
                    a.is_dead_letter]}
        for a in topics.answers
    ]  # fmt: skip
    lines += [{"new": [_text(key), _text(value)]} for key, value in topics.new]
    path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))


def load(path: Path) -> Topics:
    """Read what `save` wrote."""
    head, *lines = map(orjson.loads, path.read_bytes().splitlines())
    scheme, parameters, search, pages = head["definition"]
    return Topics(
        Definition(scheme, parameters, SearchRules(*search), pages=pages),
        head["topic"],
        bytes.fromhex(head["topic_id"]),
        [LogEntry(o, t, _bytes(v) or b"") for line in lines if "log" in line for o, t, v in [line["log"]]],
        [SourceMessage(p, o, _bytes(k), _bytes(v)) for line in lines if "document" in line
         for p, o, k, v in [line["document"]]],
        [AnswerMessage(_bytes(k), _bytes(v), tuple((name, _bytes(value) or b"") for name, value in h), d)
         for line in lines if "answer" in line for k, v, h, d in [line["answer"]]],
        {int(part): offset for part, offset in head["committed"].items()},
        head["fed"],
        [(_bytes(k), _bytes(v)) for line in lines if "new" in line for k, v in [line["new"]]],
    )  # fmt: skip
