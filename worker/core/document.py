"""
What arrives: one captured page, as values. The shell makes it from a message or an archive record.

A capture is a URL at a time, so without a `doc_id` of its own a document gets one derived from both. The values are
named tuples, made in a fifth of the time of frozen dataclasses: every message becomes one.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import xxhash

BODY_BYTES_MAX = 32 << 20  # of an archive's record; a message has the settings' limit
DOC_ID_BYTES_MAX = 1_024  # a row of the log carries it; a longer one would let one document fill a record
URL_BYTES_MAX = 8_192  # browsers and CDX servers stop at about this length
TEXT_CHARACTERS_MAX = 2**20  # a longer one is judged by its beginning


class BodyKind(IntEnum):
    """How the body is to be read."""

    TEXT = 0  # str, already the text to fingerprint
    HTML = 1  # str, a page whose main content is extracted
    BYTES = 2  # bytes: content type and charset say what they are, else they are sniffed


class Document(NamedTuple):
    """One capture. `body` is `str` for TEXT and HTML, `bytes` for BYTES; times are Unix milliseconds, UTC."""

    doc_id: str
    url: str
    fetched_at_ms: int
    kind: BodyKind
    body: str | bytes
    content_type: str | None = None
    charset: str | None = None
    language: str | None = None


class Deletion(NamedTuple):
    """The document of this doc_id is to be forgotten: it is nobody's original from here on."""

    doc_id: str


def derive_doc_id(url: str, fetched_at_ms: int) -> str:
    """
    Return the doc_id of a capture that brings none: 32 hex digits of XXH3-128 over the URL and the time.

    Cost: O(len(url)).

    >>> derive_doc_id("https://example.org/", 0)
    'f59cda302a3c635d0d8d5dc16a9f726f'
    """
    return xxhash.xxh3_128_hexdigest(f"{url}\n{fetched_at_ms}".encode("utf-8", "surrogatepass"))
