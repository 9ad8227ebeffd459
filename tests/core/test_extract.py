"""From a page to its text, and what hostile or broken pages get."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.core.document import BodyKind, Document, derive_doc_id
from worker.core.extract import Extracted, Skipped, extract
from worker.errors import DocumentError

CHARACTERS_MAX = 1 << 24
ARTICLE = "<p>The harbour master counted the boats twice, for the fog had come in early and the lamps were weak.</p>"


def html(body: str, characters_max: int = CHARACTERS_MAX) -> Extracted | Skipped:
    return extract(Document("a", "https://example.org/", 0, BodyKind.HTML, body), characters_max)


def raw(body: bytes, content_type: str | None = None, charset: str | None = None) -> Extracted | Skipped:
    document = Document("a", "https://example.org/", 0, BodyKind.BYTES, body, content_type, charset)
    return extract(document, CHARACTERS_MAX)


def plain(body: str) -> Extracted | Skipped:
    return extract(Document("a", "https://example.org/", 0, BodyKind.TEXT, body), CHARACTERS_MAX)


def test_words_of_neighbouring_blocks_stay_apart() -> None:
    """Dropping the formatting joins no words across blocks and splits none across inline elements."""
    extracted = html("<main><h2>One</h2><div>two</div><div>th<b>re</b>e</div><p>four<br>five</p></main>")
    assert isinstance(extracted, Extracted)
    assert extracted.text.split() == ["One", "two", "three", "four", "five"]


KOI8 = "<html><meta charset=koi8-r><main><p>Привет, мир</p></main></html>".encode("koi8-r")
MARTIAN = b"<html><meta charset=klingon><main><p>Well met, traveller</p></main></html>"
PNG = b"\x89PNG\r\n\x1a\n0000"


@pytest.mark.parametrize(
    ("body", "content_type", "charset", "method", "text"),
    [
        ("grüß dich".encode("latin1"), "text/plain", "latin1", "plain", "grüß dich"),
        ("grüß dich".encode("latin1"), "text/plain; charset=iso-8859-1", None, "plain", "grüß dich"),
        ("\ufeffgrüß dich".encode("utf-16-be"), "text/plain", "latin1", "plain", "grüß dich"),  # the mark wins
        ("\ufeffgrüß dich".encode(), "text/plain; charset=latin1", None, "plain", "grüß dich"),
        ("漢字とかな交じりの文章".encode("shift_jis"), "text/plain", "x-sjis", "plain", "漢字とかな交じりの文章"),
        ("Привет, мир: обычный текст".encode("cp1251"), "text/plain", None, "plain", "Привет, мир: обычный текст"),
        (b"a\xffb", "text/plain", "utf-8", "plain", "a\ufffdb"),  # invalid bytes are replaced
        (b"a\xffb", "text/plain; charset=klingon", "utf-8", "plain", "a\ufffdb"),
        ("①番目の㈱".encode("cp932"), "text/plain; charset=shift_jis", None, "plain", "①番目の㈱"),
        ("这是一个网页".encode("gb18030"), "text/plain", "gb2312", "plain", "这是一个网页"),
        (b"one\0two", "text/plain", None, "plain", "one\0two"),
        (KOI8, "text/html", None, "main", "Привет, мир"),  # a meta element names it
        (KOI8, None, None, "main", "Привет, мир"),
        (MARTIAN, "text/html; charset=martian", None, "main", "Well met, traveller"),  # strangers' claims
        # Without a content type, markup near the start makes a page, else it is text.
        (f"<!DOCTYPE html><main>{ARTICLE}</main>".encode(), None, None, "main", ARTICLE[3:-4]),
        (b"Only words.", "application/octet-stream", None, "plain", "Only words."),
        (b"", None, None, "plain", ""),
        (b"word", None, None, "plain", "word"),
        (b"<p>word</p>", None, None, "main", "word"),
        (b"<nav><a href=/>Start</a> <a href=/b>Contact</a></nav>", "text/html", None, "all", "Start Contact"),
    ],
)  # fmt: skip
def test_bytes_are_read_as_what_they_are(
    body: bytes, content_type: str | None, charset: str | None, method: str, text: str
) -> None:
    """
    Charset by byte order mark, then message, content type, the page's own word, detection; a page by its look.

    Of one that is nothing but a menu all text counts.
    """
    assert raw(body, content_type, charset) == Extracted(text, method)


def test_an_unknown_charset_in_the_message_is_an_error() -> None:
    """The sender is told, rather than guessed at."""
    with pytest.raises(DocumentError, match="klingon") as caught:
        raw(b"text", "text/plain", "klingon")
    assert caught.value.code == "unknown-charset"


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (PNG, "image/png"),
        (PNG, "text/html"),  # what servers claim
        (PNG, None),
        (b"%PDF-1.7\n...", "application/pdf"),
        (b"%PDF-1.7\n...", "text/plain"),
        (b'{"a": 1}', "application/json"),
        (b"a{b:c}", "text/css"),
        (bytes(range(32)) * 40, "application/octet-stream"),
    ],
)
def test_what_has_no_prose_is_skipped(body: bytes, content_type: str | None) -> None:
    """Images, PDF, data and styles are in every crawl: skipped with a reason, not an error."""
    assert raw(body, content_type) == Skipped("unsupported-content-type")


def test_longer_text_is_judged_by_its_beginning() -> None:
    """text_characters_max cuts, for plain text and pages alike."""
    assert html("<main><p>one two three</p></main>", 5) == Extracted("one t", "main")


@pytest.mark.parametrize("body", ["", " ", "<html></html>", "<!-- only a comment -->", "<script>x()</script>"])
def test_a_page_without_text_gives_empty_text(body: str) -> None:
    """Nothing is found and nothing invented."""
    extracted = html(body)
    assert isinstance(extracted, Extracted)
    assert extracted.text.strip() == ""


def test_nul_bytes_and_lone_surrogates() -> None:
    """NUL bytes do not end a page; lone surrogates become U+FFFD; a pair becomes its character."""
    found = html("<main><p>fore\0and aft\0</p><p>end</p></main>")
    assert isinstance(found, Extracted)
    assert found.text.endswith("end")
    assert html("<main><p>a\ud800b \ud83d\ude00</p></main>") == Extracted("a\ufffdb 😀", "main")
    assert plain("a\udfffb") == Extracted("a\ufffdb", "plain")


@given(st.text(alphabet=st.characters(categories=["L", "N", "P", "Z", "Cs", "Cc", "S"])), st.binary(max_size=200))
def test_whatever_comes_in_well_formed_text_goes_out(characters: str, data: bytes) -> None:
    """Any characters and any bytes give encodable text or a skip, never an exception."""
    for outcome in (html(characters), plain(characters), raw(data), raw(data, "text/html")):
        if isinstance(outcome, Extracted):
            outcome.text.encode()


@pytest.mark.parametrize("piece", ["<div>", "<b>", "<p>x", "<div>x</div>"])
def test_beyond_the_room_for_levels_blocks_and_containers_no_text_is_lost(piece: str) -> None:
    """Of each there are more than are held: the last one takes all."""
    extracted = html(piece * 300_000 + "the end")
    assert isinstance(extracted, Extracted)
    assert extracted.text.endswith("the end") and extracted.text.count("x") == 300_000 * piece.count("x")


def test_a_capture_is_a_url_at_a_time() -> None:
    """The same page at two times is two documents, at one time it is one; hostile text in a URL does not raise."""
    captures = [("https://example.org/", 1), ("https://example.org/", 2), ("https://example.org/1", 2)]
    captures += [("https://example.org/", 12), ("https://example.org/\ud800", 0)]
    assert len({derive_doc_id(*capture) for capture in captures * 2}) == len(captures)
