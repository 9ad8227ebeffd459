"""
Messages of the topic `documents`, one by one and in batches: good ones, bad ones, any bytes at all.
"""

from __future__ import annotations

import base64
import json
import string
from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from schemas.document import OPTIONAL_CHARACTERS_MAX
from schemas.fields import TIMESTAMP_MS_MAX
from tests.conftest import EXAMPLES, JSON_VALUES
from worker.core.document import BodyKind, Deletion, Document, derive_doc_id
from worker.core.kernels.documents import TEXTS, UNREAD, read_documents
from worker.core.pages import extract_packed
from worker.core.pages.batch import joined
from worker.errors import DocumentError
from worker.shell.messages import decode_document, decode_documents
from worker.shell.runtime.metrics import DEAD_LETTER_CODES

URL = "https://example.org/"
TIME = "2024-05-01T12:00:00Z"
TIME_MS = 1_714_564_800_000
DEEP = 1_000_000


def _message(**fields: Any) -> bytes:
    return json.dumps({"url": URL, "fetched_at": TIME} | fields).encode()


def _with_text(**fields: Any) -> bytes:
    return _message(text="a", **fields)


def _document(value: bytes) -> Document:
    document = decode_document(None, value)
    assert isinstance(document, Document)
    return document


BAD: list[tuple[str, str, bytes, str]] = [
    # what it is, code, value, what the text says
    ("empty", "invalid-json", b"", "a deletion has a null value, not an empty one"),
    ("only a byte order mark", "invalid-json", b"\xef\xbb\xbf", "the value is empty"),
    ("not JSON", "invalid-json", b"url: x", "the value is not JSON"),
    ("cut off", "invalid-json", _with_text()[:-5], "the value is not JSON"),
    ("two values", "invalid-json", _with_text() * 2, "the value is not JSON"),
    ("NaN in a word", "invalid-json", b'{"attrs": NaNa}', "the value is not JSON"),
    (
        "Schema Registry",
        "invalid-json",
        b"\0\0\0\0\x11" + _with_text(),
        "4 bytes (17), as a Schema Registry",
    ),
    ("whole array", "not-an-object", b'[{"text": "a"}]', "send each item as a message of its own"),
    (
        "envelope of many",
        "no-body",
        b'{"data": [{"url": "u", "text": "a"}]}',
        "an envelope, whose field 'data' is an array of 1 items. Send each item of it",
    ),
    (
        "envelope of Kafka Connect",
        "no-body",
        b'{"schema": {"type": "struct"}, "payload": {"url": "u", "text": "a"}}',
        "schemas.enable=false",
    ),
    (
        "another name for the body",
        "no-body",
        b'{"content": "a", "id": 7}',
        "got none, but 'content', 'id': rename the field that has the body",
    ),
    (
        "verdict",
        "no-body",
        b'{"verdict": "duplicate", "duplicate_of": {"url": "u"}, "decided_at": "2026-01-01"}',
        "got none: this is a verdict of neardup: feed the documents themselves, or let workers "
        "read another topic (--topic-documents)",
    ),
    ("empty object", "no-body", b"{}", "got none"),
    ("fraction for doc_id", "invalid-field", _with_text(doc_id=7.5), "or a whole number"),
    ("huge doc_id", "invalid-field", _with_text(doc_id=10**20), "of 64 bits, got 1e+20"),
    ("true for doc_id", "invalid-field", _with_text(doc_id=True), "got true"),
    (
        "half a pair in a doc_id",
        "invalid-field",
        _with_text(doc_id="a\udce9"),
        "doc_id is 'a\ufffd', where U+FFFD stands for half of a surrogate pair",
    ),
    ("half a pair in a url", "invalid-field", _with_text(url="http://\ud800.a/"), "url is 'http"),
    ("bare NUL byte", "invalid-json", b'{"text": "\0"}', "control character"),
    ("Latin-1 bytes", "invalid-json", '{"text": "\xe9t\xe9"}'.encode("latin-1"), "not UTF-8"),
    ("surrogate bytes", "invalid-json", b'{"text": "\xed\xa0\x80"}', "not UTF-8"),
    ("UTF-16", "invalid-json", '{"text": "a"}'.encode("utf-16"), "not UTF-8"),
    ("deep arrays", "too-deep", b"[" * DEEP, "more than 1,024 deep"),
    ("deep objects", "too-deep", b'{"a":' * DEEP, "more than 1,024 deep"),
    ("deep after a surrogate", "too-deep", b'["\\ud800",' + b"[" * DEEP, "more than 1,024 deep"),
    (
        "deep and closed",
        "too-deep",
        b'{"attrs":' + b"[" * DEEP + b"]" * DEEP + b"}",
        "more than 1,024 deep",
    ),
    ("array", "not-an-object", b"[1, 2]", "got an array of 2 items"),
    ("string", "not-an-object", b'"text"', "got 'text'"),
    ("number", "not-an-object", b"17", "got 17"),
    ("JSON null", "not-an-object", b"null", "got null"),
    (
        "no url",
        "missing-field",
        b'{"fetched_at": "2024-05-01T12:00:00Z", "text": "a"}',
        "url is missing or null",
    ),
    ("null url", "missing-field", _with_text(url=None), "url is missing or null"),
    ("empty url", "invalid-field", _with_text(url=""), "url must be a string of 1 to 8,192 bytes"),
    ("number for url", "invalid-field", _with_text(url=17), "got 17"),
    (
        "long url",
        "url-too-long",
        _with_text(url="u" * 8_193),
        "url has 8,193 bytes in UTF-8, at most 8,192",
    ),
    (
        "long url in Thai",
        "url-too-long",
        _with_text(url="ก" * 2_731),
        "url has 8,193 bytes in UTF-8, at most 8,192",
    ),
    (
        "long doc_id",
        "doc-id-too-long",
        _with_text(doc_id="d" * 1_025),
        "doc_id has 1,025 bytes in UTF-8, at most",
    ),
    (
        "empty doc_id",
        "invalid-field",
        _with_text(doc_id=""),
        "doc_id must be a string of 1 to 1,024 bytes",
    ),
    (
        "object for doc_id",
        "invalid-field",
        _with_text(doc_id={"a": 1}),
        "got an object of 1 fields",
    ),
    ("no time", "missing-field", b'{"url": "u", "text": "a"}', "fetched_at is missing or null"),
    (
        "number for time",
        "invalid-field",
        _with_text(fetched_at=1714564800),
        "fetched_at must be an ISO 8601",
    ),
    (
        "date only",
        "invalid-date",
        _with_text(fetched_at="2024-05-01"),
        "fetched_at is '2024-05-01': a date without",
    ),
    (
        "no offset",
        "invalid-date",
        _with_text(fetched_at="2024-05-01T12:00:00"),
        "add Z if it is UTC",
    ),
    (
        "year 0",
        "date-out-of-range",
        _with_text(fetched_at="0000-01-01T00:00:00Z"),
        "'0000-01-01T00:00:00Z': it must",
    ),
    (
        "year 99999",
        "date-out-of-range",
        _with_text(fetched_at="99999-01-01T00:00:00Z"),
        "and 9999-12-31T23:59:59.999Z",
    ),
    ("no body", "no-body", _message(), "needs exactly one of text, html, body_base64, got none"),
    ("null body", "no-body", _message(text=None), "got none"),
    (
        "two bodies",
        "two-bodies",
        _message(text="a", html="b"),
        "got text and html: leave the others out",
    ),
    ("two empty bodies", "two-bodies", _message(text="", html=""), "got text and html"),
    ("number for text", "invalid-field", _message(text=1), "text must be a string, got 1"),
    ("true for html", "invalid-field", _message(html=True), "html must be a string, got true"),
    (
        "array for base64",
        "invalid-field",
        _message(body_base64=[1]),
        "body_base64 must be a string, got an array",
    ),
    ("bad base64", "invalid-base64", _message(body_base64="YQ=*"), "body_base64 is 'YQ=*'"),
    ("base64 unpadded", "invalid-base64", _message(body_base64="YQ"), "padding"),
    (
        "base64 in lines",
        "invalid-base64",
        _message(body_base64="YWFh\nYWFh"),
        "without line breaks",
    ),
    ("base64 of URLs", "invalid-base64", _message(body_base64="_-8="), "section 4"),
    ("base64 not ASCII", "invalid-base64", _message(body_base64="ÿ"), "body_base64 is 'ÿ'"),
    (
        "long charset",
        "invalid-field",
        _with_text(charset="c" * 129),
        "charset has 129 characters, at most 128",
    ),
    (
        "number for charset",
        "invalid-field",
        _with_text(charset=1252),
        "charset must be a string, got 1252",
    ),
    ("number for title", "invalid-field", _with_text(title=1.5), "title must be a string, got 1.5"),
    (
        "string for attrs",
        "invalid-field",
        _with_text(attrs="a"),
        "attrs must be an object, got 'a'",
    ),
    (
        "over the limit",
        "oversize",
        b" " * (8 * 2**20 + 1),
        "has 8,388,609 bytes, at most 8,388,608",
    ),
]


