"""Why one document got its verdict: its answers, its original's, or the nearest original where there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from schemas.timestamp import format_timestamp
from worker.core.verdict import Outcome, Verdict
from worker.errors import StopError
from worker.report.answers import Answer
from worker.shell.messages import DeadLetter


class Explanation(NamedTuple):
    """One document's answers and what they refer to."""

    answers: list[Verdict | DeadLetter]  # in the order in which they were read; the last one is explained
    other: Verdict | None  # the original's own verdict; of a new document the nearest original before it
    originals: int  # those before a new document that were looked at

    @property
    def last(self) -> Verdict | DeadLetter:
        """The answer that is explained."""
        return self.answers[-1]


def when(timestamp_ms: int) -> str:
    """Return a time as verdicts have it."""
    return format_timestamp(timestamp_ms)


def explain(read: Callable[[], Iterable[Answer]], name: str) -> Explanation:
    """
    Find what there is to say of a document.

    Args:
        read: all answers; called twice.
        name: doc_id or URL.
    Raises:
        StopError: there is no answer to it.

    Cost: two passes over the answers, some 25 us each.
    """
    answers = [one.answer for one in read() if _is_named(one.answer, name)]
    if not answers:
        raise StopError(f"there is no verdict on {name!r}: it takes a doc_id or a URL, as a verdict has them")
    last = answers[-1]
    if isinstance(last, DeadLetter) or last.fingerprint is None:
        return Explanation(answers, None, 0)
    if last.duplicate_of is None:
        return Explanation(answers, *_nearest(read(), last))
    wanted = last.duplicate_of.original
    found = [
        one.answer
        for one in read()
        if isinstance(one.answer, Verdict)
        and (one.answer.doc_id, one.answer.fetched_at_ms) == (wanted.doc_id, wanted.fetched_at_ms)
        and one.answer.outcome is Outcome.NEW
    ]
    return Explanation(answers, found[0] if found else None, 0)


def _is_named(answer: Verdict | DeadLetter, name: str) -> bool:
    return answer.doc_id == name or (isinstance(answer, Verdict) and answer.url == name)


def _nearest(answers: Iterable[Answer], last: Verdict) -> tuple[Verdict | None, int]:
    """Return the nearest original before a document, of equals the earlier, and how many there are."""
    nearest: tuple[int, int, int] | None = None
    found: Verdict | None = None
    seen = set[str]()
    for _, one in answers:
        if isinstance(one, DeadLetter) or one.outcome is not Outcome.NEW or not _is_before(one, last):
            continue
        assert one.fingerprint is not None and last.fingerprint is not None  # a new document has one
        seen.add(one.doc_id)
        rank = ((one.fingerprint ^ last.fingerprint).bit_count(), one.log_offset, one.source_offset)
        if nearest is None or rank < nearest:
            nearest, found = rank, one
    return found, len(seen)


def _is_before(one: Verdict, last: Verdict) -> bool:
    if one.doc_id == last.doc_id or one.parameters != last.parameters:
        return False
    place, other = (one.source_topic, one.source_partition), (last.source_topic, last.source_partition)
    if one.log_offset == last.log_offset:  # of one batch: in the order of its partition
        return place == other and one.source_offset < last.source_offset
    return one.log_offset < last.log_offset
