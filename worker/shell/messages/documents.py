"""
Reads messages of the topic `documents`, whatever bytes come in: one as a value, or a batch as
columns.

`schemas.document` defines the format. A kernel reads the ordinary messages of a batch
(`core/kernels/documents.py`). What it leaves, errors above all, the model reads one by one, and
every error is made here. Tests hold both together.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray
from pydantic import ValidationError

from schemas.document import BODIES, OPTIONAL_CHARACTERS_MAX, DocumentMessage
from schemas.fields import TIMESTAMP_MS_MAX, TimestampError, parse_timestamp, to_ms
from worker.core.document import (
    DOC_ID_BYTES_MAX,
    URL_BYTES_MAX,
    BodyKind,
    Deletion,
    Document,
    derive_doc_id,
)
from worker.core.kernels.documents import NO_TIME, TEXTS, UNREAD, read_documents
from worker.core.pages.batch import joined
from worker.errors import DocumentError, check_type
from worker.log.texts import Texts

VALUE_BYTES_MAX = 8 * 2**20
_SHOWN_CHARACTERS_MAX = 100
_BYTES_MAX = {"url": URL_BYTES_MAX, "doc_id": DOC_ID_BYTES_MAX}
_WANTED: dict[str, str] = {
    name: f"a string of 1 to {bytes_max:,} bytes in UTF-8" for name, bytes_max in _BYTES_MAX.items()
} | {
    "doc_id": f"a string of 1 to {DOC_ID_BYTES_MAX:,} bytes in UTF-8, or a whole number of 64 bits",
    "fetched_at": "an ISO 8601 date-time with an offset, like 2024-05-01T12:00:00Z",
    "attrs": "an object",
}
# The first error counts. What has no body at all is hardly a document, so that is said before.
_ORDER = ("url", "fetched_at", "doc_id", *OPTIONAL_CHARACTERS_MAX, *BODIES, "title", "attrs")
_NAMES_SHOWN_MAX = 8  # fields of a message without a body
# A text, or what Python writes for a number that is none: neither is JSON, and it means null. The
# last quote may be missing, so that each text is passed over once.
_TEXT_OR_NAN = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|-?\bInfinity\b|\bNaN\b', re.DOTALL)
_REGISTRY_BYTES = 5  # of a Schema Registry's frame: a zero, and the number of the schema
# Half of a pair without the other one; each backslash must begin an escape.
_LONE_SURROGATE = re.compile(
    rb"\\u[dD](?:[89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    rb"|[c-fC-F][0-9a-fA-F]{2}(?<!\\u[dD][89abAB].{8}))"
)


def decode_document(
    key: bytes | None,
    value: bytes | None,
    *,
    value_bytes_max: int = VALUE_BYTES_MAX,
    timestamp_ms: int = 0,
) -> Document | Deletion:
    """
    Return the capture in a message of the topic `documents`; if its value is null, the deletion of
    the doc_id in its key.

    Any bytes at all give a Document, a Deletion or a DocumentError, and nothing else. A lone
    surrogate escape (`"\\ud800"`, which JavaScript writes for text cut in the middle of a
    character) is read as U+FFFD, but refused in a doc_id or a URL, since two of them would become
    one. NaN and Infinity, which Python writes for numbers that are none, are read as null.

    Args:
        key: the message's key; read for a deletion only.
        value: the message's value, JSON in UTF-8.
        value_bytes_max: limit of the value's size, bytes.
        timestamp_ms: the message's own time stamp in its topic, which is the fetch time of a
            document without one; 0 where it has none. It is stored with the message, so whoever
            reads the message again, at any time, reads the same document.
    Raises:
        DocumentError: field, value, bound and remedy, with the code
            oversize, invalid-json, too-deep, not-an-object: the value as a whole;
            missing-field, invalid-field, url-too-long, doc-id-too-long: a field;
            invalid-date, date-out-of-range: fetched_at;
            no-body, two-bodies, invalid-base64: the body;
            null-key, invalid-key: a deletion that names no doc_id.
        TypeError: key or value is neither bytes nor None.

    Cost: O(bytes); 15 us for 5 KB of English text.

    >>> decode_document(b"a", None)
    Deletion(doc_id='a')
    >>> value = b'{"url": "http://a.example/", "fetched_at": "1970-01-01T00:00:00Z", "text": "x"}'
    >>> decode_document(None, value).body
    'x'
    """
    if value is None:
        check_type("key", key, (bytes, NoneType))
        return _deletion(key)
    check_type("value", value, bytes)
    if len(value) > value_bytes_max:
        raise oversize(len(value), value_bytes_max)
    try:
        fields = orjson.loads(value)
    except orjson.JSONDecodeError as error:
        fields = _loads_again(value, error)
    if type(fields) is not dict:
        raise DocumentError(
            "not-an-object",
            f"the value must be a JSON object with url, fetched_at and a body, got {_shown(fields)}"
            + (": send each item as a message of its own" if type(fields) is list else ""),
        )
    default_ms = timestamp_ms if 0 < timestamp_ms <= TIMESTAMP_MS_MAX else None
    return _document(fields, default_ms)


def oversize(value_bytes: int, value_bytes_max: int) -> DocumentError:
    """Return the error of a value that is too long, whatever else is wrong with it."""
    return DocumentError(
        "oversize",
        f"the value has {value_bytes:,} bytes, at most {value_bytes_max:,} are taken: cut the body",
    )


def _deletion(key: bytes | None) -> Deletion:
    if not key:
        got = "null" if key is None else "an empty key"
        raise DocumentError(
            "null-key",
            f"a null value deletes the doc_id in the key, got {got}: put the doc_id there",
        )
    if len(key) > DOC_ID_BYTES_MAX:
        raise _too_long("key", key.decode("utf-8", "replace"), len(key), DOC_ID_BYTES_MAX)
    try:
        return Deletion(key.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise DocumentError(
            "invalid-key",
            "the key of a deletion must be a doc_id in UTF-8, got "
            f"{key[:_SHOWN_CHARACTERS_MAX]!r}: {error.reason} at byte {error.start}",
        ) from None


def _document(fields: dict[str, Any], default_ms: int | None) -> Document:
    """Return the document of a message's fields; `default_ms` is its time if it names none."""
    lacks_time = default_ms is None and fields.get("fetched_at") is None
    try:
        message = DocumentMessage.model_validate(fields)
    except ValidationError as error:
        raise _refusal(fields, error, lacks_time=lacks_time) from None
    if lacks_time:
        raise _wrong_field("fetched_at", None)
    body: str | bytes
    if message.text is not None:
        kind = BodyKind.TEXT
        body = message.text
    elif message.html is not None:
        kind = BodyKind.HTML
        body = message.html
    else:
        kind = BodyKind.BYTES
        body = binascii.a2b_base64(message.body_base64 or "")
    time_ms = (default_ms or 0) if message.fetched_at is None else to_ms(message.fetched_at)
    doc_id = derive_doc_id(message.url, time_ms) if message.doc_id is None else message.doc_id
    return Document(
        doc_id,
        message.url,
        time_ms,
        kind,
        body,
        message.content_type,
        message.charset,
        message.language,
    )


