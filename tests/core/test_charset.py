"""Which charset a page is read in."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from worker.core.charset import META_BYTES, codec_of, find_codec


def codec(body: bytes) -> str:
    return codec_of(body, None, None, is_html=True)[0]


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (b"<meta charset=koi8-r>", "koi8-r"),
        (b"<META HTTP-EQUIV=content-type CONTENT='text/html; charset=koi8-r'>", "koi8-r"),
        (b"<!-- <meta charset=koi8-r> --><a title='<meta charset=koi8-r>'><meta charset=big5>", "big5hkscs"),
        (b"<meta name=description content='charset=koi8-r'><meta charset=big5>", "big5hkscs"),
        (b"<meta charset=klingon><meta charset=koi8-r>", "koi8-r"),
        (b"<meta charset=utf-16>", "utf-8"),
        (b"<?xml version='1.0' encoding='koi8-r'?><html>", "koi8-r"),
        ("<p>Grüße, sie sind gültig".encode(), "utf-8"),
        (b" " * META_BYTES + b"<meta charset=koi8-r>", "utf-8"),
    ],
)
def test_a_page_names_its_charset(page: bytes, expected: str) -> None:
    """The first meta element with a known charset counts, and what is valid UTF-8 needs none."""
    assert codec(page) == expected


def test_charsets_are_those_of_html5lib(corpora: Path) -> None:
    """Each encoding case of html5lib is read as it wants; ASCII without a charset is ASCII, whatever its name."""
    folder = corpora / "html5lib-tests" / "encoding"
    if not folder.exists():
        pytest.skip(f"no html5lib-tests at {folder}")
    count = 0
    for path in sorted(folder.glob("*.dat")):
        for case in re.split(rb"(?:^|\n)#data\n", path.read_bytes())[1:]:
            page, _, label = case.partition(b"\n#encoding\n")
            expected = find_codec(label.split(b"\n")[0].decode())
            assert codec(page) == expected or (page.isascii() and expected == "cp1252"), page
            count += 1
    assert count > 80
