"""
`settle` looks at many bodies of bytes at once; `content_of` says the same of each of them alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from encodings.aliases import aliases

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import EXAMPLES
from worker.core.bodies import settle
from worker.core.charset import META_BYTES, decoded, find_codec, keeps_ascii
from worker.core.document import BodyKind, Document
from worker.core.extract import Content, content_of
from worker.core.kernels.bodies import (
    HAS_ESCAPE,
    IS_ASCII,
    IS_UTF8,
    SAYS_CHARSET,
    look_at_bodies,
)
from worker.core.pages import extract_packed, pack_bodies
from worker.core.pages.batch import joined

Case = tuple[bytes, str, str]  # a body, its content type and its charset

CONTENT_TYPES = (
    "", "text/html", "text/html; charset=utf-8", "Text/HTML;charset=\"UTF-8\"", "text/plain",
    "text/html; charset=windows-1252", "text/html; charset=gb2312", "text/html; charset=klingon",
    "text/html; charset=utf-16", "text/plain; charset=iso-2022-jp", "text/html; charset=hz-gb-2312",
    "application/xhtml+xml", "application/octet-stream", "text/css", "image/png", "html", "*/*",
    "text/markdown; charset=shift_jis", "unknown/unknown", "text/html; charset=charset=utf-7", ";",
)  # fmt: skip
CHARSETS = (
    "", "utf-8", "UTF8", "latin1", "windows-1251", "gbk", "utf-16le", "utf-32", "iso-2022-kr", "hz",
    "klingon", " ", "cesu-8", "x-user-defined", "replacement", "big5", "euc-jp", "ascii", "utf-7",
)  # fmt: skip
PIECES = (
    b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\xff\xfe\0\0", b"\0\0\xfe\xff", b"\0", b"\x01" * 9,
    b"<html>", b"<p>The river rose.", b"The river rose and fell again. ", "Gr\u00fc\u00df dich, ".encode(), b"\xe9t\xe9 ",
    "Привет, ".encode(), "Привет ".encode("koi8-r"), "漢字とかな".encode("shift_jis"), "漢字".encode(),
    b"\x1b$B4A;z\x1b(B", b"~{VPND~}", b"\x1b", b"~", b"+AGE-", b"\xed\xa0\x80", b"\xc0\x80", b"\xf0\x90", b"\xe2\x82",
    b"<meta charset=koi8-r>", b"<META CHARSET='utf-8'>", b"<meta charset=utf-16>", b"<meta charset=klingon>",
    b"<meta http-equiv=Content-Type content='text/html; charset=windows-1252'>", b"<!-- charset -->",
    b"<?xml version='1.0' encoding='iso-8859-2'?>", b"<?xml ", b"cHARSEt", b"charse", b"%PDF-1.4\n",
    b"\x89PNG\r\n\x1a\n", b"GIF89a", b"PK\x03\x04", b"\x1f\x8b", b"x" * 600, b" " * 4_090, b"<b>" * 5_461, b"\r\n",
    b"\xa4\xa4\xa4\xe5 ", b"\x80", b"\xff",
)  # fmt: skip
RAW = st.lists(st.sampled_from(PIECES) | st.binary(max_size=6), max_size=6).map(b"".join)
LABELS = st.text(st.characters(codec="utf-8"), max_size=12)
CASES = st.tuples(
    RAW,
    st.sampled_from(CONTENT_TYPES) | LABELS.map(lambda label: f"text/html; charset={label}"),
    st.sampled_from(CHARSETS) | st.just("") | LABELS,
)


def settled(cases: list[Case]) -> list[bool]:
    """Assert that what is settled is what `content_of` says; return which are settled."""
    data, spans = joined([raw for raw, _, _ in cases], [True] * len(cases))
    before = spans.copy()
    kept = data.copy()
    rows = np.arange(len(cases))
    found = settle(
        data,
        spans,
        rows,
        [content_type.encode() for _, content_type, _ in cases],
        [charset.encode() for _, _, charset in cases],
    )
    assert (data == kept).all()
    assert (spans[~found] == before[~found]).all()
    for row in rows[found].tolist():
        raw, content_type, charset = cases[row]
        document = Document("a", "u", 0, BodyKind.BYTES, raw, content_type or None, charset or None)
        content = content_of(document)
        assert isinstance(content, Content), cases[row]
        begin, end, kind = spans[row].tolist()
        alone, [[alone_begin, alone_end, _]] = pack_bodies([content.body])
        assert data[begin:end].tobytes() == alone[alone_begin:alone_end].tobytes(), cases[row]
        assert kind == content.kind, cases[row]
    return [bool(is_settled) for is_settled in found]


@settings(max_examples=20 * EXAMPLES)
@given(st.lists(CASES, max_size=6))
def test_what_is_settled_is_what_each_body_alone_is(cases: list[Case]) -> None:
    """Text, kind and byte order mark are the same, for any bytes and any claims."""
    settled(cases)


ARTICLE = "<html><p>Le fleuve a débordé</p></html>"
PAGE = ARTICLE.encode()
IN_ASCII = b"<html><p>The river rose</p></html>"


@pytest.mark.parametrize(
    ("raw", "content_type", "charset", "is_settled"),
    [
        (PAGE, "text/html; charset=utf-8", "", True),
        (PAGE, "text/html", "", True),
        (PAGE, "", "", True),
        (PAGE, "text/plain", "utf8", True),
        (b"\xef\xbb\xbf" + PAGE, "text/html; charset=latin1", "", True),  # the mark wins
        (b"", "text/html", "", True),
        (b"<meta charset=utf-8>" + PAGE, "text/html", "", True),
        (b"<meta charset=koi8-r>" + PAGE, "text/html", "", False),
        (b"<meta charset=koi8-r>" + PAGE, "text/plain", "", True),  # in a plain text it is text
        (b"<meta charset=koi8-r>" + PAGE, "text/html", "utf-8", True),
        (b"<meta charset=klingon>" + PAGE, "text/html", "", True),
        (b" " * META_BYTES + b"<meta charset=koi8-r>" + PAGE, "text/html", "", True),
        (b"<?xml version='1.0' encoding='koi8-r'?>" + PAGE, "text/html", "", False),
        (IN_ASCII, "text/html; charset=windows-1252", "", True),
        (IN_ASCII, "text/html", "shift_jis", True),
        (IN_ASCII, "text/html", "utf-16le", False),
        (IN_ASCII, "text/html", "hz-gb-2312", False),
        (b"\x1b$B4A;z\x1b(B", "text/html", "", False),
        (b"\x1b$B4A;z\x1b(B", "text/html; charset=iso-2022-jp", "", False),
        (b"\x1b$B4A;z\x1b(B", "text/plain", "csiso2022jp", False),
        (b"<meta charset=iso-2022-jp><p>\x1b$B4A;z\x1b(B", "text/html", "", False),
        (PAGE, "text/html", "windows-1252", False),
        (ARTICLE.encode("latin1"), "text/html", "latin1", False),
        (PAGE + b"\xff", "text/html", "utf-8", False),
        (PAGE, "text/html", "klingon", False),  # an error
        (PAGE, "image/png", "", False),
        (b"\x89PNG\r\n\x1a\n0000", "text/html", "", False),
        (b"\x01" * 99, "", "", False),
        (b"\xff\xfe<\0p\0>\0", "text/html", "", False),
        (PAGE.decode().encode("utf-16-le"), "text/html; charset=utf-8", "", False),
    ],
)  # fmt: skip
def test_ordinary_bodies_are_settled(
    raw: bytes, content_type: str, charset: str, is_settled: bool
) -> None:
    """UTF-8 is, and ASCII under the name of a charset that keeps it; nothing else is."""
    assert settled([(raw, content_type, charset)] * 2) == [is_settled] * 2


CODECS = sorted({find_codec(name.replace("_", "-")) or "" for name in aliases} - {""})
SHIFTS = [
    b"\x1b",
    b"\x1b$B",
    b"\x1b$@",
    b"\x1b(J",
    b"\x1b(I",
    b"\x1b$(D",
    b"\x1b$)C",
    b"\x0e",
    b"~{",
]


@pytest.mark.parametrize("codec", CODECS)
def test_a_codec_that_keeps_ascii_has_no_shifts(codec: str) -> None:
    """No pair of ASCII bytes, and no text behind a shift, becomes another text."""
    raw = b"".join(bytes([first, second]) for first in range(128) for second in range(128))
    raw += b"".join(shift + b"0l0lAb\x0f" for shift in SHIFTS)
    assert not keeps_ascii(codec) or decoded(raw, codec) == raw.decode()


def _seen(raw: bytes) -> int:
    """Return the signs of a body, in plain Python."""
    found = 0
    if raw.isascii():
        found |= IS_UTF8 | IS_ASCII
        if b"\x1b" in raw:
            found |= HAS_ESCAPE
    elif raw.decode("utf-8", "replace").encode() == raw:
        found |= IS_UTF8
    if b"charset" in raw[:META_BYTES].lower():
        found |= SAYS_CHARSET
    return found


def _seen_at_once(bodies: list[bytes]) -> list[int]:
    data, spans = joined(bodies, None)
    seen = np.empty(len(bodies), np.int64)
    look_at_bodies(data, spans, np.arange(len(bodies)), seen)
    return [int(bits) for bits in seen]


@settings(max_examples=5 * EXAMPLES)
@given(st.lists(RAW, max_size=6))
def test_the_kernel_sees_what_python_sees(bodies: list[bytes]) -> None:
    """Any bodies may stand before and behind it."""
    assert _seen_at_once(bodies) == [_seen(raw) for raw in bodies]


@pytest.mark.parametrize(
    "make",
    [
        lambda n: b"-" * n + b"chArSet",
        lambda n: b"c" * n + b"charse",
        lambda n: b"-" * n + b"\x1b",
        lambda n: b"-" * n + b"\xc3\xa9",
        lambda n: b"-" * n + b"\xc3",
        lambda n: b"ch" * n + b"chcharset",
        lambda n: b"-" * (META_BYTES - 40 + n) + b"charset",
    ],
)
def test_the_kernel_sees_it_at_any_place_of_a_block(make: Callable[[int], bytes]) -> None:
    """And not behind the first 16 KiB, nor behind the body."""
    bodies = [make(n) for n in range(80)]
    random.Random(1).shuffle(bodies)
    assert _seen_at_once(bodies) == [_seen(raw) for raw in bodies]


def test_settled_bodies_are_ready_for_the_pages_kernel() -> None:
    """Pages and plain texts are told apart, and a mark is no part of either."""
    bodies = [b"\xef\xbb\xbf" + PAGE, b"\xef\xbb\xbf<b>\xc3\xa9"]
    data, spans = joined(bodies, [True, True])
    assert settle(data, spans, np.arange(2), [b"text/html", b"text/plain"], [b"", b""]).all()
    texts = extract_packed(data, spans)
    assert [texts.text(0), texts.text(1)] == ["Le fleuve a débordé", "<b>é"]