def _refusal(fields: dict[str, Any], error: ValidationError, *, lacks_time: bool) -> DocumentError:
    """Say what the model refuses, the first field of `_ORDER` if there are several."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    wrong = {part["loc"][0] for part in found if part["loc"]}
    if lacks_time:
        wrong.add("fetched_at")
    given = [name for name in BODIES if fields.get(name) is not None]
    if not given:
        return no_body(fields)
    for name in _ORDER:
        if name == BODIES[0] and len(given) != 1:
            return DocumentError(
                "two-bodies",
                f"needs exactly one of {', '.join(BODIES)}, "
                f"got {' and '.join(given)}: leave the others out",
            )
        if name in wrong:
            return _wrong_field(name, fields.get(name))
    return DocumentError("invalid-field", str(error))


def no_body(fields: Mapping[Any, Any]) -> DocumentError:
    """Return the error of a document without a body, which may be an envelope of documents."""
    said = f"needs exactly one of {', '.join(BODIES)}, got none"
    known = DocumentMessage.model_fields
    others = [name for name in fields if name not in known]
    if {"verdict", "decided_at"} <= fields.keys():
        remedy = (
            "feed the documents themselves, or let workers read another topic (--topic-documents)"
        )
        return DocumentError("no-body", f"{said}: this is a verdict of neardup: {remedy}")
    for name in others:
        value = fields[name]
        inner = value[0] if type(value) is list and value else value
        if type(inner) is not dict:
            continue
        if len(others) == len(fields) or not inner.keys().isdisjoint((*BODIES, "url")):
            what = "each item of it" if type(value) is list else "it"
            return DocumentError(
                "no-body",
                f"{said}: this is an envelope, whose field {_shown(name)} is {_shown(value)}. Send "
                f"{what} as a message of its own (from Kafka Connect: schemas.enable=false)",
            )
    remedy = 'an empty page is "text": ""'
    if not others or not fields.keys().isdisjoint(BODIES):  # it is there, and null
        return DocumentError("no-body", f"{said}: {remedy}")
    names = ", ".join(map(_shown, others[:_NAMES_SHOWN_MAX]))
    names += f" and {len(others) - _NAMES_SHOWN_MAX:,} more" * (len(others) > _NAMES_SHOWN_MAX)
    return DocumentError(
        "no-body", f"{said}, but {names}: rename the field that has the body; {remedy}"
    )


def _wrong_field(name: str, value: Any) -> DocumentError:
    """Return the error for a field's value: the field, the value, the bound and the remedy."""
    wanted = _WANTED.get(name, "a string")
    if value is None:
        return DocumentError("missing-field", f"{name} is missing or null: it must be {wanted}")
    if type(value) is str and name == "fetched_at":
        try:
            parse_timestamp(value)
        except TimestampError as error:
            code = "date-out-of-range" if error.out_of_range else "invalid-date"
            return DocumentError(code, f"fetched_at is {_shown(value)}: {error}")
    if type(value) is str and name == "body_base64":
        try:
            binascii.a2b_base64(value, strict_mode=True)
        except ValueError as error:  # binascii.Error is one
            return DocumentError(
                "invalid-base64",
                f"body_base64 is {_shown(value)}: {error}. Write base64 of RFC 4648 section 4, "
                "with padding and without line breaks",
            )
    if type(value) is str and value and name in _BYTES_MAX:
        return _too_long(name, value, len(value.encode()), _BYTES_MAX[name])
    if type(value) is str and name in OPTIONAL_CHARACTERS_MAX:
        return DocumentError(
            "invalid-field",
            f"{name} has {len(value):,} characters, at most {OPTIONAL_CHARACTERS_MAX[name]:,} are "
            f"taken: {_shown(value)}. Leave it out",
        )
    return DocumentError("invalid-field", f"{name} must be {wanted}, got {_shown(value)}")


