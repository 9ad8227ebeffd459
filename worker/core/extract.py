"""
A document -> the text that its fingerprint is made of: main content of pages, plain text as it is.

    TEXT  ────────────────────────────────► text                                       method "plain"
    BYTES ─► content type, else sniffed ─┬► decoded text                               method "plain"
                                         ├► not text: Skipped
    HTML ───────────────────────────────►┴► main content, or where that is next to
                                            nothing, all text                          methods "main", "all"
                                            a page built to be slow: see slow_pages    method "stripped"

Formatting is dropped (words stay apart across elements): indentation of nested lists can make text a hundred times
longer than its page, and the fingerprint sees tokens only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from worker.core.charset import decode_body, well_formed
from worker.core.document import BodyKind, Document
from worker.core.slow_pages import is_slow_to_extract, is_slow_to_parse, stripped_text, without_attribute_floods
from worker.errors import DocumentError

__all__ = ["METHODS", "Extracted", "PageLimits", "Skipped", "extract", "is_prose"]

METHODS = ("plain", "main", "all", "stripped")  # their order is part of the protocol with the page processes


@dataclass(frozen=True, slots=True)
class PageLimits:
    """
    What one page may cost. Beyond a limit a page gets a defined answer, never an endless wait.

    Args:
        body_max: bytes of a body (characters of a `str`); a larger one is a dead letter.
        text_characters_max: longer text is judged by its beginning.
        nesting_max: div and article elements inside each other; main-content extraction is quadratic in them (10,000
            levels 1.8 s, 100,000 levels minutes), so deeper pages give all their text. Browsers stop at 512.
        memory_mb: MiB a page process may grow by over its idle state.
        page_timeout_s: seconds of processor time for one page in a page process; three times as long on the clock.
    """

    body_max: int = 32 << 20
    text_characters_max: int = 16 << 20
    nesting_max: int = 512
    memory_mb: int = 1024
    page_timeout_s: float = 10.0

    def __post_init__(self) -> None:
        for name in ("body_max", "text_characters_max", "nesting_max", "memory_mb", "page_timeout_s"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}: every page would exceed it")


class Extracted(NamedTuple):
    """The text of a page and how it was found: one of METHODS."""

    text: str
    method: str


class Skipped(NamedTuple):
    """A document without anything to compare, as every crawl has them; `reason` in kebab case goes into the verdict."""

    reason: str


_HTML_TYPES = frozenset({"text/html", "application/xhtml+xml", "application/xml", "text/xml"})
_NOT_PROSE = frozenset({"text/css", "text/javascript", "text/ecmascript", "text/csv", "text/calendar", "text/vcard"})
_UNDECLARED = frozenset({"", "application/octet-stream", "binary/octet-stream", "application/unknown", "*/*"})
_BINARY_MAIN_TYPES = ("image", "audio", "video", "font")
_BINARY_TYPES = frozenset({"application/pdf", "application/zip", "application/gzip", "application/x-gzip"})

# A page of much text whose main content is next to nothing (a list, a table, a reference) has been misjudged: by its
# title alone it would be like every page of its kind.
MAIN_SHORT_CHARACTERS = 200
ALL_IS_MORE = 10  # times the main content

_SNIFFED_CHARACTERS = 1_024
_HTML_START = re.compile(r"<(?:!doctype\s+html|html|head|body|title|meta|div|p|h[1-6]|table|article)\b", re.IGNORECASE)
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_CONTROLS_SHARE_MAX = 0.05


def extract(document: Document, limits: PageLimits) -> Extracted | Skipped:
    """
    Give the text of a document, or Skipped for content that has no text.

    Text is well-formed Unicode: lone surrogates and invalid bytes have become U+FFFD. It may be empty.

    Raises:
        DocumentError: "body-too-large" over `limits.body_max`; "unknown-charset" when the message names one.

    Cost: linear in the body; about 35 µs for 8 KB of HTML, 0.3 s for 10 MB.  Source: resiliparse's main-content
    extraction on the Lexbor rules.

    >>> page = "<nav><a href='/'>Home</a></nav><main><p>The fox jumps over the lazy dog.</p></main>"
    >>> extract(Document("a", "https://example.org/", 0, BodyKind.HTML, page), PageLimits())
    Extracted(text='The fox jumps over the lazy dog.', method='main')
    """
    body = document.body
    if len(body) > limits.body_max:
        raise DocumentError("body-too-large", f"the body has {len(body)} bytes, the limit is {limits.body_max}")
    if isinstance(body, bytes):
        return _extract_bytes(body, document, limits)
    if document.kind is BodyKind.TEXT:
        return _plain(body, limits)
    return _extract_html(body, limits)


def _extract_bytes(body: bytes, document: Document, limits: PageLimits) -> Extracted | Skipped:
    """Bytes: the content type says what they are, the content where that says nothing."""
    from resiliparse.parse.encoding import detect_mime  # noqa: PLC0415

    if not is_prose(document.content_type):
        return Skipped("unsupported-content-type")
    declared = _media_type(document.content_type)
    is_html, is_undeclared = declared in _HTML_TYPES, declared in _UNDECLARED
    sniffed = detect_mime(body)
    if sniffed in _BINARY_TYPES or sniffed.partition("/")[0] in _BINARY_MAIN_TYPES:
        return Skipped("unsupported-content-type")  # an image is one even when the server calls it text/html
    text = decode_body(body, document.charset, document.content_type, is_html=is_html or is_undeclared)
    if is_undeclared:
        start = text[:_SNIFFED_CHARACTERS]
        is_html = _HTML_START.search(start) is not None
        if len(_CONTROLS.findall(start)) > _CONTROLS_SHARE_MAX * len(start):
            return Skipped("unsupported-content-type")
    return _extract_html(text, limits) if is_html else _plain(text, limits)


def is_prose(content_type: str | None) -> bool:
    """
    Say whether a Content-Type allows text to compare; one that says nothing does.

    >>> is_prose("text/html; charset=utf-8"), is_prose(None), is_prose("image/png"), is_prose("text/css")
    (True, True, False, False)
    """
    declared = _media_type(content_type)
    if declared in _HTML_TYPES or declared in _UNDECLARED:
        return True
    return declared.startswith("text/") and declared not in _NOT_PROSE


def _media_type(content_type: str | None) -> str:
    """Give "type/subtype" in lower case, or "" for what is none."""
    declared = (content_type or "").partition(";")[0].strip().lower()
    return declared if "/" in declared and not declared.startswith("unknown/") else ""


def _plain(text: str, limits: PageLimits) -> Extracted:
    return Extracted(well_formed(text[: limits.text_characters_max]), "plain")


def _extract_html(html: str, limits: PageLimits) -> Extracted:
    from resiliparse.extract.html2text import extract_plain_text  # noqa: PLC0415

    html = without_attribute_floods(well_formed(html))
    if is_slow_to_parse(html):
        return Extracted(stripped_text(html)[: limits.text_characters_max], "stripped")
    main = ""
    if not is_slow_to_extract(html, limits.nesting_max):
        main = extract_plain_text(
            html, main_content=True, preserve_formatting=False, list_bullets=False, comments=False
        ).strip()
        if len(main) >= MAIN_SHORT_CHARACTERS:
            return Extracted(main[: limits.text_characters_max], "main")
    text = extract_plain_text(html, main_content=False, preserve_formatting=False, list_bullets=False)
    if main and len(text) < ALL_IS_MORE * len(main):
        return Extracted(main[: limits.text_characters_max], "main")
    return Extracted(text[: limits.text_characters_max], "all")
