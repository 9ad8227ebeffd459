"""
A message of the topic `documents` as a value, whatever bytes come in.

`schemas.document` defines the format; here it is read by hand, in two thirds of the model's time, and every error is
made here. Tests hold the model, and `documents` for batches, to the same answer for arbitrary input.
"""

from __future__ import annotations

import binascii
import re
from typing import Any

import orjson

from schemas.document import BODIES, OPTIONAL_CHARACTERS_MAX
from schemas.timestamp import TimestampError, parse_timestamp
from worker.core.document import DOC_ID_BYTES_MAX, URL_BYTES_MAX, BodyKind, Deletion, Document, derive_doc_id
from worker.errors import DocumentError

VALUE_BYTES_MAX = 8 * 2**20
_SHOWN_CHARACTERS_MAX = 100
_OPTIONAL = tuple(OPTIONAL_CHARACTERS_MAX.items())
# Half of a pair without the other one; each backslash must begin an escape.
_LONE_SURROGATE = re.compile(
    rb"\\u[dD](?:[89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|[c-fC-F][0-9a-fA-F]{2}(?<!\\u[dD][89abAB].{8}))"
)


def decode_document(
    key: bytes | None, value: bytes | None, *, value_bytes_max: int = VALUE_BYTES_MAX
) -> Document | Deletion:
    """
    Read a message of the topic `documents`: a capture, or with a null value the deletion of the doc_id in its key.

    Any bytes at all give a Document, a Deletion or a DocumentError, and nothing else. A lone surrogate escape
    (`"\\ud800"`, which JavaScript writes for text cut in the middle of a character) is read as U+FFFD.

    Args:
        key: the message's key; read for a deletion only.
        value: the message's value, JSON in UTF-8.
        value_bytes_max: limit of the value's size, bytes.
    Raises:
        DocumentError: field, value, bound and remedy, with the code
            oversize, invalid-json, too-deep, not-an-object: the value as a whole;
            missing-field, invalid-field, url-too-long, doc-id-too-long: a field;
            invalid-date, date-out-of-range: fetched_at;
            no-body, two-bodies, invalid-base64: the body;
            null-key, invalid-key: a deletion that names no doc_id.

    Cost: O(bytes); 7 us for 5 KB of English text.

    >>> decode_document(b"a", None)
    Deletion(doc_id='a')
    >>> decode_document(None, b'{"url": "http://a.example/", "fetched_at": "1970-01-01T00:00:00Z", "text": "x"}').body
    'x'
    """
    if value is None:
        return _deletion(key)
    if len(value) > value_bytes_max:
        raise DocumentError(
            "oversize", f"the value has {len(value):,} bytes, at most {value_bytes_max:,} are taken: cut the body"
        )
    try:
        fields = orjson.loads(value)
    except orjson.JSONDecodeError as error:
        fields = _loads_again(value, error)
    if type(fields) is not dict:
        raise DocumentError(
            "not-an-object", f"the value must be a JSON object with url, fetched_at and a body, got {_shown(fields)}"
        )
    return _document(fields)