def _too_long(name: str, text: str, size: int, bytes_max: int) -> DocumentError:
    code = "url-too-long" if name == "url" else "doc-id-too-long"
    return DocumentError(
        code, f"{name} has {size:,} bytes in UTF-8, at most {bytes_max:,} are taken: {_shown(text)}"
    )


def _loads_again(value: bytes, first: orjson.JSONDecodeError) -> Any:
    """
    Parse JSON that did not parse, once more: without a byte order mark, with U+FFFD for lone
    surrogates, and with null for NaN and Infinity.

    Raises the reason if that fails, too, or if a name has such a surrogate.
    """
    mended = value.removeprefix(b"\xef\xbb\xbf")
    if b"NaN" in mended or b"Infinity" in mended:
        mended = _TEXT_OR_NAN.sub(_nan_as_null, mended)
    lone = mended  # with another character than U+FFFD for lone surrogates
    if b"\\u" in mended:
        escaped = mended.replace(rb"\\", rb"\u005c")
        mended = _LONE_SURROGATE.sub(rb"\\ufffd", escaped)
        lone = _LONE_SURROGATE.sub(rb"\\ufffe", escaped)
    if not mended:
        raise DocumentError(
            "invalid-json", "the value is empty: a deletion has a null value, not an empty one"
        )
    if mended == value:
        raise _not_json(value, first)
    try:
        fields = orjson.loads(mended)
    except orjson.JSONDecodeError as error:
        raise _not_json(mended, error) from None
    if lone != mended and type(fields) is dict:
        _check_names(fields, orjson.loads(lone))
    return fields


def _check_names(fields: Mapping[str, Any], marked: Mapping[str, Any]) -> None:
    """
    Raise DocumentError if url or doc_id has a lone surrogate: if it is another text in `marked`.
    """
    for name in ("doc_id", "url"):
        if fields.get(name) != marked.get(name):
            raise DocumentError(
                "invalid-field",
                f"{name} is {_shown(fields[name])}, where U+FFFD stands for half of a surrogate "
                "pair: that is no character, and two names would become one. Cut no text within a "
                "character, and write bytes that are not UTF-8 in hexadecimal",
            )


def _nan_as_null(found: re.Match[bytes]) -> bytes:
    return found[0] if found[0].startswith(b'"') else b"null"


