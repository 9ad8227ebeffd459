"""From bytes to a page, its charset, its text; what hostile or broken pages get."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.core.charset import META_BYTES, codec_of, decoded, find_codec
from worker.core.document import BodyKind, Document, derive_doc_id
from worker.core.extract import Extracted, Skipped, extract
from worker.errors import DocumentError

CHARACTERS_MAX = 1 << 24
ARTICLE = (
    "<p>The harbour master counted the boats twice, for the fog had come in early and the lamps "
    "were weak.</p>"
)


def html(body: str, characters_max: int = CHARACTERS_MAX) -> Extracted | Skipped:
    return extract(Document("a", "https://example.org/", 0, BodyKind.HTML, body), characters_max)


def raw(
    body: bytes, content_type: str | None = None, charset: str | None = None
) -> Extracted | Skipped:
    document = Document("a", "https://example.org/", 0, BodyKind.BYTES, body, content_type, charset)
    return extract(document, CHARACTERS_MAX)


def plain(body: str) -> Extracted | Skipped:
    return extract(Document("a", "https://example.org/", 0, BodyKind.TEXT, body), CHARACTERS_MAX)


KOI8 = "<html><meta charset=koi8-r><main><p>Привет, мир</p></main></html>".encode("koi8-r")
MARTIAN = b"<html><meta charset=klingon><main><p>Well met, traveller</p></main></html>"
PNG = b"\x89PNG\r\n\x1a\n0000"
_NOISE = random.Random(4).randbytes(2_000)
BINARIES = [
    b"GIF89a\x40\x01\xf0\0\xf7\0\0" + _NOISE,
    b"\0\0\0\x18ftypmp42\0\0\0\0" + _NOISE,  # MP4
    bytes.fromhex("d0cf11e0a1b11ae1") + bytes(40) + _NOISE,  # OLE: Word, Excel
    b"Rar!\x1a\x07\0" + _NOISE,
    b"MZ\x90\0\3\0\0\0" + bytes(50) + b"This program cannot be run in DOS mode" + bytes(99),
    b"PK\3\4\x0a\0\0\0\0\0" + b"a stored text of a zip archive " * 30,
    b"%!PS-Adobe-3.0\n%%Title: a paper",
    b"{\\rtf1\\ansi a letter}",
    _NOISE,  # of a format that nobody knows
]


@pytest.mark.parametrize(
    ("body", "content_type", "charset", "method", "text"),
    [
        ("grüß dich".encode("latin1"), "text/plain", "latin1", "plain", "grüß dich"),
        ("grüß dich".encode("latin1"), "text/plain; charset=iso-8859-1", None, "plain", "grüß dich"),
        # The mark wins.
        ("\ufeffgrüß dich".encode("utf-16-be"), "text/plain", "latin1", "plain", "grüß dich"),
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
        # Strangers' claims.
        (MARTIAN, "text/html; charset=martian", None, "main", "Well met, traveller"),
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
    Charset by byte order mark, then message, content type, the page's own word, detection; a page
    by its look.

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
        *((body, content_type) for body in BINARIES for content_type in ("text/html", "text/plain", None)),
    ],
)  # fmt: skip
def test_what_has_no_prose_is_skipped(body: bytes, content_type: str | None) -> None:
    """Images, PDF, data and styles are in every crawl: skipped with a reason, not an error."""
    assert raw(body, content_type) == Skipped("unsupported-content-type")


@pytest.mark.parametrize(
    "before",
    [
        "<title/>", "<script src='a.js'/>", "<style/>", "<iframe src='a'/>", "<textarea/>", "<noscript/>",
        "<video src='a'/>", "<div class='ad menu'/>", "<div style='display:none'/>", "<![CDATA[x]]>",
    ],
)  # fmt: skip
def test_in_xml_a_tag_closes_itself(before: str) -> None:
    """As HTML all that follows would be part of such an element; as XML it is the page."""
    page = f"<html><head>{before}</head><body>{before}{ARTICLE}</body></html>".encode()
    for content_type in ("application/xhtml+xml", "text/xml; charset=utf-8", "application/xml"):
        found = raw(page, content_type)
        assert isinstance(found, Extracted)
        assert found.text.endswith(ARTICLE[3:-4])
    assert raw(b"<?xml version='1.0'?>" + page, None) == raw(page, "text/xml")


@pytest.mark.parametrize(
    "text",
    ["BMW has opened a plant", "ID3 tags and MP3", "OggS, a format", "RIFF is over", "CWS, 1999"],
)
def test_a_text_that_begins_like_a_signature_is_a_text(text: str) -> None:
    """Signatures of printable characters count only beside bytes that no text has."""
    assert raw(text.encode(), "text/plain") == Extracted(text, "plain")


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("claim", ["text/html", "text/html; charset=utf-8", "", None])
def test_utf_16_without_a_mark_is_read_whatever_is_claimed(codec: str, claim: str | None) -> None:
    """Its zeros show it, in a page of any script: markup is ASCII."""
    text = "Городской совет сообщил, что мост откроется в мае. " * 3
    page = f"<html><head><title>x</title></head><body><p>{text}</p></body></html>"
    assert raw(page.encode(codec), claim) == Extracted(text.strip(), "main")


@pytest.mark.parametrize("place", ["start", "middle", "end"])
@pytest.mark.parametrize("stray", [0x80, 0x93, 0xA0, 0xE9, 0xFC, 0xFF])
def test_a_stray_byte_does_not_change_the_charset_of_a_page(place: str, stray: int) -> None:
    """A page in UTF-8 that has one byte of another charset, wherever it stands, stays in UTF-8."""
    sentence = "Der Stadtrat erklärte, die Brücke über den Fluß sei im März für alle geöffnet."
    words = sentence.split()
    at = {"start": 0, "middle": len(words) // 2, "end": len(words)}[place]
    parts = [" ".join(words[:at]).encode(), bytes([stray]), " ".join(words[at:]).encode()]
    assert codec(b"<p>" + b" ".join(parts)) == "utf-8"


def test_longer_text_is_judged_by_its_beginning() -> None:
    """text_characters_max cuts, for plain text and pages alike."""
    assert html("<main><p>one two three</p></main>", 5) == Extracted("one t", "main")


def test_nul_bytes_and_lone_surrogates() -> None:
    """NUL bytes do not end a page; lone surrogates become U+FFFD; a pair becomes its character."""
    found = html("<main><p>fore\0and aft\0</p><p>end</p></main>")
    assert isinstance(found, Extracted)
    assert found.text.endswith("end")
    assert html("<main><p>a\ud800b \ud83d\ude00</p></main>") == Extracted("a\ufffdb 😀", "main")
    assert plain("a\udfffb") == Extracted("a\ufffdb", "plain")


@given(
    st.text(alphabet=st.characters(categories=["L", "N", "P", "Z", "Cs", "Cc", "S"])),
    st.binary(max_size=200),
)
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
    assert extracted.text.endswith("the end") and extracted.text.count(
        "x"
    ) == 300_000 * piece.count("x")


def test_a_capture_is_a_url_at_a_time() -> None:
    """
    The same page at two times is two documents, at one time it is one; hostile text in a URL does
    not raise.
    """
    captures = [
        ("https://example.org/", 1),
        ("https://example.org/", 2),
        ("https://example.org/1", 2),
    ]
    captures += [("https://example.org/", 12), ("https://example.org/\ud800", 0)]
    assert len({derive_doc_id(*capture) for capture in captures * 2}) == len(captures)


# ---- which charset a page is read in


def codec(body: bytes) -> str:
    return codec_of(body, None, None, is_html=True)[0]


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (b"<meta charset=koi8-r>", "koi8-r"),
        (b"<META HTTP-EQUIV=content-type CONTENT='text/html; charset=koi8-r'>", "koi8-r"),
        (
            b"<!-- <meta charset=koi8-r> --><a title='<meta charset=koi8-r>'><meta charset=big5>",
            "big5hkscs",
        ),
        (b"<meta name=description content='charset=koi8-r'><meta charset=big5>", "big5hkscs"),
        (b"<meta charset=klingon><meta charset=koi8-r>", "koi8-r"),
        (b"<meta charset=utf-16>", "utf-8"),
        (b"<?xml version='1.0' encoding='koi8-r'?><html>", "koi8-r"),
        ("<p>Grüße, sie sind gültig".encode(), "utf-8"),
        (b" " * META_BYTES + b"<meta charset=koi8-r>", "utf-8"),
        (b"<!-- without an end <meta charset=koi8-r>", "utf-8"),
        (b"<!--><meta charset=koi8-r>", "koi8-r"),
        ("\x1b$BGrüße, sie sind gültig\x1b(B".encode(), "utf-8"),
    ],
)
def test_a_page_names_its_charset(page: bytes, expected: str) -> None:
    """The first meta element with a known charset counts, and what is valid UTF-8 needs none."""
    assert codec(page) == expected


@pytest.mark.parametrize(
    ("piece", "count_max"),
    [(b"<meta charset=klingon>", 15), (b"<meta name=x>", 255)],
    ids=["unknown charsets", "meta elements"],
)
def test_a_page_names_its_charset_within_a_bound(piece: bytes, count_max: int) -> None:
    """Behind more meta elements than pages have, or more unknown charsets, none is believed."""
    claim = b"<meta charset=koi8-r>"
    assert codec(piece * count_max + claim) == "koi8-r"
    assert codec(piece * (count_max + 1) + claim) == "utf-8"


_RUSSIAN = "Городской совет сообщил, что мост через реку откроется в мае для всех. "
_JAPANESE = "橋は五月にすべての人に開かれると町の議会が述べました。"
TEXTS = {  # (charset of the page, charset in which it is read) -> its text
    ("cp949", "cp949"): "다리는 오월에 모두에게 열립니다. 시의회가 그렇게 말했습니다. ",
    ("cp932", "cp932"): _JAPANESE,
    ("euc_jp", "euc_jp"): _JAPANESE,
    ("iso2022_jp", "iso2022_jp"): _JAPANESE,
    ("gb18030", "gb18030"): "市议会表示，河上的大桥将于五月向所有人开放。",
    ("big5", "big5hkscs"): "市議會表示，河上的大橋將於五月向所有人開放。",
    ("koi8-r", "koi8-r"): _RUSSIAN,
    (
        "koi8-u",
        "koi8-r",
    ): "Міська рада повідомила, що міст через річку відкриється у травні для всіх. ",
    ("cp1251", "cp1251"): _RUSSIAN,
    ("iso8859-5", "iso8859-5"): _RUSSIAN,
    ("cp874", "cp874"): "สภาเมืองกล่าวว่าสะพานข้ามแม่น้ำจะเปิดให้ทุกคนในเดือนพฤษภาคม ",
    (
        "cp1250",
        "cp1250",
    ): "Městská rada oznámila, že most přes řeku bude v květnu otevřen všem občanům. ",
    (
        "cp1252",
        "cp1252",
    ): "Der Stadtrat erklärte, die Brücke über den Fluß werde im Mai für alle geöffnet. ",
    (
        "cp1253",
        "iso8859-7",
    ): "Το δημοτικό συμβούλιο ανακοίνωσε ότι η γέφυρα θα ανοίξει τον Μάιο για όλους. ",
    (
        "cp1254",
        "cp1254",
    ): "Belediye meclisi, nehrin üzerindeki köprünün mayısta herkese açılacağını söyledi. ",
    ("cp1255", "cp1255"): "מועצת העיר הודיעה כי הגשר מעל הנהר ייפתח לכולם בחודש מאי. ",
    ("cp1256", "cp1256"): "أعلن مجلس المدينة أن الجسر فوق النهر سيفتح للجميع في شهر مايو. ",
    (
        "cp1257",
        "iso8859-13",
    ): "Pilsētas dome paziņoja, ka tilts pār upi maijā tiks atvērts visiem. ",
}


@pytest.mark.parametrize("pair", TEXTS, ids="-".join)
def test_a_charset_that_nobody_names_is_told_from_the_text(pair: tuple[str, str]) -> None:
    """
    Wherever in the page it stands: most of a page is markup. These are resiliparse's answers, which
    no log's definition
    names: a version of it that has others is another version of PAGE_RULES.
    """
    markup = b"<p class=menu><a href=/>Home</a>" * 3_000
    assert codec(markup + (TEXTS[pair] * 8).encode(pair[0]) + markup) == pair[1]


@pytest.mark.parametrize(
    "line",
    [
        "準備好建構並部署你的 Astro 網站嗎？ 跟著我們的部署服務指南",
        "未能在 `FULL_IMAGE_PATH` 找到所请求的图片 `IMAGE_PATH`。",
    ],
)
def test_what_tells_the_charset_is_not_cut_within_a_character(line: str) -> None:
    """
    Digits and Latin words shift what comes behind them by a byte, and half a character is none of
    its charset.
    """
    assert codec(line.encode("gb18030")) == "gb18030"


def test_of_a_small_page_the_detector_sees_little() -> None:
    """
    Random bytes cost it most: behind the first 640 that tell charsets apart they change nothing.
    """
    text = (_RUSSIAN * 12).encode("koi8-r")
    noise = random.Random(1).randbytes(3_000).replace(b"\x1b", b"")
    assert 700 < len(text) < 1_000
    assert codec(text + noise) == "koi8-r"


WIDE_UNITS = [
    b"\xd8\x00",
    b"\xdc\x00",
    b"\x00\xd8",
    b"\x00\xdc",
    b"\x00\x00",
    b"a\x00",
    b"\x00",
    b"\x11",
]


@given(
    st.sampled_from(["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"]),
    st.lists(st.sampled_from(WIDE_UNITS)).map(b"".join),
)
def test_wide_units_become_what_python_makes_of_them(codec: str, body: bytes) -> None:
    """Halves of pairs, wherever they stand, numbers beyond Unicode, and an end within a unit."""
    assert decoded(body, codec) == body.decode(codec, "replace")


@given(
    st.sampled_from(
        ["cp1252", "cp1255", "cp874", "koi8-u", "mac-cyrillic", "iso8859-8", "gb18030", "utf-16-le"]
    ),
    st.binary(),
)
def test_bytes_become_what_python_makes_of_them(codec: str, body: bytes) -> None:
    """The table of a charset is Python's own, unknown bytes included."""
    assert decoded(body, codec) == body.decode(codec, "replace")


def test_charsets_are_those_of_html5lib(corpora: Path) -> None:
    """
    Each encoding case of html5lib is read as it wants; ASCII without a charset is ASCII, whatever
    its name.
    """
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
