"""What comes again: the same message, the same doc_id with other content, a deletion, and the document after it."""

from __future__ import annotations

import pytest

from tests.log.test_replica import DEFINITION, TOPIC
from tests.oracle import Oracle
from worker.core.verdict import Verdict
from worker.log.record import Row, RowKind, Section, Source, decode, encode
from worker.log.replica import Replica

SOURCE = Source(TOPIC, 0)
STORY, OTHER = 0x1234_5678_9ABC_DEF0, 0x0F0F_0F0F_F0F0_F0F0
NEAR = STORY ^ 0b101  # two bits from STORY

Step = tuple[str, int | None]
"""A doc_id, and the fingerprint of what came under it; None deletes it."""

HISTORIES: dict[str, list[tuple[Step, str]]] = {
    "an original again, and again": [
        (("a", STORY), "new"),
        (("a", STORY), "new: redelivered"),
        (("a", STORY), "new: redelivered"),
    ],
    "a duplicate again": [
        (("a", STORY), "new"),
        (("b", NEAR), "duplicate of a"),
        (("b", NEAR), "duplicate of a"),
    ],
    "the same doc_id with other content: the former version is gone": [
        (("a", STORY), "new"),
        (("a", OTHER), "new"),
        (("b", STORY), "new"),
        (("c", OTHER), "duplicate of a"),
    ],
    "an original edited a little is new, not a duplicate of its former self": [
        (("a", STORY), "new"),
        (("a", NEAR), "new"),
        (("b", STORY), "duplicate of a"),
    ],
    "an original becomes a copy of another: its own duplicates stay what they were": [
        (("a", STORY), "new"),
        (("b", NEAR), "duplicate of a"),
        (("c", OTHER), "new"),
        (("a", OTHER), "duplicate of c"),
        (("b", NEAR), "new"),
    ],
    "a duplicate comes with content of its own": [
        (("a", STORY), "new"),
        (("b", NEAR), "duplicate of a"),
        (("b", OTHER), "new"),
        (("c", STORY), "duplicate of a"),
    ],
    "a deletion, twice, and the document again": [
        (("a", STORY), "new"),
        (("a", None), "deleted: removed"),
        (("a", None), "deleted: not-an-original"),
        (("a", STORY), "new"),
        (("a", STORY), "new: redelivered"),
    ],
    "deletion of an original that has duplicates: the next like them is new, the others find that one": [
        (("a", STORY), "new"),
        (("b", NEAR), "duplicate of a"),
        (("a", None), "deleted: removed"),
        (("c", STORY), "new"),
        (("b", NEAR), "duplicate of c"),
        (("a", STORY), "duplicate of c"),
    ],
    "deletion of a duplicate changes nothing": [
        (("a", STORY), "new"),
        (("b", NEAR), "duplicate of a"),
        (("b", None), "deleted: not-an-original"),
        (("b", NEAR), "duplicate of a"),
    ],
    "deletion of what never came": [(("a", None), "deleted: not-an-original"), (("a", STORY), "new")],
}


def _row(offset: int, step: Step) -> Row:
    doc_id, value = step
    if value is None:
        return Row(offset, RowKind.DELETED, doc_id, "", 0)
    return Row(offset, RowKind.FULL, doc_id, f"https://example.org/{doc_id}", 0, value, value, 9)


def _told(verdict: Verdict) -> str:
    if verdict.duplicate_of is not None:
        return f"duplicate of {verdict.duplicate_of.original.doc_id}"
    return verdict.outcome.value + (f": {verdict.reason}" if verdict.reason else "")


@pytest.mark.parametrize("records_of", [1, 2, 100], ids=["a record each", "two a record", "one record"])
@pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES.keys())
def test_what_comes_again(history: list[tuple[Step, str]], records_of: int) -> None:
    """The answers are those of the table above, however the messages share records, and the oracle agrees."""
    rows = [_row(offset, step) for offset, (step, _) in enumerate(history)]
    replica, oracle = Replica(DEFINITION), Oracle(DEFINITION.max_distance)
    for number, first in enumerate(range(0, len(rows), records_of)):
        chosen = rows[first : first + records_of]
        section = Section(SOURCE, first, first + len(chosen), -1, chosen)
        [data] = encode(DEFINITION.author("w"), [section], 1 << 20)
        replica.apply(decode(data), number, 1_000)
        replica._check()
        oracle.apply(data)
    answers = replica.answers(SOURCE, list(range(len(rows))), "documents")
    told = [_told(answer) for answer in answers if isinstance(answer, Verdict)]
    assert told == [expected for _, expected in history]
    assert [oracle.answers[SOURCE, offset][0] for offset in range(len(rows))] == [
        text.split()[0].strip(":") for text in told
    ]
