"""
Bytes of a page -> text. The order of belief is the web's own: byte order mark, message, content type, meta, detection.

Only a charset that the *message* names must be known: the sender vouches for it. What pages and servers claim about
themselves is wrong often enough that an unknown name there means detection. Invalid bytes become U+FFFD.

The meta element is looked for as WHATWG's prescan does it. Without any claim, what is valid UTF-8 is UTF-8.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module
from itertools import chain, islice

from worker.errors import DocumentError

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16: its mark begins with the one of UTF-16
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Text codecs of Python that the WHATWG list lacks and crawls still meet.
_MORE_CODECS = {
    "hz-gb-2312": "hz",
    "x-mac-cyrillic": "mac-cyrillic",
    "utf-32": "utf-32-le",
    "cesu-8": "utf-8",
}
# What the web means by these names is the wider set that Windows gave them.
_WIDER_CODECS = {
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "gbk": "gb18030",
    "big5": "big5hkscs",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
}
_CHARSET_PARAMETER = re.compile(r"""charset\s*=\s*["']?([^\s;"',]+)""", re.IGNORECASE)


META_BYTES = 16_384  # in which a meta element may name the charset
_MARKUP = re.compile(
    rb"""<!(?=--).*?(?:-->|\Z) | <(?P<meta>meta)(?=[\t\n\f\r />])
    | </?[a-z](?:[^>"']+|"[^"]*"|'[^']*')*+ | <[!/?][^>]*""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
_ATTRIBUTE = re.compile(
    rb"""[\t\n\f\r /]*(?P<name>[^\t\n\f\r />][^\t\n\f\r />=]*)(?:[\t\n\f\r ]*=[\t\n\f\r ]*(?:
        "(?P<double>[^"]*)" | '(?P<single>[^']*)' | (?P<bare>[^\t\n\f\r >"'][^\t\n\f\r >]*)))?""",
    re.VERBOSE,
)
_CONTENT = re.compile(
    rb"""charset[\t\n\f\r ]*=[\t\n\f\r ]*(?:"([^"]*)"|'([^']*)'|([^\t\n\f\r ;"'][^\t\n\f\r ;]*))""",
    re.IGNORECASE,
)
_XML = re.compile(rb"""<\?xml[^>]*?encoding\s*=\s*["']([^"'>]+)["']""")
_FOREIGN = re.compile(
    rb"[\x80-\xff\x1b][^<\n]{0,4095}"
)  # what tells charsets apart; ISO 2022 begins with ESC
_SAMPLE_BYTES = 4_096  # random ones cost 0.5 us each


@lru_cache(maxsize=1_024)
def find_codec(label: str) -> str | None:
    """Return the Python codec for a charset's name, read as browsers read it (WHATWG), or None for an unknown one."""
    from resiliparse.parse.encoding import map_encoding_to_html5  # noqa: PLC0415  # a library load for bytes only

    name = label.strip().strip("\"'").lower()
    codec = map_encoding_to_html5(name, fallback_utf8=False) or _MORE_CODECS.get(name)
    return None if codec is None else _known_codec(codec)


def codec_of(
    body: bytes, charset: str | None, content_type: str | None, *, is_html: bool
) -> tuple[str, int]:
    """
    Return Python's name of the codec that reads the bytes of a page, and how many of them are a byte order mark.

    A byte order mark wins over every claim.

    Args:
        charset: as the message names it.
        content_type: the Content-Type header; its charset counts when it is known.
        is_html: whether a meta element may name the charset.
    Raises:
        DocumentError: "unknown-charset", the message names a charset that no codec reads.

    Cost: some 5 µs where the message, the server or the page names it; else O(body), detection 2 ms at most.

    >>> codec_of("grüß dich".encode("latin1"), "latin1", None, is_html=False)
    ('cp1252', 0)
    """
    codec = None
    if charset:
        codec = find_codec(charset)
        if codec is None:
            raise DocumentError(
                "unknown-charset", f"charset {charset!r} is unknown: name a WHATWG encoding or none"
            )
    for mark, marked_codec in _BYTE_ORDER_MARKS:
        if body.startswith(mark):
            return marked_codec, len(mark)
    claimed = _CHARSET_PARAMETER.search(content_type or "")
    codec = (
        codec
        or (find_codec(claimed[1]) if claimed else None)
        or (_named_codec(body) if is_html else None)
    )
    return codec or _detected_codec(body), 0


def decoded(body: bytes, codec: str) -> str:
    """Return the text in bytes, U+FFFD for those that the codec does not know. Cost: O(body), whatever the bytes."""
    table = _table(codec)
    return (
        codecs.charmap_decode(body, "strict", table)[0] if table else body.decode(codec, "replace")
    )


@lru_cache
def _table(codec: str) -> str | None:
    """Return the character of each byte in a codec of single bytes; None for any other codec."""
    table: str | None = getattr(
        import_module(f"encodings.{codec.replace('-', '_')}"), "decoding_table", None
    )
    return table and table.replace("\ufffe", "\ufffd")


def well_formed(text: str) -> str:
    """
    Return text without lone surrogates: pairs become their character, single ones U+FFFD.

    JSON can carry them ("\\ud800"), UTF-8 cannot, and neither can anything behind this point.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _named_codec(body: bytes) -> str | None:
    """Return the codec that the page's own meta element or XML declaration names, or None."""
    head = body[:META_BYTES]
    if b"charset" not in head.lower() and not head.startswith(b"<?xml"):
        return None
    declared = _XML.match(head)
    for label in chain([declared.group(1)] if declared else [], _meta_labels(head)):
        codec = find_codec(label.decode("latin-1"))
        if codec is not None:  # a page whose meta element could be read is not in UTF-16
            return "utf-8" if codec.startswith(("utf-16", "utf-32")) else codec
    return None


def _meta_labels(head: bytes) -> Iterator[bytes]:
    """Yield the charsets that meta elements name."""
    at = 0
    while found := _MARKUP.search(head, at):
        at = found.end()
        if found["meta"]:
            attributes: dict[bytes, bytes] = {}
            while one := _ATTRIBUTE.match(head, at):
                attributes.setdefault(
                    one["name"].lower(), one["double"] or one["single"] or one["bare"] or b""
                )
                at = one.end()
            if b"charset" in attributes:
                yield attributes[b"charset"]
            elif attributes.get(b"http-equiv", b"").lower() == b"content-type":
                content = _CONTENT.search(attributes.get(b"content", b""))
                yield from (
                    [group for group in content.groups() if group is not None] if content else ()
                )


def _detected_codec(body: bytes) -> str:
    from resiliparse.parse.encoding import detect_encoding  # noqa: PLC0415

    if b"\x1b" not in body:  # ISO 2022 is ASCII to all others
        try:
            body.decode()
        except UnicodeDecodeError:
            pass
        else:
            return "utf-8"
    # Most of a page is markup in ASCII, its beginning and end above all.
    # A run is cut where the sample ends, and nowhere else: half a character is none of its charset.
    sample = b"\n".join(found[0] for found in islice(_FOREIGN.finditer(body), _SAMPLE_BYTES))[
        :_SAMPLE_BYTES
    ]
    label = detect_encoding(
        sample, from_html_meta=False, html5_compatible=False
    )  # else Korean is not known
    return (_known_codec(label) if label else None) or "utf-8"


def _known_codec(name: str) -> str | None:
    """Return Python's name of a codec, or of the wider one that the web means; None when there is no such codec."""
    try:
        found = codecs.lookup(name).name
    except LookupError:
        return None
    return _WIDER_CODECS.get(found, found)