def _not_json(value: bytes, error: orjson.JSONDecodeError) -> DocumentError:
    if "depth" in error.msg or "recursion" in error.msg:
        return DocumentError(
            "too-deep", "the value nests arrays or objects more than 1,024 deep: make it flatter"
        )
    if len(value) > _REGISTRY_BYTES and value[0] == 0:
        schema_id = int.from_bytes(value[1:_REGISTRY_BYTES])
        return DocumentError(
            "invalid-json",
            f"the value begins with a byte 0 and 4 bytes ({schema_id:,}), as a Schema Registry's "
            f"serializer writes the number of a schema: send plain JSON, without the registry",
        )
    try:
        value.decode("utf-8")
    except UnicodeDecodeError as bad:
        start = max(0, bad.start - 20)
        return DocumentError(
            "invalid-json",
            f"the value is not UTF-8: {bad.reason} at byte {bad.start}, in "
            f"{value[start : bad.start + 20]!r}. "
            "Send bytes in another character set as body_base64",
        )
    start = max(0, error.pos - 20)
    return DocumentError(
        "invalid-json",
        f"the value is not JSON: {error.msg}, near {_shown(error.doc[start : error.pos + 20])}",
    )


def _shown(value: Any) -> str:
    """Show a JSON value in an error: at most 100 characters of it, whatever its size or depth."""
    match value:
        case str():
            return (
                repr(value)
                if len(value) <= _SHOWN_CHARACTERS_MAX
                else f"{value[: _SHOWN_CHARACTERS_MAX - 1]!r}…"
            )
        case dict():
            return f"an object of {len(value):,} fields"
        case list():
            return f"an array of {len(value):,} items"
        case None | bool():
            return str(value).lower().replace("none", "null")
        case _:
            return repr(value)


class DocumentColumns(NamedTuple):
    """The fields of n messages, as columns. Those of a message that is UNREAD have no meaning."""

    kinds: NDArray[np.uint8]  # a BodyKind, or UNREAD
    doc_ids: Texts
    urls: Texts
    languages: Texts
    content_types: Texts
    charsets: Texts
    times_ms: NDArray[np.int64]
    bodies: NDArray[np.uint8]  # UTF-8, as `pages.extract_packed` reads them; of BYTES as they are
    spans: NDArray[np.int64]

    def document(self, place: int) -> Document:
        """Return the document at a place, whose body is BYTES."""
        begin, end, _ = self.spans[place].tolist()
        columns = self.content_types, self.charsets, self.languages
        return Document(
            self.doc_ids[place].decode(), self.urls[place].decode(), int(self.times_ms[place]),
            BodyKind.BYTES, self.bodies[begin:end].tobytes(),
            *(column[place].decode() or None for column in columns),
        )  # fmt: skip


def decode_documents(values: Sequence[bytes]) -> DocumentColumns:
    """
    Read most of the messages that `decode_document` accepts. A message with anything unusual in it
    stays unread, and so does every message with an error.

    Cost: O(bytes), about 1 ns each, nearly all of it without the interpreter's lock.

    >>> value = b'{"url": "u", "fetched_at": "1970-01-01T00:00:01Z", "text": "x"}'
    >>> decode_documents([value, b"{}"]).kinds.tolist()
    [0, 255]
    """
    count = len(values)
    data, spans = joined(values, None)
    texts = np.empty((TEXTS, data.size), np.uint8)
    ends = np.empty((TEXTS, count), np.int64)
    bodies = np.empty(data.size, np.uint8)
    places = np.empty((count, 3), np.int64)
    kinds = np.empty(count, np.uint8)
    times_ms = np.empty(count, np.int64)
    read_documents(data, spans, texts, ends, kinds, times_ms, bodies, places)
    # Copies, because what they are cut from is many times as long.
    doc_ids, urls, times, languages, content_types, charsets = (
        Texts(texts[field, : ends[field, -1]].copy() if count else texts[field], ends[field])
        for field in range(TEXTS)
    )
    _read_times(times, kinds, times_ms)
    return DocumentColumns(
        kinds, _derived(doc_ids, urls, kinds, times_ms), urls, languages, content_types, charsets,
        times_ms, bodies, places,
    )  # fmt: skip


def _read_times(times: Texts, kinds: NDArray[np.uint8], times_ms: NDArray[np.int64]) -> None:
    """Read the times that the kernel leaves; a message with none that we accept is UNREAD."""
    for place in np.flatnonzero((times_ms == NO_TIME) & (kinds != UNREAD)).tolist():
        try:
            times_ms[place] = parse_timestamp(times[place].decode())
        except TimestampError:
            kinds[place] = UNREAD


def _derived(
    doc_ids: Texts, urls: Texts, kinds: NDArray[np.uint8], times_ms: NDArray[np.int64]
) -> Texts:
    """Return the doc_ids with those that follow from URL and time where a message has none."""
    lacking = np.flatnonzero((doc_ids.sizes == 0) & (kinds != UNREAD))
    if not len(lacking):
        return doc_ids
    found = doc_ids.tolist()
    for place in lacking.tolist():
        found[place] = derive_doc_id(urls[place].decode(), int(times_ms[place])).encode()
    return Texts.of(found)
