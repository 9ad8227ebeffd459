"""HTTP responses as servers and crawlers write them: where the head ends, and what the body is."""

from __future__ import annotations

import gzip
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.shell.test_archives import brotli, zstd
from worker.shell.files.archives.http import decoded_body, parse_response

PAGE = b"<html><body><p>The boats were counted.\n\n<p>Twice.</body></html>"
OK = b"HTTP/1.1 200 OK\r\n"
HTML = OK + b"Content-Type: text/html\r\n"
BYTES_MAX = 1 << 20


def body_of(block: bytes) -> bytes:
    return decoded_body(parse_response(block), BYTES_MAX)


def chunked(*parts: bytes, last: bytes = b"0\r\n\r\n") -> bytes:
    sized = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
    return HTML + b"Transfer-Encoding: chunked\r\n\r\n" + sized + last


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(HTML + b"\r\n" + PAGE, id="CR LF"),
        pytest.param((HTML + b"\r\n").replace(b"\r\n", b"\n") + PAGE, id="LF alone"),
        pytest.param((HTML + b"\r\n").replace(b"\r\n", b"\r\r\n") + PAGE, id="CR CR LF"),
        pytest.param(HTML + b" \t\r\n" + PAGE, id="blanks in the empty line"),
        pytest.param(HTML + PAGE, id="no empty line, and one within the page"),
        pytest.param(OK + b"Content-Type:\r\n  text/html\r\n\r\n" + PAGE, id="a folded header"),
        pytest.param(HTML + b"(odd) line\r\n=\r\n\r\n" + PAGE, id="lines that are no headers"),
        *(
            pytest.param(OK + odd + b"\r\n" + HTML[len(OK):] + b"\r\n" + PAGE,
                         id=f"a line that begins with {odd[:1]!r}")
            for odd in (b"<!-- cached -->", b'"W/1"', b"[warning] x", b"{}", "Überschrift: x".encode())
        ),
        pytest.param(OK + b"<a>\r\nX-A: 1\r\n<b>\r\n" + HTML[len(OK):] + b"\r\n" + PAGE,
                     id="two such lines"),
        pytest.param(HTML.replace(b"HTTP", b"http") + b"\r\n" + PAGE, id="lower case"),
        pytest.param(b"HTTP/2 200\r\n" + HTML[len(OK) :] + b"\r\n" + PAGE, id="no reason phrase"),
        pytest.param(
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
            + HTML + b"\r\n" + PAGE, id="interim responses",
        ),
        pytest.param(b"HTTP/1.1 100 Continue\r\n" + HTML + b"\r\n" + PAGE,
                     id="an interim response without its empty line"),
        pytest.param(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n" + HTML + b"\r\n" + PAGE,
                     id="an interim response with headers, without its empty line"),
        pytest.param(
            b"HTTP/1.0 200 Connection established\r\nProxy-Agent: a\r\n\r\n"
            + HTML + b"\r\n" + PAGE, id="a proxy's response",
        ),
        pytest.param(b"\r\n" + HTML + b"\r\n" + PAGE, id="an empty line in front"),
        pytest.param(b"\xef\xbb\xbf" + HTML + b"\r\n" + PAGE, id="a byte order mark in front"),
    ],
)  # fmt: skip
def test_the_body_begins_where_the_head_ends(block: bytes) -> None:
    """However the lines of a head are written, status, type and the whole page are found."""
    response = parse_response(block)
    assert (response.status, response.headers["content-type"]) == (200, "text/html")
    assert response.body == PAGE


def test_a_text_without_an_empty_line_in_front_begins_at_the_first_line_without_a_name() -> None:
    """Only where no line shows that it is no header, and none is empty."""
    assert (
        parse_response(HTML + b"Boats were counted\nTwice.").body == b"Boats were counted\nTwice."
    )


@pytest.mark.parametrize("count", [1_000, 2_000])
def test_a_head_of_odd_lines_has_them_all_or_none(count: int) -> None:
    """With an empty line behind them they are the head's, and count; without, they are the body."""
    lines = b"<x\r\nA: 1\r\n" * count
    with pytest.raises(ValueError, match="lines of HTTP headers"):
        parse_response(OK + lines + b"\r\n" + PAGE)
    assert parse_response(OK + lines + b"<html>").body == lines + b"<html>"


def test_an_interim_response_alone_is_what_there_is() -> None:
    """Its status says why there is no page; endless ones are not followed."""
    interim = b"HTTP/1.1 100 Continue\r\n\r\n"
    assert parse_response(interim).status == 100
    assert parse_response(interim * 10_000 + HTML + b"\r\n" + PAGE).status == 100


@pytest.mark.parametrize(
    ("block", "body"),
    [
        pytest.param(chunked(PAGE[:20], PAGE[20:]), PAGE, id="right sizes"),
        pytest.param(chunked(PAGE, last=b""), PAGE, id="no last chunk"),
        pytest.param(
            chunked(last=b"%016x\r\n%s\r\n%012x\r\n\r\n" % (len(PAGE), PAGE, 0)), PAGE,
            id="zeros before the size",
        ),
        pytest.param(chunked(PAGE, last=b"0\r\nExpires: 0\r\n\r\n"), PAGE, id="trailers"),
        pytest.param(chunked(PAGE[:20], last=PAGE[20:]), PAGE, id="a size is missing"),
        pytest.param(chunked(PAGE[:20], last=b"0\r\n" + PAGE[20:]), PAGE, id="ends too early"),
        pytest.param(
            chunked(last=b"5\r\n" + PAGE), PAGE[:5] + PAGE[5:], id="the first size is too small"
        ),
        pytest.param(chunked(last=b"fffff\r\n" + PAGE), PAGE, id="a size beyond the end"),
        pytest.param(chunked(last=PAGE), PAGE, id="never chunked"),
        pytest.param(
            HTML + b"\r\nHTTP/1.1 200 OK\r\n\r\nsays a server.",
            b"HTTP/1.1 200 OK\r\n\r\nsays a server.", id="a text about HTTP",
        ),
    ],
)  # fmt: skip
def test_no_part_of_a_chunked_body_is_lost(block: bytes, body: bytes) -> None:
    """Behind a size that is wrong, the rest belongs to the body as it stands."""
    assert body_of(block) == body


