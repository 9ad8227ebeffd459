"""Verdicts as messages of the topic `verdicts`, one by one and of judged rows, and back."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.__main__ import FOLDER, render
from schemas.fields import TIMESTAMP_MS_MAX
from schemas.verdict import VerdictMessage
from tests.report import made
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
from worker.errors import DocumentError
from worker.log.record import Row, RowKind, Rows, Section, Source, decode, encode
from worker.log.replica import Replica
from worker.settings import Settings
from worker.shell.messages import VerdictBytes, decode_verdict, encode_answers, encode_verdict

SCHEMA = jsonschema.Draft202012Validator(json.loads(render("verdict")))
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)
TIMES_MS = st.integers(0, TIMESTAMP_MS_MAX)
COUNTS = st.integers(0, 2**63 - 1)
HEX = st.integers(0, 2**64 - 1).map("{:016x}".format)
ORIGINALS = st.builds(Original, doc_id=TEXT, url=TEXT, fetched_at_ms=TIMES_MS)
SIMILARITIES = st.integers(0, 1_000).map(lambda part: part / 1_000)
DUPLICATES = st.builds(
    DuplicateOf,
    ORIGINALS,
    st.sampled_from(MatchKind),
    st.integers(0, 64),
    SIMILARITIES,
    same_url=st.booleans(),
    found_by=st.sampled_from(FoundBy),
)
FORMERS = st.builds(FormerVersion, ORIGINALS, st.sampled_from(Changed), st.none() | SIMILARITIES)


def _verdicts(outcome: Outcome) -> st.SearchStrategy[Verdict]:
    judged = outcome in (Outcome.NEW, Outcome.DUPLICATE)
    gone = outcome is Outcome.DELETED
    return st.builds(
        Verdict,
        doc_id=TEXT,
        url=st.none() if gone else TEXT,
        fetched_at_ms=st.none() if gone else TIMES_MS,
        outcome=st.just(outcome),
        reason=st.none() if judged else TEXT,
        duplicate_of=DUPLICATES if outcome is Outcome.DUPLICATE else st.none(),
        fingerprint=st.integers(0, 2**64 - 1) if judged else st.none(),
        features=st.integers(0, 2**32 - 1) if judged else st.just(0),
        scheme=TEXT if judged else st.just(""),
        parameters=HEX if judged else st.just(""),
        index_documents=COUNTS,
        log_offset=COUNTS,
        horizon_ms=st.none() | TIMES_MS,
        source_topic=TEXT,
        source_partition=st.integers(0, 2**31 - 1),
        source_offset=COUNTS,
        decided_at_ms=TIMES_MS,
        former_version=st.none() | FORMERS if judged else st.none(),
    )


VERDICTS = st.one_of([_verdicts(outcome) for outcome in Outcome])
NEW = made.verdict(0, fingerprint=0, log_offset=0, source_offset=0)  # 0 is a fingerprint, not "none"


@given(VERDICTS)
def test_the_bytes_are_the_models_own_and_survive_the_wire(verdict: Verdict) -> None:
    """Byte for byte what the pydantic model dumps, by the JSON Schema; decoded it is the verdict again."""
    key, value = encode_verdict(verdict)
    model = VerdictMessage.model_validate_json(value)
    # similarity has three digits; whole numbers are "1.0" in both.
    assert model.model_dump_json(exclude_none=True).encode() == value
    assert key == verdict.doc_id.encode()
    SCHEMA.validate(orjson.loads(value))
    assert decode_verdict(value) == verdict


def test_a_lone_surrogate_does_not_stop_a_verdict() -> None:
    """Text of a file may hold what JSON cannot: it is replaced, in the key as in the value."""
    verdict = NEW._replace(
        doc_id="d\ud800",
        outcome=Outcome.DUPLICATE,
        duplicate_of=DuplicateOf(
            Original("o\udc00", "u", 0), MatchKind.NEAR, 1, 0.984, same_url=False, found_by=FoundBy.EXACT
        ),
    )
    key, value = encode_verdict(verdict)
    decoded = decode_verdict(value)
    assert decode_verdict(encode_verdict(NEW)[1]).fingerprint == 0
    assert (key, decoded.doc_id) == (b"d?", "d?")
    assert decoded.duplicate_of is not None and decoded.duplicate_of.original.doc_id == "o?"


@pytest.mark.parametrize("path", sorted((FOLDER / "examples").glob("verdict.*.json")), ids=lambda path: path.stem)
def test_the_examples_round_trip(path: Path) -> None:
    """Decoding an example and encoding it again gives the example."""
    example = json.loads(path.read_text(encoding="utf-8"))
    key, value = encode_verdict(decode_verdict(orjson.dumps(example["value"])))
    assert (key.decode(), orjson.loads(value)) == (example["key"], example["value"])


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (b"", "EOF"),
        (b"[]", "the value: "),
        (b"{}", "doc_id: Field required"),
        (encode_verdict(NEW)[1].replace(b'"new"', b'"maybe"'), "verdict: "),
        (encode_verdict(NEW)[1].replace(b'"new"', b'"duplicate"'), "duplicate_of belongs to the verdict duplicate"),
        (encode_verdict(NEW)[1].replace(b"0" * 16, b"0" * 15), "fingerprint.value: "),
        (encode_verdict(NEW)[1].replace(b'"offset":0', b'"offset":-1'), "source.offset: "),
    ],
)
def test_a_foreign_message_is_refused(value: bytes, says: str) -> None:
    """What is not a verdict is named with the field that is wrong."""
    with pytest.raises(DocumentError, match="invalid-verdict") as caught:
        decode_verdict(value)
    assert says in caught.value.text


@given(st.binary())
def test_any_bytes_are_a_verdict_or_refused(value: bytes) -> None:
    """No other exception comes out."""
    with pytest.raises(DocumentError):
        decode_verdict(value)


SOURCE = Source(bytes(range(16)), 3)
ROW_TIMES_MS = st.integers(0, 2**40) | st.sampled_from([0, 253_402_300_799_999])
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
        doc_id, url, time = draw(NAMES), draw(URLS), draw(ROW_TIMES_MS)
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


@given(rows(), rows(), st.sampled_from(DEFINITIONS), st.sampled_from(["documents", '100%d "files"/é']))
def test_a_batch_of_verdicts_is_what_each_of_them_is(
    one: list[Row], two: list[Row], definition: object, topic: str
) -> None:
    """Each is a message of the model, and read and written again alone it has the same bytes."""
    replica = Replica(definition)  # type: ignore[arg-type]
    two = [row._replace(offset=row.offset + len(one)) for row in two]
    offset = 0
    for part in (one, two):
        section = Section(SOURCE, part[0].offset, part[-1].offset + 1, -1, Rows.of(part))
        for data in encode(replica.definition.author("w"), [section], 1 << 20):
            replica.apply(decode(data), offset, 1_700_000_000_000 + offset * 90_000_000)
            offset += 1
    both = [*one, *two]
    messages = replica.answers(SOURCE, range(len(both)), topic, encode_answers)
    assert replica.answers(SOURCE, range(0, len(both), 2), topic, encode_answers) == messages[::2]  # those asked for
    for row, message in zip(both, messages, strict=True):
        if row.kind is RowKind.DEAD:
            assert message == DocumentError.parse(row.note)
        else:
            assert isinstance(message, VerdictBytes)
            verdict = decode_verdict(message.value)
            assert message == VerdictBytes(*encode_verdict(verdict), verdict.outcome)
            model = VerdictMessage.model_validate_json(message.value)
            assert model.model_dump_json(exclude_none=True).encode() == message.value
            seen = [text and text.encode("utf-8", "replace").decode() for text in (row.doc_id, row.url or None)]
            assert [verdict.doc_id, verdict.url, verdict.source_offset, verdict.source_topic] == [
                *seen,
                row.offset,
                topic,
            ]