@pytest.mark.parametrize(
    ("code", "value", "says"), [case[1:] for case in BAD], ids=[case[0] for case in BAD]
)
def test_a_bad_message_is_a_document_error(code: str, value: bytes, says: str) -> None:
    """
    Each kind of bad input has its code; the text names field, value and bound, and stays short.
    """
    with pytest.raises(DocumentError) as caught:
        decode_document(b"key", value)
    assert caught.value.code == code
    assert code in DEAD_LETTER_CODES
    assert says in caught.value.text
    assert len(caught.value.text) < 500
    assert check([value]) == [False]  # the kernel leaves it to `decode_document`


@pytest.mark.parametrize(
    ("written", "doc_id"),
    [(b"7", "7"), (b"7.0", "7"), (b"-0.0", "0"), (b"-12", "-12"), (b"18446744073709551615",) * 2],
)
def test_a_whole_number_is_a_doc_id(written: bytes, doc_id: bytes | str) -> None:
    """Its decimal digits, however it is written; the kernel leaves it to the model."""
    value = _with_text(doc_id="X").replace(b'"X"', written)
    wanted = doc_id.decode() if isinstance(doc_id, bytes) else doc_id
    assert _document(value).doc_id == wanted
    assert check([value]) == [False]


@pytest.mark.parametrize("written", [b"NaN", b"Infinity", b"-Infinity"])
def test_a_number_that_is_none_is_null(written: bytes) -> None:
    """As Python writes it, wherever it stands; in a text it is a text."""
    said = f'said "{written.decode()}" and {written.decode()}'
    value = b'{"url": "u", "doc_id": %b, "attrs": {"a": [%b, 1]}, "text": %b}' % (
        written,
        written,
        json.dumps(said).encode(),
    )
    document = decode_document(None, value, timestamp_ms=TIME_MS)
    assert isinstance(document, Document)
    assert document.doc_id == derive_doc_id("u", TIME_MS)
    assert document.body == said


