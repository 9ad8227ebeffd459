"""Makes messages of what a program gives for documents: texts, dicts, rows, records."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

import orjson

from schemas.document import DocumentMessage
from schemas.fields import TIMESTAMP_MS_MAX, TIMESTAMP_MS_MIN, format_timestamp
from worker.core.document import BodyKind, Deletion, Document
from worker.errors import DocumentError, NeardupError
from worker.shell.files.archives import Message, Record
from worker.shell.files.archives.column_names import NO_NAMES, ColumnNames
from worker.shell.files.archives.columns import FIELDS, plain, shown
from worker.shell.files.archives.rows import filled, remedy
from worker.shell.files.crawl import CrawlFiles
from worker.shell.files.frames import rows_of
from worker.shell.files.row_fields import RowFields
from worker.shell.ports import UNREADABLE

InputDocument: TypeAlias = str | Mapping[str, Any] | Document | Deletion | DocumentMessage | Record

Errors: TypeAlias = Literal["raise", "skip", "return"]


def documents_of(
    documents: Any, columns: ColumnNames = NO_NAMES, score_column: str | None = None
) -> Iterator[Any]:
    """
    Return the documents of an iterable, or of a frame row by row; TypeError: it is one document.

    `CrawlFiles` read the columns themselves.
    """
    if isinstance(documents, CrawlFiles):
        documents.named_columns = columns if columns.named else documents.named_columns
        return iter(documents)
    rows = rows_of(documents, columns, score_column)
    if documents is None or isinstance(
        documents, str | bytes | bytearray | memoryview | Mapping | Document | Deletion | Record
    ):
        raise TypeError(
            f"wanted an iterable of documents, got {shown(documents)}: "
            "give a list of it, or use `add`"
        )
    return iter(documents) if rows is None else rows


def message_of(given: Any, number: int, rows: RowFields) -> Message:
    """
    Return key and value of a document's message; the engine will say what is wrong in its fields.

    Args:
        given: what the caller has for a document: any value at all.
        number: the document's number in the stream. Errors name its number in this input.
        rows: takes the fields of a dict, and knows by what a document without a doc_id is named.
    Raises:
        TypeError: it is no document, or a part of it has the wrong type.
        DocumentError: it is a document that no message can carry.
    """
    own_number = number - rows.inputs.offset
    try:
        return _message_of(plain(given), number, rows)
    except (TypeError, NeardupError, MemoryError, Warning):
        raise
    except RecursionError as error:
        raise DocumentError(
            "too-deep", f"document {own_number} nests lists or dicts too deep: make it flatter"
        ) from error
    except Exception as error:  # the value's own methods may raise anything
        raise DocumentError(
            UNREADABLE,
            f"document {own_number} cannot be read ({type(error).__name__}: {error}): give a str, "
            "a dict with the fields of DocumentMessage, or a Document",
        ) from error


def _message_of(given: Any, number: int, rows: RowFields) -> Message:
    own_number = number - rows.inputs.offset
    match given:
        case Record():
            return given.key, given.content
        case Deletion():
            if not isinstance(given.doc_id, str):
                raise TypeError(
                    f"doc_id of document {own_number} is {shown(given.doc_id)}: give a str"
                )
            return given.doc_id.encode("utf-8", "surrogatepass"), None
        case Document():
            fields = _fields_of(given, own_number)
        case DocumentMessage():
            fields = given.model_dump(exclude_none=True, mode="json")
        case str():
            fields = {"text": str.__str__(given)}  # that of an Enum shows its name
        case Mapping():
            fields = rows.of(given, number)
        case _:
            raise TypeError(f"document {own_number} is {shown(given)}: {remedy(given)}")
    try:
        return None, orjson.dumps(filled(fields, rows.inputs.place(number)))
    except TypeError:  # lone surrogates: the decoder knows what to do
        return None, json.dumps(fields).encode()


_FIELD_OF_KIND = {BodyKind.TEXT: "text", BodyKind.HTML: "html", BodyKind.BYTES: "body_base64"}


def _fields_of(document: Document, number: int) -> dict[str, Any]:
    if not isinstance(document.kind, BodyKind):
        raise TypeError(
            f"kind of document {number} is {shown(document.kind)}: give a neardup.BodyKind"
        )
    body = document.body
    wanted = bytes if document.kind is BodyKind.BYTES else str
    if not isinstance(body, wanted):
        raise TypeError(
            f"body of document {number} is {shown(body)}: "
            f"with {document.kind} give {wanted.__name__}"
        )
    fields = {name: value for name, value in document._asdict().items() if name in FIELDS and value}
    fields[_FIELD_OF_KIND[document.kind]] = (
        base64.b64encode(body).decode() if isinstance(body, bytes) else body
    )
    return fields | {"fetched_at": _timestamp_of(document.fetched_at_ms, number)}


def _timestamp_of(fetched_at_ms: object, number: int) -> str:
    if not isinstance(fetched_at_ms, int):
        raise TypeError(
            f"fetched_at_ms of document {number} is {shown(fetched_at_ms)}: give Unix milliseconds"
        )
    if not TIMESTAMP_MS_MIN <= fetched_at_ms <= TIMESTAMP_MS_MAX:
        raise DocumentError(
            "date-out-of-range",
            f"fetched_at_ms of document {number} is {shown(fetched_at_ms)}: it must lie between "
            f"{TIMESTAMP_MS_MIN} and {TIMESTAMP_MS_MAX} (the end of the year 9999)",
        )
    return format_timestamp(fetched_at_ms)


def messages_of(
    documents: Iterator[Any],
    rows: RowFields,
    wrong: dict[int, Exception],
    errors: Errors,
) -> Iterator[Message]:
    """
    Yield the message of each document of the input. An error goes to `wrong`, by the document's
    number in the stream.
    """
    for number in itertools.count(rows.inputs.offset):
        try:
            document = next(documents)
        except StopIteration:
            return
        except Exception as error:  # any error: documents before it are answered first
            wrong[number] = error
            return
        try:
            message = message_of(document, number, rows)
        except Exception as error:  # any error belongs to this document
            wrong[number] = error
            # A warning that the program has made an error ends the call, whatever the document is.
            if errors == "raise" or isinstance(error, Warning):
                return
            message = None, b"null"  # the log has a place for it
        yield message