def _deletion(key: bytes | None) -> Deletion:
    if not key:
        got = "null" if key is None else "an empty key"
        raise DocumentError("null-key", f"a null value deletes the doc_id in the key, got {got}: put the doc_id there")
    if len(key) > DOC_ID_BYTES_MAX:
        raise _too_long("doc-id-too-long", "key", key.decode("utf-8", "replace"), len(key), DOC_ID_BYTES_MAX)
    try:
        return Deletion(key.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise DocumentError(
            "invalid-key",
            f"the key of a deletion must be a doc_id in UTF-8, got {key[:_SHOWN_CHARACTERS_MAX]!r}: {error.reason} "
            f"at byte {error.start}",
        ) from None


def _document(fields: dict[str, Any]) -> Document:
    get = fields.get
    url = _identifier(fields, "url", URL_BYTES_MAX, "url-too-long")
    fetched_at = get("fetched_at")
    if type(fetched_at) is not str:
        raise _wrong_type("fetched_at", fetched_at, "an ISO 8601 date-time with an offset, like 2024-05-01T12:00:00Z")
    try:
        fetched_at_ms = parse_timestamp(fetched_at)
    except TimestampError as error:
        code = "date-out-of-range" if error.out_of_range else "invalid-date"
        raise DocumentError(code, f"fetched_at is {_shown(fetched_at)}: {error}") from None
    if get("doc_id") is None:
        doc_id = derive_doc_id(url, fetched_at_ms)
    else:
        doc_id = _identifier(fields, "doc_id", DOC_ID_BYTES_MAX, "doc-id-too-long")
    for name, bound in _OPTIONAL:
        text = get(name)
        if text is not None and (type(text) is not str or len(text) > bound):
            raise _wrong_text(name, text, bound)
    kind, body = _body(fields)
    title = get("title")
    if title is not None and type(title) is not str:
        raise _wrong_type("title", title, "a string")
    attrs = get("attrs")
    if attrs is not None and type(attrs) is not dict:
        raise _wrong_type("attrs", attrs, "an object")
    return Document(doc_id, url, fetched_at_ms, kind, body, get("content_type"), get("charset"), get("language"))


def _identifier(fields: dict[str, Any], name: str, bytes_max: int, code_too_long: str) -> str:
    """Read a field that must be a string of 1 to `bytes_max` bytes in UTF-8."""
    text = fields.get(name)
    if type(text) is not str or not text:
        raise _wrong_type(name, text, f"a string of 1 to {bytes_max:,} bytes in UTF-8")
    size = len(text) if text.isascii() else len(text.encode())
    if size > bytes_max:
        raise _too_long(code_too_long, name, text, size, bytes_max)
    return text


def _body(fields: dict[str, Any]) -> tuple[BodyKind, str | bytes]:
    """Return the one body and its kind. An empty body is one: the verdict will be `skipped`."""
    text, html, body_base64 = fields.get("text"), fields.get("html"), fields.get("body_base64")
    if (text is not None) + (html is not None) + (body_base64 is not None) != 1:
        given = [name for name in BODIES if fields.get(name) is not None]
        raise DocumentError(
            "two-bodies" if given else "no-body",
            f"needs exactly one of {', '.join(BODIES)}, got {' and '.join(given) or 'none'}: "
            + ("leave the others out" if given else 'an empty page is "text": ""'),
        )
    if text is not None:
        if type(text) is not str:
            raise _wrong_type("text", text, "a string")
        return BodyKind.TEXT, text
    if html is not None:
        if type(html) is not str:
            raise _wrong_type("html", html, "a string")
        return BodyKind.HTML, html
    if type(body_base64) is not str:
        raise _wrong_type("body_base64", body_base64, "a string")
    try:
        return BodyKind.BYTES, binascii.a2b_base64(body_base64, strict_mode=True)
    except ValueError as error:  # binascii.Error is one
        raise DocumentError(
            "invalid-base64",
            f"body_base64 is {_shown(body_base64)}: {error}. Write base64 of RFC 4648 section 4, with padding and "
            "without line breaks",
        ) from None


def _loads_again(value: bytes, first: orjson.JSONDecodeError) -> Any:
    """Parse what did not parse: without a byte order mark, and with U+FFFD for lone surrogates. Else say why not."""
    mended = value.removeprefix(b"\xef\xbb\xbf")
    if b"\\u" in mended:
        mended = _LONE_SURROGATE.sub(rb"\\ufffd", mended.replace(rb"\\", rb"\u005c"))
    if not mended:
        raise DocumentError("invalid-json", "the value is empty: a deletion has a null value, not an empty one")
    if mended == value:
        raise _not_json(value, first)
    try:
        return orjson.loads(mended)
    except orjson.JSONDecodeError as error:
        raise _not_json(mended, error) from None


def _not_json(value: bytes, error: orjson.JSONDecodeError) -> DocumentError:
    if "depth" in error.msg or "recursion" in error.msg:
        return DocumentError("too-deep", "the value nests arrays or objects more than 1,024 deep: make it flatter")
    try:
        value.decode("utf-8")
    except UnicodeDecodeError as bad:
        start = max(0, bad.start - 20)
        return DocumentError(
            "invalid-json",
            f"the value is not UTF-8: {bad.reason} at byte {bad.start}, in {value[start : bad.start + 20]!r}. "
            "Send bytes in another character set as body_base64",
        )
    start = max(0, error.pos - 20)
    return DocumentError(
        "invalid-json", f"the value is not JSON: {error.msg}, near {_shown(error.doc[start : error.pos + 20])}"
    )


def _wrong_text(name: str, value: Any, characters_max: int) -> DocumentError:
    if type(value) is not str:
        return _wrong_type(name, value, "a string")
    return DocumentError(
        "invalid-field",
        f"{name} has {len(value):,} characters, at most {characters_max:,} are taken: {_shown(value)}. Leave it out",
    )


def _wrong_type(name: str, value: Any, wanted: str) -> DocumentError:
    if value is None:
        return DocumentError("missing-field", f"{name} is missing or null: it must be {wanted}")
    return DocumentError("invalid-field", f"{name} must be {wanted}, got {_shown(value)}")


def _too_long(code: str, name: str, text: str, size: int, bytes_max: int) -> DocumentError:
    return DocumentError(code, f"{name} has {size:,} bytes in UTF-8, at most {bytes_max:,} are taken: {_shown(text)}")


def _shown(value: Any) -> str:
    """Show a JSON value in an error: at most 100 characters of it, whatever its size or depth."""
    match value:
        case str():
            return repr(value) if len(value) <= _SHOWN_CHARACTERS_MAX else f"{value[: _SHOWN_CHARACTERS_MAX - 1]!r}…"
        case dict():
            return f"an object of {len(value):,} fields"
        case list():
            return f"an array of {len(value):,} items"
        case None | bool():
            return str(value).lower().replace("none", "null")
        case _:
            return repr(value)
