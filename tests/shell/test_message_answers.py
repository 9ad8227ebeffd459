"""Verdicts written in batches are the messages that they are written one by one."""

from __future__ import annotations

from collections.abc import Sequence

import orjson
from hypothesis import given
from hypothesis import strategies as st

from schemas.verdict import VerdictMessage
from worker.core.verdict import Verdict
from worker.errors import DocumentError
from worker.log.answers import write_answers
from worker.log.record import Row, RowKind, Rows, Section, Source, decode, encode
from worker.log.replica import Replica
from worker.settings import Settings
from worker.shell.messages import VerdictBytes, encode_answers, encode_verdict

SOURCE = Source(bytes(range(16)), 3)
TIMES_MS = st.integers(0, 2**40) | st.sampled_from([0, 253_402_300_799_999])
NAMES = st.sampled_from(["a", "b", "c\ud800", 'd"\\', "e\n\x01", "é한국"]) | st.text(min_size=1, max_size=3)
URLS = st.sampled_from(["https://example.org/", "u\udfff", 'u"', "https://한국.example/%d%%"])
VALUES = st.sampled_from([0, 1, 3, 0xFFFF, 2**64 - 1, 2**64 - 2, 0x5555_5555_5555_5555])
DEFINITIONS = [
    Settings(search_mode="directed").definition,
    Settings(search_mode="exact", recrawls="replace").definition,
    Settings(search_mode="directed", recrawls="replace", expire_after_s=86_400).definition,
]


@st.composite
def rows(draw: st.DrawFn) -> list[Row]:
    """Rows of every kind, of few names, URLs and fingerprints, so that they meet."""
    found = []
    for offset in range(draw(st.integers(1, 12))):
        kind = draw(st.sampled_from(RowKind))
        doc_id, url, time = draw(NAMES), draw(URLS), draw(TIMES_MS)
        match kind:
            case RowKind.SKIPPED:
                found.append(Row(offset, kind, doc_id, url, time, note="empty-text"))
            case RowKind.DELETED:
                found.append(Row(offset, kind, doc_id, "", 0))
            case RowKind.DEAD:
                found.append(Row(offset, kind, "", "", 0, note='no-body: needs "one": of text'))
            case _:
                value = draw(VALUES)
                found.append(Row(offset, kind, doc_id, url, time, value, value % 7, 9, doubts=draw(VALUES)))
    return found


def answers(replica: Replica, offsets: Sequence[int], topic: str) -> tuple[list[object], list[object]]:
    """What the log says: as objects, and as messages."""
    return (
        list(replica.answers(SOURCE, offsets, topic, write_answers)),
        list(replica.answers(SOURCE, offsets, topic, encode_answers)),
    )


@given(rows(), rows(), st.sampled_from(DEFINITIONS), st.sampled_from(["documents", '100%d "files"/é']))
def test_a_batch_of_verdicts_is_what_each_of_them_is(
    one: list[Row], two: list[Row], definition: object, topic: str
) -> None:
    """Key, value and outcome are those of `encode_verdict`, byte for byte, and the model takes the value."""
    replica = Replica(definition)  # type: ignore[arg-type]
    two = [row._replace(offset=row.offset + len(one)) for row in two]
    offset = 0
    for part in (one, two):
        section = Section(SOURCE, part[0].offset, part[-1].offset + 1, -1, Rows.of(part))
        for data in encode(replica.definition.author("w"), [section], 1 << 20):
            replica.apply(decode(data), offset, 1_700_000_000_000 + offset * 90_000_000)
            offset += 1
    objects, messages = answers(replica, range(len(one) + len(two)), topic)
    for answer, message in zip(objects, messages, strict=True):
        if isinstance(answer, DocumentError):
            assert message == answer
        else:
            assert isinstance(answer, Verdict)
            assert message == VerdictBytes(*encode_verdict(answer), answer.outcome)
            model = VerdictMessage.model_validate_json(message.value)
            assert orjson.loads(model.model_dump_json(exclude_none=True)) == orjson.loads(message.value)


def test_some_of_a_records_rows_are_answered() -> None:
    """Answers are those of the offsets asked for, whatever else the log holds."""
    replica = Replica(DEFINITIONS[0])
    part = [Row(offset, RowKind.SKIPPED, f"d{offset}", "u", 0, note="empty-text") for offset in range(5)]
    for data in encode(replica.definition.author("w"), [Section(SOURCE, 0, 5, -1, Rows.of(part))], 1 << 20):
        replica.apply(decode(data), 0, 0)
    _, messages = answers(replica, [1, 3], "documents")
    assert [message.key for message in messages if isinstance(message, VerdictBytes)] == [b"d1", b"d3"]