def test_texts_are_passed_over_once_in_the_search_for_nan() -> None:
    """A text that never ends costs one pass, and one whose end is an escape is still no JSON."""
    quotes = b'{"text": "' + b'\\"' * 200_000 + b"NaN"
    with pytest.raises(DocumentError, match="invalid-json"):
        decode_document(None, quotes)


@pytest.mark.parametrize(
    ("key", "code"),
    [
        (None, "null-key"),
        (b"", "null-key"),
        (b"\xff", "invalid-key"),
        (b"k" * 1_025, "doc-id-too-long"),
    ],
)
def test_a_deletion_needs_a_doc_id(key: bytes | None, code: str) -> None:
    """A null value with a key that is no doc_id deletes nothing, and says so."""
    with pytest.raises(DocumentError) as caught:
        decode_document(key, None)
    assert caught.value.code == code
    assert code in DEAD_LETTER_CODES


def test_keys_and_fields_arrive() -> None:
    """
    A null value deletes the key's doc_id; of a document any bytes may be the key. A null field
    counts as absent.
    """
    assert decode_document("записка 7".encode(), None) == Deletion("записка 7")
    optional = {"content_type": "text/plain", "charset": "utf-8", "language": "en"}
    value = _message(doc_id="d", text="a\0b", html=None, title="t", attrs={}, **optional)
    expected = Document("d", URL, TIME_MS, BodyKind.TEXT, "a\0b", **optional)
    assert decode_document(b"\xff\x00", value) == _document(value) == expected


def test_bodies_of_each_kind() -> None:
    """text and html stay text, base64 becomes bytes; an empty body is a body."""
    assert _document(_message(html="<p>")).kind is BodyKind.HTML
    assert _document(_message(text="")).body == ""
    for body in (b"\0\xff", b""):
        document = _document(_message(body_base64=base64.b64encode(body).decode()))
        assert (document.kind, document.body) == (BodyKind.BYTES, body)


def test_a_doc_id_is_derived_from_url_and_time() -> None:
    """The same moment in another time zone is the same capture."""
    assert _document(_with_text()).doc_id == derive_doc_id(URL, TIME_MS)
    assert _document(
        _with_text(fetched_at="2024-05-01T14:00:00.000+02:00")
    ).doc_id == derive_doc_id(URL, TIME_MS)


