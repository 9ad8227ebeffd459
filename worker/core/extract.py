"""
A document -> the page or the text that there is to compare, or that there is nothing to compare.

    TEXT  ────────────────────────────────► plain text
    BYTES ─► content type, else sniffed ─┬► plain text
                                         ├► not text: Skipped
    HTML ───────────────────────────────►┴► a page

Pages in UTF-8 stay bytes: the kernel reads them as they are. All else is decoded here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from worker.core.charset import (
    CONTROLS_SHARE_MAX,
    START_BYTES,
    codec_of,
    decoded,
    has_controls,
    has_many_controls,
    shown_codec,
)
from worker.core.document import TEXT_CHARACTERS_MAX, BodyKind, Document
from worker.core.media_type import media_type_of
from worker.errors import check_type

if TYPE_CHECKING:
    from worker.core.pages import PageAccount

# How a body is read.
AS_PAGE = 0  # as HTML
AS_PLAIN = 1  # as it stands
AS_XML = 2  # as HTML in which a tag may close itself, and CDATA holds what it holds


class Content(NamedTuple):
    """
    The body of a document: a page, as `str` or as UTF-8 bytes; or plain text, as `str`.

    `kind` says how it is read: AS_PAGE, AS_PLAIN or AS_XML.
    """

    body: str | bytes
    kind: int


class Skipped(NamedTuple):
    """
    A document with nothing to compare, such as an image.

    `reason`, in kebab case, goes into the verdict.
    """

    reason: str


class Extracted(NamedTuple):
    """The text of a document and how it was found: one of `pages.METHODS`."""

    text: str
    method: str


_XML_TYPES = frozenset({"application/xhtml+xml", "application/xml", "text/xml"})
_HTML_TYPES = _XML_TYPES | {"text/html"}
_NOT_PROSE = frozenset(
    {"text/css", "text/javascript", "text/ecmascript", "text/csv", "text/calendar", "text/vcard"}
)
_UNDECLARED = frozenset(
    {"", "application/octet-stream", "binary/octet-stream", "application/unknown", "*/*"}
)
# Of what the library finds in bytes: types that are no text, and those whose signature is text.
_BINARY_TYPES_BEGIN = ("image/", "audio/", "video/", "font/")
_BINARY_TYPES = frozenset(
    f"application/{name}"
    for name in ("gzip", "java-vm", "msword", "ogg", "vnd.rar", "wasm", "x-7z-compressed",
                 "x-bzip2", "x-elf", "x-gzip", "x-shockwave-flash", "x-xz", "zip")
)  # fmt: skip
_WRITTEN_TYPES = frozenset({"application/pdf", "application/postscript", "application/rtf"})

SNIFFED_BYTES = 4_096
_SNIFFED_CHARACTERS = 1_024
_HTML_START = re.compile(
    r"<(?:!doctype\s+html|html|head|body|title|meta|div|p|h[1-6]|table|article)\b", re.IGNORECASE
)
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f]")


def content_of(document: Document) -> Content | Skipped:
    """
    Return the content of a document that is compared, or Skipped if it has no text.

    Raises:
        DocumentError: "unknown-charset" when the message names one.

    Cost: next to nothing for text and UTF-8, else O(body).

    >>> content_type = "text/html; charset=utf-8"
    >>> page = Document("a", "https://a.example/", 0, BodyKind.BYTES, b"<p>x</p>", content_type)
    >>> content_of(page)
    Content(body=b'<p>x</p>', kind=0)
    """
    body = document.body
    if isinstance(body, str):
        return Content(body, AS_PAGE if document.kind is BodyKind.HTML else AS_PLAIN)
    if not is_prose(document.content_type):
        return Skipped("unsupported-content-type")
    return _content_of_bytes(body, document)


def extract(
    document: Document, text_characters_max: int = TEXT_CHARACTERS_MAX
) -> Extracted | Skipped:
    """
    Return the text of one document that is fingerprinted, or why there is none.

    The text is well-formed Unicode: lone surrogates and invalid bytes have become U+FFFD. It may be
    empty. For many pages, `extract_pages` is faster.

    Args:
        document: one capture, with its body.
        text_characters_max: the text ends after so many characters.
    Raises:
        DocumentError: "unknown-charset" when the message names one.
        TypeError: an argument of another type.

    Cost: O(body).

    >>> page = "<nav><a href='/'>Home</a></nav><main><p>The fox jumps over the lazy dog.</p></main>"
    >>> extract(Document("a", "https://example.org/", 0, BodyKind.HTML, page))
    Extracted(text='The fox jumps over the lazy dog.', method='main')
    """
    return _extracted(document, text_characters_max)[0]


def extract_with_account(
    document: Document, text_characters_max: int = TEXT_CHARACTERS_MAX
) -> tuple[Extracted | Skipped, PageAccount | None]:
    """
    Return what `extract` returns, and an account of the page: how much was kept, and why the rest
    was left out. The account is None if the document is no page.

    Args, errors and cost: as for `extract`.

    >>> page = "<nav><a href='/'>Home</a></nav><main><p>The fox jumps over the lazy dog.</p></main>"
    >>> document = Document("a", "https://example.org/", 0, BodyKind.HTML, page)
    >>> extract_with_account(document)[1].text
    "7 of 8 words, from the page's <main>; left out: menus and margins 1"
    """
    return _extracted(document, text_characters_max, with_account=True)


def _extracted(
    document: Document, characters_max: int, *, with_account: bool = False
) -> tuple[Extracted | Skipped, PageAccount | None]:
    # The kernels take a second to import.
    from worker.core.pages import METHODS, REASONS, extract_pages, page_account  # noqa: PLC0415

    check_type("document", document, Document)
    content = content_of(document)
    if isinstance(content, Skipped):
        return content, None
    has_account = with_account and content.kind != AS_PLAIN
    fields = ("text", *REASONS) if has_account else ("text",)
    pages = extract_pages(
        [content.body], [content.kind], fields=fields, characters_max=characters_max
    )
    text, *left_out = map(pages.text, range(len(fields)))
    account = None
    if has_account:
        account = page_account(text, left_out, int(pages.regions[0]), int(pages.titles[0]))
    return Extracted(text, METHODS[pages.methods[0]]), account


def _content_of_bytes(body: bytes, document: Document) -> Content | Skipped:
    """
    Read bytes as what the content type says, or else their beginning.

    `bodies.settle` does the same for many bodies at once, and leaves those to this function that
    are not ordinary.
    """
    kind, is_undeclared = declared_as(document.content_type)
    if is_binary(body[:START_BYTES]):
        # An image is one even when the server calls it text/html.
        return Skipped("unsupported-content-type")
    codec, mark_bytes = codec_of(
        body, document.charset, document.content_type, is_html=kind != AS_PLAIN or is_undeclared
    )
    body = body[mark_bytes:]
    if is_undeclared:
        sniffed = sniff(body[:SNIFFED_BYTES], codec)
        if sniffed is None:
            return Skipped("unsupported-content-type")
        kind = sniffed
    is_kept = kind != AS_PLAIN and codec == "utf-8"
    return Content(body if is_kept else decoded(body, codec), kind)


def declared_as(content_type: str | None) -> tuple[int, bool]:
    """Return how a Content-Type says that a body is read, and whether it says nothing."""
    declared = media_type_of(content_type).essence
    if declared in _XML_TYPES:
        return AS_XML, False
    return AS_PAGE if declared in _HTML_TYPES else AS_PLAIN, _says_nothing(declared)


def _says_nothing(essence: str) -> bool:
    return essence in _UNDECLARED or essence.startswith("unknown/")


def is_binary(start: bytes) -> bool:
    """
    Say whether the first `START_BYTES` are those of an image, an archive, a program, or a document
    in a format that is not read.

    Signatures alone mislead: "BM" begins a bitmap, and an article about BMW. So a signature counts
    beside a control character. Where there is no signature that is known, many controls count.
    """
    if shown_codec(start)[0]:
        return False
    sniffed = _mime_detector()(start)
    if sniffed in _WRITTEN_TYPES:
        return True
    is_known = sniffed in _BINARY_TYPES or sniffed.startswith(_BINARY_TYPES_BEGIN)
    return has_many_controls(start) or (is_known and has_controls(start))


@cache
def _mime_detector() -> Callable[[bytes], str]:
    # The library is loaded for bytes only, and once: the statement alone takes 1 µs, more than the
    # detector.
    from resiliparse.parse.encoding import detect_mime  # noqa: PLC0415

    return detect_mime


def sniff(start: bytes, codec: str) -> int | None:
    """
    Say how a body without a content type is read, by its first `SNIFFED_BYTES`; None if they are no
    text.
    """
    text = decoded(start, codec)[:_SNIFFED_CHARACTERS]
    if len(_CONTROLS.findall(text)) > CONTROLS_SHARE_MAX * len(text):
        return None
    if text.startswith("<?xml"):
        return AS_XML
    return AS_PAGE if _HTML_START.search(text) else AS_PLAIN


def is_prose(content_type: str | None) -> bool:
    """
    Say whether a Content-Type allows text to compare; one that says nothing does.

    >>> is_prose("text/html; charset=utf-8"), is_prose(None)
    (True, True)
    >>> is_prose("image/png"), is_prose("text/css")
    (False, False)
    """
    declared = media_type_of(content_type).essence
    if declared in _HTML_TYPES or _says_nothing(declared):
        return True
    return declared.startswith("text/") and declared not in _NOT_PROSE


def agreed_type(declared: str | None, identified: str | None) -> str | None:
    """
    Return the Content-Type by which a body is read, of the server's and a crawler's.

    Servers send pages as downloads and as scripts. So the type that a crawler has found counts
    where the server names none, or one without text to compare. The server's charset stays.

    >>> agreed_type("application/x-javascript; charset=latin1", "text/html")
    'text/html; charset=latin1'
    >>> agreed_type("text/plain", "text/html"), agreed_type(None, "text/html")
    ('text/plain', 'text/html')
    """
    server = media_type_of(declared)
    if not identified or not is_prose(identified):
        return declared
    if is_prose(declared) and not _says_nothing(server.essence):
        return declared
    essence = media_type_of(identified).essence
    return f"{essence}; charset={server.charset}" if server.charset else essence
