"""Which charset a page is read in."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.core.charset import META_BYTES, codec_of, decoded, find_codec


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
        (b"<!-- without an end <meta charset=koi8-r>", "utf-8"),
        (b"<!--><meta charset=koi8-r>", "koi8-r"),
    ],
)
def test_a_page_names_its_charset(page: bytes, expected: str) -> None:
    """The first meta element with a known charset counts, and what is valid UTF-8 needs none."""
    assert codec(page) == expected


TEXTS = {
    "cp949": "다리는 오월에 모두에게 열립니다. 시의회가 그렇게 말했습니다. ",
    "cp932": "橋は五月にすべての人に開かれると町の議会が述べました。",
    "gb18030": "市议会表示，河上的大桥将于五月向所有人开放。",
    "koi8-r": "Городской совет сообщил, что мост через реку откроется в мае для всех. ",
    "cp874": "สภาเมืองกล่าวว่าสะพานข้ามแม่น้ำจะเปิดให้ทุกคนในเดือนพฤษภาคม ",
    "iso2022_jp": "橋は五月にすべての人に開かれると町の議会が述べました。",
}


@pytest.mark.parametrize("expected", TEXTS)
def test_a_charset_that_nobody_names_is_told_from_the_text(expected: str) -> None:
    """Wherever in the page it stands: most of a page is markup."""
    markup = b"<p class=menu><a href=/>Home</a>" * 3_000
    assert codec(markup + (TEXTS[expected] * 8).encode(expected) + markup) == expected


@pytest.mark.parametrize(
    "line",
    [
        "準備好建構並部署你的 Astro 網站嗎？ 跟著我們的部署服務指南",
        "未能在 `FULL_IMAGE_PATH` 找到所请求的图片 `IMAGE_PATH`。",
    ],
)
def test_what_tells_the_charset_is_not_cut_within_a_character(line: str) -> None:
    """Digits and Latin words shift what comes behind them by a byte, and half a character is none of its charset."""
    assert codec(line.encode("gb18030")) == "gb18030"


@given(
    st.sampled_from(["cp1252", "cp1255", "cp874", "koi8-u", "mac-cyrillic", "iso8859-8", "gb18030", "utf-16-le"]),
    st.binary(),
)
def test_bytes_become_what_python_makes_of_them(codec: str, body: bytes) -> None:
    """The table of a charset is Python's own, unknown bytes included."""
    assert decoded(body, codec) == body.decode(codec, "replace")


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