@pytest.mark.parametrize(
    ("escaped", "read"),
    [
        (rb"\ud800", "�"),
        (rb"a\uDFFFb", "a�b"),
        (rb"\ud83d\ude00 \udc00", "😀 �"),
        (rb"\ud800\ud83d\ude00", "�😀"),
        (rb"\ud83d\ud83d\ude00\ude00", "�😀�"),
        (rb"\ud800 \\ud800 \\\ud800", "� \\ud800 \\�"),
        (rb"\ud800\u0000", "�\0"),
    ],
)
def test_a_lone_surrogate_is_read_as_the_replacement_character(escaped: bytes, read: str) -> None:
    """Pairs and escaped backslashes beside it stay what they are."""
    value = (
        b'{"url": "https://example.org/", "fetched_at": "2024-05-01T12:00:00Z", "text": "'
        + escaped
        + b'"}'
    )
    assert _document(value).body == read


def test_odd_json_is_read_up_to_the_limit() -> None:
    """
    Windows tools write a byte order mark before it; of a repeated field the last value counts, as
    everywhere.
    """
    value = _with_text()
    assert _document(b"\xef\xbb\xbf" + value) == decode_document(
        None, value, value_bytes_max=len(value)
    )
    assert _document(value[:-1] + b', "text": "b"}').body == "b"
    with pytest.raises(DocumentError, match="oversize"):
        decode_document(None, value, value_bytes_max=len(value) - 1)


def answered(key: bytes | None, value: bytes | None) -> Document | Deletion | None:
    """What a message is; None for an error, which is short and can be written."""
    try:
        return decode_document(key, value)
    except DocumentError as error:
        assert len(error.text) <= DocumentError.TEXT_CHARACTERS_MAX
        error.text.encode()
        return None


WRONG = st.sampled_from([None, True, 17, -1.5, 10**30, [], [1, "a"], {}, {"a": {"b": None}}])
RAW = st.binary(max_size=20) | st.binary(min_size=40, max_size=200)
BASE64 = RAW.map(lambda raw: base64.b64encode(raw).decode())
LONG = st.sampled_from(["x" * 128, "ж" * 129, "字" * 513, "é" * 4_097, "y" * 1_025])
LETTERS = st.text(
    st.sampled_from('ab"\\/\b\f\n\r\t\x00\x1f\x7fé한😀\u2028'), max_size=60
) | st.text(max_size=20)
# Copied by 64 bytes.
PIECES = ("a", "YWFh", "é", "\n", "中", "😀", '"', "\\", "x" * 31, "x" * 32, "x" * 33, "中" * 11)
LONG_PIECES = ("x" * 61, "x" * 62, "x" * 63, "x" * 64, "x" * 65)
BODIES = LETTERS | st.lists(st.sampled_from(PIECES + LONG_PIECES), max_size=7).map("".join)
DATES = st.datetimes().map(lambda time: time.isoformat() + "Z") | st.sampled_from(
    [TIME, "1970-01-01T00:00:00+00:01", "9999-12-31T23:59:59.999Z", "2024-02-30T00:00:00Z", f"{TIME}\n", "2024-05-01",
     "0000-01-01T00:00Z"]
)  # fmt: skip
WITHOUT_TIME = b'{"url": "https://example.org/", "text": "The river rose."%b}'


@pytest.mark.parametrize("given", [b"", b', "fetched_at": null'])
def test_without_a_time_it_has_the_time_stamp_of_its_message(given: bytes) -> None:
    """Its doc_id follows from it, too; a time of its own counts more."""
    document = decode_document(None, WITHOUT_TIME % given, timestamp_ms=1_714_564_800_500)
    assert isinstance(document, Document)
    assert document.fetched_at_ms == 1_714_564_800_500
    assert document.doc_id == derive_doc_id("https://example.org/", 1_714_564_800_500)
    own = decode_document(None, _with_text(), timestamp_ms=1_714_564_800_500)
    assert isinstance(own, Document) and own.fetched_at_ms == TIME_MS


