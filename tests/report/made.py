"""Answers made for tests of the report."""

from __future__ import annotations

from typing import Any

from worker.core.document import (
    Changed,
    DuplicateOf,
    FormerVersion,
    FoundBy,
    MatchKind,
    Original,
    Outcome,
    Verdict,
)
from worker.report.tally import Tally
from worker.shell.messages import DeadLetter, encode_verdict

START_MS = 1_709_251_200_000


def verdict(number: int, **fields: Any) -> Verdict:
    """A new page, but for what is named."""
    made = Verdict(
        doc_id=f"d{number}", url=f"https://host{number % 3}.example/{number}",
        fetched_at_ms=START_MS + number * 1_000, outcome=Outcome.NEW, reason=None,
        duplicate_of=None, fingerprint=number, features=9, scheme="s", parameters="0" * 16,
        index_documents=number, log_offset=number, horizon_ms=None, source_topic="documents",
        source_partition=0, source_offset=number, decided_at_ms=START_MS + number * 2_000,
    )  # fmt: skip
    return made._replace(**fields)


def original(number: int) -> Original:
    """What a verdict says of the page of this number."""
    made = verdict(number)
    return Original(made.doc_id, made.url or "", made.fetched_at_ms or 0)


def copy(
    number: int, of: int, distance: int = 2, similarity: float = 0.97, **fields: Any
) -> Verdict:
    """A duplicate; token for token at a distance of 0."""
    kind = MatchKind.NEAR if distance else MatchKind.EXACT
    there = original(of)
    there = there._replace(doc_id=fields.pop("original_id", there.doc_id))
    match = DuplicateOf(
        there, kind, distance, similarity, fields.pop("same_url", False), FoundBy.DIRECTED
    )
    return verdict(number, outcome=Outcome.DUPLICATE, duplicate_of=match, **fields)


def former(number: int, changed: Changed) -> FormerVersion:
    """The version before, which is the page of this number."""
    return FormerVersion(original(number), changed, 0.5)


def dead(code: str, text: str = "too bad", doc_id: bytes | None = b"x") -> DeadLetter:
    return DeadLetter("documents", 1, 7, code, text, doc_id, None, is_pointer=False)


def taken(*answers: Verdict | DeadLetter) -> Tally:
    tally = Tally()
    for answer in answers:
        if isinstance(answer, DeadLetter):
            tally.take(answer, answer.line())
        else:
            tally.take(answer, encode_verdict(answer)[1])
    return tally
