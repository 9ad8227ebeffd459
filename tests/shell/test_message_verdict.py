"""Verdicts and dead letters as messages, and back; verdicts one by one and of judged rows."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import jsonschema
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from schemas.__main__ import FOLDER, render
from schemas.ask import SeenVerdict
from schemas.dead_letter import DeadLetterHeaders, DeadLetterPointer
from schemas.fields import TIMESTAMP_MS_MAX
from schemas.verdict import VerdictMessage
from tests.report import made
from worker.core.document import (
    ApartReason,
    Changed,
    DuplicateOf,
    FormerVersion,
    FoundBy,
    KeptApart,
    MatchKind,
    Original,
    Outcome,
    Verdict,
)
from worker.errors import DocumentError
from worker.log.record import Row, RowKind, Rows, Section, Source, decode, encode
from worker.log.replica import Replica
from worker.settings import Settings
from worker.shell.messages import (
    FIELDS,
    JudgedAnswers,
    VerdictBytes,
    decode_dead_letter,
    decode_document,
    decode_verdict,
    encode_answers,
    encode_dead_letter,
    encode_seen,
    encode_verdict,
)
from worker.shell.ports import InputMessage

SCHEMA = jsonschema.Draft202012Validator(json.loads(render("verdict")))
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)
TIMES_MS = st.integers(0, TIMESTAMP_MS_MAX)
COUNTS = st.integers(0, 2**63 - 1)
HEX = st.integers(0, 2**64 - 1).map("{:016x}".format)


def _whole(kind: type[Any], *parts: Any, **named: Any) -> st.SearchStrategy[Any]:
    """Draw every field. `builds` leaves out those that have a default and are not named."""
    assert len(parts) + len(named) == len(kind._fields), kind
    return st.builds(kind, *parts, **named)


ORIGINALS = _whole(Original, doc_id=TEXT, url=TEXT, fetched_at_ms=TIMES_MS)
SIMILARITIES = st.integers(0, 1_000).map(lambda part: part / 1_000)
KINDS, WAYS = st.sampled_from(MatchKind), st.sampled_from(FoundBy)
DUPLICATES = _whole(
    DuplicateOf,
    ORIGINALS,
    KINDS,
    st.integers(0, 64),
    SIMILARITIES,
    st.booleans(),
    WAYS,
    st.none() | st.integers(1, 2**32 - 1),
    st.none() | st.booleans(),
)
APARTS = _whole(KeptApart, TEXT, st.sampled_from(ApartReason), SIMILARITIES)
FORMERS = _whole(FormerVersion, ORIGINALS, st.sampled_from(Changed), st.none() | SIMILARITIES)


def _verdicts(outcome: Outcome) -> st.SearchStrategy[Verdict]:
    judged = outcome in (Outcome.NEW, Outcome.DUPLICATE)
    gone = outcome is Outcome.DELETED
    return _whole(
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
        kept_apart=st.none() | APARTS if outcome is Outcome.NEW else st.none(),
    )


VERDICTS = st.one_of([_verdicts(outcome) for outcome in Outcome])
# 0 is a fingerprint, not "none".
NEW = made.verdict(0, fingerprint=0, log_offset=0, source_offset=0)


@given(VERDICTS)
def test_the_bytes_are_the_models_own_and_survive_the_wire(verdict: Verdict) -> None:
    """
    Byte for byte what the pydantic model dumps, by the JSON Schema; decoded it is the verdict
    again.
    """
    key, value = encode_verdict(verdict)
    model = VerdictMessage.model_validate_json(value)
    # similarity has three digits; whole numbers are "1.0" in both.
    assert model.model_dump_json(exclude_none=True).encode() == value
    assert key == verdict.doc_id.encode()
    SCHEMA.validate(orjson.loads(value))
    assert decode_verdict(value) == verdict


def test_a_lone_surrogate_does_not_stop_a_verdict() -> None:
    """Text of a file may hold what JSON cannot: it is replaced, in the key as in the value."""
    former = FormerVersion(Original("o\udc00", "u", 0), Changed.MUCH, 0.5)
    key, value = encode_verdict(NEW._replace(doc_id="d\ud800", former_version=former))
    decoded = decode_verdict(value)
    assert (key, decoded.doc_id, decoded.fingerprint) == (b"d?", "d?", 0)
    assert decoded.former_version is not None and decoded.former_version.original.doc_id == "o?"


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (b"", "EOF"),
        (b"[]", "the value: "),
        (b"{}", "doc_id: Field required"),
        (encode_verdict(NEW)[1].replace(b'"new"', b'"maybe"'), "verdict: "),
        (
            encode_verdict(NEW)[1].replace(b'"new"', b'"duplicate"'),
            "duplicate_of belongs to the verdict duplicate",
        ),
        (encode_verdict(NEW)[1].replace(b"0" * 16, b"0" * 15), "fingerprint.value: "),
        (encode_verdict(NEW)[1].replace(b'"offset":0', b'"offset":-1'), "source.offset: "),
    ],
)
def test_what_is_no_verdict_is_refused(value: bytes, says: str) -> None:
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
NAMES = st.sampled_from(["a", "b", "c\ud800", 'd"\\', "e\n\x01", "é한국"]) | st.text(
    min_size=1, max_size=3
)
URLS = st.sampled_from(
    ["https://example.org/", "https://b.example/", "u\udfff", 'u"', "https://한국.example/%d%%"]
)
VALUES = st.sampled_from([0, 1, 3, 0xFFFF, 2**64 - 1, 2**64 - 2, 0x5555_5555_5555_5555])
DEFINITIONS = [
    Settings(search_mode="directed", preferred_copies=("example.org", "earliest")).rules,
    Settings(search_mode="exact", recrawls="replace").rules,
    Settings(search_mode="directed", recrawls="replace", expire_after_s=86_400).rules,
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
                found.append(
                    Row(offset, kind, doc_id, url, time, value, value % 7, 9, doubts=draw(VALUES))
                )
    return found


@given(
    rows(), rows(), st.sampled_from(DEFINITIONS), st.sampled_from(["documents", '100%d "files"/é'])
)
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
    # Those asked for.
    assert replica.answers(SOURCE, range(0, len(both), 2), topic, encode_answers) == messages[::2]
    for row, message in zip(both, messages, strict=True):
        if row.kind is RowKind.DEAD:
            assert message == DocumentError.parse(row.note)
        else:
            assert isinstance(message, VerdictBytes)
            verdict = decode_verdict(message.value)
            assert message == VerdictBytes(*encode_verdict(verdict), verdict.outcome)
            model = VerdictMessage.model_validate_json(message.value)
            assert model.model_dump_json(exclude_none=True).encode() == message.value
            seen = [
                text and text.encode("utf-8", "replace").decode()
                for text in (row.doc_id, row.url or None)
            ]
            assert [verdict.doc_id, verdict.url] == seen
            assert (verdict.source_offset, verdict.source_topic) == (row.offset, topic)
    # Objects and answers to questions, which are made of the same columns, say the same.
    decoded = [
        decode_verdict(message.value) if isinstance(message, VerdictBytes) else message
        for message in messages
    ]
    assert replica.answers(SOURCE, range(len(both)), topic, _objects) == decoded
    answered = replica.answers(SOURCE, range(len(both)), topic, encode_seen)
    for message, answer in zip(messages, answered, strict=True):
        if isinstance(answer, DocumentError):
            assert answer == message
        else:
            assert isinstance(message, VerdictBytes)
            fields = orjson.loads(message.value)
            is_known = fields["verdict"] == "duplicate" or "reason" in fields
            del fields["source"], fields["decided_at"], fields["index"]["log_offset"]
            # A skipped document has its own reason, whether it is known or not.
            known = (answer.outcome, answer.is_known or answer.outcome == "skipped")
            assert orjson.loads(answer.value) == fields
            assert known == (fields["verdict"], is_known)


@given(st.lists(rows(), min_size=3, max_size=3), st.sampled_from(DEFINITIONS), st.randoms())
def test_answers_of_several_partitions_are_those_of_each_alone(
    parts: list[list[Row]], definition: object, dice: random.Random
) -> None:
    """
    Their rows stand next to each other in a record and are written at once: in any order, also if
    only some of them are asked for, each has its own partition.
    """
    replica = Replica(definition)  # type: ignore[arg-type]
    sources = [SOURCE._replace(partition=number) for number in (7, 0, 12)]
    sections = [
        Section(source, 0, part[-1].offset + 1, -1, Rows.of(part))
        for source, part in zip(sources, parts, strict=True)
    ]
    for data in encode(replica.definition.author("w"), sections, 1 << 20):
        replica.apply(decode(data), replica.next_offset, 1_700_000_000_000)
    asked = [
        (source, sorted(dice.sample(offsets, dice.randint(0, len(offsets)))))
        for source, part in zip(sources, parts, strict=True)
        for offsets in [[row.offset for row in part]]
    ]
    dice.shuffle(asked)
    for encoder in (_objects, encode_answers):
        answers: list[list[Any]] = replica.answers_of_all(asked, "documents", encoder)
        assert answers == [replica.answers(*one, "documents", encoder) for one in asked]
    for (source, offsets), of_source in zip(asked, answers, strict=True):
        for offset, answer in zip(offsets, of_source, strict=True):
            if isinstance(answer, VerdictBytes):
                verdict = decode_verdict(answer.value)
                place = verdict.source_partition, verdict.source_offset
                assert place == (source.partition, offset)


def _objects(*judged: Any) -> list[Verdict | DocumentError]:
    return JudgedAnswers(*judged).verdicts


def _leaves(model: type[BaseModel], path: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        parts = [
            kind
            for kind in (field.annotation, *get_args(field.annotation))
            if isinstance(kind, type) and issubclass(kind, BaseModel)
        ]
        for part in parts:
            yield from _leaves(part, f"{path}{name}.")
        if not parts:
            yield f"{path}{name}"


def test_the_table_has_the_fields_of_the_schema_in_their_order() -> None:
    """Each once; those of the answer to a question are marked; each is an attribute of its own."""
    assert [field.name for field in FIELDS] == list(_leaves(VerdictMessage))
    asked = [path for path in _leaves(SeenVerdict) if not path.startswith(("as_of", "binding"))]
    assert [field.name for field in FIELDS if field.is_asked] == asked
    assert len({field.attribute for field in FIELDS}) == len(FIELDS)


ERROR = DocumentError("no-body", "needs exactly one of text, html, body_base64, got none")


HEADERS = encode_dead_letter("documents", InputMessage(3, 7, b"k", b"{}"), ERROR)[2]
BYTES = st.none() | st.binary()


@given(BYTES, BYTES, st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1), st.text(max_size=1_500))
def test_a_dead_letter_survives_the_wire(
    key: bytes | None, value: bytes | None, partition: int, offset: int, text: str
) -> None:
    """
    Key and value are copied byte for byte, null stays null, and the headers say whence and why.
    """
    error = DocumentError("no-body", text)
    message = encode_dead_letter("documents", InputMessage(partition, offset, key, value), error)
    letter = decode_dead_letter(*message)
    assert letter[:4] == ("documents", partition, offset, "no-body")
    assert letter.text == error.text.encode("utf-8", "replace").decode()
    assert letter[5:] == (key, value, False)
    model = DeadLetterHeaders.model_validate({name: text.decode() for name, text in message[2]})
    told = ["documents", str(partition), str(offset), "no-body", letter.text, "original"]
    assert list(model.model_dump().values()) == told


def test_an_oversize_message_becomes_a_pointer() -> None:
    """
    Size and digest stand for the body, the key stays; at the limit the message is still copied.
    """
    value = b"x" * 999
    whole = encode_dead_letter("documents", InputMessage(3, 7, b"k", value), ERROR, bytes_max=1_000)
    assert whole[:2] == (b"k", value)
    key, pointer, headers = encode_dead_letter(
        "documents", InputMessage(3, 7, b"kk", value), ERROR, bytes_max=1_000
    )
    assert pointer is not None
    model = DeadLetterPointer.model_validate_json(pointer)
    assert (model.topic, model.partition, model.offset, model.value_bytes) == (
        "documents",
        3,
        7,
        999,
    )
    assert model.value_sha256 == hashlib.sha256(value).hexdigest()
    assert (key, model.key_bytes) == (b"kk", None)
    assert decode_dead_letter(key, pointer, headers).is_pointer
    large = b"k" * 10_000
    for beside in (b"{}", None):  # a key of megabytes is not copied either
        key, pointer, _ = encode_dead_letter(
            "documents", InputMessage(3, 7, large, beside), ERROR, bytes_max=1_000
        )
        assert pointer is not None
        model = DeadLetterPointer.model_validate_json(pointer)
        assert (key, model.key_bytes, model.value_bytes) == (None, 10_000, len(beside or b""))


@pytest.mark.parametrize("headers", [None, [], [("neardup.source.topic", b"documents")]])
def test_what_is_no_dead_letter_is_refused(headers: list[tuple[str, bytes]] | None) -> None:
    """Without our headers it is not a dead letter, and the missing one is named."""
    with pytest.raises(DocumentError, match=r"header 'neardup\.source"):
        decode_dead_letter(None, None, headers)
    with pytest.raises(DocumentError, match="invalid-dead-letter"):
        decode_dead_letter(None, None, [*HEADERS, ("neardup.source.offset", b"x")])
    with pytest.raises(DocumentError, match="not a dead letter"):
        decode_dead_letter(None, None, [*HEADERS, ("neardup.source.offset", None)])


@pytest.mark.parametrize(
    ("header", "number"),
    [
        ("partition", b"-1"),
        ("partition", b"%d" % 2**31),
        ("offset", b"-1"),
        ("offset", b"%d" % 2**63),
        ("offset", b"9" * 5_000),
    ],
)
def test_a_place_that_no_topic_has_makes_no_dead_letter(header: str, number: bytes) -> None:
    """Looking for a message there would fail in the client."""
    with pytest.raises(DocumentError, match="invalid-dead-letter"):
        decode_dead_letter(None, None, [*HEADERS, (f"neardup.source.{header}", number)])


COPIED = [
    path
    for path in sorted((FOLDER / "examples").glob("dead_letter.*.json"))
    if "value_text" in json.loads(path.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("path", COPIED, ids=lambda path: path.stem)
def test_examples_of_dead_letters_are_what_the_worker_writes(path: Path) -> None:
    """Decoding the message of an example fails as its headers say."""
    example = json.loads(path.read_text(encoding="utf-8"))
    key = None if example["key"] is None else example["key"].encode()
    value = None if example["value_text"] is None else example["value_text"].encode()
    with pytest.raises(DocumentError) as caught:
        decode_document(key, value)
    headers = encode_dead_letter("documents", InputMessage(3, 8, key, value), caught.value)[2]
    assert {name: text.decode() for name, text in headers} == example["headers"]
