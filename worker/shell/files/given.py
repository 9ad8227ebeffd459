"""
What a caller of the library calls a document -> key and value of a message, so that the engine judges it as any other.

    str                             the text; its doc_id is its number
    dict, Arrow struct              the fields of `schemas.document`; a doc_id, a URL and a time are made where absent
    Document, Deletion              as values
    DocumentMessage                 as its JSON
    Record                          of an archive, as it is
    frame (pandas, polars, Arrow)   a dict a row, of the columns that have a field's name
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from numbers import Integral
from typing import Any, TypeAlias

import orjson

from schemas.document import BODIES, OPTIONAL_CHARACTERS_MAX, DocumentMessage
from schemas.timestamp import format_timestamp
from worker.core.document import BodyKind, Deletion, Document
from worker.shell.files.archives import Record

__all__ = ["Given", "Message", "documents_of", "message_of"]

Given: TypeAlias = str | Mapping[str, Any] | Document | Deletion | DocumentMessage | Record
Message: TypeAlias = tuple[bytes | None, bytes | None]

_FIELDS = ("doc_id", "url", "fetched_at", *OPTIONAL_CHARACTERS_MAX, *BODIES)
_NO_TIME = "1970-01-01T00:00:00Z"  # of a document that brings none: its fetch time changes no verdict
_SHOWN_CHARACTERS_MAX = 60


def documents_of(documents: Any) -> Iterator[Any]:
    """
    Yield the documents of an iterable, or of a frame row by row.

    Raises:
        TypeError: it is one document, or a frame without a body.

    >>> list(documents_of(["a text", {"text": "another"}]))
    ['a text', {'text': 'another'}]
    """
    if documents is None or isinstance(documents, str | bytes | Mapping | Document | Deletion | Record):
        raise TypeError(f"wanted an iterable of documents, got {_shown(documents)}: give a list of it, or use `add`")
    names = getattr(documents, "column_names", getattr(documents, "columns", None))
    if names is None:
        return iter(documents)
    known = [name for name in names if name in _FIELDS]
    if not set(known) & set(BODIES):
        raise TypeError(
            f"a frame needs a column {', '.join(BODIES[:-1])} or {BODIES[-1]}, got {', '.join(map(str, names))}: "
            f"rename one, or give the column alone"
        )
    return (dict(zip(known, row, strict=True)) for row in zip(*(documents[name] for name in known), strict=True))


def message_of(given: Any, number: int) -> Message:
    """
    Return key and value of a document's message; what is wrong in its fields the engine will say.

    Args:
        number: what names it where it has no name of its own.

    Raises:
        TypeError: it is no document, or its body is bytes; ValueError: a time that cannot be written.

    Cost: O(bytes), 2 µs for 5 KB.

    >>> message_of("The ferry is late.", 7)[1].decode()
    '{"text":"The ferry is late.","doc_id":"7","url":"urn:neardup:7","fetched_at":"1970-01-01T00:00:00Z"}'
    """
    given = _plain(given)
    match given:
        case Record():
            return given.key, given.value
        case Deletion():
            return given.doc_id.encode(), None
        case Document():
            fields = _fields_of(given)
        case DocumentMessage():
            fields = given.model_dump(exclude_none=True, mode="json")
        case str():
            fields = {"text": str(given)}
        case Mapping():
            fields = {name: _field(name, given[name], number) for name in _FIELDS if not _is_missing(given.get(name))}
        case _:
            raise TypeError(f"document {number:,} (counted from 0) is {_shown(given)}: {_remedy(given)}")
    if "doc_id" not in fields and not ("url" in fields and "fetched_at" in fields):
        fields["doc_id"] = str(number)
    if "url" not in fields:
        fields["url"] = f"urn:neardup:{fields['doc_id']}"
    fields.setdefault("fetched_at", _NO_TIME)
    try:
        return None, orjson.dumps(fields)
    except TypeError:  # lone surrogates, which the decoder reads as U+FFFD
        return None, json.dumps(fields).encode()


def _fields_of(document: Document) -> dict[str, Any]:
    body = document.body
    names = {BodyKind.TEXT: "text", BodyKind.HTML: "html", BodyKind.BYTES: "body_base64"}
    fields = document._asdict()
    kept = {name: fields[name] for name in ("doc_id", "url", "content_type", "charset", "language") if fields[name]}
    kept[names[document.kind]] = base64.b64encode(body).decode() if isinstance(body, bytes) else body
    return kept | {"fetched_at": format_timestamp(document.fetched_at_ms)}


def _field(name: str, value: Any, number: int) -> Any:
    """Return a field as JSON has it."""
    value = _plain(value)
    if isinstance(value, bytes):
        raise TypeError(f"{name} of document {number:,} (counted from 0) is {_shown(value)}: {_remedy(value)}")
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if name == "doc_id" and isinstance(value, Integral) else value


def _plain(value: Any) -> Any:
    """Return a value of Arrow as Python's own."""
    return value.as_py() if hasattr(value, "as_py") else value


def _is_missing(value: Any) -> bool:
    """Return whether a field has no value: None, and what frames have for it (nan, NaT, NA)."""
    value = _plain(value)
    return value is None or type(value).__name__ in ("NAType", "NaTType") or (value != value) is True  # noqa: PLR0124


def _shown(value: Any) -> str:
    text = repr(value)
    shown = text if len(text) <= _SHOWN_CHARACTERS_MAX else f"{text[:_SHOWN_CHARACTERS_MAX]}…"
    return shown if value is None else f"{type(value).__name__} {shown}"


def _remedy(value: Any) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        return "decode it, or give a Document of BodyKind.BYTES"
    if _is_missing(value):
        return "leave out what is missing (of a pandas column: .dropna(), of a polars one: .drop_nulls())"
    return "give a str, a dict with the fields of DocumentMessage, or a Document"
