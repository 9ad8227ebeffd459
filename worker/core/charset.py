"""
Bytes of a page -> text. The order of belief is the web's own: byte order mark, message, content type, meta, detection.

Only a charset that the *message* names must be known: the sender vouches for it. What pages and servers claim about
themselves is wrong often enough that an unknown name there means detection. Invalid bytes become U+FFFD.
"""

from __future__ import annotations

import codecs
import re

from worker.errors import DocumentError

__all__ = ["charset_of_content_type", "decode_body", "find_codec", "well_formed"]

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16: its mark begins with the one of UTF-16
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Text codecs of Python that the WHATWG list lacks and crawls still meet.
_MORE_CODECS = {"hz-gb-2312": "hz", "x-mac-cyrillic": "mac-cyrillic", "utf-32": "utf-32-le", "cesu-8": "utf-8"}
# What the web means by these names is the wider set that Windows gave them.
_WIDER_CODECS = {
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "gbk": "gb18030",
    "big5": "big5hkscs",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
}
_CHARSET_PARAMETER = re.compile(r"""charset\s*=\s*["']?([^\s;"',]+)""", re.IGNORECASE)


def find_codec(label: str) -> str | None:
    """
    Give the Python codec for a charset's name, read as browsers read it (WHATWG), or None for an unknown one.

    Cost: O(1).

    >>> find_codec("latin1"), find_codec("GB2312"), find_codec("klingon")
    ('cp1252', 'gb18030', None)
    """
    from resiliparse.parse.encoding import map_encoding_to_html5  # noqa: PLC0415  # a library load for bytes only

    name = label.strip().strip("\"'").lower()
    codec = map_encoding_to_html5(name, fallback_utf8=False) or _MORE_CODECS.get(name)
    return None if codec is None else _known_codec(codec)


def charset_of_content_type(content_type: str | None) -> str | None:
    """
    Give the charset parameter of a Content-Type header, or None.

    >>> charset_of_content_type('text/html; charset="Shift_JIS"')
    'Shift_JIS'
    """
    found = _CHARSET_PARAMETER.search(content_type) if content_type else None
    return found.group(1) if found else None


def decode_body(body: bytes, charset: str | None, content_type: str | None, *, is_html: bool) -> str:
    """
    Decode the bytes of a page. Invalid bytes become U+FFFD; a byte order mark wins over every claim and is removed.

    Args:
        body: the decoded entity, without transfer or content encoding.
        charset: what the message names; None or empty when it names none.
        content_type: the Content-Type header; its charset counts when it is known.
        is_html: whether a meta element may name the charset.
    Raises:
        DocumentError: "unknown-charset", the message names a charset that no codec reads.

    Cost: O(len(body)); detection reads at most 128 KiB.

    >>> decode_body(b"gr\\xfc\\xdf dich", "latin1", None, is_html=False)
    'grüß dich'
    """
    codec = None
    if charset:
        codec = find_codec(charset)
        if codec is None:
            raise DocumentError("unknown-charset", f"charset {charset!r} is unknown: name a WHATWG encoding or none")
    for mark, marked_codec in _BYTE_ORDER_MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(marked_codec, "replace")
    codec = codec or _claimed_codec(content_type) or _detected_codec(body, is_html=is_html)
    return well_formed(body.decode(codec, "replace"))


def well_formed(text: str) -> str:
    """
    Give text without lone surrogates: pairs become their character, single ones U+FFFD.

    JSON can carry them ("\\\\ud800"), UTF-8 cannot, and neither can anything behind this point.

    Cost: O(len(text)), about 0.1 ns a character when there is none.

    >>> well_formed("a\\ud800b"), well_formed("\\ud83d\\ude00")
    ('a\ufffdb', '😀')
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _claimed_codec(content_type: str | None) -> str | None:
    claimed = charset_of_content_type(content_type)
    return find_codec(claimed) if claimed else None


def _detected_codec(body: bytes, *, is_html: bool) -> str:
    from resiliparse.parse.encoding import detect_encoding  # noqa: PLC0415

    label = detect_encoding(body, from_html_meta=is_html)
    return (_known_codec(label) if label else None) or "utf-8"


def _known_codec(name: str) -> str | None:
    """Give Python's name of a codec, or of the wider one that the web means; None when there is no such codec."""
    try:
        found = codecs.lookup(name).name
    except LookupError:
        return None
    return _WIDER_CODECS.get(found, found)