@pytest.mark.parametrize("timestamp_ms", [0, -1, TIMESTAMP_MS_MAX + 1])
def test_a_message_without_a_time_stamp_needs_a_time(timestamp_ms: int) -> None:
    """Nor is a stamp taken that no document could have: the error is that of the missing field."""
    for more in (b"", b', "doc_id": ""'):  # the time counts before the doc_id
        with pytest.raises(DocumentError, match="fetched_at is missing or null") as caught:
            decode_document(None, WITHOUT_TIME % more, timestamp_ms=timestamp_ms)
        assert caught.value.code == "missing-field"


MEMBERS: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(["text", "html", "title", "other", "payload_digest", "\\u0075rl"], BODIES),
    **dict.fromkeys(["doc_id", "url", *OPTIONAL_CHARACTERS_MAX], BODIES | LONG),
    "fetched_at": DATES, "attrs": JSON_VALUES,
    "body_base64": BASE64 | BODIES | st.sampled_from(["YR==", "YWI=YWI=", "=", "YQ=*"]),
}  # fmt: skip


GUARD = 256


def check_guards(values: Sequence[bytes]) -> None:
    """
    Assert that the bytes around what the kernel fills, and the messages themselves, stay as they
    are, whatever it reads.
    """
    data, spans = joined(values, None)
    before = data.copy()
    room = np.full(GUARD + (TEXTS + 1) * data.size + GUARD, 0xAA, np.uint8)
    rows = room[GUARD:-GUARD].reshape(TEXTS + 1, data.size)
    ends, places = np.empty((TEXTS, len(values)), np.int64), np.empty((len(values), 3), np.int64)
    kinds, times_ms = np.empty(len(values), np.uint8), np.empty(len(values), np.int64)
    read_documents(data, spans, rows[:TEXTS], ends, kinds, times_ms, rows[TEXTS], places)
    assert (room[:GUARD] == 0xAA).all() and (room[-GUARD:] == 0xAA).all(), values
    assert (data == before).all(), values


def check(values: Sequence[bytes]) -> list[bool]:
    """
    Assert that each is answered, and what was read of it is what `decode_document` reads; return
    which were read.
    """
    check_guards(values)
    found = decode_documents(values)
    for place, value in enumerate(values):
        document = answered(None, value)
        if found.kinds[place] == UNREAD:
            continue
        assert isinstance(document, Document)
        body = document.body if isinstance(document.body, bytes) else document.body.encode()
        optional: Any = {
            name: getattr(document, name) or None
            for name in ("content_type", "charset", "language")
        }
        assert found.document(place) == document._replace(
            kind=BodyKind.BYTES, body=body, **optional
        )
        is_plain = found.spans[place, 2]
        assert found.kinds[place] == document.kind and is_plain == (
            document.kind is not BodyKind.HTML
        )
    return [bool(kind != UNREAD) for kind in found.kinds]


DAMAGE = [
    b"",
    b"\\",
    b'"',
    b",",
    b"\x80",
    b"\xed\xa0\x80",
    b"\\ud83d",
    b"{",
    b"]",
    b"0",
    b"\0",
    b"1e999",
    b"9" * 400,
]


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    """Messages that are documents, and such as nearly are."""
    body = draw(st.sampled_from(["text", "html", "body_base64"]))
    fields: list[tuple[str, Any]] = [
        ("url", draw(BODIES)),
        ("fetched_at", draw(DATES)),
        (body, draw(MEMBERS[body])),
    ]
    for name in draw(st.lists(st.sampled_from(sorted(MEMBERS)), max_size=3)):
        fields.append((name, draw(MEMBERS[name] | WRONG)))
    if draw(st.booleans()):
        del fields[draw(st.integers(0, len(fields) - 1))]
    ascii_only, blank = draw(st.booleans()), draw(st.sampled_from(["", " ", "\n\t", "\x0b"]))
    members = (
        f'{blank}"{name}"{blank}:{blank}{json.dumps(value, ensure_ascii=ascii_only)}{blank}'
        for name, value in draw(st.permutations(fields))
    )
    value = (blank + "{" + ",".join(members) + "}" + blank).encode("utf-8", "surrogatepass")
    if draw(st.booleans()):
        return value
    at = draw(st.integers(0, len(value)))
    return (
        value[:at]
        + draw(st.binary(max_size=3) | st.sampled_from(DAMAGE))
        + value[at + draw(st.integers(0, 1)) :]
    )


@settings(max_examples=10 * EXAMPLES)
@given(st.lists(messages(), min_size=1, max_size=8))
def test_a_batch_is_read_as_each_message_is(values: list[bytes]) -> None:
    """What is read is what is read alone; what is refused alone is not read."""
    check(values)


