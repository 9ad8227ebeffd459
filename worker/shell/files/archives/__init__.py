"""
Turns crawler output into messages of documents: archives and tables, plain or compressed, from
files, URLs or stdin.

    file ─► inflate ─┬─► segments ─► warc ─┬─► Record | Omission | Damage, in the order of the file
                     └─► rows ─────────────┘

Damage costs only the damaged bytes. It is reported with file and offset, and reading goes on after
it.
"""

from __future__ import annotations

import base64
from typing import NamedTuple, TypeAlias

import orjson

from schemas.document import OPTIONAL_CHARACTERS_MAX
from schemas.fields import TIMESTAMP_MS_MIN, format_timestamp
from worker.core.document import URL_BYTES_MAX, BodyKind, Document, derive_doc_id
from worker.shell.files.places import shown_name


class Capture(NamedTuple):
    """One page of an archive. Its body has no transfer or content encoding."""

    url: str
    fetched_at_ms: int
    body: bytes
    content_type: str | None = None
    payload_digest: str | None = None
    language: str | None = None
    is_text: bool = False  # the extracted text of a page, in UTF-8

    @property
    def doc_id(self) -> str:
        """The doc_id that a message without one gets."""
        return derive_doc_id(self._url, self.fetched_at_ms)

    @property
    def _url(self) -> str:
        return self.url.encode("utf-8", "replace").decode()

    def _optional(self) -> dict[str, str]:
        fields = {"payload_digest": self.payload_digest, "language": self.language}
        if not self.is_text:
            fields = {"content_type": self.content_type, **fields}
        return {
            name: value.encode("utf-8", "replace").decode()[: OPTIONAL_CHARACTERS_MAX[name]]
            for name, value in fields.items()
            if value
        }

    def message(self) -> bytes:
        """
        Return the value of the page's message.

        It contains the body as bytes, because the worker detects the character set, as it does for
        every message.

        >>> Capture("https://example.org/", 0, b"Hello", is_text=True).message().decode()
        '{"url":"https://example.org/","fetched_at":"1970-01-01T00:00:00.000Z","text":"Hello"}'
        """
        if self.is_text:
            return self._json(text=self.body.decode("utf-8", "replace"))
        return self._json(body_base64=base64.b64encode(self.body).decode())

    def _json(self, **body: str) -> bytes:
        fields = {"url": self._url, "fetched_at": format_timestamp(self.fetched_at_ms)}
        return orjson.dumps(fields | self._optional() | body)

    def document(self, message_bytes_max: int) -> tuple[Document, int] | None:
        """
        Return the document to which the page's message would be decoded, and the size of that
        message.

        It saves the detour through JSON and base64.

        None for a text, which JSON holds unchanged, and for a message that would be refused for its
        length, its time or the length of its URL.
        """
        message_bytes = len(self._json(body_base64="")) + (len(self.body) + 2) // 3 * 4
        url = self._url
        optional = self._optional()
        is_too_long = message_bytes > message_bytes_max or len(url.encode()) > URL_BYTES_MAX
        if self.is_text or is_too_long or self.fetched_at_ms < TIMESTAMP_MS_MIN:
            return None
        named = optional.get("content_type"), None, optional.get("language")
        return Document(
            self.doc_id, url, self.fetched_at_ms, BodyKind.BYTES, self.body, *named
        ), message_bytes


def place_of(file: str, offset: int, line: int | None) -> str:
    """
    Return where an entry of a file begins, for people.

    >>> place_of("a.jsonl", 7, None)
    'a.jsonl at byte 7'
    """
    where = f" at byte {offset:,}" if line is None else f", line {line:,}"
    return shown_name(file) + where


class Unreadable(NamedTuple):
    """A row of which no message can be made: the code and the text of its dead letter."""

    code: str
    text: str

    def message(self) -> bytes:
        """Return a message for the topic `documents`; its dead letter says why the row has none."""
        return orjson.dumps(f"a row that cannot be read: {self.text}")


# Key and value, as in the topic `documents`.
Message: TypeAlias = tuple[bytes | None, bytes | Capture | Unreadable | None]


class Head(NamedTuple):
    """
    The part of a text file before its rows, which all rows share.

    For CSV, `data` is the line that names the columns, with its end and the file's byte order mark.
    For JSON Lines it is only the mark.
    """

    columns: tuple[str, ...]
    encoding: str
    data: bytes
    delimiter: str = ","

    @property
    def line_end(self) -> bytes:
        """The characters that end a line, in the file's encoding."""
        end = "\r\n".encode(self.encoding)
        return end if self.data.endswith(end) else "\n".encode(self.encoding)


class Record(NamedTuple):
    """
    One document: a message for the topic `documents`.

    `offset` is where it begins in the file: of its compressed member in an archive, in the
    decompressed text for JSON Lines. `key` is its doc_id, so that a null value under the same key
    deletes it; None when it names no readable doc_id, url and time. `line` counts from 1 in JSON
    Lines and CSV, and rows in Parquet. `raw` is what stands in the file, decompressed, a line with
    its end; empty where it was not asked for. `score` is the number in the column that was named
    for it; None: there is none.
    """

    file: str
    offset: int
    key: bytes | None
    content: bytes | Capture | Unreadable
    line: int | None = None
    raw: bytes = b""
    head: Head | None = None
    score: float | None = None

    @property
    def value(self) -> bytes:
        """The value of its message."""
        return self.content if isinstance(self.content, bytes) else self.content.message()

    @property
    def place(self) -> str:
        """The place where it begins, as text for people."""
        return place_of(self.file, self.offset, self.line)


class Omission(NamedTuple):
    """
    A record that is not a page, by a rule. `reason` is in kebab-case ("request", "status-404",
    "revisit", …).
    """

    file: str
    offset: int
    reason: str


class Damage(NamedTuple):
    """
    Bytes that cannot be read. Reading goes on after them.

    `ends_file` says that it does not: the file is beyond its budget (`budget.py`), or cannot be
    read any further.
    """

    file: str
    offset: int
    reason: str
    line: int | None = None
    ends_file: bool = False

    @property
    def place(self) -> str:
        """The place where it begins, as text for people."""
        return place_of(self.file, self.offset, self.line)

    def json_line(self) -> bytes:
        """
        Return it as a line of JSON.

        >>> Damage("a.warc", 7, "no URL").json_line()
        b'{"file":"a.warc","offset":7,"reason":"no URL","line":null,"ends_file":false}\\n'
        """
        shown = {"file": shown_name(self.file), "reason": shown_name(self.reason)}
        return orjson.dumps(self._asdict() | shown, option=orjson.OPT_APPEND_NEWLINE)


Entry: TypeAlias = Record | Omission | Damage
