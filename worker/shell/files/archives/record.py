"""What reading an archive gives, in the order of the file: documents, records left out by a rule, and damage."""

from __future__ import annotations

import base64
from typing import NamedTuple, TypeAlias

import orjson

from schemas.document import OPTIONAL_CHARACTERS_MAX
from schemas.timestamp import format_timestamp
from worker.core.document import derive_doc_id

Message: TypeAlias = tuple[bytes | None, bytes | None]  # key and value, as in the topic `documents`


class Record(NamedTuple):
    """
    One document: a message for the topic `documents`.

    `offset` is where it begins in the file: of its compressed member in an archive, in the decompressed text for
    JSON Lines. `key` is its doc_id, so that a null value under the same key deletes it; None when it names no
    readable doc_id, url and time. `line` counts from 1 in JSON Lines and CSV, and rows in Parquet. `raw` is what stands
    in the file, decompressed; empty where it was not asked for. `head` is the line that names the columns of CSV.
    """

    file: str
    offset: int
    key: bytes | None
    value: bytes
    line: int | None = None
    raw: bytes = b""
    head: bytes = b""

    @property
    def place(self) -> str:
        """Where it begins, for people."""
        return _place(self)


class Omission(NamedTuple):
    """A record that is no page, by a rule: `reason` in kebab case ("request", "status-404", "revisit", …)."""

    file: str
    offset: int
    reason: str


class Damage(NamedTuple):
    """Bytes that cannot be read as what they should be; the reading goes on behind them."""

    file: str
    offset: int
    reason: str
    line: int | None = None

    @property
    def place(self) -> str:
        """Where it begins, for people."""
        return _place(self)


def _place(found: Record | Damage) -> str:
    return f"{found.file} at byte {found.offset:,}" if found.line is None else f"{found.file}, line {found.line:,}"


Entry: TypeAlias = Record | Omission | Damage


class Capture(NamedTuple):
    """One page as an archive holds it; the body without transfer and content encodings."""

    url: str
    fetched_at_ms: int
    body: bytes
    content_type: str | None = None
    payload_digest: str | None = None
    language: str | None = None
    is_text: bool = False  # the extracted text of a page, in UTF-8


def message_of(capture: Capture) -> tuple[bytes, bytes]:
    """
    Return key and value of a capture's message. The body goes as bytes: the worker finds the charset, as it is there.

    Cost: O(len(body)).

    >>> key, value = message_of(Capture("https://example.org/", 0, b"Hello", is_text=True))
    >>> value.decode()
    '{"url":"https://example.org/","fetched_at":"1970-01-01T00:00:00.000Z","text":"Hello"}'
    """
    url = capture.url.encode("utf-8", "replace").decode()
    fields: dict[str, str] = {"url": url, "fetched_at": format_timestamp(capture.fetched_at_ms)}
    for name, value in (
        ("content_type", capture.content_type),
        ("payload_digest", capture.payload_digest),
        ("language", capture.language),
    ):
        if value and not (name == "content_type" and capture.is_text):
            fields[name] = value.encode("utf-8", "replace").decode()[: OPTIONAL_CHARACTERS_MAX[name]]
    if capture.is_text:
        fields["text"] = capture.body.decode("utf-8", "replace")
    else:
        fields["body_base64"] = base64.b64encode(capture.body).decode()
    return derive_doc_id(url, capture.fetched_at_ms).encode(), orjson.dumps(fields)