@given(st.none() | st.binary(max_size=20), st.lists(st.binary(max_size=80), max_size=5))
def test_any_bytes_are_answered(key: bytes | None, values: list[bytes]) -> None:
    """Any key and value give a Document, a Deletion or a DocumentError, and no other exception."""
    check(values)
    for value in (None, *values):
        answered(key, value)


@given(
    st.dictionaries(st.sampled_from(["doc_id", "title", "language", "other"]), LETTERS),
    BODIES,
    BODIES,
)
def test_a_plain_document_is_read(more: dict[str, str], url: str, body: str) -> None:
    """The way of nearly every message is the fast one."""
    # A kernel reads a language of 128 bytes, as they are written, escapes and all.
    short = {name: text for name, text in more.items() if text and len(json.dumps(text)) <= 130}
    plain = short | {"attrs": None}
    raw = base64.b64encode(body.encode()).decode()
    for name, text in (("text", body), ("html", body), ("body_base64", raw)):
        fields = {"url": f"u{url}", "fetched_at": TIME, name: text, **plain}
        assert check([json.dumps(fields).encode(), orjson.dumps(fields)]) == [True, True]


@given(st.binary(max_size=300), st.data())
def test_base64_is_read_with_escapes_and_refused_with_any_other_byte(
    raw: bytes, data: st.DataObject
) -> None:
    """Blocks of digits are decoded where they stand; an escape or a wrong byte ends them."""
    digits = base64.b64encode(raw).decode()
    slashes = digits.replace("/", "\\/")
    cut = data.draw(st.integers(0, len(digits)))
    head = digits[:cut].replace("/", "\\u002f")
    at = data.draw(st.integers(0, len(digits)))
    wrong = data.draw(st.sampled_from(["=", "-", "_", " ", "@", "[", "`", "{", ".", ":", "é", "A"]))
    for written in (digits, slashes, head + digits[cut:]):
        value = f'{{"url":"u","fetched_at":"{TIME}","body_base64":"{written}"}}'.encode()
        assert check([value]) == [True]
        assert decode_documents([value]).document(0).body == raw
    for written in (digits[:at] + wrong + digits[at:], digits[:at] + wrong + digits[at + 1 :]):
        check([f'{{"url":"u","fetched_at":"{TIME}","body_base64":"{written}"}}'.encode()])


# The bytes of such a body are digits themselves, so a decoder that reads on from what it has written
# finds nothing wrong. Words with single spaces have some blocks of such bytes.
_DIGITS = string.ascii_letters + string.digits
_BODIES_LIKE_DIGITS = st.one_of(
    st.text(_DIGITS + "+/", min_size=40, max_size=600),
    st.lists(st.text(_DIGITS, min_size=1, max_size=90), max_size=12).map(" ".join),
)


@example("x" * 51, 10, "_", "")
@example("x" * 400, 463, "-", "")
@given(
    _BODIES_LIKE_DIGITS,
    st.integers(0, 1 << 20),
    st.sampled_from(["-", "_", ".", "!", "~", " ", "é", "=", "\\n", "\\u00e9"]),
    st.sampled_from(["", "\\/", "\\u002f"]),
)
def test_base64_with_one_wrong_character_is_refused_wherever_it_stands(
    body: str, at: int, wrong: str, slash: str
) -> None:
    """And whatever its other characters stand for: also bytes that look like digits of base64."""
    digits = base64.b64encode(body.encode()).decode().rstrip("=")
    at %= len(digits) + 1
    written = digits[:at] + wrong + digits[at + 1 :]
    written += "=" * (-len(written) % 4)
    if slash:
        written = written.replace("/", slash)
    value = f'{{"url":"u","fetched_at":"{TIME}","body_base64":"{written}"}}'.encode()
    is_padding = wrong == "=" and at >= len(digits) - 1  # which may be in order, and `check` knows
    assert check([value, value]) == [False, False] or is_padding


def test_bodies_are_ready_for_the_pages_kernel() -> None:
    """Zeros stand behind each body, whatever the message has behind it."""
    pages = [
        f'{{"html":"<p>{"x" * n} é</p>","url":"u","fetched_at":"{TIME}","title":"<b>"}}'.encode()
        for n in range(100)
    ]
    found = decode_documents(pages)
    texts = extract_packed(found.bodies, found.spans)
    assert [texts.text(n) for n in range(100)] == [f"{'x' * n} é" if n else "é" for n in range(100)]