SIZE_BYTES = b"\r\n\t ;0123456789abcdefABCDEF"  # of which a size's line is made


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.binary(max_size=40).map(lambda data: data.translate(None, SIZE_BYTES)).filter(len),
        max_size=6,
    ),
    st.data(),
)
def test_any_wrong_size_loses_no_byte_of_the_page(parts: list[bytes], data: st.DataObject) -> None:
    """Whatever one size says, nothing of the page is taken for a size that is none."""
    block = chunked(*parts)
    if not parts:
        return
    wrong = data.draw(st.integers(0, len(parts) - 1))
    size = data.draw(st.integers(1, 200))
    sized = [
        b"%x\r\n%s\r\n" % (size if n == wrong else len(part), part) for n, part in enumerate(parts)
    ]
    head = block[: block.index(b"\r\n\r\n") + 4]
    body = body_of(head + b"".join(sized) + b"0\r\n\r\n")
    assert body.translate(None, SIZE_BYTES) == b"".join(parts)


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param(b"Content-Encoding: gzip;q=1\r\n", id="a parameter"),
        pytest.param(b"Content-Encoding: X-GZIP\r\n", id="the old name"),
        pytest.param(b'Content-Encoding: "gzip"\r\n', id="quotes"),
        pytest.param(b"Content-Encoding:\r\n gzip\r\n", id="folded"),
        pytest.param(b"Content-Encoding: gzip\r\nContent-Encoding: identity\r\n", id="repeated"),
        pytest.param(b"Content-Encoding: gzip\r\nContent-Encoding: gzip\r\n", id="said twice"),
        pytest.param(b"Content-Encoding: gzip, \r\n", id="a comma at the end"),
        pytest.param(b"Transfer-Encoding: gzip\r\n", id="as a transfer coding"),
    ],
)
def test_an_encoding_is_undone_however_it_is_named(headers: bytes) -> None:
    """The body is what was encoded, once."""
    assert body_of(HTML + headers + b"\r\n" + gzip.compress(PAGE)) == PAGE


def test_a_repeated_type_is_a_list_of_types() -> None:
    """Browsers join the values of a repeated Content-Type; the last length counts."""
    block = HTML + b"Content-Type: text/plain\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"
    headers = parse_response(block).headers
    assert headers["content-type"] == "text/html, text/plain"
    assert headers["content-length"] == "2"


@pytest.mark.parametrize("named", ["gzip", "deflate", "br", "zstd"])
@pytest.mark.parametrize("encode", [gzip.compress, zstd], ids=["gzip", "zstd"])
def test_an_encoding_that_shows_itself_is_undone_under_another_name(
    named: str, encode: Callable[[bytes], bytes]
) -> None:
    """A proxy encodes a page anew and leaves the header as it was."""
    headers = HTML + b"Content-Encoding: %s\r\n\r\n" % named.encode()
    assert body_of(headers + encode(PAGE)) == PAGE


def test_brotli_that_begins_like_gzip_is_brotli() -> None:
    """Its first byte says the window, and its second one is a part of the length."""
    page = b"<p>The river rose by two metres in the night.</p>" * 14
    encoded = bytes.fromhex(
        "1f8b02e08dc33826bcf978e9a2e4f1a1d293a5fa90d4f68d00e31bd88003f630d2407060be4bad5b"
        "4ea6bd31c4c8d8d637925a1ea2be2135ff5e8102"
    )
    assert encoded.startswith(b"\x1f\x8b")
    assert body_of(HTML + b"Content-Encoding: br\r\n\r\n" + encoded) == page[:652]


@pytest.mark.parametrize("named", ["gzip", "x-gzip", "zstd"])
def test_brotli_is_undone_under_names_of_other_encodings(named: str) -> None:
    """What is text, in UTF-8 or not, was never encoded, though it may be brotli by chance."""
    headers = HTML + b"Content-Encoding: %s\r\n\r\n" % named.encode()
    assert body_of(headers + brotli(PAGE)) == PAGE
    for text in (
        "The boats.",
        "Die Boote von Köln wurden gezählt.",
        "; Grüße, and more",
        "ß ist da",
    ):
        for encoding in ("utf-8", "latin1", "utf-16-le"):
            page = text.encode(encoding)
            assert body_of(headers + page) == page


def test_a_text_that_is_called_brotli_does_not_become_nothing() -> None:
    """Of some characters, the first byte is a whole stream. Pages of some bytes are pages."""
    headers = HTML + b"Content-Encoding: br\r\n\r\n"
    for first in "3579;=?":
        with pytest.raises(ValueError, match="it is not brotli"):
            body_of(headers + f"{first} boats were counted.".encode())
    for size in range(9):
        assert body_of(headers + brotli(PAGE[:size])) == PAGE[:size]


def test_markup_that_is_called_gzip_was_never_encoded() -> None:
    """It may be brotli by chance: three bytes of a head, 121 that are not packed, and an end."""
    page = b"\t<\x80" + (PAGE * 2)[:121] + b"\x03"
    assert body_of(HTML + b"Content-Encoding: br\r\n\r\n" + page) == (PAGE * 2)[:121]
    assert body_of(HTML + b"Content-Encoding: gzip\r\n\r\n" + page) == page
